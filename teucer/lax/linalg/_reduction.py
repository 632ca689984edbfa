"""Reductions of a matrix to a form near to diagonal, by orthogonal similarity.

Hessenberg, tridiagonal, Schur.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike
from teucer.lax.linalg import _lapack

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["hessenberg", "hessenberg_p", "schur", "schur_p", "tridiagonal", "tridiagonal_p"]


@final
class Hessenberg(_lapack.MatrixPrimitive):
    """H, zero below the first subdiagonal, with A = Q H Q^H; below stand the Householder vectors of
    Q, whose factors are taus.

    (C1) A is square, of floating or complex dtype.
    """

    __slots__ = ()
    name = "hessenberg"
    cost = _lapack.cubes(10 / 3)
    multiple_results = True

    def types(self, a: ShapedArray) -> Any:
        _lapack.check_rank("hessenberg", (a, 2))
        _lapack.check_inexact("hessenberg", a)
        if a.shape[-1] != a.shape[-2]:
            raise ValueError(
                f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {a.shape}"
            )
        return a.strengthen(), ShapedArray((*a.shape[:-2], max(a.shape[-1] - 1, 0)), a.dtype)

    def lower(self, ctx: Context, a: Value) -> Any:
        packed_aval, taus_aval = ctx.avals_out
        *batch, n, _ = a.shape
        if n == 0:
            return a, _lapack.zeros(ctx, taus_aval)
        packed, taus, info = _lapack.lapack(
            ctx,
            "hessenberg",
            "gehrd",
            len(batch),
            [a],
            [packed_aval, taus_aval, _lapack.info_of(batch)],
            f"low = 1 : i32, high = {operator.index(n)} : i32",
            [(0, 0)],
        )
        return _lapack.nan_unless_ok(ctx, info, packed, taus)


@final
class Tridiagonal(_lapack.MatrixPrimitive):
    """T, tridiagonal, with A = Q T Q^H for Hermitian A: Householder vectors, diagonal,
    off-diagonal, factors taus.

    (C1) A is square and not empty, of floating or complex dtype.
    """

    __slots__ = ()
    name = "tridiagonal"
    cost = _lapack.cubes(4 / 3)
    multiple_results = True

    def types(self, a: ShapedArray, *, lower: bool) -> Any:
        _lapack.check_rank("tridiagonal", (a, 2))
        _lapack.check_inexact("tridiagonal", a)
        *batch, m, n = a.shape
        if m != n or n == 0:
            raise ValueError(
                f"The input to tridiagonal must be a square matrix. Got shape {a.shape}."
            )
        real = _lapack.real_dtype(a.dtype)
        return (
            a.strengthen(),
            ShapedArray((*batch, n), real),
            ShapedArray((*batch, n - 1), real),
            ShapedArray((*batch, n - 1), a.dtype),
        )

    def lower(self, ctx: Context, a: Value, *, lower: bool) -> Any:
        batch = a.shape[:-2]
        *results, info = _lapack.lapack(
            ctx,
            "tridiagonal",
            "sytrd",
            len(batch),
            [a],
            [*ctx.avals_out, _lapack.info_of(batch)],
            f"uplo = {_lapack.flag('L' if lower else 'U')}",
            [(0, 0)],
            gpu=f"lower = {_lapack.boolean(lower)}",
        )
        return _lapack.nan_unless_ok(ctx, info, *results)


@final
class Schur(_lapack.MatrixPrimitive):
    """T, upper triangular (in blocks of 2 for pairs of complex eigenvalues of a real matrix), and
    unitary Z: A = Z T Z^H.

    (C1) A is square, of floating or complex dtype.
    """

    __slots__ = ()
    name = "schur"
    cost = _lapack.cubes(25)
    multiple_results = True

    def types(
        self,
        x: ShapedArray,
        *,
        compute_schur_vectors: bool,
        sort_eig_vals: bool,
        select_callable: object,
    ) -> Any:
        _lapack.check_rank("schur", (x, 2))
        _lapack.check_inexact("schur", x)
        if x.shape[-1] != x.shape[-2]:
            raise ValueError(f"The input to schur must be a square matrix. Got shape {x.shape}.")
        return (x.strengthen(),) * (2 if compute_schur_vectors else 1)

    def lower(
        self,
        ctx: Context,
        x: Value,
        *,
        compute_schur_vectors: bool,
        sort_eig_vals: bool,
        select_callable: object,
    ) -> Any:
        if sort_eig_vals:
            raise NotImplementedError(
                "schur: The sort feature of LAPACK's gees routine is not implemented.\n"
                "    sort_eig_vals: True\n  Use sort_eig_vals=False."
            )
        matrix, batch = x.aval.strengthen(), x.shape[:-2]
        values = ShapedArray(x.shape[:-1], x.dtype)
        count = ShapedArray(batch, np.dtype(np.int32))
        avals = [
            matrix,
            matrix,
            *[values] * (1 if x.dtype.kind == "c" else 2),
            count,
            _lapack.info_of(batch),
        ]
        form, vectors, *_, info = _lapack.lapack(
            ctx,
            "schur",
            "gees",
            len(batch),
            [x],
            avals,
            f"mode = {_lapack.flag('V' if compute_schur_vectors else 'N')}, "
            f"sort = {_lapack.flag('N')}",
            [(0, 0)],
        )
        return _lapack.nan_unless_ok(
            ctx, info, *((form, vectors) if compute_schur_vectors else (form,))
        )


hessenberg_p = Hessenberg()
tridiagonal_p = Tridiagonal()
schur_p = Schur()


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Hessenberg form: a = Q H Q^H.

    a: T[..., n, n]  ->  H on and above the first subdiagonal, below it the Householder vectors of
    Q, T[..., n, n]; their factors
    T[..., n-1]. `householder_product` makes Q of them.
    Raises ValueError if a is not square, TypeError for dtypes (C1).

    >>> from teucer import lax
    >>> lax.linalg.hessenberg(np.float32([[1, 2], [3, 4]]))[0]
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    packed, taus = hessenberg_p.call(a)
    return packed, taus


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Tridiagonal form of Hermitian matrices: a = Q T Q^H. Only the lower (or upper) triangle of a
    is read.

    a: T[..., n, n]  ->  Householder vectors of Q: T[..., n, n], diagonal of T: real[..., n], its
    off-diagonal: real[..., n-1],
    factors of the reflectors: T[..., n-1]
    Raises ValueError if a is not square or empty, TypeError for dtypes (C1).

    >>> from teucer import lax
    >>> lax.linalg.tridiagonal(np.float32([[1, 2], [2, 3]]))[1:3]
    (Array([1., 3.], dtype=float32), Array([2.], dtype=float32))
    """
    return tuple(tridiagonal_p.call(a, lower=bool(lower)))


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., object] | None = None,
) -> tuple[Array, Array]:
    """Schur form x = Z T Z^H, with unitary Z and upper triangular T.

    x: T[..., n, n]  ->  (T, Z), or (T,) without compute_schur_vectors. For real x complex
    eigenvalues are 2x2 blocks of T.
    sort_eig_vals and select_callable, which order the eigenvalues, are not implemented.
    Raises ValueError if x is not square, TypeError for dtypes (C1).

    >>> from teucer import lax
    >>> lax.linalg.schur(np.float32([[1, 2], [0, 3]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    return tuple(
        schur_p.call(
            x,
            compute_schur_vectors=bool(compute_schur_vectors),
            sort_eig_vals=bool(sort_eig_vals),
            select_callable=select_callable,
        )
    )
