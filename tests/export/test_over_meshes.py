"""Programs over meshes without devices.

Lowered, exported with the partitions of their types, and called over real ones.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer.sharding import AbstractMesh, AxisType, NamedSharding

P = jax.P
KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def f(x):
    return jnp.sin(x) * 2


def struct(kind, shape=(8, 4), spec=("x", "y")):
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(KINDS[kind],) * 2)
    return jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, P(*spec)))


@pytest.mark.parametrize("kind", KINDS)
def test_lowered_for_a_platform_that_is_said(kind):
    traced = jax.jit(f).trace(struct(kind))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text and "num_partitions = 8" in text
    assert '%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}' in text
    with pytest.raises(
        ValueError, match=r"(?s)lowering_platforms.*only AbstractMesh exists.*jax.set_mesh"
    ):
        traced.lower()


DEVICES = tuple(jax.devices()[::-1])


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_for_devices_that_are_said(kind):
    """In the order of the mesh."""
    lowered = jax.jit(f).trace(struct(kind)).lower(lowering_platforms=("tpu",))
    compiled = lowered.compile(device_assignment=DEVICES)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(KINDS[kind],) * 2, devices=DEVICES)
    x = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    assert compiled(x).sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_allclose(compiled(x), f(X), rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"device_assignment cannot be `None`(?s:.*)'x': 4"):
        lowered.compile()
    with pytest.raises(ValueError, match=r"abstract mesh 8 (?s:.*)length of device assignment: 4"):
        lowered.compile(device_assignment=DEVICES[:4])


def test_devices_that_arguments_say_are_kept():
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    lowered = jax.jit(f).lower(jax.device_put(X, NamedSharding(mesh, P("x"))))
    with pytest.raises(ValueError, match=r"must match the device_assignment.*ids \[7, 6.*\[0, 1"):
        lowered.compile(device_assignment=DEVICES)
    with pytest.raises(ValueError, match=r"must match the device_assignment.*ids \[7, 6.*\[0\]"):
        jax.jit(f).lower(X).compile(device_assignment=DEVICES)


@pytest.mark.parametrize("spec", [(), ("x", "y")])
def test_lowered_for_the_abstract_mesh_in_force(spec):
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.sharding.use_abstract_mesh(mesh):
        bare = jax.jit(f).lower(jax.ShapeDtypeStruct((8, 4), np.float32))
        none = jax.jit(lambda: jnp.arange(8)).trace().lower(lowering_platforms=("tpu",))
        laid = jax.jit(f).trace(struct("explicit", spec=spec)).lower(lowering_platforms=("tpu",))
        small = NamedSharding(AbstractMesh((4,), ("z",), axis_types=(AxisType.Explicit,)), P("z"))
        with pytest.raises(ValueError, match=r"'z': 4.*in force is .*'x': 4.*another size"):
            jax.jit(f).trace(jax.ShapeDtypeStruct((8,), np.float32, sharding=small))
    assert all("num_partitions = 8" in lowered.as_text() for lowered in (bare, none, laid))
    y = bare.compile(device_assignment=DEVICES)(X)
    np.testing.assert_allclose(y, f(X), rtol=1e-6)
    assert len(y.devices()) == 8


def test_structs_with_and_without_devices():
    """The abstract ones are over the devices of the others."""
    mesh = jax.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))
    own = jax.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(mesh, P("z")))
    compiled = jax.jit(lambda a, b: (a * 2, b * 2)).lower(struct("auto"), own).compile()
    (first, second), _ = compiled.input_shardings
    assert first.mesh.shape_tuple == (("x", 4), ("y", 2)) and second == own.sharding
    assert tuple(first.mesh.devices.flat) == tuple(mesh.devices.flat)
    small = jax.ShapeDtypeStruct(
        (8, 4), np.float32, sharding=NamedSharding(AbstractMesh((2,), ("x",)), P("x"))
    )
    with pytest.raises(ValueError, match="size: 2 does not match the device assignment size: 8"):
        jax.jit(lambda a, b: (a, b)).lower(small, own)


def test_compiled_programs_take_arguments_that_lie_as_they_want():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    rows, columns = (
        jax.device_put(X, NamedSharding(mesh, P(*spec))) for spec in (("x",), (None, "y"))
    )

    def program(tree, unused):
        return tree["a"] * tree["b"][0]

    compiled = jax.jit(program).lower({"a": rows, "b": (rows,)}, rows).compile()
    for good in (rows, X, jnp.asarray(X)):
        out = compiled({"a": good, "b": (good,)}, columns)
        assert out.sharding.is_equivalent_to(rows.sharding, 2)
        np.testing.assert_array_equal(np.asarray(out), X * X)
    for bad in (columns, jax.device_put(X, jax.devices()[1])):
        with pytest.raises(
            ValueError,
            match=r"(?s)input shardings that disagree.*1 mismatches:\nArgument tree\['b'\]\[0\] "
            r"with shape float32\[8,4\]:\n.*Passed sharding: .*Required sharding: .*device_put",
        ):
            compiled({"a": rows, "b": (bad,)}, rows)


@pytest.mark.filterwarnings("ignore:backend and device argument")
def test_functions_of_a_device_bring_arguments_there():
    there = jax.devices()[1]
    compiled = jax.jit(f, device=there).lower(X).compile()
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    for x in (X, jax.device_put(X, NamedSharding(mesh, P("x"))), jax.device_put(X, there)):
        assert compiled(x).devices() == {there}


@pytest.mark.parametrize("names", [("x", "y"), ("a", "b")])
@pytest.mark.parametrize("kind", KINDS)
def test_exported_and_called_over_a_mesh(kind, names):
    exported = export.export(jax.jit(f))(struct(kind))
    again = export.deserialize(exported.serialize(vjp_order=1))
    mesh = jax.make_mesh((4, 2), names, axis_types=(KINDS[kind],) * 2)
    x = jax.device_put(X, NamedSharding(mesh, P(*names)))
    for e in (exported, again):
        assert e.nr_devices == 8 and str(e.in_avals[0]) == (
            "float32[8@x,4@y]" if kind == "explicit" else "float32[8,4]"
        )
        y = jax.jit(e.call)(x)
        np.testing.assert_allclose(y, f(X), rtol=1e-6)
        assert y.sharding.is_equivalent_to(x.sharding, 2) and jax.typeof(y) == jax.typeof(x)
        with pytest.raises(ValueError, match="was exported"):
            e.call(X)
    gradient = jax.jit(lambda x: again.vjp().call(x, jnp.ones_like(x)))(x)
    np.testing.assert_allclose(jax.tree.leaves(gradient)[0], 2 * np.cos(X), rtol=1e-5, atol=1e-6)


def test_types_that_the_program_speaks_of():
    """A mesh in force without devices, and shard_map over one."""
    with jax.sharding.use_abstract_mesh(
        AbstractMesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    ):
        exported = export.export(jax.jit(lambda x: jax.reshard(x, P("x"))))(
            jax.ShapeDtypeStruct((8, 4), np.float32)
        )
    assert exported.nr_devices == 8 and str(exported.out_avals[0]) == "float32[8@x,4]"
    mesh = AbstractMesh((8,), ("x",), (AxisType.Auto,))
    total = jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    exported = export.export(jax.jit(total))(jax.ShapeDtypeStruct((8, 4), np.float32))
    assert exported.nr_devices == 8
    real = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    y = jax.jit(exported.call)(jax.device_put(X, NamedSharding(real, P("x"))))
    np.testing.assert_allclose(y, X.sum(0, keepdims=True))


def test_lowered_for_the_device_of_the_mesh_in_force():
    device = jax.sharding.AbstractDevice("cpu", 1, "cpu")
    mesh = AbstractMesh((2,), ("x",), (AxisType.Explicit,), abstract_device=device)
    x = jax.ShapeDtypeStruct((4, 8), np.float32, sharding=NamedSharding(mesh, P("x")))
    with jax.sharding.use_abstract_mesh(mesh):
        lowered = jax.jit(lambda x: x * 10).trace(x).lower()
    for error, said in [  # of JAX 0.12 and 0.10
        (RuntimeError, "Length of device_assignment"),
        (ValueError, "must match the length of device assignment: 8"),
    ]:
        with pytest.raises(error, match=said):
            lowered.compile(device_assignment=tuple(jax.devices()))
    real = jax.make_mesh((2,), ("x",))
    y = lowered.compile(device_assignment=tuple(real.devices.flat))(
        jax.device_put(np.ones((4, 8), np.float32), NamedSharding(real, P("x")))
    )
    assert (y == 10).all() and y.sharding.mesh is real
    with pytest.raises(ValueError, match="lowering_platforms"):
        jax.jit(lambda x: x * 10).trace(x).lower()


def test_structs_over_an_abstract_mesh_take_the_mesh_in_force():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        compiled = jax.jit(f).lower(struct("auto")).compile()
    y = compiled(jax.device_put(X, NamedSharding(mesh, P("x", "y"))))
    np.testing.assert_allclose(y, f(X), rtol=1e-6)


def test_different_meshes_are_refused():
    other = jax.ShapeDtypeStruct(
        (8, 4), np.float32, sharding=NamedSharding(AbstractMesh((4,), ("z",)), P("z"))
    )
    with pytest.raises(ValueError, match="AbstractMesh should be of the same size.*'x': 4.*'z': 4"):
        jax.jit(lambda a, b: a + b).trace(struct("auto"), other)
    e = export.export(jax.jit(f))(struct("explicit"))
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    with pytest.raises(ValueError, match="exported with types over a mesh"):
        jax.jit(e.call)(jax.device_put(X, NamedSharding(mesh, P("x", "y"))))
