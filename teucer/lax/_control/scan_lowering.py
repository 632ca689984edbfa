"""Lowering of scan.

A while loop over a counter that slices its operands and writes its results into buffers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.jaxpr import ClosedJaxpr
from teucer._dimensions.dimensions import bounds, is_symbolic, max_dim
from teucer._lower import hlo
from teucer._lower.context import Value
from teucer._transform.batch import unmapped_aval
from teucer.lax._control.bodies import order_in, order_out, set_order, split_list

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Size
    from teucer._lower.context import Context


Step = Callable[[Any, Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]]


def lower_scan(
    ctx: Context,
    values: Sequence[object],
    *,
    jaxpr: ClosedJaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    unroll: int,
    **params: object,
) -> tuple[Any, ...]:
    """Write a scan. `unroll` steps make one iteration of the loop; the rest follows it."""
    consts, init, xs = split_list(values, num_consts, num_carry)
    carry_avals = jaxpr.in_avals[num_consts : num_consts + num_carry]
    y_avals = jaxpr.out_avals[num_carry:]
    # How many steps are left over is not known of a symbolic length.
    unroll = 1 if is_symbolic(length) else unroll
    trips, rest = divmod(length, unroll)
    straight = bounds(trips).high <= 1
    copies = length if straight else unroll + rest
    order = order_in(ctx, jaxpr.effects)
    init += order
    inner = functools.partial(ctx.inline, under="" if straight else "while/body")
    call = inner if copies <= 1 or order else functools.partial(ctx.call, "scan_body")

    def apply(carry: Sequence[object], elements: Sequence[object]) -> tuple[list[Any], list[Any]]:
        set_order(ctx, carry[num_carry:])
        outs = call(jaxpr, *consts, *carry[:num_carry], *elements)
        new = [Value(v.name, a) for v, a in zip(outs[:num_carry], carry_avals, strict=True)]
        return [*new, *order_out(ctx, order)], list(outs[num_carry:])

    def results(carry: Sequence[object], ys: Sequence[object]) -> tuple[Any, ...]:
        set_order(ctx, carry[num_carry:])
        return (*carry[:num_carry], *ys)

    if straight:
        return results(*_straight(ctx, apply, length, init, xs, y_avals, reverse))
    # The loop's body needs types even if there are no steps. Then there is one element, which is
    # never read.
    capacity = max_dim(length, 1)
    xs = [_resized(ctx, x, length, capacity) for x in xs]
    buffers = [_zeros(ctx, unmapped_aval(a, 0, capacity)) for a in y_avals]

    def step(
        index: Value, carry: Sequence[Value], buffers: Sequence[Value]
    ) -> tuple[list[Any], list[Any]]:
        new, ys = apply(carry, [_element(ctx, x, index) for x in xs])
        return new, [_written(ctx, buffer, y, index) for buffer, y in zip(buffers, ys, strict=True)]

    state = _loop(ctx, step, trips, unroll, (init, buffers), reverse, length)
    carry, ys = _tail(
        ctx, step, range(length - rest, length) if rest else (), state, reverse, length
    )
    return results(carry, [_resized(ctx, y, capacity, length) for y in ys])


def _resized(ctx: Context, x: Value, size: Size, wanted: Any) -> Any:
    """x, of a first axis of `size`, with one of `wanted`."""
    if size is wanted or size == wanted:
        return x
    whole = _physical(x)
    zeros = (0,) * (len(whole.shape) - 1)
    aval = whole.aval.update(shape=(wanted, *whole.shape[1:]))
    if bounds(wanted - size).low >= 0:
        out = hlo.pad(
            ctx,
            whole,
            ctx.constant(0, whole.dtype),
            (0, *zeros),
            (wanted - size, *zeros),
            (0, *zeros),
            aval,
        )
    else:
        out = hlo.slice(ctx, whole, (0, *zeros), aval.shape, (1,) * len(aval.shape))
    return Value(out.name, x.aval.update(shape=(wanted, *x.aval.shape[1:])))


def _straight(
    ctx: Context,
    apply: Any,
    length: int,
    carry: Sequence[Value],
    xs: Sequence[Value],
    y_avals: Sequence[ShapedArray],
    reverse: bool,
) -> tuple[Sequence[Any], Sequence[Any]]:
    """All steps one after the other, without a loop."""
    rows: list[list[Any]] = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, ys = apply(carry, [_fixed_element(ctx, x, i) for x in xs])
        rows.append(ys)
    if reverse:
        rows.reverse()
    return carry, [
        _stacked(ctx, [row[j] for row in rows], a, length) for j, a in enumerate(y_avals)
    ]


def _loop(
    ctx: Context,
    step: Step,
    trips: int,
    width: int,
    state: tuple[Sequence[Any], Sequence[Any]],
    reverse: bool,
    length: int,
) -> tuple[Sequence[Any], Sequence[Any]]:
    """`trips` iterations of `width` steps each."""
    carry, buffers = state
    n = len(carry)
    number = _counter(length)

    def counted(size: int) -> Any:
        return (
            hlo.convert(ctx, hlo.size(ctx, size), np.dtype(number))
            if is_symbolic(size)
            else ctx.constant(number(size))
        )

    def in_range(i: Any, *rest: object) -> Sequence[Any]:
        return (hlo.compare(ctx, i, counted(trips * width), "LT"),)

    def body(i: Any, *rest: object) -> Sequence[Any]:
        carry, buffers = list(rest[:n]), list(rest[n:])
        for k in range(width):
            index = i if k == 0 else hlo.elementwise(ctx, "add", i, counted(k))
            if reverse:
                index = hlo.elementwise(ctx, "subtract", counted(length - 1), index)
            carry, buffers = step(index, carry, buffers)
        return (hlo.elementwise(ctx, "add", i, counted(width)), *carry, *buffers)

    outs = hlo.while_(ctx, (counted(0), *carry, *buffers), in_range, body)
    return outs[1 : n + 1], outs[n + 1 :]


def _counter(length: int) -> Any:
    """The integers that count to a length."""
    return np.int32 if is_symbolic(length) or length < 2**31 else np.int64


def _tail(
    ctx: Context,
    step: Step,
    steps: Sequence[int],
    state: tuple[Sequence[object], Sequence[object]],
    reverse: bool,
    length: int,
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The steps that are left over after the loop."""
    carry, buffers = state
    for i in steps:
        carry, buffers = step(
            ctx.constant(_counter(length)(length - 1 - i if reverse else i)), carry, buffers
        )
    return carry, buffers


def _physical(v: Any) -> Any:
    """A value as its buffer: typed keys have a trailing axis, float0 is stored as bool."""
    aval = v.aval.physical
    if aval.dtype == dtypes.float0:
        aval = aval.update(dtype=np.dtype(bool))
    return v if aval is v.aval else Value(v.name, aval)


def _zeros(ctx: Context, aval: ShapedArray) -> Any:
    buffer = _physical(Value("", aval)).aval
    made = hlo.broadcast_in_dim(ctx, ctx.constant(0, buffer.dtype), buffer.shape, ())
    return Value((ctx.summed(made, aval.partition) if aval.unreduced else made).name, aval)


def _element(ctx: Context, x: Value, index: Any) -> Any:
    """x[index]."""

    def part(x: Value, index: Value) -> tuple[Any]:
        whole = _physical(x)
        return (
            _as_element(
                ctx,
                x,
                hlo.dynamic_slice(ctx, whole, _starts(ctx, index, whole), (1, *whole.shape[1:])),
            ),
        )

    return ctx.on_parts((x, index), (_element_aval(x.aval),), part)[0]


def _starts(ctx: Context, index: Any, whole: Any) -> list[Any]:
    return [index, *(ctx.constant(np.zeros((), index.dtype)) for _ in whole.shape[1:])]


def _fixed_element(ctx: Context, x: Value, i: int) -> Any:
    """x[i] for a known i."""

    def part(x: Value) -> tuple[Any]:
        whole = _physical(x)
        n = len(whole.shape) - 1
        return (
            _as_element(
                ctx,
                x,
                hlo.slice(ctx, whole, (i, *[0] * n), (i + 1, *whole.shape[1:]), (1,) * (n + 1)),
            ),
        )

    return ctx.on_parts((x,), (_element_aval(x.aval),), part)[0]


def _element_aval(aval: ShapedArray) -> Any:
    return aval.update(
        shape=aval.shape[1:], sharding=None if aval.partition is None else aval.partition.without(0)
    )


def _as_element(ctx: Context, x: Value, part: Any) -> Any:
    return Value(hlo.reshape(ctx, part, part.shape[1:]).name, _element_aval(x.aval))


def _written(ctx: Context, buffer: Value, y: Value, index: Value) -> Any:
    """The buffer with y at an index."""

    def written(buffer: Any, y: Value, index: Value) -> tuple[Any]:
        whole, part = _physical(buffer), _physical(y)
        part = hlo.reshape(ctx, part, (1, *part.shape))
        return (
            Value(
                hlo.dynamic_update_slice(ctx, whole, part, _starts(ctx, index, whole)).name,
                buffer.aval,
            ),
        )

    return ctx.on_parts((buffer, y, index), (buffer.aval,), written)[0]


def _stacked(ctx: Context, rows: Sequence[Any], aval: ShapedArray, length: int) -> Any:
    """Rows as one array."""
    whole = unmapped_aval(aval, 0, length)
    if not rows:
        return _zeros(ctx, whole)

    def joined(*rows: Value) -> tuple[Any]:
        parts = [_physical(row) for row in rows]
        parts = [hlo.reshape(ctx, part, (1, *part.shape)) for part in parts]
        return (
            Value((parts[0] if len(parts) == 1 else hlo.concatenate(ctx, parts, 0)).name, whole),
        )

    return ctx.on_parts(rows, (whole,), joined)[0]
