"""Keys of four words for XLA's own generator: fast, and with bits that depend on the platform.

`rbg` derives keys by the cipher Threefry on their halves; `unsafe_rbg` by the generator itself, of
which nothing is proved. Under vmap over keys the bits of the whole batch come from the first key.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._transform.vmap import vmap
from teucer.lax._arithmetic import bitwise_xor
from teucer.lax._joining import concatenate
from teucer.lax._random import RandomAlgorithm, rng_bit_generator_p
from teucer.lax._random_keys import Generator
from teucer.lax._slicing import index_in_dim, slice_in_dim
from teucer.lax._structure import reshape, transpose
from teucer.random import _threefry

if TYPE_CHECKING:
    from teucer._core.typing import Array


_STEP = 10  # rows of bits for one derived key of `unsafe_rbg`


def _seed(seed: Any) -> Any:
    words = _threefry.seed_words(seed)
    return concatenate([words, words], 0)


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Any:
    return rng_bit_generator_p.call(
        key,
        shape=tuple(shape),
        dtype=np.dtype(f"uint{bit_width}"),
        algorithm=RandomAlgorithm.RNG_DEFAULT,
        out_sharding=None,
    )[1]


def _split(key: Any, shape: tuple[int, ...]) -> Any:
    halves = vmap(lambda half: _threefry.split(half, shape))(reshape(key, (2, 2)))
    n = len(shape)
    return reshape(transpose(halves, (*range(1, n + 1), 0, n + 1)), (*shape, 4))


def _fold_in(key: Array, data: Array) -> Any:
    return reshape(vmap(lambda half: _threefry.fold_in(half, data))(reshape(key, (2, 2))), (4,))


def _split_unsafe(key: Array, shape: tuple[int, ...]) -> Any:
    rows = _random_bits(key, 32, (_STEP * prod(shape), 4))
    return reshape(slice_in_dim(rows, 0, None, _STEP), (*shape, 4))


def _fold_in_unsafe(key: Array, data: Array) -> Any:
    rows = _random_bits(_seed(data), 32, (_STEP, 4))
    return bitwise_xor(key, index_in_dim(rows, _STEP - 1, 0, False))


rbg = Generator((4,), _seed, _split, _random_bits, _fold_in, "rbg", "rbg")
unsafe_rbg = Generator(
    (4,), _seed, _split_unsafe, _random_bits, _fold_in_unsafe, "unsafe_rbg", "urbg"
)
