"""Derivatives of functions of two arguments, at equal, far apart, small and large arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp

import teucer as jax
from teucer import numpy as jnp

ORDERS = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "hypot": (jnp.hypot, mp.hypot),
    "arctan2": (jnp.arctan2, mp.atan2),
    "divide": (jnp.divide, lambda x, y: x / y),
}


def exact(f: Callable[..., Any], order: tuple[int, int], x: float, y: float) -> float:
    """A derivative by central differences of 120 digits."""
    with mp.workdps(300):
        a, b = mp.mpf(x), mp.mpf(y)
        h, k = (abs(v) * mp.mpf(10) ** -60 for v in (a, b))
        for_order = {0: ((0, 1),), 1: ((1, 0.5), (-1, -0.5)), 2: ((1, 1), (0, -2), (-1, 1))}
        total = mp.mpf(0)
        for (i, v), (j, w) in itertools.product(for_order[order[0]], for_order[order[1]]):
            total += v * w * f(a + i * h, b + j * k)
        return float(total / (h ** order[0] * k ** order[1]))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype, largest", [("float32", 1e25), ("float16", 400.0)])
def test_derivatives_of_pairs(
    dtype: str, largest: float, name: str, order: tuple[int, int]
) -> None:
    """Within 8 units, or of numbers that underflow on their way within the least normal one."""
    f, right = ROWS[name]
    numbers = np.array([1, -1, 3, 1 / largest, largest, -largest, 5], dtype)
    x, y = (v.ravel() for v in np.meshgrid(numbers, numbers))
    g = f
    for _ in range(order[0]):
        g = jax.grad(g, 0)
    for _ in range(order[1]):
        g = jax.grad(g, 1)
    want = np.array([exact(right, order, float(a), float(b)) for a, b in zip(x, y, strict=True)])
    info = np.finfo(dtype)
    want[np.abs(want) < float(info.tiny)] = 0
    for got in (jax.vmap(g)(x, y), jax.jit(jax.vmap(g))(x, y)):
        error = np.abs(np.asarray(got, float) - want)
        allowed = 8 * float(info.eps) * np.abs(want) + 2 * float(info.tiny)
        wrong = (error > allowed) & (np.abs(want) < float(info.max))
        assert not wrong.any(), list(zip(x[wrong], y[wrong], got[wrong], want[wrong], strict=True))[
            :5
        ]
