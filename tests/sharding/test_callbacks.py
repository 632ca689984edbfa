"""Callbacks of programs over several devices: who calls, and where results lie."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import io_callback
from teucer.sharding import AxisType, NamedSharding, SingleDeviceSharding
from teucer.sharding import PartitionSpec as P

VALUE = np.arange(8, dtype=np.float32)
RESULT = jax.ShapeDtypeStruct((8,), np.float32)
CALLS = {"pure": jax.pure_callback, "io": io_callback}


def sharding():
    return NamedSharding(jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,)), P("x"))


def called_by(call, device):
    own = None if device is None else SingleDeviceSharding(device)
    return lambda x: call(np.sin, RESULT, x, sharding=own)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_one_device_calls(name, wrap):
    f = {n: wrap(called_by(CALLS[name], d)) for n, d in enumerate(jax.devices())}
    one, many = f[3](VALUE), f[3](jax.device_put(VALUE, sharding()))
    assert one.sharding == SingleDeviceSharding(jax.devices()[3])
    assert many.sharding.device_set == set(jax.devices())
    for found in (one, many, many + 0 * jax.device_put(VALUE, sharding())):
        np.testing.assert_allclose(found, np.sin(VALUE), rtol=1e-6)
    with pytest.raises(ValueError, match=r"incompatible devices.*ids \[2\].*ids \[3\]"):
        f[3](jax.device_put(VALUE, jax.devices()[2]))
    four = NamedSharding(jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,)), P("x"))
    with pytest.raises(ValueError, match=r"incompatible devices.*\[0, 1, 2, 3\].*ids \[7\]"):
        f[7](jax.device_put(VALUE, four))


@pytest.mark.parametrize("name", CALLS)
def test_callbacks_of_several_devices_are_refused(name):
    with pytest.raises(NotImplementedError, match="callback only supports SingleDeviceSharding"):
        CALLS[name](np.sin, RESULT, VALUE, sharding=sharding())


@pytest.mark.parametrize("name, text", [("pure", "Pure callbacks"), ("io", "IO callbacks")])
def test_callbacks_are_not_transposed(name, text):
    with pytest.raises(ValueError, match=f"{text} do not support transpose"):
        jax.linear_transpose(lambda x: CALLS[name](np.sin, RESULT, x), VALUE)(jnp.ones(8))


@pytest.mark.parametrize("devices", [1, 8], ids=["one device", "eight"])
@pytest.mark.parametrize("kind", ["pure", "debug", "shard_map"])
def test_an_exception_over_several_devices_is_raised(kind, devices):
    """Nobody waits in the sum over devices for the one whose callback failed. A mesh may have one
    device."""

    def fails(x):
        raise KeyError("bad data")

    def f(x):
        if kind == "debug":
            jax.debug.callback(fails, x.sum())
            return x.sum()
        return jax.pure_callback(fails, jax.ShapeDtypeStruct(x.shape, x.dtype), x).sum()

    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    over, program = NamedSharding(mesh, P("x")), f
    if kind == "shard_map":
        program = jax.shard_map(
            lambda x: jax.lax.psum(f(x), over.spec[0]),
            mesh=over.mesh,
            in_specs=over.spec,
            out_specs=P(),
        )
    x = jax.device_put(VALUE, over)
    with pytest.raises(jax.errors.JaxRuntimeError, match="KeyError: 'bad data'") as caught:
        jax.jit(program)(x)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "test_callbacks.py" in caught.value.__notes__[0]
    jax.effects_barrier()
    assert float(x.sum()) == pytest.approx(VALUE.sum())
