"""Meta-learning: the gradient of a loss after a step of gradient descent."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, jit, random, vmap


def net(p, x):
    return jnp.tanh(x * p["a"] + p["b"]) @ p["c"]


def loss(p, x, y):
    return jnp.mean((vmap(lambda t: net(p, t))(x) - y) ** 2)


def inner(p, x, y, al=0.1):
    return jax.tree.map(lambda w, g: w - al * g, p, grad(loss)(p, x, y))


def maml(p, x1, y1, x2, y2):
    return loss(inner(p, x1, y1), x2, y2)


def batch(p, *a):
    return jnp.mean(vmap(maml, (None, 0, 0, 0, 0))(p, *a))


k = random.split(random.key(0), 4)
p = {"a": random.normal(k[0], (6,)), "b": jnp.zeros(6), "c": random.normal(k[1], (6,)) * 0.5}
A = random.uniform(k[2], (4, 1), minval=0.5, maxval=2.0)
x = random.uniform(k[3], (4, 8), minval=-2, maxval=2)
y = A * jnp.sin(x)
step = jit(
    lambda p: jax.tree.map(
        lambda w, g: w - 0.05 * g, p, grad(batch)(p, x[:, :4], y[:, :4], x[:, 4:], y[:, 4:])
    )
)
for _i in range(20):
    p = step(p)
print(batch(p, x[:, :4], y[:, :4], x[:, 4:], y[:, 4:]), p["b"])
print(grad(lambda al: loss(inner(p, x[0], y[0], al), x[1], y[1]))(0.1))
