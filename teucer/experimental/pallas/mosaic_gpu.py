"""Names of `pallas.mosaic_gpu`: memory spaces and semaphores, which run interpreted.

Kernels for warp groups, TMA and tensor memory are not compiled; kernels for NVIDIA GPUs go through
Triton (`pallas.triton`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from teucer._base.lazy import listing
from teucer.experimental.pallas._semaphores import SemaphoreType
from teucer.experimental.pallas._specs import BlockSpec, MemoryRef, _Space
from teucer.experimental.pallas._specs import CompilerParams as _AnyParams

__all__ = ["GMEM", "SMEM", "BlockSpec", "CompilerParams", "MemorySpace", "SemaphoreType"]
__dir__ = listing(__name__, __all__)

_MISSING = """
    ACC as_torch_kernel async_copy_scales_to_tmem async_copy_smem_to_tmem
    async_copy_sparse_metadata_to_tmem async_load_tmem async_prefetch async_store_smem
    async_store_tmem atomic_add atomic_and atomic_max atomic_min atomic_or atomic_xor Barrier
    barrier_arrive barrier_test barrier_wait broadcasted_iota cluster_ref ClusterBarrier
    commit_smem commit_smem_to_gmem_group commit_tmem copy_gmem_to_smem copy_smem_to_gmem
    CopyPartition dynamic_scheduling_loop emit_pipeline emit_pipeline_warp_specialized
    find_swizzle format_tcgen05_sparse_metadata griddepcontrol_launch_dependents
    griddepcontrol_wait inline_mgpu kernel Layout layout_cast load LoweringSemantics Mesh
    multicast_ref multimem_load_reduce multimem_store nd_loop NDLoopInfo OOBFillMode PeerMemRef
    PipelinePipeline planar_snake print_layout query_cluster_cancel RefType RefUnion REGS
    remote_ref Replicated semaphore_signal semaphore_signal_multicast semaphore_signal_parallel
    semaphore_wait SemaphoreSignal set_max_registers ShapeDtypeStruct SwizzleTransform
    tcgen05_commit_arrive tcgen05_mma Tiling TilingTransform TMEM TMEMLayout TraceScope Transform
    transform_ref transpose_ref try_cluster_cancel TryClusterCancelResult wait_load_tmem
    wait_smem_to_gmem warp_map WarpMesh wgmma wgmma_accumulator_load wgmma_wait
    WGMMAAccumulatorRef
"""


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
    if name in _MISSING.split():
        raise AttributeError(
            f"pallas.mosaic_gpu.{name}: warp groups, TMA and tensor memory are not compiled yet.\n"
            "  Write the kernel for Triton, by pl.pallas_call and pallas.triton, which NVIDIA "
            "GPUs run."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
