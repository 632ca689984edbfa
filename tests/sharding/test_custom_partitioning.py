"""Functions whose division among devices is said by hand, and the rules of Shardy."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.primitive import MissingRule
from teucer._sharding.sharding_rule import parse_rule
from teucer.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from teucer.sharding import AxisType, NamedSharding

P = jax.P


def rng(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def as_given(lower_fn):
    """A `partition` by which everything lies as it was found."""

    def partition(mesh, args, result):
        return (
            mesh,
            lower_fn,
            jax.tree.map(lambda s: s.sharding, result),
            jax.tree.map(lambda s: s.sharding, args),
        )

    return partition


def partitioned(fun, partition, rule, **options):
    f = custom_partitioning(fun)
    f.def_partition(partition, sharding_rule=rule, **options)
    return f


# --- Rules ----------------------------------------------------------------------------------------


# Texts are those of JAX 0.10.2 for the same rules and shapes, less the operation around them.
@pytest.mark.parametrize(
    ("rule", "operands", "results", "options", "expected"),
    [
        (
            "i j, j k -> i k",
            [(8, 16), (16, 4)],
            [(8, 4)],
            {"reduction_factors": ("j",)},
            "<([i, j], [j, k])->([i, k]) {i=8, j=16, k=4} reduction={j}, custom>",
        ),
        (
            "i j -> (i j)",
            [(8, 16)],
            [(128,)],
            {"need_replication_factors": ("i",), "permutation_factors": ("j",)},
            "<([i, j])->([ij]) {i=8, j=16} need_replication={i} permutation={j}, custom>",
        ),
        (
            "(i k) j, (i k j) -> (i k j)",
            [(4, 2), (8,)],
            [(8,)],
            {"i": 2, "k": 2, "need_replication_factors": ("k",)},
            "<([ij, k], [ijk])->([ijk]) {i=2, j=2, k=2} need_replication={j}, custom>",
        ),
        (
            "... i, ... j -> ... j",
            [(4, 2, 8)] * 2,
            [(4, 2, 8)],
            {"reduction_factors": ("i",)},
            "<([i, j, k], [i, j, l])->([i, j, l]) {i=4, j=2, k=8, l=8} reduction={k}, custom>",
        ),
        ("...i -> ...i", [(8,)], [(8,)], {}, "<([i])->([i]) {i=8}, custom>"),
        (
            "...0 i, ...1 i -> ...0 i",
            [(4, 2, 8), (3, 8)],
            [(4, 2, 8)],
            {},
            "<([i, j, k], [l, k])->([i, j, k]) {i=4, j=2, k=8, l=3}, custom>",
        ),
        ("->", [()], [()], {}, "<([])->([]), custom>"),
        (
            "i j, i j -> i j",
            [(16, 16), (16, 32)],
            [(16, 8)],
            {},
            "<([i, j], [i, j])->([i, j]) {i=16, j=8}, custom>",
        ),
        (
            " ".join(f"f{n}" for n in range(20)) + " -> ",
            [(1,) * 20],
            [()],
            {},
            f"<([{', '.join([*'ijklmnopqrstuvwxyz', 'z_1', 'z_2'])}])->([]) "
            f"{{{', '.join(f'{c}=1' for c in [*'ijklmnopqrstuvwxyz', 'z_1', 'z_2'])}}}, custom>",
        ),
    ],
)
def test_rule_as_text(rule, operands, results, options, expected):
    assert parse_rule(rule, **options).text(operands, results) == f"#sdy.op_sharding_rule{expected}"


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (".i -> j", {}, "must be used inside ellipsis"),
        ("2i -> j", {}, "have to start with a letter, but got '2'"),
        ("i", {}, "There is no -> in rule: 'i'"),
        ("i->j->k", {}, "There is no -> in rule"),
        ("i j)->j", {}, "not balanced"),
        ("i (j k->j", {}, "not balanced"),
        ("i (j ) k->j", {}, "at least two factors"),
        ("(j (k i))->j", {}, "should be one level"),
        ("i; j->j", {}, "Unknown character ';'"),
        ("i ... -> j", {}, "only be used at the beginning"),
        ("i, (..., j) -> j", {}, "only be used at the beginning"),
        ("(i j) -> i", {}, "Factor j is only used in compound factors"),
        ("i -> j", {"k": 10}, "Factor k is not used"),
        ("i -> j", {"i": 10}, "Factor i represents a whole dimension"),
        ("i -> j", {"reduction_factors": ("k",)}, "Factor k in reduction_factors is not used"),
        ("i -> j", {"permutation_factors": 3}, "permutation_factors must be a tuple of factors"),
        (
            "i -> j",
            {"reduction_factors": ("i", "i")},
            "reduction_factors contains duplicated factors",
        ),
        (
            "i -> j",
            {"reduction_factors": ("i",), "need_replication_factors": ("i",)},
            "can only be in one of",
        ),
    ],
)
def test_bad_rules(rule, options, message):
    with pytest.raises(ValueError, match=message):
        parse_rule(rule, **options)


@pytest.mark.parametrize(
    ("rule", "operands", "results", "message"),
    [
        ("i, i -> i", [(2,)], [(2,)], "rule has 2 operands, but the operation has 1 operands"),
        ("i -> i", [(2,)], [(2,), (2,)], "rule has 1 results, but the operation has 2 results"),
        (
            "... i -> ... i",
            [()],
            [()],
            "0th operand has rank 1, but the operation 0th operand has rank 0",
        ),
        ("i j -> (i j)", [(2, 4)], [(9,)], "0th result actual size 9 doesn't match the size 8"),
        (
            "..., ... -> ...",
            [(2, 4), (2, 4)],
            [(2, 8)],
            "Batching dimension 0_1 corresponds to two sizes: 4 and 8",
        ),
    ],
)
def test_rules_that_do_not_fit(rule, operands, results, message):
    with pytest.raises(ValueError, match=message):
        parse_rule(rule).text(operands, results)


def test_parts_of_rules():
    assert (
        str(ArrayMapping(f"{BATCHING}2", "m", CompoundFactor("i", "j"), "k"))
        == f"('{BATCHING}2', 'm', ('i', 'j'), 'k')"
    )
    for make, message in (
        (lambda: CompoundFactor("i"), "at least two"),
        (lambda: CompoundFactor(BATCHING, "i"), "Ellipsis can't"),
        (lambda: CompoundFactor("i", 2), "must be a str"),
        (lambda: ArrayMapping(3), "str or CompoundFactor"),
        (lambda: ArrayMapping("i", BATCHING), "at the beginning"),
        (lambda: ArrayMapping(""), "start with a letter"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="rule must be a str"):
        parse_rule(1)
    with pytest.raises(TypeError, match="dict of str to int"):
        parse_rule("i -> j", i="j")
    with pytest.raises(ValueError, match="Unknown keyword arguments"):
        custom_partitioning(jnp.sin).def_partition(
            as_given(jnp.sin),
            sharding_rule=SdyShardingRule((("i",),), (("i",),)),
            reduction_factors=("i",),
        )


# --- Calls ----------------------------------------------------------------------------------------


def test_partition_is_given_what_was_found(mesh):
    seen = []

    def partition(mesh, args, result):
        seen.append((mesh, args, result))
        return as_given(jnp.sin)(mesh, args, result)

    f = partitioned(jnp.sin, partition, "i j -> i j")
    x = jax.device_put(rng(8, 4), NamedSharding(mesh, P("x", "y")))
    y = jax.jit(lambda x: f(x) + 1)(x)
    np.testing.assert_allclose(y, np.sin(rng(8, 4)) + 1, rtol=1e-6)
    assert y.sharding.spec == P("x", "y")
    ((where, (arg,), result),) = seen
    assert where == mesh
    for struct in (arg, result):
        assert (struct.shape, struct.dtype, struct.sharding) == (
            (8, 4),
            np.float32,
            NamedSharding(mesh, P("x", "y")),
        )


def test_collectives_over_named_axes(mesh):
    """A product whose contracted axis is divided, with a sum by hand, and two results."""

    def partition(precision, mesh, args, result):
        assert precision == "a static value"

        def lower_fn(x, y):
            z = lax.psum(x @ y, "y")
            return z, z * lax.axis_size("y")

        rows, whole = (NamedSharding(mesh, P(*spec)) for spec in (("x", None), ("y", None)))
        return mesh, lower_fn, (rows, rows), (NamedSharding(mesh, P("x", "y")), whole)

    def product(x, y, precision):
        return x @ y, (x @ y) * 2

    f = custom_partitioning(product, static_argnums=2)
    f.def_partition(partition, sharding_rule="i j, j k -> i k, i k", reduction_factors=("j",))
    x, y = rng(8, 4), rng(4, 6)
    args = [
        jax.device_put(v, NamedSharding(mesh, P(*s))) for v, s in ((x, ("x", "y")), (y, ("y",)))
    ]
    compiled = jax.jit(f, static_argnums=2).lower(*args, "a static value").compile()
    z, twice = compiled(*args)
    np.testing.assert_allclose(z, x @ y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(twice, 2 * (x @ y), rtol=1e-5, atol=1e-5)
    assert z.sharding.spec == P("x", None) or z.sharding.spec == P("x")
    assert compiled.as_text().count(" all-reduce(") == 1


def test_arguments_and_results_are_trees(mesh):
    f = partitioned(
        lambda p: {"sum": p["a"] + p["b"][0]},
        as_given(lambda p: {"sum": p["a"] + p["b"][0]}),
        "i, i -> i",
    )
    x = jax.device_put(rng(8), NamedSharding(mesh, P("x")))
    np.testing.assert_allclose(jax.jit(f)({"a": x, "b": [x]})["sum"], 2 * rng(8), rtol=1e-6)


def test_what_lies_otherwise_is_moved(mesh):
    """`partition` asks for whole arguments, and gives a divided result."""

    def partition(mesh, args, result):
        return (
            mesh,
            lambda x: lax.dynamic_slice(x, (2 * lax.axis_index("x"),), (2,)),
            NamedSharding(mesh, P("x")),
            (NamedSharding(mesh, P(None)),),
        )

    f = partitioned(lambda x: x, partition, "i -> i")
    x = jax.device_put(rng(8), NamedSharding(mesh, P("y")))
    np.testing.assert_array_equal(jax.jit(f)(x), rng(8))


def test_rule_may_be_a_function(mesh):
    asked = []

    def rule(mesh, operands, results):
        asked.append((mesh.shape, operands, results))
        return f"{' '.join('ab'[: len(operands[0].shape)])} -> b", {"reduction_factors": ("a",)}

    def partition(mesh, args, result):
        return (
            mesh,
            lambda x: lax.psum(x.sum(0), "x"),
            NamedSharding(mesh, P("y")),
            (NamedSharding(mesh, P("x", "y")),),
        )

    f = partitioned(lambda x: x.sum(0), partition, rule)
    x = jax.device_put(rng(8, 4), NamedSharding(mesh, P("x", "y")))
    np.testing.assert_allclose(jax.jit(f)(x), rng(8, 4).sum(0), rtol=1e-5)
    (shape, (operand,), (result,)) = asked[0]
    assert (shape, operand.shape, result.shape) == (mesh.shape, (8, 4), (4,))


@pytest.mark.parametrize("axis_names", [("x", "y"), ("x",)])
def test_in_shard_map(mesh, axis_names):
    """Over all axes the function is as it is; over some, `partition` speaks of the others."""
    seen = []

    def partition(mesh, args, result):
        seen.append(mesh.shape)
        return as_given(jnp.sin)(mesh, args, result)

    f = partitioned(jnp.sin, partition, "i j -> i j")
    spec = P(*axis_names)
    g = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=set(axis_names))
    x = jax.device_put(rng(8, 4), NamedSharding(mesh, P("x", "y")))
    np.testing.assert_allclose(jax.jit(g)(x), np.sin(rng(8, 4)), rtol=1e-6)
    assert [dict(shape) for shape in seen] == ([] if len(axis_names) == 2 else [{"y": 2}])


def test_on_one_device_and_eagerly():
    f = partitioned(jnp.sin, None, "i -> i")
    f.partition = as_given(jnp.sin)
    for call in (f, jax.jit(f)):
        np.testing.assert_allclose(call(rng(4)), np.sin(rng(4)), rtol=1e-6)
    assert "custom_partitioning" in str(jax.make_jaxpr(f)(rng(4)))


def test_over_explicit_axes():
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    f = partitioned(jnp.sin, as_given(jnp.sin), "i j -> i j")
    with jax.set_mesh(mesh):
        x = jax.device_put(rng(8, 4), P("x", "y"))
        assert str(jax.typeof(jax.jit(f)(x))) == "float32[8@x,4@y]"


def test_equal_calls_are_compiled_once_and_others_apart(mesh):
    """What Python functions do is no part of the text that programs are found by: names of calls
    are."""
    asked = []

    def made(factor):
        def partition(mesh, args, result):
            asked.append(factor)
            return as_given(lambda x: x * factor)(mesh, args, result)

        return partitioned(lambda x: x * factor, partition, "i -> i")

    two, three = made(2.0), made(3.0)
    x = jax.device_put(rng(8), NamedSharding(mesh, P("x")))
    for f, factor in ((two, 2), (three, 3), (two, 2)):
        np.testing.assert_allclose(jax.jit(lambda x, f=f: f(x))(x), factor * rng(8), rtol=1e-6)
    assert asked in ([2.0, 3.0], [2.0, 3.0, 2.0])


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (as_given(lambda x: (x, x)), "Mismatch in result shapes"),
        (as_given(lambda x: x.astype(jnp.float16)), "Mismatch in result"),
        (
            lambda mesh, args, result: (mesh, jnp.sin, None, (None,)),
            "must return Shardings as arg_shardings, got None",
        ),
        (
            lambda mesh, args, result: (mesh, jnp.sin, result.sharding, args[0].sharding),
            "arg_shardings .* of another structure",
        ),
        (lambda mesh, args, result: 3, "partition returns .mesh, lower_fn"),
        (
            lambda mesh, args, result: (
                jax.make_mesh((2,), ("x",)),
                jnp.sin,
                result.sharding,
                (args[0].sharding,),
            ),
            "not over the devices",
        ),
        (as_given(lambda x: (jax.debug.print("{}", x), x)[1]), "calls Python while it runs"),
    ],
)
def test_errors_in_partition(mesh, partition, message):
    f = partitioned(jnp.sin, partition, "i -> i")
    with pytest.raises(Exception, match=message) as caught:
        jax.jit(f)(jax.device_put(rng(8), NamedSharding(mesh, P("x"))))
    assert caught.value.__cause__ is not None


def test_what_is_refused(mesh):
    x = jax.device_put(rng(8), NamedSharding(mesh, P("x")))
    f = custom_partitioning(jnp.sin)
    with pytest.raises(
        AttributeError, match=r"(?s)nobody has said how sin is divided.*def_partition"
    ):
        f(x)
    f.def_partition(
        as_given(jnp.sin), infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding
    )
    with pytest.raises(NotImplementedError, match="provide sharding_rule to migrate to Shardy"):
        jax.jit(f)(x)
    f.def_partition(as_given(jnp.sin), sharding_rule="i -> i")
    with pytest.raises(MissingRule, match="Differentiation rule for 'custom_partitioning'"):
        jax.grad(lambda x: f(x).sum())(x)
    with pytest.raises(MissingRule, match="Batching rule .* for 'custom_partitioning'"):
        jax.vmap(f)(x[None])
    g = partitioned(lambda x, *, k: x * k, as_given(lambda x: x), "i -> i")
    with pytest.raises(TypeError, match="keyword arguments could not be resolved to positions"):
        g(x, k=2.0)
    h = custom_partitioning(lambda x, n: x, static_argnums=1)
    h.def_partition(as_given(lambda x: x), sharding_rule="i -> i")
    with pytest.raises(TypeError, match="static argument of .* is not hashable"):
        h(x, [])
    with pytest.raises(ValueError, match="closes over a value that is traced outside"):
        jax.jit(lambda x, y: partitioned(lambda x: x * y, as_given(lambda x: x), "i -> i")(x))(x, x)
    keys = jax.device_put(jax.random.split(jax.random.key(0), 8), NamedSharding(mesh, P("x")))
    with pytest.raises(NotImplementedError, match="not of keys"):
        jax.jit(partitioned(lambda k: k, as_given(lambda k: k), "i -> i"))(keys)
