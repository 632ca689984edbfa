"""Arithmetic, rounding, comparison, extrema, parts of complex numbers, bits.

The operations of one instruction.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Subnormals
from teucer._core.primitive import Primitive
from teucer._core.provided import Quotients, provided
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._derived.transposing import almost_everywhere
from teucer._devices import partition
from teucer._lower import hlo
from teucer._lower.context import Value
from teucer.lax import _structure
from teucer.lax._costs import CHEAP, FUSED, MOVE, NORMAL
from teucer.lax._families import (
    ANY,
    COMPLEX,
    FLOAT,
    INT,
    NUMERIC,
    REAL,
    SIGNED,
    Accepts,
    Checked,
    Elementwise,
    batch_elementwise,
    binary,
    check_dtypes,
    check_same,
    describe,
    operands,
    published,
    scalar_like,
    unary,
)
from teucer.lax._folding import ALL_BITS, by_kind, divide, involution, remainder, shift, unit
from teucer.lax._selection import where_else
from teucer.lax._shapes import never_negative

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import Atom, Binary, Dims, DType, Unary
    from teucer._lower.context import Context

    # Functions that rows use before they are defined.
    neg_p: Elementwise
    conj_p: Elementwise
    not_p: Elementwise
    abs: Unary
    floor: Unary
    imag: Unary
    neg: Unary
    real: Unary
    sign: Unary
    complex: Binary
    div: Binary

__all__ = [
    "RoundingMethod", "abs", "abs_p", "add", "add_p", "and_p", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "ceil", "ceil_p", "clamp", "clamp_p", "clz", "clz_p", "complex",
    "complex_p", "conj", "conj_p", "div", "div_p", "eq", "eq_p", "eq_to_p", "floor", "floor_p",
    "ge", "ge_p", "gt", "gt_p", "imag", "imag_p", "integer_pow", "integer_pow_p", "is_finite",
    "is_finite_p", "le", "le_p", "le_to_p", "lt", "lt_p", "lt_to_p", "max", "max_p", "min",
    "min_p", "mul", "mul_p", "mulhi", "mulhi_p", "ne", "ne_p", "neg", "neg_p", "nextafter",
    "nextafter_p", "not_p", "or_p", "population_count", "population_count_p", "real", "real_p",
    "reciprocal", "rem", "rem_p", "round", "round_p", "shift_left", "shift_left_p",
    "shift_right_arithmetic", "shift_right_arithmetic_p", "shift_right_logical",
    "shift_right_logical_p", "sign", "sign_p", "square", "square_p", "sub", "sub_p", "xor_p",
]  # fmt: skip

PART = Accepts((np.float32, np.float64))
BITS = Accepts((np.integer, np.bool_))
ORDERED = Accepts((np.integer, np.floating, np.bool_))
EXACT = Checked(-9, 9, 0)
ROUNDED = Checked(-9, 9, 0.5)


def _divided(x: Any, y: Array) -> tuple[Any, Any]:
    """Operands for tests of a quotient: integers are not divided by 0."""
    return (x, np.where(y == 0, y + 1, y)) if x.dtype.kind in "iu" else (x, y)


def _moved(x: ArrayLike, places: Any) -> tuple[Any, Any]:
    """Operands for tests of a shift: bits are moved by no negative number of places."""
    return x, np.abs(places)


def _real_dtype(dtype: DTypeLike) -> Any:
    return dtypes.finfo(dtype).dtype if dtypes.issubdtype(dtype, np.complexfloating) else dtype


def _complex_dtype(dtype: DTypeLike, **params: object) -> Any:
    return np.dtype(np.complex128 if dtype in (np.float64, np.complex128) else np.complex64)


def _to_bool(dtype: DType) -> Any:
    return np.dtype(bool)


# Arithmetic

add_p, add = binary(
    "add",
    NUMERIC,
    "add",
    (lambda t, z, x, y: t, lambda t, z, x, y: t),
    ROUNDED,
    "Sum x + y.",
    transposes=(lambda ct, x, y: ct, lambda ct, x, y: ct),
    simplify=unit(-0.0, -0.0),
    fold=np.add,
    numpy="add",
    cost=NORMAL,
)
sub_p, sub = binary(
    "sub",
    NUMERIC,
    "subtract",
    (lambda t, z, x, y: t, lambda t, z, x, y: neg(t)),
    ROUNDED,
    "Difference x - y.",
    transposes=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)),
    simplify=unit(None, 0.0),
    fold=np.subtract,
    numpy="subtract",
    cost=NORMAL,
)
mul_p, _mul = binary(
    "mul",
    NUMERIC,
    "multiply",
    (lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
    ROUNDED,
    "Product x * y.",
    transposes=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
    simplify=unit(1, 1),
    fold=np.multiply,
    product=True,
    numpy="multiply",
    cost=NORMAL,
)
div_p, div = binary(
    "div",
    NUMERIC,
    "divide",
    (lambda t, z, x, y: div(t, y), lambda t, z, x, y: div(mul(neg(t), z), y)),
    # XLA multiplies by the reciprocal of a scalar divisor, itself rounded.
    Checked(-9, 9, 1, "formulas.towards_zero", given=_divided, ulp_of={"float16": 2}),
    (
        "Quotient x / y. Integers are divided towards zero; x / 0 is -1 for them, and all bits set "
        "for unsigned ones."
    ),
    transposes=(lambda ct, x, y: div(ct, y), None),
    simplify=unit(None, 1),
    fold=by_kind(divide, np.divide),
    numpy="true_divide",
    cost=NORMAL,
)
rem_p, rem = binary(
    "rem",
    REAL,
    "remainder",
    (
        lambda t, z, x, y: t,
        lambda t, z, x, y: mul(neg(t), mul(sign(div(x, y)), floor(abs(div(x, y))))),
    ),
    Checked(-9, 9, 0, "np.fmod", given=_divided),
    "Remainder of x / y rounded towards zero: it has the sign of x. For integers x rem 0 is x.",
    fold=by_kind(remainder),
    numpy="remainder",
)
neg_p, neg = unary(
    "neg",
    NUMERIC,
    "negate",
    lambda t, y, x: neg(t),
    EXACT,
    "Negative -x.",
    transpose=lambda ct, x: neg(ct),
    simplify=involution(lambda: neg_p),
    fold=np.negative,
    numpy="negative",
    cost=CHEAP._replace(subnormals=Subnormals.MOVE),
)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    if out_dtype is not None:
        x, y = (
            _structure.convert_element_type(v, dtypes.canonicalize_dtype(out_dtype)) for v in (x, y)
        )
    return _mul(x, y)


published(
    mul, "mul", describe("Product x * y, computed in out_dtype if that is given.", mul_p, "x", "y")
)


def _lower_sign(ctx: Context, x: Value) -> Any:
    (aval,) = ctx.avals_out
    if x.dtype.name.startswith("uint"):
        return hlo.convert(
            ctx, hlo.compare(ctx, x, hlo.splat(ctx, 0, aval.strengthen()), "NE"), x.dtype
        )
    return ctx.op1("stablehlo.sign", (x,), aval)


def _lower_square(ctx: Context, x: Value) -> Any:
    return ctx.op1(
        "chlo.square" if x.dtype.kind == "c" else "stablehlo.multiply",
        (x,) if x.dtype.kind == "c" else (x, x),
        ctx.avals_out[0],
    )


def _lower_abs(ctx: Context, x: Value) -> Any:
    (aval,) = ctx.avals_out
    if x.dtype.kind != "c":
        return ctx.op1("stablehlo.abs", (x,), aval)
    # By the root of the sum of squares, which cannot overflow in float64, and is nearest to |z|.
    wide = x.dtype == np.complex64 and ctx.target.fast_float64
    re, im = ctx.trace(lambda z: (real(z), imag(z)), x)
    if wide:
        parts = (hlo.convert(ctx, part, np.dtype(np.float64)) for part in (re, im))
        (total,) = ctx.trace(lambda a, b: (add(square(a), square(b)),), *parts)
        size = hlo.convert(ctx, ctx.op1("stablehlo.sqrt", (total,), total.aval), aval.dtype)
    else:
        size = ctx.op1("stablehlo.abs", (x,), aval)
    return ctx.trace(_infinite_of_parts, size, re, im)[0]


def _infinite_of_parts(size: Array, re: Array, im: Array) -> tuple[Any]:
    """C99: infinite where a part is, though the other is nan."""
    infinity = scalar_like(size, np.inf)
    either = bitwise_or(eq(abs(re), infinity), eq(abs(im), infinity))
    return (where_else(either, infinity, size),)


def _tangent_abs(t: Array, y: Array, x: Array) -> Any:
    if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        return where_else(ge(x, scalar_like(x, 0)), t, neg(t))
    # d|z| = Re(conj(z) dz) / |z|, and 0 at 0.
    return div(real(mul(conj(x), t)), where_else(eq(y, scalar_like(y, 0)), scalar_like(y, 1), y))


def _tangent_sign(t: Array, y: Array, x: Array) -> Any:
    """The tangent of sign(x). It is 0 for real x. A complex sign turns by the part of t that is
    perpendicular to x."""
    if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        return None
    size = abs(x)
    turn = div(
        imag(mul(conj(y), t)),
        where_else(eq(size, scalar_like(size, 0)), scalar_like(size, 1), size),
    )
    return mul(y, complex(_structure.full(typeof(turn).shape, 0, typeof(turn).dtype), turn))


sign_p, sign = unary(
    "sign",
    NUMERIC,
    _lower_sign,
    _tangent_sign,
    Checked(-9, 9, 2, "formulas.unit"),
    "Sign of x: -1, 0 or 1; x / |x| for complex x; nan for nan.",
    cost=CHEAP._replace(decides="SIGN"),
    numpy="sign",
)
abs_p, abs = unary(
    "abs",
    SIGNED,
    _lower_abs,
    _tangent_abs,
    Checked(-9, 9, 2),
    "Absolute value |x|; of the smallest integer, that integer.",
    result=_real_dtype,
    cost=CHEAP._replace(subnormals=Subnormals.MOVE),
    numpy="abs",
)
square_p, square = unary(
    "square",
    NUMERIC,
    _lower_square,
    lambda t, y, x: mul(t, mul(scalar_like(x, 2), x)),
    Checked(-9, 9, 1),
    "Square x * x.",
    fold=np.square,
    numpy="square",
    cost=NORMAL,
)


def _lower_integer_pow(ctx: Context, x: Value, y: int) -> Any:
    (aval,) = ctx.avals_out
    aval = aval.strengthen()
    power, result = x, None
    n = -y if y < 0 else y
    while n:
        if n & 1:
            result = (
                power if result is None else ctx.op1("stablehlo.multiply", (result, power), aval)
            )
        n >>= 1
        if n:
            power = ctx.op1("stablehlo.multiply", (power, power), aval)
    if result is None:
        return hlo.splat(ctx, 1, aval)
    return result if y > 0 else ctx.op1("stablehlo.divide", (hlo.splat(ctx, 1, aval), result), aval)


def _tangent_integer_pow(t: Array, z: ArrayLike, x: ArrayLike, y: int) -> Any:
    if y == 0:
        return typeof(z).zero
    return t if y == 1 else mul(t, mul(scalar_like(x, y), x if y == 2 else integer_pow(x, y - 1)))


integer_pow_p = Elementwise(
    "integer_pow",
    NUMERIC,
    _lower_integer_pow,
    (_tangent_integer_pow,),
    Checked(-9, 9, 4, "lambda x, y: x * x * x", params={"y": 3}),
    cost=NORMAL,
    simplify=lambda known, x, y: x if y == 1 else None,
    public="integer_pow",
)
provided.fill(quotients=Quotients(div_p, mul_p, integer_pow_p))


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the power of an integer y known to the program, by repeated multiplication.

    x: T[shape], T in integer, floating, complexfloating  ->  T[shape]
    Raises TypeError if x is an integer and y is negative, or x is boolean.

    >>> from teucer import lax
    >>> lax.integer_pow(3.0, -1)
    Array(0.33333334, dtype=float32, weak_type=True)
    """
    y = operator.index(y)
    if y < 0 and dtypes.issubdtype(typeof(x).dtype, np.integer):
        raise TypeError(
            "Integers cannot be raised to negative powers, got "
            f"integer_pow({typeof(x).str_short()}, {y})\n  Convert x to a floating dtype first."
        )
    return integer_pow_p.call(x, y=y)[0]


def reciprocal(x: ArrayLike) -> Array:
    return integer_pow(x, -1)


integer_pow.__module__ = "teucer.lax"
published(
    reciprocal,
    "reciprocal",
    "Reciprocal 1 / x.\n\n    x: T[shape], T in floating, complexfloating  ->  T[shape]\n"
    "    Raises TypeError if x is of another dtype.",
)


# Rounding


class RoundingMethod(IntEnum):
    """How `round` rounds a number half way between two integers.

    AWAY_FROM_ZERO: to the one of greater magnitude: 0.5 to 1, -2.5 to -3.
    TO_NEAREST_EVEN: to the even one: 0.5 to 0, -2.5 to -2.
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _lower_round(ctx: Context, x: Value, rounding_method: object) -> Any:
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return ctx.op1(
        "stablehlo.round_nearest_even" if even else "stablehlo.round_nearest_afz",
        (x,),
        ctx.avals_out[0],
    )


floor_p, floor = unary(
    "floor", FLOAT, "floor", None, EXACT, "Greatest integer not above x, as a float.", numpy="floor"
)
ceil_p, ceil = unary(
    "ceil", FLOAT, "ceil", None, EXACT, "Least integer not below x, as a float.", numpy="ceil"
)
round_p = Elementwise(
    "round",
    FLOAT,
    _lower_round,
    (None,),
    Checked(-9, 9, 0, "formulas.half_away", params={"rounding_method": 0}),
    public="round",
)
is_finite_p, is_finite = unary(
    "is_finite",
    FLOAT,
    "is_finite",
    None,
    EXACT,
    "Whether x is neither infinite nor nan.",
    result=_to_bool,
    numpy="isfinite",
    cost=FUSED._replace(subnormals=Subnormals.READ),
)
almost_everywhere[is_finite_p] = lambda same: True


def round(
    x: ArrayLike, rounding_method: RoundingMethod | int = RoundingMethod.AWAY_FROM_ZERO
) -> Array:
    return round_p.call(x, rounding_method=RoundingMethod(rounding_method))[0]


published(
    round,
    "round",
    describe(
        "Integer nearest to x, as a float; half way between two, as rounding_method says.",
        round_p,
        "x",
    ),
)


# Comparison


def _comparison(direction: str, *, total_order: bool = False) -> Any:
    def lower(ctx: Context, x: Value, y: Value) -> Any:
        if total_order and dtypes.issubdtype(x.dtype, np.floating):
            return hlo.compare(ctx, x, y, direction, "TOTALORDER")
        return hlo.compare(ctx, x, y, direction)

    return lower


def _lexicographic(ctx: Context, x: Value, y: Value, direction: str) -> Any:
    """Compare complex numbers by their real parts, and where those are equal by their imaginary
    parts."""
    aval = ShapedArray(x.shape, dtypes.finfo(x.dtype).dtype)
    xr, yr, xi, yi = (
        ctx.op1(f"stablehlo.{part}", (v,), aval) for part in ("real", "imag") for v in (x, y)
    )
    return hlo.select(
        ctx,
        hlo.compare(ctx, xr, yr, "EQ"),
        hlo.compare(ctx, xi, yi, direction),
        hlo.compare(ctx, xr, yr, direction),
    )


def _compared(
    name: str, accepts: Accepts, doc: str, fold: object, numpy: str, simplify: object = None
) -> Any:
    return binary(
        name,
        accepts,
        _comparison(name.upper()),
        (None, None),
        EXACT,
        doc,
        result=_to_bool,
        simplify=simplify,
        fold=fold,
        cost=CHEAP._replace(decides=name.upper()),
        numpy=numpy,
    )


def _by_words(direction: str, combine: str) -> Any:
    """Compare random keys by all of their words."""

    def lower(self: Primitive, ctx: Context, x: Value, y: Value) -> Any:
        aval = ctx.avals_out[0].update(dtype=x.dtype).physical
        axes = tuple(range(len(ctx.avals_out[0].shape), aval.ndim))
        words = [
            hlo.broadcast_in_dim(
                ctx,
                Value(v.name, v.aval.physical),
                aval.shape,
                axes if not v.aval.shape else range(aval.ndim),
            )
            for v in (x, y)
        ]
        same = hlo.compare(ctx, words[0], words[1], direction)
        return hlo.reduce(
            ctx,
            [same],
            [ctx.constant(combine == "and", np.dtype(bool))],
            axes,
            lambda a, b: (hlo.elementwise(ctx, combine, a, b),),
        )

    return lower


ANY_OR_KEY = Accepts((*ANY.kinds, dtypes.prng_key))
eq_p, eq = _compared(
    "eq",
    ANY_OR_KEY,
    "Whether x is equal to y; nan is not equal to itself.",
    np.equal,
    numpy="equal",
)
ne_p, ne = _compared(
    "ne",
    ANY_OR_KEY,
    "Whether x differs from y; nan differs from itself.",
    np.not_equal,
    numpy="not_equal",
)
almost_everywhere[eq_p] = bool
almost_everywhere[ne_p] = operator.not_
dialects.on_keys.own[eq_p] = _by_words("EQ", "and")
dialects.on_keys.own[ne_p] = _by_words("NE", "or")
lt_p, lt = _compared("lt", ORDERED, "Whether x < y.", np.less, "less", never_negative)
le_p, le = _compared("le", ORDERED, "Whether x <= y.", np.less_equal, numpy="less_equal")
gt_p, gt = _compared("gt", ORDERED, "Whether x > y.", np.greater, numpy="greater")
ge_p, ge = _compared("ge", ORDERED, "Whether x >= y.", np.greater_equal, numpy="greater_equal")
# In the total order -nan < -inf < ... < -0 < 0 < ... < inf < nan.
eq_to_p = Elementwise(
    "eq_to",
    REAL,
    _comparison("EQ", total_order=True),
    (None, None),
    Checked(-9, 9, 0, "np.equal"),
    result=_to_bool,
)
lt_to_p = Elementwise(
    "lt_to",
    REAL,
    _comparison("LT", total_order=True),
    (None, None),
    Checked(-9, 9, 0, "np.less"),
    result=_to_bool,
)
le_to_p = Elementwise(
    "le_to",
    REAL,
    _comparison("LE", total_order=True),
    (None, None),
    Checked(-9, 9, 0, "np.less_equal"),
    result=_to_bool,
)


# Choice


def _lower_extremum(direction: str, operation: str) -> Any:
    def lower(ctx: Context, x: Value, y: Value) -> Any:
        if x.dtype.kind == "c":
            return hlo.select(ctx, _lexicographic(ctx, x, y, direction), x, y)
        return ctx.op1(operation, (x, y), ctx.avals_out[0])

    return lower


def _share(t: ArrayLike, z: Array, x: ArrayLike, y: ArrayLike) -> Any:
    """The tangent of the operand x of max or min: t where x was taken, half of it where x and y are
    equal."""
    one, half, zero = (scalar_like(z, v) for v in (1, 0.5, 0))
    taken = where_else(eq(x, z), where_else(eq(y, z), half, one), zero)
    return mul(t, taken)


max_p, max = binary(
    "max",
    ANY,
    _lower_extremum("GT", "stablehlo.maximum"),
    (_share, lambda t, z, x, y: _share(t, z, y, x)),
    Checked(-9, 9, 0, "formulas.greater"),
    "Greater of x and y; nan if one is nan; complex numbers by real, then by imaginary part.",
    fold=by_kind(np.maximum),
    numpy="maximum",
    cost=CHEAP._replace(decides="GREATER"),
)
min_p, min = binary(
    "min",
    ANY,
    _lower_extremum("LT", "stablehlo.minimum"),
    (_share, lambda t, z, x, y: _share(t, z, y, x)),
    Checked(-9, 9, 0, "formulas.lesser"),
    "Lesser of x and y; nan if one is nan; complex numbers by real, then by imaginary part.",
    fold=by_kind(np.minimum),
    numpy="minimum",
    cost=CHEAP._replace(decides="LESSER"),
)
nextafter_p, nextafter = binary(
    "nextafter",
    FLOAT,
    "chlo.next_after",
    (lambda t, z, x, y: t, None),
    Checked(-9, 9, 0, widen="no"),
    "Next representable number after x1 in the direction of x2.",
    names=("x1", "x2"),
    numpy="nextafter",
    cost=FUSED._replace(decides="NEXT"),
)


@final
class Clamp(Primitive):
    """x brought between low and high.

    (C1) the operands have one dtype.  (C2) low and high are scalars or have the shape of x.
    """

    __slots__ = ()
    name = "clamp"
    cost = FUSED

    def types(self, low: ShapedArray, x: ShapedArray, high: ShapedArray) -> Any:
        check_dtypes("clamp", ANY, (low, x, high))
        check_same("clamp", (low, x, high), scalars=True)
        for what, bound in (("min", low), ("max", high)):
            if bound.shape and bound.shape != x.shape:
                raise TypeError(
                    f"clamp requires {what}.shape == operand.shape or {what}.shape == (), got "
                    f"{what}.shape={bound.shape}, operand.shape={x.shape}."
                )
        weak = low.weak_type and x.weak_type and high.weak_type
        return (x if weak == x.weak_type else x.strengthen(),)

    shard = partition.aligned

    def lower(self, ctx: Context, low: Value, x: Value, high: Value) -> Any:
        if x.dtype.kind == "b":  # not compiled for it where most optimisations are off
            return ctx.trace(lambda low, x, high: (min(max(low, x), high),), low, x, high)
        return (hlo.clamp(ctx, low, x, high),)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object]) -> Any:
        outs = self.call(*primals)
        low, x, high = primals
        inside: tuple[Callable[[], Array], ...] = (
            lambda: bitwise_and(gt(low, x), lt(low, high)),
            lambda: bitwise_and(gt(x, low), lt(x, high)),
            lambda: lt(high, x),
        )
        total: Any = None
        for t, taken in zip(tangents, inside, strict=True):
            if type(t) is not Zero:
                total = array_ops.add_cotangents(total, where_else(taken(), t, scalar_like(t, 0)))
        return outs, (typeof(outs[0]).zero if total is None else total,)

    def batch(self, axis: Axis, args: Sequence[object], dims: Dims) -> Any:
        rank = typeof(args[1]).ndim - (dims[1] is not None)
        if not rank and (dims[0] is not None or dims[2] is not None):
            args = [array_ops.to_axis(v, d, axis.size, 0) for v, d in zip(args, dims, strict=True)]
            return self.call(*args), (0,)
        return batch_elementwise(self, axis, args, dims, {})

    padded = dialects.through


clamp_p = Clamp()


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x brought between min and max: max(min, x), and then the lesser of that and max.

    min, max: T, scalar or [shape]; x: T[shape], T in numbers, bool  ->  T[shape]; nan where an
    operand is nan
    Raises TypeError if the dtypes differ, or min or max is neither a scalar nor of the shape of x
    (C2).

    >>> from teucer import lax
    >>> lax.clamp(0.0, 1.5, 1.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return clamp_p.call(*operands(min, x, max))[0]


clamp.__module__ = "teucer.lax"


# Parts of complex numbers


def _part(i: int) -> Any:
    """The part of a number that has been made of its parts."""

    def simplify(known: Any, x: Atom) -> Any:
        made = known.made.get(x)
        return made.invars[i] if made is not None and made.primitive is complex_p else None

    return simplify


def _zero(ct: ArrayLike) -> Any:
    """The other part of a cotangent; not weakly typed, so that gradients of real functions of
    complex numbers are not."""
    return _structure.number(0, typeof(ct).dtype)


real_p, real = unary(
    "real",
    COMPLEX,
    "real",
    lambda t, y, x: real(t),
    EXACT,
    "Real part.",
    result=_real_dtype,
    transpose=lambda ct, x: complex(ct, _zero(ct)),
    simplify=_part(0),
    numpy="real",
    cost=MOVE._replace(subnormals=None),
)
imag_p, imag = unary(
    "imag",
    COMPLEX,
    "imag",
    lambda t, y, x: imag(t),
    EXACT,
    "Imaginary part.",
    result=_real_dtype,
    transpose=lambda ct, x: complex(_zero(ct), neg(ct)),
    simplify=_part(1),
    numpy="imag",
    cost=MOVE._replace(subnormals=None),
)
complex_p, complex = binary(
    "complex",
    PART,
    "complex",
    (
        lambda t, z, x, y: complex(t, scalar_like(t, 0)),
        lambda t, z, x, y: complex(scalar_like(t, 0), t),
    ),
    Checked(-9, 9, 0, "lambda x, y: x + 1j * y"),
    "Complex number x + iy.",
    result=_complex_dtype,
    transposes=(lambda ct, x, y: real(ct), lambda ct, x, y: imag(neg(ct))),
)


def _lower_conj(ctx: Context, x: Value, **params: object) -> Any:
    (aval,) = ctx.avals_out
    if x.dtype.kind != "c":
        return ctx.op1("stablehlo.complex", (x, hlo.splat(ctx, 0, x.aval.strengthen())), aval)
    part = ShapedArray(x.shape, dtypes.finfo(x.dtype).dtype)
    re, im = (ctx.op1(f"stablehlo.{name}", (x,), part) for name in ("real", "imag"))
    return ctx.op1("stablehlo.complex", (re, ctx.op1("stablehlo.negate", (im,), part)), aval)


def _transpose_conj(ct: ArrayLike, x: ArrayLike | Undefined, input_dtype: object) -> Any:
    return conj(ct) if dtypes.issubdtype(input_dtype, np.complexfloating) else real(ct)


conj_p = Elementwise(
    "conj",
    Accepts((np.float32, np.float64, np.complexfloating)),
    _lower_conj,
    (lambda t, y, x, input_dtype: conj_p.call(t, input_dtype=input_dtype)[0],),
    Checked(-9, 9, 0, "lambda x: np.conj(x) + 0j"),
    transposes=(_transpose_conj,),
    result=_complex_dtype,
    public="conj",
    numpy="conj",
    cost=FUSED._replace(subnormals=Subnormals.MOVE),
)


def conj(x: ArrayLike) -> Array:
    return conj_p.call(x, input_dtype=typeof(x).dtype)[0]


published(conj, "conj", describe("Complex conjugate; a real x becomes complex.", conj_p, "x"))


# Bits

not_p, bitwise_not = unary(
    "not",
    BITS,
    "not",
    None,
    EXACT,
    "Complement of the bits of x; of booleans, not x.",
    public="bitwise_not",
    simplify=involution(lambda: not_p),
    fold=np.invert,
    numpy="bitwise_not",
)
and_p, bitwise_and = binary(
    "and",
    BITS,
    "and",
    (None, None),
    EXACT,
    "Bits that are set in x and in y.",
    public="bitwise_and",
    simplify=unit(ALL_BITS, ALL_BITS),
    fold=np.bitwise_and,
    numpy="bitwise_and",
)
or_p, bitwise_or = binary(
    "or",
    BITS,
    "or",
    (None, None),
    EXACT,
    "Bits that are set in x or in y.",
    public="bitwise_or",
    simplify=unit(0, 0),
    fold=np.bitwise_or,
    numpy="bitwise_or",
)
xor_p, bitwise_xor = binary(
    "xor",
    BITS,
    "xor",
    (None, None),
    EXACT,
    "Bits that are set in one of x and y only.",
    public="bitwise_xor",
    simplify=unit(0, 0),
    fold=np.bitwise_xor,
    numpy="bitwise_xor",
)
shift_left_p, shift_left = binary(
    "shift_left",
    INT,
    "shift_left",
    (None, None),
    Checked(-9, 9, 0, given=_moved),
    "x with its bits moved left by y; 0 if y is the width or more.",
    simplify=unit(None, 0),
    fold=shift(np.left_shift, "uint"),
    numpy="left_shift",
)
shift_right_arithmetic_p, shift_right_arithmetic = binary(
    "shift_right_arithmetic",
    INT,
    "shift_right_arithmetic",
    (None, None),
    Checked(-9, 9, 0, given=_moved),
    "x with its bits moved right by y, filled with copies of the sign bit.",
    simplify=unit(None, 0),
    fold=shift(np.right_shift, "int"),
    numpy="right_shift",
)
shift_right_logical_p, shift_right_logical = binary(
    "shift_right_logical",
    INT,
    "shift_right_logical",
    (None, None),
    Checked(-9, 9, 0, "formulas.shift_right_logical", given=_moved),
    "x with its bits moved right by y, filled with zeros.",
    simplify=unit(None, 0),
    fold=shift(np.right_shift, "uint"),
    numpy="right_shift",
)
population_count_p, population_count = unary(
    "population_count",
    INT,
    "popcnt",
    None,
    Checked(-9, 9, 0, "formulas.population_count"),
    "How many bits of x are set.",
    numpy="bitwise_count",
)
clz_p, clz = unary(
    "clz",
    INT,
    "count_leading_zeros",
    None,
    Checked(-9, 9, 0, "formulas.leading_zeros"),
    "How many zeros stand before the first set bit of x.",
)


def _upper_product(x: Array, y: Array) -> tuple[Any]:
    """The upper half of x * y: in twice the width, or for 64 bits from products of halves."""
    dtype = typeof(x).dtype
    width, signed = dtypes.bit_width(dtype), dtype.name.startswith("int")
    if width < 64:
        wide = np.dtype(f"{'int' if signed else 'uint'}{16 if width < 8 else 2 * width}")
        # The width is converted too: a 64-bit literal would be a 32-bit one where 64-bit types are
        # off.
        product, half = (
            mul(*(_structure.convert_element_type(v, wide) for v in (x, y))),
            np.int32(width),
        )
        upper = shift_right_logical(product, _structure.convert_element_type(half, wide))
        return (_structure.convert_element_type(upper, dtype),)
    unsigned = np.dtype(np.uint64)
    # Constants are converted too, as above.
    a, b, bits, mask = (
        _structure.convert_element_type(v, unsigned)
        for v in (x, y, np.uint32(32), np.uint32(2**32 - 1))
    )
    (a_low, b_low), (a_high, b_high) = (
        [bitwise_and(v, mask) for v in (a, b)],
        [shift_right_logical(v, bits) for v in (a, b)],
    )
    middle = add(mul(a_high, b_low), shift_right_logical(mul(a_low, b_low), bits))
    other = add(mul(a_low, b_high), bitwise_and(middle, mask))
    upper = add(
        mul(a_high, b_high),
        add(shift_right_logical(middle, bits), shift_right_logical(other, bits)),
    )
    upper = _structure.convert_element_type(upper, dtype)
    if signed:  # as unsigned, a negative factor is 2^64 too large
        zero = scalar_like(x, 0)
        upper = sub(sub(upper, where_else(lt(x, zero), y, zero)), where_else(lt(y, zero), x, zero))
    return (upper,)


# XLA has the operation, but its CPU backend does not compile it inside a fusion.
mulhi_p, mulhi = binary(
    "mulhi",
    INT,
    lambda ctx, x, y: ctx.trace(_upper_product, x, y)[0],
    (None, None),
    Checked(-9, 9, 0, "formulas.upper_half"),
    "Upper half of the bits of the product x * y, which has twice the width.",
)
