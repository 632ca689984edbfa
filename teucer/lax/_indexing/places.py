"""Transposes of gathers that take one window of each batch, and scatters of one window of each row
into an array of equal numbers. They are selects, where a scatter would need arrays in memory.

A scatter ends fusion: XLA makes loops for its indices, its zeros and its updates, and all that uses
the result reads an array of the size of the operand. A choice by comparing places is part of the
loops that use it, and gives the same numbers. Losses of classifiers, which take the logarithm of
one probability for each example, transpose to this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._base import dtypes
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import is_constant
from teucer.lax import _elementwise, _joining, _selection, _shapes, _slicing, _structure
from teucer.lax._indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    window_sizes,
)
from teucer.lax._shapes import counts_along

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.jaxpr import ClosedJaxpr
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
    taken = _taken(aval, typeof(indices), d, slice_sizes, mode)
    if taken is None:
        return None
    chosen, spread = _chosen(aval, indices, ct, d, taken, mode)
    return _selection.select(chosen, spread, _structure.zeros(typeof(spread)))


def chosen_updates(
    known: Any,
    x: Any,
    indices: Any,
    updates: Any,
    d: ScatterDimensionNumbers,
    mode: object,
    combine: Callable[[Any, Any], Any],
) -> tuple[ClosedJaxpr, tuple[Any, ...]] | None:
    """A scatter as a select, with its operands; None if it is no such scatter.

    x must be one number repeated, and each window must lie in a row of its own, as in
    `zeros.at[arange(n), i].add(updates)`. known: facts that the passes know. combine: computes the
    new element from an element and its update; None if unknown.
    """
    if known.constant(x) is None or 0 in indices.aval.shape:
        return None
    made = known.made.get(indices)
    joined = made is not None and made.primitive is _joining.concatenate_p
    columns = list(made.invars) if joined else [indices]
    if len(columns) != len(d.scatter_dims_to_operand_dims):
        return None
    rows = dict(zip(d.scatter_indices_batching_dims, d.operand_batching_dims, strict=True))
    kept = []
    for column, i in zip(columns, d.scatter_dims_to_operand_dims, strict=True):
        axis = counts_along(known, column) if i in d.inserted_window_dims else None
        if axis is None or axis in rows or column.aval.shape[axis] != x.aval.shape[i]:
            kept.append((column, i))
        else:
            rows[axis] = i
    if not kept:
        return None
    as_taken = GatherDimensionNumbers(
        tuple(d.update_window_dims),
        tuple(i for i in d.inserted_window_dims if i not in rows.values()),
        tuple(i for _, i in kept),
        tuple(rows.values()),
        tuple(rows),
    )
    sizes = window_sizes(d, x.aval.ndim, updates.aval.shape)
    at = indices.aval.update(shape=(*indices.aval.shape[:-1], len(kept)))
    taken = _taken(x.aval, at, as_taken, sizes, mode)
    if taken is None:
        return None

    def choice(x: Array, updates: Array, *columns: Array) -> tuple[Any]:
        together = _joining.concatenate(columns, len(at.shape) - 1)
        chosen, spread = _chosen(x.aval, together, updates, as_taken, taken, mode)
        return (_selection.select(chosen, combine(x, spread), x),)

    operands = (x, updates, *(column for column, _ in kept))
    return stage_jaxpr(choice, [v.aval for v in operands]), operands


def _taken(
    aval: ShapedArray, at: ShapedArray, d: GatherDimensionNumbers, slice_sizes: Axes, mode: object
) -> dict[int, int] | None:
    """By axis of the operand whose places are to be compared, the component of the indices. None
    if places cannot be compared: of several windows of a batch, or parts of axes."""
    # An axis that is taken whole has no place to be compared, where indices are clipped.
    taken = {
        i: k
        for k, i in enumerate(d.start_index_map)
        if slice_sizes[i] != aval.shape[i] or mode is not GatherScatterMode.CLIP
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
    return taken


def _chosen(
    aval: ShapedArray,
    indices: ArrayLike,
    ct: Array,
    d: GatherDimensionNumbers,
    taken: dict[int, int],
    mode: object,
) -> tuple[Any, Any]:
    """Whether a place of the operand is taken, and `ct` spread over the operand."""
    at = typeof(indices)
    rows = dict(zip(d.start_indices_batching_dims, d.operand_batching_dims, strict=True))
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
        if mode is GatherScatterMode.CLIP:
            kind = at.dtype.type
            index = _elementwise.clamp(kind(0), index, kind(aval.shape[i] - 1))
        along = _spread(index, [*map(rows.get, range(len(at.shape) - 1)), None], aval.shape)
        here = _elementwise.eq(along, _shapes.broadcasted_iota(at.dtype, aval.shape, i))
        chosen = here if chosen is None else _elementwise.bitwise_and(chosen, here)
    return chosen, _spread(ct, axes, aval.shape)


def _spread(x: Any, axes: list[int | None], shape: Axes) -> Any:
    """x repeated to a shape. Each axis of x goes along the axis that is named for it; axes without
    a name have size 1."""
    order = sorted((i, n) for n, i in enumerate(axes) if i is not None)
    x = _structure.transpose(
        x, [*(n for _, n in order), *(n for n, i in enumerate(axes) if i is None)]
    )
    kept = [i for i, _ in order]
    return _shapes.broadcast_in_dim(
        _structure.reshape(x, [x.shape[n] for n in range(len(kept))]), shape, kept
    )
