"""The greatest and least elements of arrays of floats on the CPU.

From some thousand elements on XLA has YNNPACK reduce by `maximum` and `minimum`, and YNNPACK loses
NaN. XLA's own loops keep it, but take up to ten times as long. Here halves, quarters or sixteenths
of an array are compared element by element, as often as needed. Such loops keep NaN and are as fast
as memory (docs/accuracy.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import is_constant
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer._targets.cpu.constants import EXTREME_LANES, EXTREME_LEAST, EXTREME_PARTS, EXTREME_ROW

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value


# Types of floats that YNNPACK reduces.
_TAKEN = frozenset(["float16", "bfloat16", "float32", "float64"])
_BITS = ShapedArray((), np.dtype(np.int16))


def extreme(ctx: Context, x: Value, init: Value, axes: Sequence[int], op: str) -> Value:
    """As `hlo.extreme.plain`."""
    if x.dtype.name not in _TAKEN or not _is_large(x.shape) or not axes:
        return hlo.extreme.plain(ctx, x, init, axes, op)
    if not is_constant(x.shape) or ctx.may_divide():
        return _beside_nan(ctx, x, init, axes, op)
    kept = [d for i, d in enumerate(x.shape) if i not in axes]
    shape, reduced = _merged(x.shape, axes)
    x = hlo.reshape(ctx, x, shape)
    if not any(reduced):
        return hlo.reshape(ctx, x, kept)
    narrow = dtypes.bit_width(x.dtype) == 16
    dtype, load = x.dtype, _ordered_bits(op, x.dtype) if narrow else _as_it_is
    for axis in [i for i, r in enumerate(reduced) if r]:
        inner = math.prod(x.shape[axis + 1 :])
        if inner >= EXTREME_LANES:
            while x.shape[axis] > 1:
                x, load = _of_parts(ctx, x, axis, EXTREME_PARTS, op, load), _as_it_is
        else:
            while x.shape[axis] > EXTREME_ROW:
                count = min(EXTREME_PARTS, -(-x.shape[axis] // EXTREME_LANES))
                x, load = _of_parts(ctx, x, axis, count, op, load), _as_it_is
            x, load = _of_rows(ctx, load(ctx, x), axis, op), _as_it_is
    return hlo.reshape(ctx, _floats(ctx, x, dtype) if narrow else x, kept)


def extreme_of_windows(
    ctx: Context,
    x: Value,
    init: Value,
    op: str,
    aval: ShapedArray,
    *,
    window: Sequence[Any],
    strides: Sequence[Any],
    padding: Sequence[tuple[Any, Any]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Value:
    """As `extreme_of_windows.plain`. XLA makes reductions of windows that lie side by side."""
    amounts = [amount for ends in padding for amount in ends]
    counts = aval.shape
    if (
        x.dtype.name not in _TAKEN
        or not is_constant((*x.shape, *window, *amounts))
        or any(d != 1 for d in (*base_dilation, *window_dilation))
        or any(n != 1 and s != w for n, w, s in zip(counts, window, strides, strict=True))
        or 0 in counts
        or not _is_large([n * w for n, w in zip(counts, window, strict=True)])
    ):
        return rare_hlo.extreme_of_windows.plain(
            ctx,
            x,
            init,
            op,
            aval,
            window=window,
            strides=strides,
            padding=padding,
            base_dilation=base_dilation,
            window_dilation=window_dilation,
        )
    covered = [n * w for n, w in zip(counts, window, strict=True)]
    low = [before for before, _ in padding]
    high = [size - n - before for size, n, before in zip(covered, x.shape, low, strict=True)]
    if any(low) or any(high):
        padded = ShapedArray(tuple(covered), x.dtype)
        x = hlo.pad(ctx, x, init, low, high, (0,) * len(low), padded)
    pairs = [(n, w) for n, w in zip(counts, window, strict=True)]
    x = hlo.reshape(ctx, x, tuple(itertools.chain.from_iterable(pairs)))
    return extreme(ctx, x, init, range(1, 2 * len(pairs), 2), op)


def _is_large(shape: Sequence[Any]) -> bool:
    """Whether there may be so many elements that YNNPACK reduces them."""
    return not is_constant(shape) or math.prod(shape) >= EXTREME_LEAST


def _merged(shape: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[bool]]:
    """A shape in which neighbours that are reduced, or that are not, are one axis; whether each is
    reduced."""
    sizes: list[int] = []
    reduced: list[bool] = []
    for i, size in enumerate(shape):
        if size == 1:
            continue
        if reduced and reduced[-1] == (i in axes):
            sizes[-1] *= size
        else:
            sizes.append(size)
            reduced.append(i in axes)
    return sizes, reduced


def _of_parts(
    ctx: Context, x: Value, axis: int, count: int, op: str, load: Callable[..., Value]
) -> Value:
    """x in parts along an axis, reduced element by element. The last part may begin before the one
    before it ends: an element may count twice."""
    size = x.shape[axis]
    width = -(-size // count)
    parts = []
    for start in range(0, size, width):
        starts, limits = [0] * len(x.shape), list(x.shape)
        starts[axis] = min(start, size - width)
        limits[axis] = starts[axis] + width
        parts.append(load(ctx, hlo.slice(ctx, x, starts, limits, (1,) * len(starts))))
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        odd = parts[len(parts) // 2 * 2 :]
        parts = [hlo.elementwise(ctx, op, a, b) for a, b in pairs] + odd
    return parts[0]


def _of_rows(ctx: Context, x: Value, axis: int, op: str) -> Value:
    """x with an axis of few elements reduced to one, by a loop of XLA's: a comparison of clamped
    elements is none of YNNPACK's, and LLVM drops the clamp."""
    info: Any = np.iinfo if x.dtype.kind == "i" else None
    low, high = (info(x.dtype).min, info(x.dtype).max) if info else (-np.inf, np.inf)
    ends = [ctx.constant(end, x.dtype) for end in (low, high)]
    init = ends[0] if op == "maximum" else ends[1]

    def body(a: Value, b: Value) -> Sequence[Value]:
        if info is None:
            scalars = [ctx.constant(end, x.dtype) for end in (low, high)]
            b = hlo.clamp(ctx, scalars[0], b, scalars[1])
        return (hlo.elementwise(ctx, op, a, b),)

    y = hlo.reduce(ctx, [x], [init], (axis,), body)[0]
    return hlo.reshape(ctx, y, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


def _beside_nan(ctx: Context, x: Value, init: Value, axes: Sequence[int], op: str) -> Value:
    """The reduction as XLA has it, and whether there is a NaN: devices reduce so between them, and
    sizes may be symbols. It takes up to three times as long."""
    y = hlo.extreme.plain(ctx, x, init, axes, op)
    unordered = hlo.compare(ctx, x, x, "NE")
    (found,) = hlo.reduce(
        ctx,
        [unordered],
        [ctx.constant(False, np.bool_)],
        axes,
        lambda a, b: (hlo.elementwise(ctx, "or", a, b),),
    )
    return hlo.select(ctx, found, hlo.splat(ctx, np.nan, y.aval), y)


def _as_it_is(ctx: Context, x: Value) -> Value:
    return x


def _ordered_bits(op: str, dtype: np.dtype[Any]) -> Callable[..., Value]:
    """Floats of 16 bits as integers in the same order, NaN beyond the others: the processor
    compares these at once."""
    infinity = int(np.array(np.inf, dtype).view(np.int16))

    def load(ctx: Context, x: Value) -> Value:
        bits = hlo.bitcast_convert(ctx, x, _BITS.update(shape=x.shape))
        size = hlo.elementwise(ctx, "and", bits, hlo.splat(ctx, 0x7FFF, bits.aval))
        is_nan = hlo.compare(ctx, size, hlo.splat(ctx, infinity, bits.aval), "GT")
        beyond = hlo.splat(ctx, 0x7FFF if op == "maximum" else -0x8000, bits.aval)
        return hlo.select(ctx, is_nan, beyond, _turned(ctx, bits))

    return load


def _floats(ctx: Context, x: Value, dtype: np.dtype[Any]) -> Value:
    """The floats of ordered bits."""
    return hlo.bitcast_convert(ctx, _turned(ctx, x), ShapedArray(x.shape, dtype))


def _turned(ctx: Context, bits: Value) -> Value:
    """Bits of floats in the order of integers, and back: bits of negative floats are flipped."""
    sign = hlo.elementwise(ctx, "shift_right_arithmetic", bits, hlo.splat(ctx, 15, bits.aval))
    mask = hlo.elementwise(ctx, "and", sign, hlo.splat(ctx, 0x7FFF, bits.aval))
    return hlo.elementwise(ctx, "xor", bits, mask)
