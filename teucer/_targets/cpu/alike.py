"""Parts of an array that are written to memory one by one have one loop, not one each.

XLA compiles each loop with another start. It does so for what a rolled loop has stacked, and for
layers whose parameters a user has stacked, if results, products or functions take the parts. Where
it does not know the places, the loops are equal, and it compiles them once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from teucer._core.jaxpr import Atom, Eqn, Jaxpr
from teucer._core.provided import provided
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.constants import ALIKE_LEAST
from teucer._targets.outlined_call import outlined_call_p

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["with_like_parts"]


def with_like_parts(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with like parts for those that are many; in functions too, but not in loops, whose
    steps are to know all that they can."""
    return changed_once(jaxpr, with_like_parts, _changed)


def _changed(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [
        map_jaxprs(eqn, with_like_parts) if eqn.primitive is outlined_call_p else eqn
        for eqn in jaxpr.eqns
    ]
    if any(len(eqn.invars) == 1 and _is_part(eqn) for eqn in eqns):
        written = _written(jaxpr)
        parts = [_parts(eqn, written) for eqn in eqns]
        many = Counter[object]()
        for kind, n in parts:
            many[kind] += n
        eqns = [
            _alike(eqn) if n and many[kind] >= ALIKE_LEAST else eqn
            for eqn, (kind, n) in zip(eqns, parts, strict=True)
        ]
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _is_part(eqn: Eqn) -> bool:
    loops = provided.loops()
    return eqn.primitive is loops.unstack or (
        eqn.primitive is loops.slice and _axis(eqn) is not None
    )


def _parts(eqn: Eqn, written: set[Atom]) -> tuple[Hashable, int]:
    """What loops for the parts of an equation have alike, and how many there are."""
    if len(eqn.invars) != 1 or not _is_part(eqn) or eqn.outvars[0].aval.extended:
        return None, 0
    kind = (eqn.primitive, eqn.invars[0].aval, eqn.outvars[0].aval)
    return kind, sum(v in written for v in eqn.outvars)


def _axis(eqn: Eqn) -> int | None:
    """The axis along which a slice is a part without gaps, if it is whole along the others."""
    strides, shape = eqn.params["strides"], eqn.outvars[0].aval.shape
    if strides is not None and any(n != 1 for n in strides):
        return None
    axes = [i for i, n in enumerate(eqn.invars[0].aval.shape) if n != shape[i]]
    return axes[0] if len(axes) == 1 and 0 not in shape else None


def _alike(eqn: Eqn) -> Eqn:
    how = _axis(eqn) if eqn.primitive is provided.loops().slice else True
    return eqn.replace(params={**eqn.params, "alike": how})


def _written(jaxpr: Jaxpr) -> set[Atom]:
    """The variables that are in memory: results, and what is taken by equations that do not fuse
    with what makes it, as they are or rearranged."""
    found: set[Atom] = set(jaxpr.outvars)
    for eqn in reversed(jaxpr.eqns):
        cost = eqn.primitive.cost
        if not (cost.fuses or cost.reduces) or (
            eqn.primitive.rearranges
            and eqn.outvars[0] in found
            and eqn.outvars[0].aval.size == eqn.invars[0].aval.size
        ):
            found.update(eqn.invars)
    return found
