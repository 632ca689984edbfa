"""Convolutions with large kernels, which the CPU's target computes by the Fourier transform."""

import itertools

import numpy as np
import pytest
from sampling import some

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.scipy import signal

RANDOM = np.random.default_rng(7)


def _by_fourier(f, *args):
    return "stablehlo.fft" in jax.jit(f).lower(*args).as_text()


def _convolved(x, y, mode="full"):
    """In float64, as it is written."""
    x, y = (np.asarray(v).astype(np.promote_types(v.dtype, np.float64)) for v in (x, y))
    return np.convolve(x, y, mode)


def _uniform(n, dtype):
    x = RANDOM.uniform(-1, 1, n)
    return (x + 1j * RANDOM.uniform(-1, 1, n) if np.dtype(dtype).kind == "c" else x).astype(dtype)


CASES = [
    *itertools.product(
        [(4000, 700), (700, 4001), (40001, 500)],
        ["float32"],
        ["full", "same", "valid"],
    ),
    *itertools.product(
        [(4000, 701)], ["float64", "complex64", "float16", "bfloat16"], ["full", "valid"]
    ),
]


@pytest.mark.parametrize(("sizes", "dtype", "mode"), some(CASES, 3), ids=str)
def test_large_kernels_are_convolved_by_fourier(sizes, dtype, mode):
    n, k = sizes
    with jax.enable_x64(dtype == "float64"):
        x, y = (
            jnp.asarray(_uniform(m, "complex64" if dtype == "complex64" else "float64"), dtype)
            for m in (n, k)
        )
        assert (mode == "valid" and n == k) or _by_fourier(
            lambda x, y: jnp.convolve(x, y, mode), x, y
        )
        found = np.asarray(jnp.convolve(x, y, mode))
        assert found.dtype == dtype
        expected = _convolved(x, y, mode)
        # The error that the documents state, and the rounding of the result: for complex numbers,
        # of four sums each.
        norms = np.prod([np.linalg.norm(np.asarray(v).astype(expected.dtype)) for v in (x, y)])
        error = 2.0**-48 * norms + float(jnp.finfo(dtype).eps) * (
            norms if dtype == "complex64" else np.abs(expected)
        )
        assert (np.abs(found.astype(expected.dtype) - expected) <= error).all()


def test_small_kernels_and_integers_are_not():
    x, y = jnp.arange(4000), jnp.arange(700)
    assert not _by_fourier(lambda x, y: jnp.convolve(x, y, preferred_element_type=np.int32), x, y)
    assert not _by_fourier(jnp.convolve, _uniform(4000, "float32"), _uniform(20, "float32"))


def test_sums_of_integers_in_floats_are_exact():
    x, y = (RANDOM.integers(-9, 9, n).astype(np.float32) for n in (5000, 800))
    x[1000:2500] = 0
    expected = _convolved(x, y)
    assert (expected == 0).sum() > 500
    np.testing.assert_array_equal(jnp.convolve(x, y), expected)


def test_small_numbers_beside_large_ones():
    # The sums of float32 lose nothing here, and transforms of float32 would.
    x = (_uniform(5000, "float64") * np.logspace(0, -7, 5000)).astype(np.float32)
    y = _uniform(800, "float32")
    np.testing.assert_allclose(jnp.convolve(x, y)[4000:], _convolved(x, y)[4000:], 3e-6, 1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_where_the_kernel_meets_it(bad):
    x, y = _uniform(5000, "float32"), _uniform(800, "float32")
    x[2000] = bad
    found = np.asarray(jnp.convolve(x, y))
    with np.errstate(invalid="ignore"):
        expected = _convolved(x, y)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_array_equal(found[2000:2800], expected[2000:2800].astype(np.float32))
    np.testing.assert_allclose(found[:2000], expected[:2000], 1e-5, 1e-5)


def test_sums_that_overflow_on_the_way():
    x, y = np.full(5000, 3e37, np.float32), np.ones(800, np.float32)
    x[::2] *= -1
    np.testing.assert_allclose(jnp.convolve(x, y)[:8], _convolved(x, y)[:8], 1e-6)
    with jax.enable_x64(True):
        x, y = np.full(5000, 1e300), np.full(800, 1e7)
        assert (np.asarray(jnp.convolve(x, y))[20:-20] == np.inf).all()


def _correlated(x, w, pads, groups=1, batch_groups=1):
    """As `conv_general_dilated` of one axis of space, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (max(pads[0], 0), max(pads[1], 0))))
    x = x[..., max(-pads[0], 0) : x.shape[2] - max(-pads[1], 0)]
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2], 2)
    if batch_groups > 1:
        parts = np.split(windows, batch_groups, 0)
    else:
        parts = np.split(windows, groups, 1)
    kernels = np.split(w.astype(np.float64), groups * batch_groups, 0)
    return np.concatenate(
        [np.einsum("bipk,oik->bop", a, b) for a, b in zip(parts, kernels, strict=True)], 1
    )


PADS = [(0, 0), (300, 300), (0, 299), (450, 10), (-20, 5), (700, -3)]
GROUPS = [
    ((2, 3, 1500), (2, 3, 301), {}),
    ((2, 4, 1500), (6, 2, 301), {"feature_group_count": 2}),
    ((4, 2, 1500), (6, 2, 301), {"batch_group_count": 2}),
    ((1, 3, 1500), (3, 1, 301), {"feature_group_count": 3}),
]


@pytest.mark.parametrize(
    ("lhs", "rhs", "groups", "pads"),
    [*((*GROUPS[0], pads) for pads in PADS), *((*groups, (450, 10)) for groups in GROUPS[1:])],
    ids=str,
)
def test_every_padding_and_group(lhs, rhs, groups, pads):
    x, w = (_uniform(shape, "float32") for shape in (lhs, rhs))

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1,), [pads], **groups)

    assert _by_fourier(f, x, w)
    expected = _correlated(
        x, w, pads, groups.get("feature_group_count", 1), groups.get("batch_group_count", 1)
    )
    np.testing.assert_allclose(f(x, w), expected, 1e-6, 1e-11)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_two_and_three_axes(mode):
    for x, y in [((90, 101), (30, 41)), ((20, 31, 22), (9, 8, 10))]:
        x, y = _uniform(x, "float32"), _uniform(y, "float32")
        assert _by_fourier(lambda x, y: signal.convolve(x, y, mode), x, y)
        reference = pytest.importorskip("scipy.signal").convolve
        expected = reference(x.astype(np.float64), y.astype(np.float64), mode)
        np.testing.assert_allclose(signal.convolve(x, y, mode), expected, 1e-6, 1e-10)


def test_derivatives_and_vmap():
    x, y = _uniform(3000, "float32"), _uniform(600, "float32")
    ct = _uniform(3599, "float32")
    _, pullback = jax.vjp(jnp.convolve, x, y)
    assert _by_fourier(lambda x, y, ct: jax.vjp(jnp.convolve, x, y)[1](ct), x, y, ct)
    of_x, of_y = pullback(jnp.asarray(ct))
    np.testing.assert_allclose(of_x, np.correlate(*map(np.float64, (ct, y)), "valid"), 1e-6, 1e-9)
    np.testing.assert_allclose(of_y, np.correlate(*map(np.float64, (ct, x)), "valid"), 1e-6, 1e-9)
    xs, ys = _uniform((3, 3000), "float32"), _uniform((3, 600), "float32")
    for axes, args in [((0, 0), (xs, ys)), ((0, None), (xs, y)), ((None, 0), (x, ys))]:
        found = jax.vmap(jnp.convolve, axes)(*args)
        each = [
            _convolved(args[0][i] if axes[0] == 0 else x, args[1][i] if axes[1] == 0 else y)
            for i in range(3)
        ]
        np.testing.assert_allclose(found, each, 1e-6, 1e-10)


def test_many_taps_over_an_odd_number_of_places():
    # As a sum of shifted arrays, to an even number of places.
    for n, k in [(1000, 9), (1001, 9), (1001, 127)]:
        x, y = _uniform(n, "float32"), _uniform(k, "float32")
        for mode in ("full", "same", "valid"):
            np.testing.assert_allclose(jnp.convolve(x, y, mode), _convolved(x, y, mode), 1e-5, 1e-5)
