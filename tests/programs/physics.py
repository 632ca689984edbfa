"""Molecular dynamics, a double pendulum from its Lagrangian, and heat."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax


def energy(r):
    d = r[:, None] - r[None]
    d2 = (d**2).sum(-1) + jnp.eye(r.shape[0])
    i6 = 1 / d2**3
    return 2 * jnp.sum((i6**2 - i6) * (1 - jnp.eye(r.shape[0])))


r = jnp.array([[0.0, 0.0], [1.2, 0.0], [0.0, 1.3], [1.2, 1.2]])
F = lambda r: -jax.grad(energy)(r)


def vv(s, _):
    r, v = s
    v = v + 0.005 * F(r)
    r = r + 0.01 * v
    v = v + 0.005 * F(r)
    return ((r, v), energy(r) + 0.5 * (v**2).sum())


(r2, v2), E = jax.jit(lambda: lax.scan(vv, (r, jnp.zeros_like(r)), None, length=100))()
print(r2, E[0], E[-1])


def lagr(L):

    def qdd(q, v):
        return jnp.linalg.solve(
            jax.hessian(L, 1)(q, v),
            jax.grad(L, 0)(q, v) - jax.jacobian(jax.jacobian(L, 1), 0)(q, v) @ v,
        )

    return qdd


def L(q, v):
    t1, t2 = q
    w1, w2 = v
    return 0.5 * (2 * w1**2 + w2**2 + 2 * w1 * w2 * jnp.cos(t1 - t2)) + 9.8 * (
        2 * jnp.cos(t1) + jnp.cos(t2)
    )


print(jax.jit(lagr(L))(jnp.array([0.5, 1.0]), jnp.array([0.1, -0.2])))
u = jnp.zeros(32).at[16].set(1.0)
heat = lambda u, n: lax.fori_loop(
    0, n, lambda i, u: u + 0.2 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), u
)
print(jax.jit(heat, static_argnums=1)(u, 20)[12:21], jax.grad(lambda u: heat(u, 20)[10])(u)[14:18])
