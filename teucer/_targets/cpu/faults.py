"""Options of the CPU compiler that avoid faults of jaxlib (`_executables/guard.py`)."""

from __future__ import annotations

from typing import NamedTuple

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Jaxpr, jaxprs_in_params
from teucer._executables import guard
from teucer._executables.compile import NO_SWITCHES, Switches
from teucer._xla import client as xla

_FUSES_PRODUCTS = guard.has("products fused with sums")
_FUSES_EQUAL_NUMBERS = guard.has("products with equal numbers fused with sums")
_REDUCES_FEW_AXES = guard.has("reductions of seven axes")
_COPIES_IN_LOOPS = guard.has("loops that copy")
_ANY = _FUSES_PRODUCTS or _REDUCES_FEW_AXES or _COPIES_IN_LOOPS


class _Found(NamedTuple):
    """Which kinds of equations a jaxpr has. many_axes: a reduction over seven axes or more."""

    product: bool = False
    reduction: bool = False
    many_axes: bool = False
    loop: bool = False


def without_faults(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr, rewritten so that it avoids the faults that no options avoid."""
    if not (_FUSES_EQUAL_NUMBERS and xla.KEEPS_BARRIERS):
        return jaxpr  # where barriers do not help, all products are computed alone
    found = _found(jaxpr)
    if not (found.product and found.reduction):
        return jaxpr
    from teucer._targets.cpu.equal_numbers import hidden  # for programs that have both

    return hidden(jaxpr)


def switches_around(jaxpr: Jaxpr) -> Switches:
    """The options with which a program avoids the release's faults."""
    if not _ANY:
        return NO_SWITCHES
    found = _found(jaxpr)
    fused = found.product and found.reduction
    alone = (_FUSES_PRODUCTS and fused) or (_REDUCES_FEW_AXES and found.many_axes)
    return Switches(
        xla.ALONE if alone else {}, xla.NO_LOOPS_WHOLE if _COPIES_IN_LOOPS and found.loop else ()
    )


def _found(jaxpr: Jaxpr) -> _Found:
    """Features of the equations, inner ones included, by which faults are chosen; kept on the
    jaxpr."""
    found: _Found | None = jaxpr.cache.get(_found)
    if found is None:
        each = [_Found()]
        for eqn in jaxpr.eqns:
            cost = eqn.primitive.cost
            reduces = cost.reduces or cost.work is Work.WINDOW
            each.append(
                _Found(
                    cost.work is Work.PRODUCT,
                    reduces,
                    reduces and eqn.invars[0].aval.ndim >= 7,
                    structure.is_loop(eqn.primitive),
                )
            )
            each += map(_found, jaxprs_in_params(eqn.params))
        found = jaxpr.cache[_found] = _Found(*map(any, zip(*each, strict=True)))
    return found
