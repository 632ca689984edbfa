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
    for call in (traced.lower, traced.lower(lowering_platforms=("cpu",)).compile):
        with pytest.raises(
            ValueError, match=r"(?s)lowering_platforms.*only AbstractMesh exists.*jax.set_mesh"
        ):
            call()


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
    mesh = AbstractMesh((8,), ("x",))
    total = jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    exported = export.export(jax.jit(total))(jax.ShapeDtypeStruct((8, 4), np.float32))
    assert exported.nr_devices == 8
    real = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    y = jax.jit(exported.call)(jax.device_put(X, NamedSharding(real, P("x"))))
    np.testing.assert_allclose(y, X.sum(0, keepdims=True))


def test_structs_over_an_abstract_mesh_take_the_mesh_in_force():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        compiled = jax.jit(f).lower(struct("auto")).compile()
    y = compiled(jax.device_put(X, NamedSharding(mesh, P("x", "y"))))
    np.testing.assert_allclose(y, f(X), rtol=1e-6)


def test_different_meshes_are_refused():
    other = jax.ShapeDtypeStruct(
        (8, 4), np.float32, sharding=NamedSharding(AbstractMesh((8,), ("z",)), P("z"))
    )
    with pytest.raises(ValueError, match="different abstract meshes"):
        jax.jit(lambda a, b: a + b).trace(struct("auto"), other)
    e = export.export(jax.jit(f))(struct("explicit"))
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    with pytest.raises(ValueError, match="exported with types over a mesh"):
        jax.jit(e.call)(jax.device_put(X, NamedSharding(mesh, P("x", "y"))))
