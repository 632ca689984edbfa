"""Meshes, PartitionSpecs and shardings as objects: what they say of shapes, devices and parts."""

import contextlib
import copy
import pickle
import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer._devices.specs import AS_IN_0_12
from teucer.experimental import mesh_utils
from teucer.experimental.layout import Format, Layout
from teucer.experimental.pjit import pjit
from teucer.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
    get_mesh,
)

P = jax.P
AUTO = (AxisType.Auto,) * 2


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=AUTO)


def test_make_mesh_is_explicit_by_default_and_mesh_is_auto():
    assert jax.make_mesh((4, 2), ("x", "y")).axis_types == (AxisType.Explicit,) * 2
    assert Mesh(np.array(jax.devices()), ("x",)).axis_types == (AxisType.Auto,)


@pytest.mark.parametrize("kind", AxisType)
def test_the_type_of_the_only_axis(kind):
    for mesh in (
        jax.make_mesh((8,), ("x",), axis_types=kind),
        Mesh(np.array(jax.devices()), ("x",), axis_types=kind),
        AbstractMesh((8,), ("x",), axis_types=kind),
    ):
        assert mesh.axis_types == (kind,)
    with pytest.raises(ValueError, match="axis names should match the number of axis_types"):
        AbstractMesh((4, 2), ("x", "y"), axis_types=kind)


def test_equal_meshes_are_one_object(mesh):
    assert mesh is jax.make_mesh((4, 2), ("x", "y"), axis_types=AUTO)
    assert mesh != jax.make_mesh((4, 2), ("x", "y"))
    for other in (
        copy.copy(mesh),
        copy.deepcopy(mesh),
        copy.deepcopy(mesh.abstract_mesh).update(axis_types=AUTO),
    ):
        assert other in (mesh, mesh.abstract_mesh)


def test_representations(mesh):
    assert repr(mesh) == "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert str(mesh) == "Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"
    # JAX 0.12 changed the types of meshes that say none.
    kinds = "(Explicit, Explicit)" if AS_IN_0_12 else "(Auto, Auto)"
    shown = repr(AbstractMesh((4, 2), ("x", "y")))
    assert shown == f"AbstractMesh('x': 4, 'y': 2, axis_types={kinds})"
    assert repr(mesh.abstract_mesh) == (
        "AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto), device_kind=cpu, num_cores=None, "
        "platform=cpu)"
    )
    assert repr(NamedSharding(mesh, P("x", None))) == (
        "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x', None), "
        "memory_kind=device)"
    )
    assert (
        repr(SingleDeviceSharding(jax.devices()[0]))
        == "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
    )


def test_shardings_over_an_abstract_mesh_are_over_the_mesh_in_force(mesh):
    abstract, there = (NamedSharding(m, P("x")) for m in (mesh.abstract_mesh, mesh))
    x = np.ones(8, np.float32)
    with jax.set_mesh(mesh):
        assert jax.device_put(x, abstract).sharding == there
        assert jax.jit(lambda x: jax.device_put(x, abstract))(x).sharding == there
        assert jax.jit(lambda x: x + 1, out_shardings=abstract)(x).sharding == there
    with (
        jax.set_mesh(jax.make_mesh((8,), ("x",))),
        pytest.raises(ValueError, match=r"no devices.*\n.*a mesh of this shape"),
    ):
        jax.device_put(x, abstract)
    assert there._addressable_device_assignment == tuple(mesh.devices.flat)


@pytest.mark.parametrize("spec", [P("x"), P("x", None), P(None, None), P(None, "y")])
def test_constrained_arrays_have_the_sharding_asked_for(mesh, spec):
    where = NamedSharding(mesh, spec)
    for asked, order in ((where, (0, 1)), (Format(Layout((1, 0)), where), (1, 0))):
        out = jax.lax.with_sharding_constraint(np.ones((4, 4), np.float32), asked)
        assert out.sharding == where
        assert out.format.layout.major_to_minor == order


@pytest.mark.parametrize(
    "spec, text",
    [
        (P("x", None), "P('x', None)"),
        (P(("x", "y")), "P(('x', 'y'),)"),
        (P(), "P()"),
        (P(("x",), ()), "P('x', None)"),
        (P(P.UNCONSTRAINED), "P(UNCONSTRAINED,)"),
        (
            P("x", unreduced={"y"}),
            "P('x', unreduced={'y'}" + ", unreduced_kind=sum" * AS_IN_0_12 + ")",
        ),
        (P(reduced={"y"}), "P(reduced={'y'})"),
    ],
    ids=str,
)
def test_specs_print_as_they_are_written(spec, text):
    assert repr(spec) == text


def test_specs_are_values():
    assert P("x") == P("x") and hash(P("x")) == hash(P("x"))
    assert P("x") != ("x",) and P() != ()
    assert P("x") != P("x", None)
    assert P("x") + P("y") == P("x", "y") == ("x",) + P("y")
    assert (
        list(P("x", None)) == ["x", None] and P("x", "y").index("y") == 1 and len(P("x", None)) == 2
    )
    assert P("x", unreduced={"y"}).to_ct_spec() == P("x", reduced={"y"})
    assert pickle.loads(pickle.dumps(P("x", ("y", "z")))) == P("x", ("y", "z"))
    assert jax.tree.leaves(P("x", "y")) == [P("x", "y")]
    with pytest.raises(ValueError, match="partitions cannot overlap with unreduced axes"):
        P("x", unreduced={"x"})


def test_mesh_facts(mesh):
    assert (
        mesh.shape == {"x": 4, "y": 2}
        and mesh.axis_sizes == (4, 2)
        and mesh.size == 8
        and not mesh.empty
    )
    assert (
        mesh.shape_tuple == (("x", 4), ("y", 2))
        and mesh.auto_axes == ("x", "y")
        and mesh.explicit_axes == ()
    )
    assert mesh.are_all_axes_auto and not mesh.are_all_axes_explicit and not mesh.is_multi_process
    np.testing.assert_array_equal(mesh.device_ids, np.arange(8).reshape(4, 2))
    assert mesh.local_mesh is mesh and mesh.local_devices == jax.devices()
    assert mesh.update(axis_names=("a", "b")).axis_names == ("a", "b")
    assert mesh.abstract_mesh.update_axis_types({"x": AxisType.Explicit}).axis_types == (
        AxisType.Explicit,
        AxisType.Auto,
    )
    with pytest.raises(ValueError, match="AbstractMesh does not implement devices"):
        _ = mesh.abstract_mesh.devices


@pytest.mark.parametrize(
    "spec",
    [
        P(),
        P("x"),
        P("y"),
        P("x", "y"),
        P("y", "x"),
        P(("x", "y")),
        P(None, ("y", "x")),
        P(None, "y"),
    ],
    ids=str,
)
def test_parts_are_what_the_mesh_says(mesh, spec):
    """Each device's index, computed here from its place in the mesh, axis by axis."""
    shape, sizes = (16, 8), {"x": 4, "y": 2}
    sharding = NamedSharding(mesh, spec)
    found = sharding.devices_indices_map(shape)
    for (i, j), d in np.ndenumerate(mesh.devices):
        at = {"x": i, "y": j}
        for axis, entry in enumerate([*spec, None, None][:2]):
            place, parts = 0, 1
            for name in () if entry is None else (entry,) if isinstance(entry, str) else entry:
                place, parts = place * sizes[name] + at[name], parts * sizes[name]
            assert sharding.shard_shape(shape)[axis] == shape[axis] // parts
            start, stop, _ = found[d][axis].indices(shape[axis])
            assert (start, stop) == (
                place * shape[axis] // parts,
                (place + 1) * shape[axis] // parts,
            )
    assert sharding.is_fully_replicated == (spec == P())
    assert sharding.device_set == set(jax.devices()) and sharding.num_devices == 8
    assert sharding.is_fully_addressable and sharding.memory_kind == "device"


def test_equivalence_ignores_what_makes_no_difference(mesh):
    s = NamedSharding(mesh, P("x"))
    assert s.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2) and s != NamedSharding(
        mesh, P("x", None)
    )
    assert not s.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
    one = jax.make_mesh((1,), ("x",))
    assert NamedSharding(one, P("x")).is_equivalent_to(SingleDeviceSharding(jax.devices()[0]), 1)
    assert s is NamedSharding(mesh, P("x")) and hash(s) == hash(NamedSharding(mesh, P("x")))
    assert s.replicated_axes == {"y"} and s.update(spec=P()).spec == P()
    assert s.with_memory_kind("pinned_host").memory_kind == "pinned_host"


@pytest.mark.parametrize(
    "make, error, message",
    [
        (
            lambda m: NamedSharding(m, P("z")),
            ValueError,
            r"Resource axis: z of P\('z',\) is not found in mesh: \('x', 'y'\)",
        ),
        (
            lambda m: NamedSharding(m, P("x", "x")),
            Exception,
            r"at most one positional dimension, but P\('x', 'x'\) has duplicate",
        ),
        (lambda m: NamedSharding(m, ("x",)), TypeError, "spec must be a PartitionSpec"),
        (
            lambda m: NamedSharding(m, P("x")).shard_shape((7,)),
            ValueError,
            (
                r"array axis 0 is partitioned 4 times, but the dimension size is 7 \(full shape: "
                r"\(7,\), per-dimension tiling factors: \[4\]"
            ),
        ),
        (
            lambda m: jax.device_put(np.ones(7), NamedSharding(m, P("x"))),
            ValueError,
            "array axis 0 is partitioned 4 times",
        ),
        (
            lambda m: jax.device_put(1.0, NamedSharding(m, P("x"))),
            ValueError,
            "values of rank at least 1.*For scalars",
        ),
        (
            lambda m: jax.device_put(np.ones(8), P("x")),
            ValueError,
            "Please set a mesh via `jax.set_mesh`",
        ),
        (
            lambda m: jax.device_put(np.ones(8), NamedSharding(m.abstract_mesh, P("x"))),
            ValueError,
            "names no devices",
        ),
        (
            lambda m: NamedSharding(m.abstract_mesh, P("x")).device_set,
            ValueError,
            "devices are not known",
        ),
        (
            lambda m: NamedSharding(m, P("x", unreduced={"y"})),
            ValueError,
            "Unreduced axes can only refer to mesh axes",
        ),
        (
            lambda m: jax.make_mesh((16,), ("x",)),
            ValueError,
            r"Number of devices 8 must be >= the product of mesh_shape \(16,\)\n"
            r"  Make a smaller mesh.*JAX_NUM_CPU_DEVICES=16 or ",
        ),
        (
            lambda m: Mesh(np.array(jax.devices()), ("x", "y")),
            ValueError,
            r"devices.ndim == 1 and len\(axis_names\) == 2",
        ),
        (lambda m: jax.make_mesh((4, 2), ("x", "x")), ValueError, "must be distinct"),
        (
            lambda m: jax.make_mesh((8,), ("x",), axis_types=AUTO),
            ValueError,
            "should match the number of axis_types",
        ),
        (lambda m: jax.set_mesh(3), ValueError, "Expected mesh of type"),
        (lambda m: jax.make_mesh(((4, 2),), ("x",)), ValueError, "should be a sequence of ints"),
        (
            lambda m: NamedSharding(jax.make_mesh((8,), ("x",)), P(P.UNCONSTRAINED)),
            ValueError,
            "when no mesh axis_types are `Auto`",
        ),
        (
            lambda m: jax.jit(abs, in_shardings=NamedSharding(m, P(P.UNCONSTRAINED))),
            ValueError,
            "Unconstrained dims are not allowed",
        ),
        (
            lambda m: jax.jit(abs, out_shardings=P("x", P.UNCONSTRAINED)),
            ValueError,
            "passed to out_shardings",
        ),
        (
            lambda m: jax.ShapeDtypeStruct((8,), "int32", sharding=P("x", "y")),
            ValueError,
            "values of rank at least 2",
        ),
        (
            lambda m: jax.ShapeDtypeStruct((8,), "int32", sharding=P("x")).sharding,
            TypeError,
            "the context mesh cannot be empty",
        ),
        (
            lambda m: explicit_axes(abs, in_sharding=P("x"))(np.ones(8)),
            ValueError,
            "Context mesh cannot be empty",
        ),
        (
            lambda m: jax.lax.with_sharding_constraint(np.ones(7), NamedSharding(m, P("x"))),
            ValueError,
            "should evenly divide",
        ),
    ],
    ids=range(23),
)
def test_misuse(mesh, make, error, message):
    with pytest.raises(error, match=message):
        make(mesh)


def test_mesh_in_force(mesh):
    assert get_mesh().empty and get_abstract_mesh().empty and repr(get_mesh()) == "Mesh()"
    with jax.set_mesh(mesh):
        assert get_mesh() is mesh and get_abstract_mesh() is mesh.abstract_mesh
        with jax.sharding.use_abstract_mesh(AbstractMesh((8,), ("z",))):
            assert get_abstract_mesh().axis_names == ("z",)
        with (
            pytest.raises(ValueError, match="cannot change the size of the mesh"),
            jax.sharding.use_abstract_mesh(AbstractMesh((2,), ("z",))),
        ):
            pass
        with pytest.raises(ZeroDivisionError), jax.set_mesh(jax.make_mesh((8,), ("z",))):
            1 / 0  # noqa: B018  # the exit restores the mesh all the same
        assert get_mesh() is mesh
    assert get_mesh().empty


def test_pjit_without_a_mesh_is_jit():
    y = pjit(lambda x, *, n: x * n)(np.ones(8), n=3)
    assert y[0] == 3 and len(y.devices()) == 1


def test_pjit_and_constraints_heed_the_mesh_of_a_block(mesh):
    """`jit` and `device_put` do not; what `pjit` was told to be None is whole on each device, and
    what it was not told is free."""
    laid = jax.device_put(np.ones(8), NamedSharding(mesh, P("x")))
    with mesh:
        with pytest.raises(ValueError, match="set a mesh"):
            jax.device_put(np.ones(8), P("x"))
        with pytest.raises(RuntimeError, match="jit requires a non-empty mesh in context"):
            jax.jit(lambda x: x, in_shardings=P("x"))(np.ones(8))
        assert jax.numpy.ones(3).sharding.num_devices == 1
        assert jax.lax.with_sharding_constraint(np.ones(8), P("x")).sharding == laid.sharding
        double = pjit(lambda x: x * 2, in_shardings=P("x"))
        assert (
            double(np.ones(8)).sharding
            == laid.sharding
            == double.lower(np.ones(8)).compile()(laid).sharding
        )
        assert pjit(lambda x: x * 2)(np.ones(8)).sharding == NamedSharding(mesh, P())
        assert pjit(lambda x: x * 2)(laid).sharding == laid.sharding
        assert pjit(lambda x, *, n: x * n)(laid, n=3)[1] == 3
        assert pjit(lambda x: x * 2, out_shardings=None)(laid).sharding == NamedSharding(mesh, P())
        with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
            pjit(lambda x: x * 2, in_shardings=None)(laid)
        with pytest.raises(
            ValueError,
            match="Mesh context manager should not be used with jit when backend or device",
        ):
            pjit(lambda x: x * 2, device=jax.devices()[0])(np.ones(8))
    assert pjit(lambda x: x * 2)(np.ones(8)).sharding.num_devices == 1


def test_create_device_mesh():
    grid = mesh_utils.create_device_mesh((4, 2))
    assert Mesh(grid, ("x", "y")) is jax.make_mesh((4, 2), ("x", "y"), axis_types=AUTO)
    assert mesh_utils.create_device_mesh((2,), jax.devices()[6:]).tolist() == jax.devices()[6:]
    with pytest.raises(
        ValueError, match=r"Number of devices 8 must equal the product of mesh_shape \(3,\)"
    ):
        mesh_utils.create_device_mesh((3,))


class Placed:
    """What a mesh asks of a device of another process."""

    platform = "cpu"

    def __init__(self, number, process, slice_index=None):
        self.number, self.process_index = number, process
        if slice_index is not None:
            self.slice_index = slice_index

    def __repr__(self):
        return f"Placed({self.number})"


def test_create_hybrid_device_mesh():
    """Axes of a granule are the inner part of each axis of the grid; granules stand by number, or
    as they come."""
    devices = [Placed(i, process) for i, process in enumerate((1, 1, 1, 1, 0, 0, 0, 0))]
    hybrid = mesh_utils.create_hybrid_device_mesh
    numbers = np.vectorize(lambda d: d.number)
    by_number = numbers(hybrid((2, 2), (1, 2), devices, process_is_granule=True))
    np.testing.assert_array_equal(by_number, [[4, 5, 0, 1], [6, 7, 2, 3]])
    as_given = numbers(
        hybrid((2, 2), (2, 1), devices, process_is_granule=True, should_sort_granules_by_key=False)
    )
    np.testing.assert_array_equal(as_given, [[0, 1], [2, 3], [4, 5], [6, 7]])
    slices = [Placed(i, 0, slice_index=i // 2) for i in range(4)]
    np.testing.assert_array_equal(numbers(hybrid((2,), (2,), slices)), [0, 1, 2, 3])
    longer = numbers(hybrid((2, 2), (2,), devices, process_is_granule=True))
    np.testing.assert_array_equal(longer, [[4, 5, 0, 1], [6, 7, 2, 3]])


@pytest.mark.parametrize(
    ("inner", "outer", "message"),
    [
        ((4,), (3,), "Number of slices 2 must equal the product of dcn_mesh_shape"),
        ((2,), (2,), "Number of devices 4 must equal the product of mesh_shape"),
    ],
)
def test_hybrid_meshes_that_do_not_fit(inner, outer, message):
    with pytest.raises(ValueError, match=message):
        mesh_utils.create_hybrid_device_mesh(
            inner, outer, [Placed(i, i // 4) for i in range(8)], process_is_granule=True
        )


def test_hybrid_meshes_need_slices():
    with pytest.raises(
        ValueError, match="(?s)does not have attribute slice_index.*process_is_granule=True"
    ):
        mesh_utils.create_hybrid_device_mesh((1,), (1,), [Placed(0, 0)])


def test_arrays_like_another_lie_as_it_does(mesh):
    """Committed arrays and structs say where; a shape or a place that is given says otherwise;
    programs are left free."""
    sharding = NamedSharding(mesh, P("x"))
    x, on_one = (
        jax.device_put(np.ones(8, np.float32), sharding),
        jax.device_put(np.ones(8), jax.devices()[3]),
    )
    jnp = jax.numpy
    for like in (
        jnp.zeros_like,
        jnp.ones_like,
        jnp.empty_like,
        lambda x: jnp.full_like(x, 2),
        lambda x: jax.lax.full_like(x, 2),
        lambda x: jnp.full_like(x, np.arange(8)),
    ):
        assert (
            like(x).sharding
            == sharding
            == like(jax.ShapeDtypeStruct((8,), "float32", sharding=sharding)).sharding
        )
        assert like(on_one).devices() == {jax.devices()[3]} and like(on_one).committed
        assert not like(jnp.ones(8)).committed and not like(np.ones(8)).committed
        assert jax.jit(like)(x).shape == (8,)
    assert (
        jnp.zeros_like(x, dtype=int).sharding == sharding
        and not jnp.zeros_like(x, shape=(4,)).committed
    )
    assert jnp.zeros_like(x, device=jax.devices()[1]).devices() == {jax.devices()[1]}


def test_a_struct_with_a_spec_speaks_of_the_mesh_in_force(mesh):
    struct = jax.ShapeDtypeStruct((8, 2), "float32", sharding=P("x"))
    with jax.set_mesh(mesh):
        assert struct.sharding == NamedSharding(mesh, P("x"))
        assert jax.jit(lambda x: x).lower(struct).compile().input_shardings[0] == (
            NamedSharding(mesh, P("x")),
        )
    assert struct == jax.ShapeDtypeStruct((8, 2), "float32", sharding=P("x")) and "P('x',)" in repr(
        struct
    )


def test_constraints_within_programs_need_not_divide(mesh):
    x, sharding = np.arange(7), NamedSharding(mesh, P("x"))
    assert (
        jax.jit(lambda x: jax.lax.with_sharding_constraint(x, sharding) * 2)(x).tolist()
        == (2 * x).tolist()
    )
    with pytest.raises(
        ValueError, match="with_sharding_constraint arguments is incompatible.*rank at least 1"
    ):
        jax.jit(lambda x: jax.lax.with_sharding_constraint(x.sum(), sharding))(x)


def test_auto_axes_without_a_mesh_in_force():
    """The mesh is that of out_sharding; where no axis is Explicit, or there is no mesh, the
    function is as it was."""
    sharding = NamedSharding(jax.make_mesh((4, 2), ("x", "y")), P("x", "y"))
    x = jax.device_put(np.ones((8, 4)), sharding)
    seen = []
    f = auto_axes(
        lambda x: (seen.append(str(jax.typeof(x))), x * 2)[1], axes="x", out_sharding=sharding
    )
    assert f(x).sharding == jax.jit(f)(x).sharding == sharding and set(seen) == {"float32[8,4@y]"}
    assert auto_axes(abs, out_sharding=P("x"))(np.ones(8)).tolist() == [1] * 8
    with jax.set_mesh(jax.make_mesh((8,), ("x",), axis_types=AUTO[:1])):
        assert "reshard" not in str(
            jax.make_jaxpr(auto_axes(lambda x: x * 2, out_sharding=P("x")))(np.ones(8))
        )
    with jax.set_mesh(sharding.mesh):
        with pytest.raises(NotImplementedError, match="Going from `Manual` AxisType to `Auto`"):
            jax.shard_map(auto_axes(abs, out_sharding=P("x")), in_specs=P("x"), out_specs=P("x"))(
                jax.reshard(np.ones(8), P("x"))
            )
        with pytest.raises(ValueError, match="the mesh has no axes"):
            auto_axes(abs, axes="z", out_sharding=P("x"))(np.ones(8))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_types_leave_out_axes_of_size_one(kind, wrap):
    """`jax_remove_size_one_mesh_axis_from_type`: nothing is partitioned along them, and no value
    varies over them."""
    mesh = jax.make_mesh((2, 1), ("a", "b"), axis_types=(kind,) * 2)
    value = np.arange(8, dtype=np.float32).reshape(4, 2)
    with config.remove_size_one_mesh_axis_from_type(True):
        x = jax.device_put(value, NamedSharding(mesh, P("a", "b")))
        assert x.sharding.spec == P("a", "b")
        if kind is AxisType.Explicit:
            assert (
                str(jax.typeof(x)) == "float32[4@a,2]" and str(jax.typeof(x.T)) == "float32[2,4@a]"
            )
            assert (
                str(jax.typeof(jax.device_put(value, NamedSharding(mesh, P(("b", "a"))))))
                == "float32[4@a,2]"
            )
            assert (
                str(jax.typeof(jax.reshard(x, NamedSharding(mesh, P(unreduced={"b"})))))
                == "float32[4,2]"
            )
            assert jax.jit(
                lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh, P("a", "b")))
            )(x).shape == (4, 2)
            assert jax.vmap(jnp.sin, spmd_axis_name=("a", "b"))(x).sharding.spec == P("a", None)

        def part(x):
            assert (
                str(jax.typeof(x)) == "float32[2,2]{V:a}"
                and jax.typeof(lax.axis_index("b")).vma == frozenset()
            )
            assert jax.typeof(lax.pcast(lax.psum(x, "a"), "b", to="varying")).vma == frozenset()
            return lax.psum(x, "b") * lax.axis_size("b") + lax.axis_index("b").astype(x.dtype)

        f = jax.shard_map(part, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a"))
        np.testing.assert_array_equal(np.asarray(wrap(f)(x)), value)
        np.testing.assert_array_equal(
            np.asarray(wrap(jax.grad(lambda x: (f(x) ** 2).sum()))(x)), 2 * value
        )
    assert str(jax.typeof(jax.device_put(value, NamedSharding(mesh, P("a", "b"))))) == (
        "float32[4@a,2@b]" if kind is AxisType.Explicit else "float32[4,2]"
    )


@pytest.mark.parametrize("within", [True, False])
def test_auto_axes_runs_python_on_values(within):
    """Outside of jit the function has arrays, over the same devices along Auto axes."""
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    seen = []

    @auto_axes
    def f(x, w):
        seen.append((x.sharding, w.sharding, str(jax.typeof(x @ w))))
        return x @ w if w.sum() > 0 else x

    over = NamedSharding(mesh.update(axis_types=AUTO), P("x"))
    x, w = np.arange(32.0, dtype=np.float32).reshape(8, 4), np.ones((4, 4), np.float32)
    with jax.set_mesh(mesh) if within else contextlib.nullcontext():
        laid = jax.device_put(x, NamedSharding(mesh, P("x")))
        out = f(laid, w, out_sharding=NamedSharding(mesh, P("x", "y")))
    assert seen == [(over, over.update(spec=P()), "float32[8,4]")]
    assert out.sharding == NamedSharding(mesh, P("x", "y"))
    np.testing.assert_array_equal(np.asarray(out), x @ w)


def test_explicit_axes_gives_results_over_the_outer_axes(mesh):
    double = explicit_axes(lambda x: x * 2)
    x = np.arange(8.0)
    with jax.set_mesh(mesh):
        for f in (double, explicit_axes(jax.jit(lambda x: x * 2))):
            out = f(x, in_sharding=P("x"))
            assert out.sharding.mesh == mesh and out.sharding.spec[0] == "x"
            np.testing.assert_array_equal(np.asarray(out), x * 2)


ELSEWHERE = {
    "one device": lambda: SingleDeviceSharding(jax.devices()[0]),
    "fewer": lambda: NamedSharding(Mesh(np.array(jax.devices()[:4]), ("x",)), P("x")),
    "another order": lambda: NamedSharding(Mesh(np.array(jax.devices()[::-1]), ("x",)), P("x")),
}


@pytest.mark.parametrize("kind", AUTO[:1] + (AxisType.Explicit,), ids=str)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_programs_run_over_the_mesh_in_force(name, kind):
    """What is committed elsewhere is refused; it can be moved there, and from there."""
    there, x = ELSEWHERE[name](), np.arange(8.0, dtype=np.float32)
    y, ids = jax.device_put(x, there), [d.id for d in there._device_assignment]
    named = rf"(?s)incompatible devices.*{re.escape(str(ids))}.*jit's context mesh .*\[0, 1, 2, 3"

    def double(a):
        return a * 2

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    with jax.set_mesh(mesh):
        for f in (jax.jit(double), jnp.sin, jax.jit(double).lower):
            with pytest.raises(ValueError, match=named):
                f(y)
        with pytest.raises(ValueError, match=named):
            jax.jit(double, out_shardings=there)(x)
        moved = jax.device_put(jax.device_put(y, there), NamedSharding(mesh, P("y")))
        assert double(moved).sharding.mesh == mesh
        np.testing.assert_array_equal(np.asarray(jax.device_put(double(moved), there)), 2 * x)


def test_arrays_like_one_have_its_sharding():
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    x = jax.device_put(np.ones((8, 2), np.float32), NamedSharding(mesh, P("x")))
    for f in (jnp.zeros_like, jnp.ones_like, jnp.empty_like, lambda x: lax.full_like(x, 3)):
        assert f(x).sharding == x.sharding


def test_spmd_axis_name_stands_once(mesh):
    x = np.ones((8, 8), np.float32)
    with pytest.raises(ValueError, match=r"spmd_axis_name 'x' cannot appear in .* P\('x',\)"):
        jax.vmap(
            lambda v: lax.with_sharding_constraint(v, NamedSharding(mesh, P("x"))),
            spmd_axis_name="x",
        )(x)
    one = SingleDeviceSharding(jax.devices()[0])
    with pytest.raises(ValueError, match=r"spmd_axis_name .* mesh context manager.*'x'.*id=0"):
        jax.vmap(lambda v: lax.with_sharding_constraint(v, one), spmd_axis_name="x")(x)


def test_derivatives_through_a_mesh_of_other_axes():
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    x = jax.device_put(np.ones((8, 2), np.float32), NamedSharding(mesh, P("x", "y")))

    @jax.jit
    def f(x):
        x = jnp.sin(x)
        other = mesh.abstract_mesh.update(axis_sizes=(8, 1), axis_names=("a", "b"))
        with jax.sharding.use_abstract_mesh(other):
            out = jax.reshard(x, P(("a", "b"))) * 2
        return jax.reshard(out, P("y"))

    with jax.set_mesh(mesh):
        g = jax.jit(jax.grad(lambda x: f(x).sum()))(x)
    assert g.sharding == NamedSharding(mesh, P("x", "y"))
    np.testing.assert_allclose(np.asarray(g), 2 * np.cos(np.ones((8, 2))), rtol=1e-6)
