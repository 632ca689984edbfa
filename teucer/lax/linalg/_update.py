"""Updates: of a Cholesky factor by one vector, and of a symmetric matrix by a product A A^T."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import array_ops
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._lower import hlo
from teucer.lax._arithmetic import add, mul
from teucer.lax.linalg import _lapack
from teucer.lax.linalg._matrices import like, matmul, matrix_transpose, tril

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, Tangents
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["cholesky_update", "cholesky_update_p", "symmetric_product", "symmetric_product_p"]


@final
class CholeskyUpdate(_lapack.MatrixPrimitive):
    """Upper triangular R' with R'^T R' = R^T R + w w^T, for upper triangular R.

    (C1) R is square and w has its size.  (C2) one real floating dtype.
    """

    __slots__ = ()
    name = "cholesky_update"

    def types(self, r_matrix: ShapedArray, w_vector: ShapedArray) -> Any:
        _lapack.check_rank("cholesky_update", (r_matrix, 2), (w_vector, 1))
        _lapack.check_same_dtype("cholesky_update", r_matrix, w_vector)
        _lapack.check_inexact("cholesky_update", r_matrix, w_vector, real=True)
        _lapack.check_same_batch("cholesky_update", (r_matrix, 2), (w_vector, 1))
        if r_matrix.shape[-1] != r_matrix.shape[-2] or w_vector.shape[-1] != r_matrix.shape[-1]:
            raise ValueError(
                "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of "
                f"the same size as input. Got shapes {r_matrix.shape} and {w_vector.shape} instead"
            )
        return (r_matrix.strengthen(),)

    def lower(self, ctx: Context, r_matrix: Value, w_vector: Value) -> Any:
        if len(r_matrix.shape) == 2 and _lapack.has_gpu_kernel(ctx, "cholesky_update"):
            # For one matrix: batches go through the loop.
            avals = [r_matrix.aval.strengthen(), w_vector.aval.strengthen()]
            return _lapack.lapack(
                ctx,
                "cholesky_update",
                "cholesky_update",
                0,
                [r_matrix, w_vector],
                avals,
                aliases=[(0, 0), (1, 1)],
                row_major=True,
            )[:1]
        return (_rotated(ctx, r_matrix, w_vector),)


cholesky_update_p = CholeskyUpdate()


def _rotated(ctx: Context, r: Any, w: Any) -> Any:
    """Givens rotations, row by row: rotation k takes w[k] into R[k, k]. Golub & Van Loan, Matrix
    Computations, 6.5.4."""
    *batch, n = w.shape
    n_batch = len(batch)
    if 0 in w.shape:
        return r
    dtype = r.dtype
    scalars = ShapedArray((*batch, 1), dtype)
    row_aval, vector_aval = ShapedArray((*batch, 1, n), dtype), w.aval.strengthen()
    zero, one = ctx.constant(0, np.int32), ctx.constant(1, np.int32)
    index = hlo.iota(ctx, ShapedArray((*batch, n), np.dtype(np.int32)), n_batch)

    def binary(name: str, x: Any, y: Any) -> Any:
        return hlo.elementwise(ctx, name, x, y)

    def spread(x: Any) -> Any:
        return hlo.broadcast_in_dim(ctx, x, vector_aval.shape, range(n_batch + 1))

    def body(k: Value, matrix: Value, vector: Value) -> Any:
        starts = [zero] * n_batch
        row = hlo.reshape(
            ctx,
            hlo.dynamic_slice(ctx, matrix, [*starts, k, zero], row_aval.shape),
            vector_aval.shape,
        )
        x = hlo.dynamic_slice(ctx, row, [*starts, k], scalars.shape)
        y = hlo.dynamic_slice(ctx, vector, [*starts, k], scalars.shape)
        length = _hypot(ctx, x, y)
        # A zero column needs no rotation: cosine 1, sine 0.
        still = hlo.compare(ctx, length, hlo.splat(ctx, 0, scalars), "EQ")
        cosine = hlo.select(ctx, still, hlo.splat(ctx, 1, scalars), binary("divide", x, length))
        sine = hlo.select(ctx, still, hlo.splat(ctx, 0, scalars), binary("divide", y, length))
        turned = binary(
            "add", binary("multiply", spread(cosine), row), binary("multiply", spread(sine), vector)
        )
        rest = binary(
            "subtract",
            binary("multiply", spread(cosine), vector),
            binary("multiply", spread(sine), row),
        )
        # Columns before k are not touched; there R is zero.
        before = hlo.compare(ctx, index, hlo.broadcast_in_dim(ctx, k, index.shape, ()), "LT")
        turned, rest = hlo.select(ctx, before, row, turned), hlo.select(ctx, before, vector, rest)
        matrix = hlo.dynamic_update_slice(
            ctx, matrix, hlo.reshape(ctx, turned, row_aval.shape), [*starts, k, zero]
        )
        return binary("add", k, one), matrix, rest

    def cond(k: Value, matrix: Value, vector: Value) -> Any:
        return (hlo.compare(ctx, k, ctx.constant(n, np.int32), "LT"),)

    return hlo.while_(ctx, [zero, r, w], cond, body)[1]


def _hypot(ctx: Context, x: Value, y: Value) -> Any:
    """sqrt(x^2 + y^2) without overflow."""
    big = hlo.elementwise(
        ctx, "maximum", hlo.elementwise(ctx, "abs", x), hlo.elementwise(ctx, "abs", y)
    )
    is_zero = hlo.compare(ctx, big, hlo.splat(ctx, 0, big.aval), "EQ")
    scale = hlo.select(ctx, is_zero, hlo.splat(ctx, 1, big.aval), big)
    parts = [hlo.elementwise(ctx, "divide", v, scale) for v in (x, y)]
    squares = [hlo.elementwise(ctx, "multiply", v, v) for v in parts]
    root = hlo.elementwise(ctx, "sqrt", hlo.elementwise(ctx, "add", *squares))
    return hlo.elementwise(ctx, "multiply", root, big)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Upper triangular R' with R'^T R' = R^T R + w w^T.

    r_matrix: real[..., n, n], upper triangular; w_vector: real[..., n]  ->  real[..., n, n]
    Raises ValueError if the sizes differ (C1), TypeError for dtypes (C2).

    >>> from teucer import lax
    >>> lax.linalg.cholesky_update(np.float32([[3, 0], [0, 1]]), np.float32([4, 0]))
    Array([[5., 0.],
           [0., 1.]], dtype=float32)
    """
    return cholesky_update_p.call(r_matrix, w_vector)[0]


@final
class SymmetricProduct(_lapack.MatrixPrimitive):
    """alpha A A^T + beta C. Only the lower triangle counts.

    (C1) A is [..., n, m] and C [..., n, n].  (C2) one real floating dtype.
    """

    __slots__ = ()
    name = "symmetric_product"

    def types(
        self, a_matrix: ShapedArray, c_matrix: ShapedArray, *, alpha: float, beta: float
    ) -> Any:
        _lapack.check_rank("symmetric_product", (a_matrix, 2), (c_matrix, 2))
        _lapack.check_same_dtype("symmetric_product", a_matrix, c_matrix)
        _lapack.check_inexact("symmetric_product", a_matrix, c_matrix, real=True)
        _lapack.check_same_batch("symmetric_product", (a_matrix, 2), (c_matrix, 2))
        if c_matrix.shape[-2:] != (a_matrix.shape[-2],) * 2:
            raise ValueError(
                "symmetric_update expects a rectangular matrix of shape (m, n) and a square "
                f"matrix of shape (m, m). Got shapes {a_matrix.shape} and {c_matrix.shape}."
            )
        return (c_matrix.strengthen(),)

    def lower(
        self, ctx: Context, a_matrix: Value, c_matrix: Value, *, alpha: float, beta: float
    ) -> Any:
        return ctx.trace(lambda a, c: (_product(a, a, c, alpha, beta),), a_matrix, c_matrix)

    def jvp(self, primals: Arrays, tangents: Tangents, *, alpha: float, beta: float) -> Any:
        (a, c), (ta, tc) = primals, tangents
        outs = self.call(a, c, alpha=alpha, beta=beta)
        tangent: Any = typeof(c).zero
        if type(ta) is not Zero:
            half = mul(matmul(ta, matrix_transpose(a)), like(c, alpha))
            tangent = add(half, matrix_transpose(half))
        if type(tc) is not Zero:
            tangent = array_ops.add_cotangents(tangent, mul(tc, like(c, beta)))
        return outs, (tangent,)


symmetric_product_p = SymmetricProduct()


def _product(x: Array, y: Array, c: Array, alpha: float, beta: float) -> Any:
    return add(mul(matmul(x, matrix_transpose(y)), like(c, alpha)), mul(c, like(c, beta)))


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha a a^T + beta c for symmetric c. Only the lower triangle of c is read.

    a_matrix: real[..., n, m]; c_matrix: real[..., n, n]  ->  real[..., n, n]
    With symmetrize_output the upper triangle is made from the lower one.
    Raises ValueError if shapes differ (C1), TypeError for dtypes (C2).

    >>> from teucer import lax
    >>> lax.linalg.symmetric_product(np.float32([[1], [2]]), np.float32([[0, 0], [0, 0]]))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    (out,) = symmetric_product_p.call(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
    return add(tril(out), matrix_transpose(tril(out, -1))) if symmetrize_output else out
