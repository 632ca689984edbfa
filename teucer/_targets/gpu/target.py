"""The targets of GPUs, by CUDA and ROCm."""

from __future__ import annotations

from typing import ClassVar, final

from teucer._targets.interface import Target
from teucer._targets.kernels import Kernels

__all__ = ["CUDA", "GPU", "ROCm"]

# The kernels of both kinds, behind two letters or three.
_ROUTINES = {
    "cholesky_update": "_cholesky_update_ffi",
    "geev": "hybrid_eig_real",
    "geev complex": "hybrid_eig_comp",
    "geqp3": "hybrid_geqp3",
    "geqrf": "solver_geqrf_ffi",
    "gesdd": "solver_gesdd_ffi",
    "gesvd": "solver_gesvd_ffi",
    "gesvdj": "solver_gesvdj_ffi",
    "gesvdp": "solver_gesvdp_ffi",
    "getrf": "solver_getrf_ffi",
    "gtsv": "sparse_gtsv2_ffi",
    "lu_pivots_to_permutation": "_lu_pivots_to_permutation",
    "orgqr": "solver_orgqr_ffi",
    "ormqr": "solver_ormqr_ffi",
    "potrf": "solver_potrf_ffi",
    "syevd": "solver_syevd_ffi",
    "sytrd": "solver_sytrd_ffi",
    "tridiagonal_solve_perturbed": "_tridiagonal_solve_perturbed",
    "xgeev": "solver_geev_ffi",
}


def _kernels(letters: str, missing: tuple[str, ...], lacks: dict[str, tuple[str, ...]]) -> Kernels:
    routines = {
        routine: letters + name for routine, name in _ROUTINES.items() if routine not in missing
    }
    return Kernels(
        routines=routines,
        lacks=lacks,
        python="xla_ffi_python_gpu_callback",
        buffers="xla_buffer_python_gpu_callback",
    )


class GPU(Target):
    """GPUs of either kind. Nothing is tuned for them yet: programs are compiled as they are, but
    for what their user asks."""

    sends = True


@final
class CUDA(GPU):
    """NVIDIA's."""

    kernels: ClassVar[Kernels] = _kernels(
        "cu", ("gesdd",), {"eigh": ("QDWH",), "svd": ("DIVIDE_AND_CONQUER",)}
    )


@final
class ROCm(GPU):
    """AMD's."""

    kernels: ClassVar[Kernels] = _kernels("hip", ("cholesky_update", "xgeev"), {"eigh": ("QDWH",)})
