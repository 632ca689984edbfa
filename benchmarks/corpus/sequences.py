"""Programs of the corpus: sequences, graphs and generative models."""

from __future__ import annotations

import numpy as np
from cases import Case, cross_entropy, labels, normal, program, training, weights


@program
def lstm_scan(jax, jnp):
    """An LSTM over 100 time steps in a scan."""
    rng = np.random.default_rng(0)
    size = 64
    params = {
        "input": weights(rng, 16, 4 * size),
        "state": weights(rng, size, 4 * size),
        "out": weights(rng, size, 1),
    }

    def loss(params, xs, ys):
        def step(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ params["input"] + h @ params["state"], 4, axis=-1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((16, size))
        (h, _), _ = jax.lax.scan(step, (zeros, zeros), xs)
        return jnp.mean((h @ params["out"] - ys) ** 2)

    return training(
        jax, loss, params, normal(rng, 100, 16, 16), normal(rng, 16, 1), optimizer="adamw"
    )


@program
def gru_unrolled(jax, jnp):
    """A GRU over 20 time steps, unrolled."""
    rng = np.random.default_rng(0)
    params = {
        "input": weights(rng, 8, 96),
        "state": weights(rng, 32, 96),
        "out": weights(rng, 32, 4),
    }

    def loss(params, xs, ys):
        h = jnp.zeros((8, 32))
        for t in range(20):
            a, b = xs[t] @ params["input"], h @ params["state"]
            reset, update = (
                jax.nn.sigmoid(a[:, :32] + b[:, :32]),
                jax.nn.sigmoid(a[:, 32:64] + b[:, 32:64]),
            )
            h = update * h + (1 - update) * jnp.tanh(a[:, 64:] + reset * b[:, 64:])
        return cross_entropy(jax, jnp, h @ params["out"], ys)

    return training(jax, loss, params, normal(rng, 20, 8, 8), labels(rng, 4, 8))


@program
def state_space(jax, jnp):
    """Linear recurrences of complex numbers by an associative scan, 3 layers."""
    rng = np.random.default_rng(0)
    params = [
        {
            "decay": normal(rng, 32),
            "angle": normal(rng, 32),
            "in": weights(rng, 32, 32),
            "out": weights(rng, 32, 32),
        }
        for _ in range(3)
    ]

    def loss(params, x, y):
        def join(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]

        for p in params:
            factor = jnp.exp(-jnp.exp(p["decay"]) + 1j * p["angle"])
            inputs = (x @ p["in"]).astype(jnp.complex64)
            _, states = jax.lax.associative_scan(
                join, (jnp.broadcast_to(factor, inputs.shape), inputs)
            )
            x = x + jax.nn.gelu(states.real @ p["out"])
        return jnp.mean((x - y) ** 2)

    return training(jax, loss, params, normal(rng, 256, 32), normal(rng, 256, 32))


@program
def hidden_markov(jax, jnp):
    """The likelihood of 200 observations by the forward algorithm."""
    rng = np.random.default_rng(0)
    params = {"move": normal(rng, 8, 8), "emit": normal(rng, 8, 16), "start": normal(rng, 8)}

    def loss(params, seen):
        move, emit = jax.nn.log_softmax(params["move"]), jax.nn.log_softmax(params["emit"])

        def step(before, symbol):
            return jax.scipy.special.logsumexp(before[:, None] + move, axis=0) + emit[
                :, symbol
            ], None

        last, _ = jax.lax.scan(
            step, jax.nn.log_softmax(params["start"]) + emit[:, seen[0]], seen[1:]
        )
        return -jax.scipy.special.logsumexp(last)

    return training(jax, loss, params, labels(rng, 16, 200))


@program
def word_vectors(jax, jnp):
    """Skip-gram with negative samples: gathers from and sums into a table."""
    rng = np.random.default_rng(0)
    params = {"words": weights(rng, 5000, 64), "contexts": weights(rng, 5000, 64)}

    def loss(params, centers, contexts, others):
        center = params["words"][centers]
        own = jnp.sum(center * params["contexts"][contexts], axis=-1)
        rest = jnp.einsum("bd,bnd->bn", center, params["contexts"][others])
        return -jnp.mean(jax.nn.log_sigmoid(own)) - jnp.mean(jax.nn.log_sigmoid(-rest))

    return training(
        jax, loss, params, labels(rng, 5000, 256), labels(rng, 5000, 256), labels(rng, 5000, 256, 8)
    )


@program
def temporal_convolutions(jax, jnp):
    """6 causal convolutions of growing dilation over 256 steps."""
    rng = np.random.default_rng(0)
    params = [weights(rng, 3, 16, 16) for _ in range(6)]

    def loss(params, x, y):
        for i, kernel in enumerate(params):
            z = jnp.pad(x, ((0, 0), (2 * 2**i, 0), (0, 0)))
            z = jax.lax.conv_general_dilated(
                z,
                kernel,
                (1,),
                "VALID",
                rhs_dilation=(2**i,),
                dimension_numbers=("NWC", "WIO", "NWC"),
            )
            x = x + jax.nn.relu(z)
        return jnp.mean((x - y) ** 2)

    return training(jax, loss, params, normal(rng, 4, 256, 16), normal(rng, 4, 256, 16))


@program
def graph_convolutions(jax, jnp):
    """3 layers of sums over the neighbours of 1000 nodes."""
    rng = np.random.default_rng(0)
    params = [weights(rng, a, b) for a, b in [(16, 32), (32, 32), (32, 4)]]

    def loss(params, x, senders, receivers, y):
        degree = jax.ops.segment_sum(jnp.ones(senders.shape[0]), receivers, 1000) + 1
        for i, w in enumerate(params):
            x = x @ w
            x = (x + jax.ops.segment_sum(x[senders], receivers, 1000)) / degree[:, None]
            x = jax.nn.relu(x) if i < 2 else x
        return cross_entropy(jax, jnp, x, y)

    edges = labels(rng, 1000, 2, 5000)
    return training(
        jax,
        loss,
        params,
        normal(rng, 1000, 16),
        edges[0],
        edges[1],
        labels(rng, 4, 1000),
        optimizer="adamw",
    )


@program
def graph_attention(jax, jnp):
    """2 layers of attention over the edges of a graph, normalised by segments."""
    rng = np.random.default_rng(0)
    params = [
        {"w": weights(rng, 16, 16), "a": normal(rng, 16), "b": normal(rng, 16)} for _ in range(2)
    ]

    def loss(params, x, senders, receivers, y):
        for p in params:
            x = x @ p["w"]
            scores = jax.nn.leaky_relu((x @ p["a"])[senders] + (x @ p["b"])[receivers], 0.2)
            most = jax.ops.segment_max(scores, receivers, 500)
            shares = jnp.exp(scores - most[receivers])
            total = jax.ops.segment_sum(shares, receivers, 500)
            x = jax.nn.elu(
                jax.ops.segment_sum(
                    x[senders] * (shares / total[receivers])[:, None], receivers, 500
                )
            )
        return jnp.mean((x - y) ** 2)

    receivers = np.concatenate([np.arange(500), rng.integers(500, size=2500)]).astype(np.int32)
    return training(
        jax,
        loss,
        params,
        normal(rng, 500, 16),
        labels(rng, 500, 3000),
        receivers,
        normal(rng, 500, 16),
    )


@program
def segment_sum_large(jax, jnp):
    """10^6 numbers summed into 1000."""
    rng = np.random.default_rng(0)
    return Case(
        lambda x, i: jax.ops.segment_sum(x, i, 1000), (normal(rng, 10**6), labels(rng, 1000, 10**6))
    )


@program
def page_rank(jax, jnp):
    """Power iteration on a graph until it has converged."""
    rng = np.random.default_rng(0)

    def rank(senders, receivers):
        degree = jnp.maximum(jax.ops.segment_sum(jnp.ones(senders.shape[0]), senders, 500), 1)

        def step(state):
            before, _, count = state
            after = 0.15 / 500 + 0.85 * jax.ops.segment_sum(
                (before / degree)[senders], receivers, 500
            )
            return after, before, count + 1

        def moves(state):
            return (jnp.max(jnp.abs(state[0] - state[1])) > 1e-7) & (state[2] < 100)

        return jax.lax.while_loop(moves, step, (jnp.full(500, 1 / 500), jnp.zeros(500), 0))[0]

    return Case(rank, (labels(rng, 500, 4000), labels(rng, 500, 4000)))


@program
def variational_autoencoder(jax, jnp):
    """Dense encoder and decoder with a random latent vector."""
    rng = np.random.default_rng(0)
    params = [weights(rng, a, b) for a, b in [(196, 128), (128, 32), (16, 128), (128, 196)]]

    def loss(params, x, seed):
        mean, spread = jnp.split(jnp.tanh(x @ params[0]) @ params[1], 2, axis=-1)
        z = mean + jnp.exp(0.5 * spread) * jax.random.normal(jax.random.key(seed), mean.shape)
        logits = jnp.tanh(z @ params[2]) @ params[3]
        fit = jnp.sum(jax.nn.softplus(logits) - x * logits, axis=-1)
        return jnp.mean(fit - 0.5 * jnp.sum(1 + spread - mean**2 - jnp.exp(spread), axis=-1))

    return training(
        jax, loss, params, rng.random((64, 196)).astype(np.float32), np.uint32(3), optimizer="adamw"
    )


@program
def adversarial(jax, jnp):
    """A step of a generator and of a discriminator."""
    rng = np.random.default_rng(0)
    params = {
        "make": [weights(rng, a, b) for a, b in [(8, 64), (64, 64), (64, 32)]],
        "judge": [weights(rng, a, b) for a, b in [(32, 64), (64, 64), (64, 1)]],
    }

    def apply(layers, x):
        for w in layers[:-1]:
            x = jax.nn.leaky_relu(x @ w)
        return x @ layers[-1]

    def loss(params, noise, real):
        made = apply(params["make"], noise)
        held = jax.lax.stop_gradient(params["judge"])
        judge = jnp.mean(jax.nn.softplus(-apply(params["judge"], real)))
        judge += jnp.mean(jax.nn.softplus(apply(params["judge"], jax.lax.stop_gradient(made))))
        return judge + jnp.mean(jax.nn.softplus(-apply(held, made)))

    return training(jax, loss, params, normal(rng, 64, 8), normal(rng, 64, 32), optimizer="adamw")


@program
def normalizing_flow(jax, jnp):
    """8 affine couplings on points of 8 dimensions."""
    rng = np.random.default_rng(0)
    params = [(weights(rng, 4, 32), weights(rng, 32, 8)) for _ in range(8)]

    def loss(params, x):
        volume = 0.0
        for i, (first, second) in enumerate(params):
            a, b = (x[:, :4], x[:, 4:]) if i % 2 == 0 else (x[:, 4:], x[:, :4])
            shift, scale = jnp.split(jnp.tanh(a @ first) @ second, 2, axis=-1)
            b = b * jnp.exp(jnp.tanh(scale)) + shift
            x = jnp.concatenate([a, b] if i % 2 == 0 else [b, a], axis=-1)
            volume += jnp.sum(jnp.tanh(scale), axis=-1)
        return jnp.mean(0.5 * jnp.sum(x**2, axis=-1) - volume)

    return training(jax, loss, params, normal(rng, 256, 8), optimizer="adamw")


def denoiser_params(rng):
    return {
        "time": weights(rng, 16, 64),
        "layers": [weights(rng, a, b) for a, b in [(16, 64), (64, 64), (64, 64), (64, 16)]],
    }


def denoise(jax, jnp, params, x, t):
    angles = t[..., None] * (2.0 ** jnp.arange(8))
    h = (
        x @ params["layers"][0]
        + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1) @ params["time"]
    )
    for w in params["layers"][1:-1]:
        h = h + jax.nn.silu(h) @ w
    return jax.nn.silu(h) @ params["layers"][-1]


@program
def diffusion(jax, jnp):
    """A denoiser trained at random noise levels."""
    rng = np.random.default_rng(0)

    def loss(params, x, seed):
        a, b = jax.random.split(jax.random.key(seed))
        t = jax.random.uniform(a, (x.shape[0],))
        noise = jax.random.normal(b, x.shape)
        mixed = jnp.cos(t * np.pi / 2)[:, None] * x + jnp.sin(t * np.pi / 2)[:, None] * noise
        return jnp.mean((denoise(jax, jnp, params, mixed, t) - noise) ** 2)

    return training(
        jax, loss, denoiser_params(rng), normal(rng, 128, 16), np.uint32(0), optimizer="adamw"
    )


@program
def diffusion_sampling(jax, jnp):
    """50 denoising steps with noise, in a loop."""
    rng = np.random.default_rng(0)

    def sample(params, seed):
        key = jax.random.key(seed)

        def step(i, x):
            t = 1.0 - i / 50
            x = x - 0.05 * denoise(jax, jnp, params, x, jnp.full(64, t))
            return x + 0.01 * jax.random.normal(jax.random.fold_in(key, i), x.shape)

        return jax.lax.fori_loop(0, 50, step, jax.random.normal(key, (64, 16)))

    return Case(sample, (denoiser_params(rng), np.uint32(1)))


@program
def neural_ode(jax, jnp):
    """40 Runge-Kutta steps of a network in a scan, and their gradient."""
    rng = np.random.default_rng(0)
    params = [weights(rng, 4, 32), weights(rng, 32, 32), weights(rng, 32, 4)]

    def field(params, x):
        return jnp.tanh(jnp.tanh(x @ params[0]) @ params[1]) @ params[2]

    def loss(params, x, y):
        def step(x, _):
            a = field(params, x)
            b = field(params, x + 0.025 * a)
            c = field(params, x + 0.025 * b)
            d = field(params, x + 0.05 * c)
            return x + 0.05 / 6 * (a + 2 * b + 2 * c + d), None

        return jnp.mean((jax.lax.scan(step, x, None, 40)[0] - y) ** 2)

    return training(jax, loss, params, normal(rng, 32, 4), normal(rng, 32, 4), optimizer="adamw")


@program
def policy_gradient(jax, jnp):
    """64 rollouts of a cart with a pole, 50 steps each, and the gradient of the policy."""
    rng = np.random.default_rng(0)
    params = [weights(rng, 4, 32), weights(rng, 32, 2)]

    def move(state, force):
        x, v, angle, spin = state
        sin, cos = jnp.sin(angle), jnp.cos(angle)
        push = (force + 0.05 * spin**2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        return jnp.stack(
            [
                x + 0.02 * v,
                v + 0.02 * (push - 0.05 * turn * cos / 1.1),
                angle + 0.02 * spin,
                spin + 0.02 * turn,
            ]
        )

    def rollout(params, state, key):
        def step(state, key):
            logits = jax.nn.log_softmax(jnp.tanh(state @ params[0]) @ params[1])
            action = jax.random.categorical(key, logits)
            after = move(state, jnp.where(action == 1, 10.0, -10.0))
            return jax.lax.stop_gradient(after), (
                logits[action],
                (jnp.abs(after[2]) < 0.2).astype(jnp.float32),
            )

        _, (chosen, rewards) = jax.lax.scan(step, state, jax.random.split(key, 50))
        gains = jax.lax.scan(lambda g, r: (r + 0.99 * g,) * 2, 0.0, rewards, reverse=True)[1]
        return -jnp.sum(chosen * jax.lax.stop_gradient(gains - jnp.mean(gains)))

    def loss(params, states, seed):
        keys = jax.random.split(jax.random.key(seed), states.shape[0])
        return jnp.mean(jax.vmap(rollout, (None, 0, 0))(params, states, keys))

    return training(jax, loss, params, 0.05 * normal(rng, 64, 4), np.uint32(0))


@program
def q_learning(jax, jnp):
    """Double Q-learning on a batch of transitions, with a target network that follows."""
    rng = np.random.default_rng(0)
    params = [weights(rng, 8, 64), weights(rng, 64, 64), weights(rng, 64, 4)]

    def values(params, x):
        return jax.nn.relu(jax.nn.relu(x @ params[0]) @ params[1]) @ params[2]

    def loss(params, target, states, actions, rewards, after):
        best = jnp.argmax(values(params, after), axis=-1)
        goal = rewards + 0.99 * jnp.take_along_axis(values(target, after), best[:, None], 1)[:, 0]
        error = jnp.take_along_axis(values(params, states), actions[:, None], 1)[
            :, 0
        ] - jax.lax.stop_gradient(goal)
        return jnp.mean(jnp.where(jnp.abs(error) < 1, 0.5 * error**2, jnp.abs(error) - 0.5))

    def step(params, target, *batch):
        value, gradients = jax.value_and_grad(loss)(params, target, *batch)
        params = jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients)
        return params, jax.tree.map(lambda t, p: 0.99 * t + 0.01 * p, target, params), value

    args = (
        params,
        params,
        normal(rng, 128, 8),
        labels(rng, 4, 128),
        normal(rng, 128),
        normal(rng, 128, 8),
    )
    return {"forward": Case(loss, args), "train": Case(step, args)}
