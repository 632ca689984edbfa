"""cuDNN's attention kernels, which Teucer does not call."""

from __future__ import annotations

from teucer._experimental.unbuilt import unbuilt

_WHERE = "jax._src.cudnn.fused_attention_stablehlo"
_REASON = "cuDNN's attention is not called.\n  Use jax.nn.dot_product_attention."
_NAMES = (
    "MaskType", "_dot_product_attention_bwd_p_wrapper", "_dot_product_attention_fwd_p_wrapper",
    "_normalize_layout", "check_compute_capability", "check_cudnn_version",
    "check_is_flash_attention", "check_layout", "dot_product_attention",
)  # fmt: skip
vars().update({name: unbuilt(f"{_WHERE}.{name}", _REASON) for name in _NAMES})
