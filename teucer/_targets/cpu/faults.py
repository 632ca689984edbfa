"""Options of the CPU compiler that avoid faults of jaxlib (`_executables/guard.py`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Jaxpr, Literal, jaxprs_in_params
from teucer._executables import guard
from teucer._executables.compile import NO_SWITCHES, Switches
from teucer._xla import client as xla

if TYPE_CHECKING:
    from teucer._core.jaxpr import Atom


_FUSES_PRODUCTS = guard.has("products fused with sums")
_FUSES_EQUAL_NUMBERS = guard.has("products with equal numbers fused with sums")
_REDUCES_FEW_AXES = guard.has("reductions of seven axes")
_COPIES_IN_LOOPS = guard.has("loops that copy")
_ANY = _FUSES_PRODUCTS or _FUSES_EQUAL_NUMBERS or _REDUCES_FEW_AXES or _COPIES_IN_LOOPS


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
    fused = found.product and found.reduction
    alone = (
        (_FUSES_PRODUCTS and fused)
        or (_REDUCES_FEW_AXES and found.many_axes)
        or (_FUSES_EQUAL_NUMBERS and fused and _multiplies_equal_numbers(jaxpr))
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


def _multiplies_equal_numbers(jaxpr: Jaxpr) -> bool:
    """Whether an operand of a product may be equal numbers, as `ones`, `zeros` and `full` make."""
    return _equal_numbers(jaxpr, frozenset())[0]


def _equal_numbers(jaxpr: Jaxpr, places: Collection[int]) -> tuple[bool, list[int]]:
    """Whether an operand of a product may be equal numbers, where the arguments in these places
    are; and the places of the results that are.

    An array is equal numbers where it is made of numbers and of such arrays alone.
    """
    key = (_equal_numbers, frozenset(places))
    known: tuple[bool, list[int]] | None = jaxpr.cache.get(key)
    if known is not None:
        return known
    equal: set[Atom] = {v for i, v in enumerate(jaxpr.invars) if i in places}
    multiplied = False

    def is_equal(v: Atom) -> bool:
        return type(v) is Literal or v.aval.ndim == 0 or v in equal

    for eqn in jaxpr.eqns:
        inner = list(jaxprs_in_params(eqn.params))
        which = frozenset(i for i, v in enumerate(eqn.invars) if is_equal(v))
        if not inner:
            if eqn.invars and len(which) == len(eqn.invars):
                equal.update(eqn.outvars)
            multiplied |= eqn.primitive.cost.work is Work.PRODUCT and any(
                eqn.invars[i].aval.ndim for i in which
            )
        elif len(inner) == 1 and len(inner[0].invars) == len(eqn.invars):
            within, results = _equal_numbers(inner[0], which)
            multiplied |= within
            if not structure.is_loop(eqn.primitive):
                equal.update(v for i, v in enumerate(eqn.outvars) if i in results)
        else:  # each argument of a body may be what is equal
            multiplied |= any(
                _equal_numbers(body, range(len(body.invars)) if which else ())[0] for body in inner
            )
    results = [i for i, v in enumerate(jaxpr.outvars) if is_equal(v)]
    found = jaxpr.cache[key] = multiplied, results
    return found
