"""Windows as libtpu has code for them.

It scatters to what windows select only where two axes have windows and strides of 1, or there is
one axis alone. Axes of size 1 could be added, but they take a tile of memory each: 128 times the
array. So elements that have one place in their windows are taken together, place by place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.types import ShapedArray
from teucer._hlo import rare_hlo
from teucer._lower import hlo, text
from teucer._lower.value import Value
from teucer._targets.tpu.constants import MOST_PLACES

if TYPE_CHECKING:
    from teucer._lower.context import Context


def select_and_scatter(
    ctx: Context,
    x: Value,
    source: Value,
    init: Value,
    select: Callable[..., Sequence[Value]],
    scatter: Callable[..., Sequence[Value]],
    *,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Sequence[tuple[int, int]],
    aval: ShapedArray,
) -> Value:
    """As `rare_hlo.select_and_scatter`."""
    plain, rank = rare_hlo.select_and_scatter.plain, len(window)
    idle = sum(w == s == 1 for w, s in zip(window, strides, strict=True))
    if rank < 2 or idle >= 2 or aval.symbolic:
        return plain(
            ctx, x, source, init, select, scatter,
            window=window, strides=strides, padding=padding, aval=aval,
        )  # fmt: skip
    if math.prod(window) <= MOST_PLACES and not any(map(any, padding)):
        return _by_places(ctx, x, source, init, select, scatter, window, strides)
    ones, none = (1,) * (2 - idle), ((0, 0),) * (2 - idle)
    wide = ShapedArray((*aval.shape, *ones), aval.dtype)
    x, source = (hlo.reshape(ctx, v, (*v.shape, *ones)) for v in (x, source))
    out = plain(
        ctx, x, source, init, select, scatter, window=(*window, *ones),
        strides=(*strides, *ones), padding=(*padding, *none), aval=wide,
    )  # fmt: skip
    return hlo.reshape(ctx, out, aval.shape)


def _by_places(
    ctx: Context,
    x: Value,
    source: Value,
    init: Value,
    select: Callable[..., Sequence[Value]],
    scatter: Callable[..., Sequence[Value]],
    window: tuple[int, ...],
    strides: tuple[int, ...],
) -> Value:
    """The place that each window selects, then a sum over the places of what is scattered there."""
    out = hlo.broadcast_in_dim(ctx, init, x.shape, ())
    if not source.aval.size:
        return out
    places = list(np.ndindex(*window))
    # Of all windows, those of other strides too: to take every second element, or to spread them,
    # is what libtpu is slow to compile.
    shape = tuple(n - w + 1 for n, w in zip(x.shape, window, strict=True))
    number = ShapedArray(shape, np.dtype(np.int32))
    best = chosen = None
    for i, place in enumerate(places):
        end = tuple(a + n for a, n in zip(place, shape, strict=True))
        here = hlo.slice(ctx, x, place, end, (1,) * len(shape))
        mine = hlo.splat(ctx, i, number)
        if best is None or chosen is None:
            best, chosen = here, mine
            continue
        stays = _mapped(ctx, select, best, here, np.dtype(bool))
        best = hlo.select(ctx, stays, best, here)
        chosen = hlo.select(ctx, stays, chosen, mine)
    assert chosen is not None
    high = tuple(n - (m - 1) * s - 1 for n, m, s in zip(shape, source.shape, strides, strict=True))
    gaps, none = tuple(s - 1 for s in strides), (0,) * len(shape)

    def spread(v: Value, fill: Value) -> Value:
        return hlo.pad(ctx, v, fill, none, high, gaps, ShapedArray(shape, v.dtype))

    is_window = hlo.splat(ctx, True, ShapedArray(source.shape, np.dtype(bool)))
    chosen = hlo.select(
        ctx, spread(is_window, ctx.constant(False)), chosen, hlo.splat(ctx, -1, number)
    )
    source = spread(source, init)
    for i, before in enumerate(places):
        after = tuple(n - a - m for n, a, m in zip(x.shape, before, shape, strict=True))
        hit = hlo.compare(ctx, chosen, hlo.splat(ctx, i, number), "EQ")
        hit, source_there = (
            hlo.pad(ctx, v, fill, before, after, none, ShapedArray(x.shape, v.dtype))
            for v, fill in ((hit, ctx.constant(False)), (source, init))
        )
        added = _mapped(ctx, scatter, out, source_there, source.dtype)
        out = hlo.select(ctx, hit, added, out)
    return out


def _mapped(
    ctx: Context, f: Callable[..., Sequence[Value]], x: Value, y: Value, dtype: np.dtype[Any]
) -> Value:
    """Apply f, a function of scalars, to each pair of elements of x and y."""
    scalars = [ShapedArray((), v.dtype) for v in (x, y)]
    return ctx.op(
        "stablehlo.map",
        (x, y),
        [ShapedArray(x.shape, dtype)],
        f"dimensions = {text.i64s(tuple(range(len(x.shape))))}",
        [ctx.region(scalars, f)],
    )[0]
