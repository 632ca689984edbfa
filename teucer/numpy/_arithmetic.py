"""Division with remainder, powers, common divisors: elementwise functions of several operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._control_while import while_loop
from teucer.numpy._promotion import ANY, INEXACT, NUMERIC, as_value, check_arraylike, convert, promote
from teucer.numpy._ufuncs import binary, fast, is_kind, scalar_like

__all__ = ["divmod", "float_power", "floor_divide", "fmod", "gcd", "integer_exponent", "lcm", "power", "remainder"]


def _float_divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient and remainder of floats, the remainder with the sign of y."""
    rest = lax.rem(x, y)
    # Divided by zero there is no remainder to leave out: the quotient is infinite, or nan.
    whole = lax.div(lax.where_else(lax.eq(y, scalar_like(y, 0)), x, lax.sub(x, rest)), y)
    wrong = lax.bitwise_and(lax.ne(rest, scalar_like(x, 0)), lax.ne(lax.sign(y), lax.sign(rest)))
    rest = lax.where_else(wrong, lax.add(rest, y), rest)
    whole = lax.where_else(wrong, lax.sub(whole, scalar_like(x, 1)), whole)
    # Rounded, not floored: but for an error of rounding it is a whole number.
    return lax.round(whole), rest


def _floor_divide(x: Any, y: Any) -> Any:
    if is_kind(x, np.unsignedinteger):
        return lax.div(x, y)
    if is_kind(x, np.integer):
        quotient = lax.div(x, y)
        inexact = lax.bitwise_and(lax.ne(lax.sign(x), lax.sign(y)), lax.ne(lax.rem(x, y), scalar_like(x, 0)))
        return lax.where_else(inexact, lax.sub(quotient, scalar_like(x, 1)), quotient)
    if is_kind(x, np.complexfloating):
        raise TypeError("floor_divide does not support complex-valued inputs\n  Complex numbers have no order.")
    return _float_divmod(x, y)[0]


def _remainder(x: Any, y: Any) -> Any:
    zero = scalar_like(x, 0)
    if is_kind(x, np.integer):
        y = lax.where_else(lax.eq(y, zero), scalar_like(y, 1), y)
    rest = lax.rem(x, y)
    wrong = lax.bitwise_and(lax.ne(lax.lt(rest, zero), lax.lt(y, zero)), lax.ne(rest, zero))
    return lax.where_else(wrong, lax.add(rest, y), rest)


floor_divide = binary("floor_divide", NUMERIC, _floor_divide, "Greatest integer not above x1 / x2.")
remainder = binary("remainder", NUMERIC, _remainder,
                   "x1 - x2 * floor(x1 / x2): it has the sign of x2. 0 for integers where x2 is 0, nan for floats.")
divmod = binary("divmod", NUMERIC, lambda x, y: (
    _float_divmod(x, y) if is_kind(x, np.floating) else (_floor_divide(x, y), _remainder(x, y))),
    "The pair floor_divide(x1, x2), remainder(x1, x2).")
fmod = binary("fmod", NUMERIC, lambda x, y: lax.rem(x, lax.where_else(lax.eq(y, scalar_like(y, 0)), scalar_like(y, 1), y))
              if is_kind(x, np.integer) else lax.rem(x, y),
              "Remainder of x1 / x2 rounded towards zero: it has the sign of x1.")


# Powers

def integer_exponent(y: Any) -> bool:
    """Whether an exponent is an integer known while tracing: the power is then repeated multiplication."""
    return type(y) is int or isinstance(y, np.integer)


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2.

    x1, x2 meet in one dtype and shape; but a float or complex x1 keeps its dtype where x2 is an integer.
    Integers to negative powers raise TypeError where the exponent is a Python number; as an array it gives no meaningful value.

    >>> power(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    if integer_exponent(x2):
        check_arraylike("power", x1)
        base = as_value(x1)
        if typeof(base).dtype == np.bool_:
            base = convert(base, dtypes.canonicalize_dtype(int))
        return lax.integer_pow(base, int(x2))
    return _power(x1, x2)


def _power_of_arrays(x1: Any, x2: Any, /) -> Any:
    check_arraylike("power", x1, x2)
    exact = dtypes.issubdtype(typeof(x2).dtype, np.integer) or typeof(x2).dtype == np.bool_
    if exact and is_kind(x1, np.inexact):
        exponent = convert(x2, dtypes.to_numeric_dtype(typeof(x2).dtype))
        aval = typeof(x1)
        base, exponent = promote("power", ANY, x1, _shaped(exponent, x1)) if False else _broadcast(x1, exponent)
        return lax.pow(base, exponent)
    x, y = promote("power", NUMERIC, x1, x2)
    return _integer_power(x, y) if is_kind(x, np.integer) else lax.pow(x, y)
