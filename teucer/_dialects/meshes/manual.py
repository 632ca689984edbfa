"""Computations that are written for each device of a mesh by hand.

Shardy's `manual_computation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._devices.meshes import Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec, entry_names
from teucer._lower import text
from teucer._lower.value import Value

if TYPE_CHECKING:
    from teucer._core.typing import Aval
    from teucer._devices.meshes import BaseMesh
    from teucer._lower.context import Context


class Manual(NamedTuple):
    """The mesh of the manual computation that is being written, and its manual axes."""

    mesh: Any
    axes: frozenset[Any]

    @property
    def sizes(self) -> dict[Any, int]:
        """The sizes of the manual axes."""
        return {name: self.mesh.sizes[name] for name in self.axes}

    @property
    def free_mesh(self) -> Mesh:
        """A mesh of the devices along the axes that are not manual, at the first place along each
        manual axis."""
        mesh = self.mesh
        first = tuple([0 if name in self.axes else slice(None) for name in mesh.axis_names])
        return Mesh(
            mesh.devices[first], tuple(name for name in mesh.axis_names if name not in self.axes)
        )


def manual_computation(
    ctx: Context,
    mesh: BaseMesh,
    axes: Collection[object],
    args: Sequence[Value],
    in_specs: Sequence[PartitionSpec],
    inner: Sequence[Aval],
    avals: Sequence[Aval],
    out_specs: Sequence[PartitionSpec],
    body: Callable[..., Sequence[Value]],
) -> tuple[Value, ...]:
    """Write `body`, a function of each device's parts, as a computation over manual mesh axes.

    inner: the types of the arguments' parts; avals: the types of results. The specs name the manual
    axes alone.
    """
    outer = ctx.manual
    taken = frozenset(axes) if outer is None else outer.axes | frozenset(axes)
    symbol = ctx.module.mesh_symbol(mesh, ctx.named())
    free = len(taken) < len(mesh.axis_names)

    def shardings(values: Sequence[Aval], specs: Sequence[PartitionSpec]) -> str:
        of_each = [
            _sharding(symbol, mesh, spec, aval.physical.ndim, free)
            for aval, spec in zip(values, specs, strict=True)
        ]
        return f"[{', '.join(of_each)}]"

    # XLA wants an operation where a value ceases to be parts of a sum.
    args = [
        ctx.constrain(v, NamedSharding(mesh, spec)) if spec.unreduced else v
        for v, spec in zip(args, in_specs, strict=True)
    ]
    ctx.manual = Manual(mesh, taken)
    try:
        region = ctx.region(inner, body, "sdy.return")
    finally:
        ctx.manual = outer
    n = ctx.count
    ctx.count = n + len(avals)
    outs = tuple([Value(f"%{n + i}", aval) for i, aval in enumerate(avals)])
    left = f"{', '.join([v.name for v in outs])} = " if outs else ""
    properties = (
        f"in_shardings = #sdy.sharding_per_value<{shardings([v.aval for v in args], in_specs)}>, "
        "manual_axes = "
        "#sdy<manual_axes{"
        f"{', '.join(text.quoted(str(a)) for a in mesh.axis_names if a in axes)}}}>, "
        f"out_shardings = #sdy.sharding_per_value<{shardings(avals, out_specs)}>"
    )
    in_types, out_types = (
        ", ".join(map(text.tensor_type, kinds)) for kinds in ([v.aval for v in args], avals)
    )
    operands = ", ".join([v.name for v in args])
    ctx.lines.append(
        f'{left}"sdy.manual_computation"({operands}) <{{{properties}}}> ({region}) : '
        f"({in_types}) -> ({out_types}){ctx.location()}"
    )
    return outs


def on_parts(
    ctx: Context, args: Sequence[Value], avals: Sequence[Aval], body: Callable[..., Sequence[Value]]
) -> tuple[Value, ...]:
    """Write `body` for each device by itself, if its operands are parts of unreduced sums.

    Otherwise XLA sums the values between two operations, and takes the sums for the parts.
    """
    taken = frozenset() if ctx.manual is None else ctx.manual.axes
    parts = frozenset[Any]().union(*[a.unreduced for a in avals]) - taken
    if not parts:
        return tuple(body(*args))
    mesh = next(a.partition.mesh for a in avals if a.unreduced)
    specs, inner, given = [], [], []
    for v in args:
        own = PartitionSpec() if v.aval.partition is None else v.aval.partition.spec
        if own.unreduced - parts:  # summed on the way
            v = ctx.constrain(
                v, v.aval.partition.with_spec(own.update(unreduced=own.unreduced & parts))
            )
        entries = [tuple(n for n in entry_names(e) if n in parts) for e in own.partitions]
        entries += [()] * (v.aval.ndim - len(entries))
        shape = [
            d // math.prod(mesh.sizes[n] for n in e)
            for d, e in zip(v.aval.shape, entries, strict=True)
        ]
        given.append(v)
        specs.append(_summed(entries, own, parts))
        inner.append(v.aval.update(shape=tuple(shape), sharding=None))
    return manual_computation(
        ctx,
        mesh,
        [n for n in mesh.axis_names if n in parts],
        given,
        specs,
        inner,
        avals,
        [_summed((), a.partition.spec, parts) if a.unreduced else PartitionSpec() for a in avals],
        body,
    )


def _summed(entries: Sequence[object], spec: PartitionSpec, axes: frozenset[Any]) -> PartitionSpec:
    """A spec with these entries, and with another spec's fields for sums over some axes."""
    over = spec.unreduced & axes
    return PartitionSpec(
        *entries, unreduced=over, unreduced_kind=spec.unreduced_kind if over else None
    )


def _sharding(symbol: str, mesh: BaseMesh, spec: PartitionSpec, ndim: int, free: bool) -> str:
    """How a value lies over the manual axes; `free` axes of the mesh may partition it further."""
    entries = [*spec.partitions, *[None] * (ndim - len(spec))]
    axes = [
        ", ".join([*(text.quoted(str(n)) for n in entry_names(e)), *["?"] * free]) for e in entries
    ]
    parts = (
        ", "
        f"unreduced={spec.combined}{{"
        f"{', '.join(text.quoted(str(n)) for n in mesh.axis_names if n in spec.unreduced)}}}"
    )
    return f"<@{symbol}, [{', '.join(f'{{{a}}}' for a in axes)}]{parts if spec.unreduced else ''}>"
