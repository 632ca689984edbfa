"""Iterative solvers against NumPy's direct one.

Values, derivatives, trees, transformations, misuse.
"""

import numpy as np
import pytest

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy.sparse.linalg import bicgstab, cg, gmres

rng = np.random.default_rng(0)
GENERAL = rng.standard_normal((6, 6)) + 6 * np.eye(6)
POSITIVE = GENERAL @ GENERAL.T
COMPLEX = GENERAL + 1j * rng.standard_normal((6, 6))
B = np.arange(6.0) - 2
CASES = [
    (cg, POSITIVE),
    (cg, COMPLEX @ COMPLEX.conj().T),
    (bicgstab, GENERAL),
    (bicgstab, COMPLEX),
    (gmres, GENERAL),
    (gmres, COMPLEX),
]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("solve, a", CASES)
def test_solutions(solve, a):
    expected = np.linalg.solve(a, B)
    for operator in (a, lambda x: a @ x):
        b = jnp.asarray(B, a.dtype)
        np.testing.assert_allclose(solve(operator, b, tol=1e-12)[0], expected, rtol=1e-9)
        x = solve(operator, b, x0=expected + 1, tol=1e-12, M=lambda x: x / np.diag(a))[0]
        np.testing.assert_allclose(x, expected, rtol=1e-9)
    np.testing.assert_array_equal(solve(a, b, x0=b, maxiter=0)[0], b)
    assert np.linalg.norm(a @ np.asarray(solve(a, b, tol=0.1)[0]) - B) <= 0.1 * np.linalg.norm(B)
    np.testing.assert_array_equal(solve(a, jnp.zeros_like(b))[0], np.zeros(6))
    singles = solve(
        a.astype("complex64" if np.iscomplexobj(a) else "float32"),
        jnp.asarray(B, "float32") * (1 + 0 * a[0, 0]),
    )[0]
    np.testing.assert_allclose(singles, expected, rtol=1e-3)


@pytest.mark.parametrize("solve, a", [(cg, POSITIVE), (bicgstab, GENERAL), (gmres, GENERAL)])
def test_derivatives_and_transformations(solve, a):
    f = lambda a, b: solve(lambda x: a @ x, b, tol=1e-12)[0]
    inverse, x = np.linalg.inv(a), np.linalg.solve(a, B)
    for transform in (lambda g: g, jax.jit):
        np.testing.assert_allclose(transform(jax.jacrev(f, 1))(a, B), inverse, atol=1e-8)
        np.testing.assert_allclose(transform(jax.jacfwd(f, 1))(a, B), inverse, atol=1e-8)
        np.testing.assert_allclose(
            transform(jax.grad(lambda a: f(a, B).sum()))(a), -np.outer(inverse.sum(0), x), atol=1e-8
        )
    np.testing.assert_allclose(jax.vmap(f, (None, 0))(a, np.eye(6)), inverse.T, atol=1e-8)


@pytest.mark.parametrize("solve", [cg, bicgstab, gmres])
def test_trees(solve):
    b = {"u": B, "v": jnp.ones((2, 2)), "n": 3}
    x, _ = solve(lambda t: {"u": POSITIVE @ t["u"], "v": 2 * t["v"], "n": 4 * t["n"]}, b, tol=1e-12)
    np.testing.assert_allclose(x["u"], np.linalg.solve(POSITIVE, B), rtol=1e-8)
    np.testing.assert_allclose(x["v"], np.full((2, 2), 0.5))
    np.testing.assert_allclose(x["n"], 0.75)


class Scaled:
    """A library's operator, of which only the product is known."""

    def __init__(self, a, by, shape):
        self.a, self.by, self.shape = a, by, shape

    def __matmul__(self, x):
        return self.by * (self.a @ x)


@pytest.mark.parametrize("solve", [cg, bicgstab, gmres])
def test_objects_with_a_product(solve):
    def solved(a, b):
        return solve(Scaled(a, 2.0, (6, 6)), b, M=Scaled(jnp.eye(6), 0.1, None), tol=1e-12)[0]

    a, inverse = jnp.asarray(POSITIVE), np.linalg.inv(POSITIVE)
    for run in (solved, jax.jit(solved)):
        np.testing.assert_allclose(run(a, B), inverse @ B / 2, rtol=1e-7, atol=1e-9)
    gradient = jax.grad(lambda b: solved(a, b).sum())(jnp.asarray(B))
    np.testing.assert_allclose(gradient, inverse.sum(0) / 2, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match=r"must be a square matrix, but has shape: \(2, 3\)"):
        solve(Scaled(np.ones((2, 3)), 1.0, (2, 3)), np.ones(3))


@pytest.mark.parametrize("solve", [cg, bicgstab])
def test_one_array_keeps_its_shape(solve):
    b = jnp.asarray(np.outer(B, B + 1))
    loop = jax.make_jaxpr(
        lambda b: solve(lambda x: POSITIVE @ x @ POSITIVE, {"only": b}["only"], tol=1e-13)[0]
    )(b)
    assert "new_sizes=(6, 6)" not in str(loop)  # nothing is made of a vector again
    inverse = np.linalg.inv(POSITIVE)
    for x in (
        solve(lambda x: POSITIVE @ x @ POSITIVE, b, tol=1e-13)[0],
        solve(lambda t: [POSITIVE @ t[0] @ POSITIVE], [b], tol=1e-13)[0][0],
    ):
        np.testing.assert_allclose(x, inverse @ b @ inverse, rtol=1e-6, atol=1e-8)
    gradient = jax.grad(
        lambda b: jnp.sum(solve(lambda x: POSITIVE @ x @ POSITIVE, b, tol=1e-13)[0] * b)
    )(b)
    np.testing.assert_allclose(gradient, 2 * inverse @ b @ inverse, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["batched", "incremental"])
def test_gmres_restarts(method):
    residual = lambda **how: np.linalg.norm(
        GENERAL @ np.asarray(gmres(GENERAL, B, tol=1e-12, solve_method=method, **how)[0]) - B
    )
    sizes = [residual(restart=2, maxiter=k) for k in (1, 2, 4, 40)]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 1e-9
    assert residual(restart=6, maxiter=1) < 1e-12 * 100
    np.testing.assert_allclose(
        gmres(np.eye(3), np.ones(3))[0], np.ones(3)
    )  # the space is exhausted at once


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_gmres_of_few_eigenvalues(kept):
    """The space is exhausted after as many steps as there are eigenvalues, 0 among them."""
    a = np.diag(np.arange(12.0) % (kept + 1))
    b = a @ np.arange(1.0, 13)
    np.testing.assert_allclose(a @ np.asarray(gmres(a, b, tol=1e-10)[0]), b, atol=1e-9)
    assert not np.asarray(gmres(0 * a, b, maxiter=2)[0]).any()


@pytest.mark.parametrize("solve", [cg, bicgstab, gmres])
def test_misuse(solve):
    with pytest.raises(ValueError, match=r"must be a square matrix, but has shape: \(2, 3\)"):
        solve(np.ones((2, 3)), np.ones(3))
    with pytest.raises(TypeError, match="must be either a function or ndarray: a"):
        solve("a", np.ones(3))
    with pytest.raises(
        ValueError, match=r"x0 and b must have matching shapes: \[\(2,\)\] vs \[\(3,\)\]"
    ):
        solve(np.eye(3), np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="invalid solve_method x"):
        gmres(np.eye(3), np.ones(3), solve_method="x")


@pytest.mark.parametrize("solve, a", CASES)
def test_strict_promotion(solve, a):
    single = jnp.asarray(a, "complex64" if np.iscomplexobj(a) else "float32")
    with jax.numpy_dtype_promotion("strict"):
        x = solve(lambda v: single @ v, jnp.asarray(B, single.dtype), maxiter=3)[0]
    assert x.dtype == single.dtype
