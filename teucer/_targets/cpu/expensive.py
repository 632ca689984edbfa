"""Expensive values that several loops read are computed once, and so are values with long code.

XLA computes an elementwise operation again in every loop that reads its result, and for every
element that the loop reads, where rows are broadcast too. Only operations on its list of expensive
ones are exempt. Sines and some others are not on it, nor functions that several operations make up.
As functions that stay calls they end fusion. Operations of long code (`Cost.long`), random bits,
are such calls too, unless they are large and one loop reads them. How many loops XLA makes of their
uses is not known here (of `erf_inv` it makes three), and it compiles each copy.

Elementary functions of floats are series here (`Cost.series`): XLA's are less exact, and some
are functions of C. They are calls too, of whatever size, where one loop does not hold them: where
several loops read the result, or it is broadcast. So are functions of complex numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.constants import EXPENSIVE_MOST
from teucer._targets.cpu.loops import Reading
from teucer._targets.cpu.rates import Thresholds
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining.bytes import bytes_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from teucer._core.cost import Cost


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
    chosen = {id(eqn) for eqn in eqns if _is_long(eqn, found.long)}
    if expensive := [eqn for eqn in eqns if _is_expensive(eqn)]:
        reading = Reading(jaxpr)
        chosen |= {id(eqn) for eqn in expensive if _pays(reading, eqn, found.expensive)}
    functions: dict[Any, ClosedJaxpr] = {}
    eqns = [_call(eqn, functions) if id(eqn) in chosen else _as_series(eqn) for eqn in eqns]
    return (
        jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)
    )  # equations are equal if they are one


def _has_series(eqn: Eqn) -> bool:
    series = eqn.primitive.cost.series
    return bool(series) and not eqn.params and eqn.invars[0].aval.dtype.name in series


def _as_series(eqn: Eqn) -> Eqn:
    return eqn.replace(params={"series": True}) if _has_series(eqn) else eqn


def _by_parts(eqn: Eqn) -> bool:
    return eqn.primitive.cost.of_complex is not None and eqn.invars[0].aval.dtype.kind == "c"


def _cost(eqn: Eqn) -> Cost:
    cost = eqn.primitive.cost
    return cost.of_complex if cost.of_complex is not None and _by_parts(eqn) else cost


def _is_long(eqn: Eqn, most: int) -> bool:
    aval = eqn.outvars[0].aval if _cost(eqn).long else None
    return aval is not None and not aval.symbolic and aval.size <= most


def _is_expensive(eqn: Eqn) -> bool:
    cost = _cost(eqn)
    aval = eqn.outvars[0].aval if cost.expensive or cost.long or _has_series(eqn) else None
    return aval is not None and not aval.symbolic and bytes_of(aval) <= EXPENSIVE_MOST


def _is_formula(eqn: Eqn) -> bool:
    """Whether it is lowered to several operations, which XLA may part."""
    return _has_series(eqn) or _by_parts(eqn)


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


def _pays(reading: Reading, eqn: Eqn, least: int) -> bool:
    """Whether a call of an expensive equation pays: XLA would compute so many elements more than
    its result has. A formula is to stay in one piece at least."""
    out = eqn.outvars[0]
    more = sum(reading.ways.get(out, {}).values()) - out.aval.size
    return more >= least or (_is_formula(eqn) and (more > 0 or out in reading.spread))
