"""Sample inputs of factorizations and linear systems."""

from __future__ import annotations

from typing import Any

import numpy as np
from lax.samples_dot import made, numbers
from lax.sampling import Sample

__all__ = ["SAMPLES"]

DTYPES, REAL = ("float32", "complex64"), ("float32",)


def _positive(rng: Any, dtype: Any) -> Any:
    x = numbers(rng, dtype, (4, 4))
    return (x @ np.conj(x.T) + 4 * np.eye(4, dtype=dtype),), {}


def _triangular(left_side: bool, **options: bool) -> Any:
    def args(rng: Any, dtype: Any) -> Any:
        a = numbers(rng, dtype, (4, 4)) + 9 * np.eye(4, dtype=dtype)
        return (a, numbers(rng, dtype, (4, 3) if left_side else (3, 4))), {"left_side": left_side, **options}
    return args


def _bands(rng: Any, dtype: Any) -> Any:
    dl, d, du = (numbers(rng, dtype, (5,)) for _ in range(3))
    return (dl, (d + 20).astype(dtype), du, numbers(rng, dtype, (5, 2))), {}




SAMPLES = [
    Sample("cholesky", "lax.linalg.cholesky", _positive, DTYPES, np.linalg.cholesky, True),
    Sample("lu", "lax.linalg.lu", made((4, 3)), DTYPES, None, True),
    Sample("qr", "lax.linalg.qr", made((4, 3), full_matrices=False), DTYPES, None, True),
    Sample("qr_pivoting", "lax.linalg.qr", made((3, 4), full_matrices=False, pivoting=True), DTYPES, None, True),
    Sample("householder_product", "lax.linalg.householder_product", made((4, 3), (3,)), DTYPES, None, False),
    Sample("ormqr", "lax.linalg.ormqr", made((4, 3), (3,), (4, 2)), DTYPES, None, False),
    # Complex vectors have free phases: against differences only the real ones are compared.
    Sample("eigh", "lax.linalg.eigh", _positive, REAL, None, True),
    Sample("eig_values", "lax.linalg.eig",
           made((4, 4), compute_left_eigenvectors=False, compute_right_eigenvectors=False), DTYPES, None, False),
    Sample("svd", "lax.linalg.svd", made((4, 3), full_matrices=False), REAL, None, True),
    Sample("svd_values", "lax.linalg.svd", made((4, 3), compute_uv=False), DTYPES,
           lambda x, compute_uv: np.linalg.svd(x, compute_uv=False), True),
    Sample("schur", "lax.linalg.schur", made((4, 4)), DTYPES, None, False),
    Sample("hessenberg", "lax.linalg.hessenberg", made((4, 4)), DTYPES, None, False),
    Sample("tridiagonal", "lax.linalg.tridiagonal", _positive, DTYPES, None, False),
    Sample("triangular_solve_left", "lax.linalg.triangular_solve", _triangular(True, lower=True), DTYPES,
           lambda a, b, left_side, lower: np.linalg.solve(np.tril(a), b), True),
    Sample("triangular_solve_right", "lax.linalg.triangular_solve", _triangular(False, transpose_a=True, conjugate_a=True),
           DTYPES, lambda a, b, left_side, transpose_a, conjugate_a: np.linalg.solve(np.triu(a).conj(), b.T).T, True),
    Sample("tridiagonal_solve", "lax.linalg.tridiagonal_solve", _bands, DTYPES, None, True),
    Sample("cholesky_update", "lax.linalg.cholesky_update", made((4, 4), (4,)), REAL, None, False),
    Sample("symmetric_product", "lax.linalg.symmetric_product", made((4, 3), (4, 4), alpha=2.0, beta=3.0), REAL,
           lambda a, c, alpha, beta: alpha * a @ a.T + beta * c, True),
    Sample("qdwh", "lax.linalg.qdwh", made((4, 3)), DTYPES, None, False),
]
