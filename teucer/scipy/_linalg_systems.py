"""Linear systems, determinants, inverses and the exponential of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy._linalg_factors import cho_factor, cho_solve, triangular, warn_of_vectors
from teucer.scipy._operands import identity, matrices, product


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant.

    >>> det(jnp.array([[2.]]))
    Array(2., dtype=float32)
    """
    return jnp.linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse; inf or nan where there is none.

    >>> inv(jnp.array([[2.]]))
    Array([[0.5]], dtype=float32)
    """
    return jnp.linalg.inv(a)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The solution x of a @ x = b; b is a vector, or has vectors as columns.

    assume_a: 'pos' for a positive definite matrix: only its upper triangle is read, or with
    lower=True its lower one; 'gen', 'sym', 'her'. Raises ValueError for another assume_a.

    >>> solve(jnp.array([[2.]]), jnp.array([6.]))
    Array([3.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(
            f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got '{assume_a}'"
        )
    return cho_solve(cho_factor(a, lower), b) if assume_a == "pos" else jnp.linalg.solve(a, b)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The solution x of a @ x = b for an upper or lower triangular matrix; the other triangle is
    not read.

    trans: 0 or 'N', 1 or 'T' for a.T, 2 or 'C' for its conjugate. unit_diagonal: take the diagonal
    to be ones. Raises ValueError for another trans.

    >>> solve_triangular(jnp.array([[2., 4.], [7., 1.]]), jnp.array([6., 1.]))
    Array([1., 1.], dtype=float32)
    """
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        raise ValueError(f"Invalid 'trans' value {trans}")
    warn_of_vectors("solve_triangular", a, b)
    return _solve_triangular(a, b, kinds[trans], bool(lower), bool(unit_diagonal))


@fast(static=("trans", "lower", "unit"))
def _solve_triangular(a: ArrayLike, b: ArrayLike, trans: int, lower: bool, unit: bool) -> Any:
    a, b = matrices("solve_triangular", a, b)
    return triangular(a, b, lower=lower, transpose=trans > 0, conjugate=trans == 2, unit=unit)


@fast(static=("upper_triangular", "max_squarings"))
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices; nan where more than max_squarings would be needed.

    upper_triangular: whether the matrix is, which saves work.
    Raises ValueError if the matrix is not square.

    >>> expm(jnp.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)

    Method: scaling and squaring of a Padé approximant. Higham, SIAM J. Matrix Anal. Appl. 26 (2005)
    1179.
    """
    (a,) = matrices("expm", A)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={a.shape}.")
    if not a.size:
        return a
    # The degree, and the norm up to which the approximant has the precision.
    is_long = np.finfo(a.dtype).bits == 64
    degree, reach = (13, 5.371920351148152) if is_long else (7, 3.925724783138660)
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(a), axis=-2), axis=-1))[..., None, None]
    squarings = jnp.maximum(0, jnp.ceil(jnp.log2(norm / reach)))
    squarings = jnp.where(jnp.isfinite(squarings), squarings, 0)
    odd, even = _approximant(a / jnp.exp2(squarings).astype(a.dtype), degree)
    result = (
        triangular(even - odd, even + odd, lower=False)
        if upper_triangular
        else jnp.linalg.solve(even - odd, even + odd)
    )

    def step(i: Array, x: Array) -> Any:
        return lax.cond(
            jnp.any(i < squarings),
            lambda x: jnp.where(i < squarings, product(x, x), x),
            lambda x: x,
            x,
        )

    result = lax.fori_loop(0, max_squarings, step, result)
    return jnp.where(squarings > max_squarings, jnp.nan, result)


def _approximant(a: Array, degree: int) -> tuple[Any, Any]:
    """The odd and the even part of the numerator of the diagonal Padé approximant of exp."""
    c = [
        math.comb(degree, k) * math.factorial(2 * degree - k) / math.factorial(2 * degree)
        for k in range(degree + 1)
    ]
    eye = identity(a)
    square = product(a, a)
    odd, even = c[degree] * eye, c[degree - 1] * eye
    for k in range(degree - 2, 0, -2):
        odd, even = product(square, odd) + c[k] * eye, product(square, even) + c[k - 1] * eye
    return product(a, odd), even + jnp.zeros_like(a)
