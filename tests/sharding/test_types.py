"""Shardings in types: rules, values, derivatives and texts over Explicit mesh axes.

The golden types are JAX's (tests/data/make_sharding_types.py).
"""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base.errors import ShardingTypeError
from teucer._devices.specs import DuplicateSpecError
from teucer.lax._structure import reshape_p
from teucer.sharding import AxisType, NamedSharding

P = jax.P
CASES = json.loads((Path(__file__).parent.parent / "data" / "sharding_types.json").read_text())[
    "cases"
]

# Where JAX 0.10.2 refuses and Teucer does not: an operand that is not partitioned goes with one
# that is, as in arithmetic.
WIDER = (
    "jnp.concatenate([a,b],1)",
    "lax.dynamic_update_slice(a,b,(0,0)),x,A((4,4),)",
    "lax.select(p>0",
    "jax.vmap(lambda c,d:c*d)(a,b),x,r",
    "jnp.linalg.cholesky(a),A((8,3,3),'x')",  # a mask in cholesky
    "a[i],y,I((4,),'x')",  # the indices' axes become the result's
    "a.at[0].set(1.),x",  # one place is written by dynamic_update_slice
    "A((8,4,8,8)),A((4,4,3,3),'x')",  # features of the kernel become the result's
    "jnp.repeat(a,2,0),x",
    "jnp.roll(a,1,0),x",
)
# Where both give a type and it differs.
OTHER = {
    "lambda a,b:lax.clamp(a,b,a),x,r": [
        "float32[8@x,4]"
    ],  # as in arithmetic; JAX takes the sharding of the middle operand
    "lambda a:jnp.diag(a),A((8,),'x')": ["float32[8,8@x]"],  # rows are masked, not columns
}


NO_GRADIENT = (
    (
        "lax.reduce_window(a,np.float32(0),lax.add,(2,1)",
        ShardingTypeError,
        "padding on sharded dims",
    ),  # as in JAX
)


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"))


def struct(mesh, dtype):
    return lambda shape, *spec: jax.ShapeDtypeStruct(
        shape, dtype, sharding=NamedSharding(mesh, P(*spec))
    )


def call_of(case, make):
    """The function and the arguments of a case."""
    A, I = make(np.float32), make(np.int32)
    names = {
        "jax": jax,
        "jnp": jnp,
        "lax": lax,
        "np": np,
        "P": P,
        "A": A,
        "I": I,
        "x": A((8, 4), "x", None),
        "y": A((8, 4), None, "y"),
        "xy": A((8, 4), "x", "y"),
        "r": A((8, 4)),
        "call": lambda f, *args: (f, args),
    }
    return eval(f"call({case})", names)


def types_of(jaxpr):
    return [str(v.aval) for v in jaxpr.jaxpr.outvars]


@pytest.mark.parametrize("entry", CASES, ids=lambda entry: entry["case"][:60])
def test_types_are_those_of_jax(mesh, entry):
    case = entry["case"]
    with jax.set_mesh(mesh):
        f, args = call_of(case, lambda dtype: struct(mesh, dtype))
        if "error" in entry and not any(part in case for part in WIDER):
            with pytest.raises((ShardingTypeError, ValueError, DuplicateSpecError, TypeError)):
                jax.make_jaxpr(f)(*args)
        else:
            found = types_of(jax.make_jaxpr(f)(*args))
            assert "error" in entry or found == OTHER.get(case, entry["types"])


@pytest.mark.parametrize(
    "run", [jax.jit, pytest.param(lambda f: f, marks=pytest.mark.slow)], ids=["jit", "eager"]
)
@pytest.mark.parametrize(
    "entry", [e for e in CASES if "types" in e], ids=lambda entry: entry["case"][:60]
)
def test_values_are_those_on_one_device(mesh, entry, run):
    """Values as on one device, and results laid out as their types say."""
    rng = np.random.default_rng(0)
    kept = []

    def make(dtype):
        def array(shape, *spec):
            value = (
                rng.normal(size=shape) if dtype == np.float32 else rng.integers(0, 2, shape)
            ).astype(dtype)
            if len(shape) == 3 and shape[1] == shape[2]:  # positive definite, for factorisations
                value = value @ value.swapaxes(1, 2) + np.float32(4) * np.eye(shape[1], dtype=dtype)
            kept.append((jnp.asarray(value), jax.device_put(value, NamedSharding(mesh, P(*spec)))))
            return kept[-1][1]

        return array

    f, args = None, None
    plain = (
        "P(" not in entry["case"]
        and "reshard" not in entry["case"]
        and "random" not in entry["case"]
    )
    with jax.set_mesh(mesh):
        f, args = call_of(entry["case"], make)
        expected = types_of(jax.make_jaxpr(f)(*args))
        results = jax.tree.leaves(run(f)(*args))
    assert [str(jax.typeof(y)) for y in results] == expected
    if plain:
        one = {id(spread): single for single, spread in kept}
        for y, other in zip(
            results, jax.tree.leaves(jax.jit(f)(*[one[id(a)] for a in args])), strict=True
        ):
            np.testing.assert_allclose(np.asarray(y), np.asarray(other), rtol=3e-4, atol=3e-4)


@pytest.mark.parametrize(
    "entry",
    [
        e
        for e in CASES
        if "types" in e
        and e["case"].startswith(("jax.grad", "lambda a"))
        and "P(" not in e["case"]
        and "random" not in e["case"]
        and "float" in str(e["types"])
    ],
    ids=lambda e: e["case"][:60],
)
def test_cotangents_have_the_sharding_of_the_primal(mesh, entry):
    """Of a sum of squares of the results, where they are floats; without a mesh in force."""
    f, args = call_of(
        entry["case"],
        lambda dtype: (
            lambda shape, *spec: jax.device_put(
                np.ones(shape, dtype) + np.eye(*shape[-2:], dtype=dtype)
                if len(shape) > 1
                else np.ones(shape, dtype),
                NamedSharding(mesh, P(*spec)),
            )
        ),
    )
    floats = [i for i, a in enumerate(args) if a.dtype == np.float32]

    def loss(*args):
        return sum(
            (jnp.abs(y) ** 2).sum()
            for y in jax.tree.leaves(f(*args))
            if jnp.issubdtype(y.dtype, jnp.inexact)
        )

    with jax.set_mesh(mesh):
        for part, error, message in NO_GRADIENT:
            if part in entry["case"]:
                with pytest.raises(error, match=message):
                    jax.make_jaxpr(jax.grad(loss, floats))(*args)
                return
        jaxpr = jax.make_jaxpr(jax.grad(loss, floats))(*args)
    assert types_of(jaxpr) == [str(jax.typeof(args[i])) for i in floats]


def test_a_text_says_the_partition_of_results(mesh):
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("x")))
    text = jax.jit(lambda x: jnp.sin(x).sum(1)).lower(x).as_text()
    assert '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}' in text
    assert (
        '-> (tensor<8xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, '
        '[{"x"}]>})'
    ) in text
    assert text.count("sdy.sharding_constraint") == 2


def test_types_outside_a_mesh_say_nothing():
    assert str(jax.typeof(jnp.ones((8, 4)))) == "float32[8,4]"
    auto = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(auto, P("x")))
    assert str(jax.typeof(x)) == "float32[8,4]" and "@" not in str(jax.make_jaxpr(jnp.sin)(x))


def test_mixed_axes_show_the_explicit_ones():
    mixed = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mixed, P("x", "y")))
    assert (
        str(jax.typeof(x)) == "float32[8@x,4]" and str(jax.typeof(jnp.sin(x))) == "float32[8@x,4]"
    )
    assert str(jax.typeof(jax.jit(lambda x: (x * 2).T)(x))) == "float32[4,8@x]"
    np.testing.assert_allclose(
        np.asarray(jax.jit(lambda x: (x @ np.ones((4, 4), np.float32)).sum(0))(x)), np.full(4, 32.0)
    )
    y = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mixed, P(None, "y"))))(
        x
    )
    assert str(jax.typeof(y)) == "float32[8@x,4]" and y.sharding.spec == P("x", "y")


@pytest.mark.parametrize(
    "f, wanted, spec",
    [
        (lambda x: x * 2, lambda x: x * 2, P("x", "y")),
        (lambda x: jnp.sin(x).T, lambda x: np.sin(x).T, P("y", "x")),
        (lambda x: x.sum(0), lambda x: x.sum(0), P("y")),
        (lambda x: x.sum(1), lambda x: x.sum(1), P("x")),
        (lambda x: jax.reshard(x, P(None, "x")), np.asarray, P(None, "x")),
        (lambda x: jnp.ones((8, 8)), np.ones_like, P(None, None)),
        (lambda x: lax.with_sharding_constraint(x, P("y")), np.asarray, P(("x", "y"))),
        (jax.grad(lambda x: (x * 2).sum()), lambda x: np.full_like(x, 2), P("x", None)),
    ],
    ids=range(8),
)
def test_the_compiler_partitions_along_auto_axes_beside_explicit_ones(f, wanted, spec):
    """The shardings are those of JAX 0.10.2. No value is gathered over the Auto axis, none is
    partitioned over z unasked."""
    mixed = jax.make_mesh(
        (2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit, AxisType.Auto, AxisType.Explicit)
    )
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    with jax.set_mesh(mixed):
        x = jax.device_put(value, P("x", "y"))
        y = jax.jit(f)(x)
    assert y.sharding == NamedSharding(mixed, spec)
    np.testing.assert_allclose(np.asarray(y), wanted(value), rtol=1e-5, atol=1e-6)


def test_messages_say_what_to_do(mesh):
    def put(*spec):
        return jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P(*spec)))

    other = jax.make_mesh((8,), ("z",))
    for call, message in [
        (
            lambda: put("x") + put("y"),
            r"(?s)add got incompatible shardings.*f32\[8@x,4\], f32\[8@y,4\].*jax.reshard",
        ),
        (
            lambda: jnp.sort(put("x"), 0),
            r"(?s)sort: axis 0 of an operand must not be partitioned.*f32\[8@x,4\].*auto_axes",
        ),
        (
            lambda: put(None, "y") @ put(None, "y").T,
            r"(?s)ambiguous how the output should be sharded.*out_sharding.*contracted over 'y'",
        ),
        (lambda: put("x") @ put("x").T, r"illegally sharded result: f32\[8@x,8@x\]"),
        (lambda: put("x")[:2], r"out dim \(2\) is not divisible by mesh axes \(4\)"),
        (
            lambda: (
                put("x") + jax.device_put(np.ones((8, 4), np.float32), NamedSharding(other, P("z")))
            ),
            "Mesh for all inputs",
        ),
        (
            lambda: lax.with_sharding_constraint(put("x"), NamedSharding(mesh, P("y"))),
            r"(?s)acts as an assert.*P\('x', None\)",
        ),
    ]:
        with pytest.raises(Exception, match=message):
            call()


def test_out_sharding_must_name_explicit_axes(mesh):
    auto = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    with pytest.raises(
        ValueError, match=r"Using PartitionSpec when you are not under a mesh context"
    ):
        jnp.zeros((8, 4), out_sharding=P("x"))
    with (
        jax.set_mesh(auto),
        pytest.raises(
            ValueError, match="passed to jnp.zeros cannot contain axis names that are of type"
        ),
    ):
        jnp.zeros((8, 4), out_sharding=P("x"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, s: jnp.reshape(x, (4, 8), out_sharding=s),
        lambda x, s: jnp.reshape(x, (32,), "F", out_sharding=s),
        lambda x, s: jnp.broadcast_to(x, (8, 8, 4), out_sharding=s),
        lambda x, s: jnp.repeat(x, 2, 0, out_sharding=s),
        lambda x, s: jnp.einsum("ij,kj->ik", x, x, out_sharding=s),
        lambda x, s: x.at[jnp.arange(4)].get(out_sharding=s),
        lambda x, s: x.at[0].set(1.0, out_sharding=s),
        lambda x, s: x.at[jnp.array([1, 1])].add(1.0, out_sharding=s),
        lambda x, s: x.at[0].divide(2.0, out_sharding=s),
        lambda x, s: x.at[0].power(2.0, out_sharding=s),
        lambda x, s: x.at[0].apply(jnp.sin, out_sharding=s),
        lambda x, s: jax.ops.segment_sum(x, jnp.arange(8) // 2, 4, out_sharding=s),
        lambda x, s: lax.dot_general(x, x, (((1,), (1,)), ((), ())), out_sharding=s),
        lambda x, s: jnp.full((8,), 2.0, out_sharding=s),
        lambda x, s: jnp.ones_like(x, out_sharding=s),
        lambda x, s: jnp.array(np.ones(8), out_sharding=s),
        lambda x, s: jnp.matmul(x, x.T, out_sharding=s),
        lambda x, s: jnp.tensordot(x, x, ((1,), (1,)), out_sharding=s),
        lambda x, s: jnp.bincount(jnp.arange(8), length=8, out_sharding=s),
        lambda x, s: jnp.arange(8, out_sharding=s),
        lambda x, s: lax.ragged_dot(x, jnp.ones((2, 4, 4)), jnp.array([3, 4]), out_sharding=s),
        lambda x, s: jax.random.uniform(jax.random.key(0), (8,), out_sharding=s),
    ],
    ids=range(22),
)
def test_out_sharding(mesh, call):
    """The values of the function without it, laid out as asked: eagerly, and as a type under
    jit."""
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    expected = np.asarray(call(jnp.asarray(value), None))
    with jax.set_mesh(mesh):
        x = jax.device_put(value, P("x"))
        for f in (call, jax.jit(call, static_argnums=1)):
            y = f(x, P("x"))
            assert "@x" in str(jax.typeof(y)), jax.typeof(y)
            np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-5)


def test_reshard_is_linear_and_batches(mesh):
    x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x")))
    with jax.set_mesh(mesh):
        y = jax.reshard(x, P(None, "y"))
        assert str(jax.typeof(y)) == "float32[8,4@y]" and y.sharding == NamedSharding(
            mesh, P(None, "y")
        )
        assert str(jax.typeof(jax.reshard({"a": x}, P("y"))["a"])) == "float32[8@y,4]"
        g = jax.grad(lambda x: (jax.reshard(x, P(None, "y")) ** 2).sum())(x)
        np.testing.assert_array_equal(np.asarray(g), 2 * np.asarray(x))
        assert str(jax.typeof(g)) == "float32[8@x,4]"
        rows = jax.vmap(lambda row: jax.reshard(row, P("y")))(x)
        assert str(jax.typeof(rows)) == "float32[8@x,4@y]"
    np.testing.assert_array_equal(np.asarray(rows), np.asarray(x))


def test_explicit_axes(mesh):
    auto = mesh.update(axis_types=(AxisType.Auto,) * 2)
    seen = []

    def f(x):
        seen.append(str(jax.typeof(x)))
        return jnp.sin(x)

    with jax.set_mesh(auto):
        y = jax.jit(jax.sharding.explicit_axes(f, in_sharding=P("x")))(np.ones((8, 4), np.float32))
    assert seen == ["float32[8@x,4]"] and "@" not in str(jax.typeof(y))
    np.testing.assert_allclose(np.asarray(y), np.sin(np.ones((8, 4))), rtol=1e-6)


def test_train_step_over_explicit_axes(mesh):
    """Data over x, features over y: the loss and the parameters are those on one device."""
    rng = np.random.default_rng(1)
    params = {
        "w1": rng.normal(size=(4, 6)),
        "b1": np.zeros(6),
        "w2": rng.normal(size=(6, 2)),
        "b2": np.zeros(2),
    }
    params = {k: v.astype(np.float32) for k, v in params.items()}
    x, t = rng.normal(size=(16, 4)).astype(np.float32), rng.normal(size=(16, 2)).astype(np.float32)

    def loss(params, x, t):
        h = jnp.tanh(x @ params["w1"] + params["b1"])
        out = lax.dot_general(h, params["w2"], (((1,), (0,)), ((), ()))) + params["b2"]
        return jnp.mean((out - t) ** 2)

    @jax.jit
    def step(params, x, t):
        value, grads = jax.value_and_grad(loss)(params, x, t)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    expected = step(params, x, t)
    with jax.set_mesh(mesh):
        specs = {"w1": P(None, "y"), "b1": P("y"), "w2": P(), "b2": P()}
        spread = {k: jax.device_put(v, specs[k]) for k, v in params.items()}
        found = step(spread, jax.device_put(x, P("x")), jax.device_put(t, P("x")))
        again = step(found[1], jax.device_put(x, P("x")), jax.device_put(t, P("x")))
    assert again[0] < found[0]
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
    assert str(jax.typeof(found[1]["w1"])) == "float32[4,6@y]"


def test_zero_axes_and_ones_reshape(mesh):
    with jax.set_mesh(mesh):
        x = jax.device_put(np.zeros((8, 0), np.float32), P("x"))
        assert jnp.reshape(x, (0, 4)).shape == (0, 4)
        assert (
            str(
                reshape_p.call(
                    jax.device_put(np.ones((1, 8, 1)), P(None, "x")),
                    new_sizes=(8, 1),
                    dimensions=None,
                    sharding=None,
                )[0].aval
            )
            == "float32[8@x,1]"
        )


def test_derivatives_without_a_mesh_in_force(mesh):
    """What has no operands over devices is made over the only mesh that its type can mean."""
    jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("x")))
    for f in (
        jnp.sin,
        jax.checkpoint(jnp.sin),
        lambda x: jax.vmap(jnp.sin)(x),
        lambda x: jax.jit(jnp.sin)(x),
    ):
        g = jax.grad(lambda x: f(x).sum())(x)
        assert (
            g.sharding == NamedSharding(mesh, P("x", None))
            and str(jax.typeof(g)) == "float32[8@x,4]"
        )
        np.testing.assert_allclose(np.asarray(g), np.cos(np.ones((8, 4))), rtol=1e-6)


def test_searches_of_partitioned_values(mesh):
    x = jax.device_put(
        np.linspace(0, 2, 32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x"))
    )
    for f in (
        lambda x: jnp.searchsorted(np.arange(3.0), x),
        lambda x: jnp.interp(x, np.arange(3.0), np.arange(3.0) ** 2),
        lambda x: jnp.digitize(x, np.arange(3.0)),
    ):
        y = f(x)
        assert str(jax.typeof(y)).endswith("[8@x,4]")
        np.testing.assert_allclose(np.asarray(y), np.asarray(f(jnp.asarray(np.asarray(x)))))


def test_made_over_a_mesh_without_one_in_force(mesh):
    """A sharding with devices is enough; arrays that are not committed join the mesh that the
    program speaks of."""
    s = NamedSharding(mesh, P("x"))
    for make in (
        lambda: jnp.zeros((8, 4), out_sharding=s),
        lambda: jax.reshard(jnp.ones((8, 4)), s),
        lambda: jax.jit(lambda: lax.broadcasted_iota(int, (8, 4), 0, out_sharding=s))(),
        lambda: jax.jit(lambda x: jax.reshard(x, s) * 2)(np.ones((8, 4), np.float32)),
        lambda: jnp.ones_like(jax.device_put(np.zeros((8, 4)), s)),
    ):
        y = make()
        assert str(jax.typeof(y)).endswith("[8@x,4]") and y.devices() == set(jax.devices())
    with pytest.raises(ValueError, match="incompatible devices"):
        jax.reshard(jax.device_put(np.ones((8, 4), np.float32), jax.devices()[3]), s)


def test_types_always_have_a_sharding(mesh):
    """Over the mesh in force where nothing is partitioned, with an entry an axis; a traced value
    has none, as in JAX."""
    here = jax.typeof(jnp.ones((2, 3))).sharding
    assert (
        here == NamedSharding(jax.sharding.get_abstract_mesh(), P(None, None)) and here.mesh.empty
    )
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("x")))
    assert jax.typeof(x).sharding == NamedSharding(mesh.abstract_mesh, P("x", None))
    with jax.set_mesh(mesh):
        assert jax.typeof(jnp.zeros(3)).sharding == NamedSharding(mesh.abstract_mesh, P(None))
    with pytest.raises(
        AttributeError, match=r"'sharding' attribute is not available on traced array.*jax.typeof"
    ):
        jax.jit(lambda x: x.sharding)(x)
    for spec, match in [
        (P("x", "y"), "must be equal to aval's ndim"),
        (P("x"), "does not evenly divide the dimension size 2"),
    ]:
        with pytest.raises(ValueError, match=match):
            jax.core.ShapedArray((2,), np.float32, sharding=NamedSharding(mesh.abstract_mesh, spec))
    with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
        jax.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("x", "y")))


@pytest.mark.parametrize(
    "make",
    [
        lambda x, s: jax.device_put(x, s),
        lambda x, s: jax.device_put(np.ones(x.shape, np.float32), s) * x,
        lambda x, s: jnp.full_like(x, 1, device=s) * x,
        lambda x, s: jax.random.uniform(jax.random.key(0), x.shape, out_sharding=s) * 0 + x,
    ],
    ids=["put", "put_host", "full_like", "random"],
)
@pytest.mark.parametrize("kind", ["explicit", "manual", "manual, eager", "pmap"])
def test_programs_place_values_as_a_type_says(kind, make):
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    x = jax.device_put(np.arange(8.0, dtype=np.float32), jax.NamedSharding(mesh, jax.P("x")))

    def f(x):
        return make(x, jax.typeof(x).sharding)

    if kind == "pmap":
        np.testing.assert_array_equal(jax.pmap(f)(np.ones((2, 3), np.float32)), np.ones((2, 3)))
        return
    if kind != "explicit":
        f = jax.shard_map(f, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    out = (f if kind.endswith("eager") else jax.jit(f))(x)
    np.testing.assert_array_equal(out, np.arange(8.0))
    assert out.sharding.spec == jax.P("x")


def test_results_laid_out_by_functions_that_sort_or_solve(mesh):
    """out_sharding of percentile and lax.reduce; a solve for a batch over a mesh axis."""
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    with jax.set_mesh(mesh):
        x = jax.device_put(value, P("x"))
        middle = jax.jit(lambda x: jnp.percentile(x, 50, axis=0, out_sharding=P("y")))(x)
        assert middle.sharding.spec == P("y")
        np.testing.assert_array_equal(np.asarray(middle), np.percentile(value, 50, axis=0))
        summed = lax.reduce(x, np.float32(0), lax.add, (0,), out_sharding=P("y"))
        assert summed.sharding.spec == P("y") and (np.asarray(summed) == value.sum(0)).all()
        solved = jax.vmap(jnp.linalg.solve, in_axes=(None, 0))(2 * np.eye(8, dtype=np.float32), x)
        assert solved.sharding.spec == P("x", None)
        np.testing.assert_allclose(np.asarray(solved), value / 2)


def test_a_gathered_axis_gives_way_to_the_mapped_one(mesh):
    value = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    x = jax.device_put(value, NamedSharding(mesh, P("x")))
    gather = jax.vmap(
        jax.vmap(lambda v: lax.all_gather(v, ("i", "j")), axis_name="j"), axis_name="i"
    )
    y = jax.jit(gather)(x)
    assert y.sharding.spec[0] == "x"
    np.testing.assert_array_equal(np.asarray(y), np.broadcast_to(value.reshape(8, 3), (4, 2, 8, 3)))


def test_arrays_without_elements_are_read(mesh):
    x = jax.device_put(np.ones((8, 0), np.float32), NamedSharding(mesh, P("x")))
    assert np.asarray(jax.jit(lambda x: x.T)(x)).shape == (0, 8)


def test_products_in_groups_of_partitioned_operands(mesh):
    lhs, rhs = (
        np.arange(32, dtype=np.float32).reshape(8, 4),
        np.arange(64, dtype=np.float32).reshape(2, 4, 8),
    )
    sizes = np.array([3, 5], np.int32)
    with jax.set_mesh(mesh):
        y = jax.jit(lax.ragged_dot)(lhs, jax.device_put(rhs, P(None, None, "y")), sizes)
        assert y.sharding.spec == P(None, "y")
        np.testing.assert_allclose(
            np.asarray(y), np.concatenate([lhs[:3] @ rhs[0], lhs[3:] @ rhs[1]])
        )
        with pytest.raises(
            ShardingTypeError,
            match="ragged_dot_general: axis 0 of an operand must not be partitioned",
        ):
            lax.ragged_dot(jax.device_put(lhs, P("x")), rhs, sizes)


def test_reshard_takes_a_spec_that_says_nothing_of_more_axes(mesh):
    with jax.set_mesh(mesh):
        assert jax.reshard(jnp.float32(1), P(None)).sharding.spec == P()
        x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), P("x"))
        taken = jax.vmap(lambda row, j: row.at[j].get(out_sharding=P(None)))(x, jnp.zeros(8, int))
        assert taken.sharding.spec == P("x") and (np.asarray(taken) == np.arange(0, 32, 4)).all()
        with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
            jax.reshard(jnp.ones(2), P(None, "x"))


@pytest.mark.parametrize("n", [2, 3])
def test_vmap_refuses_partitions_that_differ(n):
    """However many there are, each is named."""
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"))
    xs = [jax.device_put(np.ones((2, 2)), NamedSharding(mesh, P(name))) for name in "xyz"[:n]]
    with pytest.raises(ValueError, match=" ?vs ?|, ".join(f"'{name}'" for name in "xyz"[:n])):
        jax.vmap(lambda *xs: sum(xs))(*xs)
    with jax.set_mesh(mesh):
        assert jax.typeof(jax.vmap(lambda x: x)(xs[0])).sharding.spec == P("x", None)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0, 0],
        lambda x: x[-1, 2],
        lambda x: lax.slice(x, (3, 1), (4, 2)),
        lambda x: lax.dynamic_slice(x, (3, 1), (1, 1)),
        lambda x: jnp.asarray(x).at[5, 0].get(),
    ],
    ids=["first", "negative", "slice", "dynamic_slice", "at"],
)
@pytest.mark.parametrize("spec", [P("x", "y"), P("x", None), P(None, ("x", "y"))], ids=str)
def test_one_element_lies_whole_on_each_device(f, spec):
    values = np.arange(32, dtype=np.float32).reshape(8, 4)
    with jax.set_mesh(jax.make_mesh((2, 2), ("x", "y"))):
        x = jax.device_put(values, spec)
        for run in (f, jax.jit(f)):
            out = run(x)
            assert out.sharding.spec == P(*[None] * out.ndim) and (out == f(values)).all()
        grad = jax.jit(jax.grad(lambda x: f(x).sum() ** 2))(x)
        assert jax.typeof(grad).sharding.spec == spec
        assert (np.asarray(grad) == jax.grad(lambda x: f(x).sum() ** 2)(values)).all()
