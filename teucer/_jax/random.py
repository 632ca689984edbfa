"""Generators of random numbers: the existing ones, and new ones.

A generator defines seeding, splitting and drawing on the uint32 words of one key. `jax.random` does
the rest: arrays of keys, transformations, distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer.lax import _joining, _structure
from teucer.lax._random import threefry2x32_p
from teucer.lax._random_keys import Generator, random_seed_p
from teucer.lax._slicing import index_in_dim, slice_in_dim
from teucer.random._keys import generator_of

if TYPE_CHECKING:
    from teucer._core.typing import Value


_UINT32 = np.dtype("uint32")


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[[Value], object],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> Generator:
    """A generator of random numbers, which `jax.random.key(seed, impl=...)` takes.

    key_shape: the shape of a key, an array of uint32. seed(integer) -> key. split(key, shape) ->
    keys, uint32[*shape, *key_shape]. random_bits(key, bit_width, shape) -> unsigned integers of 8,
    16, 32 or 64 bits. fold_in(key, uint32) -> key.
    name, tag: its names in messages, and in the dtype of its keys.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> counter = define_prng_impl(
    ...     key_shape=(1,), seed=lambda seed: jnp.uint32(seed)[None], fold_in=lambda key,
    ...     data: key + data,
    ...     split=lambda key, shape: key + 1 + jnp.arange(np.prod(shape, dtype=int),
    ...     dtype="uint32").reshape(*shape, 1),
    ...     random_bits=lambda key, width,
    ...     shape: jnp.broadcast_to(key, shape).astype(f"uint{width}"), name="counter", tag="cnt")
    >>> jax.random.bits(jax.random.key(7, impl=counter), (2,))
    Array([7, 7], dtype=uint32)
    """
    return Generator(tuple(key_shape), seed, split, random_bits, fold_in, name, tag)


def random_seed(seeds: object, impl: object) -> Any:
    """Keys from integers, of any shape.

    impl: a generator, or a name of one as for `jax.random.key`. Raises TypeError for seeds that are
    not integers.

    >>> random_seed(np.arange(3), "threefry2x32").shape
    (3,)
    """
    if isinstance(seeds, int):
        seeds = np.int64(seeds)  # as C's long: an OverflowError beyond
    elif isinstance(seeds, list | tuple):
        seeds = np.asarray(seeds)
    return random_seed_p.call(seeds, impl=generator_of(impl))[0]


def seed_with_impl(impl: object, seed: object) -> Any:
    """Keys from integers, of any shape: `random_seed`, the generator first.

    >>> seed_with_impl("threefry2x32", 3)
    Array((), dtype=key<fry>) overlaying:
    [0 3]
    """
    return random_seed(seed, impl)


def threefry_2x32(keypair: Any, count: int) -> Any:
    """The cipher text of counters by Threefry-2x32, of the shape of the counters.

    keypair: the two words of a key, a pair of uint32 scalars or uint32[2]. count: uint32[...]; the
        first half of its elements are the first words of blocks, the second half the second words;
        a zero completes an odd number.
    Raises TypeError for other dtypes.
    Source: Salmon, Moraes, Dror & Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011).

    >>> threefry_2x32(np.array([1, 2], "uint32"), np.arange(4, dtype="uint32"))
    Array([4128513521, 3192206206, 2345921600, 3057534555], dtype=uint32)
    """
    words = (
        list(keypair)
        if isinstance(keypair, list | tuple)
        else [index_in_dim(keypair, i, 0, False) for i in range(2)]
    )
    kinds = [typeof(x).dtype for x in (*words, count)]
    if len(words) != 2 or any(kind != _UINT32 for kind in kinds):
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {kinds}")
    shape = typeof(count).shape
    size = typeof(count).size
    flat = _structure.reshape(count, (size,))
    if size % 2:
        flat = _joining.concatenate([flat, np.zeros(1, _UINT32)], 0)
    half = -(-size // 2)
    outs = threefry2x32_p.call(
        *words, slice_in_dim(flat, 0, half), slice_in_dim(flat, half, 2 * half)
    )
    return _structure.reshape(slice_in_dim(_joining.concatenate(list(outs), 0), 0, size), shape)
