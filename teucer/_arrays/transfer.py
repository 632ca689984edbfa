"""Values to devices, between devices, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl, check_live, to_numpy
from teucer._base import config, dtypes
from teucer._core.provided import provided
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray, aval_of
from teucer._devices import backends, meshes, placement, shardings
from teucer._xla import arrays as xla

if TYPE_CHECKING:
    from teucer._core.typing import Array, HostArray, Value
    from teucer._devices.shardings import Sharding
    from teucer._xla.client import Device


def _canonical(x: Array) -> np.ndarray[Any, Any]:
    return np.asarray(x, aval_of(np.asarray(x)).dtype)


# How values of a Python class become NumPy arrays of canonical dtype. Libraries add classes of
# theirs.
host_rules: dict[type, Callable[[Any], Any]] = {np.ndarray: _canonical}


def host_value(x: Value, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """A host value as a NumPy array of the dtype of its type.

    Raises OverflowError if a Python integer does not fit.
    """
    if isinstance(x, int) and not isinstance(x, bool):
        try:
            return np.array(x, aval.dtype)
        except OverflowError as err:
            raise OverflowError(
                f"Python int {x} too large to convert to {aval.dtype}.\n"
                "  Values are 32 bits wide unless the option jax_enable_x64 is set."
            ) from err
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, np.bool_)
    if type(x) in host_rules and not (type(x) is np.ndarray and is_wide(aval)):
        x = host_rules[type(x)](x)
    return np.asarray(x, aval.dtype)


_AS_IS: Any = contextlib.nullcontext()


def is_wide(aval: ShapedArray) -> bool:
    """Whether the type has 64 bits although such types are off (`explicit_x64_dtypes`)."""
    return aval.dtype in dtypes.NARROWED and not config.enable_x64.value


def put(
    x: Value, device: object, *, committed: bool | None = None, aval: ShapedArray | None = None
) -> Any:
    """A host value as an array on `device`, or on the default device, where it is not committed,
    for None.

    aval: its type, where that is weak.
    """
    if aval is None:
        aval = aval_of(x)
    target = backends.target_device() if device is None else device
    _check_strings(aval, [target])
    value = host_value(x, aval)
    with config.enable_x64(True) if is_wide(aval) else _AS_IS:  # jaxlib narrows what it copies
        return xla.put(
            aval.carrier,
            shardings.single_device_sharding(target),
            [value],
            [target],
            committed=device is not None if committed is None else committed,
        )


provided.fill(put=put)


def _check_strings(aval: ShapedArray, devices: Sequence[Device]) -> None:
    """Raise TypeError for strings on devices other than CPUs, ValueError for no strings."""
    if not dtypes.is_string(aval.dtype):
        return
    if aval.size == 0:
        raise ValueError(
            f"Arrays of strings have at least one element on a device; got shape {aval.shape}."
        )
    if not all(provided.target(d.platform).in_host_memory for d in devices):
        raise TypeError(
            "String arrays can only be sharded to CPU devices. Received unsupported "
            f"device or sharding: {', '.join(map(str, devices))}\n"
            "  jax.device_put(x, jax.devices('cpu')[0]) puts them there."
        )


def put_view(x: HostArray) -> Any:
    """Memory of the host as a committed array of the CPU that shares it. It must be aligned,
    row-major, and never change."""
    client = backends.backends().get("cpu")
    aval = aval_of(x)
    if client is None:  # the option jax_platforms may leave out the CPU
        return put(x, None, aval=aval)
    (device, *_) = client.local_devices()
    return xla.put(
        aval.carrier,
        shardings.single_device_sharding(device),
        [x],
        [device],
        committed=True,
        share=True,
    )


def put_array(x: Value, sharding: Sharding, *, committed: bool = True, copy: bool = False) -> Any:
    """A value, of host or device, as an array laid out by `sharding`.

    Raises ValueError if the sharding does not fit the value's shape.
    """
    if not isinstance(x, ArrayImpl | np.ndarray) and hasattr(x, "__jax_array__"):
        x = x.__jax_array__()
    if isinstance(x, Tracer):
        raise TypeError(f"device_put: a traced value cannot be moved here: {x}")
    aval = shardings.sharded_aval(aval_of(x), sharding)
    if sharding.num_devices > 1:
        shardings.check_shape(sharding, aval.shape)
    if isinstance(x, ArrayImpl):
        check_live(x)
        if x.sharding.is_equivalent_to(sharding, x.ndim):
            return _same_place(x, sharding, committed, copy)
        here = x.sharding.is_fully_addressable and sharding.is_fully_addressable
        if here and same_cut(x.sharding, sharding, x.shape):
            moved = xla.copy_to_devices(
                [x], [shardings.device_list(sharding)], [sharding], copy=copy
            )[0]
            return _same_place(moved, sharding, committed, False)
        strings = dtypes.is_string(aval.dtype)
        if x.sharding.num_devices == 1 and sharding.is_fully_replicated and not strings:
            own = [
                d
                for d in shardings.devices_of(sharding)
                if d.process_index == d.client.process_index()
            ]
            # A part that is x's own memory would change once a program that is given x reuses it.
            (home,), apart = x.sharding.device_set, x
            if home in own:
                (apart,) = xla.copy_to_devices(
                    [x], [shardings.device_list(x.sharding)], [x.sharding], copy=True
                )
            parts = [apart if d == home else x for d in own]
            return xla.put(aval.carrier, sharding, parts, own, committed=committed)
        value = x._key_data() if dtypes.is_extended(aval.dtype) else to_numpy(x)
    else:
        value = host_value(x, aval)
    devices = shardings.devices_of(sharding)
    _check_strings(aval, devices)
    if len(devices) == 1:
        return xla.put(aval.carrier, sharding, [value], devices, committed=committed)
    if copy or not isinstance(x, ArrayImpl):
        value = value.copy()  # the shards are used in place, and the caller may write into x
    return from_parts(aval, sharding, lambda index: value[index], committed)


def from_parts(
    aval: ShapedArray,
    sharding: Sharding,
    part: Callable[[tuple[slice, ...]], HostArray],
    committed: bool = True,
) -> Any:
    """An array of host values: `part(index)` for each device of this process; equal indices are
    asked for once."""
    _check_strings(aval, shardings.devices_of(sharding))
    found: dict[str, Any] = {}
    parts = []
    indices = sharding.addressable_devices_indices_map(aval.shape)
    beyond = (1,) * (
        len(aval.carrier.shape) - aval.physical.ndim
    )  # the axes by which keys of other generators are told apart
    for index in indices.values():
        key = repr(index)  # slices are not hashable
        if key not in found:
            value = np.asarray(part(index), order="C")
            found[key] = value.reshape(value.shape + beyond) if beyond else value
        parts.append(found[key])
    if sharding._sums() or dtypes.is_string(aval.dtype):
        return _one_by_one(aval, sharding, dict(zip(indices, parts, strict=True)), committed)
    return xla.put(aval.carrier, sharding, parts, list(indices), committed=committed)


def _one_by_one(
    aval: ShapedArray, sharding: Sharding, values: dict[Device, HostArray], committed: bool
) -> Any:
    """An array whose parts are put one by one: jaxlib takes devices with one index to hold the
    same.

    Where parts are still to be summed the first device has the value, the others nothing to add to
    it. Strings that several devices hold jaxlib would put on one of them.
    """
    check_no_extreme(sharding)
    parts = []
    devices = shardings.devices_of(sharding)
    for device, more in zip(devices, sharding._sums() or (False,) * len(devices), strict=True):
        if device in values:
            value = np.zeros_like(values[device]) if more else values[device]
            own = ShapedArray(value.shape, value.dtype)
            parts.append(
                xla.put(
                    own, shardings.single_device_sharding(device), [value], [device], committed=True
                )
            )
    return xla.assemble(aval.carrier, sharding, parts, committed=committed)


def check_no_extreme(sharding: Sharding) -> None:
    """Raise NotImplementedError for a sharding by which devices hold parts of a maximum or minimum:
    no array is made with it."""
    for kind in sharding._sums():
        if isinstance(kind, str):
            raise NotImplementedError(
                f"An array of which the {kind} is still to be taken over mesh axes is not made of "
                f"a value.\n    sharding: {sharding}\n  lax.reduce_{kind}(x, axes, "
                "out_sharding=...) gives one, and jax.make_array_from_single_device_arrays makes "
                "one of its parts."
            )


def _same_place(x: ArrayImpl, sharding: Sharding, committed: bool, copy: bool) -> Any:
    if copy:
        x = xla.copy_to_devices([x], [shardings.device_list(sharding)], [sharding], copy=True)[0]
    aval = shardings.sharded_aval(aval_of(x), sharding)
    if x._committed == committed and x.sharding == sharding and aval is aval_of(x):
        return x
    return xla.assemble(aval.carrier, sharding, xla.shard_arrays(x), committed=committed)


def same_cut(old: Sharding, new: Sharding, shape: tuple[int, ...]) -> bool:
    """Whether both cut the array into the same parts in the same order."""
    same = old.num_devices == new.num_devices and old._sums() == new._sums()
    return same and list(old.devices_indices_map(shape).values()) == list(
        new.devices_indices_map(shape).values()
    )


def as_sharding(where: object) -> Any:
    """A device, a sharding, a spec over the mesh in force or a layout-like object with a sharding,
    as a sharding."""
    where = shardings.as_named(
        placement.with_devices(where),
        ValueError(
            "Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put"
        ),
    )
    if isinstance(where, xla.Sharding):
        mesh = getattr(where, "mesh", None)
        if isinstance(mesh, meshes.AbstractMesh):
            raise ValueError(
                f"device_put: the sharding names no devices: {where}.\n"
                "  Give a NamedSharding over a jax.sharding.Mesh, or call within `jax.set_mesh` "
                "of a mesh of this shape."
            )
        return where
    inner = getattr(where, "sharding", None)
    if inner is not None:
        return inner
    return shardings.single_device_sharding(where)


def to_sharding(x: Value, sharding: object) -> Any:
    """Bring an argument of an executable to the sharding that it was compiled for; keeps whether it
    is committed."""
    committed = isinstance(x, ArrayImpl) and x._committed
    return put_array(x, sharding, committed=committed)
