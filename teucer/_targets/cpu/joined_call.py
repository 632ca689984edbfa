"""Calls of jaxprs that are one kernel each.

A call with the attribute `xla_cpu_small_call` is one kernel, whatever it computes: XLA's own passes
write small loops of `while` so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr
from teucer._lower import text
from teucer._targets import outlined_call
from teucer._targets.outlined_call import StayingCall, reshaped, row

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Aval
    from teucer._lower.context import Context
    from teucer._lower.value import Value


@structure.internal
@final
class JoinedCall(StayingCall):
    """A call that is one kernel."""

    __slots__ = ()
    name = "joined_call"

    def lower(self, ctx: Context, *values: Value, jaxpr: ClosedJaxpr) -> Any:
        return one_kernel(
            ctx, self.name, values, jaxpr.out_avals, lambda *inner: ctx.inline(jaxpr, *inner)
        )


def one_kernel(
    ctx: Context,
    name: str,
    values: Sequence[Value],
    out_avals: Sequence[ShapedArray],
    body: Callable[..., Sequence[Value]],
) -> tuple[Value, ...]:
    """Write `body` on values as a call of a function that is one kernel."""
    # XLA aborts the process if the called function does not read one of its parameters, as after a
    # simplification. So the function has a single parameter, a tuple. It has a number that the
    # function returns, so that it is always read.
    number = ctx.constant(np.zeros((), np.int32))
    carried = row if outlined_call.MISSES_COPIES else _as_it_is
    in_avals = [x.aval for x in values]
    ins, outs = ([number.aval, *map(carried, avals)] for avals in (in_avals, out_avals))
    taken, given = _tuple_of(ins), _tuple_of(outs)

    def function(operands: Value) -> Sequence[Value]:
        first, *inner = _elements(ctx, operands, ins)
        computed = body(*reshaped(ctx, inner, in_avals))
        return ctx.op("stablehlo.tuple", (first, *reshaped(ctx, computed, outs[1:])), (given,))

    symbol = ctx.function(name, (taken,), (given,), function)
    operands = ctx.op("stablehlo.tuple", (number, *reshaped(ctx, values, ins[1:])), (taken,))
    (results,) = ctx.op(
        "func.call", operands, (given,), f"callee = @{symbol}", attributes=_ONE_KERNEL
    )
    return tuple(reshaped(ctx, _elements(ctx, results, outs)[1:], out_avals))


def _as_it_is(aval: ShapedArray) -> ShapedArray:
    return aval


_ONE_KERNEL = 'mhlo.frontend_attributes = {inlineable = "false", xla_cpu_small_call = "true"}'


@final
class _Tuple:
    """The type of tuples of arrays, as far as text is written of it."""

    __slots__ = ("_hlo",)

    def __init__(self, hlo: str) -> None:
        self._hlo = hlo


def _tuple_of(avals: Sequence[Aval]) -> Any:  # in place of an aval
    return _Tuple(f"tuple<{', '.join(map(text.tensor_type, avals))}>")


def _elements(ctx: Context, value: Value, avals: Sequence[Aval]) -> list[Value]:
    return [
        ctx.op("stablehlo.get_tuple_element", (value,), (aval,), f"index = {i} : i32")[0]
        for i, aval in enumerate(avals)
    ]


joined_call_p = JoinedCall()
