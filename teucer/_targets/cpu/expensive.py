"""Expensive values that several loops read are computed once, and so is what has long code.

XLA computes an elementwise operation again in every loop that reads its result, and for every
element that the loop reads. Only operations on its list of expensive ones are exempt, and sines and
some others are not on it. As functions that stay calls they end fusion. Operations of long code
(`Cost.long`), random bits, are such calls too, unless they are large and one loop reads them. How
many loops XLA makes of their uses is not known here (of `erf_inv` it makes three), and it compiles
each copy.

Elementary functions of floats are series here (`Primitive.series`): XLA's are less exact, and some
are functions of C. They are calls too, of whatever size, since XLA makes several loops of a series,
and each would compute the operand again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.bytes import bytes_of
from teucer._targets.cpu.constants import EXPENSIVE_MOST
from teucer._targets.cpu.rates import Thresholds
from teucer._targets.outlined_call import outlined_call_p

if TYPE_CHECKING:
    from collections.abc import Hashable

    from teucer._core.typing import Value

__all__ = ["keep_expensive"]


def keep_expensive(jaxpr: Jaxpr, found: Thresholds) -> Jaxpr:
    """The jaxpr with calls of its long equations and series, and of expensive ones that would be
    computed more than once; inner ones too."""
    key = (keep_expensive, found.expensive, found.long)
    return changed_once(jaxpr, key, lambda j: _kept(j, found))


def _kept(jaxpr: Jaxpr, found: Thresholds) -> Jaxpr:
    eqns = [
        map_jaxprs(eqn, lambda j: keep_expensive(j, found)) if eqn.primitive.higher_order else eqn
        for eqn in jaxpr.eqns
    ]
    if len(eqns) == 1:  # it is by itself
        eqns = [_as_series(eqns[0])]
        return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)
    chosen = {id(eqn) for eqn in eqns if _is_long(eqn, found.long) or _has_series(eqn)}
    if True in [_is_expensive(eqn, found.expensive) for eqn in eqns]:
        often = _read_often(jaxpr)
        chosen |= {
            id(eqn)
            for eqn in eqns
            if _is_expensive(eqn, found.expensive) and eqn.outvars[0] in often
        }
    functions: dict[Any, ClosedJaxpr] = {}
    eqns = [_call(eqn, functions) if id(eqn) in chosen else eqn for eqn in eqns]
    return (
        jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)
    )  # equations are equal if they are one


def _has_series(eqn: Eqn) -> bool:
    series = eqn.primitive.series
    return bool(series) and not eqn.params and eqn.invars[0].aval.dtype.name in series


def _as_series(eqn: Eqn) -> Eqn:
    return eqn.replace(params={"series": True}) if _has_series(eqn) else eqn


def _is_long(eqn: Eqn, most: int) -> bool:
    aval = eqn.outvars[0].aval if eqn.primitive.cost.long else None
    return aval is not None and not aval.symbolic and aval.size <= most


def _is_expensive(eqn: Eqn, least: int) -> bool:
    cost = eqn.primitive.cost
    aval = eqn.outvars[0].aval if cost.expensive or cost.long else None
    return (
        aval is not None
        and not aval.symbolic
        and aval.size >= least
        and bytes_of(aval) <= EXPENSIVE_MOST
    )


def _call(eqn: Eqn, functions: dict[Hashable, ClosedJaxpr]) -> Eqn:
    """An equation as a call, of the function that an equal one calls."""
    key = (eqn.primitive, *(v.aval for v in eqn.invars), *eqn.params.items())
    if key not in functions:
        invars, outvars = ([Var(v.aval) for v in vs] for vs in (eqn.invars, eqn.outvars))
        functions[key] = ClosedJaxpr(
            Jaxpr([], invars, outvars, [_as_series(eqn.replace(invars=invars, outvars=outvars))])
        )
    return Eqn(
        outlined_call_p, eqn.invars, eqn.outvars, {"jaxpr": functions[key]}, eqn.effects, eqn.source
    )


def _read_often(jaxpr: Jaxpr) -> set[Any]:
    """The variables that are read by several loops, in several orders, or several times by one
    loop.

    A loop ends at an equation that does not fuse with what makes its operands, or at a result. Ways
    to read a variable are numbers; two of them are several, more are not told apart.
    """
    ways: dict[Any, set[int]] = {}

    def end(i: int, operands: Sequence[Value]) -> None:
        for n, v in enumerate(operands):
            ways.setdefault(v, set()).add(hash((i, n)))

    end(len(jaxpr.eqns), jaxpr.outvars)
    for i in reversed(range(len(jaxpr.eqns))):
        eqn = jaxpr.eqns[i]
        if not eqn.primitive.cost.fuses:
            end(i, eqn.invars)
            continue
        own = set[int]().union(*[ways.get(v, ()) for v in eqn.outvars])
        if eqn.primitive.rearranges:
            own = {hash((i, way)) for way in own}
        size = max([v.aval.size for v in eqn.outvars])
        for v in eqn.invars:
            again = {hash((~i, way)) for way in own} if size > v.aval.size else ()
            ways[v] = set(itertools.islice({*ways.get(v, ()), *own, *again}, 2))
    return {v for v, found in ways.items() if len(found) > 1}
