"""jet: series of functions against nested derivatives."""

import math

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
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
