"""Parts of BCOO arrays: slices, slices at places that are data, gathers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse import places
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_layout import bcoo_update_layout
from teucer._sparse.bcoo_order import bcoo_sum_duplicates, bcoo_transpose
from teucer._sparse.bcoo_shapes import bcoo_squeeze, full_batch
from teucer._transform.vmap import vmap
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Value


@tracebacks.api_boundary
def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A part of a BCOO array: as `lax.slice`. No more elements are stored than there are places.

    Raises ValueError if numbers do not fit the axes.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_slice(sparse.eye(4), start_indices=(0, 1), limit_indices=(4, 4), strides=(1, 2))
    BCOO(float32[4, 2], nse=4)
    """
    starts, limits = ([operator.index(i) for i in x] for x in (start_indices, limit_indices))
    steps = [1] * mat.ndim if strides is None else [operator.index(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim or any(
        not 0 <= a <= b <= n or s < 1
        for a, b, s, n in zip(starts, limits, steps, mat.shape, strict=True)
    ):
        raise ValueError(
            f"bcoo_slice: start_indices={tuple(starts)}, limit_indices={tuple(limits)}, "
            f"strides={tuple(steps)} do not fit {mat!r}."
        )
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True))
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = _cut(
        mat, [slice(a, b, s) for a, b, s in zip(starts, limits, steps, strict=True)]
    )
    if (shape[n:m], starts[n:m]) != (mat.shape[n:m], [0] * (m - n)):
        kind, indices = indices.dtype, places.wide(indices)
        first, last, step = (places.row(x[n:m], indices) for x in (starts, limits, steps))
        keep = (indices >= first) & (indices < last) & ((indices - first) % step == 0)
        data, indices = _kept(data, (indices - first) // step, keep.all(-1), shape[n:m])
        indices = indices.astype(kind)
    return _compact(
        BCOO((data, indices), shape=shape, indices_sorted=False, unique_indices=mat.unique_indices)
    )


def _cut(mat: BCOO, slices: Sequence[slice]) -> tuple[Any, Any]:
    """The buffers, with batch and dense axes sliced; batch axes that elements share stay, unless
    nothing is left."""
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse

    def batch(x: Any) -> list[slice]:
        return [s if x.shape[i] == mat.shape[i] else slice(0, 1) for i, s in enumerate(slices[:n])]

    return (
        mat.data[(*batch(mat.data), slice(None), *slices[m:])],
        mat.indices[tuple(batch(mat.indices))],
    )


def _kept(data: Any, indices: Array, keep: Any, sizes: Sequence[int]) -> tuple[Any, Any]:
    """The buffers, in which elements that are not kept are replaced by padding. keep: which
    elements are kept."""
    n = indices.ndim - 2
    indices = places.kept(keep, indices, sizes)
    data = jnp.where(
        lax.expand_dims(keep, range(n + 1, data.ndim)), data, jnp.zeros((), data.dtype)
    )
    return data, indices


def _compact(mat: BCOO) -> BCOO:
    most = math.prod(mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse])
    return bcoo_sum_duplicates(mat, nse=most) if mat.nse > most else mat


@tracebacks.api_boundary
def bcoo_dynamic_slice(
    mat: BCOO, start_indices: Sequence[object], slice_sizes: Sequence[int]
) -> BCOO:
    """A part of a BCOO array that starts where data say: as `lax.dynamic_slice`.

    start_indices: int scalars, one an axis; moved to where the slice fits. slice_sizes: ints.
    Raises ValueError or TypeError if numbers do not fit the axes.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_dynamic_slice(sparse.eye(4), (1, 1), (2, 2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    sizes = tuple(operator.index(i) for i in slice_sizes)
    starts = [jnp.asarray(i) for i in start_indices]
    if len(starts) != mat.ndim or len(sizes) != mat.ndim or any(i.shape for i in starts):
        raise ValueError(
            f"bcoo_dynamic_slice: start_indices and slice_sizes={sizes} must be scalars, one an "
            f"axis of {mat!r}."
        )
    if any(not jnp.issubdtype(i.dtype, np.integer) for i in starts):
        raise TypeError(
            "bcoo_dynamic_slice: start_indices must be integers, got "
            f"{[i.dtype.name for i in starts]}."
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, mat.shape, strict=True)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{sizes} for {mat!r}."
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    starts = [
        jnp.clip(
            jnp.where(i < 0, i + size, i) if jnp.issubdtype(i.dtype, np.signedinteger) else i,
            0,
            size - wanted,
        )
        for i, size, wanted in zip(starts, mat.shape, sizes, strict=True)
    ]
    data, indices = mat._bufs
    for axis in range(n):
        data, indices = (
            lax.dynamic_slice_in_dim(x, starts[axis], sizes[axis], axis)
            if x.shape[axis] == mat.shape[axis]
            else x[(slice(None),) * axis + (slice(0, min(sizes[axis], 1)),)]
            for x in (data, indices)
        )
    for axis in range(m, mat.ndim):
        data = lax.dynamic_slice_in_dim(data, starts[axis], sizes[axis], axis - mat.n_sparse + 1)
    if mat.n_sparse:
        kind, indices = indices.dtype, places.wide(indices)
        first = jnp.stack([i.astype(indices.dtype) for i in starts[n:m]]).reshape(
            (1,) * (indices.ndim - 1) + (-1,)
        )
        keep = (indices >= first) & (indices < first + places.row(sizes[n:m], indices))
        data, indices = _kept(data, indices - first, keep.all(-1), sizes[n:m])
        indices = indices.astype(kind)
    return _compact(
        BCOO((data, indices), shape=sizes, indices_sorted=False, unique_indices=mat.unique_indices)
    )


@tracebacks.api_boundary
def bcoo_gather(
    operand: BCOO,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: ArrayLike | None = None,
) -> BCOO:
    """Slices of a BCOO array at places that indices name: as `lax.gather`. The axes of the indices
    are batch dimensions.

    mode: a slice out of bounds is moved inside ("clip", "promise_in_bounds"), or has no elements
    there ("fill", with the fill_value 0 or none).
    Raises NotImplementedError for another fill_value, ValueError for axes that do not fit.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.eye(4)[jnp.array([2, 3])].todense()
    Array([[0., 0., 1., 0.],
           [0., 0., 0., 1.]], dtype=float32)
    """
    d, sizes = dimension_numbers, tuple(operator.index(s) for s in slice_sizes)
    wanted = GatherScatterMode.from_any(mode)
    if fill_value not in (None, 0) and wanted is GatherScatterMode.FILL_OR_DROP:
        raise NotImplementedError(
            f"bcoo_gather: what is not stored is 0; got fill_value={fill_value}.\n"
            "  Leave it out, or gather from todense()."
        )
    if d.operand_batching_dims or d.start_indices_batching_dims:
        raise NotImplementedError(
            f"bcoo_gather: batching dimensions are not supported.\n    dimension_numbers: {d}\n"
            "  Gather from todense()."
        )
    starts = jnp.asarray(start_indices)
    batch = starts.shape[:-1]
    count = math.prod(batch)
    rows = starts.reshape(count, starts.shape[-1])
    full = [jnp.zeros(count, starts.dtype)] * operand.ndim
    for k, axis in enumerate(d.start_index_map):
        full[axis] = rows[:, k]
    inside = jnp.ones(count, bool)
    if wanted is GatherScatterMode.FILL_OR_DROP:
        for axis, start in enumerate(full):
            inside = inside & (start >= 0) & (start <= operand.shape[axis] - sizes[axis])
    # A negative start is out of bounds here. It does not count from the end.
    full = [jnp.maximum(start, 0) for start in full]
    whole = BCOO(full_batch(operand), shape=operand.shape, unique_indices=operand.unique_indices)
    return _stacked(whole, full, sizes, d, inside, batch)


def _stacked(
    mat: BCOO,
    starts: Sequence[object],
    sizes: tuple[int, ...],
    d: GatherDimensionNumbers,
    inside: object,
    batch: tuple[int, ...],
) -> BCOO:
    """The slices, mapped over the starts, as one array."""
    found: list[tuple[Any, bool]] = []

    def one(inside: object, *starts: Value) -> tuple[Any, Any]:
        part = bcoo_squeeze(
            bcoo_dynamic_slice(mat, starts, sizes), dimensions=d.collapsed_slice_dims
        )
        found[:] = [(part.shape, part.unique_indices)]
        return jnp.where(inside, part.data, jnp.zeros((), part.data.dtype)), part.indices

    data, indices = vmap(one)(inside, *starts)
    ((shape, is_unique),) = found
    data, indices = (x.reshape(*batch, *x.shape[1:]) for x in (data, indices))
    out = BCOO((data, indices), shape=(*batch, *shape), unique_indices=is_unique)
    order = [a for a in range(out.ndim) if a not in d.offset_dims]
    source = [*order, *d.offset_dims]
    permutation = [source.index(a) for a in range(out.ndim)]
    if permutation == list(range(out.ndim)):
        return out
    batches = [a < out.n_batch for a in permutation]
    if batches != sorted(
        batches, reverse=True
    ):  # axes of indices behind the axes of slices are sparse ones
        out = bcoo_update_layout(out, n_batch=0, n_dense=0)
    return bcoo_transpose(out, permutation=permutation)
