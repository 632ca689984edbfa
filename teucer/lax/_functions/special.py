"""Special functions: erf, gamma, zeta, Bessel and incomplete gamma and beta functions.

Where XLA legalises an operation of CHLO, that is used; the rest is computed here by published
methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike
from teucer._lower import hlo
from teucer._lower.context import Context, Value
from teucer.lax import _families as families
from teucer.lax._arithmetic import (
    abs,
    add,
    bitwise_and,
    bitwise_or,
    clamp,
    div,
    eq,
    floor,
    ge,
    gt,
    integer_pow,
    le,
    lt,
    max,
    min,
    mul,
    ne,
    neg,
    sign,
    square,
    sub,
)
from teucer.lax._costs import EXPENSIVE, FUNCTION
from teucer.lax._elementwise import exp, expm1, log, log1p, sqrt
from teucer.lax._formulas.terms import (
    chebyshev,
    chebyshev_slope,
    chosen,
    chosen_not,
    eps_of,
    less,
    plus,
    quotient,
    times,
)
from teucer.lax._functions.chebyshev import (
    I0E_FROM_8,
    I0E_TO_8,
    I1E_FROM_8,
    I1E_TO_8,
    LGAMMA_NEAR_1_5,
)
from teucer.lax._functions.gamma import digamma_of, log_gamma, stirling_rest
from teucer.lax._functions.gaussian import erf_inv_of, erfc_of, exp_of_square
from teucer.lax._functions.zeta import zeta_of_parts, zeta_places, zeta_slope
from teucer.lax._programs import traced, until_converged, widened
from teucer.lax._selection import where_else

__all__ = [
    "bessel_i0e", "bessel_i0e_p", "bessel_i1e", "bessel_i1e_p", "betainc", "digamma", "digamma_p",
    "erf", "erf_inv", "erf_inv_p", "erf_p", "erfc", "erfc_p", "igamma", "igamma_grad_a",
    "igamma_grad_a_p", "igamma_p", "igammac", "igammac_p", "lgamma", "lgamma_p", "polygamma",
    "polygamma_p", "random_gamma_grad", "regularized_incomplete_beta_p", "zeta", "zeta_p",
]  # fmt: skip

Function = Callable[..., Any]


# Functions that rows name before their own row.
digamma: Function
polygamma: Function
zeta: Function
bessel_i1e: Function

# Error functions


def _gauss(name: str, scale: float, reference: str) -> families.Elementwise:
    """The row of e^(-scale x^2). lax has no function for it. Its derivatives are not the
    derivatives of the parts of its square."""

    def tangent(t: Array, y: Array, x: Array) -> Any:
        # Beyond 64 y is 0, also at infinity, where the product would be nan.
        within = clamp(families.scalar_like(x, -64), x, families.scalar_like(x, 64))
        return times(-2 * scale, mul(t, mul(within, y)))

    lower = traced(lambda x: exp_of_square(x, scale))
    return families.Elementwise(
        name, families.FLOAT, lower, (tangent,), families.Checked(-9, 9, 4, reference)
    )


gauss_p = _gauss("gauss", 1.0, "lambda x: mpmath.exp(-x * x)")
half_gauss_p = _gauss("half_gauss", 0.5, "lambda x: mpmath.exp(-x * x / 2)")


erf_p, erf = families.unary(
    "erf",
    families.FLOAT,
    "chlo.erf",
    lambda t, y, x: times(2 / math.sqrt(math.pi), mul(t, gauss_p.call(x)[0])),
    families.Checked(-4, 4, 4, "mpmath.erf"),
    "Error function.",
    cost=FUNCTION,
)
erfc_p, erfc = families.unary(
    "erfc",
    families.FLOAT,
    traced(erfc_of),
    lambda t, y, x, **_: times(-2 / math.sqrt(math.pi), mul(t, gauss_p.call(x)[0])),
    families.Checked(-9, 9, 5, "mpmath.erfc"),
    "Complement 1 - erf(x) of the error function, accurate where that is small.",
    accuracy=True,
    cost=FUNCTION,
)


def _lower_erf_inv(ctx: Context, x: Value) -> Any:
    # In float32 CHLO's, 65 units off near 1, since random numbers are made by it: they are JAX's to
    # the bit.
    return (
        ctx.op1("chlo.erf_inv", (x,), x.aval.strengthen())
        if x.dtype != np.float64
        else ctx.trace(lambda x: (erf_inv_of(x),), x)[0]
    )


erf_inv_p, erf_inv = families.unary(
    "erf_inv",
    families.FLOAT,
    _lower_erf_inv,
    lambda t, y, x: times(math.sqrt(math.pi) / 2, mul(t, exp(square(y)))),
    families.Checked(-0.99, 0.99, 16, "mpmath.erfinv"),
    "Inverse of the error function; infinite at -1 and 1, nan beyond.",
    cost=FUNCTION,
)

# Gamma and zeta functions


def _unsupported(message: str) -> Function:
    def tangent(*_: object, **__: object) -> Any:
        raise ValueError(message)

    return tangent


lgamma_p, lgamma = families.unary(
    "lgamma",
    families.FLOAT,
    traced(log_gamma),
    lambda t, y, x: mul(t, digamma(x)),
    families.Checked(0.1, 9, 8, "mpmath.loggamma"),
    "Logarithm of the absolute value of the gamma function; infinite at 0, -1, -2, ...",
    cost=EXPENSIVE,
)
digamma_p, digamma = families.unary(
    "digamma",
    families.FLOAT,
    traced(digamma_of),
    lambda t, y, x: mul(t, polygamma(families.scalar_like(x, 1), x)),
    families.Checked(0.1, 9, 8, "mpmath.digamma"),
    "Derivative of the logarithm of the gamma function; -inf at 0, nan at -1, -2, ...",
    cost=EXPENSIVE,
)


def _lower_zeta(ctx: Context, x: Value, q: Value) -> Any:
    places = ctx.trace(zeta_places, q)
    aval = ShapedArray(x.shape, x.dtype)
    parts = [ctx.op1("chlo.zeta", [x, place], aval) for place in places]
    return ctx.trace(lambda *xs: (zeta_of_parts(*xs),), x, q, *parts)[0]


def _polygamma(m: Array, x: Array) -> Any:
    """(-1)^(m + 1) m! zeta(m + 1, x); digamma for m = 0.  DLMF 5.15.1."""
    zero, half = families.scalar_like(x, 0), times(0.5, m)
    is_natural = bitwise_and(eq(m, floor(m)), ge(m, zero))
    order = chosen_not(bitwise_and(is_natural, gt(m, zero)), m, 1)
    size = mul(exp(lgamma(plus(order, 1))), zeta(plus(order, 1), x))
    value = where_else(eq(half, floor(half)), neg(size), size)
    value = where_else(eq(m, zero), digamma_of(x), value)
    return chosen_not(is_natural, value, math.nan)


polygamma_p, polygamma = families.binary(
    "polygamma",
    families.FLOAT,
    traced(_polygamma),
    (
        _unsupported("polygamma gradient with respect to m is not supported."),
        lambda t, z, m, x: mul(t, polygamma(plus(m, 1), x)),
    ),
    families.Checked(
        1,
        9,
        128,
        "lambda m, x: mpmath.polygamma(int(m), x)",
        given=lambda m, x: (np.rint(m), x),
        constant=(0,),
        costly=True,
    ),
    "Derivative of order m of the digamma function, at x.",
    names=("m", "x"),
)
zeta_p, zeta = families.binary(
    "zeta",
    families.FLOAT,
    widened(_lower_zeta),
    (
        lambda t, z, x, q: mul(t, zeta_slope(x, q)),
        lambda t, z, x, q: mul(t, neg(mul(x, zeta(plus(x, 1), q)))),
    ),
    families.Checked(1.5, 9, 64, "mpmath.zeta", constant=(0,), costly=True),
    "Hurwitz zeta function: the sum of (q + k)^-x over k = 0, 1, ...",
    names=("x", "q"),
)


# Bessel functions: Chebyshev series up to 8 and, times sqrt(x), in 1/x beyond, as in Clenshaw,
# "Chebyshev series for mathematical functions", NPL Mathematical Tables 5 (1962).


def _bessel_ie(x: Array, to_8: tuple[float, ...], from_8: tuple[float, ...], odd: bool) -> Any:
    magnitude = abs(x)
    eight = families.scalar_like(x, 8)
    is_small = le(magnitude, eight)
    small = chebyshev(plus(times(0.25, where_else(is_small, magnitude, eight)), -1), to_8)
    beyond = where_else(is_small, eight, magnitude)
    large = div(chebyshev(plus(div(families.scalar_like(x, 16), beyond), -1), from_8), sqrt(beyond))
    if not odd:
        return where_else(ne(x, x), x, where_else(is_small, small, large))
    return where_else(is_small, mul(x, small), mul(sign(x), large))


def _slope_beyond_8(x: Array, y: Array, from_8: tuple[float, ...]) -> tuple[Any, Any]:
    """Where |x| > 8, and the derivative of y = c(16 / |x| - 1) / sqrt(|x|) by |x| there.

    The recurrences' terms are e^-|x| I0(x) and e^-|x| I1(x), which cancel.
    """
    is_beyond = gt(abs(x), families.scalar_like(x, 8))
    beyond = where_else(is_beyond, abs(x), families.scalar_like(x, 8))
    inverse = integer_pow(beyond, -1)
    slope = chebyshev(plus(times(16, inverse), -1), chebyshev_slope(from_8))
    rest = div(mul(times(16, inverse), slope), sqrt(beyond))
    return is_beyond, neg(mul(inverse, add(times(0.5, y), rest)))


def _tangent_i0e(t: Array, y: Array, x: Array) -> Any:
    is_beyond, beyond = _slope_beyond_8(x, y, I0E_FROM_8)
    within = sub(bessel_i1e(x), mul(sign(x), y))
    return mul(t, where_else(is_beyond, mul(sign(x), beyond), within))


def _tangent_i1e(t: Array, y: Array, x: Array) -> Any:
    is_beyond, beyond = _slope_beyond_8(x, mul(sign(x), y), I1E_FROM_8)
    # Near 0, I1e(x) / x is 1/2.
    eps = families.scalar_like(x, eps_of(x))
    is_far = gt(abs(x), eps)
    safe = where_else(is_far, x, eps)
    within = sub(bessel_i0e(safe), mul(y, add(sign(safe), integer_pow(safe, -1))))
    within = where_else(is_far, within, families.scalar_like(x, 0.5))
    return mul(t, where_else(is_beyond, beyond, within))


bessel_i0e_p, bessel_i0e = families.unary(
    "bessel_i0e",
    families.FLOAT,
    traced(lambda x: _bessel_ie(x, I0E_TO_8, I0E_FROM_8, odd=False)),
    _tangent_i0e,
    families.Checked(-20, 20, 4, "lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))"),
    "Modified Bessel function of order 0 times e^-|x|.",
)
bessel_i1e_p, bessel_i1e = families.unary(
    "bessel_i1e",
    families.FLOAT,
    traced(lambda x: _bessel_ie(x, I1E_TO_8, I1E_FROM_8, odd=True)),
    _tangent_i1e,
    families.Checked(-20, 20, 8, "lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))"),
    "Modified Bessel function of order 1 times e^-|x|.",
)


# Incomplete gamma and beta functions


def _log1p_minus(u: Array) -> Any:
    """log(1 + u) - u, without cancellation near 0."""
    is_near = lt(abs(u), families.scalar_like(u, 0.4))
    v = where_else(is_near, u, families.scalar_like(u, 0))
    s = quotient(v, plus(v, 2))
    s2 = square(s)
    tail: Any = families.scalar_like(u, 1 / 31)
    for k in range(14, 0, -1):
        tail = plus(mul(tail, s2), 1 / (2 * k + 1))
    near = mul(s, sub(times(2, mul(s2, tail)), v))
    return where_else(is_near, near, sub(log1p(u), u))


def _log_minus(ratio: Array, u: Array) -> Any:
    """log(ratio) - u for u = ratio - 1, which is -1 where the ratio is small."""
    is_small = lt(ratio, families.scalar_like(ratio, 0.5))
    small = sub(log(chosen_not(is_small, ratio, 1)), u)
    return where_else(is_small, small, _log1p_minus(chosen(is_small, 0, u)))


def _gamma_weight(a: Array, x: ArrayLike) -> Any:
    """x^a e^-x / gamma(a + 1). For large a from Stirling's formula, where the logarithms would
    cancel."""
    is_large = ge(a, families.scalar_like(a, 10))
    big = where_else(is_large, a, families.scalar_like(a, 10))
    large = div(
        exp(sub(mul(big, _log_minus(div(x, big), div(sub(x, big), big))), stirling_rest(big))),
        sqrt(times(2 * math.pi, big)),
    )
    small = exp(sub(sub(mul(a, log(x)), x), lgamma(plus(a, 1))))
    return where_else(is_large, large, small)


def _series_step(derive: bool) -> Function:
    """Sum x^n / ((a + 1) ... (a + n)), and its derivative in a.  DLMF 8.11.4."""

    def step(n: ArrayLike, a: ArrayLike, x: Array, term: Any, total: Any, *derivatives: Any) -> Any:
        r = add(a, n)
        ratio = quotient(x, r)
        after = mul(term, ratio)
        total = add(total, after)
        eps = families.scalar_like(x, eps_of(x))
        active = gt(after, mul(eps, total))
        if derive:
            d_term, d_total = derivatives
            d_term = mul(sub(d_term, div(term, r)), ratio)
            d_total = add(d_total, d_term)
            derivatives = (d_term, d_total)
            active = bitwise_or(active, gt(abs(d_term), mul(eps, abs(d_total))))
        return (active, a, x, after, total, *derivatives)

    return step


def _fraction_step(derive: bool) -> Function:
    """Legendre's continued fraction for gamma(a, x), and its derivative in a, by Lentz's algorithm.
    DLMF 8.9.2; Thompson & Barnett, J. Comput. Phys. 64 (1986) 490."""

    def step(
        n: ArrayLike, a: Array, x: Array, c: Array, d: Array, h: Array, *derivatives: Array
    ) -> Any:
        numerator = mul(n, sub(a, n))
        b = sub(add(add(x, n), add(n, families.scalar_like(n, 1))), a)
        d_old, c_old = d, c
        d = integer_pow(add(mul(numerator, d), b), -1)
        quotient = div(numerator, c)
        c = add(quotient, b)
        factor = mul(c, d)
        eps = families.scalar_like(x, eps_of(x))
        active = gt(abs(plus(factor, -1)), eps)
        after = mul(h, factor)
        if derive:
            dc, dd, dh = derivatives
            dd = neg(mul(square(d), plus(add(mul(n, d_old), mul(numerator, dd)), -1)))
            dc = plus(sub(div(n, c_old), mul(quotient, div(dc, c_old))), -1)
            dh_after = add(mul(dh, factor), mul(h, add(mul(dc, d), mul(c, dd))))
            active = bitwise_or(active, gt(abs(sub(dh_after, dh)), mul(eps, abs(dh_after))))
            derivatives = (dc, dd, dh_after)
        return (active, a, x, c, d, after, *derivatives)

    return step


def _domain(a: Array, x: Array) -> tuple[Any, Any, Any, Any]:
    """Operands for the series and for the fraction: elements that the other is for get ones that
    converge at once."""
    inside = bitwise_and(
        bitwise_and(gt(a, families.scalar_like(a, 0)), lt(a, families.scalar_like(a, math.inf))),
        bitwise_and(gt(x, families.scalar_like(x, 0)), lt(x, families.scalar_like(x, math.inf))),
    )
    by_fraction = bitwise_and(gt(x, families.scalar_like(x, 1)), gt(x, a))
    inside = bitwise_and(inside, lt(a, families.scalar_like(a, _uniform_from(a))))
    fraction = bitwise_and(inside, by_fraction)
    series = bitwise_and(
        inside, le(x, where_else(gt(a, families.scalar_like(a, 1)), a, families.scalar_like(a, 1)))
    )
    return (
        where_else(series, a, families.scalar_like(a, 1)),
        chosen_not(series, x, 0),
        where_else(fraction, a, families.scalar_like(a, 1)),
        chosen_not(fraction, x, 2),
    )


def _incomplete_gamma(mode: str) -> Function:
    """The lowering of igamma ("lower"), igammac ("upper"), igamma_grad_a ("slope"),
    random_gamma_grad ("sample")."""
    derive = mode in ("slope", "sample")

    def body(ctx: Context, a: Value, x: Value) -> Any:
        sa, sx, fa, fx = ctx.trace(_domain, a, x)
        aval = ShapedArray(x.shape, x.dtype)
        zero, one = hlo.splat(ctx, 0, aval), hlo.splat(ctx, 1, aval)
        total = until_converged(
            ctx, _series_step(derive), (sa, sx, one, one, *((zero, zero) if derive else ()))
        )
        # Lentz's algorithm starts from 1 / 0, for which a large number stands.
        huge = hlo.splat(ctx, 1e30, aval)
        (d,) = ctx.trace(lambda a, x: (integer_pow(plus(sub(x, a), 1), -1),), fa, fx)
        (dd,) = ctx.trace(lambda d: (square(d),), d)
        state = (fa, fx, huge, d, d, *((zero, dd, dd) if derive else ()))
        found = until_converged(ctx, _fraction_step(derive), state)
        return ctx.trace(
            lambda *xs: (_FINISH[mode](*xs),),
            a,
            x,
            *total[:2],
            *total[3:4],
            *total[5:],
            *found[:2],
            found[4],
            *found[7:],
        )[0]

    return widened(body)


def _small_upper(a: Any, x: Any, p: Array) -> Any:
    """1 - p, where p = P(a, x) by the series: without cancellation for a and x up to 1.  DLMF
    8.7.1."""
    is_small = bitwise_and(le(a, families.scalar_like(a, 1)), le(x, families.scalar_like(x, 1)))
    a, x = (
        chosen_not(is_small, a, 1),
        chosen_not(bitwise_and(is_small, gt(x, families.scalar_like(x, 0))), x, 1),
    )
    log_gamma = mul(mul(a, plus(a, -1)), chebyshev(times(4 / 3, plus(a, -0.5)), LGAMMA_NEAR_1_5))
    exponent = sub(mul(a, log(x)), log_gamma)
    total: Any = families.scalar_like(x, 0)
    for n in range(18, 0, -1):
        # The sum of (-x)^n / (n! (a + n)), by Horner's rule.
        total = mul(times(-1 / n, x), add(total, integer_pow(plus(a, n), -1)))
    return where_else(
        is_small, neg(add(expm1(exponent), mul(mul(a, exp(exponent)), total))), less(1, p)
    )


def _uniform_from(a: Array) -> float:
    """From which a on P(a, x) is by its uniform expansion; a series would be long."""
    return 1e8 if typeof(a).dtype == np.float64 else 1e5


def _uniform(a: Array, x: Array, *, upper: bool) -> Any:
    """P(a, x) or Q(a, x) for large a, by the first two terms of the uniform expansion.  DLMF
    8.12.3, 8.12.4, 8.12.7, 8.12.9."""
    least = families.scalar_like(a, _uniform_from(a))
    inside = bitwise_and(ge(a, least), lt(x, families.scalar_like(x, math.inf)))
    a, x = where_else(inside, a, least), where_else(inside, x, least)
    mu = div(sub(x, a), a)
    half_square = neg(_log1p_minus(max(mu, families.scalar_like(mu, -1))))
    size = sqrt(times(2, half_square))
    eta = where_else(lt(mu, families.scalar_like(mu, 0)), neg(size), size)
    is_near = lt(abs(eta), families.scalar_like(eta, 0.01))
    far_mu, far_eta = chosen(is_near, 1, mu), chosen(is_near, 1, eta)
    # 1 / mu - 1 / eta, near 0 by its series.
    near = plus(times(1 / 12, eta), -1 / 3)
    near = sub(near, mul(square(eta), families.scalar_like(eta, 2 / 135)))
    first = where_else(is_near, near, sub(integer_pow(far_mu, -1), integer_pow(far_eta, -1)))
    exponent = neg(mul(a, half_square))
    rest = div(mul(exp(exponent), first), sqrt(times(2 * math.pi, a)))
    argument = mul(eta, sqrt(times(0.5, a)))
    if upper:
        return add(times(0.5, erfc(argument)), rest)
    return sub(times(0.5, erfc(neg(argument))), rest)


def _finish_value(
    a: Array, x: Array, sa: Any, sx: Any, s: Array, fa: Any, fx: Any, h: Array, *, upper: bool
) -> Any:
    by_fraction = bitwise_and(gt(x, families.scalar_like(x, 1)), gt(x, a))
    p = mul(_gamma_weight(sa, sx), s)
    q = mul(mul(_gamma_weight(fa, fx), fa), h)
    y = (
        where_else(by_fraction, q, _small_upper(sa, sx, p))
        if upper
        else where_else(by_fraction, less(1, q), p)
    )
    zero, inf = families.scalar_like(x, 0), families.scalar_like(x, math.inf)
    y = where_else(ge(a, families.scalar_like(a, _uniform_from(a))), _uniform(a, x, upper=upper), y)
    y = chosen(bitwise_or(eq(x, zero), eq(a, inf)), 1 if upper else 0, y)
    y = chosen(bitwise_or(eq(x, inf), bitwise_and(eq(a, zero), gt(x, zero))), 0 if upper else 1, y)
    bad = bitwise_or(
        bitwise_or(lt(x, zero), lt(a, zero)),
        bitwise_or(bitwise_and(eq(a, zero), eq(x, zero)), bitwise_and(eq(a, inf), eq(x, inf))),
    )
    return chosen(bitwise_or(bad, bitwise_or(ne(x, x), ne(a, a))), math.nan, y)


def _finish_slope(
    a: Array,
    x: Array,
    sa: Any,
    sx: Any,
    s: Array,
    ds: Any,
    fa: Any,
    fx: Any,
    h: Array,
    dh: Any,
    *,
    sample: bool,
) -> Any:
    by_fraction = bitwise_and(gt(x, families.scalar_like(x, 1)), gt(x, a))
    sx = chosen(eq(sx, families.scalar_like(sx, 0)), 1, sx)
    by_series = add(ds, mul(s, sub(log(sx), digamma(plus(sa, 1)))))
    by_cf = add(dh, mul(h, sub(log(fx), digamma(fa))))
    if sample:
        y = where_else(by_fraction, mul(by_cf, fx), neg(div(mul(by_series, sx), sa)))
    else:
        y = where_else(
            by_fraction,
            neg(mul(mul(_gamma_weight(fa, fx), fa), by_cf)),
            mul(_gamma_weight(sa, sx), by_series),
        )
    zero, inf = families.scalar_like(x, 0), families.scalar_like(x, math.inf)
    y = chosen(eq(x, zero), 0, y)
    bad = bitwise_or(
        bitwise_or(lt(x, zero), le(a, zero)),
        bitwise_or(eq(x, inf), bitwise_and(eq(a, inf), gt(x, zero))),
    )
    return chosen(bitwise_or(bad, bitwise_or(ne(x, x), ne(a, a))), math.nan, y)


_FINISH: dict[str, Function] = {
    "lower": lambda *xs: _finish_value(*xs, upper=False),
    "upper": lambda *xs: _finish_value(*xs, upper=True),
    "slope": lambda *xs: _finish_slope(*xs, sample=False),
    "sample": lambda *xs: _finish_slope(*xs, sample=True),
}


def _gamma_density(a: ArrayLike, x: Array) -> Any:
    """x^(a - 1) e^-x / gamma(a), the derivative of igamma in x."""
    return exp(sub(sub(mul(plus(a, -1), log(x)), x), lgamma(a)))


igamma_grad_a_p, igamma_grad_a = families.binary(
    "igamma_grad_a",
    families.FLOAT,
    _incomplete_gamma("slope"),
    None,
    families.Checked(0.5, 9, 512, "formulas.gamma_slope", costly=True),
    "Derivative in a of the regularised lower incomplete gamma function.",
    names=("a", "x"),
)
igamma_p, igamma = families.binary(
    "igamma",
    families.FLOAT,
    _incomplete_gamma("lower"),
    (
        lambda t, z, a, x: mul(t, igamma_grad_a(a, x)),
        lambda t, z, a, x: mul(t, _gamma_density(a, x)),
    ),
    families.Checked(
        0.5,
        9,
        64,
        "lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)",
        constant=(0,),
        costly=True,
    ),
    "Regularised lower incomplete gamma function P(a, x); nan for negative a or x.",
    names=("a", "x"),
)
igammac_p, igammac = families.binary(
    "igammac",
    families.FLOAT,
    _incomplete_gamma("upper"),
    (
        lambda t, z, a, x: neg(mul(t, igamma_grad_a(a, x))),
        lambda t, z, a, x: neg(mul(t, _gamma_density(a, x))),
    ),
    families.Checked(
        0.5,
        9,
        64,
        "lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True)",
        constant=(0,),
        costly=True,
    ),
    "Regularised upper incomplete gamma function 1 - P(a, x), accurate where that is small.",
    names=("a", "x"),
)
random_gamma_grad_p, random_gamma_grad = families.binary(
    "random_gamma_grad",
    families.FLOAT,
    _incomplete_gamma("sample"),
    None,
    families.Checked(0.5, 9, 512, "formulas.gamma_sample_slope", costly=True),
    "Derivative in a of a sample x of the gamma distribution of shape a, at fixed probability.",
    names=("a", "x"),
)


def _beta_weight(a: Array, b: Array, x: Array) -> Any:
    """x^a (1 - x)^b / beta(a, b).  DiDonato & Morris, ACM Trans. Math. Softw. 18 (1992) 360."""
    ten = families.scalar_like(a, 10)
    is_larger = gt(a, b)
    low, high = where_else(is_larger, b, a), where_else(is_larger, a, b)
    total = add(a, b)
    # Both large: the deviation of x from a / (a + b), by which no large numbers cancel.
    both = ge(low, ten)
    a_, b_ = where_else(both, a, ten), where_else(both, b, ten)
    c_ = add(a_, b_)
    exponent = _beta_exponent(a_, b_, x)
    correction = sub(stirling_rest(c_), add(stirling_rest(a_), stirling_rest(b_)))
    large = mul(
        sqrt(div(mul(a_, div(b_, c_)), families.scalar_like(a, 2 * math.pi))),
        exp(add(exponent, correction)),
    )
    # One large: log gamma(high) - log gamma(low + high) from Stirling's formula.
    one = ge(high, ten)
    h = where_else(one, high, ten)
    sum_ = add(low, h)
    by_stirling = add(
        sub(sub(low, mul(low, log(h))), mul(plus(sum_, -0.5), log1p(div(low, h)))),
        sub(stirling_rest(h), stirling_rest(sum_)),
    )
    log_beta = add(lgamma(low), where_else(one, by_stirling, sub(lgamma(high), lgamma(total))))
    small = exp(sub(add(mul(a, log(x)), mul(b, log1p(neg(x)))), log_beta))
    return where_else(both, large, small)


def _beta_exponent(a: Array, b: Array, x: Array) -> Any:
    """log of x^a (1 - x)^b, less that for x = a / (a + b), where it is largest."""
    c = add(a, b)
    deviation = sub(a, mul(c, x))
    return add(
        mul(a, _log_minus(mul(div(c, a), x), neg(div(deviation, a)))),
        mul(b, _log_minus(mul(div(c, b), less(1, x)), div(deviation, b))),
    )


def _uniform_betainc(a: Array, b: Array, x: Array) -> Any:
    """The incomplete beta function of two large operands, by the first term of its uniform
    expansion.  DLMF 8.18.9."""
    # A scale keeps sums finite; beyond, the function is a step.
    most = families.scalar_like(a, 1e30)
    inside = bitwise_and(gt(x, families.scalar_like(x, 0)), lt(x, families.scalar_like(x, 1)))
    large = max(a, b)
    scale = where_else(gt(large, most), div(most, large), families.scalar_like(a, 1))
    least = families.scalar_like(a, 1)
    a, b = (max(chosen_not(inside, mul(v, scale), 1), least) for v in (a, b))
    x = chosen_not(inside, x, 0.5)
    c = add(a, b)
    exponent = min(_beta_exponent(a, b, x), families.scalar_like(a, 0))
    mode = div(a, c)
    distance = sub(x, mode)
    size = sqrt(neg(div(times(2, exponent), c)))
    eta = where_else(lt(distance, families.scalar_like(x, 0)), neg(size), size)
    width = mul(sqrt(mode), sqrt(div(b, c)))
    is_near = lt(mul(size, sqrt(c)), families.scalar_like(x, 1e-2))
    near = div(sub(div(b, c), mode), times(3, width))
    far_eta, far = (chosen(is_near, 1, v) for v in (eta, distance))
    far_eta = chosen(eq(far_eta, families.scalar_like(x, 0)), 1, far_eta)
    far = chosen(eq(far, families.scalar_like(x, 0)), 1, far)
    first = where_else(is_near, near, sub(integer_pow(far_eta, -1), div(width, far)))
    rest = div(mul(exp(exponent), first), sqrt(times(2 * math.pi, c)))
    return add(times(0.5, erfc(neg(mul(eta, sqrt(times(0.5, c)))))), rest)


def _beta_step(
    m: ArrayLike, a: ArrayLike, b: ArrayLike, x: Array, c: ArrayLike, d: ArrayLike, h: ArrayLike
) -> Any:
    """Two steps of the continued fraction of the incomplete beta function, by Lentz's algorithm.
    DLMF 8.17.22."""
    a2m = add(a, add(m, m))
    # By quotients, since products of large operands overflow.
    even = mul(div(m, plus(a2m, -1)), mul(div(sub(b, m), a2m), x))
    odd = neg(mul(div(add(a, m), a2m), mul(div(add(add(a, b), m), plus(a2m, 1)), x)))
    factor = families.scalar_like(x, 1)
    for numerator in (even, odd):
        d = integer_pow(_nonzero(plus(mul(numerator, d), 1)), -1)
        c = _nonzero(plus(div(numerator, c), 1))
        factor = mul(factor, mul(c, d))
    active = gt(abs(plus(factor, -1)), families.scalar_like(x, 2 * eps_of(x)))
    return active, a, b, x, c, d, mul(h, factor)


def _nonzero(x: Array) -> Any:
    return chosen(eq(x, families.scalar_like(x, 0)), 1e-30, x)


def _lower_betainc(ctx: Context, a: Value, b: Value, x: Value) -> Any:
    def domain(a: Array, b: Array, x: Array) -> Any:
        zero, one, inf = (families.scalar_like(x, v) for v in (0, 1, math.inf))
        inside = bitwise_and(
            bitwise_and(gt(x, zero), lt(x, one)),
            bitwise_and(bitwise_and(gt(a, zero), lt(a, inf)), bitwise_and(gt(b, zero), lt(b, inf))),
        )
        # Sums of larger numbers would be infinite.
        most = families.scalar_like(x, float(dtypes.finfo(typeof(x).dtype).max) / 4)
        scale = where_else(gt(min(a, b), most), families.scalar_like(x, 0.25), one)
        a, b = mul(a, scale), mul(b, scale)
        # Keep a so large that the weight, which is less than a, does not underflow.
        a = max(a, families.scalar_like(a, 1e3 * float(dtypes.finfo(typeof(x).dtype).tiny)))
        inside = bitwise_and(inside, lt(min(a, b), families.scalar_like(a, _uniform_from(a))))
        a, b, x = chosen_not(inside, a, 1), chosen_not(inside, b, 1), chosen_not(inside, x, 0.5)
        swap = gt(mul(x, plus(add(a, b), 2)), plus(a, 1))
        a, b, x = where_else(swap, b, a), where_else(swap, a, b), where_else(swap, less(1, x), x)
        d = integer_pow(_nonzero(less(1, mul(div(add(a, b), plus(a, 1)), x))), -1)
        return a, b, x, d, swap

    def finish(
        a0: Array, b0: Array, x0: Array, a: Array, b: Array, x: Array, swap: Array, h: Array
    ) -> Any:
        part = min(div(mul(_beta_weight(a, b, x), h), a), families.scalar_like(x, 1))
        y = where_else(swap, less(1, part), part)
        is_large = ge(min(a0, b0), families.scalar_like(x, _uniform_from(x)))
        y = where_else(is_large, _uniform_betainc(a0, b0, x0), y)
        zero, one, inf = (families.scalar_like(x, v) for v in (0, 1, math.inf))
        at_zero = bitwise_or(eq(x0, zero), bitwise_or(eq(b0, zero), eq(a0, inf)))
        y = chosen(at_zero, 0, y)
        to_one = bitwise_and(gt(x0, zero), bitwise_or(eq(a0, zero), eq(b0, inf)))
        y = chosen(bitwise_or(eq(x0, one), to_one), 1, y)
        nan = bitwise_or(
            bitwise_or(ne(x0, x0), bitwise_or(ne(a0, a0), ne(b0, b0))),
            bitwise_or(
                bitwise_or(lt(x0, zero), gt(x0, one)), bitwise_or(lt(a0, zero), lt(b0, zero))
            ),
        )
        for end in (zero, inf):
            nan = bitwise_or(nan, bitwise_and(eq(a0, end), eq(b0, end)))
        return chosen(nan, math.nan, y)

    sa, sb, sx, d, swap = ctx.trace(domain, a, b, x)
    one = hlo.splat(ctx, 1, ShapedArray(x.shape, x.dtype))
    h = until_converged(ctx, _beta_step, (sa, sb, sx, one, d, d))[5]
    return ctx.trace(lambda *xs: (finish(*xs),), a, b, x, sa, sb, sx, swap, h)[0]


def _tangent_betainc(t: ArrayLike, y: ArrayLike, a: ArrayLike, b: ArrayLike, x: Array) -> Any:
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    slope = exp(sub(add(mul(plus(a, -1), log(x)), mul(plus(b, -1), log1p(neg(x)))), log_beta))
    return mul(t, slope)


_no_slope = _unsupported("Betainc gradient with respect to a and b not supported.")
regularized_incomplete_beta_p = families.Elementwise(
    "regularized_incomplete_beta",
    families.FLOAT,
    widened(_lower_betainc),
    (_no_slope, _no_slope, _tangent_betainc),
    families.Checked(
        0.1,
        0.9,
        64,
        "lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)",
        constant=(0, 1),
        costly=True,
    ),
    public="betainc",
)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    return regularized_incomplete_beta_p.call(*(families.stretched(a, b, x) or (a, b, x)))[0]


families.published(
    betainc,
    "betainc",
    families.describe(
        "Regularised incomplete beta function; nan for negative a or b, or x beyond [0, 1].",
        regularized_incomplete_beta_p,
        "a",
        "b",
        "x",
    ),
)
