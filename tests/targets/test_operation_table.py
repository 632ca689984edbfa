"""The operation table compiled for devices that are not there; `make targets` runs all of it."""

import importlib.util

import pytest
from optable.table import all_ops, precision_of
from optable.trees import flat_call

import teucer as jax
from teucer.experimental import topologies

TARGETS = {
    "v5e": ("v5e:2x2", "tpu", "libtpu"),
    "v6e": ("v6e:2x2", "tpu", "libtpu"),
    "v5p": ("v5p:2x2x1", "tpu", "libtpu"),
    "H100": ("h100", "cuda", "jax_cuda13_plugin"),
}
OPS = all_ops()
REAL = sorted(name for name, op in OPS.items() if "float32" in op.dtypes)
QUICK = REAL[:: len(REAL) // 20][:20]


def compile_row(name, dtype, target):
    topology, platform, module = TARGETS[target]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{target} needs the plugin of {platform}")
    device = topologies.get_topology_desc(topology, platform).devices[0]
    where = jax.sharding.SingleDeviceSharding(device)
    op = OPS[name]
    with precision_of(dtype):
        for call in op.calls(dtype):
            leaves, f = flat_call(op, call)
            jax.jit(f, out_shardings=where).trace(*leaves).lower(
                lowering_platforms=(platform,)
            ).compile()


@pytest.mark.parametrize("name", QUICK)
def test_a_sample_for_v5e(name):
    compile_row(name, "float32", "v5e")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in OPS for d in OPS[n].dtypes if "64" not in d or d == "complex64"],
)
def test_all_of_it(name, dtype, target):
    compile_row(name, dtype, target)
