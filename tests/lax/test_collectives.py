"""Collectives over named axes: where they stand in programs.

Values, gradients and vmap alone: tests/optable.
"""

import numpy as np
import pytest
from optable.compare import assert_trees_close

import teucer as jax
import teucer.numpy as jnp
from teucer import lax


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def assert_close(got, expected, **options):
    """Trees of arrays are equal but for rounding; lists of numbers stand for arrays."""
    as_arrays = jax.tree.map(np.asarray, expected, is_leaf=lambda x: isinstance(x, list))
    assert_trees_close(got, as_arrays, **options)


X = np.linspace(-1.0, 2.0, 6).reshape(3, 2)
CUBE = np.linspace(-1.0, 2.0, 18).reshape(3, 3, 2)
WIDE = np.linspace(-1.0, 2.0, 36).reshape(3, 6, 2)
TURN = [(0, 1), (1, 2), (2, 0)]

COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), X),
    "pmean": (lambda x: lax.pmean(x, "i"), X),
    "all_gather": (lambda x: lax.all_gather(x, "i"), X),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True), X),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), CUBE),
    "psum_scatter tiled": (lambda x: lax.psum_scatter(x, "i", tiled=True), WIDE),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), CUBE),
    "all_to_all tiled": (lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), WIDE),
    "ppermute": (lambda x: lax.ppermute(x, "i", TURN), X),
    "ppermute of some": (lambda x: lax.ppermute(x, "i", TURN[:2]), X),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 1), X),
    "axis_index": (lambda x: x * lax.axis_index("i"), X),
    "normalised": (lambda x: (x - lax.pmean(x, "i")) / jnp.sqrt(lax.pmean(x * x, "i")), X),
}
each = pytest.mark.parametrize(("f", "x"), COLLECTIVES.values(), ids=COLLECTIVES)


def over(f):
    return jax.vmap(f, axis_name="i")


def loss(f):
    """A number that every element makes of what it gets, each of its own."""
    return lambda x: jnp.sum(jnp.sin(f(x)) * (1.0 + lax.axis_index("i")))


def total(f):
    """The sum of the numbers of all elements."""
    return lambda x: over(loss(f))(x).sum()


WRAPPED = {
    "jit": jax.jit,
    "jit in jit": lambda f: jax.jit(lambda x: jax.jit(f)(x)),
    "checkpoint": jax.checkpoint,
    "scan": lambda f: (
        lambda x: lax.scan(lambda c, _: (c + f(x), None), jnp.zeros_like(f(x)), None, length=1)[0]
    ),
    "scanned over": lambda f: lambda x: lax.map(f, x[None])[0],
    "fori_loop": lambda f: (
        lambda x: lax.fori_loop(0, 1, lambda i, c: c + f(x), jnp.zeros_like(f(x)))
    ),
    "cond": lambda f: (
        lambda x: lax.cond(lax.psum(1.0 + x[0] * 0, "i").sum() > 0, f, lambda x: 2 * f(x), x)
    ),
    "cond that differs": lambda f: (
        lambda x: lax.cond(lax.axis_index("i") > 0, f, lambda x: 1 * f(x), x)
    ),
    "custom_vjp": lambda f: _with_vjp(f),
    "custom_jvp": lambda f: _with_jvp(f),
    "inner vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x]))[1],
    "inner named vmap": lambda f: lambda x: jax.vmap(f, axis_name="j")(jnp.stack([x, x]))[1],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[0],
}


def _with_vjp(f):
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: jax.vjp(f, x), lambda pullback, ct: pullback(ct))
    return g


def _with_jvp(f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: jax.jvp(f, primals, tangents))
    return g


@each
@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_wrapped_in_the_map(f, x, wrap):
    """What stands around a collective in the mapped function changes neither its values nor its
    gradients."""
    assert_close(over(wrap(f))(x), over(f)(x))
    assert_close(over(jax.grad(loss(wrap(f))))(x), over(jax.grad(loss(f)))(x))


@each
def test_gradient_in_the_map_is_that_of_the_sum(f, x):
    """An element's cotangents reach all elements that it has heard from: the function
    differentiated is the sum of all."""
    expected = jax.grad(total(f))(x)
    assert_close(over(jax.grad(loss(f)))(x), expected)
    assert_close(jax.jit(over(jax.jit(jax.grad(loss(f)))))(x), expected)
    assert_close(jax.grad(lambda x: jax.jit(total(jax.jit(f)))(x))(x), expected)


@each
def test_tangents(f, x):
    """In the map and around it."""
    t = np.cos(x)
    y, dy = over(lambda x, t: jax.jvp(f, (x,), (t,)))(x, t)
    expected = jax.jvp(over(f), (x,), (t,))
    assert_close((y, dy), expected)
    h = 1e-6
    assert_close(dy, (over(f)(x + h * t) - over(f)(x - h * t)) / (2 * h), rtol=1e-6, atol=1e-6)


@each
def test_other_axes(f, x):
    """Another map, within or without, named or not, is a loop."""
    xs = np.stack([x, x + 1, x * x])
    expected = np.stack([over(f)(v) for v in xs])
    assert_close(jax.vmap(over(f))(xs), expected)
    assert_close(jax.vmap(over(f), axis_name="j")(xs), expected)
    assert_close(jax.vmap(jax.vmap(f), in_axes=1, out_axes=1, axis_name="i")(xs), expected)
    assert_close(
        jax.vmap(jax.vmap(f, axis_name="j"), in_axes=1, out_axes=1, axis_name="i")(xs), expected
    )
    assert_close(jax.vmap(f, in_axes=-1, axis_name="i")(np.moveaxis(x, 0, -1)), over(f)(x))


@each
def test_operand_alike_for_all(f, x):
    """An operand that is not batched is one whose elements are equal."""
    equal = np.broadcast_to(x[0], x.shape)
    assert_close(over(lambda _: f(x[0]))(np.zeros(3)), over(f)(equal))
    assert_close(over(lambda _: jax.jit(f)(x[0]))(np.zeros(3)), over(f)(equal))
    assert_close(
        over(lambda _: jax.grad(loss(f))(x[0]))(np.zeros(3)), over(jax.grad(loss(f)))(equal)
    )


@pytest.mark.parametrize(
    "rule", [_with_jvp, _with_vjp, jax.custom_batching.sequential_vmap], ids=["jvp", "vjp", "vmap"]
)
def test_custom_function_of_what_is_not_batched(rule):
    """A custom function may depend on the axis through collectives alone; what does not depend on
    it is not batched."""
    both = rule(lambda x: (x * lax.axis_index("i"), x + lax.psum(1.0, "i"), x + lax.psum(x, "i")))
    for f in (both, jax.jit(both)):
        assert_close(over(lambda _, f=f: f(2.0)[0])(np.zeros(3)), [0.0, 2.0, 4.0])
        for i, y in ((1, 5.0), (2, 8.0)):
            assert_close(
                jax.vmap(lambda _, f=f, i=i: f(jnp.float64(2.0))[i], axis_name="i", out_axes=None)(
                    np.zeros(3)
                ),
                y,
            )


def test_custom_vmap_along_a_name():
    """A named map over which nothing is batched leaves the rule to the map over which something
    is."""
    f = jax.custom_batching.custom_vmap(lambda x: (x, x + lax.axis_index("i")))
    f.def_vmap(lambda size, batched, x: ((10.0 * x, 10.0 * x + lax.axis_index("i")), (True, True)))
    y, z = jax.vmap(lambda x: over(lambda _: f(x))(np.zeros(3)))(np.arange(2.0))
    assert_close(y, [[0.0] * 3, [10.0] * 3])
    assert_close(z, [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])


def test_custom_rule_that_knows_of_the_axis():
    f = _with_vjp(lambda x: lax.psum(x, "i"))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (2 * lax.pmean(ct, "i") + lax.axis_index("i"),))
    expected = np.broadcast_to(np.arange(2.0, 5.0)[:, None], (3, 2))
    assert_close(over(jax.grad(lambda x: f(x).sum()))(X), expected)
    assert_close(jax.grad(lambda x: over(f)(x).sum())(X), expected)
    assert_close(jax.jit(jax.grad(lambda x: over(f)(x).sum()))(X), expected)
    assert_close(over(lambda _: jax.grad(f)(1.0))(np.zeros(3)), [2.0, 3.0, 4.0])


def test_control_flow_of_what_is_not_batched():
    """A loop or branch whose operands are all alike may yet depend on the axis."""
    zeros = np.zeros(3)
    assert_close(
        over(lambda _: lax.fori_loop(0, 3, lambda i, c: c + lax.axis_index("i"), 0))(zeros),
        [0, 3, 6],
    )
    assert_close(
        over(lambda _: lax.while_loop(lambda c: c < 10, lambda c: c + lax.axis_index("i") + 1, 0))(
            zeros
        ),
        [10, 10, 12],
    )
    assert_close(
        over(lambda _: lax.cond(True, lambda: lax.axis_index("i"), lambda: np.int32(7)))(zeros),
        [0, 1, 2],
    )
    assert_close(over(lambda _: jax.checkpoint(lambda: lax.axis_index("i"))())(zeros), [0, 1, 2])
    assert_close(over(lambda _: jax.jit(lambda: lax.axis_index("i"))())(zeros), [0, 1, 2])
    assert_close(
        over(
            lambda x: lax.while_loop(
                lambda c: lax.psum(c, "i") < 50, lambda c: c + lax.pmax(c, "i"), x
            )
        )(np.arange(3.0)),
        [30.0, 31.0, 32.0],
    )
    assert_close(
        over(
            lambda x: lax.switch(
                lax.axis_index("i"), [lambda x: x, lambda x: lax.psum(x, "i"), lambda x: -x], x
            )
        )(np.arange(3.0)),
        [0.0, 3.0, -2.0],
    )


def test_sum_of_a_constant_is_known():
    """As a Python number, so that it can be a size."""
    found = []

    def f(x):
        found[:] = [
            lax.psum(1, "i"),
            lax.psum(2.5, "i"),
            lax.pmean(1, "i"),
            lax.axis_size("i"),
            lax.axis_size(("i", "j")),
            lax.psum(2, ("i", "j")),
            lax.psum(np.float32(3), "j"),
        ]
        return x + jnp.zeros(lax.psum(1, "i"))

    jax.vmap(jax.vmap(f, axis_name="j"), axis_name="i")(X)
    assert found == [3, 7.5, 1.0, 3, 6, 12, 6.0]
    assert [type(x) for x in found] == [int, float, float, int, int, int, np.float32]


def test_trees_booleans_and_weak_types():
    got = over(lambda x: lax.psum({"a": x, "b": (x > 0, 2)}, "i"))(X)
    assert_close(
        got,
        {
            "a": np.broadcast_to(X.sum(0), X.shape),
            "b": (np.broadcast_to((X > 0).sum(0), X.shape), [6, 6, 6]),
        },
    )
    assert got["b"][0].dtype == np.int32
    assert got["b"][1].weak_type
    assert jax.vmap(lambda _, y: lax.psum(y, "i"), (0, None), None, axis_name="i")(
        X, jnp.asarray(2.0)
    ).weak_type
    assert_close(over(lambda x: lax.pmean(x, "i"))(np.arange(3)), [1.0] * 3)
    assert over(lambda x: lax.pmean(x, "i"))(np.arange(3, dtype=np.int8)).dtype == np.float32


def test_positions_are_axes_of_the_array():
    assert_close(lax.psum(X, 0), X.sum(0))
    assert_close(lax.pmax(X, (0, 1)), X.max())
    assert_close(over(lambda x: lax.psum(x, ("i", 0)))(X), [X.sum()] * 3)
    assert_close(jax.grad(lambda x: lax.psum(x, (0, 1)))(X), np.ones_like(X))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        lax.psum(X, 2)


def test_the_nearest_axis_of_a_name():
    assert_close(
        over(over(lambda x: lax.psum(x, "i")))(X), np.broadcast_to(X.sum(1, keepdims=True), X.shape)
    )


def test_program_is_traced_for_each_size():
    f = jax.jit(lambda x: lax.psum(x, "i") * lax.axis_size("i"))
    assert_close(over(f)(np.ones(3)), [9.0] * 3)
    assert_close(over(f)(np.ones(5)), [25.0] * 5)
    with pytest.raises(NameError, match="unbound axis name: i"):
        f(1.0)


def test_typed_keys():
    keys = jax.random.split(jax.random.key(0), 3)
    data = np.asarray(jax.random.key_data(keys))
    assert_close(
        jax.random.key_data(over(lambda k: lax.ppermute(k, "i", TURN))(keys)), data[[2, 0, 1]]
    )
    assert_close(
        jax.random.key_data(over(lambda k: lax.all_gather(k, "i"))(keys)),
        np.broadcast_to(data, (3, 3, 2)),
    )
    folded = over(lambda _: jax.random.fold_in(jax.random.key(7), lax.axis_index("i")))(np.zeros(3))
    assert_close(
        jax.random.key_data(folded[2]),
        jax.random.key_data(jax.random.fold_in(jax.random.key(7), 2)),
    )
    with pytest.raises(TypeError, match="does not accept dtype key"):
        over(lambda k: lax.psum(k, "i"))(keys)


def test_jaxpr():
    jaxpr = jax.make_jaxpr(
        lambda x: (lax.pmean(x, "i"), lax.all_gather(x, "i", tiled=True)), axis_env=[("i", 3)]
    )(X[0])
    assert (
        str(jaxpr)
        == """\
{ lambda ; a:f64[2]. let
    b:f64[2] = psum[axes=('i',) axis_index_groups=None] a
    c:f64[2] = div b 3.0:f64[]
    d:f64[6] = all_gather[
      all_gather_dimension=0
      axis_index_groups=None
      axis_name=('i',)
      axis_size=3
      tiled=True
    ] a
  in (c, d) }"""
    )
    gathered, mean = over(lambda x: jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, x)[::-1])(X)
    assert_close(mean, np.broadcast_to(X.mean(0), X.shape))
    assert_close(gathered, np.broadcast_to(X.reshape(-1), (3, 6)))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: lax.psum(x, "k"),
        lambda x: lax.pmean(x, "k"),
        lambda x: lax.pmax(x, "k"),
        lambda x: lax.axis_index("k"),
        lambda x: lax.axis_size("k"),
        lambda x: lax.all_gather(x, "k"),
        lambda x: lax.ppermute(x, "k", TURN),
        lambda x: lax.psum_scatter(x, "k"),
        lambda x: lax.all_to_all(x, "k", 0, 0),
        lambda x: lax.pbroadcast(x, "k", 0),
    ],
)
def test_unbound_name(call):
    for mapped in (
        call,
        jax.jit(call),
        over(call),
        over(jax.jit(call)),
        jax.vmap(call),
        jax.vmap(call, axis_name="j"),
    ):
        with pytest.raises(NameError, match="unbound axis name: k"):
            mapped(X)


def test_map_without_a_name():
    with pytest.raises(NameError, match="unbound axis name: None"):
        jax.vmap(lambda x: lax.psum(x, None))(X)


REFUSED = {
    "psum of a str": (
        lambda x: lax.psum("a", "i"),
        TypeError,
        "psum: Argument 'a' of type <class 'str'> is not a valid JAX type",
    ),
    "a name twice": (
        lambda x: lax.psum(x, ("i", "i")),
        ValueError,
        "duplicate value in 'axes' of reduction",
    ),
    "groups that differ": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 1], [2]]),
        ValueError,
        (
            r"must all be the same size, got \(\(0, 1\), \(2,\)\).*(?s:.*)Only psum, pmean, pmax "
            r"and pmin"
        ),
    ),
    "groups that overlap": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [1, 2]]),
        ValueError,
        "cover all indices",
    ),
    "groups that leave out": (
        lambda x: lax.pmax(x, "i", axis_index_groups=[[0, 1]]),
        ValueError,
        "cover all indices exactly once",
    ),
    "groups with positions": (
        lambda x: lax.psum(x, ("i", 0), axis_index_groups=[[0, 1, 2]]),
        ValueError,
        "just named axes",
    ),
    "two sources": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]),
        ValueError,
        r"must be unique",
    ),
    "two targets": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]),
        ValueError,
        r"must be unique",
    ),
    "no such element": (
        lambda x: lax.ppermute(x, "i", [(0, 7)]),
        ValueError,
        r"elements of the axis.*size 3",
    ),
    "no such source": (
        lambda x: lax.pbroadcast(x, "i", 3),
        ValueError,
        r"source must be an element.*got 3",
    ),
    "no permutation": (
        lambda x: lax.pshuffle(x, "i", [2, 0, 0]),
        ValueError,
        "does not represent a permutation",
    ),
    "permutation of fewer": (lambda x: lax.pshuffle(x, "i", [1, 0]), ValueError, "whose size is 3"),
    "axis": (lambda x: lax.all_gather(x, "i", axis=5), ValueError, "axis 5 is out of bounds"),
    "to": (lambda x: lax.all_gather(x, "i", to="x"), ValueError, "unexpected `to` value"),
    "pmax differentiated": (
        jax.grad(lambda x: lax.pmax(x, "i").sum()),
        NotImplementedError,
        "rule for 'pmax'",
    ),
    "computed at once": (
        lambda x: _now(lambda: lax.psum(jnp.ones(2), "i")),
        NotImplementedError,
        "psum: a collective over",
    ),
}


def _now(f):
    with jax.ensure_compile_time_eval():
        return f()


@pytest.mark.parametrize(("f", "error", "match"), REFUSED.values(), ids=REFUSED)
def test_refused(f, error, match):
    with pytest.raises(error, match=match):
        over(f)(X)


def test_custom_rule_at_odds_with_its_function():
    f = jax.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primals[0] * lax.axis_index("i"), tangents[0]))
    with pytest.raises(
        ValueError, match="a custom derivative rule gives a result that differs along the axis i"
    ):
        jax.grad(
            jax.jit(
                lambda y: jax.vmap(lambda _: jax.jit(f)(y), axis_name="i", out_axes=None)(
                    np.zeros(3)
                )
            )
        )(1.0)
