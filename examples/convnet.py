"""A convolutional network of stax layers tells apart four directions of stripes under heavy
noise."""

import teucer as jax
import teucer.numpy as jnp
from teucer.example_libraries import optimizers, stax

SIZE = 16
BATCH = 64
CLASSES = 4

init_model, apply_model = stax.serial(
    stax.Conv(8, (3, 3), padding="SAME"),
    stax.BatchNorm(),
    stax.Relu,
    stax.MaxPool((2, 2), strides=(2, 2)),
    stax.Conv(16, (3, 3), padding="SAME"),
    stax.Relu,
    stax.AvgPool((8, 8)),
    stax.Flatten,
    stax.Dense(CLASSES),
    stax.LogSoftmax,
)


def make_batch(key):
    """Images f32[batch,16,16,1] and the class i32[batch] of each: the direction of its stripes."""
    class_key, phase_key, noise_key = jax.random.split(key, 3)
    labels = jax.random.randint(class_key, (BATCH,), 0, CLASSES)
    phases = jax.random.uniform(phase_key, (BATCH,), maxval=2 * jnp.pi)
    rows, columns = jnp.meshgrid(jnp.arange(SIZE), jnp.arange(SIZE), indexing="ij")
    directions = jnp.stack([rows, columns, rows + columns, rows - columns])
    stripes = jnp.sin(directions[labels] * (jnp.pi / 2) + phases[:, None, None])
    noise = jax.random.normal(noise_key, stripes.shape)
    return (stripes + noise)[..., None], labels


def loss(params, images, labels):
    log_probabilities = apply_model(params, images)
    return -jnp.mean(jnp.sum(log_probabilities * jax.nn.one_hot(labels, CLASSES), axis=1))


def main(steps: int = 300) -> float:
    """Train on fresh batches; return the accuracy on 16 more."""
    init_optimizer, update_optimizer, get_params = optimizers.adam(1e-2)

    @jax.jit
    def train_step(index, state, key):
        value, gradients = jax.value_and_grad(loss)(
            get_params(state), *make_batch(jax.random.fold_in(key, index))
        )
        return update_optimizer(index, gradients, state), value

    @jax.jit
    def accuracy(params, key):
        images, labels = make_batch(key)
        return jnp.mean(jnp.argmax(apply_model(params, images), axis=1) == labels)

    init_key, train_key, test_key = jax.random.split(jax.random.key(0), 3)
    _, params = init_model(init_key, (BATCH, SIZE, SIZE, 1))
    state = init_optimizer(params)
    for index in range(steps):
        state, value = train_step(index, state, train_key)
        if (index + 1) % max(1, steps // 5) == 0:
            print(f"step {index + 1:4d}  loss {value:.4f}")
    scores = [accuracy(get_params(state), key) for key in jax.random.split(test_key, 16)]
    final = float(jnp.mean(jnp.stack(scores)))
    print(f"accuracy: {final:.1%}")
    return final


if __name__ == "__main__":
    main()
