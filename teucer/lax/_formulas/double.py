"""Numbers as sums of two, for formulas that would lose digits.

Every product here is exact, so that it does not matter where a compiler fuses it with a sum.
Dekker, Numer. Math. 18 (1971) 224.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer.lax import _arithmetic as ops
from teucer.lax import _structure
from teucer.lax._conversion import bitcast_convert_type_p
from teucer.lax._families import scalar_like
from teucer.lax._formulas.terms import plus, quotient, times
from teucer.lax._structure import number


def _bitcast(x: Array, dtype: np.dtype[Any]) -> Any:
    return bitcast_convert_type_p.call(x, new_dtype=dtype)[0]


def halves(x: Array) -> tuple[Any, Any]:
    """x as the sum of two numbers of half as many digits, so that their products are exact."""
    dtype = typeof(x).dtype
    bits = np.dtype(f"u{dtype.itemsize}")
    unit = 1 << (dtypes.finfo(dtype).nmant // 2 + 1)
    # Round x to half of its digits, so that the rest fits into the other half. In float64, of 53
    # digits, the rest has 26 and a sign.
    rounded = ops.add(_bitcast(x, bits), number(unit // 2, bits))
    high = _bitcast(
        ops.bitwise_and(rounded, number(np.asarray(~np.uint64(unit - 1)).astype(bits), bits)), dtype
    )
    return high, ops.sub(x, high)


def exact_product(x: Array, y: Array) -> tuple[Any, Any]:
    """x y as the sum of two numbers, the first of them exact."""
    (a, b), (c, d) = halves(x), halves(y)
    return ops.mul(a, c), ops.add(ops.add(ops.mul(a, d), ops.mul(b, c)), ops.mul(b, d))


def sum_of_two(x: Array, y: Array) -> tuple[Any, Any]:
    """x + y, and its error; x is no constant, since XLA takes (x + y) - x for y then.

    Knuth, The Art of Computer Programming 2, 4.2.2.
    """
    total = ops.add(x, y)
    other = ops.sub(total, x)
    return total, ops.add(ops.sub(x, ops.sub(total, other)), ops.sub(y, other))


def log_in_two(x: Array) -> tuple[Any, Any]:
    """log x for normal x >= 2 as the sum of two numbers.

    Method: x = 2^k m with m in [sqrt(1/2), sqrt(2)], and log m = 2 atanh(s) with s = (m - 1) / (m +
    1), whose error is known.
    """
    dtype = typeof(x).dtype
    info = dtypes.finfo(dtype)
    integer = np.dtype(f"i{dtype.itemsize}")
    digits, least = (
        number(info.nmant, integer),
        number(np.asarray(math.sqrt(0.5), dtype).view(integer), integer),
    )
    pattern = _bitcast(x, integer)
    power = ops.shift_right_arithmetic(ops.sub(pattern, least), digits)
    f = plus(_bitcast(ops.sub(pattern, ops.shift_left(power, digits)), dtype), -1)
    k = _structure.convert_element_type(power, dtype)
    below = plus(f, 2)
    s = quotient(f, below)
    product, product_rest = exact_product(s, below)
    # The error of f: the rest of s (2 + f), whose sum was rounded too.
    error = ops.div(
        ops.sub(
            ops.sub(ops.sub(f, product), product_rest), ops.mul(s, ops.sub(f, plus(below, -2)))
        ),
        below,
    )
    s2 = ops.square(s)
    terms = 12 if dtype == np.float64 else 6
    tail: Any = scalar_like(x, 2 / (2 * terms + 1))
    for n in range(terms - 1, 0, -1):
        tail = plus(ops.mul(tail, s2), 2 / (2 * n + 1))
    log_2, log_2_rest = _LOG_2[dtype.itemsize]
    whole, part = times(log_2, k), times(2, s)
    high = ops.add(whole, part)
    low = ops.add(times(log_2_rest, k), ops.add(times(2, error), ops.mul(s, ops.mul(s2, tail))))
    return high, ops.add(ops.sub(part, ops.sub(high, whole)), low)


# log 2 in two parts by the size of floats, the first so short that its product with an exponent is
# exact.
_LOG_2 = {
    4: (0.693115234375, 3.1946184945309417e-5),
    8: (0.6931471805598903, 5.4979230187083712e-14),
}
