"""Decompositions where the compiler has few factorizations of its own, as on TPUs.

Made of products, QR and the compiler's Hermitian eigendecomposition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._transform.vmap import vmap
from teucer.lax._arithmetic import abs as absolute
from teucer.lax._arithmetic import add, conj, div, eq, ge, gt, mul, neg, sub
from teucer.lax._control.iteration import scan
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_max
from teucer.lax._selection import where_else
from teucer.lax._shapes import rev, transpose
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import broadcast_to, convert_element_type, full, reshape
from teucer.lax.linalg._eigen import eigh_p
from teucer.lax.linalg._matrices import (
    adjoint,
    columns,
    diagonal,
    eye,
    like,
    matmul,
    rows,
    tril,
    triu,
)
from teucer.lax.linalg._polar import qdwh
from teucer.lax.linalg._qr import qr
from teucer.lax.linalg._solve import shifted, triangular_solve

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["reflected", "solved_tridiagonal", "svd_by_polar"]


def reflected(a: Array, taus: Array, c: Array, *, left: bool, transpose: bool) -> Any:
    """Q c, or with `transpose` Q^H c, or from the right c Q, c Q^H, for the Householder vectors in
    a and their factors.

    Q = I - V T V^H with T = (I + D S)^-1 D, where D = diag(taus) and S is V^H V above its diagonal:
    Puglisi, SIAM J. Sci. Stat. Comput. 13 (1992) 723, in a form without 1 / tau.
    """
    if not left:
        return adjoint(reflected(a, taus, adjoint(c), left=True, transpose=not transpose))
    k = typeof(taus).shape[-1]
    packed = slice_in_dim(a, 0, k, axis=typeof(a).ndim - 1)
    v = add(tril(packed, -1), eye(packed))
    gram = triu(matmul(adjoint(v), v), 1)
    inner = matmul(adjoint(v), c)
    unit = mul(columns(taus, gram), gram)
    options: Any = {"left_side": True, "unit_diagonal": True}
    if transpose:
        solved = triangular_solve(unit, inner, transpose_a=True, conjugate_a=True, **options)
        turned = mul(columns(conj(taus) if typeof(taus).dtype.kind == "c" else taus, inner), solved)
    else:
        turned = triangular_solve(unit, mul(columns(taus, inner), inner), **options)
    return sub(c, matmul(v, turned))


def svd_by_polar(x: Array, *, full_matrices: bool, compute_uv: bool) -> tuple[Any, ...]:
    """Singular values, and with compute_uv U and V^H, from the polar factors of x.

    With A = U_p H and H = V S V^H, A = (U_p V) S V^H: Nakatsukasa & Higham, SIAM J. Sci. Comput. 35
    (2013) A1325.
    """
    ndim = typeof(x).ndim
    if ndim > 2:
        return tuple(
            vmap(lambda y: svd_by_polar(y, full_matrices=full_matrices, compute_uv=compute_uv))(x)
        )
    m, n = typeof(x).shape
    if m < n:
        s, *uv = svd_by_polar(adjoint(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return (s, *map(adjoint, reversed(uv)))
    size = reduce_max(absolute(x), (0, 1))
    size = where_else(gt(size, like(size, 0)), size, like(size, 1))
    y = div(x, broadcast_to(convert_element_type(size, typeof(x).dtype), typeof(x).shape, ()))
    q, y = qr(y, full_matrices=False) if m > n else (None, y)
    turn, stretch, _, _ = qdwh(y)
    v, s = eigh_p.call(
        stretch, lower=True, sort_eigenvalues=True, subset_by_index=None, algorithm=None
    )
    s, v = rev(s, (0,)), rev(v, (1,))
    # Rounding makes values of zero negative; NaN stays.
    s = mul(where_else(ge(s, like(s, 0)), s, mul(s, like(s, 0))), broadcast_to(size, (n,), ()))
    if not compute_uv:
        return (s,)
    u = matmul(turn, v)
    return s, _completed(u if q is None else matmul(q, u), full_matrices), adjoint(v)


def _completed(u: Array, full_matrices: bool) -> Any:
    """Orthonormal columns, of which the first are those of u that have length 1: vectors of
    singular values of zero may have any."""
    q, r = qr(u, full_matrices=full_matrices)
    n = typeof(u).shape[1]
    phases = diagonal(slice_in_dim(r, 0, n, axis=0))
    length = absolute(phases)
    is_vector = gt(length, like(length, 0.5))
    one = like(phases, 1)
    phases = where_else(
        is_vector, div(phases, convert_element_type(length, typeof(phases).dtype)), one
    )
    rest = typeof(q).shape[1] - n
    phases = concatenate([phases, full((rest,), 1, typeof(q).dtype)], 0) if rest else phases
    # A matrix with NaN has NaN in all of its vectors.
    lost = add(mul(phases, like(phases, 0)), like(phases, 1))
    return mul(q, rows(mul(phases, lost), q))


def solved_tridiagonal(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool) -> Any:
    """The solution X of A X = B by elimination with partial pivoting, an equation a step. NaN for a
    singular matrix, unless its pivots of zero are perturbed.

    Golub & Van Loan, Matrix Computations (2013), section 4.3.5.
    """
    n_batch = typeof(d).ndim - 1
    first = (n_batch, *range(n_batch))
    dl, d, du = (transpose(x, first) for x in (dl, d, du))
    b = transpose(b, (*first, n_batch + 1))
    du = shifted(shifted(du, 1, 0), -1, 0)  # the last one is not read
    n, dtype = typeof(d).shape[0], typeof(d).dtype
    after: Any = [slice_in_dim(x, 1, n, axis=0) for x in (dl, d, du, b)]
    start = [reshape(slice_in_dim(x, 0, 1, axis=0), typeof(x).shape[1:]) for x in (d, du, b)]

    def eliminate(pivot: Any, equation: Any) -> Any:
        (p, q, right), (low, middle, high, given) = pivot, equation
        swaps = gt(absolute(low), absolute(p))
        zero = like(p, 0)
        smaller, larger = where_else(swaps, p, low), where_else(swaps, low, p)
        nothing = eq(larger, zero)
        factor = where_else(nothing, zero, div(smaller, where_else(nothing, like(p, 1), larger)))
        kept = (
            larger,
            where_else(swaps, middle, q),
            where_else(swaps, high, zero),
            _where_rows(swaps, given, right),
        )
        rest = (
            where_else(swaps, sub(q, mul(factor, middle)), sub(middle, mul(factor, q))),
            where_else(swaps, neg(mul(factor, high)), high),
            sub(
                _where_rows(swaps, right, given),
                mul(_to_rows(factor, given), _where_rows(swaps, given, right)),
            ),
        )
        return rest, kept

    last, kept = scan(eliminate, tuple(start), tuple(after))
    ends = (last[0], last[1], like(last[1], 0), last[2])
    pivots, second, third, right = (
        concatenate([x, _one_more(y)], 0) for x, y in zip(kept, ends, strict=True)
    )
    size = absolute(pivots)
    least = full((), float(dtypes.finfo(dtype).eps), typeof(size).dtype)
    is_zero = eq(size, like(size, 0))
    if perturb_singular:
        largest = reduce_max(size, (0,))
        largest = where_else(gt(largest, like(largest, 0)), largest, like(largest, 1))
        small = mul(largest, broadcast_to(least, typeof(largest).shape, ()))
        small = broadcast_to(small, typeof(size).shape, tuple(range(1, typeof(size).ndim)))
        pivots = where_else(is_zero, convert_element_type(small, dtype), pivots)

    def substitute(found: Any, equation: Any) -> Any:
        (next_one, next_two), (p, q, r, given) = found, equation
        x = sub(given, add(mul(_to_rows(q, given), next_one), mul(_to_rows(r, given), next_two)))
        x = div(x, _to_rows(p, given))
        return (x, next_one), x

    nothing = like(start[2], 0)
    _, x = scan(substitute, (nothing, nothing), (pivots, second, third, right), reverse=True)
    if not perturb_singular:
        singular = reduce_max(convert_element_type(is_zero, np.int32), (0,))
        bad = gt(singular, like(singular, 0))
        whole = broadcast_to(bad, typeof(x).shape, tuple(range(1, n_batch + 1)))
        x = where_else(whole, like(x, np.nan), x)
    return transpose(x, (*range(1, n_batch + 1), 0, n_batch + 1))


def _one_more(x: Array) -> Any:
    return broadcast_to(x, (1, *typeof(x).shape), tuple(range(1, typeof(x).ndim + 1)))


def _to_rows(x: Array, like_rows: Array) -> Any:
    """A number for each matrix as a row of numbers."""
    return broadcast_to(x, typeof(like_rows).shape, tuple(range(typeof(x).ndim)))


def _where_rows(mask: Array, x: Array, y: Array) -> Any:
    return where_else(_to_rows(mask, x), x, y)
