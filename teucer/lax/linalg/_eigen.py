"""Eigenvalues and eigenvectors of Hermitian and of general matrices."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike, Tangents
from teucer._lower import hlo
from teucer._transform.limits.tangents import Limits
from teucer.lax._arithmetic import complex, conj, div, eq, gt, imag, lt, mul, ne, neg, real, sub
from teucer.lax._extremes import argmax
from teucer.lax._reductions import reduce_max
from teucer.lax._selection import select
from teucer.lax._shapes import broadcasted_iota
from teucer.lax._structure import broadcast_to, convert_element_type, reduce_sum
from teucer.lax.linalg import _lapack
from teucer.lax.linalg import _matrices as matrices
from teucer.lax.linalg._equal import gaps
from teucer.lax.linalg._factor import lu, symmetrized
from teucer.lax.linalg._solve import shifted, triangular_solve

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class EighParams(TypedDict):
        lower: bool
        sort_eigenvalues: bool
        subset_by_index: Any
        algorithm: EighImplementation | None

    class EigParams(TypedDict):
        compute_left_eigenvectors: bool
        compute_right_eigenvectors: bool
        enable_eigvec_derivs: bool
        implementation: object


__all__ = ["EigImplementation", "EighImplementation", "eig", "eig_p", "eigh", "eigh_p"]


class EighImplementation(enum.Enum):
    """How `eigh` computes: by QR iteration, by Jacobi rotations (GPU), by polar decomposition
    (TPU)."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


# The numbers that GPU kernels know them by.
_GPU_ALGORITHMS = {None: 0, EighImplementation.QR: 1, EighImplementation.JACOBI: 2}


class EigImplementation(enum.Enum):
    """The library with which `eig` computes."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


@final
class Eigh(_lapack.MatrixPrimitive):
    """Orthonormal eigenvectors V and eigenvalues w of Hermitian A: A V = V diag(w). NaN if the
    iteration fails.

    (C1) A is square, of floating or complex dtype.  (C2) 0 <= first <= last <= n for
    subset_by_index = (first, last).
    """

    __slots__ = ()
    name = "eigh"
    cost = _lapack.cubes(9)
    multiple_results = True

    def types(
        self,
        x: ShapedArray,
        *,
        lower: bool,
        sort_eigenvalues: bool,
        subset_by_index: Any,
        algorithm: object,
    ) -> Any:
        _lapack.check_rank("eigh", (x, 2))
        _lapack.check_inexact("eigh", x)
        *batch, m, n = x.shape
        if m != n:
            raise ValueError(
                "Argument to symmetric eigendecomposition must have shape [..., n, n], got shape "
                f"{x.shape}"
            )
        first, last = subset_by_index or (0, n)
        if not 0 <= first <= last <= n:
            raise ValueError(
                "eigh: subset_by_index must satisfy 0 <= first <= last <= n.\n    subset_by_index: "
                f"{subset_by_index}\n    x: {x.str_short(short_dtypes=True)}, n = {n}"
            )
        return (
            ShapedArray((*batch, n, last - first), x.dtype),
            ShapedArray((*batch, last - first), _lapack.real_dtype(x.dtype)),
        )

    def lower(self, ctx: Context, x: Value, **params: Unpack[EighParams]) -> Any:
        lower, subset_by_index, algorithm = (
            params["lower"],
            params["subset_by_index"],
            params["algorithm"],
        )
        _check_eigh(ctx, algorithm)
        _, values_aval = ctx.avals_out
        *batch, n, _ = x.shape
        values_aval = values_aval.update(shape=(*batch, n))
        if _lapack.of_products(ctx):
            if 0 in x.shape:
                return tuple(_lapack.zeros(ctx, aval) for aval in ctx.avals_out)
            v, w = _by_rotations(ctx, x, values_aval, lower)
            if subset_by_index is not None:
                v, w = (_last_axis(ctx, value, *subset_by_index) for value in (v, w))
            return v, w
        v, w, info = _lapack.lapack(
            ctx,
            "eigh",
            "syevd",
            len(batch),
            [x],
            [x.aval.strengthen(), values_aval, _lapack.info_of(batch)],
            f"mode = {_lapack.flag('V')}, uplo = {_lapack.flag('L' if lower else 'U')}",
            [(0, 0)],
            gpu=f"algorithm = {_GPU_ALGORITHMS.get(algorithm)} : ui8, "
            f"lower = {_lapack.boolean(lower)}",
        )
        v, w = _lapack.nan_unless_ok(ctx, info, v, w)
        if subset_by_index is not None:
            v, w = (_last_axis(ctx, value, *subset_by_index) for value in (v, w))
        return v, w

    def jvp(
        self, primals: Sequence[Array], tangents: Tangents, **params: Unpack[EighParams]
    ) -> Any:
        # V^H dA V = diag(dw) + [C, diag(w)] with dV = V C. Giles, "An extended collection of matrix
        # derivative results", 2008.
        subset_by_index = params["subset_by_index"]
        (x,), (t,) = primals, tangents
        n = typeof(x).shape[-1]
        if subset_by_index not in (None, (0, n)):
            raise NotImplementedError(
                "eigh: derivatives of a subset of the eigenvectors are not implemented.\n"
                f"    subset_by_index: {subset_by_index}, n = {n}\n"
                "  Slice the result of eigh without subset_by_index."
            )
        outs = self.call(x, **params)
        v, w = outs
        if type(t) is Zero:
            return outs, (typeof(v).zero, typeof(w).zero)
        inner = matrices.matmul(
            matrices.matmul(matrices.adjoint(v), matrices.hermitian(t, lower=params["lower"])), v
        )
        apart, equal, directions = gaps(w, inner)
        turned, unbounded = (
            matrices.matmul(v, mul(convert_element_type(scale, typeof(inner).dtype), inner))
            for scale in (apart, equal)
        )
        change = convert_element_type(_real(matrices.diagonal(inner)), typeof(w).dtype)
        return outs, Limits((turned, change), (unbounded, None), (None, directions))


eigh_p = Eigh()


def _by_rotations(ctx: Context, x: Value, values: ShapedArray, lower: bool) -> Any:
    """By the compiler's Jacobi rotations. NaN makes all NaN: they leave it where it is."""
    (whole,) = ctx.trace(lambda x: (matrices.hermitian(x, lower=lower),), x)
    # The options: read the lower triangle, sort the eigenvalues, at most 100 sweeps. Sweeps end
    # when the sum of squares off the diagonal is at most `enough` times the sum on it.
    enough = float(dtypes.finfo(values.dtype).eps)
    v, w = _lapack.built_in(
        ctx, "syevd", [whole], [x.aval.strengthen(), values], f'"1,1,100,{enough}"'
    )

    def checked(v: Array, w: Array) -> Any:
        failed = reduce_max(convert_element_type(ne(w, w), np.int32), (typeof(w).ndim - 1,))
        lost = broadcast_to(
            gt(failed, matrices.like(failed, 0)), typeof(v).shape, range(typeof(w).ndim - 1)
        )
        return select(lost, matrices.like(v, np.nan), v), w

    return ctx.trace(checked, v, w)


_SPELLED = {EighImplementation.JACOBI: "Jacobi"}


def _check_eigh(ctx: Context, algorithm: EighImplementation | None) -> None:
    if algorithm is None or not _lapack.lacks(ctx, "eigh", algorithm):
        return
    if algorithm is EighImplementation.QDWH and not ctx.target.kernels.built_in:
        raise NotImplementedError(
            f"eigh: QDWH implementation is only supported on TPU, not on {ctx.platform.upper()}.\n"
            "  Use implementation=None or EighImplementation.QR."
        )
    raise NotImplementedError(
        f"eigh: {_SPELLED.get(algorithm, algorithm.name)} implementation is not supported on "
        f"{ctx.platform.upper()}.\n  Use implementation=None."
    )


def _last_axis(ctx: Context, x: Value, first: int, last: int) -> Any:
    start, limit = [0] * len(x.shape), list(x.shape)
    start[-1], limit[-1] = first, last
    return hlo.slice(ctx, x, start, limit, [1] * len(x.shape))


def _real(x: ArrayLike) -> Any:
    return real(x) if typeof(x).dtype.kind == "c" else x


def _member(kind: Any, value: object, op: str) -> Any:
    """A member of an enumeration given by itself, its value or None.

    Raises ValueError for anything else.
    """
    try:
        return None if value is None else kind(value)
    except ValueError as err:
        raise ValueError(
            f"{op}: implementation must be one of {[m.value for m in kind]}, got {value!r}."
        ) from err


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of Hermitian matrices: x v = v diag(w).

    x: T[..., n, n]  ->  v: T[..., n, k] with orthonormal columns, w: real[..., k] ascending; k = n,
    or last - first for
    subset_by_index = (first, last).
    Without symmetrize_input only the lower (or with lower=False the upper) triangle is read.
    sort_eigenvalues=False allows another order. A matrix on which the iteration fails gives NaN.
    Where eigenvalues are equal, functions of their whole space have derivatives; functions of the
    basis v itself have none, and v counts as constant. Raises ValueError if x is not square (C1) or
    subset_by_index is out of range (C2).

    >>> from teucer import lax
    >>> lax.linalg.eigh(np.float32([[2, 0], [0, 1]]))[1]
    Array([1., 2.], dtype=float32)
    """
    x = symmetrized(x, "eigh") if symmetrize_input else matrices.as_float(x)
    if subset_by_index is not None:
        first, last = subset_by_index
        subset_by_index = (int(first), int(last))
    return tuple(
        eigh_p.call(
            x,
            lower=bool(lower),
            sort_eigenvalues=bool(sort_eigenvalues),
            subset_by_index=subset_by_index,
            algorithm=_member(EighImplementation, implementation, "eigh"),
        )
    )


@final
class Eig(_lapack.MatrixPrimitive):
    """Eigenvalues, and the left and right eigenvectors if asked for: x v_i = w_i v_i, u_i^H x = w_i
    u_i^H.

    (C1) x is square, of floating or complex dtype.
    """

    __slots__ = ()
    name = "eig"
    cost = _lapack.cubes(25)
    multiple_results = True

    def types(
        self,
        x: ShapedArray,
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        enable_eigvec_derivs: bool,
        implementation: object,
    ) -> Any:
        _lapack.check_rank("eig", (x, 2))
        _lapack.check_inexact("eig", x)
        if x.shape[-1] != x.shape[-2]:
            raise ValueError(f"The input to eig must be a square matrix. Got shape {x.shape}.")
        dtype = np.result_type(x.dtype, np.complex64)
        vectors = ShapedArray(x.shape, dtype)
        count = compute_left_eigenvectors + compute_right_eigenvectors
        return ShapedArray(x.shape[:-1], dtype), *([vectors] * count)

    def lower(self, ctx: Context, x: Value, **params: Unpack[EigParams]) -> Any:
        compute_left_eigenvectors, compute_right_eigenvectors, implementation = (
            params["compute_left_eigenvectors"],
            params["compute_right_eigenvectors"],
            params["implementation"],
        )
        _check_eig(ctx, implementation, compute_left_eigenvectors)
        if 0 in x.shape:
            return tuple(_lapack.zeros(ctx, aval) for aval in ctx.avals_out)
        default = (
            _lapack.has_gpu_kernel(ctx, "xgeev")
            and implementation is None
            and not compute_left_eigenvectors
        )
        if default or implementation is EigImplementation.CUSOLVER:
            return _eig_on_gpu(ctx, x, compute_right_eigenvectors)
        batch = x.shape[:-2]
        values = ctx.avals_out[0]
        vectors = ShapedArray(x.shape, values.dtype)
        parts = [values] if x.dtype.kind == "c" else [ShapedArray(values.shape, x.dtype)] * 2
        job = [
            _lapack.flag("V" if wanted else "N")
            for wanted in (compute_left_eigenvectors, compute_right_eigenvectors)
        ]
        use_magma = None if implementation is None else implementation is EigImplementation.MAGMA
        *w, left, right, info = _lapack.lapack(
            ctx,
            "eig",
            "geev",
            len(batch),
            [x],
            [*parts, vectors, vectors, _lapack.info_of(batch)],
            f"compute_left = {job[0]}, compute_right = {job[1]}",
            gpu=f"left = {_lapack.boolean(compute_left_eigenvectors)}, "
            f'magma = "{_lapack.magma(use_magma)}", '
            f"right = {_lapack.boolean(compute_right_eigenvectors)}",
        )
        value = w[0] if len(w) == 1 else ctx.op1("stablehlo.complex", w, values)
        wanted = [left] * compute_left_eigenvectors + [right] * compute_right_eigenvectors
        return _lapack.nan_unless_ok(ctx, info, value, *wanted)

    def jvp(
        self,
        primals: Sequence[Array],
        tangents: Sequence[object],
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        enable_eigvec_derivs: bool,
        implementation: object,
    ) -> Any:
        (x,), (t,) = primals, tangents
        params = {
            "compute_left_eigenvectors": compute_left_eigenvectors,
            "enable_eigvec_derivs": enable_eigvec_derivs,
            "implementation": implementation,
        }
        if type(t) is Zero:
            outs = self.call(x, compute_right_eigenvectors=compute_right_eigenvectors, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        if (compute_left_eigenvectors or compute_right_eigenvectors) and not enable_eigvec_derivs:
            raise NotImplementedError(
                "Derivatives of non-symmetric eigenvectors are only valid under assumptions on "
                "the input that cannot be checked: all eigenvalues differ, and what is computed "
                "from the eigenvectors does not depend on their phases.\n"
                "  Pass enable_eigvec_derivs=True to eig to opt in; eigenvalues alone, and eigh, "
                "need no permission."
            )
        left, right = compute_left_eigenvectors, compute_right_eigenvectors
        # The formula for dw does not depend on the phases of the vectors, so that they may be
        # differentiated again.
        params["enable_eigvec_derivs"] = True
        w, *vectors = self.call(x, compute_right_eigenvectors=right or not left, **params)
        t = convert_element_type(t, typeof(w).dtype)
        # The left eigenvectors of x are the right ones of x^H, whose eigenvalues are conj(w).
        changes = [_eig_tangents(conj(w), vectors[0], matrices.adjoint(t))] if left else []
        changes += [_eig_tangents(w, vectors[-1], t)] if right or not left else []
        dw = changes[-1][0] if right or not left else conj(changes[0][0])
        count = left + right
        return (w, *vectors[:count]), Limits(
            (dw, *[change[1] for change in changes[:count]]),
            (None, *[change[2] for change in changes[:count]]),
            (changes[-1][3] if count else None, *[None] * count),
        )


eig_p = Eig()


def _check_eig(ctx: Context, implementation: object, compute_left: bool) -> None:
    if ctx.target.kernels.lapack and implementation not in (None, EigImplementation.LAPACK):
        raise ValueError(
            "Only the lapack implementation is supported on CPU.\n"
            f"    implementation: {implementation}"
        )
    if implementation is EigImplementation.CUSOLVER and not _lapack.has_gpu_kernel(ctx, "xgeev"):
        raise NotImplementedError(
            f"eig: cuSOLVER is for platform 'cuda', not for '{ctx.platform}'.\n"
            "  Use implementation=None or EigImplementation.LAPACK."
        )
    if implementation is EigImplementation.CUSOLVER and compute_left:
        raise NotImplementedError(
            "Left eigenvectors are not supported by cusolver.\n"
            "  Use implementation=None or compute_left_eigenvectors=False."
        )


def _eig_on_gpu(ctx: Context, x: Value, compute_right: bool) -> Any:
    """Eigenvalues, and right eigenvectors if asked for, by cuSOLVER; it needs version 11.7.1 (of
    CUDA 12.6) or later."""
    batch, values = x.shape[:-2], ctx.avals_out[0]
    matrix = x.aval.strengthen()
    _, w, _, v, info = _lapack.lapack(
        ctx,
        "eig",
        "xgeev",
        len(batch),
        [x],
        [matrix, values, matrix, matrix, _lapack.info_of(batch)],
        gpu=f"left = false, right = {_lapack.boolean(compute_right)}",
    )
    if not compute_right:
        return _lapack.nan_unless_ok(ctx, info, w)
    if x.dtype.kind != "c":
        (v,) = ctx.trace(lambda w, v: (_complex_vectors(w, v),), w, v)
    return _lapack.nan_unless_ok(ctx, info, w, v)


def _complex_vectors(w: Array, v: Array) -> Any:
    """Eigenvectors of a real matrix as LAPACK packs them: a pair of conjugate ones is in two
    columns, its real and imaginary parts.

    The eigenvalue with positive imaginary part is first.
    """
    sign = matrices.rows(imag(w), v)
    zero = matrices.like(v, 0)
    is_first, is_second = gt(sign, zero), lt(sign, zero)
    return complex(
        select(is_second, shifted(v, 1), v),
        select(is_first, shifted(v, -1), select(is_second, neg(v), zero)),
    )


def _eig_tangents(w: Array, v: Array, t: Array) -> Any:
    """Tangents of eigenvalues and right eigenvectors: v^-1 dA v = diag(dw) + [C, diag(w)] with dv =
    v C. Giles 2008.

    Then the turn of the vectors of equal eigenvalues, and the directions of eigenvalues.
    """
    inner = _solve(v, matrices.matmul(t, v))
    apart, equal, directions = gaps(w, inner)
    turned, unbounded = (
        _of_unit_columns(v, matrices.matmul(v, mul(scale, inner))) for scale in (apart, equal)
    )
    return matrices.diagonal(inner), turned, unbounded, directions


def _solve(a: ArrayLike, b: Array) -> Any:
    """a^-1 b."""
    packed, _, permutation = lu(a)
    b = matrices.matmul(matrices.permutation_matrix(permutation, typeof(b).dtype), b)
    b = triangular_solve(packed, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(packed, b, left_side=True, lower=False)


def _of_unit_columns(v: Array, dv: Any) -> Any:
    """The tangent of v when each column keeps its norm of 1 and its largest element stays real, as
    LAPACK normalizes."""
    ndim = typeof(v).ndim
    size = real(mul(conj(v), v))
    shrink = reduce_sum(real(mul(conj(v), dv)), (ndim - 2,))
    biggest = _is_first_maximum(size)
    zero = matrices.like(size, 0)
    # Turning v by exp(-i angle) adds -i angle v; of the largest element v_k, real, the part
    # Im(dv_k) goes.
    turn = reduce_sum(select(biggest, imag(dv), zero), (ndim - 2,))
    largest = reduce_sum(select(biggest, real(v), zero), (ndim - 2,))
    angle = div(turn, largest)
    return sub(dv, mul(v, complex(matrices.rows(shrink, v), matrices.rows(angle, v))))


def _is_first_maximum(x: Array) -> Any:
    """Whether an element is the first largest one of its column."""
    ndim = typeof(x).ndim
    place = argmax(x, ndim - 2, np.int32)
    return eq(matrices.rows(place, x), broadcasted_iota(np.int32, typeof(x).shape, ndim - 2))


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues and eigenvectors of general square matrices: x v_i = w_i v_i, u_i^H x = w_i
    u_i^H.

    x: T[..., n, n]  ->  list of w: complex[..., n], and as asked for u, v: complex[..., n, n], in
    columns of norm 1 whose largest
    element is real. A matrix on which the iteration fails gives NaN. On NVIDIA GPUs computed by
    cuSOLVER or, with left eigenvectors or another implementation, by MAGMA or by LAPACK on the
    host.
    enable_eigvec_derivs allows derivatives of eigenvectors; they assume that all eigenvalues
    differ. Raises ValueError if x is not square, TypeError for dtypes (C1).

    >>> from teucer import lax
    >>> lax.linalg.eig(np.float32([[0, -1], [1, 0]]), compute_left_eigenvectors=False,
    ...     compute_right_eigenvectors=False)
    [Array([0.+1.j, 0.-1.j], dtype=complex64)]
    """
    chosen = _member(EigImplementation, implementation, "eig")
    if use_magma is not None:
        warnings.warn(
            "use_magma is deprecated, please use implementation=EigImplementation.MAGMA instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        chosen = chosen or (EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK)
    return list(
        eig_p.call(
            x,
            compute_left_eigenvectors=bool(compute_left_eigenvectors),
            compute_right_eigenvectors=bool(compute_right_eigenvectors),
            enable_eigvec_derivs=bool(enable_eigvec_derivs),
            implementation=chosen,
        )
    )
