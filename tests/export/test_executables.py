"""Compiled programs over a mesh as bytes.

They are loaded with the layouts that they had, on the same devices or others.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental.serialize_executable import deserialize_and_load, serialize
from teucer.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DEVICES = jax.devices("cpu")
MESH = Mesh(np.array(DEVICES[:4]).reshape(2, 2), ("a", "b"))
EXPLICIT = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,), devices=DEVICES[:4])
P = PartitionSpec
X = np.arange(32, dtype=np.float32).reshape(8, 4)
TABLE = jnp.arange(4.0)


def over(*spec, mesh=MESH):
    return NamedSharding(mesh, P(*spec))


def laid_out(x, y):
    return {"rows": x * 2 + TABLE, "sum": lax.with_sharding_constraint(x @ y, over(None, "a"))}


PROGRAMS = {
    "given": (
        jax.jit(
            laid_out,
            in_shardings=(over("a", "b"), over()),
            out_shardings={"rows": over(("a", "b")), "sum": None},
        ),
        (X, X.T),
    ),
    "chosen by the compiler": (
        jax.jit(laid_out),
        (jax.device_put(X, over("b")), jax.device_put(X.T, over(None, "b"))),
    ),
    "in types": (
        jax.jit(lambda x: (x * 2, x.sum(1))),
        (jax.device_put(X, over("x", mesh=EXPLICIT)),),
    ),
    "no arguments": (jax.jit(lambda: jnp.arange(8.0), out_shardings=over("a")), ()),
    "no results": (jax.jit(lambda x: None, in_shardings=over("a"), keep_unused=True), (X,)),
    "unused": (jax.jit(lambda x, y: x + 1, in_shardings=(over("a"), over("b"))), (X, X)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_are_kept(name):
    f, args = PROGRAMS[name]
    compiled = f.lower(*args).compile()
    data, in_tree, out_tree = serialize(compiled)
    for loaded in (
        deserialize_and_load(data, in_tree, out_tree),
        deserialize_and_load(serialize(deserialize_and_load(data, None, None))[0], None, None),
    ):
        assert loaded.input_shardings == compiled.input_shardings
        assert loaded.in_avals == compiled.in_avals
        expected, got = jax.tree.leaves(compiled(*args)), jax.tree.leaves(loaded(*args))
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.aval == b.aval and a.sharding.is_equivalent_to(b.sharding, a.ndim)
            assert [s.device for s in a.addressable_shards] == [
                s.device for s in b.addressable_shards
            ]


def test_other_devices():
    f, args = PROGRAMS["given"]
    others = [DEVICES[i] for i in (7, 5, 4, 6)]
    loaded = deserialize_and_load(
        serialize(f.lower(*args).compile())[0], None, None, execution_devices=others
    )
    out = loaded(*args)
    np.testing.assert_array_equal(out["rows"], f(*args)["rows"])
    assert out["rows"].sharding == NamedSharding(
        Mesh(np.array(others).reshape(2, 2), ("a", "b")), P(("a", "b"))
    )


def test_what_is_refused():
    f, args = PROGRAMS["given"]
    data = serialize(f.lower(*args).compile())[0]
    with pytest.raises(
        ValueError, match=r"runs on 4 devices, of numbers \[0, 1, 2, 3\]; 2 of these are there"
    ):
        deserialize_and_load(data, None, None, execution_devices=DEVICES[:2])


def test_another_process(tmp_path):
    f, args = PROGRAMS["given"]
    (tmp_path / "f").write_bytes(serialize(f.lower(*args).compile())[0])
    program = (
        "import sys, numpy as np, teucer as jax\n"
        "from teucer.experimental.serialize_executable import deserialize_and_load\n"
        "f = deserialize_and_load(open(sys.argv[1], 'rb').read(), None, None)\n"
        "x = np.ones((8, 4), np.float32)\n"
        "print(f(x, x.T)['rows'].sharding.spec, f(x, x.T)['sum'][0, 0])\n"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "f")]
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "XLA_FLAGS": ""}
    printed = subprocess.run(
        run, capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert printed.strip() == "P(('a', 'b'),) 4.0"
    environment["JAX_NUM_CPU_DEVICES"] = "1"
    failed = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
    assert "ValueError: deserialize: the executable runs on 4 devices" in failed.stderr
