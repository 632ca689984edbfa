"""Functions of the library on axes whose size is known only at run time, bounded or exported.

As on known sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax


class Case(NamedTuple):
    """A function of one array, along whose first axis sizes differ; the least of them."""

    f: Callable[[Any], Any]
    low: int = 0
    exported: bool = True


def pool(padding: str, window: int, stride: int) -> Callable[[Any], Any]:
    return lambda x: lax.reduce_window(x, -np.inf, lax.max, (window,), (stride,), padding)


def convolved(padding: str, window: int, stride: int) -> Callable[[Any], Any]:
    kernel = np.arange(1, window + 1, dtype=np.float32).reshape(1, 1, window)
    return lambda x: lax.conv_general_dilated(x[None, None], kernel, (stride,), padding)[0, 0]


def affine(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


CASES = {
    "polyval": Case(lambda x: jnp.polyval(x, jnp.arange(3.0))),
    "interp": Case(lambda x: jnp.interp(jnp.array([0.5, 1.5, 9.0]), x, x * x), 1),
    "interp, one knot": Case(
        lambda x: jnp.interp(jnp.array([0.5, 1.5, 9.0]), x[:1], x[:1] * x[:1]), 1
    ),
    "interp, period": Case(
        lambda x: jnp.interp(jnp.array([0.5, 1.5, 9.0]), x, x * x, period=3.0), 1
    ),
    "indices": Case(lambda x: jnp.indices((x.shape[0], 2)), 1),
    "indices, sparse": Case(lambda x: jnp.indices((2, x.shape[0]), sparse=True), 1),
    "linspace": Case(lambda x: jnp.linspace(1, 2, x.shape[0])),
    "linspace, no end": Case(lambda x: jnp.linspace(1, 2, x.shape[0], endpoint=False)),
    "linspace, step": Case(lambda x: jnp.linspace(1, 2, x.shape[0], retstep=True)),
    "linspace, integers": Case(lambda x: jnp.linspace(1, 9, x.shape[0], dtype=int)),
    "linspace, arrays": Case(
        lambda x: jnp.linspace(jnp.arange(2.0), jnp.arange(2.0) + 3, x.shape[0], axis=1)
    ),
    "logspace": Case(lambda x: jnp.logspace(1, 2, x.shape[0])),
    "geomspace": Case(lambda x: jnp.geomspace(1, 8, x.shape[0]), 1),
    "gradient": Case(jnp.gradient, 2),
    "gradient, places": Case(lambda x: jnp.gradient(x * x, x), 2),
    "top_k": Case(lambda x: lax.top_k(x, 2), 2),
    "top_k, all": Case(lambda x: lax.top_k(x, x.shape[0]), 1),
    "top_k, all but one": Case(lambda x: lax.top_k(-x, x.shape[0] - 1), 1),
    "associative_scan": Case(lambda x: lax.associative_scan(jnp.add, x)),
    "associative_scan, reverse": Case(
        lambda x: lax.associative_scan(jnp.maximum, jnp.sin(x), reverse=True)
    ),
    "associative_scan, pairs": Case(
        lambda x: lax.associative_scan(affine, (jnp.sin(x), jnp.cos(x)))
    ),
    "prod, gradient": Case(jax.grad(jnp.prod)),
    "tile": Case(lambda x: lax.tile(x, (3,))),
    "arange, step": Case(lambda x: jnp.arange(1, x.shape[0], 2)),
    "arange, dtype": Case(lambda x: jnp.arange(x.shape[0], dtype=np.float32)),
    "pad, gradient": Case(
        jax.grad(lambda x: (lax.pad(x, 0.0, ((1, 2, 0),)) ** 2 * x.sum()).sum()), 1
    ),
    "pad within, gradient": Case(
        jax.grad(lambda x: (lax.pad(x, 0.0, ((2, -1, 1),)) ** 2 * x.sum()).sum()), 2
    ),
    "prod, Hessian": Case(jax.hessian(jnp.prod), 1),
    "prod with zeros, gradient": Case(jax.grad(lambda x: jnp.prod(x - 2))),
    "prod of rows, gradient": Case(
        jax.grad(lambda x: jnp.prod(x[:, None] * jnp.arange(1.0, 3.0), 0).sum())
    ),
    "cumprod, gradient": Case(jax.grad(lambda x: jnp.cumprod(x).sum())),
    "cummax, gradient": Case(jax.grad(lambda x: lax.cummax(jnp.sin(x)).sum())),
    "cumlogsumexp, gradient": Case(jax.grad(lambda x: lax.cumlogsumexp(x).sum())),
    "logaddexp.reduce": Case(jnp.logaddexp.reduce),
    "logaddexp.accumulate": Case(jnp.logaddexp.accumulate, 1),
    "subtract.reduce": Case(jnp.subtract.reduce, 1),
    "bitwise_xor.reduce": Case(lambda x: jnp.bitwise_xor.reduce(x.astype(int))),
    **{
        f"{name} of what may be empty": Case(lambda x, f=f: f(x[1:]), 1)
        for name, f in {
            "cumsum": jnp.cumsum,
            "cumprod": jnp.cumprod,
            "cummax": lax.cummax,
            "cummin": lax.cummin,
            "sum": jnp.sum,
            "sort": jnp.sort,
            "cumlogsumexp": lax.cumlogsumexp,
            "reversed cumsum": lambda x: lax.cumsum(x, reverse=True),
        }.items()
    },
    **{
        f"{padding} pool {window} by {stride}": Case(pool(padding, window, stride), 1)
        for padding in ("SAME", "SAME_LOWER")
        for window, stride in ((3, 1), (3, 2), (2, 3), (4, 2))
    },
    "SAME sum": Case(lambda x: lax.reduce_window(x, 0.0, lax.add, (4,), (2,), "SAME"), 1),
    "SAME product": Case(
        lambda x: lax.reduce_window(x, 1.0, lambda a, b: a * b, (4,), (2,), "SAME"), 1
    ),
    **{
        f"{padding} convolution {window} by {stride}": Case(convolved(padding, window, stride), 1)
        for padding in ("SAME", "SAME_LOWER")
        for window, stride in ((3, 1), (3, 2), (2, 3), (4, 2))
    },
}
each_case = pytest.mark.parametrize("name", CASES)
SIZES = (0, 1, 2, 3, 5, 8)


def values(n: int) -> Any:
    return np.arange(1, n + 1, dtype=np.float32) * 0.75


def equal(found: Any, expected: Any, what: str) -> None:
    for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert y.dtype == z.dtype, what
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6, err_msg=what)


@each_case
def test_bounded(name: str) -> None:
    """One program for all sizes up to a bound."""
    f, low, _ = CASES[name]
    together = jax.jit(f, dynamic_dims={0: {0: (low, 8)}})
    for n in SIZES:
        if n >= low:
            equal(together(values(n)), f(jnp.asarray(values(n))), f"{name} of {n}")


@each_case
def test_exported(name: str) -> None:
    """One exported program for all sizes."""
    f, low, _ = CASES[name]
    low = max(low, 1)
    (n,) = export.symbolic_shape("n", constraints=[f"n >= {low}"])
    program = export.export(jax.jit(f))(jax.ShapeDtypeStruct((n,), np.float32))
    for size in (low, 2, 5):
        if size >= low:
            equal(program.call(values(size)), f(jnp.asarray(values(size))), f"{name} of {size}")
