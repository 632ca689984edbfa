"""Linear systems with triangular and tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices.partition import leading
from teucer._dimensions.dimensions import max_dim
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer.lax._arithmetic import add, mul, neg
from teucer.lax._joining import concatenate
from teucer.lax._slicing import pad, slice_in_dim
from teucer.lax._structure import number, reshape
from teucer.lax.linalg import _lapack, _small
from teucer.lax.linalg._matrices import (
    columns,
    conjugate,
    like,
    matmul,
    matrix_transpose,
    tril,
    triu,
)

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Dims
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class TriangularSolveParams(TypedDict):
        left_side: bool
        lower: bool
        transpose_a: bool
        conjugate_a: bool
        unit_diagonal: bool


__all__ = [
    "shifted", "solve_left", "triangular_solve", "triangular_solve_p", "tridiagonal_solve",
    "tridiagonal_solve_p",
]  # fmt: skip


@final
class TriangularSolve(Primitive):
    """The solution X of op(A) X = B, or X op(A) = B, for triangular A; op transposes and conjugates
    as asked.

    Only the named triangle of A is read, and not its diagonal if that is said to be 1.
    (C1) A is square.  (C2) B has as many rows (left_side) or columns as A.  (C3) dtypes are equal,
    floating or complex.
    """

    __slots__ = ()
    name = "triangular_solve"
    cost = _lapack.cubes(1)

    def types(
        self,
        a: ShapedArray,
        b: ShapedArray,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> Any:
        _lapack.check_rank("triangular_solve", (a, 2), (b, 2))
        _lapack.check_same_dtype("triangular_solve", a, b)
        _lapack.check_inexact("triangular_solve", a, b)
        _lapack.check_same_batch("triangular_solve", (a, 2), (b, 2))
        if a.shape[-1] != a.shape[-2]:
            raise ValueError(
                f"The first input to triangular_solve must be a square matrix. Got shape {a.shape}."
            )
        if a.shape[-1] != b.shape[-2 if left_side else -1]:
            raise ValueError(
                f"Incompatible shapes for arguments to triangular_solve: {a.shape} and "
                f"{b.shape}.\n  With left_side={left_side}, b has as many "
                f"{'rows' if left_side else 'columns'} as a."
            )
        return (b.strengthen(),)

    def shard(self, a: ShapedArray, b: ShapedArray, **params: Unpack[TriangularSolveParams]) -> Any:
        return leading(a.ndim - 2, (a, b))

    def lower(
        self, ctx: Context, a: Value, b: Value, **params: Unpack[TriangularSolveParams]
    ) -> Any:
        left_side, lower, transpose_a, conjugate_a, unit_diagonal = (
            params["left_side"],
            params["lower"],
            params["transpose_a"],
            params["conjugate_a"],
            params["unit_diagonal"],
        )
        if _small.is_small(ctx, a):
            return ctx.trace(lambda a, b: (_small.triangular(a, b, **params),), a, b)
        if conjugate_a and not transpose_a:
            (a,) = ctx.trace(lambda x: (conjugate(x),), a)
        dtype = b.dtype
        wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
        a, b = hlo.convert(ctx, a, wide), hlo.convert(ctx, b, wide)
        if ctx.target.kernels.lapack:
            # StableHLO's operation becomes a loop over blocks here: 2 to 4 times slower to compile,
            # and no faster (n = 200, 800).
            op = ("C" if conjugate_a else "T") if transpose_a else "N"
            (x,) = _lapack.lapack(
                ctx,
                "triangular_solve",
                "trsm",
                len(a.shape) - 2,
                [a, b],
                [b.aval.strengthen()],
                f"side = {_lapack.flag('L' if left_side else 'R')}, "
                f"uplo = {_lapack.flag('L' if lower else 'U')}, trans_x = {_lapack.flag(op)}, "
                f"diag = {_lapack.flag('U' if unit_diagonal else 'N')}",
                [(0, 1)],
            )
        else:
            op = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
            x = rare_hlo.triangular_solve(
                ctx,
                a,
                b,
                left_side=left_side,
                lower=lower,
                unit_diagonal=unit_diagonal,
                transpose_a=op,
            )
        return (hlo.convert(ctx, x, dtype),)

    def jvp(
        self,
        primals: Sequence[Array],
        tangents: Sequence[object],
        **params: Unpack[TriangularSolveParams],
    ) -> Any:
        # op(A) X = B, so op(A) dX = dB - op(dA) X.
        (a, _), (ta, tb) = primals, tangents
        outs = self.call(*primals, **params)
        rhs: Any = tb
        if type(ta) is not Zero:
            k = 1 if params["unit_diagonal"] else 0
            ta = tril(ta, -k) if params["lower"] else triu(ta, k)
            ta = matrix_transpose(ta) if params["transpose_a"] else ta
            ta = conjugate(ta) if params["conjugate_a"] else ta
            rhs = array_ops.add_cotangents(
                tb, neg(matmul(ta, outs[0]) if params["left_side"] else matmul(outs[0], ta))
            )
        if type(rhs) is Zero:
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(a, rhs, **params)

    def transpose(
        self,
        cts: Sequence[object],
        a: ArrayLike,
        b: ArrayLike | Undefined,
        **params: Unpack[TriangularSolveParams],
    ) -> Any:
        # The transpose of A^-1 is (A^T)^-1, without conjugation: there is no parameter for conj(A),
        # so conj(A) itself is the operand.
        if params["conjugate_a"]:
            a = conjugate(a)
        return None, self.call(
            a, *cts, **{**params, "transpose_a": not params["transpose_a"], "conjugate_a": False}
        )[0]

    def batch(
        self, axis: Axis, args: Sequence[Array], dims: Dims, **params: Unpack[TriangularSolveParams]
    ) -> Any:
        (a, b), (a_dim, b_dim) = args, dims
        # A batch over Explicit mesh axes cannot become columns, along which nothing may be
        # partitioned.
        if a_dim is not None or typeof(a).ndim != 2 or axis.explicit is not None:
            return _lapack.batch_leading(self, axis, args, dims, params)
        # One matrix, many right-hand sides: they become more columns (rows) of one.
        left = params["left_side"]
        assert b_dim is not None
        b = array_ops.moveaxis(b, b_dim, 2 if left else 0)
        shape = typeof(b).shape
        flat = (shape[0], shape[1] * shape[2]) if left else (shape[0] * shape[1], shape[2])
        (x,) = self.call(a, reshape(b, flat), **params)
        return (reshape(x, shape),), (2 if left else 0,)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[Array],
        **params: Unpack[TriangularSolveParams],
    ) -> Any:
        (a, b), (a_aval, b_aval) = args, avals
        b = sizes.mask(b, b_aval, 0, (b_aval.ndim - 2 if params["left_side"] else b_aval.ndim - 1,))
        return self.call(sizes.bordered(a, a_aval), b, **params)


triangular_solve_p = TriangularSolve()


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solution X of op(a) X = b (left_side) or X op(a) = b, for a triangular matrix a.

    a: T[..., n, n], b: T[..., n, m] with left_side, else T[..., m, n]; or a vector T[..., n]  ->  T
    like b
    op transposes a with transpose_a and conjugates it with conjugate_a. Only the named triangle is
    read; unit_diagonal takes the diagonal as 1. A zero on the diagonal gives inf or nan.
    Raises ValueError if a is not square (C1) or shapes differ (C2), TypeError for dtypes (C3).

    >>> from teucer import lax
    >>> lax.linalg.triangular_solve(np.float32([[2, 0], [1, 1]]), np.float32([2, 3]),
    ...     left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    a_aval, b_aval = typeof(a), typeof(b)
    is_vector = b_aval.ndim == a_aval.ndim - 1
    at = b_aval.ndim if left_side else b_aval.ndim - 1
    if is_vector:
        b = reshape(b, (*b_aval.shape[:at], 1, *b_aval.shape[at:]))
    conjugate_a = conjugate_a and dtypes.issubdtype(a_aval.dtype, np.complexfloating)
    (out,) = triangular_solve_p.call(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a),
        unit_diagonal=bool(unit_diagonal),
    )
    return reshape(out, b_aval.shape) if is_vector else out


def solve_left(a: ArrayLike, b: ArrayLike, **options: bool) -> Any:
    """a^-1 b for triangular a."""
    return triangular_solve(a, b, left_side=True, **options)


@final
class TridiagonalSolve(_lapack.MatrixPrimitive):
    """The solution X of A X = B, where A has diagonals dl, d, du: A[i, i-1] = dl[i], A[i, i] =
    d[i], A[i, i+1] = du[i].

    (C1) the diagonals have one shape [..., n].  (C2) b is [..., n, m].  (C3) dtypes are equal,
    floating or complex.
    """

    __slots__ = ()
    rank = 1
    name = "tridiagonal_solve"

    def types(
        self,
        dl: ShapedArray,
        d: ShapedArray,
        du: ShapedArray,
        b: ShapedArray,
        *,
        perturb_singular: bool,
    ) -> Any:
        _lapack.check_rank("tridiagonal_solve", (dl, 1), (d, 1), (du, 1), (b, 2))
        _lapack.check_same_dtype("tridiagonal_solve", dl, d, du, b)
        _lapack.check_inexact("tridiagonal_solve", dl, d, du, b)
        _lapack.check_same_batch("tridiagonal_solve", (dl, 1), (d, 1), (du, 1), (b, 2))
        if not dl.shape == d.shape == du.shape:
            raise TypeError(
                "tridiagonal_solve requires that all diagonal arguments have the same shape.\n"
                f"    dl: {dl.shape}, d: {d.shape}, du: {du.shape}"
            )
        if b.shape[:-1] != d.shape:
            raise TypeError(
                "tridiagonal_solve requires that the leading ndim-1 dimensions of b equal the "
                f"dimensions of the diagonal arguments.\n    d: {d.shape}\n    b: {b.shape}"
            )
        return (b.strengthen(),)

    def lower(
        self, ctx: Context, dl: Value, d: Value, du: Value, b: Value, *, perturb_singular: bool
    ) -> Any:
        n_batch = len(b.shape) - 2
        (aval,) = (b.aval.strengthen(),)
        if 0 in b.shape:
            return (b,)
        if _lapack.of_products(ctx):
            from teucer.lax.linalg._elimination import solved_tridiagonal  # without LAPACK

            return ctx.trace(
                lambda *xs: (solved_tridiagonal(*xs, perturb_singular=perturb_singular),),
                dl,
                d,
                du,
                b,
            )
        if perturb_singular:
            return _lapack.lapack(
                ctx,
                "tridiagonal_solve",
                "tridiagonal_solve_perturbed",
                n_batch,
                [dl, d, du, b],
                [aval],
            )
        if _lapack.on_gpu(ctx):
            system = ctx.trace(_bordered, dl, d, du, b)
            (x,) = _lapack.lapack(
                ctx,
                "tridiagonal_solve",
                "gtsv",
                n_batch,
                system,
                [system[-1].aval],
                aliases=[(0, 3)],
            )
            return (hlo.slice(ctx, x, [0] * len(b.shape), b.shape, [1] * len(b.shape)),)
        # The routine overwrites its operands; its status is nonzero for a singular matrix.
        diagonal = d.aval.strengthen()
        info = d.aval.update(shape=d.shape[:-1], dtype=np.dtype(np.int32), weak_type=False)
        *_, x, info = _lapack.lapack(
            ctx,
            "tridiagonal_solve",
            "gtsv",
            n_batch,
            [dl, d, du, b],
            [diagonal, diagonal, diagonal, aval, info],
            aliases=[(i, i) for i in range(4)],
        )
        return _lapack.nan_unless_ok(ctx, info, x)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        # A X = B, so A dX = dB - dA X.
        *bands, _ = primals
        *band_tangents, rhs = tangents
        outs = self.call(*primals, **params)
        if not all(type(t) is Zero for t in band_tangents):
            change = _multiply([array_ops.instantiate(t) for t in band_tangents], outs[0])
            rhs = array_ops.add_cotangents(rhs, neg(change))
        if type(rhs) is Zero:
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(*bands, rhs, **params)

    def transpose(
        self,
        cts: Sequence[object],
        dl: ArrayLike,
        d: ArrayLike,
        du: ArrayLike,
        b: ArrayLike | Undefined,
        **params: object,
    ) -> Any:
        # The lower diagonal of A^T is du moved down by one, its upper one dl moved up.
        return None, None, None, self.call(shifted(du, 1), d, shifted(dl, -1), *cts, **params)[0]


tridiagonal_solve_p = TridiagonalSolve()


def shifted(x: ArrayLike, by: int, axis: int = -1) -> Any:
    """x moved by one place along an axis, with a zero (which is not read) in the place left
    free."""
    axis %= typeof(x).ndim
    n = typeof(x).shape[axis]
    free = like(slice_in_dim(x, 0, 1, axis=axis), 0)
    return concatenate(
        [free, slice_in_dim(x, 0, n - 1, axis=axis)]
        if by > 0
        else [slice_in_dim(x, 1, n, axis=axis), free],
        axis,
    )


def _bordered(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Any:
    """A system as GPU kernels want it: of at least three equations, the last ones x = 0, and zeros
    at the unused ends."""
    n_batch, extra = typeof(d).ndim - 1, max_dim(3 - typeof(d).shape[-1], 0)
    dl, du = shifted(shifted(dl, -1), 1), shifted(shifted(du, 1), -1)
    missing = [(0, 0, 0)] * n_batch + [(0, extra, 0)]
    return (
        *(pad(x, number(fill, typeof(b).dtype), missing) for x, fill in ((dl, 0), (d, 1), (du, 0))),
        pad(b, number(0, typeof(b).dtype), [*missing, (0, 0, 0)]),
    )


def _multiply(bands: Any, x: Array) -> Any:
    """The product of the matrix with the given diagonals and x."""
    dl, d, du = (columns(v, x) for v in bands)
    return add(add(mul(dl, shifted(x, 1, -2)), mul(d, x)), mul(du, shifted(x, -1, -2)))


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solution X of A X = b, where A has the lower diagonal dl, the diagonal d and the upper
    diagonal du.

    dl, d, du: T[..., n], dl[0] and du[n-1] are not read; b: T[..., n, m]  ->  T[..., n, m]
    perturb_singular: replace pivots that are zero by small ones.
    Raises TypeError for shapes (C1, C2) and dtypes (C3).

    >>> from teucer import lax
    >>> one = np.ones(3, np.float32)
    >>> lax.linalg.tridiagonal_solve(0 * one, 2 * one, 0 * one, np.float32([[2], [4], [6]]))
    Array([[1.],
           [2.],
           [3.]], dtype=float32)
    """
    return tridiagonal_solve_p.call(dl, d, du, b, perturb_singular=bool(perturb_singular))[0]
