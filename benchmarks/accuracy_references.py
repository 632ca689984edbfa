"""Functions by mpmath, as long doubles.

The references of `accuracy.py` for float64 and complex128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp

# Where mpmath has no function of that meaning.
REAL: dict[str, Callable[[Any], Any]] = {
    "ncdf": lambda v: mp.erfc(-v / mp.sqrt(2)) / 2,
    "log_ncdf": lambda v: (
        mp.log1p(-mp.erfc(v / mp.sqrt(2)) / 2) if v > -1 else mp.log(mp.erfc(-v / mp.sqrt(2)) / 2)
    ),
    "ncdf_inverse": lambda v: (
        mp.sqrt(2) * mp.erfinv(2 * v - 1) if v > 1e-40 else mp.nan
    ),  # 60 digits tell no more from -1
    "expit": lambda v: 1 / (1 + mp.exp(-v)),
    "logit": lambda v: mp.log(v / (1 - v)),
    "entr": lambda v: -v * mp.log(v),
    "gammaln": lambda v: mp.loggamma(v).real,
    "i0": lambda v: mp.besseli(0, v),
    "i1": lambda v: mp.besseli(1, v),
    "i0e": lambda v: mp.besseli(0, v) * mp.exp(-abs(v)),
    "i1e": lambda v: mp.besseli(1, v) * mp.exp(-abs(v)),
    "spence": lambda v: mp.polylog(2, 1 - v).real,
}
COMPLEX: dict[str, Callable[[Any], Any]] = {
    "expm1": lambda v: mp.exp(v) - 1,
    "log1p": lambda v: mp.log(1 + v),
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
}
PERIODIC = ("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh")
REFUSALS = (ValueError, TypeError, ZeroDivisionError, OverflowError, mp.NoConvergence)


def as_long(y: Any) -> np.longdouble:
    """A number of mpmath as the sum of two float64s."""
    high = float(y)
    return (
        np.longdouble(high) + np.longdouble(float(y - high))
        if np.isfinite(high)
        else np.longdouble(high)
    )


def by_mpmath(name: str, x: np.ndarray) -> np.ndarray:
    """A function of real numbers in 60 digits; nan where mpmath refuses."""
    f = REAL.get(name) or getattr(mp, name)
    out = np.full(x.shape, np.nan, np.longdouble)
    with mp.workdps(60):
        for i, value in enumerate(x.tolist()):
            try:
                out[i] = as_long(mp.mpf(f(mp.mpf(value))))
            except REFUSALS:
                continue
    return out


def complex_by_mpmath(name: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parts of a function of complex numbers, in digits enough for parts of very unlike
    sizes."""
    f = COMPLEX.get(name) or getattr(mp, name)
    parts = np.full((2, z.size), np.nan, np.longdouble)
    with mp.workprec(1400):
        for i, value in enumerate(z.tolist()):
            if name in PERIODIC and not max(abs(value.real), abs(value.imag)) < 1e15:
                continue
            y = f(mp.mpc(value))
            parts[:, i] = as_long(y.real), as_long(y.imag)
    return parts[0], parts[1]


def complex_in_more_digits(name: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parts of a function of complex64, of float64 or long doubles; NumPy's expm1 and log1p
    cancel."""
    a, b = (part.astype(np.longdouble) for part in (z.real, z.imag))
    with np.errstate(all="ignore"):
        if name == "expm1":
            return np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2, np.exp(a) * np.sin(b)
        wide = getattr(np, name)(z.astype(np.complex128))
        if name == "log1p":
            x, y = np.where(
                abs(a) > abs(b), [2 * a, b * b], [b * b, 2 * a]
            )  # a^2 and b^2 are exact
            total = x + y
            excess = total + (a * a + (y - (total - x)))
            near = abs(excess) < 0.5
            return np.where(near, np.log1p(np.where(near, excess, 0)) / 2, wide.real), wide.imag
        return wide.real, wide.imag
