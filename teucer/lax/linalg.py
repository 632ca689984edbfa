"""Factorizations of matrices, and linear systems of triangular and tridiagonal ones; on CPU by LAPACK."""

from teucer.lax._linalg_eigen import (
    EigImplementation as EigImplementation,
    EighImplementation as EighImplementation,
    eig as eig,
    eig_p as eig_p,
    eigh as eigh,
    eigh_p as eigh_p,
)
from teucer.lax._linalg_factor import (
    cholesky as cholesky,
    cholesky_p as cholesky_p,
    lu as lu,
    lu_p as lu_p,
    lu_pivots_to_permutation as lu_pivots_to_permutation,
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
)
from teucer.lax._linalg_qr import (
    householder_product as householder_product,
    householder_product_p as householder_product_p,
    ormqr as ormqr,
    ormqr_p as ormqr_p,
    qr as qr,
    qr_p as qr_p,
)
from teucer.lax._linalg_reduction import (
    hessenberg as hessenberg,
    hessenberg_p as hessenberg_p,
    schur as schur,
    schur_p as schur_p,
    tridiagonal as tridiagonal,
    tridiagonal_p as tridiagonal_p,
)
from teucer.lax._linalg_solve import (
    triangular_solve as triangular_solve,
    triangular_solve_p as triangular_solve_p,
    tridiagonal_solve as tridiagonal_solve,
    tridiagonal_solve_p as tridiagonal_solve_p,
)
from teucer.lax._linalg_svd import SvdAlgorithm as SvdAlgorithm, svd as svd, svd_p as svd_p
from teucer.lax._linalg_update import (
    cholesky_update as cholesky_update,
    cholesky_update_p as cholesky_update_p,
    symmetric_product as symmetric_product,
    symmetric_product_p as symmetric_product_p,
)
