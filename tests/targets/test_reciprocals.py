"""Quotients by one broadcast become products with its reciprocal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimize.stepwise import stepwise
from targets.test_outline import rng, traced

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.jaxpr import jaxprs_in_params
from teucer._targets.cpu.constants import DIVIDED_LEAST
from teucer._targets.cpu.reciprocals import by_reciprocals
from teucer._targets.table import target_of

X, Y = rng(64, 32), rng(64) + 3
assert X.size >= DIVIDED_LEAST


def count(jaxpr: Any, name: str) -> int:
    return sum(
        (eqn.primitive.name == name) + sum(count(j, name) for j in jaxprs_in_params(eqn.params))
        for eqn in jaxpr.eqns
    )


def changed(f: Any, *args: Any) -> tuple[int, int]:
    """The quotients and reciprocals of f's jaxpr afterwards; its results are those of before but
    for two roundings in each of two steps."""
    before = traced(f, *args)
    after = by_reciprocals(before)
    leaves = jax.tree.leaves(args)
    for x, y in zip(stepwise(after, *leaves), stepwise(before, *leaves), strict=True):
        np.testing.assert_array_max_ulp(np.asarray(x), np.asarray(y), 4)
    return count(after, "div"), count(after, "integer_pow")


@pytest.mark.parametrize(
    ("f", "args", "why"),
    [
        (lambda x, y: (x / y[:, None], jnp.abs(x) / y[:, None]), (X, Y), "two quotients"),
        (
            lambda x, y: (x / y[:, None], x * 2 / y[:, None]),
            (np.float64(X), np.float64(Y)),
            "double",
        ),
        (
            lambda x, y: (x / y[:, None]) * jnp.broadcast_to(y[:, None], x.shape),
            (X, Y),
            "one quotient, and another reader",
        ),
        (lambda x, y: jax.jit(lambda x: (x / y[:, None], -x / y[:, None]))(x), (X, Y), "inside"),
        (
            lambda x, y: lax.fori_loop(
                0, 2, lambda i, c: c / y[:, None] + jnp.abs(c) / y[:, None], x
            ),
            (X, Y),
            "in a loop",
        ),
    ],
)
def test_quotients_by_a_shared_broadcast(f: Any, args: Any, why: str) -> None:
    with jax.enable_x64(True):
        assert changed(f, *args) == (0, 1), why


@pytest.mark.parametrize(
    ("f", "args", "why"),
    [
        (lambda x, y: x / y[:, None], (X, Y), "XLA's own"),
        (lambda x, y: (x / y, jnp.abs(x) / y), (X, np.float32(3)), "a number"),
        (lambda x, y: (x / 3.0, -x / 3.0), (X, Y), "a constant"),
        (lambda x, y: (x[:2] / y[:2, None], -x[:2] / y[:2, None]), (X, Y), "few elements"),
        (
            lambda x, y: (lax.div(x, x * 0 + x[0]), lax.div(-x, x * 0 + x[0])),
            (np.int32(X * 9), Y),
            "integers",
        ),
        (lambda x, y: (X[:1] / y[:, None], Y[:, None] / y[:, None]), (X, Y), "two shapes"),
        (
            lambda x, y: (x / y[:, None], -x / y[:, None]),
            (np.float16(X), np.float16(Y)),
            "half precision is rounded more often",
        ),
    ],
)
def test_quotients_that_stay(f: Any, args: Any, why: str) -> None:
    jaxpr = traced(f, *args)
    assert count(by_reciprocals(jaxpr), "div") == count(jaxpr, "div") > 0, why
    assert count(by_reciprocals(jaxpr), "integer_pow") == 0, why


def test_compiled_quotients_divide_once_for_each_row() -> None:
    """The program that XLA makes divides the 64 divisors only."""

    def f(x: Any, y: Any) -> Any:
        return x / y[:, None], jnp.exp(x) / y[:, None]

    text = jax.jit(f).lower(X, Y).compile().as_text()
    shapes = [
        line.split(" = ")[1].split("{")[0] for line in text.splitlines() if " divide(" in line
    ]
    assert shapes == ["f32[64]"], text


def test_a_program_that_is_one_loop() -> None:
    def f(x: Any, y: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return c / y[:, None] + jnp.abs(c) / y[:, None], None

        return lax.scan(step, x, None, length=3)[0]

    prepared = target_of("cpu").prepare(traced(f, X, Y), "auto")
    assert (count(prepared, "div"), count(prepared, "integer_pow")) == (0, 1)
