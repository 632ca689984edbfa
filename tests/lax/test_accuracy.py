"""The largest errors of elementary functions of floats, in units in the last place.

What docs/accuracy.md says, on samples of all exponents and near hard cases: those of
`benchmarks/accuracy.py`.
"""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._base import config

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import accuracy

TABLE = {f.path.rpartition(".")[2]: f for f in accuracy.ELEMENTARY}
# XLA's own, of which a better one would take more than 1.2 times the time; on the worst jaxlib.
MORE = {
    ("tanh", "float32"): 6,
    ("rsqrt", "float32"): 2.1,
    ("log1p", "float32"): 3,
    ("arctan", "float32"): 6,
    ("exp", "float32"): 6,
    ("expm1", "float32"): 6,
    ("expm1", "float64"): 5,
}


def largest(name: str, dtype: str, count: int) -> Any:
    function, numbers = TABLE[name], np.dtype(dtype)
    (arguments,) = accuracy.inputs(function, numbers, count)
    usable = np.all([accuracy.normal(x) for x in arguments], axis=0)
    with warnings.catch_warnings(), config.enable_x64(dtype == "float64"):
        warnings.simplefilter("ignore")
        exact = accuracy.wide_reference(function, arguments)
        f = lax.rsqrt if name == "rsqrt" else getattr(jnp, name)
        got = np.asarray(jax.jit(lambda *xs: f(*xs))(*arguments))
    return accuracy.worst(accuracy.Worst(0.0, ()), accuracy.errors(got, exact, usable), *arguments)


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 60, reason="the reference of float64 is of long doubles"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in TABLE if n != "logaddexp"])
def test_at_most_two_units(name: str, dtype: str) -> None:
    """logaddexp is near its terms, which may cancel: tested below."""
    found = largest(name, dtype, 2**15)
    assert found.error <= MORE.get((name, dtype), 2), f"{name}: {found}"


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="as above")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in TABLE if n != "logaddexp"])
def test_at_most_two_units_at_many_inputs(name: str, dtype: str) -> None:
    found = largest(name, dtype, 2**21)
    assert found.error <= MORE.get((name, dtype), 2), f"{name}: {found}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logaddexp_is_right_to_two_units_of_its_terms(dtype: str) -> None:
    x, y = accuracy.pairs(np.dtype(dtype), 2**14)
    with config.enable_x64(dtype == "float64"):
        got = np.asarray(jnp.logaddexp(x, y))
    exact = np.logaddexp(x.astype(np.longdouble), y.astype(np.longdouble))
    # The rounding of x - y counts as much as the second term, log(1 + e^-|x - y|), is large.
    greater = np.maximum(x, y).astype(np.longdouble)
    second = exact - greater
    size = np.maximum(np.maximum(np.abs(greater), np.abs(exact)), (1 + np.abs(x - y)) * second)
    assert np.max(np.abs(got - exact) / size) <= 2 * np.finfo(dtype).eps


SERIES = ("log1p", "log2", "log10", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "cbrt")


@pytest.mark.parametrize("name", [*SERIES, "arccosh", "arctanh"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_special_values(name: str, dtype: str) -> None:
    """Zeros with their signs, infinities, nan, and numbers outside of the domain, as in NumPy."""
    with config.enable_x64(dtype == "float64"):
        x = jnp.asarray([0.0, -0.0, 1, -1, 2, -2, np.inf, -np.inf, np.nan], dtype)
        got = np.asarray(getattr(jnp, name)(x), np.float64)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(np.asarray(x, np.float64))
    np.testing.assert_allclose(got, expected, rtol=2 * float(jnp.finfo(dtype).eps))
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("name", [*SERIES, "arccosh", "arctanh"])
def test_a_function_in_a_program_is_that_by_itself(name: str) -> None:
    """Series are calls in programs, and in loops."""
    f, close = getattr(jnp, name), functools.partial(np.testing.assert_allclose, rtol=3e-7)
    x = jnp.asarray(
        np.linspace(1.01, 1.9, 300) if name == "arccosh" else np.linspace(-0.9, 0.9, 300)
    )
    x = jnp.abs(x) if name.startswith("log") else x
    alone = np.asarray(f(x))
    close(jax.jit(lambda x: f(x + 0) * 1)(x), alone)
    close(lax.map(lambda v: f(v), x), alone)
    close(jax.vmap(lambda v: f(v))(x), alone)


def test_powers_have_exact_logarithms() -> None:
    n = np.arange(-120, 121)
    np.testing.assert_array_equal(jnp.log2(np.float32(2.0) ** n), n)
    np.testing.assert_array_equal(jnp.log10(np.float32(10.0) ** np.arange(11)), np.arange(11))


def test_where_no_target_asks_there_is_no_series() -> None:
    """Exported programs, and those of other platforms, have the compiler's operation."""
    like = jax.ShapeDtypeStruct((8,), "float32")
    for platform in ("cpu", "cuda", "tpu"):
        module = jax.export.export(jax.jit(jnp.arctan), platforms=[platform])(like).mlir_module()
        assert "chlo.atan" in module or "atan2" in module
