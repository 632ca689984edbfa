"""Types of the parts of values that devices have, along mesh axes for which one writes by hand
(`shard_map`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._devices.axis_type import manual_type as manual_type
from teucer._devices.meshes import AxisType, left_out
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec, entry_names

if TYPE_CHECKING:
    pass


def low_specs(spec: Any, aval: Any) -> Sequence[PartitionSpec]:
    """The specs of the arrays of which a value is made. A PartitionSpec of the value is the spec of
    each array."""
    if isinstance(spec, PartitionSpec):
        return [spec] * len(aval.lo_ty()) if aval.is_high else [spec]
    return [low for part in spec.to_lo() for low in part.to_lo()]


def names_of_spec(spec: Any) -> frozenset[Any]:
    """The mesh axes over which a value is divided."""
    if isinstance(spec, PartitionSpec):
        return frozenset(spec.names())
    return frozenset().union(*map(names_of_spec, spec.to_lo()))


def named_here(mesh: Any) -> frozenset[Any]:
    """The axes of a mesh that become manual where all of those that are not yet do."""
    return frozenset(mesh.axis_names) - frozenset(mesh.abstract_mesh.manual_axes)


def _sizes(spec: PartitionSpec, mesh: Any, ndim: int) -> list[int]:
    entries = [*spec.partitions, *[None] * (ndim - len(spec))]
    return [math.prod(mesh.sizes[name] for name in entry_names(entry)) for entry in entries]


def part_aval(aval: Any, spec: Any, mesh: Any, manual: frozenset[Any], check_vma: bool) -> Any:
    """The type of each device's part of a value."""
    if aval.is_high:
        return aval if _is_whole(spec) else aval.shard(mesh, manual, check_vma, spec)
    shape = tuple(d // n for d, n in zip(aval.shape, _sizes(spec, mesh, aval.ndim), strict=True))
    own = PartitionSpec(*[None] * aval.ndim) if aval.partition is None else aval.partition.spec
    rest = [tuple(n for n in entry_names(e) if n not in manual) for e in own.partitions]
    sums = _sums(own, spec if check_vma else PartitionSpec(), manual)
    sharding = None
    if any(rest) or any(sums.values()):
        sharding = NamedSharding(
            mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual)),
            PartitionSpec(*rest, **sums),
        )
    over = names_of_spec(spec) - left_out(mesh) if check_vma else frozenset()
    return aval.update(shape=shape, sharding=sharding, vma=aval.vma | over)


def whole_aval(aval: Any, spec: Any, mesh: Any, manual: frozenset[object], check_vma: bool) -> Any:
    """The type of the value whose parts are of type `aval`. check_vma: whether types say over which
    axes parts differ."""
    if aval.is_high:
        return aval if _is_whole(spec) else aval.unshard(mesh, check_vma, spec)
    shape = tuple(d * n for d, n in zip(aval.shape, _sizes(spec, mesh, aval.ndim), strict=True))
    abstract = mesh.abstract_mesh
    own = (
        [()] * aval.ndim
        if aval.partition is None
        else [entry_names(e) for e in aval.partition.spec.partitions]
    )
    given = [entry_names(e) for e in (*spec.partitions, *[None] * (aval.ndim - len(spec)))]
    entries = [
        (*(n for n in new if abstract.type_of[n] is AxisType.Explicit), *old)
        for new, old in zip(given, own, strict=True)
    ]
    sums = _sums(PartitionSpec() if aval.partition is None else aval.partition.spec, spec, manual)
    sharding = (
        NamedSharding(abstract, PartitionSpec(*entries, **sums))
        if any(entries) or any(sums.values())
        else None
    )
    return aval.update(shape=shape, sharding=sharding, vma=aval.vma - manual)


def _sums(own: PartitionSpec, spec: PartitionSpec, manual: frozenset[Any]) -> dict[str, Any]:
    """The fields of a type's spec for sums: with the fields of `spec` added, and without manual
    axes."""
    unreduced = own.unreduced - manual | spec.unreduced
    return {
        "unreduced": unreduced,
        "reduced": own.reduced - manual | spec.reduced,
        "unreduced_kind": (spec if spec.unreduced else own).unreduced_kind if unreduced else None,
    }


def _is_whole(spec: object) -> bool:
    """Whether a spec, of any type, says that each device has the whole."""
    return (
        isinstance(spec, PartitionSpec)
        and not spec.names()
        and not spec.unreduced
        and not spec.reduced
    )
