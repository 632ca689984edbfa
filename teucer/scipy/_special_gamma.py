"""The gamma function and related functions: factorials, beta functions, polygamma, zeta."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer.lax._functions.gamma import gamma_of, stirling_rest
from teucer.lax._structure import convert_element_type
from teucer.numpy._library import fast
from teucer.scipy._operands import inexact, real, strong

if TYPE_CHECKING:
    from teucer._core.typing import Arrays


@fast
def gammaln(x: ArrayLike) -> Array:
    """log(|gamma(x)|); inf at 0, -1, -2, ...

    >>> gammaln(1.)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.lgamma(*inexact("gammaln", x))


def _stirling_series(z: Array) -> Any:
    """log(gamma(z)) for Re z >= 1/2: Stirling's formula at z + 14, less the logarithms of z, z + 1,
    ... DLMF 5.11.1."""
    logs = jnp.log(z)
    for k in range(1, 14):
        logs = logs + jnp.log(z + k)
    far = z + 14
    return (
        (far - 0.5) * jnp.log(far) - far + 0.5 * math.log(2 * math.pi) + stirling_rest(far) - logs
    )


def _loggamma(z: Array) -> Any:
    is_right, is_upper = z.real >= 0.5, z.imag >= 0
    right = _stirling_series(jnp.where(is_right, z, 1 - z))
    # By reflection in the upper half plane, where log(sin(pi z)) has a branch that is continuous;
    # below by symmetry.
    upper = jnp.where(is_upper, z, jnp.conj(z))
    sine = (
        math.log(2 * math.pi)
        + 1j * math.pi * (upper - 0.5)
        - jnp.log1p(-jnp.exp(2j * math.pi * upper))
    )
    return jnp.where(is_right, right, jnp.where(is_upper, sine, jnp.conj(sine)) - right)


@fast
def loggamma(x: ArrayLike) -> Array:
    """log(gamma(x)) of complex numbers, continuous but on the negative axis; of real numbers, nan
    below 0.

    >>> loggamma(2.)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact("loggamma", x)
    if jnp.iscomplexobj(x):
        return _loggamma(jnp.asarray(x, jnp.result_type(x)))
    return jnp.where(x < 0, jnp.nan, lax.lgamma(x))


@fast
def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(x), 1 or -1; nan at -1, -2, ...

    >>> gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    return _sign(*strong("gammasgn", *real("gammasgn", x, error=ValueError)))


def _sign(x: Any) -> Any:
    floor = jnp.floor(x)
    below = jnp.where(floor == x, jnp.nan, 1.0 - 2.0 * jnp.abs(floor % 2))
    return lax.stop_gradient(jnp.where(x == 0, jnp.copysign(1.0, x), jnp.where(x > 0, 1.0, below)))


@custom_jvp
def _gamma(x: Array) -> Any:
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    return convert_element_type(gamma_of(wide), x.dtype, typeof(x).weak_type)


@_gamma.defjvp
def _gamma_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    y = _gamma(x)
    return y, t * (y * lax.digamma(x))


@fast
def gamma(x: ArrayLike) -> Array:
    """The gamma function, of complex numbers too; inf at 0, -inf at -0, nan at -1, -2, ...

    >>> gamma(5.)
    Array(24., dtype=float32)
    """
    (x,) = strong("gamma", x)
    if not jnp.iscomplexobj(x):
        return _gamma(x)
    is_pole = (x.imag == 0) & (x.real <= 0) & (x.real == jnp.floor(x.real)) | ~jnp.isfinite(x)
    return jnp.where(
        is_pole, complex(math.nan, math.nan), jnp.exp(_loggamma(jnp.where(is_pole, 1, x)))
    )


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n! = gamma(n + 1); 0 for negative n.

    Raises NotImplementedError for exact=True.

    >>> factorial(5.)
    Array(120., dtype=float32, weak_type=True)
    """
    if exact:
        raise NotImplementedError(
            "factorial with exact=True\n  Integers of any size are not arrays; use math.factorial."
        )
    return _factorial(n)


@fast
def _factorial(n: Any) -> Any:
    (n,) = inexact("factorial", n)
    return jnp.where(n < 0, 0.0, _gamma(jnp.where(n < 0, 0.0, n) + 1))


@fast
def digamma(x: ArrayLike) -> Array:
    """The derivative of log(gamma(x)); -inf at 0, inf at -0, nan at -1, -2, ...

    >>> digamma(3.)
    Array(0.9227843, dtype=float32, weak_type=True)
    """
    return lax.digamma(*inexact("digamma", x))


@fast
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of order n of `digamma`, at x; n is a natural number.

    >>> polygamma(1, jnp.array([1., 2.])).shape
    (2,)
    """
    if dtypes.issubdtype(typeof(n).dtype, np.inexact):
        raise ValueError(
            f"Argument `n` to polygamma must be of integer type. Got dtype {typeof(n).dtype}."
        )
    return lax.polygamma(*inexact("polygamma", n, x))


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz' zeta function: the sum of (q + k)^-x over k = 0, 1, ..., for x > 1.

    Raises NotImplementedError without q.

    >>> zeta(2., jnp.array([1., 2.])).shape
    (2,)
    """
    if q is None:
        raise NotImplementedError(
            "Riemann zeta function not implemented; pass q != None to compute the Hurwitz Zeta "
            "function.\n  For x > 1 it is zeta(x, 1)."
        )
    return _zeta(x, q)


@fast
def _zeta(x: ArrayLike, q: ArrayLike) -> Any:
    return lax.zeta(*inexact("zeta", x, q))


@fast
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function.

    >>> gammainc(1., 0.)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.igamma(*inexact("gammainc", a, x))


@fast
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function 1 - gammainc(a, x), accurate where that is
    small.

    >>> gammaincc(1., 0.)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.igammac(*inexact("gammaincc", a, x))


@fast
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function.

    >>> betainc(1., 1., 1.)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.betainc(*inexact("betainc", a, b, x))


def _betaln(a: Any, b: Any) -> Any:
    """log(|beta(a, b)|) where neither operand is a pole. For large operands from Stirling's
    formula, where the logarithms would cancel. DLMF 5.11.1."""
    # Not the minimum: where both are equal its derivative is half of each.
    is_first = a <= b
    small, large = jnp.where(is_first, a, b), jnp.where(is_first, b, a)
    # beta(inf, p) is 0 for positive p, and infinite for others.
    is_limit = large == jnp.inf
    limit = jnp.where(small > 0, -jnp.inf, jnp.inf)
    small, large = jnp.where(is_limit, 1, small), jnp.where(is_limit, 1, large)
    is_mixed, is_large = large >= 10, small >= 10
    plain = lax.lgamma(small) + lax.lgamma(large) - lax.lgamma(small + large)
    q = jnp.where(is_mixed, large, 10.0)
    p = jnp.where(is_mixed, small, 1.0)
    # Where p is near -q, the sum is small, and Stirling's formula does not hold for it.
    p = jnp.where(p + q >= 10, p, 1.0)
    rest = stirling_rest(q) - stirling_rest(p + q)
    # q log1p(p / q) is p where p / q may underflow.
    is_far = jnp.abs(p / q) < float(dtypes.finfo(jnp.result_type(a)).eps) / 4
    last = jnp.where(is_far, p, (q - 0.5) * jnp.log1p(jnp.where(is_far, 1, p) / q))
    mixed = lax.lgamma(p) + rest + p - p * jnp.log(p + q) - last
    p = jnp.where(is_large, small, 10.0)
    both = (
        0.5 * math.log(2 * math.pi)
        - 0.5 * jnp.log(q)
        + stirling_rest(p)
        + stirling_rest(q)
        - stirling_rest(p + q)
        - (p - 0.5) * jnp.log1p(q / p)
        - q * jnp.log1p(p / q)
    )
    use_mixed = is_mixed & (small + large >= 10)
    value = jnp.where(is_large, both, jnp.where(use_mixed, mixed, plain))
    return jnp.where(is_limit, limit, value)


def _is_pole(x: Array) -> Any:
    return (x <= 0) & (x == jnp.floor(x))


def _alternating(n: Array) -> Any:
    """(-1)^n for whole numbers n."""
    return lax.stop_gradient(1.0 - 2.0 * jnp.abs(n % 2))


def _sign_or_1(x: Array) -> Any:
    return jnp.where(_is_pole(x), 1.0, _sign(x))


def _beta_parts(a: Array, b: Array) -> tuple[Any, Any]:
    """The sign of beta(a, b), and the logarithm of its size.

    A negative integer a is a pole but for an integer b up to -a: there gamma(a) / gamma(a + b) has
    a limit, and beta(a, b) is (-1)^b beta(1 - a - b, b). DLMF 5.5.3.
    """
    pole_a, pole_b = _is_pole(a), _is_pole(b)
    # If there is one pole, it is `pole`.
    pole, other = jnp.where(pole_a, a, b), jnp.where(pole_a, b, a)
    is_pole, rest = pole_a | pole_b, (1 - pole) - other
    has_limit = is_pole & (other == jnp.floor(other)) & (rest > 0)
    has_limit = has_limit & (pole > -jnp.inf)
    is_finite = has_limit & ~(pole_a & pole_b)
    one = jnp.ones_like(rest)
    first = jnp.where(is_finite, rest, jnp.where(is_pole, one, a))
    second = jnp.where(is_finite, other, jnp.where(is_pole, one, b))
    value = jnp.where(is_pole & ~is_finite, jnp.inf, _betaln(first, second))
    plain = _sign_or_1(first) * _sign_or_1(second) * _sign_or_1(first + second)
    sign = jnp.where(is_pole, jnp.where(has_limit, _alternating(other), one), plain)
    is_nan = jnp.isnan(a) | jnp.isnan(b)
    return jnp.where(is_nan, jnp.nan, sign), jnp.where(is_nan, jnp.nan, value)


@fast
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log(|beta(a, b)|); inf where that is infinite.

    >>> betaln(1., 1.)
    Array(0., dtype=float32, weak_type=True)
    """
    return _beta_parts(*inexact("betaln", a, b))[1]


@fast
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function gamma(a) gamma(b) / gamma(a + b); infinite at 0, -1, ... unless both
    operands are whole numbers and one is positive and at most minus the other.

    >>> beta(1., 1.)
    Array(1., dtype=float32)
    """
    sign, size = _beta_parts(*strong("beta", a, b))
    return sign * jnp.exp(size)


@fast
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """gamma(z + m) / gamma(z), which is z (z + 1) ... (z + m - 1); 1 where m is 0.

    Where z is 0, -1, ... it is a limit; where z + m alone is, inf.

    >>> poch(3., 0.)
    Array(1., dtype=float32)
    """
    z, m = strong("poch", z, m)
    end = z + m
    from_pole, to_pole = _is_pole(z), _is_pole(end)
    both, is_pole = from_pole & to_pole, from_pole | to_pole
    # gamma(z + m) / gamma(z) is (-1)^m gamma(1 - z) / gamma(1 - z - m).
    start, stop = (
        jnp.where(both, 1 - x, jnp.where(is_pole, 1.0, y)) for x, y in ((end, z), (z, end))
    )
    least, gap = jnp.minimum(start, stop), jnp.abs(m)
    is_large = (least >= 10) & (gap > 0)
    large = lax.lgamma(jnp.where(is_large, gap, 1)) - _betaln(
        jnp.where(is_large, least, 1), jnp.where(is_large, gap, 1)
    )
    plain = lax.lgamma(jnp.where(is_large, 1, stop)) - lax.lgamma(jnp.where(is_large, 1, start))
    power = jnp.where(is_large, jnp.where(m < 0, -large, large), plain)
    sign = jnp.where(both, _alternating(m), _sign_or_1(stop) * _sign_or_1(start))
    ratio = jnp.where(
        from_pole & ~to_pole, 0.0, jnp.where(to_pole & ~from_pole, jnp.inf, sign * jnp.exp(power))
    )
    ratio = jnp.where(jnp.isnan(z) | jnp.isnan(m), jnp.nan, ratio)
    return jnp.where(m == 0, 1.0, ratio)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose k of N things, without order; with repetition, things may be
    chosen again.

    >>> round(float(comb(4., 2.)), 4)
    6.0
    """
    return _comb(N, k, bool(repetition))


@fast(static=("repetition",))
def _comb(n: Any, k: Any, repetition: bool) -> Any:
    n, k = inexact("comb", n, k)
    n = n + k - 1 if repetition else n
    is_inside = (k <= n) & (n >= 0) & (k >= 0) & (n < jnp.inf)
    safe_n, safe_k = jnp.where(is_inside, n, 1.0), jnp.where(is_inside, k, 1.0)
    log_beta = _betaln(safe_n - safe_k + 1, safe_k + 1)
    is_large = safe_n > 1e6
    divisor = safe_n + 1
    # The quotient of large numbers may be finite though its parts are not.
    value = jnp.where(
        is_large,
        jnp.exp(-log_beta - jnp.log(divisor)),
        jnp.exp(jnp.where(is_large, 0, -log_beta)) / divisor,
    )
    nothing = (n == -1) & (k == 0) if repetition else False
    endless = jnp.where(k == 0, 1.0, jnp.where((k > 0) & (k < jnp.inf), jnp.inf, 0.0))
    outside = jnp.where(n == jnp.inf, endless, jnp.where(nothing, 1.0, 0.0))
    return jnp.where(is_inside, value, outside)


def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the multivariate gamma function of order d.

    >>> multigammaln(3., 1)
    Array(0.6931472, dtype=float32)
    """
    if d != int(d):
        raise ValueError(f"multigammaln: the order d must be an integer, got {d}.")
    return _multigammaln(a, int(d))


@fast(static=("d",))
def _multigammaln(a: ArrayLike, d: int) -> Any:
    (a,) = strong("multigammaln", a)
    total = d * (d - 1) / 4 * math.log(math.pi) + lax.lgamma(a)
    for i in range(1, d):
        total = total + lax.lgamma(a - i / 2)
    return total


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers from 0 to n, with B_1 = -1/2.

    Raises ValueError if n is negative.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    # Exactly, by the triangle of Akiyama and Tanigawa, which gives B_1 = 1/2.
    numbers, row = [], []
    for m in range(n + 1):
        row.append(Fraction(1, m + 1))
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
        numbers.append(-row[0] if m == 1 else row[0])
    return jnp.array([float(b) for b in numbers])
