"""Triton's rules of elementwise primitives: arithmetic, functions, comparisons, conversions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Eqn
from teucer._pallas.triton.table import TRITON, by_program
from teucer._pallas.triton.text import (
    BOOL,
    I64,
    Refused,
    Value,
    Writer,
    element,
    fitting,
    is_float,
    is_signed,
    type_text,
)
from teucer.lax import _conversion, _elementwise, _structure
from teucer.lax._functions import special

if TYPE_CHECKING:
    from teucer._core.typing import Array, DType, DTypeLike


F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
_NARROW = 4  # bytes: functions of narrower floats are computed in float32


def convert(w: Writer, x: Value, dtype: Any) -> Value:
    """The elements as another dtype."""
    dtype = np.dtype(dtype)
    old = x.dtype
    if old == dtype:
        return x
    if dtype == BOOL:
        return w.compare("une" if is_float(old) else "ne", x, w.constant(0, old, x.shape))
    kind = type_text(dtype, x.shape)
    if is_float(old) and is_float(dtype):
        return _float_to_float(w, x, dtype)
    if is_float(old):
        if old.itemsize == 1:
            return convert(w, _float_to_float(w, x, F32), dtype)
        op = "arith.fptosi" if is_signed(dtype) else "arith.fptoui"
    elif is_float(dtype):
        if dtype.itemsize == 1:
            return _float_to_float(w, convert(w, x, F32), dtype)
        op = "arith.sitofp" if is_signed(old) else "arith.uitofp"
    else:
        known = fitting(x.bounds, dtype)
        bits = (1 if old == BOOL else old.itemsize * 8), dtype.itemsize * 8
        if bits[0] == bits[1]:
            return Value(x.name, dtype, x.shape, known)
        op = (
            "arith.trunci"
            if bits[0] > bits[1]
            else "arith.extsi"
            if is_signed(old)
            else "arith.extui"
        )
        return w.make(f"{op} {x.name} : {x.type} to {kind}", dtype, x.shape, known)
    return w.make(f"{op} {x.name} : {x.type} to {kind}", dtype, x.shape)


def _float_to_float(w: Writer, x: Value, dtype: DType) -> Value:
    kind = type_text(dtype, x.shape)
    if 1 in (x.dtype.itemsize, dtype.itemsize):
        if not x.shape:
            return w.reshape(_float_to_float(w, w.reshape(x, (1,)), dtype), ())
        rounding = ", rounding = rtne" if dtype.itemsize < x.dtype.itemsize else ""
        return w.make(f"tt.fp_to_fp {x.name}{rounding} : {x.type} -> {kind}", dtype, x.shape)
    if x.dtype.itemsize == dtype.itemsize:  # float16 and bfloat16
        return _float_to_float(w, _float_to_float(w, x, F32), dtype)
    op = "arith.extf" if dtype.itemsize > x.dtype.itemsize else "arith.truncf"
    return w.make(f"{op} {x.name} : {x.type} to {kind}", dtype, x.shape)


# --- Operations of two operands -----------------------------------------------------------------


def _binary(
    floats: str | None,
    signed: str | None,
    unsigned: str | None = None,
    *,
    wide: bool = False,
    bounds: Callable[..., object] | None = None,
) -> Callable[..., Any]:
    """wide: whether narrow floats are computed in float32."""

    def rule(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        x, y = w.alike(x, y)
        dtype = x.dtype
        if is_float(dtype):
            op = floats
            if dtype.itemsize == 1 or (wide and dtype.itemsize < _NARROW):
                (out,) = rule(w, eqn, convert(w, x, F32), convert(w, y, F32))
                return (convert(w, out, dtype),)
        else:
            op = signed if is_signed(dtype) or unsigned is None else unsigned
        if op is None:
            raise Refused(
                f"{eqn.primitive} of {dtype}", "Convert the operands: x.astype(jnp.float32)."
            )
        known = (
            bounds(x.bounds, y.bounds)
            if bounds and x.bounds and y.bounds and not is_float(dtype)
            else None
        )
        return (
            w.make(f"{op} {x.name}, {y.name} : {x.type}", dtype, x.shape, fitting(known, dtype)),
        )

    return rule


def _products(x: Array, y: Array) -> Any:
    found = [a * b for a in x for b in y]
    return min(found), max(found)


def _division(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    x, y = w.alike(x, y)
    if x.dtype == F32 and x.shape:
        return (w.make(f"tt.precise_divf {x.name}, {y.name} : {x.type}", F32, x.shape),)
    return _DIVIDE(w, eqn, x, y)


_DIVIDE = _binary(
    "arith.divf",
    "arith.divsi",
    "arith.divui",
    wide=True,
    bounds=lambda x, y: (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else None,
)

TRITON[_structure.add_any_p] = TRITON[lax.add_p] = _binary(
    "arith.addf", "arith.addi", bounds=lambda x, y: (x[0] + y[0], x[1] + y[1])
)
TRITON[lax.sub_p] = _binary(
    "arith.subf", "arith.subi", bounds=lambda x, y: (x[0] - y[1], x[1] - y[0])
)
TRITON[lax.mul_p] = _binary("arith.mulf", "arith.muli", bounds=_products)
TRITON[lax.div_p] = _division
TRITON[lax.max_p] = _binary(
    "arith.maximumf",
    "arith.maxsi",
    "arith.maxui",
    wide=True,
    bounds=lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
)
TRITON[lax.min_p] = _binary(
    "arith.minimumf",
    "arith.minsi",
    "arith.minui",
    wide=True,
    bounds=lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
)
TRITON[lax.and_p] = _binary(None, "arith.andi")
TRITON[lax.or_p] = _binary(None, "arith.ori")
TRITON[lax.xor_p] = _binary(None, "arith.xori")
_INTEGER_REST = _binary(
    None,
    "arith.remsi",
    "arith.remui",
    bounds=lambda x, y: (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None,
)


def _comparison(floats: str, signed: str, unsigned: str) -> Callable[..., Any]:
    def rule(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        if x.dtype.itemsize == 1 and is_float(x.dtype):
            x, y = convert(w, x, F32), convert(w, y, F32)
        return (
            w.compare(
                floats if is_float(x.dtype) else signed if is_signed(x.dtype) else unsigned, x, y
            ),
        )

    return rule


TRITON[lax.eq_p] = _comparison("oeq", "eq", "eq")
TRITON[lax.ne_p] = _comparison("une", "ne", "ne")
TRITON[lax.lt_p] = _comparison("olt", "slt", "ult")
TRITON[lax.le_p] = _comparison("ole", "sle", "ule")
TRITON[lax.gt_p] = _comparison("ogt", "sgt", "ugt")
TRITON[lax.ge_p] = _comparison("oge", "sge", "uge")


def _shift(op: str, *, arithmetic: bool = False) -> Callable[..., Any]:
    def rule(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
        x, y = w.alike(x, y)
        bits = x.dtype.itemsize * 8
        if y.bounds and y.bounds[0] >= 0 and y.bounds[1] < bits:
            return (w.make(f"{op} {x.name}, {y.name} : {x.type}", x.dtype, x.shape),)
        small = w.compare("ult", y, w.constant(bits, y.dtype, y.shape))
        if arithmetic:
            y = w.select(small, y, w.constant(bits - 1, y.dtype, y.shape))
        out = w.make(f"{op} {x.name}, {y.name} : {x.type}", x.dtype, x.shape)
        return (out if arithmetic else w.select(small, out, w.constant(0, x.dtype, x.shape)),)

    return rule


TRITON[lax.shift_left_p] = _shift("arith.shli")
TRITON[lax.shift_right_logical_p] = _shift("arith.shrui")
TRITON[lax.shift_right_arithmetic_p] = _shift("arith.shrsi", arithmetic=True)


# --- Functions ----------------------------------------------------------------------------------


def _widened(f: Callable[[Writer, Any, Any], Value]) -> Callable[..., Any]:
    """A rule for float32 and float64, used for narrower floats too."""

    def rule(w: Writer, eqn: Eqn, *xs: Value) -> Any:
        xs = w.alike(*xs)
        dtype = xs[0].dtype
        wide = [convert(w, x, F32) if x.dtype.itemsize < _NARROW else x for x in xs]
        return (convert(w, f(w, eqn, *wide), dtype),)  # type: ignore[call-arg]

    return rule


def _native(op: str) -> Callable[..., Any]:
    return _widened(lambda w, eqn, x: w.make(f"{op} {x.name} : {x.type}", x.dtype, x.shape))


def _library(name: str) -> Callable[..., Any]:
    """A function of NVIDIA's libdevice."""

    def rule(w: Writer, eqn: Eqn, *xs: Value) -> Value:
        symbol = f"__nv_{name}" + ("f" if xs[0].dtype == F32 else "")
        return _extern(w, symbol, xs, xs[0].dtype)

    return _widened(rule)


def _extern(w: Writer, symbol: str, xs: Any, dtype: DTypeLike) -> Value:
    names, kinds = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
    given = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
    return w.make(
        f"tt.extern_elementwise {names} {given} : ({kinds}) -> {type_text(dtype, xs[0].shape)}",
        dtype,
        xs[0].shape,
    )


def _root(w: Writer, eqn: Eqn, x: Value) -> Value:
    if x.dtype == F32 and x.shape:
        return w.make(f"tt.precise_sqrt {x.name} : {x.type}", F32, x.shape)
    return w.make(f"math.sqrt {x.name} : {x.type}", x.dtype, x.shape)


for _p, _op in {
    lax.exp_p: "exp",
    lax.exp2_p: "exp2",
    lax.log_p: "log",
    lax.log2_p: "log2",
    lax.sin_p: "sin",
    lax.cos_p: "cos",
    lax.rsqrt_p: "rsqrt",
    lax.floor_p: "floor",
    lax.ceil_p: "ceil",
    lax.erf_p: "erf",
}.items():
    TRITON[_p] = _native(f"math.{_op}")
for _p, _op in {
    lax.tan_p: "tan",
    lax.asin_p: "asin",
    lax.acos_p: "acos",
    lax.atan_p: "atan",
    lax.sinh_p: "sinh",
    lax.cosh_p: "cosh",
    lax.tanh_p: "tanh",
    lax.asinh_p: "asinh",
    lax.acosh_p: "acosh",
    lax.atanh_p: "atanh",
    lax.expm1_p: "expm1",
    lax.log1p_p: "log1p",
    lax.cbrt_p: "cbrt",
    lax.erfc_p: "erfc",
    lax.erf_inv_p: "erfinv",
    lax.lgamma_p: "lgamma",
    lax.atan2_p: "atan2",
}.items():
    TRITON[_p] = _library(_op)
TRITON[lax.sqrt_p] = _widened(_root)
_FLOAT_REST, _POWER, _NEXT = _library("fmod"), _library("pow"), _library("nextafter")


@TRITON.define(lax.rem_p)
def _rest(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    return (_FLOAT_REST if is_float(x.dtype) else _INTEGER_REST)(w, eqn, x, y)


@TRITON.define(lax.pow_p)
def _power(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    return _POWER(w, eqn, x, convert(w, y, x.dtype))


@TRITON.define(lax.nextafter_p)
def _nextafter(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    if x.dtype.itemsize < _NARROW:
        raise Refused(f"nextafter of {x.dtype}", "Convert the operands: x.astype(jnp.float32).")
    return _NEXT(w, eqn, x, y)


@TRITON.define(lax.abs_p)
def _abs(w: Writer, eqn: Eqn, x: Value) -> Any:
    if not is_float(x.dtype):
        return (
            w.make(f"math.absi {x.name} : {x.type}", x.dtype, x.shape) if is_signed(x.dtype) else x,
        )
    return _native("math.absf")(w, eqn, x)


@TRITON.define(lax.neg_p)
def _neg(w: Writer, eqn: Eqn, x: Value) -> Any:
    if is_float(x.dtype):
        return _native("arith.negf")(w, eqn, x)
    return TRITON[lax.sub_p](w, eqn, w.constant(0, x.dtype, x.shape), x)


@TRITON.define(lax.not_p)
def _not(w: Writer, eqn: Eqn, x: Value) -> Any:
    ones = w.constant(True if x.dtype == BOOL else -1, x.dtype, x.shape)
    return (w.make(f"arith.xori {x.name}, {ones.name} : {x.type}", x.dtype, x.shape),)


@TRITON.define(lax.round_p)
def _round(w: Writer, eqn: Eqn, x: Value) -> Any:
    return _library("rint" if int(eqn.params["rounding_method"]) == 1 else "round")(w, eqn, x)


@TRITON.define(lax.population_count_p, lax.clz_p)
def _bits(w: Writer, eqn: Eqn, x: Value) -> Any:
    bits, size = max(x.dtype.itemsize, _NARROW) * 8, x.dtype.itemsize * 8
    wide = convert(w, Value(x.name, np.dtype(f"uint{size}"), x.shape), np.dtype(f"uint{bits}"))
    counts = eqn.primitive is lax.clz_p
    out = _extern(
        w,
        ("__nv_clz" if counts else "__nv_popc") + ("ll" if bits > 32 else ""),
        [wide],
        np.dtype(np.int32),
    )
    if counts and bits != size:
        out = w.add(out, w.constant(size - bits, np.int32, out.shape))
    return (convert(w, out, x.dtype),)


# Operations that follow from others, as functions of arrays.
_ONE = {
    "square": lambda e, x: [lax.mul(x, x)],
    "logistic": lambda e, x: [lax.div(_like(x, 1), _one_and_exp(x))],
}


def _like(x: Any, value: Any) -> Any:
    return lax.full_like(x, value)


def _one_and_exp(x: Array) -> Any:
    return lax.add(_like(x, 1), lax.exp(lax.neg(x)))


def _finite(e: Eqn, x: Array) -> Any:
    return [lax.lt(lax.abs(x), _like(x, np.inf))]


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
    return [lax.min(lax.max(_spread(low, x), x), _spread(high, x))]


def _spread(a: Array, x: Array) -> Any:
    return a if a.shape == x.shape else lax.broadcast(a, x.shape)


for _p, _f in {
    lax.square_p: _ONE["square"],
    lax.logistic_p: _ONE["logistic"],
    lax.is_finite_p: _finite,
    lax.sign_p: _sign,
    lax.integer_pow_p: _integer_power,
    lax.clamp_p: _clamped,
    _elementwise.log10_p: lambda e, x: [lax.mul(lax.log2(x), _like(x, math.log10(2)))],
    special.gauss_p: lambda e, x: [lax.exp(lax.neg(lax.mul(x, x)))],
    special.half_gauss_p: lambda e, x: [lax.exp(lax.mul(_like(x, -0.5), lax.mul(x, x)))],
    lax.one_minus_square_p: lambda e, x: [
        lax.mul(lax.add(_like(x, 1), x), lax.sub(_like(x, 1), x))
    ],
}.items():
    TRITON[_p] = by_program(_f)


# --- Choices and conversions --------------------------------------------------------------------


@TRITON.define(lax.select_n_p)
def _select(w: Writer, eqn: Eqn, which: Value, *cases: Value) -> Any:
    if which.dtype == BOOL:
        return (cases[0] if len(cases) == 1 else w.select(which, cases[1], cases[0]),)
    out = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        out = w.select(
            w.compare("sle", which, w.constant(i, which.dtype, which.shape)), cases[i], out
        )
    return (out,)


@TRITON.define(lax.convert_element_type_p)
def _convert(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (convert(w, x, eqn.outvars[0].aval.dtype),)


@TRITON.define(_conversion.bitcast_convert_type_p)
def _bitcast(w: Writer, eqn: Eqn, x: Value) -> Any:
    dtype = eqn.outvars[0].aval.dtype
    if dtype.itemsize != x.dtype.itemsize or BOOL in (dtype, x.dtype):
        raise Refused(
            f"the bits of {x.dtype} taken for {dtype}", "Take them for a dtype of the same width."
        )
    if element(dtype) == element(x.dtype):
        return (Value(x.name, dtype, x.shape),)
    return (
        w.make(f"tt.bitcast {x.name} : {x.type} -> {type_text(dtype, x.shape)}", dtype, x.shape),
    )


_identity = functools.partial(lambda w, eqn, *xs: xs)
for _p in (lax.copy_p, lax.optimization_barrier_p, _conversion.stop_gradient_p):
    TRITON[_p] = _identity


@TRITON.define(lax.mulhi_p)
def _mulhi(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    if x.dtype.itemsize > _NARROW:
        raise Refused("mulhi of 64 bits", "Multiply numbers of 32 bits.")
    wide = I64 if is_signed(x.dtype) else np.dtype(np.uint64)
    product = TRITON[lax.mul_p](w, eqn, convert(w, x, wide), convert(w, y, wide))[0]
    shifted = _shift("arith.shrui")(w, eqn, product, w.constant(x.dtype.itemsize * 8, wide))[0]
    return (convert(w, shifted, x.dtype),)
