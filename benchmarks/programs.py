"""Programs that compilers find hard, as their users write them.

Layers and steps in Python loops, for any library with JAX's API.

`PROGRAMS[name](jax, jnp)` gives a function to compile and its arguments, NumPy arrays that are the
same for every library. The last result of the function is a scalar by which libraries are compared.
"""

import numpy as np
import transformer


def weights(rng, *shape):
    """Normal numbers scaled by the number of inputs of the layer."""
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def train_step(jax, loss):
    """One step of gradient descent on `loss(params, *batch)`."""

    def step(params, *batch):
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value

    return step


def adam_step(jax, jnp, loss):
    """One step of Adam on gradients clipped by their norm, each operation on all parameters in
    turn, as optimizer libraries do."""

    def step(state, *batch):
        params, first, second, number = state
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        norm = jnp.sqrt(sum(jax.tree.leaves(jax.tree.map(lambda g: jnp.sum(g**2), gradients))))
        gradients = jax.tree.map(lambda g: jnp.where(norm < 1, g, g / norm), gradients)
        number = number + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradients)
        unbiased = [
            jax.tree.map(lambda m, d=decay: m / (1 - d**number), m)
            for m, decay in ((first, 0.9), (second, 0.999))
        ]
        changes = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + 1e-8), *unbiased)
        changes = jax.tree.map(lambda c, p: c + 1e-4 * p, changes, params)
        return (
            jax.tree.map(lambda p, c: p - 1e-3 * c, params, changes),
            first,
            second,
            number,
        ), value

    return step


def transformer_of(layers):
    """A transformer's training step, `layers` deep."""

    def make(jax, jnp):
        return train_step(jax, transformer.make_loss(jax, jnp)), (
            transformer.init_params(layers),
            *transformer.make_batch(),
        )

    return make


def transformer_adam(jax, jnp):
    """A transformer of 12 layers trained by Adam."""
    params = transformer.init_params(12)
    zeros = jax.tree.map(np.zeros_like, params)
    return adam_step(jax, jnp, transformer.make_loss(jax, jnp)), (
        (params, zeros, zeros, np.float32(0)),
        *transformer.make_batch(),
    )


def residual_convolutions(jax, jnp):
    """A residual network of 50 convolutional layers in four stages, on images of 16 x 16."""
    rng = np.random.default_rng(0)
    widths, blocks = (16, 32, 48, 64), (6, 6, 6, 6)
    params = {
        "stem": weights(rng, 3, 3, 3, widths[0]),
        "stages": [],
        "logits": weights(rng, widths[-1], 10),
    }
    before = widths[0]
    for width, count in zip(widths, blocks, strict=True):
        stage = {"enter": weights(rng, before, width) if before != width else None, "blocks": []}
        for i in range(count):
            inner = before if i == 0 else width
            stage["blocks"].append(
                {
                    "first": weights(rng, 3, 3, inner, width),
                    "second": weights(rng, 3, 3, width, width),
                    "scales": [np.ones(width, np.float32) for _ in range(2)],
                    "biases": [np.zeros(width, np.float32) for _ in range(2)],
                }
            )
        params["stages"].append(stage)
        before = width

    def convolve(x, kernel, stride=1):
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def normalize(x, scale, bias):
        mean, variance = jnp.mean(x, axis=(0, 1, 2)), jnp.var(x, axis=(0, 1, 2))
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias

    def loss(params, images, labels):
        x = convolve(images, params["stem"])
        for number, stage in enumerate(params["stages"]):
            for i, block in enumerate(stage["blocks"]):
                stride = 2 if number and i == 0 else 1
                y = convolve(jax.nn.relu(x), block["first"], stride)
                y = jax.nn.relu(normalize(y, block["scales"][0], block["biases"][0]))
                y = normalize(convolve(y, block["second"]), block["scales"][1], block["biases"][1])
                if stage["enter"] is not None and i == 0:
                    x = x[:, ::2, ::2] @ stage["enter"]
                x = x + y
        log_probabilities = jax.nn.log_softmax(jnp.mean(x, axis=(1, 2)) @ params["logits"])
        return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=-1))

    images = rng.standard_normal((8, 16, 16, 3)).astype(np.float32)
    return train_step(jax, loss), (params, images, rng.integers(10, size=8).astype(np.int32))


def unrolled_lstm(jax, jnp):
    """An LSTM over 50 time steps, unrolled."""
    rng = np.random.default_rng(0)
    size, inputs, steps, batch = 64, 16, 50, 16
    params = {
        "input": weights(rng, inputs, 4 * size),
        "state": weights(rng, size, 4 * size),
        "bias": np.zeros(4 * size, np.float32),
        "out": weights(rng, size, 1),
    }

    def loss(params, xs, ys):
        h = c = jnp.zeros((batch, size))
        for t in range(steps):
            gates = xs[t] @ params["input"] + h @ params["state"] + params["bias"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return jnp.mean((h @ params["out"] - ys) ** 2)

    xs = rng.standard_normal((steps, batch, inputs)).astype(np.float32)
    return train_step(jax, loss), (params, xs, rng.standard_normal((batch, 1)).astype(np.float32))


def varied_residual(jax, jnp):
    """A residual network no two layers of which are alike: 24 widths, five activations."""
    rng = np.random.default_rng(0)
    width, widths = 128, [96 + 8 * i for i in range(24)]
    params = [
        {
            "up": weights(rng, width, w),
            "down": weights(rng, w, width),
            "scale": np.ones(width, np.float32),
        }
        for w in widths
    ]

    def loss(params, x, y):
        activations = (jnp.tanh, jax.nn.relu, jax.nn.gelu, jax.nn.silu, jnp.sin)
        for i, layer in enumerate(params):
            normal = (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(
                jnp.var(x, -1, keepdims=True) + 1e-5
            )
            x = x + activations[i % 5](normal * layer["scale"] @ layer["up"]) @ layer["down"]
        return jnp.mean((x - y) ** 2)

    x, y = (rng.standard_normal((256, width)).astype(np.float32) for _ in range(2))
    return train_step(jax, loss), (params, x, y)


def mixer(jax, jnp):
    """An MLP-Mixer of 12 layers on 64 patches."""
    rng = np.random.default_rng(0)
    patches, width, layers = 64, 128, 12
    params = {
        "enter": weights(rng, 48, width),
        "layers": [
            {
                "tokens": [weights(rng, patches, 2 * patches), weights(rng, 2 * patches, patches)],
                "channels": [weights(rng, width, 4 * width), weights(rng, 4 * width, width)],
                "scales": [np.ones(width, np.float32) for _ in range(2)],
            }
            for _ in range(layers)
        ],
        "logits": weights(rng, width, 10),
    }

    def normalize(x, scale):
        return (
            (x - jnp.mean(x, -1, keepdims=True))
            / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5)
            * scale
        )

    def mlp(x, pair):
        return jax.nn.gelu(x @ pair[0]) @ pair[1]

    def loss(params, x, labels):
        x = x @ params["enter"]
        for layer in params["layers"]:
            y = jnp.swapaxes(normalize(x, layer["scales"][0]), 1, 2)
            x = x + jnp.swapaxes(mlp(y, layer["tokens"]), 1, 2)
            x = x + mlp(normalize(x, layer["scales"][1]), layer["channels"])
        log_probabilities = jax.nn.log_softmax(jnp.mean(x, axis=1) @ params["logits"])
        return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=-1))

    x = rng.standard_normal((8, patches, 48)).astype(np.float32)
    return train_step(jax, loss), (params, x, rng.integers(10, size=8).astype(np.int32))


def unet(jax, jnp):
    """A UNet of four resolutions, two convolutions at each, with skip connections."""
    rng = np.random.default_rng(0)
    widths = (8, 16, 24, 32)
    params = {"down": [], "up": [], "out": weights(rng, 1, 1, widths[0], 1)}
    before = 1
    for width in widths:
        params["down"].append([weights(rng, 3, 3, before, width), weights(rng, 3, 3, width, width)])
        before = width
    for width in reversed(widths[:-1]):
        params["up"].append(
            [weights(rng, 3, 3, before + width, width), weights(rng, 3, 3, width, width)]
        )
        before = width

    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def normalize(x):
        return (x - jnp.mean(x, (1, 2), keepdims=True)) / jnp.sqrt(
            jnp.var(x, (1, 2), keepdims=True) + 1e-5
        )

    def block(x, kernels):
        for kernel in kernels:
            x = jax.nn.silu(normalize(convolve(x, kernel)))
        return x

    def loss(params, x, y):
        skips = []
        for i, kernels in enumerate(params["down"]):
            if i:
                x = jax.lax.reduce_window(
                    x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
                )
            x = block(x, kernels)
            skips.append(x)
        for kernels, skip in zip(params["up"], reversed(skips[:-1]), strict=True):
            x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
            x = block(jnp.concatenate([x, skip], axis=-1), kernels)
        return jnp.mean((convolve(x, params["out"]) - y) ** 2)

    x, y = (rng.standard_normal((4, 32, 32, 1)).astype(np.float32) for _ in range(2))
    return train_step(jax, loss), (params, x, y)


def unrolled_ode(jax, jnp):
    """200 Runge-Kutta steps of a neural differential equation, unrolled, and their gradient."""
    rng = np.random.default_rng(0)
    params = {"first": weights(rng, 8, 16), "second": weights(rng, 16, 8)}

    def field(params, t, x):
        return jnp.tanh(x @ params["first"] + jnp.sin(t)) @ params["second"] - 0.1 * x

    def loss(params, x, y):
        dt = 0.05
        for i in range(200):
            t = i * dt
            k1 = field(params, t, x)
            k2 = field(params, t + dt / 2, x + dt / 2 * k1)
            k3 = field(params, t + dt / 2, x + dt / 2 * k2)
            k4 = field(params, t + dt, x + dt * k3)
            x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return jnp.mean((x - y) ** 2)

    x, y = (rng.standard_normal((32, 8)).astype(np.float32) for _ in range(2))
    return train_step(jax, loss), (params, x, y)


def gaussian_process(jax, jnp):
    """Hyperparameters of a Gaussian process of four kernels: a step on its marginal likelihood."""
    rng = np.random.default_rng(0)
    points = 200
    params = {
        name: np.float32(value)
        for name, value in [
            ("scale", 0.1),
            ("length", 0.3),
            ("period", 0.7),
            ("periodic", -0.2),
            ("linear", 0.4),
            ("noise", -1),
        ]
    }

    def loss(params, x, y):
        square = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
        distance = jnp.sqrt(square + 1e-12)
        smooth = jnp.exp(params["scale"] - square / jnp.exp(params["length"]))
        waves = jnp.exp(params["periodic"] - 2 * jnp.sin(distance / jnp.exp(params["period"])) ** 2)
        linear = jnp.exp(params["linear"]) * x @ x.T
        rational = 1 / (1 + square / (2 * jnp.exp(params["length"])))
        kernel = (
            smooth
            + waves * smooth
            + linear
            + rational
            + (jnp.exp(params["noise"]) + 1e-3) * jnp.eye(points)
        )
        factor = jnp.linalg.cholesky(kernel)
        residual = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * jnp.sum(residual**2) / points + jnp.sum(jnp.log(jnp.diag(factor))) / points

    x = rng.uniform(-2, 2, (points, 3)).astype(np.float32)
    return train_step(jax, loss), (params, x, np.sin(x.sum(-1)).astype(np.float32))


def many_functions(jax, jnp):
    """500 small functions drawn at random from what NumPy has, on arrays of a few shapes."""
    rng = np.random.default_rng(0)
    unary = [
        jnp.sin,
        jnp.tanh,
        jnp.abs,
        lambda x: jnp.log1p(x * x),
        lambda x: jnp.sqrt(x * x + 1),
        jnp.arctan,
        jnp.cbrt,
    ]
    binary = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jnp.arctan2, jnp.hypot]
    reductions = [
        jnp.sum,
        jnp.mean,
        jnp.max,
        jnp.std,
        lambda x: jnp.sort(x.ravel())[0],
        lambda x: jnp.cumsum(x.ravel())[-1],
    ]
    shapes = [(16,), (8, 8), (4, 5, 6), (32, 3)]
    plan = [
        (
            rng.integers(len(unary)),
            rng.integers(len(binary)),
            rng.integers(len(reductions)),
            rng.integers(len(shapes)),
        )
        for _ in range(500)
    ]

    def all_of_them(arrays, shift):
        results = []
        for i, (u, b, r, s) in enumerate(plan):
            x = arrays[s] + shift * (i / 500)
            results.append(reductions[r](binary[b](unary[u](x), arrays[s])))
        return results, jnp.mean(jnp.stack(results))

    return all_of_them, (
        [rng.standard_normal(shape).astype(np.float32) for shape in shapes],
        np.float32(0.5),
    )


PROGRAMS = {
    "transformer_12": transformer_of(12),
    "transformer_48": transformer_of(48),
    "transformer_adam": transformer_adam,
    "residual_convolutions": residual_convolutions,
    "unrolled_lstm": unrolled_lstm,
    "varied_residual": varied_residual,
    "mixer": mixer,
    "unet": unet,
    "unrolled_ode": unrolled_ode,
    "gaussian_process": gaussian_process,
    "many_functions": many_functions,
}
