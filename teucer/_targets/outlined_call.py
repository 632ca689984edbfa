"""Calls of jaxprs that stay calls in the compiled program, where the target gains by it.

XLA neither inlines them nor fuses across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._executables import guard
from teucer._lower import hlo

if TYPE_CHECKING:
    from teucer._core.typing import Array, Aval
    from teucer._lower.context import Context
    from teucer._lower.value import Value


# Whether the compiler may forget to copy an operand into the order that a call wants it in.
MISSES_COPIES = guard.has("calls that miss copies")


@structure.calls("jaxpr")
class StayingCall(Primitive):
    """A call of a jaxpr without constants or effects, that stays one in the compiled program."""

    __slots__ = ()
    multiple_results = True
    higher_order = True

    def types(self, *avals: Aval, jaxpr: ClosedJaxpr) -> Any:
        return tuple(jaxpr.out_avals)

    def evaluate(self, *args: Array, jaxpr: ClosedJaxpr) -> Any:
        return tuple(jaxpr(*args))


@structure.internal
@final
class OutlinedCall(StayingCall):
    """A call that XLA compiles as a function."""

    __slots__ = ()
    name = "outlined_call"

    def lower(self, ctx: Context, *values: Value, jaxpr: ClosedJaxpr) -> Any:
        if not ctx.target.keeps_calls:
            return ctx.inline(jaxpr, *values)
        stays = 'mhlo.frontend_attributes = {inlineable = "false"}'
        divided = ctx.module.mesh is not None and not ctx.all_manual()
        if divided and MISSES_COPIES and _reorders(jaxpr.jaxpr):
            return ctx.inline(jaxpr, *values)
        if divided or not MISSES_COPIES:  # the compiler could not divide rows as it divides arrays
            return ctx.call("outlined", jaxpr, *values, attributes=stays)
        # Operands and results of the call are rows of numbers, which have one layout only.
        key = (jaxpr.jaxpr, ctx.platforms, "rows")
        ins, outs = ([row(aval) for aval in avals] for avals in (jaxpr.in_avals, jaxpr.out_avals))
        if key not in ctx.module.emitted:
            ctx.module.emitted[key] = (
                ctx.function(
                    "outlined",
                    ins,
                    outs,
                    lambda *given: reshaped(
                        ctx, ctx.inline(jaxpr, *reshaped(ctx, given, jaxpr.in_avals)), outs
                    ),
                ),
                jaxpr.jaxpr,
            )
        symbol, _ = ctx.module.emitted[key]
        results = ctx.op(
            "func.call", reshaped(ctx, values, ins), outs, f"callee = @{symbol}", attributes=stays
        )
        return tuple(reshaped(ctx, results, jaxpr.out_avals))


def _reorders(jaxpr: Jaxpr) -> bool:
    """Whether a kernel in a jaxpr takes or gives arrays other than row by row."""
    return any(
        eqn.primitive.cost.reorders or any(map(_reorders, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def row(aval: ShapedArray) -> Any:
    """The type of an array's numbers in a row, which have one layout only."""
    return aval if aval.extended or aval.ndim < 2 else ShapedArray((aval.size,), aval.dtype)


def reshaped(ctx: Context, values: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Any]:
    """Values in the shapes of types that have as many elements."""
    return [
        v if aval.extended else hlo.reshape(ctx, v, aval.shape)
        for v, aval in zip(values, avals, strict=True)
    ]


outlined_call_p = OutlinedCall()
