"""Laws of complex elementary functions.

All magnitudes, each part by itself, infinities and NaN as C99 has them, symmetries.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._base import config
from teucer._targets.cpu.target import CPU

NAMES = (
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "expm1",
    "log1p",
    "exp",
    "log",
    "sqrt",
    "asinh",
    "atanh",
    "asin",
    "atan",
)
# Of each part, in units in the last place of that part. Those of complex64 are computed in float64.
ULP = {
    "sin": 4,
    "cos": 4,
    "tan": 4,
    "sinh": 4,
    "cosh": 4,
    "tanh": 4,
    "exp": 4,
    "expm1": 5,
    "log": 4,
    "log1p": 4,
    "atan": 4,
    "atanh": 4,
}
NARROW_ULP = 0.51
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
ODD = ("sin", "tan", "sinh", "tanh", "asin", "asinh", "atan")
DTYPES = ("complex64", "complex128")
MAGNITUDES = (1e-20, 1e-5, 1e-3, 0.1, 0.5, 1.0, 2.0, 3.1415927, 5.0, 20.0, 60.0, 88.9, 100.0, 1e20)


def points(dtype: Any) -> Any:
    """Every magnitude of either part beside every one of the other, of both signs, and zeros."""
    rng = np.random.default_rng(0)
    part = [
        0.0,
        *(s * m * (1 + 0.1 * rng.uniform()) for m in MAGNITUDES[:-1] for s in (1, -1)),
        1e20,
    ]
    real = np.finfo(dtype).dtype.type
    return np.asarray([complex(real(a), real(b)) for a, b in itertools.product(part, part)], dtype)


def call(name: str, z: Any, dtype: str) -> Any:
    with config.enable_x64(dtype == "complex128"):
        return np.asarray(getattr(lax, name)(z))


def check_parts(name: str, z: Any, got: Any, ulp: float) -> None:
    info = np.finfo(got.dtype)
    worst = (0.0, 0j, 0j)
    with mpmath.workdps(100):  # enough for parts of very unlike sizes
        for at, y in zip(z.ravel(), got.ravel(), strict=True):
            right = getattr(mpmath, name)(mpmath.mpc(float(at.real), float(at.imag)))
            for found, exact in ((y.real, right.real), (y.imag, right.imag)):
                if abs(exact) > info.max:
                    assert found == math.copysign(math.inf, exact), (
                        f"{name}({at}) is {y}, not {right}"
                    )
                    continue
                assert np.isfinite(found), f"{name}({at}) is {y}, not {right}"
                # What is too small for a normal number may be flushed to zero.
                unit = mpmath.mpf(2) ** mpmath.floor(
                    mpmath.log(max(abs(exact), info.tiny), 2)
                ) * float(info.eps)
                if abs(exact) >= info.tiny:
                    worst = max(
                        worst,
                        (float(abs(mpmath.mpf(float(found)) - exact) / unit), at, y),
                        key=lambda w: w[0],
                    )
    assert worst[0] <= ulp, f"{name}({worst[1]}) is {worst[2]}, {worst[0]:.3g} ulp off in a part"


@pytest.mark.parametrize("dtype", [DTYPES[0], pytest.param(DTYPES[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ULP)
def test_each_part_at_all_magnitudes(name: str, dtype: str) -> None:
    """No part cancels or overflows because the other is small or large."""
    z = points(dtype)
    z = (
        z[(z.real != 0) & (z.imag != 0)][::7] if name in ("atan", "atanh", "log", "exp") else z
    )  # on cuts C99 tells zeros apart
    if dtype == "complex128" and name == "expm1":
        # (e^a - 1) cos b and 2 sin(b / 2)^2 cancel on a curve through 0, near which float64 loses
        # digits.
        with np.errstate(over="ignore"):
            one, other = np.expm1(z.real) * np.cos(z.imag), 2 * np.sin(z.imag / 2) ** 2
        z = z[~(np.abs(one - other) < 0.5 * np.maximum(np.abs(one), other))]
    check_parts(name, z, call(name, z, dtype), ULP[name] if dtype == "complex128" else NARROW_ULP)


@pytest.mark.parametrize(
    ("name", "dtype", "ulp"),
    [
        ("expm1", "complex64", 16),
        ("log1p", "complex64", NARROW_ULP),
        ("log1p", "complex128", 4),
        ("log", "complex64", NARROW_ULP),
        ("log", "complex128", 4),
    ],
)
def test_where_the_real_part_cancels(name: str, dtype: str, ulp: float) -> None:
    """expm1 has the least digits there: a difference of float64 numbers, of which 16 units are left
    at these points."""
    t = np.concatenate([np.linspace(-1.5, 1.5, 301), 2.0 ** -np.arange(2, 12)])
    curves = {
        "log": np.exp(2j * t),
        "log1p": np.exp(2j * t) - 1,
        "expm1": np.log(1 / np.cos(t)) + 1j * t,
    }
    z = curves[name].astype(dtype)
    check_parts(name, z, call(name, z, dtype), ulp)


@pytest.mark.parametrize("name", ["sin", "cosh", "tan", "exp", "expm1"])
def test_angles_of_every_size(name: str) -> None:
    """An angle of float32 is reduced to all its digits; 16367173 2^72 is nearest to a multiple of
    pi / 2."""
    rng = np.random.default_rng(1)
    angles = np.concatenate(
        [2.0 ** rng.uniform(-30, 127.9, 200), [16367173 * 2.0**72, 1e38, 355 / 2, 1e-37]]
    ).astype(np.float32)
    z = angles + 0.25j if name in ("sin", "tan") else 0.25 + 1j * angles
    z = z.astype(np.complex64)
    check_parts(name, z, call(name, z, "complex64"), NARROW_ULP)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    ["sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "log", "log2", "sqrt", *NUMPY],
)
def test_special_values_as_in_c99(name: str, dtype: str) -> None:
    """As NumPy's, which are those of C99; where a part is zero or infinite its sign may be of
    either kind beside a NaN."""
    part = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    z = np.asarray([complex(a, b) for a in part for b in part], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(z)
    got = call(name, z, dtype)
    for at, y, right in zip(z, got, expected, strict=True):
        beside_nan = np.isnan(y.real) or np.isnan(y.imag)
        for found, exact in ((y.real, right.real), (y.imag, right.imag)):
            if beside_nan:
                found, exact = abs(found), abs(exact)
            np.testing.assert_allclose(
                found, exact, rtol=1e-6, err_msg=f"{name}({at}) is {y}, not {right}"
            )
            finite = np.isfinite(at.real) and np.isfinite(at.imag)
            assert not finite or np.signbit(found) == np.signbit(exact), (
                f"{name}({at}) is {y}, not {right}"
            )


@pytest.mark.parametrize("name", ["abs", "angle", "expm1", "log1p", "log10"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_of_other_functions(name: str, dtype: str) -> None:
    """expm1 is the exponential less 1; of others as in NumPy."""
    part = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    z = np.asarray([complex(a, b) for a in part for b in part], dtype)
    with np.errstate(all="ignore"):
        expected = np.exp(z) - np.real(z.dtype.type(1)) if name == "expm1" else getattr(np, name)(z)
    with config.enable_x64(dtype == "complex128"):
        got = np.asarray(getattr(jnp, name)(z))
    assert got.dtype == expected.dtype
    for at, y, right in zip(z, got, expected, strict=True):
        for found, exact in ((y.real, right.real), (y.imag, right.imag)):
            unsigned = np.isinf(at.real) or np.isinf(at.imag) or np.isnan(at)
            if unsigned and name != "angle":
                found, exact = abs(found), abs(exact)
            np.testing.assert_allclose(
                found, exact, rtol=1e-6, err_msg=f"{name}({at}) is {y}, not {right}"
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_absolute_value_is_within_three_units(dtype: str) -> None:
    z = points(dtype)
    wide = z.astype(np.complex128 if dtype == "complex64" else np.clongdouble)
    got, expected = call("abs", z, dtype), np.abs(wide)
    units = np.abs(got.astype(expected.dtype) - expected) / np.spacing(np.abs(got))
    assert units[got > np.finfo(got.dtype).tiny].max() <= (0.51 if dtype == "complex64" else 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_symmetries(name: str, dtype: str) -> None:
    """f(conj z) = conj f(z), and f(-z) = -f(z) of an odd f, but on branch cuts."""
    z = points(dtype)
    z = z[(z.real != 0) & (z.imag != 0)]
    y = call(name, z, dtype)
    np.testing.assert_array_equal(call(name, np.conj(z), dtype), np.conj(y))
    if name in ODD:
        np.testing.assert_array_equal(call(name, -z, dtype), -y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("asin",)])
def test_real_axis(name: str, dtype: str) -> None:
    """f(x + 0j) is f(x), where that is real."""
    x = np.asarray([s * m for m in MAGNITUDES[:-2] for s in (1, -1)], np.finfo(dtype).dtype)
    y = call(name, x, dtype)
    inside = np.isfinite(y)
    z = call(name, x.astype(dtype), dtype)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(z.real[inside], y[inside], rtol=8 * eps)
    np.testing.assert_array_less(np.abs(z.imag[inside]), 1e-30)


def test_sinc_of_complex_numbers() -> None:
    z = points("complex64")
    z = z[np.abs(z.imag) < 20]
    y = np.asarray(jnp.sinc(z))
    wide = z.astype(np.complex128)
    series = 1 - (np.pi * wide) ** 2 / 6 + (np.pi * wide) ** 4 / 120
    with np.errstate(all="ignore"):
        expected = np.where(np.abs(wide) < 1e-3, series, np.sin(np.pi * wide) / (np.pi * wide))
    near = np.abs(wide) < 1e3  # beyond that pi z is not exact enough
    np.testing.assert_allclose(y[near], expected[near], rtol=2e-4)
    assert jnp.sinc(1e-20j) == 1


@pytest.mark.parametrize(
    "function", [jnp.logaddexp, lambda x, y: lax.cumlogsumexp(jnp.stack([x, y]))[1]]
)
def test_phase_of_logaddexp(function: Any) -> None:
    """The imaginary part is that of a logarithm."""
    rng = np.random.default_rng(0)
    x, y = (
        (rng.normal(size=50) + 40j * rng.normal(size=50)).astype(np.complex64) for _ in range(2)
    )
    expected = np.log(np.exp(x.astype(np.complex128)) + np.exp(y.astype(np.complex128)))
    np.testing.assert_allclose(function(x, y), expected, rtol=1e-4, atol=1e-4)
    assert jnp.logaddexp(-jnp.inf + 1j, -jnp.inf + 2j).real == -jnp.inf
    # And the phase has a derivative: that of the sum.
    grad = jax.grad(lambda x: jnp.logaddexp(x, 1 + 2j).imag)(1 + 30j)
    np.testing.assert_allclose(
        grad, jax.grad(lambda x: jnp.log(jnp.exp(x) + jnp.exp(1 + 2j)).imag)(1 + 30j), rtol=1e-4
    )


def test_fmin_and_fmax_pass_over_nan() -> None:
    nan = np.nan
    x, y = (
        np.complex64([1 + 1j, complex(nan, 1), complex(2, nan), nan, 3]),
        np.complex64([2 + 1j, 1 + 1j, 1 + 1j, nan, nan]),
    )
    np.testing.assert_array_equal(jnp.fmin(x, y), np.fmin(x, y))
    np.testing.assert_array_equal(jnp.fmax(x, y), np.fmax(x, y))


@pytest.mark.parametrize(
    "name",
    ["sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p", "atan", "atanh"],
)
def test_where_float64_is_slow_formulas_are_of_float32(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = getattr(lax, name)
    like = jax.ShapeDtypeStruct((31,), "complex64")
    for platform in ("cuda", "tpu"):
        assert "f64" not in jax.export.export(jax.jit(f), platforms=[platform])(like).mlir_module()
    monkeypatch.setattr(CPU, "fast_float64", False)
    rng = np.random.default_rng(0)
    z = (3 * rng.normal(size=31) + 3j * rng.normal(size=31)).astype(np.complex64)
    z[:4] = 60 + 1j, -60 - 1j, 1e-3 + 1e-4j, 1e-20
    with mpmath.workdps(40):
        right = [complex(getattr(mpmath, name)(complex(x))) for x in z]
    np.testing.assert_allclose(jax.jit(lambda z: f(z))(z), right, rtol=3e-6)
