"""Maxima and minima between devices: NaN wins, and complex numbers have an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._devices.specs import PartitionSpec
from teucer._dialects.meshes.manual import manual_computation
from teucer._lower import hlo
from teucer.lax._collectives import lowering
from teucer.lax._reductions import reduce_max, reduce_min

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value


def extreme_of_devices(
    ctx: Context, x: Value, op: str, axes: Sequence[Any], groups: object = None
) -> Any:
    """The maximum or minimum (`op`) of x over the devices along `axes`."""
    if x.dtype.kind == "c":  # no order that XLA's collectives know
        reduce = reduce_max if op == "maximum" else reduce_min
        everyone = lowering.all_gathered(ctx, x, 0, False, axes, groups)
        return ctx.trace(lambda y: (reduce(y, (0,)),), everyone)[0]
    y = lowering.all_reduced(ctx, x, op, axes, groups)
    if ctx.target.sends_nan or not dtypes.issubdtype(x.dtype, np.floating):
        return y
    one = hlo.convert(ctx, hlo.compare(ctx, x, x, "NE"), np.dtype(np.int32))
    found = lowering.all_reduced(ctx, one, "maximum", axes, groups)
    is_nan = hlo.compare(ctx, found, hlo.splat(ctx, 0, found.aval), "NE")
    return hlo.select(ctx, is_nan, hlo.splat(ctx, np.nan, y.aval), y)


def extreme_taken(ctx: Context, x: Value, wanted: frozenset[Any]) -> Value:
    """Finish a maximum or minimum whose parts lie on devices: reduce over all axes but `wanted`.

    Written for each device: left to itself, XLA:CPU loses NaN, and refuses complex numbers.
    """
    sharding = x.aval.partition
    own = sharding.spec
    taken = frozenset() if ctx.manual is None else ctx.manual.axes
    over = own.unreduced - taken
    left, axes = over & wanted, [n for n in sharding.mesh.axis_names if n in over - wanted]
    if not own.combined or not axes:
        return x
    kind = own.unreduced_kind
    rest = own.unreduced - frozenset(axes)
    aval = x.aval.update(
        sharding=sharding.with_spec(
            own.update(unreduced=rest, unreduced_kind=kind if rest else None)
        )
    )
    (y,) = manual_computation(
        ctx,
        sharding.mesh,
        [n for n in sharding.mesh.axis_names if n in over],
        [x],
        [PartitionSpec(unreduced=over, unreduced_kind=kind)],
        [x.aval.update(sharding=None)],
        [aval],
        [PartitionSpec(unreduced=left, unreduced_kind=kind if left else None)],
        lambda part: (extreme_of_devices(ctx, part, f"{own.combined}imum", axes),),
    )
    return y
