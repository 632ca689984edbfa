"""`experimental.topologies`.

Attached devices as a description; what does not exist is refused by name.
"""

import numpy as np
import pytest

import teucer as jax
from teucer._xla.platforms import plugins
from teucer.experimental import topologies


def test_programs_over_attached_devices():
    mesh = topologies.make_mesh(topologies.get_attached_topology(), (4, 2), ("x", "y"))
    assert mesh.devices.ravel().tolist() == jax.devices()
    assert mesh.axis_types == (jax.sharding.AxisType.Auto,) * 2
    struct = jax.ShapeDtypeStruct(
        (8, 2), np.float32, sharding=jax.NamedSharding(mesh, jax.P("x", "y"))
    )
    compiled = jax.jit(lambda x: x.sum(0)).trace(struct).lower().compile()
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    np.testing.assert_array_equal(compiled(jax.device_put(x, struct.sharding)), x.sum(0))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: topologies.get_topology_desc("x", platform="cpu"),
            NotImplementedError,
            "topology not implemented for cpu",
        ),
        (
            lambda: topologies.get_topology_desc("v5e:32x32"),
            ValueError,
            "a pod of v5e has at most 256",
        ),
        (lambda: topologies.get_topology_desc("a", "gpu"), ValueError, "no GPU is known as 'a'"),
        (
            lambda: topologies.get_attached_topology().serialize(),
            ValueError,
            "are devices of this machine",
        ),
        (lambda: topologies.get_attached_topology("nothing"), RuntimeError, "nothing"),
        (
            lambda: topologies.make_mesh(topologies.get_attached_topology(), (3,), ("x",)),
            ValueError,
            "Number of devices 8 must equal",
        ),
    ],
)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_without_the_plugin(monkeypatch):
    monkeypatch.setattr(plugins, "plugin_libraries", dict)
    with pytest.raises(RuntimeError, match=r'pip install "teucer\[cuda13\]"'):
        topologies.get_topology_desc("h100", "cuda")
