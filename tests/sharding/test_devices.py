"""Programs that name the device that they run on.

What is uncommitted follows them, what is committed elsewhere is refused.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.sharding import NamedSharding, SingleDeviceSharding
from teucer.sharding import PartitionSpec as P

FIRST, SECOND = jax.devices("cpu")[:2]
THERE = SingleDeviceSharding(SECOND)
X = np.arange(1.0, 5.0, dtype=np.float32)
CONSTRAIN = lambda x: lax.with_sharding_constraint(x, THERE)

# Of a float32[4]; all are to run on the second device.
NAMED = {
    "device_put": lambda x: jax.device_put(x * 2, THERE),
    "device_put of a constant": lambda x: x + jax.device_put(np.float32(3), THERE),
    "beside the result": lambda x: (x, jax.device_put(x * 2, THERE)),
    "a constraint": lambda x: CONSTRAIN(x + 1),
    "twice": lambda x: CONSTRAIN(jax.device_put(x, THERE) + 1),
    "jit, results": lambda x: jax.jit(lambda x: x * 2, out_shardings=THERE)(x) + 1,
    "jit, arguments": lambda x: jax.jit(lambda x: x * 2, in_shardings=THERE)(x) + 1,
    "jit, device": lambda x: jax.jit(lambda x: x * 2, device=SECOND)(x) + 1,
    "scan": lambda x: lax.scan(lambda c, _: (jax.device_put(c * 2, THERE), None), x, length=3)[0],
    "cond": lambda x: lax.cond(x.sum() > 0, lambda y: jax.device_put(y, THERE), lambda y: y * 2, x),
    "grad": lambda x: jax.grad(lambda x: (CONSTRAIN(x**2) * x).sum())(x),
    "grad of jit": lambda x: jax.grad(
        lambda x: (jax.jit(jnp.sin, out_shardings=THERE)(x) ** 2).sum()
    )(x),
    "vmap": lambda x: jax.vmap(lambda r: CONSTRAIN(r + 1))(x),
    "jvp": lambda x: jax.jvp(CONSTRAIN, (x,), (x,)),
    "asarray": lambda x: jnp.asarray(x, device=SECOND) + jnp.arange(4, device=SECOND),
    "to_device": lambda x: x.to_device(THERE) * 2,
    "outlined": lambda x: jax.jit(lambda x: CONSTRAIN(x * 2), outline=True)(
        jax.jit(lambda x: x - 1, outline=True)(x)
    ),
}
# These leave it to the arguments, as in JAX.
UNNAMED = {
    "Device": lambda x: jax.device_put(x * 2, SECOND),
    "zeros": lambda x: x + jnp.zeros(4, device=THERE),
    "full_like": lambda x: x + jnp.full_like(x, 3, device=THERE),
    "lax.full": lambda x: x + lax.full((4,), 3.0, sharding=THERE),
    "not used": lambda x: (jax.device_put(x * 2, THERE), x)[1],
    "default_device": lambda x: in_default(x),
}


def in_default(x):
    with jax.default_device(SECOND):
        return x * 2


def devices(tree):
    (found,) = {x.device for x in jax.tree.leaves(tree)}
    return found


@pytest.mark.parametrize("name", NAMED)
def test_uncommitted_arguments_follow(name):
    f = jax.jit(NAMED[name])
    expected = jax.tree.leaves(NAMED[name](jnp.asarray(X)))
    for _ in range(3):  # the second call alike is C++'s
        for x in (X, jnp.asarray(X), jax.device_put(X, THERE)):
            found = f(x)
            assert devices(found) == SECOND and all(y.committed for y in jax.tree.leaves(found))
            for y, z in zip(jax.tree.leaves(found), expected, strict=True):
                np.testing.assert_allclose(y, z, rtol=1e-6)
    compiled = f.lower(X).compile()
    assert devices(compiled(X)) == SECOND
    assert all(
        s == THERE for s in jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    )


@pytest.mark.parametrize("name", NAMED)
def test_committed_arguments_are_refused(name):
    mesh = jax.make_mesh(
        (2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,), devices=[FIRST, SECOND]
    )
    for place in (FIRST, NamedSharding(mesh, P("x"))):
        with pytest.raises(
            ValueError, match=r"(?s)incompatible devices.*device ids \[1\].*test_devices.py"
        ):
            jax.jit(NAMED[name])(jax.device_put(X, place))


@pytest.mark.parametrize("name", UNNAMED)
def test_what_names_no_device(name):
    f = jax.jit(UNNAMED[name])
    assert devices(f(X)) == FIRST and not f(X).committed
    assert devices(f(jax.device_put(X, THERE))) == SECOND
    assert devices(f(jax.device_put(X, FIRST))) == FIRST


def test_two_devices_are_refused():
    here = SingleDeviceSharding(FIRST)
    both = jax.jit(lambda x: (jax.device_put(x, here), CONSTRAIN(x)))
    with pytest.raises(
        ValueError,
        match=(
            r"(?s)Got device_put inside jit with device ids \[0\].* and sharding_constraint inside "
            r"jit with device ids \[1\].* at .*test_devices"
        ),
    ):
        both(X)
    mesh = jax.make_mesh(
        (2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,), devices=[FIRST, SECOND]
    )
    with pytest.raises(ValueError, match=r"incompatible devices.*\[0, 1\]"):
        jax.jit(lambda x: CONSTRAIN(lax.with_sharding_constraint(x, NamedSharding(mesh, P("x")))))(
            X
        )
    with pytest.raises(ValueError, match="incompatible devices"):
        CONSTRAIN(jax.device_put(X, FIRST))


def test_shardings_of_jit():
    here = SingleDeviceSharding(FIRST)
    f = jax.jit(lambda x: x * 2, in_shardings=THERE)
    assert [devices(f(x)) for x in (X, jax.device_put(X, FIRST), jax.device_put(X, SECOND))] == [
        SECOND
    ] * 3
    results = jax.jit(lambda x: x * 2, out_shardings=THERE)
    assert devices(results(X)) == SECOND
    with pytest.raises(
        ValueError,
        match=r"x of <lambda> .* device ids \[0\] .* output sharding with device ids \[1\]",
    ):
        results(jax.device_put(X, FIRST))
    with pytest.raises(ValueError, match="incompatible devices"):
        jax.jit(lambda x: x * 2, in_shardings=here, out_shardings=THERE)(X)
    mesh = jax.make_mesh(
        (2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,), devices=[FIRST, SECOND]
    )
    with pytest.raises(ValueError, match="does not match the sharding"):
        f(jax.device_put(X, NamedSharding(mesh, P("x"))))
    assert devices(jax.jit(lambda x: x * 2, device=SECOND)(jax.device_put(X, FIRST))) == SECOND
    with pytest.raises(ValueError, match="should not be specified"):
        jax.jit(lambda x: x, device=SECOND, out_shardings=THERE)
    with pytest.raises(TypeError, match="out_shardings leaf"):
        jax.jit(lambda x: x, out_shardings=SECOND)


def test_pieces_run_there():
    def network(x, ws):
        for w in ws:
            x = x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) - jnp.exp(-x * x)
            x = x * jnp.log1p(x * x) + jnp.sqrt(x * x + 1)
        return CONSTRAIN(x)

    x = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
    f = jax.jit(network, outline=True)
    compiled = f.lower(x, [np.eye(256, dtype=np.float32) / 100] * 60).compile()
    assert compiled.program.steps is not None
    assert devices(compiled(x, [np.eye(256, dtype=np.float32) / 100] * 60)) == SECOND


def test_other_platforms_are_not_asked():
    """What is exported runs where it is called."""
    exported = jax.export.export(jax.jit(NAMED["device_put"]), platforms=["tpu", "cpu"])(X)
    np.testing.assert_array_equal(exported.call(X), 2 * X)
