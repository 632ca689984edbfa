"""Error functions, Bessel functions, exponential integrals, the dilogarithm."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._transform.jit import jit
from teucer.lax._functions.gaussian import erf_inv_of
from teucer.numpy._bessel import bessel_0, bessel_1
from teucer.numpy._library import fast
from teucer.scipy._operands import floating, inexact, real, strong

if TYPE_CHECKING:
    from teucer._core.typing import Arrays


@fast
def erf(x: ArrayLike) -> Array:
    """The error function.

    >>> erf(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf(*inexact("erf", x))


@fast
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate where that is small.

    >>> erfc(0.)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.erfc(*inexact("erfc", x))


# Compiled whole, so that no part of it is a result by itself: one is infinite, which jax_debug_infs
# would report.
@custom_jvp
@jit
def _erfinv_single(x: Array) -> Any:
    return erf_inv_of(x)


@_erfinv_single.defjvp
def _erfinv_single_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    y = _erfinv_single(x)
    return y, t * (0.5 * math.sqrt(math.pi) * jnp.exp(jnp.square(y)))


@fast
def erfinv(x: ArrayLike) -> Array:
    """The inverse of `erf`; infinite at -1 and 1, nan beyond.

    >>> erfinv(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact("erfinv", x)
    # That of lax keeps random numbers the same as JAX's, to the bit.
    return _erfinv_single(x) if x.dtype == np.float32 else lax.erf_inv(x)


@fast
def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) i0(x).

    >>> i0e(jnp.array([0., 1.])).shape
    (2,)
    """
    return lax.bessel_i0e(*inexact("i0e", x))


@fast
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    >>> i0(jnp.array([0., 1.])).shape
    (2,)
    """
    return bessel_0(*inexact("i0", x))


@fast
def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) i1(x).

    >>> i1e(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.bessel_i1e(*inexact("i1e", x))


@fast
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    >>> i1(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    return bessel_1(*inexact("i1", x))


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind of orders 0 to v, stacked along a new first axis.

    n_iter: from which order the recurrence starts; it must exceed v and the absolute values of z
    well. Raises ValueError if v is negative or n_iter is not greater than v.

    >>> bessel_jn(0., v=1)
    Array([1., 0.], dtype=float32)

    Method: backward recurrence of the quotients of successive orders. Gautschi, SIAM Review 9
    (1967) 24.
    """
    v, n_iter = operator.index(v), operator.index(n_iter)
    if not 0 <= v < n_iter:
        raise ValueError(
            f"bessel_jn: v must be a natural number below n_iter.\n    v: {v}\n    n_iter: {n_iter}"
        )
    return _bessel_jn(z, v, n_iter)


@fast(static=("v", "n_iter"))
def _bessel_jn(z: ArrayLike, v: int, n_iter: int) -> Any:
    (z,) = inexact("bessel_jn", z)
    is_zero = z == 0
    safe = jnp.where(is_zero, 1, z)

    def step(quotient: Array, k: Any) -> tuple[Array, Array]:
        quotient = 1 / (2 * k / safe - quotient)
        return quotient, quotient

    orders = np.arange(n_iter, 0, -1).astype(z.dtype)
    _, quotients = lax.scan(step, jnp.zeros(z.shape, z.dtype), orders)
    # J_k / J_0. J_0 follows by 1 = J_0 + 2 J_2 + 2 J_4 + ...
    relative = jnp.cumprod(quotients[::-1], axis=0)
    first = 1 / (1 + 2 * jnp.sum(relative[1::2], axis=0))
    values = jnp.concatenate([first[None], first[None] * relative[:v]])
    at_zero = np.eye(1, v + 1).reshape(v + 1, *(1,) * z.ndim)
    return jnp.where(is_zero[None], at_zero.astype(z.dtype), values)


# Exponential integrals


def _fraction(n: Array, x: Array) -> Any:
    """exp(x) E_n(x) for x > 1, by its continued fraction from the end. Abramowitz & Stegun 5.1.22,
    even part."""
    count = 100 if x.dtype == np.float64 else 24

    def step(i: Array, tail: Array) -> Any:
        k = count - i
        return k * (n - 1 + k) / (x + n + 2 * k - tail)

    return 1 / (x + n - lax.fori_loop(0, count, step, jnp.zeros_like(x)))


def _series(n: Array, x: Array) -> Any:
    """E_n(x) for 0 < x <= 1 and n >= 1. Abramowitz & Stegun 5.1.12."""

    def step(m: Array, state: Any) -> Any:
        # term is (-x)^m / m!; the one of m = n - 1 stands apart.
        term, total, apart = state
        gap = m - n + 1
        is_apart = gap == 0
        total = total - jnp.where(is_apart, 0.0, term / jnp.where(is_apart, 1.0, gap))
        apart = jnp.where(is_apart, term, apart)
        return -term * x / (m + 1), total, apart

    _, total, apart = lax.fori_loop(
        0, 24, step, (jnp.ones_like(x), jnp.zeros_like(x), jnp.zeros_like(x))
    )
    return total + apart * (lax.digamma(jnp.maximum(n, 1.0)) - jnp.log(x))


def _expn_value(n: Any, x: Array) -> Any:
    is_large, is_small = x > 1, (x > 0) & (x <= 1)
    large = jnp.where(is_large, x, 2.0)
    y = jnp.where(
        is_large, jnp.exp(-large) * _fraction(n, large), _series(n, jnp.where(is_small, x, 1.0))
    )
    y = jnp.where(x == jnp.inf, 0.0, y)
    y = jnp.where(n == 0, jnp.exp(-x) / x, y)
    at_zero = jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, 1.0), jnp.inf)
    y = jnp.where(x == 0, at_zero, y)
    return jnp.where((x < 0) | (n < 0) | jnp.isnan(x), jnp.nan, y)


@custom_jvp
def _expn(n: Array, x: Array) -> Any:
    return _expn_value(n, x)


@_expn.defjvp
def _expn_jvp(primals: Arrays, tangents: Arrays) -> Any:
    # In n, a natural number, there is no derivative.
    (n, x), (_, t) = primals, tangents
    # E_0(x) = exp(-x) / x, and its derivative is -exp(-x) (1 + 1 / x) / x. A factor says nan below
    # 0, so that further derivatives are nan there, too.
    of_0 = jnp.where(n == 0, x, 1.0)
    domain = jnp.where(of_0 < 0, jnp.nan, 1.0)
    slope = jnp.where(
        n == 0,
        -jnp.exp(-of_0) * (1 + jnp.divide(1, of_0)) / of_0 * domain,
        -_expn(jnp.maximum(n - 1, 0.0), x),
    )
    return _expn(n, x), t * slope


@fast
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral of order n, a natural number: of exp(-x t) / t^n over t from 1 on;
    nan for x < 0.

    >>> expn(2, 0.)
    Array(1., dtype=float32)
    """
    return _expn(*jnp.broadcast_arrays(*strong("expn", n, x)))


@fast
def exp1(x: ArrayLike) -> Array:
    """The exponential integral of order 1: of exp(-t) / t over t from x on; nan for x < 0.

    >>> exp1(0.)
    Array(inf, dtype=float32)
    """
    (x,) = strong("exp1", *real("exp1", x, error=ValueError))
    return _expn(jnp.ones_like(x), x)


def _growing(x: Array) -> Any:
    """Ei(x) for x > 0: by its power series up to 40, asymptotically beyond. Abramowitz & Stegun
    5.1.10, 5.1.51."""
    is_far = x > 40
    near, far = jnp.where(is_far, 1.0, x), jnp.where(is_far, x, 50.0)

    def step(k: ArrayLike, state: Any) -> Any:
        power, total = state
        power = power * near / k
        return power, total + power / k

    _, total = lax.fori_loop(1, 160, step, (jnp.ones_like(x), jnp.zeros_like(x)))

    def far_step(i: Array, tail: Array) -> Any:
        # 1 + (1 / x) (1 + (2 / x) (1 + ...)), from the end: 40 terms fall throughout for x > 40.
        return 1 + tail * (40 - i) / far

    half = jnp.exp(0.5 * far)
    asymptotic = half * (half / far * lax.fori_loop(0, 40, far_step, jnp.ones_like(x)))
    return jnp.where(
        is_far, jnp.where(x == jnp.inf, jnp.inf, asymptotic), np.euler_gamma + jnp.log(near) + total
    )


@custom_jvp
def _expi(x: Array) -> Any:
    positive, negative = jnp.where(x > 0, x, 1.0), jnp.where(x < 0, -x, 1.0)
    falling = -_expn_value(jnp.ones_like(x), negative)
    y = jnp.where(x > 0, _growing(positive), falling)
    return jnp.where(x == 0, -jnp.inf, jnp.where(jnp.isnan(x), x, y))


@_expi.defjvp
def _expi_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    return _expi(x), t * (jnp.exp(x) / x)


@fast
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei(x): the principal value of the integral of exp(t) / t over t up
    to x; -inf at 0.

    >>> expi(0.)
    Array(-inf, dtype=float32)
    """
    return _expi(*strong("expi", *real("expi", x, error=ValueError)))


# The dilogarithm


def _bernoulli_terms(count: int) -> list[float]:
    """B_2k / (2k + 1)! for k = 1, 2, ..."""
    numbers: list[Fraction] = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        numbers.append(
            -sum((math.comb(m + 1, j) * numbers[j] for j in range(m)), Fraction(0)) / (m + 1)
        )
    return [float(numbers[2 * k] / math.factorial(2 * k + 1)) for k in range(1, count + 1)]


_TERMS = _bernoulli_terms(11)


def _dilogarithm_of_log(u: Array) -> Any:
    """Li_2(1 - exp(-u)) for |u| <= log 2. Zagier, "The dilogarithm function", 2007."""
    square = u * u
    total = jnp.zeros_like(u)
    for c in reversed(_TERMS):
        total = (total + c) * square
    return u * (1 - 0.25 * u + total)


@custom_jvp
def _spence(x: Array) -> Any:
    is_low, is_high = x < 0.5, x > 2
    low = jnp.where(is_low & (x > 0), x, 0.25)
    high = jnp.where(is_high, x, 4.0)
    below = math.pi**2 / 6 - jnp.log1p(-low) * jnp.log(low) - _dilogarithm_of_log(-jnp.log1p(-low))
    above = (
        -(math.pi**2) / 6
        - 0.5 * jnp.square(jnp.log(high - 1))
        - _dilogarithm_of_log(jnp.log1p(-1 / high))
    )
    y = jnp.where(
        is_low,
        below,
        jnp.where(
            is_high, above, _dilogarithm_of_log(-jnp.log(jnp.where(is_low | is_high, 1.0, x)))
        ),
    )
    y = jnp.where(x == 0, math.pi**2 / 6, jnp.where(x == jnp.inf, -jnp.inf, y))
    return jnp.where(x < 0, jnp.nan, jnp.where(x == 1, 0.0, y))


@_spence.defjvp
def _spence_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    is_near = jnp.abs(x - 1) < 0.5
    far = jnp.log(x) / jnp.where(is_near, 1.0, 1 - x)
    slope = jnp.where(is_near, -_log1p_ratio(jnp.where(is_near, x - 1, 0.0)), far)
    return _spence(x), t * slope


def _log1p_ratio(u: Array) -> Any:
    """log(1 + u) / u for |u| < 1/2, as 2 artanh(u / (2 + u)) / u: so are its derivatives right."""
    square = jnp.square(u / (2 + u))
    total: Any = jnp.full_like(u, 1 / 37)
    for k in range(17, -1, -1):
        total = total * square + 1 / (2 * k + 1)
    return 2 * total / (2 + u)


@fast
def spence(x: ArrayLike) -> Array:
    """The dilogarithm of 1 - x: the integral of log(t) / (1 - t) over t from 1 to x; nan for x < 0.

    >>> spence(jnp.array([0., 1.])).shape
    (2,)
    """
    return _spence(floating("spence", jnp.asarray(x)))
