"""Attention of one query a sequence, whose keys lie in pages."""

from teucer._base.lazy import listing
from teucer.experimental.pallas.ops.tpu.paged_attention.paged_attention_kernel import (
    paged_attention as paged_attention,
)

__all__ = ["paged_attention"]
__dir__ = listing(__name__, __all__)
