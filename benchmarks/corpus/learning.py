"""Programs of the corpus as their users wrote them after the others: generative models, search,
control and inference, small and large."""

from __future__ import annotations

import numpy as np
from cases import (
    Case,
    convolve,
    cross_entropy,
    labels,
    layer_norm,
    normal,
    program,
    training,
    weights,
)


@program
def convolutional_vae(jax, jnp):
    """Images by strided convolutions to a Gaussian code, and back by transposed ones."""
    rng = np.random.default_rng(0)
    params = {
        "down": [weights(rng, 3, 3, 1, 16), weights(rng, 3, 3, 16, 32)],
        "code": weights(rng, 7 * 7 * 32, 32),
        "up": weights(rng, 16, 7 * 7 * 32),
        "out": [weights(rng, 3, 3, 32, 16), weights(rng, 3, 3, 16, 1)],
    }

    def loss(params, x, seed):
        h = x
        for w in params["down"]:
            h = jax.nn.relu(convolve(jax, h, w, 2))
        mean, log_variance = jnp.split(h.reshape(x.shape[0], -1) @ params["code"], 2, axis=-1)
        noise = jax.random.normal(jax.random.key(seed), mean.shape)
        z = mean + jnp.exp(0.5 * log_variance) * noise
        h = jax.nn.relu(z @ params["up"]).reshape(-1, 7, 7, 32)
        for i, w in enumerate(params["out"]):
            h = jax.lax.conv_transpose(h, w, (2, 2), "SAME")
            h = jax.nn.relu(h) if i == 0 else h
        rebuilt = jnp.sum(jnp.logaddexp(0, h) - x * h, (1, 2, 3))
        divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), -1)
        return jnp.mean(rebuilt + divergence)

    x = rng.random((32, 28, 28, 1)).astype(np.float32)
    return training(jax, loss, params, x, np.uint32(3), optimizer="adamw")


@program
def gru_language_model(jax, jnp):
    """Two layers of gated units in a scan over 40 tokens of 32 sentences."""
    rng = np.random.default_rng(0)
    width, words = 128, 1000
    params = {
        "embed": weights(rng, words, width),
        "cells": [
            (weights(rng, 2 * width, 2 * width), weights(rng, 2 * width, width)) for _ in range(2)
        ],
        "out": weights(rng, width, words),
    }

    def cell(weights, h, x):
        gates, new = weights
        r, z = jnp.split(jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ gates), 2, axis=-1)
        return (1 - z) * h + z * jnp.tanh(jnp.concatenate([x, r * h], -1) @ new)

    def loss(params, tokens):
        def step(state, token):
            x, after = params["embed"][token], []
            for w, h in zip(params["cells"], state, strict=True):
                x = cell(w, h, x)
                after.append(x)
            return tuple(after), x

        zero = jnp.zeros((tokens.shape[0], width))
        _, hidden = jax.lax.scan(step, (zero, zero), tokens.T[:-1])
        return cross_entropy(jax, jnp, hidden @ params["out"], tokens.T[1:])

    return training(jax, loss, params, labels(rng, words, 32, 41), optimizer="adamw")


@program
def kernel_parameters(jax, jnp):
    """The marginal likelihood of a Gaussian process of 200 points, and a step on its logarithms."""
    rng = np.random.default_rng(0)

    def loss(params, x, y):
        scale, length, noise = jnp.exp(params["scale"]), jnp.exp(params["length"]), params["noise"]
        distances = jnp.sum(((x[:, None] - x[None]) / length) ** 2, -1)
        k = scale * jnp.exp(-0.5 * distances) + (jnp.exp(noise) + 1e-4) * jnp.eye(x.shape[0])
        factor = jnp.linalg.cholesky(k)
        solved = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return (
            0.5 * solved @ solved
            + jnp.sum(jnp.log(jnp.diagonal(factor)))
            + 0.5 * y.size * jnp.log(2 * jnp.pi)
        )

    params = {"scale": np.float32(0), "length": np.zeros(3, np.float32), "noise": np.float32(-2)}
    return training(jax, loss, params, normal(rng, 200, 3), normal(rng, 200), optimizer="adamw")


@program
def planets(jax, jnp):
    """Leapfrog steps of 64 bodies in a scan, and the energy after each."""
    rng = np.random.default_rng(0)

    def run(positions, velocities, masses):
        def forces(x):
            d = x[:, None] - x[None]
            r2 = jnp.sum(d**2, -1) + 1e-2
            return -jnp.sum(masses[None, :, None] * d / (r2**1.5)[..., None], 1)

        def energy(x, v):
            d = jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, -1) + 1e-2)
            pairs = masses[:, None] * masses[None] / d
            return 0.5 * jnp.sum(masses * jnp.sum(v**2, -1)) - 0.5 * jnp.sum(jnp.triu(pairs, 1))

        def step(state, _):
            x, v = state
            v = v + 0.005 * forces(x)
            x = x + 0.01 * v
            v = v + 0.005 * forces(x)
            return (x, v), energy(x, v)

        return jax.lax.scan(step, (positions, velocities), None, 100)

    return Case(run, (normal(rng, 64, 3), normal(rng, 64, 3), rng.random(64).astype(np.float32)))


@program
def ising_sweeps(jax, jnp):
    """Checkerboard sweeps of a 32 x 32 magnet, in `fori_loop`, of 8 temperatures by vmap."""
    rng = np.random.default_rng(0)
    board = np.indices((32, 32)).sum(0) % 2

    def run(spins, temperatures, seed):
        def chain(beta, key):
            def sweep(i, state):
                spins, key = state
                for colour in (0, 1):
                    key, own = jax.random.split(key)
                    around = sum(jnp.roll(spins, s, a) for s in (1, -1) for a in (0, 1))
                    chance = jnp.exp(-2 * beta * spins * around)
                    flip = (jax.random.uniform(own, spins.shape) < chance) & (board == colour)
                    spins = jnp.where(flip, -spins, spins)
                return spins, key

            return jax.lax.fori_loop(0, 50, sweep, (spins, key))[0].mean()

        return jax.vmap(chain)(1 / temperatures, jax.random.split(jax.random.key(seed), 8))

    spins = rng.choice([-1.0, 1.0], (32, 32)).astype(np.float32)
    return Case(run, (spins, np.linspace(1, 4, 8, dtype=np.float32), np.uint32(0)))


@program
def transport(jax, jnp):
    """Sinkhorn's iterations between two clouds until they converge, and the plan's cost."""
    rng = np.random.default_rng(0)

    def run(x, y):
        cost = jnp.sum((x[:, None] - y[None]) ** 2, -1)
        a, b = -jnp.log(x.shape[0]), -jnp.log(y.shape[0])

        def step(state):
            i, f, g, _ = state
            new = 0.1 * (a - jax.nn.logsumexp((g[None] - cost) / 0.1, axis=1))
            g = 0.1 * (b - jax.nn.logsumexp((new[:, None] - cost) / 0.1, axis=0))
            return i + 1, new, g, jnp.abs(new - f).max()

        start = (0, jnp.zeros(x.shape[0]), jnp.zeros(y.shape[0]), jnp.inf)
        _, f, g, _ = jax.lax.while_loop(lambda s: (s[0] < 30) & (s[3] > 1e-6), step, start)
        return jnp.sum(jnp.exp((f[:, None] + g[None] - cost) / 0.1) * cost)

    return Case(run, (normal(rng, 100, 2), normal(rng, 120, 2)))


@program
def beam_search(jax, jnp):
    """20 words by beams of 4 with a recurrent cell."""
    rng = np.random.default_rng(0)
    width, words, beams = 64, 500, 4
    shapes = [(words, width), (2 * width, width), (width, words)]
    params = tuple(weights(rng, *shape) for shape in shapes)

    def run(params, first):
        embed, cell, out = params

        def step(state, i):
            tokens, scores, hidden = state
            x = jnp.concatenate([embed[tokens[:, i]], hidden], -1)
            hidden = jnp.tanh(x @ cell)
            total = scores[:, None] + jax.nn.log_softmax(hidden @ out)
            scores, places = jax.lax.top_k(total.reshape(-1), beams)
            parents, words_ = places // words, places % words
            tokens = tokens[parents].at[:, i + 1].set(words_)
            return (tokens, scores, hidden[parents]), scores

        tokens = jnp.zeros((beams, 21), jnp.int32).at[:, 0].set(first)
        scores = jnp.array([0.0] + [-jnp.inf] * (beams - 1))
        state = (tokens, scores, jnp.zeros((beams, width)))
        (tokens, scores, _), history = jax.lax.scan(step, state, jnp.arange(20))
        return tokens[jnp.argmax(scores)], scores, history

    return Case(run, (params, np.int32(7)))


@program
def residual_group_norm(jax, jnp):
    """A residual network of 4 blocks in 2 widths, normalised by groups."""
    rng = np.random.default_rng(0)
    widths = [(32, 32), (32, 64), (64, 64), (64, 64)]
    params = {
        "stem": weights(rng, 3, 3, 3, 32),
        "blocks": [
            {
                "a": weights(rng, 3, 3, i, o),
                "b": weights(rng, 3, 3, o, o),
                "skip": weights(rng, 1, 1, i, o),
                "scale": np.ones((2, o), np.float32),
            }
            for i, o in widths
        ],
        "head": weights(rng, 64, 10),
    }

    def group_norm(x, scale):
        n, h, w, c = x.shape
        g = x.reshape(n, h, w, 8, c // 8)
        mean, variance = g.mean((1, 2, 4), keepdims=True), g.var((1, 2, 4), keepdims=True)
        return ((g - mean) / jnp.sqrt(variance + 1e-5)).reshape(x.shape) * scale

    def loss(params, x, y):
        x = convolve(jax, x, params["stem"])
        for p, (i, o) in zip(params["blocks"], widths, strict=True):
            stride = 1 if i == o else 2
            h = jax.nn.relu(group_norm(convolve(jax, x, p["a"], stride), p["scale"][0]))
            h = group_norm(convolve(jax, h, p["b"]), p["scale"][1])
            x = jax.nn.relu(h + (x if i == o else convolve(jax, x, p["skip"], stride)))
        return cross_entropy(jax, jnp, x.mean((1, 2)) @ params["head"], y)

    return training(jax, loss, params, normal(rng, 8, 16, 16, 3), labels(rng, 10, 8))


@program
def quasi_newton(jax, jnp):
    """BFGS on Rosenbrock's function of 10 variables, with a search along the line."""
    rng = np.random.default_rng(0)

    def run(x):
        def f(x):
            return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

        def step(state, _):
            x, h, g = state
            p = -h @ g
            rates = 0.5 ** jnp.arange(10.0)
            best = rates[jnp.argmin(jax.vmap(lambda r: f(x + r * p))(rates))]
            s = best * p
            new = jax.grad(f)(x + s)
            y = new - g
            rho = 1 / jnp.where(s @ y > 1e-8, s @ y, 1e-8)
            left = jnp.eye(x.size) - rho * jnp.outer(s, y)
            return (x + s, left @ h @ left.T + rho * jnp.outer(s, s), new), f(x)

        return jax.lax.scan(step, (x, jnp.eye(x.size), jax.grad(f)(x)), None, 50)

    return Case(run, (normal(rng, 10),))


@program
def kalman_smoother(jax, jnp):
    """Forwards and backwards over 100 observations of 4 states, and the gradient of the fit."""
    rng = np.random.default_rng(0)

    def smooth(params, observations):
        a, c, q, r = params

        def forward(state, y):
            m, p = state
            m, p = a @ m, a @ p @ a.T + q @ q.T
            s = c @ p @ c.T + r @ r.T
            gain = jnp.linalg.solve(s, c @ p).T
            error = y - c @ m
            m, p = m + gain @ error, p - gain @ s @ gain.T
            return (m, p), (m, p, jnp.sum(error**2))

        def backward(after, filtered):
            m, p = filtered
            m1, p1 = after
            predicted = a @ p @ a.T + q @ q.T
            gain = jnp.linalg.solve(predicted, a @ p).T
            m = m + gain @ (m1 - a @ m)
            p = p + gain @ (p1 - predicted) @ gain.T
            return (m, p), m

        start = (jnp.zeros(4), jnp.eye(4))
        last, (ms, ps, errors) = jax.lax.scan(forward, start, observations)
        _, means = jax.lax.scan(backward, last, (ms[:-1], ps[:-1]), reverse=True)
        return jnp.sum(errors) + jnp.sum((means @ c.T - observations[:-1]) ** 2)

    params = (
        np.eye(4, dtype=np.float32) * 0.9,
        normal(rng, 2, 4),
        np.eye(4, dtype=np.float32) * 0.3,
        np.eye(2, dtype=np.float32),
    )
    return training(jax, smooth, params, normal(rng, 100, 2))


@program
def policy_update(jax, jnp):
    """Proximal policy optimisation: advantages by a scan, then 4 epochs of 4 minibatches."""
    rng = np.random.default_rng(0)
    params = [weights(rng, a, b) for a, b in [(8, 64), (64, 64), (64, 5)]]

    def network(params, x):
        for w in params[:-1]:
            x = jnp.tanh(x @ w)
        x = x @ params[-1]
        return jax.nn.log_softmax(x[..., :4]), x[..., 4]

    def run(params, observations, actions, rewards, seed):
        old, values = network(params, observations)
        old = jnp.take_along_axis(old, actions[..., None], -1)[..., 0]

        def advantage(after, now):
            gae, following = after
            reward, value = now
            gae = reward + 0.99 * following - value + 0.95 * 0.99 * gae
            return (gae, value), gae

        zero = jnp.zeros(rewards.shape[1])
        _, advantages = jax.lax.scan(advantage, (zero, zero), (rewards, values), reverse=True)
        flat = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]),
            (observations, actions, old, advantages, advantages + values),
        )

        def loss(params, batch):
            x, action, before, gain, target = batch
            now, value = network(params, x)
            entropy = -jnp.mean(jnp.sum(jnp.exp(now) * now, -1))
            now = jnp.take_along_axis(now, action[:, None], -1)[:, 0]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = jnp.exp(now - before)
            surrogate = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)
            return -surrogate.mean() + 0.5 * jnp.mean((value - target) ** 2) - 0.01 * entropy

        def epoch(params, key):
            order = jax.random.permutation(key, flat[0].shape[0]).reshape(4, -1)

            def minibatch(params, places):
                batch = jax.tree.map(lambda x: x[places], flat)
                value, gradients = jax.value_and_grad(loss)(params, batch)
                return jax.tree.map(lambda p, g: p - 3e-3 * g, params, gradients), value

            return jax.lax.scan(minibatch, params, order)

        return jax.lax.scan(epoch, params, jax.random.split(jax.random.key(seed), 4))

    return Case(
        run,
        (params, normal(rng, 64, 8, 8), labels(rng, 4, 64, 8), normal(rng, 64, 8), np.uint32(0)),
    )


@program
def patches_with_dropout(jax, jnp):
    """A vision transformer of 4 layers with dropout of its attention and features."""
    rng = np.random.default_rng(0)
    width, heads = 64, 4
    params = {
        "embed": weights(rng, 48, width),
        "place": weights(rng, 65, width),
        "layers": [
            {
                "qkv": weights(rng, width, 3 * width),
                "out": weights(rng, width, width),
                "up": weights(rng, width, 4 * width),
                "down": weights(rng, 4 * width, width),
                "scales": np.ones((2, width), np.float32),
            }
            for _ in range(4)
        ],
        "head": weights(rng, width, 10),
    }

    def dropout(key, x):
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    def loss(params, images, y, seed):
        n = images.shape[0]
        x = images.reshape(n, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 64, 48)
        x = x @ params["embed"]
        x = jnp.concatenate([jnp.zeros((n, 1, width)), x], 1) + params["place"]
        for p, key in zip(params["layers"], jax.random.split(jax.random.key(seed), 4), strict=True):
            a, b, c = jax.random.split(key, 3)
            h = layer_norm(jnp, x, p["scales"][0])
            q, k, v = jnp.split((h @ p["qkv"]).reshape(n, 65, heads, -1), 3, axis=-1)
            shares = jax.nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", q, k) / 4)
            h = jnp.einsum("nhqk,nkhd->nqhd", dropout(a, shares), v).reshape(n, 65, width)
            x = x + dropout(b, h @ p["out"])
            h = jax.nn.gelu(layer_norm(jnp, x, p["scales"][1]) @ p["up"])
            x = x + dropout(c, h @ p["down"])
        return cross_entropy(jax, jnp, x[:, 0] @ params["head"], y)

    return training(
        jax,
        loss,
        params,
        normal(rng, 16, 32, 32, 3),
        labels(rng, 10, 16),
        np.uint32(0),
        optimizer="adamw",
    )
