"""Counts: of integers, and of numbers in bins."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_size, is_symbolic
from teucer.lax import _elementwise, _joining, _reductions, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import ScatterDimensionNumbers
from teucer.lax._sharding import laid_out
from teucer.numpy._creation import asarray
from teucer.numpy._library import fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import (
    broadcast_value,
    concrete,
    index_dtype,
    operand,
    operands,
    promoted,
)
from teucer.numpy._promotion import INEXACT, as_value, convert
from teucer.numpy._ranges import linspace
from teucer.numpy._sorting import searchsorted

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, DType, DTypeLike
    from teucer._devices.specs import OutSharding

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """How often each non-negative integer comes in x, or the sum of its weights; negative ones
    count as 0.

    length: the size of the result, whatever minlength is; needed where x is traced. Larger numbers
    are left out. Raises TypeError for numbers that are not integers, ConcretizationTypeError for a
    traced x without length.

    >>> bincount(np.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    values = operand("bincount", x)
    if out_sharding is not None:
        return laid_out(
            "jnp.bincount",
            out_sharding,
            lambda x, w: bincount(x, w, minlength, length=length),
            values,
            weights,
        )
    if values.dtype == np.bool_:
        values = convert(values, index_dtype())
    if not dtypes.issubdtype(values.dtype, np.integer):
        raise TypeError(f"x argument to bincount must have an integer type; got {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"only 1-dimensional input supported, got shape {values.shape}")
    least = operator.index(minlength)
    if length is None:
        known = concrete(
            values,
            "bincount",
            "The error occurred because of argument 'x' of jnp.bincount. To avoid this error, "
            "pass a static `length` argument.",
        )
        length = max(least, int(known.max()) + 1 if known.size else 0)
    else:
        length = (
            length
            if is_symbolic(length)
            else operator.index(concrete(length, "bincount", "length must be known")[()])
        )
    if weights is None:
        return _count(values, None, length, index_dtype())
    w = operand("bincount", weights, 1)
    if w.shape != values.shape:
        raise ValueError(
            f"shape of weights must match shape of x.\n    x: {values.shape}\n"
            f"    weights: {w.shape}"
        )
    if w.dtype == np.bool_:
        raise TypeError(
            "jnp.bincount: weights of dtype bool cannot be added. Convert them to numbers: "
            "weights.astype(int)."
        )
    return _count(values, w, length, w.dtype)


@fast(static=("length", "dtype"))
def _count(x: Array, weights: ArrayLike | None, length: int, dtype: DTypeLike) -> Any:
    zeros = _structure.full((length,), 0, dtype)
    if length == 0 or x.shape[0] == 0:
        return zeros
    places = _elementwise.max(x, _structure.number(0, x.dtype))
    each = _structure.full(x.shape, 1, dtype) if weights is None else weights
    return _gather.scatter_add(
        zeros,
        _structure.reshape(places, (*x.shape, 1)),
        each,
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] | str = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of so many equal bins over the range of a, or over a given range; given edges as
    they are.

    >>> histogram_bin_edges(np.array([0., 4.]), 2).tolist()
    [0.0, 2.0, 4.0]
    """
    del weights  # NumPy's argument; it matters only to rules that are not offered
    if isinstance(bins, str):
        raise NotImplementedError(
            f"string values for `bins` not implemented.\n    bins: {bins!r}\n"
            "  Give a number or edges."
        )
    dtype = dtypes.to_inexact_dtype(operand("histogram_bin_edges", a).dtype)
    bins = as_value(bins)
    if isinstance(bins, Sequence) or np.ndim(bins) == 1:
        return convert(asarray(bins), dtype)
    count = operator.index(concrete(bins, "histogram_bin_edges", "bins must be known")[()])
    x = ravel(operand("histogram_bin_edges", a))
    if range is None and is_size("histogram", x.shape[0], 0):
        range = (0, 1)  # as in NumPy: there are edges, and nothing between them
    limits = None if range is None else asarray(range)
    if limits is not None and limits.shape != (2,):
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
    return _edges(x, limits, count, dtype)


@fast(static=("bins", "dtype"))
def _edges(x: Array, limits: Array | None, bins: int, dtype: DType) -> Any:
    if limits is None:
        values = convert(x, dtype)
        low, high = _reductions.reduce_min(values, (0,)), _reductions.reduce_max(values, (0,))
    else:
        low, high = convert(limits[0], dtype), convert(limits[1], dtype)
    empty = low == high
    low, high = where(empty, low - 0.5, low), where(empty, high + 0.5, high)
    return linspace(low, high, bins + 1, dtype=dtype)


def histogram(
    a: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] | str = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
    out_sharding: OutSharding = None,
) -> tuple[Array, Array]:
    """How many elements of a lie in each bin, or the sum of their weights; and the edges of the
    bins.

    A bin has its left edge, the last one both. density: divided by the total and the width, so that
    the integral is 1. out_sharding: how the counts lie over Explicit mesh axes.

    >>> histogram(np.array([1., 2., 2.]), 2)[0].tolist()
    [1.0, 2.0]
    """
    edges = histogram_bin_edges(a, bins, range, weights)
    x = operand("histogram", a)
    if weights is None:
        return _histogram_laid_out(x, edges, None, bool(density), out_sharding)
    (w,) = promoted("histogram", INEXACT, weights)
    if w.shape != x.shape:
        raise ValueError(
            f"weights should have the same shape as a.\n    a: {x.shape}\n    weights: {w.shape}"
        )
    return _histogram_laid_out(x, edges, w, bool(density), out_sharding)


def _histogram_laid_out(
    x: Array, edges: Array, weights: Any, density: bool, out_sharding: OutSharding
) -> tuple[Any, Any]:
    if out_sharding is None:
        return _histogram(x, edges, weights, density)

    def counted(x: Array, edges: Array, weights: Array | None) -> Array:
        return _histogram(x, edges, weights, density)[0]

    return laid_out("histogram", out_sharding, counted, x, edges, weights), edges


@fast(static=("density",))
def _histogram(x: Array, edges: Array, weights: ArrayLike | None, density: bool) -> Any:
    values, edges = promoted("histogram", INEXACT, *promoted("histogram", INEXACT, ravel(x)), edges)
    weights = _structure.full(values.shape, 1, edges.dtype) if weights is None else ravel(weights)
    place, inside = _bin_of(values, edges)
    n = edges.shape[0] - 1
    counts = _count(where(inside, place, n), weights, n, weights.dtype)
    if density:
        counts = counts / (edges[1:] - edges[:-1]) / _structure.reduce_sum(counts, [0])
    return counts, edges


def _bin_of(values: Any, edges: Any) -> tuple[Any, Any]:
    """The bin of each value, and whether it lies in one."""
    n = edges.shape[0] - 1
    place = searchsorted(edges, values, "right") - 1
    place = where(values == edges[-1], n - 1, place)
    inside = _elementwise.bitwise_and(values >= edges[0], values <= edges[-1])
    return place, inside


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: object = 10,
    range: object = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many of the points (x, y) lie in each rectangle of bins, and the edges along either axis.

    >>> histogram2d(np.array([0., 1.]), np.array([0., 1.]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    if not isinstance(bins, int) and not (
        isinstance(bins, Sequence | np.ndarray | ArrayImpl | Tracer) and len(bins) == 2
    ):
        bins = (bins, bins)
    points = promoted("histogram2d", INEXACT, x, y)
    sample = _structure.transpose(_joining.stack(points), (1, 0))
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many of the points, which are the rows of sample, lie in each box of bins; and the edges
    along each axis.

    bins: how many, for all axes or for each; or the edges along each axis.

    >>> histogramdd(np.array([[0., 0.], [1., 1.]]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    if isinstance(sample, Sequence):
        points = _structure.transpose(_joining.stack(operands("histogramdd", *sample)), (1, 0))
    else:
        points = operand("histogramdd", sample)
        points = points if points.ndim == 2 else _structure.reshape(points, (points.shape[0], 1))
    n, axes = points.shape
    bins = as_value(bins)
    several = isinstance(bins, Sequence) or (
        isinstance(bins, np.ndarray | ArrayImpl | Tracer) and np.ndim(bins) != 0
    )
    each = list(bins) if several else [bins] * axes
    if len(each) != axes:
        raise ValueError("should be a bin for each dimension.")
    ranges = [None] * axes if range is None else list(range)
    if len(ranges) != axes:
        raise ValueError(f"Expected {axes} range values; got {len(ranges)}")
    edges = [
        histogram_bin_edges(points[:, i], b, r)
        for i, (b, r) in enumerate(zip(each, ranges, strict=True))
    ]
    w = None if weights is None else promoted("histogramdd", INEXACT, weights)[0]
    if w is not None and w.shape != (n,):
        raise ValueError("should have one weight for each sample.")
    return _histogram_dd(points, edges, w, bool(density)), edges


@fast(static=("density",))
def _histogram_dd(points: Array, edges: Arrays, weights: Array | None, density: bool) -> Any:
    shape = tuple(e.shape[0] - 1 for e in edges)
    flat = _structure.full((points.shape[0],), 0, np.int32)
    inside = _structure.full((points.shape[0],), True, np.dtype(bool))
    for i, e in enumerate(edges):
        (line,) = promoted("histogramdd", INEXACT, points[:, i])
        place, within = _bin_of(line, e)
        flat, inside = (
            flat * shape[i] + convert(place, np.dtype(np.int32)),
            _elementwise.bitwise_and(inside, within),
        )
    total = int(np.prod(shape))
    dtype = index_dtype() if weights is None else weights.dtype
    counts = _structure.reshape(_count(where(inside, flat, total), weights, total, dtype), shape)
    if not density:
        return counts
    out = convert(counts, edges[0].dtype) / _structure.reduce_sum(counts, range(len(shape)))
    for i, e in enumerate(edges):
        out = out / broadcast_value(
            _structure.reshape(e[1:] - e[:-1], (-1 + e.shape[0],) + (1,) * (len(shape) - i - 1)),
            shape,
        )
    return out
