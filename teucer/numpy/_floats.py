"""Elementwise functions of floats that take several operations.

Parts, signs, distances, special values.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._families import scalar_like
from teucer.numpy import _ufuncs as ufuncs
from teucer.numpy._library import at_once, fast
from teucer.numpy._promotion import (
    ANY,
    INEXACT,
    alike_before_repeated,
    as_value,
    check_arraylike,
    convert,
    promote,
    promote_dtypes,
    promote_shapes,
    refuse_out,
)

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, DTypeLike

__all__ = [
    "angle", "copysign", "fmax", "fmin", "frexp", "heaviside", "hypot", "isneginf", "isposinf",
    "ldexp", "modf", "nan_to_num", "round", "signbit", "spacing",
]  # fmt: skip


def _refuse_complex(
    name: str,
    kind: type[Exception],
    x: ArrayLike,
    what: str = "does not support complex-valued inputs",
) -> None:
    if ufuncs.is_kind(x, np.complexfloating):
        raise kind(f"{name} {what}\n    x: {typeof(x).str_short(short_dtypes=True)}")


# Bits of floats


def _bits(x: ArrayLike) -> tuple[Any, Any]:
    """The bits of floats as integers, and the dtype's description."""
    info = dtypes.finfo(typeof(x).dtype)
    return lax.bitcast_convert_type(x, np.dtype(f"int{info.bits}")), info


def _signbit(x: ArrayLike) -> Any:
    _refuse_complex("jax.numpy.signbit", ValueError, x, "is not well defined for complex numbers")
    if ufuncs.is_kind(x, np.unsignedinteger) or ufuncs.is_kind(x, np.bool_):
        return ufuncs.filled_like(x, False)
    if ufuncs.is_kind(x, np.integer):
        return ufuncs.strong_bools(lax.lt(x, scalar_like(x, 0)))
    bits, _ = _bits(x)
    return lax.lt(bits, scalar_like(bits, 0))


signbit = ufuncs.unary(
    "signbit", ANY, _signbit, "Whether the sign bit is set: of negative numbers, and of -0."
)


def _copysign(x: ArrayLike, y: ArrayLike) -> Any:
    _refuse_complex("copysign", TypeError, x)
    return lax.where_else(_signbit(y), lax.neg(lax.abs(x)), lax.abs(x))


copysign = ufuncs.binary("copysign", INEXACT, _copysign, "|x1| with the sign of x2.")


@fast
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Mantissa m and exponent e with x = m 2^e and 1/2 <= |m| < 1; of 0, infinities and nan x and
    0.

    x: T[shape], integers as floats  ->  (T[shape], i32[shape]). Raises TypeError for complex x.

    >>> frexp(6.0)
    (Array(0.75, dtype=float32), Array(3, dtype=int32))
    """
    (x,) = promote_dtypes("frexp", INEXACT, x)
    _refuse_complex("frexp", TypeError, x)
    return tuple(_frexp(_structure.convert_element_type(x, typeof(x).dtype)))


@custom_jvp
def _frexp(x: Array) -> Any:
    bits, info = _bits(x)
    field = (1 << info.nexp) - 1
    bias = field // 2 - 1
    # A number below the normal ones is its mantissa, a whole number, times a power of two.
    whole = lax.bitwise_and(bits, scalar_like(bits, (1 << info.nmant) - 1))
    stored = lax.bitwise_and(
        lax.shift_right_logical(bits, scalar_like(bits, info.nmant)), scalar_like(bits, field)
    )
    tiny = lax.eq(stored, scalar_like(stored, 0))
    scaled = _copysign(lax.convert_element_type(whole, typeof(x).dtype), x)
    bits, _ = _bits(lax.where_else(tiny, scaled, x))
    stored = lax.bitwise_and(
        lax.shift_right_logical(bits, scalar_like(bits, info.nmant)), scalar_like(bits, field)
    )
    cleared = lax.bitwise_and(bits, scalar_like(bits, ~(field << info.nmant)))
    mantissa = lax.bitcast_convert_type(
        lax.bitwise_or(cleared, scalar_like(bits, bias << info.nmant)), typeof(x).dtype
    )
    exponent = lax.sub(lax.convert_element_type(stored, np.dtype(np.int32)), np.int32(bias))
    exponent = lax.sub(exponent, lax.where_else(tiny, np.int32(bias + info.nmant), np.int32(0)))
    special = lax.bitwise_or(lax.eq(x, scalar_like(x, 0)), lax.bitwise_not(lax.is_finite(x)))
    return lax.where_else(special, x, mantissa), lax.where_else(special, np.int32(0), exponent)


@_frexp.defjvp
def _frexp_tangent(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    same = lax.bitwise_or(lax.eq(mantissa, x), lax.ne(x, x))
    slope = lax.where_else(
        same, scalar_like(x, 1), lax.div(mantissa, lax.where_else(same, scalar_like(x, 1), x))
    )
    return (mantissa, exponent), (lax.mul(t, slope), np.zeros(np.shape(x), dtypes.float0))


@fast
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 times 2 to the power x2.

    x1: floats, integers as floats; x2: integers  ->  the dtype of x1.
    Raises ValueError for complex x1, and for x2 that are not integers.

    >>> ldexp(3.0, 2)
    Array(12., dtype=float32)
    """
    # Loaded here, since few programs need it, and `import teucer` would take longer.
    from teucer.lax._control.misc import optimization_barrier

    check_arraylike("ldexp", x1, x2)
    own, exponent = typeof(x1).dtype, typeof(x2).dtype
    if ufuncs.is_kind(x1, np.complexfloating) or ufuncs.is_kind(x2, np.inexact):
        raise ValueError(
            f"ldexp not supported for input types {(own, exponent)}\n"
            "  x2 must be integers, x1 real numbers."
        )
    (x,) = promote_dtypes("ldexp", INEXACT, x1)
    dtype = typeof(x).dtype
    x, n = promote_shapes(
        "ldexp", _structure.convert_element_type(x, dtype), convert(x2, np.dtype(np.int32))
    )
    # In three steps, since 2^n alone may be out of range where the product is not. XLA would make
    # one product of constant factors, hence the barrier.
    info = dtypes.finfo(dtype)
    for _ in range(3):
        part = lax.clamp(np.int32(info.minexp), n, np.int32(info.maxexp - 1))
        x = optimization_barrier(lax.mul(x, _power_of_two(part, dtype)))
        n = lax.sub(n, part)
    return x


def _power_of_two(n: Any, dtype: DTypeLike) -> Any:
    """2^n exactly, for n of normal numbers."""
    info = dtypes.finfo(dtype)
    whole = np.dtype(f"int{info.bits}")
    bias = (1 << (info.nexp - 1)) - 1
    bits = lax.convert_element_type(lax.add(n, np.int32(bias)), whole)
    return lax.bitcast_convert_type(lax.shift_left(bits, scalar_like(bits, info.nmant)), dtype)


@fast
def _modf(x: ArrayLike, /) -> Any:
    (x,) = promote_dtypes("modf", INEXACT, x)
    _refuse_complex("modf", TypeError, x)
    whole = lax.where_else(lax.ge(x, scalar_like(x, 0)), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fractional and the whole part of x, both with the sign of x.

    x: T[shape], integers as floats  ->  (T[shape], T[shape]). Raises TypeError for complex x.

    >>> modf(-1.5)
    (Array(-0.5, dtype=float32, weak_type=True), Array(-1., dtype=float32, weak_type=True))
    """
    refuse_out("modf", out)
    return _modf(x)


def _spacing(x: Array) -> Any:
    _refuse_complex("jnp.spacing", ValueError, x, "is not defined for complex inputs")
    # By bits, since XLA flushes the subnormal numbers that most differences are.
    bits, info = _bits(x)

    def number(n: int) -> Any:
        return scalar_like(bits, n)

    magnitude = lax.bitwise_and(bits, number(2 ** (info.bits - 1) - 1))
    exponent = lax.shift_right_logical(magnitude, number(info.nmant))
    normal = lax.shift_left(lax.sub(exponent, number(info.nmant)), number(info.nmant))
    subnormal = lax.shift_left(number(1), lax.sub(lax.max(exponent, number(1)), number(1)))
    gap = lax.where_else(lax.gt(exponent, number(info.nmant)), normal, subnormal)
    # The number beyond the greatest one is infinite, and nothing is beyond that.
    infinity = number((2**info.nexp - 1) << info.nmant)
    gap = lax.where_else(lax.eq(lax.add(magnitude, number(1)), infinity), infinity, gap)
    gap = lax.bitcast_convert_type(gap, typeof(x).dtype)
    gap = lax.where_else(lax.lt(x, scalar_like(x, 0)), lax.neg(gap), gap)
    return lax.where_else(lax.ge(magnitude, infinity), scalar_like(x, np.nan), gap)


spacing = ufuncs.unary(
    "spacing", INEXACT, _spacing, "Distance to the next number away from zero, with the sign of x."
)


# Signs and special values


def _infinite(name: str, value: float) -> Any:
    @fast
    def compiled(x: Array, /) -> Any:
        check_arraylike(name, x)
        _refuse_complex(
            name, ValueError, x, "is not well defined for complex types (isposinf/isneginf)"
        )
        return (
            ufuncs.strong_bools(lax.eq(as_value(x), scalar_like(x, value)))
            if ufuncs.is_kind(x, np.floating)
            else ufuncs.filled_like(x, False)
        )

    def function(x: Any, /, out: None = None) -> Any:
        refuse_out(name, out)
        return compiled(x)

    function.__name__ = function.__qualname__ = name
    sign = "positive" if value > 0 else "negative"
    function.__doc__ = (
        f"Whether x is {sign} infinity.\n\n    x: numbers  ->  bool[shape]. Raises ValueError for "
        "complex x.\n    "
    )
    return function


isposinf = _infinite("isposinf", math.inf)
isneginf = _infinite("isneginf", -math.inf)


def _heaviside(x: ArrayLike, y: ArrayLike) -> Any:
    zero = scalar_like(x, 0)
    step = lax.where_else(
        lax.lt(x, zero), zero, lax.where_else(lax.gt(x, zero), scalar_like(x, 1), y)
    )
    return lax.where_else(lax.ne(x, x), ufuncs.constant(x, np.nan), step)


heaviside = ufuncs.binary(
    "heaviside", INEXACT, _heaviside, "Step: 0 where x1 < 0, x2 where x1 = 0, 1 where x1 > 0."
)
fmax = ufuncs.binary(
    "fmax",
    ANY,
    lambda x, y: lax.where_else(lax.bitwise_or(_greater(x, y), lax.ne(y, y)), x, y),
    "Greater of x1 and x2; the other one if one is nan.",
    keyword=True,
)
fmin = ufuncs.binary(
    "fmin",
    ANY,
    lambda x, y: lax.where_else(lax.bitwise_or(_less(x, y), lax.ne(y, y)), x, y),
    "Lesser of x1 and x2; the other one if one is nan.",
    keyword=True,
)


def _greater(x: ArrayLike, y: ArrayLike) -> Any:
    """x > y, on complex numbers by real, then by imaginary parts."""
    if not ufuncs.is_kind(x, np.complexfloating):
        return lax.gt(x, y)
    return lax.bitwise_and(lax.ne(lax.max(x, y), y), lax.bitwise_and(lax.eq(x, x), lax.eq(y, y)))


def _less(x: ArrayLike, y: ArrayLike) -> Any:
    """x < y, in the same order; never where one is nan."""
    if not ufuncs.is_kind(x, np.complexfloating):
        return lax.lt(x, y)
    return lax.bitwise_and(lax.ne(lax.min(x, y), y), lax.bitwise_and(lax.eq(x, x), lax.eq(y, y)))


@fast
def _nan_to_num(x: ArrayLike, nan: object, posinf: object, neginf: object) -> Any:
    check_arraylike("nan_to_num", x)
    x = as_value(x)
    if ufuncs.is_kind(x, np.complexfloating):
        parts = [
            _nan_to_num.__wrapped__(part(x), nan, posinf, neginf) for part in (lax.real, lax.imag)
        ]
        return lax.complex(*parts)
    if not ufuncs.is_kind(x, np.floating):
        return ufuncs.as_array(x)
    dtype = typeof(x).dtype
    info = dtypes.finfo(dtype)
    x = _structure.convert_element_type(x, dtype)
    for test, value in (
        (lax.ne(x, x), nan),
        (lax.eq(x, scalar_like(x, np.inf)), info.max if posinf is None else posinf),
        (lax.eq(x, scalar_like(x, -np.inf)), info.min if neginf is None else neginf),
    ):
        test, y, x = promote_shapes("nan_to_num", test, convert(value, dtype), x)
        x = lax.where_else(test, y, x)
    return x


@at_once(static=("copy",))
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """x with nan and infinities replaced: by 0 and the greatest numbers of the dtype, unless values
    are given.

    x: T[shape]  ->  T[shape]; of complex x both parts. `copy` is ignored.

    >>> nan_to_num(np.float32([np.nan, 1]))
    Array([0., 1.], dtype=float32)
    """
    return _nan_to_num(x, nan, posinf, neginf)


# Distances and logarithms of sums


def _hypot(x: ArrayLike, y: ArrayLike) -> Any:
    _refuse_complex(
        "jnp.hypot",
        ValueError,
        x,
        (
            "is not well defined for complex-valued inputs. Please convert to real values first, "
            "such as by jnp.abs"
        ),
    )
    return _length(x, y)


@custom_jvp
def _length(x: Array, y: Array) -> Any:
    x, y = lax.abs(x), lax.abs(y)
    infinite = lax.bitwise_or(lax.eq(x, scalar_like(x, np.inf)), lax.eq(y, scalar_like(y, np.inf)))
    zero, one = scalar_like(x, 0), scalar_like(x, 1)
    greater, lesser = lax.max(x, y), lax.min(x, y)
    none = lax.eq(greater, zero)
    ratio = lax.div(lesser, lax.where_else(none, one, greater))
    length = lax.where_else(
        none, greater, lax.mul(greater, lax.sqrt(lax.add(one, lax.square(ratio))))
    )
    return lax.where_else(infinite, ufuncs.constant(x, np.inf), length)


@_length.defjvp
def _length_tangent(primals: Arrays, tangents: Arrays) -> Any:
    (along_x, along_y), (tx, ty) = _direction(*primals), tangents
    return _length(*primals), lax.add(lax.mul(along_x, tx), lax.mul(along_y, ty))


@custom_jvp
def _direction(x: Array, y: Array) -> Any:
    """x and y divided by the length of the vector (x, y); both 0 at the origin."""
    length = _positive_length(x, y)
    return lax.div(x, length), lax.div(y, length)


@_direction.defjvp
def _direction_tangent(primals: Arrays, tangents: Arrays) -> Any:
    """The turn, across the direction: 1 - (x / length)^2 would cancel."""
    (along_x, along_y), (tx, ty) = _direction(*primals), tangents
    length = _positive_length(*primals)
    turn = lax.sub(lax.mul(along_y, lax.div(tx, length)), lax.mul(along_x, lax.div(ty, length)))
    return (along_x, along_y), (lax.mul(along_y, turn), lax.neg(lax.mul(along_x, turn)))


def _positive_length(x: Array, y: Array) -> Any:
    length = _length(x, y)
    return lax.where_else(lax.eq(length, scalar_like(length, 0)), scalar_like(length, 1), length)


hypot = ufuncs.binary(
    "hypot", INEXACT, _hypot, "Length sqrt(x1^2 + x2^2), without overflow; inf if one is infinite."
)


def _logaddexp(x: ArrayLike, y: ArrayLike) -> Any:
    """log(e^x + e^y) = max + log(1 + e^-|x - y|)."""
    if ufuncs.is_kind(x, np.complexfloating):
        swap = _greater(y, x)
        x, y = lax.where_else(swap, y, x), lax.where_else(swap, x, y)
        # Two equal infinities have no difference, whose sum is themselves.
        same = lax.bitwise_and(
            lax.eq(lax.real(x), lax.real(y)), lax.bitwise_not(lax.is_finite(lax.real(x)))
        )
        safe = lax.where_else(same, scalar_like(x, 0), lax.sub(y, x))
        return _principal(lax.where_else(same, x, lax.add(x, lax.log1p(lax.exp(safe)))))
    return _logaddexp_real(x, y)


def _principal(z: Array) -> Any:
    """A logarithm with its imaginary part brought to [-pi, pi]."""
    angle = lax.imag(z)
    near = lax.le(lax.abs(angle), scalar_like(angle, math.pi))
    return lax.complex(
        lax.real(z), lax.where_else(near, angle, lax.atan2(lax.sin(angle), lax.cos(angle)))
    )


@custom_jvp
def _logaddexp_real(x: Array, y: Array) -> Any:
    greater, delta = lax.max(x, y), lax.sub(x, y)
    # x - y is nan for two equal infinities, whose sum is themselves.
    return lax.where_else(
        lax.ne(delta, delta),
        lax.add(x, y),
        lax.add(greater, lax.log1p(lax.exp(lax.neg(lax.abs(delta))))),
    )


@_logaddexp_real.defjvp
def _logaddexp_tangent(primals: Arrays, tangents: Arrays) -> Any:
    (x, y), (tx, ty) = primals, tangents
    out, infinite = _logaddexp_real(x, y), scalar_like(x, math.inf)
    # Equal infinities have no difference; each then counts as the whole.
    whole = lax.bitwise_and(lax.eq(x, y), lax.eq(lax.abs(x), infinite))

    def share(v: Any, w: Any) -> Any:
        # The logistic function of the difference: it has more digits than v minus the sum.
        return lax.logistic(lax.where_else(whole, infinite, lax.sub(v, w)))

    return out, lax.add(lax.mul(tx, share(x, y)), lax.mul(ty, share(y, x)))


def _full_operands(x: ArrayLike, y: ArrayLike) -> tuple[Any, ...]:
    """Two operands in one shape: a scalar among them repeated."""
    shape = np.shape(x) or np.shape(y)
    x, y = alike_before_repeated(x, y)
    return tuple(
        v if np.shape(v) == shape else _structure.broadcast_to(v, shape, ()) for v in (x, y)
    )


def _logaddexp2(x: ArrayLike, y: ArrayLike) -> Any:
    """log2(2^x + 2^y), by way of natural logarithms."""
    scale = ufuncs.constant(x, math.log(2))
    return lax.div(_logaddexp(*_full_operands(lax.mul(x, scale), lax.mul(y, scale))), scale)


logaddexp = ufuncs.binary(
    "logaddexp",
    INEXACT,
    lambda x, y: _logaddexp(*_full_operands(x, y)),
    "log(e^x1 + e^x2), without overflow.",
)
logaddexp2 = ufuncs.binary(
    "logaddexp2", INEXACT, _logaddexp2, "log2(2^x1 + 2^x2), without overflow."
)


@fast
def _angle(z: ArrayLike, /) -> Any:
    (x,) = promote_dtypes("angle", ANY, z)
    if ufuncs.is_kind(x, np.complexfloating):
        return lax.atan2(lax.imag(x), lax.real(x))
    # As in JAX the result of an array of floats has its dtype, and the result of a number the
    # default one.
    dtype = (
        typeof(x).dtype
        if ufuncs.is_kind(x, np.inexact) and np.ndim(x)
        else dtypes.canonicalize_dtype(float)
    )
    x = _structure.convert_element_type(x, dtype)
    return lax.atan2(scalar_like(x, 0), x)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers, in radians within [-pi, pi], or in degrees.

    z: numbers  ->  floats; of real z 0 or pi.

    >>> angle(1j)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    out = _angle(z)
    return lax.mul(out, scalar_like(out, 180 / math.pi)) if deg else out


# Rounding to decimals


@at_once(static=("decimals", "out"))
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """a rounded to a number of decimals; half way to the even digit. Integers stay.

    a: T[shape]  ->  T[shape]; of complex a both parts.
    Raises ValueError for booleans, NotImplementedError for integers and negative decimals.

    >>> round(2.567, 1)
    Array(2.6000001, dtype=float32, weak_type=True)
    """
    check_arraylike("round", a)
    refuse_out("round", out)
    decimals = operator.index(decimals)
    if ufuncs.is_kind(a, np.integer) and decimals < 0:
        raise NotImplementedError(
            "integer np.round not implemented for decimals < 0\n  Convert to a float first."
        )
    if typeof(a).dtype == np.bool_:
        raise ValueError("round: data type bool is not inexact.\n  Convert to a float first.")
    return _round(a, decimals)


@fast(static=("decimals",))
def _round(x: ArrayLike, decimals: int) -> Any:
    (x,) = promote("round", ANY, x)
    if ufuncs.is_kind(x, np.integer):
        return ufuncs.as_array(x)
    if decimals == 0:
        return ufuncs.rint_operation(x)
    if ufuncs.is_kind(x, np.complexfloating):
        return lax.complex(
            _round.__wrapped__(lax.real(x), decimals), _round.__wrapped__(lax.imag(x), decimals)
        )
    dtype, weak = typeof(x).dtype, typeof(x).weak_type
    # 16-bit floats cannot hold the scaled number.
    wide = _structure.convert_element_type(x, np.dtype(np.float32)) if dtype.itemsize < 4 else x
    scale = scalar_like(wide, 10.0**decimals)
    out = lax.div(lax.round(lax.mul(wide, scale), lax.RoundingMethod.TO_NEAREST_EVEN), scale)
    # Where the scaled number is out of range, x has no digits to round.
    out = lax.where_else(lax.is_finite(lax.mul(wide, scale)), out, lax.stop_gradient(wide))
    return _structure.convert_element_type(out, dtype, weak)
