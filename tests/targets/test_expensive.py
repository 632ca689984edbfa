"""What XLA would compute again and again, though it is expensive, becomes a call; the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimize.stepwise import bits, stepwise
from targets.test_outline import functions, rng, traced

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._targets.cpu.expensive import keep_expensive
from teucer._targets.cpu.rates import committed
from teucer._targets.outlining.cut_into_pieces import cut
from teucer._targets.table import target_of

LEAST, MOST = committed().expensive, committed().long
X = rng(64, 64)
assert X.size == LEAST
# Rows of X; broadcast to so many, each element of one is computed LEAST times more.
MANY = 1 + LEAST // len(X)


def kept(f: Any, *args: Any) -> list[tuple[int, int]]:
    """The functions of f's jaxpr afterwards, which has changed no bit of the results: calls and
    equations of each."""
    jaxpr = traced(f, *args)
    after = keep_expensive(jaxpr, committed())
    leaves = jax.tree.leaves(args)
    assert list(map(bits, stepwise(after, *leaves))) == list(map(bits, stepwise(jaxpr, *leaves)))
    return functions(after)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: (jnp.sum(jnp.sin(x) * x, 0), jnp.sum(jnp.sin(x) + 1, 1)), "two sums"),
        (lambda x: (jnp.sin(x), jnp.sum(jnp.sin(x))), "a sum, and it is a result"),
        (lambda x: (jnp.sin(x) * 2, jnp.sin(x) + 1), "two results"),
        (lambda x: (jnp.sin(x) + 1) @ jnp.tanh(jnp.sin(x) * x), "two operands of a product"),
        (lambda x: jnp.sin(x) + 2 * jnp.sin(x).T, "in two orders"),
        (lambda x: jnp.sin(x) * jnp.ones((3, 1, 1), np.float32), "again for each of three"),
        (lambda x: lax.lgamma(x) + lax.lgamma(x).T, "other functions too"),
        (lambda x: jnp.sin(x[0]) + jnp.ones((MANY, 1)), "a row that is broadcast"),
        (lambda x: jnp.sin(x[0])[:, None] + jnp.ones((MANY, 1, 4)), "rows of columns"),
        (lambda x: jnp.exp(x * 1j) + jnp.exp(x * 1j).T, "XLA knows the function of floats only"),
        (lambda x: jnp.exp(x[0] * 1j) * jnp.ones((MANY, 1)), "complex rows"),
        (lambda x: jnp.sqrt(x[0] * 1j) * 2, "XLA makes several loops of it"),
        (lambda x: jnp.log(x[0] * 1j) * x, "a formula, and rows are broadcast"),
        (lambda x: jnp.sinh(x[:, :1]) * x, "a series, and columns are broadcast"),
        (lambda x: jnp.sinh(x[0]) + jnp.sinh(x[0])[::-1], "a series, and two orders"),
    ],
)
def test_what_is_read_in_several_ways_becomes_a_call(f: Any, why: str) -> None:
    assert kept(f, X) == [(1, 1)], why


KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (lambda key: jax.random.uniform(key, (5,)) * 2, [(1, 1)]),
        (lambda key: jax.random.normal(jax.random.split(key)[1], (5, 5)), [(1, 1), (1, 1)]),
        (lambda key: jax.random.bits(jax.random.fold_in(key, 3), (4,)) + 1, [(1, 1), (1, 1)]),
        (lambda key: jax.random.bernoulli(key, 0.5, (MOST + 1,)), []),
        (
            lambda key: [jnp.sum(jax.random.uniform(key, (MOST + 1,)) - i) for i in range(2)],
            [(1, 1)],
        ),
        (lambda key: jax.random.bits(key, (4,)), []),
    ],
    ids=[
        "one loop",
        "of a key that is split",
        "of a number",
        "large, one loop",
        "large, two loops",
        "by itself",
    ],
)
def test_random_bits_are_drawn_once(f: Any, calls: list[tuple[int, int]]) -> None:
    jaxpr = traced(f, KEY)
    once = keep_expensive(jaxpr, committed())
    assert functions(once) == calls
    assert keep_expensive(once, committed()) == once
    for found, expected in zip(
        *map(jax.tree.leaves, (jax.jit(f)(KEY), jax.jit(f, outline=False)(KEY))), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_compiled_program_has_the_rounds_once() -> None:
    def f(key: Any, x: Any) -> Any:
        return jax.value_and_grad(
            lambda x: jnp.sum(jnp.exp(jnp.cumsum(x * jax.random.normal(key, (64,)))))
        )(x)

    text = jax.jit(f).lower(KEY, 1.0).compile().as_text()
    assert text.count("to_apply=%outlined") == 1
    fused = jax.jit(f, outline=False).lower(KEY, 1.0).compile().as_text()
    assert 1.5 * text.count(" xor(") < fused.count(" xor(")


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: jnp.sum(jnp.sin(x) * jnp.exp(jnp.sin(x)) - 1), "one loop"),
        (lambda x: jnp.sin(x).T * 2, "one order"),
        (lambda x: jnp.sin(x[1:]) + jnp.sin(x[1:])[:, ::-1], "few elements"),
        (lambda x: jnp.exp(x) + jnp.exp(x).T, "XLA knows that it is expensive"),
        (lambda x: jnp.sin(x[0])[:, None] + jnp.ones(MANY), "the innermost loop reads one number"),
        (lambda x: jnp.sin(x[0]) + jnp.ones((MANY // 2, 1)), "few rows"),
        (lambda x: jnp.exp(x * 1j) * x, "one loop, complex"),
        (lambda x: jnp.sinh(x) * jnp.log(x * 1j) + jnp.sinh(x), "one loop of formulas"),
        (lambda x: jnp.sin(x)[:33] + jnp.sin(x)[31:], "parts"),
    ],
)
def test_others_stay(f: Any, why: str) -> None:
    assert kept(f, X) == [], why


def test_what_would_take_much_memory_stays() -> None:
    jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x) + jnp.sin(x).T)(
        jax.ShapeDtypeStruct((1 << 12, 1 << 12), np.float32)
    ).jaxpr
    assert keep_expensive(jaxpr, committed()) is jaxpr


def test_long_programs_are_looked_through() -> None:
    def f(x: Any) -> Any:
        y = z = jnp.sin(x)
        for _ in range(3000):
            y = y.T + 1
        return y + z

    jaxpr = jax.make_jaxpr(f)(X).jaxpr
    assert functions(keep_expensive(jaxpr, committed())) == [(1, 1)]


def test_equal_ones_share_a_function() -> None:
    assert kept(lambda x: [jnp.cos(y) - jnp.cos(y).T for y in (x, x + 1, x + 2)], X) == [(3, 1)]


def test_bodies_of_loops() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: jnp.cos(x) - 0.5 * jnp.cos(x).T, x)

    jaxpr = traced(f, X)
    (loop,) = [eqn for eqn in keep_expensive(jaxpr, committed()).eqns if eqn.primitive.higher_order]
    body = loop.params["jaxpr" if "jaxpr" in loop.params else "body_jaxpr"].jaxpr
    assert functions(body) == [(1, 1)]
    assert keep_expensive(jaxpr, committed()) is not jaxpr
    np.testing.assert_allclose(jax.jit(f)(X), jax.jit(f, outline=False)(X), rtol=1e-5, atol=1e-6)


def test_the_compiled_program_calls_it_once() -> None:
    def rotated(q: Any, k: Any, angles: Any) -> Any:
        return q * jnp.cos(angles) + k * jnp.sin(angles), k * jnp.cos(angles) - q * jnp.sin(angles)

    args = rng(2, 3, 64, 64), rng(2, 3, 64, 64) + 1, X
    text = jax.jit(rotated).lower(*args).compile().as_text()
    assert text.count(" cosine(") == text.count(" sine(") == 1
    assert text.count("to_apply=%outlined") == 2
    assert " call(" not in jax.jit(rotated, outline=False).lower(*args).compile().as_text()
    for found, expected in zip(
        jax.jit(rotated)(*args), jax.jit(rotated, outline=False)(*args), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def f(x: Any) -> Any:
    return jnp.sum((jnp.sin(x) + jnp.sin(x).T) ** 2)


@pytest.mark.parametrize(
    ("g", "x"),
    [
        (jax.grad(f), X),
        (jax.vmap(f), np.stack([X, X + 1])),
        (jax.vmap(jax.grad(f)), np.stack([X, X + 1])),
        (jax.hessian(lambda t: f(t * X)), np.float32(0.5)),
    ],
    ids=["grad", "vmap", "vmap of grad", "hessian"],
)
def test_transformations(g: Any, x: Any) -> None:
    assert " call(" in jax.jit(g).lower(x).compile().as_text()
    np.testing.assert_allclose(jax.jit(g)(x), jax.jit(g, outline=False)(x), rtol=2e-4, atol=1e-4)


def test_the_option_and_the_platform_decide() -> None:
    jaxpr = traced(f, X)
    assert functions(target_of("cpu").prepare(jaxpr, "auto")) == [(1, 1)]
    assert (
        functions(target_of("cpu").prepare(jaxpr, "off"))
        == functions(target_of("cuda").prepare(jaxpr, "auto"))
        == []
    )


def test_it_is_no_piece_of_a_program() -> None:
    def layer(x: Any, w: Any) -> Any:
        return (
            x
            + jnp.tanh(jnp.sin(x) @ w + jnp.sin(x).T) * jnp.cos(x * 2)
            - jnp.exp(-x * x) * jnp.cos(x * 2).T
        )

    def network(x: Any, ws: Any) -> Any:
        for w in ws:
            x = layer(jnp.sort(layer(x, w), axis=0), w)
        return jnp.sum(jnp.sin(x) + jnp.sin(x).T)

    x, ws = rng(400, 400), [rng(400, 400) + i for i in range(20)]
    after = target_of("cpu").prepare(traced(jax.grad(network, argnums=1), x, ws), "auto")
    pieces = cut(after, committed().limits)
    assert any(length == 1 for _, length in functions(after))
    assert pieces is not None
    assert all(len(piece.jaxpr.eqns) > 1 for piece in pieces.pieces if piece.calls)


@pytest.mark.parametrize(
    ("f", "dtypes"),
    [
        (lax.log1p, ("float64", "complex64")),
        (lax.log, ("complex64",)),
        (lax.log2, ("float32", "float64")),
        (lax.asinh, ("float16", "float32", "float64")),
        (lax.acosh, ("float32", "float64")),
        (lax.atanh, ("float32", "float64", "complex64")),
        (lax.atan, ("float64", "complex64")),
        (lax.sinh, ("float32", "float64", "complex64")),
        (jax.nn.softplus, ("float64",)),
        (jax.nn.mish, ("float64",)),
        (lambda x: jnp.logaddexp(x, 2 * x), ("float64",)),
        (jax.scipy.special.spence, ("float64",)),
    ],
)
def test_one_loop_holds_a_formula(f: Any, dtypes: tuple[str, ...]) -> None:
    with jax.enable_x64(True):
        for dtype in dtypes:
            text = jax.jit(lambda x: 2 * f(x) + x).lower(np.ones(9, dtype)).compile().as_text()
            assert text.count("kind=k") == 1, dtype
