"""Sums that are still to be taken over mesh axes.

Unreduced and reduced types, and what operations make of them.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax
from teucer._base.errors import ShardingTypeError
from teucer.sharding import AxisType, NamedSharding, reshard

VALUE = np.arange(16, dtype=np.float32).reshape(4, 4) / 8
U, R = P(unreduced={"x"}), P(reduced={"x"})


@pytest.fixture
def mesh():
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    with jax.set_mesh(mesh):
        yield mesh


def shards(x):
    return [np.asarray(s.data) for s in x.addressable_shards]


def type_of(f, *args):
    return ", ".join(map(str, jax.jit(f).trace(*args).jaxpr.out_avals))


def ones(spec):
    return reshard(jnp.ones((4, 4)), spec)


def test_reshard_and_back(mesh):
    """A value becomes parts of a sum and comes back, whatever the partition on either side."""
    for plain, parts in [
        (P(), U),
        (P("x"), U),
        (P("x"), P(unreduced={"x", "y"})),
        (P("y"), P("y", unreduced={"x"})),
        (P(("x", "y")), U),
        (R, U),
    ]:
        x = reshard(VALUE, plain)
        u = reshard(x, parts)
        assert u.sharding.spec.unreduced == parts.unreduced and not u.sharding.is_fully_replicated
        np.testing.assert_array_equal(reshard(u, plain), VALUE)
    first, second = [shards(reshard(VALUE, U))[i] for i in (0, 2)]
    np.testing.assert_array_equal(first, VALUE)
    assert not second.any()


def test_arrays_of_parts(mesh):
    u = jax.device_put(VALUE, U)
    assert str(jax.typeof(u)) == "float32[4,4]{U:x}" and u.sharding == NamedSharding(mesh, U)
    np.testing.assert_array_equal(jax.device_put(u, P()), VALUE)
    np.testing.assert_array_equal(
        shards(jax.jit(lambda x: x, out_shardings=U)(VALUE))[2], 0 * VALUE
    )
    with pytest.raises(
        ValueError,
        match=r"(?s)still to be summed is on no device.*float32\[4,4\]\{U:x\}.*jax.reshard",
    ):
        np.asarray(u)


@pytest.mark.parametrize(
    "f, of_parts, of_reduced",
    [
        (lambda x: x + x, "float32[4,4]{U:x}", "float32[4,4]{R:x}"),
        (lambda x: -x, "float32[4,4]{U:x}", "float32[4,4]{R:x}"),
        (lambda x: x.T.reshape(16), "float32[16]{U:x}", "float32[16]{R:x}"),
        (lambda x: x.sum(), "float32[]{U:x}", "float32[]{R:x}"),
        (lambda x: x[:2], "float32[2,4]{U:x}", "float32[2,4]{R:x}"),
        (jnp.sin, None, "float32[4,4]{R:x}"),
        (lambda x: lax.concatenate([x, x], 0), "float32[8,4]{U:x}", "float32[8,4]{R:x}"),
        (lambda x: x * 2, None, "float32[4,4]{R:x}"),
        (lambda x: x * ones(R), "float32[4,4]{U:x}", "float32[4,4]{R:x}"),
        (lambda x: x @ ones(P()), None, "float32[4,4]"),
        (lambda x: ones(P("x")) @ x, None, "float32[4@x,4]"),
        (lambda x: jax.vmap(lambda r: r + r)(x), "float32[4,4]{U:x}", "float32[4,4]{R:x}"),
        (
            lambda x: lax.fori_loop(0, 2, lambda i, c: c + c, x),
            "float32[4,4]{U:x}",
            "float32[4,4]{R:x}",
        ),
        (
            lambda x: lax.cond(True, lambda: x, lambda: x + x),
            "float32[4,4]{U:x}",
            "float32[4,4]{R:x}",
        ),
        (lambda x: x + ones(P()), None, None),
        (lambda x: x.astype(np.int32), None, "int32[4,4]{R:x}"),
        (lambda x: jnp.pad(x, 1), "float32[6,6]{U:x}", "float32[6,6]{R:x}"),
        (lambda x: x == x, None, "bool[4,4]{R:x}"),
    ],
    ids=range(18),
)
def test_types(mesh, f, of_parts, of_reduced):
    for spec, expected in ((U, of_parts), (R, of_reduced)):
        if expected is None:
            with pytest.raises(ShardingTypeError):
                type_of(f, ones(spec))
        else:
            assert type_of(f, ones(spec)) == expected


LINEAR = [
    lambda a: -a.T,
    lambda a: a.reshape(16)[::-1],
    lambda a: lax.dynamic_slice(a, (1, 0), (2, 2)),
    lambda a: jnp.concatenate([a, a]),
    lambda a: a.sum(0),
    lambda a: lax.select(VALUE > 1, a, a + a),
    lambda a: jnp.cumsum(a, 0),
    lambda a: a[np.array([0, 2])],
    lambda a: jnp.stack([a, a]),
    lambda a: jnp.tile(a, 2),
    lambda a: a / (VALUE + 1 if a is PLAIN else reshard(VALUE + 1, R)),
    lambda a: lax.pad(a, np.float32(2), ((1, 1, 0), (0, 0, 0))),
    lambda a: lax.optimization_barrier((a, a + a))[1],
    lambda a: lax.scan(lambda c, x: (c + x, c), a[0], a),
    lambda a: lax.fori_loop(0, 3, lambda i, c: c + c, a),
    lambda a: jnp.roll(a, 1, 0),
    lambda a: a.at[0].add(a[1]),
    lambda a: a.at[np.array([0, 9])].get(mode="fill", fill_value=0),
    lambda a: jnp.repeat(a, 2, 0),
    lambda a: a.astype(jnp.bfloat16),
    lambda a: lax.dynamic_update_slice(a, a[:1], (1, 0)),
    lambda a: lax.map(lambda r: r + r, a),
    lambda a: jax.remat(lambda x: x + x)(a),
    lambda a: lax.switch(1, [lambda a: a, lambda a: a + a], a),
    lambda a: lax.split(a, (1, 3))[1],
]
PLAIN = jnp.asarray(VALUE)


@pytest.mark.parametrize("f", LINEAR, ids=range(len(LINEAR)))
def test_operations_on_parts(mesh, f):
    """Operations on the parts of a sum give the parts of the sum: their sum is what the operation
    makes of the value."""
    found = jax.jit(f)(reshard(VALUE, U))
    for y, expected in zip(jax.tree.leaves(found), jax.tree.leaves(f(PLAIN)), strict=True):
        assert y.sharding.spec.unreduced == {"x"}
        np.testing.assert_allclose(
            np.asarray(reshard(y, P()), np.float32), np.asarray(expected, np.float32)
        )


ERRORS = [
    (
        lambda x: jnp.sin(ones(U)),
        "sin is a non-linear operation and cannot accept input that is unreduced",
    ),
    (lambda x: ones(U) * ones(U), "lhs and rhs to `mul` cannot be unreduced since mul is bilinear"),
    (lambda x: ones(U) * 2, "RHS should be reduced along the same axes LHS is unreduced on"),
    (lambda x: ones(U) + 2, "lhs is unreduced while rhs is not. `add` operation does not allow"),
    (
        lambda x: ones(U) + ones(P(unreduced={"y"})),
        "lhs and rhs to `add` must be unreduced along the same mesh axes",
    ),
    (lambda x: ones(U) @ x, "lhs or rhs passed to dot_general cannot be unreduced"),
    (
        lambda x: ones(R) * x,
        "Inputs cannot be replicated on the same axes that another input is reduced on",
    ),
    (
        lambda x: ones(R) * ones(P("x")),
        "Inputs cannot be sharded/varying on the same axes that another input is reduced on",
    ),
    (
        lambda x: jnp.einsum("ab,bc->ac", x, x, out_sharding=U),
        "unreduced axes should be equal to the contracting specs",
    ),
    (
        lambda x: jnp.einsum("ab,bc->ac", ones(P(None, "x")), x, out_sharding=U),
        "lhs and rhs contracting dims should be sharded",
    ),
    (
        lambda x: lax.reduce_sum(x, (0,), out_sharding=P(None, unreduced={"x"})),
        "unreduced axes should be in operand's specs",
    ),
    (
        lambda x: jnp.reshape(x, (16,), out_sharding=P(None, unreduced={"x"})),
        "out_sharding cannot contain unreduced",
    ),
    (
        lambda x: jnp.reshape(ones(R), (16,), out_sharding=P("x")),
        "must be reduced over the same mesh axes as operand",
    ),
]


@pytest.mark.parametrize("f, match", ERRORS, ids=range(len(ERRORS)))
def test_errors(mesh, f, match):
    with pytest.raises((ShardingTypeError, ValueError), match=match):
        jax.jit(f)(ones(P()))


def test_a_contraction_and_a_sum_give_parts(mesh):
    x, y = reshard(VALUE, P(None, "x")), reshard(VALUE, P("x"))
    f = jax.jit(lambda x, y: jnp.einsum("ab,bc->ac", x, y, out_sharding=U))
    assert "all-reduce" not in f.lower(x, y).compile().as_text()
    np.testing.assert_allclose(shards(f(x, y))[0], VALUE[:, :2] @ VALUE[:2])
    total = jax.jit(lambda y: lax.reduce_sum(y, (0,), out_sharding=P(None, unreduced={"x"})))(y)
    np.testing.assert_allclose(shards(total)[2], VALUE[2:].sum(0))


# Programs of weights w and data x, which is divided over "x".
PROGRAMS = [
    lambda w, x: jnp.tanh(x @ w),
    lambda w, x: x @ (jnp.sin(w) * w - w / 3),
    lambda w, x: x @ jnp.concatenate([w, w * 2], 1),
    lambda w, x: x @ lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + c, w),
    lambda w, x: x @ w.T.reshape(2, 8).reshape(4, 4),
    lambda w, x: x @ jnp.cumsum(w[::-1], 0),
    lambda w, x: x @ jax.remat(jnp.cos)(w),
    lambda w, x: x @ jnp.where(w > 1, w, w * 3),
    lambda w, x: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0],
    lambda w, x: x @ jnp.broadcast_to(w.sum(0) * w.mean(), (4, 4)),
    lambda w, x: x * reshard(w, P("x")),
]


@pytest.mark.parametrize("f", PROGRAMS, ids=range(len(PROGRAMS)))
def test_gradients_of_reduced_weights_are_parts(mesh, f):
    """The gradient is still to be summed over the axis of the data, and its sum is that of weights
    that are the same everywhere."""
    x = reshard(VALUE[::-1], P("x"))

    def loss(w, x):
        return (f(w, x) ** 2).sum()

    expected = jax.jit(jax.grad(loss))(reshard(VALUE, P()), x)
    found = jax.jit(jax.grad(loss))(reshard(VALUE, R), x)
    assert found.sharding.spec.unreduced == {"x"}
    np.testing.assert_allclose(reshard(found, P()), expected, rtol=2e-5, atol=1e-5)


def by_hand(f, **specs):
    return jax.jit(jax.shard_map(f, **specs))


def spec_of(x, y):
    """The spec in which each mesh axis has a role: it divides an axis, or is summed over."""
    roles = {"x": x, "y": y}
    dims = [tuple(name for name in roles if roles[name] == dim) or None for dim in (0, 1)]
    sums = {kind: {n for n in roles if roles[n] == kind} for kind in ("unreduced", "reduced")}
    return P(*dims, **sums)


ROLES = (None, 0, 1, "unreduced", "reduced")


@pytest.mark.parametrize("y", ROLES)
@pytest.mark.parametrize("x", ROLES)
def test_parts_and_the_whole_have_types_of_one_sharding(mesh, x, y):
    """What a function by hand is given and gives back has the type that it had, in whatever ways
    it is divided and summed. Within, no axis divides a part, and each is summed over as before."""
    spec = spec_of(x, y)
    value = reshard(VALUE, spec)
    within = []

    def f(part):
        within.append(jax.typeof(part))
        return part

    for check_vma in (True, False):
        g = by_hand(f, in_specs=spec, out_specs=spec, check_vma=check_vma)
        assert jax.typeof(value) in g.trace(value).jaxpr.out_avals, check_vma
    part, unchecked = within
    assert part.shape == tuple(4 // 2 ** (x, y).count(dim) for dim in (0, 1))
    assert not any(part.sharding.spec.partitions) and part.vma == {
        name for name, role in {"x": x, "y": y}.items() if role in (0, 1)
    }
    assert (part.unreduced, part.reduced) == (spec.unreduced, spec.reduced)
    assert unchecked.shape == part.shape
    assert not (unchecked.vma or unchecked.unreduced or unchecked.reduced)
    np.testing.assert_array_equal(reshard(g(value), P()), VALUE)


def test_casts_and_collectives_by_hand(mesh):
    x = reshard(VALUE, P("x"))
    steps = []

    def f(x):
        for g in (
            lambda x: lax.pcast(x, "x", to="unreduced"),
            lambda x: lax.psum(x, "x"),
            lambda x: lax.pcast(x, "x", to="reduced"),
            lambda x: lax.pcast(x, "x", to="varying"),
            lambda x: lax.all_gather(x, "x", tiled=True, to="reduced"),
        ):
            x = g(x)
            steps.append(str(jax.typeof(x)))
        return x

    out = by_hand(f, out_specs=R)(x)
    assert steps == [
        "float32[2,4]{U:x}",
        "float32[2,4]",
        "float32[2,4]{R:x}",
        "float32[2,4]{V:x}",
        "float32[4,4]{R:x}",
    ]
    np.testing.assert_allclose(out, np.concatenate([VALUE[:2] + VALUE[2:]] * 2))
    scattered = by_hand(lambda u: lax.psum_scatter(u, "x", tiled=True), out_specs=P("x"))
    np.testing.assert_allclose(scattered(reshard(x, U)), VALUE)
    for call, match in [
        (lambda x: lax.pcast(lax.psum(x, "x"), "x", to="unreduced"), "Varying->Unreduced"),
        (
            lambda x: lax.pcast(lax.pcast(x, "x", to="unreduced"), "x", to="varying"),
            "from=unreduced, to='varying'",
        ),
        (lambda x: lax.pcast(x, ("x", "y"), to="reduced"), "input state: {'varying', 'invarying'}"),
    ]:
        with pytest.raises(ValueError, match=match):
            by_hand(call, out_specs=P())(x)
    with pytest.raises(ValueError, match="should be equal to the reduced present on the out_aval"):
        by_hand(lambda x: lax.psum(x, "x"), out_specs=R)(x)
    with pytest.raises(
        ValueError, match=r"(?s)does not match the specs of the input.*reduced={'x'}"
    ):
        by_hand(lambda x: x, in_specs=P(), out_specs=P())(reshard(VALUE, R))


@pytest.mark.parametrize("check_vma", [True, False])
def test_derivatives_by_hand(mesh, check_vma):
    """The cotangent of parts is the same everywhere, and that of a reduced value is parts."""
    x, w = reshard(VALUE, P("x")), VALUE[::-1].copy()

    def inner(x, w):
        return lax.psum(jnp.tanh(x @ w).sum(), "x") if check_vma else jnp.tanh(x @ w)

    f = jax.shard_map(
        inner, in_specs=(P("x"), R), out_specs=P() if check_vma else P("x"), check_vma=check_vma
    )
    found = jax.jit(jax.grad(lambda w: f(x, w).sum()))(reshard(w, R))
    assert found.sharding.spec.unreduced == {"x"}
    np.testing.assert_allclose(
        reshard(found, P()),
        jax.grad(lambda w: jnp.tanh(jnp.asarray(VALUE) @ w).sum())(w),
        rtol=1e-5,
    )
    scatter = jax.shard_map(
        lambda u: lax.psum_scatter(u, "x", tiled=True),
        in_specs=U,
        out_specs=P("x"),
        check_vma=check_vma,
    )
    g = jax.jit(jax.grad(lambda u: (scatter(u) * x).sum()))(reshard(VALUE, U))
    assert g.sharding.spec.reduced == {"x"}
    np.testing.assert_allclose(g, VALUE)


def test_a_derivative_within_the_function(mesh):
    """Its seed is one for all devices together."""

    def f(w):
        g = jax.grad(lambda w: (w * w).sum())(w)
        assert jax.typeof(g).mat.unreduced == {"x"}
        return lax.psum(g, "x")

    np.testing.assert_allclose(by_hand(f, out_specs=P())(reshard(VALUE, R)), 2 * VALUE)


def test_unreduced_and_reduced_are_over_explicit_axes_alone():
    mesh = jax.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=jax.devices()[:4])
    with pytest.raises(
        ValueError, match="Unreduced axes can only refer to mesh axes that is of type `Explicit`"
    ):
        NamedSharding(mesh, U)
    with pytest.raises(
        ValueError, match="unreduced and reduced axes can only be used when the mesh"
    ):
        jax.shard_map(lambda x: x, mesh=mesh, in_specs=U, out_specs=P())(VALUE)
    with pytest.raises(
        NotImplementedError,
        match="unreduced.*can only be passed to in_specs when shard_map is in full manual mode",
    ):
        jax.shard_map(lambda x: x, mesh=mesh, in_specs=U, out_specs=P(), axis_names={"x"})(VALUE)


def test_parts_of_sums_print_without_their_values():
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    x = jax.device_put(np.ones((4, 2), np.float32), NamedSharding(mesh, P("y", unreduced={"x"})))
    said = f"Array(shape=(4, 2), dtype=float32, sharding={x.sharding})"
    assert repr(x) == str(x) == f"{x}" == said
    with pytest.raises(ValueError, match=r"still to be summed.*(?s:.*)jax.reshard"):
        np.asarray(x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.at[jnp.array([1, 1, 3])].get(),
        lambda x: lax.dynamic_slice(x, (1, 0), (3, 4)),
        lambda x: jnp.take_along_axis(x, jnp.zeros((1, 4), int), 0),
        lambda x: jnp.take(x, jnp.array([0, 0, 2]), axis=1),
        lambda x: x[1] ** 2,
        lambda x: jnp.pad(x, 1),
        lambda x: jnp.concatenate([x, x]),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2.0, x),
    ],
    ids=["gather", "dynamic_slice", "along_axis", "take", "index", "pad", "concatenate", "loop"],
)
def test_cotangents_of_reduced_operands_are_unreduced(f):
    values = np.arange(32, dtype=np.float32).reshape(8, 4)
    expected = jax.grad(lambda x: f(x).sum())(values)
    with jax.set_mesh(jax.make_mesh((2, 2), ("x", "y"))):
        x = jax.device_put(values, jax.P(None, None, reduced={"x"}))
        g = jax.jit(jax.grad(lambda x: f(x).sum()))(x)
        assert jax.typeof(g).sharding.spec == jax.P(None, None, unreduced={"x"})
        assert (np.asarray(jax.reshard(g, jax.P())) == expected).all()
