"""Hurwitz' zeta function where XLA's is not right, and its derivative in the exponent."""

from __future__ import annotations

import math
from fractions import Fraction
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer.lax import _structure
from teucer.lax._arithmetic import (
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    div,
    eq,
    floor,
    gt,
    le,
    lt,
    mul,
    ne,
    neg,
    square,
    sub,
)
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
    """The places at which `zeta_of_parts` needs the function: q, or if that is negative its part
    beyond an integer; and those of what is missing of the sum."""
    is_below = lt(q, scalar_like(q, 0))
    part = sub(q, floor(q))
    one = scalar_like(q, 1)
    # Exact, as q + 1 is not where q is small.
    mirrored = sub(add(floor(q), one), q)
    safe = where_else(eq(part, scalar_like(q, 0)), scalar_like(q, 0.5), part)
    return (
        where_else(is_below, safe, q),
        where_else(is_below, mirrored, one),
        where_else(is_below, sub(one, q), one),
    )


def zeta_of_parts(x: Array, q: Array, value: Array, mirrored: Array, beyond: Array) -> Any:
    """zeta(x, q) of three values at `zeta_places`: of negative q the sum from there on, and those
    below it, which are a difference of two sums."""
    one, zero, inf = (scalar_like(x, v) for v in (1, 0, math.inf))
    half, is_below = mul(x, scalar_like(x, 0.5)), lt(q, zero)
    before = sub(mirrored, beyond)
    before = where_else(eq(half, floor(half)), before, neg(before))
    value = where_else(is_below, add(value, before), value)
    # Of large q the sum is an integral, and half of the first term.  DLMF 25.11.43.
    is_large = bitwise_and(gt(q, scalar_like(q, 1e8)), gt(x, one))
    far, s = (
        where_else(is_large, q, scalar_like(q, 1e8)),
        where_else(is_large, x, scalar_like(x, 2)),
    )
    power = exp(mul(sub(one, s), log(far)))
    large = mul(power, add(div(one, sub(s, one)), div(scalar_like(q, 0.5), far)))
    value = where_else(is_large, large, value)
    # Of large x the sum is its largest term.
    is_steep = gt(x, scalar_like(x, 1e6))
    nearest = where_else(is_below, scalar_like(q, 0.5), q)
    steep = exp(neg(mul(where_else(is_steep, x, one), log(nearest))))
    value = where_else(is_steep, where_else(eq(nearest, one), one, steep), value)
    value = where_else(eq(q, inf), zero, value)
    is_whole = eq(x, floor(x))
    value = where_else(
        bitwise_and(is_below, bitwise_not(is_whole)), scalar_like(x, math.nan), value
    )
    is_pole = bitwise_or(bitwise_and(le(q, zero), eq(q, floor(q))), eq(x, one))
    value = where_else(is_pole, inf, value)
    is_nan = bitwise_or(lt(x, one), bitwise_or(ne(x, x), ne(q, q)))
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
        place = log(add(q, scalar_like(q, k)))
        out = sub(out, mul(place, exp(neg(mul(x, place)))))
    end = add(q, scalar_like(q, _DIRECT))
    place, less = log(end), sub(x, scalar_like(x, 1))
    last = exp(neg(mul(x, place)))
    # The integral end^(1 - x) / (x - 1), and half of the first term that was left out.
    inverse = div(scalar_like(x, 1), less)
    out = sub(out, mul(mul(end, last), mul(inverse, add(place, inverse))))
    out = sub(out, mul(scalar_like(x, 0.5), mul(place, last)))
    # B2j / (2j)! x (x + 1) ... (x + 2j - 2) end^(-x - 2j + 1): the product, and its derivative.
    rising, slope, power, step = x, scalar_like(x, 1), div(last, end), square(end)
    for j, number in enumerate(_BERNOULLI, 1):
        weight = scalar_like(x, float(number / factorial(2 * j)))
        out = add(out, mul(weight, mul(power, sub(slope, mul(rising, place)))))
        for i in (2 * j - 1, 2 * j):
            factor = add(x, scalar_like(x, i))
            rising, slope = mul(rising, factor), add(mul(slope, factor), rising)
        power = div(power, step)
    return out
