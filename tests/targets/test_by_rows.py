"""Transposes beside which the same is done to the array itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from optimize.stepwise import stepwise
from targets.test_outline import rng, traced
from targets.test_reciprocals import count

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._targets.cpu import target
from teucer._targets.cpu.by_rows import by_rows

SCORES = rng(32, 32)


def alike(scores: Any) -> Any:
    """Rows and columns, normalised alike."""
    return jax.nn.log_softmax(scores) + jax.nn.log_softmax(scores.T)


def changed(f: Any, *args: Any) -> int:
    """The transposes by rows in f's jaxpr; its bits stay."""
    before = traced(f, *args)
    after = by_rows(before)
    for x, y in zip(stepwise(after, *args), stepwise(before, *args), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    return count(after, "by_rows")


BY_ROWS = {
    "rows and columns": alike,
    "one operation": lambda x: (jnp.sin(x), jnp.sin(x.T)),
    "inside": lambda x: jax.jit(alike)(x),
    "in a loop": lambda x: lax.fori_loop(0, 2, lambda i, x: alike(x), x),
    "axes in front": lambda x: (
        jnp.sum(x.reshape(2, 2, 256).transpose(1, 0, 2), 0) + jnp.sum(x.reshape(2, 2, 256), 0)
    ),
}
STAY = {
    "other operations": lambda x: (jnp.sin(x), jnp.cos(x.T)),
    "both at once": lambda x: x + x.T,
    "products": lambda x: (x @ jnp.sin(x), x.T @ jnp.sin(x)),
    "the transpose alone": lambda x: jnp.sin(x.T),
    "another type": lambda x: (jnp.sin(x[:8]), jnp.sin(x[:8].T)),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_what_follows_both_lies_by_rows(name: str) -> None:
    assert changed(BY_ROWS[name], SCORES) == 1


def test_equations_without_results() -> None:
    def f(x: Any) -> Any:
        jax.debug.callback(lambda x: None, x)
        return alike(x)

    assert changed(f, SCORES) == 1
    np.testing.assert_array_equal(jax.jit(f)(SCORES), jax.jit(alike)(SCORES))


@pytest.mark.parametrize("name", STAY)
def test_other_transposes_stay(name: str) -> None:
    assert changed(STAY[name], SCORES) == 0


def by_columns(f: Any, *args: Any) -> int:
    """How many scores of XLA's program lie by columns."""
    text = jax.jit(f).lower(*args).compile().as_text()
    return len(re.findall(r"f32\[64,64\]\{0,1\}", text))


def test_equal_loops_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that tells each example of two views from the others of its batch."""

    def entropy(scores: Any) -> Any:
        own = jnp.arange(scores.shape[0])[:, None]
        logs = scores - jnp.log(jnp.sum(jnp.exp(scores), 1, keepdims=True))
        return -jnp.mean(jnp.take_along_axis(logs, own, -1))

    def loss(a: Any, b: Any) -> Any:
        scores = a @ b.T / 0.1
        return entropy(scores) + entropy(scores.T)

    a, b = rng(64, 16), rng(64, 16)
    left = by_columns(loss, a, b)
    monkeypatch.setattr(target, "by_rows", lambda jaxpr: jaxpr)
    assert left < by_columns(lambda *args: loss(*args), a, b)


def test_results_and_gradients_are_those_of_the_mathematics() -> None:
    x = np.float64(SCORES)
    e = np.exp(x - x.max(1, keepdims=True))
    rows = x - x.max(1, keepdims=True) - np.log(e.sum(1, keepdims=True))
    y = x.T
    e = np.exp(y - y.max(1, keepdims=True))
    columns = y - y.max(1, keepdims=True) - np.log(e.sum(1, keepdims=True))
    np.testing.assert_allclose(jax.jit(alike)(SCORES), rows + columns, rtol=1e-5, atol=1e-5)
    both = jax.jit(jax.vmap(jax.grad(lambda x: alike(x).sum())))(SCORES[None])
    single = jax.grad(lambda x: alike(x).sum())(SCORES)
    np.testing.assert_allclose(both[0], single, rtol=1e-5, atol=1e-5)
