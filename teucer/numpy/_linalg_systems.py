"""Determinants, inverses and solutions of linear systems, of stacks of matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._dimensions.dimensions import bounds, is_known_below
from teucer.lax import _elementwise as lax
from teucer.lax import _shapes, _sorting, _structure
from teucer.lax._control.solves import custom_linear_solve
from teucer.lax._families import scalar_like
from teucer.lax._slicing import slice as slice_
from teucer.lax.linalg import _factor as _linalg_factor
from teucer.lax.linalg import _qr as _linalg_qr
from teucer.lax.linalg import _small as _linalg_small
from teucer.lax.linalg import _solve as _linalg_solve
from teucer.lax.linalg import _svd as _linalg_svd
from teucer.numpy._creation import full
from teucer.numpy._library import fast
from teucer.numpy._linalg_decompositions import adjoint, matrices
from teucer.numpy._linear import matmul as jnp_matmul
from teucer.numpy._matrices import _diagonal, _mask
from teucer.numpy._promotion import (
    INEXACT,
    broadcast_shapes,
    broadcast_to,
    check_arraylike,
    convert,
    promote,
    promote_dtypes,
)
from teucer.numpy._reductions import fold
from teucer.numpy._taking import take_along_axis
from teucer.numpy._ufuncs import is_kind

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, DTypeLike, Value


class SlogdetResult(NamedTuple):
    """The sign of a determinant, or its phase, and the logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


def _product(x: ArrayLike, y: Any) -> Any:
    """x @ y in full precision, which GPUs and TPUs do not give by default."""
    return jnp_matmul.__wrapped__(x, y, precision="highest")


def _eye_like(x: Array) -> Any:
    """The identity in the shape of square matrices."""
    return broadcast_to(_mask.__wrapped__(np.shape(x)[-2:], 0, typeof(x).dtype, False), np.shape(x))


# Determinants


def _parity(pivots: Any, dtype: DTypeLike) -> Any:
    """1 or -1: the sign of the permutation that the exchanges of rows make."""
    places = _shapes.broadcasted_iota(np.dtype(np.int32), np.shape(pivots), np.ndim(pivots) - 1)
    moved = fold("sum", convert(lax.ne(pivots, places), np.dtype(np.int32)), -1, False, None, None)
    return convert(lax.sub(np.int32(1), lax.mul(np.int32(2), lax.rem(moved, np.int32(2)))), dtype)


def _small_det(x: Array) -> Any:
    """The determinant of matrices of up to 3 rows, written out."""
    n = np.shape(x)[-1]
    if n == 0:
        return full(np.shape(x)[:-2], 1, typeof(x).dtype)
    e = [[_element(x, i, j) for j in range(n)] for i in range(n)]
    if n == 1:
        return e[0][0]

    def minor(i: int, j: int, k: int, m: int) -> Any:
        return lax.sub(lax.mul(e[i][k], e[j][m]), lax.mul(e[i][m], e[j][k]))

    if n == 2:
        return minor(0, 1, 0, 1)
    terms = [
        lax.mul(e[0][0], minor(1, 2, 1, 2)),
        lax.mul(e[0][1], minor(1, 2, 0, 2)),
        lax.mul(e[0][2], minor(1, 2, 0, 1)),
    ]
    return lax.add(lax.sub(terms[0], terms[1]), terms[2])


def _element(x: Any, i: int, j: int) -> Any:
    lead = np.shape(x)[:-2]
    part = slice_(x, (*[0] * len(lead), i, j), (*lead, i + 1, j + 1))
    return _structure.reshape(part, lead)


@custom_jvp
def _det(x: Array) -> Any:
    factors, pivots, _ = _linalg_factor.lu(x)
    return lax.mul(
        fold("prod", _diagonal(factors, 0), -1, False, None, None), _parity(pivots, typeof(x).dtype)
    )


@_det.defjvp
def _det_tangent(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    out = _det(x)
    order, turn = _dependent_column_last(lax.stop_gradient(x))
    moved, t = (take_along_axis(v, order, -1) for v in (x, t))
    trace = fold("sum", _diagonal(_adjugate_times(moved, t), 0), -1, False, None, None)
    return out, lax.mul(turn, trace)


def _dependent_column_last(x: Array) -> Any:
    """The order of columns that moves the first whose pivot is 0 to the end, and the sign of that
    move. A matrix of rank n - 1 has no other pivot of 0 then, since that column depends on those
    before it."""
    factors, _, _ = _linalg_factor.lu(x)
    diagonal = _diagonal(factors, 0)
    shape, lead = np.shape(diagonal), tuple(range(np.ndim(diagonal) - 1))
    place = _shapes.broadcasted_iota(np.dtype(np.int32), shape, len(lead))
    one, last = np.int32(1), np.int32(shape[-1] - 1)
    is_zero = lax.eq(diagonal, scalar_like(diagonal, 0))
    found = fold("min", lax.where_else(is_zero, place, last), -1, False, None, None)
    first = _structure.broadcast_to(found, shape, lead)
    after = lax.where_else(lax.eq(place, last), first, lax.add(place, one))
    order = lax.where_else(lax.lt(place, first), place, after)
    is_odd = lax.rem(lax.sub(last, found), np.int32(2))
    turn = convert(lax.sub(one, lax.mul(np.int32(2), is_odd)), typeof(x).dtype)
    return _structure.broadcast_to(order, np.shape(x), (*lead, len(lead) + 1)), turn


def _adjugate_times(x: Array, t: Any) -> Any:
    """adj(x) t, also of an x of rank n - 1, by its factors: adj(x) is adj(U) L^-1 P times a sign;
    the last pivot may be 0."""
    factors, pivots, permutation = _linalg_factor.lu(x)
    n = np.shape(x)[-1]
    rows = _structure.broadcast_to(permutation, np.shape(t), tuple(range(np.ndim(t) - 1)))
    y = _linalg_solve.triangular_solve(
        factors, take_along_axis(t, rows, -2), left_side=True, lower=True, unit_diagonal=True
    )
    diagonal = _diagonal(factors, 0)
    place = _shapes.broadcasted_iota(np.dtype(np.int32), np.shape(diagonal), np.ndim(diagonal) - 1)
    is_last = lax.eq(place, np.int32(n - 1))
    others = fold(
        "prod", lax.where_else(is_last, scalar_like(diagonal, 1), diagonal), -1, True, None, None
    )
    whole = fold("prod", diagonal, -1, True, None, None)
    scale = lax.where_else(
        is_last, broadcast_to(others, np.shape(diagonal)), broadcast_to(whole, np.shape(diagonal))
    )
    y = lax.mul(y, _structure.broadcast_to(scale, np.shape(y), tuple(range(np.ndim(y) - 1))))
    corner = lax.bitwise_and(
        *(
            lax.eq(
                _shapes.broadcasted_iota(np.dtype(np.int32), np.shape(x), np.ndim(x) - k),
                np.int32(n - 1),
            )
            for k in (1, 2)
        )
    )
    pivot = lax.bitwise_and(
        lax.eq(
            *(
                _shapes.broadcasted_iota(np.dtype(np.int32), np.shape(x), np.ndim(x) - k)
                for k in (1, 2)
            )
        ),
        lax.eq(factors, scalar_like(factors, 0)),
    )
    # Where a pivot before the last is 0 nothing of y is left; divided by 1 it stays 0.
    upper = lax.where_else(lax.bitwise_or(corner, pivot), scalar_like(factors, 1), factors)
    y = _linalg_solve.triangular_solve(upper, y, left_side=True, lower=False)
    return lax.mul(
        y,
        _structure.broadcast_to(
            _parity(pivots, typeof(x).dtype), np.shape(y), tuple(range(np.ndim(y) - 2))
        ),
    )


@fast
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices.

    a: T[..., n, n]  ->  T[...]. Raises ValueError if a is not square.

    >>> det(np.float32([[1, 2], [3, 4]]))
    Array(-2., dtype=float32)
    """
    (x,) = matrices("det", a, square=True)
    return _small_det(x) if bounds(np.shape(x)[-1]).high <= 3 else _det(x)


def _by_lu(x: Array) -> Any:
    factors, pivots, _ = _linalg_factor.lu(x)
    diagonal = _diagonal(factors, 0)
    magnitude = lax.abs(diagonal)
    zero = lax.eq(
        fold("min", magnitude, -1, False, None, scalar_like(magnitude, 1)),
        scalar_like(magnitude, 0),
    )
    sign = lax.mul(
        fold("prod", lax.sign(diagonal), -1, False, None, None), _parity(pivots, typeof(x).dtype)
    )
    total = fold("sum", lax.log(magnitude), -1, False, None, None)
    return lax.where_else(zero, scalar_like(sign, 0), sign), lax.where_else(
        zero, scalar_like(total, -np.inf), total
    )


def _by_qr(x: Array) -> Any:
    factors, taus = _linalg_qr.geqrf_p.call(x)
    diagonal = _diagonal(factors, 0)
    # Every reflection that moves something turns the orientation.
    moves = fold(
        "sum",
        convert(lax.ne(taus, scalar_like(taus, 0)), np.dtype(np.int32)),
        -1,
        False,
        None,
        None,
    )
    turn = convert(
        lax.sub(np.int32(1), lax.mul(np.int32(2), lax.rem(moves, np.int32(2)))), typeof(x).dtype
    )
    sign = lax.mul(fold("prod", lax.sign(diagonal), -1, False, None, None), turn)
    return sign, fold("sum", lax.log(lax.abs(diagonal)), -1, False, None, None)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _by(factor: Callable[[Value], object], x: Array) -> Any:
    return factor(x)


@_by.defjvp
def _slogdet_tangent(factor: Callable[[Value], object], primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    sign, logdet = _by(factor, x)
    moved = fold("sum", _diagonal(_solve_matrices(x, t), 0), -1, False, None, None)
    if not is_kind(x, np.complexfloating):
        return (sign, logdet), (_structure.full(np.shape(sign), 0, typeof(sign).dtype), moved)
    turn = lax.complex(_structure.full(np.shape(logdet), 0, typeof(logdet).dtype), lax.imag(moved))
    return (sign, logdet), (lax.mul(turn, sign), lax.real(moved))


@fast(static=("method",))
def _slogdet(a: ArrayLike, method: str) -> Any:
    (x,) = matrices("slogdet", a, square=True)
    if method == "qr" and is_kind(x, np.complexfloating):
        raise NotImplementedError(
            "slogdet method='qr' not implemented for complex inputs\n  Use method='lu'."
        )
    return tuple(_by(_by_qr if method == "qr" else _by_lu, x))


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign, or phase, and the logarithm of the absolute value of determinants of square
    matrices; 0 and -inf of singular ones.

    method: 'lu' (the default) or 'qr'; the latter is for real matrices. Raises ValueError if a is
    not square.

    >>> slogdet(np.float32([[2, 0], [0, -1]])).sign
    Array(-1., dtype=float32)
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    return SlogdetResult(*_slogdet(a, method or "lu"))


# Systems


def _solve_matrices(a: Array, b: Any) -> Any:
    """a^-1 b for stacks of matrices of one leading shape, with derivatives that are solutions
    themselves."""
    if _linalg_small.has_small(a):
        return _linalg_small.eliminated(a, b)
    factors, _, permutation = _linalg_factor.lu(lax.stop_gradient(a))
    rows = _structure.broadcast_to(permutation, np.shape(b), tuple(range(np.ndim(b) - 1)))

    def by_factors(v: Array) -> Any:
        y = _linalg_solve.triangular_solve(
            factors, take_along_axis(v, rows, -2), left_side=True, lower=True, unit_diagonal=True
        )
        return _linalg_solve.triangular_solve(factors, y, left_side=True, lower=False)

    def by_transposed_factors(v: Array) -> Any:
        y = _linalg_solve.triangular_solve(
            factors, v, left_side=True, lower=False, transpose_a=True
        )
        y = _linalg_solve.triangular_solve(
            factors, y, left_side=True, lower=True, unit_diagonal=True, transpose_a=True
        )
        _, back = _sorting.sort_key_val(
            permutation,
            _shapes.broadcasted_iota(
                np.dtype(np.int32), np.shape(permutation), np.ndim(permutation) - 1
            ),
        )
        return take_along_axis(
            y, _structure.broadcast_to(back, np.shape(v), tuple(range(np.ndim(v) - 1))), -2
        )

    return custom_linear_solve(
        lambda x: _product(a, x),
        b,
        solve=lambda _, v: by_factors(v),
        transpose_solve=lambda _, v: by_transposed_factors(v),
    )


@fast
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solution x of a x = b.

    a: T[..., n, n]; b: T[n], a vector, or T[..., n, m], matrices; leading axes broadcast  ->  T
    like b.
    Raises ValueError if a is not square, or shapes do not fit. A singular a gives inf and nan.

    >>> solve(np.float32([[2, 0], [0, 4]]), np.float32([2, 2]))
    Array([1. , 0.5], dtype=float32)
    """
    check_arraylike("jnp.linalg.solve", a, b)
    x, y = (
        _structure.convert_element_type(v, typeof(v).dtype)
        for v in promote_dtypes("jnp.linalg.solve", INEXACT, a, b)
    )
    (x,) = matrices("solve", x, square=True)
    n = np.shape(x)[-1]
    if np.ndim(y) < 1 or np.shape(y)[0 if np.ndim(y) == 1 else -2] != n:
        raise ValueError(
            "solve: inconsistent size for core dimension 'm' of a and b.\n"
            f"    a: {typeof(x).str_short(short_dtypes=True)}\n"
            f"    b: {typeof(y).str_short(short_dtypes=True)}, must have shape [n] or [..., n, m] "
            f"for n = {n}"
        )
    vector = np.ndim(y) == 1
    y = _structure.reshape(y, (n, 1)) if vector else y
    lead = broadcast_shapes("solve", [np.shape(v)[:-2] for v in (x, y)])
    out = _solve_matrices(*(broadcast_to(v, (*lead, *np.shape(v)[-2:])) for v in (x, y)))
    return _structure.reshape(out, np.shape(out)[:-1]) if vector else out


@fast
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices; inf and nan of singular ones.

    Raises ValueError if a is not square.

    >>> inv(np.float32([[2, 0], [0, 4]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    (x,) = matrices("inv", a, square=True)
    return _solve_matrices(x, _eye_like(x))


@custom_jvp
def _pseudo_inverse(x: Array, rtol: Any) -> Any:
    u, s, vh = _linalg_svd.svd(x, full_matrices=False)
    greatest = fold("max", s, -1, True, None, scalar_like(s, 0))
    limit = lax.mul(
        *promote(
            "pinv",
            INEXACT,
            greatest,
            _structure.reshape(rtol, (*np.shape(rtol), 1)) if np.ndim(rtol) else rtol,
        )
    )
    kept = lax.gt(s, broadcast_to(limit, np.shape(s)))
    inverse = lax.where_else(
        kept,
        lax.div(scalar_like(s, 1), lax.where_else(kept, s, scalar_like(s, 1))),
        scalar_like(s, 0),
    )
    column = _structure.broadcast_to(
        convert(inverse, typeof(x).dtype), np.shape(adjoint(u)), tuple(range(np.ndim(u) - 1))
    )
    return _product(adjoint(vh), lax.mul(column, adjoint(u)))


@_pseudo_inverse.defjvp
def _pseudo_inverse_tangent(primals: Arrays, tangents: Arrays) -> Any:
    """Golub & Pereyra, SIAM J. Numer. Anal. 10 (1973) 413, theorem 4.3."""
    (x, rtol), (t, _) = primals, tangents
    p = _pseudo_inverse(x, rtol)
    p_h, t_h = adjoint(p), adjoint(t)
    # For a matrix m x n with n < m the intermediate products have n x n elements, and not m x m.
    wide = is_known_below(*np.shape(x)[-2:])

    def product(a: Array, b: Array, c: Array) -> Any:
        return _product(a, _product(b, c)) if wide else _product(_product(a, b), c)

    left, right = product(p, p_h, t_h), product(t_h, p_h, p)
    tangents_of_parts = (
        lax.neg(product(p, t, p)),
        lax.sub(left, product(left, x, p)),
        lax.sub(right, product(p, x, right)),
    )
    return p, functools.reduce(lax.add, tangents_of_parts)


@fast(static=("hermitian",))
def _pinv(a: ArrayLike, rtol: Any, hermitian: bool) -> Any:
    (x,) = matrices("pinv", a)
    if rtol is None:
        rtol = 10.0 * max(np.shape(x)[-2:]) * float(dtypes.finfo(typeof(x).dtype).eps)
    lead = broadcast_shapes("pinv", [np.shape(x)[:-2], np.shape(rtol)])
    x = broadcast_to(x, (*lead, *np.shape(x)[-2:]))
    if not math.prod(np.shape(x)[-2:]):
        return _structure.full((*lead, np.shape(x)[-1], np.shape(x)[-2]), 0, typeof(x).dtype)
    if hermitian:
        x = lax.div(lax.add(x, adjoint(x)), scalar_like(x, 2))
    return _pseudo_inverse(x, convert(rtol, dtypes.to_floating_dtype(typeof(x).dtype)))


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The Moore-Penrose inverses of matrices; singular values at most rtol times the greatest count
    as 0.

    a: T[..., m, n]  ->  T[..., n, m]. rtol: by default 10 max(m, n) eps; its axes broadcast
    with the leading ones of a. rcond: another name of rtol.

    >>> pinv(np.float32([[2], [0]]))
    Array([[0.5, 0. ]], dtype=float32)
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    return _pinv(a, rtol if rcond is None else rcond, bool(hermitian))


@custom_jvp
def _shortest(x: Array, y: Array, rtol: Any, u: Array, inverse: Array, vh: Array) -> Any:
    """The shortest z for which |x z - y| is least, by the singular value decomposition of x."""
    share = _product(adjoint(u), y)
    column = _structure.broadcast_to(inverse, np.shape(share), (0,))
    return _product(adjoint(vh), lax.mul(column, share))


@_shortest.defjvp
def _shortest_tangent(primals: Arrays, tangents: Arrays) -> Any:
    """The tangent of pinv(x) y. It subtracts no two singular values, so equal ones do no harm."""
    x, y, rtol, *_ = primals
    t, ty, *_ = tangents
    z = _shortest(*primals)
    p = _pseudo_inverse(x, rtol)
    p_h, t_h = adjoint(p), adjoint(t)
    along = _product(p, lax.sub(ty, _product(t, z)))
    rest = lax.sub(y, _product(x, z))
    by_rest = _product(p, _product(p_h, _product(t_h, rest)))
    turned = _product(t_h, _product(p_h, z))
    across = lax.sub(turned, _product(p, _product(x, turned)))
    return z, functools.reduce(lax.add, (along, by_rest, across))


@fast(static=("numpy_resid",))
def _lstsq(a: ArrayLike, b: ArrayLike, rcond: object, numpy_resid: bool) -> Any:
    x, y = (
        _structure.convert_element_type(v, typeof(v).dtype)
        for v in promote_dtypes("jnp.linalg.lstsq", INEXACT, a, b)
    )
    if np.ndim(x) != 2:
        raise TypeError(f"{np.ndim(x)}-dimensional array given. Array must be two-dimensional")
    if np.shape(x)[0] != np.shape(y)[0]:
        raise ValueError(
            f"Leading dimensions of input arrays must match\n    a: {typeof(x)}, b: {typeof(y)}"
        )
    vector = np.ndim(y) == 1
    if np.ndim(y) not in (1, 2):
        raise TypeError(
            f"{np.ndim(y)}-dimensional array given. Array must be one or two-dimensional"
        )
    y = _structure.reshape(y, (np.shape(y)[0], 1)) if vector else y
    m, n = np.shape(x)
    eps = float(dtypes.finfo(typeof(x).dtype).eps)
    u, s, vh = _linalg_svd.svd(x, full_matrices=False)
    share_kept = convert(eps * max(m, n) if rcond is None else rcond, typeof(s).dtype)
    limit = lax.mul(fold("max", s, -1, False, None, scalar_like(s, 0)), share_kept)
    kept = lax.gt(s, broadcast_to(limit, np.shape(s)))
    rank = fold("sum", convert(kept, dtypes.canonicalize_dtype(int)), 0, False, None, None)
    inverse = lax.where_else(
        kept,
        lax.div(scalar_like(s, 1), lax.where_else(kept, s, scalar_like(s, 1))),
        scalar_like(s, 0),
    )
    column = convert(inverse, typeof(x).dtype)
    out = _shortest(x, y, share_kept, *(lax.stop_gradient(v) for v in (u, column, vh)))
    rest = lax.sub(y, _product(x, out))
    residual = fold("sum", lax.square(lax.abs(rest)), 0, False, None, None)
    return (_structure.reshape(out, (n,)) if vector else out), residual, rank, s


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x for which |a x - b| is least, and of those the shortest; the squared residuals, the
    rank and the singular values of a.

    a: T[m, n]; b: T[m] or T[m, k]. Singular values at most rcond (by default max(m, n) eps) times
    the greatest count as 0.
    numpy_resid: as in NumPy, no residuals where a has not the rank n < m; needs concrete values.
    Raises ValueError if shapes do not fit.

    >>> lstsq(np.float32([[1], [1]]), np.float32([1, 3]))[0].round(3)
    Array([2.], dtype=float32)
    """
    check_arraylike("jnp.linalg.lstsq", a, b)
    out, residual, rank, s = _lstsq(a, b, rcond, numpy_resid)
    if numpy_resid and (int(rank) < np.shape(a)[1] or np.shape(a)[0] <= np.shape(a)[1]):
        residual = _structure.full((0,), 0, typeof(s).dtype)
    return out, residual, rank, s


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of a as a linear map from its axes after the first `ind` to the first.

    Raises ValueError if these have different numbers of elements.

    >>> tensorinv(np.eye(4, dtype='float32').reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    check_arraylike("jnp.linalg.tensorinv", a)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    shape = np.shape(a)
    first, rest = shape[:ind], shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals "
            f"that of the remaining dimensions. got arr.shape={shape} with ind={ind}."
        )
    return _structure.reshape(
        inv(_structure.reshape(a, (math.prod(first), math.prod(rest)))), (*rest, *first)
    )


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """The x with tensordot(a, x, x.ndim) = b. axes: axes of a that are moved to its end first.

    >>> tensorsolve(np.eye(4, dtype='float32').reshape(2, 2, 4), np.ones((2, 2), np.float32)).shape
    (4,)
    """
    check_arraylike("jnp.linalg.tensorsolve", a, b)
    x, y = promote_dtypes("jnp.linalg.tensorsolve", INEXACT, a, b)
    if axes is not None:
        moved = [_structure.canonical_axis(i, np.ndim(x)) for i in axes]
        x = _structure.transpose(x, (*(i for i in range(np.ndim(x)) if i not in moved), *moved))
    rest = np.shape(x)[np.ndim(y) :]
    if np.shape(x)[: np.ndim(y)] != np.shape(y):
        raise ValueError(
            "After moving axes to end, leading shape of a must match shape of b. got "
            f"a.shape={np.shape(x)}, b.shape={np.shape(y)}"
        )
    if math.prod(rest) != math.prod(np.shape(y)):
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={np.shape(x)}, b.ndim={np.ndim(y)}."
        )
    size = math.prod(rest)
    return _structure.reshape(
        solve(_structure.reshape(x, (size, size)), _structure.reshape(y, (size,))), rest
    )
