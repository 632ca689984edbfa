"""stateful_rng: draws are those of jax.random with the keys that the documentation tells."""

import numpy as np
import pytest

import teucer as jax
from teucer.experimental.random import StatefulPRNG, stateful_rng

KEY = jax.random.key(7)


def at(i):
    return jax.random.fold_in(KEY, i)


def test_draws():
    rng = stateful_rng(7)
    np.testing.assert_array_equal(rng.normal(size=2), jax.random.normal(at(0), (2,)))
    np.testing.assert_array_equal(
        rng.integers(0, 100, size=3), jax.random.randint(at(1), (3,), 0, 100)
    )
    np.testing.assert_array_equal(rng.random(2), jax.random.uniform(at(2), (2,)))
    np.testing.assert_array_equal(
        rng.uniform(np.zeros(3), 2), jax.random.uniform(at(3), (3,), maxval=2)
    )
    np.testing.assert_allclose(
        rng.normal(np.ones(2), 3.0), 1 + 3 * jax.random.normal(at(4), (2,)), rtol=1e-6
    )
    assert (
        rng.integers(5, dtype="int8").dtype == np.int8
        and rng.uniform(dtype="float16").dtype == np.float16
    )
    keys = stateful_rng(7).key((2, 3))
    np.testing.assert_array_equal(
        jax.random.key_data(keys), jax.random.key_data(jax.random.split(at(0), (2, 3)))
    )
    assert stateful_rng(7, impl="rbg").key().dtype == jax.random.key(0, impl="rbg").dtype


def test_what_is_no_state():
    with pytest.raises(ValueError, match="Expected base_key to be a typed PRNG key"):
        StatefulPRNG(jax.numpy.array([0, 1], dtype="uint32"), jax.new_ref(0))
    with pytest.raises(ValueError, match="Expected counter to be a scalar integer ref"):
        StatefulPRNG(jax.random.key(0), 0)
    assert jax.tree.map(lambda x: 0, stateful_rng(1))._counter == 0


def test_children():
    rng = stateful_rng(7)
    expected = [jax.random.uniform(jax.random.fold_in(k, 0)) for k in jax.random.split(at(0), 2)]
    assert [child.uniform() for child in rng.spawn(2)] == expected
    mapped = jax.vmap(lambda rng, x: x + rng.uniform())(
        stateful_rng(7).split(2), np.zeros(2, "float32")
    )
    np.testing.assert_array_equal(mapped, expected)
    with pytest.raises(ValueError, match="Draw from it within jax.vmap"):
        rng.split(2).key()


def test_the_state_goes_on_within_functions():
    rng, other = stateful_rng(3), stateful_rng(3)
    draw = jax.jit(rng.uniform)
    assert [draw(), draw(), jax.jit(lambda rng: rng.uniform())(rng)] == [
        other.uniform() for _ in range(3)
    ]
    assert isinstance(rng, StatefulPRNG) and len(jax.tree.leaves(rng)) == 2
    assert stateful_rng().uniform() != stateful_rng().uniform()
    with pytest.raises(TypeError, match="requires an explicit seed"):
        jax.jit(lambda: stateful_rng().uniform())()


def test_a_generator_is_not_shared_by_the_elements_of_a_batch():
    rng = stateful_rng(0)
    with pytest.raises(
        ValueError, match=r"addupdate operation with vmapped value(?s:.*)rng.split\(n\)"
    ):
        jax.vmap(lambda x: x + rng.uniform())(np.arange(4.0))
    assert (
        len(set(map(float, jax.vmap(lambda r, x: x + r.uniform())(rng.split(4), np.zeros(4))))) == 4
    )
