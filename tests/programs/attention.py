"""A transformer block with causal attention."""

from functools import partial

import teucer as jax
import teucer.numpy as jnp
from teucer import random


def ln(x, eps=1e-05):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + eps)


def attn(p, x, nh):
    T, D = x.shape
    qkv = jnp.einsum("td,dkhe->kthe", x, p["qkv"])
    q, k, v = qkv
    s = jnp.einsum("the,she->hts", q, k) / jnp.sqrt(D // nh)
    mask = jnp.tril(jnp.ones((T, T), bool))
    s = jnp.where(mask, s, -1000000000.0)
    return jnp.einsum("hts,she->the", jax.nn.softmax(s, -1), v).reshape(T, D) @ p["o"]


@partial(jax.jit, static_argnums=2)
def block(p, x, nh=2):
    x = x + attn(p, ln(x), nh)
    return x + jax.nn.gelu(ln(x) @ p["f1"]) @ p["f2"]


D = 8
k = random.split(random.key(0), 6)
p = {
    "qkv": random.normal(k[0], (D, 3, 2, D // 2)) * 0.2,
    "o": random.normal(k[1], (D, D)) * 0.2,
    "f1": random.normal(k[2], (D, 16)) * 0.2,
    "f2": random.normal(k[3], (16, D)) * 0.2,
}
x = random.normal(k[4], (5, D))
print(block(p, x, 2))
g = jax.grad(lambda p: (jax.checkpoint(lambda p: block(p, x, 2))(p) ** 2).sum())(p)
print(jax.tree.map(lambda a: jnp.abs(a).sum(), g))
print(jax.vmap(lambda x: block(p, x, 2))(jnp.stack([x, x[::-1]]))[1, :2])
pos = jnp.arange(5)[:, None] / 10000 ** (jnp.arange(0, D, 2) / D)
print(jnp.concatenate([jnp.sin(pos), jnp.cos(pos)], -1)[3])
