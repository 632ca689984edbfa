"""The transpose of a gather that takes one window of each batch: a choice, where a scatter would
need arrays of its own.

A scatter ends fusion: XLA makes loops for its indices, its zeros and its updates, and all that uses
the result reads an array of the size of the operand. A choice by comparing places is part of the
loops that use it, and gives the same numbers. Losses of classifiers, which take the logarithm of
one probability for each example, transpose to this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import is_constant
from teucer.lax import _elementwise, _selection, _shapes, _slicing, _structure
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Axes


def chosen_places(
    aval: ShapedArray,
    indices: ArrayLike,
    ct: Array,
    d: GatherDimensionNumbers,
    slice_sizes: Axes,
    mode: object,
) -> Any:
    """The cotangent of the operand, of type `aval`: `ct` at the places that were taken, else 0;
    None if the gather took several windows of a batch, or parts of axes."""
    at = typeof(indices)
    clips = mode is GatherScatterMode.CLIP
    # An axis that is taken whole has no place to be compared, where indices are clipped.
    taken = {
        i: k
        for k, i in enumerate(d.start_index_map)
        if slice_sizes[i] != aval.shape[i] or not clips
    }
    rows = dict(zip(d.start_indices_batching_dims, d.operand_batching_dims, strict=True))
    whole = all(
        i in rows.values() or slice_sizes[i] == (1 if i in taken else n)
        for i, n in enumerate(aval.shape)
    )
    if (
        not rows
        or not taken
        or not whole
        or not is_constant((*aval.shape, *at.shape))
        or aval.partition is not None
        or at.partition is not None
        or any(n != 1 for i, n in enumerate(at.shape[:-1]) if i not in rows)
        or any(aval.shape[i] - 1 > dtypes.iinfo(at.dtype).max for i in taken)
    ):
        return None
    windows = [i for i in range(len(aval.shape)) if i not in d.collapsed_slice_dims]
    offsets = iter([i for i in windows if i not in d.operand_batching_dims])
    batches = iter(range(len(at.shape) - 1))
    # By axis of the cotangent, the axis of the operand along which it lies, if there is one.
    axes = [
        next(offsets) if i in d.offset_dims else rows.get(next(batches)) for i in range(ct.ndim)
    ]
    axes = [None if i in taken else i for i in axes]
    chosen: Any = None
    for i, k in taken.items():
        index = _slicing.slice_in_dim(indices, k, k + 1, axis=-1)
        if clips:
            kind = at.dtype.type
            index = _elementwise.clamp(kind(0), index, kind(aval.shape[i] - 1))
        along = _spread(index, [*map(rows.get, range(len(at.shape) - 1)), None], aval.shape)
        here = _elementwise.eq(along, _shapes.broadcasted_iota(at.dtype, aval.shape, i))
        chosen = here if chosen is None else _elementwise.bitwise_and(chosen, here)
    spread = _spread(ct, axes, aval.shape)
    return _selection.select(chosen, spread, _structure.zeros(typeof(spread)))


def _spread(x: Any, axes: list[int | None], shape: Axes) -> Any:
    """x repeated to a shape, each of its axes along the one that is named; those of None have size
    1."""
    order = sorted((i, n) for n, i in enumerate(axes) if i is not None)
    x = _structure.transpose(
        x, [*(n for _, n in order), *(n for n, i in enumerate(axes) if i is None)]
    )
    kept = [i for i, _ in order]
    return _shapes.broadcast_in_dim(
        _structure.reshape(x, [x.shape[n] for n in range(len(kept))]), shape, kept
    )
