"""The cipher against its authors' known answers; counters; XLA's generator; generators of one's
own."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax, random
from teucer._base import config
from teucer.lax._random import threefry2x32_p
from teucer.lax._random_keys import Generator
from teucer.random import _counter, _threefry

# The file kat_vectors of Random123 1.14 (D. E. Shaw Research), lines "threefry2x32 20": counter,
# key, result.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


# The same file, lines "philox2x32 10", "philox4x32 10" and "threefry4x32 20" with counter and key
# 0.
KNOWN_OF_ZERO = {
    "philox2x32": (_counter._philox_2, 1, (0xFF1DAE59, 0x6CD10DF2)),
    "philox4x32": (_counter._philox_4, 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "threefry4x32": (_counter._threefry_4, 4, (0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8)),
}


@pytest.mark.parametrize("name", KNOWN_OF_ZERO)
def test_known_answers_of_zero(name):
    cipher, n_key, answer = KNOWN_OF_ZERO[name]
    found = cipher((np.uint32(0),) * n_key, (np.uint32(0),) * len(answer))
    assert tuple(map(int, found)) == answer


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    found = threefry2x32_p.call(*map(np.uint32, (*key, *counter)))
    assert tuple(map(int, found)) == answer


def test_cipher_broadcasts_and_batches():
    keys = np.arange(6, dtype="uint32").reshape(3, 2)
    counters = np.arange(4, dtype="uint32")
    found = np.asarray(threefry2x32_p.call(keys[:, :1], keys[:, 1:], np.uint32(0), counters)[1])
    loop = [
        [int(threefry2x32_p.call(k[0], k[1], np.uint32(0), c)[1]) for c in counters] for k in keys
    ]
    np.testing.assert_array_equal(found, loop)
    mapped = jax.vmap(lambda k: threefry2x32_p.call(k[0], k[1], np.uint32(0), counters)[1])(keys)
    np.testing.assert_array_equal(mapped, loop)
    across = jax.vmap(
        lambda c: threefry2x32_p.call(keys[:, 0], keys[:, 1], np.uint32(0), c)[1], out_axes=1
    )(counters)
    np.testing.assert_array_equal(across, loop)


def test_cipher_refuses_other_dtypes():
    with pytest.raises(TypeError, match="Arguments to threefry2x32 must have uint32 type"):
        threefry2x32_p.call(np.int32(0), np.uint32(0), np.uint32(0), np.uint32(0))


def test_counters():
    high, low = _threefry.counters((2, 3))
    assert int(high) == 0
    np.testing.assert_array_equal(low, np.arange(6).reshape(2, 3))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(
            _threefry._row_major((2, 1, 3), np.dtype("uint64")), np.arange(6).reshape(2, 1, 3)
        )
    # More than 2**32 elements: both words of the counters are used.
    text = jax.jit(lambda k: random.bits(k, (2**17, 2**16))).lower(random.key(0)).as_text()
    assert "ui64" in text


def test_bits_do_not_depend_on_the_shape_of_the_rest():
    np.testing.assert_array_equal(
        random.bits(random.key(0), (4,))[:2], random.bits(random.key(0), (2,))
    )


def test_rng_bit_generator():
    key = np.arange(4, dtype="uint32")
    new, bits = lax.rng_bit_generator(key, (3,))
    assert (new.shape, new.dtype, bits.shape, bits.dtype) == ((4,), np.uint32, (3,), np.uint32)
    np.testing.assert_array_equal(lax.rng_bit_generator(key, (3,))[1], bits)
    philox = lax.rng_bit_generator(key, (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)[1]
    threefry = lax.rng_bit_generator(np.zeros(2, "uint32").repeat(2), (3,), np.uint16)[1]
    assert philox.shape == threefry.shape == (3,)
    # Under vmap the first key makes the bits of all.
    batch = jax.vmap(lambda k: lax.rng_bit_generator(k, (3,))[1])(np.stack([key, key + 1]))
    np.testing.assert_array_equal(batch, lax.rng_bit_generator(key, (2, 3))[1])
    with pytest.raises(TypeError, match="unsupported key shape and dtype"):
        lax.rng_bit_generator(np.zeros(3, "uint32"), (3,))
    with pytest.raises(TypeError, match="dtype must be an unsigned integer"):
        lax.rng_bit_generator(key, (3,), np.int32)


def test_rng_uniform():
    x = np.asarray(lax.rng_uniform(2.0, 3.0, (100,)))
    assert x.shape == (100,)
    assert ((x >= 2) & (x <= 3)).all()
    with pytest.raises(ValueError, match="must have identical dtypes"):
        lax.rng_uniform(np.float32(0), np.float16(1), (2,))
    with pytest.raises(ValueError, match="must be scalars"):
        lax.rng_uniform(np.zeros(2, "float32"), np.zeros(2, "float32"), (2,))


def test_generator_of_ones_own():
    def seed(x):
        return lax.full((3,), lax.convert_element_type(x, np.uint32))

    def split(key, shape):
        return lax.broadcast(lax.add(key, np.uint32(1)), shape)

    own = Generator(
        (3,),
        seed,
        split,
        lambda key, width, shape: lax.full(shape, np.uint32(7)),
        lambda key, n: lax.add(key, n),
        "own",
        "own",
    )
    key = random.key(5, impl=own)
    assert key.dtype.name == "key<own>"
    assert random.key_data(random.split(key, 2)).tolist() == [[6, 6, 6]] * 2
    assert random.key_data(random.fold_in(key, 2)).tolist() == [7, 7, 7]
    assert random.bits(key, (2,)).tolist() == [7, 7]
    assert random.key_impl(key) is own


@pytest.mark.parametrize("outer", [True, False])
def test_the_option_holds_where_it_was_drawn(outer):
    """jax_threefry_partitionable within a function, which is compiled after it has ended."""

    def draw(key):
        with config.threefry_partitionable(not outer):
            return random.bits(random.split(key)[1], (3,)), random.uniform(key, (2,))

    with config.threefry_partitionable(not outer):
        wanted = jax.jit(
            lambda key: (random.bits(random.split(key)[1], (3,)), random.uniform(key, (2,)))
        )(random.key(1))
    with config.threefry_partitionable(outer):
        for f in (draw, jax.jit(draw), jax.vmap(draw, axis_size=1, in_axes=None)):
            found = f(random.key(1))
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(np.reshape(a, b.shape), b)
        assert not np.array_equal(wanted[0], random.bits(random.split(random.key(1))[1], (3,)))
