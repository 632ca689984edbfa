"""Sparse Jacobians: no element is missed, and few products are computed."""

import numpy as np
import pytest
import scipy.sparse

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._sparse.colouring import colouring
from teucer.experimental import sparse


def laplacian(u):
    p = jnp.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u


FUNCTIONS = {
    "elementwise": (lambda x: jnp.sin(x) * x**2, (7,)),
    "differences": (lambda x: jnp.diff(jnp.tanh(x[1:] * x[:-1])), (9,)),
    "periodic": (lambda x: jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1), (8,)),
    "stencil": (lambda u: laplacian(u) + jnp.exp(-u), (5, 6)),
    "matrix": (lambda x: jnp.asarray(np.tri(4, 6, 1)) @ x + x[:4], (6,)),
    "rows": (lambda x: x @ jnp.asarray(np.eye(3, k=1)), (2, 3)),
    "indices": (lambda x: x[np.array([3, 0, 0])] * x[1:4], (5,)),
    "branches": (lambda x: jnp.where(jnp.arange(6) < 2, x, x[::-1]), (6,)),
    "sum": (lambda x: x.sum(0) * x, (3, 4)),
    "sorted": (lambda x: jnp.sort(x), (5,)),
    "jit": (lambda x: jax.jit(jnp.cumsum)(x) * 2, (5,)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, x: x + jnp.pad(x[:-1], (1, 0)), x), (9,)),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda x: x, lambda x: x[::-1], x), (4,)),
    "max": (lambda x: jax.nn.relu(x) + jnp.maximum(x, x.reshape(2, 3).max(1).repeat(3)), (6,)),
    "constant": (lambda x: jnp.ones(3), (4,)),
}


@pytest.mark.parametrize("transform", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_dense(name, transform):
    f, shape = FUNCTIONS[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = getattr(sparse, transform)(f, sparse=True)(x)
    assert isinstance(found, sparse.BCOO) and found.unique_indices
    np.testing.assert_allclose(found.todense(), jax.jacfwd(f)(x), 1e-5, 1e-5)


def test_under_the_name_of_the_dense_ones():
    x = jnp.arange(5.0)
    f = lambda x: x[1:] * x[:-1]
    for transform in (jax.jacfwd, jax.jacrev, jax.jacobian):
        np.testing.assert_allclose(transform(f, sparse=True)(x).todense(), transform(f)(x))
    g = lambda x: jnp.sum((x[1:] - x[:-1] ** 2) ** 2)
    np.testing.assert_allclose(jax.hessian(g, sparse=True)(x).todense(), jax.hessian(g)(x), 1e-6)


def test_trees_and_several_arguments():
    def f(a, scale, b):
        return {"x": a["u"] * b[0], "y": scale * jnp.diff(b)}, a["u"].shape

    a, b = {"u": jnp.arange(3.0)}, jnp.arange(4.0)
    found, aux = sparse.jacfwd(f, argnums=(0, 2), has_aux=True, sparse=True)(a, 2.0, b)
    wanted, _ = jax.jacfwd(f, argnums=(0, 2), has_aux=True)(a, 2.0, b)
    dense = jax.tree.map(sparse.todense, found, is_leaf=lambda x: isinstance(x, sparse.BCOO))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y), dense, wanted)
    assert aux == (3,)


def test_a_discretised_equation_takes_few_products():
    for n in (20, 40):
        u = jnp.zeros((n, n))
        jacobian = sparse.jacfwd(laplacian, sparse=True)
        assert jacobian(u).nse == 5 * n * n - 4 * n
        ((plan, *_),) = jacobian.plans.values()
        assert plan.evaluations == 5
    ring = sparse.jacfwd(lambda x: jnp.roll(x, 1) + jnp.roll(x, -1) + x, sparse=True)
    ring(jnp.zeros(1001))
    ((plan, *_),) = ring.plans.values()
    assert plan.evaluations <= 6


def test_values_are_computed_anew_and_the_plan_is_kept():
    jacobian = sparse.jacfwd(lambda x: x**2, sparse=True)
    for x in (jnp.arange(3.0), jnp.ones(3)):
        np.testing.assert_allclose(jacobian(x).data, 2 * x)
    assert len(jacobian.plans) == 1


@pytest.mark.parametrize("shape", [(), (30,), (5, 6)])
@pytest.mark.parametrize("seed", range(5))
def test_no_row_has_two_columns_of_one_group(seed, shape):
    pattern = scipy.sparse.random(40, 30, 0.08, "csr", random_state=seed).astype(bool)
    groups = colouring(pattern, shape)
    for row in range(40):
        columns = pattern[row].indices
        assert len(set(groups[columns])) == len(columns)


def test_refuses_what_has_no_derivative():
    with pytest.raises(TypeError, match="real floating numbers, got int32"):
        sparse.jacfwd(lambda x: x, sparse=True)(jnp.arange(3))


SCANS = {
    "carry": (
        lambda u: lax.scan(
            lambda c, _: (c + 0.1 * (jnp.roll(c, 1) - c) * c, None), u, None, length=2
        )[0],
        3,
    ),
    "index": (lambda u: lax.fori_loop(0, 3, lambda i, c: c + jnp.roll(c, -1) * c, u), 4),
    "xs": (
        lambda u: lax.scan(
            lambda c, x: (c, jnp.roll(x, 1) * x + c), jnp.float32(1), u.reshape(4, -1)
        )[1].ravel(),
        2,
    ),
    "constant": (lambda u: lax.scan(lambda c, _: (c * u + 1, c), u, None, length=4)[0], 1),
    "reverse": (
        lambda u: lax.scan(
            lambda c, x: (jnp.roll(c, 1) + x * c, None), u, jnp.arange(3.0), reverse=True
        )[0],
        4,
    ),
}


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_reaches_as_far_as_its_steps(name):
    f, stored = SCANS[name]
    u = jnp.linspace(0.1, 1, 24)
    found = sparse.jacfwd(f, sparse=True)(u)
    assert found.nse == stored * u.size
    np.testing.assert_allclose(found.todense(), jax.jacfwd(f)(u), rtol=1e-5, atol=1e-6)
