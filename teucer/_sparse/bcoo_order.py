"""The order of BCOO buffers: `bcoo_transpose`, `bcoo_sort_indices`, `bcoo_sum_duplicates`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse import places as _places
from teucer._sparse import util
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.defined import defined
from teucer._sparse.layout import validate_bcoo
from teucer._sparse.util import SparseInfo, nfold_vmap, split_shape

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike


@defined("bcoo_transpose", several=True)
def bcoo_transpose_p(
    data: ArrayLike, indices: ArrayLike, *, permutation: tuple[int, ...], spinfo: SparseInfo
) -> tuple[Any, ...]:
    """Buffers of the array with its axes permuted."""
    layout = validate_bcoo(data, indices, spinfo.shape)
    batch, sparse, dense = _split_permutation(permutation, layout)
    n = layout.n_batch
    columns = [s - n for s in sparse]
    return (
        lax.transpose(data, (*batch, n, *(d - layout.n_sparse + 1 for d in dense))),
        lax.transpose(indices, (*batch, n, n + 1))[..., np.array(columns, int)],
    )


@defined("bcoo_sort_indices", several=True)
def bcoo_sort_indices_p(
    data: ArrayLike, indices: ArrayLike, *, spinfo: SparseInfo
) -> tuple[Any, ...]:
    """Buffers with the index vectors of each batch element in lexicographic order; those out of
    bounds are the last."""
    layout = validate_bcoo(data, indices, spinfo.shape)
    _, sparse, _ = split_shape(spinfo.shape, layout.n_batch, layout.n_sparse)
    permutation = nfold_vmap(lambda i: _places.order(i, sparse)[0], layout.n_batch)(indices)
    pick = nfold_vmap(lambda x, p: x[p], layout.n_batch)
    return pick(data, permutation), pick(indices, permutation)


@defined("bcoo_sum_duplicates", several=True)
def bcoo_sum_duplicates_p(
    data: Any, indices: Array, *, spinfo: SparseInfo, nse: int
) -> tuple[Any, ...]:
    """Buffers of nse elements in lexicographic order, one for each place; the rest is padding."""
    layout = validate_bcoo(data, indices, spinfo.shape)
    _, sparse, _ = split_shape(spinfo.shape, layout.n_batch, layout.n_sparse)

    def merged(indices: Array) -> Any:
        found = _places.groups(indices, sparse)
        target = jnp.where(found.starts, found.group, nse)
        places = jnp.broadcast_to(jnp.asarray(sparse, indices.dtype), (nse, layout.n_sparse))
        places = places.at[target].set(indices[found.permutation], mode="drop")
        return places, found.permutation, found.group

    def summed(data: Any, permutation: Any, group: Any) -> Any:
        out = jnp.zeros((nse, *data.shape[1:]), data.dtype)
        return out.at[group].add(data[permutation], mode="drop", indices_are_sorted=True)

    places, permutation, group = nfold_vmap(merged, layout.n_batch)(indices)
    return nfold_vmap(summed, layout.n_batch)(data, permutation, group), places


def _split_permutation(
    permutation: Sequence[int], layout: Any
) -> tuple[list[int], list[int], list[int]]:
    batch, sparse, dense = split_shape(permutation, layout.n_batch, layout.n_sparse)
    n, m = layout.n_batch, layout.n_batch + layout.n_sparse
    if any(p >= n for p in batch) or any(not n <= p < m for p in sparse):
        raise NotImplementedError(
            "bcoo_transpose: permutation of batch, sparse and dense axes among each other is not "
            f"supported, got {tuple(permutation)} for n_batch={n}, n_sparse={layout.n_sparse}, "
            f"n_dense={layout.n_dense}.\n  Change the kinds of axes first, by bcoo_update_layout."
        )
    return list(batch), list(sparse), list(dense)


@tracebacks.api_boundary
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """A BCOO array with its axes permuted: axis i of the result is axis permutation[i].

    Batch, sparse and dense axes are permuted among their kind.
    Raises ValueError if permutation is none of the axes, NotImplementedError if it mixes kinds.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_transpose(sparse.BCOO.fromdense(jnp.ones((2, 3))), permutation=(1, 0)).shape
    (3, 2)
    """
    axes = tuple(operator.index(p) for p in permutation)
    if sorted(axes) != list(range(mat.ndim)):
        raise ValueError(
            f"bcoo_transpose: permutation {axes} is no permutation of the axes of {mat!r}."
        )
    data, indices = bcoo_transpose_p.call(*mat._bufs, permutation=axes, spinfo=mat._info)
    _, sparse, _ = split_shape(axes, mat.n_batch, mat.n_sparse)
    return BCOO(
        (data, indices),
        shape=tuple(mat.shape[p] for p in axes),
        unique_indices=mat.unique_indices,
        indices_sorted=mat.indices_sorted and list(sparse) == sorted(sparse),
    )


@tracebacks.api_boundary
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """A BCOO array whose indices are in lexicographic order.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCOO((jnp.array([1., 2.]), jnp.array([[3], [0]])), shape=(4,))
    >>> sparse.bcoo_sort_indices(M).data
    Array([2., 1.], dtype=float32)
    """
    data, indices = bcoo_sort_indices_p.call(*mat._bufs, spinfo=mat._info)
    return BCOO(
        (data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


@tracebacks.api_boundary
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """A BCOO array with each place once, in lexicographic order; elements of one place are added.

    nse: how many elements each batch element stores, needed where the indices are traced; more than
    there are gives padding, fewer loses the last.
    Raises ConcretizationTypeError if nse is missing and the indices are traced.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCOO((jnp.array([1., 2.]), jnp.array([[3], [3]])), shape=(4,))
    >>> sparse.bcoo_sum_duplicates(M).data
    Array([3.], dtype=float32)
    """
    data, indices = _bcoo_sum_duplicates(*mat._bufs, spinfo=mat._info, nse=nse)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def _bcoo_sum_duplicates(
    data: Array, indices: Array, *, spinfo: SparseInfo, nse: int | None
) -> tuple[Any, Any]:
    if nse is None:
        nse = int(
            util.known(
                count_places(indices, spinfo.shape),
                "bcoo_sum_duplicates: nse must be given where the indices are traced.",
            )
        )
    data, indices = bcoo_sum_duplicates_p.call(
        data, indices, spinfo=spinfo, nse=operator.index(nse)
    )
    return data, indices


def count_places(indices: Array, shape: Sequence[int]) -> Any:
    """The number of different places within the array, the most of all batch elements."""
    n_batch = indices.ndim - 2
    _, sparse, _ = split_shape(shape, n_batch, indices.shape[-1])
    counts = nfold_vmap(lambda i: _places.groups(i, sparse).count, n_batch)(indices)
    return counts.max(initial=0)


@tracebacks.api_boundary
def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """As `bcoo_sum_duplicates`, of the stored elements that are not zero.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCOO((jnp.array([0., 2.]), jnp.array([[1], [3]])), shape=(4,))
    >>> sparse.bcoo.bcoo_eliminate_zeros(M).nse
    1
    """
    n = mat.n_batch
    stored = (mat.data != 0).any(tuple(range(n + 1, mat.data.ndim)))
    shared = tuple(i for i in range(n) if mat.indices.shape[i] == 1 and stored.shape[i] > 1)
    if shared:  # indices that batch elements share stay if one of them needs them
        stored = stored.any(shared, keepdims=True)
    outside = jnp.asarray(mat.shape[n : n + mat.n_sparse], mat.indices.dtype)
    indices = jnp.where(stored[..., None], mat.indices, outside)
    if not mat.n_sparse:  # nowhere is out of bounds: zeros are stored all the same
        return bcoo_sum_duplicates(mat, nse)
    return bcoo_sum_duplicates(BCOO((mat.data, indices), shape=mat.shape), nse)
