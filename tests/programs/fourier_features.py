"""Fourier features, Fourier transforms and a Haar wavelet."""

import teucer as jax
import teucer.numpy as jnp
from teucer import random

B = random.normal(random.key(0), (16, 1)) * 4
ff = lambda x: jnp.concatenate([jnp.cos(x @ B.T), jnp.sin(x @ B.T)], -1) / 4.0
X = jnp.linspace(0, 1, 20)[:, None]
y = jnp.sign(jnp.sin(9 * X[:, 0]))
F = ff(X)
w = jnp.linalg.solve(F.T @ F + 0.01 * jnp.eye(32), F.T @ y)
print(w[:5], jnp.mean((F @ w - y) ** 2))
s = jnp.sin(jnp.arange(16.0) * 0.9)
S = jnp.fft.fft(s)
print(
    jnp.abs(S)[:5],
    jnp.allclose(jnp.fft.ifft(S).real, s, atol=1e-05),
    jax.grad(lambda s: jnp.abs(jnp.fft.rfft(s)[2]) ** 2)(s)[:3],
    jnp.fft.fft2(s.reshape(4, 4))[1],
    jnp.fft.fftn(s.reshape(2, 2, 4)).shape,
    jnp.fft.rfftfreq(8),
    jnp.fft.ifftshift(jnp.arange(5)),
    jnp.fft.hfft(jnp.arange(3.0)),
)


def haar(x):
    out = []
    while x.size > 1:
        a, b = (x[::2], x[1::2])
        out.append((a - b) / jnp.sqrt(2))
        x = (a + b) / jnp.sqrt(2)
    return jnp.concatenate([x] + out[::-1])


print(
    jax.jit(haar)(s),
    jnp.linalg.norm(haar(s)) - jnp.linalg.norm(s) < 1e-05,
    jnp.allclose(jax.jacobian(haar)(s) @ jax.jacobian(haar)(s).T, jnp.eye(16), atol=1e-05),
)
