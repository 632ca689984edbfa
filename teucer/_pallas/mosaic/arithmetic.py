"""Mosaic's rules of elementwise primitives: arithmetic, functions, comparisons, conversions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Eqn
from teucer._pallas.mosaic.table import MOSAIC, by_program
from teucer._pallas.mosaic.text import (
    BOOL,
    F32,
    I32,
    Refused,
    Value,
    Writer,
    bits,
    element,
    fitting,
    is_float,
    is_signed,
    type_text,
)
from teucer.lax import _conversion, _elementwise, _structure
from teucer.lax._functions import gamma, gaussian, special

if TYPE_CHECKING:
    from teucer._core.typing import Array

U32 = np.dtype(np.uint32)


def _wide(x: Value, *, native: tuple[str, ...] = ()) -> Any:
    """The dtype in which an operation on x is done: of 32 bits, but for those that are native."""
    if x.dtype == BOOL or (x.shape and x.dtype.name in native):
        return x.dtype
    if is_float(x.dtype):
        return F32
    return I32 if is_signed(x.dtype) else U32


# --- Operations of two operands -----------------------------------------------------------------


def _binary(
    floats: str | None,
    signed: str | None,
    unsigned: str | None = None,
    *,
    native: tuple[str, ...] = (),
    bounds: Callable[..., object] | None = None,
) -> Callable[..., Any]:
    """native: dtypes of less than 32 bits in which it is done; others are widened."""

    def rule(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        x, y = w.alike(x, y)
        dtype, wide = x.dtype, _wide(x, native=native)
        op = floats if is_float(dtype) else signed if is_signed(dtype) else unsigned or signed
        if op is None:
            raise Refused(
                f"{eqn.primitive} of {dtype}", "Convert the operands: x.astype(jnp.float32)."
            )
        x, y = w.convert(x, wide), w.convert(y, wide)
        known = bounds(x.bounds, y.bounds) if bounds and x.bounds and y.bounds else None
        known = fitting(known, wide)
        out = w.make(f"{op} {x.name}, {y.name} : {x.type}", wide, x.shape, known)
        return (w.convert(out, dtype),)

    return rule


def _products(x: tuple[int, int], y: tuple[int, int]) -> Any:
    found = [a * b for a in x for b in y]
    return min(found), max(found)


_NATIVE = ("bfloat16",)
MOSAIC[_structure.add_any_p] = MOSAIC[lax.add_p] = _binary(
    "arith.addf",
    "arith.addi",
    native=_NATIVE,
    bounds=lambda x, y: (x[0] + y[0], x[1] + y[1]),
)
MOSAIC[lax.sub_p] = _binary(
    "arith.subf",
    "arith.subi",
    native=_NATIVE,
    bounds=lambda x, y: (x[0] - y[1], x[1] - y[0]),
)
MOSAIC[lax.mul_p] = _binary("arith.mulf", "arith.muli", native=_NATIVE, bounds=_products)
MOSAIC[lax.div_p] = _binary(
    "arith.divf",
    "arith.divsi",
    "arith.divui",
    bounds=lambda x, y: (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else None,
)
MOSAIC[lax.rem_p] = _binary(
    "arith.remf",
    "arith.remsi",
    "arith.remui",
    bounds=lambda x, y: (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None,
)
_MAX = _binary(
    "arith.maximumf",
    "arith.maxsi",
    "arith.maxui",
    native=_NATIVE,
    bounds=lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
)
_MIN = _binary(
    "arith.minimumf",
    "arith.minsi",
    "arith.minui",
    native=_NATIVE,
    bounds=lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
)


@MOSAIC.define(lax.max_p, lax.min_p)
def _extreme(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    greatest = eqn.primitive is lax.max_p
    if x.dtype == BOOL:
        return MOSAIC[lax.or_p if greatest else lax.and_p](w, eqn, x, y)
    if not is_float(x.dtype) and bits(x.dtype) < bits(I32):
        # As floats: libtpu makes of the extreme of wide integers that of narrow ones, and lacks it.
        (out,) = (_MAX if greatest else _MIN)(w, eqn, w.convert(x, F32), w.convert(y, F32))
        return (w.convert(out, x.dtype),)
    return (_MAX if greatest else _MIN)(w, eqn, x, y)


def _bitwise(op: str) -> Callable[..., Any]:
    rule = _binary(None, op)

    def with_bool(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        if x.dtype == BOOL:
            x, y = w.alike(x, y)
            return (w.make(f"{op} {x.name}, {y.name} : {x.type}", BOOL, x.shape),)
        return rule(w, eqn, x, y)

    return with_bool


MOSAIC[lax.and_p], MOSAIC[lax.or_p] = _bitwise("arith.andi"), _bitwise("arith.ori")
MOSAIC[lax.xor_p] = _bitwise("arith.xori")


def _comparison(floats: str, signed: str, unsigned: str) -> Callable[..., Any]:
    def rule(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        x, y = w.alike(x, y)
        wide = I32 if x.dtype == BOOL else _wide(x)
        x, y = w.convert(x, wide), w.convert(y, wide)
        how = floats if is_float(wide) else signed if is_signed(wide) else unsigned
        return (w.compare(how, x, y),)

    return rule


MOSAIC[lax.eq_p] = _comparison("oeq", "eq", "eq")
MOSAIC[lax.ne_p] = _comparison("une", "ne", "ne")
MOSAIC[lax.lt_p] = _comparison("olt", "slt", "ult")
MOSAIC[lax.le_p] = _comparison("ole", "sle", "ule")
MOSAIC[lax.gt_p] = _comparison("ogt", "sgt", "ugt")
MOSAIC[lax.ge_p] = _comparison("oge", "sge", "uge")


def _shift(op: str, *, arithmetic: bool = False) -> Callable[..., Any]:
    def rule(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        x, y = w.alike(x, y)
        dtype, size = x.dtype, bits(x.dtype)
        wide = I32 if arithmetic or is_signed(dtype) else U32
        x = _unsigned(w, x) if op == "arith.shrui" else w.convert(x, wide)
        y = w.convert(y, wide)
        y = Value(y.name, x.dtype, y.shape, y.bounds)
        fits = y.bounds and y.bounds[0] >= 0 and y.bounds[1] < size
        small = None if fits else w.compare("ult", y, w.constant(size, y.dtype, y.shape))
        if small is not None and arithmetic:
            y = w.select(small, y, w.constant(size - 1, y.dtype, y.shape))
        out = w.make(f"{op} {x.name}, {y.name} : {x.type}", x.dtype, x.shape)
        if small is not None and not arithmetic:
            out = w.select(small, out, w.constant(0, x.dtype, x.shape))
        return (w.convert(out, dtype),)

    return rule


def _unsigned(w: Writer, x: Value) -> Value:
    """The bits as an unsigned integer of 32 bits."""
    if x.dtype.itemsize == U32.itemsize:
        return Value(x.name, U32, x.shape)
    same = Value(x.name, np.dtype(x.dtype.name.replace("int", "uint").replace("uu", "u")), x.shape)
    return w.convert(same, U32)


MOSAIC[lax.shift_left_p] = _shift("arith.shli")
MOSAIC[lax.shift_right_logical_p] = _shift("arith.shrui")
MOSAIC[lax.shift_right_arithmetic_p] = _shift("arith.shrsi", arithmetic=True)


# --- Functions ----------------------------------------------------------------------------------


def _native(op: str, *, result: str = "") -> Callable[..., Any]:
    """An operation on float32; other floats are converted. result: where its type is written."""

    def rule(w: Writer, eqn: Eqn, *xs: Value) -> Any:
        xs = w.alike(*xs)
        wide = [w.convert(x, F32) for x in xs]
        names = ", ".join(x.name for x in wide)
        kind = f"{wide[0].type} -> {wide[0].type}" if result else wide[0].type
        out = w.make(f"{op} {names} : {kind}", F32, wide[0].shape)
        return (w.convert(out, xs[0].dtype),)

    return rule


for _p, _op in {
    lax.exp_p: "exp",
    lax.exp2_p: "exp2",
    lax.log_p: "log",
    lax.log1p_p: "log1p",
    lax.sin_p: "sin",
    lax.cos_p: "cos",
    lax.tan_p: "tan",
    lax.tanh_p: "tanh",
    lax.sqrt_p: "sqrt",
    lax.rsqrt_p: "rsqrt",
    lax.floor_p: "floor",
    lax.ceil_p: "ceil",
    lax.erf_p: "erf",
    lax.atan2_p: "atan2",
}.items():
    MOSAIC[_p] = _native(f"math.{_op}")
_POWER = _native("math.powf")


@MOSAIC.define(lax.logistic_p)
def _logistic(w: Writer, eqn: Eqn, x: Value) -> Any:
    if x.shape:
        return _native("tpu.logistic", result="same")(w, eqn, x)
    return by_program(lambda e, x: [lax.div(_like(x, 1), lax.add(_like(x, 1), lax.exp(-x)))])(
        w, eqn, x
    )


@MOSAIC.define(lax.pow_p)
def _power(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    y = w.convert(y, x.dtype)
    if x.shape:
        return _POWER(w, eqn, x, y)
    (out,) = _POWER(w, eqn, w.spread(x, (1, 1)), w.spread(y, (1, 1)))  # scalar cores lack it
    return (w.reshape(out, ()),)


@MOSAIC.define(lax.abs_p)
def _abs(w: Writer, eqn: Eqn, x: Value) -> Any:
    if is_float(x.dtype):
        return _native("math.absf")(w, eqn, x)
    if not is_signed(x.dtype):
        return (x,)
    wide = w.convert(x, I32)
    return (w.convert(w.make(f"math.absi {wide.name} : {wide.type}", I32, x.shape), x.dtype),)


@MOSAIC.define(lax.neg_p)
def _neg(w: Writer, eqn: Eqn, x: Value) -> Any:
    if is_float(x.dtype):
        wide = w.convert(x, _wide(x, native=_NATIVE))
        out = w.make(f"arith.negf {wide.name} : {wide.type}", wide.dtype, x.shape)
        return (w.convert(out, x.dtype),)
    return MOSAIC[lax.sub_p](w, eqn, w.constant(0, x.dtype, x.shape), x)


@MOSAIC.define(lax.not_p)
def _not(w: Writer, eqn: Eqn, x: Value) -> Any:
    ones = w.constant(True if x.dtype == BOOL else -1, x.dtype, x.shape)
    return MOSAIC[lax.xor_p](w, eqn, x, ones)


@MOSAIC.define(lax.round_p)
def _round(w: Writer, eqn: Eqn, x: Value) -> Any:
    even = int(eqn.params["rounding_method"]) == 1
    return _native("math.roundeven" if even else "math.round")(w, eqn, x)


@MOSAIC.define(lax.population_count_p, lax.clz_p)
def _bits(w: Writer, eqn: Eqn, x: Value) -> Any:
    size = bits(x.dtype)
    wide = _unsigned(w, x)
    op = "math.ctlz" if eqn.primitive is lax.clz_p else "math.ctpop"
    out = w.make(f"{op} {wide.name} : {wide.type}", I32, x.shape)
    if eqn.primitive is lax.clz_p and size < 32:
        out = w.add(out, w.constant(size - 32, I32, x.shape))
    return (w.convert(out, x.dtype),)


@MOSAIC.define(lax.is_finite_p)
def _finite(w: Writer, eqn: Eqn, x: Value) -> Any:
    return by_program(lambda e, x: [lax.lt(lax.abs(x), _like(x, np.inf))])(
        w, eqn, w.convert(x, F32)
    )


@MOSAIC.define(lax.reduce_precision_p)
def _reduce_precision(w: Writer, eqn: Eqn, x: Value) -> Any:
    p = eqn.params
    wide = w.convert(x, F32)
    said = f"exponent_bits = {p['exponent_bits']} : i32, mantissa_bits = {p['mantissa_bits']} : i32"
    out = w.make(
        f"tpu.reduce_precision {wide.name} {{{said}}} : {wide.type} -> {wide.type}", F32, x.shape
    )
    return (w.convert(out, x.dtype),)


# What follows from other operations, as functions of arrays.


def _like(x: Array, value: object) -> Any:
    return lax.full_like(x, value)


def _sign(e: Eqn, x: Array) -> Any:
    zero, one = _like(x, 0), _like(x, 1)
    if x.dtype.kind == "u":
        return [lax.select(lax.gt(x, zero), one, zero)]
    sides = lax.select(lax.lt(x, zero), lax.neg(one), x)
    return [lax.select(lax.gt(x, zero), one, sides)]


def _integer_power(e: Eqn, x: Array) -> Any:
    n, result, base = abs(e.params["y"]), None, x
    while n:
        if n & 1:
            result = base if result is None else lax.mul(result, base)
        n >>= 1
        base = lax.mul(base, base) if n else base
    result = _like(x, 1) if result is None else result
    return [lax.div(_like(x, 1), result) if e.params["y"] < 0 else result]


def _clamped(e: Eqn, low: Array, x: Array, high: Array) -> Any:
    def spread(a: Array) -> Any:
        return a if a.shape == x.shape else lax.broadcast(a, x.shape)

    return [lax.min(lax.max(spread(low), x), spread(high))]


def _of_float32(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of float32 for floats of any width."""

    def program(e: Eqn, *xs: Any) -> Any:
        dtype = xs[0].dtype
        return [lax.convert_element_type(f(*(lax.convert_element_type(x, F32) for x in xs)), dtype)]

    return by_program(program)


def _expm1(x: Array) -> Any:
    """exp(x) - 1 by the logarithm of the rounded exponential: W. Kahan's formula, as in N. Higham,
    Accuracy and Stability of Numerical Algorithms, section 1.14.1."""
    u = lax.exp(x)
    near = lax.div(lax.mul(lax.sub(u, _like(x, 1)), x), lax.log(u))
    small = lax.select(lax.eq(u, _like(x, 1)), x, near)
    return lax.select(lax.lt(lax.abs(x), _like(x, 1)), small, lax.sub(u, _like(x, 1)))


def _sinh(x: Array) -> Any:
    a = lax.abs(x)
    near = _expm1(a)
    half = lax.mul(_like(x, 0.5), lax.add(near, lax.div(near, lax.add(near, _like(x, 1)))))
    e = lax.exp(lax.mul(_like(x, 0.5), a))
    far = lax.mul(lax.mul(_like(x, 0.5), e), e)
    y = lax.select(lax.lt(a, _like(x, 20)), half, far)
    return lax.select(lax.lt(x, _like(x, 0)), lax.neg(y), y)


def _cosh(x: Array) -> Any:
    e = lax.exp(lax.mul(_like(x, 0.5), lax.abs(x)))
    half = lax.mul(_like(x, 0.5), e)
    return lax.add(lax.mul(half, e), lax.div(_like(x, 0.5), lax.mul(e, e)))


def _asinh(x: Array) -> Any:
    a = lax.abs(x)
    square = lax.mul(a, a)
    near = lax.log1p(
        lax.add(a, lax.div(square, lax.add(_like(x, 1), lax.sqrt(lax.add(square, _like(x, 1))))))
    )
    far = lax.add(lax.log(a), _like(x, math.log(2)))
    y = lax.select(lax.lt(a, _like(x, 1e9)), near, far)
    return lax.select(lax.lt(x, _like(x, 0)), lax.neg(y), y)


def _acosh(x: Array) -> Any:
    less = lax.sub(x, _like(x, 1))
    near = lax.log1p(lax.add(less, lax.sqrt(lax.mul(less, lax.add(x, _like(x, 1))))))
    far = lax.add(lax.log(x), _like(x, math.log(2)))
    return lax.select(lax.lt(x, _like(x, 1e9)), near, far)


def _atanh(x: Array) -> Any:
    a = lax.abs(x)
    y = lax.mul(_like(x, 0.5), lax.log1p(lax.div(lax.mul(_like(x, 2), a), lax.sub(_like(x, 1), a))))
    return lax.select(lax.lt(x, _like(x, 0)), lax.neg(y), y)


def _root_beside(x: Array) -> Any:
    """sqrt(1 - x^2)."""
    return lax.sqrt(lax.mul(lax.sub(_like(x, 1), x), lax.add(_like(x, 1), x)))


def _cbrt(x: Array) -> Any:
    """The cube root, by the logarithm and one step of Newton's method."""
    a = lax.abs(x)
    y = lax.exp(lax.div(lax.log(a), _like(x, 3)))
    better = lax.sub(y, lax.div(lax.sub(y, lax.div(a, lax.mul(y, y))), _like(x, 3)))
    usual = lax.bitwise_and(lax.gt(a, _like(x, 1e-30)), lax.lt(a, _like(x, 1e30)))
    y = lax.select(usual, better, y)
    return lax.select(lax.lt(x, _like(x, 0)), lax.neg(y), y)


for _p, _f in {
    lax.square_p: lambda e, x: [lax.mul(x, x)],
    lax.sign_p: _sign,
    lax.integer_pow_p: _integer_power,
    lax.clamp_p: _clamped,
    lax.one_minus_square_p: lambda e, x: [
        lax.mul(lax.add(_like(x, 1), x), lax.sub(_like(x, 1), x))
    ],
}.items():
    MOSAIC[_p] = by_program(_f)
for _p, _g in {
    lax.log2_p: lambda x: lax.mul(lax.log(x), _like(x, 1 / math.log(2))),
    _elementwise.log10_p: lambda x: lax.mul(lax.log(x), _like(x, 1 / math.log(10))),
    lax.expm1_p: _expm1,
    lax.sinh_p: _sinh,
    lax.cosh_p: _cosh,
    lax.asinh_p: _asinh,
    lax.acosh_p: _acosh,
    lax.atanh_p: _atanh,
    lax.asin_p: lambda x: lax.atan2(x, _root_beside(x)),
    lax.acos_p: lambda x: lax.atan2(_root_beside(x), x),
    lax.atan_p: lambda x: lax.atan2(x, _like(x, 1)),
    lax.cbrt_p: _cbrt,
    lax.erfc_p: gaussian.erfc_of,
    lax.erf_inv_p: gaussian.erf_inv_of,
    lax.lgamma_p: gamma.log_gamma,
    lax.digamma_p: gamma.digamma_of,
    special.gauss_p: lambda x: lax.exp(lax.neg(lax.mul(x, x))),
    special.half_gauss_p: lambda x: lax.exp(lax.mul(_like(x, -0.5), lax.mul(x, x))),
}.items():
    MOSAIC[_p] = _of_float32(_g)


@MOSAIC.define(lax.nextafter_p)
def _nextafter(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    if x.dtype != F32:
        raise Refused(f"nextafter of {x.dtype}", "Convert the operands: x.astype(jnp.float32).")
    return by_program(lambda e, x, y: [_next(x, y)])(w, eqn, x, y)


def _next(x: Array, y: Array) -> Any:
    """The neighbour of x on the side of y: floats of one sign are ordered as their bits."""
    at = lax.bitcast_convert_type(x, np.int32)
    zero, one = lax.full_like(at, 0), lax.full_like(at, 1)
    sign = lax.bitwise_and(lax.bitcast_convert_type(y, np.int32), lax.full_like(at, -(2**31)))
    away = lax.eq(lax.gt(x, _like(x, 0)), lax.lt(x, y))
    moved = lax.add(at, lax.select(away, one, lax.neg(one)))
    moved = lax.select(lax.eq(x, _like(x, 0)), lax.bitwise_or(sign, one), moved)
    out = lax.select(lax.eq(x, y), y, lax.bitcast_convert_type(moved, np.float32))
    nan = lax.bitwise_or(lax.ne(x, x), lax.ne(y, y))
    del zero
    return lax.select(nan, _like(x, np.nan), out)


# --- Choices and conversions --------------------------------------------------------------------


@MOSAIC.define(lax.select_n_p)
def _select(w: Writer, eqn: Eqn, which: Value, *cases: Value) -> Any:
    if which.dtype == BOOL:
        return (cases[0] if len(cases) == 1 else w.select(which, cases[1], cases[0]),)
    out = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        here = w.compare("sle", which, w.constant(i, which.dtype, which.shape))
        out = w.select(here, cases[i], out)
    return (out,)


@MOSAIC.define(lax.convert_element_type_p)
def _convert(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (w.convert(x, eqn.outvars[0].aval.dtype),)


@MOSAIC.define(_conversion.bitcast_convert_type_p)
def _bitcast(w: Writer, eqn: Eqn, x: Value) -> Any:
    dtype = eqn.outvars[0].aval.dtype
    if bits(dtype) != bits(x.dtype) or BOOL in (dtype, x.dtype):
        raise Refused(
            f"the bits of {x.dtype} taken for {dtype}",
            "Take them for a dtype of the same width, or pack rows: pltpu.bitcast(x, dtype).",
        )
    if element(dtype) == element(x.dtype):
        return (Value(x.name, dtype, x.shape),)
    if not x.shape:
        op = f"arith.bitcast {x.name} : {x.type} to {element(dtype)}"
        return (w.make(op, dtype),)
    kind = type_text(dtype, x.shape)
    return (w.make(f"tpu.bitcast {x.name} : {x.type} -> {kind}", dtype, x.shape),)


_identity = functools.partial(lambda w, eqn, *xs: xs)
for _p in (lax.copy_p, lax.optimization_barrier_p, _conversion.stop_gradient_p):
    MOSAIC[_p] = _identity


@MOSAIC.define(lax.mulhi_p)
def _mulhi(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    if bits(x.dtype) == 32:
        return by_program(lambda e, x, y: [_high_half(x, y)])(w, eqn, x, y)
    wide = I32 if is_signed(x.dtype) else U32
    x, y, dtype = w.convert(x, wide), w.convert(y, wide), x.dtype
    (product,) = MOSAIC[lax.mul_p](w, eqn, x, y)
    by = w.constant(bits(dtype), wide)
    (high,) = MOSAIC[lax.shift_right_arithmetic_p if is_signed(dtype) else
                     lax.shift_right_logical_p](w, eqn, product, by)  # fmt: skip
    return (w.convert(high, dtype),)


def _high_half(x: Array, y: Array) -> Any:
    """The upper half of a product of 64 bits, by halves of 16 bits."""
    signed = x.dtype.kind == "i"
    a, b = (lax.bitcast_convert_type(v, np.uint32) for v in (x, y))
    low, half = lax.full_like(a, 0xFFFF), lax.full_like(a, 16)
    (a0, a1), (b0, b1) = (
        (lax.bitwise_and(v, low), lax.shift_right_logical(v, half)) for v in (a, b)
    )
    first = lax.shift_right_logical(lax.mul(a0, b0), half)
    middle = lax.add(lax.mul(a1, b0), first)
    other = lax.add(lax.mul(a0, b1), lax.bitwise_and(middle, low))
    high = lax.add(
        lax.add(lax.mul(a1, b1), lax.shift_right_logical(middle, half)),
        lax.shift_right_logical(other, half),
    )
    if not signed:
        return high
    out = lax.bitcast_convert_type(high, np.int32)
    zero = lax.full_like(x, 0)
    out = lax.sub(out, lax.select(lax.lt(x, zero), y, zero))
    return lax.sub(out, lax.select(lax.lt(y, zero), x, zero))
