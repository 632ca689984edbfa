"""Structural operations on arrays of extended dtype (typed keys), which are arrays with a trailing
axis underneath.

An operation on an array of keys is the operation mapped over the trailing axis of the buffer: its
batching rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._core.primitive import Axis
from teucer._lower.text import i64s
from teucer._lower.value import Value

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Params
    from teucer._lower.context import Context


def lower_by_batching(
    ctx: Context, primitive: Primitive, operands: list[Value], params: Params
) -> tuple[Value, ...]:
    """Lower a primitive on keys through its batching rule, over the axis of the buffer behind the
    logical axes."""
    from_keys = [v.aval.extended for v in operands]
    out_avals = list(ctx.avals_out)
    size = next(a.physical.shape[-1] for a in [v.aval for v in operands] + out_avals if a.extended)
    physical = [Value(v.name, v.aval.physical) for v in operands]
    dims = [v.aval.ndim if key else None for v, key in zip(operands, from_keys, strict=True)]
    out_dims: list[Any] = []

    def on_buffers(*xs: Value) -> Any:
        outs, found = primitive.batch(Axis(size), xs, dims, **params)
        out_dims.extend(found)
        return outs

    outs = ctx.trace(on_buffers, *physical)
    return tuple(
        _to_back(ctx, v, d, aval) for v, d, aval in zip(outs, out_dims, out_avals, strict=True)
    )


def _to_back(ctx: Context, v: Value, dim: int | None, aval: ShapedArray) -> Value:
    """Move the axis of the buffer behind the others, and give the value its logical type."""
    if dim is not None and dim != len(v.shape) - 1:
        order = [i for i in range(len(v.shape)) if i != dim] + [dim]
        v = ctx.op1("stablehlo.transpose", (v,), aval.physical, f"permutation = {i64s(order)}")
    return Value(v.name, aval)
