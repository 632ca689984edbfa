"""Elementary functions of float32 and float64 by series, which loops compute in vectors.

XLA's functions of the CPU are off by 3 to 7 units in the last place, or are functions of C that it
calls for each number. Those here stay below 2.1. Rows of `_elementwise` say for which dtypes they
pay. Coefficients are mpmath's chebyfit.

Muller, Elementary Functions: Algorithms and Implementation (3rd ed., 2016), has the methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer.lax import _arithmetic as ops
from teucer.lax._conversion import bitcast_convert_type_p
from teucer.lax._families import scalar_like
from teucer.lax._formulas.terms import less, plus, quotient, times
from teucer.lax._selection import where_else
from teucer.lax._structure import number

Function = Callable[..., Any]


class Numbers(NamedTuple):
    """The constants of the formulas for a dtype: constants as sums of two, the first of few digits
    in `log_2` and `log10_2`; and coefficients in powers of x, or of x^2, of

    atan: (atan(x) / x - 1) / x^2 for |x| <= tan(pi / 8)
    asin: (asin(x) / x - 1) / x^2 for |x| <= 1/2
    atanh: 2 (atanh(x) / x - 1) / x^2 for |x| <= 3 - sqrt(8)
    exp: (e^x - 1 - x) / x^2 for |x| <= log(2) / 2
    sinh: (sinh(x) / x - 1) / x^2 for |x| <= 1
    """

    log_2: tuple[float, float]
    log10_2: tuple[float, float]
    half_pi: tuple[float, float]
    per_log_2: tuple[float, float]
    per_log_10: tuple[float, float]
    atan: tuple[float, ...]
    asin: tuple[float, ...]
    atanh: tuple[float, ...]
    exp: tuple[float, ...]
    sinh: tuple[float, ...]


# ((e^(2 x) - 1) / 2 - x) / x^2 for 0 <= x <= log(2) / 2
HALF_GROWN = (
    1.0, 0.6666666666666642, 0.3333333333336212, 0.1333333333204003, 0.04444444474209731,
    0.01269840870780681, 0.0031746364616588607, 0.0007052896001510095, 0.00014170021082841433,
    2.4380565359653987e-05, 5.746262871893263e-06,
)  # fmt: skip


FLOAT32 = Numbers(
    log_2=(0.693145751953125, 1.4286068203094173e-06),
    log10_2=(0.301025390625, 4.605038981195214e-06),
    half_pi=(1.5707963705062866, -4.371138828673793e-08),
    per_log_2=(1.4426950216293335, 1.925963033500011e-08),
    per_log_10=(0.4342944920063019, -1.0103049952192578e-08),
    atan=(
        -0.3333333176116852,
        0.19999540483648964,
        -0.1426395559798464,
        0.10743731490791084,
        -0.06451928208121749,
    ),
    asin=(
        0.16666672414795305,
        0.07498855072600821,
        0.04500138006991017,
        0.026554542206161328,
        0.038085023561092654,
    ),
    atanh=(0.6666668503957586, 0.3998878056602198, 0.2957994939197279),
    exp=(
        0.5,
        0.16666576989698775,
        0.041666554617204574,
        0.008363179052722578,
        0.0013926183587713494,
    ),
    sinh=(0.16666666646842135, 0.00833333967591706, 0.00019838101968683888, 2.8062802582276946e-06),
)
FLOAT64 = Numbers(
    log_2=(0.6931471805592082, 7.371002565167799e-13),
    log10_2=(0.30102999566361177, 3.694239077158931e-13),
    half_pi=(1.5707963267948966, 6.123233995736766e-17),
    per_log_2=(1.4426950408889634, 2.0355273740931033e-17),
    per_log_10=(0.4342944819032518, 1.098319650216765e-17),
    atan=(
        -0.3333333333333333,
        0.1999999999999552,
        -0.14285714284666542,
        0.11111111015256361,
        -0.09090904578123903,
        0.07692183190826087,
        -0.06664511447381948,
        0.0585814891280221,
        -0.0508544973794026,
        0.03923165829558719,
        -0.01917688711906226,
    ),
    asin=(
        0.16666666666666669,
        0.07499999999998433,
        0.04464285714635543,
        0.030381944138531247,
        0.02237217294214989,
        0.017352392720869973,
        0.013971212973552933,
        0.011479177415184906,
        0.01032281435018578,
        0.005457506718640358,
        0.01740087944269402,
        -0.014851887071247204,
        0.028757851367421566,
    ),
    atanh=(
        0.666666666666667,
        0.39999999999899505,
        0.28571428625975487,
        0.2222221113479508,
        0.18182889125261723,
        0.15331721600556042,
        0.14616449685043406,
    ),
    exp=(
        0.5000000000000001,
        0.16666666666666669,
        0.04166666666662413,
        0.008333333333330062,
        0.0013888888917213717,
        0.00019841269863053618,
        2.4801521295954376e-05,
        2.7557268459997064e-06,
        2.7620088445409746e-07,
        2.510038549551032e-08,
    ),
    sinh=(
        0.16666666666666666,
        0.008333333333333299,
        0.00019841269841324198,
        2.7557319191381816e-06,
        2.5052117695907823e-08,
        1.6057679623801638e-10,
        7.746178593018827e-13,
    ),
)


def _numbers(x: Array) -> Numbers:
    return FLOAT64 if typeof(x).dtype == np.float64 else FLOAT32


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Any:
    total: Any = scalar_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = plus(ops.mul(total, x), c)
    return total


# Bits of floats


def _integer(x: Array) -> np.dtype[Any]:
    return np.dtype(f"i{typeof(x).dtype.itemsize}")


def _bits(x: Array) -> Any:
    return bitcast_convert_type_p.call(x, new_dtype=_integer(x))[0]


def _float(bits: Array, like: Array) -> Any:
    return bitcast_convert_type_p.call(bits, new_dtype=typeof(like).dtype)[0]


def _shifter(x: Array) -> float:
    """Whose sum with a small whole number has that number in its last bits."""
    return 1.5 * 2.0 ** dtypes.finfo(typeof(x).dtype).nmant


def _power_of_two(n: Array, more: int) -> Any:
    """2^(n + more) for whole numbers n."""
    info = dtypes.finfo(typeof(n).dtype)
    bits = _bits(plus(n, _shifter(n) + info.maxexp - 1 + more))
    return _float(ops.shift_left(bits, number(info.nmant, _integer(n))), n)


def _with_sign(x: Array, of: Array) -> Any:
    """x >= 0 with the sign of another number."""
    least = number(np.iinfo(_integer(x)).min, _integer(x))
    return _float(ops.bitwise_or(_bits(x), ops.bitwise_and(_bits(of), least)), x)


# Logarithms


class Reduced(NamedTuple):
    """A number 2^power (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) = f - w."""

    power: Any
    f: Any
    w: Any


def _power(x: Array) -> tuple[Any, Any]:
    """k and x / 2^k in [sqrt(1/2), sqrt(2)) for x > 0; k as an integer."""
    dtype = typeof(x).dtype
    bits, digits = _bits(x), number(dtypes.finfo(dtype).nmant, _integer(x))
    least = number(np.asarray(math.sqrt(0.5), dtype).view(_integer(x)), _integer(x))
    power = ops.shift_right_arithmetic(ops.sub(bits, least), digits)
    return power, _float(ops.sub(bits, ops.shift_left(power, digits)), x)


def _as_float(k: Array, like: Array) -> Any:
    """A small whole number as a float. Not all processors convert 64-bit integers in vectors."""
    dtype, integer = typeof(like).dtype, _integer(like)
    shifter = np.asarray(_shifter(like), dtype)
    bits = number(shifter.view(integer), integer)
    return ops.sub(_float(ops.add(k, bits), like), number(shifter, dtype))


def _reduced(power: Array, f: Array) -> Reduced:
    """Method: log(1 + f) = 2 atanh(s) with s = f / (2 + f), in which 2 s is f less terms of f^2."""
    half, s = times(0.5, ops.square(f)), quotient(f, plus(f, 2))
    s2 = ops.square(s)
    series = ops.mul(s2, _polynomial(s2, _numbers(f).atanh))
    return Reduced(_as_float(power, f), f, ops.sub(half, ops.mul(s, ops.add(half, series))))


def _log_special(x: Array, result: Array) -> Any:
    """The logarithm of x where it is one of a positive finite number, else of 0, infinity or
    others."""
    zero, infinity = scalar_like(x, 0), scalar_like(x, np.inf)
    other = where_else(ops.eq(x, zero), scalar_like(x, -np.inf), scalar_like(x, np.nan))
    return where_else(ops.gt(x, zero), where_else(ops.lt(x, infinity), result, x), other)


def log2(x: Array) -> Any:
    power, m = _power(x)
    k, f, w = _reduced(power, plus(m, -1))
    scale, rest = _numbers(x).per_log_2
    return _log_special(
        x, ops.add(k, ops.add(times(scale, f), ops.sub(times(rest, f), times(scale, w))))
    )


def log10(x: Array) -> Any:
    power, m = _power(x)
    k, f, w = _reduced(power, plus(m, -1))
    (scale, rest), (high, low) = _numbers(x).per_log_10, _numbers(x).log10_2
    small = ops.add(ops.sub(times(rest, f), times(scale, w)), times(low, k))
    return _log_special(x, ops.add(times(high, k), ops.add(times(scale, f), small)))


def log1p(x: Array) -> Any:
    return _log_of_sum(x, None)


def _log_of_sum(x: Array, rest: Any, doubled: Any = None) -> Any:
    """log(1 + x + rest), twice 1 + x where `doubled`. rest: small beside the last digit of x."""
    # No operand of these sums is a constant, else XLA would take (1 + x) - 1 for x.
    one = scalar_like(x, 1)
    greater, lesser = ops.max(x, one), ops.min(x, one)
    total = ops.add(greater, lesser)
    lost = ops.sub(lesser, ops.sub(total, greater))
    if rest is not None:
        lost = ops.add(lost, rest)
    power, m = _power(total)
    info, integer = dtypes.finfo(typeof(x).dtype), _integer(x)
    # 2^-power, or 0 where `lost` does not matter
    inverse = ops.sub(
        number(info.maxexp - 1, integer), ops.min(power, number(info.maxexp - 1, integer))
    )
    scale = _float(ops.shift_left(inverse, number(info.nmant, integer)), x)
    same = ops.eq(power, number(0, integer))
    f = where_else(same, x, ops.add(plus(m, -1), ops.mul(lost, scale)))
    if doubled is not None:
        power = where_else(doubled, ops.add(power, number(1, integer)), power)
    k, f, w = _reduced(power, f)
    high, low = _numbers(x).log_2
    if rest is not None:
        w = where_else(same, ops.sub(w, rest), w)
    small = ops.sub(f, ops.sub(w, times(low, k)))
    return _log_special(total, where_else(same, small, ops.add(times(high, k), small)))  # -0 of -0


# Cube roots

# 1 / cbrt(m) in powers of m for sqrt(1/2) <= m <= sqrt(2), to 2e-4.
PER_CUBE_ROOT = (
    1.8703346450078002,
    -1.845190787795483,
    1.5369933614033604,
    -0.6869060714891523,
    0.12474055895636721,
)
# (1 - h)^(-1/3) in powers of h, after the first.
MINUS_THIRD = (1 / 3, 2 / 9)


def cbrt(x: Array) -> Any:
    """x = 2^(3 q) m; the reciprocal of the root of m by one step of high order, without a division;
    then one of Newton's on the root."""
    a = ops.abs(x)
    power, m = _power(a)
    k = _as_float(power, a)
    q = ops.round(times(1 / 3, k), ops.RoundingMethod.TO_NEAREST_EVEN)
    rest = ops.sub(k, times(3, q))
    none, below = ops.eq(rest, scalar_like(a, 0)), ops.lt(rest, scalar_like(a, 0))

    def of_rest(base: float) -> Any:
        high, low = (scalar_like(a, v) for v in (base, 1 / base))
        return where_else(none, scalar_like(a, 1), where_else(below, low, high))

    first = ops.mul(_polynomial(m, PER_CUBE_ROOT), of_rest(2 ** (-1 / 3)))
    m = ops.mul(m, of_rest(2.0))
    h = less(1, ops.mul(ops.mul(m, first), ops.square(first)))
    terms = MINUS_THIRD if typeof(x).dtype == np.float64 else MINUS_THIRD[:1]
    inverse = ops.add(first, ops.mul(first, ops.mul(h, _polynomial(h, terms))))
    slope = ops.square(inverse)
    root = ops.mul(m, slope)
    lost = ops.sub(m, ops.mul(root, ops.square(root)))
    root = ops.add(root, ops.mul(lost, times(1 / 3, slope)))
    special = ops.bitwise_or(
        ops.eq(a, scalar_like(a, 0)), ops.bitwise_not(ops.lt(a, scalar_like(a, np.inf)))
    )
    return where_else(special, x, _with_sign(ops.mul(root, _power_of_two(q, 0)), x))


# Inverse hyperbolic functions

# Beyond, 1 does not count beside a square.
LARGE = 2.0**54


def asinh(sqrt: Function, x: Array) -> Any:
    a = ops.abs(x)
    a2, large = ops.square(a), ops.gt(a, scalar_like(a, LARGE))
    part = quotient(a2, plus(sqrt(plus(a2, 1)), 1))
    total = where_else(large, a, ops.add(a, part))
    rest = where_else(large, scalar_like(a, 0), ops.sub(part, ops.sub(total, a)))
    return _with_sign(_log_of_sum(total, rest, large), x)


def acosh(sqrt: Function, x: Array) -> Any:
    large, v = ops.gt(x, scalar_like(x, LARGE)), plus(x, -1)
    root = sqrt(ops.add(times(2, v), ops.square(v)))  # compilers round this sum once
    total = where_else(large, x, ops.add(root, v))
    rest = where_else(large, scalar_like(x, 0), ops.sub(v, ops.sub(total, root)))
    return where_else(
        ops.lt(x, scalar_like(x, 1)), scalar_like(x, np.nan), _log_of_sum(total, rest, large)
    )


def atanh(x: Array) -> Any:
    """Half the logarithm of 1 + 2 |x| / (1 - |x|)."""
    a = ops.abs(x)
    below = less(1, a)
    lost = ops.sub(ops.sub(ops.max(a, scalar_like(a, 1)), below), a)  # 1 is no constant, as above
    ratio = quotient(times(2, a), below)
    rest = ops.neg(ops.mul(ops.mul(ratio, lost), plus(times(0.5, ratio), 1)))
    return _with_sign(times(0.5, _log_of_sum(ratio, rest)), x)


# Inverse trigonometric functions


def atan(x: Array) -> Any:
    """By the angle from 0, pi / 4 or pi / 2, whichever is nearest."""
    a = ops.abs(x)
    one, zero = scalar_like(a, 1), scalar_like(a, 0)
    far = ops.gt(a, scalar_like(a, math.tan(3 * math.pi / 8)))
    middle = ops.gt(a, scalar_like(a, math.tan(math.pi / 8)))
    z = quotient(
        where_else(far, ops.neg(one), where_else(middle, plus(a, -1), a)),
        where_else(far, a, where_else(middle, plus(a, 1), one)),
    )
    high, low = (
        where_else(far, scalar_like(a, part), where_else(middle, scalar_like(a, part / 2), zero))
        for part in _numbers(x).half_pi
    )
    z2 = ops.square(z)
    rest = ops.mul(z, ops.mul(z2, _polynomial(z2, _numbers(x).atan)))
    return _with_sign(ops.add(high, ops.add(z, ops.add(rest, low))), x)


def _arc(sqrt: Function, a: Array) -> tuple[Any, Any, Any]:
    """Whether a <= 1/2; a number z, and asin(z) - z: z is a there, else sqrt((1 - a) / 2)."""
    near = ops.lt(a, scalar_like(a, 0.5))
    z2 = where_else(near, ops.square(a), times(0.5, less(1, a)))
    z = where_else(near, a, sqrt(z2))
    return near, z, ops.mul(z, ops.mul(z2, _polynomial(z2, _numbers(a).asin)))


def asin(sqrt: Function, x: Array) -> Any:
    near, z, rest = _arc(sqrt, ops.abs(x))
    high, low = _numbers(x).half_pi
    return _with_sign(
        where_else(
            near, ops.add(z, rest), less(high, ops.add(times(2, z), plus(times(2, rest), -low)))
        ),
        x,
    )


def acos(sqrt: Function, x: Array) -> Any:
    near, z, rest = _arc(sqrt, ops.abs(x))
    high, low = _numbers(x).half_pi
    negative = ops.lt(x, scalar_like(x, 0))
    z, rest = (where_else(negative, ops.neg(part), part) for part in (z, rest))
    twice = ops.add(times(2, z), times(2, rest))
    return where_else(
        near,
        less(high, ops.add(z, plus(rest, -low))),
        where_else(negative, plus(plus(twice, 2 * low), 2 * high), twice),
    )


# Hyperbolic functions


def _exponential(x: Array) -> tuple[Any, Any]:
    """n and p with e^x = 2^n (1 + p), where n is a whole number and |p| < 1/2."""
    n = ops.round(times(1 / math.log(2), x), ops.RoundingMethod.TO_NEAREST_EVEN)
    high, low = _numbers(x).log_2
    r = ops.sub(ops.sub(x, times(high, n)), times(low, n))
    return n, ops.add(r, ops.mul(ops.square(r), _polynomial(r, _numbers(x).exp)))


def _quarter_power(x: Array) -> Any:
    """e^|x| / 4, which is finite where half of it is."""
    most = (dtypes.finfo(typeof(x).dtype).maxexp + 1) * math.log(2) + 0.003
    n, p = _exponential(ops.min(ops.abs(x), scalar_like(x, most)))
    power = _power_of_two(n, -2)
    return ops.add(power, ops.mul(power, p))


def sinh(x: Array) -> Any:
    a, power = ops.abs(x), _quarter_power(x)
    far = times(2, ops.sub(power, ops.div(scalar_like(x, 1 / 16), power)))
    x2 = ops.square(x)
    near = ops.add(a, ops.mul(a, ops.mul(x2, _polynomial(x2, _numbers(x).sinh))))
    return _with_sign(where_else(ops.lt(a, scalar_like(a, 1)), near, far), x)


def cosh(x: Array) -> Any:
    power = _quarter_power(x)
    return times(2, ops.add(power, ops.div(scalar_like(x, 1 / 16), power)))


def tanh(x: Array) -> Any:
    """tanh |x| = 1 - 1 / (1 + h) = h - h^2 / (1 + h) with h = (e^(2 |x|) - 1) / 2. x: float64."""
    a = ops.min(ops.abs(x), scalar_like(x, 20))
    n = ops.floor(times(2 / math.log(2), a))
    r = ops.sub(a, times(math.log(2) / 2, n))
    power = _power_of_two(n, 0)
    h = ops.add(
        ops.mul(power, ops.add(r, ops.mul(ops.square(r), _polynomial(r, HALF_GROWN)))),
        plus(times(0.5, power), -0.5),
    )
    one, near = scalar_like(a, 1), ops.lt(a, scalar_like(a, 0.55))
    y = ops.sub(where_else(near, h, one), ops.div(where_else(near, ops.square(h), one), plus(h, 1)))
    return _with_sign(y, x)
