"""Layouts that the compiler chose, as shardings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from teucer._devices.meshes import Mesh
from teucer._devices.shardings import DeviceSharding, NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._xla.arrays import HloSharding
from teucer._xla.client import DeviceList


@final
class GSPMDSharding(DeviceSharding):
    """A layout that the compiler chose, and that no PartitionSpec over the program's mesh can
    express."""

    def __init__(
        self, devices: Any, op_sharding: object, *, memory_kind: str | None = None
    ) -> None:
        super().__init__()
        self._internal_device_list = (
            devices if isinstance(devices, DeviceList) else DeviceList(tuple(devices))
        )
        self._hlo_sharding = (
            op_sharding
            if isinstance(op_sharding, HloSharding)
            else HloSharding.from_proto(op_sharding)
        )
        self._memory_kind = memory_kind
        self._hash = hash((tuple(self._internal_device_list), str(self._hlo_sharding), memory_kind))

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return self._hlo_sharding

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return bool(self._hlo_sharding.is_replicated())

    def _parts(self, ndim: int) -> tuple[int, ...]:
        return (
            (1,) * ndim
            if self.is_fully_replicated
            else tuple(self._hlo_sharding.tile_assignment_dimensions()[:ndim])
        )

    def _places(self, ndim: int) -> Sequence[tuple[int, ...]]:
        n = self.num_devices
        return (
            [(0,) * ndim] * n
            if self.is_fully_replicated
            else [place[:ndim] for place in _tiles(self._hlo_sharding, n)]
        )

    def named(self, ndim: int) -> NamedSharding:
        """The same layout as a NamedSharding, over a mesh made for it: one mesh axis an axis of the
        array, one for copies."""
        devices = tuple(self._internal_device_list)
        dims = self._hlo_sharding.tile_assignment_dimensions()
        order = [devices[i] for i in self._hlo_sharding.tile_assignment_devices()]
        names = tuple(f"axis_{i}" for i in range(len(dims)))
        return NamedSharding(
            Mesh(np.array(order, object).reshape(dims), names), PartitionSpec(*names[:ndim])
        )

    def with_memory_kind(self, kind: str) -> GSPMDSharding:
        return GSPMDSharding(self._internal_device_list, self._hlo_sharding, memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, GSPMDSharding)
            and self._hash == other._hash
            and tuple(self._internal_device_list) == tuple(other._internal_device_list)
            and str(self._hlo_sharding) == str(other._hlo_sharding)
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._hlo_sharding!r}, memory_kind={self.memory_kind})"


def _tiles(hlo_sharding: Any, n: int) -> list[tuple[int, ...]]:
    """For each device its place in the grid of tiles."""
    dims = hlo_sharding.tile_assignment_dimensions()
    order = np.asarray(hlo_sharding.tile_assignment_devices())
    places: list[Any] = [None] * n
    for device, place in zip(order, np.ndindex(*dims), strict=True):
        places[device] = place
    return places


def from_hlo(hlo_sharding: Any, mesh: Any, ndim: int, devices: object) -> Any:
    """The sharding that the compiler chose for an array, as a NamedSharding over `mesh` if one says
    it."""
    if hlo_sharding is None or hlo_sharding.is_replicated():
        return NamedSharding(mesh, PartitionSpec())
    if hlo_sharding.is_unreduced():
        return NamedSharding(mesh, PartitionSpec(unreduced=frozenset(mesh.axis_names)))
    dims = hlo_sharding.tile_assignment_dimensions()
    if hlo_sharding.is_tiled() and len(hlo_sharding.subgroup_types()) <= 1:
        tiles = np.array(_tiles(hlo_sharding, mesh.size)).reshape(*mesh.axis_sizes, len(dims))
        entries: list[list[tuple[int, Any]]] = [[] for _ in dims]
        for i, (name, size) in enumerate(mesh.shape_tuple):
            if size > 1:  # how far the tile moves when the device moves by one along this mesh axis
                step = (
                    tiles[tuple(int(i == j) for j in range(len(mesh.axis_sizes)))]
                    - tiles[(0,) * len(mesh.axis_sizes)]
                )
                for d in np.flatnonzero(step):
                    entries[d].append((int(step[d]), name))
        names = [tuple(n for _, n in sorted(e, key=lambda pair: -pair[0])) for e in entries[:ndim]]
        if len({n for e in names for n in e}) == sum(map(len, names)):
            while names and not names[-1]:
                names.pop()
            found = NamedSharding(mesh, PartitionSpec(*names))
            if list(found._places(ndim)) == [
                tuple(t[:ndim]) for t in tiles.reshape(-1, len(dims)).tolist()
            ]:
                return found
    return GSPMDSharding(devices, hlo_sharding)
