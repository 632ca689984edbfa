"""Programs of the corpus: transformers, trained and run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from cases import (
    Case,
    Cases,
    Library,
    Tree,
    cross_entropy,
    labels,
    layer_norm,
    normal,
    program,
    training,
    weights,
)


class Shape(NamedTuple):
    """How large a transformer and its batch are."""

    layers: int
    width: int = 128
    heads: int = 4
    batch: int = 4
    length: int = 64
    vocabulary: int = 256


def block_params(rng: np.random.Generator, width: int) -> Tree:
    return {
        "qkv": weights(rng, width, 3 * width),
        "out": weights(rng, width, width),
        "up": weights(rng, width, 4 * width),
        "down": weights(rng, 4 * width, width),
        "scales": [np.ones(width, np.float32) for _ in range(2)],
    }


def init(rng: np.random.Generator, shape: Shape) -> Tree:
    return {
        "embedding": weights(rng, shape.vocabulary, shape.width),
        "position": weights(rng, shape.length, shape.width),
        "blocks": [block_params(rng, shape.width) for _ in range(shape.layers)],
        "scale": np.ones(shape.width, np.float32),
    }


def attention(
    jax: Library, jnp: Library, p: Tree, x: Tree, heads: int, causal: bool = True
) -> Tree:
    batch, length, width = x.shape
    q, k, v = (
        a.reshape(batch, length, heads, width // heads) for a in jnp.split(x @ p["qkv"], 3, axis=-1)
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads).astype(x.dtype)
    if causal:
        scores = jnp.where(
            jnp.tril(jnp.ones((length, length), bool)), scores, jnp.finfo(x.dtype).min
        )
    shares = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(batch, length, width) @ p["out"]


def block(jax: Library, jnp: Library, p: Tree, x: Tree, heads: int, causal: bool = True) -> Tree:
    x = x + attention(jax, jnp, p, layer_norm(jnp, x, p["scales"][0]), heads, causal)
    return x + jax.nn.gelu(layer_norm(jnp, x, p["scales"][1]) @ p["up"]) @ p["down"]


def tokens_of(rng: np.random.Generator, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    tokens = labels(rng, shape.vocabulary, shape.batch, shape.length + 1)
    return tokens[:, :-1], tokens[:, 1:]


def language_model(
    jax: Library, jnp: Library, shape: Shape, remat: bool = False, optimizer: str = "sgd"
) -> Cases:
    rng = np.random.default_rng(0)
    layer = jax.checkpoint(lambda p, x: block(jax, jnp, p, x, shape.heads)) if remat else None

    def loss(params, tokens, targets):
        x = params["embedding"][tokens] + params["position"]
        for p in params["blocks"]:
            x = layer(p, x) if layer else block(jax, jnp, p, x, shape.heads)
        return cross_entropy(
            jax, jnp, layer_norm(jnp, x, params["scale"]) @ params["embedding"].T, targets
        )

    return training(jax, loss, init(rng, shape), *tokens_of(rng, shape), optimizer=optimizer)


@program
def transformer_tiny(jax, jnp):
    """2 layers of width 64."""
    return language_model(jax, jnp, Shape(2, 64, 2))


@program
def transformer_6_wide(jax, jnp):
    """6 layers of width 256."""
    return language_model(jax, jnp, Shape(6, 256, 8))


@program
def transformer_adamw(jax, jnp):
    """6 layers, AdamW, gradients clipped by their norm."""
    return language_model(jax, jnp, Shape(6), optimizer="adamw")


@program
def transformer_remat(jax, jnp):
    """8 layers that are computed again in the backward pass."""
    return language_model(jax, jnp, Shape(8), remat=True)


@program
def transformer_mixed(jax, jnp):
    """4 layers that compute in bfloat16, parameters in float32."""
    rng = np.random.default_rng(0)
    shape = Shape(4)

    def loss(params, tokens, targets):
        low = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        x = low["embedding"][tokens] + low["position"]
        for p in low["blocks"]:
            x = block(jax, jnp, p, x, shape.heads)
        logits = layer_norm(jnp, x, low["scale"]) @ low["embedding"].T
        return cross_entropy(jax, jnp, logits.astype(jnp.float32), targets)

    return training(jax, loss, init(rng, shape), *tokens_of(rng, shape), optimizer="adamw")


@program
def transformer_dropout(jax, jnp):
    """6 layers with dropout after attention and after the dense layers."""
    rng = np.random.default_rng(0)
    shape = Shape(6)

    def drop(key, x):
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    def loss(params, tokens, targets, seed):
        key = jax.random.key(seed)
        x = params["embedding"][tokens] + params["position"]
        for p in params["blocks"]:
            key, first, second = jax.random.split(key, 3)
            x = x + drop(
                first, attention(jax, jnp, p, layer_norm(jnp, x, p["scales"][0]), shape.heads)
            )
            x = x + drop(
                second, jax.nn.gelu(layer_norm(jnp, x, p["scales"][1]) @ p["up"]) @ p["down"]
            )
        return cross_entropy(
            jax, jnp, layer_norm(jnp, x, params["scale"]) @ params["embedding"].T, targets
        )

    return training(jax, loss, init(rng, shape), *tokens_of(rng, shape), np.uint32(0))


@program
def transformer_scanned(jax, jnp):
    """12 layers whose parameters are stacked, in a scan."""
    rng = np.random.default_rng(0)
    shape = Shape(12)
    params = init(rng, shape)
    params["blocks"] = jax.tree.map(lambda *leaves: np.stack(leaves), *params["blocks"])

    def loss(params, tokens, targets):
        x = params["embedding"][tokens] + params["position"]
        x, _ = jax.lax.scan(
            lambda x, p: (block(jax, jnp, p, x, shape.heads), None), x, params["blocks"]
        )
        return cross_entropy(
            jax, jnp, layer_norm(jnp, x, params["scale"]) @ params["embedding"].T, targets
        )

    return training(jax, loss, params, *tokens_of(rng, shape), optimizer="adamw")


@program
def vision_transformer(jax, jnp):
    """6 layers on patches of 4 x 4 of images of 32 x 32."""
    rng = np.random.default_rng(0)
    params = init(rng, Shape(6, length=64)) | {
        "patch": weights(rng, 48, 128),
        "out": weights(rng, 128, 10),
    }
    del params["embedding"]

    def loss(params, images, targets):
        patches = images.reshape(-1, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 64, 48)
        x = patches @ params["patch"] + params["position"]
        for p in params["blocks"]:
            x = block(jax, jnp, p, x, 4, causal=False)
        return cross_entropy(
            jax, jnp, jnp.mean(layer_norm(jnp, x, params["scale"]), 1) @ params["out"], targets
        )

    return training(jax, loss, params, normal(rng, 4, 32, 32, 3), labels(rng, 10, 4))


@program
def mixture_of_experts(jax, jnp):
    """4 layers of 4 experts; each token goes to its two best."""
    rng = np.random.default_rng(0)
    params = [
        {
            "gate": weights(rng, 64, 4),
            "up": normal(rng, 4, 64, 128) / 8,
            "down": normal(rng, 4, 128, 64) / 11,
        }
        for _ in range(4)
    ]

    def loss(params, x, y):
        for p in params:
            best, chosen = jax.lax.top_k(x @ p["gate"], 2)
            shares = jnp.sum(jax.nn.one_hot(chosen, 4) * jax.nn.softmax(best)[..., None], axis=1)
            outs = jnp.einsum(
                "ech,ehd->ecd", jax.nn.gelu(jnp.einsum("cd,edh->ech", x, p["up"])), p["down"]
            )
            x = x + jnp.einsum("ce,ecd->cd", shares, outs)
        return jnp.mean((x - y) ** 2)

    return training(jax, loss, params, normal(rng, 256, 64), normal(rng, 256, 64))


@program
def decode_with_cache(jax, jnp):
    """32 tokens, one after the other, by 4 layers that keep keys and values."""
    rng = np.random.default_rng(0)
    shape = Shape(4, 64, 2, 1, 32)
    width, heads, length = shape.width, shape.heads, shape.length
    params = init(rng, shape)

    def attend(p, x, keys, values, at):
        q, k, v = jnp.split(x @ p["qkv"], 3)
        keys, values = (
            jax.lax.dynamic_update_slice(c, a[None], (at, 0)) for c, a in ((keys, k), (values, v))
        )
        q, ks, vs = (
            q.reshape(heads, -1),
            keys.reshape(length, heads, -1),
            values.reshape(length, heads, -1),
        )
        scores = jnp.einsum("hd,lhd->hl", q, ks) / np.float32(np.sqrt(width // heads))
        shares = jax.nn.softmax(jnp.where(jnp.arange(length) <= at, scores, -1e9), axis=-1)
        return jnp.einsum("hl,lhd->hd", shares, vs).reshape(width) @ p["out"], keys, values

    def decode(params, token):
        def step(carry, at):
            token, cache = carry
            x = params["embedding"][token] + params["position"][at]
            after = []
            for p, (keys, values) in zip(params["blocks"], cache, strict=True):
                y, keys, values = attend(p, layer_norm(jnp, x, p["scales"][0]), keys, values, at)
                after.append((keys, values))
                x = x + y
                x = x + jax.nn.gelu(layer_norm(jnp, x, p["scales"][1]) @ p["up"]) @ p["down"]
            logits = layer_norm(jnp, x, params["scale"]) @ params["embedding"].T
            token = jnp.argmax(logits).astype(jnp.int32)
            return (token, after), jnp.max(logits)

        cache = [(jnp.zeros((length, width)), jnp.zeros((length, width))) for _ in params["blocks"]]
        return jax.lax.scan(step, (token, cache), jnp.arange(length))[1]

    return Case(decode, (params, np.int32(1)))
