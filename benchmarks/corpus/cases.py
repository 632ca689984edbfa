"""What a program of the corpus is, and what most of them share: weights, layers and optimizers.

A program is a function of `jax` and `jax.numpy`, decorated with `program`. It gives its cases: what
is compiled, with NumPy arguments that are the same for every library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# `jax`, `jnp` and their arrays belong to one library or the other: no type names both.
Library = Any
Tree = Any


class Case(NamedTuple):
    """A function to be compiled and its arguments."""

    function: Callable[..., Tree]
    args: tuple[Tree, ...]


Cases = dict[str, Case]
PROGRAMS: dict[str, Callable[[Library, Library], Case | Cases]] = {}


def program(
    make: Callable[[Library, Library], Case | Cases],
) -> Callable[[Library, Library], Case | Cases]:
    """Adds a program to the corpus under the name of the function."""
    PROGRAMS[make.__name__] = make
    return make


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers scaled by the number of inputs of the layer."""
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def labels(rng: np.random.Generator, classes: int, *shape: int) -> np.ndarray:
    return rng.integers(classes, size=shape).astype(np.int32)


def layer_norm(jnp: Library, x: Tree, scale: Tree) -> Tree:
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale


def batch_norm(jnp: Library, x: Tree, scale: Tree, bias: Tree) -> Tree:
    """Images lie as (image, row, column, feature)."""
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def convolve(jax: Library, x: Tree, kernel: Tree, stride: int = 1, **options: Any) -> Tree:
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **options
    )


def cross_entropy(jax: Library, jnp: Library, logits: Tree, targets: Tree) -> Tree:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -jnp.mean(chosen)


def training(
    jax: Library, loss: Callable[..., Tree], params: Tree, *batch: Tree, optimizer: str = "sgd"
) -> Cases:
    """The loss, and a step of training on it. loss(params, *batch) gives a scalar."""
    jnp = jax.numpy

    def sgd(params: Tree, *batch: Tree) -> Tree:
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value

    def adamw(state: Tree, *batch: Tree) -> Tree:
        params, first, second, number = state
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        norm = jnp.sqrt(
            sum(jnp.sum(g.astype(jnp.float32) ** 2) for g in jax.tree.leaves(gradients))
        )
        gradients = jax.tree.map(
            lambda g: g * jnp.minimum(1.0, 1.0 / (norm + 1e-6)).astype(g.dtype), gradients
        )
        number = number + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradients)

        def update(p: Tree, m: Tree, v: Tree) -> Tree:
            m, v = m / (1 - 0.9**number), v / (1 - 0.999**number)
            return p - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 1e-4 * p)

        return (jax.tree.map(update, params, first, second), first, second, number), value

    zeros = jax.tree.map(np.zeros_like, params)
    step, state = {"sgd": (sgd, params), "adamw": (adamw, (params, zeros, zeros, np.float32(0)))}[
        optimizer
    ]
    return {"forward": Case(loss, (params, *batch)), "train": Case(step, (state, *batch))}
