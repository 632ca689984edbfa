"""Linear algebra on stacks of matrices.

The last two axes are a matrix, those before them are mapped over.
"""

from teucer._derived.library_stages import with_stages as _with_stages
from teucer.numpy._linalg_decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from teucer.numpy._linalg_norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from teucer.numpy._linalg_products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from teucer.numpy._linalg_systems import (
    det,
    inv,
    lstsq,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

for _name in __all__:
    _with_stages(globals()[_name])
