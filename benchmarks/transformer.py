"""One training step of a small transformer whose layers are unrolled by a Python loop.

What a compiler finds hard.
"""

import numpy as np

WIDTH, HEADS, HIDDEN, VOCABULARY = 128, 4, 512, 256
BATCH, LENGTH = 8, 64


def init_params(layers):
    """Parameters as NumPy arrays, the same for every library."""
    rng = np.random.default_rng(0)

    def weights(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    def norm():
        return {"scale": np.ones(WIDTH, np.float32), "bias": np.zeros(WIDTH, np.float32)}

    def block():
        return {
            "qkv": weights(WIDTH, 3 * WIDTH),
            "out": weights(WIDTH, WIDTH),
            "up": weights(WIDTH, HIDDEN),
            "down": weights(HIDDEN, WIDTH),
            "norms": [norm(), norm()],
        }

    return {
        "embedding": weights(VOCABULARY, WIDTH),
        "position": weights(LENGTH, WIDTH),
        "blocks": [block() for _ in range(layers)],
        "norm": norm(),
        "logits": weights(WIDTH, VOCABULARY),
    }


def make_batch():
    """Tokens and the tokens that follow them, i32[8,64] each."""
    tokens = (
        np.random.default_rng(1).integers(VOCABULARY, size=(BATCH, LENGTH + 1)).astype(np.int32)
    )
    return tokens[:, :-1], tokens[:, 1:]


def make_loss(jax, jnp):
    """loss(params, tokens, targets) -> f32[], for the library given."""

    def norm(x, params):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * params["scale"] + params["bias"]

    def attention(block, x):
        qkv = (x @ block["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
        causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        shares = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(BATCH, LENGTH, WIDTH) @ block["out"]

    def loss(params, tokens, targets):
        x = params["embedding"][tokens] + params["position"]
        for block in params["blocks"]:
            x = x + attention(block, norm(x, block["norms"][0]))
            x = x + jax.nn.gelu(norm(x, block["norms"][1]) @ block["up"]) @ block["down"]
        log_probabilities = jax.nn.log_softmax(norm(x, params["norm"]) @ params["logits"])
        return -jnp.mean(jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1))

    return loss
