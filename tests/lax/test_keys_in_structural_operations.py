"""Arrays of typed keys go through every structural operation as their words do."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer.lax._random_keys import Generator, random_unwrap_p, random_wrap_p

WORDS = np.arange(12, dtype=np.uint32).reshape(6, 2)
UNUSED = dict.fromkeys(("seed", "split", "random_bits", "fold_in"))
AT = np.int32([[4], [0]])
ROWS, INTO = lax.GatherDimensionNumbers((), (0,), (0,)), lax.ScatterDimensionNumbers((), (0,), (0,))


def part(k, start, limit):
    return lax.slice(k, (start,), (limit,))


def one(k):
    return lax.squeeze(part(k, 0, 1), (0,))


@pytest.fixture
def keys():
    return random_wrap_p.call(WORDS, impl=Generator(key_shape=(2,), **UNUSED))[0]


def test_words_stay_where_they_are(keys):
    """They lie behind the axes of keys: where these stay, nothing is turned."""
    calls = [
        lambda k: lax.slice(k, (1,), (5,)),
        lambda k: lax.concatenate([k, k], 0),
        lambda k: lax.select(np.arange(6) > 2, k, k),
        lambda k: lax.optimization_barrier((WORDS, k, WORDS[0])),
    ]
    for f in calls:
        assert "stablehlo.transpose" not in jax.jit(f).lower(keys).as_text()


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda k: lax.reshape(k, (2, 3)), WORDS.reshape(2, 3, 2)),
        (
            lambda k: lax.transpose(lax.reshape(k, (2, 3)), (1, 0)),
            WORDS.reshape(2, 3, 2).transpose(1, 0, 2),
        ),
        (lambda k: lax.rev(k, (0,)), WORDS[::-1]),
        (lambda k: lax.slice(k, (1,), (5,), (2,)), WORDS[1:5:2]),
        (lambda k: lax.concatenate([k, k], 0), np.concatenate([WORDS, WORDS])),
        (lambda k: lax.stack([k, k], 1), np.stack([WORDS, WORDS], 1)),
        (lambda k: lax.unstack(k)[2], WORDS[2]),
        (lambda k: lax.split(k, (2, 4))[1], WORDS[2:]),
        (lambda k: lax.tile(k, (2,)), np.tile(WORDS, (2, 1))),
        (lambda k: lax.broadcast(k, (2,)), np.stack([WORDS, WORDS])),
        (lambda k: lax.expand_dims(k, (0,)), WORDS[None]),
        (lambda k: lax.pad(k, one(k), [(1, 0, 0)]), np.concatenate([WORDS[:1], WORDS])),
        (lambda k: lax.full((2,), one(k)), WORDS[[0, 0]]),
        (lambda k: lax.gather(k, AT, ROWS, (1,)), WORDS[[4, 0]]),
        (
            lambda k: lax.gather(k, AT + 3, ROWS, (1,), mode="fill"),
            np.stack([np.full(2, 2**32 - 1, np.uint32), WORDS[3]]),
        ),
        (lambda k: lax.dynamic_slice(k, (np.int32(2),), (2,)), WORDS[2:4]),
        (
            lambda k: lax.dynamic_update_slice(k, part(k, 0, 2), (np.int32(2),)),
            WORDS[[0, 1, 0, 1, 4, 5]],
        ),
        (lambda k: lax.scatter(k, AT, part(k, 1, 3), INTO), WORDS[[2, 1, 2, 3, 1, 5]]),
    ],
)
def test_keys(f, want, keys):
    for g in (f, jax.jit(f), lambda k: jax.vmap(f)(lax.broadcast(k, (1,)))):
        words = np.asarray(random_unwrap_p.call(g(keys))[0])
        np.testing.assert_array_equal(words.reshape(want.shape), want)
