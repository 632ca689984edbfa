"""Arithmetic of arrays with numbers, and series: parts of formulas of special functions."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer.lax._arithmetic import add, div, mul, sub
from teucer.lax._conversion import reduce_precision_p
from teucer.lax._families import scalar_like
from teucer.lax._selection import where_else


def plus(x: ArrayLike, value: float) -> Any:
    """x + value."""
    return add(x, scalar_like(x, value))


def times(value: float, x: Array) -> Any:
    """value x."""
    return mul(scalar_like(x, value), x)


def less(value: float, x: Array) -> Any:
    """value - x."""
    return sub(scalar_like(x, value), x)


def quotient(a: Array, b: Array) -> Any:
    """a / b, for several readers.

    XLA's fusion ends at a division whose result several operations read, but not at rounding, which
    does nothing here.
    """
    info = dtypes.finfo(typeof(a).dtype)
    return reduce_precision_p.call(div(a, b), exponent_bits=info.nexp, mantissa_bits=info.nmant)[0]


def chosen(pred: Array, value: float, x: Array) -> Any:
    """A number where pred, x elsewhere."""
    return where_else(pred, scalar_like(x, value), x)


def chosen_not(pred: Array, x: Array, value: float) -> Any:
    """x where pred, a number elsewhere."""
    return where_else(pred, x, scalar_like(x, value))


def eps_of(x: Array) -> float:
    """The distance from 1 to the next number of x's dtype."""
    return float(dtypes.finfo(typeof(x).dtype).eps)


def chebyshev(x: Array, coefficients: tuple[float, ...]) -> Any:
    """The sum of c_k T_k(x) for x in [-1, 1], in powers of x; as many terms as x's precision
    needs."""
    tolerance = eps_of(x) / 64 * math.fabs(coefficients[0])
    count = next(
        i for i in range(len(coefficients), 0, -1) if math.fabs(coefficients[i - 1]) > tolerance
    )
    powers = _powers(coefficients[:count])
    total: Any = scalar_like(x, powers[-1])
    for c in reversed(powers[:-1]):
        total = plus(mul(total, x), c)
    return total


@functools.cache
def _powers(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """The coefficients of powers of x in a sum of c_k T_k(x), by Clenshaw's recurrence. Exact sums,
    as they cancel."""
    zero = Fraction(0)
    b0, b1 = [zero], [zero]
    for c in reversed(coefficients[1:]):
        b0, b1 = _step(b0, b1, 2, c), b0
    return tuple(float(c) for c in _step(b0, b1, 1, coefficients[0]))


@functools.cache
def chebyshev_slope(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """The coefficients of the derivative of a sum of c_k T_k(x)."""
    slope = [0.0] * (len(coefficients) + 1)
    for k in range(len(coefficients) - 1, 0, -1):
        slope[k - 1] = slope[k + 1] + 2 * k * coefficients[k]
    return (slope[0] / 2, *slope[1:-2])


def _step(b0: list[Fraction], b1: list[Fraction], factor: int, c: float) -> list[Fraction]:
    """factor x b0 - b1 + c."""
    out = [Fraction(0), *(factor * v for v in b0)]
    for i, v in enumerate(b1):
        out[i] -= v
    out[0] += Fraction(c)
    return out
