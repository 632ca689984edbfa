"""Costs of operations in compiled code: for the targets, which weigh programs by them."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Aval, Avals, Params


class Work(enum.Enum):
    """Kinds of operations that compilers treat specially."""

    PRODUCT = "a product of matrices"
    CONVOLUTION = "a convolution"
    LIBRARY = "a call of the runtime, as sorts are"
    FUNCTION = "a function of numbers that takes several instructions"
    EXTREMUM = "places of extrema, by pairs of a value and a place"
    GATHER = "elements from anywhere"
    BROADCAST = "elements repeated along axes"
    TRANSPOSE = "elements in another order of axes"
    RESHAPE = "the same elements in the same order"
    PART = "parts of an array along an axis"
    WINDOW = "elements of windows, combined"


class Subnormals(enum.Enum):
    """How an operation treats subnormal numbers."""

    ROUND = "its results are none"
    MOVE = "its results are none if its operands are none"
    READ = "it reads the bits of its operands"


class Cost(NamedTuple):
    """The cost of a primitive, for operands of any type.

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
    work: the kind of code, where it matters.
    subnormals: the treatment of subnormal numbers, if compilers may rely on it.
    decides: how it decides by its operands, where a subnormal number is to differ from zero: the
        direction of a comparison, or another word of the targets' tables.
    operations: operations(types of operands, type of the first result, params) counts operations on
        numbers; by default one for each element of the result, or of the operand if that is
        reduced.
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
    work: Work | None = None
    subnormals: Subnormals | None = None
    decides: str | None = None
    operations: Callable[[Avals, ShapedArray, Params], float] | None = None

    def moved(self, avals: Sequence[Aval], params: Params) -> float:
        """The number of elements that are moved; infinite for loops of another kind."""
        if self.moves is not None:
            return self.moves(*avals, **params)
        return 0 if self.fuses or self.reduces else math.inf


def of_operand(avals: Avals, out: ShapedArray, params: Params) -> float:
    """One operation for each element of the first operand."""
    return float(getattr(avals[0], "size", 0))


UNKNOWN = Cost()
