"""Linear regression by gradient descent."""

import teucer as jax
import teucer.numpy as jnp
from teucer import jit, random, value_and_grad

key = random.key(0)
kx, kn = random.split(key)
X = random.normal(kx, (64, 3))
w_true = jnp.array([1.5, -2.0, 0.5])
y = X @ w_true + 0.3 + 0.01 * random.normal(kn, (64,))


def loss(p, X, y):
    w, b = p
    return jnp.mean((X @ w + b - y) ** 2)


@jit
def step(p, X, y):
    l, g = value_and_grad(loss)(p, X, y)
    return (jax.tree.map(lambda a, b: a - 0.1 * b, p, g), l)


p = (jnp.zeros(3), 0.0)
for i in range(101):
    p, l = step(p, X, y)
    if i % 25 == 0:
        print(i, f"{l:.5f}")
print(p)
