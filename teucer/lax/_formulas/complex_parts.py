"""Complex functions by functions of their parts.

XLA's cancel where a part is small, and are nan where a factor overflows alone.

Formulas of complex128 take XLA's functions. Those of complex64 are series of float64 (`wide`)
where that is fast: they are faster, and leave digits over. Elsewhere the formulas of complex128 are
used in float32. Kahan, Branch cuts for complex elementary functions, in The State of the Art in
Numerical Analysis (1987).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import config, dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer.lax import _arithmetic, _structure
from teucer.lax import _arithmetic as ops
from teucer.lax._conversion import bitcast_convert_type_p
from teucer.lax._families import scalar_like
from teucer.lax._formulas import wide as _wide
from teucer.lax._formulas.double import halves, sum_of_two
from teucer.lax._formulas.terms import plus, times
from teucer.lax._programs import traced
from teucer.lax._selection import where_else
from teucer.lax._structure import number

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value


Function = Callable[..., Any]
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Elementary(NamedTuple):
    """Functions of lax."""

    sin: Function
    cos: Function
    exp: Function
    expm1: Function
    log: Function
    log1p: Function
    atan2: Function


class Functions(NamedTuple):
    """The functions of float64 that formulas are made of.

    turn: b -> sin b, cos b, cos b - 1.
    grow: a -> e^a - 1, and a factor of e^a: its root where that could overflow alone, else e^a
    itself.
    rooted: whether that factor is the root.
    largest: the largest a for which the square of sinh a is finite, or matters.
    """

    turn: Function
    grow: Function
    rooted: bool
    largest: float


OF_FLOAT32 = Functions(_wide.turn, _wide.exponential, rooted=False, largest=200.0)


def _of_its_own(lax: Elementary, dtype: np.dtype[Any]) -> Functions:
    """XLA's functions, for parts of a dtype."""

    def turn(x: Array) -> tuple[Any, Any, Any]:
        sine, cosine = lax.sin(x), lax.cos(x)
        less = where_else(
            ops.gt(cosine, scalar_like(x, 0)),
            ops.neg(ops.div(ops.square(sine), plus(cosine, 1))),
            plus(cosine, -1),
        )
        return sine, cosine, less

    largest = math.floor(0.5 * math.log(2) * (dtypes.finfo(dtype).maxexp + 1))
    return Functions(
        turn, lambda x: (lax.expm1(x), lax.exp(times(0.5, x))), rooted=True, largest=largest
    )


# Of the hyperbolic functions


def _sinh_and_cosh(f: Functions, x: Array) -> tuple[Any, Any]:
    """By e^|x| - 1, so that sinh is odd to the bit."""
    less, _ = f.grow(ops.abs(x))
    power = plus(less, 1)
    return ops.mul(ops.sign(x), times(0.5, ops.add(less, ops.div(less, power)))), times(
        0.5, ops.add(power, ops.div(scalar_like(x, 1), power))
    )


def _hyperbolic(f: Functions, x: Array) -> tuple[Any, Any, Any]:
    """sinh(x) and cosh(x) without a factor, and that factor: e^(|x| / 2) where e^-|x| is too small
    to count, else 1."""
    if not f.rooted:
        return *_sinh_and_cosh(f, x), scalar_like(x, 1)
    size = ops.abs(x)
    large = ops.gt(
        size, scalar_like(x, 0.5 * math.log(2) * (dtypes.finfo(typeof(x).dtype).nmant + 3))
    )
    _, root = f.grow(size)
    half, (s, c) = times(0.5, root), _sinh_and_cosh(f, where_else(large, scalar_like(x, 0), x))
    return (
        where_else(large, ops.mul(ops.sign(x), half), s),
        where_else(large, half, c),
        where_else(large, root, scalar_like(x, 1)),
    )


def _lost(a: Array, b: Array) -> Any:
    """Whether a is infinite, and b an angle without a direction."""
    return ops.bitwise_and(
        ops.eq(ops.abs(a), scalar_like(a, np.inf)), ops.bitwise_not(ops.is_finite(b))
    )


# sin and cos of numbers other than 0 are never 0, so that a product is a zero only where an
# argument is one. It stays zero though the other factor is infinite or nan.


def _sinh(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    (s, c, factor), (sine, cosine, _) = _hyperbolic(f, a), f.turn(b)
    # Infinite, or zero, where sinh a is, whatever the angle.
    steady = ops.bitwise_or(
        _lost(a, b),
        ops.bitwise_and(ops.eq(a, scalar_like(a, 0)), ops.bitwise_not(ops.is_finite(b))),
    )
    re = ops.mul(ops.mul(where_else(steady, scalar_like(a, 1), cosine), s), factor)
    return re, where_else(ops.eq(b, scalar_like(b, 0)), b, ops.mul(ops.mul(sine, c), factor))


def _cosh(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    (s, c, factor), (sine, cosine, _) = _hyperbolic(f, a), f.turn(b)
    one, none = scalar_like(a, 1), ops.eq(b, scalar_like(b, 0))
    re = ops.mul(ops.mul(where_else(_lost(a, b), one, cosine), c), factor)
    sine = where_else(
        ops.bitwise_and(ops.eq(a, scalar_like(a, 0)), ops.bitwise_not(ops.is_finite(b))), one, sine
    )
    im = ops.mul(
        ops.mul(sine, where_else(none, where_else(ops.ne(a, a), one, ops.sign(a)), s)),
        where_else(none, one, factor),
    )
    return re, im


def _sin(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    # sin z = -i sinh(i z)
    im, re = _sinh(f, b, a)
    return re, im


def _cos(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    # cos z = cosh(-i z)
    return _cosh(f, b, ops.neg(a))


def _tanh(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    lost, zero = _lost(a, b), scalar_like(a, 0)
    limit = scalar_like(a, f.largest)
    (s, c), (sine, cosine, _) = _sinh_and_cosh(f, ops.clamp(ops.neg(limit), a, limit)), f.turn(b)
    sine, cosine = where_else(lost, zero, sine), where_else(lost, scalar_like(a, 1), cosine)
    below = ops.add(ops.square(s), ops.square(cosine))
    turned = ops.mul(sine, cosine)
    turned = where_else(
        _infinite(a), times(0, turned), turned
    )  # at `limit` it need not be small enough to vanish
    re, im = ops.div(ops.mul(s, c), below), ops.div(turned, below)
    # A part that is zero stays so, though the other is nan.
    return where_else(ops.eq(a, zero), a, re), where_else(ops.eq(b, zero), b, im)


def _tan(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    # tan z = -i tanh(i z)
    re, im = _tanh(f, ops.neg(b), a)
    return im, ops.neg(re)


def _exp(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    (_, factor), (sine, cosine, _), lost = f.grow(a), f.turn(b), _lost(a, b)
    other = factor if f.rooted else scalar_like(a, 1)
    # Infinite or zero where e^a is, whatever the angle.
    cosine = where_else(lost, scalar_like(a, 1), cosine)
    sine = where_else(ops.bitwise_and(lost, ops.lt(a, scalar_like(a, 0))), scalar_like(a, 0), sine)
    return ops.mul(ops.mul(cosine, factor), other), where_else(
        ops.eq(b, scalar_like(b, 0)), b, ops.mul(ops.mul(sine, factor), other)
    )


def _expm1(f: Functions, a: Array, b: Array) -> tuple[Any, Any]:
    """e^a cos b - 1 = (e^a - 1) cos b + (cos b - 1). The terms cancel on a curve through 0."""
    (less, _), (_, cosine, cosine_less), lost, (power, im) = (
        f.grow(a),
        f.turn(b),
        _lost(a, b),
        _exp(f, a, b),
    )
    near = ops.add(ops.mul(less, cosine), cosine_less)
    near = where_else(lost, less, near)
    large = ops.gt(a, scalar_like(a, 0.5 * math.log(2) * dtypes.finfo(typeof(a).dtype).maxexp))
    return where_else(large, power, near), im


FORMULAS = {
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "exp": _exp,
    "expm1": _expm1,
}


# Inverse functions in the first quadrant. Signs of the parts say where an argument is beside a cut.
# Results for infinities and nan follow C99 (annex G.6).


def _with_sign(x: Array, of: Array) -> Any:
    """|x| with the sign of another number; zeros have signs too."""
    integer = np.dtype(f"i{typeof(of).dtype.itemsize}")
    bits = bitcast_convert_type_p.call(of, new_dtype=integer)[0]
    return where_else(ops.lt(bits, number(0, integer)), ops.neg(ops.abs(x)), ops.abs(x))


def _infinite(x: Array) -> Any:
    return ops.eq(ops.abs(x), scalar_like(x, np.inf))


def _is_zero(x: Array) -> Any:
    return ops.eq(x, scalar_like(x, 0))


def _as(x: Array, where: Array, value: float) -> Any:
    return where_else(where, scalar_like(x, value), x)


def _asinh_signs(a: Array, b: Array, re: Array, im: Array) -> tuple[Any, Any]:
    return _with_sign(re, a), _with_sign(_as(im, _is_zero(b), 0), b)


def _atanh_signs(a: Array, b: Array, re: Array, im: Array) -> tuple[Any, Any]:
    far = ops.bitwise_or(_infinite(a), _infinite(b))
    im = where_else(
        far,
        where_else(_infinite(b), scalar_like(b, math.pi / 2), _as(b, ops.eq(b, b), math.pi / 2)),
        _as(im, ops.bitwise_or(ops.ne(a, a), ops.ne(b, b)), np.nan),
    )
    return _with_sign(_as(re, ops.bitwise_or(far, _is_zero(a)), 0), a), _with_sign(im, b)


def _acos_signs(a: Array, b: Array, re: Array, im: Array) -> tuple[Any, Any]:
    return _supplement(a, re), _with_sign(im, ops.neg(b))


def _acosh_signs(a: Array, b: Array, re: Array, im: Array) -> tuple[Any, Any]:
    return re, _with_sign(_supplement(a, im), b)


def _supplement(a: Array, angle: Array) -> Any:
    return where_else(
        ops.lt(a, scalar_like(a, 0)),
        ops.sub(scalar_like(a, math.pi), angle),
        _as(angle, _is_zero(a), math.pi / 2),
    )


def _sqrt_signs(a: Array, b: Array, re: Array, im: Array) -> tuple[Any, Any]:
    far = _infinite(b)
    re = _as(re, ops.bitwise_or(far, ops.eq(a, scalar_like(a, np.inf))), np.inf)
    return re, _with_sign(
        _as(im, ops.bitwise_or(far, ops.eq(a, scalar_like(a, -np.inf))), np.inf), b
    )


def _swapped(signs: Function) -> Function:
    """asin z = -i asinh(i z), and so atan."""
    return lambda a, b, re, im: tuple(reversed(signs(b, a, im, re)))


SIGNS = {
    "asin": _swapped(_asinh_signs),
    "asinh": _asinh_signs,
    "atan": _swapped(_atanh_signs),
    "atanh": _atanh_signs,
    "acos": _acos_signs,
    "acosh": _acosh_signs,
}


# For complex64: formulas in float64, which have digits enough, and in which no square overflows.


def _wide_atanh(a: Array, b: Array) -> tuple[Any, Any]:
    return _atanh_signs(a, b, *_wide.atanh_of_parts(ops.abs(a), ops.abs(b)))


def _wide_atan(a: Array, b: Array) -> tuple[Any, Any]:
    # atan z = -i atanh(i z)
    im, re = _wide_atanh(b, a)
    return re, im


def _wide_log(a: Array, b: Array) -> tuple[Any, Any]:
    return _wide.log_of_size(a, b, 0), _wide.angle(b, a)


def _wide_log1p(a: Array, b: Array) -> tuple[Any, Any]:
    return _wide.log_of_size(a, b, 1), _wide.angle(b, plus(a, 1))


WIDE: dict[str, Function] = {
    "atan": _wide_atan,
    "atanh": _wide_atanh,
    "log": _wide_log,
    "log1p": _wide_log1p,
    **{name: functools.partial(formula, OF_FLOAT32) for name, formula in FORMULAS.items()},
}


# Of complex128, and of complex64 where float64 is slow


def _parts(z: Array) -> tuple[Any, Any]:
    return _arithmetic.real(z), _arithmetic.imag(z)


def _near_circle(lax: Elementary, a: Array, b: Array, first: Array, far: Array) -> Any:
    """log |w| by |w|^2 - 1 = a^2 + b^2 + first where that is near 0."""
    excess = _excess(a, b, first)
    near = ops.lt(ops.abs(excess), scalar_like(a, 0.5))
    return where_else(near, times(0.5, lax.log1p(where_else(near, excess, scalar_like(a, 0)))), far)


def _excess(a: Array, b: Array, first: Array) -> Any:
    """a^2 + b^2 + first, exact but for a rounding of the whole.

    Method: squares in parts that are exact, so that compilers may fuse them with sums, which are
    compensated twice. Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26 (2005) 1955.
    """
    total, *terms = *_exact_square(a), *_exact_square(b), first
    error, rest = scalar_like(a, 0), scalar_like(a, 0)
    for term in terms:
        total, lost = sum_of_two(total, term)
        error, lost = sum_of_two(error, lost)
        rest = ops.add(rest, lost)
    total, error = sum_of_two(total, error)
    return ops.add(total, ops.add(error, rest))


def _exact_square(x: Array) -> tuple[Any, Any, Any]:
    """Three numbers whose sum is the square of x."""
    high, low = halves(x)
    return ops.square(high), times(2, ops.mul(high, low)), ops.square(low)


def _log1p(lax: Elementary, z: Array) -> Any:
    a, b = _parts(z)
    one = plus(a, 1)
    far = _arithmetic.real(lax.log(_arithmetic.complex(one, b)))  # infinite where a part is
    return _arithmetic.complex(_near_circle(lax, a, b, times(2, a), far), lax.atan2(b, one))


def _log_signs(lax: Elementary, a: Array, b: Array, re: Array, im: Array) -> tuple[Any, Any]:
    far = _as(re, ops.bitwise_or(_infinite(a), _infinite(b)), np.inf)
    return _near_circle(lax, a, b, scalar_like(a, -1), far), im


def _by_operation(operation: str, signs: Function, first: Function) -> Function:
    """The lowering of a function by XLA's operation. first: the parts for which that is right."""

    def lower(ctx: Context, z: Value) -> Any:
        (w,) = ctx.trace(lambda z: (_arithmetic.complex(*first(*_parts(z))),), z)
        y = ctx.op1(operation, (w,), ctx.avals_out[0])
        return ctx.trace(lambda z, y: (_arithmetic.complex(*signs(*_parts(z), *_parts(y))),), z, y)[
            0
        ]

    return lower


def _lowering(name: str, lax: Elementary) -> Function:
    """XLA's operation where that is right for a part of the plane, else a formula."""
    if name == "sqrt":
        return _by_operation("stablehlo.sqrt", _sqrt_signs, lambda a, b: (a, ops.abs(b)))
    if name == "log":
        return _by_operation(
            "stablehlo.log", functools.partial(_log_signs, lax), lambda a, b: (a, b)
        )
    if name in SIGNS:
        return _by_operation(f"chlo.{name}", SIGNS[name], lambda a, b: (ops.abs(a), ops.abs(b)))
    if name == "log1p":
        return traced(lambda z: _log1p(lax, z))
    return traced(
        lambda z: _arithmetic.complex(
            *FORMULAS[name](_of_its_own(lax, typeof(z).dtype), *_parts(z))
        )
    )


def lower(name: str, lax: Elementary, ctx: Context, z: Value) -> Any:
    """Lower a function of complex numbers, f(conj z) = conj f(z)."""
    formula = WIDE.get(name) if z.dtype == np.complex64 and ctx.target.fast_float64 else None
    if formula is None:
        return _lowering(name, lax)(ctx, z)

    def wide(z: Array) -> Any:
        parts = (_structure.convert_element_type(part, FLOAT64) for part in _parts(z))
        return _arithmetic.complex(
            *(_structure.convert_element_type(y, FLOAT32) for y in formula(*parts))
        )

    with config.enable_x64(True):  # without, Python's numbers would become float32
        return traced(wide)(ctx, z)
