"""Arguments at the edges of what they may be: results against NumPy, refusals by their texts."""

import numpy as np
import pytest

import teucer as jax
from teucer import numpy as jnp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "y, dx, axis",
    [
        ((3, 5), (), 0),
        ((3, 5), (4,), 1),
        ((3, 5), (2, 5), 0),
        ((3, 5), (5,), 0),
        ((3, 4, 5), (3, 5), 1),
        ((3, 5), (2, 1), 0),
        ((2, 3, 4), (3,), -1),
        ((3,), (4, 2), -1),
    ],
)
def test_trapezoid_of_distances(y, dx, axis):
    y, dx = RNG.normal(size=y), RNG.normal(size=dx)
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"):
        found = jnp.trapezoid(y, dx=dx, axis=axis)
    np.testing.assert_allclose(found, np.trapezoid(y, dx=dx, axis=axis), rtol=1e-12)


@pytest.mark.parametrize(
    "y",
    [
        [np.inf, 1, 2],
        [1, 2, -np.inf],
        [np.inf, 1, -np.inf],
        [1, np.nan, 2],
        [np.nan, 1, 2],
        [3e38, 1, 2],
        [3],
        [True, False, True],
    ],
)
def test_trapezoid_with_a_number_between(y):
    """All elements less half of the ends; where these are infinite, too."""
    with np.errstate(invalid="ignore"):
        expected = np.trapezoid(np.asarray(y, float), dx=0.25)
    for f in (jnp.trapezoid, jax.jit(jnp.trapezoid)):
        np.testing.assert_allclose(f(jnp.array(y), dx=0.25), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "y, x, axis",
    [
        ((3, 5), (3,), 0),
        ((3, 5), (5,), -1),
        ((3, 5), (3, 5), 0),
        ((3, 5), (3, 1), 0),
        ((3, 5), (1, 5), 1),
    ],
)
def test_trapezoid_of_places(y, x, axis):
    y, x = RNG.normal(size=y), RNG.normal(size=x)
    with jax.enable_x64(True):
        found = jnp.trapezoid(y, x, axis=axis)
    np.testing.assert_allclose(found, np.trapezoid(y, x, axis=axis), rtol=1e-12)


def test_gradient_along_one_axis_is_an_array():
    """However the axis is said; along several it is a list."""
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    for axis in (0, (0,), [1], -1):
        np.testing.assert_allclose(jnp.gradient(x, axis=axis), np.gradient(x, axis=axis), rtol=1e-5)
    assert isinstance(jnp.gradient(x), list) and len(jnp.gradient(x)) == 2


@pytest.mark.parametrize("x", [[1, 2, 7], []])
@pytest.mark.parametrize("minlength, length", [(0, 4), (10, 4), (10, 20), (3, 0)])
def test_bincount_has_the_length(x, minlength, length):
    x = np.array(x, np.int32)
    counts = np.bincount(x, minlength=length)[:length]
    np.testing.assert_array_equal(jnp.bincount(x, minlength=minlength, length=length), counts)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis_by_comparison(dtype, axis):
    """One-hot gathering takes what gathering takes, and nothing for places outside."""
    x = jnp.asarray(RNG.integers(0, 5, (3, 4))).astype(dtype)
    places = RNG.integers(-3, 3, (3, 2) if axis else (5, 4))
    found = jnp.take_along_axis(x, places, axis, mode="one_hot")
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, np.take_along_axis(np.asarray(x), places, axis))
    outside = jnp.take_along_axis(x, places + 9, axis, mode="one_hot")
    np.testing.assert_array_equal(outside, jnp.zeros_like(found))


def test_promised_places_are_not_wrapped():
    """Neither wrapped nor converted, unless it is asked for."""
    x, places = jnp.arange(200.0), np.array([1, -1], np.int8)
    take = lambda i, **how: jnp.take_along_axis(x, i, 0, mode="promise_in_bounds", **how)
    assert "i8[2,1]" in str(jax.make_jaxpr(take)(places))
    assert take(places, wrap_negative_indices=True)[1] == 199
    assert jnp.take_along_axis(x, places, 0, wrap_negative_indices=False, fill_value=7)[1] == 7


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
def test_places_keep_their_dtype(dtype):
    at = (np.array([0, 1], dtype), np.array([2, 0], dtype))
    flat = jnp.ravel_multi_index(at, (2, 3))
    assert flat.dtype == dtype and flat.tolist() == [2, 3]
    with jax.numpy_dtype_promotion("strict"):
        back = jnp.unravel_index(flat, (2, 3))
    assert [(b.dtype, b.tolist()) for b in back] == [(dtype, a.tolist()) for a in at]
    sizes = np.array([2, 3])
    for unravel in (jnp.unravel_index, jax.jit(jnp.unravel_index)):
        np.testing.assert_array_equal(unravel(flat, sizes), at)
        np.testing.assert_array_equal(unravel(flat, (2, 3)), at)


@pytest.mark.parametrize(
    "mode",
    [
        "constant",
        "edge",
        "linear_ramp",
        "maximum",
        "mean",
        "median",
        "minimum",
        "reflect",
        "symmetric",
        "wrap",
        "empty",
    ],
)
def test_padding_is_as_weak_as_the_array(mode):
    for weak in (True, False):
        x = jnp.asarray(1.0)[None] if weak else jnp.ones(1)
        assert [jnp.pad(x, width, mode=mode).weak_type for width in (0, 2)] == [weak, weak]


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_tri_of_a_traced_diagonal(k):
    np.testing.assert_array_equal(jax.jit(lambda k: jnp.tri(3, 4, k))(k), np.tri(3, 4, k))


@pytest.mark.parametrize(
    "dtype, how",
    [
        ("float32", {}),
        *(
            pytest.param(dtype, how, marks=pytest.mark.slow)
            for dtype in ("float16", "bfloat16", "float32", "float64")
            for how in ({}, {"period": 1.0}, {"left": "extrapolate"})
        ),
    ],
)
def test_derivatives_of_interp_at_tiny_distances(dtype, how):
    with jax.enable_x64(True):
        x = jnp.exp(jnp.linspace(-300.0 if dtype == "float64" else -90.0, -2, 200)).astype(dtype)
        g = jax.grad(lambda z: jnp.interp(z, z, jnp.ones_like(z), **how).sum())(x)
    assert bool(jnp.isfinite(g).all())


@pytest.mark.parametrize("scale", [1e-36, 1e-20, 1.0, 1e20])
def test_interp_on_any_scale(scale):
    knots, at = np.array([0.0, 1, 3]) * scale, np.linspace(-0.5, 3.5, 9) * scale
    expected = np.interp(at, knots, [1.0, 4, 2])
    np.testing.assert_allclose(jnp.interp(at, knots, np.array([1.0, 4, 2])), expected, rtol=1e-5)


def test_functions_of_piecewise_are_traced_once():
    seen = []

    def f(x):
        seen.append(x)
        return x

    for _ in range(3):
        jnp.piecewise(jnp.arange(4.0), [jnp.arange(4.0) < 2], [f, 0.0])
    assert len(seen) == 1


def test_grids_of_no_axes():
    assert jnp.mgrid[()].shape == (0,) and jnp.mgrid[()].dtype == jnp.int32
    assert jnp.ogrid[()] == []
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_allclose(jnp.mgrid[1:6:8j, 2:4], np.mgrid[1:6:8j, 2:4], rtol=1e-6)


@pytest.mark.parametrize(
    "make, error, text",
    [
        (
            lambda: jnp.zeros(2, 3),
            TypeError,
            r"Did you accidentally write `jax.numpy.zeros\(2, 3\)`",
        ),
        (lambda: jnp.arange(2) in jnp.arange(2), ValueError, "query value must be a scalar"),
        (lambda: 1 in jnp.ones((2, 2)), ValueError, "must be one-dimensional"),
        (lambda: "a" in jnp.arange(2), TypeError, "unsupported operand type"),
        (lambda: jnp.size(np.ones((2, 3)), (0, -2)), ValueError, "repeated axis"),
        (
            lambda: jnp.take(np.zeros((2, 0)), 0, axis=1),
            IndexError,
            r"non-empty jnp.take.*\n.*\[2,0\], axis: 1",
        ),
        (lambda: jnp.r_["what", 1], ValueError, "could not understand directive 'what'"),
        (
            lambda: jnp.ravel_multi_index((np.int8(1), np.int8(2)), (12, 12)),
            ValueError,
            "int8.*not large enough",
        ),
        (
            lambda: jnp.interp(0.0, np.arange(3.0), np.arange(3.0), period=np.ones(1)),
            ValueError,
            "period must be a scalar",
        ),
        (
            lambda: jnp.cov(np.ones(3), dtype=np.int32),
            ValueError,
            "cov: dtype must be a subclass of float or complex",
        ),
        (
            lambda: jnp.corrcoef(np.ones(3), dtype=np.int32),
            ValueError,
            "corrcoef: dtype must be a subclass",
        ),
        (
            lambda: jnp.array(1, None, True, copy=False),
            TypeError,
            "multiple values for argument 'copy'",
        ),
        (
            lambda: jnp.array(1, None, True, "K", 0, 1),
            TypeError,
            "at most 5 positional arguments but 6",
        ),
    ],
)
def test_refusals(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_complex_numbers_become_real_with_a_warning():
    with pytest.warns(DeprecationWarning, match="Casting from complex to real"):
        assert jnp.array([2 + 1j]).astype(np.float32)[0] == 2
    assert jnp.array([2 + 1j, 0]).astype(bool).tolist() == [True, False]


@pytest.mark.parametrize("name", ["mgrid", "ogrid", "r_", "c_"])
def test_slices_of_traced_numbers_are_refused(name):
    with pytest.raises(jax.errors.ConcretizationTypeError, match=f"slice stop of jnp.{name}"):
        jax.jit(lambda n: getattr(jnp, name)[0:n])(2)


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_divisors_of_the_least_integer(dtype):
    x, y = np.array([np.iinfo(dtype).min, -6, 0], dtype), np.array([6, 4, 0], dtype)
    for a, b in [(x, y), (y, x)]:
        np.testing.assert_array_equal(jnp.gcd(a, b), [2, 2, 0])


def test_histogram_of_nothing():
    counts, edges = jnp.histogram(np.zeros(0, np.float32))
    wanted, places = np.histogram(np.zeros(0))
    np.testing.assert_array_equal(counts, wanted)
    np.testing.assert_allclose(edges, places, rtol=1e-6)


def test_a_truth_value_of_a_complex_number():
    assert jnp.full_like(np.zeros(2, bool), 1j).tolist() == [True, True]
