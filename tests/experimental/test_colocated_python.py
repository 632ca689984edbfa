"""Functions and objects on the hosts of devices: in this process, on arrays over CPU devices."""

import gc

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental.colocated_python import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)

CPU = jax.devices("cpu")
ROWS = jax.NamedSharding(
    jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,)), jax.P("x")
)
X = jax.device_put(np.arange(4.0, dtype=np.float32), ROWS)


def doubled(x):
    parts = [jax.device_put(np.asarray(s.data) * 2, s.device) for s in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, parts)


def test_functions_run_on_shards():
    out = colocated_python(doubled)(X)
    assert out.sharding == ROWS and out.tolist() == [0, 2, 4, 6]
    tree = colocated_python(lambda x: jax.tree.map(lambda y: y + 1, x))([X, {"a": (X,)}])
    assert tree[1]["a"][0].tolist() == [1, 2, 3, 4]
    key = jax.device_put(jax.random.key(0), CPU[1])
    assert colocated_python(lambda k: k)(key).dtype == key.dtype


def test_specialized():
    f = colocated_python(lambda: jnp.int32(1))
    with pytest.raises(
        ValueError, match="No devices found. colocated_python function without input"
    ):
        f()
    assert f.specialize(devices=CPU[:1])() == 1
    assert f.specialize(devices=ROWS.mesh)() == 1
    g = colocated_python(doubled).specialize(out_specs_fn=lambda x: x)
    assert g(X).tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="out_specs_fn already specified"):
        g.specialize(out_specs_fn=lambda x: x)
    with pytest.raises(
        ValueError, match=r"one result of doubled is to be ShapeDtypeStruct\(shape=\(3,\)"
    ):
        colocated_python(doubled).specialize(
            out_specs_fn=lambda x: jax.ShapeDtypeStruct((3,), x.dtype)
        )(X)
    specs = ((jax.ShapeDtypeStruct((4,), np.float32),), {})
    h = colocated_python(doubled).specialize(in_specs=specs)
    assert h(X).shape == (4,)
    with pytest.raises(
        ValueError, match=r"one argument of doubled is to be ShapeDtypeStruct\(shape=\(4,\)"
    ):
        h(X[:2])


def test_what_is_refused():
    f = colocated_python(doubled)
    with pytest.raises(
        TypeError, match=r"arguments of doubled are arrays on devices, got 1 of type"
    ):
        f(1)
    with pytest.raises(TypeError, match=r"(?s)has a traced value as argument.*pure_callback"):
        jax.jit(f)(X)
    with pytest.raises(TypeError, match="results of .* are arrays on devices"):
        colocated_python(lambda x: 3)(X)


def test_devices():
    assert colocated_cpu_devices(CPU) == CPU
    assert colocated_cpu_devices(ROWS.mesh) == ROWS.mesh


def test_objects_are_made_by_the_first_call_and_end_with_their_owner():
    events = []

    @colocated_python_class
    class Sum:
        def __init__(self, start):
            events.append("made")
            self.total = start

        def __del__(self):
            events.append("ended")

        def add(self, x):
            self.total = self.total + np.asarray(x)
            return jax.device_put(self.total, x.sharding)

        def now(self):
            return jnp.asarray(self.total)

    total = Sum(np.float32(5))
    assert events == []
    one = jax.device_put(np.float32(1), CPU[0])
    assert total.add(one) == 6 and total.add(one) == 7 and events == ["made"]
    total.now = total.now.specialize(devices=CPU[:1])
    assert total.now() == 7
    del total
    gc.collect()
    assert events == ["made", "ended"]
    with pytest.raises(TypeError, match="missing a required argument: 'start'"):
        Sum()
