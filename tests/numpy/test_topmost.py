"""minmax and top_k of jnp, and polynomial of lax."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp

X = np.random.default_rng(0).integers(-5, 6, (3, 4, 5))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_minmax(axis, keepdims):
    for x in (X, X + 0.5, X > 0):
        low, high = jnp.minmax(x, axis, keepdims=keepdims)
        np.testing.assert_array_equal(low, np.min(x, axis, keepdims=keepdims))
        np.testing.assert_array_equal(high, np.max(x, axis, keepdims=keepdims))
    low, high = jnp.minmax(X, axis, initial=(0, 100), where=X > 1)
    np.testing.assert_array_equal(low, np.min(X, axis, initial=0, where=X > 1))
    assert (high == 100).all()


def test_minmax_of_nan_and_nothing():
    assert np.isnan(jnp.minmax(np.array([1.0, np.nan]))).all()
    assert jnp.minmax(np.zeros(0), initial=3.0) == (3.0, 3.0)
    with pytest.raises(ValueError, match="minmax does not have an identity"):
        jnp.minmax(X, where=X > 0)
    with pytest.raises(ValueError, match="no identity"):
        jnp.minmax(np.zeros(0))
    with pytest.raises(NotImplementedError, match="'out' argument to jnp.minmax"):
        jnp.minmax(X, out=X)
    with pytest.raises(TypeError, match="requires ndarray or scalar arguments"):
        jnp.minmax([1])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool", "float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_top_k(dtype, axis, mode):
    x = (X if dtype[0] != "u" else abs(X)).astype(dtype)
    values, places = jnp.top_k(x, 2, axis=axis, mode=mode)
    order = np.argsort(x, axis=axis, kind="stable")
    if mode == "largest":
        flipped = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = np.flip(x.shape[axis] - 1 - flipped, axis)
    expected = np.take(order, range(2), axis)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))
    assert values.dtype == x.dtype and places.dtype == np.int32
    np.testing.assert_array_equal(
        jax.jit(lambda x: jnp.top_k(x, 2, axis=axis, mode=mode, sorted=False)[1])(x), expected
    )


def test_top_k_of_nan_and_its_gradient():
    x = np.float32([1, np.nan, 3])
    np.testing.assert_array_equal(jnp.top_k(x, 3, mode="smallest")[1], [0, 2, 1])
    np.testing.assert_array_equal(jnp.top_k(x, 3)[1], [1, 2, 0])
    slope = jax.grad(lambda x: jnp.top_k(x, 2, mode="smallest")[0] @ jnp.array([1.0, 2.0]))(
        np.float32([4, 1, 2])
    )
    np.testing.assert_array_equal(slope, [0, 1, 2])
    assert jnp.top_k(x, 0, mode="smallest")[0].shape == (0,)


@pytest.mark.parametrize(
    ("args", "kwargs", "match"),
    [
        ((X, 2), {"mode": "other"}, "mode must be 'largest' or 'smallest'"),
        ((X, 9), {"mode": "smallest"}, "no larger than size along axis"),
        ((X, -1), {"mode": "smallest"}, "must be nonnegative"),
        ((X, 9), {}, "no larger than size along axis"),
        ((X * 1j, 1), {"mode": "smallest"}, "not compatible with complex"),
        ((np.array(3), 1), {}, "out of bounds"),
    ],
)
def test_mistakes_with_top_k(args, kwargs, match):
    with pytest.raises(ValueError, match=match):
        jnp.top_k(*args, **kwargs)


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 20])
def test_polynomial(count):
    rng = np.random.default_rng(count)
    x = rng.uniform(-1, 1, (3, 2)).astype("float32")
    coeffs = list(rng.normal(size=count).astype("float32"))
    expected = np.polynomial.polynomial.polyval(x, coeffs)
    for given in (
        coeffs,
        [float(c) for c in coeffs],
        [np.full((1, 2), c) for c in coeffs],
        jnp.array(coeffs),
    ):
        found = lax.polynomial(x, given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert found.shape == x.shape
    np.testing.assert_allclose(
        lax.polynomial(x, coeffs, unroll=100), expected, rtol=1e-4, atol=1e-5
    )
    slope = jax.vmap(jax.vmap(jax.grad(lambda x: lax.polynomial(x, coeffs))))(x)
    derivative = np.polynomial.polynomial.polyval(x, np.polynomial.polynomial.polyder(coeffs))
    np.testing.assert_allclose(slope, np.broadcast_to(derivative, x.shape), rtol=1e-3, atol=1e-4)


def test_polynomial_of_other_operands():
    assert lax.polynomial(3, [1, 2]) == 7 and lax.polynomial(3, [1, 2]).dtype == np.int32
    assert lax.polynomial(3.0, [1.0, 5.0, 2.0]).weak_type
    assert lax.polynomial(np.ones(2), []).tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="incompatible shapes for broadcasting"):
        lax.polynomial(np.ones(4, "float32"), [np.ones(2, "float32"), np.float32(1)])
