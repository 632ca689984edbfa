"""Names of `pallas.mosaic_gpu`: memory spaces and semaphores, which run interpreted.

Kernels for warp groups, TMA and tensor memory are not compiled; kernels for NVIDIA GPUs go through Triton (`pallas.triton`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from teucer.experimental.pallas._semaphores import SemaphoreType
from teucer.experimental.pallas._specs import BlockSpec, MemoryRef, _Space
from teucer.experimental.pallas._specs import CompilerParams as _AnyParams

__all__ = ["GMEM", "SMEM", "BlockSpec", "CompilerParams", "MemorySpace", "SemaphoreType"]

_MISSING = ("kernel", "wgmma", "wgmma_wait", "copy_gmem_to_smem", "copy_smem_to_gmem", "wait_smem_to_gmem", "barrier_arrive",
            "barrier_wait", "commit_smem", "layout_cast", "emit_pipeline", "emit_pipeline_warp_specialized", "nd_loop",
            "tcgen05_mma",
            "tcgen05_commit_arrive", "async_load_tmem", "async_store_tmem", "set_max_registers", "ACC", "Barrier", "Layout",
            "WGMMAAccumulatorRef", "TilingTransform", "SwizzleTransform", "as_torch_kernel", "multimem_store",
            "multimem_load_reduce", "semaphore_signal_parallel", "dynamic_scheduling_loop", "try_cluster_cancel",
            "query_cluster_cancel", "planar_snake", "commit_tmem", "wait_load_tmem", "SemaphoreSignal")


class MemorySpace(_Space):
    """The memories of an NVIDIA GPU. Interpreted, all of them are the host's."""

    GMEM = "gmem"
    SMEM = "smem"
    TMEM = "tmem"
    REGS = "regs"

    def like(self, shape_dtype_like: Any) -> MemoryRef:
        """Memory of the shape and dtype of an array, or of a description of one."""
        return self(shape_dtype_like.shape, shape_dtype_like.dtype)


GMEM, SMEM = MemorySpace.GMEM, MemorySpace.SMEM


@dataclasses.dataclass(frozen=True)
class CompilerParams(_AnyParams):
    """Options of Mosaic's compiler for GPUs; nothing reads them yet."""

    approx_math: bool = False
    dimension_semantics: Any = None
    max_concurrent_steps: int = 1
    unsafe_no_auto_barriers: bool = False
    reduction_scratch_bytes: int = 2048
    profile_space: int = 0
    profile_dir: str = ""
    lowering_semantics: Any = None
    profile_trace_scope: bool = False

    def replace(self, **changes: Any) -> CompilerParams:
        """The options with some of them changed."""
        return dataclasses.replace(self, **changes)


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise AttributeError(f"pallas.mosaic_gpu.{name}: warp groups, TMA and tensor memory are not compiled yet.\n"
                             "  Write the kernel for Triton, by pl.pallas_call and pallas.triton, which NVIDIA GPUs run.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
