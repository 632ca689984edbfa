"""The operations that a program asks for: those of its products, once each.

What `checkpoint` computes again in the backward pass is not counted: utilisation is of what the
program is for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from teucer._base import source
from teucer._core import structure
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from teucer._derived.liveness import is_backward
from teucer._derived.remat import remat_p
from teucer._optimize.operations import is_product, operations
from teucer._sharding.manual_call import shard_map_p
from teucer.lax._ragged import ragged_dot_general_p


def products_of(jaxpr: Jaxpr) -> float:
    """Operations of the products of a program on all devices together."""
    found = list(_found(jaxpr, 1.0, backward=False, again=False))
    first = {_key(eqn) for eqn, _, backward, _ in found if not backward}
    return sum(
        times * operations(eqn)
        for eqn, times, backward, again in found
        if not (backward and again and _key(eqn) in first)
    )


def _found(
    jaxpr: Jaxpr, times: float, *, backward: bool, again: bool
) -> Iterator[tuple[Eqn, float, bool, bool]]:
    """The products of a jaxpr. Each comes with how often it runs, and whether it is in a backward
    pass, and within a checkpoint."""
    for eqn in jaxpr.eqns:
        back = backward or is_backward(eqn)
        if is_product(eqn) or eqn.primitive is ragged_dot_general_p:
            yield eqn, times, back, again
        elif eqn.primitive.higher_order:
            # The devices of a manual part do the same work, each on its own part.
            many = times * structure.times(eqn) * _devices(eqn)
            for inner in jaxprs_in_params(eqn.params):
                yield from _found(
                    inner, many, backward=back, again=again or eqn.primitive is remat_p
                )


def _devices(eqn: Eqn) -> int:
    if eqn.primitive is not shard_map_p:
        return 1
    mesh, manual = eqn.params["mesh"], eqn.params.get("manual_axes") or ()
    return math.prod(mesh.shape[name] for name in manual)


def _key(eqn: Eqn) -> Any:
    place = source.locate(eqn.place)
    return (
        None if place is None else (place.file, place.line),
        tuple((v.aval.shape, str(v.aval.dtype)) for v in eqn.invars),
        str(eqn.params.get("dimension_numbers")),
    )
