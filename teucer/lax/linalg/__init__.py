"""Factorizations of matrices, and linear systems.

By LAPACK on CPU, by the libraries of their vendors on GPUs.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer.lax.linalg._eigen": "EighImplementation EigImplementation eig eig_p eigh eigh_p",
        "teucer.lax.linalg._factor": (
            "cholesky cholesky_p lu lu_p lu_pivots_to_permutation lu_pivots_to_permutation_p"
        ),
        "teucer.lax.linalg._polar": "qdwh",
        "teucer.lax.linalg._qr": "householder_product householder_product_p ormqr ormqr_p qr qr_p",
        "teucer.lax.linalg._reduction": (
            "hessenberg hessenberg_p schur schur_p tridiagonal tridiagonal_p"
        ),
        "teucer.lax.linalg._solve": (
            "triangular_solve triangular_solve_p tridiagonal_solve tridiagonal_solve_p"
        ),
        "teucer.lax.linalg._svd": "SvdAlgorithm svd svd_p",
        "teucer.lax.linalg._update": (
            "cholesky_update cholesky_update_p symmetric_product symmetric_product_p"
        ),
    },
)
