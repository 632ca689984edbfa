"""The least and greatest elements of arrays."""

from __future__ import annotations

import numpy as np

from teucer._core.typing import Array, ArrayLike, Axis
from teucer.lax._sorting import top_k as greatest
from teucer.numpy._operands import axis_of, operand
from teucer.numpy._promotion import refuse_out
from teucer.numpy._reductions import max as maximum
from teucer.numpy._reductions import min as minimum
from teucer.numpy._sorting import argsort
from teucer.numpy._taking import take_along_axis

__all__ = ["minmax", "top_k"]


def minmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """The least and the greatest element over axes, by default over all.

    initial: takes part in both; of a pair the first in the least element, the second in the
    greatest. Needed with `where`, which says which elements take part.
    Raises ValueError for no elements and no initial value.

    >>> minmax(np.array([2, 5, 1]))
    (Array(1, dtype=int32), Array(5, dtype=int32))
    """
    refuse_out("minmax", out)
    if where is not None and initial is None:
        raise ValueError(
            "reduction operation minmax does not have an identity, so to use a where mask one has "
            "to specify 'initial'"
        )
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return minimum(a, axis, None, keepdims, low, where), maximum(
        a, axis, None, keepdims, high, where
    )


def top_k(
    a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True
) -> tuple[Array, Array]:
    """The k greatest, or for mode "smallest" least, elements along an axis, and their places.

    NaN counts as greatest. sorted: has no effect: results are in order, the greatest or the least
    first. Raises ValueError for another mode, if k is negative or larger than the axis, or elements
    are complex.

    >>> top_k(np.array([2, 5, 1]), 2, mode="smallest")
    (Array([1, 2], dtype=int32), Array([2, 0], dtype=int32))
    """
    if mode not in ("largest", "smallest"):
        raise ValueError(f"top_k: mode must be 'largest' or 'smallest', got {mode!r}.")
    x = operand("top_k", a)
    at = axis_of(x, axis)
    if mode == "largest":
        values, places = greatest(x, k, axis=at)
        return values, places
    if x.dtype.kind == "c":
        raise ValueError("top_k is not compatible with complex inputs.")
    if not 0 <= k <= x.shape[at]:
        raise ValueError(
            "k argument to top_k must be nonnegative and no larger than size along axis; got "
            f"k={k} with shape={list(x.shape)} and axis={at}"
        )
    order = argsort(x, axis=at, stable=True).astype(np.int32)
    places = order[tuple(slice(0, k) if i == at else slice(None) for i in range(x.ndim))]
    return take_along_axis(x, places, at), places
