"""Small algorithms of many fields: regression, physics, mixtures, filters, policies, graphs."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, lax, random, vmap


def show(*values):
    for value in values:
        print(jax.tree.map(jnp.asarray, value))


X = random.normal(random.key(0), (20, 3))
w0 = jnp.array([1.0, -2.0, 0.5])
y = (X @ w0 > 0).astype(jnp.float32)
nll = lambda w: jnp.mean(jax.nn.softplus(-(2 * y - 1) * (X @ w))) + 0.01 * w @ w


def gd(w, n):
    return lax.fori_loop(0, n, lambda i, w: w - 0.5 * grad(nll)(w), w)


show(gd(jnp.zeros(3), 50), nll(gd(jnp.zeros(3), 50)))


def irls(w):
    return w - jnp.linalg.solve(jax.hessian(nll)(w), grad(nll)(w))


show(irls(irls(irls(jnp.zeros(3)))))
show(
    jnp.linalg.lstsq(X, X @ w0)[0],
    jnp.linalg.pinv(X) @ (X @ w0),
    jnp.linalg.solve(X.T @ X, X.T @ (X @ w0)),
)
u, s, vt = jnp.linalg.svd(X - X.mean(0), full_matrices=False)
show(s, jnp.abs(vt[0]))
show(
    lax.fori_loop(
        0,
        50,
        lambda i, A: (lambda q, r: r @ q)(*jnp.linalg.qr(A)),
        jnp.array([[4.0, 1.0], [1.0, 3.0]]),
    ).diagonal()
)


def gs(A):
    def step(Q, i):
        v = A[:, i] - Q @ (Q.T @ A[:, i])
        return Q.at[:, i].set(v / jnp.linalg.norm(v)), None

    return lax.scan(step, jnp.zeros_like(A), jnp.arange(A.shape[1]))[0]


Q = gs(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
show(Q.T @ Q)
u0 = jnp.zeros(11).at[5].set(1.0)
show(lax.fori_loop(0, 20, lambda i, u: u + 0.2 * (jnp.roll(u, 1) + jnp.roll(u, -1) - 2 * u), u0))


def lorenz(s, p=(10.0, 28.0, 8 / 3)):
    x, y, z = s
    a, r, b = p
    return jnp.array([a * (y - x), x * (r - z) - y, x * y - b * z])


show(lax.scan(lambda s, _: (s + 0.01 * lorenz(s), s), jnp.ones(3), None, length=20)[0])


def energy(q, p):
    return 0.5 * jnp.sum(p**2) + jnp.sum(1 - jnp.cos(q))


def leap(s, _):
    q, p = s
    p = p - 0.05 * grad(energy)(q, p)
    q = q + 0.1 * grad(energy, 1)(q, p)
    p = p - 0.05 * grad(energy)(q, p)
    return ((q, p), energy(q, p))


show(lax.scan(leap, (jnp.array([1.0]), jnp.array([0.0])), None, length=5)[1])


def nbody(x):
    d = x[:, None] - x[None]
    r = jnp.sqrt((d**2).sum(-1) + 0.01)
    return -0.5 * (1 / r - jnp.diag(jnp.diag(1 / r))).sum()


show(-grad(nbody)(jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])))
L = lambda q, qd: 0.5 * qd @ qd - 9.8 * q[0]


def accel(q, qd):
    return jnp.linalg.solve(
        jax.hessian(L, 1)(q, qd), grad(L)(q, qd) - jax.jacfwd(grad(L, 1))(q, qd) @ qd
    )


show(accel(jnp.array([0.0, 1.0]), jnp.array([1.0, 0.0])))


def em(x, n):
    def step(p, _):
        mu, lv, lw = p
        ll = lw - 0.5 * lv - 0.5 * (x[:, None] - mu) ** 2 / jnp.exp(lv)
        r = jax.nn.softmax(ll, 1)
        nk = r.sum(0)
        mu = (r * x[:, None]).sum(0) / nk
        return (
            (mu, jnp.log((r * (x[:, None] - mu) ** 2).sum(0) / nk + 0.001), jnp.log(nk / x.size)),
            jax.nn.logsumexp(ll, 1).sum(),
        )

    return lax.scan(
        step, (jnp.array([-1.0, 1.0]), jnp.zeros(2), jnp.log(jnp.ones(2) / 2)), None, length=n
    )


show(
    em(
        jnp.concatenate(
            [random.normal(random.key(0), (30,)) - 3, random.normal(random.key(1), (30,)) + 3]
        ),
        5,
    )
)


def hmm(pi, A, B, obs):
    return lax.scan(
        lambda a, o: (lambda b: (b / b.sum(), jnp.log(b.sum())))(a @ A * B[:, o]), pi, obs
    )


show(
    hmm(
        jnp.array([0.5, 0.5]),
        jnp.array([[0.9, 0.1], [0.2, 0.8]]),
        jnp.array([[0.7, 0.3], [0.1, 0.9]]),
        jnp.array([0, 1, 1, 0]),
    )
)


def pf(key, obs, n=50):
    def step(c, o):
        x, k = c
        k, k1, k2 = random.split(k, 3)
        x = x + random.normal(k1, (n,))
        w = jax.nn.softmax(-0.5 * (o - x) ** 2)
        x = x[random.choice(k2, n, (n,), p=w)]
        return ((x, k), x.mean())

    return lax.scan(step, (jnp.zeros(n), key), obs)[1]


show(pf(random.key(3), jnp.arange(4.0)))


def pg(theta, key):
    a = random.categorical(key, theta)
    return grad(lambda t: jax.nn.log_softmax(t)[a] * jnp.array([0.0, 1.0, 0.5])[a])(theta)


show(
    lax.fori_loop(
        0,
        20,
        lambda i, t: (
            t
            + 0.5
            * vmap(pg, (None, 0))(t, random.split(random.fold_in(random.key(0), i), 16)).mean(0)
        ),
        jnp.zeros(3),
    )
)
show(
    lax.fori_loop(
        0,
        50,
        lambda i, V: jnp.max(jnp.array([[0.0, 1.0], [2.0, 0.0]]) + 0.9 * V[None], 1),
        jnp.zeros(2),
    )
)


def gcn(A, X, W):
    d = A.sum(1)
    return jax.nn.relu(A / jnp.sqrt(d[:, None] * d[None]) @ X @ W)


show(gcn(jnp.eye(3) + jnp.eye(3, k=1) + jnp.eye(3, k=-1), jnp.ones((3, 2)), jnp.ones((2, 2))))


def pe(n, d):
    p = jnp.arange(n)[:, None] / 10000 ** (2 * (jnp.arange(d) // 2) / d)
    return jnp.where(jnp.arange(d) % 2 == 0, jnp.sin(p), jnp.cos(p))


show(pe(3, 4))


def dropout(k, x, r):
    return jnp.where(random.bernoulli(k, 1 - r, x.shape), x / (1 - r), 0.0)


show(dropout(random.key(0), jnp.ones((2, 4)), 0.5))


def bn(x):
    m = lax.pmean(x, "b")
    v = lax.pmean((x - m) ** 2, "b")
    return (x - m) * lax.rsqrt(v + 1e-05)


show(
    vmap(bn, axis_name="b")(jnp.arange(6.0).reshape(3, 2)),
    grad(lambda x: (vmap(bn, axis_name="b")(x) ** 3).sum())(jnp.arange(6.0).reshape(3, 2)),
)
A = jnp.arange(6.0).reshape(2, 3)
B = jnp.arange(12.0).reshape(3, 4)
T = jnp.arange(24.0).reshape(2, 3, 4)
show(
    jnp.einsum("ij,jk->ik", A, B),
    jnp.einsum("ij->ji", A),
    jnp.einsum("ii", jnp.eye(3)),
    jnp.einsum("i,j->ij", A[0], A[1]),
    jnp.einsum("bij,jk->bik", T, jnp.ones((4, 2))).shape,
    jnp.einsum("...ij->...j", T),
    jnp.einsum("ij,ij->", A, A),
    jnp.einsum(A, [0, 1], B, [1, 2], [0, 2]),
    jnp.einsum("ij,jk,kl->il", A, B, jnp.ones((4, 2))),
)
print(jnp.einsum_path("ij,jk,kl->il", A, B, jnp.ones((4, 2)))[0])
