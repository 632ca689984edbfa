"""pmap: the values of vmap, each element on a device of its own."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

centred = jax.pmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")


def test_values_and_devices():
    y = centred(np.arange(4.0))
    np.testing.assert_array_equal(y, [-1.5, -0.5, 0.5, 1.5])
    assert [s.device.id for s in y.addressable_shards] == [0, 1, 2, 3]
    assert y.sharding.spec == jax.P("i")
    np.testing.assert_array_equal(centred(y), y)
    y = jax.pmap(lambda x: 2 * x, devices=jax.devices()[5:])(jnp.arange(2))
    assert {d.id for d in y.devices()} == {5, 6}


@pytest.mark.parametrize(
    "in_axes, out_axes", [((0, 0), 0), ((1, 0), 1), ((-1, None), -1), ([0, None], 2)], ids=str
)
def test_axes(in_axes, out_axes):
    args = np.arange(16.0).reshape(4, 4), np.arange(16.0).reshape(4, 4)
    f = lambda x, y: jnp.outer(x, y) if y.ndim == 1 else x[:, None] + y
    np.testing.assert_array_equal(
        jax.pmap(f, in_axes=in_axes, out_axes=out_axes)(*args),
        jax.vmap(f, in_axes=in_axes, out_axes=out_axes)(*args),
    )


def test_results_that_are_not_mapped_are_those_of_the_first_device():
    mapped, (first, one) = jax.pmap(lambda x: (x, (x + 1, 1.0)), out_axes=(0, None))(
        jnp.arange(4.0)
    )
    assert (mapped.shape, float(first), float(one)) == ((4,), 1.0, 1.0)


def test_collectives():
    def f(x):
        i = lax.axis_index("i")
        return (
            lax.ppermute(x, "i", [(j, (j + 1) % 4) for j in range(4)]),
            lax.all_gather(x, "i"),
            i,
            lax.psum(x, "i"),
        )

    shifted, gathered, index, total = jax.pmap(f, axis_name="i")(jnp.arange(4.0))
    np.testing.assert_array_equal(shifted, [3, 0, 1, 2])
    np.testing.assert_array_equal(gathered, np.tile(np.arange(4.0), (4, 1)))
    np.testing.assert_array_equal(index, range(4))
    np.testing.assert_array_equal(total, [6] * 4)


def test_static_keyword_and_tree_arguments():
    f = jax.pmap(
        lambda tree, power, scale: scale * tree["x"] ** power, static_broadcasted_argnums=1
    )
    np.testing.assert_array_equal(f({"x": jnp.arange(3.0)}, 2, scale=jnp.arange(3.0)), [0, 1, 8])
    np.testing.assert_array_equal(jax.pmap(lambda x: x, in_axes=None, axis_size=3)(5.0), [5] * 3)


def test_under_transformations():
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(jax.jit(centred)(x), centred(x))
    np.testing.assert_array_equal(jax.grad(lambda x: (centred(x) ** 2).sum())(x), 2 * centred(x))
    np.testing.assert_array_equal(
        jax.vmap(centred)(jnp.stack([x, 2 * x])), np.stack([centred(x), 2 * centred(x)])
    )


def test_a_training_step_over_devices_is_that_on_one():
    def loss(w, batch):
        return jnp.mean((batch @ w) ** 2)

    w, batch = jnp.ones(3), jax.random.normal(jax.random.key(0), (4, 5, 3))
    step = jax.pmap(
        lambda w, b: w - 0.1 * lax.pmean(jax.grad(loss)(w, b), "devices"),
        "devices",
        in_axes=(None, 0),
        out_axes=None,
    )
    np.testing.assert_allclose(
        step(w, batch), w - 0.1 * jax.grad(loss)(w, batch.reshape(20, 3)), rtol=1e-5
    )


def test_lower():
    assert "sdy" in centred.lower(jnp.arange(4.0)).as_text()


def test_errors():
    with pytest.raises(ValueError, match=r"requires 9 logical devices, but only 8(.|\n)*use vmap"):
        centred(jnp.ones(9))
    with pytest.raises(
        ValueError, match=r"inconsistent sizes(.|\n)*f32\[4\], axis 0(.|\n)*f32\[3\], axis 0"
    ):
        jax.pmap(jnp.add)(jnp.ones(4), jnp.ones(3))
    with pytest.raises(ValueError, match="requires at least one argument with a mapped axis"):
        centred(1.0)
    with pytest.raises(ValueError, match="pmap in_axes must be"):
        jax.pmap(jnp.add, in_axes=(0,))(jnp.ones(4), jnp.ones(4))
    for wrong in (1.5, "x", True, (0, 1.5), ({"a": "x"}, 0)):
        with pytest.raises(TypeError, match="pmap in_axes must be an int, None, or a tuple"):
            jax.pmap(jnp.add, in_axes=wrong)(jnp.ones(4), jnp.ones(4))
    with pytest.raises(TypeError, match="Expected a callable"):
        jax.pmap(3)


def test_groups_and_nested():
    f = jax.pmap(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2], [1, 3]]), axis_name="i")
    np.testing.assert_array_equal(f(jnp.arange(4.0)), [2, 4, 2, 4])
    g = jax.pmap(jax.pmap(lambda x: x - lax.pmean(x, ("i", "j")), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(
        g(jnp.arange(8.0).reshape(2, 4)), jnp.arange(8.0).reshape(2, 4) - 3.5
    )


def test_random_keys_are_arguments():
    keys = jax.random.split(jax.random.key(0), 4)
    draws = jax.pmap(lambda k: jax.random.normal(k, (3,)))(keys)
    np.testing.assert_allclose(draws, jax.vmap(lambda k: jax.random.normal(k, (3,)))(keys))


def test_ordered_calls_keep_the_order_of_their_device():
    seen = []

    @jax.pmap
    def f(x):
        def step(c, i):
            jax.debug.callback(lambda x, i: seen.append((int(x), int(i))), x, i, ordered=True)
            return c, None

        return lax.scan(step, x, jnp.arange(5))[0]

    f(jnp.arange(4))
    jax.effects_barrier()
    assert [[i for device, i in seen if device == d] for d in range(4)] == [list(range(5))] * 4
