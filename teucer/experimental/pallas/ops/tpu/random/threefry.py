"""Threefry-2x32 as a kernel, and as a generator of `jax.random` with the bits of the default one.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from teucer._base.lazy import listing, refusing
from teucer._jax.random import define_prng_impl
from teucer.experimental.pallas.ops.tpu.random import _counting
from teucer.random._keys import generator_of

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = [
    "BLOCK_SIZE", "Shape", "plthreefry_prng_impl", "plthreefry_random_bits", "threefry_2x32_count",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

Shape = Sequence[int]
BLOCK_SIZE = (256, 256)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _cipher(key: _counting.Words, places: Array) -> _counting.Words:
    """20 rounds, with a word of the key added after each four."""
    schedule = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
    x, y = places * np.uint32(0) + key[0], places + key[1]
    for i in range(5):
        for n in _ROTATIONS[i % 2]:
            x = x + y
            y = ((y << np.uint32(n)) | (y >> np.uint32(32 - n))) ^ x
        x = x + schedule[(i + 1) % 3]
        y = y + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def threefry_2x32_count(
    key: Array, shape: Shape, unpadded_shape: Shape, block_size: tuple[int, int]
) -> Array:
    """Random words for the places 0, 1, ... of a matrix, uint32[shape]; its elements count as in
    the unpadded shape. key: uint32[2]."""
    return _counting.text(
        _cipher, key, shape, unpadded_shape, block_size, 0, fuse_output=True, name="threefry_2x32"
    )


def plthreefry_random_bits(key: Array, bit_width: int, shape: Shape) -> Array:
    """Random unsigned integers of 8, 16, 32 or 64 bits.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> words = jnp.array([1, 2], "uint32")
    >>> found = plthreefry_random_bits(words, 32, (2, 3))
    >>> bool((found == jax.random.bits(jax.random.wrap_key_data(words), (2, 3))).all())
    True
    """
    return _counting.bits(_cipher, key, bit_width, shape, BLOCK_SIZE, "threefry_2x32")


_default = generator_of("threefry2x32")
plthreefry_prng_impl = define_prng_impl(
    key_shape=(2,),
    seed=_default.seed,
    split=_default.split,
    random_bits=plthreefry_random_bits,
    fold_in=_default.fold_in,
    name="pallas_threefry2x32",
    tag="plfry",
)
