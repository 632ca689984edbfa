"""Rules for rematerialisation: `custom_vjp.defremat`, `custom_gradient(remat=True)`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

POLICIES = (
    None,
    jax.checkpoint_policies.nothing_saveable,
    jax.checkpoint_policies.everything_saveable,
)


def with_rule(logs=False):
    """sin, whose gradient the rule says is 10 cos + 1; cos is computed forward, the rest again."""

    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    def fwd(x):
        return jnp.sin(x), 10 * jnp.cos(x)

    def rem(cos, x):
        return jnp.sin(x), cos + 1

    def bwd(slope, ct):
        return ((ct * slope,), {"ct": ct}) if logs else (ct * slope,)

    (f.defremat_with_logs if logs else f.defremat)(fwd, rem, bwd)
    return f


def slope(x):
    return 10 * np.cos(x) + 1


def by_gradient():
    @functools.partial(jax.custom_gradient, remat=True)
    def f(x):
        cos = 10 * jnp.cos(x)
        return jnp.sin(x), lambda x: (jnp.sin(x), lambda ct: ct * (cos + 1))

    return f


@pytest.mark.parametrize("make", [with_rule, by_gradient], ids=["defremat", "custom_gradient"])
@pytest.mark.parametrize("policy", POLICIES, ids=["none", "nothing", "everything"])
def test_gradients_are_those_of_the_rule(make, policy):
    f = make()
    x = jnp.arange(3.0)
    for g in (f, jax.checkpoint(f, policy=policy), jax.jit(jax.checkpoint(f, policy=policy))):
        each = jax.vmap(jax.grad(g))
        np.testing.assert_allclose(each(x), slope(np.arange(3.0)), rtol=1e-5)
        total = jax.grad(lambda x, g=g: jax.vmap(g)(2 * x).sum())
        np.testing.assert_allclose(total(x), 2 * slope(2 * np.arange(3.0)), rtol=1e-5)


@pytest.mark.parametrize("make", [with_rule, by_gradient], ids=["defremat", "custom_gradient"])
def test_checkpoint_computes_the_forward_rule_once(make):
    """cos stands in the forward rule alone; two sines are the value, and what is computed again."""
    f = make()
    for policy in POLICIES:
        g = jax.checkpoint(lambda x: f(2 * x) * 3, policy=policy)
        text = str(jax.make_jaxpr(jax.grad(g))(1.0))
        assert text.count("= cos ") == 1, text
    plain = jax.checkpoint(lambda x: jnp.cos(f(2 * x)))
    text = str(jax.make_jaxpr(jax.grad(plain))(1.0))
    assert text.count("= sin ") == 3, text  # the value, the value again, the slope of cos


def test_loops_compute_the_forward_rule_once():
    f = with_rule()

    def run(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]

    x, expected = 1.0, 1.0
    for _ in range(3):
        expected, x = expected * slope(x), np.sin(x)
    for policy in POLICIES:
        g = jax.checkpoint(run, policy=policy)
        assert np.isclose(jax.grad(g)(1.0), expected, rtol=1e-5)
    text = str(jax.make_jaxpr(jax.grad(jax.checkpoint(run)))(1.0))
    assert text.count("= cos ") == 1, text


def test_checkpoint_prefers_the_rule_for_it():
    f = with_rule()
    f.defvjp(lambda x: (jnp.sin(x), None), lambda _, ct: (ct * 100,))
    assert jax.grad(f)(1.0) == 100
    assert np.isclose(jax.grad(jax.checkpoint(f))(1.0), slope(1.0))
    inner = jax.jit(f)
    assert jax.grad(inner)(1.0) == 100
    assert np.isclose(jax.grad(jax.checkpoint(lambda x: inner(x)))(1.0), slope(1.0))


def test_logs():
    f = with_rule(logs=True)
    for g in (f, jax.checkpoint(f)):
        (ct,), logs = jax.vjp(g, 1.0)[1].with_logs(jnp.float32(2))
        assert np.isclose(ct, 2 * slope(1.0))
        assert logs["ct"] == 2


def test_arguments_that_are_no_arrays():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def f(x, n, y=2.0):
        return x * n * y

    f.defremat(
        lambda x, n, y: (x * n * y, y),
        lambda y, x, n, y_again: (x * n * y_again, (x, y)),
        lambda n, res, ct: (ct * n * res[1], ct * n * res[0]),
    )
    for g in (f, jax.checkpoint(f, static_argnums=(1,))):
        assert jax.grad(g)(3.0, 5) == 10
        assert jax.grad(g, argnums=2)(3.0, 5, 4.0) == 15


def test_second_derivatives():
    f = with_rule()
    for g in (f, jax.checkpoint(f)):
        assert np.isclose(jax.grad(jax.grad(g))(1.0), -10 * np.sin(1.0), rtol=1e-5)


@pytest.mark.parametrize(
    ("rem", "said"),
    [
        (lambda res, x: jnp.sin(x), "Custom VJP rem rule .* must produce a pair"),
        (lambda res, x: ((jnp.sin(x),), res), "(?s)rem rule output's first element had.*pytree"),
        (lambda res, x: (jnp.ones(3), res), "(?s)rem rule output's first element had.*float32.3"),
    ],
    ids=["pair", "tree", "shape"],
)
def test_what_is_computed_again_is_checked(rem, said):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defremat(lambda x: (jnp.sin(x), x), rem, lambda res, ct: (ct,))
    with pytest.raises(TypeError, match=said):
        jax.grad(jax.checkpoint(f))(1.0)


def test_a_function_without_any_rule():
    f = jax.custom_vjp(jnp.sin)
    with pytest.raises(AttributeError, match="No VJP defined for custom_vjp function sin"):
        f(1.0)
