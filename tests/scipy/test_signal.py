"""scipy.signal against SciPy's."""

import itertools

import numpy as np
import pytest
from scipy import signal as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import signal

R = np.random.default_rng(0)
MODES = pytest.mark.parametrize("mode", ["full", "same", "valid"])


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def numbers(shape, kind):
    x = R.normal(size=shape)
    return (
        x + 1j * R.normal(size=shape)
        if kind == "complex"
        else (3 * x).astype(int)
        if kind == "int"
        else x
    )


@MODES
@pytest.mark.parametrize("f", ["convolve", "correlate"])
@pytest.mark.parametrize(
    "shapes", [((7,), (3,)), ((3,), (4,)), ((5, 4), (2, 3)), ((4, 3, 5), (2, 2, 2)), ((), ())]
)
@pytest.mark.parametrize("kinds", [("real", "real"), ("int", "complex")])
def test_convolutions(mode, f, shapes, kinds):
    x, y = map(numbers, shapes, kinds)
    expected = getattr(reference, f)(x, y, mode)
    for method in ("auto", "direct", "fft")[: 3 if shapes != ((), ()) else 2]:
        close(getattr(signal, f)(x, y, mode, method), expected)


@MODES
@pytest.mark.parametrize("f", ["convolve2d", "correlate2d"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 4), (1, 1)])
def test_two_axes(mode, f, boundary, shape):
    x, y = numbers((5, 6), "complex"), numbers(shape, "complex")
    for fill in (0, 2.5):
        close(
            getattr(signal, f)(x, y, mode, boundary, fill),
            getattr(reference, f)(x, y, mode, boundary, fill),
        )


@MODES
@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        (((5, 4), (2, 3)), None),
        (((5, 4), (2, 4)), 0),
        (((5, 4), (1, 3)), [-1]),
        (((2, 5, 4), (2, 3, 2)), (2, 1)),
        (((), ()), None),
    ],
)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_fftconvolve(mode, shapes, axes, kind):
    x, y = numbers(shapes[0], "real"), numbers(shapes[1], kind)
    close(signal.fftconvolve(x, y, mode, axes), reference.fftconvolve(x, y, mode, axes))


@pytest.mark.parametrize("f", [signal.convolve, signal.correlate])
def test_the_method_says_how_a_convolution_is_computed(f):
    x = np.ones(9)
    for method in ("auto", "direct", "fft"):
        program = str(jax.make_jaxpr(lambda x: f(x, x, method=method))(x))
        assert ("fft[" in program) == (method == "fft") != ("conv_general_dilated[" in program)


def test_convolutions_are_differentiable():
    x, y, ct = numbers(6, "real"), numbers(3, "real"), numbers(8, "real")
    for method in ("direct", "fft"):
        by_x, by_y = jax.grad(lambda x, y: signal.convolve(x, y, method=method) @ ct, (0, 1))(x, y)
        close(by_x, np.correlate(ct, y, "valid"))
        close(by_y, np.correlate(ct, x, "valid"))
        stack = jax.vmap(lambda row: signal.convolve(row, y, method=method))(np.stack([x, -x]))
        close(stack[1], -reference.convolve(x, y))
    assert signal.fftconvolve(np.zeros(0), x).shape == (0,)
    assert signal.convolve(np.float32(x), np.float32(y)).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda x: signal.convolve(x, x, "other"), "mode must be one of"),
        (lambda x: signal.convolve(x, x, method="other"), "expected 'auto', 'fft', or 'direct'"),
        (lambda x: signal.convolve(x, np.ones((2, 2))), "same number of dimensions"),
        (lambda x: signal.convolve(x[:0], x), "zero-size arrays not supported"),
        (
            lambda x: signal.convolve(np.ones((2, 5)), np.ones((5, 2)), "valid"),
            "at least as large as the other",
        ),
        (lambda x: signal.convolve2d(x, x), "only supports 2-dimensional"),
        (lambda x: signal.correlate2d(x, x), "only supports 2-dimensional"),
        (
            lambda x: signal.convolve2d(x[None], x[None], boundary="other"),
            "boundary must be one of",
        ),
        (lambda x: signal.fftconvolve(x, np.ones((2, 2))), "same dimensionality"),
        (
            lambda x: signal.fftconvolve(np.ones((2, 2)), np.ones((2, 3)), axes=0),
            "mapped axes must have same shape",
        ),
        (lambda x: signal.fftconvolve(x, x, axes=[]), "axes cannot be empty"),
        (lambda x: signal.fftconvolve(x, x, axes=1), "axis 1 is out of bounds"),
    ],
)
def test_mistakes_with_convolutions(call, match):
    with pytest.raises(ValueError, match=match):
        call(np.ones(4))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(
    ("type", "bp"),
    [("constant", 0), ("linear", 0), ("linear", 3), ("linear", [2, 5]), ("linear", [0, 1])],
)
def test_detrend(axis, type, bp):
    for kind in ("real", "complex", "int"):
        x = numbers((8, 7), kind)
        close(signal.detrend(x, axis, type, bp), reference.detrend(x, axis, type, bp))


CUTS = [
    {},
    {"nperseg": 16, "noverlap": 4, "nfft": 33, "detrend": "linear"},
    {"window": np.hanning(21), "scaling": "spectrum"},
    {"window": ("kaiser", 3.0), "nperseg": 15, "average": "median", "detrend": False},
    {
        "window": "boxcar",
        "nperseg": 10,
        "return_onesided": False,
        "detrend": lambda x: x - x[..., :1],
    },
]


@pytest.mark.filterwarnings("ignore:.*nperseg.*:UserWarning")
@pytest.mark.parametrize("cut", range(len(CUTS)))
@pytest.mark.parametrize(("kind", "axis"), [("real", -1), ("real", 0), ("complex", -1)])
def test_densities(cut, kind, axis):
    options = dict(CUTS[cut], fs=10.0, axis=axis)
    shape = (2, 60) if axis == -1 else (60, 2)
    x, y = numbers(shape, kind), numbers(shape, kind)
    for ours, theirs in zip(signal.welch(x, **options), reference.welch(x, **options), strict=True):
        close(ours, theirs)
    for ours, theirs in zip(
        signal.csd(x, y, **options), reference.csd(x, y, **options), strict=True
    ):
        close(ours, theirs)
    close(signal.csd(x, None, **options)[1], signal.welch(x, **options)[1])


@pytest.mark.filterwarnings("ignore:.*nperseg.*:UserWarning")
def test_densities_of_other_signals():
    x = numbers(50, "real")
    close(signal.csd(x, x[:30], nperseg=20)[1], reference.csd(x, x[:30], nperseg=20)[1])
    close(signal.welch(x[:5])[1], reference.welch(x[:5])[1])
    assert [v.shape for v in signal.welch(x[:0])] == [(0,), (0,)]
    found = signal.welch(np.float32(x), nperseg=8)
    assert found[1].dtype == np.float32
    close(jax.jit(lambda x: signal.welch(x, nperseg=8)[1])(x), signal.welch(x, nperseg=8)[1])
    slope = jax.grad(lambda x: signal.welch(x, nperseg=8)[1].sum())(x)
    assert np.isfinite(slope).all()


TRANSFORMS = [
    {"nperseg": 16},
    {"nperseg": 15, "noverlap": 10},
    {"window": "boxcar", "nperseg": 8, "noverlap": 0, "boundary": None},
    {"nperseg": 10, "nfft": 16, "return_onesided": False},
    {"nperseg": 12, "boundary": "even"},
    {"nperseg": 12, "boundary": "odd", "padded": False},
    {"nperseg": 11, "boundary": "constant", "detrend": "constant"},
]


@pytest.mark.parametrize("options", TRANSFORMS)
@pytest.mark.parametrize(("kind", "axis"), [("real", -1), ("real", 0), ("complex", 1)])
def test_short_time_transforms(options, kind, axis):
    x = numbers((3, 40, 2) if axis == 1 else (40, 3) if axis == 0 else (3, 40), kind)
    if kind == "complex":
        options = dict(options, return_onesided=False)
    found, expected = (m.stft(x, fs=2.0, axis=axis, **options) for m in (signal, reference))
    for ours, theirs in zip(found, expected, strict=True):
        close(ours, theirs)
    back = {
        key: options[key] for key in options if key in ("nperseg", "noverlap", "nfft", "window")
    }
    back.update(
        input_onesided=options.get("return_onesided", True),
        boundary=options.get("boundary", "zeros") is not None,
    )
    places = {"time_axis": -1, "freq_axis": axis % x.ndim}
    times, values = signal.istft(found[2], fs=2.0, **back, **places)
    close(values, reference.istft(expected[2], fs=2.0, **back, **places)[1])
    close(times, np.arange(values.shape[-1]) / 2.0)  # SciPy gives as many as the first axis is long


@pytest.mark.parametrize(("time_axis", "freq_axis"), list(itertools.permutations(range(3), 2)))
def test_axes_of_the_inverse(time_axis, freq_axis):
    shape = [2, 2, 2]
    shape[time_axis], shape[freq_axis] = 6, 5
    z = numbers(tuple(shape), "complex")
    expected = reference.istft(z, time_axis=time_axis, freq_axis=freq_axis)[1]
    close(signal.istft(z, time_axis=time_axis, freq_axis=freq_axis)[1], expected)


def test_the_inverse_gives_the_signal_back():
    x = numbers(64, "real")
    back = jax.jit(lambda x: signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16)[1])
    close(back(x), x)
    close(jax.jacrev(back)(x), np.eye(64))


def test_a_long_window_is_cut():
    with pytest.warns(UserWarning, match="nperseg=256 is greater than signal length"):
        signal.welch(np.ones(9))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: signal.detrend(x, type="other"), ValueError, "Trend type must be"),
        (lambda x: signal.detrend(x, bp=[2, 9]), ValueError, "Breakpoints must be non-negative"),
        (
            lambda x: signal.detrend(x, overwrite_data=True),
            NotImplementedError,
            "arrays are immutable",
        ),
        (
            lambda x: signal.welch(x, nperseg=4, noverlap=4),
            ValueError,
            "noverlap must be less than nperseg",
        ),
        (lambda x: signal.welch(x, nperseg=0), ValueError, "positive integer"),
        (
            lambda x: signal.welch(x, window=np.ones(3), nperseg=4),
            ValueError,
            "different from length of window",
        ),
        (lambda x: signal.welch(x, window=np.ones(30)), ValueError, "longer than input signal"),
        (lambda x: signal.welch(x, window=np.ones((3, 3))), ValueError, "window must be 1-D"),
        (
            lambda x: signal.welch(x, nperseg=4, nfft=2),
            ValueError,
            "greater than or equal to nperseg",
        ),
        (lambda x: signal.welch(x, nperseg=4, scaling="other"), ValueError, "Unknown scaling"),
        (lambda x: signal.welch(x, nperseg=4, average="other"), ValueError, "average must be"),
        (lambda x: signal.welch(x, nperseg=4, detrend="other"), ValueError, "Trend type must be"),
        (
            lambda x: signal.stft(x, nperseg=4, boundary="other"),
            ValueError,
            "Unknown boundary option 'other'",
        ),
        (lambda x: signal.istft(x), ValueError, "at least 2d"),
        (
            lambda x: signal.istft(np.ones((3, 4)), nperseg=9),
            ValueError,
            "must be longer than nperseg",
        ),
        (
            lambda x: signal.istft(np.ones((3, 4)), time_axis=0, freq_axis=-2),
            ValueError,
            "differing time and frequency axes",
        ),
    ],
)
def test_mistakes_with_spectra(call, error, match):
    with pytest.raises(error, match=match):
        call(jnp.ones(8))
