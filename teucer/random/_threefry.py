"""Keys of two words and the bits that the cipher Threefry-2x32 makes of them.

A bit string is the cipher text of counters. In the partitionable form element i of an array has
counter i, so its bits do not depend on how the array is divided. In the older form
(`jax_threefry_partitionable` off) the counters 0, 1, 2, ... are cut into two halves, which are the
first and second words.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import config
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import bounds, is_symbolic, max_dim
from teucer.lax import _arithmetic as ops
from teucer.lax._control.misc import optimization_barrier
from teucer.lax._joining import concatenate
from teucer.lax._random import threefry2x32_p
from teucer.lax._random_keys import Generator
from teucer.lax._selection import select
from teucer.lax._shapes import iota_p
from teucer.lax._slicing import index_in_dim, slice_in_dim
from teucer.lax._structure import convert_element_type, expand, full, number, reshape, transpose

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike, Value


UINT32 = np.dtype("uint32")
UINT64 = np.dtype("uint64")


def seed_words(seed: Any) -> Any:
    """The high and the low 32-bit word of an integer, as an array."""
    low = reshape(convert_element_type(seed, UINT32), (1,))
    if seed.dtype.itemsize < 8:
        return concatenate([np.zeros(1, UINT32), low], 0)
    high = ops.shift_right_logical(seed, number(32, seed.dtype))
    return concatenate([reshape(convert_element_type(high, UINT32), (1,)), low], 0)


def counters(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """High and low words of the place of each element in the array, in row-major order."""
    if not shape:
        return np.uint32(0), np.uint32(0)
    if bounds(prod(shape)).high < 2**32:
        return np.uint32(0), _row_major(shape, UINT32)
    places = _row_major(shape, UINT64)
    high = ops.shift_right_logical(places, _wide(32))
    return convert_element_type(high, UINT32), convert_element_type(places, UINT32)


def _row_major(shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    places: Any = None
    stride: Any = 1
    for axis in reversed(range(len(shape))):
        along = iota_p.call(dtype=dtype, shape=shape, dimension=axis, sharding=None)[0]
        if is_symbolic(stride):
            along = ops.mul(along, convert_element_type(stride.__jax_array__(), dtype))
        elif stride > 1 and bounds(shape[axis]).high > 1:
            along = ops.mul(along, np.uint32(stride) if dtype == UINT32 else _wide(stride))
        places = along if places is None else ops.add(places, along)
        stride *= max_dim(shape[axis], 1)
    return places


def _wide(value: int) -> Any:
    """A uint64 scalar, also where 64-bit types are off."""
    low = convert_element_type(np.uint32(value & 0xFFFFFFFF), UINT64)
    if value < 2**32:
        return low
    high = convert_element_type(np.uint32(value >> 32), UINT64)
    return ops.bitwise_or(ops.shift_left(high, convert_element_type(np.uint32(32), UINT64)), low)


def _words(key: Any) -> tuple[Any, Any]:
    return index_in_dim(key, 0, 0, False), index_in_dim(key, 1, 0, False)


def _cipher(key: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Two words for each element of an array: the partitionable form."""
    return threefry2x32_p.call(*_words(key), *counters(shape))


def _stream(key: Value, count: int) -> Any:
    """The first words of the stream of a key: the older form."""
    half = -(-count // 2)
    first = iota_p.call(dtype=UINT32, shape=(half,), dimension=0, sharding=None)[0]
    if is_symbolic(count):
        return slice_in_dim(
            concatenate(
                list(threefry2x32_p.call(*_words(key), first, _second_half(first, count))), 0
            ),
            0,
            count,
        )
    second = ops.add(first, np.uint32(half))
    if count % 2:
        # The number of counters is made even by a zero behind them.
        second = concatenate([slice_in_dim(second, 0, half - 1), np.zeros(1, UINT32)], 0)
    words = concatenate(list(threefry2x32_p.call(*_words(key), first, second)), 0)
    return slice_in_dim(words, 0, count) if count % 2 else words


def _second_half(first: Any, count: Any) -> Any:
    """The second words of the blocks of a stream of unknown length: where that is odd, the last one
    is zero."""
    second = ops.add(first, full(typeof(first).shape, -(-count // 2), UINT32))
    length = typeof(second).shape
    return select(ops.lt(second, full(length, count, UINT32)), second, full(length, 0, UINT32))


def once(keys: ArrayLike) -> Any:
    """Keys that XLA computes once: else it repeats the cipher in every program part that uses one,
    and compiles five times as long (`beta` on CPU: 5.1 s without the barrier, 1.0 s with it)."""
    return optimization_barrier(keys)


def split(key: Any, shape: tuple[int, ...]) -> Any:
    """New keys: the cipher text of their places."""
    if config.threefry_partitionable.value:
        words = [expand(w, 1, len(shape)) for w in _cipher(key, shape)]
        return once(concatenate(words, len(shape)))
    return reshape(_stream(key, 2 * prod(shape)), (*shape, 2))


def fold_in(key: Array, data: ArrayLike) -> Any:
    """A new key: the cipher text of a number."""
    words = threefry2x32_p.call(*_words(key), np.uint32(0), data)
    return once(concatenate([reshape(w, (1,)) for w in words], 0))


def random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Unsigned integers of `bit_width` bits."""
    dtype = np.dtype(f"uint{bit_width}")
    if config.threefry_partitionable.value:
        first, second = _cipher(key, shape)
        return (
            joined(first, second)
            if bit_width == 64
            else convert_element_type(ops.bitwise_xor(first, second), dtype)
        )
    size = prod(shape)
    count = -(-bit_width * size // 32)
    if not count:
        return full(shape, 0, dtype)
    words = _stream(key, count)
    if bit_width == 64:
        words = joined(slice_in_dim(words, 0, size), slice_in_dim(words, size, 2 * size))
    elif bit_width < 32:
        words = slice_in_dim(_cut(words, bit_width), 0, size)
    return reshape(words, shape)


def joined(high: ArrayLike, low: ArrayLike) -> Any:
    """64-bit integers of two words."""
    return ops.bitwise_or(
        ops.shift_left(convert_element_type(high, UINT64), _wide(32)),
        convert_element_type(low, UINT64),
    )


def _cut(words: Any, bit_width: int) -> Any:
    """Words cut into integers of fewer bits, the lowest first."""
    parts = 32 // bit_width
    shifts = ops.mul(
        iota_p.call(dtype=UINT32, shape=(parts, words.shape[0]), dimension=0, sharding=None)[0],
        np.uint32(bit_width),
    )
    pieces = ops.bitwise_and(
        ops.shift_right_logical(expand(words, parts, 0), shifts), np.uint32(2**bit_width - 1)
    )
    return convert_element_type(
        reshape(transpose(pieces, (1, 0)), (parts * words.shape[0],)), np.dtype(f"uint{bit_width}")
    )


threefry = Generator(
    (2,),
    seed_words,
    split,
    random_bits,
    fold_in,
    "threefry2x32",
    "fry",
    lambda: config.threefry_partitionable.value,
)
