"""`checkpoint` by a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from teucer._base import tracebacks
from teucer._core.calls import FlatCall, as_indices, as_names, check_leaves, flatten_call
from teucer._core.dialects import REFERENCES
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr
from teucer._core.provided import provided
from teucer._core.trace import typeof
from teucer._derived.budget.amounts import Amount, amount
from teucer._derived.budget.plan import Plan, plan
from teucer._devices.backends import target_device
from teucer._transform.batch import BatchTracer
from teucer._transform.jvp import JVPTracer
from teucer._trees import pytrees
from teucer._xla.client import platform_of


class Unplanned(NotImplementedError):
    """A function for which no plan can be made."""

    __module__, __qualname__ = "builtins", "NotImplementedError"  # as which it prints


class _Call(NamedTuple):
    """A call of a function: its plan, and the program to be run by it."""

    plan: Plan
    operands: Sequence[Any]
    out_tree: Any


# The jaxpr of a call of a function, without constants, these, and the tree of its results.
Staged = Callable[
    [Callable[..., object], FlatCall, Sequence[Any]], tuple[ClosedJaxpr, Sequence[Any], Any]
]


def checkpoint_by(
    fun: Callable[..., object],
    budget: object,
    static_argnums: int | Sequence[int],
    static_argnames: object,
    staged: Staged,
) -> Any:
    """`fun`, which saves for the backward pass as much as the budget allows. Its method `plan`
    shows the choice for some arguments.

    staged: how `checkpoint` traces a call.
    """
    allowed = amount(budget, "checkpoint")
    numbers = as_indices(static_argnums, "static_argnums", "checkpoint")
    names = as_names(static_argnames, "static_argnames", "checkpoint")

    def planned(args: tuple[object, ...], kwargs: dict[str, object]) -> _Call:
        call = flatten_call(args, kwargs, numbers, names)
        avals = check_leaves(call, fun, "checkpoint")
        for aval in avals:
            if getattr(aval, "symbolic", False):
                raise Unplanned(
                    "checkpoint: a budget needs known sizes, and an argument is "
                    f"{aval.str_short()}.\n  Use a policy (jax.checkpoint_policies) there."
                )
        jaxpr, consts, out_tree = staged(fun, call, avals)
        if REFERENCES in jaxpr.jaxpr.dialects:
            raise Unplanned(
                "checkpoint: a budget cannot choose what to save of a function that reads or "
                "writes references.\n  Use a policy (jax.checkpoint_policies) there."
            )
        operands = [*consts, *call.leaves]
        return _Call(_plan(jaxpr, allowed, _copies(operands)), operands, out_tree)

    @tracebacks.boundary_of(fun)
    def fun_budget(*args: object, **kwargs: object) -> Any:
        found = planned(args, kwargs)
        program = found.plan.program
        outs = eval_jaxpr(program.jaxpr, program.consts, *found.operands)
        return pytrees.tree_unflatten(found.out_tree, outs)

    @tracebacks.boundary_of(fun)
    def plan_of(*args: object, **kwargs: object) -> Plan:
        return _of_types(planned, args, kwargs, numbers, names)

    made: Any = fun_budget
    made.plan = plan_of
    return made


def _of_types(
    planned: Callable[..., _Call],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    numbers: Sequence[int],
    names: Sequence[str],
) -> Plan:
    """The plan for arguments, which may be types. Traced on stand-ins."""
    from teucer._derived.stages import jit  # here, since few ask for plans

    found: list[Plan] = []

    def look(*args: object, **kwargs: object) -> tuple[()]:
        found.append(planned(args, kwargs).plan)
        return ()

    # An optional argument that is not given has its default, and jit refuses its number.
    numbers = [i for i in numbers if -len(args) <= i < len(args)]
    jit(look, static_argnums=numbers, static_argnames=names).trace(*args, **kwargs)
    return found[0]


def _plan(closed: ClosedJaxpr, allowed: Amount, copies: int) -> Plan:
    function = "checkpoint"
    if copies > 1 and allowed.size is not None:
        allowed = Amount(allowed.size // copies, None)
        function += f" (for each of {copies} elements of vmap)"
    platform = platform_of(target_device())
    made: Plan = closed.kept(
        ("budget", allowed, copies, platform),
        lambda: plan(closed, allowed, provided.target(platform), function),
    )
    return made


def _copies(operands: Sequence[Any]) -> int:
    """How many elements of batches are computed at once."""
    most = 1
    for x in operands:
        n = 1
        while isinstance(x, BatchTracer | JVPTracer):
            if isinstance(x, BatchTracer):
                n *= typeof(x.val).shape[x.dim]
                x = x.val
            else:
                x = x.primal
        most = max(most, n)
    return most
