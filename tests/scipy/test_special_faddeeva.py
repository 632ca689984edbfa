"""The Faddeeva function and its kin.

Values are SciPy's, derivatives agree with differences, edges.
"""

import numpy as np
import pytest
from scipy import special as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import special

RANDOM = np.random.default_rng(0)
X = np.concatenate(
    [np.sort(RANDOM.uniform(-9, 9, 300)), [-20.0, 20.0, 1e-5, -1e-5, 50.0, 1.0, 3.0]]
)
# name: (operand, absolute tolerance in eps of values up to about 1, relative tolerance in eps)
CASES = {
    "erfcx": (X[np.abs(X) < 5], 0, 64),
    "dawsn": (X, 0, 48),
    "fresnel": (X[np.abs(X) <= 20], 32, 8),
    "sici": (X, 16, 8),
}


def tuples(y):
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_value(name, dtype):
    x, absolute, relative = CASES[name]
    x, eps = x.astype(dtype), np.finfo(dtype).eps
    if name == "fresnel" and dtype == np.float32:
        absolute *= 4  # the phase is the square of x
    with jax.enable_x64(dtype == np.float64):
        found = tuples(getattr(special, name)(x))
        for y, expected in zip(
            found, tuples(getattr(reference, name)(x.astype(np.float64))), strict=True
        ):
            assert y.dtype == dtype
            np.testing.assert_allclose(y, expected, rtol=relative * eps, atol=absolute * eps)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_wofz(dtype):
    z = (RANDOM.uniform(-9, 9, 400) + 1j * RANDOM.uniform(-2, 9, 400)).astype(dtype)
    with jax.enable_x64(dtype == np.complex128):
        found, expected = np.asarray(special.wofz(z)), reference.wofz(z.astype(np.complex128))
        assert found.dtype == dtype
        # Below the real axis the exponential of the square of z carries its error.
        np.testing.assert_allclose(
            found, expected, rtol=(512 if dtype == np.complex64 else 2048) * np.finfo(dtype).eps
        )
        tangent = jax.jvp(special.wofz, (z,), (np.ones_like(z),))[1]
        np.testing.assert_allclose(
            tangent, 2j / np.sqrt(np.pi) - 2 * z * found, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", CASES)
def test_derivative(name):
    f, x = getattr(special, name), CASES[name][0][3::29]
    with jax.enable_x64(True):
        h = 1e-6
        found = tuples(jax.jvp(f, (x,), (np.ones_like(x),))[1])
        for t, up, down in zip(found, tuples(f(x + h)), tuples(f(x - h)), strict=True):
            np.testing.assert_allclose(t, (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


EDGES = [
    ("erfcx", [0.0, np.inf, np.nan, 1e4, -20.0], [1, 0, np.nan, 5.641896e-5, np.inf]),
    ("dawsn", [0.0, np.nan], [0, np.nan]),
    ("fresnel", [0.0, np.inf, -np.inf, np.nan], ([0, 0.5, -0.5, np.nan], [0, 0.5, -0.5, np.nan])),
    (
        "sici",
        [0.0, np.inf, np.nan, -1.0],
        ([0, np.pi / 2, np.nan, -0.9460831], [-np.inf, 0, np.nan, 0.33740392]),
    ),
]


@pytest.mark.parametrize("name, x, expected", EDGES, ids=[e[0] for e in EDGES])
def test_edges(name, x, expected):
    for found, value in zip(
        tuples(getattr(special, name)(np.asarray(x, np.float32))), tuples(expected), strict=True
    ):
        np.testing.assert_allclose(found, value, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_short_floats_and_python_numbers(name):
    f, expected = getattr(special, name), tuples(getattr(reference, name)(1.5))
    for x, tolerance in ((1.5, 1e-6), (jnp.float16(1.5), 2e-3), (jnp.bfloat16(1.5), 2e-2)):
        np.testing.assert_allclose([float(y) for y in tuples(f(x))], expected, rtol=tolerance)
        assert {y.dtype for y in tuples(f(x))} == {
            jnp.result_type(float if isinstance(x, float) else x)
        }
        slopes = tuples(jax.jacobian(f)(x))
        expected_slopes = tuples(jax.jacobian(f)(np.float32(1.5)))
        np.testing.assert_allclose(
            [float(t) for t in slopes], expected_slopes, rtol=8 * tolerance, atol=tolerance
        )
        np.testing.assert_allclose(
            [float(y) for y in tuples(jax.jit(lambda: f(x))())], expected, rtol=tolerance
        )
