"""Names of `pallas.mosaic_gpu`: memory spaces and semaphores, which run interpreted.

Kernels for warp groups, TMA and tensor memory are not compiled; kernels for NVIDIA GPUs go through
Triton (`pallas.triton`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from teucer._experimental.unbuilt import unbuilt, unbuilt_names
from teucer._pallas.semaphores import SemaphoreType
from teucer._pallas.specs import BlockSpec, MemoryRef, _Space
from teucer._pallas.specs import CompilerParams as _AnyParams

__all__ = [
    "GMEM", "SMEM", "BlockSpec", "CompilerParams", "MemorySpace", "SemaphoreType", "inline_mgpu",
]  # fmt: skip
_REASON = (
    "warp groups, TMA and tensor memory are not compiled yet.\n  Write the kernel for Triton, by "
    "pl.pallas_call and pallas.triton, which NVIDIA GPUs run."
)
__getattr__, __dir__ = unbuilt_names(
    __name__,
    """
    ACC Barrier ClusterBarrier CopyPartition InterpretGPUParams Layout() LoweringSemantics Mesh
    NDLoopInfo OOBFillMode PeerMemRef PipelinePipeline REGS RefType RefUnion Replicated
    SemaphoreSignal ShapeDtypeStruct SwizzleTransform TMEM TMEMLayout() Tiling TilingTransform
    TraceScope Transform TryClusterCancelResult WGMMAAccumulatorRef WarpMesh alloc_semaphore
    as_torch_kernel async_copy_scales_to_tmem async_copy_smem_to_tmem
    async_copy_sparse_metadata_to_tmem async_load_tmem async_prefetch async_store_smem
    async_store_tmem atomic_add atomic_and atomic_max atomic_min atomic_or atomic_xor
    barrier_arrive barrier_arrive_and_wait barrier_test barrier_wait broadcasted_iota
    cluster_ref commit_smem commit_smem_to_gmem_group commit_tmem copy_gmem_to_smem
    copy_smem_to_gmem dynamic_scheduling_loop emit_pipeline emit_pipeline_warp_specialized
    find_swizzle force_gpu_interpret_mode format_tcgen05_sparse_metadata
    griddepcontrol_launch_dependents griddepcontrol_wait im2col_ref  kernel
    layout_cast load max min mma multicast_ref multimem_load_reduce multimem_store nd_loop
    planar_snake print_layout prod query_cluster_cancel remote_ref semaphore_signal
    semaphore_signal_multicast semaphore_signal_parallel semaphore_wait set_gpu_interpret_mode
    set_max_registers store sum tcgen05_commit_arrive tcgen05_mma transform_ref transpose_ref
    try_cluster_cancel wait_gmem_to_smem wait_load_tmem wait_smem_to_gmem warp_map wgmma
    wgmma_accumulator_load wgmma_wait
    """,
    _REASON,
    tuple(__all__),
)


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


def inline_mgpu(**types: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator for functions of Mosaic's operations, which are not built.

    Libraries decorate as they are imported; calling such a function raises NotImplementedError.
    """

    def decorate(fun: Callable[..., Any]) -> Any:
        return unbuilt(f"jax.experimental.pallas.mosaic_gpu.inline_mgpu of {fun.__name__}", _REASON)

    return decorate
