"""Generators of random numbers that users define, and the parts of those that there are."""

import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.extend import random as extend

U32 = np.dtype("uint32")


def split(key, shape):
    return jnp.broadcast_to(key, (*shape, 2)) + jnp.arange(int(np.prod(shape)), dtype=U32).reshape(
        *shape, 1
    )


DOUBLE = extend.define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jnp.stack([seed.astype(U32)] * 2),
    split=split,
    fold_in=lambda key, data: key + data,
    random_bits=lambda key, width, shape: jnp.broadcast_to(key[0], shape).astype(f"uint{width}"),
    name="double",
    tag="two",
)


def test_a_generator_of_ones_own_works_with_keys_and_transformations():
    key = jax.random.key(3, impl=DOUBLE)
    assert repr(key.dtype) == "key<two>" and jax.random.key_data(key).tolist() == [3, 3]
    assert jax.random.key_data(jax.random.split(key)).tolist() == [[3, 3], [4, 4]]
    assert jax.random.key_data(jax.random.fold_in(key, 4)).tolist() == [7, 7]
    assert jax.random.bits(key, (2,), "uint16").tolist() == [3, 3]
    keys = jax.vmap(lambda seed: jax.random.key(seed, impl=DOUBLE))(jnp.arange(3))
    drawn = jax.jit(jax.vmap(lambda k: jax.random.uniform(k, (2,))))(keys)
    assert drawn.tolist() == [[0.0, 0.0]] * 3
    assert jax.random.key_impl(key) is DOUBLE


def test_keys_of_many_seeds():
    keys = extend.random_seed(jnp.arange(6).reshape(2, 3), extend.threefry_prng_impl)
    assert keys.shape == (2, 3) and (keys[1, 2] == jax.random.key(5)).all()
    assert (extend.seed_with_impl(extend.rbg_prng_impl, -1) == jax.random.key(-1, impl="rbg")).all()
    assert extend.random_seed([1, 2], "unsafe_rbg").dtype == jax.random.key_dtype("unsafe_rbg")
    with pytest.raises(OverflowError):
        extend.random_seed(2**70, extend.threefry_prng_impl)
    with pytest.raises(TypeError, match="PRNG key seed must be an integer"):
        extend.random_seed(1.5, extend.threefry_prng_impl)


@pytest.mark.parametrize(
    "shape, expected",
    [
        # What JAX 0.10.2 gives for the key (1, 2) and the counters 0, 1, 2, ...
        ((5,), [2052595727, 3504730591, 2527474599, 1880214352, 1914734168]),
        ((2, 3), [[2052595727, 3504730591, 1038787879], [1880214352, 1914734168, 1027009547]]),
        ((4,), [4128513521, 3192206206, 2345921600, 3057534555]),
        ((0,), []),
    ],
)
def test_threefry_of_counters(shape, expected):
    counters = np.arange(np.prod(shape), dtype=U32).reshape(shape)
    assert extend.threefry_2x32(jnp.array([1, 2], U32), counters).tolist() == expected
    assert extend.threefry_2x32((U32.type(1), U32.type(2)), counters).tolist() == expected
    assert jax.jit(extend.threefry_2x32)(jnp.array([1, 2], U32), counters).tolist() == expected


@pytest.mark.parametrize(
    "key, count", [((U32.type(1), 2), np.zeros(2, U32)), (np.zeros(2, U32), np.zeros(2, np.int32))]
)
def test_threefry_takes_uint32(key, count):
    with pytest.raises(TypeError, match=re.escape("threefry_2x32 requires uint32 arguments")):
        extend.threefry_2x32(key, count)
