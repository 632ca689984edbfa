"""QR factorization, and the products of Householder reflectors that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, final, overload

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import min_dim
from teucer._lower import hlo
from teucer._transform.jvp import jvp_flat
from teucer.lax._arithmetic import add, complex, imag, mul, neg, sub
from teucer.lax._joining import concatenate
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import full
from teucer.lax.linalg import _lapack
from teucer.lax.linalg._matrices import (
    adjoint,
    eye,
    like,
    matmul,
    matrix_transpose,
    permutation_matrix,
    tril,
)
from teucer.lax.linalg._solve import triangular_solve

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "geqp3_p", "geqrf_p", "householder_product", "householder_product_p", "ormqr", "ormqr_p", "qr",
    "qr_p",
]  # fmt: skip


def _matrix_avals(name: str, x: Any) -> Any:
    _lapack.check_rank(name, (x, 2))
    _lapack.check_inexact(name, x)
    *batch, m, n = x.shape
    return x.strengthen(), ShapedArray((*batch, min_dim(m, n)), x.dtype)


@final
class Geqrf(_lapack.MatrixPrimitive):
    """R, with the Householder vectors whose product is Q below it, and their scale factors."""

    __slots__ = ()
    name = "geqrf"
    cost = _lapack.cubes(4 / 3)
    multiple_results = True

    def types(self, x: ShapedArray) -> Any:
        return _matrix_avals("geqrf", x)

    def lower(self, ctx: Context, x: Value) -> Any:
        packed, taus = ctx.avals_out
        if 0 in x.shape:
            return x, _lapack.zeros(ctx, taus)
        return _lapack.built_in(ctx, "geqrf", [x], [packed, taus]) or _lapack.lapack(
            ctx, "qr", "geqrf", len(x.shape) - 2, [x], [packed, taus], aliases=[(0, 0)]
        )


@final
class Geqp3(_lapack.MatrixPrimitive):
    """`geqrf` of x with columns exchanged so that the diagonal of R decreases, and which columns of
    x come where."""

    __slots__ = ()
    name = "geqp3"
    cost = _lapack.cubes(4 / 3)
    multiple_results = True

    def types(self, x: ShapedArray, *, use_magma: bool | None) -> Any:
        packed, taus = _matrix_avals("geqp3", x)
        return packed, ShapedArray((*x.shape[:-2], x.shape[-1]), np.dtype(np.int32)), taus

    def lower(self, ctx: Context, x: Value, *, use_magma: bool | None) -> Any:
        packed, order, taus = ctx.avals_out
        if 0 in x.shape:
            # The routine divides by the size of such a matrix.
            return x, hlo.iota(ctx, order, order.ndim - 1), _lapack.zeros(ctx, taus)
        # An entry 0 leaves the routine free to exchange that column; it counts from 1.
        free = _lapack.zeros(ctx, order)
        packed, order, taus = _lapack.lapack(
            ctx,
            "qr",
            "geqp3",
            len(x.shape) - 2,
            [x, free],
            [packed, order, taus],
            aliases=[(0, 0), (1, 1)],
            gpu=f'magma = "{_lapack.magma(use_magma)}"',
        )
        one = hlo.broadcast_in_dim(ctx, ctx.constant(1, np.int32), order.shape, ())
        return packed, hlo.elementwise(ctx, "subtract", order, one), taus


@final
class HouseholderProduct(_lapack.MatrixPrimitive):
    """The first columns of H_1 H_2 ... H_k with H_i = I - taus[i] v_i v_i^H; v_i is column i of a
    below the diagonal.

    (C1) a has as many rows as columns or more.  (C2) at most as many taus as columns.  (C3) one
    dtype, floating or complex.
    """

    __slots__ = ()
    name = "householder_product"
    cost = _lapack.cubes(4 / 3)

    def types(self, a: ShapedArray, taus: ShapedArray) -> Any:
        _lapack.check_rank("householder_product", (a, 2), (taus, 1))
        _lapack.check_same_dtype("householder_product", a, taus)
        _lapack.check_inexact("householder_product", a, taus)
        _lapack.check_same_batch("householder_product", (a, 2), (taus, 1))
        if a.shape[-2] < a.shape[-1]:
            raise ValueError(
                "The first argument to householder_product must have at least as many rows as "
                f"columns, got shape {a.shape}"
            )
        if taus.shape[-1] > a.shape[-1]:
            raise ValueError(
                "The second argument to householder_product must not have more rows than the "
                f"minimum of the first argument's rows and columns.\n    a: {a.shape}\n"
                f"    taus: {taus.shape}"
            )
        return (a.strengthen(),)

    def lower(self, ctx: Context, a: Value, taus: Value) -> Any:
        if 0 in taus.shape:
            # Not all kernels take a product of none.
            return (_lapack.identity(ctx, *ctx.avals_out),)
        return _lapack.built_in(ctx, "orgqr", [a, taus], ctx.avals_out) or _lapack.lapack(
            ctx,
            "householder_product",
            "orgqr",
            len(a.shape) - 2,
            [a, taus],
            ctx.avals_out,
            aliases=[(0, 0)],
        )


@final
class Ormqr(_lapack.MatrixPrimitive):
    """Q c or c Q, or with Q^H, where Q = H_1 H_2 ... H_k is given by its Householder vectors.

    (C1) a has as many rows as c rows (left) or columns.  (C2) one dtype, floating or complex.
    """

    __slots__ = ()
    name = "ormqr"

    def types(
        self, a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
    ) -> Any:
        _lapack.check_rank("ormqr", (a, 2), (taus, 1), (c, 2))
        _lapack.check_same_dtype("ormqr", a, taus, c)
        _lapack.check_inexact("ormqr", a, taus, c)
        _lapack.check_same_batch("ormqr", (a, 2), (taus, 1), (c, 2))
        if a.shape[-2] != c.shape[-2 if left else -1]:
            raise ValueError(
                f"ormqr with left={left} expects c to have the same number of "
                f"{'rows' if left else 'columns'} as the Householder matrix "
                f"a{' has rows' if not left else ''}. Got a shape {a.shape} and c shape {c.shape}."
            )
        return (c.strengthen(),)

    def lower(
        self, ctx: Context, a: Value, taus: Value, c: Value, *, left: bool, transpose: bool
    ) -> Any:
        if 0 in taus.shape or 0 in c.shape:
            return (c,)
        if _lapack.of_products(ctx):
            from teucer.lax.linalg._reflectors import reflected  # where there is no LAPACK

            return ctx.trace(
                lambda *xs: (reflected(*xs, left=left, transpose=transpose),), a, taus, c
            )
        options = f"left = {_lapack.boolean(left)}, transpose = {_lapack.boolean(transpose)}"
        return _lapack.lapack(
            ctx, "ormqr", "ormqr", len(a.shape) - 2, [a, taus, c], ctx.avals_out, options, [(0, 2)]
        )


@final
class Qr(_lapack.MatrixPrimitive):
    """Q with orthonormal columns and upper triangular R: x = Q R, or x[:, p] = Q R with pivoting.

    (C1) x is a matrix, of floating or complex dtype.
    """

    __slots__ = ()
    name = "qr"
    cost = _lapack.cubes(8 / 3)
    multiple_results = True

    def types(
        self, x: ShapedArray, *, pivoting: bool, full_matrices: bool, use_magma: object
    ) -> Any:
        _lapack.check_rank("qr", (x, 2))
        _lapack.check_inexact("qr", x)
        *batch, m, n = x.shape
        k = m if full_matrices else min_dim(m, n)
        q = ShapedArray((*batch, m, k), x.dtype)
        r = ShapedArray((*batch, k, n), x.dtype)
        return (q, r, ShapedArray((*batch, n), np.dtype(np.int32))) if pivoting else (q, r)

    def lower(self, ctx: Context, x: Value, **params: Any) -> Any:
        return ctx.trace(lambda x: _qr(x, **params), x)

    def jvp(
        self, primals: Arrays, tangents: Values, *, full_matrices: bool, **params: object
    ) -> Any:
        (x,), (t,) = primals, tangents
        outs = self.call(x, full_matrices=full_matrices, **params)
        if type(t) is Zero:
            return outs, tuple(typeof(y).zero for y in outs)
        q, r, *order = outs
        if order:
            t = matmul(t, matrix_transpose(permutation_matrix(order[0], typeof(x).dtype)))
        return outs, (*_qr_tangents(q, r, t), *(typeof(p).zero for p in order))


geqrf_p = Geqrf()
geqp3_p = Geqp3()
householder_product_p = HouseholderProduct()
ormqr_p = Ormqr()
qr_p = Qr()


def _qr(x: ArrayLike, *, pivoting: bool, full_matrices: bool, use_magma: object) -> Any:
    packed, *order, taus = geqp3_p.call(x, use_magma=use_magma) if pivoting else geqrf_p.call(x)
    aval = typeof(packed)
    rows, columns = aval.ndim - 2, aval.ndim - 1
    m, n = aval.shape[-2:]
    least = min_dim(m, n)
    vectors = packed if least == n else slice_in_dim(packed, 0, least, axis=columns)
    r = packed
    if full_matrices:
        if least != m:
            vectors = concatenate(
                [vectors, full((*aval.shape[:-1], m - least), 0, aval.dtype)], columns
            )
    elif least != m:
        r = slice_in_dim(packed, 0, least, axis=rows)
    (q,) = householder_product_p.call(vectors, taus)
    upper = sub(r, tril(r, -1))
    return (q, upper, *order)


def _qr_tangents(q: Array, r: Array, t: Any) -> Any:
    """Tangents of Q and R."""
    *_, k, n = typeof(r).shape
    if k <= n:
        return _reduced_tangents(q, r, t)
    rows, columns = typeof(q).ndim - 2, typeof(q).ndim - 1
    first = slice_in_dim(q, 0, n, axis=columns)
    dq, dr = _reduced_tangents(first, slice_in_dim(r, 0, n, axis=rows), t)
    _, (d_rest,) = jvp_flat(lambda v: (_completed(v),), (first,), (dq,))
    nothing = slice_in_dim(r, n, k, axis=rows)
    return concatenate([dq, d_rest], columns), concatenate([dr, sub(nothing, nothing)], rows)


def _completed(q: ArrayLike) -> Any:
    """The last columns of a full Q, of the first n.

    Q = I - V T V^H with V lower trapezoidal and T upper triangular (Schreiber & Van Loan, SISSC 10
    (1989) 53), so that with E = [I, 0]^T, W = E - q = V T V_1^H and its first n rows W_1 = V_1 T
    V_1^H the last columns are the last columns of I - W W_1^-H W^H.
    """
    rows = typeof(q).ndim - 2
    m, n = typeof(q).shape[-2:]
    w = sub(eye(q), q)
    top, bottom = slice_in_dim(w, 0, n, axis=rows), slice_in_dim(w, n, m, axis=rows)
    inner, upper = qr(adjoint(top), full_matrices=False)[:2]
    solved = triangular_solve(
        upper, matmul(adjoint(inner), adjoint(bottom)), left_side=True, lower=False
    )
    product = matmul(w, solved)
    above, below = slice_in_dim(product, 0, n, axis=rows), slice_in_dim(product, n, m, axis=rows)
    return concatenate([neg(above), sub(eye(below), below)], rows)


def _reduced_tangents(q: Array, r: Array, t: ArrayLike) -> Any:
    """Tangents of Q and R for a square Q R, or a reduced one: Walter & Lehmann, arXiv:1001.1654,
    section 3.1. For more columns than rows R's last ones follow."""
    columns = typeof(r).ndim - 1
    k, n = typeof(r).shape[-2:]
    is_wide = n > k
    square_r, square_t = (slice_in_dim(x, 0, k, axis=columns) if is_wide else x for x in (r, t))
    scaled = triangular_solve(square_r, square_t, lower=False)
    inner = matmul(adjoint(q), scaled)
    below = tril(inner, -1)
    # Q^H dQ is skew-Hermitian, and `inner` less it is upper triangular with a real diagonal.
    turn = sub(below, adjoint(below))
    if dtypes.issubdtype(typeof(q).dtype, np.complexfloating):
        phases = mul(eye(inner), inner)
        turn = add(turn, complex(like(imag(phases), 0), imag(phases)))
    dq = add(matmul(q, sub(turn, inner)), scaled)
    dr = matmul(sub(inner, turn), square_r)
    if is_wide:
        rest = slice_in_dim(r, k, n, axis=columns)
        moved = sub(matmul(adjoint(q), slice_in_dim(t, k, n, axis=columns)), matmul(turn, rest))
        dr = concatenate([dr, moved], columns)
    return dq, dr


@overload
def qr(
    x: ArrayLike,
    *,
    pivoting: Literal[False] = ...,
    full_matrices: bool = ...,
    use_magma: bool | None = ...,
) -> tuple[Array, Array]: ...
@overload
def qr(
    x: ArrayLike, *, pivoting: bool, full_matrices: bool = ..., use_magma: bool | None = ...
) -> tuple[Array, Array] | tuple[Array, Array, Array]: ...
def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """QR factorization: x = Q R, or x[..., :, p] = Q R with pivoting.

    x: T[..., m, n]  ->  Q: T[..., m, k], R: T[..., k, n], and with pivoting p: i32[..., n]; k = m
    with full_matrices, or min(m, n)
    use_magma: with pivoting on a GPU, by MAGMA (True) or by LAPACK on the host (False); by default
    by MAGMA if it is there. Derivatives need full rank.
    Raises TypeError if x is not a floating or complex matrix (C1).

    >>> from teucer import lax
    >>> q, r = lax.linalg.qr(np.float32([[3], [4]]), full_matrices=False)
    >>> r
    Array([[-5.]], dtype=float32)
    """
    return tuple(
        qr_p.call(
            x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma
        )
    )


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of the product of the Householder reflectors I - taus[i] v_i v_i^H.

    a: T[..., m, n], v_i is its column i below the diagonal, with a 1 on it; taus: T[..., k]  ->
    T[..., m, n]
    Raises ValueError if n > m (C1) or k > n (C2), TypeError for dtypes (C3).

    >>> from teucer import lax
    >>> lax.linalg.householder_product(np.float32([[0], [1]]), np.float32([1]))
    Array([[ 0.],
           [-1.]], dtype=float32)
    """
    return householder_product_p.call(a, taus)[0]


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Q c (left) or c Q, or with Q^H (transpose), for the product Q of Householder reflectors of
    `householder_product`.

    a: T[..., m, n]; taus: T[..., k]; c: T[..., m, p] with left, else T[..., p, m]  ->  T like c
    Raises ValueError if a and c do not fit (C1), TypeError for dtypes (C2).

    >>> from teucer import lax
    >>> lax.linalg.ormqr(np.float32([[0], [0]]), np.float32([2]), np.float32([[1], [1]]))
    Array([[-1.],
           [ 1.]], dtype=float32)
    """
    return ormqr_p.call(a, taus, c, left=bool(left), transpose=bool(transpose))[0]
