"""The Faddeeva function and its kin.

Scaled error function, Dawson's and Fresnel integrals; sine and cosine integrals.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._trees.pytrees import tree_map
from teucer.numpy._library import fast
from teucer.numpy._promotion import COMPLEX, promote
from teucer.scipy._operands import inexact, real

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.typing import Arrays


_SQRT_PI = math.sqrt(math.pi)


@functools.cache
def _expansion(count: int) -> tuple[float, tuple[float, ...]]:
    """The parameter L, and the coefficients of the rational expansion of w, the highest first.

    Weideman, "Computation of the complex error function", SIAM J. Numer. Anal. 31 (1994) 1497.
    """
    length = math.sqrt(count / math.sqrt(2))
    size = 2 * count
    t = length * np.tan(np.arange(-size + 1, size) * np.pi / size / 2)
    samples = np.concatenate([[0.0], np.exp(-t * t) * (length * length + t * t)])
    coefficients = np.fft.fft(np.fft.fftshift(samples)).real / (2 * size)
    return length, tuple(coefficients[1 : count + 1][::-1].tolist())


def _rational(u: Array) -> Any:
    """w(i u) for Re u >= 0."""
    count = 56 if u.dtype in (np.float64, np.complex128) else 24
    length, coefficients = _expansion(count)
    inverse = 1 / (length + u)
    z = (length - u) * inverse
    p: Any = jnp.full_like(z, coefficients[0])
    for c in coefficients[1:]:
        p = p * z + c
    return (2 * p * inverse + 1 / _SQRT_PI) * inverse


@custom_jvp
def _wofz(z: Array) -> Any:
    is_upper = z.imag >= 0
    upper = _rational(-1j * jnp.where(is_upper, z, -z))
    # Computed only where it is needed: elsewhere it may overflow.
    below = jnp.where(is_upper, 0, z)
    return jnp.where(is_upper, upper, 2 * jnp.exp(-below * below) - upper)


@_wofz.defjvp
def _wofz_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (z,), (t,) = primals, tangents
    w = _wofz(z)
    return w, t * (2j / _SQRT_PI - 2 * z * w)


@fast
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function exp(-z^2) erfc(-i z), of complex numbers.

    >>> wofz(0j).shape
    ()
    """
    (z,) = promote("wofz", COMPLEX, z)
    return _wofz(jnp.asarray(z, jnp.result_type(z)))


@custom_jvp
def _erfcx(x: Array) -> Any:
    is_positive = x >= 0
    positive = _rational(jnp.abs(x))
    below = jnp.where(is_positive, 0, x)
    y = jnp.where(is_positive, positive, 2 * jnp.exp(below * below) - positive)
    return jnp.where(jnp.isnan(x), x, jnp.where(x == -jnp.inf, jnp.inf, y))


@_erfcx.defjvp
def _erfcx_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    y = _erfcx(x)
    return y, t * (2 * x * y - 2 / _SQRT_PI)


# The coefficients of (-1 / (2 x^2))^k in sqrt(pi) x erfcx(x): DLMF 7.12.1.
_FAR_TERMS = tuple(float(math.prod(range(1, 2 * k, 2))) for k in range(13))


def _erfcx_of_any(x: Array) -> Any:
    """By an asymptotic series where x is large: there the derivatives of the other formula
    cancel."""
    least, count = {8: (10, 13), 4: (5, 11)}.get(x.dtype.itemsize, (5, 5))
    is_far = x > least
    inverse = 1 / jnp.where(is_far, x, least)
    v, total = -0.5 * inverse * inverse, jnp.zeros_like(x)
    for c in reversed(_FAR_TERMS[:count]):
        total = total * v + c
    return jnp.where(is_far, total * inverse / _SQRT_PI, _erfcx(jnp.where(is_far, 1, x)))


@fast
def erfcx(x: ArrayLike) -> Array:
    """exp(x^2) erfc(x), without overflow for positive x; of complex numbers too.

    >>> erfcx(jnp.inf)
    Array(0., dtype=float32)
    """
    (x,) = inexact("erfcx", x)
    x = jnp.asarray(x, x.dtype)  # not weakly typed
    return _wofz(1j * x) if jnp.iscomplexobj(x) else _erfcx_of_any(x)


_BEYOND = 1e9


@custom_jvp
def _dawsn(x: Array) -> Any:
    is_small = jnp.abs(x) < 1
    small = jnp.where(is_small, x, 0)
    # x (1 - (2 x^2) / 3 (1 - (2 x^2) / 5 (...))), DLMF 7.6.2 with the exponential moved in.
    series: Any = jnp.ones_like(small)
    for k in range(24, 0, -1):
        series = 1 - 2 * small * small / (2 * k + 1) * series
    # Beyond a limit dawsn(x) is 1 / (2 x).
    is_beyond = jnp.abs(x) > _BEYOND
    size = jnp.where(is_beyond, 1, jnp.abs(x))
    far = 0.5 * _SQRT_PI * _rational(lax.complex(jnp.zeros_like(x), -size)).imag * jnp.sign(x)
    far = jnp.where(is_beyond, 0.5 / jnp.where(is_beyond, x, 1), far)
    return jnp.where(is_small, small * series, far)


@_dawsn.defjvp
def _dawsn_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    y = _dawsn(x)
    return y, t * (1 - 2 * x * y)


@fast
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) over t from 0 to x.

    >>> dawsn(0.)
    Array(0., dtype=float32)
    """
    (x,) = real("dawsn", x, error=ValueError)
    return _in_single(_dawsn, jnp.asarray(x, jnp.result_type(x)))  # not weakly typed


def _in_single(f: Callable[..., object], x: Array) -> Any:
    """f(x), computed in floats for which there are complex numbers of their precision."""
    dtype = jnp.result_type(x)
    return (
        f(x)
        if dtype.itemsize >= 4
        else tree_map(lambda y: y.astype(dtype), f(x.astype(np.float32)))
    )


@custom_jvp
def _fresnel(x: Array) -> tuple[Any, Any]:
    is_small = jnp.abs(x) < 1
    small = jnp.where(is_small, x, 0)
    # Power series in the square of q = pi x^2 / 2. DLMF 7.6.4, 7.6.6.
    q = 0.5 * math.pi * small * small
    sine, cosine = jnp.zeros_like(x), jnp.zeros_like(x)
    for n in range(9, -1, -1):
        sign = 1 - 2 * (n % 2)
        cosine = cosine * q * q + sign / (math.factorial(2 * n) * (4 * n + 1))
        sine = sine * q * q + sign / (math.factorial(2 * n + 1) * (4 * n + 3))
    far = jnp.where(is_small, 1, jnp.abs(x))
    # From where the oscillation is below rounding, its phase is not computed.
    bounded = ~(far > 2 / float(dtypes.finfo(x.dtype).eps))
    far = jnp.where(bounded, far, 1)
    # The phase in quarter turns. Whole turns are dropped while they are exact.
    phase = 0.5 * math.pi * (far * far % 4)
    scaled = 0.5 * _SQRT_PI * far
    w = _rational(lax.complex(scaled, -scaled))
    product = lax.complex(jnp.cos(phase), jnp.sin(phase)) * w
    real, imag = 1 - product.real, -product.imag
    c, s = (
        jnp.where(bounded, 0.5 * (real - imag), 0.5),
        jnp.where(bounded, 0.5 * (real + imag), 0.5),
    )
    c, s = (jnp.where(jnp.isnan(x), x, jnp.sign(x) * y) for y in (c, s))
    return jnp.where(is_small, small * q * sine, s), jnp.where(is_small, small * cosine, c)


@_fresnel.defjvp
def _fresnel_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    phase = 0.5 * math.pi * (x * x % 4)
    return _fresnel(x), (t * jnp.sin(phase), t * jnp.cos(phase))


@fast
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The integrals of sin(pi t^2 / 2) and of cos(pi t^2 / 2) over t from 0 to x.

    >>> fresnel(0.)
    (Array(0., dtype=float32), Array(0., dtype=float32))
    """
    (x,) = real("fresnel", x)
    return _in_single(_fresnel, jnp.asarray(x, jnp.result_type(x)))


@custom_jvp
def _sici(x: Array) -> tuple[Any, Any]:
    magnitude = jnp.abs(x)
    is_small = magnitude <= 3
    small, far = jnp.where(is_small, magnitude, 1), jnp.where(is_small, 4, magnitude)
    # Power series in the square. Abramowitz & Stegun 5.2.14, 5.2.16.
    q = small * small
    sine, cosine = jnp.zeros_like(x), jnp.zeros_like(x)
    for n in range(16, 0, -1):
        sign = 1 - 2 * (n % 2)
        sine = (sine + sign / (math.factorial(2 * n + 1) * (2 * n + 1))) * q
        cosine = (cosine + sign / (math.factorial(2 * n) * (2 * n))) * q
    near_s, near_c = (
        small * (1 + sine),
        np.euler_gamma + jnp.log(jnp.where(x == 0, 1, small)) + cosine,
    )
    # E_1(i x) by its continued fraction from the end. Abramowitz & Stegun 5.1.22, 5.2.23.
    z = lax.complex(jnp.zeros_like(far), jnp.where(jnp.isfinite(far), far, 4))
    count = 120 if jnp.result_type(x) == np.float64 else 32
    tail: Any = lax.fori_loop(
        0,
        count,
        lambda i, tail: (count - i) ** 2 / (z + (1 + 2 * (count - i)) - tail),
        jnp.zeros_like(z),
    )
    e1 = lax.complex(jnp.cos(far), -jnp.sin(far)) / (z + 1 - tail)
    bounded = jnp.isfinite(far)
    far_s, far_c = (
        jnp.where(bounded, 0.5 * math.pi + e1.imag, 0.5 * math.pi),
        jnp.where(bounded, -e1.real, 0),
    )
    s = jnp.sign(x) * jnp.where(is_small, near_s, far_s)
    c = jnp.where(
        x == -jnp.inf, jnp.nan, jnp.where(x == 0, -jnp.inf, jnp.where(is_small, near_c, far_c))
    )
    return jnp.where(jnp.isnan(x), x, s), jnp.where(jnp.isnan(x), x, c)


@_sici.defjvp
def _sici_jvp(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (t,) = primals, tangents
    return _sici(x), (t * jnp.sinc(x / math.pi), t * jnp.divide(jnp.cos(x), x))


@fast
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The integral of sin(t) / t over t from 0 to x, and the cosine integral Ci(x); for x < 0 it is
    Ci(-x).

    >>> sici(0.)
    (Array(0., dtype=float32), Array(-inf, dtype=float32))
    """
    (x,) = real("sici", x, error=ValueError)
    return _in_single(_sici, jnp.asarray(x, jnp.result_type(x)))
