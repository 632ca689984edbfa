"""Regions of programs that are fused with results in chosen memory. They are not built."""

from typing import TYPE_CHECKING

from teucer._base.lazy import listing, refusing
from teucer._experimental.unbuilt import unbuilt

__all__ = ["fused"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

fused = unbuilt(
    "jax.experimental.fused.fused",
    "results of a fused region have no memory space of their own.\n  XLA fuses what jit compiles; "
    "jax.memory.Space and device_put choose memory.",
)
