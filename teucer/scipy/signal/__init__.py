"""Signals, as scipy.signal has them. Names are loaded on first use."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer.scipy.signal._convolutions": (
            "convolve convolve2d correlate correlate2d fftconvolve"
        ),
        "teucer.scipy.signal._spectra": "csd detrend istft stft welch",
    },
)
