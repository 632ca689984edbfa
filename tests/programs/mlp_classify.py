"""A classifier of two layers, written for one example and mapped over batches."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, jit, random, vmap
from teucer.scipy.special import logsumexp


def init(sizes, key):
    keys = random.split(key, len(sizes) - 1)
    return [
        (0.1 * random.normal(k, (n, m)), jnp.zeros((n,)))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params, image):
    a = image
    for w, b in params[:-1]:
        a = jax.nn.relu(jnp.dot(w, a) + b)
    w, b = params[-1]
    lg = jnp.dot(w, a) + b
    return lg - logsumexp(lg)


bp = vmap(predict, in_axes=(None, 0))
params = init([16, 32, 4], random.key(0))
X = random.normal(random.key(1), (48, 16))
lab = random.randint(random.key(2), (48,), 0, 4)
T = jax.nn.one_hot(lab, 4)
try:
    bad = bp(params, X[:, :5])
except TypeError:
    print("Invalid shapes!")


def loss(params, X, T):
    return -jnp.mean(bp(params, X) * T)


@jit
def update(params, X, T):
    g = grad(loss)(params, X, T)
    return [(w - 1.0 * dw, b - 1.0 * db) for (w, b), (dw, db) in zip(params, g, strict=True)]


for _ in range(30):
    params = update(params, X, T)
print(loss(params, X, T), jnp.mean(jnp.argmax(bp(params, X), 1) == lab))
print(jax.tree.map(jnp.shape, params))
