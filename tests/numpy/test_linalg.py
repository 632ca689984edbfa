"""Linear algebra: values against NumPy, stacks, derivatives against differences, errors."""

import math

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config

L = jnp.linalg
RNG = np.random.default_rng(1)
A = RNG.standard_normal((3, 3)).astype("float32") + 3 * np.eye(3, dtype="float32")
S = np.stack([A, A.T + np.eye(3, dtype="float32")])
BIG = RNG.standard_normal((5, 5)).astype("float32")
H = (BIG + BIG.T + 8 * np.eye(5)).astype("float32")
C = (BIG + 1j * BIG.T).astype("complex64")
G = RNG.standard_normal((4, 2)).astype("float32")


def _close(got, want, tol=2e-4):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=tol)


@pytest.mark.parametrize("name", ["det", "inv"])
@pytest.mark.parametrize("x", [A, S, BIG, C, A[:2, :2], np.array([[2, 1], [1, 3]], "int32")])
def test_det_and_inv(name, x):
    _close(getattr(L, name)(x), getattr(np.linalg, name)(x), 1e-3)


@pytest.mark.parametrize("x", [A, S, BIG, C, np.zeros((2, 2), "float32")])
def test_slogdet(x):
    for got, want in zip(L.slogdet(x), np.linalg.slogdet(x), strict=True):
        _close(got, want)


@pytest.mark.parametrize(
    "a, b", [(A, G[:3, 0]), (A, G[:3]), (S, A), (S, S), (C, BIG[0]), (S[0], S)]
)
def test_solve(a, b):
    _close(L.solve(a, b), np.linalg.solve(a, b), 1e-3)


def test_factorizations():
    _close(L.cholesky(H), np.linalg.cholesky(H))
    _close(L.cholesky(H, upper=True), np.linalg.cholesky(H).T)
    w, v = L.eigh(H)
    _close(v @ jnp.diag(w) @ v.T, H, 1e-3)
    _close(L.eigvalsh(H), np.linalg.eigvalsh(H), 1e-3)
    w, v = L.eig(BIG)
    _close(jnp.asarray(BIG) @ v, v * w, 1e-3)
    for m in (G, G.T, S):
        u, s, vh = L.svd(m, full_matrices=False)
        _close((u * s[..., None, :]) @ vh, m, 1e-3)
        _close(L.svdvals(m), np.linalg.svd(m, compute_uv=False), 1e-3)
        q, r = L.qr(m)
        _close(q @ r, m, 1e-3)
    u, s, vh = L.svd(H - 8 * np.eye(5, dtype="float32"), hermitian=True)
    _close((u * s) @ vh, H - 8 * np.eye(5), 1e-3)
    assert [v.shape for v in L.svd(G)] == [(4, 4), (2,), (2, 2)] and [
        v.shape for v in L.qr(G, "complete")
    ] == [(4, 4), (4, 2)]


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"ord": 1}, {"ord": np.inf}, {"ord": -np.inf}, {"ord": 0}, {"ord": 3}, {"ord": 2}],
)
def test_vector_norm(kwargs):
    _close(L.norm(G[:, 0], **kwargs), np.linalg.norm(G[:, 0], **kwargs))
    _close(L.vector_norm(G, axis=0, **kwargs), np.linalg.norm(G, axis=0, **kwargs))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norm(order):
    _close(L.norm(G, order), np.linalg.norm(G, order))
    _close(
        L.norm(S, order, axis=(1, 2), keepdims=True),
        np.linalg.norm(S, order, axis=(1, 2), keepdims=True),
    )
    _close(L.norm(S, order, axis=(2, 0)), np.linalg.norm(S, order, axis=(2, 0)))
    _close(L.matrix_norm(S, ord=order), np.linalg.matrix_norm(S, ord=order))


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, "fro", "nuc", np.inf])
def test_cond(p):
    _close(L.cond(A, p), np.linalg.cond(A, p), 1e-3)


@pytest.mark.parametrize(
    "tolerance", [0.4, np.array([0.1, 0.5, 0.9, 2.0]), np.full((2, 1), 0.3), np.full((4, 1), 0.3)]
)
def test_tolerances_are_absolute_for_ranks_and_relative_for_inverses(tolerance):
    m = np.random.default_rng(0).normal(size=(4, 3, 3)).astype("float32")
    for x in (m, m[0], m[0] + 0j, m[0, :2]):
        want = np.linalg.matrix_rank(x, tolerance)
        assert L.matrix_rank(x, tolerance).tolist() == want.tolist()
        assert L.matrix_rank(x, tol=tolerance).tolist() == want.tolist()
        lead = np.broadcast_shapes(x.shape[:-2], np.shape(tolerance))
        wide = np.broadcast_to(x, (*lead, *x.shape[-2:]))
        _close(L.pinv(x, tolerance), np.linalg.pinv(wide, rcond=tolerance), 1e-3)


def test_ranks_are_as_wide_as_integers():
    with config.enable_x64(True):
        for b in (BIG[:4], BIG[:4, 0]):
            assert L.lstsq(G, b)[2].dtype == np.int64
        assert L.matrix_rank(G).dtype == np.int64 and L.matrix_rank(G[0]).dtype == np.int32


def test_ranks_inverses_and_least_squares():
    assert L.matrix_rank(np.ones((3, 3), "float32")) == 1 and L.matrix_rank(S).tolist() == [3, 3]
    for m in (G, G.T, S, np.ones((3, 3), "float32")):
        _close(L.pinv(m), np.linalg.pinv(m, rcond=1e-5), 1e-3)
    x, residual, rank, s = L.lstsq(G, BIG[:4, 0])
    want = np.linalg.lstsq(G, BIG[:4, 0], rcond=None)
    for got, w in zip((x, residual, rank, s), want, strict=True):
        _close(got, w, 1e-3)
    _close(
        L.tensorsolve(np.eye(6, dtype="float32").reshape(2, 3, 6), np.ones((2, 3), "float32")),
        np.ones(6),
    )
    assert L.tensorinv(np.eye(6, dtype="float32").reshape(2, 3, 6)).shape == (6, 2, 3)


def test_products():
    for n in (-2, 0, 1, 5):
        _close(L.matrix_power(A, n), np.linalg.matrix_power(A, n), 1e-3)
    _close(L.multi_dot([G, A[:2, :2], G.T]), np.linalg.multi_dot([G, A[:2, :2], G.T]))
    _close(L.trace(S, offset=1), np.linalg.trace(S, offset=1))
    _close(L.diagonal(S, offset=-1), np.linalg.diagonal(S, offset=-1))


FUNCTIONS = {
    "det": (L.det, np.linalg.det, BIG),
    "det3": (L.det, np.linalg.det, A),
    "inv": (L.inv, np.linalg.inv, A),
    "pinv": (L.pinv, np.linalg.pinv, G),
    "logdet": (lambda x: L.slogdet(x)[1], lambda x: np.linalg.slogdet(x)[1], BIG),
    "norm": (L.norm, np.linalg.norm, G),
    "solve": (lambda x: L.solve(x, G[:3]), lambda x: np.linalg.solve(x, G[:3]), A),
    "svdvals": (L.svdvals, np.linalg.svdvals, G),
    "nuc": (lambda x: L.norm(x, "nuc"), lambda x: np.linalg.norm(x, "nuc"), G),
    "power": (lambda x: L.matrix_power(x, 3), lambda x: x @ x @ x, A),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_difference_quotients(name):
    ours, theirs, x = FUNCTIONS[name]
    d = RNG.standard_normal(x.shape).astype("float32")
    ct = RNG.standard_normal(np.shape(theirs(x))).astype("float32")
    want = np.sum(
        (theirs(x.astype("f8") + 1e-5 * d) - theirs(x.astype("f8") - 1e-5 * d)) / 2e-5 * ct
    )
    tangent = jax.jvp(ours, (x,), (d,))[1]
    assert float(jnp.sum(tangent * ct)) == pytest.approx(want, rel=2e-4, abs=1e-4)
    grad = jax.grad(lambda v: jnp.sum(ours(v) * ct))(x)
    assert float(jnp.sum(grad * d)) == pytest.approx(want, rel=2e-4, abs=1e-4)


def test_gradient_of_a_singular_determinant():
    x = np.array([[1, 2, 0, 0], [2, 4, 0, 0], [0, 0, 1, 1], [1, 0, 0, 2]], "float32")
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(4)]
        for i in range(4)
    ]
    _close(jax.grad(L.det)(x), minors)


def _cofactors(x):
    n = len(x)
    return [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(n)]
        for i in range(n)
    ]


@pytest.mark.parametrize("n", [4, 5])
def test_gradient_of_a_determinant_is_its_cofactors_whichever_pivot_is_zero(n):
    full = np.random.default_rng(n).integers(-3, 4, (n, n)).astype("float32") + 4 * np.eye(n)
    singular = []
    for k in range(n):
        diagonal, column, row = np.diag(np.arange(1.0, n + 1)), full.copy(), full.copy()
        diagonal[k, k] = column[:, k] = row[k] = 0
        singular += [diagonal, column, row]
    xs = np.stack(singular).astype("float32")
    want = np.array([_cofactors(x) for x in xs])
    # Products of up to five numbers cancel in what is right here to 1e-4 of the largest.
    most = 1e-4 * np.abs(want).max()
    np.testing.assert_allclose(np.stack([jax.grad(L.det)(x) for x in xs]), want, atol=most)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(L.det)))(xs), want, atol=most)
    z = xs.astype("complex64")
    got = jax.grad(lambda z: L.det(z).sum(), holomorphic=True)(z)
    np.testing.assert_allclose(got, want, atol=most)


@pytest.mark.parametrize("shape", [(4, 4), (5, 4), (4, 5)])
def test_derivative_of_lstsq_where_singular_values_nearly_meet(shape):
    rng = np.random.default_rng(5)
    m, n = shape
    left, right = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in shape)
    values = np.zeros(shape)
    values[range(4), range(4)] = [1, 1 + 1e-13, 1, 3]
    with jax.enable_x64(True):
        x, y, c = left @ values @ right, rng.standard_normal((m, 2)), rng.standard_normal((n, 2))
        want = jax.grad(lambda x: jnp.sum(L.pinv(x) @ y * c))(x)
        got = jax.grad(lambda x: jnp.sum(L.lstsq(x, y)[0] * c))(x)
        np.testing.assert_allclose(got, want, atol=1e-11)
        d = rng.standard_normal(shape)
        twice = jax.grad(jax.grad(lambda t: jnp.sum(L.lstsq(x + t * d, y)[0] * c)))(0.0)
        want = jax.grad(jax.grad(lambda t: jnp.sum(L.pinv(x + t * d) @ y * c)))(0.0)
        np.testing.assert_allclose(twice, want, rtol=1e-9)
    assert jax.grad(lambda y: L.lstsq(x, y)[0].sum())(y).shape == y.shape


@pytest.mark.parametrize("name", ["det", "inv", "pinv", "svdvals", "cholesky", "eigvalsh", "cond"])
def test_vmap_is_a_stack(name):
    m = np.stack([H, H + np.eye(5, dtype="float32")])
    _close(jax.vmap(getattr(L, name))(m), np.stack([getattr(L, name)(v) for v in m]), 1e-3)


@pytest.mark.parametrize(
    "call, error, match",
    [
        (
            lambda: L.svd(G[0]),
            TypeError,
            r"Input 0 to svd must have rank at least 2, but got shape=\(2,\)",
        ),
        (lambda: L.qr(G[0]), TypeError, "Input 0 to qr must have rank at least 2"),
        (lambda: L.eigh(G[0]), TypeError, "Input 0 to eigh must have rank at least 2"),
        (lambda: L.cholesky(G[0]), TypeError, "Input 0 to cholesky must have rank at least 2"),
        (lambda: L.eigvals(G), ValueError, r"must have shape \[..., n, n\], got \(4, 2\)"),
        (
            lambda: L.inv(G[0]),
            ValueError,
            r"Argument to inv must have shape \[..., n, n\], got \(2,\)",
        ),
        (
            lambda: L.multi_dot([G]),
            ValueError,
            "multi_dot: input arrays must all be two-dimensional",
        ),
        (lambda: L.det(G), ValueError, r"must have shape \[..., n, n\], got \(4, 2\)"),
        (lambda: L.inv(G), ValueError, "Argument to inv must have shape"),
        (lambda: L.solve(A, G), ValueError, "inconsistent size for core dimension"),
        (lambda: L.norm(G, 3), ValueError, "Invalid order '3' for matrix norm"),
        (lambda: L.norm(G[0], "fro"), ValueError, "Invalid order 'fro' for vector norm"),
        (lambda: L.eigh(A, "X"), ValueError, "UPLO must be one of"),
        (lambda: L.qr(G, "x"), ValueError, "Unsupported QR decomposition mode"),
        (lambda: L.matrix_power(G, 2), TypeError, "must be square"),
        (lambda: L.matrix_power(A, 1.5), TypeError, "exponent must be an integer"),
        (lambda: L.cond(G[0]), ValueError, "at least 2D"),
        (lambda: L.lstsq(G, A), ValueError, "Leading dimensions of input arrays must match"),
        (lambda: L.outer(G, G), ValueError, "one-dimensional"),
        (lambda: L.cross(G[0], G[0]), ValueError, "3-dimensional vectors"),
        (lambda: L.norm(S, 2), ValueError, "Improper number of axes"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_gradients_of_determinants_of_low_rank_are_zero():
    for x in (
        np.zeros((4, 4), np.float32),
        np.ones((4, 4), np.float32) + np.diag(np.float32([0, 0, 0, 1])),
    ):
        assert not jax.grad(jnp.linalg.det)(x).any()


@pytest.mark.parametrize(
    "x", [np.float32([[2, 1, 0], [1, -3, 1], [0, 1, 4]]), np.float32([[0, 2], [1, 0]])]
)
def test_gradients_of_slogdet_by_both_methods(x):
    for method in ("lu", "qr"):
        gradient = jax.grad(lambda x: jnp.linalg.slogdet(x, method=method)[1])(x)
        np.testing.assert_allclose(gradient, np.linalg.inv(x).T, rtol=1e-5, atol=1e-6)


def test_norms_at_zero_and_of_nothing():
    # 0 is among the sizes of which the greatest is taken: half of the derivative is its own.
    np.testing.assert_allclose(
        jax.grad(lambda x: jnp.linalg.norm(x, jnp.inf))(jnp.zeros(2)), [0.25, 0.25]
    )
    assert jnp.linalg.norm(np.ones(0), np.inf) == 0 and jnp.linalg.norm(np.ones((3, 0)), 1) == 0
    assert isinstance(jnp.linalg.det(np.ones((0, 0))), jax.Array)


@pytest.mark.parametrize("last", [(), (3,)], ids=["vector", "matrix"])
@pytest.mark.parametrize("first", [(), (2,)], ids=["vector", "matrix"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_products_of_several(n, first, last):
    shapes = [(*first, 2), *[(i, i + 1) for i in range(2, n)], (n, *last)]
    arrays = [np.arange(math.prod(s), dtype=np.float32).reshape(s) % 5 - 2 for s in shapes]
    np.testing.assert_array_equal(jnp.linalg.multi_dot(arrays), np.linalg.multi_dot(arrays))
    if n > 2:
        with pytest.raises(ValueError, match="input arrays must all be two-dimensional"):
            jnp.linalg.multi_dot([arrays[0], arrays[1][0], *arrays[2:]])


@pytest.mark.parametrize("shape", [(2000, 2), (2, 2000), (3, 1500, 4)])
def test_derivatives_of_pinv_need_memory_of_the_smaller_size(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for f in (
        jax.grad(lambda x: jnp.sum(L.pinv(x) ** 2)),
        lambda x: jax.jvp(L.pinv, (x,), (x,))[1],
    ):
        used = jax.jit(f).lower(x).compile().memory_analysis().temp_size_in_bytes
        assert used < 50 * x.nbytes
    t = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    with jax.enable_x64(True):
        a, b = x.astype(float), t.astype(float)
        moved = jax.jvp(L.pinv, (a,), (b,))[1]
        h = 1e-6
        np.testing.assert_allclose(
            moved, (L.pinv(a + h * b) - L.pinv(a - h * b)) / (2 * h), rtol=1e-4, atol=1e-8
        )
