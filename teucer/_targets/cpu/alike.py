"""Parts of an array that loops of their own read have one loop, not one each.

XLA compiles each loop with another start. It does so for stacked results of a rolled loop, and for
arrays that a user takes apart along an axis. Where it does not know the places, loops are equal if
they do the same, and it compiles them once.
"""

from __future__ import annotations

from collections.abc import Hashable

from teucer._core.cost import Work
from teucer._core.jaxpr import Eqn, Jaxpr
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.constants import ALIKE_LEAST
from teucer._targets.cpu.loops import Reading
from teucer._targets.outlined_call import outlined_call_p


def with_like_parts(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr in which arrays that are cut into many parts are cut by `alike`. Functions are
    rewritten too. Loops are not: XLA compiles their steps better if the places are known."""
    return changed_once(jaxpr, with_like_parts, _changed)


def _changed(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [
        map_jaxprs(eqn, with_like_parts) if eqn.primitive is outlined_call_p else eqn
        for eqn in jaxpr.eqns
    ]
    parts = [(_kind(eqn), eqn) for eqn in eqns if _is_part(eqn)]
    if sum([len(eqn.outvars) for _, eqn in parts]) >= ALIKE_LEAST:
        loops = Reading(jaxpr, apart=False).ways
        readers = dict[Hashable, set[frozenset[int]]]()
        for kind, eqn in parts:
            readers.setdefault(kind, set()).update(
                frozenset(loops[v]) for v in eqn.outvars if v in loops
            )
        many = {id(eqn) for kind, eqn in parts if len(readers[kind]) >= ALIKE_LEAST}
        eqns = [_alike(eqn) if id(eqn) in many else eqn for eqn in eqns]
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _is_part(eqn: Eqn) -> bool:
    if eqn.primitive.cost.work is not Work.PART:
        return False
    if eqn.invars[0].aval.extended or not eqn.outvars or eqn.outvars[0].aval.size == 1:
        return False  # formulas of numbers are seldom alike
    return _axis(eqn) is not None


def _kind(eqn: Eqn) -> Hashable:
    """The properties that equal parts share."""
    return eqn.primitive, eqn.invars[0], eqn.outvars[0].aval


def _axis(eqn: Eqn) -> int | bool | None:
    """The axis along which a slice is a part without gaps, if it is whole along the others; True
    where the results are all parts of the array, which are so."""
    if "strides" not in eqn.params:
        return True
    strides, shape = eqn.params["strides"], eqn.outvars[0].aval.shape
    if strides is not None and any(n != 1 for n in strides):
        return None
    axes = [i for i, n in enumerate(eqn.invars[0].aval.shape) if n != shape[i]]
    return axes[0] if len(axes) == 1 and 0 not in shape else None


def _alike(eqn: Eqn) -> Eqn:
    return eqn.replace(params={**eqn.params, "alike": _axis(eqn)})
