"""Orders that compiled programs keep: `experimental.control_deps`."""

import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental.control_deps import control_dep, schedule


def f(x, order):
    values = [jnp.sin(x @ x), jnp.cos(x @ x.T), jnp.exp(x)]
    schedule([values[i] for i in order])
    return values[0] + values[1] * values[2]


X = np.linspace(0, 1, 9, dtype="float32").reshape(3, 3)


def test_values_and_derivatives_stay_as_they_are():
    plain = f(X, ())
    ordered = jax.jit(f, static_argnums=1)
    for order in ((2, 1, 0), (0, 2, 1)):
        np.testing.assert_allclose(ordered(X, order), plain, rtol=1e-6)
        np.testing.assert_allclose(f(X, order), plain, rtol=1e-6)
        grad = jax.jit(jax.grad(lambda x, order=order: f(x, order).sum()))(X)
        np.testing.assert_allclose(grad, jax.grad(lambda x: f(x, ()).sum())(X), rtol=1e-5)
        mapped = jax.jit(jax.vmap(lambda x, order=order: f(x, order)))(np.stack([X, X + 1]))
        np.testing.assert_allclose(mapped[1], f(X + 1, ()), rtol=1e-5)


def test_the_program_says_the_order():
    text = jax.jit(f, static_argnums=1).lower(X, (2, 1, 0)).as_text()
    assert len(re.findall(r"custom_call @control_dep\(.*has_side_effect = true", text)) == 2


def test_an_order_that_cannot_be_is_refused():
    def g(x):
        y = jnp.tanh(x @ x)
        z = jnp.tanh(y @ x)
        control_dep(z, y)
        return z

    with pytest.raises(jax.errors.JaxRuntimeError, match="cycle"):
        jax.jit(g)(X)
