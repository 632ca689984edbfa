"""Exported functions within others, over more or fewer devices, and the types that bytes keep."""

import itertools
import json

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer._core.memory import MemorySpace
from teucer._core.types import ShapedArray
from teucer._export.serialization import aval_of, aval_text, sharding_of, sharding_text
from teucer._export.symbolic_shapes import SymbolicScope
from teucer.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, reshard

P = PartitionSpec
EXPLICIT = (AxisType.Explicit,)


def read(exported):
    return export.deserialize(exported.serialize())


def turned(x):
    return jnp.reshape(jnp.sin(x), (-1, x.shape[1]))


def of_shape(f, shape):
    return read(export.export(jax.jit(f))(jax.ShapeDtypeStruct(export.symbolic_shape(shape), "f4")))


# Sizes of an axis in the inner function and in the outer one: number or variable.
SIZES = [(["3", "a", "a"], ["3", "3", "d"]), (["4", "b", "b"], ["4", "4", "e"])]


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("second", range(3))
@pytest.mark.parametrize("third", [("12", "12"), ("3*c", "6*f"), ("c", "12"), ("c", "f + 1")])
def test_numbers_and_variables_meet_in_any_axis(first, second, third):
    inner, outer = (
        ", ".join([*(sizes[i][at] for sizes, at in zip(SIZES, (first, second), strict=True)), last])
        for i, last in enumerate(third)
    )
    f = of_shape(turned, inner)
    x = np.arange(144, dtype=np.float32).reshape(3, 4, 12)
    g = of_shape(lambda x: f.call(x * 2) + 1, outer)
    np.testing.assert_allclose(g.call(x), turned(x * 2) + 1, rtol=1e-6)


ONE = Mesh(np.array(jax.devices()[:1]), "i")
SPLIT = NamedSharding(ONE, P("i"))
OF_ONE = {
    "arguments": jax.jit(lambda x: jnp.sin(x) + x[::-1], in_shardings=SPLIT),
    "results": jax.jit(lambda x: jnp.sin(x) + x[::-1], out_shardings=SPLIT),
    "within": jax.jit(lambda x: lax.with_sharding_constraint(jnp.sin(x), SPLIT) + x[::-1]),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_exported_over_a_mesh_of_one_device_runs_anywhere(name):
    """It says nothing of where arrays of several devices lie."""
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    exported = read(export.export(OF_ONE[name])(x))
    many = NamedSharding(Mesh(np.array(jax.devices()), "j"), P("j"))
    for given in (x, jax.device_put(x, jax.devices()[3]), jax.device_put(x, many)):
        for call in (
            exported.call,
            jax.jit(exported.call),
            jax.jit(lambda y: exported.call(y) * 1),
        ):
            found = call(given)
            np.testing.assert_allclose(found, np.sin(x) + x[::-1], rtol=1e-6)
            assert found.devices() == jnp.asarray(given).devices()


def test_typed_keys_over_a_mesh_of_one_device():
    split = jax.jit(
        lambda key: jax.random.split(key, 2),
        in_shardings=NamedSharding(ONE, P()),
        out_shardings=NamedSharding(ONE, P()),
    )
    key = jax.random.key(42)
    found = read(export.export(split)(key)).call(key)
    assert (jax.random.key_data(found) == jax.random.key_data(split(key))).all()


def test_sums_that_are_not_added_yet():
    mesh = jax.make_mesh((2,), ("x",), axis_types=EXPLICIT)
    a = np.arange(4).reshape(2, 2)
    with jax.set_mesh(mesh):
        x, y = jax.device_put(a, P(None, "x")), jax.device_put(a, P("x", None))
        spec = P(None, None, unreduced={"x"})
        exported = export.export(
            jax.jit(lambda x, y: jnp.einsum("ab,bc->ac", x, y, out_sharding=spec))
        )(x, y)
        for each in exported, read(exported):
            out = each.call(x, y)
            assert out.sharding == NamedSharding(mesh, spec)
            parts = [s.data for s in out.addressable_shards]
            np.testing.assert_array_equal(parts, [a[:, :1] @ a[:1], a[:, 1:] @ a[1:]])
            np.testing.assert_array_equal(reshard(out, P(None, None)), a @ a)


def types():
    mesh = AbstractMesh((2, 4), ("x", "y"), axis_types=EXPLICIT * 2)
    known = jax.make_mesh((2, 4), ("x", "y"), axis_types=EXPLICIT * 2).abstract_mesh
    specs = [
        P("x", None),
        P(("x", "y"), None),
        P(None, "y", unreduced={"x"}),
        P(None, "y", reduced={"x"}),
    ]
    for space in MemorySpace:
        yield ShapedArray((2, 4), np.dtype(np.float32), memory_space=space)
    yield ShapedArray((), np.dtype(np.int32), True)
    for m, spec in itertools.product((mesh, known), specs):
        yield ShapedArray((8, 4), np.dtype(np.float32), sharding=NamedSharding(m, spec))


@pytest.mark.parametrize("aval", list(types()), ids=str)
def test_types_in_bytes(aval):
    assert aval_of(json.loads(json.dumps(aval_text(aval))), SymbolicScope()) == aval


def test_shardings_in_bytes_leave_open_what_was_open():
    for spec in (P(P.UNCONSTRAINED, "x"), P(None, P.UNCONSTRAINED), P()):
        sharding = NamedSharding(AbstractMesh((2,), ("x",)), spec)
        assert sharding_of(json.loads(json.dumps(sharding_text(sharding)))) == sharding
