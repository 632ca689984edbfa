"""Arrays with a border: pad, in all of NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import Tracer, typeof
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import as_size, is_size, is_symbolic
from teucer.lax import _elementwise, _joining, _reductions, _shapes, _slicing, _sorting, _structure
from teucer.numpy._library import fast
from teucer.numpy._operands import axis_of, concrete, operand
from teucer.numpy._promotion import convert
from teucer.numpy._vectorize import apply_along_axis

if TYPE_CHECKING:
    from teucer._core.typing import Params

__all__ = ["pad"]

_KEYWORDS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "edge": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
    "empty": (),
}


def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str | Callable[..., object] = "constant",
    **kwargs: object,
) -> Array:
    """An array with pad_width elements before and after it along each axis.

    pad_width: a number for all, a pair for all axes, a pair for each axis, or a dict of pairs by
    axis.
    mode: the rule for new elements. "constant": constant_values (0); "edge": the nearest element;
    "linear_ramp": from there to end_values (0); "maximum", "mean", "median", "minimum" of the line,
    or of its stat_length outermost elements; "reflect", "symmetric": the line mirrored at its last
    element, or after it; with reflect_type="odd", turned about it; "wrap": the line repeated;
    "empty": not specified; or a function of (line, pair, axis, kwargs) that gives the padded line.
    Raises ValueError for negative widths or shapes that do not fit, NotImplementedError for another
    mode.

    >>> pad(np.array([1, 2, 3]), (1, 2), mode="reflect").tolist()
    [2, 1, 2, 3, 2, 1]
    """
    x = operand("pad", array)
    padded = _padded(x, _width_pairs(pad_width, x), mode, kwargs)
    return _structure.convert_element_type(padded, x.dtype, True) if typeof(x).weak_type else padded


def _padded(
    x: Array, widths: tuple[tuple[int, int], ...], mode: str | Callable[..., object], kwargs: Params
) -> Array:
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(
            f"Unimplemented padding mode '{mode}' for np.pad.\n  Modes: {', '.join(_KEYWORDS)}."
        )
    unknown = set(kwargs) - set(_KEYWORDS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if mode in ("constant", "empty"):
        values = kwargs.get("constant_values", 0)
        return _pad_constant(
            x, values if isinstance(values, ArrayImpl | Tracer) else np.asarray(values), widths
        )
    if mode == "linear_ramp":
        ends = kwargs.get("end_values", 0)
        return _pad_ramp(
            x, ends if isinstance(ends, ArrayImpl | Tracer) else np.asarray(ends), widths
        )
    if mode in ("reflect", "symmetric", "wrap", "edge"):
        odd = kwargs.get("reflect_type", "even")
        if odd not in ("even", "odd"):
            raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {odd!r}")
        return _pad_moved(x, widths, mode, odd == "odd")
    lengths = kwargs.get("stat_length")
    return _pad_statistic(
        x,
        widths,
        mode,
        None if lengths is None else _pairs(np.asarray(lengths), x.ndim, "stat_length"),
    )


def _width_pairs(pad_width: object, x: Array) -> tuple[tuple[int, int], ...]:
    if isinstance(pad_width, dict):
        by_axis = {axis_of(x, k): v for k, v in pad_width.items()}
        pad_width = [by_axis.get(i, (0, 0)) for i in range(x.ndim)]
        pad_width = [p if isinstance(p, Sequence) else (p, p) for p in pad_width]
    widths = concrete(pad_width, "pad", "pad_width must be known")
    if x.ndim and widths.dtype.kind not in "iu" and not any(map(is_symbolic, widths.flat)):
        raise TypeError(f"`pad_width` must be of integral type, got {widths.dtype}.")
    pairs = _pairs(widths, x.ndim, "pad_width")
    if any(w < 0 for pair in pairs for w in pair):
        raise ValueError(f"index can't contain negative values\n    pad_width: {pad_width}")
    return pairs


def _pairs(value: np.ndarray[Any, Any], ndim: int, name: str) -> tuple[tuple[int, int], ...]:
    allowed = ((ndim, 2), (1, 2), (2,), (1,), ())
    if value.shape not in allowed:
        raise ValueError(
            f"jnp.pad: {name} with nd={ndim} has unsupported shape {value.shape}. Valid shapes "
            f"are ({ndim}, 2), (1, 2), (2,), (1,), or ()."
        )
    return tuple((as_size(a), as_size(b)) for a, b in np.broadcast_to(value, (ndim, 2)))


@fast(static=("widths",))
def _pad_constant(x: Any, values: Any, widths: Any) -> Any:
    dtypes.report_dropped(values.dtype, x.dtype)
    values = convert(values, x.dtype)
    if not np.ndim(values):
        return _slicing.pad(x, values, [(a, b, 0) for a, b in widths])
    values = _shapes.broadcast_in_dim(values, (x.ndim, 2), range(2 - np.ndim(values), 2))
    for axis, (before, after) in enumerate(widths):
        none = [(0, 0, 0)] * x.ndim
        x = _slicing.pad(x, values[axis, 0], [*none[:axis], (before, 0, 0), *none[axis + 1 :]])
        x = _slicing.pad(x, values[axis, 1], [*none[:axis], (0, after, 0), *none[axis + 1 :]])
    return x


def _spread(line: Any, size: int, axis: int) -> Any:
    """A part of size 1 along an axis, repeated."""
    return _structure.broadcast_to(
        line, (*line.shape[:axis], size, *line.shape[axis + 1 :]), range(line.ndim)
    )


@fast(static=("widths",))
def _pad_ramp(x: Any, ends: Any, widths: Any) -> Any:
    ends = _shapes.broadcast_in_dim(ends, (x.ndim, 2), range(2 - np.ndim(ends), 2))
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        first, last = (
            _slicing.slice_in_dim(x, 0, 1, axis=axis),
            _slicing.slice_in_dim(x, n - 1, n, axis=axis),
        )
        low = _ramp(ends[axis, 0], first, before, axis)
        high = _shapes.rev(_ramp(ends[axis, 1], last, after, axis), (axis,))
        x = _joining.concatenate([low, x, high], axis)
    return x


def _ramp(start: ArrayLike, edge: Any, size: int, axis: int) -> Any:
    """size elements from start up to the edge, which is not among them."""
    exact = dtypes.issubdtype(edge.dtype, np.integer)
    dtype = dtypes.to_inexact_dtype(edge.dtype)
    begin, end = convert(start, dtype), convert(edge, dtype)
    shape = (*edge.shape[:axis], size, *edge.shape[axis + 1 :])
    parts = _structure.convert_element_type(_shapes.broadcasted_iota(np.int32, shape, axis), dtype)
    begin, end = _structure.broadcast_to(begin, shape, ()), _spread(end, size, axis)
    out = begin + (end - begin) * parts / max(size, 1)
    return convert(_elementwise.floor(out) if exact else out, edge.dtype)


@fast(static=("widths", "mode", "odd"))
def _pad_moved(x: Any, widths: Any, mode: str, odd: bool) -> Any:
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        if before == after == 0:
            continue
        if is_size("pad", n, 0):
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
        x = _pad_axis(x, axis, before, after, "edge" if n == 1 and mode == "reflect" else mode, odd)
    return x


def _pad_axis(x: Any, axis: int, before: int, after: int, mode: str, odd: bool) -> Any:
    n = x.shape[axis]
    if is_symbolic(n):
        return _pad_symbolic(x, axis, before, after, mode, odd)
    places = np.pad(np.arange(n), (before, after), mode)  # type: ignore[call-overload]
    out = _by_runs(x, places, axis)
    if not odd or mode not in ("reflect", "symmetric"):
        return out
    # f(-p) = 2 f(first) - f(p), f(p + period) = f(p) + 2 (f(last) - f(first)).
    period = 2 * n - 2 if mode == "reflect" else 2 * n
    times, within = np.divmod(np.arange(-before, n + after), period)
    turned = within >= n
    first, last = (
        _slicing.slice_in_dim(x, 0, 1, axis=axis),
        _slicing.slice_in_dim(x, n - 1, n, axis=axis),
    )
    shape = [1] * x.ndim
    shape[axis] = n + before + after

    def along(v: Any) -> Any:
        return _structure.broadcast_to(v.reshape(shape).astype(x.dtype), out.shape, range(x.ndim))

    size = n + before + after
    step = _spread(2 * (last - first), size, axis)
    return (
        along(np.where(turned, -1, 1)) * out
        + along(np.where(turned, 2, 0)) * _spread(last, size, axis)
        + along(times) * step
    )


def _pad_symbolic(x: Any, axis: int, before: int, after: int, mode: str, odd: bool) -> Any:
    """As `_pad_axis`, for an axis known to be at least as long as the padding at either end."""
    n = x.shape[axis]
    # "reflect" leaves out the element at the end.
    skipped = 1 if mode == "reflect" else 0

    def part(start: int, limit: Any) -> Any:
        return _slicing.slice_in_dim(x, start, limit, axis=axis)

    if mode == "edge":
        low, high = _spread(part(0, 1), before, axis), _spread(part(n - 1, n), after, axis)
    elif mode == "wrap":
        low, high = part(n - before, n), part(0, after)
    else:
        low = _shapes.rev(part(skipped, skipped + before), (axis,))
        high = _shapes.rev(part(n - skipped - after, n - skipped), (axis,))
        if odd:
            low, high = 2 * part(0, 1) - low, 2 * part(n - 1, n) - high
    return _joining.concatenate([low, x, high], axis)


def _by_runs(x: Array, places: np.ndarray[Any, Any], axis: int) -> Any:
    """x at places along an axis, as a few slices, forwards or backwards."""
    parts = []
    i = 0
    while i < len(places):
        j, step = i + 1, int(places[i + 1] - places[i]) if i + 1 < len(places) else 1
        if abs(step) > 1:
            step = 1
        while j < len(places) and places[j] - places[j - 1] == step:
            j += 1
        low, high = int(min(places[i], places[j - 1])), int(max(places[i], places[j - 1]))
        part = _slicing.slice_in_dim(x, low, high + 1, axis=axis)
        parts.append(
            _spread(part, j - i, axis)
            if step == 0
            else _shapes.rev(part, (axis,))
            if step < 0
            else part
        )
        i = j
    return _joining.concatenate(parts, axis)


@fast(static=("widths", "mode", "lengths"))
def _pad_statistic(x: Any, widths: Any, mode: str, lengths: Any) -> Any:
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        counts = (n, n) if lengths is None else tuple(min(k, n) for k in lengths[axis])
        if is_size("pad", n, 0):
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
        if 0 in counts:
            raise ValueError("stat_length of 0 yields no value for padding")
        low = _statistic(_slicing.slice_in_dim(x, 0, counts[0], axis=axis), axis, mode)
        high = _statistic(_slicing.slice_in_dim(x, n - counts[1], n, axis=axis), axis, mode)
        x = _joining.concatenate([_spread(low, before, axis), x, _spread(high, after, axis)], axis)
    return x


def _statistic(x: Array, axis: int, mode: str) -> Any:
    n = x.shape[axis]
    if mode in ("maximum", "minimum"):
        reduce = _reductions.reduce_max if mode == "maximum" else _reductions.reduce_min
        return _shapes.expand_dims(reduce(x, (axis,)), (axis,))
    dtype = dtypes.to_inexact_dtype(x.dtype)
    values = convert(x, dtype)
    if mode == "median":
        values = _sorting.sort(values, axis)
        values = _slicing.slice_in_dim(values, (n - 1) // 2, n // 2 + 1, axis=axis)
    out = _shapes.expand_dims(_structure.reduce_sum(values, [axis]), (axis,)) / values.shape[axis]
    exact = dtypes.issubdtype(x.dtype, np.integer)
    return convert(
        _elementwise.round(out, _elementwise.RoundingMethod.TO_NEAREST_EVEN) if exact else out,
        x.dtype,
    )


def _pad_by_function(
    x: Array, widths: Any, function: Callable[..., Any], kwargs: dict[str, Any]
) -> Any:
    out = _pad_constant(x, np.asarray(0), widths)
    for axis, pair in enumerate(widths):
        out = apply_along_axis(lambda line, p=pair, i=axis: function(line, p, i, kwargs), axis, out)
    return out
