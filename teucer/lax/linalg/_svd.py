"""Singular value decomposition."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final, overload

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike, Tangents
from teucer._dimensions.dimensions import is_constant, min_dim
from teucer._lower import hlo
from teucer._transform.limits.tangents import Limits
from teucer.lax._arithmetic import add, bitwise_and, bitwise_not, gt, le, mul, real, sub
from teucer.lax._structure import convert_element_type
from teucer.lax.linalg import _lapack
from teucer.lax.linalg._equal import gaps, inverse, tolerance
from teucer.lax.linalg._matrices import adjoint, columns, diagonal, eye, like, matmul, rows

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["SvdAlgorithm", "svd", "svd_p"]


class SvdAlgorithm(enum.Enum):
    """How `svd` computes.

    DEFAULT is DIVIDE_AND_CONQUER on CPU; on GPU JACOBI for matrices of at most 1024 rows and
    columns, QR for others. JACOBI and POLAR are not on CPU, DIVIDE_AND_CONQUER is not on NVIDIA
    GPUs.
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


@final
class Svd(_lapack.MatrixPrimitive):
    """Singular values s, descending, and with compute_uv U and V^H: A = U diag(s) V^H. NaN if the
    iteration fails.

    (C1) A is a matrix, of floating or complex dtype.  (C2) 0 <= first <= last <= min(m, n) for
    subset_by_index = (first, last).
    """

    __slots__ = ()
    name = "svd"
    cost = _lapack.cubes(21)
    multiple_results = True

    def types(
        self,
        x: ShapedArray,
        *,
        full_matrices: bool,
        compute_uv: bool,
        subset_by_index: Any,
        algorithm: SvdAlgorithm | None = None,
    ) -> Any:
        _lapack.check_rank("svd", (x, 2))
        _lapack.check_inexact("svd", x)
        *batch, m, n = x.shape
        first, last = subset_by_index or (0, min_dim(m, n))
        if not 0 <= first <= last <= min_dim(m, n):
            raise ValueError(
                "svd: subset_by_index must satisfy 0 <= first <= last <= min_dim(m, n).\n"
                f"    subset_by_index: {subset_by_index}\n    x: {x.str_short(short_dtypes=True)}"
            )
        k = last - first
        s = ShapedArray((*batch, k), _lapack.real_dtype(x.dtype))
        if not compute_uv:
            return (s,)
        rows_of_u, columns_of_v = (m, n) if full_matrices else (k, k)
        return (
            s,
            ShapedArray((*batch, m, rows_of_u), x.dtype),
            ShapedArray((*batch, columns_of_v, n), x.dtype),
        )

    def lower(
        self,
        ctx: Context,
        x: Value,
        *,
        full_matrices: bool,
        compute_uv: bool,
        subset_by_index: Any,
        algorithm: SvdAlgorithm | None = None,
    ) -> Any:
        _check_algorithm(ctx, algorithm)
        *batch, m, n = x.shape
        k = min_dim(m, n)
        if 0 in x.shape:
            # The routine refuses matrices without elements.
            return tuple(
                _lapack.zeros(ctx, aval) if i == 0 else _lapack.identity(ctx, aval)
                for i, aval in enumerate(ctx.avals_out)
            )
        if _lapack.of_products(ctx):
            from teucer.lax.linalg._svd_by_polar import svd_by_polar  # where there is no LAPACK

            results = ctx.trace(
                lambda x: svd_by_polar(x, full_matrices=full_matrices, compute_uv=compute_uv), x
            )
        else:
            decompose = _on_gpu if _lapack.on_gpu(ctx) else _by_lapack
            s, u, vh, info = decompose(ctx, x, k, full_matrices, compute_uv, algorithm)
            results = _lapack.nan_unless_ok(ctx, info, *((s, u, vh) if compute_uv else (s,)))
        if subset_by_index in (None, (0, k)):
            return results
        ranked = len(batch)
        return tuple(
            _part(ctx, value, at, subset_by_index)
            for value, at in zip(results, (ranked, ranked + 1, ranked), strict=False)
        )

    def jvp(
        self,
        primals: Sequence[Array],
        tangents: Tangents,
        *,
        full_matrices: bool,
        compute_uv: bool,
        subset_by_index: object,
        algorithm: SvdAlgorithm | None = None,
    ) -> Any:
        (x,), (t,) = primals, tangents
        m, n = typeof(x).shape[-2:]
        params = {"subset_by_index": subset_by_index, "algorithm": algorithm}
        if type(t) is Zero:
            outs = self.call(x, full_matrices=full_matrices, compute_uv=compute_uv, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        if compute_uv and full_matrices and m != n:
            raise NotImplementedError(
                "Singular value decomposition JVP not implemented for full matrices: their last "
                "columns are not determined by x.\n    x: "
                f"{typeof(x).str_short(short_dtypes=True)}\n  Use full_matrices=False."
            )
        if compute_uv and subset_by_index not in (None, (0, min_dim(m, n))):
            raise NotImplementedError(
                "svd: derivatives of some of the singular vectors are not implemented.\n"
                f"    subset_by_index: {subset_by_index}\n  Slice the result of svd without "
                "subset_by_index."
            )
        outs = self.call(x, full_matrices=False, compute_uv=True, **params)
        s, u, vh = outs
        inner = matmul(matmul(adjoint(u), t), adjoint(vh))
        ds = convert_element_type(_real(diagonal(inner)), typeof(s).dtype)
        if not compute_uv:
            return (s,), (ds,)
        # The vectors of a single zero are fixed if there are no others but for a phase.
        single = m != n or typeof(x).dtype.kind == "c"
        finite, unbounded, directions = _scales(s, inner, single=single)
        du, dvh = _vector_tangents(t, u, vh, inner, finite)
        turns = _vector_tangents(t, u, vh, inner, unbounded)
        return outs, Limits((ds, du, dvh), (None, *turns), (directions, None, None))


svd_p = Svd()


def _check_algorithm(ctx: Context, algorithm: SvdAlgorithm | None) -> None:
    if not _lapack.lacks(ctx, "svd", algorithm):
        return
    if _lapack.of_products(ctx):
        raise NotImplementedError(
            f"svd: SvdAlgorithm.{algorithm.name if algorithm else None} is not implemented on "
            f"{ctx.platform.upper()}.\n  Use SvdAlgorithm.DEFAULT or POLAR."
        )
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "The SVD Jacobi and Polar algorithms are not implemented on CPU.\n    algorithm: "
            f"{algorithm}\n  Use SvdAlgorithm.DEFAULT, QR or DIVIDE_AND_CONQUER."
        )
    raise NotImplementedError(
        "Divide-and-conquer SVD (SvdAlgorithm.DIVIDE_AND_CONQUER) is only supported on AMD (ROCm) "
        "GPUs, not on NVIDIA CUDA.\n  Use SvdAlgorithm.DEFAULT, QR, JACOBI or POLAR."
    )


class _Factors(NamedTuple):
    s: Any
    u: Any
    vh: Any
    info: Any


def _avals(x: Any, k: int, u: Any, v: Any) -> list[Any]:
    """The types of what the routines return: x overwritten, singular values, and vectors in
    matrices of the given shapes."""
    batch = x.shape[:-2]
    return [
        x.aval.strengthen(),
        ShapedArray((*batch, k), _lapack.real_dtype(x.dtype)),
        ShapedArray((*batch, *u), x.dtype),
        ShapedArray((*batch, *v), x.dtype),
        _lapack.info_of(batch),
    ]


def _by_lapack(
    ctx: Context, x: Value, k: int, full: bool, compute_uv: bool, algorithm: SvdAlgorithm | None
) -> _Factors:
    *batch, m, n = x.shape
    u, vh = ((m, m), (n, n)) if full or not compute_uv else ((m, k), (k, n))
    mode = ("A" if full else "S") if compute_uv else "N"
    routine = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    return _Factors(
        *_lapack.lapack(
            ctx,
            "svd",
            routine,
            len(batch),
            [x],
            _avals(x, k, u, vh),
            f"mode = {_lapack.flag(mode)}",
            [(0, 0)],
        )[1:]
    )


def _on_gpu(
    ctx: Context, x: Value, k: int, full: bool, compute_uv: bool, algorithm: SvdAlgorithm | None
) -> _Factors:
    """By Jacobi rotations if the matrices are small, else by QR iteration, unless an algorithm is
    named."""
    *batch, m, n = x.shape
    if algorithm in (None, SvdAlgorithm.DEFAULT):
        algorithm = (
            SvdAlgorithm.JACOBI if is_constant([m, n]) and max(m, n) <= 1024 else SvdAlgorithm.QR
        )
    if algorithm in (SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER):
        return _on_gpu_by_bidiagonal(ctx, x, k, full, compute_uv, algorithm)
    # The kernel for small matrices makes all columns.
    made_full = full or (algorithm is SvdAlgorithm.JACOBI and (m <= 32 or n <= 32))
    u_shape, v_shape = ((m, m), (n, n)) if made_full else ((m, k), (n, k))
    _, s, u, v, info = _lapack.lapack(
        ctx,
        "svd",
        "gesvdp" if algorithm is SvdAlgorithm.POLAR else "gesvdj",
        len(batch),
        [x],
        _avals(x, k, u_shape, v_shape),
        aliases=[(0, 0)],
        gpu=f"compute_uv = {_lapack.boolean(compute_uv)}, "
        f"full_matrices = {_lapack.boolean(made_full)}",
    )
    (vh,) = ctx.trace(lambda v: (adjoint(v),), v)
    if made_full and not full:
        u, vh = _part(ctx, u, len(batch) + 1, (0, k)), _part(ctx, vh, len(batch), (0, k))
    return _Factors(s, u, vh, info)


def _on_gpu_by_bidiagonal(
    ctx: Context, x: Value, k: int, full: bool, compute_uv: bool, algorithm: SvdAlgorithm | None
) -> _Factors:
    """By routines for tall matrices: a wide one is the transpose of such a one, read column by
    column instead of row by row.

    x^T = U S V^H is x = conj(V) S U^T, so that the results, read in the same way, change places and
    nothing else.
    """
    *batch, m, n = x.shape
    is_wide = m < n
    u, vh = ((m, m), (n, n)) if full else ((m, k), (k, n))
    avals = _avals(x, k, *((vh, u) if is_wide else (u, vh)))
    if not compute_uv:
        avals[2:4] = [ShapedArray((), x.dtype)] * 2
    _, s, u, vh, info = _lapack.lapack(
        ctx,
        "svd",
        "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd",
        len(batch),
        [x],
        avals,
        aliases=[(0, 0)],
        row_major=is_wide,
        gpu=f"compute_uv = {_lapack.boolean(compute_uv)}, full_matrices = {_lapack.boolean(full)}, "
        f"transposed = {_lapack.boolean(is_wide)}",
    )
    return _Factors(s, vh, u, info) if is_wide else _Factors(s, u, vh, info)


class _Scales(NamedTuple):
    """Factors of the parts of a tangent: 1 / (s_j - s_i), 1 / (s_j + s_i), 1 / s."""

    differences: Any
    sums: Any
    values: Any


def _scales(s: Array, inner: Array, *, single: bool) -> tuple[_Scales, _Scales, Any]:
    """The scales, 0 for pairs of equal values and for zeros; the scales of turns; and the
    directions of singular values.

    A value of zero is equal to its negative.
    """
    zero = le(s, tolerance(s))
    apart, equal, d = gaps(s, inner, zero, single=single)
    sums, steps = (add(rows(x, inner), columns(x, inner)) for x in (s, d))
    both = bitwise_and(rows(zero, inner), columns(zero, inner))
    return (
        _Scales(apart, inverse(sums, bitwise_not(both)), inverse(s, bitwise_not(zero))),
        _Scales(
            equal,
            inverse(steps, bitwise_and(both, gt(steps, like(steps, 0)))),
            inverse(d, bitwise_and(zero, gt(d, like(d, 0)))),
        ),
        d,
    )


def _vector_tangents(t: Array, u: Array, vh: Array, inner: Array, scales: _Scales) -> Any:
    """Tangents of U and V^H, given inner = U^H dA V.

    Wan & Zhang, "Automatic differentiation for complex valued SVD", arXiv:1909.02659, the sums and
    differences of its terms taken apart. Of the phases, which are free, V's stay.
    """
    dtype = typeof(inner).dtype
    differences, sums, values = (
        convert_element_type(mul(x, like(x, factor)), dtype)
        for x, factor in zip(scales, (0.5, 0.5, 1), strict=True)
    )
    even = mul(differences, add(inner, adjoint(inner)))
    odd = mul(sums, sub(inner, adjoint(inner)))
    u_turn, v_turn = add(even, odd), sub(even, odd)
    if dtypes.issubdtype(dtype, np.complexfloating):
        phases = mul(eye(inner), odd)
        u_turn, v_turn = add(u_turn, phases), add(v_turn, phases)
    du, dv = matmul(u, u_turn), matmul(adjoint(vh), v_turn)
    m, n = typeof(t).shape[-2:]
    if m > n:
        moved = matmul(t, adjoint(vh))
        du = add(du, mul(sub(moved, matmul(u, matmul(adjoint(u), moved))), rows(values, du)))
    if n > m:
        moved = matmul(adjoint(t), u)
        dv = add(dv, mul(sub(moved, matmul(adjoint(vh), matmul(vh, moved))), rows(values, dv)))
    return du, adjoint(dv)


def _real(x: ArrayLike) -> Any:
    return real(x) if typeof(x).dtype.kind == "c" else x


def _part(ctx: Context, x: Value, axis: int, bounds: tuple[int, int]) -> Any:
    start, limit = [0] * len(x.shape), list(x.shape)
    start[axis], limit[axis] = bounds
    return hlo.slice(ctx, x, start, limit, [1] * len(x.shape))


@overload
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    subset_by_index: tuple[int, int] | None = ...,
    algorithm: SvdAlgorithm | None = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
    algorithm: SvdAlgorithm | None = ...,
) -> Any: ...
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """Singular value decomposition x = U diag(s) V^H.

    x: T[..., m, n]  ->  U: T[..., m, m], s: real[..., min(m, n)] descending, V^H: T[..., n, n];
    with full_matrices=False the first
    min(m, n) columns of U and rows of V^H; with compute_uv=False s alone. subset_by_index = (first,
    last) keeps those singular values and vectors. A matrix on which the iteration fails gives NaN.
    Derivatives of U and V need full_matrices=False or m = n. Where singular values are equal,
    functions of their whole spaces have derivatives; functions of the bases U and V themselves have
    none, and these count as constant. Raises TypeError if x is not a floating or complex matrix
    (C1), ValueError if subset_by_index is out of range (C2) or is given with full_matrices.

    >>> from teucer import lax
    >>> lax.linalg.svd(np.float32([[0, 2], [1, 0]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    if subset_by_index is not None:
        first, last = subset_by_index
        subset_by_index = (int(first), int(last))
        if full_matrices and compute_uv and subset_by_index != (0, min_dim(*typeof(x).shape[-2:])):
            raise ValueError(
                "svd: full_matrices and subset_by_index cannot both be set.\n"
                f"    subset_by_index: {subset_by_index}\n  Use full_matrices=False."
            )
    if algorithm is not None and not isinstance(algorithm, SvdAlgorithm):
        raise ValueError(f"svd: algorithm must be a SvdAlgorithm, got {algorithm!r}.")
    outs = svd_p.call(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    if not compute_uv:
        return outs[0]
    s, u, vh = outs
    return u, s, vh
