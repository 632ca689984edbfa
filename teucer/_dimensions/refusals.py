"""Questions about sizes that are refused: what was asked, where, and what to do."""

from __future__ import annotations

from typing import Any, NoReturn

from teucer._base import source
from teucer._base.errors import InconclusiveDimensionOperation
from teucer._dimensions.intervals import range_of

__all__ = ["differs", "inconclusive", "may_be_negative", "mixed"]


def inconclusive(x: Any, what: str) -> NoReturn:
    if x.scope.strict:
        low, high = range_of(x)
        raise InconclusiveDimensionOperation(
            f"{what}.\n    {x}: from {low} to {high}{_asked_at()}\n  The function is compiled once for all these sizes, and the "
            "answer is not the same for all. For an answer in each call make an\n  array of the size, jnp.asarray(x.shape[0]) for "
            "axis 0, and ask in jnp.where or lax.cond.")
    known = f"\n    {x.scope}" if x.scope.facts else ""
    raise InconclusiveDimensionOperation(
        f"{what}.{known}\n  The answer is not the same for all sizes that the symbolic dimensions may have. If it is for those "
        "that come up, say so with a\n  constraint: symbolic_shape(..., constraints=[\"a >= 8\"]); else export for a known size.")


def mixed(what: str, x: Any, y: Any) -> NoReturn:
    raise ValueError(f"Invalid mixing of symbolic scopes when {what}.\n    '{x}': {x.scope}\n    '{y}': {y.scope}\n"
                     "  Make all symbolic dimensions of a program with one scope: symbolic_shape(..., scope=...).")


def differs(op: str, n: Any, size: int, low: float, high: float) -> NoReturn:
    """Refuse an axis that may be of a size for which a function does something else."""
    raise InconclusiveDimensionOperation(
        f"{op}: Symbolic dimension comparison '{n}' == '{size}' is inconclusive; an axis of size {size} is treated in another "
        f"way.\n    {n}: from {low} to {high}{_asked_at()}\n"
        "  Give a range without it, dynamic_dims={x: {axis: (least, greatest)}}.")


def _asked_at() -> str:
    place = source.here()
    return f"\n    asked at {source.describe(place)}" if place else ""


def may_be_negative(op: str, size: Any, low: float, high: float) -> NoReturn:
    """Refuse a shape with a size that is negative for some sizes of the variables."""
    least = "give a larger least size,\n  dynamic_dims={x: {axis: (least, greatest)}}" if size.scope.strict else (
        "say that it is not with a\n  constraint: symbolic_shape(..., constraints=[\"a >= 8\"])")
    raise InconclusiveDimensionOperation(
        f"{op}: Symbolic dimension comparison '{size}' >= '0' is inconclusive; a size may not be negative.\n    {size}: from {low} "
        f"to {high}{_asked_at()}\n  If it is never negative, {least}; else take jax.core.max_dim(size, 0).")
