"""Sums of products with equal numbers are right on the CPU, where YNNPACK takes one of the numbers
for all."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._targets.cpu import faults
from teucer._targets.cpu.equal_numbers import hidden
from teucer._xla import client as xla

ROWS, INNER, COLUMNS = 4096, 3, 4


def rng(*shape: int, seed: int = 0) -> Any:
    """float32 numbers between 0 and 1."""
    return np.random.default_rng(seed).random(shape, np.float32)


# The product of an array with equal numbers: where these come from.
OPERANDS: dict[str, Any] = {
    "ones": lambda x, w: x @ jnp.ones((INNER, COLUMNS)),
    "full": lambda x, w: x @ jnp.full((INNER, COLUMNS), 0.5),
    "computed": lambda x, w: x @ jnp.exp(jnp.zeros((INNER, COLUMNS)) + 1),
    "of a number": lambda x, w: x @ jnp.broadcast_to(w[0, 0], (INNER, COLUMNS)),
    "in a call": lambda x, w: jax.jit(jnp.matmul)(x, jnp.ones((INNER, COLUMNS))),
    "from a call": lambda x, w: x @ jax.checkpoint(lambda a: jnp.zeros((INNER, COLUMNS)) + a)(2.0),
    "in a branch": lambda x, w: lax.cond(
        w[0, 0] > 0, lambda x, o: x @ o, lambda x, o: x + o[0], x, jnp.ones((INNER, INNER))
    ),
    "in a loop": lambda x, w: lax.fori_loop(
        0, 2, lambda i, c: (c[0] @ c[1], c[1]), (x, jnp.full((INNER, INNER), 0.5))
    )[0],
    "a carry, once": lambda x, w: lax.scan(
        lambda c, _: (c + w, x @ c), jnp.ones((INNER, COLUMNS)), None, length=1
    )[1][0],
    "of a batch": lambda x, w: jax.vmap(jnp.matmul, (0, None))(
        x.reshape(-1, 2, INNER), jnp.ones((INNER, COLUMNS))
    ).reshape(-1, COLUMNS),
    "a window": lambda x, w: x @ jnp.tile(jnp.ones((1, COLUMNS)), (INNER, 1)),
    "first": lambda x, w: (jnp.ones((COLUMNS, INNER)) @ x.T).T,
}
# What is computed of it.
SUMS: dict[str, Any] = {
    "all": lambda y: y.sum(),
    "rows": lambda y: y.sum(0),
    "columns": lambda y: y.sum(1),
    "squares": lambda y: (y * y).sum(0),
    "means": lambda y: jnp.mean(jnp.sin(y), 0),
}


@pytest.mark.parametrize("operand", OPERANDS)
def test_sums_of_products(operand: str) -> None:
    """Against the same operations one by one, whose products and sums are not fused."""
    x, w = rng(ROWS, INNER), rng(INNER, COLUMNS, seed=1)
    product = OPERANDS[operand]
    with jax.disable_jit():
        y = product(jnp.asarray(x), jnp.asarray(w))
    for name, total in SUMS.items():
        got = jax.jit(lambda x, w, total=total: total(product(x, w)))(x, w)
        np.testing.assert_allclose(got, total(y), rtol=2e-5, err_msg=name)


def test_shapes() -> None:
    """From a few thousand elements on YNNPACK computes sums: JAX 0.12.0.1 has 11 of these wrong."""
    for rows, inner, columns in itertools.product((64, 2048, 8192), (2, 32), (2, 64)):
        x = rng(rows, inner)
        got = jax.jit(lambda x, k=inner, n=columns: (x @ jnp.ones((k, n))).sum(0))(x)
        np.testing.assert_allclose(got, np.full(columns, x.sum(dtype=np.float64)), rtol=1e-5)


def barriers(f: Any, *args: Any) -> int:
    return sum(
        eqn.primitive.name == "hidden" for eqn in hidden(jax.make_jaxpr(f)(*args).jaxpr).eqns
    )


def test_only_products_with_equal_numbers_have_barriers() -> None:
    x = rng(ROWS, INNER)
    w = rng(INNER, INNER)
    assert barriers(lambda x: (x @ jnp.ones((INNER, 2))).sum(), x) == 1
    assert barriers(lambda x, w: (x @ w).sum(), x, w) == 0
    assert barriers(lambda x, w: (x @ (w + jnp.ones((INNER, 2))[:, :1])).sum(), x, w) == 0
    assert barriers(lambda x: (x @ jnp.arange(3.0)).sum(), x) == 0


def test_a_carry_that_changes_has_none() -> None:
    """XLA does not know a state that starts with zeros."""

    def f(xs: Any, w: Any) -> Any:
        return lax.scan(lambda c, x: (jnp.tanh(x + c @ w), c.sum()), jnp.zeros(INNER), xs)

    (loop,) = [
        eqn
        for eqn in hidden(jax.make_jaxpr(f)(rng(5, INNER), rng(INNER, INNER)).jaxpr).eqns
        if eqn.primitive.name == "scan"
    ]
    assert "hidden" not in str(loop)


@pytest.mark.skipif(not xla.KEEPS_BARRIERS, reason="jaxlib 0.10 computes products alone instead")
def test_products_and_sums_stay_fused() -> None:
    """A program that has such a product needs no other options."""
    f = jax.make_jaxpr(lambda x: (x @ jnp.ones((INNER, 2))).sum())(rng(ROWS, INNER)).jaxpr
    assert faults.switches_around(f).overrides == {}
