"""Programs that a stranger wrote to judge the library (issue 26), who had not seen what it does
with them."""

import numpy as np
from cases import (
    Case,
    convolve,
    cross_entropy,
    labels,
    layer_norm,
    normal,
    program,
    training,
    weights,
)


@program
def wgan_gp(jax, jnp):
    """Critic step of a Wasserstein GAN with gradient penalty: second derivatives."""
    rng = np.random.default_rng(0)
    critic = [weights(rng, 64, 256), weights(rng, 256, 256), weights(rng, 256, 1)]
    gen = [weights(rng, 16, 256), weights(rng, 256, 64)]

    def net(ws, x):
        for w in ws[:-1]:
            x = jax.nn.leaky_relu(x @ w, 0.2)
        return x @ ws[-1]

    def loss(critic, gen, real, noise, eps):
        fake = jax.lax.stop_gradient(net(gen, noise))
        mix = eps * real + (1 - eps) * fake
        grads = jax.vmap(jax.grad(lambda x: net(critic, x)[0]))(mix)
        penalty = jnp.mean((jnp.linalg.norm(grads, axis=-1) - 1) ** 2)
        return jnp.mean(net(critic, fake)) - jnp.mean(net(critic, real)) + 10 * penalty

    return training(
        jax,
        loss,
        critic,
        gen,
        normal(rng, 128, 64),
        normal(rng, 128, 16),
        rng.random((128, 1)).astype(np.float32),
        optimizer="adamw",
    )


@program
def performer(jax, jnp):
    rng = np.random.default_rng(7)
    d, heads, m, length = 128, 4, 64, 256

    def layer():
        return {
            "qkv": weights(rng, d, 3 * d),
            "o": weights(rng, d, d),
            "u": weights(rng, d, 4 * d),
            "w": weights(rng, 4 * d, d),
            "n": np.ones(d, np.float32),
        }

    params = {"e": normal(rng, 256, d) * 0.1, "layers": [layer() for _ in range(4)]}
    features = normal(rng, m, d // heads)

    def phi(x):
        x = x / x.shape[-1] ** 0.25
        return jnp.exp(x @ features.T - jnp.sum(x**2, -1, keepdims=True) / 2) / np.sqrt(m) + 1e-6

    def loss(params, tokens):
        x = params["e"][tokens]
        for p in params["layers"]:
            q, k, v = jnp.split(layer_norm(jnp, x, p["n"]) @ p["qkv"], 3, -1)
            q, k, v = (t.reshape(*t.shape[:2], heads, -1) for t in (q, k, v))
            q, k = phi(q), phi(k)
            kv = jnp.einsum("bnhm,bnhd->bhmd", k, v)
            z = 1 / jnp.einsum("bnhm,bhm->bnh", q, k.sum(1))
            x = x + jnp.einsum("bnhm,bhmd,bnh->bnhd", q, kv, z).reshape(x.shape) @ p["o"]
            x = x + jax.nn.gelu(layer_norm(jnp, x, p["n"]) @ p["u"]) @ p["w"]
        return cross_entropy(jax, jnp, x[:, :-1] @ params["e"].T, tokens[:, 1:])

    return training(jax, loss, params, labels(rng, 256, 4, length))


@program
def mobilenet(jax, jnp):
    rng = np.random.default_rng(9)
    widths = [(16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    params = {
        "stem": weights(rng, 3, 3, 3, 16),
        "blocks": [
            (
                weights(rng, 3, 3, 1, i),
                np.ones(i, np.float32),
                weights(rng, 1, 1, i, o),
                np.ones(o, np.float32),
            )
            for i, o, _ in widths
        ],
        "out": weights(rng, 128, 10),
    }

    def norm(x, s):
        return (x - jnp.mean(x, (0, 1, 2))) * jax.lax.rsqrt(jnp.var(x, (0, 1, 2)) + 1e-5) * s

    def loss(params, x, y):
        x = jax.nn.relu6(convolve(jax, x, params["stem"], 2))
        for (dw, s1, pw, s2), (i, _o, stride) in zip(params["blocks"], widths, strict=False):
            x = jax.nn.relu6(norm(convolve(jax, x, dw, stride, feature_group_count=i), s1))
            x = jax.nn.relu6(norm(convolve(jax, x, pw), s2))
        return cross_entropy(jax, jnp, x.mean((1, 2)) @ params["out"], y)

    return training(jax, loss, params, normal(rng, 8, 64, 64, 3), labels(rng, 10, 8))


@program
def densenet(jax, jnp):
    rng = np.random.default_rng(10)
    growth, start, depth = 12, 24, 8
    params = {
        "stem": weights(rng, 3, 3, 3, start),
        "layers": [weights(rng, 3, 3, start + i * growth, growth) for i in range(depth)],
        "scales": [np.ones(start + i * growth, np.float32) for i in range(depth)],
        "out": weights(rng, start + depth * growth, 10),
    }

    def loss(params, x, y):
        x = convolve(jax, x, params["stem"])
        for w, s in zip(params["layers"], params["scales"], strict=False):
            h = (x - jnp.mean(x, (0, 1, 2))) * jax.lax.rsqrt(jnp.var(x, (0, 1, 2)) + 1e-5) * s
            x = jnp.concatenate([x, convolve(jax, jax.nn.relu(h), w)], -1)
        return cross_entropy(jax, jnp, x.mean((1, 2)) @ params["out"], y)

    return training(jax, loss, params, normal(rng, 8, 16, 16, 3), labels(rng, 10, 8))


@program
def particle_filter(jax, jnp):
    rng = np.random.default_rng(46)

    def run(ys, key):
        n = 1000

        def step(c, y):
            x, logz, key = c
            key, a, b = jax.random.split(key, 3)
            x = 0.5 * x + 25 * x / (1 + x**2) + jax.random.normal(a, (n,)) * 3
            lw = -0.5 * (y - x**2 / 20) ** 2
            logz = logz + jax.nn.logsumexp(lw) - jnp.log(n)
            w = jax.nn.softmax(lw)
            ess = 1 / jnp.sum(w**2)
            u = (jnp.arange(n) + jax.random.uniform(b)) / n
            index = jnp.searchsorted(jnp.cumsum(w), u)
            return (x[jnp.clip(index, 0, n - 1)], logz, key), (jnp.sum(w * x), ess)

        return jax.lax.scan(step, (jnp.zeros(n), 0.0, key), ys)

    return Case(run, (normal(rng, 40) * 3 + 2, np.array([0, 8], np.uint32)))


@program
def nuts_doubling(jax, jnp):
    """Leapfrog trajectories that double until they turn."""
    rng = np.random.default_rng(45)
    d = 20
    P = normal(rng, d, d)
    P = (P @ P.T / d + np.eye(d)).astype(np.float32)

    def run(x0, P, key):
        def logp(x):
            return -0.5 * x @ P @ x - jnp.sum(jnp.log(jnp.cosh(x)))

        grad = jax.grad(logp)

        def leap(x, p, eps):
            p = p + eps / 2 * grad(x)
            x = x + eps * p
            return x, p + eps / 2 * grad(x)

        def sample(x, key):
            k1, k2 = jax.random.split(key)
            p = jax.random.normal(k1, (d,))
            h0 = logp(x) - 0.5 * p @ p

            def body(s):
                xl, pl, xr, pr, prop, w, depth, key, _ = s
                key, ka, kb = jax.random.split(key, 3)
                right = jax.random.bernoulli(ka)
                xs, ps = jax.tree.map(lambda a, b: jnp.where(right, a, b), (xr, pr), (xl, pl))
                eps = jnp.where(right, 0.15, -0.15)

                def inner(i, t):
                    x, p, prop, w, key = t
                    x, p = leap(x, p, eps)
                    lw = jnp.exp(jnp.minimum(logp(x) - 0.5 * p @ p - h0, 10.0))
                    key, k = jax.random.split(key)
                    take = jax.random.uniform(k) < lw / (w + lw)
                    return x, p, jnp.where(take, x, prop), w + lw, key

                xs, ps, prop, w, _ = jax.lax.fori_loop(0, 2**depth, inner, (xs, ps, prop, w, kb))
                xl, pl = jax.tree.map(lambda a, b: jnp.where(right, a, b), (xl, pl), (xs, ps))
                xr, pr = jax.tree.map(lambda a, b: jnp.where(right, b, a), (xr, pr), (xs, ps))
                turned = ((xr - xl) @ pl < 0) | ((xr - xl) @ pr < 0)
                return xl, pl, xr, pr, prop, w, depth + 1, key, turned

            s = jax.lax.while_loop(
                lambda s: (s[6] < 5) & ~s[8], body, (x, p, x, p, x, 1.0, 0, k2, False)
            )
            return s[4], s[6]

        return jax.lax.scan(sample, x0, jax.random.split(key, 10))

    return Case(run, (normal(rng, d), P, np.array([0, 8], np.uint32)))


@program
def viterbi(jax, jnp):
    rng = np.random.default_rng(52)

    def run(u, t):
        def one(u):
            def step(a, u):
                s = a[:, None] + t
                return jnp.max(s, 0) + u, jnp.argmax(s, 0)

            a, back = jax.lax.scan(step, u[0], u[1:])
            last = jnp.argmax(a)
            _, path = jax.lax.scan(lambda i, b: (b[i], b[i]), last, back, reverse=True)
            return jnp.concatenate([path, last[None]]), jnp.max(a)

        return jax.vmap(one)(u)

    return Case(run, (normal(rng, 16, 50, 12), normal(rng, 12, 12)))


@program
def interior_point_lp(jax, jnp):
    rng = np.random.default_rng(63)
    m, n = 20, 40
    A = rng.random((m, n))
    x0 = rng.random(n) + 0.5

    def run(A, b, c):
        def cond(s):
            x, _l, z, k = s
            return (x @ z / n > 1e-4) & (k < 40)

        def body(s):
            x, l, z, k = s
            mu = 0.2 * x @ z / n
            rp, rd, rc = b - A @ x, c - A.T @ l - z, mu - x * z
            d = x / z
            M = (A * d) @ A.T + 1e-6 * jnp.eye(m)
            dl = jax.scipy.linalg.solve(M, rp + A @ (d * rd - rc / z), assume_a="pos")
            dx = d * (A.T @ dl - rd) + rc / z
            dz = (rc - z * dx) / x

            def length(v, dv):
                return jnp.minimum(1.0, 0.99 * jnp.min(jnp.where(dv < 0, -v / dv, jnp.inf)))

            ap, ad = length(x, dx), length(z, dz)
            return x + ap * dx, l + ad * dl, z + ad * dz, k + 1

        return jax.lax.while_loop(cond, body, (jnp.ones(n), jnp.zeros(m), jnp.ones(n), 0))[0]

    b = A @ x0
    c = A.T @ rng.standard_normal(m) + rng.random(n) + 0.1
    f = np.float32
    return Case(run, (A.astype(f), b.astype(f), c.astype(f)))


@program
def lattice_boltzmann(jax, jnp):
    rng = np.random.default_rng(69)
    c = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
    w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)
    opposite = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])
    yy, xx = np.mgrid[:60, :120]
    obstacle = (xx - 30) ** 2 + (yy - 30) ** 2 < 64

    def run(f, wall):
        def equilibrium(rho, u):
            cu = jnp.einsum("qd,dyx->qyx", jnp.asarray(c, jnp.float32), u)
            return rho * w[:, None, None] * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * jnp.sum(u**2, 0))

        def step(f, _):
            rho = f.sum(0)
            u = jnp.einsum("qd,qyx->dyx", jnp.asarray(c, jnp.float32), f) / rho
            u = u.at[0, :, 0].set(0.1).at[1, :, 0].set(0.0)
            out = f - (f - equilibrium(rho, u)) / 0.6
            out = jnp.where(wall, f[opposite], out)
            out = jnp.stack([jnp.roll(out[q], (c[q, 1], c[q, 0]), (0, 1)) for q in range(9)])
            return out, jnp.mean(u[0])

        return jax.lax.scan(step, f, None, length=50)

    f0 = np.ones((9, 60, 120), np.float32) * w[:, None, None] * (1 + 0.01 * normal(rng, 9, 60, 120))
    return Case(run, (f0.astype(np.float32), obstacle))


@program
def bundle_adjustment(jax, jnp):
    rng = np.random.default_rng(75)
    cams, pts, obs = 6, 60, 240

    def run(C, P, ci, pi, y):
        def residual(c, p, y):
            w, t = c[:3], c[3:]
            th2 = w @ w
            p = p + jnp.cross(w, p) + 0.5 * jnp.cross(w, jnp.cross(w, p)) * (1 - th2 / 12) + t
            return p[:2] / p[2] - y

        def step(s, _):
            C, P = s
            r = jax.vmap(residual)(C[ci], P[pi], y)
            Jc, Jp = jax.vmap(jax.jacrev(residual, (0, 1)))(C[ci], P[pi], y)
            U = jax.ops.segment_sum(jnp.einsum("oai,oaj->oij", Jc, Jc), ci, cams) + 1e-1 * jnp.eye(
                6
            )
            V = jax.ops.segment_sum(jnp.einsum("oai,oaj->oij", Jp, Jp), pi, pts) + 1e-1 * jnp.eye(3)
            W = jnp.einsum("oai,oaj->oij", Jc, Jp)
            gc = jax.ops.segment_sum(jnp.einsum("oai,oa->oi", Jc, r), ci, cams)
            gp = jax.ops.segment_sum(jnp.einsum("oai,oa->oi", Jp, r), pi, pts)
            Vi = jnp.linalg.inv(V)
            full = jnp.zeros((cams, pts, 6, 3)).at[ci, pi].add(W)
            Y = jnp.einsum("cpij,pjk->cpik", full, Vi)
            S = -jnp.einsum("cpik,dpjk->cidj", Y, full)
            S = S + jnp.einsum("cij,cd->cidj", U, jnp.eye(cams))
            dc = jnp.linalg.solve(
                S.reshape(6 * cams, 6 * cams), (gc - jnp.einsum("cpij,pj->ci", Y, gp)).ravel()
            ).reshape(cams, 6)
            dp = jnp.einsum("pij,pj->pi", Vi, gp - jnp.einsum("cpij,ci->pj", full, dc))
            return (C - dc, P - dp), jnp.sum(r**2)

        return jax.lax.scan(step, (C, P), None, length=5)

    P = normal(rng, pts, 3)
    C = 0.1 * normal(rng, cams, 6) + np.float32([0, 0, 0, 0, 0, 6])
    ci, pi = labels(rng, cams, obs), labels(rng, pts, obs)
    y = (P[pi, :2] / (P[pi, 2:] + 6) + 0.01 * normal(rng, obs, 2)).astype(np.float32)
    return Case(run, (C, P, ci, pi, y))


@program
def histogram_equalisation(jax, jnp):
    rng = np.random.default_rng(78)

    def run(x):
        def one(img):
            lo, hi = jnp.percentile(img, jnp.array([2.0, 98.0]))
            img = jnp.clip((img - lo) / (hi - lo), 0, 1)
            hist = jnp.bincount((img * 255).astype(jnp.int32).ravel(), length=256)
            cdf = jnp.cumsum(hist) / img.size
            return cdf[(img * 255).astype(jnp.int32)]

        return jax.vmap(one)(x)

    return Case(run, (normal(rng, 3, 128, 128),))


@program
def multigrid(jax, jnp):
    rng = np.random.default_rng(91)

    def run(f):
        def smooth(u, f, h, n):
            for _ in range(n):
                p = jnp.pad(u, 1)
                u = u + 0.8 * (
                    (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + h * h * f) / 4 - u
                )
            return u

        def residual(u, f, h):
            p = jnp.pad(u, 1)
            return f + (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u) / (h * h)

        def cycle(u, f, h):
            u = smooth(u, f, h, 3)
            if len(u) > 4:
                r = residual(u, f, h)
                n = len(r) // 2
                coarse = r.reshape(n, 2, n, 2).mean((1, 3))
                e = cycle(jnp.zeros_like(coarse), coarse, 2 * h)
                u = u + jax.image.resize(e, u.shape, "linear")
            return smooth(u, f, h, 3)

        def step(u, _):
            u = cycle(u, f, 1 / 64)
            return u, jnp.linalg.norm(residual(u, f, 1 / 64))

        return jax.lax.scan(step, jnp.zeros_like(f), None, length=5)

    return Case(run, (normal(rng, 64, 64),))
