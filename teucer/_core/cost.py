"""What compilers make of an operation: for the targets, which weigh programs by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Params

__all__ = ["CHEAP", "EXPENSIVE", "FUSED", "LONG", "REDUCED", "STILL", "UNKNOWN", "Cost"]


class Cost(NamedTuple):
    """Of a primitive, whatever its operands.

    fuses: whether compilers compute it, element by element, in the loop of what uses it.
    reduces: whether it combines elements along axes, in loops as long as these.
    cheap: whether computing it again costs less than keeping its result in memory; expensive: far
    more, though XLA does so.
    long: whether its code is so long that a copy in each loop that reads its result costs more than
        a call, though compilers make these copies.
    separates: whether compilers end fusion at it so that programs full of it gain nothing from
    functions that stay calls.
    reorders: whether its kernel takes or gives arrays in memory other than row by row.
    moves: moves(*avals of operands, **params) is how many elements change place with regard to the
    last axis, or windows hold.
    """

    fuses: bool = False
    reduces: bool = False
    cheap: bool = False
    expensive: bool = False
    long: bool = False
    separates: bool = False
    reorders: bool = False
    moves: Callable[..., float] | None = None

    def moved(self, avals: Sequence[Aval], params: Params) -> float:
        """The elements that are moved; infinitely many where loops are of another kind."""
        if self.moves is not None:
            return self.moves(*avals, **params)
        return 0 if self.fuses or self.reduces else math.inf


UNKNOWN, FUSED, REDUCED = Cost(), Cost(fuses=True), Cost(reduces=True)
# What is no loop: elements go to another device, or stay.
STILL = Cost(moves=lambda *avals, **params: 0)
LONG = STILL._replace(long=True)
CHEAP, EXPENSIVE = Cost(fuses=True, cheap=True), Cost(fuses=True, expensive=True)
