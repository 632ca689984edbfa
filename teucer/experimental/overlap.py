"""Programs whose operations run in the order in which they are written. So users decide which
operations overlap with collectives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from teucer._base import tracebacks
from teucer._base.lazy import listing
from teucer._core.calls import check_callable, check_leaves, flatten_call, stage_user
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Var, interpret
from teucer._core.trace import current_trace, typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Value
from teucer._transform.jit import jit
from teucer._trees import pytrees
from teucer.lax._control.misc import optimization_barrier

__all__ = ["program_order"]
__dir__ = listing(__name__, __all__)


def _tied(env: dict[Var, Any], variables: Iterable[Var]) -> None:
    """Have whatever uses one of the variables from here on wait for all of them.

    Later uses read the barrier's results, since XLA drops results that are not read.
    """
    arrays = [v for v in dict.fromkeys(variables) if isinstance(typeof(env[v]), ShapedArray)]
    env.update(zip(arrays, optimization_barrier([env[v] for v in arrays]), strict=True))


def program_order(
    f: Callable[..., Any] | None = None,
    *,
    enforce: bool,
    strict_in_out: bool | tuple[bool, bool] = False,
    exclude_argnames: str | Sequence[str] | None = None,
) -> Any:
    """The function f, whose operations the compiler gets in the order of the program.

    Barriers say the order, as in JAX. XLA drops them on CPUs after its optimizations, before it
    chooses a schedule; there the order is not promised.

    enforce: each operation waits for the results of the one before. False: f is a single operation
    of the program around it, and its own may be reordered. A function that f calls under `jit` is
    a single operation as well. strict_in_out: whether the first operation waits for all arguments,
    and whether no result leaves before the last operation has ended; a bool says both.
    exclude_argnames: arguments that need not wait where f is a single operation. Here they wait.
    Without f: a decorator. Values and derivatives are the same as of f.

    Raises ValueError for strict_in_out without enforce, and for exclude_argnames with it.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> ordered = program_order(lambda x: jnp.sin(x) + jnp.cos(x), enforce=True)
    >>> jax.jit(ordered)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    if f is None:
        return functools.partial(
            program_order,
            enforce=enforce,
            strict_in_out=strict_in_out,
            exclude_argnames=exclude_argnames,
        )
    fun = f
    check_callable(fun, "program_order")
    strict = strict_in_out if isinstance(strict_in_out, tuple) else (strict_in_out, strict_in_out)
    strict_in, strict_out = strict
    if not enforce:
        if strict_in or strict_out:
            raise ValueError(
                f"strict_in_out={strict_in_out} cannot be used with enforce=False.\n"
                "  Only an order that is enforced has a start and an end. Pass enforce=True."
            )
        return jit(fun)
    if exclude_argnames is not None:
        raise ValueError(
            "exclude_argnames cannot be used with enforce=True.\n"
            f"    exclude_argnames: {exclude_argnames!r}\n"
            "  It is for functions that are a single operation. Pass enforce=False."
        )

    @tracebacks.boundary_of(fun)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        call = flatten_call(args, kwargs)
        avals = check_leaves(call, fun, "program_order")
        jaxpr, consts, out_tree, _ = stage_user(fun, call, avals, "program_order")
        env: dict[Var, Any] = dict(zip(jaxpr.invars, call.leaves, strict=True))
        if strict_in:
            _tied(env, jaxpr.invars)
        last: Sequence[Var] = ()

        def ordered(eqn: Eqn, operands: tuple[object, ...]) -> list[Any]:
            nonlocal last
            used = [(v, x) for v, x in zip(eqn.invars, operands, strict=True) if isinstance(v, Var)]
            for v, x in used:
                env.setdefault(v, x)
            if last:
                _tied(env, [*last, *(v for v, _ in used)])
            operands = tuple(
                [
                    env[v] if isinstance(v, Var) else x
                    for v, x in zip(eqn.invars, operands, strict=True)
                ]
            )
            outs = list(current_trace().process(eqn.primitive, operands, eqn.params))
            last = eqn.outvars
            env.update(zip(last, outs, strict=True))
            return outs

        results = interpret(ClosedJaxpr(jaxpr, consts), call.leaves, ordered)
        made = [v for v in jaxpr.outvars if isinstance(v, Var) and v in env]
        if strict_out:
            _tied(env, [*last, *made])
        outs = [
            env.get(v, x) if isinstance(v, Var) else x
            for v, x in zip(jaxpr.outvars, results, strict=True)
        ]
        return pytrees.tree_unflatten(out_tree, outs)

    return wrapped
