"""Operations as kernels for NVIDIA GPUs, which run compiled on CPUs too.

Those that JAX writes for warp groups of Hopper and Blackwell, `*_mgpu`, are not built.
"""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._experimental.unbuilt import unbuilt_modules

__all__: list[str] = []
__dir__ = listing(__name__, __all__)

unbuilt_modules(
    __name__,
    {
        "all_gather_mgpu": "all_gather",
        "attention_mgpu": (
            "PipelineCallback TuningConfig attention attention_reference "
            "attention_with_pipeline_emitter cuda_versions main"
        ),
        "blackwell_matmul_mgpu": "MatmulDimension TuningConfig main matmul_kernel",
        "blackwell_ragged_dot_mgpu": (
            "TuningConfig do_matmul main ragged_dot_kernel ragged_dot_reference sample_group_sizes"
        ),
        "collective_matmul_mgpu": (
            "MatmulDimension TuningConfig all_gather_lhs_matmul is_nvshmem_used"
        ),
        "hopper_matmul_mgpu": "MatmulDimension TuningConfig get_num_sms kernel main matmul",
        "hopper_mixed_type_matmul_mgpu": (
            "MatmulDimension TuningConfig main mixed_matmul_kernel reference"
        ),
        "ragged_dot_mgpu": "GroupInfo main ragged_dot",
        "reduce_scatter_mgpu": "reduce_scatter",
        "transposed_ragged_dot_mgpu": "main ref_transposed_ragged_dot transposed_ragged_dot",
    },
    "kernels with warp groups, TMA and tensor memory are not compiled yet.\n  Use the functions of "
    "jax.nn and jnp, or write the kernel with pallas.triton.",
)
