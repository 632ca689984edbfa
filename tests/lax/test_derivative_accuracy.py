"""The law of derivatives: those of first and second order of elementwise functions, eager and
jitted, are within 4 units of mpmath's over the whole domain, or the row says why not.

The rows are those of `benchmarks/accuracy_derivatives.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._base import config

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import accuracy_derivatives as derivatives

DTYPES = ("float32", "float64", "bfloat16", "float16")


def assert_accurate(name: str, dtype: str, count: int) -> None:
    row = derivatives.ROWS[name]
    assert row.why or row.most == (4, 4)
    for found in derivatives.worst(name, dtype, count):
        assert found.error <= row.most[found.order - 1], f"{name} {dtype}: {found}"


@pytest.mark.parametrize("name", derivatives.ROWS)
def test_derivatives_are_accurate(name: str) -> None:
    assert_accurate(name, "float32", 20)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", derivatives.ROWS)
def test_derivatives_are_accurate_at_many_numbers(name: str, dtype: str) -> None:
    assert_accurate(name, dtype, 300)


OUTSIDE: dict[str, tuple[float, ...]] = {
    "asin": (-1.5, 1.5, 3e38),
    "acos": (-1.5, 1.5, -3e38),
    "acosh": (-3.0, -1.0, 0.0, 0.5, -1e30),
    "atanh": (-1.5, 1.5, 1e30),
    "sqrt": (-1.0,),
    "rsqrt": (-1.0,),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_of_the_domain_there_is_no_derivative(name: str) -> None:
    f = getattr(lax, name)
    for x in (*OUTSIDE[name], np.nan):
        assert np.isnan(jax.grad(f)(x)), (name, x)
        assert np.isnan(jax.grad(jax.grad(f))(x)), (name, x)


EDGES = [
    (lax.asin, 1.0, np.inf, np.inf),
    (lax.asin, -1.0, np.inf, -np.inf),
    (lax.acos, 1.0, -np.inf, -np.inf),
    (lax.atanh, 1.0, np.inf, np.inf),
    (lax.atanh, -1.0, np.inf, -np.inf),
    (lax.acosh, 1.0, np.inf, -np.inf),
    (lax.asinh, np.inf, 0.0, 0.0),
    (lax.asinh, 0.0, 1.0, 0.0),
    (lax.asinh, 1.0, 0.5**0.5, -(0.5**1.5)),
    (lax.expm1, -np.inf, 0.0, 0.0),
    (lax.erf, np.inf, 0.0, 0.0),
    (lax.erfc, -np.inf, 0.0, 0.0),
    (lax.erf, 0.0, 2 / np.pi**0.5, 0.0),
]


@pytest.mark.parametrize(("f", "x", "first", "second"), EDGES)
def test_derivatives_at_edges(f: Any, x: float, first: float, second: float) -> None:
    slope = jax.grad(f)
    for g, expected in ((slope, first), (jax.grad(slope), second)):
        np.testing.assert_allclose([g(x), jax.jit(g)(x)], [expected] * 2, rtol=3e-7)


def test_slopes_of_complex_functions_are_those_of_their_branches() -> None:
    z = np.array([-2 + 0.5j, -2 - 0.5j, 0.3 + 2j, -0.3 - 1j, 3 + 1e-3j])
    with config.enable_x64(True):
        for f, root in ((jnp.arccosh, 1), (jnp.arcsin, 1), (jnp.arctanh, 1), (jnp.arcsinh, 1)):
            slope = jax.vmap(jax.grad(f, holomorphic=True))(z)
            step = 1e-6
            difference = (f(z + step) - f(z - step)) / (2 * step * root)
            np.testing.assert_allclose(slope, difference, rtol=1e-8)
