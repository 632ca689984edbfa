"""Keys for the ciphers Philox-2x32, Philox-4x32 and Threefry-4x32.

Bits are the cipher text of the places of the elements.

Salmon, Moraes, Dror & Shaw, Parallel random numbers: as easy as 1, 2, 3, SC'11, sections 3.3 and
3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer.lax import _arithmetic as ops
from teucer.lax._joining import concatenate
from teucer.lax._random_keys import Generator
from teucer.lax._slicing import index_in_dim
from teucer.lax._structure import convert_element_type, reshape
from teucer.random._arguments import spread
from teucer.random._threefry import counters, joined, once, seed_words

if TYPE_CHECKING:
    from teucer._core.typing import Array


ZERO = np.uint32(0)
# Increments of the key from round to round: the golden ratio and sqrt(3) - 1, of 2**32.
WEYL = (0x9E3779B9, 0xBB67AE85)
PHILOX_2 = 0xD256D193
PHILOX_4 = (0xD2511F53, 0xCD9E8D57)
PARITY = 0x1BD11BDA
ROTATIONS_4 = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))

Words = Sequence[Any]


def _xor(*xs: Any) -> Any:
    found = xs[0]
    for x in xs[1:]:
        found = ops.bitwise_xor(found, x)
    return found


def _philox_2(key: Words, counter: Words) -> Words:
    """10 rounds of Philox-2x32."""
    (k,), (x, y) = key, counter
    factor = np.uint32(PHILOX_2)
    for _ in range(10):
        x, y = _xor(ops.mulhi(factor, x), y, k), ops.mul(factor, x)
        k = ops.add(k, np.uint32(WEYL[0]))
    return x, y


def _philox_4(key: Words, counter: Words) -> Words:
    """10 rounds of Philox-4x32."""
    (k0, k1), (x0, x1, x2, x3) = key, counter
    first, second = map(np.uint32, PHILOX_4)
    for _ in range(10):
        x0, x1, x2, x3 = (
            _xor(ops.mulhi(second, x2), x1, k0),
            ops.mul(second, x2),
            _xor(ops.mulhi(first, x0), x3, k1),
            ops.mul(first, x0),
        )
        k0, k1 = ops.add(k0, np.uint32(WEYL[0])), ops.add(k1, np.uint32(WEYL[1]))
    return x0, x1, x2, x3


def _mixed(x: Array, y: Array, bits: int) -> tuple[Any, Any]:
    x = ops.add(x, y)
    rotated = ops.bitwise_or(
        ops.shift_left(y, np.uint32(bits)), ops.shift_right_logical(y, np.uint32(32 - bits))
    )
    return x, ops.bitwise_xor(rotated, x)


def _threefry_4(key: Words, counter: Words) -> Words:
    """20 rounds of Threefry-4x32."""
    schedule = [*key, _xor(*key, np.uint32(PARITY))]
    x = [ops.add(c, k) for c, k in zip(counter, key, strict=True)]
    for i in range(20):
        first, second = ROTATIONS_4[i % 8]
        a, b = (1, 3) if i % 2 == 0 else (3, 1)
        x[0], x[a] = _mixed(x[0], x[a], first)
        x[2], x[b] = _mixed(x[2], x[b], second)
        if i % 4 == 3:
            n = i // 4 + 1
            x = [ops.add(w, schedule[(n + j) % 5]) for j, w in enumerate(x)]
            x[3] = ops.add(x[3], np.uint32(n))
    return x


def _generator(
    cipher: Callable[[Words, Words], Words], n_key: int, n: int, name: str, tag: str
) -> Generator:
    """A generator made of a block cipher of n words. A key is the first n_key words of a block."""
    padding = (ZERO,) * (n - 2)

    def words(key: Any) -> Words:
        return [index_in_dim(key, i, 0, False) for i in range(n_key)]

    def as_key(text: Words, shape: tuple[int, ...]) -> Any:
        return once(
            concatenate([reshape(spread(w, shape), (*shape, 1)) for w in text[:n_key]], len(shape))
        )

    def seed(x: Array) -> Any:
        high, low = (index_in_dim(seed_words(x), i, 0, False) for i in range(2))
        if n_key == n:
            return as_key(cipher((high, low, *padding), (ZERO,) * n), ())
        return as_key(cipher((ZERO,) * n_key, (high, low, *padding)), ())

    def split(key: Any, shape: tuple[int, ...]) -> Any:
        return as_key(cipher(words(key), (*padding, *counters(shape))), shape)

    def fold_in(key: Array, data: Array) -> Any:
        return as_key(cipher(words(key), (*padding, ZERO, data)), ())

    def random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Any:
        text = [spread(w, shape) for w in cipher(words(key), (*counters(shape), *padding))]
        if bit_width < 64:
            return convert_element_type(_xor(*text), np.dtype(f"uint{bit_width}"))
        return (
            joined(_xor(text[0], text[2]), _xor(text[1], text[3]))
            if n_key == 4
            else joined(text[0], text[1])
        )

    return Generator((n_key,), seed, split, random_bits, fold_in, name, tag)


threefry4 = _generator(_threefry_4, 4, 4, "threefry4x32", "fry4")
philox2 = _generator(_philox_2, 1, 2, "philox2x32", "phx2")
philox4 = _generator(_philox_4, 2, 4, "philox4x32", "phx4")
