"""A recurrent network by scan, trained to predict a sine."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random

H = 8


def cell(p, carry, x):
    h, c = carry
    z = jnp.concatenate([x, h]) @ p["W"] + p["b"]
    i, f, g, o = jnp.split(z, 4)
    c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return ((h, c), h)


def run(p, xs):
    (h, c), hs = lax.scan(lambda cr, x: cell(p, cr, x), (jnp.zeros(H), jnp.zeros(H)), xs)
    return hs @ p["out"]


k = random.split(random.key(3), 3)
p = {
    "W": random.normal(k[0], (1 + H, 4 * H)) * 0.3,
    "b": jnp.zeros(4 * H),
    "out": random.normal(k[1], (H, 1)) * 0.3,
}
t = jnp.linspace(0, 6, 31)
xs = jnp.sin(t)[:-1, None]
ys = jnp.sin(t)[1:, None]
loss = lambda p: jnp.mean((run(p, xs) - ys) ** 2)


@jax.jit
def step(p):
    l, g = jax.value_and_grad(loss)(p)
    return (jax.tree.map(lambda a, b: a - 0.3 * b, p, g), l)


for _i in range(40):
    p, l = step(p)
print(l)
print(run(p, xs)[:3, 0])
print(jax.vmap(run, (None, 0))(p, jnp.stack([xs, 2 * xs])).shape)
print(
    jax.tree.map(
        lambda a: a.shape,
        jax.vmap(jax.grad(lambda p, x: run(p, x).sum()), (None, 0))(p, jnp.stack([xs, 2 * xs])),
    )
)
