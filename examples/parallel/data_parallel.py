"""Data-parallel training by `pmap`.

Two devices share each batch and take the mean of their gradients.

The perceptron that learns the spectral radius (`teucer.cli.demos.spectral_radius`), on one device
and on two. Both see the same batches, so that the curves of the loss are the same but for rounding.
"""

import functools

import teucer as jax
import teucer.numpy as jnp
from teucer.cli.demos import spectral_radius as demo

DEVICES = 2


@functools.partial(jax.pmap, axis_name="devices", in_axes=(None, None, 0), out_axes=None)
def train_step(index, state, matrices):
    """One step of Adam; each device has a part of the batch."""
    value, gradients = jax.value_and_grad(demo.loss)(demo.get_params(state), matrices)
    value, gradients = jax.lax.pmean((value, gradients), "devices")
    return demo.update_optimizer(index, jax.tree.map(jnp.conj, gradients), state), value


def train(steps):
    """The loss of every step."""
    init_key, data_key = jax.random.split(jax.random.key(demo.SEED))
    state, losses = demo.init_optimizer(demo.init_model(init_key, (2, 2))[1]), []
    for index in range(steps):
        matrices = jax.random.normal(
            jax.random.fold_in(data_key, index), (demo.BATCH, 2, 2), dtype=jnp.complex64
        )
        state, value = train_step(index, state, matrices.reshape(DEVICES, -1, 2, 2))
        losses.append(float(value))
    return losses


def main(steps=1000):
    """Train on one device and on two; returns the greatest relative difference of the losses."""
    _, alone = demo.train(steps)
    together = train(steps)
    worst = max(abs(a / float(b) - 1) for a, b in zip(together, alone, strict=True))
    print(
        f"loss after {steps} steps: {float(alone[-1]):.3f} on one device, {together[-1]:.3f} on "
        f"{DEVICES}; greatest difference {worst:.2%}"
    )
    return worst


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
