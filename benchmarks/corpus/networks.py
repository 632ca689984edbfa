"""Programs of the corpus: networks of dense layers and convolutions."""

from __future__ import annotations

import itertools

import numpy as np
from cases import (
    Cases,
    Library,
    batch_norm,
    convolve,
    cross_entropy,
    labels,
    layer_norm,
    normal,
    program,
    training,
    weights,
)


def dense_network(
    jax: Library, jnp: Library, sizes: list[int], batch: int, optimizer: str
) -> Cases:
    rng = np.random.default_rng(0)
    params = [(weights(rng, a, b), np.zeros(b, np.float32)) for a, b in itertools.pairwise(sizes)]

    def loss(params, x, y):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return cross_entropy(jax, jnp, x @ w + b, y)

    return training(
        jax,
        loss,
        params,
        normal(rng, batch, sizes[0]),
        labels(rng, sizes[-1], batch),
        optimizer=optimizer,
    )


@program
def mlp_small(jax, jnp):
    """Two hidden layers of 64 units, the first network of every tutorial."""
    return dense_network(jax, jnp, [16, 64, 64, 4], 32, "sgd")


@program
def mlp(jax, jnp):
    """Digits of 28 x 28 pixels by two hidden layers of 512 units."""
    return dense_network(jax, jnp, [784, 512, 512, 10], 128, "adamw")


@program
def mlp_deep(jax, jnp):
    """40 layers of 64 units with a norm before each."""
    rng = np.random.default_rng(0)
    params = [
        {"w": weights(rng, 64, 64), "b": np.zeros(64, np.float32), "scale": np.ones(64, np.float32)}
        for _ in range(40)
    ]

    def loss(params, x, y):
        for p in params:
            x = x + jnp.tanh(layer_norm(jnp, x, p["scale"]) @ p["w"] + p["b"])
        return jnp.mean((x - y) ** 2)

    return training(jax, loss, params, normal(rng, 64, 64), normal(rng, 64, 64))


@program
def mlp_siren(jax, jnp):
    """An image as a network of sines, with derivatives by the coordinates in the loss."""
    rng = np.random.default_rng(0)
    params = [weights(rng, a, b) for a, b in [(2, 64), (64, 64), (64, 64), (64, 1)]]

    def value(params, x):
        for w in params[:-1]:
            x = jnp.sin(6.0 * (x @ w))
        return (x @ params[-1])[0]

    def loss(params, points, values):
        found, slopes = jax.vmap(jax.value_and_grad(value, argnums=1), (None, 0))(params, points)
        return jnp.mean((found - values) ** 2) + 0.01 * jnp.mean(slopes**2)

    return training(jax, loss, params, normal(rng, 512, 2), normal(rng, 512), optimizer="adamw")


@program
def mixer_varied(jax, jnp):
    """An MLP-Mixer of 12 layers, each of another width: nothing repeats."""
    rng = np.random.default_rng(0)
    params = [
        {
            "tokens": (weights(rng, 16, 16 + 4 * i), weights(rng, 16 + 4 * i, 16)),
            "channels": (weights(rng, 32, 32 + 8 * i), weights(rng, 32 + 8 * i, 32)),
            "scales": np.ones((2, 32), np.float32),
        }
        for i in range(12)
    ]

    def block(x, up, down):
        return jax.nn.gelu(x @ up) @ down

    def loss(params, x, y):
        for p in params:
            x = x + jnp.swapaxes(
                block(jnp.swapaxes(layer_norm(jnp, x, p["scales"][0]), 1, 2), *p["tokens"]), 1, 2
            )
            x = x + block(layer_norm(jnp, x, p["scales"][1]), *p["channels"])
        return jnp.mean((x - y) ** 2)

    return training(jax, loss, params, normal(rng, 4, 16, 32), normal(rng, 4, 16, 32))


@program
def cnn_small(jax, jnp):
    """Two convolutions, two poolings and a dense layer on digits of 28 x 28."""
    rng = np.random.default_rng(0)
    params = {
        "first": weights(rng, 3, 3, 1, 16),
        "second": weights(rng, 3, 3, 16, 32),
        "out": weights(rng, 7 * 7 * 32, 10),
    }

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(params, x, y):
        x = pool(jax.nn.relu(convolve(jax, x, params["first"])))
        x = pool(jax.nn.relu(convolve(jax, x, params["second"])))
        return cross_entropy(jax, jnp, x.reshape(x.shape[0], -1) @ params["out"], y)

    return training(
        jax, loss, params, normal(rng, 32, 28, 28, 1), labels(rng, 10, 32), optimizer="adamw"
    )


def residual_blocks(
    jax: Library, jnp: Library, count: int, width: int, images: tuple[int, int]
) -> Cases:
    """Blocks of two convolutions of 3 x 3, each with a norm over the batch."""
    rng = np.random.default_rng(0)
    params = {
        "stem": weights(rng, 3, 3, 3, width),
        "blocks": [
            {
                "kernels": [weights(rng, 3, 3, width, width) for _ in range(2)],
                "scales": [np.ones(width, np.float32) for _ in range(2)],
                "biases": [np.zeros(width, np.float32) for _ in range(2)],
            }
            for _ in range(count)
        ],
        "out": weights(rng, width, 10),
    }

    def loss(params, x, y):
        x = convolve(jax, x, params["stem"])
        for p in params["blocks"]:
            z = jax.nn.relu(
                batch_norm(jnp, convolve(jax, x, p["kernels"][0]), p["scales"][0], p["biases"][0])
            )
            x = jax.nn.relu(
                x
                + batch_norm(jnp, convolve(jax, z, p["kernels"][1]), p["scales"][1], p["biases"][1])
            )
        return cross_entropy(jax, jnp, jnp.mean(x, (1, 2)) @ params["out"], y)

    number, size = images
    return training(jax, loss, params, normal(rng, number, size, size, 3), labels(rng, 10, number))


@program
def residual_8(jax, jnp):
    """8 residual blocks of 32 features on 8 images of 16 x 16."""
    return residual_blocks(jax, jnp, 8, 32, (8, 16))


@program
def residual_12(jax, jnp):
    """12 residual blocks of 16 features on 8 images of 32 x 32."""
    return residual_blocks(jax, jnp, 12, 16, (8, 32))


@program
def residual_bottleneck(jax, jnp):
    """10 bottleneck blocks (1 x 1, 3 x 3, 1 x 1) that keep running statistics of their norms."""
    rng = np.random.default_rng(0)
    wide, narrow = 64, 16
    shapes = [(1, 1, wide, narrow), (3, 3, narrow, narrow), (1, 1, narrow, wide)]
    params = [
        [{"kernel": weights(rng, *s), "scale": np.ones(s[-1], np.float32)} for s in shapes]
        for _ in range(10)
    ]
    statistics = [
        [(np.zeros(s[-1], np.float32), np.ones(s[-1], np.float32)) for s in shapes]
        for _ in range(10)
    ]

    def loss(params, statistics, x, y):
        after = []
        for block, running in zip(params, statistics, strict=True):
            z = x
            for i, (p, (mean, variance)) in enumerate(zip(block, running, strict=True)):
                z = convolve(jax, z, p["kernel"])
                now = jnp.mean(z, (0, 1, 2)), jnp.var(z, (0, 1, 2))
                z = (z - now[0]) * jax.lax.rsqrt(now[1] + 1e-5) * p["scale"]
                z = jax.nn.relu(z) if i < 2 else z
                after.append((0.9 * mean + 0.1 * now[0], 0.9 * variance + 0.1 * now[1]))
            x = jax.nn.relu(x + z)
        return jnp.mean((x - y) ** 2), after

    def step(params, statistics, x, y):
        (value, after), gradients = jax.value_and_grad(loss, has_aux=True)(params, statistics, x, y)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), after, value

    args = (params, statistics, normal(rng, 8, 16, 16, wide), normal(rng, 8, 16, 16, wide))
    return {"forward": (loss, args), "train": (step, args)}


@program
def convnext(jax, jnp):
    """6 blocks of a depthwise convolution of 7 x 7, a norm and two dense layers."""
    rng = np.random.default_rng(0)
    params = [
        {
            "depth": weights(rng, 7, 7, 1, 32),
            "scale": np.ones(32, np.float32),
            "up": weights(rng, 32, 128),
            "down": weights(rng, 128, 32),
        }
        for _ in range(6)
    ]

    def loss(params, x, y):
        for p in params:
            z = layer_norm(jnp, convolve(jax, x, p["depth"], feature_group_count=32), p["scale"])
            x = x + jax.nn.gelu(z @ p["up"]) @ p["down"]
        return jnp.mean((jnp.mean(x, (1, 2)) - y) ** 2)

    return training(
        jax, loss, params, normal(rng, 4, 16, 16, 32), normal(rng, 4, 32), optimizer="adamw"
    )


@program
def dilated(jax, jnp):
    """Segmentation by convolutions of growing dilation."""
    rng = np.random.default_rng(0)
    params = [weights(rng, 3, 3, a, b) for a, b in [(3, 16), (16, 16), (16, 16), (16, 16), (16, 5)]]

    def loss(params, x, y):
        for i, kernel in enumerate(params[:-1]):
            x = jax.nn.relu(convolve(jax, x, kernel, rhs_dilation=(2**i, 2**i)))
        return cross_entropy(jax, jnp, convolve(jax, x, params[-1]), y)

    return training(jax, loss, params, normal(rng, 4, 32, 32, 3), labels(rng, 5, 4, 32, 32))


@program
def contrastive(jax, jnp):
    """Two views of each example, encoded by one network and told apart from the rest of the
    batch."""
    rng = np.random.default_rng(0)
    params = [weights(rng, a, b) for a, b in [(64, 256), (256, 256), (256, 64)]]

    def encode(params, x):
        for w in params[:-1]:
            x = jax.nn.silu(x @ w)
        x = x @ params[-1]
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)

    def loss(params, a, b):
        scores = encode(params, a) @ encode(params, b).T / 0.1
        own = jnp.arange(a.shape[0])
        return cross_entropy(jax, jnp, scores, own) + cross_entropy(jax, jnp, scores.T, own)

    return training(
        jax, loss, params, normal(rng, 128, 64), normal(rng, 128, 64), optimizer="adamw"
    )


@program
def image_autoencoder(jax, jnp):
    """Convolutions of stride 2 down, transposed convolutions up."""
    rng = np.random.default_rng(0)
    params = {
        "down": [weights(rng, 3, 3, a, b) for a, b in [(3, 16), (16, 32), (32, 32)]],
        "up": [weights(rng, 3, 3, a, b) for a, b in [(32, 32), (32, 16), (16, 3)]],
    }

    def loss(params, x):
        z = x
        for kernel in params["down"]:
            z = jax.nn.relu(convolve(jax, z, kernel, 2))
        for kernel in params["up"]:
            z = jax.lax.conv_transpose(
                jnp.tanh(z), kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        return jnp.mean((x - z) ** 2)

    return training(jax, loss, params, normal(rng, 8, 32, 32, 3), optimizer="adamw")
