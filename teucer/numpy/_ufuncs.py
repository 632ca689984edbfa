"""Elementwise functions, a row each.

How dtypes are promoted, and the operations of lax that follow.

Those that only promote are not here: rows of lax say their names, and `_rows` makes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._families import scalar_like
from teucer.numpy._creation import asarray
from teucer.numpy._library import LibraryBinary, LibraryUnary, fast
from teucer.numpy._promotion import ANY, COMPLEX, FLOATING, INEXACT, NUMERIC, promote

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike

__all__ = [
    "abs", "bitwise_count", "bitwise_not", "ceil", "conj", "deg2rad", "divide", "equal", "fabs",
    "floor", "greater", "greater_equal", "imag", "isfinite", "isinf", "isnan", "left_shift",
    "less", "less_equal", "log10", "log2", "logical_not", "not_equal", "positive", "rad2deg",
    "real", "reciprocal", "right_shift", "rint", "sign", "trunc",
]  # fmt: skip

Function = Callable[..., Any]
_HOST = (bool, int, float, complex, np.generic, np.ndarray)


def is_kind(x: Any, kind: object) -> bool:
    """Whether the dtype of a value belongs to a family."""
    return dtypes.issubdtype(typeof(x).dtype, kind)


def unary(
    name: str, kind: str, operation: Function, doc: str, *, keyword: bool = False
) -> LibraryUnary:
    """A row for a function of one operand, which a few functions take by keyword too."""

    def function(x: ArrayLike, /) -> Array:
        return as_array(operation(*promote(name, kind, x)))

    def by_keyword(x: ArrayLike) -> Array:
        return as_array(operation(*promote(name, kind, x)))

    return _named(by_keyword if keyword else function, name, kind, doc, "x")


def as_array(x: ArrayLike) -> Any:
    """An array for a number or a NumPy array. Without this, an operation that changes nothing would
    return its operand as it is while tracing."""
    return asarray(x) if isinstance(x, _HOST) else x


def constant(x: ArrayLike, value: complex) -> Any:
    """A number of x's dtype in a formula of x. As in JAX, a weakly typed scalar x gives a weak
    result, a weakly typed array does not."""
    aval = typeof(x)
    return _structure.number(value, aval.dtype) if aval.shape else scalar_like(x, value)


def binary(
    name: str, kind: str, operation: Function, doc: str, *, keyword: bool = False
) -> LibraryBinary:
    """A row for a function of two operands, which meet in one dtype and shape; a few functions take
    them by keyword too."""

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        return operation(*promote(name, kind, x1, x2))

    def by_keyword(x1: ArrayLike, x2: ArrayLike) -> Array:
        return operation(*promote(name, kind, x1, x2))

    return _named(by_keyword if keyword else function, name, kind, doc, "x1, x2")


_KINDS = {
    ANY: "T",
    NUMERIC: "T, bool as int32",
    INEXACT: "T, integers and bool as floats",
    FLOATING: "T real floating",
    COMPLEX: "T complex",
}


def _named(function: Callable[..., object], name: str, kind: str, doc: str, operands: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "teucer.numpy"
    meet = "" if operands == "x" else "; operands meet in one dtype and broadcast to one shape"
    function.__doc__ = (
        f"{doc}\n\n    {operands}: {_KINDS[kind]}{meet}.\n"
        "    Raises TypeError if an operand is no array or "
        f"number{', or shapes do not fit' * bool(meet)}.\n    "
    )
    return fast(function)


# Reciprocal, logarithms, angles

reciprocal = unary("reciprocal", INEXACT, lax.reciprocal, "Reciprocal 1 / x.")


def _strong(y: Any) -> Any:
    return lax.convert_element_type(y, y.dtype)  # as JAX 0.10 has logarithms of numbers


log2 = unary("log2", INEXACT, lambda x: _strong(lax.log2(x)), "Logarithm to base 2.")
log10 = unary("log10", INEXACT, lambda x: _strong(lax.log10_p.call(x)[0]), "Logarithm to base 10.")
deg2rad = unary(
    "deg2rad", INEXACT, lambda x: lax.mul(x, constant(x, math.pi / 180)), "Degrees as radians."
)
rad2deg = unary(
    "rad2deg", INEXACT, lambda x: lax.mul(x, constant(x, 180 / math.pi)), "Radians as degrees."
)

# Arithmetic


def _on_bool(for_bool: Function, for_numbers: Function) -> Function:
    return lambda x, y: for_bool(x, y) if typeof(x).dtype == np.bool_ else for_numbers(x, y)


add = binary("add", ANY, _on_bool(lax.bitwise_or, lax.add), "Sum x1 + x2; of booleans, or.")
subtract = binary("subtract", ANY, lax.sub, "Difference x1 - x2.")
multiply = binary(
    "multiply", ANY, _on_bool(lax.bitwise_and, lax.mul), "Product x1 * x2; of booleans, and."
)
divide = binary("divide", INEXACT, lax.div, "Quotient x1 / x2, as floats or complex numbers.")
negative = unary("negative", ANY, lax.neg, "Negative -x.")
positive = unary("positive", ANY, lambda x: x, "x itself.")
maximum = binary("maximum", ANY, lax.max, "Greater of x1 and x2; nan if one is nan.")
minimum = binary("minimum", ANY, lax.min, "Lesser of x1 and x2; nan if one is nan.")


def _absolute(x: ArrayLike) -> Any:
    return x if is_kind(x, np.unsignedinteger) or is_kind(x, np.bool_) else lax.abs(x)


def _real_absolute(x: ArrayLike) -> Any:
    if is_kind(x, np.complexfloating):
        raise TypeError("ufunc 'fabs' does not support complex dtypes\n  jnp.abs does.")
    return lax.abs(x)


abs = unary("abs", ANY, _absolute, "Absolute value; of the smallest integer, that integer.")
fabs = unary("fabs", INEXACT, _real_absolute, "Absolute value, as a float.")
sign = unary("sign", ANY, lax.sign, "Sign: -1, 0 or 1; x / |x| of complex x; nan of nan.")

# Rounding


def _rounding(operation: Function) -> Function:
    return lambda x: x if is_kind(x, np.integer) or is_kind(x, np.bool_) else operation(x)


def _trunc(x: ArrayLike) -> Any:
    below = lax.lt(x, scalar_like(x, 0))
    return lax.select(below, lax.ceil(x), lax.floor(x))


def rint_operation(x: ArrayLike) -> Any:
    """The nearest integer, even half way; of both parts of complex numbers. Integers become floats,
    strongly typed."""
    if not is_kind(x, np.inexact):
        return _structure.convert_element_type(x, dtypes.canonicalize_dtype(float))
    nearest = lax.RoundingMethod.TO_NEAREST_EVEN
    if is_kind(x, np.complexfloating):
        return lax.complex(lax.round(lax.real(x), nearest), lax.round(lax.imag(x), nearest))
    return lax.round(x, nearest)


floor = unary("floor", ANY, _rounding(lax.floor), "Greatest integer not above x.")
ceil = unary("ceil", ANY, _rounding(lax.ceil), "Least integer not below x.")
trunc = unary("trunc", ANY, _rounding(_trunc), "Integer part of x.", keyword=True)
rint = unary(
    "rint", ANY, rint_operation, "Nearest integer as a float; the even one half way between two."
)

# Comparison


def _ordered(name: str, operation: Function) -> Function:
    """A comparison, on complex numbers by real, then by imaginary parts."""

    def compare(x: ArrayLike, y: Any) -> Any:
        if not is_kind(x, np.complexfloating):
            return operation(x, y)
        same = lax.eq(lax.real(x), lax.real(y))
        return lax.bitwise_or(
            lax.bitwise_and(lax.ne(lax.real(x), lax.real(y)), operation(lax.real(x), lax.real(y))),
            lax.bitwise_and(same, operation(lax.imag(x), lax.imag(y))),
        )

    return compare


equal = binary("equal", ANY, lax.eq, "Whether x1 == x2.")
not_equal = binary("not_equal", ANY, lax.ne, "Whether x1 != x2.")
less = binary(
    "less",
    ANY,
    _ordered("less", lax.lt),
    "Whether x1 < x2; of complex numbers by real, then imaginary part.",
)
less_equal = binary("less_equal", ANY, _ordered("less_equal", lax.le), "Whether x1 <= x2.")
greater = binary("greater", ANY, _ordered("greater", lax.gt), "Whether x1 > x2.")
greater_equal = binary("greater_equal", ANY, _ordered("greater_equal", lax.ge), "Whether x1 >= x2.")

# Logic and bits


def _as_bool(x: ArrayLike) -> Any:
    return x if typeof(x).dtype == np.bool_ else lax.ne(x, constant(x, 0))


def _logical(operation: Function) -> Function:
    return lambda *xs: operation(*map(_as_bool, xs))


logical_and = binary("logical_and", ANY, _logical(lax.bitwise_and), "Whether both are nonzero.")
logical_or = binary("logical_or", ANY, _logical(lax.bitwise_or), "Whether one is nonzero.")
logical_xor = binary(
    "logical_xor", ANY, _logical(lax.bitwise_xor), "Whether exactly one is nonzero."
)
logical_not = unary("logical_not", ANY, _logical(lax.bitwise_not), "Whether x is zero.")
bitwise_and = binary("bitwise_and", ANY, lax.bitwise_and, "Bits set in both.")
bitwise_or = binary("bitwise_or", ANY, lax.bitwise_or, "Bits set in one or both.")
bitwise_xor = binary("bitwise_xor", ANY, lax.bitwise_xor, "Bits set in exactly one.")
bitwise_not = unary("bitwise_not", ANY, lax.bitwise_not, "All bits inverted; of a boolean, not.")


def _left_shift(x: ArrayLike, y: ArrayLike) -> Any:
    return lax.shift_left(x, y)


def _right_shift(x: ArrayLike, y: ArrayLike) -> Any:
    return (
        lax.shift_right_logical if is_kind(x, np.unsignedinteger) else lax.shift_right_arithmetic
    )(x, y)


left_shift = binary("left_shift", NUMERIC, _left_shift, "Bits of x1 moved up by x2 places.")
right_shift = binary(
    "right_shift", NUMERIC, _right_shift, "Bits of x1 moved down by x2 places; the sign stays."
)
bitwise_count = unary(
    "bitwise_count",
    ANY,
    lambda x: lax.convert_element_type(
        x if is_kind(x, np.bool_) else lax.population_count(_absolute(x)), np.dtype(np.uint8)
    ),
    "Number of bits set in |x|, as uint8.",
)

# Properties of floats


def filled_like(x: ArrayLike, value: ArrayLike, weak_type: bool = False) -> Any:
    """A boolean for every element."""
    return as_array(_structure.full(np.shape(x), value, np.dtype(bool), weak_type))


def strong_bools(x: Array) -> Any:
    """Booleans that are not weakly typed."""
    return _structure.convert_element_type(x, np.dtype(bool))


def _each_part(operation: Function, join: Function, exact: bool) -> Function:
    def test(x: ArrayLike) -> Any:
        if is_kind(x, np.complexfloating):
            return join(operation(lax.real(x)), operation(lax.imag(x)))
        return operation(x) if is_kind(x, np.floating) else filled_like(x, exact)

    return test


def _is_inf(x: ArrayLike) -> Any:
    return strong_bools(lax.eq(lax.abs(x), scalar_like(x, np.inf)))


isfinite = unary(
    "isfinite",
    ANY,
    _each_part(lax.is_finite, lax.bitwise_and, True),
    "Whether x is neither infinite nor nan.",
)
isnan = unary("isnan", ANY, lambda x: lax.ne(x, x), "Whether x is nan.")
isinf = unary("isinf", ANY, _each_part(_is_inf, lax.bitwise_or, False), "Whether x is infinite.")

# Parts of complex numbers


def _imag(x: ArrayLike) -> Any:
    return (
        lax.imag(x)
        if is_kind(x, np.complexfloating)
        else _structure.full(np.shape(x), 0, typeof(x).dtype, typeof(x).weak_type)
    )


real = unary(
    "real", ANY, lambda x: lax.real(x) if is_kind(x, np.complexfloating) else x, "Real part."
)
imag = unary("imag", ANY, _imag, "Imaginary part; 0 for real x.")
conj = unary(
    "conj",
    ANY,
    lambda x: lax.conj(x) if is_kind(x, np.complexfloating) else x,
    "Complex conjugate.",
)
