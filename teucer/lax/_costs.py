"""The costs of operations by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teucer._core.cost import Cost, Subnormals, Work

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Avals, Params


def nothing(avals: Avals, out: ShapedArray, params: Params) -> float:
    """The operations on numbers where elements only change place."""
    return 0.0


FUSED, REDUCED = Cost(fuses=True), Cost(reduces=True)
# Operations without a loop: elements go to another device, or stay.
STILL = Cost(moves=lambda *avals, **params: 0)
LONG = STILL._replace(long=True)
CHEAP, FUNCTION = Cost(fuses=True, cheap=True), Cost(fuses=True, work=Work.FUNCTION)
EXPENSIVE = FUNCTION._replace(expensive=True)
MOVE = FUSED._replace(operations=nothing, subnormals=Subnormals.MOVE)
CHEAP_MOVE = MOVE._replace(cheap=True)
NORMAL = CHEAP._replace(subnormals=Subnormals.ROUND)
NORMAL_FUNCTION = FUNCTION._replace(subnormals=Subnormals.ROUND)
# The lowering writes so many operations that compilers make several loops of them.
SEVERAL = EXPENSIVE._replace(long=True)
