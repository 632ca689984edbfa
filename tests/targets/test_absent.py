"""Programs compiled for devices that are not there; with libtpu installed, for TPUs."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import numpy as jnp
from teucer._targets.gpu import topologies as gpus
from teucer._targets.tpu import topologies as tpus
from teucer.experimental import serialize_executable, topologies

P = jax.sharding.PartitionSpec
needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='needs pip install "teucer[tpu]"'
)


def spec(*shape, sharding, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


@pytest.fixture(scope="module")
def mesh():
    topology = topologies.get_topology_desc("v5e:2x2", "tpu")
    return topologies.make_mesh(topology, (2, 2), ("x", "y"))


@pytest.fixture
def on_one(mesh):
    return jax.sharding.SingleDeviceSharding(mesh.devices[0, 0])


@pytest.mark.parametrize(
    "name", ["v5e:16x16", "v5e=4x2", "V4_4x4x4_twisted", "v5p:16x20x28", "tpu7x:2x2x1", "v99:7"]
)
def test_names_of_topologies(name):
    assert tpus.checked(name, {"wrap": (True,)}) == (name, {"wrap": [True]})


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nope", "names no TPU topology"),
        ("v5e:32x32", "at most 256 chips, at most 16 along an axis"),
        ("v5e:32x8", "at most 16 along an axis"),
        ("v5e:0x4", "there is no"),
        ("v5p:16x20x32", "at most 8960 chips"),
        ("v4:2x2", "2 axes, and chips of v4 are wired along 3"),
    ],
)
def test_topologies_that_do_not_exist(name, match):
    with pytest.raises(ValueError, match=match):
        tpus.checked(name, {})


def test_options_of_gpus():
    assert gpus.checked("H100", {})[1]["topology"] == "1x1x8"
    assert gpus.checked("mine", {"target_config": "text"})[1]["target_config"] == "text"
    with pytest.raises(ValueError, match="no GPU is known as 'h200'"):
        gpus.checked("h200", {})
    with pytest.raises(ValueError, match="SLICESxHOSTSxDEVICES"):
        gpus.checked("h100", {"topology": "8"})


@needs_libtpu
def test_devices_with_libtpu_and_no_tpu():
    """Silently, and before a metadata server could be asked."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TPU_", "JAX_PLATFORMS"))}
    start = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-c", "import teucer; print(teucer.devices()[0].platform)"],
        env={**env, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("cpu\n", "")
    assert time.perf_counter() - start < 10  # 1 s on an idle machine


@needs_libtpu
def test_descriptions():
    one = topologies.get_topology_desc("v5e:4x4")
    assert len(one.devices) == 16 and one.devices[0].device_kind == "TPU v5 lite"
    again = topologies.TopologyDescription.deserialize(one.serialize())
    assert [d.coords for d in again.devices] == [d.coords for d in one.devices]
    two = topologies.get_topology_desc("v5e:2x2", num_slices=2, chips_per_host_bounds=(1, 1, 1))
    assert [d.slice_index for d in two.devices] == [0] * 4 + [1] * 4
    assert len({d.process_index for d in two.devices}) == 8
    with pytest.raises(ValueError, match="num_slices= is a number above 0"):
        topologies.get_topology_desc("v5e:2x2", num_slices=0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="Unexpected arguments: wings"):
        topologies.get_topology_desc("v5e:2x2", wings=2)


@needs_libtpu
def test_what_a_compiled_program_says(mesh):
    ins, outs = (jax.NamedSharding(mesh, P(*axes)) for axes in (("x", "y"), ("x",)))
    f = jax.jit(lambda x, y: jnp.sin(x @ y), out_shardings=outs)
    args = spec(64, 32, sharding=ins), spec(32, 16, sharding=ins, dtype=jnp.bfloat16)
    compiled = f.lower(*args).compile()
    assert "all-" in compiled.as_text() and "T(8,128)" in compiled.as_text()
    assert compiled.memory_analysis().argument_size_in_bytes > 0
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.input_shardings == ((ins, ins), {}) and compiled.output_shardings == outs
    assert compiled.output_formats.layout.tiling == ((8, 128),)
    assert compiled.out_info.shape == (64, 16)
    data, _, _ = serialize_executable.serialize(compiled)
    assert len(data) > 10_000


@needs_libtpu
def test_a_program_for_one_chip_and_memory_that_it_lacks(on_one):
    f = jax.jit(lambda x: jnp.sort(x @ x))
    assert f.lower(spec(256, 256, sharding=on_one)).compile().output_shardings == on_one
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"exceeds available HBM \(15.75G\)"):
        f.lower(spec(60_000, 60_000, sharding=on_one)).compile()


@needs_libtpu
@pytest.mark.parametrize("x", [np.ones((8, 8), np.float32), jnp.ones((8, 8))], ids=["np", "jnp"])
def test_calls_are_refused(mesh, on_one, x):
    where = jax.NamedSharding(mesh, P("x", "y"))
    compiled = jax.jit(lambda x: x + 1).lower(spec(8, 8, sharding=where)).compile()
    nothing = jax.jit(lambda: jnp.ones(3), out_shardings=on_one).lower().compile()
    for run in (
        lambda: compiled(x),
        lambda: jax.jit(lambda x: x + 1, in_shardings=where)(x),
        lambda: jax.device_put(x, where),
        lambda: jax.device_put(x, mesh.devices[0, 0]),
        nothing,
    ):
        with pytest.raises(RuntimeError, match="are not attached to this machine"):
            run()


@needs_libtpu
def test_devices_are_checked(mesh):
    one, other = mesh.devices[0, 0], topologies.get_topology_desc("v5e:2x2").devices[1]
    for devices, match in (
        ([one, one], "named 2 times among 2"),
        ([one, other], "of two topologies"),
    ):
        where = jax.NamedSharding(jax.sharding.Mesh(np.array(devices), "x"), P("x"))
        with pytest.raises(ValueError, match=match):
            jax.jit(lambda x: x + 1).lower(spec(8, sharding=where)).compile()


@pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None,
    reason='needs pip install "teucer[cuda13]"',
)
def test_a_program_with_a_kernel_for_an_h100():
    mesh = topologies.make_mesh(topologies.get_topology_desc("h100", "cuda"), (8,), ("x",))
    where = jax.NamedSharding(mesh, P("x"))
    assert where.memory_kind is None and "P(" in repr(where)
    f = jax.jit(lambda x: jnp.linalg.qr(x)[1].sum(0))
    text = f.lower(spec(8, 6, 4, sharding=where)).compile().as_text()
    assert "geqrf" in text and "all-reduce" in text


@needs_libtpu
def test_an_exported_program_with_symbolic_sizes(on_one):
    """It is refined to the sizes of its arguments."""
    (n,) = jax.export.symbolic_shape("n")
    f = jax.jit(lambda x: jnp.sin(x) @ x.T)
    exported = jax.export.export(f, platforms=["tpu", "cpu"])(spec(n, 8, sharding=None))
    called = jax.jit(exported.call).lower(spec(4, 8, sharding=on_one)).compile()
    assert called.out_info.shape == (4, 4)
