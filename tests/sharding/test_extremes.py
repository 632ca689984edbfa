"""Maxima and minima that are still to be taken over mesh axes: `P(unreduced_kind=...)`."""

import pickle

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax
from teucer._base.errors import ShardingTypeError
from teucer._devices.specs import AS_IN_0_12
from teucer.sharding import NamedSharding, UnreducedKind, reshard

VALUE = np.array([[3, 1], [0, 5], [4, -2], [7, 2]], np.float32)
OPERATIONS = {"max": (lax.reduce_max, lax.pmax, np.max), "min": (lax.reduce_min, lax.pmin, np.min)}
pytestmark = pytest.mark.skipif(not AS_IN_0_12, reason="the compiler of jaxlib 0.12 knows them")


@pytest.fixture(autouse=True)
def mesh():
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    with jax.set_mesh(mesh):
        yield mesh


def spec(kind, *entries, over=("x",)):
    return P(*entries, unreduced=set(over), unreduced_kind=UnreducedKind[kind])


def parts(kind="max", value=VALUE, *, over=("x",), layout=("x", None)):
    reduce = OPERATIONS[kind][0]
    return reduce(reshard(value, P(*layout)), (0,), out_sharding=spec(kind, None, over=over))


def shards(x):
    return [np.asarray(s.data).tolist() for s in x.addressable_shards]


@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
def test_parts_and_their_extreme(kind, dtype):
    """Each device has the extreme of its part, and any layout gives that of all."""
    reduce, _, expected = OPERATIONS[kind]
    value = VALUE.astype(jnp.dtype(dtype))
    for jit in (lambda f: f, jax.jit):
        u = jit(lambda x: reduce(x, (0,), out_sharding=spec(kind, None)))(reshard(value, P("x")))
        assert str(jax.typeof(u)) == f"{dtype}[2]{{U_{kind}:x}}"
        halves = [expected(value[:2], 0), expected(value[2:], 0)]
        assert shards(u) == [halves[i].tolist() for i in (0, 0, 1, 1)]
        for layout in (P(None), P("x"), P("y")):
            whole = jit(lambda x, layout=layout: reshard(x, layout))(u)
            np.testing.assert_array_equal(np.asarray(whole), expected(value, 0))
            assert whole.sharding.spec == layout


def test_over_two_axes_one_after_the_other():
    u = lax.reduce_max(
        reshard(VALUE, P("x", "y")), (0, 1), out_sharding=spec("max", over=("x", "y"))
    )
    assert shards(u) == [3.0, 5.0, 7.0, 2.0]
    half = reshard(u, spec("max"))
    assert shards(half) == [5.0, 5.0, 7.0, 7.0] and float(reshard(half, P())) == 7.0


def test_nan_is_the_extreme():
    value = VALUE.copy()
    value[1, 0] = np.nan
    for kind in OPERATIONS:
        found = np.asarray(reshard(parts(kind, value), P()))
        np.testing.assert_array_equal(found, OPERATIONS[kind][2](value, 0))


MOVES = {
    "reshape": lambda x: x.reshape(2, 1),
    "transpose": lambda x: x[None].T,
    "broadcast": lambda x: jnp.broadcast_to(x, (3, 2)),
    "slice": lambda x: x[1:],
    "index": lambda x: x[0],
    "gather": lambda x: x[np.array([1, 0, 1])],
    "concatenate": lambda x: jnp.concatenate([x, x]),
    "stack": lambda x: jnp.stack([x, x]),
    "rev": lambda x: x[::-1],
    "roll": lambda x: jnp.roll(x, 1),
    "tile": lambda x: jnp.tile(x, 2),
    "split": lambda x: jnp.split(x, 2)[1],
    "select": lambda x: jnp.where(np.array([True, False]), x, x[::-1]),
    "copy": lambda x: x.copy(),
    "stop_gradient": lax.stop_gradient,
    "barrier": lax.optimization_barrier,
    "cond": lambda x: lax.cond(x.shape == (2,), lambda x: x, lambda x: x[::-1], x),
    "scan": lambda x: lax.scan(lambda c, _: (c[::-1], None), x, length=3)[0],
    "vmap": lambda x: jax.vmap(lambda e: e.reshape(1))(x),
    "checkpoint": jax.checkpoint(lambda x: x[::-1]),
    "max": lambda x: jnp.max(x),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_elements_takes_parts(name):
    """f of the parts, then their extreme, is f of the extreme."""
    f, u = MOVES[name], parts()
    for g in (f, jax.jit(f)):
        y = g(u)
        assert "{U_max:x}" in str(jax.typeof(y))
        np.testing.assert_array_equal(reshard(y, P()), f(jnp.asarray(VALUE.max(0))))


def test_vmap_of_a_reduction():
    f = jax.vmap(lambda x: lax.reduce_max(x, (0,), out_sharding=spec("max")), in_axes=1)
    np.testing.assert_array_equal(reshard(f(reshard(VALUE, P("x"))), P()), VALUE.max(0))


@pytest.mark.parametrize("kind", OPERATIONS)
def test_collectives_take_the_extreme(kind):
    u, collective = parts(kind), OPERATIONS[kind][1]
    seen = []

    def f(x):
        seen.append(jax.typeof(x).mat)
        return collective(x, "x")

    for call in (jax.shard_map(f, out_specs=P()), jax.jit(jax.shard_map(f, out_specs=P()))):
        np.testing.assert_array_equal(call(u), OPERATIONS[kind][2](VALUE, 0))
    assert all(mat.unreduced_kind is UnreducedKind[kind] for mat in seen)
    same = jax.shard_map(lambda x: x, in_specs=spec(kind, None), out_specs=spec(kind, None))(u)
    assert same.sharding == u.sharding and shards(same) == shards(u)


def test_parts_as_arguments_and_results_of_programs():
    f = jax.jit(lambda x: reshard(x, P()), in_shardings=spec("max", None))
    np.testing.assert_array_equal(f(parts()), VALUE.max(0))
    g = jax.jit(lambda x: lax.reduce_max(x, (0,), out_sharding=spec("max", None)))
    exported = jax.export.export(g)(reshard(VALUE, P("x")))
    again = jax.export.deserialize(exported.serialize())
    assert again.out_avals[0].sharding.spec == spec("max", None)
    assert shards(jax.jit(again.call)(reshard(VALUE, P("x")))) == shards(parts())


def test_moved_to_other_devices_or_made_of_parts(mesh):
    u = parts()
    np.testing.assert_array_equal(jax.device_put(u, P()), VALUE.max(0))
    other = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[4:8])
    there = jax.device_put(u, NamedSharding(other, spec("max", None)))
    assert shards(there) == shards(u)
    pieces = [jax.device_put(np.full(2, i), d) for i, d in enumerate(mesh.devices.flat)]
    made = jax.make_array_from_single_device_arrays(
        (2,), NamedSharding(mesh, spec("min", None)), pieces
    )
    assert np.asarray(reshard(made, P())).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("f", "error", "says"),
    [
        (lambda u: u + u, ShardingTypeError, "add cannot take parts of which the max"),
        (lambda u: -u, ShardingTypeError, "neg cannot take parts"),
        (jnp.sum, ShardingTypeError, "reduce_sum cannot take parts"),
        (jnp.min, ShardingTypeError, "reduce_min cannot take parts of which the max"),
        (jnp.sin, ShardingTypeError, "sin cannot take parts"),
        (
            lambda u: reshard(u, P(unreduced={"x"})),
            ValueError,
            "unreduced_kind of input and output sharding passed to `jax.reshard` should be the",
        ),
        (
            lambda u: reshard(u, spec("max", over=("x", "y"))),
            ValueError,
            "cannot be more unreduced than the input",
        ),
        (
            lambda u: reshard(VALUE, spec("max")),
            ValueError,
            "out_sharding.*cannot be more unreduced than the input",
        ),
        (jnp.zeros_like, ValueError, "cannot be more unreduced"),
        (
            lambda u: jnp.zeros(2, out_sharding=spec("max")),
            ValueError,
            "can only contain unreduced of kind `sum`",
        ),
        (
            lambda u: jnp.dot(
                reshard(VALUE.T, P(None, "x")), reshard(VALUE, P("x")), out_sharding=spec("max")
            ),
            ValueError,
            "`out_sharding` passed to `dot_general` can only contain unreduced of kind `sum`",
        ),
        (
            lambda u: lax.reduce_max(reshard(VALUE, P("x")), (0,), out_sharding=spec("min")),
            ShardingTypeError,
            "reduce_max requires `out_sharding`'s unreduced_kind to be UnreducedKind.max",
        ),
        (
            lambda u: lax.reduce_max(VALUE, (0,), out_sharding=spec("max")),
            ShardingTypeError,
            "should be in operand's specs that were reduce_max over",
        ),
        (
            lambda u: lax.reduce_sum(reshard(VALUE, P("x")), (0,), out_sharding=spec("max")),
            ValueError,
            "can only contain unreduced of kind `sum`",
        ),
        (
            lambda u: jax.shard_map(lambda x: lax.psum(x, "x"), out_specs=P())(u),
            ValueError,
            "unreduced_psum cannot accept args with unreduced_kind=UnreducedKind.max",
        ),
        (
            lambda u: jax.shard_map(
                lambda x: lax.psum_scatter(x, "x", tiled=True), out_specs=P("x")
            )(u),
            ValueError,
            "unreduced_psum_scatter cannot accept args",
        ),
        (
            lambda u: jax.shard_map(
                lambda x: lax.pcast(x, "x", to="unreduced"),
                in_specs=P("x"),
                out_specs=spec("max", None),
            )(reshard(VALUE, P("x"))),
            ValueError,
            "should be equal to the unreduced_kind present",
        ),
        (
            lambda u: jax.shard_map(lambda x: x, in_specs=P(unreduced={"x"}), out_specs=P())(u),
            ValueError,
            "does not match the specs of the input",
        ),
        (
            lambda u: jax.device_put(VALUE, spec("max")),
            (NotImplementedError, ValueError),  # ValueError within programs
            "is not made of a value|cannot be more unreduced",
        ),
        (
            lambda u: jax.device_put(reshard(VALUE, P()), spec("max")),
            (NotImplementedError, ValueError),
            "is not made of a value|cannot be more unreduced",
        ),
        (
            lambda u: jax.grad(lambda x: reshard(parts(value=x), P()).sum())(VALUE),
            NotImplementedError,
            "reduce_max with the out_sharding .* cannot be differentiated",
        ),
        (
            lambda u: jax.jvp(lambda x: reshard(x, P()), (u,), (u,)),
            NotImplementedError,
            "such values have no tangents",
        ),
        (
            lambda u: jax.grad(lambda x: reshard(x, P()).sum())(u),
            NotImplementedError,
            "such values have no tangents",
        ),
        (
            lambda u: jax.jacfwd(lambda x: reshard(x, P()))(u),
            NotImplementedError,
            "such values have no tangents",
        ),
    ],
)
def test_refused(f, error, says):
    u = parts()
    with pytest.raises(error, match=f"(?s){says}"):
        f(u)
    with pytest.raises(error, match=f"(?s){says}"):
        jax.jit(f)(u)


def test_specs():
    s = spec("max", None)
    assert str(s) == "P(None, unreduced={'x'}, unreduced_kind=max)"
    assert s != P(None, unreduced={"x"}) and s != spec("min", None)
    assert len({s, spec("max", None), P(None, unreduced={"x"})}) == 2
    assert pickle.loads(pickle.dumps(s)) == s
    assert s.update(unreduced={"y"}) == P(None, unreduced={"y"}, unreduced_kind=UnreducedKind.max)
    assert s.update(unreduced=set()) == P(None)
    with pytest.raises(NotImplementedError, match="such values have no tangents"):
        s.to_ct_spec()
