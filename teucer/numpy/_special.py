"""Functions with a removable singularity, or by a special function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer._derived.custom_jvp import custom_jvp
from teucer.lax import _elementwise as lax
from teucer.lax._families import scalar_like
from teucer.lax._functions.gamma import is_turned, sine_of_half_turn, sine_of_turns
from teucer.numpy._bessel import bessel_0
from teucer.numpy._promotion import INEXACT
from teucer.numpy._ufuncs import is_kind, unary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import ArrayLike, Value

__all__ = ["i0", "sinc"]

# Terms of sin(x) / x = 1 - x^2 / 3! + ...: enough for float64 up to 1, and for the first 24
# derivatives at 0.
_SINC_TERMS = 12


@custom_jvp
def _sine_of_turns(x: Array) -> Any:
    """sin(pi x); 0 of integers has the sign of x (IEEE 754-2019, 9.2.1)."""
    sine = sine_of_turns(x)
    turned = lax.where_else(is_turned(x), lax.neg(sine), sine)
    zero = lax.where_else(lax.lt(x, scalar_like(x, 0)), scalar_like(x, -0.0), scalar_like(x, 0))
    return lax.where_else(lax.eq(sine, scalar_like(x, 0)), zero, turned)


@_sine_of_turns.defjvp
def _sine_tangent(primals: Sequence[Value], tangents: Sequence[Array]) -> Any:
    (x,), (t,) = primals, tangents
    return _sine_of_turns(x), lax.mul(t, lax.mul(scalar_like(x, math.pi), _cosine_of_turns(x)))


@custom_jvp
def _cosine_of_turns(x: Array) -> Any:
    """cos(pi x)."""
    cosine = sine_of_half_turn(lax.sub(scalar_like(x, 0.5), lax.abs(lax.sub(x, lax.round(x)))))
    return lax.where_else(is_turned(x), lax.neg(cosine), cosine)


@_cosine_of_turns.defjvp
def _cosine_tangent(primals: Sequence[Value], tangents: Sequence[Array]) -> Any:
    (x,), (t,) = primals, tangents
    return _cosine_of_turns(x), lax.mul(t, lax.mul(scalar_like(x, -math.pi), _sine_of_turns(x)))


def _sinc(x: ArrayLike) -> Any:
    if typeof(x).dtype.itemsize < 4:
        wide = lax.convert_element_type(x, np.float32)
        return lax.convert_element_type(_sinc(wide), typeof(x).dtype)
    # Near 0 the series: all of its derivatives are right there, where derivatives of the quotient
    # lose digits.
    turned = lax.mul(scalar_like(x, math.pi), x)
    size = lax.abs(turned)
    is_near = lax.lt(size, scalar_like(size, 1))
    square = lax.square(lax.where_else(is_near, turned, scalar_like(x, 0)))
    near: Any = scalar_like(x, 0)
    for k in range(_SINC_TERMS, -1, -1):
        near = lax.add(lax.mul(near, square), scalar_like(x, (-1) ** k / math.factorial(2 * k + 1)))
    safe = lax.where_else(is_near, scalar_like(x, 1), turned)
    # For complex numbers, by the sine itself.
    if typeof(x).dtype.kind == "c":
        # The sine of an infinite number is bounded, unless the imaginary part is infinite too.
        part = lax.real(x)
        is_infinite = lax.bitwise_and(
            lax.eq(lax.abs(part), scalar_like(part, math.inf)), lax.is_finite(lax.imag(x))
        )
        safe = lax.where_else(is_infinite, scalar_like(x, 1), safe)
        far = lax.where_else(is_infinite, scalar_like(x, 0), lax.div(lax.sin(safe), safe))
        return lax.where_else(is_near, near, far)
    is_infinite = lax.eq(size, scalar_like(x, math.inf))
    sine = _sine_of_turns(
        lax.where_else(lax.bitwise_or(is_near, is_infinite), scalar_like(x, 1), x)
    )
    far = lax.where_else(is_infinite, scalar_like(x, 0), lax.div(sine, safe))
    return lax.where_else(is_near, near, far)


sinc = unary("sinc", INEXACT, _sinc, "sin(pi x) / (pi x), and 1 at 0.")


def _i0(x: ArrayLike) -> Any:
    if not is_kind(x, np.floating):
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {typeof(x).dtype}")
    return bessel_0(x)


i0 = unary(
    "i0", INEXACT, _i0, "Modified Bessel function of the first kind, of order 0.", keyword=True
)
