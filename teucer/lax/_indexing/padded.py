"""Indices outside of the array: which they are, and gather and scatter on padded buffers.

There an index outside of the array is moved inside, filled or dropped, although it is inside of the
buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import is_constant, is_symbolic
from teucer._lower import hlo
from teucer.lax import _elementwise, _structure
from teucer.lax._indexing import numbers as _indexing
from teucer.lax._indexing.numbers import GatherScatterMode
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_and

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Size
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context, Value


_CLIP, _FILL = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP


def gather(
    self: Primitive,
    sizes: Sizes,
    args: Sequence[Array],
    avals: Sequence[ShapedArray],
    outs: Sequence[Array],
    *,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    mode: object,
    unique_indices: object,
    indices_are_sorted: object,
    **params: object,
) -> Any:
    (x, indices), (aval, _) = args, avals
    widths = sizes.bounded(tuple(slice_sizes))
    _check_windows(sizes, aval.shape, slice_sizes)
    # XLA clamps indices that are promised to be in bounds.
    indices = _padded_places(
        sizes,
        indices,
        aval.shape,
        slice_sizes,
        dimension_numbers.start_index_map,
        _FILL if mode is _FILL else _CLIP,
    )
    (out,) = self.call(
        x,
        indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=widths,
        mode=mode,
        unique_indices=False,
        indices_are_sorted=False,
        **params,
    )
    for n, w in zip(aval.shape, slice_sizes, strict=True):
        if is_symbolic(n) and w != n and sizes.may_be_empty(n):
            # There is no element, as outside of an array.
            nothing = _structure.full(np.shape(out), _indexing.fill_for(aval.dtype), aval.dtype)
            out = _elementwise.select(_elementwise.gt(sizes.value(n), np.int32(0)), out, nothing)
    return (out,)


def scatter(
    self: Primitive,
    sizes: Sizes,
    args: Sequence[Array],
    avals: Sequence[ShapedArray],
    outs: object,
    *,
    dimension_numbers: Any,
    mode: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    **params: object,
) -> Any:
    (x, indices, updates), (aval, index_aval, update_aval) = args, avals
    d = dimension_numbers
    window = _indexing.window_sizes(d, aval.ndim, update_aval.shape)
    _check_windows(sizes, aval.shape, window)
    indices = _padded_places(
        sizes,
        indices,
        aval.shape,
        window,
        d.scatter_dims_to_operand_dims,
        _CLIP if mode is _CLIP else _FILL,
    )
    inside = sizes.inside(index_aval.shape)
    if inside is not None:
        # Rows behind the elements name a place that does not exist.
        if not d.scatter_dims_to_operand_dims:
            sizes.refuse("updates without an index along a dynamic axis")
        nowhere = _structure.full(np.shape(indices), max(np.shape(x)), typeof(indices).dtype)
        indices = _elementwise.select(inside, indices, nowhere)
    return self.call(
        x,
        indices,
        updates,
        dimension_numbers=d,
        mode=_FILL,
        unique_indices=unique_indices and inside is None,
        indices_are_sorted=False,
        **params,
    )


def _check_windows(sizes: Any, shape: Sequence[int], window: Sequence[object]) -> None:
    """Refuse windows of dynamic size that are not whole axes."""
    if any(is_symbolic(w) and w != n for w, n in zip(window, shape, strict=True)):
        sizes.refuse("a window that is dynamic and is not the whole of its axis")


def _padded_places(
    sizes: Sizes,
    indices: Array,
    shape: Sequence[Size],
    window: Sequence[object],
    axes: Sequence[int],
    mode: object,
) -> Any:
    """Indices into a buffer for indices into its array: those outside the array are outside the
    buffer too, or moved inside."""
    if dtypes.bit_width(typeof(indices).dtype) < 32:
        indices = _structure.convert_element_type(indices, np.dtype(np.int32))
    if not axes or (mode is _FILL and not any(is_symbolic(shape[a]) for a in axes)):
        return indices
    kind, at = typeof(indices).dtype, np.shape(indices)
    limits = [_elementwise.sub(sizes.value(shape[a]), sizes.value(window[a])) for a in axes]
    limit = concatenate(
        [_structure.reshape(_structure.convert_element_type(n, kind), (1,)) for n in limits], 0
    )
    low, high = _structure.full(at, 0, kind), _structure.broadcast_to(limit, at, (len(at) - 1,))
    if mode is _CLIP:
        return _elementwise.clamp(low, indices, high)
    inside = _elementwise.bitwise_and(_elementwise.ge(indices, low), _elementwise.le(indices, high))
    return _elementwise.select(
        inside, indices, _structure.full(at, max(sizes.bounded(tuple(shape))), kind)
    )


def wide(ctx: Context, indices: Value) -> Any:
    """Indices in a dtype of 32 bits or more, in which the sizes of axes can be written.

    Their components are on one device: XLA's partitioner finds wrong places where they are divided
    (seen with jaxlib 0.10.2).
    """
    if indices.shape[-1] > 1:
        indices = ctx.whole(indices, (len(indices.shape) - 1,))
    if dtypes.bit_width(indices.dtype) >= 32:
        return indices
    return hlo.convert(ctx, indices, np.dtype(np.int32))


def bounds(indices: ArrayLike, limits: Sequence[object]) -> Any:
    kind = typeof(indices).dtype
    shape = np.shape(indices)
    most: Any = dtypes.iinfo(kind).max
    if is_constant(limits):
        limit: Any = _structure.number([min(n, most) for n in limits], kind)
    else:
        limit = concatenate(
            [_structure.full((1,), n if is_symbolic(n) else min(n, most), kind) for n in limits], 0
        )
    return _structure.full(shape, 0, kind), _structure.broadcast_to(limit, shape, (len(shape) - 1,))


def inside(indices: ArrayLike, limits: Sequence[object]) -> Any:
    """Whether each index vector lies between 0 and the limits."""
    low, high = bounds(indices, limits)
    fits = _elementwise.bitwise_and(_elementwise.ge(indices, low), _elementwise.le(indices, high))
    return reduce_and(fits, (np.ndim(indices) - 1,))
