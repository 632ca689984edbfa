"""Discrete Fourier transforms."""

import numpy as np
import pytest

from teucer._base import config
from teucer.lax._fft import FftType, fft

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def x64():
    with config.enable_x64(True):
        yield


def test_fft_types_have_names():
    x = rng.normal(size=4) + 0j
    np.testing.assert_array_equal(fft(x, FftType.IFFT, (4,)), fft(x, "ifft", (4,)))


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        ("float16", "complex64"),
        ("float32", "complex64"),
        ("float64", "complex128"),
        ("int32", "complex64"),
        ("int64", "complex128"),
        ("bool", "complex64"),
    ],
)
def test_fft_of_real_numbers(dtype, out):
    assert fft(np.ones(4, dtype), "fft", (4,)).dtype == out


def test_fft_of_nothing():
    assert fft(np.ones((0, 4), np.complex64), "FFT", (4,)).shape == (0, 4)
    assert fft(np.ones((2, 0), np.complex64), "IFFT", (0,)).shape == (2, 0)
    assert fft(np.ones((2, 3), np.float32), "FFT", ()).dtype == np.complex64


def test_fft_C1():
    with pytest.raises(ValueError, match="rank must be between 1 and 3"):
        fft(np.ones((2, 2, 2, 2)), "FFT", (2, 2, 2, 2))
    with pytest.raises(
        ValueError, match=r"must have at least as many input dimensions as fft_lengths \(4, 5\)"
    ):
        fft(np.ones(5), "FFT", (4, 5))


@pytest.mark.parametrize(
    ("kind", "lengths", "message"),
    [
        (
            "FFT",
            (6,),
            r"FFT input shape \(2, 5\) minor dimensions must be equal to fft_lengths \(6,\)",
        ),
        ("RFFT", (6,), r"RFFT input shape \(2, 5\) minor dimensions must be equal"),
        ("IRFFT", (3, 8), "all except the last fft_length"),
        ("IRFFT", (5,), "IRFFT requires innermost dimension to be compatible"),
        ("IRFFT", (-5,), "IRFFT requires innermost dimension to be compatible"),
    ],
)
def test_fft_C2(kind, lengths, message):
    with pytest.raises(ValueError, match=message):
        fft(np.ones((2, 5)), kind, lengths)


def test_fft_C3_and_its_types():
    with pytest.raises(ValueError, match="only real valued inputs supported for rfft"):
        fft(np.ones(4, complex), "RFFT", (4,))
    with pytest.raises(ValueError, match="RFFT input must be float32 or float64, got float16"):
        fft(np.ones(4, np.float16), "RFFT", (4,))
    with pytest.raises(ValueError, match="Unknown FFT type 'foo'"):
        fft(np.ones(4), "foo", (4,))
    with pytest.raises(TypeError, match="Unknown FFT type value '0'"):
        fft(np.ones(4), 0, (4,))
