"""Many arrays joined eagerly are what NumPy joins, and compile nothing that grows with them."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.lax import _many

N = 3 * _many.SEVERAL + 5


@pytest.fixture(params=["host memory", "programs"])
def way(request, monkeypatch):
    """As on a CPU, and as where NumPy cannot read arrays."""
    if request.param == "programs":
        monkeypatch.setattr(_many, "lie_in_host_memory", lambda xs, where: False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "uint8", "bool", "complex64"])
def test_joins_are_those_of_numpy(way, dtype):
    values = [np.full((2, 3), i % 7).astype(jnp.dtype(dtype)) for i in range(N)]
    xs = [jnp.asarray(x) for x in values]
    for axis in (0, 1):
        for mine, numpys in (
            (jnp.concatenate(xs, axis), np.concatenate(values, axis)),
            (jnp.stack(xs, axis), np.stack(values, axis)),
            (jnp.stack(xs, -1), np.stack(values, -1)),
            (jnp.array(xs), np.array(values)),
        ):
            assert mine.dtype == dtype and not mine.weak_type
            np.testing.assert_array_equal(np.asarray(mine), numpys)


def test_scalars_and_nested_lists(way):
    xs = [jnp.float32(i) for i in range(N)]
    np.testing.assert_array_equal(jnp.array(xs), np.arange(N, dtype="f4"))
    np.testing.assert_array_equal(jnp.hstack([*xs, 1.5]), [*np.arange(N), 1.5])
    pairs = jnp.asarray([[x, 2 * x] for x in xs])
    np.testing.assert_array_equal(pairs, np.stack([np.arange(N), 2 * np.arange(N)], 1))
    weak = [jnp.asarray(1.0) for _ in range(N)]
    assert jnp.stack(weak).weak_type and not jnp.array(weak).weak_type
    assert jnp.array([1, np.int8(2), *xs]).dtype == "float32"


def test_keys_are_joined_as_keys(way):
    keys = list(jax.random.split(jax.random.key(0), N))
    np.testing.assert_array_equal(
        jax.random.key_data(jnp.stack(keys)), [jax.random.key_data(k) for k in keys]
    )


def test_the_result_lies_where_the_operands_do(way):
    first, second = jax.devices()[:2]
    xs = [jax.device_put(np.float32(i), second) for i in range(N)]
    out = jnp.stack([*xs, jnp.float32(1)])
    assert out.devices() == {second} and out.committed
    assert not jnp.stack([jnp.float32(i) for i in range(N)]).committed
    with pytest.raises(ValueError, match="incompatible devices"):
        jnp.stack([*xs, jax.device_put(np.float32(1), first)])


def test_arrays_over_a_mesh():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    where = jax.NamedSharding(mesh, jax.P("x"))
    xs = [jax.device_put(np.full(4, i, "f4"), where) for i in range(N)]
    out = jnp.stack(xs)
    assert out.sharding.device_set == where.device_set
    np.testing.assert_array_equal(out, np.stack([np.full(4, i, "f4") for i in range(N)]))


def test_transformations_join_many_too(way):
    xs = [jnp.float32(i) for i in range(N)]
    slopes = jax.grad(lambda xs: (jnp.stack(xs) ** 2).sum())(xs)
    np.testing.assert_array_equal(jnp.stack(slopes), 2 * np.arange(N))
    rows = jax.vmap(lambda x: jnp.concatenate([x] * N))(jnp.ones((2, 1)))
    assert rows.shape == (2, N)


def test_no_guard_of_transfers_is_met():
    xs = [jnp.float32(i) for i in range(N)]
    with jax.transfer_guard("disallow_explicit"):
        jnp.stack(xs)


def test_operands_that_do_not_fit():
    xs = [jnp.zeros((2, 3))] * N
    with pytest.raises(ValueError, match="same shape"):
        jnp.stack([*xs, jnp.zeros((2, 4))])
    with pytest.raises(TypeError, match="differ in dimensions other than"):
        lax.concatenate([*xs, jnp.zeros((2, 4))], 0)
    with pytest.raises((TypeError, ValueError), match="shape"):
        jnp.array([*xs, jnp.zeros((2, 4))])


def test_nothing_compiles_for_another_number():
    xs = [jnp.float32(i) for i in range(N + 9)]
    jnp.array(xs)
    jax.debug.compiles().clear()
    for n in range(N, N + 9):
        jnp.array(xs[:n])
        jnp.hstack([x[None] for x in xs[:n]])
    assert len(jax.debug.compiles()) <= 2  # x[None]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "bool", "complex64"])
def test_parts_are_those_of_numpy(dtype):
    value = (np.arange(2 * N * 3) % 7).reshape(2, N, 3).astype(jnp.dtype(dtype))
    x = jnp.asarray(value)
    limits = [0, 0, 1, *range(2, N, 2)]
    for mine, numpys in (
        (jnp.unstack(x, axis=1), [value[:, i] for i in range(N)]),
        (jnp.split(x, limits, axis=1), np.split(value, limits, axis=1)),
    ):
        for a, b in zip(mine, numpys, strict=True):
            assert a.dtype == b.dtype and a.committed == x.committed
            np.testing.assert_array_equal(np.asarray(a), b)


def test_parts_outlive_the_memory_of_the_whole():
    x = jnp.arange(float(N)) + 0
    parts = jnp.unstack(x)
    jax.jit(lambda x: x * 0 - 1, donate_argnums=0)(x).block_until_ready()
    assert [float(p) for p in parts] == list(range(N))


def test_gradients_of_joins_compile_nothing_that_grows_with_them():
    def joined(join):
        return lambda x: (join([x * float(i) for i in range(N)]) ** 2).sum()

    x = jnp.float32([1.0, -2.0])
    for join in (jnp.concatenate, jnp.stack, jnp.array):
        expected = 2 * sum(i * i for i in range(N)) * np.asarray(x)
        np.testing.assert_allclose(jax.grad(joined(join))(x), expected, rtol=1e-6)
        text = str(jax.make_jaxpr(jax.grad(joined(join)))(x))
        assert text.count("slice[") == 0
