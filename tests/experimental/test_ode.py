"""odeint against SciPy's, and its gradients against differences."""

import numpy as np
import pytest
import scipy.integrate

import teucer as jax
from teucer import numpy as jnp
from teucer.experimental import ode
from teucer.test_util import check_grads

TIMES = np.linspace(0.0, 5.0, 11)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def pendulum(y, t, mass, friction):
    return jnp.stack([y[1], -mass * jnp.sin(y[0]) - friction * y[1] + 0.1 * t])


def test_values():
    found = ode.odeint(pendulum, np.array([0.5, 0.0]), TIMES, 2.0, 0.1)
    of = lambda y, t: np.array([y[1], -2 * np.sin(y[0]) - 0.1 * y[1] + 0.1 * t])
    np.testing.assert_allclose(
        found, scipy.integrate.odeint(of, [0.5, 0.0], TIMES, rtol=1e-11, atol=1e-11), atol=1e-6
    )
    stiff = ode.odeint(lambda y, t: -50 * (y - jnp.cos(t)), 0.0, TIMES)
    np.testing.assert_allclose(
        stiff[1:], (2500 * np.cos(TIMES[1:]) + 50 * np.sin(TIMES[1:])) / 2501, atol=1e-6
    )
    np.testing.assert_allclose(
        jax.jit(lambda y: ode.odeint(lambda y, t: -y, y, TIMES))(1.0), np.exp(-TIMES), atol=1e-7
    )


def test_trees_dtypes_and_batches():
    start = {"a": jnp.ones(2), "b": jnp.array(1 + 0j), "n": 1}
    found = ode.odeint(
        lambda y, t: {"a": -y["a"], "b": y["b"] * 1j, "n": 0.0}, start, jnp.array([0.0, 1.0])
    )
    np.testing.assert_allclose(found["a"][1], np.exp([-1, -1]), rtol=1e-6)
    np.testing.assert_allclose(found["b"][1], np.exp(1j), rtol=1e-6)
    batch = jax.vmap(lambda y: ode.odeint(lambda y, t: -y, y, TIMES)[-1])(jnp.arange(3.0))
    np.testing.assert_allclose(batch, np.arange(3.0) * np.exp(-5), rtol=1e-5)
    single = ode.odeint(lambda y, t: -y, np.float32(1), np.float32(TIMES), rtol=1e-5, atol=1e-5)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, np.exp(-TIMES), atol=1e-4)
    assert ode.odeint(lambda y, t: -y, 1.0, TIMES[:1]).shape == (1,)


def test_gradients():
    def loss(y0, ts, mass, friction):
        return jnp.sum(ode.odeint(pendulum, y0, ts, mass, friction)[1:] ** 2)

    check_grads(
        loss,
        (np.array([0.5, 0.0]), TIMES[:4], 2.0, 0.1),
        order=1,
        modes=["rev"],
        rtol=1e-5,
        atol=1e-5,
    )
    closed = jax.grad(lambda c: ode.odeint(lambda y, t: -c * y, 1.0, TIMES)[-1])(2.0)
    np.testing.assert_allclose(closed, -5 * np.exp(-10.0), rtol=1e-4)
    with_integer = jax.grad(
        lambda c: ode.odeint(lambda y, t, c, n: -c * y * n, 1.0, TIMES, c, 2)[-1]
    )(0.5)
    np.testing.assert_allclose(with_integer, -10 * np.exp(-5.0), rtol=1e-4)


def test_steps_are_bounded():
    cut = ode.odeint(lambda y, t: -y, 1.0, np.array([0.0, 10.0]), mxstep=2)
    assert abs(cut[1] - np.exp(-10)) > 1e-4
    calls = lambda hmax: ode.odeint(
        lambda y, t: jnp.zeros_like(y) + jnp.where((t > 4.5) & (t < 4.6), 1.0, 0.0),
        0.0,
        np.array([0.0, 9.0]),
        hmax=hmax,
    )[1]
    np.testing.assert_allclose(calls(0.05), 0.1, rtol=1e-4)


def test_polynomial_through_a_step():
    c = np.array([1.5, -2.0, 0.5, 3.0, -1.0])
    at = lambda s: np.polyval(c, s)
    slope = lambda s: np.polyval(np.polyder(c), s)
    found = ode.fit_4th_order_polynomial(at(0), at(1), at(0.5), slope(0) / 2.0, slope(1) / 2.0, 2.0)
    np.testing.assert_allclose(found, c, rtol=1e-12)


def test_mistakes():
    with pytest.raises(TypeError, match="y0 and .args must be arrays or scalars, but got 'text'"):
        ode.odeint(lambda y, t, a: y, 1.0, TIMES, "text")
