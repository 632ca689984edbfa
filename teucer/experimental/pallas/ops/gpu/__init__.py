"""Operations that JAX has as kernels for GPUs; Teucer does not have these kernels."""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._experimental.unbuilt import unbuilt_modules

__all__: list[str] = []
__dir__ = listing(__name__, __all__)

unbuilt_modules(
    __name__,
    {
        "attention": (
            "BlockSizes DEFAULT_MASK_VALUE mha mha_backward_kernel mha_forward_kernel "
            "mha_reference segment_mask"
        ),
        "decode_attention": (
            "attn_forward_kernel decode_attn_unbatched gqa gqa_reference mha_reference mqa "
            "mqa_reference"
        ),
        "layer_norm": (
            "layer_norm layer_norm_backward layer_norm_backward_kernel_dw_db "
            "layer_norm_backward_kernel_dx layer_norm_forward layer_norm_forward_kernel "
            "layer_norm_reference"
        ),
        "paged_attention": (
            "DEFAULT_MASK_VALUE paged_attention paged_attention_kernel paged_attention_reference "
            "paged_attention_unbatched"
        ),
        "rms_norm": (
            "rms_norm rms_norm_backward rms_norm_backward_kernel_dw_db "
            "rms_norm_backward_kernel_dx rms_norm_forward rms_norm_forward_kernel "
            "rms_norm_reference"
        ),
        "softmax": "softmax",
    },
    "this kernel is not part of Teucer.\n  Use the functions of jax.nn and jnp, which XLA fuses on "
    "GPUs, or write the kernel with pallas.triton.",
)
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
