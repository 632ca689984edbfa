"""A network trained to solve a differential equation: gradients within gradients."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, random, vmap


def net(p, x):
    h = jnp.array([x])
    for W, b in p[:-1]:
        h = jnp.tanh(W @ h + b)
    W, b = p[-1]
    return (W @ h + b)[0]


ks = random.split(random.key(0), 3)
sz = [1, 10, 10, 1]
p = [
    (random.normal(k, (n, m)) / jnp.sqrt(m), jnp.zeros(n))
    for k, m, n in zip(ks, sz[:-1], sz[1:], strict=True)
]
u_xx = grad(grad(net, 1), 1)
xs = jnp.linspace(0, 1, 11)


def loss(p):
    res = vmap(lambda x: u_xx(p, x) + jnp.pi**2 * jnp.sin(jnp.pi * x))(xs)
    return jnp.mean(res**2) + 10 * (net(p, 0.0) ** 2 + net(p, 1.0) ** 2)


step = jax.jit(lambda p: jax.tree.map(lambda a, g: a - 0.001 * g, p, grad(loss)(p)))
print(loss(p))
for _i in range(50):
    p = step(p)
print(loss(p))
print(vmap(lambda x: u_xx(p, x))(xs)[:3])
lap = lambda f: lambda x: jnp.trace(jax.hessian(f)(x))
print(lap(lambda x: jnp.sum(x**4))(jnp.array([1.0, 2.0])))
div = lambda f: lambda x: jnp.trace(jax.jacfwd(f)(x))
print(div(lambda x: x**2)(jnp.array([1.0, 2.0])))
print(grad(grad(grad(grad(jnp.sin))))(1.0))
