"""A decoder of four layers in flax.nnx, trained by optax on a made-up language, as a user of both
writes it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from reporting import measured

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 256, 128, 4, 4, 8, 64


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List([nnx.LayerNorm(WIDTH, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.up, self.down = (
            nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs),
            nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs),
        )

    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        x = x + self.attention(self.norms[0](x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norms[1](x))))


class Decoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens, self.places = (
            nnx.Embed(VOCABULARY, WIDTH, rngs=rngs),
            nnx.Embed(LENGTH, WIDTH, rngs=rngs),
        )
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.places(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.tokens.attend(self.norm(x))


@nnx.jit
def train_step(model: Decoder, optimizer: nnx.Optimizer, tokens: jax.Array) -> jax.Array:
    def loss(model: Decoder) -> jax.Array:
        logits = model(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


model = Decoder(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
starts = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, 1))
batch = jnp.asarray((starts + 3 * np.arange(LENGTH + 1)) % VOCABULARY)
measured(lambda: train_step(model, optimizer, batch), steps=10)
