"""Sample inputs of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from lax.samples_dot import made
from lax.sampling import Sample

__all__ = ["SAMPLES"]

COMPLEX, REAL = ("complex64",), ("float32",)


def _numpy(name: str) -> Any:
    def reference(x: Any, fft_type: Any, fft_lengths: Any) -> Any:
        return getattr(np.fft, name + "n")(x, fft_lengths, axes=tuple(range(-len(fft_lengths), 0)))
    return reference


def _sample(kind: str, shape: tuple[int, ...], lengths: tuple[int, ...], dtypes: tuple[str, ...]) -> Sample:
    name = f"{kind.lower()}_{'x'.join(map(str, lengths))}"
    return Sample(name, "lax.fft", made(shape, fft_type=kind, fft_lengths=lengths), dtypes, _numpy(kind.lower()), True)


SAMPLES = [
    _sample("FFT", (2, 5), (5,), COMPLEX), _sample("FFT", (2, 3, 4), (2, 3, 4), COMPLEX), _sample("IFFT", (2, 6), (6,), COMPLEX),
    _sample("IFFT", (2, 3, 4), (3, 4), COMPLEX), _sample("RFFT", (2, 5), (5,), REAL), _sample("RFFT", (2, 3, 4), (3, 4), REAL),
    _sample("IRFFT", (2, 3), (5,), COMPLEX), _sample("IRFFT", (2, 3, 3), (3, 4), COMPLEX),
]
