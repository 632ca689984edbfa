"""Matrices in the last two axes.

The few operations in which the derivatives of factorizations are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _structure as structure
from teucer.lax._arithmetic import add, conj, eq, ge, real
from teucer.lax._dot import dot_general
from teucer.lax._precision import Precision
from teucer.lax._selection import select
from teucer.lax._shapes import broadcasted_iota

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike

__all__ = [
    "adjoint", "as_float", "columns", "conjugate", "diagonal", "eye", "hermitian", "like",
    "matmul", "matrix_transpose", "permutation_matrix", "rows", "tril", "triu",
]  # fmt: skip


def as_float(x: ArrayLike) -> Any:
    """x, or integers as floats."""
    dtype = typeof(x).dtype
    return (
        x
        if dtypes.issubdtype(dtype, np.inexact)
        else structure.convert_element_type(x, dtypes.to_inexact_dtype(dtype))
    )


def matrix_transpose(x: ArrayLike) -> Any:
    ndim = typeof(x).ndim
    return structure.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def conjugate(x: ArrayLike) -> Any:
    return conj(x) if dtypes.issubdtype(typeof(x).dtype, np.complexfloating) else x


def adjoint(x: ArrayLike) -> Any:
    """The conjugate transpose."""
    return conjugate(matrix_transpose(x))


def matmul(x: Any, y: Any) -> Any:
    """x @ y in full precision."""
    ndim = typeof(x).ndim
    batch = tuple(range(ndim - 2))
    return dot_general(x, y, (((ndim - 1,), (ndim - 2,)), (batch, batch)), Precision.HIGHEST)


def eye(x: ArrayLike) -> Any:
    """The identity, or its first rows or columns, of the shape and dtype of x."""
    aval = typeof(x)
    shape = aval.shape[-2:]
    diag = eq(broadcasted_iota(np.int32, shape, 0), broadcasted_iota(np.int32, shape, 1))
    return structure.broadcast_to(
        structure.convert_element_type(diag, aval.dtype), aval.shape, (aval.ndim - 2, aval.ndim - 1)
    )


def _where_below(x: ArrayLike, k: int, *, keep_below: bool) -> Any:
    aval = typeof(x)
    shape = aval.shape[-2:]
    row, column = (broadcasted_iota(np.int32, shape, i) for i in (0, 1))
    below = ge(add(row, np.int32(k)), column)
    below = structure.broadcast_to(below, aval.shape, (aval.ndim - 2, aval.ndim - 1))
    zero = structure.zeros(aval.strengthen())
    return select(below, x, zero) if keep_below else select(below, zero, x)


def tril(x: Any, k: int = 0) -> Any:
    """x on the k-th diagonal and below, 0 above."""
    return _where_below(x, k, keep_below=True)


def triu(x: Any, k: int = 0) -> Any:
    """x on the k-th diagonal and above, 0 below."""
    return _where_below(x, k - 1, keep_below=False)


def diagonal(x: ArrayLike) -> Any:
    """The diagonals of square matrices, as vectors."""
    aval = typeof(x)
    return structure.reduce_sum(
        select(_as_mask(eye(x)), x, structure.zeros(aval.strengthen())), (aval.ndim - 1,)
    )


def _as_mask(identity: object) -> Any:
    return structure.convert_element_type(identity, np.bool_)


def rows(v: Array, x: Array) -> Any:
    """Vectors as matrices of the shape of x whose rows are all v: multiplying by it scales the
    columns."""
    ndim = typeof(x).ndim
    return structure.broadcast_to(v, typeof(x).shape, (*range(ndim - 2), ndim - 1))


def columns(v: Array, x: Array) -> Any:
    """Vectors as matrices of the shape of x whose columns are all v: multiplying by it scales the
    rows."""
    return structure.broadcast_to(v, typeof(x).shape, tuple(range(typeof(x).ndim - 1)))


def hermitian(x: Array, *, lower: bool = True) -> Any:
    """The Hermitian matrix that a routine sees if it reads one triangle: the other one is its
    mirror, and the diagonal is real."""
    if dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        x = select(_as_mask(eye(x)), structure.convert_element_type(real(x), typeof(x).dtype), x)
    return add(tril(x), adjoint(tril(x, -1))) if lower else add(triu(x), adjoint(triu(x, 1)))


def like(x: ArrayLike, scalar: object) -> Any:
    """An array of x's shape and dtype, all of its elements the scalar."""
    aval = typeof(x)
    return structure.full(aval.shape, scalar, aval.dtype)


def permutation_matrix(permutation: object, dtype: DTypeLike) -> Any:
    """Matrices P with P[i, permutation[i]] = 1: P @ x has the rows of x permuted."""
    shape = (*typeof(permutation).shape, typeof(permutation).shape[-1])
    n = len(shape)
    chosen = structure.broadcast_to(permutation, shape, tuple(range(n - 1)))
    return structure.convert_element_type(
        eq(chosen, broadcasted_iota(np.int32, shape, n - 1)), dtype
    )
