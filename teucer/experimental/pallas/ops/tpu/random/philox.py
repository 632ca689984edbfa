"""Philox-4x32 as a kernel, and as a generator of `jax.random`.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer._jax.random import define_prng_impl
from teucer.experimental.pallas.ops.tpu.random import _counting
from teucer.random._threefry import seed_words

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike

__all__ = [
    "BLOCK_SIZE", "K_HI_32", "K_LO_32", "MUL_A", "MUL_B", "Shape", "mul32_hi_lo", "philox_4x32",
    "philox_4x32_count", "philox_4x32_kernel", "philox_fold_in", "philox_random_bits",
    "philox_split", "plphilox_prng_impl",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

Shape = Sequence[int]
BLOCK_SIZE = (256, 256)
# What the words of the key grow by from round to round, and the factors of a round.
K_HI_32, K_LO_32 = 0x9E3779B9, 0xBB67AE85
MUL_A, MUL_B = 0xCD9E8D57, 0xD2511F53


def mul32_hi_lo(x: Array, y: Array) -> tuple[Array, Array]:
    """The high and the low 32 bits of a product, by products of 16 bits, uint32 each.

    >>> [int(word) for word in mul32_hi_lo(jnp.uint32(2**31), jnp.uint32(6))]
    [3, 0]
    """
    half, low = np.uint32(16), np.uint32(0xFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & low, y >> half, y & low
    cross = x_high * y_low + ((x_low * y_low) >> half)
    other = x_low * y_high + (cross & low)
    return x_high * y_high + (cross >> half) + (other >> half), x * y


def philox_4x32(
    hi0: Array, lo0: Array, hi1: Array, lo1: Array, k_hi: Array, k_lo: Array, rounds: int = 10
) -> tuple[Array, Array, Array, Array]:
    """The cipher text of a block of four words, uint32 each, by a key of two."""
    for _ in range(rounds):
        high_b, low_b = mul32_hi_lo(hi0, np.uint32(MUL_B))  # type: ignore[arg-type]  # a number
        high_a, low_a = mul32_hi_lo(hi1, np.uint32(MUL_A))  # type: ignore[arg-type]  # a number
        hi0, lo0, hi1, lo1 = high_a ^ lo0 ^ k_hi, low_a, high_b ^ lo1 ^ k_lo, low_b
        k_hi, k_lo = k_hi + np.uint32(K_HI_32), k_lo + np.uint32(K_LO_32)
    return hi0, lo0, hi1, lo1


def _cipher(key: _counting.Words, places: Array) -> _counting.Words:
    zeros = jnp.zeros_like(places)
    high, low, _, _ = philox_4x32(zeros, places, zeros, zeros, *key)
    return high, low


def philox_4x32_kernel(
    key: Array,
    shape: Shape,
    unpadded_shape: Shape,
    block_size: tuple[int, int],
    offset: ArrayLike = 0,
    fuse_output: bool = True,
) -> Array:
    """`philox_4x32_count` for a matrix, with padding: its elements count as in the unpadded
    shape."""
    return _counting.text(
        _cipher, key, shape, unpadded_shape, block_size, offset, fuse_output=fuse_output,
        name="philox_4x32",
    )  # fmt: skip


def philox_4x32_count(
    key: Array, shape: Shape, offset: ArrayLike = 0, fuse_output: bool = True
) -> Array:
    """Random words for the places offset, offset + 1, ... of an array in row-major order.

    key: uint32[2]  ->  uint32[shape]; without fuse_output both words of each, uint32[2, *shape],
    whose exclusive or the former is.

    >>> philox_4x32_count(jnp.array([1, 2], "uint32"), (2,))
    Array([2638896660,  163447598], dtype=uint32)
    """
    return _counting.of_shape(
        _cipher, key, shape, BLOCK_SIZE, offset, fuse_output=fuse_output, name="philox_4x32"
    )


def philox_split(key: Array, shape: Shape) -> Array:
    """Keys from a key, uint32[*shape, 2]."""
    return jnp.moveaxis(philox_4x32_count(key, shape, fuse_output=False), 0, -1)


def philox_fold_in(key: Array, data: ArrayLike) -> Array:
    """The key of a number, uint32[2]."""
    return philox_4x32_count(key, (), data, fuse_output=False)


def philox_random_bits(key: Array, bit_width: int, shape: Shape) -> Array:
    """Random unsigned integers of 8, 16, 32 or 64 bits."""
    return _counting.bits(_cipher, key, bit_width, shape, BLOCK_SIZE, "philox_4x32")


def _seed(seed: Any) -> Array:
    return jnp.asarray(seed_words(seed))


plphilox_prng_impl = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=philox_split,
    random_bits=philox_random_bits,
    fold_in=philox_fold_in,
    name="pallas_philox4x32",
    tag="pllox",
)
