"""Transposition of functions that have rules of their own, within programs that are linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core import array_ops
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from teucer._core.primitive import FunctionCall, Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.types import Zero
from teucer._derived.rules_table import Rules
from teucer._optimize.dce import dce_jaxpr
from teucer._transform.transpose import transpose_jaxpr

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn
    from teucer._core.typing import Cotangent, Value, Values


# Comparisons with linear operands, answered as they hold for all but isolated values. A linear
# function cannot treat those differently. rule(same): whether all operands are one value.
almost_everywhere: Rules[Callable[[bool], bool]] = Rules("linear programs")


def transposed_program(
    closed: ClosedJaxpr, args: Sequence[Value], cts: Sequence[Cotangent]
) -> tuple[Any, ...]:
    """Cotangents of the operands that are Undefined, in which the program is linear."""
    linear = [type(x) is Undefined for x in args]
    given = [type(ct) is not Zero for ct in cts]
    general = closed.kept(("general", tuple(linear)), lambda: _in_general(closed, linear))
    transposed, nonzero = transpose_jaxpr(general, linear, given)
    outs = iter(
        transposed(
            *(x for x, lin in zip(args, linear, strict=True) if not lin),
            *(ct for ct, g in zip(cts, given, strict=True) if g),
        )
    )
    found = iter([next(outs) if nz else None for nz in nonzero])
    return tuple(next(found) if lin else None for lin in linear)


def transposed_rule(
    rule: Callable[..., Sequence[Any]],
    closed: ClosedJaxpr,
    args: Sequence[Value],
    cts: Sequence[Cotangent],
) -> tuple[Any, ...]:
    """As `transposed_program`, by a rule(*args, *cts) that gives cotangents of all operands.

    The rule is used as the program's transpose, unless it needs the values of operands in which the
    program is linear.
    """
    linear = [type(x) is Undefined for x in args]
    given = [type(ct) is not Zero for ct in cts]
    avals = [*closed.in_avals, *(a.cotangent_aval() for a in closed.out_avals)]

    def of_linear(*values: Value) -> list[Any]:
        found = rule(*values[: len(args)], *values[len(args) :])
        return [
            array_ops.instantiate(a.zero_cotangent if ct is None else ct)
            for ct, a, lin in zip(found, closed.in_avals, linear, strict=True)
            if lin
        ]

    staged = stage_jaxpr(of_linear, avals, closed.jaxpr.debug_info)
    live, used = dce_jaxpr(staged.jaxpr, [True] * len(staged.out_avals))
    if any(u and lin for u, lin in zip(used, linear, strict=False)):
        return transposed_program(closed, args, cts)
    values = [
        *args,
        *(ct if g else array_ops.instantiate(ct) for ct, g in zip(cts, given, strict=True)),
    ]
    taken = [x for x, u in zip(values, used, strict=True) if u]
    outs = iter(ClosedJaxpr(live, staged.consts)(*taken))
    return tuple(next(outs) if lin else None for lin in linear)


def _in_general(closed: ClosedJaxpr, linear: Sequence[bool]) -> ClosedJaxpr:
    """The program with its comparisons of linear operands answered for general values; the program
    itself, if there are none."""
    answered: list[Eqn] = []

    def staged(*args: Value) -> list[Any]:
        return _general(closed.jaxpr, closed.consts, args, linear, answered)[0]

    made = stage_jaxpr(staged, closed.in_avals, closed.jaxpr.debug_info)
    return made if answered else closed


def _general(
    jaxpr: Jaxpr, consts: Values, args: Values, linear: Sequence[bool], answered: list[Eqn]
) -> tuple[list[Any], list[bool]]:
    """The results of a jaxpr, and which of them are linear; its questions are answered in
    general."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    moving = {v for v, lin in zip(jaxpr.invars, linear, strict=True) if lin}

    def read(v: Any) -> Any:
        return v.val if type(v) is Literal else env[v]

    def moves(v: Any) -> bool:
        return type(v) is Var and v in moving

    for eqn in jaxpr.eqns:
        outs: Sequence[Any]
        if not any(map(moves, eqn.invars)):
            outs = eqn.primitive.call(*map(read, eqn.invars), **eqn.params)
        elif (answer := almost_everywhere.get(eqn.primitive)) is not None:
            make = array_ops.ones if answer(len(set(eqn.invars)) == 1) else array_ops.zeros
            outs = [make(v.aval) for v in eqn.outvars]
            answered.append(eqn)
        elif (inner := _inlined(eqn)) is not None:
            called, operands = inner
            outs, lin = _general(
                called.jaxpr,
                called.consts,
                [*map(read, operands)],
                [*map(moves, operands)],
                answered,
            )
            moving.update(v for v, m in zip(eqn.outvars, lin, strict=True) if m)
        else:
            outs = eqn.primitive.call(*map(read, eqn.invars), **eqn.params)
            moving.update(eqn.outvars)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars], [moves(v) for v in jaxpr.outvars]


def _inlined(eqn: Eqn) -> tuple[ClosedJaxpr, Sequence[Any]] | None:
    """The program that an equation calls, and its operands; None if it calls none."""
    found: Any = None
    if isinstance(eqn.primitive, FunctionCall):
        found = eqn.params["jaxpr"], eqn.invars
    elif eqn.primitive.inlined is not None:
        found = eqn.primitive.inlined(eqn.invars, eqn.params)
    return found  # type: ignore[no-any-return]
