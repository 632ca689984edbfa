"""Operations that JAX has as kernels for TPUs.

Splash attention runs on every platform. The other kernels are not built.
"""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._experimental.unbuilt import unbuilt_modules

__all__: list[str] = []
__dir__ = listing(__name__, __all__)

unbuilt_modules(
    __name__,
    {
        "all_gather": "ag_kernel all_gather get_neighbor",
        "example_kernel": "double double_kernel",
        "paged_attention": "paged_attention",
        "paged_attention.paged_attention_kernel": (
            "DEFAULT_MASK_VALUE MultiPageAsyncCopyDescriptor paged_attention "
            "paged_flash_attention_kernel paged_flash_attention_kernel_inline_seq_dim"
        ),
        "paged_attention.quantization_utils": (
            "MAX_INT8 QuantizedTensor from_int8 get_quantization_scales quantize_to_int8 to_int8 "
            "unquantize_from_int8"
        ),
        "paged_attention.util": "MASK_VALUE grouped_query_attention_reference",
        "ragged_paged_attention": (
            "dynamic_validate_inputs get_tuned_block_sizes ragged_paged_attention "
            "ref_ragged_paged_attention static_validate_inputs"
        ),
        "ragged_paged_attention.kernel": (
            "DEFAULT_MASK_VALUE MultiPageAsyncCopyDescriptor dynamic_validate_inputs "
            "get_dtype_packing get_min_heads_per_blk get_tuned_block_sizes ragged_paged_attention "
            "ragged_paged_attention_kernel ref_ragged_paged_attention static_validate_inputs"
        ),
        "ragged_paged_attention.tuned_block_sizes": (
            "MAX_PAGES_PER_SEQ TUNED_BLOCK_SIZES get_device_name get_min_page_size "
            "get_tpu_version get_tuned_block_sizes next_power_of_2 simplify_key"
        ),
        "random": "",
        "random.philox": (
            "BLOCK_SIZE K_HI_32 K_LO_32 MUL_A MUL_B mul32_hi_lo philox_4x32 philox_4x32_count "
            "philox_4x32_kernel philox_fold_in philox_random_bits philox_split plphilox_prng_impl"
        ),
        "random.prng_utils": "blocked_iota compute_scalar_offset round_up",
        "random.threefry": (
            "BLOCK_SIZE plthreefry_prng_impl plthreefry_random_bits threefry_2x32_count"
        ),
    },
    "kernels are not compiled for TPUs yet.\n  Use the functions of jax.nn, lax.ragged_dot or "
    "splash_attention, which run on every platform.",
)
