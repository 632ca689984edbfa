"""Changes of the layout of BCOO arrays.

Batch and dense dimensions become sparse ones, and the other way round.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse import places
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_order import bcoo_sum_duplicates
from teucer._sparse.bcoo_shapes import full_batch
from teucer._sparse.util import SparseEfficiencyError, SparseEfficiencyWarning

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike


@tracebacks.api_boundary
def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """A BCOO array with other numbers of batch and dense dimensions; its elements are the same.

    n_batch, n_dense: by default as they are. on_inefficient: "error", "warn" or None, where the
    result would store many zeros: where dimensions of size 2 and more become batch or dense ones.
    Raises SparseEfficiencyError if on_inefficient is "error"; ValueError if numbers do not fit.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_update_layout(sparse.eye(3, n_batch=1), n_batch=0)
    BCOO(float32[3, 3], nse=3)
    """
    batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(
            "bcoo_update_layout: on_inefficient must be 'error', 'warn' or None, got "
            f"{on_inefficient!r}."
        )
    if batch < 0 or dense < 0 or batch + dense > mat.ndim:
        raise ValueError(
            f"bcoo_update_layout: n_batch={batch} and n_dense={dense} do not fit {mat!r}."
        )
    grown = mat.shape[mat.n_batch : batch] + mat.shape[mat.ndim - dense : mat.ndim - mat.n_dense]
    if on_inefficient is not None and any(size > 1 for size in grown):
        message = (
            f"bcoo_update_layout from (n_batch, n_dense) = {(mat.n_batch, mat.n_dense)} to "
            f"{(batch, dense)} stores many zeros.\n    array: {mat!r}\n"
            "  Say on_inefficient=None if this is what you want."
        )
        if on_inefficient == "error":
            raise SparseEfficiencyError(message)
        warnings.warn(message, SparseEfficiencyWarning, stacklevel=3)
    if (batch, dense) == (mat.n_batch, mat.n_dense):
        return mat
    data, indices = full_batch(mat)
    shape, n = mat.shape, mat.n_batch
    if dense < mat.n_dense:
        data, indices = _dense_to_sparse(data, indices, mat.n_dense - dense)
    if batch < n:
        data, indices = _batch_to_sparse(data, indices, batch)
        n = batch
    if dense > mat.n_dense:
        data, indices = _sparse_to_dense(
            data, indices, shape[mat.ndim - dense : mat.ndim - mat.n_dense]
        )
    if batch > n:
        data, indices = _sparse_to_batch(
            data, indices, shape[n:batch], shape[batch : mat.ndim - dense]
        )
    out = BCOO((data, indices), shape=shape)
    most = math.prod(shape[batch : mat.ndim - dense])
    return bcoo_sum_duplicates(out, nse=most) if out.nse > most else out


def _grid(sizes: Sequence[int], dtype: DTypeLike) -> Any:
    """All index vectors of an array: int[prod(sizes), len(sizes)]."""
    return jnp.asarray(np.indices(sizes).reshape(len(sizes), -1).T, dtype)


def _dense_to_sparse(data: Array, indices: Array, k: int) -> tuple[Any, Any]:
    """The first k dense dimensions become the last sparse ones."""
    n, nse = indices.ndim - 2, indices.shape[-2]
    sizes = data.shape[n + 1 : n + 1 + k]
    grid = _grid(sizes, indices.dtype)
    times = len(grid)
    both = (*indices.shape[:-1], times)
    indices = jnp.concatenate(
        [
            jnp.broadcast_to(indices[..., None, :], (*both, indices.shape[-1])),
            jnp.broadcast_to(grid, (*both, k)),
        ],
        -1,
    )
    return (
        data.reshape(*data.shape[:n], nse * times, *data.shape[n + 1 + k :]),
        indices.reshape(*indices.shape[:n], nse * times, indices.shape[-1]),
    )


def _batch_to_sparse(data: Array, indices: Array, n: int) -> tuple[Any, Any]:
    """The batch dimensions from n on become the first sparse ones."""
    end = indices.ndim - 2
    sizes = indices.shape[n:end]
    grid = _grid(sizes, indices.dtype).reshape(*sizes, 1, len(sizes))
    grid = jnp.broadcast_to(grid, (*indices.shape[:-1], len(sizes)))
    indices = jnp.concatenate([grid, indices], -1)
    nse = math.prod(indices.shape[n:-1])
    return (
        data.reshape(*data.shape[:n], nse, *data.shape[end + 1 :]),
        indices.reshape(*indices.shape[:n], nse, indices.shape[-1]),
    )


def _sparse_to_dense(data: Array, indices: Array, sizes: Sequence[int]) -> tuple[Any, Any]:
    """The last sparse dimensions, of the sizes given, become the first dense ones."""
    n, k = indices.ndim - 2, len(sizes)
    rest, last = indices[..., : indices.shape[-1] - k], indices[..., indices.shape[-1] - k :]
    hit = jnp.ones((*last.shape[:-1], *sizes), bool)
    for i in range(k):
        at = lax.expand_dims(last[..., i], range(n + 1, n + 1 + k))
        hit = hit & (at == lax.broadcasted_iota(indices.dtype, hit.shape, n + 1 + i))
    data = lax.expand_dims(data, range(n + 1, n + 1 + k))
    hit = lax.expand_dims(hit, range(hit.ndim, data.ndim))
    return jnp.where(hit, data, jnp.zeros((), data.dtype)), rest


def _sparse_to_batch(
    data: Array, indices: Array, sizes: Sequence[int], rest: Sequence[int]
) -> tuple[Any, Any]:
    """The first sparse dimensions, of the sizes given, become the last batch ones."""
    n, k = indices.ndim - 2, len(sizes)
    first, others = indices[..., :k], indices[..., k:]
    shape = (*indices.shape[:n], *sizes, indices.shape[n])
    hit = jnp.ones(shape, bool)
    for i in range(k):
        at = lax.expand_dims(first[..., i], range(n, n + k))
        hit = hit & (at == lax.broadcasted_iota(indices.dtype, shape, n + i))
    data = lax.expand_dims(data, range(n, n + k))
    data = jnp.where(
        lax.expand_dims(hit, range(hit.ndim, data.ndim)), data, jnp.zeros((), data.dtype)
    )
    others = places.kept(hit, lax.expand_dims(others, range(n, n + k)), rest)
    return data, others
