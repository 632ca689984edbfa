"""`shard_alike`: values that the compiler divides alike."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental.shard_alike import shard_alike
from teucer.sharding import AxisType, NamedSharding

P = jax.P


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def x(mesh):
    return jax.device_put(
        np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x", "y"))
    )


def like(x):
    """Twice the square; a constant grows up beside x, and would otherwise be whole."""
    zeros, _ = shard_alike(jnp.zeros(x.shape, x.dtype), x)
    return zeros


def test_the_compiler_divides_alike(x):
    assert jax.jit(like)(x).sharding.spec == P("x", "y")
    text = jax.jit(lambda x: (like(x), like(x + 1))).lower(x).as_text()
    assert text.count("sdy.sharding_group") == 4 and "group_id=0" in text and "group_id=1" in text


def test_eagerly_and_on_trees(x):
    a, b = shard_alike({"a": x}, {"a": jnp.ones((8, 4), jnp.int32)})
    assert b["a"].sharding == x.sharding and b["a"].dtype == jnp.int32 and a["a"] is x
    assert shard_alike(jnp.ones(2), jnp.zeros(2))[1].tolist() == [0, 0]


def test_transformed(mesh, x):
    def f(x):
        y, z = shard_alike(x * x, x * 2)
        return y * z

    assert str(jax.make_jaxpr(jax.vmap(f))(x)).count("shard_alike") == 1
    value, gradient = jax.value_and_grad(lambda x: jax.jit(f)(x).sum())(x)
    want = np.arange(32, dtype=np.float32).reshape(8, 4)
    np.testing.assert_allclose(value, (2 * want**3).sum(), rtol=1e-6)
    np.testing.assert_allclose(gradient, 6 * want**2, rtol=1e-6)
    pairs = jax.vmap(lambda x, y: shard_alike(x, y), in_axes=(0, None))(want, want[0])
    np.testing.assert_array_equal(pairs[1], np.broadcast_to(want[0], (8, 4)))
    g = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    np.testing.assert_allclose(jax.jit(g)(x), 2 * want**3, rtol=1e-6)


def test_bad_arguments():
    with pytest.raises(
        ValueError, match=r"leaves shapes of `x` and `y` should match.*\(2,\).*\(3,\)"
    ):
        shard_alike(jnp.ones(2), jnp.ones(3))
    with pytest.raises(ValueError, match="Trees should match"):
        shard_alike([jnp.ones(2)], jnp.ones(2))
