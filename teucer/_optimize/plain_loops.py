"""Plain loops: long ones that run along the last axis of everything that a program reads and writes.

Two optimizations of XLA's CPU backend take a quarter of the time of a compilation: tiles, which make transposition fast, and
unrolling, which makes loops of few steps fast. Code for plain loops is as fast without them (docs/outlining.md).
"""

from __future__ import annotations

import math
from typing import Any

from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params

__all__ = ["has_plain_loops"]

# Steps of the innermost loop, which runs over the last axis: from here on, vector instructions are unrolling enough.
STEPS = 8
# Elements of an array whose loops take next to no time, whatever they are; of one that cache holds while it is transposed.
FEW, CACHED = 1 << 10, 1 << 17
# The part of all elements that loops of another kind may take.
PART = 1 / 16


def has_plain_loops(jaxpr: Jaxpr) -> bool:
    """Whether the loops that a jaxpr becomes are plain but for little, as far as can be told from its equations."""
    moved, computed = _counts(jaxpr)
    return moved <= PART * computed


def _counts(jaxpr: Jaxpr) -> tuple[float, float]:
    """How many elements are transposed, in short loops or in windows, infinitely many where nothing is known of the loops; and how
    many are computed. Kept on it."""
    found: tuple[float, float] | None = jaxpr.cache.get(_counts)
    if found is None:
        counts = [_counts_of(eqn) for eqn in jaxpr.eqns]
        found = jaxpr.cache[_counts] = (sum(m for m, _ in counts), sum(c for _, c in counts))
    return found


def _counts_of(eqn: Eqn) -> tuple[float, float]:
    inner = [_counts(jaxpr) for jaxpr in jaxprs_in_params(eqn.params)]
    if inner:
        return sum(m for m, _ in inner), sum(c for _, c in inner)
    ins, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    if any(aval.symbolic for aval in (*ins, *outs)):
        return math.inf, 0
    computed = sum(aval.size for aval in outs)
    if all(aval.size < FEW for aval in (*ins, *outs)):
        return 0, computed
    moved = eqn.primitive.moved(*ins, **eqn.params) + sum(aval.size for aval in (*ins, *outs) if _is_narrow(aval))
    return moved if moved <= CACHED else math.inf, computed


def _is_narrow(aval: Any) -> bool:
    return bool(aval.ndim > 1 and 1 < aval.shape[-1] < STEPS and aval.size >= FEW)
