"""The Adam optimiser on trees of parameters."""

from typing import NamedTuple

import teucer as jax
import teucer.numpy as jnp


class State(NamedTuple):
    step: jnp.ndarray
    m: dict
    v: dict


def init(p):
    z = jax.tree.map(jnp.zeros_like, p)
    return State(jnp.zeros((), jnp.int32), z, z)


def upd(g, s, p, lr=0.1, b1=0.9, b2=0.999, eps=1e-08):
    t = s.step + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, s.m, g)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, s.v, g)
    p = jax.tree.map(
        lambda p, m, v: p - lr * (m / (1 - b1**t)) / (jnp.sqrt(v / (1 - b2**t)) + eps), p, m, v
    )
    return (p, State(t, m, v))


f = lambda p: (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
p = {"x": jnp.array(-1.0), "y": jnp.array(2.0)}
s = init(p)


@jax.jit
def step(p, s):
    return upd(jax.grad(f)(p), s, p)


for _i in range(200):
    p, s = step(p, s)
print(p, s.step, f(p))
print(s)
pp, ss = jax.lax.fori_loop(0, 50, lambda i, c: step(*c), (p, s))
print(pp)
