"""Factorizations of matrices, and linear systems.

By LAPACK on CPU, by the libraries of their vendors on GPUs.
"""

from teucer.lax.linalg._eigen import EighImplementation as EighImplementation
from teucer.lax.linalg._eigen import EigImplementation as EigImplementation
from teucer.lax.linalg._eigen import eig as eig
from teucer.lax.linalg._eigen import eig_p as eig_p
from teucer.lax.linalg._eigen import eigh as eigh
from teucer.lax.linalg._eigen import eigh_p as eigh_p
from teucer.lax.linalg._factor import cholesky as cholesky
from teucer.lax.linalg._factor import cholesky_p as cholesky_p
from teucer.lax.linalg._factor import lu as lu
from teucer.lax.linalg._factor import lu_p as lu_p
from teucer.lax.linalg._factor import lu_pivots_to_permutation as lu_pivots_to_permutation
from teucer.lax.linalg._factor import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from teucer.lax.linalg._polar import qdwh as qdwh
from teucer.lax.linalg._qr import householder_product as householder_product
from teucer.lax.linalg._qr import householder_product_p as householder_product_p
from teucer.lax.linalg._qr import ormqr as ormqr
from teucer.lax.linalg._qr import ormqr_p as ormqr_p
from teucer.lax.linalg._qr import qr as qr
from teucer.lax.linalg._qr import qr_p as qr_p
from teucer.lax.linalg._reduction import hessenberg as hessenberg
from teucer.lax.linalg._reduction import hessenberg_p as hessenberg_p
from teucer.lax.linalg._reduction import schur as schur
from teucer.lax.linalg._reduction import schur_p as schur_p
from teucer.lax.linalg._reduction import tridiagonal as tridiagonal
from teucer.lax.linalg._reduction import tridiagonal_p as tridiagonal_p
from teucer.lax.linalg._solve import triangular_solve as triangular_solve
from teucer.lax.linalg._solve import triangular_solve_p as triangular_solve_p
from teucer.lax.linalg._solve import tridiagonal_solve as tridiagonal_solve
from teucer.lax.linalg._solve import tridiagonal_solve_p as tridiagonal_solve_p
from teucer.lax.linalg._svd import SvdAlgorithm as SvdAlgorithm
from teucer.lax.linalg._svd import svd as svd
from teucer.lax.linalg._svd import svd_p as svd_p
from teucer.lax.linalg._update import cholesky_update as cholesky_update
from teucer.lax.linalg._update import cholesky_update_p as cholesky_update_p
from teucer.lax.linalg._update import symmetric_product as symmetric_product
from teucer.lax.linalg._update import symmetric_product_p as symmetric_product_p
