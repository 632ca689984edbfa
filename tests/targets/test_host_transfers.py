"""Programs that call Python by transfers to the host and back, as on TPUs: the same calls, in the
same order, with the same values as by the CPU's own calls."""

import importlib.util

import numpy as np
import pytest
from targets import transferred

import teucer as jax
from teucer import numpy as jnp
from teucer.experimental import checkify, io_callback, topologies

P = jax.sharding.PartitionSpec
X = np.linspace(-1, 1, 8, dtype=np.float32)
VECTOR = jax.ShapeDtypeStruct((8,), np.float32)


class Calls:
    """Functions for programs to call, and what they were called with."""

    def __init__(self):
        self.seen = []

    def note(self, *args):
        self.seen.append(tuple((str(x.dtype), np.asarray(x).tolist()) for x in args))

    def sin(self, x):
        self.note(x)
        return np.sin(x)

    def swapped(self, x, y):
        self.note(x, y)
        return y, x


devices = jax.devices


def mesh():
    return jax.sharding.Mesh(np.reshape(devices(), (4, 2)), ("a", "b"))


def divided(x, *axes):
    return jax.device_put(x, jax.NamedSharding(mesh(), P(*axes)))


def by_device(f, **options):
    return jax.shard_map(f, mesh=mesh(), in_specs=P("a"), out_specs=P("a"), **options)


def repeated(calls):
    """A function of the module that is called twice, with operands in two orders."""
    inner = jax.jit(lambda x, y: jax.pure_callback(calls.swapped, (VECTOR, VECTOR), x, y))
    return lambda x: [inner(x, x + 1), inner(x + 2, x)]


def printed(x, calls):
    jax.debug.callback(calls.note, x, ordered=True)
    return x + 1


def in_turn(x, calls):
    x = io_callback(calls.sin, VECTOR, x, ordered=True)
    jax.debug.callback(calls.note, x, ordered=True)
    return io_callback(calls.sin, VECTOR, x, ordered=True)


PROGRAMS = {
    "pure": lambda calls: lambda x: jax.pure_callback(calls.sin, VECTOR, x),
    "two results": lambda calls: (
        lambda x: jax.pure_callback(calls.swapped, (VECTOR, VECTOR), x, x + 1)
    ),
    "no results": lambda calls: lambda x: (jax.debug.callback(calls.note, x, x[0]), x)[1],
    "no operands": lambda calls: (
        lambda x: x + jax.pure_callback(lambda: np.float32(2), jax.ShapeDtypeStruct((), x.dtype))
    ),
    "nothing": lambda calls: lambda x: (jax.debug.callback(calls.note), x)[1],
    "empty": lambda calls: (
        lambda x: jax.pure_callback(calls.swapped, (VECTOR, x[:0]), x[:0], x)[0]
    ),
    "ordered": lambda calls: lambda x: in_turn(x, calls),
    "in a loop": lambda calls: (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jax.pure_callback(calls.sin, x, x), x)
    ),
    "ordered in loops": lambda calls: (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, x: printed(x, calls), printed(x, calls))
    ),
    "in a condition": lambda calls: (
        lambda x: jax.lax.while_loop(lambda x: printed(x, calls)[0] < 3, lambda x: x + 1, x)
    ),
    "in a branch": lambda calls: (
        lambda x: jax.lax.cond(x[0] > 0, lambda x: x, lambda x: printed(x, calls), x)
    ),
    "a function twice": repeated,
    "vmap": lambda calls: jax.vmap(
        lambda x: jax.pure_callback(calls.sin, x, x, vmap_method="sequential")
    ),
    "vmap at once": lambda calls: jax.vmap(
        lambda x: jax.pure_callback(calls.sin, x, x, vmap_method="expand_dims")
    ),
    "vmap of a print": lambda calls: jax.vmap(
        lambda x: (jax.debug.callback(calls.note, x), x * 2)[1]
    ),
    "gradient": lambda calls: jax.grad(
        lambda x: (jax.debug.callback(calls.note, x), jnp.sin(x).sum())[1]
    ),
    "rematerialised": lambda calls: jax.grad(
        jax.checkpoint(lambda x: (jax.debug.callback(calls.note, x), jnp.sin(x * x).sum())[1])
    ),
    "checked": lambda calls: (
        lambda x: checkify.checkify(lambda x: (checkify.check(x[0] > 0, "{}", x[0]), x)[1])(x)[1]
    ),
    "on each device": lambda calls: by_device(
        lambda x: jax.pure_callback(calls.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    ),
    "on each, in turn": lambda calls: by_device(lambda x: printed(printed(x, calls), calls)),
    "along an axis": lambda calls: by_device(
        lambda x: (jax.debug.callback(calls.note, x), x)[1], axis_names={"a"}
    ),
    "over devices": lambda calls: (
        lambda x: jax.pure_callback(calls.sin, VECTOR, jax.lax.with_sharding_constraint(
            x, jax.NamedSharding(mesh(), P("a"))
        ))
    ),
    "on the third": lambda calls: (
        lambda x: jax.pure_callback(
            calls.sin, VECTOR, x, sharding=jax.sharding.SingleDeviceSharding(devices()[2])
        )
    ),
}  # fmt: skip
ORDERED = {name for name in PROGRAMS if "order" in name or "in turn" in name or "in a" in name}
QUICK = ["two results", "ordered in loops", "a function twice", "on each, in turn", "empty"]


def outcome(name):
    calls = Calls()
    outs = jax.jit(PROGRAMS[name](calls))(divided(X, "a") if "device" in name else X)
    jax.effects_barrier()
    return jax.tree.map(np.asarray, outs), calls.seen


def same_by_transfers(name, monkeypatch):
    expected, seen = outcome(name)
    jax.clear_caches()
    hosts = transferred.in_place(monkeypatch)
    found, calls = outcome(name)
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
def test_they_compile(name, target, monkeypatch):
    """For devices that are not there."""
    if importlib.util.find_spec({"tpu": "libtpu", "cuda": "jax_cuda13_plugin"}[target[1]]) is None:
        pytest.skip(f"needs the plugin of {target[1]}")
    there = topologies.get_topology_desc(*target).devices
    monkeypatch.setitem(globals(), "devices", lambda: there)
    where = (
        jax.NamedSharding(mesh(), P("a"))
        if any(word in name for word in ("device", "each", "along"))
        else jax.sharding.SingleDeviceSharding(there[2])
    )
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=where)
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
            f(divided(X, "a") if many else X)
        assert isinstance(told.value.__cause__, KeyError)


def test_what_transfers_cannot_do():
    f = jax.jit(lambda x: (jax.debug.callback(print, x, partitioned=True), x)[1])
    with pytest.raises(NotImplementedError, match="partitioned=True is not implemented on tpu"):
        f.trace(divided(X, "a")).lower(lowering_platforms=("tpu",))
    n = jax.export.symbolic_shape("n")[0]
    x = jax.ShapeDtypeStruct((n,), np.float32)
    f = jax.jit(lambda x: (jax.debug.callback(print, x), x)[1])
    with pytest.raises(NotImplementedError, match="sizes of what goes to the host"):
        f.trace(x).lower(lowering_platforms=("tpu",))
