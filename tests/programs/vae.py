"""A variational autoencoder."""

import teucer as jax
import teucer.numpy as jnp
from teucer import random


def enc(p, x):
    h = jnp.tanh(x @ p["e1"])
    return (h @ p["mu"], h @ p["lv"])


def dec(p, z):
    return jnp.tanh(z @ p["d1"]) @ p["d2"]


def elbo(p, key, x):
    mu, lv = enc(p, x)
    z = mu + jnp.exp(0.5 * lv) * random.normal(key, mu.shape)
    lg = dec(p, z)
    ll = jnp.sum(x * jax.nn.log_sigmoid(lg) + (1 - x) * jax.nn.log_sigmoid(-lg))
    kl = -0.5 * jnp.sum(1 + lv - mu**2 - jnp.exp(lv))
    return ll - kl


def loss(p, key, X):
    return -jax.vmap(elbo, (None, 0, 0))(p, random.split(key, X.shape[0]), X).mean()


k = random.split(random.key(1), 6)
sh = {"e1": (6, 8), "mu": (8, 2), "lv": (8, 2), "d1": (2, 8), "d2": (8, 6)}
p = {n: random.normal(kk, s) * 0.3 for (n, s), kk in zip(sh.items(), k[:5], strict=True)}
X = random.bernoulli(k[5], 0.5, (16, 6)).astype(jnp.float32)


@jax.jit
def step(i, p):
    g = jax.grad(loss)(p, random.fold_in(random.key(9), i), X)
    return jax.tree.map(lambda a, b: a - 0.05 * b, p, g)


for i in range(20):
    p = step(i, p)
print(loss(p, random.key(5), X))
print(dec(p, jnp.zeros(2)))
