"""Jacobians keep the standard basis as a diagonal, and give what derivatives along it give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

A = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((2, 3, 5)).astype(np.float32)
X = np.random.default_rng(2).uniform(0.5, 1.5, 6).astype(np.float32)
M = X.reshape(2, 3)

FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "product": (lambda x: A @ x, X),
    "product from the left": (lambda x: x @ A.T, X),
    "twice": (lambda x: A.T @ (A @ x), X),
    "of sines": (lambda x: A @ jnp.sin(x), X),
    "sines of": (lambda x: jnp.sin(A @ x), X),
    "elementwise": (lambda x: -jnp.exp(x) / 3 + x * x - x, X),
    "numbers": (lambda x: (x * 2).astype(np.float16).astype(np.float32), X),
    "sum": (lambda x: jnp.sum(jnp.sin(x)), X),
    "sums of rows": (lambda x: jnp.sum(jnp.sin(x), 1), M),
    "both axes": (lambda x: jnp.einsum("ab,abc->c", x, B), M),
    "both axes turned": (lambda x: jnp.einsum("ba,abc->c", x, B), M.T),
    "one axis": (lambda x: jnp.einsum("ab,abc->bc", x, B), M),
    "matrices": (lambda x: x @ B[0], M),
    "reshaped": (lambda x: A @ x.reshape(-1), M),
    "transposed": (lambda x: A @ x.T.reshape(-1), M),
    "outer": (lambda x: jnp.outer(x, x) @ x, X),
    "running": (lambda x: jnp.cumsum(jnp.cos(x)), X),
    "sorted": (jnp.sort, X),
    "chosen": (lambda x: jnp.where(x > 1, x, 2 * x), X),
    "places": (lambda x: x[np.array([2, 2, 0])] * 3, X),
    "jitted": (lambda x: jax.jit(lambda y: A @ jnp.sin(y))(x), X),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(A.T @ (A @ y)), x), X),
    "two results": (lambda x: (A @ x, x * 2), X),
    "one element": (lambda x: x * 2, X[:1]),
    "number": (jnp.sin, X[0]),
    "no element": (lambda x: x * 2, X[:0]),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(A @ jnp.sin(x))), X),
}


def by_columns(f: Any, x: Any) -> Any:
    """The Jacobian, a derivative along each element of the basis."""
    basis = np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    columns = [jax.jvp(f, (x,), (e,))[1] for e in basis]
    return jax.tree.map(
        lambda *ys: np.stack(ys, -1).reshape((*np.shape(ys[0]), *x.shape)), *columns
    )


def assert_close(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for y, z in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_allclose(y, z, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_are_derivatives_along_the_basis(name: str) -> None:
    f, x = FUNCTIONS[name]
    if not x.size:
        assert jax.jacfwd(f)(x).shape == jax.jacrev(f)(x).shape == (0, 0)
        return
    expected = by_columns(f, x)
    for jacobian in (jax.jacfwd(f), jax.jacrev(f), jax.jit(jax.jacfwd(f)), jax.jit(jax.jacrev(f))):
        assert_close(jacobian(x), expected)


@pytest.mark.parametrize("name", ["of sines", "sines of", "elementwise", "outer", "both axes"])
@pytest.mark.parametrize("ways", [(jax.jacfwd, jax.jacrev), (jax.jacrev, jax.jacfwd)])
def test_second_derivatives(name: str, ways: Any) -> None:
    f, x = FUNCTIONS[name]
    outer, inner = ways
    assert_close(outer(inner(f))(x), by_columns(lambda x: by_tangents(f, x), x))


def by_tangents(f: Any, x: Any) -> Any:
    columns = jax.vmap(lambda e: jax.jvp(f, (x,), (e,))[1], out_axes=-1)(
        np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    )
    return columns.reshape(*columns.shape[:-1], *x.shape)


def test_batches_and_scans_of_jacobians() -> None:
    xs = np.stack([X, 2 * X, X + 1])
    f = FUNCTIONS["of sines"][0]
    expected = np.stack([jax.jacfwd(f)(x) for x in xs])
    for jacobian in (jax.jacfwd(f), jax.jacrev(f)):
        assert_close(jax.vmap(jacobian)(xs), expected)
        assert_close(lax.map(jacobian, xs), expected)


def test_several_arguments() -> None:
    found = jax.jacfwd(lambda x, y: A @ (x * y), argnums=(0, 1))(X, 2 * X)
    assert_close(found, (A * (2 * X), A * X))


def test_holomorphic_functions() -> None:
    z = (X + 1j * X[::-1]).astype(np.complex64)
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jacobian(lambda z: A @ (z * z), holomorphic=True)(z)
        assert_close(found, (A * (2 * z)).astype(np.complex64))


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("name", ["product", "product from the left", "of sines", "both axes"])
def test_no_product_with_an_identity(jacobian: Any, name: str) -> None:
    """One product is the function itself."""
    f, x = FUNCTIONS[name]
    jaxpr = jax.make_jaxpr(jacobian(f))(x)
    assert str(jaxpr).count("dot_general[") == 1


def test_elementwise_functions_are_written_out_once() -> None:
    jaxpr = jax.make_jaxpr(jax.jacfwd(lambda x: jnp.exp(jnp.sin(x)) * 3))(X)
    assert sum(v.aval.shape == (6, 6) for eqn in jaxpr.eqns for v in eqn.outvars) <= 8


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_infinite_derivatives_stay_in_their_places(jacobian: Any) -> None:
    found = jacobian(jnp.sqrt)(np.float32([0, 1, 4]))
    np.testing.assert_array_equal(found, np.diag([np.inf, 0.5, 0.25]).astype(np.float32))


def test_elements_of_a_matrix_that_are_infinite_stay_in_their_places() -> None:
    a = np.float32([[np.inf, 1], [2, np.nan]])
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_array_equal(jacobian(lambda x: a @ x)(X[:2]), a)


def test_what_escapes_is_refused() -> None:
    kept = []

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        kept.append(tangents[0])
        return primals[0], tangents[0]

    jax.jvp(lambda x: jax.vmap(f)(x), (X,), (X,))
    jax.jacfwd(f)(X)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[-1] + 1
