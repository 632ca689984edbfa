"""Matrices of a known form: identities, triangles, diagonals, Vandermonde's."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import Tracer, typeof
from teucer._core.types import is_valid_type
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._derived.moves import device_put
from teucer._dimensions.dimensions import as_size, is_symbolic, max_dim, min_dim
from teucer._dimensions.refusals import not_a_shape
from teucer.lax import _elementwise as lax
from teucer.lax import _shapes, _structure
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_sum
from teucer.lax._slicing import pad, slice_in_dim
from teucer.numpy._creation import asarray, checked_dtype
from teucer.numpy._library import at_once, converting, fast
from teucer.numpy._operands import positions
from teucer.numpy._promotion import as_value, broadcast_to, check_arraylike, convert, refuse_out
from teucer.numpy._reductions import result_dtype

if TYPE_CHECKING:
    from teucer._core.typing import Size

__all__ = ["diag", "diagflat", "eye", "identity", "trace", "tri", "tril", "triu", "vander"]


def _size(n: Size, name: str, op: str) -> Any:
    try:
        return as_size(n)
    except TypeError as err:
        raise not_a_shape(f"argument of {name!r} jnp.{op}()", (n,)) from err


@fast(static=("shape", "k", "dtype", "triangle"))
def _mask(shape: tuple[int, int], k: Size, dtype: DTypeLike, triangle: bool) -> Any:
    """Ones where column - row is k, or, for a triangle, at most k."""
    rows, columns = (_shapes.broadcasted_iota(np.dtype(np.int32), shape, i) for i in (0, 1))
    shifted = lax.add(rows, convert(k, np.dtype(np.int32)))
    return lax.convert_element_type(
        lax.ge(shifted, columns) if triangle else lax.eq(shifted, columns), dtype
    )


def eye(
    N: int,
    M: int | None = None,
    k: int | ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
) -> Array:
    """A matrix of N rows and M columns (by default N) with ones on the k-th diagonal above the main
    one, zeros elsewhere.

    k: an integer, which may be traced. Raises ValueError if it is not.

    >>> eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    kind = checked_dtype(float if dtype is None else dtype, "eye")
    n = _size(N, "N", "eye")
    m = n if M is None else _size(M, "M", "eye")
    if n < 0 or m < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    if not is_valid_type(k) or np.ndim(k) or typeof(k).dtype.kind not in "biu":
        raise ValueError(f"eye: k must be a scalar integer; got {k}")
    mask = _mask.__wrapped__ if isinstance(k, Tracer) else _mask
    out = mask((n, m), k if isinstance(k, Tracer) else np.asarray(k).item(), kind, False)
    return out if device is None else device_put(out, device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix of n rows.

    >>> identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """A matrix of N rows and M columns with ones on and below the k-th diagonal, zeros above; of
    float32, as JAX's, by default.

    k: an integer, which may be traced.

    >>> tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    kind = checked_dtype(np.float32 if dtype is None else dtype, "tri")
    n = _size(N, "N", "tri")
    shape = (n, n if M is None else _size(M, "M", "tri"))
    if not isinstance(k, Tracer):
        return _mask(shape, np.asarray(k).item(), kind, True)
    if np.ndim(k) or typeof(k).dtype.kind not in "biu":
        raise TypeError(f"tri: offset must be an integer, got {k}")
    return _mask.__wrapped__(shape, k, kind, True)


@fast(static=("k", "lower"))
def _triangle(m: ArrayLike, k: Size, lower: bool) -> Any:
    x = as_value(m)
    shape = np.shape(x)
    below = broadcast_to(
        _mask.__wrapped__(shape[-2:], k if lower else k - 1, np.dtype(bool), True), shape
    )
    zero = _structure.full(shape, 0, typeof(x).dtype)
    return lax.select(below, x, zero) if lower else lax.select(below, zero, x)


@at_once(static=("k",))
def tril(m: ArrayLike, k: int = 0) -> Array:
    """m with zeros above the k-th diagonal of its last two axes.

    Raises ValueError for fewer than two axes.

    >>> tril(np.int32([[1, 2], [3, 4]]))
    Array([[1, 0],
           [3, 4]], dtype=int32)
    """
    return _checked_triangle("tril", m, k, True)


@at_once(static=("k",))
def triu(m: ArrayLike, k: int = 0) -> Array:
    """m with zeros below the k-th diagonal of its last two axes.

    Raises ValueError for fewer than two axes.

    >>> triu(np.int32([[1, 2], [3, 4]]))
    Array([[1, 2],
           [0, 4]], dtype=int32)
    """
    return _checked_triangle("triu", m, k, False)


def _checked_triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    check_arraylike(name, m)
    if np.ndim(m) < 2:
        raise ValueError(
            f"Argument to jax.numpy.{name} must be at least 2D\n"
            f"    m: {typeof(m).str_short(short_dtypes=True)}"
        )
    return _triangle(m, as_size(k), lower)


@fast(static=("k",))
def _diag(v: ArrayLike, k: int) -> Any:
    x = _structure.convert_element_type(as_value(v), typeof(v).dtype)
    shape = np.shape(x)
    if len(shape) == 1:
        n = shape[0] + abs(k)
        zero = _structure.number(0, typeof(x).dtype)
        line = pad(x, zero, ((max(0, k), max(0, -k), 0),))
        grid = broadcast_to(_structure.reshape(line, (1, n)), (n, n))
        matrix = lax.select(
            _mask.__wrapped__((n, n), k, np.dtype(bool), False),
            grid,
            _structure.full((n, n), 0, typeof(x).dtype),
        )
        return _structure.convert_element_type(matrix, typeof(v).dtype, typeof(v).weak_type)
    return _diagonal(x, k)


def _diagonal(x: Any, k: Any) -> Any:
    """The k-th diagonal of the last two axes."""
    *lead, rows, columns = np.shape(x)
    down, right = max_dim(-k, 0), max_dim(k, 0)
    size = max_dim(0, min_dim(rows - down, columns - right))
    if is_symbolic(columns) or is_symbolic(k):
        places = positions(size)
        return x[..., places + down, places + right]
    if size == 0:
        return _structure.full((*lead, 0), 0, typeof(x).dtype)
    # Each element of the diagonal is one row and one column further: every (columns + 1)-th of the
    # flattened plane.
    flat = _structure.reshape(x, (*lead, rows * columns))
    first = down * columns + right
    return slice_in_dim(flat, first, first + (size - 1) * (columns + 1) + 1, columns + 1, len(lead))


@at_once(static=("k",))
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix; of a vector, the matrix that has it for its k-th diagonal.

    Raises ValueError for other numbers of axes.

    >>> diag(np.int32([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    check_arraylike("diag", v)
    if np.ndim(v) not in (1, 2):
        raise ValueError(
            f"diag input must be 1d or 2d\n    v: {typeof(v).str_short(short_dtypes=True)}"
        )
    return _diag(v, np.asarray(k).item())


@converting
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix that has the elements of v for its k-th diagonal.

    >>> diagflat(np.int32([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    check_arraylike("diagflat", v)
    flat = _structure.reshape(asarray(v), (math.prod(np.shape(v)),))
    return _diag(_structure.convert_element_type(flat, flat.dtype), np.asarray(k).item())


@fast(static=("offset", "axis1", "axis2", "dtype"))
def _trace(a: ArrayLike, offset: object, axis1: int, axis2: int, dtype: Any) -> Any:
    x = as_value(a)
    i, j = (_structure.canonical_axis(axis, np.ndim(x)) for axis in (axis1, axis2))
    if i == j:
        raise ValueError(f"axis1 and axis2 can not be same: axis1={axis1} and axis2={axis2}")
    rest = [k for k in range(np.ndim(x)) if k not in (i, j)]
    line = _diagonal(_structure.transpose(x, (*rest, i, j)), offset)
    result = result_dtype("trace", typeof(x).dtype, dtype, True)
    return reduce_sum(_structure.convert_element_type(line, result), (len(rest),))


@at_once(static=("offset", "axis1", "axis2", "dtype", "out"))
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of the elements on a diagonal of two axes.

    >>> trace(np.float32([[1, 2], [3, 4]]))
    Array(5., dtype=float32)
    """
    refuse_out("trace", out)
    check_arraylike("trace", a)
    return _trace(a, as_size(offset), operator.index(axis1), operator.index(axis2), dtype)


@fast(static=("N", "increasing"))
def _vander(x: Array, N: int, increasing: bool) -> Any:
    n = np.shape(x)[0]
    columns = [lax.integer_pow(x, i) for i in range(N)]
    columns = [_structure.reshape(c, (n, 1)) for c in (columns if increasing else columns[::-1])]
    return concatenate(columns, 1) if columns else _structure.full((n, 0), 0, typeof(x).dtype)


@at_once(static=("N", "increasing"))
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix of the powers of x: a row an element, N columns (by default as many as rows),
    highest power first.

    Raises ValueError for an array of other than one axis, or a negative N.

    >>> vander(np.int32([1, 2, 3]), 2)
    Array([[1, 1],
           [2, 1],
           [3, 1]], dtype=int32)
    """
    check_arraylike("vander", x)
    if np.ndim(x) != 1:
        raise ValueError(
            f"x must be a one-dimensional array\n    x: {typeof(x).str_short(short_dtypes=True)}"
        )
    n = np.shape(x)[0] if N is None else operator.index(N)
    if n < 0:
        raise ValueError(f"N must be nonnegative\n    N: {N}")
    value = asarray(x)
    value = (
        value
        if value.dtype != np.bool_
        else lax.convert_element_type(value, dtypes.canonicalize_dtype(int))
    )
    return _vander(value, n, bool(increasing))
