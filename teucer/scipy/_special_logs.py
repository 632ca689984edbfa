"""Logarithms and entropies, the normal distribution function and its inverse, softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax, nn
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer.lax._formulas.terms import chebyshev
from teucer.lax._functions.chebyshev import TWICE_ATANH
from teucer.lax._functions.gaussian import erf_near, exp_of_square, scaled_erfc
from teucer.lax._functions.special import half_gauss_p
from teucer.numpy._library import fast
from teucer.scipy._operands import floating, inexact, real

if TYPE_CHECKING:
    from teucer._core.typing import Arrays


@custom_jvp
def _xlogy(x: Array, y: Array) -> Any:
    is_zero = (x == 0) & ~jnp.isnan(y)
    return jnp.where(
        is_zero, jnp.zeros_like(x), x * jnp.log(jnp.where(is_zero, jnp.ones_like(y), y))
    )


@_xlogy.defjvp
def _xlogy_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), dx * jnp.log(y) + dy * jnp.divide(x, y)


@fast
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(y), which is 0 where x is 0 and y is not nan.

    >>> xlogy(0., 0.)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*inexact("xlogy", x, y))


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Any:
    is_zero = (x == 0) & ~jnp.isnan(y)
    return jnp.where(
        is_zero, jnp.zeros_like(x), x * jnp.log1p(jnp.where(is_zero, jnp.zeros_like(y), y))
    )


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), dx * jnp.log1p(y) + dy * jnp.divide(x, 1 + y)


@fast
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(1 + y), which is 0 where x is 0 and y is not nan.

    >>> xlog1py(0., -1.)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(*inexact("xlog1py", x, y))


@custom_jvp
def _entr(x: Array) -> Any:
    return jnp.where(x < 0, -jnp.inf, -_xlogy(x, x))


@_entr.defjvp
def _entr_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _entr(x), -t * (jnp.log(x) + 1)


@fast
def entr(x: ArrayLike) -> Array:
    """-x log(x); 0 at 0, -inf below.

    >>> entr(1.)
    Array(-0., dtype=float32, weak_type=True)
    """
    return _entr(*real("entr", x, error=ValueError))


def _log_ratio(p: Array, q: Array) -> Any:
    """log(p / q), whose logarithms cancel where p and q are near each other."""
    is_near = (p < 2 * q) & (q < 2 * p)
    far = jnp.log(p) - jnp.log(q)
    return jnp.where(is_near, jnp.log1p(jnp.where(is_near, (p - q) / q, 0.0)), far)


@custom_jvp
def _scaled_log_ratio(p: Array, q: Array) -> Any:
    return p * _log_ratio(p, q)


@_scaled_log_ratio.defjvp
def _scaled_log_ratio_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (p, q), (dp, dq) = primals, tangents
    # p (1 / p) would be nan at infinity.
    return _scaled_log_ratio(p, q), dp * (_log_ratio(p, q) + 1) - dq * (p / q)


@fast
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q); 0 if p is 0 and q is not negative, inf outside the domain. Raises ValueError
    for complex numbers.

    >>> rel_entr(2., 2.)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = real("rel_entr", p, q, error=ValueError)
    # Elements outside have no part in derivatives. NaN is inside, so that derivatives show it.
    is_inside = ((p > 0) & (q > 0)) | jnp.isnan(p) | jnp.isnan(q)
    one = jnp.ones_like(p)
    safe_p, safe_q = jnp.where(is_inside, p, one), jnp.where(is_inside, q, one)
    value = _scaled_log_ratio(safe_p, safe_q)
    outside = jnp.where((p == 0) & (q >= 0), 0.0, jnp.inf)
    return jnp.where(is_inside, value, outside)


def _excess(u: Array) -> Any:
    """(1 + u) log(1 + u) - u for |u| < 1/4, by its series from u^2 / 2 on."""
    terms = math.ceil(-math.log(dtypes.finfo(u.dtype).eps, 4))
    total: Any = jnp.zeros_like(u)
    for k in range(terms, -1, -1):
        total = 1 / ((k + 1) * (k + 2)) - total * u
    return u * u * total


@fast
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) - p + q: an element's term in the Kullback-Leibler divergence. Raises
    ValueError for complex numbers.

    >>> kl_div(2., 2.)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = real("kl_div", p, q, error=ValueError)
    is_outside = (p < 0) | (q < 0) | ((q == 0) & (p > 0))
    is_outside &= ~(jnp.isnan(p) | jnp.isnan(q))
    far = jnp.where(is_outside, jnp.inf, rel_entr(p, q) - p + q)
    far = jnp.where((p == 0) & (q >= 0), q, far)
    is_near = jnp.abs(p - q) < 0.25 * q
    safe_q = jnp.where(is_near, q, 1.0)
    return jnp.where(is_near, safe_q * _excess(jnp.where(is_near, p - q, 0.0) / safe_q), far)


@fast
def expit(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> expit(0.)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(*inexact("expit", x))


@fast
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of `expit`; nan outside [0, 1].

    >>> logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _logit(*inexact("logit", x))


@custom_jvp
def _logit(x: Array) -> Any:
    if jnp.iscomplexobj(x):
        return jnp.log(x) - jnp.log1p(-x)
    # The logarithms cancel near 1/2. There it is 2 atanh(2 x - 1), of a number that is exact.
    is_middle = (x > 0.25) & (x < 0.75)
    s = jnp.where(is_middle, 2 * x - 1, 0.0)
    return jnp.where(is_middle, s * chebyshev(8 * s * s - 1, TWICE_ATANH), jnp.log(x / (1 - x)))


@_logit.defjvp
def _logit_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    return _logit(x), t / (x * (1 - x))


@fast
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x^lmbda - 1) / lmbda, which is log(x) where lmbda is 0.

    >>> boxcox(3., 1.)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = inexact("boxcox", x, lmbda)
    return _boxcox_of_log(jnp.log(x), lmbda)


@fast
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """((1 + x)^lmbda - 1) / lmbda, which is log(1 + x) where lmbda is 0.

    >>> boxcox1p(2., 1.)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = inexact("boxcox1p", x, lmbda)
    return _boxcox_of_log(jnp.log1p(x), lmbda)


def _boxcox_of_log(log_x: Any, lmbda: Any) -> Any:
    info = dtypes.finfo(jnp.result_type(log_x))
    product = lmbda * log_x
    # Products that underflow change nothing, and those that overflow may be small once divided.
    is_zero = (lmbda == 0) | (jnp.abs(product) < 4 * float(info.tiny))
    is_large = product > 0.9 * math.log(float(info.max))
    safe = jnp.where(is_zero, 1, lmbda)
    plain = jnp.expm1(jnp.where(is_zero | is_large, 1, product)) / safe
    shifted = jnp.where(is_large, product, 1) - jnp.log(jnp.abs(safe))
    large = jnp.sign(safe) * jnp.exp(shifted)
    return jnp.where(is_zero, log_x, jnp.where(is_large, large, plain))


@custom_jvp
def _ndtr(x: Array) -> Any:
    # Through erfc, -x sqrt(1/2) would be rounded, which gives the result a relative error of x^2
    # roundings.
    size = jnp.abs(x) * math.sqrt(0.5)
    tail = 0.5 * exp_of_square(x, 0.5) * scaled_erfc(size)
    return jnp.where(
        size < 0.5, 0.5 + 0.5 * erf_near(x * math.sqrt(0.5)), jnp.where(x < 0, tail, 1 - tail)
    )


@_ndtr.defjvp
def _ndtr_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    return _ndtr(x), t * (math.sqrt(0.5 / math.pi) * half_gauss_p.call(x)[0])


@fast
def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function: the probability of values up to x. Accurate where that is
    small.

    >>> ndtr(0.)
    Array(0.5, dtype=float32)
    """
    x = floating("ndtr", jnp.asarray(x))
    return _ndtr(x.astype(np.float32)).astype(x.dtype) if x.dtype.itemsize < 4 else _ndtr(x)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), without underflow.

    series_order: as in JAX, a number up to 30; every value gives all digits.
    Raises ValueError if it is out of range.

    >>> round(float(log_ndtr(-10.)), 4)
    -53.2313
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if series_order < 0:
        raise ValueError("series_order must be non-negative.")
    if series_order > 30:
        raise ValueError("series_order must be <= 30.")
    return _log_ndtr(x)


@fast
def _log_ndtr(x: ArrayLike) -> Any:
    x = floating("log_ndtr", jnp.asarray(x))
    is_above = x > 0
    # Each expression sees only arguments for which it is finite, so that derivatives are finite
    # too.
    above = jnp.log1p(-ndtr(-jnp.where(is_above, x, 0.0)))
    low = jnp.where(is_above, 0.0, x)
    below = jnp.log(0.5 * scaled_erfc(-math.sqrt(0.5) * low)) - low * (0.5 * low)
    return jnp.where(is_above, above, below)


# Numerators and denominators of AS 241, from the constant term on.
_CENTRE = (
    (
        3.3871328727963666080,
        133.14166789178437745,
        1971.5909503065514427,
        13731.693765509461125,
        45921.953931549871457,
        67265.770927008700853,
        33430.575583588128105,
        2509.0809287301226727,
    ),
    (
        1.0,
        42.313330701600911252,
        687.18700749205790830,
        5394.1960214247511077,
        21213.794301586595867,
        39307.895800092710610,
        28729.085735721942674,
        5226.4952788528545610,
    ),
)
_SIDE = (
    (
        1.42343711074968357734,
        4.63033784615654529590,
        5.76949722146069140550,
        3.64784832476320460504,
        1.27045825245236838258,
        0.241780725177450611770,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187,
        1.67638483018380384940,
        0.689767334985100004550,
        0.148103976427480074590,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_TAIL = (
    (
        6.65790464350110377720,
        5.46378491116411436990,
        1.78482653991729133580,
        0.296560571828504891230,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        0.599832206555887937690,
        0.136929880922735805310,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


def _ratio(x: Array, coefficients: tuple[Sequence[float], Sequence[float]]) -> Any:
    """The quotient of two polynomials, by Horner's rule."""
    top, bottom = (x * 0 + c[-1] for c in coefficients)
    for a, b in zip(reversed(coefficients[0][:-1]), reversed(coefficients[1][:-1]), strict=True):
        top, bottom = top * x + a, bottom * x + b
    return top / bottom


@custom_jvp
def _ndtri(p: Array) -> Any:
    q = p - 0.5
    is_centre = jnp.abs(q) <= 0.425
    centre = jnp.where(is_centre, q, 0.0)
    smaller = jnp.where(is_centre | (p <= 0) | (p >= 1), 0.5, jnp.minimum(p, 1 - p))
    r = jnp.sqrt(-jnp.log(smaller))
    side = jnp.where(r <= 5, _ratio(r - 1.6, _SIDE), _ratio(r - 5, _TAIL))
    value = jnp.where(
        is_centre, centre * _ratio(0.180625 - jnp.square(centre), _CENTRE), jnp.sign(q) * side
    )
    ends = jnp.where(p == 0, -jnp.inf, jnp.where(p == 1, jnp.inf, jnp.nan))
    return jnp.where((p > 0) & (p < 1), value, ends)


@_ndtri.defjvp
def _ndtri_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (p,), (t,) = primals, tangents
    y = _ndtri(p)
    return y, t * (math.sqrt(2 * math.pi) * jnp.exp(0.5 * jnp.square(y)))


@fast
def ndtri(p: ArrayLike) -> Array:
    """The inverse of `ndtr`: the value below which a normal variate is with probability p; nan
    outside [0, 1].

    >>> ndtri(0.5)
    Array(0., dtype=float32)

    Source: Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
    Statistics 37 (1988) 477.
    """
    p = floating("ndtri", p)
    # The coefficients exceed the range of float16.
    return _ndtri(p.astype(np.float32)).astype(p.dtype) if p.dtype.itemsize < 4 else _ndtri(p)


def softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """exp(x) / sum(exp(x)) along axes, by default all, without overflow.

    >>> softmax(jnp.zeros((2, 2)))
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    return nn.softmax(x, tuple(range(np.ndim(x))) if axis is None else axis)


def log_softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """log(softmax(x)) along axes, by default all, without overflow.

    >>> log_softmax(jnp.zeros(2))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return nn.log_softmax(x, tuple(range(np.ndim(x))) if axis is None else axis)
