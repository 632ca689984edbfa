"""Factors of other forms.

Polar, Hessenberg, complex Schur, Q times a matrix, eigenvalues of tridiagonal matrices.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, overload

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._transform.vmap import vmap
from teucer.numpy._library import fast
from teucer.scipy._linalg_factors import adjoint, qr
from teucer.scipy._operands import as_complex, matrices, product

if TYPE_CHECKING:
    from teucer._core.typing import Arrays


@overload
def hessenberg(
    a: ArrayLike, *, calc_q: Literal[False] = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Array: ...
@overload
def hessenberg(
    a: ArrayLike, *, calc_q: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Any: ...
@fast(static=("calc_q", "overwrite_a", "check_finite"))
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """h, or (h, q) with calc_q: a = q @ h @ q^H, q unitary and h zero below its first subdiagonal.

    a: T[..., n, n]. Raises ValueError if it is not square.

    >>> hessenberg(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    (a,) = matrices("hessenberg", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"hessenberg: the matrix must be square, got shape {a.shape}.")
    packed, taus = lax.linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    n = a.shape[-1]
    rest = lax.linalg.householder_product(packed[..., 1:, : max(n - 1, 0)], taus)
    first = jnp.broadcast_to(jnp.eye(n, min(n, 1), dtype=a.dtype), (*a.shape[:-1], min(n, 1)))
    return h, jnp.concatenate(
        [first, jnp.pad(rest, [(0, 0)] * (a.ndim - 2) + [(min(n, 1), 0), (0, 0)])], axis=-1
    )


@fast(static=("mode", "pivoting", "conjugate", "overwrite_a", "overwrite_c"))
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """(c @ q, r) of the factorization a = q @ r, or (q @ c, r) for mode 'left'; with pivoting the
    permutation follows.

    a: T[..., m, n]; c: T[..., p, m], for 'left' T[..., min(m, n), p]; a vector is taken for one
    row, or column.
    conjugate: take the conjugate of q.
    Raises ValueError for another mode, or if shapes do not fit.

    >>> jnp.abs(qr_multiply(jnp.array([[3.], [4.]]), jnp.array([3., 4.]))[0])
    Array([5.], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ValueError(f"qr_multiply: mode must be 'left' or 'right', got {mode!r}")
    a, c = matrices("qr_multiply", a, c)
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = jnp.conj(q) if conjugate else q
    is_vector = c.ndim == 1
    c = c[:, None] if is_vector and mode == "left" else jnp.atleast_2d(c)
    inner, outer = (c.shape[-2], q.shape[-1]) if mode == "left" else (c.shape[-1], q.shape[-2])
    if inner != outer:
        raise ValueError(
            f"qr_multiply: c does not fit q in mode {mode!r}.\n    c: {c.shape}\n    q: {q.shape}"
        )
    result = product(q, c) if mode == "left" else product(c, q)
    return (result.reshape(-1) if is_vector and result.ndim == 2 else result, *rest)


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """u, p with a = u @ p, or p @ u for side 'left': u has orthonormal columns (or rows), p is
    positive semidefinite.

    a: T[..., m, n]. method: 'qdwh', by iterations, or 'svd'. eps, max_iterations: the precision and
    the number of iterations. Raises ValueError for another side or method.

    >>> u, p = polar(jnp.array([[0., -2.], [3., 0.]]))
    >>> [[round(float(x)) for x in row] for row in p]
    [[3, 0], [0, 2]]

    Method: Y. Nakatsukasa and N. J. Higham, SIAM J. Sci. Comput. 35 (2013) A1325.
    """
    if side not in ("left", "right"):
        raise ValueError(f"polar: side must be 'left' or 'right', got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"polar: method must be 'qdwh' or 'svd', got {method!r}")
    return _polar(a, side, method, eps, max_iterations)


@fast(static=("side", "method", "eps", "max_iterations"))
def _polar(
    a: ArrayLike, side: str, method: str, eps: float | None, max_iterations: int | None
) -> tuple[Any, Any]:
    (a,) = matrices("polar", a)
    if a.ndim < 2:
        raise ValueError(f"polar: a must be a matrix, got shape {a.shape}.")
    is_tall = a.shape[-2] >= a.shape[-1]
    u = _unitary(method, eps, max_iterations, a if is_tall else adjoint(a))
    u = u if is_tall else adjoint(u)
    p = product(adjoint(u), a) if side == "right" else product(a, adjoint(u))
    return u, 0.5 * (p + adjoint(p))


@functools.partial(custom_jvp, nondiff_argnums=(0, 1, 2))
def _unitary(method: str, eps: float | None, max_iterations: int | None, a: Array) -> Any:
    """The factor u of matrices with no more columns than rows."""
    if method == "svd":
        u, _, vh = jnp.linalg.svd(a, full_matrices=False)
        return product(u, vh)

    def of_one(x: Array) -> Any:
        return lax.linalg.qdwh(x, max_iterations=max_iterations, eps=eps)[0]

    for _ in range(a.ndim - 2):
        of_one = vmap(of_one)
    return of_one(a)


@_unitary.defjvp
def _unitary_jvp(
    method: str,
    eps: float | None,
    max_iterations: int | None,
    primals: Arrays,
    tangents: Arrays,
) -> tuple[Any, Any]:
    """Differentiating a = u p and u^H u = 1: u^H du solves p x + x p = u^H da - da^H u."""
    (a,), (da,) = primals, tangents
    u = _unitary(method, eps, max_iterations, a)
    p = product(adjoint(u), a)
    values, vectors = jnp.linalg.eigh(0.5 * (p + adjoint(p)))
    along = product(adjoint(u), da)
    skew = product(adjoint(vectors), product(along - adjoint(along), vectors))
    turn = product(
        vectors, product(skew / (values[..., :, None] + values[..., None, :]), adjoint(vectors))
    )
    out_of_range = product(
        product(da - product(u, along), vectors) / values[..., None, :], adjoint(vectors)
    )
    return u, product(u, turn) + out_of_range


@fast(static=("check_finite",))
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form of a real one: t, z with T = Z^H z t z^H Z, and t triangular.

    T, Z: T[..., n, n], of `schur`.
    Raises ValueError if they are not square or differ in size.

    >>> t, z = rsf2csf(jnp.array([[0., 1.], [-1., 0.]]), jnp.eye(2))
    >>> jnp.diagonal(t).imag.round(3)
    Array([ 1., -1.], dtype=float32)

    Method: a rotation for each block of two rows, from below (Golub and Van Loan, "Matrix
    Computations", 7.7).
    """
    t, z = matrices("rsf2csf", T, Z)
    n = t.shape[-1] if t.ndim >= 2 else -1
    if n < 0 or t.shape[-2:] != (n, n) or z.shape[-2:] != (n, n):
        raise ValueError(
            f"rsf2csf: T and Z must be square matrices of one size\n    T: {t.shape}\n"
            f"    Z: {z.shape}"
        )
    common = jnp.broadcast_shapes(t.shape, z.shape)
    t, z = (as_complex(jnp.broadcast_to(x, common)) for x in (t, z))

    def rotate(step: Any, tz: tuple[Any, Any]) -> tuple[Any, Any]:
        t, z = tz
        at = n - 2 - step
        g = _to_triangle(
            lax.dynamic_slice(t, (0,) * (t.ndim - 2) + (at, at), (*t.shape[:-2], 2, 2))
        )
        rows = lax.dynamic_slice_in_dim(t, at, 2, axis=t.ndim - 2)
        t = lax.dynamic_update_slice_in_dim(t, product(g, rows), at, axis=t.ndim - 2)
        t, z = (
            lax.dynamic_update_slice_in_dim(
                x,
                product(lax.dynamic_slice_in_dim(x, at, 2, axis=x.ndim - 1), adjoint(g)),
                at,
                axis=x.ndim - 1,
            )
            for x in (t, z)
        )
        return t, z

    if n > 1:
        t, z = lax.fori_loop(0, n - 1, rotate, (t, z))
    return jnp.triu(t), z


def _to_triangle(block: Any) -> Any:
    """Unitary g such that g @ block @ g^H is upper triangular; the identity where the block is."""
    (a, b), (c, d) = [[block[..., i, j] for j in range(2)] for i in range(2)]
    eps = jnp.finfo(block.dtype).eps
    is_triangle = jnp.abs(c) <= eps * (jnp.abs(a) + jnp.abs(d))
    # In place of the triangle, one that has a derivative and gives the identity.
    a, b, c, d = (
        jnp.where(is_triangle, one, x) for one, x in ((1.0, a), (0.0, b), (0.0, c), (-1.0, d))
    )
    half = 0.5 * (a - d)
    # The eigenvalue minus d. Of a conjugate pair, take the eigenvalue with positive imaginary part.
    shift = half + jnp.sqrt(half * half + b * c)
    r = as_complex(jnp.sqrt(jnp.abs(shift) ** 2 + jnp.abs(c) ** 2))
    cosine, sine = shift / r, c / r
    return jnp.stack(
        [jnp.stack([jnp.conj(cosine), jnp.conj(sine)], -1), jnp.stack([-sine, cosine], -1)], -2
    )


@overload
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: Literal[False] = ...,
    select: str = ...,
    select_range: tuple[float, float] | None = ...,
    tol: float | None = ...,
    key: Any = ...,
) -> tuple[Array, Array]: ...
@overload
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = ...,
    select: str = ...,
    select_range: tuple[float, float] | None = ...,
    tol: float | None = ...,
    key: Any = ...,
) -> Any: ...
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Array | tuple[Array, Array]:
    """Eigenvalues, and eigenvectors as columns unless eigvals_only, of the Hermitian matrix with
    diagonal d and subdiagonal e.

    d: real[n], e: T[n - 1]  ->  real[k], T[n, k]; e below the diagonal, its conjugate above
    select: 'a' all; 'i' those at the places select_range = (first, last), both included, of
    increasing eigenvalues.
    tol, key: have no effect: results have the precision of the dtype, and nothing is random.
    Raises ValueError for other arguments, NotImplementedError for select 'v', since the number of
    results is not known.

    >>> eigh_tridiagonal(jnp.array([0., 0.]), jnp.array([1.]), eigvals_only=True).round(3)
    Array([-1.,  1.], dtype=float32)
    """
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal: select='v' is not supported: how many eigenvalues are in a range "
            "is not known before they are computed\n  Compute all, and select of these."
        )
    if select not in ("a", "i"):
        raise ValueError(f"eigh_tridiagonal: 'select' must be 'a', 'i' or 'v', got {select!r}")
    if select == "i":
        n = jnp.shape(d)[0]
        if (
            select_range is None
            or len(select_range) != 2
            or not 0 <= select_range[0] <= select_range[1] < n
        ):
            raise ValueError(
                "eigh_tridiagonal: for select='i', select_range must be two places within 0 and "
                f"{n - 1}, the first not after the second, got {select_range}"
            )
        part = slice(int(select_range[0]), int(select_range[1]) + 1)
    else:
        part = slice(None)
    values, vectors = _eigh_tridiagonal(d, e)
    return values[part] if eigvals_only else (values[part], vectors[:, part])


@fast
def _eigh_tridiagonal(d: ArrayLike, e: ArrayLike) -> tuple[Any, Any]:
    d, e = matrices("eigh_tridiagonal", d, e)
    if d.ndim != 1 or e.ndim != 1 or e.shape[0] != max(d.shape[0] - 1, 0):
        raise ValueError(
            "eigh_tridiagonal: the subdiagonal must have one element less than the diagonal\n"
            f"    d: {d.shape}\n    e: {e.shape}"
        )
    lower = jnp.diag(e, -1) if d.shape[0] > 1 else jnp.zeros((d.shape[0],) * 2, e.dtype)
    return tuple(
        jnp.linalg.eigh(jnp.diag(d.real.astype(e.dtype)) + lower, "L", symmetrize_input=False)
    )
