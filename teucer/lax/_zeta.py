"""The derivative of Hurwitz' zeta function in its exponent."""

from __future__ import annotations

from fractions import Fraction
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer.lax import _structure
from teucer.lax._arithmetic import add, div, mul, neg, square, sub
from teucer.lax._elementwise import exp, log
from teucer.lax._families import scalar_like

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["zeta_slope"]

# Terms of the sum that are added as they are, and Bernoulli numbers B2, B4, ... of the rest: exact
# in float64 for q > 0.
_DIRECT = 12
_BERNOULLI = [
    Fraction(b)
    for b in ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798")
]


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
