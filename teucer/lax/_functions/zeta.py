"""Hurwitz' zeta function where XLA's is not right, and its derivative in the exponent."""

from __future__ import annotations

import math
from fractions import Fraction
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer.lax import _arithmetic as ops
from teucer.lax import _structure
from teucer.lax._elementwise import exp, log
from teucer.lax._families import scalar_like
from teucer.lax._selection import where_else

if TYPE_CHECKING:
    from teucer._core.typing import Array


# Terms of the sum that are added as they are, and Bernoulli numbers B2, B4, ... of the rest: exact
# in float64 for q > 0.
_DIRECT = 12
_BERNOULLI = [
    Fraction(b)
    for b in ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798")
]


def zeta_places(q: Array) -> tuple[Any, Any, Any]:
    """Three arguments for `zeta_of_parts`. The first is q, or for negative q its fractional part;
    the others are the ends of the part of the sum below."""
    is_below = ops.lt(q, scalar_like(q, 0))
    part = ops.sub(q, ops.floor(q))
    one = scalar_like(q, 1)
    # Exact, as q + 1 is not where q is small.
    mirrored = ops.sub(ops.add(ops.floor(q), one), q)
    safe = where_else(ops.eq(part, scalar_like(q, 0)), scalar_like(q, 0.5), part)
    return (
        where_else(is_below, safe, q),
        where_else(is_below, mirrored, one),
        where_else(is_below, ops.sub(one, q), one),
    )


def zeta_of_parts(x: Array, q: Array, value: Array, mirrored: Array, beyond: Array) -> Any:
    """zeta(x, q) from its values at the three `zeta_places`. For negative q: the sum from the first
    place on, and the terms below as a difference of two sums."""
    one, zero, inf = (scalar_like(x, v) for v in (1, 0, math.inf))
    half, is_below = ops.mul(x, scalar_like(x, 0.5)), ops.lt(q, zero)
    before = ops.sub(mirrored, beyond)
    before = where_else(ops.eq(half, ops.floor(half)), before, ops.neg(before))
    value = where_else(is_below, ops.add(value, before), value)
    # Of large q the sum is an integral, and half of the first term.  DLMF 25.11.43.
    is_large = ops.bitwise_and(ops.gt(q, scalar_like(q, 1e8)), ops.gt(x, one))
    far, s = (
        where_else(is_large, q, scalar_like(q, 1e8)),
        where_else(is_large, x, scalar_like(x, 2)),
    )
    power = exp(ops.mul(ops.sub(one, s), log(far)))
    large = ops.mul(
        power, ops.add(ops.div(one, ops.sub(s, one)), ops.div(scalar_like(q, 0.5), far))
    )
    value = where_else(is_large, large, value)
    # Of large x the sum is its largest term.
    is_steep = ops.gt(x, scalar_like(x, 1e6))
    nearest = where_else(is_below, scalar_like(q, 0.5), q)
    steep = exp(ops.neg(ops.mul(where_else(is_steep, x, one), log(nearest))))
    value = where_else(is_steep, where_else(ops.eq(nearest, one), one, steep), value)
    value = where_else(ops.eq(q, inf), zero, value)
    is_whole = ops.eq(x, ops.floor(x))
    value = where_else(
        ops.bitwise_and(is_below, ops.bitwise_not(is_whole)), scalar_like(x, math.nan), value
    )
    is_pole = ops.bitwise_or(
        ops.bitwise_and(ops.le(q, zero), ops.eq(q, ops.floor(q))), ops.eq(x, one)
    )
    value = where_else(is_pole, inf, value)
    is_nan = ops.bitwise_or(ops.lt(x, one), ops.bitwise_or(ops.ne(x, x), ops.ne(q, q)))
    return where_else(is_nan, scalar_like(x, math.nan), value)


def zeta_slope(x: Array, q: Array) -> Any:
    """The derivative of zeta(x, q) in x: minus the sum of log(q + k) (q + k)^-x.

    Method: the sum's first terms, and of the others the Euler-Maclaurin formula, differentiated.
    NIST DLMF 25.11.28.
    """
    dtype = typeof(x).dtype
    if dtype.itemsize < 4:
        wide = (_structure.convert_element_type(v, np.float32) for v in (x, q))
        return _structure.convert_element_type(zeta_slope(*wide), dtype)
    zero = scalar_like(x, 0)
    out: Any = zero
    for k in range(_DIRECT):
        place = log(ops.add(q, scalar_like(q, k)))
        out = ops.sub(out, ops.mul(place, exp(ops.neg(ops.mul(x, place)))))
    end = ops.add(q, scalar_like(q, _DIRECT))
    place, less = log(end), ops.sub(x, scalar_like(x, 1))
    last = exp(ops.neg(ops.mul(x, place)))
    # The integral end^(1 - x) / (x - 1), and half of the first term that was left out.
    inverse = ops.div(scalar_like(x, 1), less)
    out = ops.sub(out, ops.mul(ops.mul(end, last), ops.mul(inverse, ops.add(place, inverse))))
    out = ops.sub(out, ops.mul(scalar_like(x, 0.5), ops.mul(place, last)))
    # B2j / (2j)! x (x + 1) ... (x + 2j - 2) end^(-x - 2j + 1): the product, and its derivative.
    rising, slope, power, step = x, scalar_like(x, 1), ops.div(last, end), ops.square(end)
    for j, number in enumerate(_BERNOULLI, 1):
        weight = scalar_like(x, float(number / factorial(2 * j)))
        out = ops.add(out, ops.mul(weight, ops.mul(power, ops.sub(slope, ops.mul(rising, place)))))
        for i in (2 * j - 1, 2 * j):
            factor = ops.add(x, scalar_like(x, i))
            rising, slope = ops.mul(rising, factor), ops.add(ops.mul(slope, factor), rising)
        power = ops.div(power, step)
    return out
