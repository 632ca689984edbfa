"""An ordinary differential equation, solved by lax.scan and differentiated through the solver.

A pendulum with friction swings; from its angles, measured with noise, gradient descent finds the
length and the friction.
"""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

GRAVITY = 9.81  # m / s^2
TRUE_PARAMS = {"length": jnp.array(1.4), "friction": jnp.array(0.3)}  # m, 1 / s


def pendulum(state, params):
    """Time derivative of (angle, angular velocity), in rad / s and rad / s^2."""
    angle, velocity = state
    return velocity, -GRAVITY / params["length"] * jnp.sin(angle) - params["friction"] * velocity


def runge_kutta(derivative, state, dt):
    """One step of the classical fourth-order method."""

    def moved(slope, factor):
        return jax.tree.map(lambda x, k: x + factor * dt * k, state, slope)

    k1 = derivative(state)
    k2 = derivative(moved(k1, 0.5))
    k3 = derivative(moved(k2, 0.5))
    k4 = derivative(moved(k3, 1.0))
    return jax.tree.map(
        lambda x, a, b, c, d: x + dt / 6 * (a + 2 * b + 2 * c + d), state, k1, k2, k3, k4
    )


def angles(params, *, points=200, dt=0.02):
    """The angle at each of the points in time, released at rest from 1 rad."""

    def step(state, _):
        state = runge_kutta(lambda s: pendulum(s, params), state, dt)
        return state, state[0]

    _, path = lax.scan(step, (jnp.array(1.0), jnp.array(0.0)), length=points)
    return path


def main(steps: int = 400) -> float:
    """Fit by gradient descent; return the largest relative error of a parameter."""
    measured = angles(TRUE_PARAMS) + 0.01 * jax.random.normal(jax.random.key(0), (200,))

    @jax.jit
    def descend(params):
        value, gradient = jax.value_and_grad(lambda p: jnp.mean((angles(p) - measured) ** 2))(
            params
        )
        return jax.tree.map(lambda p, g: p - 0.2 * g, params, gradient), value

    params = {"length": jnp.array(1.0), "friction": jnp.array(0.0)}
    for index in range(steps):
        params, value = descend(params)
        if (index + 1) % max(1, steps // 5) == 0:
            print(f"step {index + 1:4d}  mean square error {value:.5f}")
    errors = jax.tree.map(lambda p, true: abs(p - true) / true, params, TRUE_PARAMS)
    for name, value in params.items():
        print(f"{name}: {value:.3f}, true {TRUE_PARAMS[name]:.3f}")
    return float(max(errors.values()))


if __name__ == "__main__":
    main()
