"""The modified Bessel functions of orders 0 and 1, whose derivatives are each other's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from teucer._derived.custom_jvp import custom_jvp
from teucer.lax import _elementwise as lax
from teucer.lax._families import scalar_like
from teucer.lax._functions import special

if TYPE_CHECKING:
    from teucer._core.typing import Array, Arrays

# The terms of I1'(x) = sum of (2k + 1) (x / 2)^(2k) / (2 k! (k + 1)!) that matter up to |x| = 1.
_SLOPE = [(2 * k + 1) / (2 * math.factorial(k) * math.factorial(k + 1)) for k in range(10)]


def _rescaled(x: Array, scaled: Array) -> Any:
    """e^|x| times a scaled function, in halves, as the exponential overflows first."""
    half = lax.exp(lax.mul(scalar_like(x, 0.5), lax.abs(x)))
    return lax.mul(half, lax.mul(half, scaled))


@custom_jvp
def bessel_0(x: Array) -> Any:
    """I0(x), for x of a floating dtype."""
    return _rescaled(x, special.bessel_i0e(x))


@bessel_0.defjvp
def _tangent_0(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    return bessel_0(x), lax.mul(t, bessel_1(x))


@custom_jvp
def bessel_1(x: Array) -> Any:
    """I1(x), for x of a floating dtype."""
    return _rescaled(x, special.bessel_i1e(x))


@bessel_1.defjvp
def _tangent_1(primals: Arrays, tangents: Arrays) -> Any:
    """I0(x) - I1(x) / x, and its series near 0, where terms of its derivatives cancel."""
    (x,), (t,) = primals, tangents
    y = bessel_1(x)
    one = scalar_like(x, 1)
    is_near = lax.lt(lax.abs(x), one)
    near, far = lax.where_else(is_near, x, one), lax.where_else(is_near, one, x)
    square = lax.mul(scalar_like(x, 0.25), lax.mul(near, near))
    series = scalar_like(x, 0)
    for coefficient in reversed(_SLOPE):
        series = lax.add(lax.mul(series, square), scalar_like(x, coefficient))
    # Where I0 overflows both terms do, and so does their difference.
    is_beyond = lax.eq(bessel_0(far), scalar_like(x, math.inf))
    within = lax.where_else(is_beyond, one, far)
    difference = lax.sub(bessel_0(within), lax.div(bessel_1(within), within))
    slope = lax.where_else(is_beyond, bessel_0(far), difference)
    return y, lax.mul(t, lax.where_else(is_near, series, slope))
