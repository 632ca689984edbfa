"""The gamma function, its logarithm and the derivative of that, of real numbers.

Formulas in terms of lax.

Below `far_from` arguments are brought to [1, 2) by gamma(x + 1) = x gamma(x), beyond Stirling's
series serves. DLMF 5.5, 5.11.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer.lax import _arithmetic as ops
from teucer.lax._elementwise import exp, log
from teucer.lax._families import scalar_like
from teucer.lax._formulas.double import exact_product, log_in_two
from teucer.lax._formulas.terms import chebyshev, chosen, chosen_not, less, plus, times
from teucer.lax._functions.chebyshev import (
    DIGAMMA_NEAR_1_5,
    DIGAMMA_SLOPE,
    DIGAMMA_ZERO,
    GAMMA_NEAR_1_5,
    LGAMMA_NEAR_1_5,
    SINE_OF_HALF_TURN,
)
from teucer.lax._selection import where_else


def far_from(x: Array) -> float:
    """From where Stirling's series has the precision of x's dtype."""
    return 10.0 if typeof(x).dtype == np.float64 else 3.25


def stirling_rest(a: Array) -> Any:
    """log gamma(a) less Stirling's formula (a - 1/2) log a - a + log(2 pi) / 2.  DLMF 5.11.1."""
    inverse = ops.integer_pow(a, -2)
    total: Any = scalar_like(a, 1 / 156)
    for c in (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = plus(ops.mul(total, inverse), c)
    return ops.div(total, a)


def _start(a: Array) -> Any:
    """The number in [1, 2) that differs from a >= 1 by a whole number; exact."""
    return plus(ops.sub(a, ops.floor(a)), 1)


def _gamma_near(a: Array) -> Any:
    """gamma(a) for 1 <= a < 10: gamma of the start, times a - 1, a - 2, ..., differences that are
    exact."""
    start = _start(a)
    rest = chebyshev(times(2, plus(start, -1.5)), GAMMA_NEAR_1_5)
    value = plus(ops.mul(ops.mul(plus(start, -1), plus(start, -2)), rest), 1)
    for k in range(1, 9):
        value = ops.mul(value, ops.max(plus(a, -k), scalar_like(a, 1)))
    return value


def sine_of_turns(a: Array) -> Any:
    """sin(pi a) but for the sign that it has by the nearest integer; zero at integers. A series:
    loops stay vectorised."""
    return sine_of_half_turn(ops.sub(a, ops.round(a)))


def sine_of_half_turn(r: Array) -> Any:
    """sin(pi r) for r from -1/2 to 1/2."""
    return ops.mul(r, chebyshev(plus(times(8, ops.square(r)), -1), SINE_OF_HALF_TURN))


def is_turned(a: Array) -> Any:
    """Whether the integer nearest to a is odd, and sin(pi a) and cos(pi a) are of the other
    sign."""
    nearest = ops.round(a)
    half = times(0.5, nearest)
    return ops.gt(ops.sub(half, ops.floor(half)), scalar_like(a, 0))


def _stirling_exponent(b: Array) -> tuple[Any, Any]:
    """(b - 1/2) log b - b as the sum of two numbers, since the exponential takes the error of one
    as its relative error."""
    high, low = log_in_two(b)
    p = plus(b, -0.5)
    products, rest = exact_product(p, high)
    total = ops.sub(products, b)
    rest = ops.add(ops.add(ops.sub(ops.sub(products, total), b), rest), ops.mul(p, low))
    whole = ops.add(total, rest)
    return whole, ops.sub(rest, ops.sub(whole, total))


def gamma_of(x: Array) -> Any:
    """gamma(x); 1 / x at zeros, nan at -1, -2, ... and at -inf. Below 0 by reflection, in factors
    that do not overflow."""
    far, one, size = 10, scalar_like(x, 1), ops.abs(x)
    # gamma(x) and 1 / gamma(-x) are infinite from here on.
    a = ops.min(size, scalar_like(x, 190.0 if typeof(x).dtype == np.float64 else 44.0))
    is_small, is_far, is_below = (
        ops.lt(a, one),
        ops.ge(a, scalar_like(a, far)),
        ops.lt(x, scalar_like(x, 0)),
    )
    near = _gamma_near(where_else(is_small, plus(a, 1), chosen(is_far, 1, a)))
    # gamma(b) as a product of two factors.
    high, low = _stirling_exponent(chosen_not(is_far, a, far))
    first = exp(times(0.5, high))
    rest = times(math.sqrt(2 * math.pi), exp(stirling_rest(chosen_not(is_far, a, far))))
    second = ops.mul(first, ops.add(rest, ops.mul(rest, low)))
    above = where_else(is_far, ops.mul(first, second), where_else(is_small, ops.div(near, x), near))
    sine = sine_of_turns(size)
    sine = where_else(is_turned(size), sine, ops.neg(sine))
    reflected = ops.div(scalar_like(x, math.pi), where_else(is_small, sine, ops.mul(sine, size)))
    below = where_else(is_far, ops.div(ops.div(reflected, first), second), ops.div(reflected, near))
    below = chosen(ops.eq(sine, scalar_like(x, 0)), math.nan, below)
    return where_else(is_below, below, above)


def log_gamma(x: Array) -> Any:
    """log |gamma(x)|."""
    a = ops.abs(x)
    far, inf = far_from(x), scalar_like(x, math.inf)
    low, high, end = (scalar_like(x, v) for v in (0.75, 2.25, 3.25))
    is_low, is_far, is_below = (
        ops.lt(a, low),
        ops.ge(a, scalar_like(a, far)),
        ops.lt(x, scalar_like(x, 0)),
    )
    # log gamma has zeros at 1 and 2: near them it is by a series divided by (x - 1) (x - 2), for
    # which elements in (0, 3.25) are brought to [0.75, 2.25]. `factor` is the remaining factor of
    # gamma, whose logarithm is to be added.
    is_above = ops.bitwise_and(ops.gt(a, high), ops.lt(a, end))
    shifted = where_else(is_low, plus(a, 1), where_else(is_above, plus(a, -1), a))
    shifted = chosen_not(ops.lt(a, end), shifted, 1)
    zeros = ops.mul(plus(shifted, -1), plus(shifted, -2))
    near = ops.mul(zeros, chebyshev(times(4 / 3, plus(shifted, -1.5)), LGAMMA_NEAR_1_5))
    factor = where_else(is_above, shifted, scalar_like(x, 1))
    if far > 3.25:
        is_between = ops.bitwise_and(ops.ge(a, end), ops.lt(a, scalar_like(a, far)))
        factor = where_else(is_between, _gamma_near(chosen_not(is_between, a, 2)), factor)
    # Below 0 by reflection: log(pi / (a |sin(pi a)|)) less log gamma(a), or, for small a, less log
    # gamma(1 + a).
    logarithm = log(where_else(ops.bitwise_or(is_far, is_low), a, factor))
    b = chosen_not(is_far, a, far)
    series = plus(
        ops.add(ops.mul(plus(b, -0.5), plus(logarithm, -1)), stirling_rest(b)),
        0.5 * math.log(2 * math.pi) - 0.5,
    )
    above = where_else(
        is_far, series, where_else(is_low, ops.sub(near, logarithm), ops.add(near, logarithm))
    )
    sine = ops.abs(sine_of_turns(a))
    reflected = log(ops.div(scalar_like(x, math.pi), where_else(is_low, sine, ops.mul(sine, a))))
    # Integers far below 0 are poles, too, though `above` overflows.
    below = chosen(
        ops.eq(sine, scalar_like(x, 0)),
        math.inf,
        ops.sub(reflected, where_else(is_low, near, above)),
    )
    # The branches above take nan for a number; infinities and nan are their own values.
    return where_else(ops.lt(a, inf), where_else(is_below, below, above), a)


def digamma_of(x: Array) -> Any:
    """The derivative of log_gamma; -inf at 0, inf at -0, nan at -1, -2, ..."""
    a = ops.abs(x)
    far = far_from(x)
    zero, one = scalar_like(x, 0), scalar_like(x, 1)
    is_small, is_below = ops.lt(a, one), ops.lt(x, zero)
    a_ = where_else(is_small, plus(a, 1), a)
    is_far = ops.ge(a_, scalar_like(x, far))
    # The zero is given in two parts, so that x less it is exact near it; the lesser part counts
    # only there, where the slope is that at the zero.
    root = float(np.asarray(DIGAMMA_ZERO[0], typeof(x).dtype))
    rest = DIGAMMA_ZERO[0] - root + DIGAMMA_ZERO[1]
    c = chosen(is_far, 1, a_)
    start = _start(c)
    near = plus(
        ops.mul(plus(start, -root), chebyshev(times(2, plus(start, -1.5)), DIGAMMA_NEAR_1_5)),
        -rest * DIGAMMA_SLOPE,
    )
    for k in range(1, math.ceil(far) - 1):
        gap = plus(c, -k)
        near = ops.add(near, chosen_not(ops.ge(gap, one), ops.integer_pow(gap, -1), 0))
    b = chosen_not(is_far, a_, far)
    inverse = ops.integer_pow(b, -2)
    total: Any = scalar_like(x, 1 / 12)
    # DLMF 5.11.2
    for term in (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        total = plus(ops.mul(total, inverse), term)
    series = ops.sub(log(b), ops.add(ops.div(scalar_like(x, 0.5), b), ops.mul(total, inverse)))
    value = where_else(is_far, series, near)
    reciprocal = ops.integer_pow(a, -1)
    # The nearest integer of 1/2 may be 1, where the sine has the other sign.
    cosine = sine_of_half_turn(less(0.5, ops.abs(ops.sub(a, ops.round(a)))))
    cotangent = ops.div(times(math.pi, cosine), sine_of_turns(a))
    below = ops.add(where_else(is_small, value, ops.add(value, reciprocal)), cotangent)
    y = where_else(is_below, below, where_else(is_small, ops.sub(value, reciprocal), value))
    is_pole = ops.bitwise_and(ops.eq(a, ops.floor(a)), is_below)
    return where_else(ops.eq(x, zero), ops.neg(ops.div(one, x)), chosen(is_pole, math.nan, y))
