"""Comparisons that tell subnormal numbers from zero.

Threads of XLA's CPU backend take subnormal floats for zeros (docs/accuracy.md). So comparisons of
floats compare their bits, as integers of the same order. Some comparisons are right as they are,
and stay:

- with a constant that is neither zero nor subnormal,
- of results of arithmetic alone, which are never subnormal,
- of float16, which is computed in wider floats,
- of numbers that the program also computes with. There the comparison is mostly a guard:
  `where(x == 0, 0, x * log(x))` must catch all numbers that the logarithm takes for zeros.

This is the last pass before lowering. Lowered programs that users read, and exported programs, have
plain comparisons.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from teucer._base import dtypes
from teucer._core.cost import Subnormals, Work
from teucer._core.jaxpr import Eqn, Jaxpr, Literal
from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._hlo import order
from teucer._lower import hlo
from teucer._optimize.passes import changed_once, map_jaxprs

if TYPE_CHECKING:
    from teucer._core.jaxpr import Atom
    from teucer._core.typing import Aval
    from teucer._lower.context import Context
    from teucer._lower.value import Value


# (ctx, the primitive, *operands, **params)
Write: TypeAlias = Callable[..., "Value"]

# The functions that write equations of floats; None: the primitive.
OfFloats: TypeAlias = "Callable[[Eqn, _Known], Write | None]"


class Rule(NamedTuple):
    """How a primitive that decides by its operands is written.

    of_parts: writes it for complex numbers; None: the primitive does.
    decides: whether an equation computes nothing of its operands.
    """

    of_floats: OfFloats
    of_parts: Write | None = None
    decides: Callable[[Eqn], bool] = lambda eqn: True


# Types whose subnormal numbers are taken for zeros.
_FLUSHED = frozenset(["bfloat16", "float32", "float64"])
_PARTS: dict[str, np.dtype[Any]] = {
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}
_SWAPPED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
# Directions that are false for NaN, and otherwise hold whether or not subnormal numbers count as
# zeros.
_WEAKER = {"EQ": "EQ", "LT": "LE", "LE": "LE", "GT": "GE", "GE": "GE"}


def _rule(eqn: Eqn) -> Rule | None:
    decides = eqn.primitive.cost.decides
    return None if decides is None else _RULES[decides]


def by_bits(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with comparisons that read bits; inner ones too."""
    return changed_once(jaxpr, by_bits, _changed)


def _changed(jaxpr: Jaxpr) -> Jaxpr:
    if not any(eqn.primitive.higher_order or _rule(eqn) for eqn in jaxpr.eqns):
        return jaxpr
    known, eqns = _Known(_computed_with(jaxpr)), []
    for eqn in jaxpr.eqns:
        if eqn.primitive.higher_order:
            eqn = map_jaxprs(eqn, by_bits)
        elif rule := _rule(eqn):
            write = _write(eqn, rule, known)
            eqn = eqn if write is None else eqn.replace(primitive=_made(eqn.primitive, write))
        known.note(eqn)
        eqns.append(eqn)
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _computed_with(jaxpr: Jaxpr) -> set[Any]:
    """The variables whose values, moved or not, are operands of more than comparisons."""
    found: set[Any] = set()
    for eqn in reversed(jaxpr.eqns):
        does = eqn.primitive.cost.subnormals
        if does is Subnormals.MOVE:
            computed = not found.isdisjoint(eqn.outvars)
        else:
            computed = does is not Subnormals.READ and not _decides_alone(eqn)
        if computed:
            found.update(_variables(eqn))
    for eqn in jaxpr.eqns:  # values that have been moved elsewhere
        if eqn.primitive.cost.subnormals is Subnormals.MOVE and any(
            v in found for v in _variables(eqn)
        ):
            found.update(filter(_is_flushed, eqn.outvars))
    return found


def _variables(eqn: Eqn) -> list[Atom]:
    """The operands that may be subnormal numbers."""
    return [v for v in eqn.invars if type(v) is not Literal and _is_flushed(v)]


def _is_flushed(v: Atom) -> bool:
    name = v.aval.dtype.name
    return name in _FLUSHED or name in _PARTS


def _decides_alone(eqn: Eqn) -> bool:
    """Whether an equation decides by its operands, and computes nothing of them."""
    rule = _rule(eqn)
    return rule is not None and rule.decides(eqn)


@final
class _Known:
    """Known facts of variables: which are zeros, and which are no subnormal numbers. computed:
    variables that the program computes with.
    """

    def __init__(self, computed: set[Any]) -> None:
        self.zeros, self.normal, self.computed = set[Any](), set[Any](), computed

    def note(self, eqn: Eqn) -> None:
        """Note the facts about the results of an equation."""
        does = eqn.primitive.cost.subnormals
        if eqn.primitive.cost.work is Work.BROADCAST and self.is_zero(eqn.invars[0]):
            self.zeros.update(eqn.outvars)
        if does is Subnormals.ROUND or (
            does is Subnormals.MOVE and all(map(self.is_normal, eqn.invars))
        ):
            self.normal.update(eqn.outvars)

    def is_zero(self, v: Atom) -> bool:
        return not np.any(v.val) if type(v) is Literal else v in self.zeros

    def is_normal(self, v: Atom) -> bool:
        """Whether it holds no subnormal numbers."""
        if type(v) is not Literal:
            return v in self.normal or v.aval.dtype.kind in "biu"
        return v.aval.dtype.name not in _FLUSHED or not _is_subnormal(v)


def _is_subnormal(v: Literal) -> bool:
    value = abs(np.asarray(v.val, v.aval.dtype))
    with np.errstate(invalid="ignore"):  # ml_dtypes warn of comparisons with NaN
        return bool(np.any((value > 0) & (value < dtypes.finfo(value.dtype).tiny)))


def _write(eqn: Eqn, rule: Rule, known: _Known) -> Write | None:
    """The function that writes an equation; None: its primitive."""
    dtype = eqn.invars[0].aval.dtype
    if not known.computed.isdisjoint(_variables(eqn)):
        return None
    if dtype.name in _PARTS:
        return rule.of_parts
    if dtype.name not in _FLUSHED or all(map(known.is_normal, eqn.invars)):
        return None
    return rule.of_floats(eqn, known)


def _decides(v: Atom) -> bool:
    """Whether it is a constant beside which subnormal numbers are as zeros."""
    return type(v) is Literal and bool(np.all(v.val != 0)) and not _is_subnormal(v)


@final
class ByBits(Primitive):
    """A primitive, written otherwise."""

    __slots__ = ()

    def __init__(self, primitive: Primitive, write: Write) -> None:
        self.name, self.cost, self.primitive, self.write = (
            primitive.name,
            primitive.cost,
            primitive,
            write,
        )

    def types(self, *avals: Aval, **params: object) -> Any:
        return self.primitive.types(*avals, **params)

    def lower(self, ctx: Context, *xs: Value, **params: object) -> Any:
        return (self.write(ctx, self.primitive, *xs, **params),)


_made = functools.cache(ByBits)  # cached, so that equal equations have one primitive


# Comparisons


def _in_shape(ctx: Context, x: Value) -> Value:
    """A scalar as an array of the result's shape."""
    return hlo.broadcast_in_dim(ctx, x, ctx.avals_out[0].shape, () if not x.shape else _axes(x))


def _axes(x: Value) -> tuple[int, ...]:
    return tuple(range(len(x.shape)))


def _compared(ctx: Context, x: Value, y: Value, direction: str) -> Value:
    """A comparison of arrays, or of one with a scalar."""
    if direction == "NE":
        return hlo.elementwise(ctx, "not", _compared(ctx, x, y, "EQ"))
    numbers = hlo.compare(ctx, _in_shape(ctx, x), _in_shape(ctx, y), _WEAKER[direction])
    p, q = (_in_shape(ctx, order.keys(ctx, v)) for v in (x, y))
    return hlo.elementwise(ctx, "and", numbers, hlo.compare(ctx, p, q, direction))


@functools.cache  # so that it is one function
def _comparison(direction: str) -> Write:
    return lambda ctx, primitive, x, y: _compared(ctx, x, y, direction)


def _compares(direction: str) -> OfFloats:
    """A comparison, or none where a constant decides it; a test of the bits beside a zero."""

    def of_floats(eqn: Eqn, known: _Known) -> Write | None:
        x, y = eqn.invars
        if x is y or any(_decides(v) for v in eqn.invars):
            return None
        shape = eqn.outvars[0].aval.shape
        for i, v in enumerate(eqn.invars):
            if known.is_zero(eqn.invars[1 - i]) and v.aval.shape == shape:
                return _zero_test(_SWAPPED[direction] if i else direction, i)
        return _comparison(direction)

    return of_floats


def _is_to_bool(eqn: Eqn) -> bool:
    return bool(eqn.params["new_dtype"] == np.bool_)


def _converts(eqn: Eqn, known: _Known) -> Write | None:
    return _zero_test("NE", 0) if _is_to_bool(eqn) else None


@functools.cache  # so that it is one function
def _zero_test(direction: str, operand: int) -> Write:
    """The comparison of an operand with zero."""

    def write(ctx: Context, primitive: Primitive, *xs: Value, **params: object) -> Value:
        x = xs[operand]
        u = order.bits(ctx, x, "uint")

        def constant(value: int) -> Value:
            return hlo.splat(ctx, value, u.aval)

        most, infinity = order.most(x.dtype), order.infinity(x.dtype)
        if direction in ("EQ", "NE"):
            size = hlo.elementwise(ctx, "and", u, constant(most))
            return hlo.compare(ctx, size, constant(0), direction)
        # Numbers of one sign are a range of integers; numbers of the other sign and NaNs are
        # outside.
        zero = 0 if direction in ("GT", "GE") else most + 1
        if direction in ("GT", "LT"):
            above = hlo.elementwise(ctx, "subtract", u, constant(zero + 1))
            return hlo.compare(ctx, above, constant(infinity), "LT")
        above = hlo.elementwise(ctx, "subtract", u, constant(zero)) if zero else u
        inside = hlo.compare(ctx, above, constant(infinity), "LE")
        other = hlo.compare(ctx, u, constant(most + 1 - zero), "EQ")
        return hlo.elementwise(ctx, "or", inside, other)

    return write


# Complex numbers


def _pairs(ctx: Context, x: Value, y: Value) -> list[tuple[Value, Value]]:
    """The real parts of numbers, and the imaginary ones."""
    part = _PARTS[x.dtype.name]
    return [(_part(ctx, name, x, part), _part(ctx, name, y, part)) for name in ("real", "imag")]


def _part(ctx: Context, name: str, z: Value, dtype: np.dtype[Any]) -> Value:
    return ctx.op1(f"stablehlo.{name}", (z,), ShapedArray(z.shape, dtype))


def _equality(direction: str) -> Write:
    def write(ctx: Context, primitive: Primitive, x: Value, y: Value) -> Value:
        real, imaginary = (_compared(ctx, p, q, direction) for p, q in _pairs(ctx, x, y))
        return hlo.elementwise(ctx, "and" if direction == "EQ" else "or", real, imaginary)

    return write


def _lexicographic(direction: str) -> Write:
    """The one of two numbers that comes first by its real part, then by its imaginary part."""

    def write(ctx: Context, primitive: Primitive, x: Value, y: Value) -> Value:
        real, imaginary = _pairs(ctx, x, y)
        first = hlo.select(
            ctx,
            _compared(ctx, *real, "EQ"),
            _compared(ctx, *imaginary, direction),
            _compared(ctx, *real, direction),
        )
        return hlo.select(ctx, first, _in_shape(ctx, x), _in_shape(ctx, y))

    return write


# Others


def _place(nan: order.Nans) -> Write:
    """Writes `argmax` or `argmin`: with a NaN, the place of the first one."""

    def write(ctx: Context, primitive: Primitive, x: Value, **params: object) -> Value:
        (place,) = primitive.lower(ctx, order.keys(ctx, x, nan=nan), **params)
        found: Value = place
        return found

    return write


def _sign(ctx: Context, primitive: Primitive, x: Value) -> Value:
    """The sign; zeros and NaNs as they are."""
    u = order.bits(ctx, x, "uint")

    def constant(value: int) -> Value:
        return hlo.splat(ctx, value, u.aval)

    most, infinity = order.most(x.dtype), order.infinity(x.dtype)
    size = hlo.elementwise(ctx, "and", u, constant(most))
    above = hlo.elementwise(ctx, "subtract", size, constant(1))
    has_one = hlo.compare(ctx, above, constant(infinity), "LT")
    sign = hlo.elementwise(ctx, "and", u, constant(most + 1))
    one = int(np.array(1, x.dtype).view(u.dtype))
    sign = hlo.elementwise(ctx, "or", sign, constant(one))
    return hlo.bitcast_convert(ctx, hlo.select(ctx, has_one, sign, u), ctx.avals_out[0])


def _next(ctx: Context, primitive: Primitive, x: Value, y: Value) -> Value:
    """The next number: the next integer, but that two zeros are one."""
    # Integers throughout: code for AVX-512 BF16 flushes bfloat16 that is repeated.
    p, q = (_in_shape(ctx, order.keys(ctx, v)) for v in (x, y))
    bits_x, bits_y = (_in_shape(ctx, order.bits(ctx, v)) for v in (x, y))

    def constant(value: int) -> Value:
        return hlo.splat(ctx, value, p.aval)

    up = hlo.compare(ctx, p, q, "LT")
    step = hlo.select(ctx, up, constant(1), constant(-1))
    found = hlo.elementwise(ctx, "add", p, step)
    least = -order.most(x.dtype) - 1
    turned = hlo.elementwise(ctx, "subtract", constant(least), found)
    found = hlo.select(ctx, hlo.compare(ctx, found, constant(0), "LT"), turned, found)
    # Zero keeps the sign.
    sign = hlo.elementwise(ctx, "and", bits_x, constant(least))
    found = hlo.select(ctx, hlo.compare(ctx, found, constant(0), "EQ"), sign, found)
    found = hlo.select(ctx, hlo.compare(ctx, p, q, "EQ"), bits_y, found)
    nan = constant(int(np.array(np.nan, x.dtype).view(p.dtype)))
    most, infinity = constant(order.most(x.dtype)), constant(order.infinity(x.dtype))
    for bits in (bits_x, bits_y):
        size = hlo.elementwise(ctx, "and", bits, most)
        found = hlo.select(ctx, hlo.compare(ctx, size, infinity, "GT"), nan, found)
    return hlo.bitcast_convert(ctx, found, ctx.avals_out[0])


def _always(write: Write) -> OfFloats:
    return lambda eqn, known: write


def _is_complex(eqn: Eqn) -> bool:
    return bool(eqn.invars[0].aval.dtype.kind == "c")


def _extremum(direction: str) -> Rule:
    return Rule(lambda eqn, known: None, _lexicographic(direction), _is_complex)


# The rules, by the word in `Cost.decides` of a primitive.
_RULES = {
    "EQ": Rule(_compares("EQ"), _equality("EQ")),
    "NE": Rule(_compares("NE"), _equality("NE")),
    "LT": Rule(_compares("LT")),
    "LE": Rule(_compares("LE")),
    "GT": Rule(_compares("GT")),
    "GE": Rule(_compares("GE")),
    "BOOL": Rule(_converts, decides=_is_to_bool),
    "GREATER": _extremum("GT"),
    "LESSER": _extremum("LT"),
    "ARGMAX": Rule(_always(_place("last"))),
    "ARGMIN": Rule(_always(_place("first"))),
    "SIGN": Rule(_always(_sign)),
    "NEXT": Rule(_always(_next)),
}
