"""A multilayer perceptron of dot and tanh reads handwritten digits.

The data are the 1797 images of 8x8 pixels of scikit-learn's load_digits; a fifth of them is held
back to measure accuracy. Written without any neural network library: parameters are a list of
pairs, the optimiser is gradient descent with momentum.
"""

from collections.abc import Callable

import numpy as np

import teucer as jax
import teucer.numpy as jnp

WIDTHS = (64, 256, 10)
BATCH = 64
STEPS = 2_000
LEARNING_RATE = 0.05
MOMENTUM = 0.9
NOISE = 0.2  # standard deviation of the noise added to training images, whose values are in [0, 1]


def load_data():
    """Images f32[n,64] in [0, 1] and labels i32[n] to train on, then images and labels to test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as err:
        raise ImportError(
            "digits: scikit-learn is not installed.\nInstall it with: pip install 'teucer[demo]'"
        ) from err
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = (images[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int32)
    held_back = len(labels) // 5
    return images[held_back:], labels[held_back:], images[:held_back], labels[:held_back]


def init_params(key):
    """One (weights, biases) pair a layer; the variance of the weights is 1 / inputs."""
    keys = jax.random.split(key, len(WIDTHS) - 1)
    return [
        (jax.random.normal(key, (inputs, outputs)) / jnp.sqrt(inputs), jnp.zeros(outputs))
        for key, inputs, outputs in zip(keys, WIDTHS[:-1], WIDTHS[1:], strict=True)
    ]


def logits(params, images):
    *hidden, (weights, biases) = params
    for w, b in hidden:
        images = jnp.tanh(jnp.dot(images, w) + b)
    return jnp.dot(images, weights) + biases


def loss(params, images, labels):
    """Mean softmax cross-entropy, in nats."""
    log_probabilities = jax.nn.log_softmax(logits(params, images))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


@jax.jit
def accuracy(params, images, labels):
    return jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)


@jax.jit
def train_step(params, velocity, images, labels, key):
    images = images + NOISE * jax.random.normal(key, images.shape)
    value, gradients = jax.value_and_grad(loss)(params, images, labels)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v - LEARNING_RATE * g, velocity, gradients)
    return jax.tree.map(jnp.add, params, velocity), velocity, value


def train(steps: int = STEPS, *, on_step: Callable[[int, jax.Array], None] | None = None):
    """Train on random batches; returns the loss of every step and the accuracy on the test
    images."""
    images, labels, test_images, test_labels = load_data()
    init_key, noise_key = jax.random.split(jax.random.key(0))
    params = init_params(init_key)
    velocity = jax.tree.map(jnp.zeros_like, params)
    batches = np.random.default_rng(1)
    losses = []
    for index in range(steps):
        batch = batches.integers(len(labels), size=BATCH)
        key = jax.random.fold_in(noise_key, index)
        params, velocity, value = train_step(params, velocity, images[batch], labels[batch], key)
        losses.append(value)
        if on_step is not None:
            on_step(index, value)
    return jnp.stack(losses), float(accuracy(params, test_images, test_labels))


def main(steps: int = STEPS) -> float:
    """Train, print the loss ten times on the way, and return the accuracy on the test images."""

    def report(index, value):
        if (index + 1) % max(1, steps // 10) == 0:
            print(f"step {index + 1:5d}  loss {value:.4f}")

    _, test_accuracy = train(steps, on_step=report)
    print(f"test accuracy: {test_accuracy:.2%}")
    return test_accuracy


if __name__ == "__main__":
    main()
