"""The array type, devices, transfers."""

import copy
import pickle
from collections.abc import Hashable

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp


def test_devices():
    assert jax.default_backend() in ("cpu", "gpu", "tpu")
    assert jax.devices("cpu")[0].platform == "cpu"
    assert jax.device_count("cpu") == len(jax.devices("cpu")) == jax.local_device_count("cpu")
    assert jax.process_index() == 0
    assert jax.process_count() == 1
    assert jax.local_devices(backend="cpu") == jax.devices("cpu")
    with pytest.raises(RuntimeError, match="Unknown backend"):
        jax.devices("nope")
    with pytest.raises(ValueError, match="process_index"):
        jax.local_devices(process_index=7)


def test_properties():
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize) == (
        (2, 3),
        np.float32,
        2,
        6,
        24,
        4,
    )
    assert x.devices() == {jax.devices()[0]} == {x.device}
    assert x.sharding.is_fully_replicated
    assert not x.committed
    assert len(x) == 2
    assert isinstance(x, jax.Array)
    assert not isinstance(np.ones(1), jax.Array)
    (shard,) = x.addressable_shards
    assert shard.device is jax.devices()[0]
    np.testing.assert_array_equal(shard.data, x)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (lambda: jnp.arange(3.0), "Array([0., 1., 2.], dtype=float32)"),
        (lambda: jnp.asarray(1.0), "Array(1., dtype=float32, weak_type=True)"),
        (lambda: jnp.zeros((0, 3)), "Array([], shape=(0, 3), dtype=float32)"),
        (lambda: jnp.array([True, False]), "Array([ True, False], dtype=bool)"),
        (lambda: jnp.ones((2, 2), jnp.int8), "Array([[1, 1],\n       [1, 1]], dtype=int8)"),
        (lambda: jnp.ones(2, jnp.bfloat16), "Array([1, 1], dtype=bfloat16)"),
    ],
)
def test_repr(x, expected):  # as JAX prints
    assert repr(x()) == expected


def test_scalars():
    x = jnp.asarray(2.5)
    assert (float(x), int(x), complex(x), bool(x), x.item()) == (2.5, 2, 2.5 + 0j, True, 2.5)
    assert f"{x:.2f}" == "2.50"
    assert [10, 20, 30][jnp.asarray(1)] == 20
    with pytest.raises(TypeError, match="integer"):
        [1][jnp.asarray(0.0)]
    with pytest.raises(ValueError, match="truth value"):
        bool(jnp.ones(2))
    with pytest.raises(TypeError, match="scalar"):
        float(jnp.ones(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert not isinstance(x, Hashable)
    assert jnp.arange(3).tolist() == [0, 1, 2]


def test_numpy_conversion_is_read_only():
    x = jnp.arange(3.0)
    view = np.asarray(x)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5
    assert np.array(x).flags.writeable
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    np.testing.assert_array_equal(np.sin(np.asarray(x)), np.sin(np.arange(3, dtype=np.float32)))


def test_arrays_are_immutable():
    x = jnp.zeros(3)
    with pytest.raises(TypeError, match=r"(?s)immutable.*x\.at\[idx\]\.set\(y\)"):
        x[0] = 1.0


def test_pickle_and_copy():
    for x in (jnp.arange(3), jnp.asarray(1.0), jnp.ones(2, jnp.bfloat16)):
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
            assert repr(y) == repr(x)
            assert y.weak_type == x.weak_type


def test_device_put():
    x = jax.device_put(np.arange(3), jax.devices()[1])
    assert x.device == jax.devices()[1]
    assert x.committed
    assert jax.device_put({"a": 1}, jax.devices()[0])["a"].committed
    y = jax.device_put(x, jax.devices()[0])
    assert y.device == jax.devices()[0]
    assert not jax.device_put(np.arange(3)).committed
    s = jax.sharding.SingleDeviceSharding(jax.devices()[2])
    assert jax.device_put(1.0, s).sharding == s
    host = np.ones(3, np.float32)
    z = jax.device_put(host)
    host[:] = 7
    np.testing.assert_array_equal(z, np.ones(3))
    assert jax.grad(lambda v: jax.device_put(v) ** 2)(3.0) == 6.0
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.device_put("a")
    with pytest.raises(ValueError, match="`jax.device_put` only accepts"):
        jax.device_put(1.0, "nowhere")


def test_device_get_and_block():
    out = jax.device_get({"a": jnp.ones(2), "b": 3})
    assert isinstance(out["a"], np.ndarray)
    assert out["b"] == 3
    assert jax.block_until_ready({"a": jnp.ones(2)})["a"].is_ready()
    jnp.ones(2).copy_to_host_async()
    assert jnp.ones(2).block_until_ready().shape == (2,)


def test_delete():
    x = jnp.ones(3) + 1
    x.delete()
    assert x.is_deleted()
    for use in (
        lambda: np.asarray(x),
        lambda: jax.jit(lambda y: y * 3)(x),
        lambda: x.addressable_shards,
    ):
        with pytest.raises((RuntimeError, ValueError), match="deleted"):
            use()
    assert "deleted" in repr(x)


def test_dlpack():
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(4))
    assert x.__dlpack_device__() == (1, 0)


def test_iteration():
    assert [int(v) for v in jnp.arange(3)] == [0, 1, 2]
    with pytest.raises(TypeError, match="0-d"):
        iter(jnp.asarray(1.0))


def test_shape_dtype_struct():
    s = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    assert (s.shape, s.dtype, s.size, s.ndim, len(s)) == ((2, 3), np.float32, 6, 2, 2)
    assert repr(s) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    assert s == jax.ShapeDtypeStruct([2, 3], "float32")
    assert hash(s) == hash(jax.ShapeDtypeStruct((2, 3), "float32"))


def test_integers_too_large():
    with pytest.raises(OverflowError, match="too large"):
        jnp.asarray(2**40)
    with pytest.raises(OverflowError):
        jnp.ones(2, jnp.int32) + 2**40


def test_guards_let_explicit_transfers_pass():
    """Under "disallow" `device_put` and `device_get` go on; what nobody asked for does not."""
    values = [42, np.arange(3), [1, 2.0]]
    with jax.transfer_guard("disallow"):
        for device in (None, jax.devices()[0]):
            put = jax.device_put(values, device)
            assert jax.device_get(put)[0] == 42
        with pytest.raises(Exception, match="Disallowed host-to-device transfer"):
            jnp.asarray(np.arange(3)) + 1
    with (
        jax.transfer_guard("disallow_explicit"),
        pytest.raises(Exception, match="Disallowed host-to-device transfer"),
    ):
        jax.device_put(np.arange(3))
