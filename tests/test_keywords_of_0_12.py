"""Keywords that JAX 0.12 has: given, or refused by name with a reason."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.sharding import NamedSharding, UnreducedKind
from teucer.sharding import PartitionSpec as P

KEY = jax.random.key(0)
SAMPLERS = {
    "gamma": (2.0,),
    "loggamma": (2.0,),
    "beta": (2.0, 3.0),
    "chisquare": (3.0,),
    "poisson": (4.0,),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_method_of_samplers(name):
    draw, args = getattr(jax.random, name), SAMPLERS[name]
    assert (draw(KEY, *args, (5,), method="exact") == draw(KEY, *args, (5,))).all()
    with pytest.raises(
        NotImplementedError, match=f"(?s)random.{name}: .*'approximate'.*other bits"
    ):
        draw(KEY, *args, method="approximate")
    with pytest.raises(ValueError, match=f"method argument to `{name}` must be one of"):
        draw(KEY, *args, method="fast")


def test_orders_that_are_stable_anyway():
    x = jnp.array([1, 3, 3, 2, 3])
    for stable in (True, False):
        values, places = jax.lax.top_k(x, 3, is_stable=stable)
        assert values.tolist() == [3, 3, 3] and places.tolist() == [1, 2, 4]
    keys = tuple(np.random.default_rng(0).integers(0, 2, (20, 50)))
    assert (jnp.lexsort(keys, batch_size=3) == np.lexsort(keys)).all()
    with pytest.raises(ValueError, match="batch_size must be positive, got 0"):
        jnp.lexsort(keys, batch_size=0)


def test_results_lie_as_out_sharding_says():
    mesh = jax.make_mesh(axis_sizes=(len(jax.devices()),), axis_names=("a",))
    n = 2 * mesh.size
    calls = [
        lambda s: jax.nn.one_hot(jnp.arange(n), 3, out_sharding=s),
        lambda s: jnp.histogram(jnp.arange(8.0), n, out_sharding=s)[0],
        lambda s: jnp.histogram(jnp.arange(8.0), n, weights=jnp.ones(8), out_sharding=s)[0],
        lambda s: jax.lax.reduce_max(jnp.ones((n, 3)), (1,), out_sharding=s),
        lambda s: jax.lax.reduce_min(jnp.ones((n, 3)), (1,), out_sharding=s),
    ]
    where = NamedSharding(mesh, P("a"))
    for call in calls:
        with jax.set_mesh(mesh):
            expected = np.asarray(call(None))
            for y in (call(P("a")), call(where), jax.jit(lambda call=call: call(where))()):
                assert jax.typeof(y).sharding.spec[0] == "a"
                np.testing.assert_array_equal(y, expected)


def test_make_mesh_takes_sizes_by_either_name():
    made = [
        jax.make_mesh((1,), ("a",)),
        jax.make_mesh(axis_sizes=(1,), axis_names=("a",)),
        jax.make_mesh(axis_shapes=(1,), axis_names=("a",)),
    ]
    assert made[0] == made[1] == made[2]
    for wrong in ({}, {"axis_names": ("a",)}, {"axis_sizes": (1,)}):
        with pytest.raises(TypeError, match="needs axis_sizes"):
            jax.make_mesh(**wrong)
    with pytest.raises(TypeError, match="needs axis_sizes"):
        jax.make_mesh((1,), ("a",), axis_shapes=(1,))


def test_how_sums_are_still_to_be_taken():
    assert P("a", unreduced_kind=None) == P("a") and P("a").unreduced_kind is None
    summed = P("a", unreduced={"b"}, unreduced_kind=UnreducedKind.sum)
    assert summed == P("a", unreduced={"b"}) and summed.unreduced_kind is UnreducedKind.sum
    with pytest.raises(ValueError, match="should be `None` when `unreduced` is an empty set"):
        P("a", unreduced_kind=UnreducedKind.sum)


def test_references_are_not_pinned():
    assert jax.new_ref(jnp.ones(3), pin=False)[...].tolist() == [1, 1, 1]
    empty = jax.ShapeDtypeStruct((3,), np.float32)
    assert jax.empty_ref(empty, pin=False).shape == (3,)
    for call in (
        lambda: jax.new_ref(jnp.ones(3), pin=True),
        lambda: jax.empty_ref(empty, pin=True),
    ):
        with pytest.raises(NotImplementedError, match="pin=True is not supported"):
            call()


def test_custom_gradient_decorates_with_options():
    @jax.custom_gradient(with_logs=False, remat=False, with_accums=None)
    def f(x):
        return x**2, lambda ct: (5 * ct * x,)

    assert f(3.0) == 9.0 and jax.grad(f)(3.0) == 15.0


def test_types_say_no_layout():
    aval = jax.core.ShapedArray((2,), np.float32)
    assert jax.core.ShapedArray((2,), np.float32, layout=None) is aval
    with pytest.raises(NotImplementedError, match="say a layout"):
        jax.core.ShapedArray((2,), np.float32, layout=(0,))
