"""A recurrent network (GRU) learns to add: lax.scan over time, vmap over the batch.

Each time step brings a number in [0, 1] and a flag. Two flags of a sequence are set; the target is
the sum of the two numbers beside them. Guessing 1 always gives a mean square error of 1/6.
"""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.example_libraries import optimizers

LENGTH = 16
BATCH = 128
HIDDEN = 32


def init_params(key):
    """Weights of the update, reset and candidate parts, and of the read-out."""
    scale = 1 / jnp.sqrt(HIDDEN)
    update, reset, candidate, out = jax.random.split(key, 4)
    inputs = 2 + HIDDEN
    return {
        "update": (jax.random.normal(update, (inputs, HIDDEN)) * scale, jnp.zeros(HIDDEN)),
        "reset": (jax.random.normal(reset, (inputs, HIDDEN)) * scale, jnp.zeros(HIDDEN)),
        "candidate": (jax.random.normal(candidate, (inputs, HIDDEN)) * scale, jnp.zeros(HIDDEN)),
        "out": (jax.random.normal(out, (HIDDEN,)) * scale, jnp.zeros(())),
    }


def affine(params, x):
    weights, biases = params
    return x @ weights + biases


def cell(params, hidden, x):
    """One step of a gated recurrent unit (Cho et al., arXiv:1406.1078)."""
    joined = jnp.concatenate([x, hidden])
    update = jax.nn.sigmoid(affine(params["update"], joined))
    reset = jax.nn.sigmoid(affine(params["reset"], joined))
    candidate = jnp.tanh(affine(params["candidate"], jnp.concatenate([x, reset * hidden])))
    return (1 - update) * hidden + update * candidate


def predict(params, sequence):
    """sequence: f32[time,2] -> f32[]"""
    last, _ = lax.scan(
        lambda hidden, x: (cell(params, hidden, x), None), jnp.zeros(HIDDEN), sequence
    )
    return affine(params["out"], last)


def make_batch(key):
    """Sequences f32[batch,time,2] and their targets f32[batch]."""
    number_key, flag_key = jax.random.split(key)
    numbers = jax.random.uniform(number_key, (BATCH, LENGTH))
    order = jax.vmap(lambda k: jax.random.permutation(k, LENGTH))(jax.random.split(flag_key, BATCH))
    flags = (order < 2).astype(jnp.float32)
    return jnp.stack([numbers, flags], axis=-1), jnp.sum(numbers * flags, axis=1)


def loss(params, sequences, targets):
    return jnp.mean((jax.vmap(predict, in_axes=(None, 0))(params, sequences) - targets) ** 2)


def main(steps: int = 1500) -> float:
    """Train on fresh batches; return the mean square error on the last one."""
    init_optimizer, update_optimizer, get_params = optimizers.adam(5e-3)

    @jax.jit
    def train_step(index, state, key):
        value, gradients = jax.value_and_grad(loss)(
            get_params(state), *make_batch(jax.random.fold_in(key, index))
        )
        return update_optimizer(index, optimizers.clip_grads(gradients, 1.0), state), value

    init_key, data_key = jax.random.split(jax.random.key(0))
    state = init_optimizer(init_params(init_key))
    for index in range(steps):
        state, value = train_step(index, state, data_key)
        if (index + 1) % max(1, steps // 10) == 0:
            print(f"step {index + 1:5d}  mean square error {value:.4f}")
    return float(value)


if __name__ == "__main__":
    main()
