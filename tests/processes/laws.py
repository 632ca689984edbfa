"""What holds over several processes, as functions which each process runs in this order.

`test_laws.py` starts them once; a line says of each whether it held in this process.
"""

import pickle
import re
import sys
import traceback

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import multihost_utils
from teucer.experimental.custom_partitioning import custom_partitioning
from teucer.experimental.serialize_executable import deserialize_and_load, serialize
from teucer.sharding import Mesh, NamedSharding
from teucer.sharding import PartitionSpec as P

LAWS = {}


def law(f):
    LAWS[f.__name__] = f
    return f


def over(spec, order=slice(None), shape=None, names=("x",)):
    devices = np.array(jax.devices())[order]
    return NamedSharding(Mesh(devices.reshape(shape or (-1,)), names), spec)


def laid(value, sharding):
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def raises(kind, text, f):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        f()
    return str(caught.value)


def rows(x):
    """Each process gives its own rows of x, which has one for each device."""
    here = [i for i, d in enumerate(jax.devices()) if d in jax.local_devices()]
    return x[here]


def same(x, expected):
    np.testing.assert_allclose(np.asarray(x), expected, rtol=1e-6)


@law
def pmap_gives_each_process_its_part():
    n = jax.device_count()
    x = np.arange(3.0 * n, dtype="f4").reshape(n, 3)
    turned = [(k, (k + 1) % n) for k in range(n)]
    for f, expected in {
        (lambda v: jax.lax.psum(v, "i")): np.tile(x.sum(0), (n, 1)),
        (lambda v: v * 0 + jax.lax.axis_index("i")): x * 0 + np.arange(n)[:, None],
        (lambda v: v * 0 + jax.lax.axis_size("i")): x * 0 + n,
        (lambda v: jax.lax.ppermute(v, "i", turned)): np.roll(x, 1, 0),
        (lambda v: jax.lax.all_gather(v, "i")): np.tile(x, (n, 1, 1)),
        (lambda v: jax.grad(lambda w: (jax.lax.pmean(w, "i") ** 2).sum())(v)): np.tile(
            2 * x.mean(0), (n, 1)
        ),
    }.items():
        y = jax.pmap(f, axis_name="i")(rows(x))
        assert y.is_fully_addressable and y.shape[0] == jax.local_device_count()
        same(y, rows(expected.astype("f4")))
        same(jax.pmap(f, axis_name="i")(jax.pmap(lambda v: v)(rows(x))), rows(expected))


@law
def pmap_along_other_axes():
    n, here = jax.device_count(), jax.local_device_count()
    x = np.arange(3.0 * n, dtype="f4").reshape(n, 3)
    f = jax.pmap(lambda v, w: jax.lax.psum(v, "i") + w, "i", in_axes=(1, None), out_axes=None)
    same(f(rows(x).T, 2.0), x.sum(0) + 2)
    assert jax.pmap(lambda v: v, in_axes=1, out_axes=1)(np.ones((3, here))).shape == (3, here)
    alone = jax.pmap(lambda v: jax.lax.psum(v, "i"), "i", devices=jax.local_devices())
    same(alone(rows(x)), np.tile(rows(x).sum(0), (here, 1)))


@law
def pmap_trains():
    n = jax.device_count()
    x = np.random.default_rng(0).normal(size=(n, 4, 3)).astype("f4")

    def slope(w, v):
        return jax.grad(lambda w: ((v @ w) ** 2).mean())(w)

    step = jax.pmap(lambda w, v: w - 0.1 * jax.lax.pmean(slope(w, v), "i"), "i", donate_argnums=0)
    w, alone = np.ones((jax.local_device_count(), 3), "f4"), np.ones(3, "f4")
    for _ in range(4):
        w = step(w, rows(x))
        alone = alone - 0.1 * np.mean([slope(alone, v) for v in x], 0)
    np.testing.assert_allclose(w, np.tile(alone, (len(w), 1)), rtol=1e-5)


@law
def pmap_refuses_what_it_cannot_do():
    here = jax.local_device_count()
    raises(ValueError, "num_local_devices", lambda: jax.pmap(lambda v: v)(np.ones(here + 1)))
    raises(ValueError, "axis_size", lambda: jax.pmap(lambda v: v, axis_size=here)(np.ones(here)))
    traced = jax.jit(jax.pmap(lambda v: v))
    raises(NotImplementedError, "cannot be traced by jit", lambda: traced(np.ones(here)))


@law
def values_said_to_be_the_same_are_compared():
    me, n = jax.process_index(), 2 * jax.device_count()
    everywhere, divided = over(P()), over(P("x"))
    value = np.arange(float(n), dtype="f4")
    for where in (everywhere, divided):
        same(multihost_utils.process_allgather(jax.device_put(value, where), tiled=True), value)
        jax.device_put(np.float32([np.nan, -0.0] * jax.device_count()), where)
        jax.device_put({"a": value, "b": [1.0] if where is everywhere else [value]}, where)
        for x in (value + me, jnp.asarray(value + me), (value + me).astype("float16")):
            text = raises(
                AssertionError,
                "x passed to device_put is not the same on each process",
                lambda: jax.device_put(x, where),
            )
            assert "process 0: 0.0 at [0]" in text and "process 1: 1.0 at [0]" in text
        raises(AssertionError, "process 1: 1.0", lambda: jnp.full(n, me * 1.0, device=where))
    raises(AssertionError, "x['b'][1]", lambda: jax.device_put({"a": 1, "b": [2, me]}, everywhere))
    raises(AssertionError, "float32[", lambda: jax.device_put(value[me:], everywhere))
    raises(
        AssertionError,
        "float64",
        lambda: jax.device_put(value.astype(f"f{4 + 4 * me}"), everywhere),
    )
    raises(AssertionError, "not the same", lambda: jax.device_put(jax.random.key(me), everywhere))
    jax.config.update("teucer_check_values", False)
    jax.device_put(np.float32(me), everywhere)
    jax.config.update("teucer_check_values", True)
    here = jax.device_put(value, jax.local_devices()[0])
    raises(ValueError, "addressable", lambda: jax.device_put(here, everywhere))


@law
def host_values_are_not_divided_by_jit():
    f = jax.jit(jnp.sum, in_shardings=over(P("x")))
    x = np.arange(2.0 * jax.device_count(), dtype="f4")
    text = "non-trivial shardings for numpy inputs"
    raises(ValueError, text, lambda: f(x))
    raises(ValueError, text, lambda: f.lower(x).compile()(x))
    same(f(laid(x, over(P("x")))), x.sum())
    same(jax.jit(jnp.sum, in_shardings=over(P()))(x), x.sum())


@law
def what_is_held_can_be_read():
    n = jax.local_device_count()
    value = np.arange(4.0 * n, dtype="f4").reshape(2, 2 * n)
    w = laid(value, over(P(None, "model"), shape=(-1, n), names=("data", "model")))
    same(w, value)
    assert w.tolist() == value.tolist() and jax.device_get(w).sum() == value.sum()
    assert str(w) == str(value) and repr(w) == repr(jnp.asarray(value))
    same(pickle.loads(pickle.dumps(w)), value)
    far = jax.device_put(value, jax.devices()[-1])
    assert ("shape=" in repr(far)) is (jax.process_index() == 0)
    divided = laid(value.T, over(P("data"), shape=(-1, n), names=("data", "model")))
    raises(RuntimeError, "process_allgather", lambda: np.asarray(divided))


@law
def mistakes_are_said_before_anything_is_read():
    x = laid(np.arange(2.0 * jax.device_count()), over(P("x")))
    raises(ValueError, "can only convert an array of size 1", x.item)
    raises(ValueError, "ambiguous", lambda: bool(x))
    for convert in (int, float, complex):
        raises(TypeError, "Only scalar arrays can be converted", lambda: convert(x))
    raises(TypeError, "Only integer scalar arrays", lambda: range(x))


@law
def lengths_are_counted_by_programs():
    value = (np.arange(4 * jax.device_count()) % 3).astype("f4")
    x = laid(value, over(P("x")))
    same(jnp.nonzero(x)[0], value.nonzero()[0])
    same(x[x > 0], value[value > 0])
    same(jnp.unique(x), np.unique(value))
    same(jnp.repeat(x, x.astype(int)), np.repeat(value, value.astype(int)))
    same(jnp.bincount(x.astype(int)), np.bincount(value.astype(int)))
    same(jnp.trim_zeros(x), np.trim_zeros(value))


@law
def arrays_move_between_orders_and_sets_of_devices():
    n = jax.device_count()
    value = np.arange(4.0 * n * n, dtype="f4").reshape(2 * n, 2 * n)
    x, rng = laid(value, over(P("x"))), np.random.default_rng(0)
    for turn in range(6):
        spec = (P("a", "b"), P("b", "a"), P(None, "a"), P(("a", "b")), P(), P("b"))[turn]
        shape = (2, n // 2) if turn % 2 else (n // 2, 2)
        x = jax.device_put(x, over(spec, rng.permutation(n), shape, ("a", "b")))
        for shard in x.addressable_shards:
            same(shard.data, value[shard.index])
    some = over(P("x"), [0, n - 1])
    for shard in jax.device_put(x, some).addressable_shards:
        same(shard.data, value[shard.index])
    raises(ValueError, "is a Device", lambda: jax.device_put(x, jax.local_devices()[0]))


@law
def an_array_without_a_part_here():
    far = jax.devices()[0]
    x = jax.device_put(np.arange(3.0), far)
    held = int(far.process_index == jax.process_index())
    assert len(x.addressable_shards) == held == len((x + 1).addressable_shards)
    if not held:
        raises(RuntimeError, "non-addressable", lambda: np.asarray(x))


@law
def one_process_runs_what_does_not_communicate():
    x = laid(np.arange(4.0 * jax.device_count(), dtype="f4"), over(P("x")))
    f = jax.jit(lambda a: jnp.stack([(a * 2).sum(), a.max()]))
    metrics = f(x)
    if jax.process_index() == 1:
        assert float(metrics[0] * 2) > 0 and bool(metrics[1] < 1e9) and not jnp.isnan(metrics).any()
        f.trace(x), f.lower(x).compile().cost_analysis(), jax.eval_shape(f, x)
        jax.jit(lambda a: a.sum() * 7).lower(x).compile().as_text()
        jax.jit(jnp.log)(metrics), x * 2 + 1, jax.tree.map(lambda v: v + 1, [metrics])
        jax.clear_caches()
    same(f(x), [2 * np.arange(4.0 * jax.device_count()).sum(), 4 * jax.device_count() - 1])


@law
def exchanges_do_not_depend_on_what_the_user_has_set():
    me = jax.process_index()
    mesh = jax.make_mesh((jax.device_count(),), ("x",))
    contexts = (
        jax.set_mesh(mesh),
        jax.transfer_guard("disallow_explicit"),
        jax.debug_nans(True),
        jax.disable_jit(),
        jax.enable_x64(True),
        jax.default_matmul_precision("bfloat16"),
    )
    for context in contexts:
        with context:
            found = multihost_utils.process_allgather(np.float32([me, np.nan]))
            np.testing.assert_array_equal(found[:, 0], np.arange(jax.process_count()))
            multihost_utils.sync_global_devices("here")
            multihost_utils.assert_equal(np.arange(3))
    for other in (np.arange(3) + (me == 1), np.arange(3 + me)):
        raises(
            AssertionError,
            "differ here",
            lambda: multihost_utils.assert_equal(other, "differ here"),
        )
    raises(AssertionError, "name mismatch", lambda: multihost_utils.sync_global_devices(f"at {me}"))


@law
def exchanges_of_different_values_name_the_processes():
    me = jax.process_index()
    mine = {"a": np.ones(2), "b": np.ones(3 + me, "f4")}
    for f in (multihost_utils.process_allgather, multihost_utils.broadcast_one_to_all):
        raises(
            ValueError,
            f"{f.__name__}: the processes give values of different types.\n"
            "    process 0: in_tree['b']: float32[3]\n    process 1: in_tree['b']: float32[4]",
            lambda: f(mine),
        )
    raises(
        ValueError,
        "process 0: in_tree[1]: int64[]\n    process 1: no value",
        lambda: multihost_utils.process_allgather([1] * (2 - me)),
    )
    said = raises(
        AssertionError,
        "Expected: {'x': array(0",
        lambda: multihost_utils.assert_equal({"x": np.float32(me)}, "not equal"),
    )
    assert (
        "the values of process 0 and process 1. Processes with others than process 0: [1]" in said
    )
    assert "got: {'x': " in said and "1." in said.partition("got: ")[2]


@law
def a_callback_that_raises_in_one_process_raises_in_all():
    x = laid(np.arange(4.0 * jax.device_count(), dtype="f4"), over(P("x")))
    shape = jax.ShapeDtypeStruct((), np.float32)

    def here(at_fault):
        def fails(v):
            if at_fault == jax.process_index():
                raise ValueError(f"bad data {v}")
            return np.float32(v)

        return fails

    def parts(a):
        return jax.lax.psum(jax.pure_callback(here(1), shape, a.sum()), "x")

    whole = x.sharding.mesh
    for at_fault, f in {
        0: lambda a: jax.pure_callback(here(0), shape, a.sum()),  # which that process calls for all
        1: jax.shard_map(parts, mesh=whole, in_specs=P("x"), out_specs=P(), check_vma=False),
    }.items():
        run = jax.jit(lambda a, f=f: f(a) + a.sum())
        for _ in range(2):
            said = raises(jax.errors.JaxRuntimeError, "ValueError: bad data", lambda: run(x))
            assert ("in process" in said) == (jax.process_index() != at_fault)
            assert f"process {at_fault}" in said or jax.process_index() == at_fault
    run = jax.jit(lambda a: jax.pure_callback(here(2), shape, a.sum()) + a.sum())
    same(run(x), 2 * np.arange(4.0 * jax.device_count()).sum())


@law
def programs_that_communicate_give_keys():
    n = 4 * jax.device_count()
    x = laid(np.arange(n, dtype="u4"), over(P("x")))
    run = jax.jit(lambda a: jax.random.split(jax.random.key(a.sum()), n), out_shardings=x.sharding)
    expected = jax.random.key_data(jax.random.split(jax.random.key(n * (n - 1) // 2), n))
    for _ in range(3):  # later calls go another way
        keys = run(x)
        words = jax.random.key_data(keys)
        assert keys.sharding == x.sharding
        for part in words.addressable_shards:
            same(part.data, np.asarray(expected)[part.index])


@law
def functions_of_the_compiler_have_no_addresses_for_others():
    """A program that is inspected, or divided by a function, is the same program in all."""
    x, seen = laid(np.arange(8.0, dtype="f4"), over(P("x"))), []
    if jax.process_index() == 0:  # so that later ones have other numbers here
        jax.jit(lambda a: jax.debug.inspect_array_sharding(a, callback=seen.append)).lower(x)

    @jax.jit
    def f(a):
        jax.debug.inspect_array_sharding(a * 2, callback=seen.append)
        return a.sum()

    same(f(x), 28)
    assert seen[-1].spec == P("x"), seen

    @custom_partitioning
    def doubled(a):
        return a * 2

    doubled.def_partition(
        partition=lambda mesh, args, out: (mesh, lambda a: a * 2, out.sharding, (out.sharding,)),
        sharding_rule="i -> i",
    )
    same(jax.jit(lambda a: doubled(a).sum())(x), 56)


@law
def loaded_executables_are_over_all_processes():
    x = laid(np.arange(8.0, dtype="f4"), over(P("x")))
    made = serialize(jax.jit(lambda a: a.sum() * 5).lower(x).compile())
    again = deserialize_and_load(*made)
    for _ in range(3):
        same(again(x), 140)
    agreement = again.program.agreement
    names = multihost_utils.process_allgather(np.uint32(agreement.fingerprint & 0xFFFFFFFF))
    assert len(set(np.ravel(names).tolist())) == 1, names


if __name__ == "__main__":
    jax.distributed.initialize(initialization_timeout=60)
    for name, f in LAWS.items():
        try:
            f()
            print(f"{name} holds", flush=True)
        except BaseException:
            print(f"{name} broke: " + traceback.format_exc().replace("\n", " | "), flush=True)
            sys.exit(3)
