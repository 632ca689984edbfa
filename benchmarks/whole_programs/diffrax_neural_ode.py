"""A neural ODE in equinox and diffrax, fitted to spirals by optax, as a user of the three writes
it."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from reporting import measured

TIMES = jnp.linspace(0.0, 3.0, 20)


class NeuralODE(eqx.Module):
    field: eqx.nn.MLP

    def __call__(self, start: jax.Array) -> jax.Array:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, field: field(y)),
            diffrax.Tsit5(),
            TIMES[0],
            TIMES[-1],
            dt0=0.1,
            y0=start,
            args=self.field,
            saveat=diffrax.SaveAt(ts=TIMES),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
        )
        return found.ys


@eqx.filter_value_and_grad
def loss(model: NeuralODE, paths: jax.Array) -> jax.Array:
    return jnp.mean((jax.vmap(model)(paths[:, 0]) - paths) ** 2)


optimizer = optax.adam(3e-3)


@eqx.filter_jit
def train_step(
    model: NeuralODE, state: optax.OptState, paths: jax.Array
) -> tuple[jax.Array, NeuralODE, optax.OptState]:
    value, gradients = loss(model, paths)
    updates, state = optimizer.update(gradients, state)
    return value, eqx.apply_updates(model, updates), state


angles = jnp.linspace(0, 6, 32)[:, None] + TIMES
paths = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1) * jnp.exp(-0.3 * TIMES)[:, None]
model = NeuralODE(eqx.nn.MLP(2, 2, 64, 2, activation=jax.nn.softplus, key=jax.random.key(0)))
state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))


def step() -> jax.Array:
    global model, state
    value, model, state = train_step(model, state, paths)
    return value


measured(step, steps=10)
