"""First steps: arrays, random numbers, jit, gradients, Jacobians and vmap."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, jacobian, jit, random, vmap


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


x = jnp.arange(5.0)
print(selu(x))
print(x, repr(x), type(x).__name__, x.dtype, x.shape, x.ndim, x.size, len(x))
key = random.key(1701)
y = random.normal(key, (10,))
print(y)
print(jit(selu)(y))


def sum_logistic(x):
    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))


print(grad(sum_logistic)(jnp.arange(3.0)))


def fd(f, x, eps=0.001):
    return jnp.array([(f(x + eps * v) - f(x - eps * v)) / (2 * eps) for v in jnp.eye(len(x))])


print(jnp.round(fd(sum_logistic, jnp.arange(3.0)), 2))
print(grad(jit(grad(jit(grad(sum_logistic)))))(1.0))
print(jacobian(jnp.exp)(x[:3]))


def hessian(f):
    return jit(jax.jacfwd(jax.jacrev(f)))


print(hessian(sum_logistic)(x[:3]))
k1, k2 = random.split(key)
mat = random.normal(k1, (15, 10))
bx = random.normal(k2, (3, 10))


def apply_matrix(x):
    return jnp.dot(mat, x)


print(jnp.stack([apply_matrix(v) for v in bx]).shape)
print(vmap(apply_matrix)(bx)[:, :4])
print(jnp.allclose(vmap(apply_matrix)(bx), bx @ mat.T, atol=0.0001))
for row in bx[:, :2]:
    print(row)
print(bx.sum(), float(bx[0, 0]), int(jnp.array(3)), bool(jnp.array(True)), bx.mean(axis=0)[:3])
print(f"{jnp.float32(1.5):.3f} {jnp.array(2.25):.2f} {jnp.array(7):d}")
print(jnp.array([True, False]), jnp.array(1 + 2j), jnp.array([1, 2], dtype=jnp.int8))
print(x.at[1].set(10.0), x)
print(jax.devices()[0].platform, jax.default_backend())
