"""A Kalman filter and the derivative of its likelihood."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random

A = jnp.array([[1.0, 0.1], [0.0, 1.0]])
Hm = jnp.array([[1.0, 0.0]])
Q = 0.01 * jnp.eye(2)
R = jnp.array([[0.1]])


def kf(ys, q=1.0):

    def st(c, y):
        m, P = c
        m = A @ m
        P = A @ P @ A.T + q * Q
        S = Hm @ P @ Hm.T + R
        K = jnp.linalg.solve(S, Hm @ P).T
        r = y - Hm @ m
        m = m + K @ r
        P = P - K @ S @ K.T
        ll = -0.5 * (r @ jnp.linalg.solve(S, r) + jnp.linalg.slogdet(2 * jnp.pi * S)[1])
        return ((m, P), (m, ll))

    return lax.scan(st, (jnp.zeros(2), jnp.eye(2)), ys)


ys = jnp.arange(20.0)[:, None] * 0.1 + 0.1 * random.normal(random.key(0), (20, 1))
(m, P), (ms, lls) = jax.jit(kf)(ys)
print(m, P, lls.sum())
print(
    jax.grad(lambda q: kf(ys, q)[1][1].sum())(1.0),
    jax.vmap(lambda q: kf(ys, q)[1][1].sum())(jnp.array([0.5, 1.0, 2.0])),
)
