"""Deep, long and wide programs: no recursion over equations, and room for jits within jits."""

import functools

import numpy as np
import pytest

import teucer as jax
from teucer import lax


def chain(n):
    def f(x):
        for _ in range(n):
            x = lax.sin(x)
        return x

    return f


@pytest.fixture(autouse=True)
def unchecked():
    """Long jaxprs are not checked equation by equation."""
    with jax.enable_checks(False):
        yield


def test_a_long_program():
    f = chain(20_000)
    assert len(jax.make_jaxpr(f)(1.0).eqns) == 20_000
    assert jax.jit(f).lower(1.0).as_text().count("stablehlo.sine") == 20_000
    assert str(jax.make_jaxpr(f)(1.0)).count("= sin ") == 20_000


@pytest.mark.parametrize(
    "transform",
    [
        jax.grad,
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: jax.linearize(f, 1.0)[1],
        lambda f: jax.grad(jax.jit(f)),
        lambda f: jax.grad(jax.checkpoint(f)),
    ],
    ids=["grad", "jvp", "linearize", "grad of jit", "grad of checkpoint"],
)
def test_a_long_program_transformed(transform):
    jax.make_jaxpr(transform(chain(5000)))(1.0)


def test_a_long_program_runs():
    x, dx = 1.0, 1.0
    for _ in range(500):
        x, dx = np.sin(x), dx * np.cos(x)
    assert abs(jax.jit(chain(500))(1.0) - x) < 1e-5
    assert abs(jax.grad(chain(500))(1.0) - dx) < 1e-4 * dx


def nested(wrap, depth):
    f = lax.sin
    for _ in range(depth):
        f = wrap(f)
    return f


def test_jits_within_jits():
    f = nested(lambda g: jax.jit(lambda x: g(x) * 1.5), 80)
    assert abs(f(1.0) / (1.5**80 * np.sin(1)) - 1) < 1e-4
    assert jax.make_jaxpr(f)(1.0).out_avals[0].shape == ()
    g = nested(lambda g: jax.jit(lambda x: g(x) * 1.5), 40)
    assert abs(jax.grad(g)(1.0) / (1.5**40 * np.cos(1)) - 1) < 1e-4
    assert jax.vmap(g)(np.ones(2, np.float32)).shape == (2,)


def test_maps_within_maps():
    assert nested(jax.vmap, 12)(np.ones((1,) * 12, np.float32)).shape == (1,) * 12


def test_control_flow_within_control_flow():
    f = nested(lambda g: lambda x: lax.cond(x > 0, g, lambda y: y, x), 15)
    assert abs(jax.grad(f)(1.0) - np.cos(1)) < 1e-5
    g = nested(lambda g: lambda x: lax.fori_loop(0, 2, lambda i, c: g(c), x), 6)
    assert 0 < g(1.0) < 1


def test_ten_thousand_leaves():
    tree = {f"leaf{i}": np.float32(i) for i in range(10_000)}
    assert jax.make_jaxpr(lambda t: jax.tree.map(lambda x: x, t))(tree).in_avals[9_999].shape == ()
    assert len(jax.eval_shape(lambda t: jax.tree.map(lambda x: x + 1, t), tree)) == 10_000
    deep = functools.reduce(lambda t, _: [t], range(500), 1.0)
    assert jax.tree.leaves(jax.jit(lambda t: t)(deep))[0] == 1


def test_five_hundred_arguments():
    args = [np.float32(i) for i in range(500)]
    f = jax.jit(lambda *xs: sum(xs))
    assert f(*args) == f(*args) == sum(range(500))
    assert jax.grad(f, argnums=tuple(range(500)))(*args) == (1.0,) * 500
    names = {f"k{i}": 1.0 for i in range(500)}
    assert jax.jit(lambda **kwargs: sum(kwargs.values()))(**names) == 500


def test_a_value_used_often():
    assert jax.grad(lambda x: functools.reduce(lax.add, [x] * 2000))(1.0) == 2000
