"""References of elementwise operations that are more than a line: rows of the library name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

Function = Callable[..., Any]


def precise(f: Function) -> Function:
    """A function of mpmath on elements of arrays, in 40 digits."""

    def one(*xs: Any) -> Any:
        with mpmath.workdps(40):
            y = mpmath.mpmathify(
                f(*(mpmath.mpmathify(complex(x) if x.dtype.kind == "c" else float(x)) for x in xs))
            )
            parts = [np.longdouble(mpmath.nstr(part, 25)) for part in (y.real, y.imag)]
            return parts[0] if isinstance(y, mpmath.mpf) else parts[0] + 1j * parts[1]

    def on_elements(*xs: Any) -> Any:
        arrays = np.broadcast_arrays(*xs)
        values = [one(*vs) for vs in zip(*(a.ravel() for a in arrays), strict=True)]
        return np.array(
            values, np.clongdouble if arrays[0].dtype.kind == "c" else np.longdouble
        ).reshape(arrays[0].shape)

    return on_elements


def _slope(a: Any, x: Any) -> Any:
    return mpmath.diff(lambda v: mpmath.gammainc(v, 0, x, regularized=True), a)


def _density(a: Any, x: Any) -> Any:
    return mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))


gamma_slope = precise(_slope)
gamma_sample_slope = precise(lambda a, x: -_slope(a, x) / _density(a, x))


def bits(x: Any) -> Any:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def population_count(x: Any) -> Any:
    return np.bitwise_count(bits(x))


def shift_right_logical(x: Any, y: Any) -> Any:
    return np.right_shift(bits(x), bits(y)).view(x.dtype)


def leading_zeros(x: Any) -> Any:
    width = 8 * x.dtype.itemsize
    return np.array([width - int(v).bit_length() for v in bits(x).ravel()]).reshape(x.shape)


def upper_half(x: Any, y: Any) -> Any:
    return ((x.astype(object) * y.astype(object)) >> (8 * x.dtype.itemsize)).astype(x.dtype)


def towards_zero(x: Any, y: Any) -> Any:
    return (
        np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
        if x.dtype.kind == "i"
        else x // y
        if x.dtype.kind == "u"
        else x / y
    )


def angle(x: Any, y: Any) -> Any:
    return (
        np.arctan2(x, y)
        if x.dtype.kind != "c"
        else -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))
    )


def unit(x: Any) -> Any:
    return x / np.abs(x) if x.dtype.kind == "c" else np.sign(x)


def greater(x: Any, y: Any) -> Any:
    is_first = (x.real > y.real) | ((x.real == y.real) & (x.imag > y.imag))
    return np.where(is_first, x, y) if x.dtype.kind == "c" else np.maximum(x, y)


def lesser(x: Any, y: Any) -> Any:
    is_first = (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
    return np.where(is_first, x, y) if x.dtype.kind == "c" else np.minimum(x, y)


def half_away(x: Any, rounding_method: int) -> Any:
    return np.rint(x) if rounding_method else np.sign(x) * np.floor(np.abs(x) + np.longdouble(0.5))


def power_of_two(x: Any) -> Any:
    return np.exp(x * np.log(np.longdouble(2))) if x.dtype.kind == "c" else np.exp2(x)
