"""Hamiltonian Monte Carlo, and Metropolis chains side by side."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random

lp = lambda q: -0.5 * jnp.sum(q**2 / jnp.array([1.0, 4.0]))


def leap(q, p, eps, n):
    g = jax.grad(lp)

    def b(i, s):
        q, p = s
        p = p + 0.5 * eps * g(q)
        q = q + eps * p
        return (q, p + 0.5 * eps * g(q))

    return lax.fori_loop(0, n, b, (q, p))


def step(q, key):
    k1, k2 = random.split(key)
    p0 = random.normal(k1, q.shape)
    q1, p1 = leap(q, p0, 0.3, 8)
    acc = jnp.log(random.uniform(k2)) < lp(q1) - 0.5 * p1 @ p1 - lp(q) + 0.5 * p0 @ p0
    q = jnp.where(acc, q1, q)
    return (q, (q, acc))


run = jax.jit(lambda key, q: lax.scan(step, q, random.split(key, 300))[1])
qs, acc = run(random.key(0), jnp.zeros(2))
print(acc.mean(), qs[:3], qs[100:].shape)


def mh(key, x):
    k1, k2 = random.split(key)
    y = x + random.normal(k1)
    a = jnp.exp(-0.5 * (y**2 - x**2))
    return lax.cond(random.uniform(k2) < a, lambda _: y, lambda _: x, None)


ch = jax.vmap(lambda k: lax.scan(lambda x, kk: (mh(kk, x),) * 2, 0.0, random.split(k, 20))[1])(
    random.split(random.key(1), 3)
)
print(ch[:, -3:])
