"""`checkpoint`, which keeps few residuals for the backward pass and computes the others again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from teucer._base import config, memo, tracebacks
from teucer._core import axes, calls
from teucer._core import reference_types as references
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray
from teucer._derived.remat import Pinned, Policy, remat_p
from teucer._derived.remat_rules import tracing_checkpoint
from teucer._dynamic import dynamic
from teucer._transform.jit_calls import hoist_consts
from teucer._trees import pytrees
from teucer._trees.loose_prefix import spread_bools


def checkpoint(
    fun: Callable[..., object] | None = None,
    *,
    prevent_cse: bool | Sequence[Any] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: object = (),
    concrete: bool = False,
    budget: int | float | str | None = None,
) -> Any:
    """`fun`, whose intermediate values are computed again in the backward pass instead of being
    kept.

    policy: which values are kept all the same: policy(primitive, *types, **params) -> bool; see
    `checkpoint_policies`.
    prevent_cse: keep the compiler from merging the second computation with the first. A tuple of
    bools, a tree prefix of the arguments, says of which of them.
    static_argnums, static_argnames: arguments by position, and keyword arguments, that are Python
    values. Raises ValueError where it is called with fewer arguments than static_argnums says.
    budget: in the place of a policy, how much memory its forward and backward pass may need at once
    beside its arguments and results, in bytes, as an int or as text such as "2 GiB"; or the share
    of what would be kept that may be kept, as a float. What is saved, computed again and offloaded
    is chosen so that this takes least time; the method `plan` says what, for arguments
    (docs/guide/memory_budget.md). Raises ValueError where the budget cannot be kept.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(0.)
    Array(1., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            concrete=concrete,
            budget=budget,
        )
    if concrete:
        raise NotImplementedError(
            "checkpoint: the option concrete was removed; use static_argnums."
        )
    calls.check_callable(fun, "checkpoint")
    if policy is not None and not callable(policy):
        raise TypeError(
            f"checkpoint: the policy {policy!r} is not a function.\n  Take one of "
            "jax.checkpoint_policies, such as dots_saveable or nothing_saveable."
        )
    if not isinstance(prevent_cse, bool | tuple | list):
        raise TypeError(
            f"checkpoint: prevent_cse must be a bool or tuple of bools, got {prevent_cse!r} of "
            f"type {type(prevent_cse)}"
        )
    if budget is not None:
        if policy is not None or prevent_cse is not True:
            other = "a policy" if policy is not None else "prevent_cse"
            raise TypeError(
                f"checkpoint: {other} and a budget are both given.\n  A budget chooses what is "
                "saved, and keeps the compiler from merging what is computed again."
            )
        from teucer._derived.budget.checkpoints import checkpoint_by  # for calls with a budget

        return checkpoint_by(fun, budget, static_argnums, static_argnames, _staged_body)
    numbers = calls.as_indices(static_argnums, "static_argnums", "checkpoint")
    names = calls.as_names(static_argnames, "static_argnames", "checkpoint")

    @tracebacks.boundary_of(fun)
    def fun_remat(*args: object, **kwargs: object) -> Any:
        if not all(-len(args) <= i < len(args) for i in numbers):
            raise ValueError(
                "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take "
                "integer values greater than or equal to `-len(args)` and less than `len(args)`, "
                f"but got {numbers}, while `len(args)` = {len(args)}"
            )
        call = calls.flatten_call(args, kwargs, numbers, names)
        avals = calls.check_leaves(call, fun, "checkpoint")
        jaxpr, consts, out_tree = _staged_body(fun, call, avals)
        if references.may_alias(call.leaves):
            from teucer._dialects.references.aliases import (
                refuse_aliases,  # for calls with references
            )

            refuse_aliases(
                avals,
                call.leaves,
                consts,
                calls.fun_name(fun),
                "checkpoint / remat",
                lambda: calls.leaf_names(fun, call.tree, [i for i, _ in call.statics[0]]),
            )
        outs = remat_p.call(
            *consts,
            *call.leaves,
            jaxpr=jaxpr,
            prevent_cse=_pinned(prevent_cse, fun, call, len(consts)),
            differentiated=False,
            policy=policy,
        )
        return pytrees.tree_unflatten(out_tree, outs)

    return fun_remat


remat = checkpoint
_bodies = memo.Memo()


def _staged_body(
    fun: Callable[..., object], call: calls.FlatCall, avals: Sequence[ShapedArray]
) -> tuple[ClosedJaxpr, Sequence[Any], Any]:
    """The jaxpr of a call of a function, without constants, these, and the tree of its results:
    traced, or found traced for such a call."""
    try:
        kinds = tuple(type(v) for group in call.statics for _, v in group)
        state = config.trace_context(), axes.axis_key(), dynamic.scope_key()
        key = call.tree, tuple(avals), call.statics, kinds, state
        hash(key)
    except TypeError:  # static arguments without a hash
        key = None
    traced = _bodies.of(fun)
    found = None if key is None else traced.get(key)
    if found is None:
        with tracing_checkpoint():
            jaxpr, consts, out_tree, _ = calls.stage_user(fun, call, avals, "checkpoint")
        found = hoist_consts(jaxpr), tuple(consts), out_tree
        # Not cached: the low types of a high value can change between calls.
        if (
            key is not None
            and not found[0].jaxpr.is_high
            and not any(isinstance(c, Tracer) for c in consts)
            and not dynamic.finds_sizes(found[0])
        ):
            memo.remember(traced, key, found)
    return found


def _pinned(
    prevent_cse: bool | Sequence[Any],
    fun: Callable[..., object],
    call: calls.FlatCall,
    n_consts: int,
) -> Pinned:
    """The arguments of `checkpoint`, for the operands of its call."""
    if isinstance(prevent_cse, bool):
        return prevent_cse
    args, kwargs = call.tree.children()
    n, names = len(args.children()), kwargs.node_data()[1]
    named: Any = True
    if names and len(prevent_cse) == n + len(names):
        ordered = [name for name in inspect.signature(fun).parameters if name in names]
        named = dict(zip(ordered, prevent_cse[n:], strict=False))
        prevent_cse = tuple(prevent_cse[:n])
    flags = [
        b
        for prefix, tree in ((prevent_cse, args), (named, kwargs))
        for b in spread_bools(prefix, tree, "prevent_cse", "jax.checkpoint")
    ]
    return (True,) * n_consts + tuple(flags)
