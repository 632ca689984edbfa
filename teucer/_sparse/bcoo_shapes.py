"""The shape and the layout of BCOO arrays."""

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
from teucer._sparse.bcoo_order import bcoo_transpose

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike


def full_batch(mat: BCOO) -> tuple[Any, Any]:
    """The buffers, with batch axes that all elements share repeated."""
    batch = mat.shape[: mat.n_batch]
    return (
        jnp.broadcast_to(mat.data, (*batch, *mat.data.shape[mat.n_batch :])),
        jnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[mat.n_batch :])),
    )


@tracebacks.api_boundary
def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: object = None
) -> BCOO:
    """A BCOO array with new axes, and axes of size 1 repeated: as `lax.broadcast_in_dim`.

    New axes before the first that is not a batch dimension are batch dimensions, those behind a
    dense one are dense, and the others sparse. Raises ValueError if sizes do not fit,
    NotImplementedError for a sharding.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    _no_sharding("bcoo_broadcast_in_dim", sharding)
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if len(dims) != mat.ndim or any(mat.shape[i] not in (1, shape[d]) for i, d in enumerate(dims)):
        raise ValueError(
            f"bcoo_broadcast_in_dim: {mat!r} does not fit shape={shape} by "
            f"broadcast_dimensions={dims}."
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    kept_sparse, kept_dense = dims[n:m], dims[m:]
    start_dense = min(kept_dense) if kept_dense else len(shape)
    n_batch = min(kept_sparse) if kept_sparse else start_dense
    data, indices = full_batch(mat)
    batch = shape[:n_batch]
    where = list(dims[:n])
    data = _with_axes(data, where, batch, n)
    indices = _with_axes(indices, where, batch, n)
    dense = shape[start_dense:]
    data = lax.broadcast_in_dim(
        data,
        (*data.shape[: n_batch + 1], *dense),
        (*range(n_batch + 1), *(d - start_dense + n_batch + 1 for d in kept_dense)),
    )
    sparse = range(n_batch, start_dense)
    source = {d: i for i, d in enumerate(kept_sparse)}
    repeated = [d for d in sparse if shape[d] != (mat.shape[dims.index(d)] if d in source else 1)]
    data, indices = _with_sparse(
        data,
        indices,
        [source.get(d) for d in sparse],
        [shape[d] if d in repeated else None for d in sparse],
        [mat.shape[n + i] for i in range(m - n)],
        [shape[d] for d in sparse],
        n_batch,
    )
    same = not repeated
    return BCOO(
        (data, indices),
        shape=shape,
        indices_sorted=mat.indices_sorted and same,
        unique_indices=mat.unique_indices,
    )


def _with_axes(x: Array, where: Sequence[int], batch: Sequence[int], n: int) -> Any:
    """x with its n batch axes at `where` among the axes of `batch`."""
    rest = x.shape[n:]
    return lax.broadcast_in_dim(
        x, (*batch, *rest), (*where, *range(len(batch), len(batch) + len(rest)))
    )


def _with_sparse(
    data: Array,
    indices: Array,
    sources: Sequence[int | None],
    repeats: Sequence[int | None],
    old: Sequence[int],
    new: Sequence[int],
    n: int,
) -> tuple[Any, Any]:
    """Buffers with columns of indices taken from `sources` (None: a new axis). Elements are
    repeated for each place along new axes."""
    valid = places.inside(indices, old)
    counts = [r for r in repeats if r is not None]
    grid = np.indices(counts).reshape(len(counts), -1).T if counts else np.zeros((1, 0), int)
    times = len(grid)
    steps, cols = iter(range(len(counts))), []
    for source, repeat in zip(sources, repeats, strict=True):
        if repeat is not None:
            column = jnp.asarray(grid[:, next(steps)], indices.dtype)
            cols.append(jnp.broadcast_to(column, (*indices.shape[:-1], times)))
        else:
            column = (
                jnp.zeros(indices.shape[:-1], indices.dtype)
                if source is None
                else indices[..., source]
            )
            cols.append(jnp.broadcast_to(column[..., None], (*indices.shape[:-1], times)))
    stacked = (
        jnp.stack(cols, -1) if cols else jnp.zeros((*indices.shape[:-1], times, 0), indices.dtype)
    )
    stacked = places.kept(valid[..., None], stacked, new)
    nse = indices.shape[n] * times
    data = jnp.broadcast_to(
        lax.expand_dims(data, [n + 1]), (*data.shape[: n + 1], times, *data.shape[n + 1 :])
    )
    if not len(new):  # without sparse axes no index can be out of bounds: such elements become 0
        data = jnp.where(
            lax.expand_dims(valid, range(n + 1, data.ndim)), data, jnp.zeros_like(data)
        )
    return (
        data.reshape(*data.shape[:n], nse, *data.shape[n + 2 :]),
        stacked.reshape(*indices.shape[:n], nse, len(new)),
    )


@tracebacks.api_boundary
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """BCOO arrays one after another along an axis.

    operands: of one layout, and of one shape but for the axis. Raises ValueError if they differ.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0)
    BCOO(float32[4, 2], nse=4)
    """
    mats = list(operands)
    if not mats or not all(isinstance(mat, BCOO) for mat in mats):
        raise ValueError("bcoo_concatenate: operands must be BCOO arrays, at least one.")
    first = mats[0]
    axis = operator.index(dimension)
    if not 0 <= axis < first.ndim:
        raise ValueError(
            f"bcoo_concatenate: dimension {dimension} is not among the axes of {first!r}."
        )
    for mat in mats:
        if (
            mat.n_batch != first.n_batch
            or mat.n_dense != first.n_dense
            or _without(mat.shape, axis) != _without(first.shape, axis)
        ):
            raise ValueError(
                f"bcoo_concatenate: operands differ in shape or layout.\n    {first!r}\n    {mat!r}"
            )
    n, m = first.n_batch, first.n_batch + first.n_sparse
    offsets = np.cumsum([0, *(mat.shape[axis] for mat in mats)])
    shape = (*first.shape[:axis], int(offsets[-1]), *first.shape[axis + 1 :])
    bufs = [full_batch(mat) for mat in mats]
    if axis < n:
        nse = max(mat.nse for mat in mats)
        padded = [_padded(data, indices, nse, shape[n:m], n) for data, indices in bufs]
        data, indices = (lax.concatenate([b[i] for b in padded], axis) for i in (0, 1))
        return BCOO(
            (data, indices),
            shape=shape,
            unique_indices=all(mat.unique_indices for mat in mats),
            indices_sorted=all(mat.indices_sorted for mat in mats),
        )
    if axis < m:
        moved = [
            _shifted(mat, indices, axis - n, int(offset), shape[n:m])
            for mat, (_, indices), offset in zip(mats, bufs, offsets, strict=False)
        ]
        return BCOO(
            (lax.concatenate([data for data, _ in bufs], n), lax.concatenate(moved, n)),
            shape=shape,
            unique_indices=all(mat.unique_indices for mat in mats),
        )
    at = axis - first.n_sparse + 1
    widths = [[(0, 0)] * data.ndim for data, _ in bufs]
    for width, mat, offset in zip(widths, mats, offsets, strict=False):
        width[at] = (int(offset), int(offsets[-1] - offset - mat.shape[axis]))
    blocks = [jnp.pad(data, width) for (data, _), width in zip(bufs, widths, strict=True)]
    return BCOO(
        (lax.concatenate(blocks, n), lax.concatenate([indices for _, indices in bufs], n)),
        shape=shape,
    )


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _padded(data: Array, indices: Array, nse: int, sizes: Sequence[int], n: int) -> tuple[Any, Any]:
    """Buffers with padding up to nse elements."""
    more = nse - indices.shape[n]
    if not more:
        return data, indices
    zeros = jnp.zeros((*data.shape[:n], more, *data.shape[n + 1 :]), data.dtype)
    nowhere = jnp.broadcast_to(
        jnp.asarray(list(sizes), indices.dtype), (*indices.shape[:n], more, len(sizes))
    )
    return lax.concatenate([data, zeros], n), lax.concatenate([indices, nowhere], n)


def _shifted(mat: BCOO, indices: ArrayLike, column: int, offset: int, sizes: Sequence[int]) -> Any:
    """Indices moved along one axis. Indices out of bounds stay so in the new sizes."""
    valid = places.inside(indices, mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse])
    step = [0] * len(sizes)
    step[column] = offset
    return places.kept(valid, indices + places.row(step, indices), sizes)


@tracebacks.api_boundary
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """A BCOO array with axes reversed: as `lax.rev`.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_rev(sparse.BCOO.fromdense(jnp.array([0., 5., 0., 0.])), (0,)).indices
    Array([[2]], dtype=int32)
    """
    axes = [operator.index(d) for d in dimensions]
    if len(set(axes)) != len(axes) or any(not 0 <= a < operand.ndim for a in axes):
        raise ValueError(
            f"bcoo_rev: dimensions {tuple(dimensions)} are not distinct axes of {operand!r}."
        )
    data, indices = operand._bufs
    n, m = operand.n_batch, operand.n_batch + operand.n_sparse
    batch = [a for a in axes if a < n]
    data = lax.rev(data, [*batch, *(a - operand.n_sparse + 1 for a in axes if a >= m)])
    indices = lax.rev(indices, batch)
    sparse = [a - n for a in axes if n <= a < m]
    if sparse:
        last = places.row([size - 1 for size in operand.shape[n:m]], indices)
        turned = np.isin(np.arange(m - n), sparse).reshape((1,) * (indices.ndim - 1) + (-1,))
        inside = places.inside(indices, operand.shape[n:m])[..., None]
        indices = jnp.where(inside & turned, last - indices, indices)
    return BCOO(
        (data, indices),
        shape=operand.shape,
        unique_indices=operand.unique_indices,
        indices_sorted=operand.indices_sorted and not sparse,
    )


@tracebacks.api_boundary
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """A BCOO array without some axes of size 1: as `lax.squeeze`.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_squeeze(sparse.BCOO.fromdense(jnp.ones((2, 1, 3))), dimensions=(1,)).shape
    (2, 3)
    """
    axes = {operator.index(d) + (d < 0) * arr.ndim for d in dimensions}
    if len(axes) != len(tuple(dimensions)) or any(
        not 0 <= a < arr.ndim or arr.shape[a] != 1 for a in axes
    ):
        raise ValueError(
            f"bcoo_squeeze: dimensions {tuple(dimensions)} are not distinct axes of size 1 of "
            f"{arr!r}."
        )
    data, indices = arr._bufs
    n, m = arr.n_batch, arr.n_batch + arr.n_sparse
    batch = [a for a in axes if a < n]
    dropped = [a - n for a in axes if n <= a < m]
    if dropped:
        data, indices = without_columns(data, indices, arr.shape[n:m], dropped)
    data = lax.squeeze(data, [*batch, *(a - arr.n_sparse + 1 for a in axes if a >= m)])
    return BCOO(
        (data, lax.squeeze(indices, batch)),
        shape=tuple(s for a, s in enumerate(arr.shape) if a not in axes),
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def without_columns(
    data: Array, indices: Array, sizes: Sequence[int], dropped: Sequence[int]
) -> tuple[Any, Any]:
    """Buffers whose indices lack some components. Elements out of bounds along any axis stay so, or
    become 0."""
    n = indices.ndim - 2
    kept = [k for k in range(len(sizes)) if k not in dropped]
    inside = places.inside(indices, sizes)
    indices = places.kept(inside, indices[..., np.array(kept, int)], [sizes[k] for k in kept])
    if not kept:
        data = jnp.where(
            lax.expand_dims(inside, range(n + 1, data.ndim)), data, jnp.zeros_like(data)
        )
    return data, indices


@tracebacks.api_boundary
def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: object = None,
) -> BCOO:
    """A BCOO array with the same elements in another shape: as `lax.reshape`.

    dimensions: a permutation of the axes to begin with. Batch, sparse and dense axes do not mix.
    Raises ValueError if they would, or the number of elements differs; NotImplementedError where
    batch elements share buffers, and for a sharding.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_reshape(sparse.eye(2), new_sizes=(4,)).indices
    Array([[0],
           [3]], dtype=int32)
    """
    _no_sharding("bcoo_reshape", sharding)
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new = tuple(operator.index(n) for n in new_sizes)
    if math.prod(new) != mat.size:
        raise TypeError(
            f"cannot reshape array of shape {mat.shape} (size {mat.size}) into shape {new} (size "
            f"{math.prod(new)})"
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = _split_sizes(mat, new)
    if mat.data.shape[:n] != mat.shape[:n] or mat.indices.shape[:n] != mat.shape[:n]:
        if batch != mat.shape[:n]:
            raise NotImplementedError(
                "reshape of arrays with broadcasted batch dimensions.\n"
                f"    data: {mat.data.shape}\n    indices: {mat.indices.shape}\n"
                f"    shape: {mat.shape}\n"
                "  Make the batch dimensions sparse first: update_layout(n_batch=0)."
            )
        data, indices = full_batch(mat)
    else:
        data, indices = mat._bufs
    old = mat.shape[n:m]
    inside = places.inside(indices, old)
    moved = _moved_places(places.wide(indices), old, sparse).astype(indices.dtype)
    indices = places.kept(inside, moved, sparse)
    return BCOO(
        (data.reshape(*batch, mat.nse, *dense), indices.reshape(*batch, mat.nse, len(sparse))),
        shape=(*batch, *sparse, *dense),
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def _split_sizes(
    mat: BCOO, new: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """New sizes by kind of axis: each kind keeps its number of elements."""
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    kinds = [math.prod(s) for s in (mat.shape[:n], mat.shape[n:m], mat.shape[m:])]
    starts = range(len(new) + 1)
    # The new sizes are divided into batch, sparse and dense. If there are several ways, take the
    # one with as many axes of each kind as before.
    ways = [
        (i, j)
        for i in starts
        for j in starts[i:]
        if [math.prod(new[:i]), math.prod(new[i:j]), math.prod(new[j:])] == kinds
    ]
    ways = [
        (i, j)
        for i, j in ways
        if (n or i == 0) and (mat.n_dense or j == len(new)) and (mat.n_sparse or i == j)
    ] or ways
    if not ways:
        mixed = "batch and sparse" if n else "sparse and dense"
        raise ValueError(
            f"bcoo_reshape: cannot mix {mixed} dimensions.\n    array: {mat!r}\n"
            f"    new sizes: {new}"
        )
    i, j = min(ways, key=lambda way: (abs(way[0] - n) + abs(len(new) - way[1] - mat.n_dense), way))
    return new[:i], new[i:j], new[j:]


def _moved_places(indices: Array, old: Sequence[int], new: Sequence[int]) -> Any:
    """Index vectors of the same elements in another shape, axes that go together at a time: numbers
    stay small."""
    cols: list[Any] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = i + 1, j + 1
        while math.prod(old[i:a]) != math.prod(new[j:b]):
            a, b = (
                (a + 1, b)
                if b > len(new) or (a <= len(old) and math.prod(old[i:a]) < math.prod(new[j:b]))
                else (a, b + 1)
            )
            if a > len(old) and b > len(new):
                a, b = len(old), len(new)
                break
        flat = jnp.zeros(indices.shape[:-1], indices.dtype)
        for k in range(i, min(a, len(old))):
            flat = flat * old[k] + indices[..., k]
        rest = []
        for size in reversed(new[j:b]):
            rest.append(flat % max(size, 1))
            flat = flat // max(size, 1)
        cols += reversed(rest)
        i, j = a, b
    return jnp.stack(cols, -1) if cols else jnp.zeros((*indices.shape[:-1], 0), indices.dtype)


def _no_sharding(op: str, sharding: object) -> None:
    if sharding is not None:
        raise NotImplementedError(
            f"{op}: sparse arrays have no sharding of their own.\n    sharding: {sharding}\n"
            "  Leave it out, and lay out the buffers: mat.data and mat.indices."
        )
