"""COO matrices: rows, columns and values of stored elements. BCOO arrays do more."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse.base import JAXSparse, Stored
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_dense import _bcoo_fromdense, _bcoo_todense
from teucer._sparse.bcoo_dot import _bcoo_dot_general
from teucer._sparse.bcoo_order import bcoo_sort_indices
from teucer._sparse.defined import defined
from teucer._sparse.util import Shape, SparseInfo
from teucer._trees.registry import register_pytree_node_class

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Array, ArrayLike, DTypeLike, Size


Dtype = Any


class COOInfo(NamedTuple):
    """The properties of a COO matrix beside its buffers."""

    shape: Shape
    rows_sorted: bool = False
    cols_sorted: bool = False


class Matrix(Stored):
    """A sparse matrix whose operations are done on the same BCOO array."""

    @property
    def nse(self) -> int:
        """Number of stored elements."""
        return self.data.size

    @classmethod
    def _of_bcoo(cls, mat: BCOO) -> Any:
        raise NotImplementedError

    @classmethod
    def _empty(
        cls,
        shape: Sequence[Size],
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
    ) -> Any:
        if len(tuple(shape)) != 2:
            raise ValueError(f"{cls.__name__} must have ndim=2; got shape={tuple(shape)}.")
        return cls._of_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        return cls._of_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype))

    def _transposed(self) -> Any:
        raise NotImplementedError

    def _product(self, other: Any) -> Any:
        """The product with a vector or matrix of the dtype of the elements."""
        raise NotImplementedError

    def transpose(self, axes: Any = None) -> Any:
        """The transposed matrix; with axes (0, 1) the matrix itself."""
        order = (1, 0) if axes is None else tuple([operator.index(a) % 2 for a in axes])
        if sorted(order) != [0, 1] or (axes is not None and not all(-2 <= a < 2 for a in axes)):
            raise ValueError(
                f"{type(self).__name__}.transpose: axes must be a permutation of the two axes of "
                f"a matrix, got {axes}.\n  Leave axes out to transpose it."
            )
        return self._transposed() if order == (1, 0) else self

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.\n  BCOO arrays have it.")
        other = jnp.asarray(other)
        if other.ndim not in (1, 2):
            raise NotImplementedError(
                f"matmul with object of shape {other.shape}: it must have one axis or two.\n"
                "  Map over the other axes with jax.vmap."
            )
        kind = jnp.promote_types(self.dtype, other.dtype)
        bufs, aux = self.tree_flatten()
        wide = type(self).tree_unflatten(aux, (bufs[0].astype(kind), *bufs[1:]))
        return wide._product(other.astype(kind))


@register_pytree_node_class
class COO(Matrix):
    """A sparse matrix in the coordinate format.

    args: (data, row, col), of one length. shape: (rows, columns). rows_sorted, cols_sorted: the
    known order.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.COO.fromdense(jnp.array([[0., 2.], [1., 0.]])) @ jnp.ones(2)
    Array([2., 1.], dtype=float32)
    """

    _buffers = ("data", "row", "col")
    _known: ClassVar = {"rows_sorted": "_rows_sorted", "cols_sorted": "_cols_sorted"}
    row: Any
    col: Any

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[Size],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        self.data, self.row, self.col = map(jnp.asarray, args)
        self._rows_sorted, self._cols_sorted = bool(rows_sorted), bool(cols_sorted)
        super().__init__(args, shape=shape)

    @property
    def _info(self) -> COOInfo:
        return COOInfo(self.shape, self._rows_sorted, self._cols_sorted)

    @classmethod
    def fromdense(
        cls, mat: object, *, nse: int | None = None, index_dtype: DTypeLike = np.int32
    ) -> COO:
        """The matrix of the elements of a dense one that are not zero: as `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _of_bcoo(cls, mat: BCOO) -> Self:
        return cls(
            (mat.data, mat.indices[:, 0], mat.indices[:, 1]),
            shape=mat.shape,
            rows_sorted=mat.indices_sorted,
        )

    def _bcoo(self) -> BCOO:
        return BCOO((self.data, _places(self.row, self.col)), shape=self.shape)

    def _sort_indices(self) -> COO:
        return self._of_bcoo(bcoo_sort_indices(self._bcoo()))

    def todense(self) -> Any:
        """The dense matrix."""
        return coo_todense(self)

    if TYPE_CHECKING:

        def transpose(self, axes: Any = None) -> COO: ...

    def _transposed(self) -> COO:
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def _product(self, other: Any) -> Any:
        return (coo_matvec if other.ndim == 1 else coo_matmat)(self, other)


def _places(row: ArrayLike, col: Any) -> Any:
    return jnp.stack([row, col], -1)


def matmul_program(
    data: ArrayLike,
    row: ArrayLike,
    col: ArrayLike,
    rhs: ArrayLike,
    shape: Shape,
    transpose: bool,
    sorted_: bool,
) -> Any:
    """The product of a matrix, or its transpose, given by rows and columns, and a dense array."""
    return _bcoo_dot_general(
        data,
        _places(row, col),
        rhs,
        lhs_spinfo=SparseInfo(shape, indices_sorted=sorted_),
        dimension_numbers=(([0 if transpose else 1], [0]), ([], [])),
        preferred_element_type=None,
    )


@defined("coo_todense")
def coo_todense_p(
    data: ArrayLike, row: ArrayLike, col: ArrayLike, *, spinfo: COOInfo
) -> tuple[Any, ...]:
    """T[nse], int[nse], int[nse] -> T[shape]."""
    return (_bcoo_todense(data, _places(row, col), spinfo=SparseInfo(spinfo.shape)),)


@defined("coo_fromdense", several=True)
def coo_fromdense_p(mat: object, *, nse: int, index_dtype: DTypeLike) -> tuple[Any, ...]:
    """T[rows, columns] -> T[nse], int[nse], int[nse]."""
    data, indices = _bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return data, indices[:, 0], indices[:, 1]


def _product_of(name: str) -> Primitive:
    @defined(name)
    def program(
        data: ArrayLike,
        row: ArrayLike,
        col: ArrayLike,
        rhs: ArrayLike,
        *,
        spinfo: COOInfo,
        transpose: bool,
    ) -> tuple[Any, ...]:
        return (matmul_program(data, row, col, rhs, spinfo.shape, transpose, spinfo.rows_sorted),)

    return program


coo_matvec_p, coo_matmat_p = _product_of("coo_matvec"), _product_of("coo_matmat")


def _coo_todense(data: Array, row: Array, col: Array, *, spinfo: COOInfo) -> Any:
    return coo_todense_p.call(*map(jnp.asarray, (data, row, col)), spinfo=spinfo)[0]


def _coo_fromdense(mat: Any, *, nse: Any = None, index_dtype: Any = np.int32) -> Any:
    return fromdense(coo_fromdense_p, mat, nse, index_dtype)


def fromdense(primitive: Primitive, mat: Any, nse: Any, index_dtype: Any) -> tuple[Any, ...]:
    """The buffers of a format, of the elements of a dense matrix that are not zero."""
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ValueError(f"a sparse matrix has two axes; got an array of shape {mat.shape}.")
    if nse is None:
        nse = _bcoo_fromdense(mat)[0].shape[0]
    return tuple(primitive.call(mat, nse=int(nse), index_dtype=np.dtype(index_dtype)))


def _coo_matvec(
    data: Any, row: Any, col: Any, v: Any, *, spinfo: COOInfo, transpose: bool = False
) -> Any:
    bufs = map(jnp.asarray, (data, row, col, v))
    return coo_matvec_p.call(*bufs, spinfo=spinfo, transpose=transpose)[0]


def _coo_matmat(
    data: Any, row: Any, col: Any, B: Any, *, spinfo: COOInfo, transpose: bool = False
) -> Any:
    bufs = map(jnp.asarray, (data, row, col, B))
    return coo_matmat_p.call(*bufs, spinfo=spinfo, transpose=transpose)[0]


@tracebacks.api_boundary
def coo_todense(mat: COO) -> Any:
    """The dense matrix of a COO matrix.

    >>> from teucer.experimental import sparse
    >>> sparse.coo_todense(sparse.eye(2, sparse_format="coo"))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _coo_todense(*mat._bufs, spinfo=mat._info)


@tracebacks.api_boundary
def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = jnp.int32) -> COO:
    """A COO matrix of the elements of a dense one that are not zero.

    nse: how many to store, needed where mat is traced.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.coo_fromdense(jnp.array([[0., 2.], [1., 0.]])).col
    Array([1, 0], dtype=int32)
    """
    return COO(
        _coo_fromdense(mat, nse=nse, index_dtype=index_dtype), shape=np.shape(mat), rows_sorted=True
    )


@tracebacks.api_boundary
def coo_matvec(mat: COO, v: ArrayLike, transpose: bool = False) -> Any:
    """The product of a COO matrix and a vector.

    v: of the dtype of mat. transpose: whether the matrix is transposed first.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.coo_matvec(sparse.eye(2, 3, sparse_format="coo"), jnp.arange(2.), transpose=True)
    Array([0., 1., 0.], dtype=float32)
    """
    data, row, col = mat._bufs
    return _coo_matvec(data, row, col, v, spinfo=mat._info, transpose=transpose)


@tracebacks.api_boundary
def coo_matmat(mat: COO, B: ArrayLike, *, transpose: bool = False) -> Any:
    """The product of a COO matrix and a dense one.

    B: of the dtype of mat. transpose: whether the matrix is transposed first.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.coo_matmat(sparse.eye(2, sparse_format="coo"), jnp.ones((2, 3))).shape
    (2, 3)
    """
    data, row, col = mat._bufs
    return _coo_matmat(data, row, col, B, spinfo=mat._info, transpose=transpose)
