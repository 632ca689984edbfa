"""Lowerings written as functions of arrays, and loops in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._lower import hlo
from teucer.lax._arithmetic import bitwise_and
from teucer.lax._selection import where_else

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value


Function = Callable[..., Any]
# A loop that has not converged stops after this many steps.
LIMIT = 20_000


def widened(body: Function) -> Function:
    """A lowering that computes 16-bit floats in float32."""

    def lower(ctx: Context, *xs: Value) -> Any:
        dtype = xs[0].dtype
        if dtype.kind == "c" or dtypes.bit_width(dtype) >= 32:
            return body(ctx, *xs)
        return hlo.convert(
            ctx, body(ctx, *(hlo.convert(ctx, x, np.dtype(np.float32)) for x in xs)), dtype
        )

    return lower


def traced(f: Function) -> Function:
    """A lowering by a function of arrays; 16-bit floats are computed in float32."""
    return widened(lambda ctx, *xs: ctx.trace(lambda *values: (f(*values),), *xs)[0])


def until_converged(ctx: Context, step: Function, state: Sequence[Any]) -> tuple[Any, ...]:
    """Repeat `step(n, *state) -> (active, *state)` for n = 1, 2, ... while an element of `active`
    holds.

    An element that is not active any more stays as it is, else it would drift while others go on.
    """
    shape, dtype = state[0].shape, state[0].dtype
    boolean = np.dtype(bool)

    def masked(n: object, active: Any, *values: object) -> Any:
        still, *after = step(n, *values)
        return (
            bitwise_and(active, still),
            *(
                new if new is old else where_else(active, new, old)
                for new, old in zip(after, values, strict=True)
            ),
        )

    def body(_: object, n: Value, *values: Any) -> Any:
        active, *moved = ctx.trace(masked, n, *values)
        any_active = hlo.reduce(
            ctx,
            [active],
            [ctx.constant(False, boolean)],
            tuple(range(len(shape))),
            lambda x, y: (hlo.elementwise(ctx, "or", x, y),),
        )[0]
        below = hlo.compare(ctx, n, ctx.constant(LIMIT, dtype), "LT")
        n = hlo.elementwise(ctx, "add", n, ctx.constant(1, dtype))
        return (hlo.elementwise(ctx, "and", any_active, below), n, active, *moved)

    active = hlo.splat(ctx, True, ShapedArray(shape, boolean))
    init = (ctx.constant(True, boolean), ctx.constant(1, dtype), active, *state)
    return hlo.while_(ctx, init, lambda go, *_: (go,), body)[3:]
