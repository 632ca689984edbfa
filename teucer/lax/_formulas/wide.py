"""Elementary functions of numbers of float32, in float64 and by series, which loops compute in
vectors.

XLA calls a function of C for each number where float64 has sin, cos or a logarithm, and for atan2
of float32 too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._core.typing import Array
from teucer.lax import _arithmetic as ops
from teucer.lax._conversion import bitcast_convert_type_p
from teucer.lax._families import scalar_like
from teucer.lax._formulas.double import sum_of_two
from teucer.lax._formulas.terms import plus, quotient, times
from teucer.lax._selection import where_else
from teucer.lax._structure import number

INTEGER = np.dtype(np.int64)
# Whose sum with a small whole number has that number in its last bits.
SHIFTER = 1.5 * 2.0**52
# 2 / pi to 202 bits, in numbers of 29 bits or fewer, whose products with numbers of float32 are
# exact.
TWO_OVER_PI = (
    0.6366197727620602, -3.9447882460574846e-10, 2.27601007365953e-18, -5.811337847604232e-28,
    -1.690193429163234e-36, -1.8637519078105754e-44, 3.720474878517739e-53,
)  # fmt: skip
# Products with those that follow are less than a turn.
UNREDUCED = 5
# log 2, the first part so short that its products with exponents are exact.
LOG_2 = (0.6931471803691238, 1.9082149292705877e-10)
EXP = tuple(1 / math.factorial(k) for k in range(1, 13))
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9))
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(1, 9))


# (atan(u) / u - 1) / u^2 for |u| <= tan(pi / 8), and (atanh(u) / u - 1) / u^2 for |u| <= (sqrt 2 -
# 1) / (sqrt 2 + 1), in powers of u^2: errors of 7e-13 and 4e-12, by mpmath's chebyfit.
ATAN = (
    -0.33333333333266196, 0.19999999949854794, -0.142857081103604, 0.11110819716745676,
    -0.09084101895346429, 0.07604800046078292, -0.06027307460946675, 0.03295679541870136,
)  # fmt: skip
ATANH = (
    0.3333333333368754,
    0.19999999398668794,
    0.14285877267957245,
    0.11095700415154251,
    0.09681326857101004,
)


def _bits(x: Array) -> Any:
    return bitcast_convert_type_p.call(x, new_dtype=INTEGER)[0]


def _float(bits: Array) -> Any:
    return bitcast_convert_type_p.call(bits, new_dtype=np.dtype(np.float64))[0]


def _whole(x: Array) -> Any:
    return ops.round(x, ops.RoundingMethod.TO_NEAREST_EVEN)


def _polynomial(x: Array, coefficients: Sequence[float]) -> Any:
    total: Any = scalar_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = plus(ops.mul(total, x), c)
    return total


def exponential(x: Array) -> tuple[Any, Any]:
    """e^x - 1 and e^x, of |x| > 200 as of 200. x: float64 numbers of float32."""
    x = ops.clamp(scalar_like(x, -200), x, scalar_like(x, 200))
    n = _whole(times(1 / math.log(2), x))
    none = ops.eq(n, scalar_like(n, 0))
    r = where_else(
        none, x, ops.sub(ops.sub(x, times(LOG_2[0], n)), times(LOG_2[1], n))
    )  # -0 - -0 is 0
    less = ops.mul(r, _polynomial(r, EXP))
    power = _float(ops.shift_left(_bits(plus(n, SHIFTER + 1023)), number(52, INTEGER)))
    scaled = ops.mul(power, less)
    return where_else(none, less, ops.add(scaled, plus(power, -1))), ops.add(scaled, power)


def turn(x: Array) -> tuple[Any, Any, Any]:
    """sin x, cos x and cos x - 1. x: float64 numbers of float32, of any size.

    Method: x 2 / pi less multiples of 4 in exact products, the parts of x summed without error
    (Payne and Hanek, ACM SIGNUM Newsl. 18 (1983) 19, and Knuth's sum of two numbers).
    """
    bits = _bits(x)
    sign = ops.bitwise_and(bits, number(np.iinfo(np.int64).min, INTEGER))
    size = _float(ops.bitwise_xor(bits, sign))
    total, rest = _quarters(size)
    n = _whole(total)
    r = times(math.pi / 2, ops.add(ops.sub(total, n), rest))
    r2 = ops.square(r)
    sine, cosine_less = (
        ops.add(r, ops.mul(r, ops.mul(r2, _polynomial(r2, SIN)))),
        ops.mul(r2, _polynomial(r2, COS)),
    )
    cosine = plus(cosine_less, 1)
    quarter = _bits(plus(n, SHIFTER))
    odd = _has(quarter, 1)
    sine, cosine = where_else(odd, cosine, sine), where_else(odd, sine, cosine)
    sine = _with_sign(sine, ops.bitwise_xor(sign, _top(quarter)))
    cosine = _with_sign(cosine, _top(ops.add(quarter, number(1, INTEGER))))
    first = ops.eq(ops.bitwise_and(quarter, number(3, INTEGER)), number(0, INTEGER))
    return sine, cosine, where_else(first, cosine_less, plus(cosine, -1))


def _quarters(x: Array) -> tuple[Any, Any]:
    """x 2 / pi less a multiple of 4, as a sum of two numbers."""
    products = [times(part, x) for part in TWO_OVER_PI]
    reduced = [ops.sub(y, times(4, _whole(times(0.25, y)))) for y in products[:UNREDUCED]]
    total, rest = reduced[0], scalar_like(x, 0)
    for y in reduced[1:] + products[UNREDUCED:]:
        total, error = sum_of_two(total, y)
        rest = ops.add(rest, error)
    return total, rest


def log_of_size(x: Array, y: Array, one: float) -> Any:
    """log |x + one + i y|, where one is 0 or 1, also where it is near 0. x, y: float64 numbers of
    float32.

    Method: the square less 1 with its error.
    """
    # Squares are exact. Terms that may cancel come first: 2 x + x^2 near x = -2, and y^2 - 1 or x^2
    # - 1.
    x2, y2 = ops.square(x), ops.square(y)
    first, second, third = (
        (times(2, x), x2, y2) if one else (scalar_like(x, -1), ops.max(x2, y2), ops.min(x2, y2))
    )
    near, error = sum_of_two(second, first)
    excess, last = sum_of_two(near, third)
    result = times(
        0.5, _log(ops.add(excess, ops.add(error, last)), ops.add(ops.square(plus(x, one)), y2))
    )
    return where_else(ops.bitwise_or(_infinite(x), _infinite(y)), scalar_like(x, np.inf), result)


def _log(excess: Array, size: Array) -> Any:
    """log `size` where that is 1 + excess, normal or 0.

    Method: 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)], and log(1 + f) = 2 atanh(s) with s = f /
    (2 + f).
    """
    least, digits = number(np.asarray(math.sqrt(0.5)).view(np.int64), INTEGER), number(52, INTEGER)
    exponent = ops.shift_right_arithmetic(ops.sub(_bits(size), least), digits)
    rest = _float(ops.sub(_bits(size), ops.shift_left(exponent, digits)))
    f = where_else(ops.eq(exponent, number(0, INTEGER)), excess, plus(rest, -1))
    s = quotient(f, plus(f, 2))
    s2 = ops.square(s)
    # A float of a small whole number by its bits, since not all processors convert them in vectors.
    power = plus(
        _float(ops.add(exponent, number(np.asarray(SHIFTER).view(np.int64), INTEGER))), -SHIFTER
    )
    result = ops.add(
        times(math.log(2), power),
        times(2, ops.add(s, ops.mul(s, ops.mul(s2, _polynomial(s2, ATANH))))),
    )
    result = where_else(ops.eq(size, scalar_like(size, 0)), scalar_like(size, -np.inf), result)
    return where_else(ops.lt(size, scalar_like(size, np.inf)), result, size)


def _infinite(x: Array) -> Any:
    return ops.eq(ops.abs(x), scalar_like(x, np.inf))


def atanh_of_parts(a: Array, b: Array) -> tuple[Any, Any]:
    """The parts of atanh(a + i b) for a, b >= 0. a, b: float64 numbers of float32.

    Kahan, Branch cuts for complex elementary functions, in The State of the Art in Numerical
    Analysis (1987).
    """
    less, b2 = ops.sub(scalar_like(a, 1), a), ops.square(b)
    ratio = quotient(times(4, a), ops.add(ops.square(less), b2))
    # Both terms are exact.
    return times(0.25, _log(ratio, plus(ratio, 1))), times(
        0.5, angle(times(2, b), ops.sub(ops.mul(less, plus(a, 1)), b2))
    )


def angle(y: Array, x: Array) -> Any:
    """The angle of the point (x, y), as C99 has atan2. x, y: float64 numbers of float32."""
    zero, one = scalar_like(x, 0), scalar_like(x, 1)
    above, beside = ops.abs(y), ops.abs(x)
    longer, shorter = ops.max(above, beside), ops.min(above, beside)
    both = _infinite(shorter)
    shorter = where_else(both, one, shorter)
    longer = where_else(ops.bitwise_or(both, ops.eq(longer, zero)), one, longer)
    turned = ops.gt(shorter, times(math.tan(math.pi / 8), longer))
    u = quotient(
        where_else(turned, ops.sub(shorter, longer), shorter),
        where_else(turned, ops.add(shorter, longer), longer),
    )
    u2 = ops.square(u)
    result = ops.add(u, ops.mul(u, ops.mul(u2, _polynomial(u2, ATAN))))
    result = where_else(turned, plus(result, math.pi / 4), result)
    result = where_else(ops.gt(above, beside), ops.sub(scalar_like(x, math.pi / 2), result), result)
    result = where_else(
        ops.lt(_bits(x), number(0, INTEGER)), ops.sub(scalar_like(x, math.pi), result), result
    )
    return _with_sign(result, ops.bitwise_and(_bits(y), number(np.iinfo(np.int64).min, INTEGER)))


def _has(x: Array, bit: int) -> Any:
    return ops.ne(ops.bitwise_and(x, number(bit, INTEGER)), number(0, INTEGER))


def _top(x: Array) -> Any:
    """Bit 1 as the sign of a float."""
    return ops.shift_left(ops.bitwise_and(x, number(2, INTEGER)), number(62, INTEGER))


def _with_sign(x: Array, sign: Array) -> Any:
    return _float(ops.bitwise_xor(_bits(x), sign))
