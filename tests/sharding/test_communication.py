"""`debug.communication`.

The collectives of compiled programs, where they come from, and what removes them.
"""

import inspect
import math

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._derived import hlo_text as hlo
from teucer._derived.communication.groups import device_groups
from teucer.debug import communication

P = jax.P
AUTO = jax.sharding.AxisType.Auto


def mesh_of(x=2, y=4, kind=AUTO):
    return jax.make_mesh((x, y), ("x", "y"), axis_types=(kind, kind))


MESH = mesh_of()


def struct(shape, spec, mesh=MESH, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=jax.NamedSharding(mesh, spec))


def by_hand(f, spec=P("x", "y"), out=P("x", "y")):
    return jax.shard_map(f, mesh=MESH, in_specs=spec, out_specs=out, check_vma=False)


RING = [(i, (i + 1) % 4) for i in range(4)]
# What a device gives is f32[4, 2]: 32 bytes.
WRITTEN = {
    "psum": (lambda a: lax.psum(a, "y"), "all-reduce", ("y",), 32, 2 * 32 * 3 / 4),
    "psum over both": (
        lambda a: lax.psum(a, ("x", "y")),
        "all-reduce",
        ("x", "y"),
        32,
        2 * 32 * 7 / 8,
    ),
    # Of floats a CPU sends, too, where a NaN is.
    "pmax": (lambda a: lax.pmax(a.astype(np.int32), "x"), "all-reduce", ("x",), 32, 32),
    "all_gather": (lambda a: lax.all_gather(a, "y"), "all-gather", ("y",), 32, 3 * 32),
    "psum_scatter": (
        lambda a: lax.psum_scatter(a, "y", tiled=True),
        "reduce-scatter",
        ("y",),
        32,
        32 * 3 / 4,
    ),
    "ppermute": (lambda a: lax.ppermute(a, "y", RING), "collective-permute", ("y",), 32, 32),
    "all_to_all": (
        lambda a: lax.all_to_all(a, "x", 0, 0, tiled=True),
        "all-to-all",
        ("x",),
        32,
        16,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_collectives_that_the_program_asks_for(name):
    f, kind, axes, size, sent = WRITTEN[name]
    [row] = communication(by_hand(f, out=P()), struct((8, 8), P("x", "y")))
    assert (row.kind, row.axes, row.bytes, row.sent, row.times) == (kind, axes, size, sent, 1)
    assert row.devices == math.prod(dict(MESH.shape)[a] for a in axes)
    assert row.remedy == "nothing: the program asks for it"
    assert row.line.startswith(
        f"tests/sharding/test_communication.py:{inspect.getsourcelines(f)[1]} "
    )


def test_loops_count_as_often_as_they_run():
    def loop(a):
        return lax.scan(
            lambda c, _: (
                lax.scan(lambda c, _: (lax.ppermute(c, "y", RING), None), c, length=5)[0],
                None,
            ),
            a,
            length=3,
        )[0]

    [row] = communication(by_hand(loop), struct((8, 8), P("x", "y")))
    assert row.times == 15

    def until(a):
        return lax.while_loop(lambda c: lax.pmax(c.max(), ("x", "y")) > 0, lambda c: c - 1, a)

    found = communication(by_hand(until), struct((8, 8), P("x", "y")))
    assert math.isnan(found[0].times)
    assert "a device sends at least" in str(found) and "  ?  " in str(found)


def loss(w, x):
    return jnp.sum(jnp.tanh(x @ w) ** 2)


W, X = struct((16, 32), P("x", "y")), struct((8, 16), P("x"))


def kinds(found):
    return sorted((row.kind, row.axes) for row in found)


def test_what_is_said_to_remove_a_collective_does():
    found = communication(loss, W, X)
    sums = [("all-reduce", ("x",)), ("all-reduce", ("y",))]
    assert kinds(found) == [("all-gather", ("x",)), *sums]
    gather = next(row for row in found if row.kind == "all-gather")
    assert gather.remedy == "w as P(None, 'y'), for 256 bytes more a device"
    assert gather.operation == "dot_general" and "(loss)" in gather.line
    assert kinds(communication(loss, struct((16, 32), P(None, "y")), X)) == sums


def test_parameters_are_found_through_loops():
    def deep(params, x):
        return lax.scan(lambda x, w: (jnp.tanh(x @ w["w"]), None), x, params)[0]

    found = communication(deep, {"w": struct((3, 16, 16), P(None, "x"))}, X)
    assert {row.times for row in found} == {3}
    assert any(
        row.remedy.startswith("params['w'] as P(None, None), for 1536 bytes") for row in found
    )
    assert len(communication(deep, {"w": struct((3, 16, 16), P(None, None))}, X)) == 0


def test_gradients():
    found = communication(jax.grad(loss), struct((16, 32), P()), X)
    assert kinds(found) == [("all-reduce", ("x",))]
    assert found[0].remedy == "nothing: the gradient of a value that is whole along 'x'"


def test_constraints():
    def f(x):
        return lax.with_sharding_constraint(jnp.sin(x), jax.NamedSharding(MESH, P(None, "x")))

    rows = communication(f, X)
    assert {row.kind for row in rows} <= {"all-to-all", "collective-permute", "all-gather"} and len(
        rows
    )
    mesh = mesh_of(kind=jax.sharding.AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = struct((8, 16), P("x"), mesh)
        rows = communication(lambda x: jax.reshard(jnp.sin(x), P(None, None)), x)
    assert kinds(rows) == [("all-gather", ("x",))]
    assert "with_sharding_constraint" in rows[0].remedy or "the constraint here" in rows[0].remedy


def test_arrays_and_jitted_functions():
    x = jax.device_put(np.ones((8, 16), np.float32), X.sharding)
    assert kinds(communication(jax.jit(lambda x: x.mean()), x)) == [("all-reduce", ("x",))]
    assert str(communication(jnp.sin, jnp.ones(3))) == "sin over (): no collectives"
    step = jax.pmap(lambda v: lax.pmean(v, "i"), axis_name="i")
    assert [row.kind for row in communication(step, np.ones((8, 2), np.float32))] == ["all-reduce"]


def test_as_text_and_as_a_table(capsys):
    found = communication(loss, W, X)
    assert (
        str(found).splitlines()[0]
        == "loss over (x=2, y=4): 3 collectives; a device sends 266 B in a call"
    )
    assert found.sent == 256 + 2 * 4 / 2 + 2 * 4 * 3 / 4
    head, *rows = str(found).splitlines()[2:6]
    assert head.split("  ")[0] == "collective" and {row.split(" ")[0] for row in rows} == {
        "all-gather",
        "all-reduce",
    }
    assert "What would remove them:" in str(found)
    found.show()
    assert capsys.readouterr().out == f"{found}\n"
    rich = pytest.importorskip(
        "rich.console", reason="tables in colour need rich, which is optional"
    )
    rich.Console(width=250).print(found)
    assert "what would remove it" in capsys.readouterr().out


GROUPS = {
    "replica_groups={{0,4},{1,5}}, x": [[0, 4], [1, 5]],
    "replica_groups={}, x": [[0, 1, 2, 3, 4, 5, 6, 7]],
    "replica_groups=[2,4]<=[8]": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "replica_groups=[4,2]<=[2,4]T(1,0)": [[0, 4], [1, 5], [2, 6], [3, 7]],
    "replica_groups=mesh['a'=2,'b'=4] {'a'}": [[0, 4], [1, 5], [2, 6], [3, 7]],
    "replica_groups=mesh['a'=2,'b'=4] {'a','b'}": [[0, 1, 2, 3, 4, 5, 6, 7]],
    "replica_groups=mesh['a'=2,'b'=4] {'b':(2)2}": [[0, 1], [2, 3], [4, 5], [6, 7]],
    "replica_groups=mesh['a'=2,'b'=4] {'b':(1)2}": [[0, 2], [1, 3], [4, 6], [5, 7]],
    "replica_groups=mesh['c'=4,'d'=2], device_ids=([2,4]T(1,0)) {'c'}": [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ],
    "replica_groups=something": None,
}


@pytest.mark.parametrize("text", GROUPS)
def test_groups_of_devices(text):
    instruction = hlo.Instruction("x", "f32[]", "all-reduce", (), text, False)
    assert device_groups(instruction, 8) == GROUPS[text]


@pytest.mark.parametrize(("kind", "size"), [
    ("f32[4,2]{1,0}", 32), (("(bf16[3], "
        "pred[2]{0})"), 8), ("f32[]", 4), ("s4[3]", 2), ("c128[2]", 32), ("f8e4m3fn[5]", 5),
    ("token[]", 0), ("f4e2m1fn[4]", 2),
])  # fmt: skip
def test_bytes_of_types(kind, size):
    assert hlo.size_of(kind) == size
