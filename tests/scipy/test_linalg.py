"""scipy.linalg.

Values are SciPy's; factorizations are checked by what they promise; derivatives agree with
differences.
"""

import re

import numpy as np
import pytest
from scipy import linalg as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import linalg
from teucer.scipy.sparse.linalg import bicgstab, cg, gmres
from teucer.scipy.stats import norm

R = np.random.default_rng(0)
A = R.normal(size=(4, 4))
C = A + 1j * R.normal(size=(4, 4))
B = R.normal(size=(4, 3))
TALL = R.normal(size=(5, 3))
MATRICES = pytest.mark.parametrize("a", [A, C], ids=["real", "complex"])


def positive(a):
    return a @ a.conj().T + np.eye(len(a))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def check_derivative(f, *args):
    """The derivative in a direction against differences."""
    directions = [np.asarray(R.normal(size=np.shape(x))) for x in args]
    _, found = jax.jvp(f, args, tuple(directions))
    h = 1e-6
    shifted = lambda s: f(*(x + s * h * d for x, d in zip(args, directions, strict=True)))
    close(found, (np.asarray(shifted(1)) - np.asarray(shifted(-1))) / (2 * h), 1e-6)


@MATRICES
@pytest.mark.parametrize("lower", [False, True])
def test_cholesky(a, lower):
    s = positive(a)
    # The triangle that is not asked for is not read.
    spoiled = np.where(np.tri(4, k=-1 if not lower else 0).astype(bool) == lower, s, 99.0)
    close(linalg.cholesky(spoiled, lower), reference.cholesky(s, lower))
    b = B.astype(s.dtype)
    factor = linalg.cho_factor(s, lower)
    assert factor[1] is lower
    close(linalg.cho_solve(factor, b), np.linalg.solve(s, b))
    close(linalg.cho_solve(factor, b[:, 0]), np.linalg.solve(s, b[:, 0]))
    close(linalg.solve(s, b, assume_a="pos", lower=lower), np.linalg.solve(s, b))


@MATRICES
def test_lu(a):
    for x in (a, a[:, :2], a[:2]):
        p, lower, upper = linalg.lu(x)
        for found, expected in zip((p, lower, upper), reference.lu(x), strict=True):
            close(found, expected)
        pl, u = linalg.lu(x, permute_l=True)
        close(pl @ u, x)
    stacked = linalg.lu(np.stack([a, 2 * a]))
    close(stacked[0].astype(a.dtype) @ stacked[1] @ stacked[2], np.stack([a, 2 * a]))


@MATRICES
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_lu_solve(a, trans):
    factor = linalg.lu_factor(a)
    np.testing.assert_array_equal(factor[1], reference.lu_factor(a)[1])
    for b in (B.astype(a.dtype), B[:, 0].astype(a.dtype)):
        close(
            linalg.lu_solve(factor, b, trans), reference.lu_solve(reference.lu_factor(a), b, trans)
        )
    stack = np.stack([a, 2 * a])
    close(
        linalg.lu_solve(linalg.lu_factor(stack), B.astype(a.dtype), trans)[1],
        linalg.lu_solve(linalg.lu_factor(2 * a), B, trans),
    )


SOLVERS = {
    "solve_triangular": lambda a, b: linalg.solve_triangular(np.tril(a @ a.mT), b, lower=True),
    "cho_solve": lambda a, b: linalg.cho_solve((np.tril(a @ a.mT), True), b),
    "lu_solve": lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 3), (2, 3)), ((3, 3, 3), (3, 3)), ((1, 3, 3), (2, 3)), ((2, 2, 3, 3), (2, 1, 3))],
    ids=str,
)
def test_vectors_one_for_each_matrix(name, shapes):
    """As in JAX, which warns: b[..., None] says the same without doubt."""
    a, b = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes)
    a += 3 * np.eye(3, dtype=np.float32)
    with pytest.warns(FutureWarning, match=f"{name}: batched 1D solves"):
        found = SOLVERS[name](a, b)
    close(found, SOLVERS[name](a, b[..., None])[..., 0])


@pytest.mark.parametrize("name", SOLVERS)
def test_other_right_sides(name):
    a = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32) + 3 * np.eye(
        3, dtype=np.float32
    )
    assert SOLVERS[name](a, np.ones(3, np.float32)).shape == (2, 3)
    assert SOLVERS[name](a, np.ones((3, 2), np.float32)).shape == (2, 3, 2)
    with pytest.raises(ValueError, match="2"):
        SOLVERS[name](a[0], np.ones((2, 3), np.float32))


@MATRICES
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
def test_solve_triangular(a, trans, lower):
    for b in (B.astype(a.dtype), B[:, 0].astype(a.dtype)):
        close(
            linalg.solve_triangular(a, b, trans, lower),
            reference.solve_triangular(a, b, trans, lower),
        )
        close(
            linalg.solve_triangular(a, b, trans, lower, unit_diagonal=True),
            reference.solve_triangular(a, b, trans, lower, unit_diagonal=True),
        )
    stack = np.stack([a, 2 * a])
    close(
        linalg.solve_triangular(stack, B, trans, lower)[1],
        linalg.solve_triangular(2 * a, B, trans, lower),
    )


def test_qr():
    for mode in ("full", "economic"):
        q, r = linalg.qr(TALL, mode=mode)
        assert (q.shape, r.shape) == tuple(x.shape for x in reference.qr(TALL, mode=mode))
        close(q @ r, TALL)
        close(q.T @ q, np.eye(q.shape[1]))
        q, r, p = linalg.qr(TALL, mode=mode, pivoting=True)
        close(q @ r, TALL[:, np.asarray(p)])
        assert np.all(np.diff(np.abs(np.diag(r))) <= 0)
    (r,) = linalg.qr(TALL, mode="r")
    close(np.abs(r), np.abs(reference.qr(TALL, mode="r")[0]))


@MATRICES
def test_svd_and_eigh(a):
    u, s, vh = linalg.svd(a)
    close(u * s @ vh, a)
    close(linalg.svd(a, compute_uv=False), reference.svdvals(a))
    assert linalg.svd(TALL, full_matrices=False)[0].shape == (5, 3)
    h = positive(a)
    w, v = linalg.eigh(h)
    close(v * w @ v.conj().T, h)
    close(linalg.eigh(np.triu(h), lower=False, eigvals_only=True), reference.eigvalsh(h))


@MATRICES
@pytest.mark.parametrize("output", ["real", "complex"])
def test_schur(a, output):
    t, z = linalg.schur(a, output)
    assert t.dtype == (np.complex128 if output == "complex" or np.iscomplexobj(a) else np.float64)
    close(z @ t @ z.conj().T, a)
    close(z @ z.conj().T, np.eye(4))
    close(np.tril(t, -1 if t.dtype.kind == "c" else -2), 0 * t)


@MATRICES
def test_systems(a):
    close(linalg.det(a), reference.det(a))
    close(linalg.inv(a), reference.inv(a))
    for assume in ("gen", "sym", "her"):
        close(linalg.solve(a, B, assume_a=assume), np.linalg.solve(a, B.astype(a.dtype)))


@MATRICES
@pytest.mark.parametrize("scale", [0.0, 1e-8, 0.1, 1.0, 10.0])
def test_expm(a, scale):
    close(
        linalg.expm(scale * a),
        reference.expm(scale * a),
        1e-9 * max(1.0, np.abs(reference.expm(scale * a)).max()),
    )
    close(
        linalg.expm(scale * np.triu(a), upper_triangular=True),
        reference.expm(scale * np.triu(a)),
        1e-8,
    )


def test_expm_in_single_precision_of_stacks_and_beyond():
    x = A.astype(np.float32)
    stack = linalg.expm(np.stack([x, 3 * x]))
    assert stack.dtype == np.float32
    for found, expected in zip(stack, (x, 3 * x), strict=True):
        np.testing.assert_allclose(
            found, reference.expm(expected.astype(np.float64)), rtol=2e-4, atol=2e-4
        )
    np.testing.assert_array_equal(linalg.expm(x * 1e6), np.full((4, 4), np.nan))
    assert linalg.expm(np.zeros((0, 0))).shape == (0, 0)


def test_derivatives():
    s = positive(A)
    check_derivative(linalg.expm, A)
    check_derivative(linalg.expm, 4 * A / np.linalg.norm(A))
    check_derivative(lambda x: linalg.cholesky(s + x + x.T), np.zeros((4, 4)))
    check_derivative(linalg.solve, A, B)
    check_derivative(lambda a, b: linalg.solve_triangular(a, b, trans=1), A, B)
    check_derivative(
        lambda x, b: linalg.cho_solve(linalg.cho_factor(s + x + x.T), b), np.zeros((4, 4)), B
    )
    check_derivative(lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), A, B)
    reverse = jax.grad(lambda a: linalg.expm(a).sum())(A)
    direction = R.normal(size=(4, 4))
    close(
        np.sum(reverse * direction), jax.jvp(lambda a: linalg.expm(a).sum(), (A,), (direction,))[1]
    )


def test_vmap():
    stack = np.stack([A, 2 * A, A.T])
    close(jax.vmap(linalg.expm)(stack), linalg.expm(stack))
    close(jax.vmap(linalg.solve_triangular, (0, None))(stack, B), linalg.solve_triangular(stack, B))
    close(
        jax.vmap(lambda a: linalg.lu_solve(linalg.lu_factor(a), B))(stack),
        np.linalg.solve(stack, B),
    )


def test_special_matrices():
    c, r = R.normal(size=4), R.normal(size=3)
    close(linalg.toeplitz(c), reference.toeplitz(c))
    close(linalg.toeplitz(c, r), reference.toeplitz(c, r))
    close(linalg.toeplitz(c + 1j), reference.toeplitz(c + 1j))
    close(linalg.hankel(c), reference.hankel(c))
    close(linalg.hankel(c, r), reference.hankel(c, r))
    close(linalg.circulant(c), reference.circulant(c))
    close(linalg.companion(c), reference.companion(c))
    close(linalg.companion(np.array([2, 5, 6], np.uint32)), [[-2.5, -3], [1, 0]])
    close(linalg.toeplitz(np.stack([c, 2 * c]))[1], reference.toeplitz(2 * c))
    for n in (1, 4):
        close(linalg.hilbert(n), reference.hilbert(n))
        close(linalg.hadamard(n), reference.hadamard(n))
        for scale in (None, "sqrtn", "n"):
            close(linalg.dft(n, scale), reference.dft(n, scale))


def test_block_diag():
    close(linalg.block_diag(A, B, np.ones(3), 3.0), reference.block_diag(A, B, np.ones(3), 3.0))
    assert linalg.block_diag().shape == (1, 0)
    assert linalg.block_diag(np.ones((2, 0)), 1).shape == (3, 1)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: linalg.lu_solve(linalg.lu_factor(A), B, 3),
            ValueError,
            "'trans' value must be 0, 1, or 2, got 3",
        ),
        (lambda: linalg.solve_triangular(A, B, "X"), ValueError, "Invalid 'trans' value X"),
        (lambda: linalg.qr(A, mode="raw"), ValueError, "Unsupported QR decomposition mode 'raw'"),
        (
            lambda: linalg.schur(A, "x"),
            ValueError,
            "Expected 'output' to be either 'real' or 'complex', got output='x'",
        ),
        (lambda: linalg.solve(A, B, assume_a="x"), ValueError, "Expected assume_a to be one of"),
        (
            lambda: linalg.expm(B),
            ValueError,
            r"Expected A to be a \(batched\) square matrix, got A.shape=\(4, 3\)",
        ),
        (
            lambda: linalg.eigh(A, A),
            NotImplementedError,
            "Only the b=None case of eigh is implemented",
        ),
        (lambda: linalg.eigh(A, type=2), NotImplementedError, "Only the type=1 case"),
        (lambda: linalg.eigh(A, eigvals=(0, 1)), NotImplementedError, "Only the eigvals=None case"),
        (
            lambda: linalg.block_diag(np.ones((2, 2, 2))),
            ValueError,
            r"at most 2 dimensions, got f64\[2,2,2\] at argument 0",
        ),
        (lambda: linalg.hadamard(3), ValueError, "power of 2, got 3"),
        (lambda: linalg.dft(3, "x"), ValueError, "scale must be None, 'sqrtn', or 'n'; got 'x'"),
        (
            lambda: linalg.companion(np.ones(1)),
            ValueError,
            r"(?s)along the last axis must be at least 2.*a: f64\[1\]",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_normal_distribution():
    from scipy.stats import norm as expected  # the reference; its import takes a second

    x, q = np.linspace(-30, 30, 61), np.linspace(0.001, 0.999, 50)
    for name in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"):
        found = getattr(norm, name)(x, 0.5, 2.0)
        np.testing.assert_allclose(found, getattr(expected, name)(x, 0.5, 2.0), rtol=1e-10)
    for name in ("ppf", "isf"):
        close(getattr(norm, name)(q, 0.5, 2.0), getattr(expected, name)(q, 0.5, 2.0))
    assert norm.logpdf(jnp.float32(1)).dtype == np.float32
    close(jax.grad(norm.logpdf, 1)(1.0, 0.5, 2.0), 0.125)


SQUARE, LONG = positive(A).astype(np.float32), R.normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "f, args",
    [
        *[
            (f, [SQUARE])
            for f in (
                jnp.linalg.inv,
                jnp.linalg.eigh,
                jnp.linalg.svd,
                jnp.linalg.cholesky,
                jnp.linalg.qr,
                linalg.expm,
                lambda a: linalg.lu(a, permute_l=True),
            )
        ],
        (jnp.linalg.pinv, [LONG]),
        (jnp.linalg.lstsq, [LONG, LONG]),
        (jnp.linalg.solve, [SQUARE, SQUARE]),
        *[
            (lambda a, b, solve=solve: solve(a, b)[0], [SQUARE, LONG[0]])
            for solve in (cg, gmres, bicgstab)
        ],
    ],
)
def test_products_are_in_full_precision(f, args):
    """GPUs and TPUs multiply float32 with the mantissa of ten bits unless they are told
    otherwise."""

    def scalar(*args):
        return sum(jnp.sum(abs(y)) for y in jax.tree.leaves(f(*args)))

    products = []
    for g in (f, jax.grad(scalar, range(len(args)))):
        text = jax.jit(g).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
        products += re.findall(r"stablehlo\.dot_general.*", text)
    assert products
    assert [line for line in products if "precision = [HIGHEST, HIGHEST]" not in line] == []


def test_lists_are_taken():
    """As JAX takes them, by these functions."""
    matrix, scipy = [[1.0, 2.0], [3.0, 4.0]], jax.scipy
    for f, x in (
        (scipy.linalg.qr, matrix),
        (scipy.linalg.svd, matrix),
        (scipy.linalg.lu_factor, matrix),
        (scipy.special.ndtr, matrix),
        (scipy.special.log_ndtr, matrix),
        (scipy.special.spence, matrix),
    ):
        for got, want in zip(jax.tree.leaves(f(x)), jax.tree.leaves(f(jnp.array(x))), strict=True):
            np.testing.assert_array_equal(got, want)
