"""Products, powers and parts of matrices, as the array API's linear algebra has them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer.lax import _structure
from teucer.numpy import _linear, _matrices
from teucer.numpy._library import converting, fast
from teucer.numpy._linalg_systems import _eye_like, inv
from teucer.numpy._manipulation import matrix_transpose
from teucer.numpy._promotion import as_value, check_arraylike

if TYPE_CHECKING:
    from teucer.lax._precision import PrecisionLike

__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer",
    "tensordot", "trace", "vecdot",
]  # fmt: skip

tensordot, vecdot, matmul = _linear.tensordot, _linear.vecdot, _linear.matmul


@fast(static=("n",))
def _power(a: ArrayLike, n: int) -> Any:
    x = as_value(a)
    if n == 0:
        return _eye_like(x)
    if n < 0:
        x, n = inv.__wrapped__(x), -n
    square, out = x, None
    while n:
        if n & 1:
            out = square if out is None else matmul.__wrapped__(out, square)
        n >>= 1
        square = matmul.__wrapped__(square, square) if n else square
    return out


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices to the power n; for a negative n, powers of the inverse.

    Raises TypeError if n is not an integer, or a is not square.

    >>> matrix_power(np.int32([[1, 1], [0, 1]]), 3)
    Array([[1, 3],
           [0, 1]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_power", a)
    shape = np.shape(a)
    if len(shape) < 2:
        raise TypeError(
            f"{len(shape)}-dimensional array given. Array must be at least two-dimensional"
        )
    if shape[-1] != shape[-2]:
        raise TypeError(
            "Last 2 dimensions of the array must be square\n"
            f"    a: {typeof(a).str_short(short_dtypes=True)}"
        )
    try:
        exponent = operator.index(n)
    except TypeError as err:
        raise TypeError(f"exponent must be an integer, got {n}") from err
    return _power(a, exponent)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike = None) -> Array:
    """The product of several matrices, in the order that costs least; the first and the last may be
    vectors.

    Raises ValueError for other numbers of axes, and for fewer than two arrays.

    >>> multi_dot([np.ones((2, 3), np.float32), np.ones((3, 4), np.float32),
    ...     np.ones(4, np.float32)]).shape
    (2,)
    """
    arrays = [as_value(x) for x in arrays]
    check_arraylike("jnp.linalg.multi_dot", *arrays)
    shapes = [np.shape(x) for x in arrays]
    n = len(shapes)
    if n < 2 or any(
        len(s) != 2 and not (len(s) == 1 and i in (0, n - 1)) for i, s in enumerate(shapes)
    ):
        raise ValueError(
            "multi_dot: input arrays must all be two-dimensional, except for the first and last "
            f"array which may be 1 or 2 dimensional. Got array shapes {shapes}"
        )
    if any(a[-1] != b[0] for a, b in itertools.pairwise(shapes)):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of following "
            f"array. Got array shapes {shapes}"
        )
    from teucer.numpy._einsum import einsum  # 14 ms to load, which no other function here needs

    letters = (
        [chr(ord("a") + i) for i in range(n + 1)]
        if n < 25
        else [chr(0x100 + i) for i in range(n + 1)]
    )
    terms = [letters[i : i + 2] for i in range(n)]
    if len(shapes[0]) == 1:
        terms[0] = letters[1:2]
    if len(shapes[-1]) == 1:
        terms[-1] = letters[n - 1 : n]
    kept = ([letters[0]] if len(shapes[0]) == 2 else []) + (
        [letters[n]] if len(shapes[-1]) == 2 else []
    )
    return einsum(
        f"{','.join(''.join(t) for t in terms)}->{''.join(kept)}",
        *arrays,
        optimize="auto",
        precision=precision,
    )


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 components along an axis.

    Raises ValueError for vectors of another size.

    >>> cross(np.int32([1, 0, 0]), np.int32([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("jnp.linalg.cross", x1, x2)
    sizes = [np.shape(x)[axis] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={sizes[0]} and x2.shape[axis]={sizes[1]}"
        )
    return _linear.cross(x1, x2, axis=axis)


@converting
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """All products of an element of x1 and one of x2, both of one axis.

    Raises ValueError for other numbers of axes.

    >>> outer(np.int32([1, 2]), np.int32([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    check_arraylike("jnp.linalg.outer", x1, x2)
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={np.ndim(x1)} "
            f"x2.ndim={np.ndim(x2)}"
        )
    return _linear.outer(x1, x2)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the elements on a diagonal of matrices.

    >>> trace(np.float32([[1, 2], [3, 4]]))
    Array(5., dtype=float32)
    """
    return _matrices.trace(x, offset, -2, -1, dtype)


@fast(static=("offset",))
def _diagonal(x: Any, offset: int) -> Any:
    return _matrices._diagonal(
        _structure.convert_element_type(as_value(x), typeof(x).dtype, typeof(x).weak_type), offset
    )


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """A diagonal of matrices.

    Raises ValueError for fewer than two axes.

    >>> diagonal(np.int32([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    check_arraylike("jnp.linalg.diagonal", x)
    if np.ndim(x) < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    return _diagonal(x, operator.index(offset))
