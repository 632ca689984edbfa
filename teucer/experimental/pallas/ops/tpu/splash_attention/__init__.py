"""Attention with a mask for each head, as MaxText, Keras and others use it.

Names and arguments are as of JAX's kernel for TPUs. Here XLA compiles it as it is written, on every
platform: memory grows with heads x queries x keys.
"""

from teucer._base.lazy import listing
from teucer._experimental.unbuilt import unbuilt_modules
from teucer.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel import (
    BlockSizes,
    QKVLayout,
    SegmentIds,
    make_masked_mha_reference,
    make_masked_mqa_reference,
    make_splash_mha,
    make_splash_mha_single_device,
    make_splash_mqa,
    make_splash_mqa_single_device,
)
from teucer.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask import (
    CausalMask,
    FullMask,
    LocalMask,
    Mask,
    MultiHeadMask,
    NumpyMask,
    make_causal_mask,
    make_local_attention_mask,
    make_random_mask,
)

__all__ = [
    "BlockSizes", "CausalMask", "FullMask", "LocalMask", "Mask", "MultiHeadMask", "NumpyMask",
    "QKVLayout", "SegmentIds", "make_causal_mask", "make_local_attention_mask",
    "make_masked_mha_reference", "make_masked_mqa_reference", "make_random_mask", "make_splash_mha",
    "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

unbuilt_modules(
    __name__,
    {
        "splash_attention_mask_info": (
            "MaskInfo process_dynamic_mask process_dynamic_mask_dkv process_mask process_mask_dkv"
        )
    },
    "kernels that read such tables are not built.\n  make_splash_mha and its like take masks.",
)
