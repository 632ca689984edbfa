"""Values to devices, between devices, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray, aval_of
from teucer._runtime import backends, shardings
from teucer._runtime.arrays import ArrayImpl, to_numpy
from teucer._xla import arrays as xla

__all__ = ["as_sharding", "host_value", "put", "put_array", "to_sharding"]


def host_value(x: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """A host value as a NumPy array of the dtype of its type.

    Raises OverflowError if a Python integer does not fit.
    """
    if isinstance(x, int) and not isinstance(x, bool):
        try:
            return np.array(x, aval.dtype)
        except OverflowError as err:
            raise OverflowError(f"Python int {x} too large to convert to {aval.dtype}.\n  Values are 32 bits wide unless "
                                "the option jax_enable_x64 is set.") from err
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, np.bool_)
    return np.asarray(x, aval.dtype)


def put(x: Any, device: Any, *, committed: bool | None = None) -> Any:
    """A host value as an array on `device`, or on the default device, where it is not committed, for None."""
    aval = aval_of(x)
    target = backends.target_device() if device is None else device
    value = host_value(x, aval)
    return xla.put(aval.carrier, shardings.single_device_sharding(target), [value], [target],
                   committed=device is not None if committed is None else committed)


def put_array(x: Any, sharding: Any, *, committed: bool = True, copy: bool = False) -> Any:
    """A value, of host or device, as an array laid out by `sharding`."""
    if isinstance(x, Tracer):
        raise TypeError(f"device_put: a traced value cannot be moved here: {x}")
    aval = aval_of(x)
    devices = shardings.devices_of(sharding)
    if isinstance(x, ArrayImpl):
        if x.sharding.is_equivalent_to(sharding, x.ndim):
            return _same_place(x, sharding, committed, copy)
        if x.sharding.num_devices == len(devices) and _same_cut(x.sharding, sharding, x.shape):
            moved = xla.copy_to_devices([x], [shardings.device_list(sharding)], [sharding], copy=copy)[0]
            return _same_place(moved, sharding, committed, False)
        value = x._key_data() if dtypes.is_extended(aval.dtype) else to_numpy(x)
    else:
        value = host_value(x, aval)
    indices = sharding.addressable_devices_indices_map(aval.shape)
    local = [d for d in devices if d in indices]
    parts = [value[indices[d]] for d in local] if len(devices) > 1 else [value]
    return xla.put(aval.carrier, sharding, parts, local, committed=committed)


def _same_place(x: Any, sharding: Any, committed: bool, copy: bool) -> Any:
    if copy:
        x = xla.copy_to_devices([x], [shardings.device_list(sharding)], [sharding], copy=True)[0]
    if x._committed == committed and x.sharding == sharding:
        return x
    parts = xla.shard_arrays(x)
    return xla.assemble(x._carried, sharding, parts, committed=committed)


def _same_cut(old: Any, new: Any, shape: tuple[int, ...]) -> bool:
    """Whether both cut the array into the same parts in the same order."""
    return list(old.devices_indices_map(shape).values()) == list(new.devices_indices_map(shape).values())


def as_sharding(where: Any) -> Any:
    """A device, a sharding or a layout-like object with a sharding, as a sharding."""
    if isinstance(where, xla.Sharding):
        return where
    inner = getattr(where, "sharding", None)
    if inner is not None:
        return inner
    return shardings.single_device_sharding(where)


def to_sharding(x: Any, sharding: Any) -> Any:
    """Bring an argument of an executable to the sharding that it was compiled for; keeps whether it is committed."""
    committed = isinstance(x, ArrayImpl) and x._committed
    return put_array(x, sharding, committed=committed)
