"""Gradients of all kinds: of trees, with auxiliary results, Hessians, products with them, per example."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, hessian, jacfwd, jacrev, jvp, random, value_and_grad, vjp, vmap


def sigmoid(x):
    return 0.5 * (jnp.tanh(x / 2) + 1)


def predict(W, b, inputs):
    return sigmoid(jnp.dot(inputs, W) + b)


inputs = jnp.array(
    [[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.3], [0.74, -2.49, 1.39]]
)
targets = jnp.array([True, True, False, True])


def loss(W, b):
    preds = predict(W, b, inputs)
    return -jnp.sum(jnp.log(preds * targets + (1 - preds) * (1 - targets)))


key = random.key(0)
key, Wk, bk = random.split(key, 3)
W, b = (random.normal(Wk, (3,)), random.normal(bk, ()))
print(grad(loss, argnums=0)(W, b))
print(grad(loss, 1)(W, b))
print(grad(loss, (0, 1))(W, b))


def loss2(p):
    return loss(p["W"], p["b"])


print(grad(loss2)({"W": W, "b": b}))
print(value_and_grad(loss, (0, 1))(W, b))
f = lambda W: predict(W, b, inputs)
print(jacfwd(f)(W))
print(jacrev(f)(W))
print(hessian(f)(W).shape, hessian(f)(W)[0])
y, u = jvp(f, (W,), (random.normal(key, W.shape),))
print(y, u)
y, vf = vjp(f, W)
print(vf(jnp.ones_like(y)))


def hvp(f, x, v):
    return jvp(grad(f), (x,), (v,))[1]


def rhvp(f, x, v):
    return grad(lambda x: jnp.vdot(grad(f)(x), v))(x)


def G(X):
    return jnp.sum(jnp.tanh(X) ** 2)


X = random.normal(key, (4, 3))
V = random.normal(Wk, (4, 3))
print(hvp(G, X, V))
print(jnp.allclose(hvp(G, X, V), rhvp(G, X, V), 0.0001, 0.0001))
H = hessian(G)(X)
print(H.shape, jnp.allclose(jnp.tensordot(H, V, 2), hvp(G, X, V), 0.0001, 0.0001))
per_ex = vmap(grad(lambda w, x, t: (jnp.dot(x, w) - t) ** 2), in_axes=(None, 0, 0))
print(per_ex(W, inputs, targets.astype(float)))
print(grad(lambda x: x**3 + 2 * x**2 - 3 * x + 1)(1.0))
print(
    grad(grad(jnp.sin))(1.0),
    grad(jnp.tanh)(2.0),
    grad(abs)(0.0),
    grad(jnp.abs)(-2.0),
    grad(jax.nn.relu)(0.0),
)
print(grad(lambda x, y: x * y, argnums=-1)(2.0, 5.0))
print(grad(lambda x: (x**2, {"aux": x + 1}), has_aux=True)(3.0))
print(value_and_grad(lambda x: (x**2, 2 * x), has_aux=True)(3.0))
print(grad(lambda x: jax.lax.stop_gradient(x) * x)(3.0))
print(jax.linearize(jnp.sin, 1.0)[1](2.0))
print(jax.linear_transpose(lambda x: 3 * x, 1.0)(2.0))
print(
    grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(0.0),
    grad(lambda x: jnp.sqrt(jnp.where(x > 0, x, 1.0)))(0.0),
)
print(grad(lambda x: jnp.sum(jnp.sort(x)[:2] ** 2))(jnp.array([3.0, 1.0, 2.0])))
print(
    grad(lambda x: jnp.max(x))(jnp.array([1.0, 3.0, 3.0])),
    grad(jnp.prod)(jnp.array([0.0, 2.0, 3.0])),
)
print(grad(lambda x: jnp.linalg.norm(x))(jnp.array([3.0, 4.0])))
print(grad(lambda x: x[0] * x[-1] + x[1:3].sum())(jnp.arange(4.0)))
print(grad(lambda x: jnp.cumsum(x)[-1] * jnp.cumprod(x)[1])(jnp.arange(1.0, 4.0)))
print(jacrev(lambda x: {"a": x**2, "b": (x.sum(),)})(jnp.arange(3.0)))
print(jacfwd(lambda p: p["x"] * p["y"])({"x": jnp.arange(2.0), "y": 3.0}))
print(hessian(lambda p: p["x"] ** 2 * p["y"])({"x": 2.0, "y": 3.0}))
print(
    grad(lambda x: x.astype(jnp.bfloat16).sum())(jnp.ones(2)),
    grad(lambda x: x.sum())(jnp.ones(2, jnp.bfloat16)),
)
