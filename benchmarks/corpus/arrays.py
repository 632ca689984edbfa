"""Programs of the corpus: linear algebra, transforms and images."""

from __future__ import annotations

import numpy as np
from cases import Case, normal, program


@program
def least_squares(jax, jnp):
    """A regularised regression by QR, with its gradient."""
    rng = np.random.default_rng(0)

    def loss(x, y, damp):
        q, r = jnp.linalg.qr(jnp.concatenate([x, jnp.sqrt(damp) * jnp.eye(20)]))
        w = jax.scipy.linalg.solve_triangular(r, q.T @ jnp.concatenate([y, jnp.zeros(20)]))
        return jnp.mean((x @ w - y) ** 2)

    return Case(
        jax.value_and_grad(loss, argnums=2),
        (normal(rng, 200, 20), normal(rng, 200), np.float32(0.1)),
    )


@program
def principal_components(jax, jnp):
    """The components of 500 points in 32 dimensions, and what they explain."""
    rng = np.random.default_rng(0)

    def run(x):
        x = x - jnp.mean(x, 0)
        values, vectors = jnp.linalg.eigh(x.T @ x / x.shape[0])
        scores = x @ vectors[:, -4:]
        return values, jnp.abs(scores), jnp.cumsum(values[::-1]) / jnp.sum(values)

    return Case(run, (normal(rng, 500, 32) * np.arange(1, 33, dtype=np.float32),))


@program
def low_rank(jax, jnp):
    """Singular values cut off at a threshold, ten times over (robust components)."""
    rng = np.random.default_rng(0)

    def run(m):
        def step(state, _):
            low, rest = state
            u, s, v = jnp.linalg.svd(m - rest, full_matrices=False)
            low = (u * jnp.maximum(s - 1.0, 0)) @ v
            gap = m - low
            return (low, jnp.sign(gap) * jnp.maximum(jnp.abs(gap) - 0.1, 0)), jnp.sum(s)

        return jax.lax.scan(step, (jnp.zeros_like(m), jnp.zeros_like(m)), None, 10)[1]

    return Case(run, (normal(rng, 60, 40),))


@program
def batched_solves(jax, jnp):
    """500 systems of 6 equations, and the determinants."""
    rng = np.random.default_rng(0)

    def run(a, b):
        return jnp.linalg.solve(a, b[..., None])[..., 0], jnp.linalg.slogdet(a)[1]

    return Case(
        run, (normal(rng, 500, 6, 6) + 4 * np.eye(6, dtype=np.float32), normal(rng, 500, 6))
    )


@program
def small_products(jax, jnp):
    """4096 chains of three products of 4 x 4, with the gradient."""
    rng = np.random.default_rng(0)

    def loss(a, b, c):
        return jnp.sum(jnp.sin(a @ b @ c))

    return Case(jax.value_and_grad(loss), tuple(normal(rng, 4096, 4, 4) for _ in range(3)))


@program
def matrix_exponential(jax, jnp):
    """exp of a matrix of 32 x 32 applied to vectors."""
    rng = np.random.default_rng(0)
    return Case(
        lambda a, x: jax.scipy.linalg.expm(a) @ x, (normal(rng, 32, 32) / 8, normal(rng, 32, 8))
    )


@program
def fourier_filter(jax, jnp):
    """Signals of 4096 samples: window, spectrum, filter, and back."""
    rng = np.random.default_rng(0)

    def run(x):
        spectrum = jnp.fft.rfft(x * jnp.hanning(4096))
        power = jnp.abs(spectrum) ** 2
        keep = power > jnp.mean(power, axis=-1, keepdims=True)
        return jnp.fft.irfft(jnp.where(keep, spectrum, 0), 4096), jnp.log1p(power)

    return Case(run, (normal(rng, 16, 4096),))


@program
def spectrogram(jax, jnp):
    """Short spectra of a sound and their mel-like bands."""
    rng = np.random.default_rng(0)
    bands = np.abs(normal(rng, 129, 20))

    def run(x):
        starts = jnp.arange(0, 16000 - 256, 128)
        frames = jax.vmap(lambda i: jax.lax.dynamic_slice(x, (i,), (256,)))(starts)
        return jnp.log(jnp.abs(jnp.fft.rfft(frames * jnp.hanning(256))) ** 2 @ bands + 1e-6)

    return Case(run, (normal(rng, 16000),))


@program
def edges_of_images(jax, jnp):
    """Blur, slopes and corners of 4 images of 128 x 128."""
    rng = np.random.default_rng(0)
    taps = np.exp(-0.5 * (np.arange(-3, 4) / 1.5) ** 2).astype(np.float32)

    def along(x, kernel, axis):
        half = len(kernel) // 2
        padding = [(half, half) if i == axis else (0, 0) for i in range(3)]
        padded = jnp.pad(x, padding, mode="edge")
        return sum(
            k * jax.lax.slice_in_dim(padded, i, i + x.shape[axis], axis=axis)
            for i, k in enumerate(kernel)
        )

    def run(x):
        x = along(along(x, taps / taps.sum(), 1), taps / taps.sum(), 2)
        dx, dy = (
            along(x, np.array([-1, 0, 1], np.float32), 1),
            along(x, np.array([-1, 0, 1], np.float32), 2),
        )
        a, b, c = (along(along(m, taps, 1), taps, 2) for m in (dx * dx, dx * dy, dy * dy))
        return jnp.hypot(dx, dy), jnp.arctan2(dy, dx), a * c - b * b - 0.05 * (a + c) ** 2

    return Case(run, (normal(rng, 4, 128, 128),))


@program
def bilateral_filter(jax, jnp):
    """Each pixel of 128 x 128 as a mean of 25 that resemble it."""
    rng = np.random.default_rng(0)

    def run(x):
        padded = jnp.pad(x, 2, mode="reflect")
        total = weight = 0.0
        for i in range(5):
            for j in range(5):
                other = padded[i : i + 128, j : j + 128]
                w = jnp.exp(-((i - 2) ** 2 + (j - 2) ** 2) / 4 - (other - x) ** 2 / 0.1)
                total, weight = total + w * other, weight + w
        return total / weight

    return Case(run, (rng.random((128, 128)).astype(np.float32),))


@program
def ray_marching(jax, jnp):
    """A sphere and a plane by signed distances, 64 x 64 rays of 40 steps, with shading."""
    y, x = np.meshgrid(*[np.linspace(-1, 1, 64, dtype=np.float32)] * 2, indexing="ij")
    rays = np.stack([x, -y, np.full_like(x, 1.5)], -1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)

    def distance(p):
        ball = jnp.linalg.norm(p - jnp.array([0.0, 0.0, 3.0])) - 1
        return jnp.minimum(ball, p[1] + 1)

    def shade(ray, light):
        p = jax.lax.fori_loop(0, 40, lambda _, p: p + ray * distance(p), 1e-3 * ray)
        return jnp.maximum(jnp.dot(jax.grad(distance)(p), light), 0)

    return Case(
        jax.vmap(jax.vmap(shade, (0, None)), (0, None)),
        (rays, np.array([0.6, 0.7, -0.4], np.float32)),
    )


@program
def mandelbrot(jax, jnp):
    """Counts of iterations on 128 x 128 points, in a while loop of complex numbers."""
    x, y = np.meshgrid(np.linspace(-2, 0.5, 128), np.linspace(-1.2, 1.2, 128))

    def run(c):
        def step(state):
            z, count, i = state
            inside = jnp.abs(z) < 2
            return jnp.where(inside, z * z + c, z), count + inside, i + 1

        return jax.lax.while_loop(
            lambda s: s[2] < 50, step, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32), 0)
        )[1]

    return Case(run, ((x + 1j * y).astype(np.complex64),))


@program
def game_of_life(jax, jnp):
    """100 generations of 128 x 128 cells."""
    rng = np.random.default_rng(0)

    def run(cells):
        def step(cells, _):
            around = (
                sum(jnp.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - cells
            )
            return ((around == 3) | ((cells == 1) & (around == 2))).astype(jnp.int32), jnp.sum(
                cells
            )

        return jax.lax.scan(step, cells, None, 100)[1]

    return Case(run, (rng.integers(2, size=(128, 128)).astype(np.int32),))


@program
def table_statistics(jax, jnp):
    """Sorts, ranks, quantiles and counts of 20 columns of 5000 rows."""
    rng = np.random.default_rng(0)

    def run(x):
        order = jnp.argsort(x, axis=0)
        ranks = jnp.argsort(order, axis=0).astype(jnp.float32)
        counts = jax.vmap(lambda c: jnp.histogram(c, 20, range=(-3, 3))[0], 1)(x)
        return (
            jnp.corrcoef(ranks.T),
            jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]), axis=0),
            counts,
            jnp.std(x, 0),
        )

    return Case(run, (normal(rng, 5000, 20),))
