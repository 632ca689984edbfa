"""scipy.linalg.

Forms, functions of matrices and named matrices; values are SciPy's or what the factorization
promises.
"""

import numpy as np
import pytest
from sampling import some
from scipy import linalg as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import linalg

R = np.random.default_rng(1)
A = R.normal(size=(5, 5))
C = A + 1j * R.normal(size=(5, 5))
STACK = R.normal(size=(2, 3, 4, 4))
MATRICES = pytest.mark.parametrize("a", [A, C, STACK], ids=["real", "complex", "stack"])


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def check_gradient(f, *args):
    """The derivative along a direction, forward and in reverse, against differences."""
    directions = [R.normal(size=np.shape(x)) for x in args]
    out, found = jax.jvp(f, args, tuple(directions))
    h = 1e-6
    at = lambda s: np.asarray(f(*(x + s * h * d for x, d in zip(args, directions, strict=True))))
    close(found, (at(1) - at(-1)) / (2 * h), 2e-6)
    ct = R.normal(size=np.shape(out)).astype(np.asarray(out).dtype)
    _, pull = jax.vjp(f, *args)
    pulled = sum(np.sum(np.asarray(g) * d) for g, d in zip(pull(ct), directions, strict=True))
    close(np.sum(ct * np.asarray(found)).real, pulled.real, 1e-8)


@MATRICES
def test_hessenberg(a):
    h, q = linalg.hessenberg(a, calc_q=True)
    close(q @ h @ adjoint(q), a)
    close(q @ adjoint(q), np.broadcast_to(np.eye(a.shape[-1]), a.shape))
    close(np.tril(h, -2), 0)
    close(linalg.hessenberg(a), h)
    for n in (0, 1, 2):
        h, q = linalg.hessenberg(A[:n, :n], calc_q=True)
        close(h, A[:n, :n])
        close(q, np.eye(n))
    with pytest.raises(ValueError, match="must be square"):
        linalg.hessenberg(np.ones((2, 3)))


@MATRICES
@pytest.mark.parametrize(
    ("side", "method"),
    some([("left", "qdwh"), ("left", "svd"), ("right", "svd"), ("right", "qdwh")], 2),
)
@pytest.mark.parametrize("columns", [2, None])
def test_polar(a, side, method, columns):
    for x in (a[..., :columns], a[..., :columns, :]):
        u, p = linalg.polar(x, side, method=method)
        close(u @ p if side == "right" else p @ u, x)
        close(p, adjoint(p))
        assert np.linalg.eigvalsh(p).min() > -1e-10
        small = min(x.shape[-2:])
        gram = adjoint(u) @ u if x.shape[-2] >= x.shape[-1] else u @ adjoint(u)
        close(gram, np.broadcast_to(np.eye(small), gram.shape))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_polar_is_differentiable(shape):
    x = R.normal(size=shape)
    for part in (0, 1):
        check_gradient(lambda x: linalg.polar(x)[part], x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: linalg.polar(A, "both"),
        lambda: linalg.polar(A, method="newton"),
        lambda: linalg.polar(A[0]),
    ],
)
def test_mistakes_with_polar(call):
    with pytest.raises(ValueError, match="polar: "):
        call()


@pytest.mark.parametrize("mode", ["left", "right"])
@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("a", [A[:, :3], C, C[:3]], ids=["tall", "complex", "wide"])
def test_qr_multiply(mode, pivoting, a):
    k = min(a.shape)
    for shape in ((k, 2), (k,)) if mode == "left" else ((2, a.shape[0]), (a.shape[0],)):
        c = R.normal(size=shape)
        for conjugate in (False, True):
            found = linalg.qr_multiply(a, c, mode, pivoting=pivoting, conjugate=conjugate)
            expected = reference.qr_multiply(a, c, mode, pivoting=pivoting, conjugate=conjugate)
            for ours, theirs in zip(found, expected, strict=True):
                close(ours, theirs)
    with pytest.raises(ValueError, match="does not fit q"):
        linalg.qr_multiply(a, np.ones((7, 7)), mode)
    with pytest.raises(ValueError, match="must be 'left' or 'right'"):
        linalg.qr_multiply(a, np.ones((7, 7)), "both")


@pytest.mark.parametrize(
    "a", [A, STACK, A[:1, :1], np.triu(A), np.kron(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]])]
)
def test_rsf2csf(a):
    t, z = linalg.rsf2csf(*linalg.schur(a))
    close(z @ t @ adjoint(z), a)
    close(np.tril(t, -1), 0)
    close(z @ adjoint(z), np.broadcast_to(np.eye(a.shape[-1]), a.shape))
    if a.ndim == 2:
        close(np.diagonal(t), np.diagonal(reference.rsf2csf(*linalg.schur(a))[0]))
    with pytest.raises(ValueError, match="square matrices of one size"):
        linalg.rsf2csf(a, np.eye(7))


@pytest.mark.parametrize("e", [R.normal(size=5), R.normal(size=5) + 1j], ids=["real", "complex"])
def test_eigh_tridiagonal(e):
    d = R.normal(size=6)
    matrix = np.diag(d) + np.diag(e, -1) + np.diag(e.conj(), 1)
    values, vectors = linalg.eigh_tridiagonal(d, e)
    close(matrix @ vectors, vectors * values)
    close(linalg.eigh_tridiagonal(d, e, eigvals_only=True), np.linalg.eigvalsh(matrix))
    close(
        linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3)),
        values[1:4],
    )
    close(linalg.eigh_tridiagonal(d[:1], e[:0], eigvals_only=True), d[:1])
    check_gradient(lambda d: linalg.eigh_tridiagonal(d, e.real, eigvals_only=True), d)


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        (
            {"select": "v", "select_range": (0, 1)},
            NotImplementedError,
            "select='v' is not supported",
        ),
        ({"select": "b"}, ValueError, "'select' must be"),
        ({"select": "i"}, ValueError, "select_range must be two places within 0 and 2"),
        ({"select": "i", "select_range": (1, 3)}, ValueError, "select_range must be two places"),
    ],
)
def test_mistakes_with_eigh_tridiagonal(kwargs, error, match):
    with pytest.raises(error, match=match):
        linalg.eigh_tridiagonal(np.ones(3), np.ones(2), **kwargs)
    with pytest.raises(ValueError, match="one element less"):
        linalg.eigh_tridiagonal(np.ones(3), np.ones(3))


@MATRICES
def test_expm_frechet(a):
    e = np.roll(a, 1, -1)
    value, derivative = linalg.expm_frechet(a, e)
    if a.ndim == 2:
        for ours, theirs in zip((value, derivative), reference.expm_frechet(a, e), strict=True):
            close(ours, theirs)
    close(linalg.expm_frechet(a, e, compute_expm=False), derivative)
    with pytest.raises(ValueError, match="same shape"):
        linalg.expm_frechet(a, np.eye(2))
    with pytest.raises(ValueError, match="expected A to be a"):
        linalg.expm_frechet(a[..., :1, :], e)


@MATRICES
def test_sqrtm(a):
    root = linalg.sqrtm(a)
    close(root @ root, a)
    if a.ndim == 2:
        close(root, reference.sqrtm(a.astype(complex)))
    close(jax.jit(linalg.sqrtm)(a), root)


def test_sqrtm_of_singular_matrices():
    close(linalg.sqrtm(np.zeros((2, 2))), 0)
    close(linalg.sqrtm(np.diag([0.0, 4.0, 0.0])), np.diag([0, 2, 0]))
    assert np.isnan(linalg.sqrtm(np.array([[0.0, 1.0], [0.0, 0.0]]))).any()
    assert linalg.sqrtm(np.zeros((0, 0))).shape == (0, 0)
    with pytest.raises(NotImplementedError, match="Leave blocksize at 1"):
        linalg.sqrtm(np.eye(2), blocksize=2)
    with pytest.raises(ValueError, match="must be square"):
        linalg.sqrtm(np.ones((2, 3)))


def test_sqrtm_is_differentiable():
    s = A @ A.T + np.eye(5)
    check_gradient(lambda x: linalg.sqrtm(x).real, s)


@MATRICES
def test_funm(a):
    spread = a + 3 * np.diag(np.arange(a.shape[-1]))
    of = linalg.funm(spread, jnp.exp)
    close(of, linalg.expm(spread), 1e-8)
    if a.ndim == 2:
        found, error = linalg.funm(spread, lambda x: x * x, disp=False)
        close(found, spread @ spread, 1e-8)
        assert 0 < error < 1e-10
    close(linalg.funm(3.0 * np.eye(2), jnp.sin), np.sin(3.0) * np.eye(2))


@MATRICES
@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_solve_sylvester(a, method):
    b = a[..., :3, :3] + 5 * np.eye(3)
    c = a[..., :, :3]
    x = linalg.solve_sylvester(a, b, c, method=method)
    close(a @ x + x @ b, c, 1e-8)
    assert x.dtype == c.dtype
    assert np.isnan(linalg.solve_sylvester(a, -a, a, method=method)).all()


@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_solve_sylvester_is_differentiable(method):
    check_gradient(
        lambda a, b, c: linalg.solve_sylvester(a, b, c, method=method),
        A,
        A[:2, :2] + 5 * np.eye(2),
        A[:, :2],
    )


def test_mistakes_with_solve_sylvester():
    with pytest.raises(ValueError, match="unrecognized method 'other'"):
        linalg.solve_sylvester(A, A, A, method="other")
    with pytest.raises(ValueError, match="shapes do not fit"):
        linalg.solve_sylvester(A, A[:2, :2], A)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("m", [1, 3, 6])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_convolution_matrix(mode, m, n):
    a, v = R.normal(size=m), R.normal(size=n)
    found = linalg.convolution_matrix(a, n, mode)
    close(found, reference.convolution_matrix(a, n, mode))
    close(found @ v, np.convolve(a, v, mode))
    close(linalg.convolution_matrix(np.stack([a, -a]), n, mode)[1], -found)


@pytest.mark.parametrize("sizes", [(1, 4), pytest.param(range(1, 8), marks=pytest.mark.slow)])
def test_named_matrices(sizes):
    a = np.array([2.0, -3.0, 4.5, 1.0, 7.0, -2.0, 0.5])
    for n in sizes:
        close(
            linalg.fiedler_companion(a[:n]),
            reference.fiedler_companion(a[:n]).reshape(n - 1, n - 1),
        )
        close(linalg.helmert(n), reference.helmert(n).reshape(n - 1, n))
        close(linalg.helmert(n, full=True), reference.helmert(n, full=True))
        close(linalg.invhilbert(n), reference.invhilbert(n))
        for kind in ("symmetric", "lower", "upper"):
            close(linalg.pascal(n, kind), reference.pascal(n, kind))
            close(linalg.invpascal(n, kind), reference.invpascal(n, kind))
    close(linalg.pascal(4), reference.pascal(4))
    close(linalg.fiedler(a), reference.fiedler(a))
    close(linalg.fiedler(np.stack([a, -a]))[1], reference.fiedler(-a))
    close(
        linalg.fiedler_companion(np.stack([a, 2 * a + 1]))[1],
        reference.fiedler_companion(2 * a + 1),
    )
    close(linalg.leslie(a, a[1:]), reference.leslie(a, a[1:]))
    close(linalg.leslie(np.stack([a, -a]), a[1:])[1], reference.leslie(-a, a[1:]))
    assert np.isinf(linalg.pascal(1100)).any() and linalg.pascal(3).dtype == np.float64
    assert linalg.pascal(0).shape == (0, 0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: linalg.convolution_matrix(np.zeros(0), 3), "len.a. must be at least 1"),
        (lambda: linalg.convolution_matrix(np.zeros(2), 0), "n must be a positive integer"),
        (lambda: linalg.convolution_matrix(np.zeros(2), 2, "other"), "mode must be one of"),
        (lambda: linalg.fiedler_companion(np.zeros(0)), "nonzero length"),
        (lambda: linalg.leslie(np.ones(3), np.ones(3)), "length of f along the last axis"),
        (lambda: linalg.helmert(0), "n must be a positive integer"),
        (lambda: linalg.pascal(3, "other"), "Expected kind to be one of"),
    ],
)
def test_mistakes_with_named_matrices(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_derivative_of_rsf2csf_of_a_triangle():
    t = np.triu(np.arange(1, 10).reshape(3, 3)).astype(np.float32)
    slope = jax.grad(lambda t: linalg.rsf2csf(t, np.eye(3, dtype=np.float32))[0].real.sum())(t)
    np.testing.assert_array_equal(slope, np.triu(np.ones((3, 3))))
