"""Exponentials, logarithms, powers, roots, trigonometric and hyperbolic functions.

And the other elementwise operations, which `_selection`, `_arithmetic` and `_conversion` state,
under this one name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Subnormals
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices import partition
from teucer._lower import hlo
from teucer.lax import _arithmetic, _conversion, _selection, _structure
from teucer.lax._arithmetic import *  # noqa: F403  handed on under this name, see __all__
from teucer.lax._arithmetic import (
    abs,
    add,
    clamp,
    div,
    eq,
    floor,
    gt,
    lt,
    max,
    min,
    mul,
    neg,
    round,
    shift_left,
    sign,
    square,
    sub,
)
from teucer.lax._conversion import *  # noqa: F403  as above
from teucer.lax._conversion import bitcast_convert_type_p
from teucer.lax._costs import EXPENSIVE, FUNCTION, FUSED, NORMAL_FUNCTION, SEVERAL
from teucer.lax._families import (
    FLOAT,
    FLOATS,
    INEXACT,
    NUMERIC,
    AccuracyMode,
    Checked,
    Elementwise,
    Tolerance,
    batch_elementwise,
    binary,
    not_broadcast,
    or_series,
    scalar_like,
    stretched,
    unary,
)
from teucer.lax._programs import traced
from teucer.lax._selection import *  # noqa: F403  as above
from teucer.lax._selection import where_else as where_else

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Dims
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "AccuracyMode", "Tolerance", "acos", "acos_p", "acosh", "acosh_p", "asin", "asin_p", "asinh",
    "asinh_p", "atan", "atan2", "atan2_p", "atan_p", "atanh", "atanh_p", "cbrt", "cbrt_p", "cos",
    "cos_p", "cosh", "cosh_p", "exp", "exp2", "exp2_p", "exp_p", "expm1", "expm1_p", "log",
    "log1p", "log1p_p", "log2", "log2_p", "log_p", "logistic", "logistic_p", "one_minus_square",
    "one_minus_square_p", "pow", "pow_p", "rsqrt", "rsqrt_p", "sin", "sin_p", "sinh", "sinh_p",
    "sqrt", "sqrt_p", "tan", "tan_p", "tanh", "tanh_p",
]  # fmt: skip
__all__ += _selection.__all__
__all__ += _arithmetic.__all__
__all__ += _conversion.__all__

Function = Callable[..., Any]
# Functions that rows above their own row use.
cos: Function
cosh: Function


def _plus(x: Array, value: float) -> Any:
    return add(x, scalar_like(x, value))


def _times(value: float, x: Array) -> Any:
    return mul(scalar_like(x, value), x)


def _one_minus(x: Array) -> Any:
    return sub(scalar_like(x, 1), x)


# Exponentials and logarithms


def _exp2(x: Array) -> Any:
    if typeof(x).dtype.kind == "c":
        return exp(_by_parts(math.log(2), x))  # a product of complex numbers would lose infinities
    # 2^n e^(r log 2) with n the nearest integer: e^(x log 2) would round x log 2, and 2^n is not
    # exact by it. The power of two is applied in halves, which stay in the range of exponents.
    info = dtypes.finfo(typeof(x).dtype)
    n = clamp(
        scalar_like(x, 2 * int(info.minexp)), round(x), scalar_like(x, 2 * int(info.maxexp) - 2)
    )
    half = floor(_times(0.5, n))
    y = exp(_times(math.log(2), sub(x, n)))
    return mul(mul(y, _power_of_two(half, info)), _power_of_two(sub(n, half), info))


def _by_parts(scale: float, z: Array) -> Any:
    """A real number times a complex one."""
    re, im = _arithmetic.real(z), _arithmetic.imag(z)
    return _arithmetic.complex(_times(scale, re), _times(scale, im))


def _power_of_two(n: object, info: Any) -> Any:
    """2^n as a float, from its bits."""
    integer = np.dtype(np.int32 if info.bits == 32 else np.int64)
    exponent = add(
        _structure.convert_element_type(n, integer), _structure.number(info.maxexp - 1, integer)
    )
    bits = shift_left(exponent, _structure.number(info.nmant, integer))
    return bitcast_convert_type_p.call(bits, new_dtype=typeof(n).dtype)[0]


def _lower_hyperbolic(name: str, sign_of_second: int) -> Any:
    def lower(ctx: Context, x: Value) -> Any:
        y = ctx.op1(f"chlo.{name}", (x,), ctx.avals_out[0])
        return (
            ctx.trace(lambda x, y: (far(x, y),), x, y)[0]
            if x.dtype in (np.float32, np.float64)
            else y
        )

    def far(x: Array, near: object) -> Any:
        # XLA takes e^(x - log 2), whose exponent is rounded; e^(x / 2) squared is exacter.
        size = abs(x)
        root = exp(_times(0.5, size))
        first, second = mul(_times(0.5, root), root), div(scalar_like(x, 0.5), square(root))
        y = add(first, second) if sign_of_second > 0 else mul(sign(x), sub(first, second))
        return where_else(gt(size, scalar_like(x, 1)), y, near)

    return lower


# The dtypes of functions whose series pays in float64 only. In float32 XLA's are off by 2.5 (log1p)
# to 5 units. There it is a call that ends fusion: programs with softplus or atan took up to three
# times as long to compile, and up to twice as long to run.
WIDE = ("float64",)


def _series(name: str, *functions: Function) -> Function:
    """The lowering of a function of floats by a series, in terms of other functions."""

    def lower(ctx: Context, x: Value) -> Any:
        from teucer.lax._formulas import series  # for programs that have one

        return traced(functools.partial(getattr(series, name), *functions))(ctx, x)

    return lower


def _scaled(x: Array, base: float) -> Any:
    """A logarithm by the natural one; of complex numbers by their parts, so that infinities
    stay."""
    return (_by_parts if typeof(x).dtype.kind == "c" else _times)(1 / math.log(base), log(x))


def _complex(name: str) -> Function:
    """The lowering of a function of complex numbers by functions of their parts."""

    def lower(ctx: Context, z: Value) -> Any:
        # For the few programs that have complex numbers.
        from teucer.lax._formulas import complex_parts

        return complex_parts.lower(
            name, complex_parts.Elementary(sin, cos, exp, expm1, log, log1p, atan2), ctx, z
        )

    return lower


exp_p, exp = unary(
    "exp",
    INEXACT,
    "exponential",
    lambda t, y, x, **_: mul(t, y),
    Checked(-9, 9, 2),
    "Exponential e^x.",
    accuracy=True,
    by_parts=_complex("exp"),
    numpy="exp",
    cost=NORMAL_FUNCTION,
)
exp2_p, exp2 = unary(
    "exp2",
    INEXACT,
    traced(_exp2),
    lambda t, y, x, **_: mul(t, _times(math.log(2), y)),
    Checked(-9, 9, 8, "formulas.power_of_two"),
    "Power 2^x of two.",
    accuracy=True,
    complex_cost=EXPENSIVE,
    numpy="exp2",
    cost=FUNCTION,
)
expm1_p, expm1 = unary(
    "expm1",
    INEXACT,
    "exponential_minus_one",
    lambda t, y, x, **_: mul(t, exp(x)),  # y + 1 would be 0 from -17 on
    Checked(-9, 9, 4),
    "Exponential less one, e^x - 1, accurate near 0.",
    accuracy=True,
    by_parts=_complex("expm1"),
    numpy="expm1",
    cost=FUNCTION,
)
log_p, log = unary(
    "log",
    INEXACT,
    "log",
    lambda t, y, x, **_: div(t, x),
    Checked(0.01, 9, 4),
    "Natural logarithm; of negative real numbers nan.",
    accuracy=True,
    by_parts=_complex("log"),
    numpy="log",
    cost=NORMAL_FUNCTION,
)
log2_p, log2 = unary(
    "log2",
    INEXACT,
    traced(lambda x: _scaled(x, 2)),
    lambda t, y, x, **_: _times(1 / math.log(2), div(t, x)),
    Checked(0.01, 9, 4),
    "Logarithm to base 2; of negative real numbers nan.",
    accuracy=True,
    by_series=_series("log2"),
    complex_cost=EXPENSIVE,
    numpy="log2",
)
# lax has no function log10: the public one is jnp's.
log10_p = Elementwise(
    "log10",
    INEXACT,
    or_series(traced(lambda x: _scaled(x, 10)), _series("log10")),
    (lambda t, y, x: _times(1 / math.log(10), div(t, x)),),
    Checked(0.01, 9, 4),
    complex_cost=EXPENSIVE,
    series=FLOATS,
)
log1p_p, log1p = unary(
    "log1p",
    INEXACT,
    "log_plus_one",
    lambda t, y, x, **_: div(t, _plus(x, 1)),
    Checked(-0.9, 9, 4),
    "Natural logarithm of 1 + x, accurate near 0.",
    accuracy=True,
    by_parts=_complex("log1p"),
    by_series=_series("log1p"),
    series_of=WIDE,
    numpy="log1p",
    cost=FUNCTION,
)
logistic_p, logistic = unary(
    "logistic",
    INEXACT,
    "logistic",
    lambda t, y, x, **_: mul(t, mul(y, _one_minus(y))),
    Checked(-9, 9, 4, "lambda x: 1 / (1 + np.exp(-x))"),
    "Logistic function 1 / (1 + e^-x).",
    accuracy=True,
    cost=NORMAL_FUNCTION,
)

# Roots and powers

sqrt_p, sqrt = unary(
    "sqrt",
    INEXACT,
    "sqrt",
    lambda t, y, x, **_: mul(t, div(scalar_like(y, 0.5), y)),
    Checked(0.01, 9, 1),
    "Square root; of negative real numbers nan.",
    accuracy=True,
    by_parts=_complex("sqrt"),
    complex_cost=SEVERAL,
    numpy="sqrt",
    cost=FUSED._replace(subnormals=Subnormals.ROUND),
)
rsqrt_p, rsqrt = unary(
    "rsqrt",
    INEXACT,
    "rsqrt",
    lambda t, y, x, **_: mul(t, div(_times(-0.5, y), x)),
    Checked(0.01, 9, 2, "lambda x: 1 / np.sqrt(x)"),
    "Reciprocal of the square root.",
    accuracy=True,
    cost=FUSED._replace(subnormals=Subnormals.ROUND),
)
cbrt_p, cbrt = unary(
    "cbrt",
    FLOAT,
    "cbrt",
    # The square of a reciprocal has its limits, infinities too, in further derivatives.
    lambda t, y, x, **_: mul(t, _times(1 / 3, square(div(scalar_like(y, 1), y)))),
    Checked(-9, 9, 4),
    "Cube root, real also of negative numbers.",
    accuracy=True,
    by_series=_series("cbrt"),
    numpy="cbrt",
    cost=FUNCTION,
)


@final
class Pow(Primitive):
    """x to the power y.  (C1) x is floating or complex.  (C2) y has the dtype of x, or is an
    integer."""

    __slots__ = ()
    name = "pow"
    cost = NORMAL_FUNCTION

    def types(self, x: ShapedArray, y: ShapedArray) -> Any:
        for i, (aval, kinds) in enumerate(((x, (np.inexact,)), (y, (np.integer, np.inexact)))):
            if not any(dtypes.issubdtype(aval.dtype, kind) for kind in kinds):
                listed = ("integer, " if i else "") + "floating, complexfloating"
                raise TypeError(
                    f"pow does not accept dtype {aval.dtype.name} at position {i}. Accepted "
                    f"dtypes at position {i} are subtypes of {listed}.\n"
                    "  lax.integer_pow takes integers to a known power."
                )
        if x.dtype != y.dtype and not dtypes.issubdtype(y.dtype, np.integer):
            raise TypeError(
                "the first argument to pow must have an inexact dtype (float or complex), and "
                "the second argument must have an inexact or integer dtype, and two inexact "
                f"dtypes must match, but got {x.dtype.name} and {y.dtype.name} respectively."
            )
        if x.shape and y.shape and x.shape != y.shape:
            raise not_broadcast("pow", [x.shape, y.shape])
        weak = x.weak_type and (y.weak_type or x.dtype != y.dtype)
        return (ShapedArray(x.shape or y.shape, x.dtype, weak),)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value, y: Value) -> Any:
        (aval,) = ctx.avals_out
        x, y = (
            hlo.broadcast_in_dim(
                ctx,
                hlo.convert(ctx, v, aval.dtype),
                aval.shape,
                range(len(aval.shape)) if v.shape else (),
            )
            for v in (x, y)
        )
        return (ctx.op1("stablehlo.power", (x, y), aval),)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
        (x, y), (t, u) = primals, tangents
        outs = self.call(x, y)
        (z,) = outs
        total: Any = None
        if type(t) is not Zero:
            total = mul(t, _pow_slope(x, y))
        if type(u) is not Zero:
            # 0 where x = 0: x^y is flat in y there for y > 0.
            base = where_else(eq(x, scalar_like(x, 0)), scalar_like(x, 1), x)
            total = array_ops.add_cotangents(total, mul(u, mul(log(base), z)))
        return outs, (typeof(z).zero if total is None else total,)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        return batch_elementwise(self, axis, args, dims, {})

    padded = dialects.through


def _pow_slope(x: Array, y: Array) -> Any:
    """The derivative of x^y in x."""
    if not dtypes.issubdtype(typeof(y).dtype, np.integer):
        return mul(
            y, pow(x, sub(y, _structure.number(1, typeof(y).dtype)))
        )  # the tangent is never weakly typed, as in JAX
    # An integer exponent 0 has slope 0 also at x = 0, where 0 * x^-1 is not a number.
    zero = eq(y, scalar_like(y, 0))
    safe = where_else(zero, scalar_like(y, 1), y)
    slope = mul(
        _structure.convert_element_type(safe, typeof(x).dtype), pow(x, sub(safe, scalar_like(y, 1)))
    )
    return where_else(zero, scalar_like(slope, 0), slope)


pow_p = Pow()


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y.

    x: T[shape], T in floating, complexfloating; y: T or integer [shape]; a scalar goes with any
    shape  ->  T[shape]
    x^0 = 1 for every x. A negative real x with a y that is not a whole number gives nan.
    Raises TypeError if x is not floating or complex (C1), or y is of another inexact dtype (C2).

    >>> from teucer import lax
    >>> lax.pow(2.0, 10)
    Array(1024., dtype=float32, weak_type=True)
    """
    dtype = typeof(x).dtype
    if type(y) is float and typeof(y).dtype != dtype and dtype.kind != "i":
        y = _structure.number(y, dtype)
    try:
        return pow_p.call(x, y)[0]
    except TypeError:
        spread = stretched(x, y)
        if spread is None:
            raise
    return pow_p.call(*spread)[0]


pow.__module__ = "teucer.lax"


def _one_minus_square(x: Array) -> Any:
    one = scalar_like(x, 1)
    return mul(add(x, one), sub(one, x))


def _lower_one_minus_square(ctx: Context, x: Value) -> Any:
    """1 - x^2 as StableHLO. Integers overflow in their own dtype, not in a wider one."""
    if x.dtype.kind in "iu":
        return ctx.trace(lambda x: (_one_minus_square(x),), x)[0]
    return traced(_one_minus_square)(ctx, x)


one_minus_square_p, one_minus_square = unary(
    "one_minus_square",
    NUMERIC,
    _lower_one_minus_square,
    lambda t, y, x: mul(t, _times(-2, x)),
    Checked(-9, 9, 4, "lambda x: (1 + x) * (1 - x)"),
    "1 - x^2, accurate near 1: (1 + x) (1 - x).",
)

# Trigonometric functions

sin_p, sin = unary(
    "sin",
    INEXACT,
    "sine",
    lambda t, y, x, **params: mul(t, cos(x, **params)),
    Checked(-9, 9, 2),
    "Sine of x in radians.",
    accuracy=True,
    cost=EXPENSIVE._replace(subnormals=Subnormals.ROUND),
    by_parts=_complex("sin"),
    numpy="sin",
)
cos_p, cos = unary(
    "cos",
    INEXACT,
    "cosine",
    lambda t, y, x, **params: neg(mul(t, sin(x, **params))),
    Checked(-9, 9, 2),
    "Cosine of x in radians.",
    accuracy=True,
    cost=EXPENSIVE._replace(subnormals=Subnormals.ROUND),
    by_parts=_complex("cos"),
    numpy="cos",
)
tan_p, tan = unary(
    "tan",
    INEXACT,
    "tan",
    lambda t, y, x, **_: mul(t, _plus(square(y), 1)),
    Checked(-1.5, 1.5, 4),
    "Tangent of x in radians.",
    accuracy=True,
    cost=EXPENSIVE,
    by_parts=_complex("tan"),
    numpy="tan",
)
asin_p, asin = unary(
    "asin",
    INEXACT,
    "chlo.asin",
    lambda t, y, x: mul(t, rsqrt(one_minus_square(x))),
    Checked(-0.99, 0.99, 4),
    "Arc sine, in radians; beyond [-1, 1] nan for real x.",
    by_parts=_complex("asin"),
    complex_cost=SEVERAL,
    by_series=_series("asin", sqrt),
    numpy="arcsin",
    cost=FUNCTION,
)
acos_p, acos = unary(
    "acos",
    INEXACT,
    "chlo.acos",
    lambda t, y, x: mul(t, neg(rsqrt(one_minus_square(x)))),
    Checked(-0.99, 0.99, 4),
    "Arc cosine, in radians; beyond [-1, 1] nan for real x.",
    by_parts=_complex("acos"),
    complex_cost=SEVERAL,
    by_series=_series("acos", sqrt),
    numpy="arccos",
    cost=FUNCTION,
)
atan_p, atan = unary(
    "atan",
    INEXACT,
    "chlo.atan",
    lambda t, y, x: div(t, _plus(square(x), 1)),
    Checked(-9, 9, 4),
    "Arc tangent, in radians.",
    by_parts=_complex("atan"),
    by_series=_series("atan"),
    series_of=WIDE,
    numpy="arctan",
    cost=FUNCTION,
)


def _turn(x: Array, y: Array) -> Array:
    """x / (x^2 + y^2), of numbers whose squares overflow or underflow, too: both are divided by
    the larger first, which counts as a constant, as the result does not depend on it."""
    if typeof(x).dtype.kind == "c":
        return div(x, add(square(x), square(y)))
    larger = _conversion.stop_gradient(max(abs(x), abs(y)))
    is_fit = _arithmetic.bitwise_and(
        gt(larger, scalar_like(x, 0)), lt(larger, scalar_like(x, math.inf))
    )
    # Products, since XLA makes one quotient of several.
    scale = div(scalar_like(x, 1), where_else(is_fit, larger, scalar_like(x, 1)))
    x, y = mul(x, scale), mul(y, scale)
    return mul(div(x, add(square(x), square(y))), scale)


atan2_p, atan2 = binary(
    "atan2",
    INEXACT,
    "atan2",
    (lambda t, z, x, y: mul(t, _turn(y, x)), lambda t, z, x, y: mul(t, neg(_turn(x, y)))),
    Checked(-9, 9, 4, "formulas.angle"),
    "Angle of the point of abscissa y and ordinate x, in radians within [-pi, pi].",
    numpy="arctan2",
    cost=FUNCTION,
)

# Hyperbolic functions

sinh_p, sinh = unary(
    "sinh",
    INEXACT,
    _lower_hyperbolic("sinh", -1),
    lambda t, y, x: mul(t, cosh(x)),
    Checked(-9, 9, 8),
    "Hyperbolic sine.",
    by_parts=_complex("sinh"),
    by_series=_series("sinh"),
    numpy="sinh",
    cost=FUNCTION,
)
cosh_p, cosh = unary(
    "cosh",
    INEXACT,
    _lower_hyperbolic("cosh", 1),
    lambda t, y, x: mul(t, sinh(x)),
    Checked(-9, 9, 4),
    "Hyperbolic cosine.",
    by_parts=_complex("cosh"),
    by_series=_series("cosh"),
    numpy="cosh",
    cost=FUNCTION,
)


def _asinh_tangent(t: Array, x: Array) -> Any:
    """t / sqrt(1 + x^2), where the square of a real number may overflow."""
    if typeof(x).dtype.kind == "c":
        return mul(t, rsqrt(_plus(square(x), 1)))
    size, one = abs(x), scalar_like(x, 1)
    # Infinity less than itself, for which products of the second derivative would be nan.
    more = min(max(size, one), scalar_like(x, float(dtypes.finfo(typeof(x).dtype).max)))
    return div(t, mul(more, sqrt(_plus(square(div(min(size, one), more)), 1))))


def _atanh_slope(x: Array) -> Any:
    """1 - x^2; nan beyond [-1, 1] for real x, where there is no function."""
    d = one_minus_square(x)
    if typeof(x).dtype.kind == "c":
        return d
    zero = scalar_like(x, 0)  # added, so that further derivatives are nan too
    return add(d, where_else(lt(d, zero), scalar_like(x, math.nan), zero))


# (1 + y) (1 - y) loses fewer digits than 1 - y^2 where y is near 1.
tanh_p, tanh = unary(
    "tanh",
    INEXACT,
    "tanh",
    lambda t, y, x, **_: mul(add(t, mul(t, y)), _one_minus(y)),
    Checked(-9, 9, 8),
    "Hyperbolic tangent.",
    accuracy=True,
    by_parts=_complex("tanh"),
    by_series=_series("tanh"),
    series_of=WIDE,
    numpy="tanh",
    cost=NORMAL_FUNCTION,
)
asinh_p, asinh = unary(
    "asinh",
    INEXACT,
    "chlo.asinh",
    lambda t, y, x: _asinh_tangent(t, x),
    Checked(-9, 9, 4),
    "Inverse hyperbolic sine.",
    by_parts=_complex("asinh"),
    complex_cost=SEVERAL,
    by_series=_series("asinh", sqrt),
    numpy="arcsinh",
    cost=FUNCTION,
)
acosh_p, acosh = unary(
    "acosh",
    INEXACT,
    "chlo.acosh",
    lambda t, y, x: div(div(t, sqrt(_plus(x, -1))), sqrt(_plus(x, 1))),
    Checked(1.01, 9, 4),
    "Inverse hyperbolic cosine; below 1 nan for real x.",
    by_parts=_complex("acosh"),
    complex_cost=SEVERAL,
    by_series=_series("acosh", sqrt),
    numpy="arccosh",
    cost=FUNCTION,
)
atanh_p, atanh = unary(
    "atanh",
    INEXACT,
    "chlo.atanh",
    lambda t, y, x: div(t, _atanh_slope(x)),
    Checked(-0.99, 0.99, 4),
    "Inverse hyperbolic tangent; beyond [-1, 1] nan for real x.",
    by_parts=_complex("atanh"),
    by_series=_series("atanh"),
    numpy="arctanh",
    cost=FUNCTION,
)
