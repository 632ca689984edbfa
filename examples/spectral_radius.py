"""A perceptron learns the spectral radius of random complex 2x2 matrices.

The input is a complex matrix A, the target max |eig(A)|, the loss the mean of |prediction -
target|. The program joins a network of stax layers on complex numbers, eigenvalues, random keys,
vmap over the batch, and a training step that is compiled once. The loss falls from about 1.6 to
about 0.35.
"""

from collections.abc import Callable

import teucer as jax
import teucer.numpy as jnp
from teucer.example_libraries import optimizers, stax

BATCH = 64
STEPS = 10_000
SEED = 8


def flatten():
    """A stax layer: the entries of one matrix as a vector (stax.Flatten would keep the first axis
    as a batch)."""

    def init(rng, input_shape):
        return (input_shape[0] * input_shape[1],), ()

    def apply(params, matrix, **kwargs):
        return matrix.ravel()

    return init, apply


init_model, apply_model = stax.serial(flatten(), stax.Dense(128), stax.Relu, stax.Dense(1))
predict = jax.vmap(apply_model, in_axes=(None, 0))
init_optimizer, update_optimizer, get_params = optimizers.adam(3e-4)


def spectral_radius(matrix):
    return jnp.max(jnp.abs(jnp.linalg.eigvals(matrix)))


def loss(params, matrices):
    targets = jax.vmap(spectral_radius)(matrices)
    return jnp.mean(jnp.abs(predict(params, matrices)[:, 0] - targets))


@jax.jit
def train_step(index, state, key):
    """One step of Adam on a fresh batch; returns the new state and the loss before the step."""
    matrices = jax.random.normal(jax.random.fold_in(key, index), (BATCH, 2, 2), dtype=jnp.complex64)
    value, gradients = jax.value_and_grad(loss)(get_params(state), matrices)
    gradients = jax.tree_util.tree_map(jnp.conj, gradients)
    return update_optimizer(index, gradients, state), value


def train(steps: int = STEPS, *, on_step: Callable[[int, jax.Array], None] | None = None):
    """Train for a number of steps; returns the parameters and the loss of every step."""
    init_key, data_key = jax.random.split(jax.random.key(SEED))
    _, params = init_model(init_key, (2, 2))
    state = init_optimizer(params)
    losses = []
    for index in range(steps):
        state, value = train_step(index, state, data_key)
        losses.append(value)
        if on_step is not None:
            on_step(index, value)
    return get_params(state), jnp.stack(losses)


def main(steps: int = STEPS) -> float:
    """Train, print the loss ten times on the way, and return the mean loss of the last tenth."""

    def report(index, value):
        if (index + 1) % max(1, steps // 10) == 0:
            print(f"step {index + 1:6d}  loss {value:.3f}")

    _, losses = train(steps, on_step=report)
    final = float(jnp.mean(losses[-max(1, steps // 10) :]))
    print(f"loss: {losses[0]:.3f} at the start, {final:.3f} at the end")
    return final


if __name__ == "__main__":
    main()
