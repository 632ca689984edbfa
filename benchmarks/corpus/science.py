"""Programs of the corpus: simulation, inference and optimisation."""

from __future__ import annotations

import numpy as np
from cases import Case, labels, normal, program


@program
def lorenz(jax, jnp):
    """500 Runge-Kutta steps of Lorenz's three equations, in a scan."""

    def field(x):
        return jnp.stack(
            [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]
        )

    def run(x):
        def step(x, _):
            a = field(x)
            b = field(x + 0.001 * a)
            c = field(x + 0.001 * b)
            d = field(x + 0.002 * c)
            x = x + 0.002 / 6 * (a + 2 * b + 2 * c + d)
            return x, x

        return jax.lax.scan(step, x, None, 500)[1]

    return Case(run, (np.ones(3, np.float32),))


@program
def oscillator_gradient(jax, jnp):
    """The gradient of 2000 Runge-Kutta steps of a system of 2, in a scan."""

    def field(p, x):
        return jnp.array([x[1], -p[0] * x[0] - p[1] * x[1]])

    def loss(p, x):
        def step(x, _):
            a = field(p, x)
            b = field(p, x + 0.005 * a)
            c = field(p, x + 0.005 * b)
            d = field(p, x + 0.01 * c)
            return x + 0.01 / 6 * (a + 2 * b + 2 * c + d), None

        return jnp.sum(jax.lax.scan(step, x, None, 2000)[0] ** 2)

    return Case(
        jax.value_and_grad(loss),
        (np.array([1.0, 0.1], np.float32), np.array([1.0, 0.0], np.float32)),
    )


@program
def scan_of_scalars(jax, jnp):
    """The gradient of a scan over 60 scalars, 200 steps."""

    def loss(xs):
        def step(xs, _):
            return [
                0.9 * a + 0.1 * jnp.sin(b) for a, b in zip(xs, xs[1:] + xs[:1], strict=True)
            ], None

        return sum(jax.lax.scan(step, xs, None, 200)[0])

    return Case(jax.value_and_grad(loss), ([np.float32(0.01 * i) for i in range(60)],))


@program
def scan_of_products(jax, jnp):
    """The gradient of a scan over products of 3 x 3."""

    def loss(m, xs):
        return jnp.sum(jax.lax.scan(lambda r, x: (r @ x, None), m, xs)[0] ** 2)

    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.standard_normal((100, 3, 3)))[0].astype(np.float32)
    return Case(jax.value_and_grad(loss), (np.eye(3, dtype=np.float32), turns))


@program
def rigid_bodies(jax, jnp):
    """16 spinning bodies: quaternions, rotations and torques, 100 steps."""
    rng = np.random.default_rng(0)

    def product(a, b):
        w = a[0] * b[0] - jnp.dot(a[1:], b[1:])
        return jnp.concatenate([w[None], a[0] * b[1:] + b[0] * a[1:] + jnp.cross(a[1:], b[1:])])

    def rotation(q):
        w, x, y, z = q
        return jnp.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )

    def body(q, spin, inertia):
        def step(state, _):
            q, spin = state
            r = rotation(q)
            tensor = r @ jnp.diag(inertia) @ r.T
            spin = spin - 0.01 * jnp.linalg.solve(tensor, jnp.cross(spin, tensor @ spin))
            q = q + 0.005 * product(jnp.concatenate([jnp.zeros(1), spin]), q)
            return (q / jnp.linalg.norm(q), spin), None

        return jax.lax.scan(step, (q, spin), None, 100)[0]

    q = normal(rng, 16, 4)
    args = (
        q / np.linalg.norm(q, axis=1, keepdims=True),
        normal(rng, 16, 3),
        rng.uniform(1, 3, (16, 3)).astype(np.float32),
    )
    return Case(jax.vmap(body), args)


@program
def heat_equation(jax, jnp):
    """200 explicit steps on a grid of 128 x 128, in a loop."""
    rng = np.random.default_rng(0)

    def run(u):
        def step(_, u):
            around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
            return u + 0.2 * (around - 4 * u)

        return jax.lax.fori_loop(0, 200, step, u)

    return Case(run, (normal(rng, 128, 128),))


@program
def wave_inversion(jax, jnp):
    """The gradient of a wave on 100 cells after 200 steps by the speeds of the medium."""
    rng = np.random.default_rng(0)

    def loss(speed, u, seen):
        def step(state, _):
            now, before = state
            curve = jnp.zeros_like(now).at[1:-1].set(now[2:] - 2 * now[1:-1] + now[:-2])
            after = 2 * now - before + 0.2 * speed * curve
            return (after, now), after[50]

        _, trace = jax.lax.scan(step, (u, u), None, 200)
        return jnp.mean((trace - seen) ** 2)

    x = np.linspace(-1, 1, 100, dtype=np.float32)
    return Case(
        jax.value_and_grad(loss),
        (np.ones(100, np.float32), np.exp(-50 * x**2), 0.1 * normal(rng, 200)),
    )


@program
def vorticity(jax, jnp):
    """20 pseudo-spectral steps of a flow in two dimensions."""
    rng = np.random.default_rng(0)
    size = 64
    kx, ky = np.meshgrid(*[np.fft.fftfreq(size, 1 / size)] * 2, indexing="ij")
    square = np.where((kx == 0) & (ky == 0), 1, kx**2 + ky**2).astype(np.float32)
    kx, ky = kx.astype(np.float32), ky.astype(np.float32)

    def run(w):
        def step(_, w):
            f = jnp.fft.fft2(w)
            psi = f / square
            u, v = jnp.fft.ifft2(1j * ky * psi).real, jnp.fft.ifft2(-1j * kx * psi).real
            dx, dy = jnp.fft.ifft2(1j * kx * f).real, jnp.fft.ifft2(1j * ky * f).real
            return w + 0.001 * (-(u * dx + v * dy) - 0.01 * jnp.fft.ifft2(square * f).real)

        return jax.lax.fori_loop(0, 20, step, w)

    return Case(run, (normal(rng, size, size),))


def logistic(jnp, w, x, y):
    z = x @ w
    return jnp.sum(jnp.logaddexp(0, z) - y * z) + 0.5 * jnp.sum(w**2)


@program
def hamiltonian_step(jax, jnp):
    """A step of Hamiltonian Monte Carlo: 20 leapfrogs of a logistic regression."""
    rng = np.random.default_rng(0)

    def step(w, x, y, seed):
        a, b = jax.random.split(jax.random.key(seed))
        slope = jax.grad(lambda w: logistic(jnp, w, x, y))

        def leap(_, state):
            w, p = state
            p = p - 0.005 * slope(w)
            w = w + 0.01 * p
            return w, p - 0.005 * slope(w)

        p = jax.random.normal(a, w.shape)
        new, last = jax.lax.fori_loop(0, 20, leap, (w, p))
        change = (
            logistic(jnp, w, x, y)
            - logistic(jnp, new, x, y)
            + 0.5 * (jnp.sum(p**2) - jnp.sum(last**2))
        )
        return jnp.where(jnp.log(jax.random.uniform(b)) < change, new, w)

    args = (
        np.zeros(10, np.float32),
        normal(rng, 500, 10),
        rng.integers(2, size=500).astype(np.float32),
        np.uint32(0),
    )
    return Case(step, args)


@program
def metropolis_chains(jax, jnp):
    """100 chains of 200 random steps each."""
    rng = np.random.default_rng(0)

    def density(x):
        return -jnp.sum((x**2 - 1) ** 2)

    def chain(x, key):
        def step(x, key):
            a, b = jax.random.split(key)
            new = x + 0.5 * jax.random.normal(a, x.shape)
            x = jnp.where(jnp.log(jax.random.uniform(b)) < density(new) - density(x), new, x)
            return x, jnp.mean(x)

        return jax.lax.scan(step, x, jax.random.split(key, 200))[1]

    def run(x, seed):
        return jnp.mean(jax.vmap(chain)(x, jax.random.split(jax.random.key(seed), 100)))

    return Case(run, (normal(rng, 100, 2), np.uint32(0)))


@program
def kalman_filter(jax, jnp):
    """100 observations of a system of 4 by 2, and the gradient of their likelihood."""
    rng = np.random.default_rng(0)
    move = np.eye(4, dtype=np.float32) + 0.1 * np.eye(4, k=2, dtype=np.float32)
    see = np.eye(2, 4, dtype=np.float32)

    def loss(noise, seen):
        q, r = jnp.exp(noise[0]) * jnp.eye(4), jnp.exp(noise[1]) * jnp.eye(2)

        def step(state, y):
            mean, cov = move @ state[0], move @ state[1] @ move.T + q
            s = see @ cov @ see.T + r
            gain = jnp.linalg.solve(s, see @ cov).T
            error = y - see @ mean
            value = 0.5 * (jnp.linalg.slogdet(s)[1] + error @ jnp.linalg.solve(s, error))
            return (mean + gain @ error, cov - gain @ see @ cov), value

        return jnp.sum(jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)[1])

    return Case(jax.value_and_grad(loss), (np.zeros(2, np.float32), normal(rng, 100, 2)))


@program
def molecular_dynamics(jax, jnp):
    """64 particles under Lennard-Jones forces in a box, 50 steps of Verlet."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3) * 1.2

    def energy(x):
        gap = x[:, None] - x[None]
        gap = gap - 4.8 * jnp.round(gap / 4.8)
        square = jnp.sum(gap**2, axis=-1) + jnp.eye(64)
        near = (1 / square) ** 3 * (1 - jnp.eye(64))
        return 2 * jnp.sum(near**2 - near)

    def run(x, v):
        def step(state, _):
            x, v, f = state
            v = v + 0.0005 * f
            x = x + 0.001 * v
            f = -jax.grad(energy)(x)
            return (x, v + 0.0005 * f, f), energy(x)

        return jax.lax.scan(step, (x, v, -jax.grad(energy)(x)), None, 50)[1]

    return Case(run, (grid.astype(np.float32), 0.1 * normal(rng, 64, 3)))


@program
def gravity(jax, jnp):
    """200 bodies that attract each other, 20 steps."""
    rng = np.random.default_rng(0)

    def pull(x, m):
        gap = x[None] - x[:, None]
        return jnp.sum(
            m[None, :, None] * gap / (jnp.sum(gap**2, -1) + 0.01)[..., None] ** 1.5, axis=1
        )

    def run(x, v, m):
        def step(_, state):
            x, v = state
            v = v + 0.001 * pull(x, m)
            return x + 0.001 * v, v

        return jax.lax.fori_loop(0, 20, step, (x, v))

    return Case(run, (normal(rng, 200, 3), normal(rng, 200, 3), rng.random(200).astype(np.float32)))


@program
def newton_small(jax, jnp):
    """Newton's method on Rosenbrock's function of 10 variables."""

    def value(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def run(x):
        def step(x, _):
            x = x - jnp.linalg.solve(jax.hessian(value)(x) + 0.1 * jnp.eye(10), jax.grad(value)(x))
            return x, value(x)

        return jax.lax.scan(step, x, None, 10)[1]

    return Case(run, (np.full(10, 0.8, np.float32),))


@program
def curve_fit(jax, jnp):
    """Levenberg-Marquardt on a curve of 4 parameters: Jacobian, least squares, a decision."""
    x = np.linspace(0, 4, 100, dtype=np.float32)

    def residual(p, y):
        return p[0] * jnp.exp(-p[1] * x) + p[2] * jnp.sin(p[3] * x) - y

    def run(p, y):
        def step(state):
            p, damp, count = state
            j, r = jax.jacfwd(residual)(p, y), residual(p, y)
            a = j.T @ j
            new = p - jnp.linalg.solve(a + damp * jnp.diag(jnp.diag(a)), j.T @ r)
            better = jnp.sum(residual(new, y) ** 2) < jnp.sum(r**2)
            return jnp.where(better, new, p), jnp.where(better, damp / 3, damp * 2), count + 1

        return jax.lax.while_loop(lambda s: s[2] < 15, step, (p, jnp.float32(0.1), 0))[0]

    y = 2 * np.exp(-0.7 * x) + 0.5 * np.sin(3 * x)
    return Case(run, (np.array([1.5, 0.5, 0.4, 2.9], np.float32), y.astype(np.float32)))


@program
def k_means(jax, jnp):
    """10 rounds of clustering 2000 points around 8 centres."""
    rng = np.random.default_rng(0)

    def run(x, centres):
        def step(centres, _):
            nearest = jnp.argmin(jnp.sum((x[:, None] - centres[None]) ** 2, -1), axis=1)
            member = jax.nn.one_hot(nearest, 8)
            centres = (member.T @ x) / jnp.maximum(jnp.sum(member, 0), 1)[:, None]
            return centres, None

        return jax.lax.scan(step, centres, None, 10)[0]

    return Case(run, (normal(rng, 2000, 4), normal(rng, 8, 4)))


@program
def conjugate_gradients(jax, jnp):
    """A Poisson equation on 64 x 64 by conjugate gradients, differentiated by its right side."""
    rng = np.random.default_rng(0)

    def apply(u):
        u = jnp.pad(u, 1)
        return 4 * u[1:-1, 1:-1] - u[2:, 1:-1] - u[:-2, 1:-1] - u[1:-1, 2:] - u[1:-1, :-2]

    def loss(b):
        return jnp.sum(jax.scipy.sparse.linalg.cg(apply, b, maxiter=50)[0] ** 2)

    return Case(jax.value_and_grad(loss), (normal(rng, 64, 64),))


@program
def sinkhorn(jax, jnp):
    """Optimal transport between two clouds of 200 points, and its gradient."""
    rng = np.random.default_rng(0)

    def loss(x, y):
        cost = jnp.sum((x[:, None] - y[None]) ** 2, -1)

        def step(state, _):
            f, g = state
            f = -0.5 * jax.scipy.special.logsumexp((g[None] - cost) / 0.5, axis=1)
            g = -0.5 * jax.scipy.special.logsumexp((f[:, None] - cost) / 0.5, axis=0)
            return (f, g), None

        (f, g), _ = jax.lax.scan(step, (jnp.zeros(200), jnp.zeros(200)), None, 20)
        return jnp.mean(f) + jnp.mean(g)

    return Case(jax.value_and_grad(loss), (normal(rng, 200, 2), normal(rng, 200, 2)))


@program
def option_prices(jax, jnp):
    """A price by 20000 random paths of 50 steps, with its derivatives."""

    def price(market, seed):
        spot, rate, spread = market
        noise = jax.random.normal(jax.random.key(seed), (50, 20000))
        steps = (rate - 0.5 * spread**2) / 50 + spread * jnp.sqrt(1 / 50) * noise
        last = spot * jnp.exp(jnp.cumsum(steps, axis=0))
        return jnp.exp(-rate) * jnp.mean(jnp.maximum(jnp.mean(last, axis=0) - 100.0, 0))

    return Case(jax.value_and_grad(price), (np.array([100.0, 0.05, 0.2], np.float32), np.uint32(0)))


@program
def ising(jax, jnp):
    """50 sweeps of a magnet of 64 x 64 spins, black and white fields in turn."""
    rng = np.random.default_rng(0)
    black = (np.indices((64, 64)).sum(0) % 2).astype(bool)

    def run(spins, seed):
        def sweep(spins, key):
            for mask, own in zip((black, ~black), jax.random.split(key), strict=True):
                around = (
                    jnp.roll(spins, 1, 0)
                    + jnp.roll(spins, -1, 0)
                    + jnp.roll(spins, 1, 1)
                    + jnp.roll(spins, -1, 1)
                )
                flip = jax.random.uniform(own, spins.shape) < jnp.exp(-0.88 * spins * around)
                spins = jnp.where(mask & flip, -spins, spins)
            return spins, jnp.mean(spins)

        return jax.lax.scan(sweep, spins, jax.random.split(jax.random.key(seed), 50))[1]

    return Case(run, ((2 * labels(rng, 2, 64, 64) - 1).astype(np.float32), np.uint32(0)))
