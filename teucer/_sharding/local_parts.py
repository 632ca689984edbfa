"""Parts of arrays that lie over the devices of several processes, for `pmap`.

Two operations of the host, each the transpose of the other. `to_whole` takes the part of each
process along one axis; `to_part` gives it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._core import array_ops
from teucer._core.types import ShapedArray
from teucer._derived.assembly import make_array_from_single_device_arrays
from teucer._derived.moves import device_put
from teucer._devices.meshes import Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer.lax._structure import Linear

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value


def sharding_along(mesh: Mesh, axis: int | None) -> NamedSharding:
    """An array over the only axis of a mesh: along an axis of its own, or whole on each device."""
    (name,) = mesh.axis_names
    return NamedSharding(
        mesh, PartitionSpec() if axis is None else PartitionSpec(*(None,) * axis, name)
    )


def part_of(mesh: Mesh) -> Mesh:
    """The devices of this process, in the order of the mesh."""
    own = [d for d in mesh.flat_devices if d.process_index == d.client.process_index()]
    return Mesh(np.array(own), mesh.axis_names, mesh.axis_types)


class _Moves(Linear):
    """x moved from one process's view to all processes', or back; axis: the axis that the devices
    divide, None for a value that all hold."""

    __slots__ = ()

    def _of(self, x: ShapedArray, axis: int | None, size: int) -> Any:
        if axis is None:
            return (x,)
        return (x.update(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :])),)

    def lower(self, ctx: object, *xs: object, mesh: Mesh, axis: int | None) -> Any:
        raise NotImplementedError(
            "pmap over the devices of several processes cannot be traced by jit: each process "
            "gives its part.\n  Leave jit out, since pmap compiles; or use jax.shard_map on "
            "arrays over all devices (jax.make_array_from_process_local_data)."
        )


@final
class ToWhole(_Moves):
    """The array over all devices whose part of this process is x."""

    __slots__ = ()
    name = "to_whole"

    def types(self, x: ShapedArray, *, mesh: Mesh, axis: int | None) -> Any:
        return self._of(x, axis, mesh.size)

    def evaluate(self, x: Value, *, mesh: Mesh, axis: int | None) -> tuple[Any]:
        own = sharding_along(part_of(mesh), axis)
        if isinstance(x, ArrayImpl) and x.committed and x.sharding.is_equivalent_to(own, x.ndim):
            part = x
        else:
            part = device_put(x, own)
        return (_assembled(part, mesh, axis, *self.types(part.aval, mesh=mesh, axis=axis)),)

    def transpose(self, cts: Sequence[Array], x: object, *, mesh: Mesh, axis: int | None) -> Any:
        return to_part_p.call(array_ops.instantiate(cts[0]), mesh=mesh, axis=axis)


@final
class ToPart(_Moves):
    """This process's part of an array over all devices."""

    __slots__ = ()
    name = "to_part"

    def types(self, x: ShapedArray, *, mesh: Mesh, axis: int | None) -> Any:
        return self._of(x, axis, part_of(mesh).size)

    def evaluate(self, x: ArrayImpl, *, mesh: Mesh, axis: int | None) -> tuple[Any]:
        x = transfer.to_sharding(x, sharding_along(mesh, axis))
        return (_assembled(x, part_of(mesh), axis, *self.types(x.aval, mesh=mesh, axis=axis)),)

    def transpose(self, cts: Sequence[Array], x: object, *, mesh: Mesh, axis: int | None) -> Any:
        return to_whole_p.call(array_ops.instantiate(cts[0]), mesh=mesh, axis=axis)


def _assembled(x: ArrayImpl, mesh: Mesh, axis: int | None, aval: ShapedArray) -> Any:
    """The parts of x that are here as an array over another mesh."""
    return make_array_from_single_device_arrays(
        aval.shape,
        sharding_along(mesh, axis),
        [shard.data for shard in x.addressable_shards],
        dtype=aval.dtype,
    )


to_whole_p = ToWhole()
to_part_p = ToPart()
