"""Exported functions over several devices.

What is recorded, where they may be called, how results lie.
"""

import dataclasses

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

DEVICES = np.array(jax.devices("cpu")[:4])
MESH = Mesh(DEVICES, ("x",))
OTHER = Mesh(DEVICES.reshape(2, 2), ("a", "b"))
P = PartitionSpec
X = np.arange(8, dtype=np.float32)


def over(mesh, *spec):
    return NamedSharding(mesh, P(*spec))


def f(x, y):
    return x * 2, y.sum() + x[0]


def exported():
    g = jax.jit(f, in_shardings=(over(MESH, "x"), None), out_shardings=(None, over(MESH)))
    return export.export(g)(X, X)


@pytest.fixture(params=["made", "read"])
def shared(request):
    return (
        exported()
        if request.param == "made"
        else export.deserialize(exported().serialize(vjp_order=1))
    )


def test_what_is_recorded(shared):
    abstract = AbstractMesh((4,), ("x",))
    assert shared.nr_devices == 4
    assert shared.in_shardings_jax(MESH) == (over(MESH, "x"), None)
    assert shared.out_shardings_jax(MESH) == (None, over(MESH))
    assert shared._in_named_shardings[0].mesh.shape_tuple == abstract.shape_tuple
    assert 'sdy.mesh @mesh = <["x"=4]>' in shared.mlir_module()


AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit


@pytest.mark.parametrize("kinds", [(AUTO, AUTO), (EXPLICIT, EXPLICIT), (AUTO, EXPLICIT)], ids=str)
@pytest.mark.parametrize(
    "spec", [P(), P("a"), P("b"), P(("a", "b")), P(("b", "a")), P(None, "a"), P("b", "a")], ids=str
)
def test_all_that_is_recorded_goes_through_bytes(kinds, spec):
    """But for the devices of meshes."""

    def of_sharding(sharding):
        mesh = sharding and sharding.mesh
        return sharding and (mesh.shape_tuple, mesh.axis_types, sharding.spec)

    def recorded(exported):
        fields = {f.name: getattr(exported, f.name) for f in dataclasses.fields(exported)}
        del fields["_get_vjp"]
        for name in ("in", "out"):
            avals, shardings = f"{name}_avals", f"_{name}_named_shardings"
            fields[shardings] = [*map(of_sharding, fields[shardings])]
            fields[avals] = [(str(a), of_sharding(a.sharding)) for a in fields[avals]]
        return fields

    mesh = Mesh(DEVICES.reshape(2, 2), ("a", "b"), axis_types=kinds)
    x = jax.ShapeDtypeStruct((4, 8), np.float32, sharding=NamedSharding(mesh, spec))
    made = export.export(jax.jit(lambda x, y: (x, {"twice": y * 2})))(x, 1.0)
    assert recorded(export.deserialize(made.serialize())) == recorded(made)


@pytest.mark.parametrize(
    ("mesh", "spec", "laid"),
    [
        (MESH, ("x",), over(MESH, "x")),
        (OTHER, (("a", "b"),), over(OTHER, ("a", "b"))),
        (OTHER, ("a",), over(OTHER, ("a", "b"))),
    ],
)
@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
def test_called_over_as_many_devices(shared, mesh, spec, laid, run):
    x, y = jax.device_put(X, over(mesh, *spec)), jax.device_put(X, over(mesh))
    double, total = run(shared.call)(x, y)
    assert double.tolist() == (2 * X).tolist() and float(total) == X.sum()
    assert double.sharding == laid and total.sharding.is_fully_replicated


def test_derivative(shared):
    x = jax.device_put(X, over(MESH, "x"))
    assert shared.vjp().nr_devices == 4
    assert jax.grad(lambda x: shared.call(x, X)[0].sum())(x).tolist() == [2] * 8


def test_a_mesh_in_force_says_the_devices(shared):
    with jax.set_mesh(MESH):
        assert shared.call(X, X)[0].sharding == over(MESH, "x")


def test_called_over_other_devices(shared):
    half = Mesh(DEVICES[:2], ("x",))
    for x, n in ((X, 1), (jax.device_put(X, over(half, "x")), 2)):
        with pytest.raises(
            ValueError, match=f"exported for 4 devices and is called in a context with {n} devices"
        ):
            shared.call(x, X)


def test_a_function_for_one_device_is_for_any_number():
    g = export.export(jax.jit(lambda x: x + 1))(X)
    assert g.nr_devices == 1
    assert g.call(jax.device_put(X, over(MESH, "x"))).sharding == over(MESH, "x")


def test_shardings_of_values_within():
    g = export.export(jax.jit(lambda x: lax.with_sharding_constraint(x * 2, over(MESH, "x"))))(X)
    assert g.nr_devices == 4
    assert g.call(jax.device_put(X, over(MESH))).sharding == over(MESH, "x")
    both = jax.jit(lambda x: lax.with_sharding_constraint(g.call(x), over(OTHER, "b")))
    assert both(jax.device_put(X, over(OTHER))).sharding == over(OTHER, "b")


def test_symbolic_sizes():
    (a,) = export.symbolic_shape("a")
    g = export.export(jax.jit(lambda x: jnp.cumsum(x), in_shardings=over(MESH, "x")))(
        jax.ShapeDtypeStruct((4 * a,), np.float32)
    )
    assert g.call(jax.device_put(X, over(MESH, "x"))).tolist() == np.cumsum(X).tolist()


def test_derivatives_lie_as_arguments_and_results_do():
    laid_in, laid_out = over(MESH, None, "x"), over(MESH, "x", None)
    f = jax.jit(lambda x: jnp.sin(x.T), in_shardings=laid_in, out_shardings=laid_out)
    first = export.export(f)(np.ones((4, 8), np.float32)).vjp()
    assert first.in_shardings_jax(MESH) == (laid_in, laid_out)
    assert first.out_shardings_jax(MESH) == (laid_in,)
    second = first.vjp()
    assert second.in_shardings_jax(MESH) == (laid_in, laid_out, laid_in)
    assert second.out_shardings_jax(MESH) == (laid_in, laid_out)


def test_nothing_is_said_of_derivatives_where_nothing_is_told():
    exported = export.export(jax.jit(jnp.sin))(np.ones(4, np.float32)).vjp()
    assert exported.in_shardings_jax(MESH) == (None, None)
    assert "sdy" not in exported.mlir_module()


def test_shardings_say_the_memory():
    x = jax.device_put(np.ones((2, 3)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    host = jax.device_put(x, jax.memory.Space.Host)
    (lies,) = export.export(jax.jit(jnp.sin))(host).in_shardings_jax(MESH)
    assert lies.memory_kind == "pinned_host" and lies.spec == P(None, None)
    read = export.deserialize(export.export(jax.jit(jnp.sin))(host).serialize())
    assert read.in_shardings_jax(MESH) == (lies,)
