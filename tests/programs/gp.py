"""A Gaussian process, fitted by its likelihood."""

import teucer as jax
import teucer.numpy as jnp


def k(x, y, p):
    return jnp.exp(p["v"]) * jnp.exp(-0.5 * jnp.sum((x - y) ** 2) / jnp.exp(p["l"]) ** 2)


def gram(f, xs, ys):
    return jax.vmap(lambda x: jax.vmap(lambda y: f(x, y))(ys))(xs)


X = jnp.linspace(-2, 2, 12)[:, None]
y = jnp.sin(2 * X[:, 0])


def nll(p):
    K = gram(lambda a, b: k(a, b, p), X, X) + (0.01 + jnp.exp(p["n"])) * jnp.eye(12)
    L = jnp.linalg.cholesky(K)
    a = jax.scipy.linalg.solve_triangular(L, y, lower=True)
    return 0.5 * a @ a + jnp.sum(jnp.log(jnp.diag(L))) + 6 * jnp.log(2 * jnp.pi)


p = {"v": 0.0, "l": 0.0, "n": -3.0}
vg = jax.jit(jax.value_and_grad(nll))
for _i in range(40):
    l, g = vg(p)
    p = jax.tree.map(lambda a, b: a - 0.02 * b, p, g)
print(l, jax.tree.map(lambda a: round(float(a), 3), p))
K = gram(lambda a, b: k(a, b, p), X, X) + 0.06 * jnp.eye(12)
xt = jnp.array([[0.3], [1.1]])
Ks = gram(lambda a, b: k(a, b, p), xt, X)
print(Ks @ jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(K, lower=True), y))
print(jax.hessian(lambda v: nll(dict(p, v=v)))(0.1))
