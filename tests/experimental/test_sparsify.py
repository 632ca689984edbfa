"""`sparsify`: rules by primitive, jaxprs within jaxprs, and what it refuses."""

import operator

import numpy as np
import pytest
from optable.test_coverage import primitives

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._sparse import transform
from teucer.experimental import sparse
from teucer.experimental.sparse.transform import SparsifyEnv, sparsify_raw, spvalues_to_arrays

MODES = pytest.mark.parametrize("use_tracer", [False, True])


@pytest.fixture
def matrix():
    return sparse.BCOO.fromdense(jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, -4.0], [0.0, 3.0, 0.0]]))


def functions():
    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda p, t: (p[0] ** 2, 2 * t[0] * p[0]))
    return {
        "chain": lambda x: -jnp.sin(2 * x).T @ jnp.ones(3),
        "jit": lambda x: jax.jit(lambda x: x * 2)(x),
        "remat": jax.checkpoint(lambda x: jnp.tanh(x).sum(0)),
        "custom_jvp": square,
        "grad": jax.grad(lambda x: square(x).sum()),
        "while": lambda x: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)
        )[1],
        "fori": lambda x: lax.fori_loop(0, 3, lambda i, v: x @ v, jnp.ones(3)),
        "scan": lambda x: lax.scan(lambda c, v: (c * 2, c @ v), x, jnp.eye(3))[1],
        "cond": lambda x: lax.cond(x.sum() > 0, lambda x: x, lambda x: 2 * x, x),
        "concatenate": lambda x: jnp.concatenate([x, jnp.eye(3)], 1),
        "stack": lambda x: jnp.stack([x, x]),
        "split": lambda x: jnp.split(x, 3)[1],
        "rows": lambda x: x * jnp.arange(3.0),
        "relu": lambda x: jnp.maximum(x, 0),
        "todense": lambda x: sparse.todense(x) + 1,
        "dense sum": lambda x: x + jnp.ones((3, 3)),
    }


@MODES
@pytest.mark.parametrize("name", functions())
def test_agrees_with_dense(name, use_tracer, matrix):
    f = functions()[name]
    expected = f(matrix.todense())
    found = sparse.sparsify(f, use_tracer)(matrix)
    np.testing.assert_allclose(sparse.todense(found), expected, 1e-6)
    as_bcsr = sparse.sparsify(f, use_tracer)(sparse.BCSR.from_bcoo(matrix))
    np.testing.assert_allclose(sparse.todense(as_bcsr), expected, 1e-6)
    compiled = jax.jit(sparse.sparsify(f, use_tracer))(matrix)
    np.testing.assert_allclose(sparse.todense(compiled), expected, 1e-6)


def test_shared_indices_stay_shared():
    x = sparse.BCOO.fromdense(jnp.arange(5))
    env = SparsifyEnv([x.indices, x.data, 2 * x.data])
    values = [env.sparse(x.shape, data_ref=i, indices_ref=0, unique_indices=True) for i in (1, 2)]
    for op in (operator.add, operator.mul):
        (out,) = spvalues_to_arrays(env, sparsify_raw(op)(env, *values)[0])
        assert out.nse == x.nse
        np.testing.assert_array_equal(out.todense(), op(np.arange(5), 2 * np.arange(5)))


def test_tracers_know_their_kind(matrix):
    seen = []
    sparse.sparsify(lambda x: seen.append(type(x)) or x, use_tracer=True)(matrix)
    assert seen == [sparse.SparseTracer]


@MODES
@pytest.mark.parametrize(
    ("f", "match"),
    [
        (
            jnp.cos,
            r"^sparse rule for cos is not implemented because it would result in dense output\.",
        ),
        (lambda x: x**-1, "integer_pow with non-positive exponent"),
        (lambda x: 1 / x, "Division by a sparse array"),
        (lambda x: x + 1, "Addition between a sparse array X and a dense array Y"),
        (lambda x: lax.complex(x, x), r"^sparse rule for complex is not implemented\."),
        (lambda x: jnp.sort(x), r"sparse rule for sort is not implemented"),
        (
            lambda x: x == x,
            r"sparse rule for eq is not implemented because it would result in dense output",
        ),
    ],
)
def test_refusals(f, match, use_tracer, matrix):
    with pytest.raises(NotImplementedError, match=match):
        sparse.sparsify(f, use_tracer)(matrix)


def test_loops_and_branches_must_keep_what_is_stored(matrix):
    with pytest.raises(TypeError, match="sparsified while_loop body function output"):
        sparse.sparsify(lambda x: lax.while_loop(lambda c: False, lambda c: c + c.T, x))(matrix)
    with pytest.raises(
        TypeError,
        match="sparsified true_fun output must have same type structure as sparsified false_fun",
    ):
        sparse.sparsify(lambda x, y: lax.cond(True, lambda: x, lambda: y))(matrix, matrix.todense())


def test_every_primitive_that_carries_jaxprs_has_a_rule_or_a_reason():
    for rules in (transform.sparse_rules_bcoo, transform.sparse_rules_bcsr):
        assert not rules.lacking([p for _, p in primitives() if p.higher_order])
