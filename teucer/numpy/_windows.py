"""Windows: weights that fall off towards the ends of a sequence."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.typing import Array, ArrayLike
from teucer.lax._elementwise import sqrt
from teucer.numpy._creation import asarray, ones
from teucer.numpy._operands import operand
from teucer.numpy._special import i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _window(M: int, weights: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
    """Weights as a function of the place, from 0 to M - 1, computed in double precision."""
    n = operator.index(int(M))
    if n < 0:
        raise ValueError(f"window: the number of points may not be negative, got {M}.")
    if n <= 1:
        return ones(n)
    return asarray(weights(np.arange(n, dtype=np.float64)), dtypes.canonicalize_dtype(float))


def bartlett(M: int) -> Array:
    """The triangular window of M points, with zeros at the ends.

    >>> bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window(M, lambda k: 1 - np.abs(2 * k / (len(k) - 1) - 1))


def blackman(M: int) -> Array:
    """The Blackman window of M points: 0.42 - 0.5 cos(2 pi k / (M - 1)) + 0.08 cos(4 pi k / (M -
    1)).

    >>> blackman(3).shape
    (3,)
    """
    return _window(
        M,
        lambda k: (
            0.42
            - 0.5 * np.cos(2 * np.pi * k / (len(k) - 1))
            + 0.08 * np.cos(4 * np.pi * k / (len(k) - 1))
        ),
    )


def hamming(M: int) -> Array:
    """The Hamming window of M points: 0.54 - 0.46 cos(2 pi k / (M - 1)).

    >>> hamming(1).tolist()
    [1.0]
    """
    return _window(M, lambda k: 0.54 - 0.46 * np.cos(2 * np.pi * k / (len(k) - 1)))


def hanning(M: int) -> Array:
    """The Hann window of M points: 0.5 - 0.5 cos(2 pi k / (M - 1)).

    >>> hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window(M, lambda k: 0.5 - 0.5 * np.cos(2 * np.pi * k / (len(k) - 1)))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of M points: I0(beta sqrt(1 - (2 k / (M - 1) - 1)^2)) / I0(beta).

    >>> kaiser(3, 0.).tolist()
    [1.0, 1.0, 1.0]
    """
    shape = operand("kaiser", beta)
    squares = _window(M, lambda k: 1 - (2 * k / (len(k) - 1) - 1) ** 2)
    if squares.shape[0] <= 1:
        return squares
    dtype = dtypes.result_type(squares, shape)
    scale = shape.astype(dtype) if shape.dtype != dtype else shape
    return i0(scale * sqrt(squares)) / i0(scale)
