"""Linear algebra, as scipy.linalg has it; stacks of matrices are mapped over.

Names are loaded on first use.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer.scipy._linalg_factors": (
            "cho_factor cho_solve cholesky eigh lu lu_factor lu_solve qr schur svd"
        ),
        "teucer.scipy._linalg_systems": "det expm inv solve solve_triangular",
        "teucer.scipy._linalg_forms": "eigh_tridiagonal hessenberg polar qr_multiply rsf2csf",
        "teucer.scipy._linalg_functions": "expm_frechet funm solve_sylvester sqrtm",
        "teucer.scipy._linalg_named": (
            "convolution_matrix fiedler fiedler_companion helmert invhilbert invpascal leslie "
            "pascal"
        ),
        "teucer.scipy._linalg_matrices": (
            "block_diag circulant companion dft hadamard hankel hilbert toeplitz"
        ),
    },
)
