"""Batched CSR arrays: the class, and the functions and primitives on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import tracebacks
from teucer._sparse.bcoo_arith import bcoo_dot_general
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_dense import _bcoo_extract, _bcoo_fromdense, _bcoo_todense
from teucer._sparse.bcoo_dot import _bcoo_dot_general
from teucer._sparse.bcoo_order import bcoo_eliminate_zeros, bcoo_sum_duplicates
from teucer._sparse.bcoo_shapes import bcoo_broadcast_in_dim, bcoo_concatenate
from teucer._sparse.bcsr_array import BCSR, _bcoo_to_bcsr, _bcsr_to_bcoo
from teucer._sparse.contraction import as_numbers, product_dtype
from teucer._sparse.defined import defined
from teucer._sparse.util import SparseInfo
from teucer._xla.platforms.sparse import CSR_PRODUCT
from teucer.lax._foreign.calls import ffi_call

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DType, DTypeLike, Params
    from teucer._devices.specs import OutSharding
    from teucer.lax._precision import PrecisionLike


_KERNEL_DTYPES = ("float32", "float64", "complex64", "complex128")


@defined("bcsr_fromdense", several=True)
def bcsr_fromdense_p(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: DType
) -> tuple[Any, ...]:
    """T[*batch, rows, columns, *dense] -> data, indices, indptr."""
    data, indices = _bcoo_fromdense(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return data, *_bcoo_to_bcsr(indices, shape=mat.shape, index_dtype=index_dtype)


@defined("bcsr_todense")
def bcsr_todense_p(
    data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, *, spinfo: SparseInfo
) -> tuple[Any, ...]:
    """Buffers -> T[shape]."""
    return (_bcoo_todense(data, _bcsr_to_bcoo(indices, indptr, shape=spinfo.shape), spinfo=spinfo),)


@defined("bcsr_extract")
def bcsr_extract_p(indices: Array, indptr: Array, mat: Any) -> tuple[Any, ...]:
    """The elements of a dense array at places."""
    return (_bcoo_extract(_bcsr_to_bcoo(indices, indptr, shape=mat.shape), mat),)


def _product(
    data: ArrayLike,
    indices: Any,
    indptr: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any,
    preferred_element_type: DTypeLike,
    lhs_spinfo: SparseInfo,
) -> Any:
    places = _bcsr_to_bcoo(indices, indptr, shape=lhs_spinfo.shape)
    return _bcoo_dot_general(
        data,
        places,
        rhs,
        dimension_numbers=dimension_numbers,
        lhs_spinfo=lhs_spinfo,
        preferred_element_type=preferred_element_type,
    )


def _by_rows(data: Any, indices: Array, indptr: Array, rhs: Array, params: Params) -> Any:
    """The product of a matrix and a vector or matrix, all rows at a time: the k-th element of each,
    for every k.

    Where some rows are far longer than others that would take long, and elements are gone through
    one by one.
    """
    dtype = product_dtype(data, rhs, params["preferred_element_type"])
    start, length = indptr[:-1], indptr[1:] - indptr[:-1]
    most = length.max(initial=0)

    def step(carry: tuple[Any, Any]) -> tuple[Any, Any]:
        k, total = carry
        inside = k < length
        at = jnp.where(inside, start + k, jnp.zeros_like(start))
        factor = jnp.where(inside, data[at].astype(dtype), jnp.zeros((), dtype))
        block = rhs.at[indices[at]].get(mode="fill", fill_value=0).astype(dtype)
        return k + jnp.ones_like(k), total + lax.expand_dims(factor, range(1, rhs.ndim)) * block

    def rows() -> Any:
        zeros = jnp.zeros((length.shape[0], *rhs.shape[1:]), dtype)
        return lax.while_loop(lambda carry: carry[0] < most, step, (jnp.zeros_like(most), zeros))[1]

    looked_at = most.astype(np.float32) * np.float32(length.shape[0])
    even = looked_at <= np.float32((4 if rhs.ndim == 1 else 2) * indices.shape[0] + 1000)
    return lax.cond(even, rows, lambda: _product(data, indices, indptr, rhs, **params))


def _by_kernel(data: Array, indices: Array, indptr: Array, rhs: Array) -> Any:
    """The same by jaxlib's kernel, which trusts the places."""
    shape = (indptr.shape[0] - 1, *rhs.shape[1:])
    call = ffi_call(CSR_PRODUCT, ShapeDtypeStruct(shape, data.dtype))
    return call(data, indptr, indices, rhs)


def _are_within(indices: Any, indptr: Array, columns: int) -> Any:
    """Whether every place is inside the matrix. An index beyond it is padding, which the kernel
    does not know."""
    # Read as unsigned, negative numbers are large, so one maximum shows both kinds of error.
    place, length = (
        lax.bitcast_convert_type(v, np.uint32) for v in (indices, indptr[1:] - indptr[:-1])
    )
    nse = indices.shape[0]
    rising = jnp.max(length, initial=np.uint32(0)) <= nse
    return (jnp.max(place) < columns) & rising & (indptr[0] >= 0) & (indptr[-1] <= nse)


def _quick(data: Any, indices: Any, indptr: Any, rhs: Any, **params: Any) -> tuple[Any, ...]:
    """The product of a matrix and a vector or matrix by the platform's fastest kernel; other
    products by the definition."""
    matrix = indptr.ndim == data.ndim == 1 and rhs.ndim <= 2 and indices.shape[0] > 0
    if not matrix or params["dimension_numbers"] != (((1,), (0,)), ((), ())):
        return (_product(data, indices, indptr, rhs, **params),)

    def by_rows(data: Any, indices: Any, indptr: Any, rhs: Any) -> Any:
        return _by_rows(data, indices, indptr, rhs, params)

    dtype = product_dtype(data, rhs, params["preferred_element_type"])
    sizes = (*data.shape, *indptr.shape, *rhs.shape)
    # The kernel takes thrice as long for one vector.
    if (
        rhs.ndim == 1
        or not data.dtype == rhs.dtype == dtype
        or data.dtype.name not in _KERNEL_DTYPES
        or not indices.dtype == indptr.dtype == np.int32
        or not all(type(n) is int for n in sizes)
    ):
        return (by_rows(data, indices, indptr, rhs),)

    def on_cpu(*buffers: Any) -> Any:
        return lax.cond(
            _are_within(buffers[1], buffers[2], rhs.shape[0]), _by_kernel, by_rows, *buffers
        )

    return (lax.platform_dependent(data, indices, indptr, rhs, cpu=on_cpu, default=by_rows),)


@defined("bcsr_dot_general", quick=_quick)
def bcsr_dot_general_p(
    data: Any, indices: Any, indptr: Any, rhs: Any, **params: Any
) -> tuple[Any, ...]:
    """The dense product of a BCSR array and a dense one."""
    return (_product(data, indices, indptr, rhs, **params),)


def _bcsr_fromdense(
    mat: Any, *, nse: Any = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> tuple[Any, Any, Any]:
    """`bcsr_fromdense` as buffers."""
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(
            f"bcsr_fromdense: must have 2 sparse dimensions, got {mat.ndim - n_batch - n_dense} "
            f"of shape={mat.shape}, n_batch={n_batch}, n_dense={n_dense}."
        )
    if nse is None:
        nse = _bcoo_fromdense(mat, n_batch=n_batch, n_dense=n_dense)[1].shape[-2]
    data, indices, indptr = bcsr_fromdense_p.call(
        mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return data, indices, indptr


@tracebacks.api_boundary
def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: DTypeLike = jnp.int32,
) -> BCSR:
    """A BCSR array of the elements of a dense array that are not zero: arguments and errors as for
    `bcoo_fromdense`.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcsr_fromdense(jnp.array([[0., 2.], [3., 0.]])).indices
    Array([1, 0], dtype=int32)
    """
    mat = jnp.asarray(mat)
    bufs = _bcsr_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCSR(bufs, shape=mat.shape, indices_sorted=True, unique_indices=True)


@tracebacks.api_boundary
def bcsr_todense(mat: BCSR) -> Any:
    """The dense array of a BCSR array.

    >>> from teucer.experimental import sparse
    >>> sparse.bcsr_todense(sparse.eye(2, sparse_format="bcsr"))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _bcsr_todense(*mat._bufs, spinfo=mat._info)


def _bcsr_todense(data: Any, indices: Any, indptr: Any, *, spinfo: SparseInfo) -> Any:
    """`bcsr_todense` of buffers."""
    return bcsr_todense_p.call(*map(jnp.asarray, (data, indices, indptr)), spinfo=spinfo)[0]


@tracebacks.api_boundary
def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: Any) -> Any:
    """The elements of a dense array at the places of a BCSR array.

    int[*batch, nse], int[*batch, rows + 1], T[shape] -> T[*batch, nse, *dense]

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcsr_extract(jnp.array([1, 0]), jnp.array([0, 1, 2]),
    ...     jnp.array([[1., 2.], [3., 4.]]))
    Array([2., 3.], dtype=float32)
    """
    return bcsr_extract_p.call(*map(jnp.asarray, (indices, indptr, mat)))[0]


def _bcsr_dot_general(
    data: Any,
    indices: Any,
    indptr: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    """`bcsr_dot_general` of buffers and a dense array."""
    return bcsr_dot_general_p.call(
        *map(jnp.asarray, (data, indices, indptr, rhs)),
        lhs_spinfo=lhs_spinfo,
        dimension_numbers=as_numbers(dimension_numbers),
        preferred_element_type=preferred_element_type,
    )[0]


@tracebacks.api_boundary
def bcsr_dot_general(
    lhs: Any,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Any:
    """The product of two arrays, one at least BCSR: as `bcoo_dot_general`. The product of two
    sparse arrays is BCSR.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.eye(3, sparse_format="bcsr")
    >>> sparse.bcsr_dot_general(M, jnp.arange(3.), dimension_numbers=(([1], [0]), ([], [])))
    Array([0., 1., 2.], dtype=float32)
    """
    if not isinstance(lhs, BCSR) and not isinstance(rhs, BCSR):
        raise TypeError(
            "bcsr_dot_general: one operand at least must be a BCSR array.\n"
            f"    lhs: {type(lhs).__name__}\n    rhs: {type(rhs).__name__}"
        )
    if isinstance(lhs, BCSR) and not isinstance(rhs, BCSR | BCOO) and out_sharding is None:
        return _bcsr_dot_general(
            lhs.data,
            lhs.indices,
            lhs.indptr,
            rhs,
            lhs_spinfo=lhs._info,
            dimension_numbers=dimension_numbers,
            preferred_element_type=preferred_element_type,
        )
    left, right = (x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs))
    out = bcoo_dot_general(
        left,
        right,
        dimension_numbers=dimension_numbers,
        out_sharding=out_sharding,
        preferred_element_type=preferred_element_type,
    )
    return BCSR.from_bcoo(out) if isinstance(out, BCOO) and out.n_sparse == 2 else out


@tracebacks.api_boundary
def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """A BCSR array with new batch or dense axes, and axes of size 1 repeated: as
    `bcoo_broadcast_in_dim`.

    Raises NotImplementedError for a new axis between the sparse ones.

    >>> from teucer.experimental import sparse
    >>> M = sparse.eye(2, sparse_format="bcsr")
    >>> sparse.bcsr.bcsr_broadcast_in_dim(M, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    out = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding
    )
    return BCSR.from_bcoo(out)


@tracebacks.api_boundary
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """BCSR arrays one after another along an axis: as `bcoo_concatenate`.

    >>> from teucer.experimental import sparse
    >>> M = sparse.eye(2, sparse_format="bcsr")
    >>> sparse.bcsr.bcsr_concatenate([M, M], dimension=0)
    BCSR(float32[4, 2], nse=4)
    """
    return BCSR.from_bcoo(
        bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension)
    )


@tracebacks.api_boundary
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """A BCSR array with each place once, in order: as `bcoo_sum_duplicates`.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCSR((jnp.ones(2), jnp.array([1, 1]), jnp.array([0, 2])), shape=(1, 3))
    >>> sparse.bcsr.bcsr_sum_duplicates(M).data
    Array([2.], dtype=float32)
    """
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse))


@tracebacks.api_boundary
def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """As `bcsr_sum_duplicates`, of the stored elements that are not zero.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCSR((jnp.array([0., 1.]), jnp.array([0, 1]), jnp.array([0, 2])), shape=(1, 3))
    >>> sparse.bcsr.bcsr_eliminate_zeros(M).nse
    1
    """
    return BCSR.from_bcoo(bcoo_eliminate_zeros(mat.to_bcoo(), nse))
