"""Linear programs that call functions with rules of their own run backwards: by the rules, or by
the functions."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.missing import MissingRule

X = np.float32([0.5, -1.5, 2.0])


def with_vjp(f, fwd, bwd):
    g = jax.custom_vjp(f)
    g.defvjp(fwd, bwd)
    return g


TRIPLE = with_vjp(lambda a: 3 * a, lambda a: (3 * a, None), lambda res, ct: (3 * ct,))
# Its rule asks for the operand, and does not depend on it.
DOUBLE = with_vjp(
    lambda a: 2 * a, lambda a: (2 * a, a), lambda a, ct: (2 * ct * jnp.where(a > 0, 1.0, 1.0),)
)
PRODUCT = with_vjp(
    lambda a, b: a * b, lambda a, b: (a * b, (a, b)), lambda ab, ct: (ct * ab[1], ct * ab[0])
)


@jax.custom_jvp
def no_nan(x, y):
    return jnp.where(y == 0, 0.0, x * y)


no_nan.defjvp(lambda p, t: (no_nan(*p), no_nan(t[0], p[1]) + no_nan(p[0], t[1])))


@jax.custom_jvp
def finite(x, y):
    safe = jnp.where(jnp.isfinite(y) & (y == y) & ~jnp.isnan(y), y, 0.0)
    return x * jax.jit(lambda v: jnp.where(v != 0, v, 0.0))(safe)


finite.defjvp(lambda p, t: (finite(*p), finite(t[0], p[1]) + finite(p[0], t[1])))
LINEAR = {
    "custom_vjp": (TRIPLE, 3),
    "one that asks": (DOUBLE, 2),
    "in one of two": (lambda t: PRODUCT(t, X), X),
    "in the other": (lambda t: PRODUCT(X, t), X),
    "custom_jvp that compares": (lambda t: no_nan(X, t), X),
    "one that looks for nan": (lambda t: finite(X, t), X),
    "within jit": (jax.jit(TRIPLE), 3),
    "within vmap": (jax.vmap(lambda t: TRIPLE(t) + DOUBLE(t)), 5),
    "within scan": (lambda t: lax.scan(lambda c, x: (c, TRIPLE(x)), 0.0, t)[1], 3),
    "within checkpoint": (jax.checkpoint(lambda t: TRIPLE(DOUBLE(t))), 6),
    "within cond": (lambda t: lax.cond(X[0] > 0, TRIPLE, DOUBLE, t), 3),
}


def by_jvp(f):
    """A function whose tangents f computes."""
    g = jax.custom_jvp(jnp.sin)
    g.defjvp(lambda p, t: (g(*p), f(t[0] * jnp.cos(p[0]))))
    return g


@pytest.mark.parametrize("name", LINEAR)
def test_linear_functions_are_transposed(name):
    f, factor = LINEAR[name]
    np.testing.assert_allclose(jax.linear_transpose(f, X)(X)[0], factor * X, rtol=1e-6)
    g = by_jvp(f)
    slope = jax.grad(lambda x: (X * g(x)).sum())
    np.testing.assert_allclose(slope(X), X * factor * np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(slope)(X), X * factor * np.cos(X), rtol=1e-5)
    pulled = jax.jacrev(g)(X)
    np.testing.assert_allclose(pulled, np.diag(factor * np.cos(X)), rtol=1e-5)
    np.testing.assert_allclose(jax.jacfwd(g)(X), pulled, rtol=1e-5)
    second = jax.hessian(lambda x: g(x).sum())(X)
    np.testing.assert_allclose(second, np.diag(-factor * np.sin(X)), rtol=1e-4, atol=1e-6)


def test_the_rule_is_what_is_transposed():
    clip = with_vjp(lambda a: a, lambda a: (a, None), lambda res, ct: (jnp.clip(ct, -1, 1),))
    assert jax.linear_transpose(clip, X)(4 * X)[0].tolist() == [1.0, -1.0, 1.0]
    slope = jax.grad(lambda x: (4 * X * by_jvp(clip)(x)).sum())(X)
    np.testing.assert_allclose(slope, np.clip(4 * X, -1, 1) * np.cos(X), rtol=1e-6)


SINE = with_vjp(jnp.sin, lambda a: (jnp.sin(a), a), lambda a, ct: (ct * jnp.cos(a),))
NOT_LINEAR = {
    "sin": jnp.sin,
    "max": jax.nn.relu,
    "abs": jnp.abs,
    "sort": jnp.sort,
    "mul": lambda t: t * t,
    "gt": lambda t: jnp.where(t > 0, t, 2 * t),
    "dot_general": lambda t: jnp.dot(t, t) * X,
    "div": lambda t: X / t,
    "select_n": lambda t: jnp.where(t == 0, 0.0, t),
    "cumprod": jnp.cumprod,
}


@pytest.mark.parametrize("name", [*NOT_LINEAR, "custom_vjp"])
def test_what_is_not_linear_is_refused_by_name(name):
    f = NOT_LINEAR.get(name, SINE)
    for run in (
        lambda: jax.linear_transpose(f, X)(X),
        lambda: jax.grad(lambda x: by_jvp(f)(x).sum())(X),
    ):
        with pytest.raises(MissingRule) as caught:
            run()
        said = str(caught.value)
        assert "Transpose rule (for reverse-mode differentiation) for '" in said
        assert "test_transposed_rules.py:" in said
        assert "is not linear" in said and "jax.linear_transpose" in said
        assert not any(word in said for word in ("Undefined(", "ShapedArray(", "Define "))
