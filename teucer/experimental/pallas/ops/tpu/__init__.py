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
    {
        "all_gather": "ag_kernel all_gather get_neighbor",
        "example_kernel": "double double_kernel",
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
