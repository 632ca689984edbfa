"""Sorting by digits (docs/performance.md, "Sorting").

Keys are integers of 8 to 64 bits, which are sorted by 8 bits after 8 bits, from the last on. XLA's
CPU compiler sorts by comparisons. Processors mispredict every second one. Each digit takes three
loops over the keys, and all loops are one kernel (`joined_call`). The sort is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._hlo import order, rare_hlo
from teucer._hlo.contractions import inverse_permutation
from teucer._lower import hlo
from teucer._targets.cpu import constants
from teucer._targets.cpu.joined_call import one_kernel

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value


_INT = np.dtype(np.int32)


class _Numbers(NamedTuple):
    """Which axes belong together where elements of a row are gathered."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = (0,)
    start_index_map: tuple[int, ...] = (0,)
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


_ELEMENTS = _Numbers()


def sort(ctx: Context, xs: Sequence[Value], dimension: int, keys: int) -> tuple[Value, ...] | None:
    """Arrays sorted together along an axis by the first `keys` of them, as `lax.sort_p` says; None
    where the compiler's own sort is as good."""
    shape, size = xs[0].shape, xs[0].aval.size
    if (
        ctx.module.mesh is not None
        or any(x.aval.symbolic or x.aval.extended for x in xs)
        or size < (constants.SORTED_ALONE if len(xs) == 1 else constants.SORTED_TOGETHER)
        or shape[dimension] < constants.SORTED_ROW
        or size >= 2**31
    ):
        return None
    axes = (*(a for a in range(len(shape)) if a != dimension), dimension)
    n = shape[dimension]
    rows = [hlo.reshape(ctx, hlo.transpose(ctx, x, axes), (size // n, n)) for x in xs]
    found = _by_value(ctx, rows[0]) if len(xs) == 1 else _by_places(ctx, rows, keys)
    back, moved = inverse_permutation(axes), tuple(shape[a] for a in axes)
    return tuple([hlo.transpose(ctx, hlo.reshape(ctx, y, moved), back) for y in found])


def _by_value(ctx: Context, x: Value) -> list[Value]:
    """Sort by value. Equal numbers have equal bits, so their order does not matter; but -0 comes
    before 0."""
    if x.dtype.kind == "c" or (dtypes.issubdtype(x.dtype, np.floating) and x.dtype.itemsize < 2):
        return _by_places(ctx, [x], 1)
    if not dtypes.issubdtype(x.dtype, np.floating):
        key = _unsigned(ctx, x)
        (key,) = _sorted(ctx, [key])
        return [_signed(ctx, key, x.aval)]
    bits = order.bits(ctx, x)
    # All NaNs become one, as bits: a select of 16-bit floats may round subnormal numbers to zero.
    nan = hlo.splat(ctx, int(np.array(np.nan, x.dtype).view(bits.dtype)), bits.aval)
    bits = hlo.select(ctx, hlo.compare(ctx, x, x, "NE"), nan, bits)
    (key,) = _sorted(ctx, [_unsigned(ctx, _flipped(ctx, bits))])
    found = _flipped(ctx, _signed(ctx, key, bits.aval))
    return [hlo.bitcast_convert(ctx, found, x.aval.strengthen())]


def _flipped(ctx: Context, bits: Value) -> Value:
    """Bits of floats as integers of the same order, and back: of negative floats the greater has
    the lesser bits, so all but the sign are complemented."""
    width = 8 * bits.dtype.itemsize
    sign = hlo.elementwise(
        ctx, "shift_right_arithmetic", bits, hlo.splat(ctx, width - 1, bits.aval)
    )
    most = hlo.splat(ctx, np.iinfo(bits.dtype).max, bits.aval)
    return hlo.elementwise(ctx, "xor", bits, hlo.elementwise(ctx, "and", sign, most))


def _by_places(ctx: Context, xs: Sequence[Value], keys: int) -> list[Value]:
    """The places of elements are sorted by one key after another, from the last on; then each array
    is read in their order."""
    rows, n = xs[0].shape
    aval = ShapedArray((rows, n), np.dtype(np.uint32))
    places = hlo.iota(ctx, aval, 1)
    parts = [part for x in xs[:keys] for part in _parts(ctx, x)]
    for i, part in enumerate(reversed(parts)):
        key = part if i == 0 else _taken(ctx, part, places)
        _, places = _sorted(ctx, [key, places])
    return [_taken(ctx, x, places) for x in xs]


def _parts(ctx: Context, x: Value) -> list[Value]:
    """The unsigned integers that decide where the elements of an array go, the first before the
    next."""
    if x.dtype.kind == "c":
        part = ShapedArray(x.shape, np.dtype(np.finfo(x.dtype).dtype))
        halves = [ctx.op1(f"stablehlo.{name}", (x,), part) for name in ("real", "imag")]
        return [key for half in halves for key in _parts(ctx, half)]
    if dtypes.issubdtype(x.dtype, np.floating):
        wide = x if x.dtype.itemsize > 1 else hlo.convert(ctx, x, np.dtype(np.float32))
        return [_unsigned(ctx, order.keys(ctx, wide, nan="last"))]
    return [_unsigned(ctx, x)]


def _unsigned(ctx: Context, x: Value) -> Value:
    """Integers or booleans as unsigned ones of the same order, of whole bytes."""
    if x.dtype.kind == "b":
        return hlo.convert(ctx, x, np.dtype(np.uint8))
    is_signed = dtypes.issubdtype(x.dtype, np.signedinteger)
    if dtypes.bit_width(x.dtype) < 8:
        x = hlo.convert(ctx, x, np.dtype(np.int8 if is_signed else np.uint8))
    if not is_signed:
        return x
    kind = np.dtype(f"uint{8 * x.dtype.itemsize}")
    moved = hlo.elementwise(ctx, "xor", x, hlo.splat(ctx, np.iinfo(x.dtype).min, x.aval))
    return hlo.bitcast_convert(ctx, moved, ShapedArray(x.shape, kind))


def _signed(ctx: Context, key: Value, aval: ShapedArray) -> Value:
    """The inverse of `_unsigned`: keys as numbers of type `aval`."""
    aval = aval.strengthen()
    if aval.dtype.kind == "b" or not dtypes.issubdtype(aval.dtype, np.signedinteger):
        return hlo.convert(ctx, key, aval.dtype)
    own = np.dtype(f"int{8 * key.dtype.itemsize}")
    bits = hlo.bitcast_convert(ctx, key, ShapedArray(key.shape, own))
    found = hlo.elementwise(ctx, "xor", bits, hlo.splat(ctx, np.iinfo(own).min, bits.aval))
    return hlo.convert(ctx, found, aval.dtype)


def _taken(ctx: Context, x: Value, places: Value) -> Value:
    """Rows of x in the order of their places. Floats move as bits: some processors round subnormal
    ones of 16 bits to zero."""
    if dtypes.issubdtype(x.dtype, np.floating) and x.dtype.itemsize > 1:
        moved = _taken(ctx, order.bits(ctx, x), places)
        return hlo.bitcast_convert(ctx, moved, x.aval.strengthen())
    rows, n = x.shape
    at = hlo.bitcast_convert(ctx, places, ShapedArray((rows, n), _INT))
    first = hlo.elementwise(ctx, "multiply", hlo.iota(ctx, at.aval, 0), hlo.splat(ctx, n, at.aval))
    at = hlo.reshape(ctx, hlo.elementwise(ctx, "add", at, first), (rows * n, 1))
    flat = hlo.reshape(ctx, x, (rows * n,))
    found = rare_hlo.gather(ctx, flat, at, _ELEMENTS, (1,), False, flat.aval.strengthen())
    return hlo.reshape(ctx, found, (rows, n))


def _sorted(ctx: Context, arrays: Sequence[Value]) -> tuple[Value, ...]:
    """Rows of unsigned keys in ascending order; arrays beside them move along."""
    avals = [x.aval for x in arrays]
    rows, n = arrays[0].shape
    flat = [hlo.reshape(ctx, x, (rows * n,)) for x in arrays]
    found = one_kernel(
        ctx,
        "sorted",
        flat,
        [x.aval for x in flat],
        lambda *xs: _Passes(ctx, rows, n).over_all_digits(xs),
    )
    return tuple([hlo.reshape(ctx, y, aval.shape) for y, aval in zip(found, avals, strict=True)])


class _Passes:
    """Writes the loops that sort rows of n keys, one behind the other in flat arrays."""

    def __init__(self, ctx: Context, rows: int, n: int) -> None:
        self.ctx, self.rows, self.n = ctx, rows, n

    def over_all_digits(self, arrays: Sequence[Value]) -> tuple[Value, ...]:
        ctx = self.ctx
        spare = [hlo.splat(ctx, 0, x.aval) for x in arrays]
        key = arrays[0].dtype
        digits = key.itemsize
        if digits == 1:
            return self._by_digit(arrays, spare, ctx.constant(0, key))
        count = len(arrays)

        def step(i: Value, *carry: Value) -> Sequence[Value]:
            here, there = carry[:count], carry[count:]
            for j in range(2):
                digit = self._plus(self._times(i, 2), j)
                shift = hlo.convert(ctx, self._times(digit, constants.SORTED_BITS), key)
                here, there = self._by_digit(here, there, shift), here
            return (*here, *there)

        return self._loop(digits // 2, step, *arrays, *spare)[:count]

    def _by_digit(
        self, arrays: Sequence[Value], spare: Sequence[Value], shift: Value
    ) -> tuple[Value, ...]:
        """One pass: the arrays in the order of one digit of the first, written into others."""
        ctx, n = self.ctx, self.n
        key, *_ = arrays
        none = hlo.splat(ctx, 0, ShapedArray((constants.SORTED_DIGITS,), _INT))

        def row(r: Value, *outs: Value) -> Sequence[Value]:
            base = self._times(r, n)

            def count(i: Value, counts: Value) -> Sequence[Value]:
                return (self._counted(counts, self._digit(key, self._sum(base, i), shift)),)

            def add(i: Value, counts: Value, total: Value) -> Sequence[Value]:
                held = self._at(counts, i)
                # The count of a digit and of those before it: the place behind its last key.
                total = self._sum(total, held)
                return self._put(counts, total, i), total

            (counts,) = self._loop(n, count, none)
            # Where all keys have one digit, as small integers have, there is nothing to move.
            is_one = self._is(self._at(counts, self._digit(key, base, shift)), "EQ", n)
            counts, _ = self._loop(constants.SORTED_DIGITS, add, counts, ctx.constant(0, _INT))

            def move(i: Value, counts: Value, *outs: Value) -> Sequence[Value]:
                # From the last key on, so that equal ones stay in order.
                at = self._sum(base, self._minus(ctx.constant(n - 1, _INT), i))
                digit = self._digit(key, at, shift)
                place = self._plus(self._at(counts, digit), -1)
                counts = self._put(counts, place, digit)
                # Read the count from the written array. If it were read before the write, XLA would
                # copy all counts.
                to = self._sum(base, self._at(counts, digit))
                moved = [
                    self._put(out, self._at(x, at), to) for out, x in zip(outs, arrays, strict=True)
                ]
                return counts, *moved

            if self.rows > 1:
                return self._loop(n, move, counts, *outs)[1:]
            some = hlo.select(ctx, is_one, ctx.constant(0, _INT), ctx.constant(n, _INT))
            moved = self._loop(some, move, counts, *outs)[1:]
            return [hlo.select(ctx, is_one, x, out) for x, out in zip(arrays, moved, strict=True)]

        if self.rows == 1:
            return tuple(row(ctx.constant(0, _INT), *spare))
        return self._loop(self.rows, row, *spare)

    def _is(self, x: Value, direction: str, y: int) -> Value:
        return hlo.compare(self.ctx, x, self.ctx.constant(y, _INT), direction)

    def _digit(self, key: Value, at: Value, shift: Value) -> Value:
        ctx, held = self.ctx, self._at(key, at)
        moved = hlo.elementwise(ctx, "shift_right_logical", held, shift)
        last = hlo.elementwise(
            ctx, "and", moved, ctx.constant(constants.SORTED_DIGITS - 1, key.dtype)
        )
        return hlo.convert(ctx, last, _INT)

    def _counted(self, counts: Value, digit: Value) -> Value:
        return self._put(counts, self._plus(self._at(counts, digit), 1), digit)

    def _at(self, x: Value, i: Value) -> Value:
        return hlo.reshape(self.ctx, hlo.dynamic_slice(self.ctx, x, [i], (1,)), ())

    def _put(self, x: Value, value: Value, i: Value) -> Value:
        ctx = self.ctx
        return hlo.dynamic_update_slice(ctx, x, hlo.reshape(ctx, value, (1,)), [i])

    def _sum(self, x: Value, y: Value) -> Value:
        return hlo.elementwise(self.ctx, "add", x, y)

    def _minus(self, x: Value, y: Value) -> Value:
        return hlo.elementwise(self.ctx, "subtract", x, y)

    def _plus(self, x: Value, y: int) -> Value:
        return self._sum(x, self.ctx.constant(y, _INT))

    def _times(self, x: Value, y: int) -> Value:
        return hlo.elementwise(self.ctx, "multiply", x, self.ctx.constant(y, _INT))

    def _loop(
        self, count: int | Value, step: Callable[..., Sequence[Value]], *init: Value
    ) -> tuple[Value, ...]:
        """init after `step(i, *carry)` for i = 0, ..., count - 1."""
        ctx = self.ctx

        def unfinished(i: Value, *_: Value) -> Sequence[Value]:
            end = ctx.constant(count, _INT) if isinstance(count, int) else count
            return (hlo.compare(ctx, i, end, "LT"),)

        def body(i: Value, *carry: Value) -> Sequence[Value]:
            return self._plus(i, 1), *step(i, *carry)

        return hlo.while_(ctx, [ctx.constant(0, _INT), *init], unfinished, body)[1:]
