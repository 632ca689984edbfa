"""Division with remainder, powers, common divisors: elementwise functions of several operations."""

from __future__ import annotations

from typing import Any, SupportsInt, TypeGuard

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._families import scalar_like
from teucer.lax._reductions import reduce_or
from teucer.numpy import _promotion as promotion
from teucer.numpy._library import fast
from teucer.numpy._ufuncs import binary, is_kind

__all__ = ["divmod", "float_power", "floor_divide", "fmod", "gcd", "lcm", "power", "remainder"]


def _float_divmod(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Quotient and remainder of floats, the remainder with the sign of y."""
    rest = lax.rem(x, y)
    # Divided by zero there is no remainder to leave out: the quotient is infinite, or nan.
    whole = lax.div(lax.where_else(lax.eq(y, scalar_like(y, 0)), x, lax.sub(x, rest)), y)
    wrong = lax.bitwise_and(lax.ne(rest, scalar_like(x, 0)), lax.ne(lax.sign(y), lax.sign(rest)))
    rest = lax.where_else(wrong, lax.add(rest, y), rest)
    whole = lax.where_else(wrong, lax.sub(whole, scalar_like(x, 1)), whole)
    # Rounded, not floored: but for an error of rounding it is a whole number.
    return lax.round(whole), rest


def _floor_divide(x: ArrayLike, y: ArrayLike) -> Any:
    if is_kind(x, np.unsignedinteger):
        return lax.div(x, y)
    if is_kind(x, np.integer):
        quotient = lax.div(x, y)
        inexact = lax.bitwise_and(
            lax.ne(lax.sign(x), lax.sign(y)), lax.ne(lax.rem(x, y), scalar_like(x, 0))
        )
        return lax.where_else(inexact, lax.sub(quotient, scalar_like(x, 1)), quotient)
    if is_kind(x, np.complexfloating):
        raise TypeError(
            "floor_divide does not support complex-valued inputs\n  Complex numbers have no order."
        )
    return _float_divmod(x, y)[0]


def _remainder(x: ArrayLike, y: ArrayLike) -> Any:
    zero = scalar_like(x, 0)
    if is_kind(x, np.integer):
        y = lax.where_else(lax.eq(y, zero), scalar_like(y, 1), y)
    rest = lax.rem(x, y)
    wrong = lax.bitwise_and(lax.ne(lax.lt(rest, zero), lax.lt(y, zero)), lax.ne(rest, zero))
    return lax.where_else(wrong, lax.add(rest, y), rest)


floor_divide = binary(
    "floor_divide", promotion.NUMERIC, _floor_divide, "Greatest integer not above x1 / x2."
)
remainder = binary(
    "remainder",
    promotion.NUMERIC,
    _remainder,
    (
        "x1 - x2 * floor(x1 / x2): it has the sign of x2. 0 for integers where x2 is 0, nan for "
        "floats."
    ),
)
divmod = binary(
    "divmod",
    promotion.NUMERIC,
    lambda x, y: (
        _float_divmod(x, y) if is_kind(x, np.floating) else (_floor_divide(x, y), _remainder(x, y))
    ),
    "The pair floor_divide(x1, x2), remainder(x1, x2).",
)
fmod = binary(
    "fmod",
    promotion.NUMERIC,
    lambda x, y: (
        lax.rem(x, lax.where_else(lax.eq(y, scalar_like(y, 0)), scalar_like(y, 1), y))
        if is_kind(x, np.integer)
        else lax.rem(x, y)
    ),
    "Remainder of x1 / x2 rounded towards zero: it has the sign of x1.",
)


# Powers


def integer_exponent(y: object) -> TypeGuard[SupportsInt]:
    """Whether an exponent is one integer known while tracing: the power is then repeated
    multiplication."""
    return (
        type(y) is int
        or isinstance(y, np.integer)
        or (
            isinstance(y, ArrayImpl | np.ndarray)
            and not y.shape
            and dtypes.issubdtype(y.dtype, np.integer)
        )
    )


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2.

    x1, x2 meet in one dtype and shape; but a float or complex x1 keeps its dtype where x2 is an
    integer. Integers to negative powers raise TypeError where the exponent is one known number; in
    an array it gives no meaningful value.

    >>> power(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    if integer_exponent(x2):
        promotion.check_arraylike("power", x1)
        base = promotion.as_value(x1)
        if typeof(base).dtype == np.bool_:
            base = promotion.convert(base, np.dtype(np.int32))
        return lax.integer_pow(base, int(x2))
    return _power(x1, x2)


@fast
def _power(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    promotion.check_arraylike("power", x1, x2)
    x2_dtype = typeof(x2).dtype
    if is_kind(x1, np.inexact) and dtypes.issubdtype(x2_dtype, np.integer):
        aval = typeof(x1)
        base = promotion.convert(
            promotion.as_value(x1), aval.dtype, aval.weak_type and typeof(x2).weak_type
        )
        return lax.pow(*promotion.promote_shapes("power", base, promotion.convert(x2, x2_dtype)))
    x, y = promotion.promote("power", promotion.NUMERIC, x1, x2)
    if is_kind(x, np.integer):
        return _integer_power(*(promotion.convert(v, typeof(v).dtype) for v in (x, y)))
    return lax.pow(x, y)


def _integer_power(x: ArrayLike, y: ArrayLike) -> Any:
    """x to the power y, by squaring. A negative y is taken as the unsigned integer of its bits."""
    shape = np.shape(x) or np.shape(y)
    from teucer.lax._control.while_loop import (
        while_loop,
    )  # here and below: modules of loops that few programs need

    zero, one = scalar_like(x, 0), scalar_like(x, 1)
    x, y = (promotion.broadcast_to(v, shape) for v in (x, y))
    start = _structure.full(shape, 1, typeof(x).dtype)

    def step(state: Any) -> Any:
        result, base, exponent = state
        odd = lax.eq(lax.bitwise_and(exponent, one), one)
        return (
            lax.select(odd, lax.mul(result, base), result),
            lax.mul(base, base),
            lax.shift_right_logical(exponent, one),
        )

    def left(state: Any) -> Any:
        return reduce_or(lax.ne(state[2], zero), tuple(range(len(shape))))

    return while_loop(left, step, (start, _structure.convert_element_type(x, typeof(x).dtype), y))[
        0
    ]


float_power = binary(
    "float_power",
    promotion.INEXACT,
    lax.pow,
    "x1 to the power x2, computed on floats or complex numbers.",
)


# Common divisors


def _integers(name: str, *xs: Any) -> tuple[Any, Any]:
    x, y = promotion.promote(name, promotion.ANY, *xs)
    if not is_kind(x, np.integer):
        raise ValueError(
            f"Arguments to jax.numpy.{name} must be integers.\n"
            f"    x1: {typeof(xs[0])}, x2: {typeof(xs[1])}"
        )
    shape = np.shape(x) or np.shape(y)
    return promotion.broadcast_to(x, shape), promotion.broadcast_to(y, shape)


def _magnitude(x: Any) -> Any:
    return x if is_kind(x, np.unsignedinteger) else lax.abs(x)


def _greatest_divisor(x: Any, y: Any) -> Any:
    """Euclid's algorithm on all elements at once."""
    from teucer.lax._control.while_loop import while_loop

    zero, one = scalar_like(x, 0), scalar_like(x, 1)
    axes = tuple(range(np.ndim(x)))

    def step(pair: Any) -> Any:
        a, b = pair
        done = lax.eq(b, zero)
        return lax.where_else(done, a, b), lax.where_else(
            done, zero, lax.rem(a, lax.where_else(done, one, b))
        )

    weak = typeof(x).weak_type
    start = tuple(_structure.convert_element_type(_magnitude(v), typeof(x).dtype) for v in (x, y))
    out = while_loop(lambda pair: reduce_or(lax.ne(pair[1], zero), axes), step, start)[0]
    # The magnitude of the smallest integer is negative, and so may be the last remainder.
    return _structure.convert_element_type(_magnitude(out), typeof(x).dtype, weak)


@fast
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor of |x1| and |x2|; gcd(0, 0) is 0.

    x1, x2: integers, which meet in one dtype and shape. Raises ValueError for other dtypes.

    >>> gcd(12, 18)
    Array(6, dtype=int32, weak_type=True)
    """
    return _greatest_divisor(*_integers("gcd", x1, x2))


@fast
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple of |x1| and |x2|; 0 if one is 0.

    x1, x2: integers, which meet in one dtype and shape. Raises ValueError for other dtypes.

    >>> lcm(4, 6)
    Array(12, dtype=int32, weak_type=True)
    """
    x, y = map(_magnitude, _integers("lcm", x1, x2))
    divisor = _greatest_divisor(x, y)
    none = lax.eq(divisor, scalar_like(divisor, 0))
    safe = lax.where_else(none, scalar_like(divisor, 1), divisor)
    return lax.where_else(none, scalar_like(divisor, 0), lax.mul(x, lax.div(y, safe)))
