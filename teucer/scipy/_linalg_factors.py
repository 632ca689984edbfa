"""Factorizations: Cholesky, LU, QR, singular values, eigenvalues, Schur.

The arguments overwrite_*, check_finite, lwork, turbo and lapack_driver are there for programs
written for SciPy: arrays are immutable, results are never checked, and XLA chooses the algorithm.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base.source import user_stacklevel
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy._operands import along_last, as_complex, identity, matrices, product


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return jnp.conj(jnp.swapaxes(x, -1, -2))


@fast(static=("lower", "overwrite_a", "check_finite"))
def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The Cholesky factor of a Hermitian matrix: upper triangular, or lower; nan where the matrix
    is not positive definite.

    >>> cholesky(jnp.array([[4.]]))
    Array([[2.]], dtype=float32)
    """
    (a,) = matrices("cholesky", a)
    # Only the triangle that is asked for is read.
    factor = lax.linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The Cholesky factor and `lower`, for `cho_solve`.

    >>> cho_factor(jnp.array([[4.]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The solution x of a @ x = b, from the factorization of `cho_factor`.

    >>> cho_solve(cho_factor(jnp.array([[4.]])), jnp.array([8.]))
    Array([2.], dtype=float32)
    """
    factor, lower = c_and_lower
    warn_of_vectors("cho_solve", factor, b)
    return _cho_solve(factor, b, bool(lower))


@fast(static=("lower",))
def _cho_solve(factor: object, b: ArrayLike, lower: bool) -> Any:
    factor, b = matrices("cho_solve", factor, b)
    first = triangular(factor, b, lower=lower, transpose=not lower, conjugate=not lower)
    return triangular(factor, first, lower=lower, transpose=lower, conjugate=lower)


def are_vectors(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Whether an array of shape b is a vector, or one for each matrix of shape a, as in JAX; else
    it has vectors as columns."""
    return len(b) == 1 or (1 < len(b) == len(a) - 1 and b[-1] == a[-1])


def warn_of_vectors(name: str, a: ArrayLike, b: ArrayLike) -> None:
    """JAX's warning where b is a batch of vectors."""
    if np.ndim(b) > 1 and are_vectors(np.shape(a), np.shape(b)):
        warnings.warn(
            f"{name}: batched 1D solves with b.ndim > 1 are deprecated, and in the future will be "
            f"treated as a batched 2D solve. Use {name}(a, b[..., None])[..., 0].",
            FutureWarning,
            stacklevel=user_stacklevel(),
        )


def triangular(
    a: Any,
    b: Array,
    *,
    lower: bool,
    transpose: bool = False,
    conjugate: bool = False,
    unit: bool = False,
) -> Any:
    """The solution of a triangular system; b is a vector, one for each matrix, or has vectors as
    columns."""
    is_vector = are_vectors(a.shape, b.shape)
    columns = b[..., None] if is_vector else b
    batch = jnp.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    a, columns = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, columns))
    x = lax.linalg.triangular_solve(
        a,
        columns,
        left_side=True,
        lower=lower,
        transpose_a=transpose,
        conjugate_a=conjugate,
        unit_diagonal=unit,
    )
    return x[..., 0] if is_vector else x


@fast(static=("permute_l", "overwrite_a", "check_finite"))
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """p, l, u with a = p @ l @ u: a permutation, a unit lower and an upper triangular matrix; or p
    @ l, u.

    >>> lu(jnp.array([[2.]]))
    (Array([[1.]], dtype=float32), Array([[1.]], dtype=float32), Array([[2.]], dtype=float32))
    """
    (a,) = matrices("lu", a)
    packed, _, permutation = lax.linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = jnp.tril(packed[..., :k], -1) + identity(a, k)
    upper = jnp.triu(packed[..., :k, :])
    real = np.empty(0, a.dtype).real.dtype
    p = (along_last(jnp.arange(m), permutation)[..., None] == permutation[..., None, :]).astype(
        real
    )
    return (product(p.astype(a.dtype), lower), upper) if permute_l else (p, lower, upper)


@fast(static=("overwrite_a", "check_finite"))
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """The LU factorization with both factors in one matrix, and the row with which each row was
    exchanged.

    >>> lu_factor(jnp.array([[2.]]))
    (Array([[2.]], dtype=float32), Array([0], dtype=int32))
    """
    (a,) = matrices("lu_factor", jnp.asarray(a))
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The solution x of a @ x = b, from the factorization of `lu_factor`; trans: 1 for a.T, 2 for
    its conjugate.

    Raises ValueError for another trans.

    >>> lu_solve(lu_factor(jnp.array([[2.]])), jnp.array([6.]))
    Array([3.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    packed, pivots = lu_and_piv
    warn_of_vectors("lu_solve", packed, b)
    return _lu_solve(packed, pivots, b, int(trans))


@fast(static=("trans",))
def _lu_solve(packed: Any, pivots: Any, b: Any, trans: int) -> Any:
    packed, b = matrices("lu_solve", packed, b)
    is_vector = are_vectors(packed.shape, b.shape)
    x = b[..., None] if is_vector else b
    if x.shape[-2] != packed.shape[-1]:
        raise ValueError(
            f"lu_solve: b has {x.shape[-2]} rows, and the matrix {packed.shape[-1]}.\n"
            f"    b: {b.aval}"
        )
    permutation = lax.linalg.lu_pivots_to_permutation(pivots, packed.shape[-1])
    batch = jnp.broadcast_shapes(packed.shape[:-2], x.shape[:-2])
    x = jnp.broadcast_to(x, (*batch, *x.shape[-2:]))
    if trans == 0:
        x = jnp.take_along_axis(
            x, jnp.broadcast_to(permutation, (*batch, permutation.shape[-1]))[..., None], axis=-2
        )
        x = triangular(packed, x, lower=True, unit=True)
        x = triangular(packed, x, lower=False)
    else:
        x = triangular(packed, x, lower=False, transpose=True, conjugate=trans == 2)
        x = triangular(packed, x, lower=True, transpose=True, conjugate=trans == 2, unit=True)
        places = jnp.broadcast_to(jnp.argsort(permutation), (*batch, permutation.shape[-1]))
        x = jnp.take_along_axis(x, places[..., None], axis=-2)
    return x[..., 0] if is_vector else x


@fast(static=("overwrite_a", "lwork", "mode", "pivoting", "check_finite"))
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: object = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """q, r with a = q @ r, orthonormal columns in q and r upper triangular.

    mode: 'full' (q is square), 'economic', or 'r' (r alone, in a tuple). pivoting: also the
    permutation p, with a[:, p] = q @ r and the diagonal of r falling. Raises ValueError for another
    mode.

    >>> [x.shape for x in qr(jnp.ones((3, 2)), mode="economic")]
    [(3, 2), (2, 2)]
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    (a,) = matrices("qr", jnp.asarray(a))
    q, r, *permutation = lax.linalg.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return (r, *permutation) if mode == "r" else (q, r, *permutation)


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> Any: ...
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """u, s, vh with a = u @ diag(s) @ vh and the singular values s falling; without compute_uv only
    s.

    >>> svd(jnp.array([[2.]]), compute_uv=False)
    Array([2.], dtype=float32)
    """
    found = jnp.linalg.svd(jnp.asarray(a), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(found) if compute_uv else found


@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    eigvals_only: Literal[False] = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> tuple[Array, Array]: ...
@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    eigvals_only: bool = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> Any: ...
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """w, v with a @ v = v * w: the rising eigenvalues of a Hermitian matrix and its eigenvectors,
    as columns.

    lower: which triangle of a is read. eigvals_only: only w.
    Raises NotImplementedError for b, eigvals, or a type that is not 1.

    >>> eigh(jnp.array([[2.]]), eigvals_only=True)
    Array([2.], dtype=float32)
    """
    if b is not None:
        raise NotImplementedError(
            "Only the b=None case of eigh is implemented\n  With L = cholesky(b, lower=True), "
            "pass inv(L) @ a @ inv(L).conj().T, and multiply the vectors by inv(L).conj().T."
        )
    if type != 1:
        raise NotImplementedError(
            "Only the type=1 case of eigh is implemented.\n"
            "  Leave type out; it matters only with b."
        )
    if eigvals is not None:
        raise NotImplementedError(
            "Only the eigvals=None case of eigh is implemented.\n  Slice the result."
        )
    triangle = "L" if lower else "U"
    if eigvals_only:
        return jnp.linalg.eigh(a, triangle, symmetrize_input=False).eigenvalues
    return tuple(jnp.linalg.eigh(a, triangle, symmetrize_input=False))


@fast(static=("output",))
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """t, z with a = z @ t @ z^H: z unitary, t upper triangular; for output='real' of real a, with
    blocks of 2 on its diagonal.

    Raises ValueError for another output.

    >>> schur(jnp.array([[2.]]))
    (Array([[2.]], dtype=float32), Array([[1.]], dtype=float32))
    """
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got {output=}.")
    (a,) = matrices("schur", a)
    if output == "complex":
        a = as_complex(a)
    t, z = lax.linalg.schur(a)
    return t, z
