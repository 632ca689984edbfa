"""Kernels fused with what comes before and behind them (docs/kernels.md).

A fusible function gets its arguments as functions that compute them, `Fusion`, and one that is
applied to its result. A kernel asks for the values that these close over (`get_fusion_values`), and
for which blocks of them make a block of its own (`pull_block_spec`, `push_block_spec`), so that all
is computed block by block.
"""

from teucer._pallas.fuser.blocks import (
    make_scalar_prefetch_handler,
    pull_block_spec,
    push_block_spec,
)
from teucer._pallas.fuser.fusible import Fusion, custom_fusion, fusible
from teucer._pallas.fuser.fusing import fuse, get_fusion_values

__all__ = [
    "Fusion", "custom_fusion", "fuse", "fusible", "get_fusion_values",
    "make_scalar_prefetch_handler", "pull_block_spec", "push_block_spec",
]  # fmt: skip
