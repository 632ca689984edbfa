"""What XLA's CPU backend is told about a program.

Whether its loops are plain, and whose convolutions suit it.

Two optimizations of the backend take a quarter of the time of a compilation: tiles, which make
transposition fast, and unrolling, which makes loops of few steps fast. Code for **plain loops**,
long ones that run along the last axis of everything that a program reads and writes, is as fast
without them (docs/outlining.md).

Convolutions over two axes are YNNPACK's where XLA is not told otherwise. Some take half the time by
Eigen, others a multiple (docs/convolutions.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from teucer._core.rules_table import Rules
from teucer._targets.cpu.constants import (
    EIGEN_CLEAR,
    PLAIN_BODY,
    PLAIN_CACHED,
    PLAIN_FEW,
    PLAIN_PART,
    PLAIN_STEPS,
)

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray

__all__ = ["by_eigen", "has_plain_loops", "suits_eigen"]

# For primitives that YNNPACK or Eigen may compute: (*avals of operands and results, **params) ->
# products, gain. `products` counts the multiplications; `gain` the part of them that Eigen saves,
# negative where it takes longer.
by_eigen: Rules[Callable[..., tuple[float, float]]] = Rules("switches of the CPU")


# The primitives whose steps XLA's code runs one after the other.
LOOPS = ("scan", "while")


class LoopCounts(NamedTuple):
    """Of an equation or a jaxpr. moved: elements that are transposed, in short loops or in windows,
    infinitely many where nothing is known of the loops. computed: elements in all. products:
    multiplications of convolutions that are YNNPACK's or Eigen's.
    eigen: products that Eigen saves."""

    moved: float
    computed: float
    products: float
    eigen: float


def has_plain_loops(jaxpr: Jaxpr, parts: int = 1) -> bool:
    """Whether the loops that a jaxpr becomes are plain but for little, as far as can be told from
    its equations.

    parts: the devices among which the compiler divides arrays. What it leaves whole makes longer
    loops.
    """
    counts = _counts(jaxpr, parts)
    return counts.moved <= PLAIN_PART * counts.computed


def suits_eigen(jaxpr: Jaxpr) -> bool:
    """Whether the convolutions of a jaxpr take clearly less time by Eigen than by YNNPACK."""
    counts = _counts(jaxpr)
    return counts.eigen > EIGEN_CLEAR * counts.products


def _counts(jaxpr: Jaxpr, parts: int = 1) -> LoopCounts:
    """The sums over the equations; kept on the jaxpr."""
    key = (_counts, parts)
    found: LoopCounts | None = jaxpr.cache.get(key)
    if found is None:
        found = jaxpr.cache[key] = _sums([_counts_of(eqn, parts) for eqn in jaxpr.eqns])
    return found


def _sums(counts: list[LoopCounts]) -> LoopCounts:
    if len(counts) == 1:
        return counts[0]
    return LoopCounts(*map(sum, zip(*counts, strict=True))) if counts else LoopCounts(0, 0, 0, 0)


def _counts_of(eqn: Eqn, parts: int) -> LoopCounts:
    # What each device is told to do (shard_map) is on its own part.
    inner = [
        _counts(jaxpr, parts if eqn.primitive.within is None else 1)
        for jaxpr in jaxprs_in_params(eqn.params)
    ]
    if inner:
        counts = _sums(inner)
        # Loops that outlining makes come from no line. Unrolled, they would round otherwise.
        of_user = eqn.primitive.name in LOOPS and eqn.source is not None
        if of_user and 0 < _largest(eqn) <= counts.computed <= PLAIN_BODY:
            return counts._replace(moved=math.inf)
        return counts
    ins, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    avals = ins + outs
    if True in [aval.symbolic for aval in avals]:
        return LoopCounts(math.inf, 0, 0, 0)
    sizes = [aval.size / parts for aval in avals]
    computed = sum(sizes[len(ins) :])
    if max(sizes, default=0) < PLAIN_FEW:
        return LoopCounts(0, computed, 0, 0)
    narrow = sum([n for n, aval in zip(sizes, avals, strict=True) if _is_narrow(aval)])
    moved = eqn.primitive.cost.moved(ins, eqn.params) / parts + narrow
    products, eigen = (
        by_eigen[eqn.primitive](*ins, *outs, **eqn.params) if eqn.primitive in by_eigen else (0, 0)
    )
    return LoopCounts(moved if moved <= PLAIN_CACHED else math.inf, computed, products, eigen)


def _largest(eqn: Eqn) -> float:
    """Elements of the largest array that a step of a loop computes; 0 if there are only numbers."""
    sizes = [
        math.inf if v.aval.symbolic else v.aval.size
        for jaxpr in jaxprs_in_params(eqn.params)
        for inner in jaxpr.eqns
        for v in inner.outvars
        if v.aval.ndim
    ]
    return max(sizes, default=0)


def _is_narrow(aval: ShapedArray) -> bool:
    return bool(aval.ndim > 1 and 1 < aval.shape[-1] < PLAIN_STEPS and aval.size >= PLAIN_FEW)
