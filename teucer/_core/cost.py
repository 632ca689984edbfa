"""What compilers make of an operation: for the targets, which weigh programs by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Params

__all__ = ["CHEAP", "EXPENSIVE", "FUSED", "LONG", "REDUCED", "STILL", "UNKNOWN", "Cost"]


class Cost(NamedTuple):
    """What a primitive costs, for operands of any type.

    fuses: whether compilers compute it element by element, in the loop that uses it.
    reduces: whether it combines elements along axes, in loops as long as these axes.
    cheap: whether recomputing it costs less than keeping its result in memory.
    expensive: whether recomputing it costs far more, though XLA does so.
    long: whether its code is so long that a call costs less than the copies which compilers make,
        one in each loop that reads its result.
    separates: whether compilers end fusion at it. Programs full of it gain nothing from functions
        that stay calls.
    reorders: whether its kernel takes or gives arrays in an order other than row by row.
    moves: moves(*avals of operands, **params) counts the elements that change place with regard to
        the last axis, or that windows hold.
    of_complex: the same where the first operand is complex, if that differs.
    series: the dtypes of operands for which a target may ask for a series (the parameter `series`)
        in place of the compiler's operation.
    """

    fuses: bool = False
    reduces: bool = False
    cheap: bool = False
    expensive: bool = False
    long: bool = False
    separates: bool = False
    reorders: bool = False
    moves: Callable[..., float] | None = None
    of_complex: Cost | None = None
    series: frozenset[str] = frozenset()

    def moved(self, avals: Sequence[Aval], params: Params) -> float:
        """The number of elements that are moved; infinite for loops of another kind."""
        if self.moves is not None:
            return self.moves(*avals, **params)
        return 0 if self.fuses or self.reduces else math.inf


UNKNOWN, FUSED, REDUCED = Cost(), Cost(fuses=True), Cost(reduces=True)
# Operations without a loop: elements go to another device, or stay.
STILL = Cost(moves=lambda *avals, **params: 0)
LONG = STILL._replace(long=True)
CHEAP, EXPENSIVE = Cost(fuses=True, cheap=True), Cost(fuses=True, expensive=True)
# Operations that are lowered to so many that compilers make several loops of them.
SEVERAL = EXPENSIVE._replace(long=True)
