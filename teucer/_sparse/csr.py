"""CSR and CSC matrices: rows, or columns, one after another. BCSR arrays do more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr import _bcsr_dot_general, _bcsr_fromdense, _bcsr_todense
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.coo import Matrix, fromdense
from teucer._sparse.defined import defined
from teucer._sparse.util import Shape, SparseInfo, _csr_to_coo
from teucer._trees.registry import register_pytree_node_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.primitive import Primitive
    from teucer._core.typing import Array, ArrayLike, DTypeLike, Size


class _Compressed(Matrix):
    _buffers = ("data", "indices", "indptr")
    indices: Any
    indptr: Any

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[Size]) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        super().__init__(args, shape=shape)


@register_pytree_node_class
class CSR(_Compressed):
    """A sparse matrix in the format of compressed rows.

    args: (data, indices, indptr): values, their columns, and where each row starts. shape: (rows,
    columns).

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.CSR.fromdense(jnp.array([[0., 2.], [1., 0.]])) @ jnp.ones(2)
    Array([2., 1.], dtype=float32)
    """

    @classmethod
    def fromdense(
        cls, mat: object, *, nse: int | None = None, index_dtype: DTypeLike = np.int32
    ) -> CSR:
        """The matrix of the elements of a dense one that are not zero: as `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _of_bcoo(cls, mat: BCOO) -> Self:
        return cls(BCSR.from_bcoo(mat)._bufs, shape=mat.shape)

    def _bcoo(self) -> BCOO:
        return BCSR(self._bufs, shape=self.shape).to_bcoo()

    def todense(self) -> Any:
        """The dense matrix."""
        return csr_todense(self)

    if TYPE_CHECKING:

        def transpose(self, axes: Any = None) -> CSC | CSR: ...

    def _transposed(self) -> CSC:
        return CSC(self._bufs, shape=self.shape[::-1])

    def _product(self, other: Any) -> Any:
        return (csr_matvec if other.ndim == 1 else csr_matmat)(self, other)


@register_pytree_node_class
class CSC(_Compressed):
    """A sparse matrix in the format of compressed columns.

    args: (data, indices, indptr): values, their rows, and where each column starts. shape: (rows,
    columns).

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.CSC.fromdense(jnp.array([[0., 2.], [1., 0.]])).indices
    Array([1, 0], dtype=int32)
    """

    @classmethod
    def fromdense(
        cls, mat: object, *, nse: int | None = None, index_dtype: DTypeLike = np.int32
    ) -> Self:
        """The matrix of the elements of a dense one that are not zero."""
        mat = jnp.asarray(mat)
        return cls(_csr_fromdense(mat.T, nse=nse, index_dtype=index_dtype), shape=mat.shape)

    @classmethod
    def _of_bcoo(cls, mat: BCOO) -> Self:
        turned = BCOO(
            (mat.data, mat.indices[:, ::-1]),
            shape=mat.shape[::-1],
            unique_indices=mat.unique_indices,
        )
        return cls(BCSR.from_bcoo(turned)._bufs, shape=mat.shape)

    def _bcoo(self) -> BCOO:
        col, row = _csr_to_coo(self.indices, self.indptr)
        return BCOO((self.data, jnp.stack([row, col], -1)), shape=self.shape)

    def todense(self) -> Any:
        """The dense matrix."""
        return self.T.todense().T

    if TYPE_CHECKING:

        def transpose(self, axes: Any = None) -> CSR | CSC: ...

    def _transposed(self) -> CSR:
        return CSR(self._bufs, shape=self.shape[::-1])

    def _product(self, other: Any) -> Any:
        return (csr_matvec if other.ndim == 1 else csr_matmat)(self.T, other, transpose=True)


@defined("csr_todense")
def csr_todense_p(
    data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, *, shape: Shape
) -> tuple[Any, ...]:
    """T[nse], int[nse], int[rows + 1] -> T[shape]."""
    return (_bcsr_todense(data, indices, indptr, spinfo=SparseInfo(shape)),)


@defined("csr_fromdense", several=True)
def csr_fromdense_p(mat: object, *, nse: int, index_dtype: DTypeLike) -> tuple[Any, ...]:
    """T[rows, columns] -> T[nse], int[nse], int[rows + 1]."""
    return _bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype)


def _product_of(name: str) -> Primitive:
    @defined(name)
    def program(
        data: ArrayLike,
        indices: ArrayLike,
        indptr: ArrayLike,
        rhs: ArrayLike,
        *,
        shape: Shape,
        transpose: bool,
    ) -> tuple[Any, ...]:
        product = _bcsr_dot_general(
            data,
            indices,
            indptr,
            rhs,
            lhs_spinfo=SparseInfo(shape),
            preferred_element_type=None,
            dimension_numbers=(([0 if transpose else 1], [0]), ([], [])),
        )
        return (product,)

    return program


csr_matvec_p, csr_matmat_p = _product_of("csr_matvec"), _product_of("csr_matmat")


def _csr_todense(data: Array, indices: Array, indptr: Array, *, shape: Sequence[Size]) -> Any:
    return csr_todense_p.call(*map(jnp.asarray, (data, indices, indptr)), shape=tuple(shape))[0]


def _csr_fromdense(mat: Any, *, nse: Any = None, index_dtype: Any = np.int32) -> Any:
    return fromdense(csr_fromdense_p, mat, nse, index_dtype)


def _csr_matvec(
    data: Any, indices: Any, indptr: Any, v: Any, *, shape: Any, transpose: bool = False
) -> Any:
    bufs = map(jnp.asarray, (data, indices, indptr, v))
    return csr_matvec_p.call(*bufs, shape=tuple(shape), transpose=transpose)[0]


def _csr_matmat(
    data: Any, indices: Any, indptr: Any, B: Any, *, shape: Any, transpose: bool = False
) -> Any:
    bufs = map(jnp.asarray, (data, indices, indptr, B))
    return csr_matmat_p.call(*bufs, shape=tuple(shape), transpose=transpose)[0]


@tracebacks.api_boundary
def csr_todense(mat: CSR) -> Any:
    """The dense matrix of a CSR matrix.

    >>> from teucer.experimental import sparse
    >>> sparse.csr_todense(sparse.eye(2, sparse_format="csr"))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _csr_todense(*mat._bufs, shape=mat.shape)


@tracebacks.api_boundary
def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """A CSR matrix of the elements of a dense one that are not zero.

    nse: how many to store, needed where mat is traced.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.csr_fromdense(jnp.array([[0., 2.], [1., 0.]])).indptr
    Array([0, 1, 2], dtype=int32)
    """
    return CSR(_csr_fromdense(mat, nse=nse, index_dtype=index_dtype), shape=np.shape(mat))


@tracebacks.api_boundary
def csr_matvec(mat: CSR, v: ArrayLike, transpose: bool = False) -> Any:
    """The product of a CSR matrix and a vector.

    v: of the dtype of mat. transpose: whether the matrix is transposed first.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.csr_matvec(sparse.eye(2, 3, sparse_format="csr"), jnp.arange(2.), transpose=True)
    Array([0., 1., 0.], dtype=float32)
    """
    data, indices, indptr = mat._bufs
    return _csr_matvec(data, indices, indptr, v, shape=mat.shape, transpose=transpose)


@tracebacks.api_boundary
def csr_matmat(mat: CSR, B: ArrayLike, *, transpose: bool = False) -> Any:
    """The product of a CSR matrix and a dense one.

    B: of the dtype of mat. transpose: whether the matrix is transposed first.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.csr_matmat(sparse.eye(2, sparse_format="csr"), jnp.ones((2, 3))).shape
    (2, 3)
    """
    data, indices, indptr = mat._bufs
    return _csr_matmat(data, indices, indptr, B, shape=mat.shape, transpose=transpose)
