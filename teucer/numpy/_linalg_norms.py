"""Norms, ranks and condition numbers of vectors and matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._families import scalar_like
from teucer.lax.linalg import _eigen as _linalg_eigen
from teucer.lax.linalg import _svd as _linalg_svd
from teucer.numpy import _promotion as promotion
from teucer.numpy._library import fast
from teucer.numpy._linalg_decompositions import matrices
from teucer.numpy._linalg_systems import inv
from teucer.numpy._reductions import axes_of, axis_key, fold, keep
from teucer.numpy._ufuncs import is_kind

if TYPE_CHECKING:
    from teucer._core.typing import Axis


def _operand(name: str, x: ArrayLike) -> Array:
    promotion.check_arraylike(f"jnp.linalg.{name}", x)
    (value,) = promotion.promote_dtypes(f"jnp.linalg.{name}", promotion.INEXACT, x)
    return _structure.convert_element_type(value, typeof(value).dtype)


def _sum(x: ArrayLike, axes: Axis, keepdims: bool) -> Any:
    return fold("sum", x, axes, keepdims, None, None)


def _squares(x: Array) -> Any:
    """|x|^2 of each element."""
    if is_kind(x, np.complexfloating):
        return lax.add(lax.square(lax.real(x)), lax.square(lax.imag(x)))
    return lax.square(x)


def _end(sizes: Any, ord: Any, axes: Axis, keepdims: bool) -> Any:
    """The greatest of `sizes`, at least 0. For a negative `ord` the least."""
    if ord > 0:
        return fold("max", sizes, axes, keepdims, None, 0)
    if not math.prod(np.shape(sizes)):
        raise ValueError("norm: zero-size array to reduction operation min which has no identity.")
    return fold("min", sizes, axes, keepdims, None, None)


def _of_vectors(x: Array, ord: Any, axes: Axis, keepdims: bool) -> Any:
    if ord is None or ord == 2:
        return lax.sqrt(_sum(_squares(x), axes, keepdims))
    size = lax.abs(x)
    if ord in (np.inf, -np.inf):
        return _end(size, ord, axes, keepdims)
    if ord == 0:
        return _sum(
            lax.convert_element_type(lax.ne(x, scalar_like(x, 0)), typeof(size).dtype),
            axes,
            keepdims,
        )
    if ord == 1:
        return _sum(size, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    total = _sum(lax.pow(size, scalar_like(size, ord)), axes, keepdims)
    return lax.pow(total, scalar_like(total, 1.0 / ord))


def _of_matrices(x: Array, ord: object, axes: tuple[int, int], keepdims: bool) -> Any:
    row, column = axes
    if ord in (None, "fro"):
        return lax.sqrt(_sum(_squares(x), axes, keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        summed, other = (row, column) if abs(ord) == 1 else (column, row)
        return _end(_sum(lax.abs(x), summed, True), ord, (summed, other), keepdims)
    if ord in (2, -2, "nuc"):
        moved = _structure.transpose(
            x, (*(i for i in range(np.ndim(x)) if i not in axes), row, column)
        )
        s = _linalg_svd.svd(moved, full_matrices=False, compute_uv=False)
        out = fold(
            "sum" if ord == "nuc" else "max" if ord == 2 else "min", s, -1, False, None, None
        )
        return keep(out, np.shape(x), axes) if keepdims else out
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


@fast(static=("ord", "axis", "keepdims"))
def _norm(x: ArrayLike, ord: object, axis: Any, keepdims: bool) -> Any:
    x = _operand("norm", x)
    ndim = np.ndim(x)
    if axis is None:
        if ord is None:
            return _of_vectors(x, None, None, keepdims)
        axis = tuple(range(ndim))
    axes = axes_of(axis, ndim)
    if len(axes) == 1:
        return _of_vectors(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _of_matrices(x, ord, (axes[0], axes[1]), keepdims)
    raise ValueError(
        f"Improper number of axes for norm: axis={axis}.\n"
        "  Pass one axis to compute a vector-norm, or two axes to compute a matrix-norm."
    )


def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The norm of vectors (one axis) or matrices (two): by default the root of the sum of squares,
    over all axes.

    ord: of vectors a number, inf, -inf or 0 (how many are not 0); of matrices 'fro', 'nuc', 1, -1,
    2, -2, inf, -inf. Raises ValueError for another ord, or more than two axes.

    >>> norm(np.float32([3, 4]))
    Array(5., dtype=float32)
    """
    return _norm(x, ord, axis_key(axis), bool(keepdims))


@fast(static=("axis", "keepdims", "ord"))
def _vector_norm(x: ArrayLike, axis: Axis, keepdims: bool, ord: object) -> Any:
    x = _operand("vector_norm", x)
    return _of_vectors(x, ord, axes_of(axis, np.ndim(x)), keepdims)


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: Any = 2,
) -> Array:
    """The norm of vectors laid out over one or more axes, by default over all; ord as for vectors
    in `norm`.

    >>> vector_norm(np.float32([[3], [4]]))
    Array(5., dtype=float32)
    """
    return _vector_norm(x, axis_key(axis), bool(keepdims), ord)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of matrices in the last two axes; ord as for matrices in `norm`.

    >>> matrix_norm(np.float32([[3, 0], [0, 4]]))
    Array(5., dtype=float32)
    """
    return _norm(x, ord, (-2, -1), bool(keepdims))


@fast(static=("hermitian",))
def _rank(x: ArrayLike, tolerance: object, hermitian: bool) -> Any:
    x = _operand("matrix_rank", x)
    if np.ndim(x) < 2:
        return promotion.convert(
            fold("any", lax.ne(x, scalar_like(x, 0)), None, False, None, None), np.dtype(np.int32)
        )
    s = (
        lax.abs(_linalg_eigen.eigh(x)[1])
        if hermitian
        else _linalg_svd.svd(x, full_matrices=False, compute_uv=False)
    )
    if tolerance is None:
        greatest = fold("max", s, -1, True, None, scalar_like(s, 0))
        eps = float(dtypes.finfo(typeof(x).dtype).eps)
        limit = lax.mul(greatest, scalar_like(s, max(np.shape(x)[-2:]) * eps))
    else:
        limit = promotion.convert(tolerance, typeof(s).dtype)
        limit = _structure.reshape(limit, (*np.shape(limit), 1)) if np.ndim(limit) else limit
    shape = promotion.broadcast_shapes("matrix_rank", [np.shape(s), np.shape(limit)])
    kept = lax.gt(promotion.broadcast_to(s, shape), promotion.broadcast_to(limit, shape))
    return fold(
        "sum", promotion.convert(kept, dtypes.canonicalize_dtype(int)), -1, False, None, None
    )


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """The ranks of matrices: how many singular values exceed a tolerance.

    M: T[..., m, n]. rtol: by default max(m, n) eps times the greatest singular value. It is not
    relative to that, as in JAX and as the second argument of NumPy's function. Its axes broadcast
    with the leading ones of M. tol: another name of rtol.

    >>> matrix_rank(np.ones((3, 3), np.float32))
    Array(1, dtype=int32)
    """
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    return _rank(M, rtol if tol is None else tol, bool(hermitian))


def cond(x: ArrayLike, p: Any = None) -> Any:
    """The condition numbers of matrices: norm(x, p) norm(x^-1, p); for p None, 2 or -2 a ratio of
    singular values.

    Raises ValueError for fewer than two axes.

    >>> cond(np.float32([[2, 0], [0, 1]]))
    Array(2., dtype=float32)
    """
    promotion.check_arraylike("jnp.linalg.cond", x)
    if np.ndim(x) < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={np.shape(x)}"
        )
    if not math.prod(np.shape(x)):
        raise ValueError(
            f"jnp.linalg.cond: input array must not be empty; got arr.shape={np.shape(x)}"
        )
    return _cond(x, p)


@fast(static=("p",))
def _cond(x: ArrayLike, p: ArrayLike | None) -> Any:
    (x,) = matrices("cond", x)
    if p in (None, 2, -2):
        s = _linalg_svd.svd(x, full_matrices=False, compute_uv=False)
        ends = [
            fold(name, s, -1, False, None, None)
            for name in (("min", "max") if p == -2 else ("max", "min"))
        ]
        # 0 / 0 is the number of a matrix of zeros, which is singular.
        return _infinite_if_singular(x, lax.div(ends[0], ends[1]))
    axes = (np.ndim(x) - 2, np.ndim(x) - 1)
    return _infinite_if_singular(
        x,
        lax.mul(_of_matrices(x, p, axes, False), _of_matrices(inv.__wrapped__(x), p, axes, False)),
    )


def _infinite_if_singular(x: Array, out: Any) -> Any:
    """Condition numbers of matrices x, where a nan means that x is singular, or has a nan itself:
    only there it stays."""
    axes = (np.ndim(x) - 2, np.ndim(x) - 1)
    finite = fold("all", lax.eq(x, x), axes, False, None, None)
    return lax.where_else(lax.bitwise_and(lax.ne(out, out), finite), scalar_like(out, np.inf), out)
