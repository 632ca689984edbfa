"""Optimal transport by Sinkhorn iterations, and sorting made differentiable with it."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax


def sink(C, eps=0.1, n=50):
    a = jnp.zeros(C.shape[0])
    b = jnp.zeros(C.shape[1])

    def it(c, _):
        a, b = c
        a = -eps * jax.nn.logsumexp((b[None] - C) / eps, axis=1) - eps * jnp.log(C.shape[0])
        b = -eps * jax.nn.logsumexp((a[:, None] - C) / eps, axis=0) - eps * jnp.log(C.shape[1])
        return ((a, b), None)

    (a, b), _ = lax.scan(it, (a, b), None, length=n)
    return jnp.exp((a[:, None] + b[None] - C) / eps)


x = jnp.array([0.3, 0.9, 0.1, 0.5])
y = jnp.linspace(0, 1, 4)
P = sink((x[:, None] - y[None]) ** 2)
print(P, P.sum(0))
soft = lambda x: 4 * sink((x[:, None] - y[None]) ** 2).T @ x
print(soft(x), jax.jacobian(soft)(x))
rank = lambda x, t=0.1: jax.nn.sigmoid((x[:, None] - x[None]) / t).sum(1) + 0.5
print(rank(x), jax.grad(lambda x: rank(x)[0])(x))
