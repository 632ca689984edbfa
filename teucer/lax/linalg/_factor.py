"""Cholesky and LU factorizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import dialects
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import min_dim
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer.lax._arithmetic import add, div, mul, sub
from teucer.lax._joining import concatenate
from teucer.lax._slicing import pad, slice_in_dim
from teucer.lax._structure import number
from teucer.lax.linalg import _lapack, _small
from teucer.lax.linalg import _matrices as matrices
from teucer.lax.linalg._solve import triangular_solve

if TYPE_CHECKING:
    from teucer._core.typing import Aval
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "cholesky", "cholesky_p", "lu", "lu_p", "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p", "symmetrized",
]  # fmt: skip


@final
class Cholesky(_lapack.MatrixPrimitive):
    """Lower triangular L with A = L L^H; elements above its diagonal are unspecified. NaN if A is
    not positive definite.

    (C1) A is square.  (C2) its dtype is floating or complex.
    """

    __slots__ = ()
    name = "cholesky"
    cost = _lapack.cubes(1 / 3)

    def types(self, x: ShapedArray) -> Any:
        _lapack.check_rank("cholesky", (x, 2))
        _lapack.check_inexact("cholesky", x)
        if x.shape[-1] != x.shape[-2]:
            raise ValueError(f"The input to cholesky must be a square matrix. Got shape {x.shape}.")
        return (x.strengthen(),)

    def lower(self, ctx: Context, x: Value) -> Any:
        if _small.is_small(ctx, x):
            return ctx.trace(lambda x: (_small.cholesky(x),), x)
        if not ctx.target.kernels.lapack and not _lapack.has_gpu_kernel(ctx, "potrf"):
            return (rare_hlo.cholesky(ctx, x, lower=True),)
        batch = x.shape[:-2]
        # StableHLO's operation becomes a loop on CPU: 4 to 12 times slower to compile, 7 times
        # slower to run at n = 800.
        factor, info = _lapack.lapack(
            ctx,
            "cholesky",
            "potrf",
            len(batch),
            [x],
            [x.aval.strengthen(), _lapack.info_of(batch)],
            f"uplo = {_lapack.flag('L')}",
            [(0, 0)],
            gpu="lower = true",
        )
        return _lapack.nan_unless_ok(ctx, info, factor)

    def jvp(self, primals: Sequence[object], tangents: Sequence[Array | Zero]) -> Any:
        # L^-1 dA L^-H = L^-1 dL + (L^-1 dL)^H, and L^-1 dL is lower triangular. Murray,
        # arXiv:1602.07527.
        outs = self.call(*primals)
        (t,) = tangents
        if type(t) is Zero:
            return outs, (typeof(outs[0]).zero,)
        factor, t = matrices.tril(outs[0]), matrices.hermitian(t)
        change = triangular_solve(factor, t, lower=True, transpose_a=True, conjugate_a=True)
        change = triangular_solve(factor, change, left_side=True, lower=True)
        halved = mul(
            add(
                matrices.tril(matrices.like(change, 1)), matrices.tril(matrices.like(change, 1), -1)
            ),
            matrices.like(change, 0.5),
        )
        return outs, (matrices.matmul(factor, mul(change, halved)),)

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Sequence[object], avals: Sequence[Aval], outs: Sequence[Array]
    ) -> Any:
        # Behind the elements stands the identity, which the factor has in its place.
        return self.call(sizes.bordered(*args, *avals))


cholesky_p = Cholesky()


def symmetrized(x: ArrayLike, op: str) -> Any:
    """(x + x^H) / 2. Integers become floats.

    Raises TypeError for fewer than two axes, ValueError if the matrices are not square.
    """
    x = matrices.as_float(x)
    aval = typeof(x)
    if aval.ndim < 2:
        raise TypeError(f"Input 0 to {op} must have rank at least 2, but got shape={aval.shape}")
    if aval.shape[-1] != aval.shape[-2]:
        raise ValueError(f"The input to {op} must be a square matrix. Got shape {aval.shape}.")
    return div(add(x, matrices.adjoint(x)), matrices.like(x, 2))


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Lower triangular L with x = L L^H, for Hermitian positive definite x.

    x: T[..., n, n]  ->  T[..., n, n]
    A matrix that is not positive definite gives NaN. Without symmetrize_input only the lower
    triangle is read. Raises ValueError if x is not square (C1), TypeError for dtypes (C2).

    >>> from teucer import lax
    >>> lax.linalg.cholesky(np.float32([[4, 2], [2, 5]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = symmetrized(x, "cholesky") if symmetrize_input else matrices.as_float(x)
    return matrices.tril(cholesky_p.call(x)[0])


@final
class Lu(_lapack.MatrixPrimitive):
    """L and U packed in one matrix, the pivots, and the permutation that they make: x[permutation]
    = L U.

    (C1) x is a matrix, of floating or complex dtype.
    """

    __slots__ = ()
    name = "lu"
    cost = _lapack.cubes(2 / 3)
    multiple_results = True

    def types(self, x: ShapedArray) -> Any:
        _lapack.check_rank("lu", (x, 2))
        _lapack.check_inexact("lu", x)
        *batch, m, n = x.shape
        return (
            x.strengthen(),
            ShapedArray((*batch, min_dim(m, n)), np.dtype(np.int32)),
            ShapedArray((*batch, m), np.dtype(np.int32)),
        )

    def lower(self, ctx: Context, x: Value) -> Any:
        packed_aval, pivots_aval, permutation_aval = ctx.avals_out
        if _small.is_small(ctx, x):
            return ctx.trace(_small.lu, x)
        if (outs := _lapack.built_in(ctx, "getrf", [x], ctx.avals_out)) is not None:
            return outs
        batch = x.shape[:-2]
        packed, pivots, info = _lapack.lapack(
            ctx,
            "lu",
            "getrf",
            len(batch),
            [x],
            [packed_aval, pivots_aval, _lapack.info_of(batch)],
            aliases=[(0, 0)],
        )
        # LAPACK counts from 1. info > 0 says only that U is singular.
        pivots = hlo.elementwise(ctx, "subtract", pivots, hlo.splat(ctx, 1, pivots_aval))
        (packed,) = _lapack.nan_unless_ok(ctx, info, packed, at_least=True)
        return packed, pivots, _permutation(ctx, pivots, permutation_aval)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object]) -> Any:
        # With P A = L U padded to square by identities, L^-1 P dA U^-1 = L^-1 dL + dU U^-1:
        # strictly lower plus upper.
        outs = self.call(*primals)
        packed, pivots, permutation = outs
        (t,) = tangents
        if type(t) is Zero:
            return outs, tuple(typeof(y).zero for y in outs)
        m, n = typeof(packed).shape[-2:]
        left, right = _square(packed, m, unit=True), _square(packed, n, unit=False)
        t = matrices.matmul(matrices.permutation_matrix(permutation, typeof(packed).dtype), t)
        change = triangular_solve(left, t, left_side=True, lower=True, unit_diagonal=True)
        change = triangular_solve(right, change, lower=False)
        left_change = matrices.matmul(left, matrices.tril(change, -1))
        right_change = matrices.matmul(matrices.triu(change), right)
        return outs, (
            add(matrices.tril(left_change, -1), matrices.triu(right_change)),
            typeof(pivots).zero,
            typeof(permutation).zero,
        )


lu_p = Lu()


def _square(packed: Any, size: int, *, unit: bool) -> Any:
    """L (unit) or U of a packed factorization, cut or padded by the identity to a square matrix of
    the given size."""
    aval = typeof(packed)
    m, n = aval.shape[-2:]
    k = min_dim(m, n)
    part = (
        slice_in_dim(packed, 0, k, axis=aval.ndim - 1)
        if unit
        else slice_in_dim(packed, 0, k, axis=aval.ndim - 2)
    )
    part = matrices.tril(part, -1) if unit else matrices.triu(part)
    missing = size - k
    zero = number(0, aval.dtype)
    widths = [(0, 0, 0)] * (aval.ndim - 2) + (
        [(0, 0, 0), (0, missing, 0)] if unit else [(0, missing, 0), (0, 0, 0)]
    )
    part = pad(part, zero, widths)
    identity = matrices.eye(part)
    # U's own diagonal stands; below it the identity fills up.
    return add(part, identity if unit else sub(identity, _leading(identity, k)))


def _leading(identity: Any, k: int) -> Any:
    """The identity with ones only in its first k rows."""
    aval = typeof(identity)
    kept = slice_in_dim(identity, 0, k, axis=aval.ndim - 2)
    rest = matrices.like(slice_in_dim(identity, k, aval.shape[-2], axis=aval.ndim - 2), 0)
    return concatenate([kept, rest], aval.ndim - 2)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """LU factorization with partial pivoting: x[permutation] = L U.

    x: T[..., m, n]  ->  T[..., m, n] with U in the upper triangle and L, of unit diagonal, below
    it;
    pivots i32[..., min(m, n)]: row i was exchanged with row pivots[i]; permutation i32[..., m].
    Raises TypeError if x is not a floating or complex matrix (C1).

    >>> from teucer import lax
    >>> lax.linalg.lu(np.float32([[0, 1], [2, 4]]))[0]
    Array([[2., 4.],
           [0., 1.]], dtype=float32)
    """
    return tuple(lu_p.call(x))


@final
class LuPivotsToPermutation(_lapack.MatrixPrimitive):
    """The permutation that exchanging row i with row pivots[i], for i = 0, 1, ..., makes of 0, 1,
    ..., permutation_size - 1.

    (C1) pivots are int32.  (C2) permutation_size is at least their number.
    """

    __slots__ = ()
    rank = 1
    name = "lu_pivots_to_permutation"

    def types(self, pivots: ShapedArray, *, permutation_size: int) -> Any:
        _lapack.check_rank("lu_pivots_to_permutation", (pivots, 1))
        if pivots.dtype != np.int32:
            raise TypeError(
                f"lu_pivots_to_permutation does not accept dtype {pivots.dtype.name} at position "
                "0. Accepted dtypes at position 0 are subtypes of int32."
            )
        if permutation_size < pivots.shape[-1]:
            raise ValueError(
                f"Output permutation size {permutation_size} has to exceed the trailing dimension "
                f"of the pivots. Got pivots size {pivots.shape[-1]}"
            )
        return (pivots.update(shape=(*pivots.shape[:-1], permutation_size)),)

    def lower(self, ctx: Context, pivots: Value, *, permutation_size: int) -> Any:
        return (_permutation(ctx, pivots, ctx.avals_out[0]),)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        return outs, (typeof(outs[0]).zero,)


lu_pivots_to_permutation_p = LuPivotsToPermutation()


def _permutation(ctx: Context, pivots: Any, aval: ShapedArray) -> Any:
    """Exchange entry i with entry pivots[i] of the identity permutation, for each i in turn."""
    *batch, k = pivots.shape
    n_batch = len(batch)
    identity = hlo.iota(ctx, aval, n_batch)
    if k == 0 or 0 in batch:
        return identity
    if _lapack.has_gpu_kernel(ctx, "lu_pivots_to_permutation"):
        # The loop below would start a few kernels for each pivot.
        return _lapack.lapack(ctx, "lu", "lu_pivots_to_permutation", n_batch, [pivots], [aval])[0]
    column, count = (
        ShapedArray((*batch, 1), np.dtype(np.int32)),
        hlo.convert(ctx, hlo.size(ctx, k), np.dtype(np.int32)),
    )

    def body(i: Any, permutation: Value) -> Any:
        zeros = [ctx.constant(0, np.int32)] * n_batch
        pivot = hlo.dynamic_slice(ctx, pivots, [*zeros, i], column.shape)
        here = hlo.compare(ctx, identity, hlo.broadcast_in_dim(ctx, i, aval.shape, ()), "EQ")
        there = hlo.compare(
            ctx, identity, hlo.broadcast_in_dim(ctx, pivot, aval.shape, range(n_batch + 1)), "EQ"
        )
        first = hlo.dynamic_slice(ctx, permutation, [*zeros, i], column.shape)
        second = _chosen(ctx, there, permutation, n_batch)
        moved = hlo.select(
            ctx,
            there,
            hlo.broadcast_in_dim(ctx, first, aval.shape, range(n_batch + 1)),
            permutation,
        )
        moved = hlo.select(
            ctx, here, hlo.broadcast_in_dim(ctx, second, aval.shape, range(n_batch)), moved
        )
        return hlo.elementwise(ctx, "add", i, ctx.constant(1, np.int32)), moved

    def cond(i: Any, permutation: Value) -> Any:
        return (hlo.compare(ctx, i, count, "LT"),)

    return hlo.while_(ctx, [ctx.constant(0, np.int32), identity], cond, body)[1]


def _chosen(ctx: Context, mask: Any, x: Value, axis: int) -> Any:
    """The elements of x at the one place of each row that the mask marks."""
    kept = hlo.select(ctx, mask, x, hlo.splat(ctx, 0, x.aval))
    return hlo.reduce(
        ctx,
        [kept],
        [ctx.constant(0, x.dtype)],
        [axis],
        lambda a, b: (hlo.elementwise(ctx, "add", a, b),),
    )[0]


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation that a sequence of row exchanges makes.

    pivots: i32[..., k], as of `lu`  ->  i32[..., permutation_size]
    Raises TypeError if pivots are not int32 (C1), ValueError if permutation_size is less than k
    (C2).

    >>> from teucer import lax
    >>> lax.linalg.lu_pivots_to_permutation(np.int32([2, 1]), 4)
    Array([2, 1, 0, 3], dtype=int32)
    """
    return lu_pivots_to_permutation_p.call(pivots, permutation_size=int(permutation_size))[0]
