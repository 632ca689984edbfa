"""Derivatives of complex functions."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, jvp, vjp


def f(z):
    x, y = (jnp.real(z), jnp.imag(z))
    return x**2 - y**2 + 2j * x * y


z = 3.0 + 4j
print(grad(f, holomorphic=True)(z))
print(grad(lambda z: jnp.abs(z) ** 2)(z))
print(
    grad(jnp.abs)(3 + 4j), grad(jnp.real)(1 + 1j), grad(jnp.imag)(1 + 1j), grad(jnp.angle)(1.0 + 1j)
)
print(grad(jnp.sin, holomorphic=True)(z), jnp.cos(z))
print(jvp(jnp.exp, (z,), (1j + 1,)))
y, v = vjp(jnp.sqrt, z)
print(y, v(1 + 0j))
A = jnp.array([[5.0, 2 + 3j, 5j], [2 - 3j, 7.0, 1 + 7j], [-5j, 1 - 7j, 12.0]])


def g(X):
    L = jnp.linalg.cholesky(X)
    return jnp.sum((L - jnp.sin(L)) ** 2)


print(grad(g, holomorphic=True)(A))
print(jax.jacfwd(lambda x: jnp.exp(1j * x), holomorphic=False)(jnp.array([1.0, 2.0])))
print(grad(lambda x: jnp.real(jnp.exp(1j * x)))(0.3))
print(jax.jacrev(lambda z: z * jnp.conj(z), holomorphic=True)(z))
print(grad(lambda z: jnp.real(z * z))(z), grad(lambda z: jnp.real(jnp.conj(z)))(z))
w = jnp.array([1 + 2j, 3 - 1j])
print(jnp.vdot(w, w), jnp.dot(w, w), w.conj(), w.real, w.imag, jnp.abs(w), jnp.angle(w))
print(jnp.sort(w), jnp.sum(w), w.dtype, (w * 2).dtype, (w + 1j).dtype)
