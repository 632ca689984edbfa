"""Clusters by k-means and by expectation maximisation."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random

k = random.key(0)
X = jnp.concatenate(
    [
        random.normal(k, (20, 2)) + c
        for c in (jnp.array([0.0, 0.0]), jnp.array([5.0, 5.0]), jnp.array([0.0, 6.0]))
    ]
)


def km(X, C0):

    def body(s):
        C, _, i = s
        a = jnp.argmin(((X[:, None] - C[None]) ** 2).sum(-1), 1)
        oh = jax.nn.one_hot(a, 3)
        N = oh.T @ X / jnp.maximum(oh.sum(0)[:, None], 1)
        return (N, jnp.abs(N - C).max(), i + 1)

    return lax.while_loop(lambda s: (s[1] > 1e-05) & (s[2] < 50), body, (C0, jnp.inf, 0))


print(jax.jit(km)(X, X[jnp.array([0, 25, 45])]))
print(
    jax.ops.segment_sum(jnp.arange(6.0), jnp.array([0, 0, 1, 1, 2, 2])),
    jax.ops.segment_max(jnp.arange(6.0), jnp.array([0, 0, 1, 1, 2, 2]), num_segments=4),
)


def em(_, s):
    mu, sg, pi = s
    ll = jnp.log(pi) - 0.5 * ((X[:, None] - mu) ** 2).sum(-1) / sg**2 - 2 * jnp.log(sg)
    r = jax.nn.softmax(ll, 1)
    n = r.sum(0)
    mu = r.T @ X / n[:, None]
    sg = jnp.sqrt((r * ((X[:, None] - mu) ** 2).sum(-1)).sum(0) / (2 * n))
    return (mu, sg, n / 60)


print(lax.fori_loop(0, 20, em, (X[jnp.array([0, 25, 45])], jnp.ones(3), jnp.ones(3) / 3)))
