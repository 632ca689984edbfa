"""Attention of sequences of several lengths, prefilled and decoded together, with keys in pages."""

from teucer._base.lazy import listing
from teucer.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import (
    dynamic_validate_inputs as dynamic_validate_inputs,
)
from teucer.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import (
    ragged_paged_attention as ragged_paged_attention,
)
from teucer.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import (
    ref_ragged_paged_attention as ref_ragged_paged_attention,
)
from teucer.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import (
    static_validate_inputs as static_validate_inputs,
)
from teucer.experimental.pallas.ops.tpu.ragged_paged_attention.tuned_block_sizes import (
    get_tuned_block_sizes as get_tuned_block_sizes,
)

__all__ = [
    "dynamic_validate_inputs", "get_tuned_block_sizes", "ragged_paged_attention",
    "ref_ragged_paged_attention", "static_validate_inputs",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
