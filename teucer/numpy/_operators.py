"""The operators of arrays and tracers.

`x + y` is one call of C++ on arrays, and one bind of a primitive on tracers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes, memo
from teucer._core import trace
from teucer._core.high import as_array
from teucer._core.trace import Tracer
from teucer._core.types import is_valid_type
from teucer._programs.run import shard_arg_fallback
from teucer._transform.jit import call_jitted
from teucer._transform.jit_options import JitOptions
from teucer._xla.dispatcher import dispatcher
from teucer.lax import _elementwise as lax
from teucer.numpy import _arithmetic, _linear, _ufuncs

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike


_OPTIONS = JitOptions(inline=True)
_NUMBERS = dtypes.ALL_SET - {dtypes.bool_}
_FLOATS = frozenset(dtypes.INEXACT)
_INTEGERS = frozenset(dtypes.INTEGERS) | {dtypes.bool_}


class Row(NamedTuple):
    """An operator: its function, and the primitive that it equals on operands of one type with one
    of the `direct` dtypes."""

    function: Callable[..., Any]
    symbol: str
    primitive: Any = None
    direct: frozenset[Any] = frozenset()
    reflected: bool = True


OPERATORS = {
    "add": Row(_ufuncs.add, "+", lax.add_p, _NUMBERS),
    "sub": Row(_ufuncs.subtract, "-", lax.sub_p, _NUMBERS),
    "mul": Row(_ufuncs.multiply, "*", lax.mul_p, _NUMBERS),
    "truediv": Row(_ufuncs.divide, "/", lax.div_p, _FLOATS),
    "floordiv": Row(_arithmetic.floor_divide, "//"),
    "mod": Row(_arithmetic.remainder, "%"),
    "divmod": Row(_arithmetic.divmod, "divmod()"),
    "matmul": Row(_linear.matmul, "@"),
    "and": Row(_ufuncs.bitwise_and, "&", lax.and_p, _INTEGERS),
    "or": Row(_ufuncs.bitwise_or, "|", lax.or_p, _INTEGERS),
    "xor": Row(_ufuncs.bitwise_xor, "^", lax.xor_p, _INTEGERS),
    "lshift": Row(_ufuncs.left_shift, "<<"),
    "rshift": Row(_ufuncs.right_shift, ">>"),
    "eq": Row(_ufuncs.equal, "==", lax.eq_p, dtypes.ALL_SET, reflected=False),
    "ne": Row(_ufuncs.not_equal, "!=", lax.ne_p, dtypes.ALL_SET, reflected=False),
    "lt": Row(_ufuncs.less, "<", lax.lt_p, _NUMBERS - frozenset(dtypes.COMPLEX), reflected=False),
    "le": Row(
        _ufuncs.less_equal, "<=", lax.le_p, _NUMBERS - frozenset(dtypes.COMPLEX), reflected=False
    ),
    "gt": Row(
        _ufuncs.greater, ">", lax.gt_p, _NUMBERS - frozenset(dtypes.COMPLEX), reflected=False
    ),
    "ge": Row(
        _ufuncs.greater_equal, ">=", lax.ge_p, _NUMBERS - frozenset(dtypes.COMPLEX), reflected=False
    ),
}
_INT32 = np.dtype(np.int32)


def _as_float32(x: float) -> Any:
    # NumPy warns of overflow; infinities stay.
    return np.float32(x) if -3.4e38 < x < 3.4e38 else x


# Conversions of Python numbers that meet an array, by its dtype, in 32-bit mode. Only dtypes that
# convert all numbers alike are here.
_AS_OPERAND: dict[Any, Callable[[Any], Any]] = {np.dtype(np.float32): _as_float32, _INT32: np.int32}
_ACCEPTED = (ArrayImpl, Tracer, np.ndarray, np.generic, bool, int, float, complex)
_REFUSED = (list, tuple, dict, set)
_ORDER = ("<", "<=", ">", ">=")


def accepts(x: Any, y: Any, symbol: str, reflected: bool = False) -> bool:
    """Whether `y` is an operand for an operator of x; if `reflected`, with y on the left. False
    leaves the operator to y's class.

    Raises TypeError for Python's containers, which have operators that would take the array apart.
    """
    if isinstance(y, _ACCEPTED) or is_valid_type(y):
        return True
    if isinstance(y, _REFUSED):
        left, right = (type(z).__name__ for z in ((y, x) if reflected else (x, y)))
        what = (
            f"{symbol!r} not supported between instances of {left!r} and {right!r}"
            if symbol in _ORDER
            else f"unsupported operand type(s) for {symbol}: {left!r} and {right!r}"
        )
        raise TypeError(f"{what}\n  Convert the operand first: jnp.asarray(...).")
    return False


def _array_operator(function: Any, symbol: str) -> Any:
    """An operator of arrays: the C++ dispatcher itself."""
    plain = function.__wrapped__
    swapped = plain is function  # _reflected's

    def cache_miss(x: Array, y: ArrayLike) -> tuple[Any, Any]:
        if y is not (y := as_array(y)):
            return cache_miss(x, y)[0], None
        if not accepts(x, y, symbol, swapped):
            return NotImplemented, None
        if trace.current_trace() is not trace.EVAL:
            return plain(x, y), None
        return call_jitted(plain, _OPTIONS, (x, y), {})

    return dispatcher(plain.__name__, plain, cache_miss, shard_arg_fallback=shard_arg_fallback)


def _reflected(function: Any) -> Any:
    """The function with its two operands exchanged."""
    plain = function.__wrapped__

    def exchanged(y: Array, x: ArrayLike) -> Any:
        return plain(x, y)

    exchanged.__name__ = plain.__name__
    exchanged.__wrapped__ = exchanged  # type: ignore[attr-defined]
    return exchanged


def _tracer_operator(function: Any, row: Row) -> Any:
    """An operator of tracers: where the operands are of one type, or one is a float, the
    primitive's bind."""
    plain, symbol = function.__wrapped__, row.symbol
    swapped = plain is function  # _reflected's
    if row.primitive is None:

        def operator(x: Array, y: ArrayLike) -> Any:
            y = as_array(y)
            return plain(x, y) if accepts(x, y, symbol, swapped) else NotImplemented

        return operator
    bind, direct = row.primitive.call, row.direct
    known: dict[Any, None] = {}  # types of two operands on which the primitive acts as it is
    numbers: dict[
        Any, Any
    ] = {}  # (type, kind of Python's number) -> the function that converts the number

    def fast_operator(x: Any, y: Any) -> Any:
        aval = x.aval
        kind = type(y)
        if kind is float or kind is int:
            as_operand = numbers.get((aval, kind))
            if as_operand is not None and not config.enable_x64.value:
                y = as_operand(y)
                return (bind(y, x) if swapped else bind(x, y))[0]
        elif (kind is type(x) or kind is ArrayImpl) and y.aval is aval and aval in known:
            return (bind(y, x) if swapped else bind(x, y))[0]
        if y is not (y := as_array(y)):
            return fast_operator(x, y)
        if not accepts(x, y, symbol, swapped):
            return NotImplemented
        if aval.dtype in direct:
            memo.remember(known, aval, None, memo.RECENT)
            if aval.dtype in _AS_OPERAND and not (aval.weak_type and aval.dtype == _INT32):
                as_operand = float if aval.weak_type else _AS_OPERAND[aval.dtype]
                for k in (int,) if aval.dtype == _INT32 else (int, float):
                    memo.remember(numbers, (aval, k), as_operand, memo.RECENT)
        return plain(x, y)

    return fast_operator


def _unary_operator(function: Callable[..., object]) -> Any:
    def operator(x: Array) -> Any:
        return function(x)

    return operator


def _power(x: ArrayLike, y: ArrayLike) -> Any:
    # An integer exponent decides the program, so this is no call of C++ at once.
    return _arithmetic.power(x, y) if accepts(x, y, "** or pow()") else NotImplemented


def _reflected_power(x: Array, y: Array) -> Any:
    return _arithmetic.power(y, x) if accepts(x, y, "** or pow()", True) else NotImplemented


_POWER = {"__pow__": _power, "__rpow__": _reflected_power}
_UNARY = {
    "__neg__": _ufuncs.negative,
    "__pos__": _ufuncs.positive,
    "__abs__": _ufuncs.abs,
    "__invert__": _ufuncs.bitwise_not,
}


def array_operators() -> dict[str, Any]:
    """The operators of arrays by the names of their methods."""
    members: dict[str, Any] = dict(_POWER)
    for name, row in OPERATORS.items():
        members[f"__{name}__"] = _array_operator(row.function, row.symbol)
        if row.reflected:
            members[f"__r{name}__"] = _array_operator(_reflected(row.function), row.symbol)
    members.update({name: function.compiled for name, function in _UNARY.items()})
    return members


def tracer_operators() -> dict[str, Any]:
    """The operators of tracers by the names of their methods."""
    members: dict[str, Any] = dict(_POWER)
    for name, row in OPERATORS.items():
        members[f"__{name}__"] = _tracer_operator(row.function, row)
        if row.reflected:
            members[f"__r{name}__"] = _tracer_operator(_reflected(row.function), row)
    members.update(
        {name: _unary_operator(function.__wrapped__) for name, function in _UNARY.items()}
    )
    return members
