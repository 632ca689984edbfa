"""Collectives of devices as StableHLO.

Which devices of a mesh take part together, and the operations between them.

Devices are named by their place in the mesh, row by row. Every collective is given a channel:
without one some are refused, and others give zeros without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._devices.specs import PartitionSpec
from teucer._dialects.meshes.manual import manual_computation
from teucer._lower import hlo
from teucer._lower.value import Value

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._lower.context import Context


_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def rows(ctx: Context, axes: Sequence[Any], groups: Any = None) -> list[list[int]]:
    """The devices that take part together, in the order of their elements: for all places along the
    other mesh axes.

    Raises NotImplementedError outside of `shard_map`.
    """
    manual = ctx.manual
    if manual is None or not set(axes) <= manual.axes:
        raise NotImplementedError(
            f"{ctx.label}: the named axes {tuple(axes)} are no axes of a mesh here.\n"
            "  Collectives are between the elements of vmap(..., axis_name=...), or devices in "
            "jax.shard_map."
        )
    names = list(manual.mesh.axis_names)
    ids = np.arange(manual.mesh.size).reshape(manual.mesh.axis_sizes)
    at = [names.index(name) for name in axes]
    order = [i for i in range(len(names)) if i not in at] + at
    table = ids.transpose(order).reshape(-1, int(np.prod([manual.mesh.axis_sizes[i] for i in at])))
    return [
        [int(row[i]) for i in group] for row in table for group in groups or [range(table.shape[1])]
    ]


def _groups(table: Sequence[Sequence[int]]) -> str:
    width = max(map(len, table))
    padded = [[*row, *[-1] * (width - len(row))] for row in table]
    return f"replica_groups = dense<{padded}> : tensor<{len(table)}x{width}xi64>"


def _combine(ctx: Context, aval: ShapedArray, op: str) -> str:
    scalar = aval.update(shape=())
    region: str = ctx.region(
        (scalar, scalar), lambda a, b: (ctx.op1(f"stablehlo.{op}", (a, b), scalar),)
    )
    return region


def all_reduced(
    ctx: Context, x: Value, op: str, axes: Sequence[Any], groups: object = None
) -> Value:
    """x combined over devices by `add`, `maximum` or `minimum`."""
    properties = f"{_CHANNEL}, {_groups(rows(ctx, axes, groups))}, use_global_device_ids"
    return ctx.op(
        "stablehlo.all_reduce", (x,), (x.aval,), properties, (_combine(ctx, x.aval, op),)
    )[0]


def all_gathered(
    ctx: Context, x: Value, at: int, tiled: bool, axes: Sequence[Any], groups: object = None
) -> Value:
    """The values of all devices, along a new axis or if tiled joined along an axis."""
    table = rows(ctx, axes, groups)
    if not tiled:
        x = hlo.reshape(ctx, x, (*x.shape[:at], 1, *x.shape[at:]))
    shape = (*x.shape[:at], x.shape[at] * len(table[0]), *x.shape[at + 1 :])
    properties = f"all_gather_dim = {at} : i64, {_CHANNEL}, {_groups(table)}, use_global_device_ids"
    return ctx.op1("stablehlo.all_gather", (x,), x.aval.update(shape=shape), properties)


def reduce_scattered(
    ctx: Context, x: Value, at: int, axes: Sequence[Any], groups: object = None
) -> Value:
    """The sum over devices. Each device gets its part of the sum along an axis."""
    table = rows(ctx, axes, groups)
    shape = (*x.shape[:at], x.shape[at] // len(table[0]), *x.shape[at + 1 :])
    properties = (
        f"{_CHANNEL}, {_groups(table)}, scatter_dimension = {at} : i64, use_global_device_ids"
    )
    aval = x.aval.update(shape=shape)
    return ctx.op(
        "stablehlo.reduce_scatter", (x,), (aval,), properties, (_combine(ctx, x.aval, "add"),)
    )[0]


def all_to_all(
    ctx: Context,
    x: Value,
    split: int,
    concat: int,
    aval: ShapedArray,
    axes: Sequence[int],
    groups: object = None,
) -> Value:
    """The i-th part along an axis of each device is sent to device i, which joins the parts along
    another axis."""
    table = rows(ctx, axes, groups)
    properties = (
        f"{_CHANNEL}, concat_dimension = {concat} : i64, {_groups(table)}, split_count = "
        f"{len(table[0])} : i64, split_dimension = {split} : i64"
    )
    return ctx.op1("stablehlo.all_to_all", (x,), aval, properties)


def along(ctx: Any, perm: Sequence[tuple[int, int]], axes: Sequence[Any]) -> str:
    """Pairs of elements as pairs of devices: the properties of operations that send."""
    pairs = [[row[source], row[target]] for row in rows(ctx, axes) for source, target in perm]
    listed = f"dense<{pairs}>" if pairs else "dense<>"
    return f"{_CHANNEL}, source_target_pairs = {listed} : tensor<{len(pairs)}x2xi64>"


def permuted(ctx: Context, x: Value, perm: Sequence[tuple[int, int]], axes: Sequence[Any]) -> Value:
    """x sent from device to device along pairs; zeros where nothing is sent."""
    return ctx.op1("stablehlo.collective_permute", (x,), x.aval, along(ctx, perm, axes))


def device_index(ctx: Context, axis: Any, aval: ShapedArray) -> Value:
    """The device's place along a mesh axis."""
    rows(ctx, (axis,))
    mesh, n = ctx.manual.mesh, np.uint32
    at = mesh.axis_names.index(axis)
    word = aval.update(dtype=np.dtype(n))

    def place() -> tuple[Value]:
        number = ctx.op1("stablehlo.partition_id", (), word)
        behind = ctx.constant(int(np.prod(mesh.axis_sizes[at + 1 :])), n)
        over = ctx.op1("stablehlo.divide", (number, behind), word)
        return (ctx.op1("stablehlo.remainder", (over, ctx.constant(mesh.axis_sizes[at], n)), word),)

    rest = [name for name in mesh.axis_names if name not in ctx.manual.axes]
    if rest:
        # XLA knows the number of a device only where all axes are manual.
        index = manual_computation(ctx, mesh, rest, (), (), (), (word,), (PartitionSpec(),), place)[
            0
        ]
    else:
        (index,) = place()
    return ctx.op1("stablehlo.convert", (index,), aval)
