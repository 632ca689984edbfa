"""jet: series of functions against nested derivatives."""

import math

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer.experimental import jet as jet_module
from teucer.experimental.jet import fact, jet, zero_series

X = np.array([0.3, 0.7, 0.2])
TERMS = [np.array([1.0, 0.5, -0.3]), np.array([0.2, -1, 0.4]), np.array([0.1, 0.3, 0.2])]
W = np.random.default_rng(0).normal(size=(3, 3))
FUNCTIONS = {
    "sin": jnp.sin,
    "exp": jnp.exp,
    "tanh": jnp.tanh,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "erf": lax.erf,
    "lgamma": lax.lgamma,
    "quotient": lambda x: x / (1 + x * x),
    "power": lambda x: x**2.5,
    "cube": lambda x: x**3,
    "atan2": lambda x: jnp.arctan2(x, x + 1),
    "layer": lambda x: jnp.tanh(W @ x) @ x,
    "softmax": jax.nn.softmax,
    "gelu": jax.nn.gelu,
    "relu": lambda x: jax.nn.relu(x - 0.25),
    "max": lambda x: jnp.maximum(x, 0.4),
    "where": lambda x: jnp.where(x > 0.25, x**2, jnp.sin(x)),
    "sort": jnp.sort,
    "index": lambda x: x[1] * x[jnp.array([0, 2])],
    "update": lambda x: jnp.asarray(x).at[1].add(x[0] * x[2]),
    "cumprod": jnp.cumprod,
    "unstack": lambda x: sum(
        a * b
        for a, b in zip(
            lax.unstack(jnp.stack([x, x * x])), jnp.split(jnp.tile(x, 2), 2), strict=True
        )
    ),
    "norm": jnp.linalg.norm,
    "inverse": lambda x: jnp.linalg.inv(jnp.diag(x) + W),
    "jit": jax.jit(lambda x: jnp.sin(x) * x),
    "scan": lambda x: lax.scan(lambda c, v: (jnp.sin(c) * v + c, c * v), 1.0, x)[1],
    "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "python": lambda x: jnp.sin(x) if x[0] > 0 else x,
    "while": lambda x: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1]) * 2), (0, x)
    )[1],
    "complex": lambda x: jnp.abs(jnp.fft.fft(x * (1 + 2j))),
}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def by_nesting(f, x, terms):
    """The derivatives at 0 of f along the curve."""
    g = lambda t: f(x + sum(c * t ** (k + 1) / math.factorial(k + 1) for k, c in enumerate(terms)))
    outs = []
    for _ in terms:
        g = (lambda g: lambda t: jax.jvp(g, (t,), (1.0,))[1])(g)
        outs.append(g(0.0))
    return outs


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_terms_are_derivatives_along_the_curve(name):
    f = FUNCTIONS[name]
    y, found = jet(f, (X,), (TERMS,))
    np.testing.assert_allclose(y, f(X))
    for ours, theirs in zip(found, by_nesting(f, X, TERMS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)
    _, coefficients = jet(
        f, (X,), ([t / math.factorial(k + 1) for k, t in enumerate(TERMS)],), factorial_scaled=False
    )
    np.testing.assert_allclose(coefficients[2] * 6, found[2], rtol=1e-12)


def test_several_arguments_and_results():
    y, terms = jet(
        lambda a, b: {"product": a * b, "sign": a > 0, "constant": 3.0},
        (1.0, 2.0),
        ((1.0, 0.0), (0.5, 4.0)),
    )
    assert y["product"] == 2 and y["sign"] and y["constant"] == 3
    assert (
        terms["product"] == [2.5, 5.0]
        and terms["sign"] == [0.0, 0.0]
        and terms["constant"] == [0.0, 0.0]
    )
    assert jet(jnp.sin, (1.0,), ((),))[1] == []
    still = jet(lambda a, b: a * b.sum(), (2.0, np.ones(3)), ([1.0], zero_series))
    assert still[1] == [3.0] and fact(4) == 24
    assert jet(lambda x: x, (1,), ((1, 0),))[1] == [1.0, 0.0]
    half = jet(jnp.sin, (np.float16(1),), ((1.0, 0.0),))
    assert half[0].dtype == np.float16 and half[1][1].dtype == np.float16


@pytest.mark.parametrize("f", [jnp.sin, jnp.sqrt, lambda x: x * x, lambda x: 2.0])
@pytest.mark.parametrize("x", [0.5, np.float32(0.5), np.float32([0.5, 1.0])])
def test_derivatives_are_weakly_typed_as_their_function_is(f, x):
    value, terms = jet(f, (x,), ((np.ones_like(x), np.zeros_like(x)),))
    assert [jax.typeof(t).weak_type for t in terms] == [jax.typeof(value).weak_type] * 2
    assert all(jax.typeof(t).dtype == jax.typeof(value).dtype for t in terms)


def test_transformations():
    second = lambda x: jet(jnp.sin, (x,), ((1.0, 0.0),))[1][1]
    assert jax.jit(second)(1.0) == pytest.approx(-math.sin(1))
    assert jax.grad(second)(1.0) == pytest.approx(-math.cos(1))
    np.testing.assert_allclose(jax.vmap(second)(X), -np.sin(X))


def test_high_orders_take_polynomial_time():
    """Each term of exp costs as much as those before: equations grow as the square of the order,
    not as its power of two."""

    def equations(order):
        return len(
            jax.make_jaxpr(lambda x: jet(jnp.exp, (x,), ([1.0] + [0.0] * (order - 1),)))(
                0.3
            ).jaxpr.eqns
        )

    assert equations(12) < 8 * equations(6)
    _, terms = jet(jnp.exp, (0.0,), ([1.0] + [0.0] * 11,))
    np.testing.assert_allclose(terms, np.ones(12), rtol=1e-12)


@pytest.mark.parametrize(
    ("primals", "series", "match"),
    [
        ((1.0, 2.0), ((1.0,), (1.0, 2.0)), "inconsistent lengths"),
        (([1.0],), ((1.0,),), "primal value at position 0 is not an array"),
        ((1.0,), (([1.0],),), "term at position 0 is not an array"),
        ((1.0, 2.0), ((1.0,),), "2 primal values and 1 series"),
    ],
)
def test_mistakes(primals, series, match):
    with pytest.raises(ValueError, match=match):
        jet(lambda *xs: xs[0], primals, series)


def _primitive(name, impl):
    prim = jax.extend.core.Primitive(name)
    prim.def_impl(impl)
    prim.def_abstract_eval(lambda x: x)
    return prim


@pytest.fixture
def rules():
    """The table of rules, which is left as it was."""
    yield jet_module.jet_rules
    for prim in list(jet_module.jet_rules):
        del jet_module.jet_rules[prim]


SERIES = (3.0,), ([1.0, 5.0, 7.0],)


def test_rules_of_a_primitive_of_the_user(rules):
    """Each way to say that a primitive is the sine gives the series of the sine."""
    expected = jet(jnp.sin, *SERIES)
    prims = [_primitive(f"sine{i}", jnp.sin) for i in range(3)]
    jet_module.def_deriv(prims[0], jnp.cos)
    jet_module.def_comp(prims[1], jnp.sin)
    rules[prims[2]] = lambda xs, series: rules[jax.lax.sin_p](xs, series, accuracy=None)
    for prim in prims:
        assert prim in rules
        got = jet(lambda x, prim=prim: prim.bind(x), *SERIES)
        np.testing.assert_allclose(got[0], expected[0], rtol=1e-6)
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-5)
        got = jet_module.jet2(prim.bind, *SERIES)
        np.testing.assert_allclose(got[1], jet_module.jet2(jnp.sin, *SERIES)[1], rtol=1e-5)
    with pytest.raises(KeyError):
        rules[_primitive("none", jnp.sin)]


def test_rules_see_coefficients(rules):
    """As JAX 0.12.0.1: of derivatives 1, 5, 7 the coefficients 1, 5 / 2, 7 / 6."""
    seen, prim = [], _primitive("twice", lambda x: 2 * x)

    def rule(primals, series):
        seen.append((primals, series))
        return prim.bind(*primals), [2 * t for t in series[0]]

    rules[prim] = rule
    assert jet(prim.bind, *SERIES)[1] == [2, 10, 14]
    np.testing.assert_allclose(seen[0][1], [[1, 2.5, 7 / 6]], rtol=1e-6)
    jet_module.defzero(prim)
    assert jet(prim.bind, *SERIES)[1] == [0, 0, 0]
    rules[prim] = lambda primals, series: (prim.bind(*primals), [jet_module.zero_term, 1.0])
    with pytest.raises(ValueError, match="rule of twice gives 2 terms of a series, .* have 3"):
        jet(prim.bind, *SERIES)


def test_rules_of_several_results(rules):
    prim = _primitive("both", lambda x, y: [x * y, x - y])
    prim.multiple_results = True
    prim.def_abstract_eval(lambda x, y: [x, x])
    product, difference = rules[jax.lax.mul_p], rules[jax.lax.sub_p]

    def rule(primals, series):
        pairs = [product(primals, series), difference(primals, series)]
        return [y for y, _ in pairs], [terms for _, terms in pairs]

    rules[prim] = rule
    given = (3.0, 2.0), ([1.0, 5.0], [0.5, jet_module.zero_term])
    for moving in (given, (given[0], (given[1][0], jet_module.zero_series))):
        got = jet(lambda x, y: tuple(prim.bind(x, y)), *moving)
        want = jet(lambda x, y: (x * y, x - y), *moving)
        np.testing.assert_allclose(jax.tree.leaves(got), jax.tree.leaves(want), rtol=1e-6)


def test_rules_of_the_table_are_those_that_jet_uses(rules):
    value, terms = jet_module.linear_prop(jax.lax.add_p, (1.0, 2.0), ([3.0], [5.0]))
    assert (value, terms) == (3, [8])
    assert jet_module.zero_prop(jax.lax.floor_p, (1.5,), ([1.0],))[1] is jet_module.zero_series
    assert rules.get(jax.lax.exp_p) and len(rules) == 0
    value, terms = rules[jax.lax.exp_p]((0.0,), ([1.0, 0.0, 0.0],), accuracy=None)
    np.testing.assert_allclose(terms, [1, 1 / 2, 1 / 6], rtol=1e-6)
