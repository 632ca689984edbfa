"""custom_root and custom_linear_solve.

Their derivatives are those of the solution, whatever the solver does.
"""

import numpy as np
import pytest
from optable.compare import assert_trees_close as assert_close
from optable.laws import SECOND, assert_derivatives, assert_jit, assert_vmap

import teucer as jax
import teucer.numpy as jnp
from teucer import lax


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


# --- custom_root ---


def newton(f, x):
    """Newton's method by a while loop, which the derivatives of the root do not see."""

    def body(s):
        i, x = s
        y, slope = jax.jvp(f, (x,), (jnp.ones_like(x) if hasattr(jnp, "ones_like") else x * 0 + 1,))
        return i + 1, x - y / slope

    return lax.while_loop(lambda s: s[0] < 40, body, (0, x))[1]


def scalar_solve(g, y):
    return y / g(1.0)


def sqrt(a):
    return lax.custom_root(lambda x: x * x - a, 1.0, newton, scalar_solve)


def test_root():
    assert_close(sqrt(2.0), np.sqrt(2.0))
    assert_derivatives(sqrt, 2.0, laws=SECOND)
    assert_jit(sqrt, 2.0)
    assert_vmap(sqrt, np.linspace(1, 4, 3))
    assert_vmap(jax.grad(sqrt), np.linspace(1, 4, 3))
    assert_close(jax.jit(jax.grad(sqrt))(4.0), 0.25)


def test_root_of_several_parameters():
    # x e^(b x) = a
    def f(a, b):
        return lax.custom_root(lambda x: x * jnp.exp(b * x) - a, 0.5, newton, scalar_solve)

    assert_derivatives(f, 1.2, 0.7, laws=SECOND)


def test_root_of_a_tree():
    def f(a, b):
        def equations(v):
            return {"x": v["x"] * v["x"] - a, "y": v["y"] * v["x"] - b}

        def solve(f, guess):
            x = lax.sqrt(lax.stop_gradient(a))
            return {"x": x, "y": lax.stop_gradient(b) / x}

        def tangent_solve(g, t):
            unit, zero = {"x": 1.0, "y": 0.0}, {"x": 0.0, "y": 1.0}
            first, second = g(unit), g(zero)
            det = first["x"] * second["y"] - second["x"] * first["y"]
            return {
                "x": (second["y"] * t["x"] - second["x"] * t["y"]) / det,
                "y": (first["x"] * t["y"] - first["y"] * t["x"]) / det,
            }

        return lax.custom_root(equations, {"x": 1.0, "y": 1.0}, solve, tangent_solve)

    assert_derivatives(f, 2.0, 3.0)


def test_guess_and_solver_have_no_derivative():
    def f(g, a):
        return lax.custom_root(lambda x: x - a, g, lambda f, x: a * 1.0 + 0 * x, scalar_solve)

    assert_close(jax.grad(f, (0, 1))(5.0, 2.0), (0.0, 1.0))


def test_root_aux():
    def f(a):
        return lax.custom_root(
            lambda x: x * x - a,
            1.0,
            lambda f, x: (newton(f, x), {"n": a * 3, "i": 7}),
            scalar_solve,
            has_aux=True,
        )

    x, aux = f(2.0)
    assert_close((x, aux), (np.sqrt(2.0), {"n": 6.0, "i": 7}))
    assert_close(jax.grad(lambda a: f(a)[0])(4.0), 0.25)
    assert_close(jax.grad(lambda a: f(a)[1]["n"])(4.0), 0.0)


@pytest.mark.parametrize(
    ("f", "solve", "tangent_solve", "match"),
    [
        (
            lambda x: (x, x),
            lambda f, x: x,
            scalar_solve,
            r"f\(\) output pytree structure must match initial_guess",
        ),
        (
            lambda x: x,
            lambda f, x: (x, x),
            scalar_solve,
            r"solve\(\) output pytree structure must match initial_guess",
        ),
        (lambda x: x, 3, scalar_solve, "should be callable"),
    ],
)
def test_root_errors(f, solve, tangent_solve, match):
    with pytest.raises(TypeError, match=match):
        lax.custom_root(f, 1.0, solve, tangent_solve)


def test_tangent_solve_error():
    with pytest.raises(TypeError, match=r"tangent_solve\(\) output pytree structure must match x"):
        jax.grad(
            lambda a: lax.custom_root(lambda x: x - a, 1.0, lambda f, x: x, lambda g, y: (y, y))
        )(1.0)


# --- custom_linear_solve ---

A = np.array([[3.0, 1.0, 0.2], [0.5, 2.0, -0.3], [0.1, 0.4, 2.5]])
SYMMETRIC = A + A.T
B = np.array([1.0, -2.0, 0.5])


def jacobi(matvec, b):
    """The solution by Jacobi's iteration with the diagonal of A; a while loop."""
    diagonal = lax.stop_gradient(np.diag(A))

    def step(s):
        return (s[0] + 1, s[1] + (b - matvec(s[1])) / diagonal)

    return lax.while_loop(lambda s: s[0] < 200, step, (0, b * 0.0))[1]


def solve(a, b):
    return lax.custom_linear_solve(lambda x: lax.dot(a, x), b, jacobi, jacobi)


def test_linear_solve():
    assert_close(solve(A, B), np.linalg.solve(A, B))
    assert_derivatives(solve, A, B, laws=SECOND)
    assert_jit(solve, A, B)


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 0), (None, 1)])
def test_linear_solve_vmap(in_axes):
    a = A if in_axes[0] is None else np.stack([A, A + 0.1])
    b = B if in_axes[1] is None else np.stack([B, B + 1], in_axes[1])
    assert_vmap(solve, a, b, in_axes=in_axes)
    assert_vmap(
        jax.grad(lambda a, b: lax.reduce_sum(solve(a, b), (0,)), (0, 1)), a, b, in_axes=in_axes
    )


@pytest.mark.parametrize("both", [False, True])
def test_symmetric(both):
    called = []

    def f(k, b):
        def solve(matvec, b):
            return lax.dot(np.linalg.inv(SYMMETRIC), b) / k

        return lax.custom_linear_solve(
            lambda x: lax.dot(SYMMETRIC * k, x),
            b,
            solve,
            (lambda vecmat, b: (called.append(vecmat), solve(None, b))[1]) if both else None,
            symmetric=True,
        )

    assert_derivatives(f, 1.3, B, laws=SECOND)
    assert bool(called) is both


def test_trees():
    def f(k, b):
        return lax.custom_linear_solve(
            lambda v: {"p": k * v["p"], "q": (v["q"][0] + k * v["p"],)},
            b,
            lambda mv, b: {"p": b["p"] / k, "q": (b["q"][0] - b["p"],)},
            lambda vm, b: {"p": (b["p"] - k * b["q"][0]) / k, "q": (b["q"][0],)},
        )

    assert_derivatives(lambda k, p, q: f(k, {"p": p, "q": (q,)}), 2.0, B, B + 1, laws=SECOND)


def test_matvec_that_does_not_use_all_of_x():
    def f(b):
        return lax.custom_linear_solve(
            lambda v: (v[0], v[0] * 0.0), b, lambda mv, b: b, lambda vm, b: b
        )

    assert_close(jax.grad(lambda b: f((b, 1.0))[0])(2.0), 1.0)


def test_linear_solve_aux():
    def f(b):
        return lax.custom_linear_solve(
            lambda x: 2.0 * x,
            b,
            lambda mv, b: (b / 2.0, {"n": b * 7}),
            symmetric=True,
            has_aux=True,
        )

    assert_close(f(3.0), (1.5, {"n": 21.0}))
    assert_close(jax.grad(lambda b: f(b)[0])(3.0), 0.5)
    assert_close(jax.grad(lambda b: f(b)[1]["n"])(3.0), 0.0)
    assert_vmap(f, B)


def test_no_transpose_solve():
    def f(b):
        return lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda mv, b: b / 2.0)

    assert_close(jax.jvp(f, (3.0,), (1.0,)), (1.5, 0.5))
    with pytest.raises(
        TypeError,
        match="transpose_solve required for backwards mode automatic differentiation of custom_lin",
    ):
        jax.grad(f)(3.0)


@pytest.mark.parametrize(
    ("matvec", "solve", "back", "match"),
    [
        (
            lambda x: (x, x),
            lambda mv, b: b,
            None,
            r"matvec\(\) output shapes must match b, got \[\(\), \(\)\] and \[\(\)\]",
        ),
        (
            lambda x: jnp.zeros(3),
            lambda mv, b: b,
            None,
            r"matvec\(\) output shapes must match b, got \[\(3,\)\]",
        ),
        (lambda x: x, lambda mv, b: (b, b), None, r"solve\(\) output shapes must match b"),
        (
            lambda x: x,
            lambda mv, b: b,
            lambda vm, b: (b, b),
            r"transpose_solve\(\) output shapes must match b",
        ),
    ],
)
def test_linear_solve_errors(matvec, solve, back, match):
    with pytest.raises(ValueError, match=match):
        lax.custom_linear_solve(matvec, 1.0, solve, back)
