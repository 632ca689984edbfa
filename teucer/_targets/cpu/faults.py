"""What the CPU compiler is told because the installed jaxlib has a fault (`_xla/guard.py`)."""

from __future__ import annotations

from typing import NamedTuple

from teucer._core.jaxpr import Jaxpr, jaxprs_in_params
from teucer._executables.compile import NO_SWITCHES, Switches
from teucer._xla import client as xla
from teucer._xla import guard

__all__ = ["switches_around"]

_FUSES_PRODUCTS = guard.has("products fused with sums")
_REDUCES_FEW_AXES = guard.has("reductions of seven axes")
_COPIES_IN_LOOPS = guard.has("loops that copy")
_ANY = _FUSES_PRODUCTS or _REDUCES_FEW_AXES or _COPIES_IN_LOOPS
_PRODUCTS = frozenset(["dot_general"])
_REDUCTIONS = frozenset(
    ["reduce", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum", "reduce_window"]
)
_LOOPS = frozenset(["scan", "while"])


class _Found(NamedTuple):
    """Whether a jaxpr has something of a kind. many_axes: a reduction of seven or more."""

    product: bool = False
    reduction: bool = False
    many_axes: bool = False
    loop: bool = False


def switches_around(jaxpr: Jaxpr) -> Switches:
    """The options with which a program meets none of the faults that the release has."""
    if not _ANY:
        return NO_SWITCHES
    found = _found(jaxpr)
    alone = (_FUSES_PRODUCTS and found.product and found.reduction) or (
        _REDUCES_FEW_AXES and found.many_axes
    )
    return Switches(
        xla.ALONE if alone else {}, xla.NO_LOOPS_WHOLE if _COPIES_IN_LOOPS and found.loop else ()
    )


def _found(jaxpr: Jaxpr) -> _Found:
    """Of the equations and of those within them; kept on the jaxpr."""
    found: _Found | None = jaxpr.cache.get(_found)
    if found is None:
        each = [_Found()]
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            reduces = name in _REDUCTIONS
            each.append(
                _Found(
                    name in _PRODUCTS,
                    reduces,
                    reduces and eqn.invars[0].aval.ndim >= 7,
                    name in _LOOPS,
                )
            )
            each += map(_found, jaxprs_in_params(eqn.params))
        found = jaxpr.cache[_found] = _Found(*map(any, zip(*each, strict=True)))
    return found
