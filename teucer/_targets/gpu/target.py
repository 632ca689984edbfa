"""The targets of GPUs, by CUDA and ROCm."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from teucer._core.jaxpr import Jaxpr
from teucer._executables import disk_cache
from teucer._targets.interface import Kernels, Mode, Target

if TYPE_CHECKING:
    from teucer._targets.outlining.cut_into_pieces import CutProgram


# Debug options that name XLA's own caches: a folder and a file.
_AUTOTUNED, _KERNELS = "xla_gpu_per_fusion_autotune_cache_dir", "xla_gpu_kernel_cache_file"
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


def _autotuned(folder: Path) -> dict[str, Any]:
    """Results of autotuning, a file each. Where they cannot be written they are read."""
    kept = folder / "autotuned"
    if not disk_cache.make_folder(kept):
        return {}
    options = {_AUTOTUNED: str(kept)}
    if not os.access(kept, os.W_OK):
        options["xla_gpu_experimental_autotune_cache_mode"] = "AUTOTUNE_CACHE_MODE_READ"
    return options


def _kernel_cache(folder: Path) -> dict[str, Any]:
    """Machine code of kernels, in one file."""
    return {_KERNELS: str(folder / "kernels")} if os.access(folder, os.W_OK) else {}


class GPU(Target):
    """GPUs of either kind. A program is compiled as it is, or in pieces if equal layers then
    compile once and steps take no longer (docs/outlining.md, "On GPUs")."""

    sends = True
    own_caches: ClassVar[Mapping[str, Callable[[Path], Mapping[str, Any]]]] = {
        _AUTOTUNED: _autotuned,
        _KERNELS: _kernel_cache,
    }
    keeps_calls = False
    overwrites = True

    def divides(self, jaxpr: Jaxpr, mode: Mode) -> bool:
        """Long programs that a GPU works at for a while."""
        if mode != "auto":
            return super().divides(jaxpr, mode)
        from teucer._targets.gpu.whether_to_cut import (
            may_pay,  # `import teucer` would take longer with it
        )

        return may_pay(jaxpr)

    def pieces(self, jaxpr: Jaxpr, mode: Mode) -> CutProgram | None:
        """The pieces of a program that gains by them, unless the user decides. The program has
        no functions."""
        if mode != "auto":
            return super().pieces(jaxpr, mode)
        from teucer._targets.gpu.whether_to_cut import in_pieces  # as above

        return in_pieces(jaxpr)


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
