"""Parts of error functions and of the normal distribution.

E^-x^2 to its last digits, and erfc(x) without it.
"""

from __future__ import annotations

import math
from typing import Any

from teucer._core.typing import Array
from teucer.lax._arithmetic import abs, add, div, eq, lt, min, mul, neg, square
from teucer.lax._elementwise import exp, log, sqrt
from teucer.lax._families import scalar_like
from teucer.lax._formulas.double import halves
from teucer.lax._formulas.terms import chebyshev, chosen, chosen_not, less, plus, times
from teucer.lax._functions.chebyshev import ERF_INV_FAR, ERF_INV_NEAR, ERF_TO_HALF, SCALED_ERFC
from teucer.lax._selection import where_else


def exp_of_square(x: Array, scale: float) -> Any:
    """e^(-scale x^2) for scale 1 or 1/2. The square is rounded, and the exponential makes its error
    x^2 times as large. So x is split into a part whose square is exact, and the rest."""
    a = min(abs(x), scalar_like(x, 64))  # enough that the result is 0
    high, low = halves(a)
    rest = mul(low, add(a, high))
    # The rest is at most 0.05 where the result counts: a few terms of the series.
    total: Any = scalar_like(x, 1)
    for n in range(5, 0, -1):
        total = plus(mul(times(-scale / n, rest), total), 1)
    return mul(exp(times(-scale, mul(high, high))), total)


def scaled_erfc(x: Array) -> Any:
    """e^(x^2) erfc(x) for x >= 0.

    Method: a Chebyshev series of (1 + 2 x) e^(x^2) erfc(x) in (x - k) / (x + k). Shepherd and
    Laframboise, Math. Comp. 36 (1981) 249.
    """
    t = less(1, div(scalar_like(x, 7.5), plus(x, 3.75)))
    return div(chebyshev(t, SCALED_ERFC), plus(times(2, x), 1))


def erf_near(x: Array) -> Any:
    """erf(x) for |x| <= 1/2."""
    return mul(x, chebyshev(plus(times(8, square(x)), -1), ERF_TO_HALF))


def erfc_of(x: Array) -> Any:
    """erfc(x)."""
    a, half = abs(x), scalar_like(x, 0.5)
    tail = mul(exp_of_square(x, 1.0), scaled_erfc(a))
    far = where_else(lt(x, scalar_like(x, 0)), less(2, tail), tail)
    return where_else(lt(a, half), less(1, erf_near(x)), far)


def erf_inv_of(x: Array) -> Any:
    """The inverse of erf; infinite at -1 and 1, nan beyond.

    Method: series in w = -log(1 - x^2), and in its root where it is large. Giles, GPU Computing
    Gems (2011) 109. Here w uses the factors 1 - x and 1 + x; the first is exact near 1.
    """
    a = abs(x)
    w = neg(log(mul(less(1, a), plus(a, 1))))
    is_near = lt(w, scalar_like(x, 5))
    near = chebyshev(plus(times(0.4, chosen_not(is_near, w, 5)), -1), ERF_INV_NEAR)
    far = chebyshev(times(64 / 129, plus(sqrt(chosen(is_near, 5, w)), -271 / 64)), ERF_INV_FAR)
    return mul(x, chosen(eq(a, scalar_like(x, 1)), math.inf, where_else(is_near, near, far)))
