"""Loops, branches, and derivatives through them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.cli.guard.answer import Answer, check_values

__all__ = ["ANSWERS"]


def _counted(n: int) -> str:
    """A loop whose carry is numbers and an array."""

    def step(i: Any, carry: Any) -> Any:
        total, x = carry
        return total + i, x * 0.5 + i

    x: Any = np.linspace(0, 1, 33)
    total = n * (n - 1) // 2
    wanted = x
    for i in range(n):
        wanted = wanted * 0.5 + i
    return check_values(
        lambda x: lax.fori_loop(0, n, step, (0, x)), [x], (np.float64(total), wanted), 1e-12
    )


def _written(size: int) -> str:
    """An element is written in each step."""
    wanted = np.zeros(size)
    for t in range(size - 1):
        wanted[t + 1] = wanted[t] / 2 + 1
    return check_values(
        lambda: lax.fori_loop(
            0, size - 1, lambda t, a: a.at[t + 1].set(a[t] / 2 + 1), jnp.zeros(size)
        ),
        [],
        wanted,
        1e-12,
    )


def _scan(size: int, reverse: bool) -> str:
    xs = np.random.default_rng(0).standard_normal((size, 5))
    carry, ys = np.zeros(5), np.zeros((size, 5))
    for i in reversed(range(size)) if reverse else range(size):
        carry = np.tanh(carry + xs[i])
        ys[i] = carry * 2

    def step(c: Any, x: Any) -> Any:
        c = jnp.tanh(c + x)
        return c, c * 2

    return check_values(
        lambda xs: lax.scan(step, jnp.zeros(5), xs, reverse=reverse), [xs], (carry, ys), 1e-11
    )


def _nested() -> str:
    def outer(i: Any, x: Any) -> Any:
        return lax.fori_loop(0, i, lambda j, x: x.at[j].add(i), x)

    wanted = np.zeros(9)
    for i in range(9):
        wanted[:i] += i
    return check_values(lambda: lax.fori_loop(0, 9, outer, jnp.zeros(9)), [], wanted, 0)


def _until() -> str:
    """A loop that ends by a condition on floats."""
    x = 2.0
    while abs(x * x - 2) > 1e-14 * 4:
        x = (x + 2 / x) / 2
    f = lambda x: lax.while_loop(  # noqa: E731
        lambda x: abs(x * x - 2) > 4e-14, lambda x: (x + 2 / x) / 2, x
    )
    return check_values(f, [2.0], np.float64(x), 1e-13)


def _branches() -> str:
    x = np.random.default_rng(1).standard_normal((17, 9))

    def f(i: Any, x: Any) -> Any:
        return lax.switch(i, [lambda x: x * 2, jnp.sin, lambda x: x.T.reshape(x.shape)], x)

    for i, wanted in enumerate((x * 2, np.sin(x), x.T.reshape(x.shape))):
        if text := check_values(f, [i, x], wanted, 1e-14):
            return f"branch {i}: {text}"
    return ""


def _branch_in_loop() -> str:
    xs = np.random.default_rng(2).standard_normal(1000)
    wanted = 0.0
    for x in xs:
        wanted = wanted + x if x > 0 else wanted * 0.5
    step = lambda c, x: (lax.cond(x > 0, lambda: c + x, lambda: c * 0.5), None)  # noqa: E731
    return check_values(lambda xs: lax.scan(step, 0.0, xs)[0], [xs], np.float64(wanted), 1e-12)


def _gradient() -> str:
    """Through a scan with products, by differences."""
    w = np.random.default_rng(3).standard_normal((5, 5)) / 3

    def loss(w: Any) -> Any:
        return jnp.sum(lax.scan(lambda c, _: (jnp.tanh(w @ c) + 0.1, c), jnp.ones(5), None, 20)[1])

    def exact(w: Any) -> Any:
        c, total = np.ones(5), 0.0
        for _ in range(20):
            total, c = total + c.sum(), np.tanh(w @ c) + 0.1
        return total

    step = np.zeros_like(w)
    step[1, 2] = 1e-6
    slope = (exact(w + step) - exact(w - step)) / 2e-6
    return check_values(lambda w: (loss(w), jax.grad(loss)(w)[1, 2]), [w], (exact(w), slope), 1e-7)


def _mapped_loop() -> str:
    """Loops of different lengths, mapped."""
    n = np.arange(9)
    f = jax.vmap(
        lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1))
    )
    return check_values(lambda n: f(n)[1], [n], 2.0**n, 0)


def _solved() -> str:
    """Heat in a rod: a stencil of an array in each of many steps."""
    u: Any = np.sin(np.linspace(0, np.pi, 65))
    step = lambda n, u: u + 0.2 * (n.roll(u, 1) - 2 * u + n.roll(u, -1))  # noqa: E731
    wanted = u
    for _ in range(200):
        wanted = step(np, wanted)
    return check_values(
        lambda u: lax.fori_loop(0, 200, lambda _, u: step(jnp, u), u), [u], wanted, 1e-11
    )


ANSWERS = (
    [Answer(f"loop of {n} steps", functools.partial(_counted, n)) for n in (1, 10, 1000)]
    + [Answer(f"loop that writes {n} elements", functools.partial(_written, n)) for n in (9, 3000)]
    + [
        Answer(f"scan over {n}{', reversed' * reverse}", functools.partial(_scan, n, reverse))
        for n in (1, 7, 1000)
        for reverse in (False, True)
    ]
    + [
        Answer(name, check)
        for name, check in {
            "loops in loops": _nested,
            "loop until a number is small": _until,
            "one of three branches": _branches,
            "branches in a loop": _branch_in_loop,
            "gradient through a scan": _gradient,
            "mapped loops of different lengths": _mapped_loop,
            "a stencil, 200 times": _solved,
        }.items()
    ]
)
