"""Arrays cut otherwise, or brought to other devices, by devices that send parts to one another.

The host sees none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes
from teucer._core.debug_info import DebugInfo
from teucer._core.provided import provided
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._devices.chosen import GSPMDSharding
from teucer._devices.meshes import Mesh
from teucer._devices.placement import Placement, placement_of, spread
from teucer._devices.shardings import (
    NamedSharding,
    SingleDeviceSharding,
    check_shape,
    devices_of,
    sharded_aval,
)
from teucer._devices.specs import PartitionSpec
from teucer._programs.compile import program_for
from teucer._programs.job import Job
from teucer._programs.run import execute
from teucer._xla import arrays as xla

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.shardings import Sharding
    from teucer._xla.client import Device


Bounds = tuple[tuple[int, int], ...]
"""Where a part begins and ends along each axis."""


def exchanged(x: ArrayImpl, sharding: Sharding, copy: bool = False) -> Any:
    """A committed array laid out by another sharding, whose devices need parts that they do not
    have.

    copy: whether no device may share its part with x.
    None where no exchange is needed, or the host has to do it (`transfer.put_array`).
    Raises ValueError if the sharding does not fit the array's shape.
    """
    old = x._sharding
    if not x._committed or x.is_deleted() or not is_valid_type(x):
        return None
    check_shape(sharding, x.shape)
    same_devices = old._internal_device_list == sharding._internal_device_list
    if not same_devices and not (old.is_fully_addressable and sharding.is_fully_addressable):
        return _between_processes(x, sharding)
    if transfer.same_cut(old, sharding, x.shape):
        return (
            _sent(x, sharding, copy) if old.num_devices > 1 and old.is_fully_addressable else None
        )
    if old.num_devices == 1 and sharding.is_fully_replicated:
        return None
    if same_devices:
        if old._sums() != sharding._sums():
            transfer.check_no_extreme(sharding)
        return _by_program(x, sharding) if isinstance(sharding, NamedSharding) else None
    if old.num_devices == sharding.num_devices and isinstance(sharding, NamedSharding):
        mesh = sharding.mesh.update(
            devices=np.array(devices_of(old), object).reshape(sharding.mesh.axis_sizes)
        )
        return _sent(_by_program(x, NamedSharding(mesh, sharding.spec, old._memory_kind)), sharding)
    if old._sums() or sharding._sums() or dtypes.is_extended(x.dtype):
        return None
    if target_of(devices_of(old)[0]).in_host_memory:
        return None  # the host reads the parts where they are
    return _by_parts(x, sharding)


def _between_processes(x: ArrayImpl, sharding: Sharding) -> Any:
    """x, over the devices of several processes, on others of these, or on the same in another
    order. All processes that hold a part call.

    None for an array of one device. Raises ValueError for a process that is to hold a part and has
    none, and for a single device.
    """
    old = x._sharding
    if old.num_devices == 1:
        return _sent_on(x, sharding) if sharding.num_devices == 1 else None
    if isinstance(sharding, SingleDeviceSharding):
        raise ValueError(
            "When the second argument to `device_put` is a Device, the first argument must be a "
            "fully addressable array or a non-addressable array with a single device sharding. "
            f"Got value with devices {x.devices()}\n  x: {typeof(x).str_short()}. Each process "
            "reads all of it after jax.device_put(x, NamedSharding(mesh, P()))."
        )
    before, after = devices_of(old), devices_of(sharding)
    if set(before) == set(after) and isinstance(sharding, NamedSharding) and not old._sums():
        return _by_program(_renumbered(x, sharding.mesh), sharding)
    missing = sorted({d.process_index for d in after} - {d.process_index for d in before})
    if missing:
        raise ValueError(
            f"device_put: processes {missing} hold no part of x: {typeof(x).str_short()}, over the "
            f"devices of processes {sorted({d.process_index for d in before})}, and cannot be sent "
            "one.\n  jax.experimental.multihost_utils.process_allgather(x, tiled=True) and "
            "broadcast_one_to_all bring values to all processes."
        )
    whole = everywhere(x)
    part, everything = whole.addressable_shards[0].data, _bounds((slice(None),) * x.ndim, x.shape)
    parts = [
        transfer.put_array(
            _cut(part, everything, _bounds(index, x.shape)),
            SingleDeviceSharding(device, memory_kind=sharding._memory_kind),
        )
        for device, index in sharding.addressable_devices_indices_map(x.shape).items()
    ]
    aval = sharded_aval(typeof(x), sharding)
    return xla.assemble(aval.carrier, sharding, parts, committed=True)


def _sent_on(x: ArrayImpl, sharding: Sharding) -> Any:
    """An array of one device on one of another process, if the runtime can send it."""
    (old,), (new,) = devices_of(x._sharding), devices_of(sharding)
    if old.process_index != new.process_index and target_of(new).in_host_memory:
        raise ValueError(
            f"device_put: the backend {new.platform} does not support cross-host device "
            f"transfers, from {old} to {new}.\n  Give it as an array over both devices, "
            "NamedSharding(mesh, P()), or send values with "
            "jax.experimental.multihost_utils.broadcast_one_to_all."
        )
    return None


def everywhere(x: ArrayImpl) -> Any:
    """x, whole on each of its devices."""
    old = x._sharding
    mesh = (
        old.mesh
        if isinstance(old, NamedSharding)
        else Mesh(np.array(devices_of(old), object), ("devices",))
    )
    return _by_program(x, NamedSharding(mesh, PartitionSpec()))


def _renumbered(x: ArrayImpl, mesh: Mesh) -> Any:
    """x where it is, but for a program that numbers the same devices as a mesh in another order
    does."""
    old, devices = x._sharding, mesh.flat_devices
    own = [d for d in devices_of(old) if d.process_index == d.client.process_index()]
    parts = dict(zip(own, xla.shard_arrays(x), strict=True))
    tiles = old._to_xla_hlo_sharding(x.ndim)
    sharding: Sharding = NamedSharding(mesh, PartitionSpec(), old._memory_kind)
    if not tiles.is_replicated():
        before, numbers = devices_of(old), {d: i for i, d in enumerate(devices)}
        order = [numbers[before[i]] for i in tiles.tile_assignment_devices()]
        proto = tiles.to_proto()
        proto.iota_reshape_dims, proto.iota_transpose_perm = [], []
        proto.tile_assignment_devices = order
        sharding = GSPMDSharding(
            devices, xla.HloSharding.from_proto(proto), memory_kind=old._memory_kind
        )
    aval = ShapedArray(x.shape, x.dtype, x.weak_type)
    return xla.assemble(
        aval.carrier, sharding, [parts[d] for d in devices if d in parts], committed=True
    )


def _sent(x: ArrayImpl, sharding: object, copy: bool = False) -> Any:
    """x with each part sent to another device. Guards are for arrays that leave their devices, not
    for parts that change places on them."""
    stays = set(devices_of(x._sharding)) == set(devices_of(sharding))
    with config.transfer_guard_device_to_device("allow") if stays else contextlib.nullcontext():
        return transfer.put_array(x, sharding, copy=copy)


def target_of(device: Device) -> Any:
    return provided.target(device.platform)


def _by_program(x: ArrayImpl, sharding: object) -> Any:
    """x on the same devices, divided in another way."""
    return _run(lambda y: (y,), [x], spread([x], None, [sharding], anywhere=True))


def _by_parts(x: ArrayImpl, sharding: Sharding) -> Any:
    """x on other devices. Each part is assembled at its destination from pieces that other devices
    send."""
    shape, parts = x.shape, []
    held = {_bounds(shard.index, shape): shard.data for shard in x.addressable_shards}
    for device, index in sharding.devices_indices_map(shape).items():
        wanted, place = (
            _bounds(index, shape),
            SingleDeviceSharding(device, memory_kind=sharding._memory_kind),
        )
        pieces = [
            (transfer.put_array(_cut(data, own, common), place), common)
            for own, data in held.items()
            if (common := _overlap(own, wanted)) is not None
        ]
        parts.append(
            _joined([piece for piece, _ in pieces], [common for _, common in pieces], wanted)
        )
    aval = sharded_aval(typeof(x), sharding)
    return (
        parts[0]
        if sharding.num_devices == 1
        else xla.assemble(aval.carrier, sharding, parts, committed=True)
    )


def _bounds(index: Sequence[slice], shape: Sequence[int]) -> Bounds:
    return tuple([s.indices(size)[:2] for s, size in zip(index, shape, strict=True)])


def _overlap(own: Bounds, wanted: Bounds) -> Bounds | None:
    common = tuple([(max(a, c), min(b, d)) for (a, b), (c, d) in zip(own, wanted, strict=True)])
    return (
        common
        if all(
            lo < hi or start == end for (lo, hi), (start, end) in zip(common, wanted, strict=True)
        )
        else None
    )


def _cut(part: ArrayImpl, own: Bounds, common: Bounds) -> Any:
    """The common elements of a part, which begins where `own` says; on its device."""
    if own == common:
        return part
    starts = [
        np.asarray(lo - start, np.int32) for (lo, _), (start, _) in zip(common, own, strict=True)
    ]
    sizes = [hi - lo for lo, hi in common]
    return _run(
        lambda y, *starts: (provided.buffers.window(y, starts, sizes),),
        [part, *starts],
        _placement(part),
    )


def _joined(pieces: Sequence[ArrayImpl], places: Sequence[Bounds], wanted: Bounds) -> Any:
    """A part of pieces that lie on its device. places: where each stands."""
    if len(pieces) == 1:
        return pieces[0]
    whole = ShapedArray([hi - lo for lo, hi in wanted], pieces[0].dtype)

    def join(*pieces: Value) -> tuple[Any]:
        y = provided.zeros(whole)
        for piece, bounds in zip(pieces, places, strict=True):
            y = provided.buffers.put(
                y,
                piece,
                [np.int32(lo - start) for (lo, _), (start, _) in zip(bounds, wanted, strict=True)],
            )
        return (y,)

    return _run(join, pieces, _placement(pieces[0]))


def _placement(x: ArrayImpl) -> Placement:
    return placement_of([x], x._sharding._device)


def _run(f: Callable[..., tuple[Any]], args: Sequence[Value], placement: Placement) -> Any:
    """The result of a function, as a program for a placement."""
    jaxpr, _ = stage_flat(f, [typeof(x) for x in args], DebugInfo("device_put"))
    return execute(
        program_for(Job(jaxpr, "device_put", placement, (False,) * len(args), keep_unused=True)),
        args,
        checked=False,
    )[0]
