"""Polar decomposition by the dynamically weighted Halley iteration (QDWH)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax._arithmetic import abs as absolute
from teucer.lax._arithmetic import add, bitwise_and, conj, eq, lt, max, mul, real, square, sub
from teucer.lax._elementwise import rsqrt, sqrt
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_max
from teucer.lax._selection import where_else
from teucer.lax._shapes import broadcasted_iota
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import broadcast_to, convert_element_type, full, reduce_sum
from teucer.lax.linalg._factor import cholesky
from teucer.lax.linalg._lapack import check_inexact, real_dtype
from teucer.lax.linalg._matrices import adjoint, as_float, eye, like, matmul
from teucer.lax.linalg._qr import qr
from teucer.lax.linalg._solve import triangular_solve

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Size

__all__ = ["qdwh"]


class _Weights(NamedTuple):
    """One step X (a + b X^H X) / (1 + c X^H X), which maps singular values from [low, 1] closer to
    1."""

    a: float
    b: float
    c: float


def _schedule(eps: float) -> list[_Weights]:
    """The weights of the steps that take any singular value of at least eps to 1.

    Nakatsukasa, Bai & Gygi, SIAM J. Matrix Anal. Appl. 31 (2010) 2700. The bound is eps at the
    start for any matrix, so that the number of steps is fixed: six in float64.
    """
    low, steps = eps, []
    while low + eps < 1:
        square_low = low * low
        d = math.cbrt(4 * (1 - square_low) / square_low**2)
        root = math.sqrt(1 + d)
        a = root + math.sqrt(8 - 4 * d + 8 * (2 - square_low) / (square_low * root)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        steps.append(_Weights(a, b, c))
        low = _at_most_one(low * (a + b * square_low) / (1 + c * square_low))
    return steps


def _at_most_one(x: float) -> float:
    return x if x < 1 else 1.0


def _scaled(x: Array, factor: float) -> Any:
    return mul(x, like(x, factor))


def _step(x: Array, w: _Weights) -> Any:
    if w.c > 100:
        # With large weights by QR, which is stable there.
        m = typeof(x).shape[0]
        q = qr(
            concatenate([_scaled(x, math.sqrt(w.c)), _eye_of_columns(x)], 0), full_matrices=False
        )[0]
        upper, lower = slice_in_dim(q, 0, m, axis=0), slice_in_dim(q, m, typeof(q).shape[0], axis=0)
        change = _scaled(matmul(upper, adjoint(lower)), (w.a - w.b / w.c) / math.sqrt(w.c))
    else:
        gram = matmul(adjoint(x), x)
        factor = cholesky(add(eye(gram), _scaled(gram, w.c)), symmetrize_input=False)
        y = triangular_solve(factor, x, lower=True, transpose_a=True, conjugate_a=True)
        change = _scaled(triangular_solve(factor, y, lower=True), w.a - w.b / w.c)
    return add(_scaled(x, w.b / w.c), change)


def _eye_of_columns(x: ArrayLike) -> Any:
    n = typeof(x).shape[1]
    return eye(full((n, n), 0, typeof(x).dtype))


def _norm(x: ArrayLike) -> Any:
    size = real(mul(conj(x), x)) if typeof(x).dtype.kind == "c" else square(x)
    return sqrt(reduce_sum(size, (0, 1)))


def _masked(x: ArrayLike, shape: Sequence[Size]) -> Any:
    """x with zeros outside its first shape[0] rows and shape[1] columns, which may be traced."""
    inside = [
        lt(
            broadcasted_iota(np.int32, typeof(x).shape, i),
            broadcast_to(convert_element_type(n, np.int32), typeof(x).shape, ()),
        )
        for i, n in enumerate(shape)
    ]
    return where_else(bitwise_and(*inside), x, like(x, 0))


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> Any:
    """Polar decomposition x = u h, with orthonormal columns of u and positive semidefinite h.

    x: T[m, n], m >= n  ->  u: T[m, n], h: T[n, n], number of steps: int32, whether they converged:
    bool
    max_iterations: at most so many steps. eps: the precision aimed at, by default of the dtype.
    dynamic_shape: (rows, columns) of the part of x that counts; the rest is taken as zero, and
    gives zero. is_hermitian has no effect here.
    Raises ValueError if m < n or x is not a matrix, TypeError for dtypes.

    >>> from teucer import lax
    >>> np.asarray(lax.linalg.qdwh(np.float32([[3], [4]]))[0]).round(3)
    array([[0.6],
           [0.8]], dtype=float32)

    Method: Nakatsukasa, Bai & Gygi, SIAM J. Matrix Anal. Appl. 31 (2010) 2700.
    """
    x = as_float(x)
    aval = typeof(x)
    check_inexact("qdwh", aval)
    if aval.ndim != 2:
        raise ValueError(
            f"qdwh: x must be a matrix.\n    x: {aval.str_short(short_dtypes=True)}\n"
            "  Use vmap for batches."
        )
    if aval.shape[0] < aval.shape[1]:
        raise ValueError(
            "The input matrix of shape M x N must have M >= N.\n"
            f"    x: {aval.str_short(short_dtypes=True)}\n  Decompose its conjugate transpose."
        )
    part = real_dtype(aval.dtype)
    eps = float(dtypes.finfo(part).eps) if eps is None else float(eps)
    x = x if dynamic_shape is None else _masked(x, dynamic_shape)
    steps = _schedule(eps)[:max_iterations]
    y = mul(x, broadcast_to(convert_element_type(_inverse_bound(x), aval.dtype), aval.shape, ()))
    change: Any = full((), np.inf, part)
    for weights in steps:
        y, previous = _step(y, weights), y
        change = _norm(sub(y, previous))
    # One step of Newton and Schulz makes the columns orthonormal to the last digit.
    u = sub(_scaled(y, 1.5), _scaled(matmul(y, matmul(adjoint(y), y)), 0.5))
    h = matmul(adjoint(u), x)
    h = _scaled(add(h, adjoint(h)), 0.5)
    # Convergence is cubic: a change of this size leaves an error of the size of eps.
    return u, h, full((), len(steps), np.int32), lt(change, full((), math.cbrt(5 * eps), part))


def _inverse_bound(x: ArrayLike) -> Any:
    """1 / sqrt(norm_1(x) norm_inf(x)), which is at most 1 / norm_2(x); 1 for a matrix of zeros."""
    size = absolute(x)
    zero = full((), 0, typeof(size).dtype)
    by_columns, by_rows = (max(reduce_max(reduce_sum(size, (i,)), (0,)), zero) for i in (0, 1))
    is_zero = eq(by_columns, zero)
    one = full((), 1, typeof(size).dtype)
    return where_else(
        is_zero,
        one,
        mul(rsqrt(where_else(is_zero, one, by_columns)), rsqrt(where_else(is_zero, one, by_rows))),
    )
