"""Many parts of an array that loops of their own read have one loop; the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimize.stepwise import bits, stepwise
from targets.test_outline import rng, traced

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._targets.cpu.alike import with_like_parts
from teucer._targets.cpu.constants import ALIKE_LEAST
from teucer._xla.client import KEEPS_BARRIERS

N = ALIKE_LEAST
X = rng(N + 1, 3, 8)


def _chain(x: Any) -> Any:
    for i in range(N):
        x = x.at[i].add(x[i + 1])
    return x


def alike(f: Any, *args: Any) -> int:
    """How many equations take like parts then; no bit of the results has changed."""
    jaxpr = traced(f, *args)
    after = with_like_parts(jaxpr)
    leaves = jax.tree.leaves(args)
    assert list(map(bits, stepwise(after, *leaves))) == list(map(bits, stepwise(jaxpr, *leaves)))
    for found, expected in zip(
        *map(jax.tree.leaves, (jax.jit(f)(*args), jax.jit(f, outline=False)(*args))), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    return sum("alike" in eqn.params for eqn in after.eqns)


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: [x[i] for i in range(N)], N),
        (lambda x: jnp.unstack(x), 1),
        (lambda x: [x[i] @ x[i].T for i in range(N)], N),
        (lambda x: [x[i].T for i in range(N)], N),
        (lambda x: [x[i : i + 1] for i in range(N)], N),
        (lambda x: [x[i] for i in range(N)] + [jnp.sin(x[0]), x[:2]], N),
        (lambda x: [2 * x[i] + 1 for i in range(N)], N),
        (lambda x: [jnp.sum(x[i] * x[i + 1]) for i in range(N)], N + 1),
        (lambda x: [jnp.tanh(x[0] @ x[i].T + x[i, 0, 0]) for i in range(N)], N),
    ],
    ids=[
        "results",
        "unstacked",
        "of products",
        "transposed",
        "kept axis",
        "others too",
        "of loops",
        "of sums",
        "of layers",
    ],
)
def test_many_parts_are_alike(f: Any, count: int) -> None:
    assert alike(f, X) == count


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: sum(x[i] * (i + 1) for i in range(N)), "loops read them where they are"),
        (lambda x: [x[i] for i in range(N - 1)], "few"),
        (lambda x: [x[i] for i in range(N - 1)] + [(x + 1)[0]], "another array"),
        (_chain, "each array has one"),
        (lambda x: [x.ravel()[i] ** 2 for i in range(N)], "numbers"),
        (lambda x: [x[i, i % 3] for i in range(N)], "parts along two axes"),
        (lambda x: [x[i::2] for i in range(2)] * 3, "gaps"),
        (lambda x: [x[:0], x[1:1], x[2:2], x[3:3]], "nothing in them"),
    ],
)
def test_others_stay(f: Any, why: str) -> None:
    assert alike(f, X) == 0, why


@pytest.mark.skipif(not KEEPS_BARRIERS, reason="jaxlib 0.10 looks through barriers")
def test_the_compiled_program_has_one_loop_for_them() -> None:
    text = jax.jit(lambda x: jnp.unstack(jnp.cumsum(x, 0))).lower(X).compile().as_text()
    fusions = [
        line
        for line in text.split("ENTRY")[1].splitlines()
        if "dynamic-slice" in line and " fusion(" in line
    ]
    assert len(fusions) == N + 1 and " slice(" not in text


def test_parameters_of_layers_that_a_user_has_stacked() -> None:
    def loss(w: Any, x: Any) -> Any:
        for i in range(N + 1):
            x = jnp.tanh(x @ w[i].T)
        return jnp.sum(x)

    w, x = rng(N + 1, 8, 8), rng(3, 8)
    for f in (loss, jax.grad(loss), jax.vmap(jax.grad(loss), (None, 0))):
        found, expected = jax.jit(f)(w, x), jax.jit(f, outline=False)(w, x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "bfloat16", "complex64", "int4"])
def test_dtypes(dtype: str) -> None:
    x = jnp.arange(4 * (N + 2)).reshape(N + 2, 4).astype(dtype)
    assert alike(lambda x: [x[i] for i in range(N + 2)], x) == N + 2


def test_equations_without_results() -> None:
    def f(x: Any) -> Any:
        jax.debug.callback(lambda x: None, x)
        return jnp.unstack(2 * x)

    assert len(jax.jit(f)(X)) == N + 1
    assert jax.jit(lambda x: (jnp.unstack(x[:0]), x + 1))(X)[0] == ()


def test_keys_stay() -> None:
    keys = jax.random.split(jax.random.key(0), N + 1)
    found = jax.jit(lambda k: jnp.stack([jax.random.key_data(k[i]) for i in range(N + 1)]))(keys)
    np.testing.assert_array_equal(found, jax.random.key_data(keys))


def test_loops_know_the_places() -> None:
    jaxpr = traced(lambda x: lax.scan(lambda c, y: (c, [y[i] for i in range(3)]), 0.0, x)[1], X)
    assert with_like_parts(jaxpr) is jaxpr
