"""Between BCOO buffers and dense arrays: `bcoo_todense`, `bcoo_fromdense`, `bcoo_extract`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse import util
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.defined import defined
from teucer._sparse.layout import validate_bcoo
from teucer._sparse.places import first_of_each
from teucer._sparse.util import SparseInfo, nfold_vmap, split_shape

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike


def columns(indices: Any) -> tuple[Any, ...]:
    """The components of index vectors: int[nse, n] -> n arrays int[nse]."""
    return tuple(indices[:, k] for k in range(indices.shape[-1]))


@defined("bcoo_todense")
def bcoo_todense_p(data: Array, indices: ArrayLike, *, spinfo: SparseInfo) -> tuple[Any, ...]:
    """T[*batch, nse, *dense], int[*batch, nse, n_sparse] -> T[shape]."""
    layout = validate_bcoo(data, indices, spinfo.shape)
    element = spinfo.shape[layout.n_batch :]

    def filled(data: Array, indices: Array) -> Any:
        if not layout.n_sparse:
            return data.sum(0, dtype=data.dtype)
        return (
            jnp.zeros(element, data.dtype)
            .at[columns(indices)]
            .add(data, mode="drop", unique_indices=False, indices_are_sorted=spinfo.indices_sorted)
        )

    return (jnp.broadcast_to(nfold_vmap(filled, layout.n_batch)(data, indices), spinfo.shape),)


@defined("bcoo_fromdense", several=True)
def bcoo_fromdense_p(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: DTypeLike
) -> tuple[Any, ...]:
    """T[*batch, *sparse, *dense] -> T[*batch, nse, *dense], int[*batch, nse, n_sparse]."""
    _, sparse, _ = split_shape(mat.shape, n_batch, mat.ndim - n_batch - n_dense)

    def taken(mat: Any, mask: Array) -> Any:
        if not sparse:
            data = jnp.zeros((nse, *mat.shape), mat.dtype)
            return data.at[:1].set(mat), jnp.zeros((nse, 0), index_dtype)
        where = jnp.nonzero(mask, size=nse, fill_value=sparse)
        data = mat.at[where].get(mode="fill", fill_value=0)
        return data, jnp.stack(where, 1).astype(index_dtype)

    return nfold_vmap(taken, n_batch, broadcasted=False)(
        mat, util.stored_mask(mat, n_batch, n_dense)
    )


@defined("bcoo_extract")
def bcoo_extract_p(indices: Any, mat: Any, *, assume_unique: bool) -> tuple[Any, ...]:
    """int[*batch, nse, n_sparse], T[*batch, *sparse, *dense] -> T[*batch, nse, *dense]."""
    n_sparse = indices.shape[-1]

    def taken(indices: Any, mat: Any) -> Any:
        data = mat.at[columns(indices)].get(mode="fill", fill_value=0) if n_sparse else mat[None]
        data = jnp.broadcast_to(data, (indices.shape[0], *mat.shape[n_sparse:]))
        if not assume_unique:
            once = first_of_each(indices, mat.shape[:n_sparse])
            data = jnp.where(lax.expand_dims(once, range(1, data.ndim)), data, jnp.zeros_like(data))
        return data

    return (nfold_vmap(taken, indices.ndim - 2)(indices, mat),)


def _bcoo_todense(data: ArrayLike, indices: Array, *, spinfo: SparseInfo) -> Any:
    """`bcoo_todense` of buffers."""
    return bcoo_todense_p.call(jnp.asarray(data), jnp.asarray(indices), spinfo=spinfo)[0]


@tracebacks.api_boundary
def bcoo_todense(mat: BCOO) -> Any:
    """The dense array of a BCOO array.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _bcoo_todense(*mat._bufs, spinfo=mat._info)


def _bcoo_fromdense(
    mat: object,
    *,
    nse: object = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> tuple[Any, Any]:
    """`bcoo_fromdense` as buffers."""
    mat = jnp.asarray(mat)
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_fromdense: n_batch={n_batch} and n_dense={n_dense} do not fit an array with "
            f"{mat.ndim} axes."
        )
    if nse is None:
        counted = util._count_stored_elements(mat, n_batch, n_dense)
        nse = util.known(
            counted,
            (
                "bcoo_fromdense: nse, the number of elements to store, must be given where the "
                "array is traced."
            ),
        )
    nse = operator.index(util.known(nse, "bcoo_fromdense: nse must be known statically.").item())
    if nse < 0:
        raise ValueError(f"bcoo_fromdense: nse must not be negative, got {nse}.")
    data, indices = bcoo_fromdense_p.call(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return data, indices


@tracebacks.api_boundary
def bcoo_fromdense(
    mat: object,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: DTypeLike = jnp.int32,
) -> BCOO:
    """A BCOO array of the elements of a dense array that are not zero.

    mat: T[*batch, *sparse, *dense]. nse: how many elements each batch element stores, needed where
    mat is traced; more than there are gives padding, fewer loses the last. n_batch, n_dense: how
    many dimensions are batch and dense ones. Raises ConcretizationTypeError if nse is missing and
    mat is traced; ValueError if numbers do not fit.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[0., 2.], [0., 0.]]), nse=2).indices
    Array([[0, 1],
           [2, 2]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    bufs = _bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCOO(bufs, shape=mat.shape, indices_sorted=True, unique_indices=True)


def _bcoo_extract(indices: Array, arr: ArrayLike, *, assume_unique: bool = True) -> Any:
    """`bcoo_extract` of indices, as data."""
    indices, arr = jnp.asarray(indices), jnp.asarray(arr)
    if arr.ndim < indices.ndim - 2 + indices.shape[-1]:
        raise ValueError(
            f"bcoo_extract: indices.shape={indices.shape} name more axes than "
            f"arr.shape={arr.shape} has."
        )
    return bcoo_extract_p.call(indices, arr, assume_unique=bool(assume_unique))[0]


@tracebacks.api_boundary
def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the places of a sparse one.

    arr: of the shape of sparr. assume_unique: if False, of elements that stand at one place the
    first gets the value and the others 0; by default as sparr's attributes say.
    Raises TypeError if sparr is no BCOO array, ValueError if the shapes differ.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_extract(sparse.eye(2), jnp.array([[1., 2.], [3., 4.]])).data
    Array([1., 4.], dtype=float32)
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(f"bcoo_extract: sparr must be a BCOO array, got {type(sparr).__name__}.")
    if np.shape(arr) != sparr.shape:
        raise ValueError(
            f"bcoo_extract: shapes differ.\n    sparr: {sparr.shape}\n    arr: {np.shape(arr)}"
        )
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    data = _bcoo_extract(sparr.indices, arr, assume_unique=unique)
    return BCOO(
        (data, sparr.indices),
        shape=sparr.shape,
        indices_sorted=sparr.indices_sorted,
        unique_indices=sparr.unique_indices,
    )
