"""Kernels fused with the operations before and behind them (docs/kernels.md).

A fusible function does not get arrays. For each argument it gets a `Fusion`, a function that
computes the value, and one more that is to be applied to its result. A kernel asks for the values
that these functions close over (`get_fusion_values`). It also asks which blocks of those values are
needed for one of its own blocks (`pull_block_spec`, `push_block_spec`), so that everything is
computed block by block.
"""

from typing import TYPE_CHECKING

from teucer._base.lazy import listing, refusing
from teucer._pallas.fuser.blocks import (
    make_scalar_prefetch_handler,
    pull_block_spec,
    push_block_spec,
)
from teucer._pallas.fuser.fusible import Fusion, custom_fusion, fusible
from teucer._pallas.fuser.fusing import fuse, get_fusion_values
from teucer._pallas.fuser.kernels import (
    block_spec_with_prefetch,
    evaluate,
    filter_no_block_specs,
    get_stateful_input_fusion_values,
    get_stateful_output_fusion_values,
    push_pull_block_spec,
)

__all__ = [
    "Fusion", "block_spec_with_prefetch", "custom_fusion", "evaluate", "filter_no_block_specs",
    "fuse", "fusible", "get_fusion_values", "get_stateful_input_fusion_values",
    "get_stateful_output_fusion_values", "make_scalar_prefetch_handler", "pull_block_spec",
    "push_block_spec", "push_pull_block_spec",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
