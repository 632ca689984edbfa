"""Shardings that users say.

Of arguments and results of `jit`, of single results, and what is said where they do not fit.
"""

import collections

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base.errors import ShardingTypeError
from teucer._devices import meshes
from teucer._devices.specs import DuplicateSpecError
from teucer.experimental.pjit import pjit
from teucer.sharding import AxisType, Mesh, NamedSharding, use_abstract_mesh

P = jax.P
VALUE = np.arange(16, dtype=np.float32).reshape(4, 4)


@pytest.fixture
def mesh():
    return jax.make_mesh((2, 2), ("x", "y"))


def put(*spec, value=VALUE):
    return jax.device_put(value, P(*spec))


def auto(*sizes):
    return Mesh(
        np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes), ("x", "y")[: len(sizes)]
    )


# --- of jit ---------------------------------------------------------------------------------------


def test_results_that_are_arguments_lie_as_these(mesh):
    """As in JAX, the types within say nothing of in_shardings."""
    with jax.set_mesh(mesh):
        f, g = (jax.jit(f, in_shardings=P("x")) for f in (lambda x: x, lambda x: x + 1))
        assert f(VALUE).sharding == NamedSharding(mesh, P("x"))
        assert g(VALUE).sharding.spec == P(None, None)
        lowered = g.lower(VALUE)
        for stage in (lowered, lowered.compile()):
            assert stage.in_avals[0][0].sharding == NamedSharding(mesh.abstract_mesh, P("x", None))
        np.testing.assert_array_equal(lowered.compile()(VALUE), VALUE + 1)


def test_types_of_arguments_leave_the_sharding_open():
    mesh = auto(2)
    with jax.set_mesh(mesh):
        f = jax.jit(lambda x: 2 * x, in_shardings=NamedSharding(mesh, P("x")))
        assert f.lower(jax.core.ShapedArray((4,), np.float32)).compile()(
            np.ones(4, np.float32)
        ).sharding.spec == P("x")


Pair = collections.namedtuple("Pair", ["x"])


@pytest.mark.parametrize(
    "given, args, message",
    [
        (
            [None, None, None],
            (1.0, 2.0),
            "wrong length: got a tuple or list of length 3 for an args tuple of length 2",
        ),
        (
            Pair(None),
            (Pair(1.0),),
            (
                "in_shardings is not a tuple: got .*Pair.*might need to be wrapped in a singleton "
                "tuple"
            ),
        ),
        ({"a": None}, ({"a": 1.0},), "in_shardings is not a tuple.*might need to be wrapped"),
        (
            ({"a": [None]},),
            ({"a": 1.0},),
            r"must be a tree prefix(?s:.*)pjit in_shardings\[0\]\['a'\]",
        ),
    ],
)
def test_what_is_no_prefix_of_the_arguments(given, args, message):
    """None too has its place."""
    with pytest.raises(ValueError, match=message):
        jax.jit(lambda *args: args, in_shardings=given)(*args)


def test_a_list_is_as_good_as_a_tuple_for_arguments():
    s = NamedSharding(auto(2), P("x"))
    assert all(
        y.sharding == s
        for y in jax.jit(lambda *xs: xs, in_shardings=[s, s])(np.ones(2), np.ones(4))
    )


def test_what_does_not_fit_names_the_argument():
    s = NamedSharding(auto(2), P("x"))
    with pytest.raises(
        ValueError,
        match="One of pjit arguments with pytree key path b is incompatible .*rank at least 1",
    ):
        jax.jit(lambda a, b: a, in_shardings=s)(np.ones(2), 1.0)
    with pytest.raises(
        ValueError, match=r"One of pjit outputs with pytree key path result\['c'\] is incompatible"
    ):
        jax.jit(lambda a: {"c": a}, out_shardings=s)(1.0)
    with pytest.raises(ValueError, match="pytree key path b is incompatible"):
        jax.jit(lambda a, b: a, in_shardings=(None, s))(np.ones(2), 1.0)
    with pytest.raises(ValueError, match=r"pytree key path result\[1\] is incompatible"):
        jax.jit(lambda a: (a, a), out_shardings=(None, s))(1.0)
    for where in ({"in_shardings": s}, {"out_shardings": s}):
        with pytest.raises(ValueError, match="partitioned 2 times, but the dimension size is 3"):
            jax.jit(lambda a: jax.jit(lambda b: b, **where)(a))(np.ones(3))


def test_a_mesh_axis_twice_names_the_option():
    with auto(2, 2):
        for name in ("in_shardings", "out_shardings"):
            with pytest.raises(
                DuplicateSpecError,
                match=f"A single {name} specification .* has duplicate entries for `x`",
            ):
                pjit(lambda x: x, **{name: P("x", "x")})(VALUE)
            with (
                jax.set_mesh(auto(2, 2)),
                pytest.raises(DuplicateSpecError, match=f"A single {name} specification"),
            ):
                jax.jit(lambda x: x, **{name: P("x", "x")})(VALUE)


def test_blocks_of_meshes_leave_what_set_mesh_has_set():
    setting = jax.set_mesh(auto(2, 2))
    with auto(2), setting:
        pass
    assert jax.sharding.get_mesh().empty and meshes.mesh_of_block() is None


# --- of single results ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda s: jnp.einsum("ij,jk->ik", VALUE, VALUE, out_sharding=s),
        lambda s: jnp.zeros((4, 4), out_sharding=s),
        lambda s: lax.broadcasted_iota(np.int32, (4, 4), 0, out_sharding=s),
        lambda s: lax.reshape(VALUE, (4, 4), out_sharding=s),
        lambda s: jax.random.normal(jax.random.key(0), (4, 4), out_sharding=s),
    ],
)
def test_out_sharding_is_over_the_mesh_in_force(mesh, f):
    others = [
        NamedSharding(mesh.update(axis_types=(AxisType.Auto,) * 2), P()),
        NamedSharding(jax.make_mesh((4,), ("z",)), P("z")),
    ]
    with jax.set_mesh(mesh):
        assert f(NamedSharding(mesh, P("x"))).sharding.spec == P("x", None)
        for other in others:
            with pytest.raises(
                ValueError, match="Context mesh .* should match the mesh of sharding"
            ):
                f(other)
        with pytest.raises(ValueError, match="sharding with memory_kind is not allowed"):
            jnp.full(
                (2,),
                0,
                out_sharding=NamedSharding(mesh.abstract_mesh, P("x"), memory_kind="pinned_host"),
            )


def test_programs_run_over_the_axes_of_use_abstract_mesh(mesh):
    flat = jax.sharding.AbstractMesh((4,), ("z",), (jax.sharding.AxisType.Auto,))
    with jax.set_mesh(mesh), use_abstract_mesh(flat):
        assert jnp.arange(8).sharding == NamedSharding(Mesh(mesh.devices.reshape(4), ("z",)), P())


@pytest.mark.parametrize("in_axes", [(None, 0), (0, 0), (0, None)])
@pytest.mark.parametrize("spec", [P(), P("y"), P(None, None, "y")])
def test_vmap_of_a_convolution_with_out_sharding(mesh, in_axes, spec):
    rng = np.random.default_rng(0)
    kernels, inputs = (rng.normal(size=s).astype(np.float32) for s in ((4, 3, 1, 2), (4, 2, 8, 1)))
    args = [x if axis == 0 else x[0] for x, axis in zip((kernels, inputs), in_axes, strict=True)]
    numbers = lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1))

    def f(out_sharding):
        return jax.vmap(
            lambda k, x: lax.conv_general_dilated(
                x, k, (1,), "VALID", dimension_numbers=numbers, out_sharding=out_sharding
            ),
            in_axes=in_axes,
        )

    with jax.set_mesh(mesh):
        y = jax.jit(f(spec))(
            *[
                put("x" if axis == 0 else None, value=x)
                for x, axis in zip(args, in_axes, strict=True)
            ]
        )
        assert y.sharding.spec == P("x", *spec, *[None] * (3 - len(spec)))
    np.testing.assert_allclose(y, f(None)(*args), atol=1e-5)


# --- phrases that JAX documents -------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, error, message",
    [
        (
            lambda: jnp.argsort(put("x"), axis=0),
            ShardingTypeError,
            "Arguments to sort must be unsharded over the sorting dimension",
        ),
        (
            lambda: lax.cummax(put("x"), 0),
            ShardingTypeError,
            "Input should be unsharded over the axis being reduced",
        ),
        (
            lambda: jnp.cumsum(put("x")),
            ShardingTypeError,
            "The input should be fully replicated when axis is not specified",
        ),
        (
            lambda: jnp.unstack(put("x")),
            ShardingTypeError,
            "unstack operand cannot be sharded on the unstacking axis 0",
        ),
        (
            lambda: jnp.tile(put("x"), (2, 1)),
            ShardingTypeError,
            "Operand cannot be sharded on .* when the tiling is non-trivial",
        ),
        (lambda: lax.slice(put("x"), (0, 0), (3, 4)), ShardingTypeError, "slicing on sharded dims"),
        (
            lambda: lax.pad(put("x"), np.float32(0), ((1, 0, 0), (0, 0, 0))),
            ShardingTypeError,
            "padding on sharded dims",
        ),
        (
            lambda: put("x")[jnp.array([0, 2])],
            ShardingTypeError,
            "out sharding could not be resolved unambiguously",
        ),
        (
            lambda: lax.select(put("x") > 0, put("y"), put("x")),
            ShardingTypeError,
            "select cases must have the same shardings",
        ),
        (
            lambda: lax.concatenate([put("x"), put("x", "y")], 0),
            ShardingTypeError,
            "All operands should have the same sharding",
        ),
        (
            lambda: lax.dynamic_update_slice(put("x", "y"), put("x"), (0, 0)),
            ShardingTypeError,
            "dynamic_update_slice operand sharding must be equal to update sharding",
        ),
        (
            lambda: lax.batch_matmul(
                put("x", value=VALUE[..., None]), put("y", value=VALUE[:, None])
            ),
            ShardingTypeError,
            (
                "dot_general requires lhs batch dimensions and rhs batch dimensions to have the "
                "(same|consistent) sharding"
            ),
        ),
        (
            lambda: put("x", "y") @ put("x"),
            ShardingTypeError,
            "requires contracting dimensions to have consistent sharding",
        ),
        (
            lambda: lax.broadcast_like(put("y", value=VALUE[0]), put("x")),
            ValueError,
            "Incompatible types for broadcasting",
        ),
    ],
)
def test_errors_have_the_phrases_of_jax(mesh, f, error, message):
    with jax.set_mesh(mesh), pytest.raises(error, match=message):
        f()
