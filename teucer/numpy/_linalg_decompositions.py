"""Factorizations of stacks of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer.lax import _elementwise as lax
from teucer.lax import _shapes, _sorting, _structure
from teucer.lax._families import scalar_like
from teucer.lax.linalg import _eigen as _linalg_eigen
from teucer.lax.linalg import _factor as _linalg_factor
from teucer.lax.linalg import _qr as _linalg_qr
from teucer.lax.linalg import _svd as _linalg_svd
from teucer.numpy._library import fast
from teucer.numpy._promotion import INEXACT, check_arraylike, promote_dtypes
from teucer.numpy._taking import take_along_axis
from teucer.numpy._ufuncs import is_kind

if TYPE_CHECKING:
    from teucer._core.typing import Value


class EigResult(NamedTuple):
    """Eigenvalues and right eigenvectors, in columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues in ascending order and eigenvectors, in columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """A matrix with orthonormal columns and an upper triangular one."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values in descending order, right singular vectors
    in conjugate rows."""

    U: Any
    S: Any
    Vh: Any


def matrices(name: str, *xs: Value, square: bool = False) -> list[Array]:
    """Operands as floats or complex numbers of one dtype, strongly typed, each a stack of matrices.

    Raises ValueError for fewer than two axes and, if they must be square, for other shapes.
    """
    out = [
        _structure.convert_element_type(x, typeof(x).dtype)
        for x in promote_dtypes(f"jnp.linalg.{name}", INEXACT, *xs)
    ]
    for x in out:
        shape = np.shape(x)
        if len(shape) < 2:
            raise ValueError(
                f"Argument to {name} must have shape "
                f"{'[..., n, n]' if square else '[..., m, n]'}, got {shape}."
            )
        if square and shape[-1] != shape[-2]:
            raise ValueError(f"Argument to {name} must have shape [..., n, n], got {shape}.")
    return out


def _matrix(name: str, a: ArrayLike, *, square: bool = False) -> Any:
    """As `matrices`, of the operand of a decomposition. Raises TypeError for fewer than two axes,
    as JAX's decompositions do."""
    check_arraylike(f"jnp.linalg.{name}", a)
    if np.ndim(a) < 2:
        raise TypeError(
            f"Input 0 to {name} must have rank at least 2, but got shape={np.shape(a)}."
        )
    return matrices(name, a, square=square)[0]


@fast(static=("upper", "symmetrize_input"))
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with a = L L^H, or the upper triangular U with a = U^H U, of positive
    definite matrices.

    a: T[..., n, n]  ->  T[..., n, n]; nan where a is not positive definite. symmetrize_input: (a +
    a^H) / 2 is factorized.
    Raises ValueError if a is not square.

    >>> cholesky(np.float32([[4, 2], [2, 5]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = _matrix("cholesky", a, square=True)
    out = _linalg_factor.cholesky(adjoint(x) if upper else x, symmetrize_input=symmetrize_input)
    return adjoint(out) if upper else out


def adjoint(x: Any) -> Any:
    """The conjugate transpose of the last two axes."""
    turned = _structure.moveaxis(x, -1, -2)
    return lax.conj(turned) if is_kind(x, np.complexfloating) else turned


@fast(static=("UPLO", "symmetrize_input"))
def _eigh(a: ArrayLike, UPLO: object, symmetrize_input: bool) -> Any:
    x = _matrix("eigh", a, square=True)
    v, w = _linalg_eigen.eigh(x, lower=UPLO in (None, "L"), symmetrize_input=symmetrize_input)
    return w, v


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices: a v = v diag(w).

    UPLO: 'L' or 'U', the triangle that is read where symmetrize_input is off; else (a + a^H) / 2 is
    meant. Raises ValueError if a is not square, or for another UPLO.

    >>> eigh(np.float32([[2, 0], [0, 1]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    return EighResult(*_eigh(a, UPLO, symmetrize_input if UPLO is None else False))


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of Hermitian matrices, ascending; arguments as in `eigh`.

    >>> eigvalsh(np.float32([[2, 0], [0, 1]]))
    Array([1., 2.], dtype=float32)
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    return _eigh(a, UPLO, symmetrize_input)[0]


@fast
def _eig(a: ArrayLike) -> Any:
    x = _matrix("eig", a, square=True)
    return tuple(_linalg_eigen.eig(x, compute_left_eigenvectors=False))


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices, complex, in no particular order. On
    CPU.

    Raises ValueError if a is not square.

    >>> eig(np.float32([[0, -1], [1, 0]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*_eig(a))


@fast
def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices, complex, in no particular order. On CPU.

    >>> eigvals(np.float32([[0, -1], [1, 0]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    x = _matrix("eigvals", a, square=True)
    return _linalg_eigen.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[
        0
    ]


@fast(static=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
def _svd(
    a: ArrayLike, full_matrices: bool, compute_uv: bool, hermitian: bool, subset_by_index: Any
) -> Any:
    x = _matrix("svd", a)
    if not hermitian:
        out = _linalg_svd.svd(
            x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )
        return tuple(out) if compute_uv else out
    v, w = _linalg_eigen.eigh(x)
    magnitude, place = _sorting.sort_key_val(
        lax.neg(lax.abs(w)),
        _shapes.broadcasted_iota(np.dtype(np.int32), np.shape(w), np.ndim(w) - 1),
    )
    s = lax.neg(magnitude)
    if not compute_uv:
        return s
    line = _structure.reshape(place, (*np.shape(place)[:-1], 1, np.shape(place)[-1]))
    v = take_along_axis(v, line, -1)
    signs = lax.where_else(
        lax.lt(take_along_axis(w, place, -1), scalar_like(w, 0)),
        scalar_like(w, -1),
        scalar_like(w, 1),
    )
    signs = _structure.reshape(lax.convert_element_type(signs, typeof(v).dtype), np.shape(line))
    u = lax.mul(
        v,
        _structure.broadcast_in_dim_p.call(
            _structure.reshape(signs, (*np.shape(v)[:-2], np.shape(v)[-1])),
            shape=np.shape(v),
            broadcast_dimensions=(*range(np.ndim(v) - 2), np.ndim(v) - 1),
            sharding=None,
        )[0],
    )
    return u, s, adjoint(v)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular value decomposition a = U diag(S) Vh, with S descending.

    a: T[..., m, n]  ->  U: T[..., m, m], S: real[..., min(m, n)], Vh: T[..., n, n]; without
    full_matrices the first min(m, n)
    columns of U and rows of Vh; S alone without compute_uv. hermitian: a is Hermitian, and its
    eigenvalues are used.
    subset_by_index: (first, last) of the singular values wanted.

    >>> svd(np.float32([[0, 2], [1, 0]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    out = _svd(
        a,
        bool(full_matrices),
        bool(compute_uv),
        bool(hermitian),
        None if subset_by_index is None else tuple(subset_by_index),
    )
    return SVDResult(*out) if compute_uv else out


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending.

    >>> svdvals(np.float32([[0, 2], [1, 0]]))
    Array([2., 1.], dtype=float32)
    """
    return _svd(x, False, False, False, None)


@fast(static=("mode",))
def _qr(a: ArrayLike, mode: str) -> Any:
    x = _matrix("qr", a)
    if mode == "raw":
        h, taus = _linalg_qr.geqrf_p.call(x)
        return _structure.moveaxis(h, -1, -2), taus
    q, r = _linalg_qr.qr(x, full_matrices=mode == "complete")
    return r if mode == "r" else (q, r)


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """QR factorization a = Q R with orthonormal columns of Q and upper triangular R.

    a: T[..., m, n]; mode: 'reduced' gives Q: T[..., m, k], R: T[..., k, n] for k = min(m, n);
    'complete' has k = m; 'r' gives R alone; 'raw' the result of LAPACK's geqrf, transposed. Raises
    ValueError for another mode.

    >>> qr(np.float32([[3], [4]])).R
    Array([[-5.]], dtype=float32)
    """
    if mode == "full":
        mode = "reduced"
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(
            f"Unsupported QR decomposition mode '{mode}'\n"
            "  Modes are 'reduced', 'complete', 'r' and 'raw'."
        )
    out = _qr(a, mode)
    return out if mode == "r" else QRResult(*out)
