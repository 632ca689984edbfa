"""Operations as kernels for TPUs, which run compiled on CPUs too.

Splash attention is compiled as it is written, by XLA.
"""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._experimental.unbuilt import unbuilt_modules

__all__: list[str] = []
__dir__ = listing(__name__, __all__)

unbuilt_modules(
    __name__,
    {"all_gather": "ag_kernel all_gather get_neighbor"},
    "this kernel copies between devices, and is not built.\n  Use jax.lax.all_gather in "
    "jax.shard_map.",
)
