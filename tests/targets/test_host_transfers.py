"""Programs that call Python by transfers to the host and back, as on TPUs: the same calls, in the
same order, with the same values as by the CPU's own calls."""

import importlib.util

import numpy as np
import pytest
from targets import calling_python, transferred
from targets.calling_python import OVER_DEVICES, PROGRAMS, VECTOR, Calls, P, X, where

import teucer as jax
from teucer import numpy as jnp
from teucer.experimental import topologies

ORDERED = {name for name in PROGRAMS if "order" in name or "in turn" in name or "in a" in name}
QUICK = ["two results", "ordered in loops", "a function twice", "on each, in turn", "empty"]


def devices_of(name):
    return jax.devices() if name in OVER_DEVICES else jax.devices()[:1]


def divided(x):
    mesh = jax.sharding.Mesh(np.reshape(jax.devices(), 8), "a")
    return jax.device_put(x, jax.NamedSharding(mesh, P("a")))


def same_by_transfers(name, monkeypatch):
    expected, seen = calling_python.outcome(name, devices_of(name))
    jax.clear_caches()
    hosts = transferred.in_place(monkeypatch)
    found, calls = calling_python.outcome(name, devices_of(name))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    if name in ORDERED and "each" not in name:
        assert calls == seen
    assert sorted(map(repr, calls)) == sorted(map(repr, seen))
    assert all(host.at_rest() for host in hosts)
    assert hosts or name == "checked"


@pytest.mark.parametrize("name", QUICK)
def test_the_same_as_by_calls(name, monkeypatch):
    same_by_transfers(name, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - set(QUICK)))
def test_the_same_as_by_calls_in_all_programs(name, monkeypatch):
    same_by_transfers(name, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("target", [("v5e:2x4", "tpu"), ("h100", "cuda")], ids=["v5e", "H100"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_compile(name, target):
    """For devices that are not there."""
    if importlib.util.find_spec({"tpu": "libtpu", "cuda": "jax_cuda13_plugin"}[target[1]]) is None:
        pytest.skip(f"needs the plugin of {target[1]}")
    calling_python.on[:] = topologies.get_topology_desc(*target).devices
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=where(name))
    lowered = jax.jit(PROGRAMS[name](Calls())).trace(x).lower(lowering_platforms=target[1:])
    text = lowered.compile().as_text()
    if name not in ("checked", "empty"):
        assert ("is_host_transfer=true" if target[1] == "tpu" else "python_gpu_callback") in text


NARROW = ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "bool", "bfloat16"]
NARROW += ["int8", "complex64", "uint16"]


def test_types_of_what_is_sent(monkeypatch):
    """What is narrower than a byte travels wider; the function sees its own type."""
    hosts = transferred.in_place(monkeypatch)
    calls = Calls()
    for name in NARROW:
        x = jnp.array([0, 1, 1], name)
        out = jax.jit(lambda x: jax.pure_callback(lambda x: (calls.note(x), x)[1], x, x))(x)
        assert out.dtype == x.dtype and calls.seen[-1] == ((name, np.asarray(x).tolist()),)
        np.testing.assert_array_equal(np.asarray(out), np.asarray(x))
    sent = [str(dtype) for host in hosts for cb in host.callbacks for dtype, _ in cb.operands]
    assert sent == ["int8", "uint8", "int8", "uint8", "float32", *NARROW[5:]]


@pytest.mark.parametrize("many", [False, True], ids=["one device", "eight"])
def test_failures_are_raised(many, monkeypatch):
    """The device gets zeros, so that it does not wait for ever; whoever called hears of it."""
    transferred.in_place(monkeypatch)

    def fails(x):
        raise KeyError("no such weight")

    f = jax.jit(lambda x: jax.pure_callback(fails, VECTOR, x) + 1)
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="KeyError: 'no such weight'") as told:
            f(divided(X) if many else X)
        assert isinstance(told.value.__cause__, KeyError)


def test_what_transfers_cannot_do():
    f = jax.jit(lambda x: (jax.debug.callback(print, x, partitioned=True), x)[1])
    with pytest.raises(NotImplementedError, match="partitioned=True is not implemented on tpu"):
        f.trace(divided(X)).lower(lowering_platforms=("tpu",))
    n = jax.export.symbolic_shape("n")[0]
    x = jax.ShapeDtypeStruct((n,), np.float32)
    f = jax.jit(lambda x: (jax.debug.callback(print, x), x)[1])
    with pytest.raises(NotImplementedError, match="sizes of what goes to the host"):
        f.trace(x).lower(lowering_platforms=("tpu",))
