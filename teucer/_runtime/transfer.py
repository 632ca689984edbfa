"""Values to devices, between devices, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray, aval_of
from teucer._runtime import backends, meshes, shardings
from teucer._runtime.arrays import ArrayImpl, to_numpy
from teucer._runtime.formats import Format
from teucer._trees import pytrees
from teucer._xla import arrays as xla

__all__ = ["as_sharding", "host_rules", "host_value", "make_array_from_callback", "make_array_from_process_local_data",
           "make_array_from_single_device_arrays", "put", "put_array", "to_sharding"]


def _canonical(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x, aval_of(np.asarray(x)).dtype)


# How values of a Python class become NumPy arrays of canonical dtype. Libraries add classes of theirs.
host_rules: dict[type, Callable[[Any], Any]] = {np.ndarray: _canonical}


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
    if type(x) in host_rules:
        x = host_rules[type(x)](x)
    return np.asarray(x, aval.dtype)


def put(x: Any, device: Any, *, committed: bool | None = None, aval: ShapedArray | None = None) -> Any:
    """A host value as an array on `device`, or on the default device, where it is not committed, for None.

    aval: its type, where that is weak.
    """
    if aval is None:
        aval = aval_of(x)
    target = backends.target_device() if device is None else device
    value = host_value(x, aval)
    return xla.put(aval.carrier, shardings.single_device_sharding(target), [value], [target],
                   committed=device is not None if committed is None else committed)


def put_array(x: Any, sharding: Any, *, committed: bool = True, copy: bool = False) -> Any:
    """A value, of host or device, as an array laid out by `sharding`.

    Raises ValueError if the sharding does not fit the value's shape.
    """
    if isinstance(x, Tracer):
        raise TypeError(f"device_put: a traced value cannot be moved here: {x}")
    aval = shardings.sharded_aval(aval_of(x), sharding)
    if sharding.num_devices > 1:
        shardings.check_shape(sharding, aval.shape)
    if isinstance(x, ArrayImpl):
        if x.sharding.is_equivalent_to(sharding, x.ndim):
            return _same_place(x, sharding, committed, copy)
        if _same_cut(x.sharding, sharding, x.shape):
            moved = xla.copy_to_devices([x], [shardings.device_list(sharding)], [sharding], copy=copy)[0]
            return _same_place(moved, sharding, committed, False)
        if x.sharding.num_devices == 1 and sharding.is_fully_replicated:
            devices = shardings.devices_of(sharding)
            return xla.put(aval.carrier, sharding, [x] * len(devices), devices, committed=committed)
        value = x._key_data() if dtypes.is_extended(aval.dtype) else to_numpy(x)
    else:
        value = host_value(x, aval)
    devices = shardings.devices_of(sharding)
    if len(devices) == 1:
        return xla.put(aval.carrier, sharding, [value], devices, committed=committed)
    if not isinstance(x, ArrayImpl):
        value = value.copy()  # the shards are used in place, and the caller may write into x
    return _from_parts(aval, sharding, lambda index: value[index], committed)


def _from_parts(aval: ShapedArray, sharding: Any, part: Callable[[tuple[slice, ...]], Any], committed: bool = True) -> Any:
    """An array of host values: `part(index)` for each device of this process; equal indices are asked for once."""
    found: dict[str, Any] = {}
    parts = []
    indices = sharding.addressable_devices_indices_map(aval.shape)
    for index in indices.values():
        key = repr(index)  # slices are not hashable
        if key not in found:
            found[key] = np.ascontiguousarray(part(index))
        parts.append(found[key])
    return xla.put(aval.carrier, sharding, parts, list(indices), committed=committed)


def _same_place(x: Any, sharding: Any, committed: bool, copy: bool) -> Any:
    if copy:
        x = xla.copy_to_devices([x], [shardings.device_list(sharding)], [sharding], copy=True)[0]
    if x._committed == committed and x.sharding == sharding:
        return x
    aval = shardings.sharded_aval(aval_of(x), sharding)
    return xla.assemble(aval.carrier, sharding, xla.shard_arrays(x), committed=committed)


def _same_cut(old: Any, new: Any, shape: tuple[int, ...]) -> bool:
    """Whether both cut the array into the same parts in the same order."""
    return old.num_devices == new.num_devices and list(old.devices_indices_map(shape).values()) == list(
        new.devices_indices_map(shape).values())


def as_sharding(where: Any) -> Any:
    """A device, a sharding, a spec over the mesh in force or a layout-like object with a sharding, as a sharding."""
    where = shardings.as_named(where, ValueError(
        "Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put"))
    if isinstance(where, xla.Sharding):
        mesh = getattr(where, "mesh", None)
        if isinstance(mesh, meshes.AbstractMesh):
            raise ValueError(f"device_put: the sharding names no devices: {where}.\n  Give a NamedSharding over a "
                             "jax.sharding.Mesh.")
        return where
    inner = getattr(where, "sharding", None)
    if inner is not None:
        return inner
    return shardings.single_device_sharding(where)


def to_sharding(x: Any, sharding: Any) -> Any:
    """Bring an argument of an executable to the sharding that it was compiled for; keeps whether it is committed."""
    committed = isinstance(x, ArrayImpl) and x._committed
    return put_array(x, sharding, committed=committed)


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None) -> Any:
    """An array of its parts: one array on each device of this process, in the order of the sharding's devices.

    shape: of the whole. arrays: T[sharding.shard_shape(shape)] each, on one device. dtype: needed only if there are no arrays.
    Raises ValueError if numbers, shapes or devices do not agree with the sharding, TypeError for what is no array.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
    >>> make_array_from_single_device_arrays((2,), sharding, [jax.device_put(jnp.arange(2), jax.devices()[0])])
    Array([0, 1], dtype=int32)
    """
    shape = tuple(shape)
    if not isinstance(arrays, Sequence):
        raise TypeError("Expected `arrays` to be a sequence (list, tuple, etc), got "
                        f"{type(arrays)}: make_array_from_single_device_arrays takes one array a device.")
    bad = [type(a) for a in arrays if not isinstance(a, ArrayImpl)]
    if bad:
        raise TypeError(f"make_array_from_single_device_arrays: the arrays must be jax.Arrays, got {bad[0]}.\n  "
                        "Put each on its device with jax.device_put.")
    if not arrays and dtype is None:
        raise ValueError("If the Array has no addressable shards, `dtype` must be provided via the `dtype` argument to "
                         "`jax.make_array_from_single_device_arrays`.")
    aval = ShapedArray(shape, arrays[0].dtype if arrays else dtype)
    local = [d for d in shardings.devices_of(sharding) if d.process_index == d.client.process_index()]
    by_device = {next(iter(a.sharding.device_set)): a for a in arrays}
    if set(by_device) != set(local) or len(arrays) != len(local):
        raise ValueError(f"Addressable devices and per-device arrays devices do not match. Sharding contains devices "
                         f"{sorted(d.id for d in local)}, the arrays are on {sorted(d.id for d in by_device)}.")
    part = sharding.shard_shape(shape)
    for a in arrays:
        if a.shape != part or a.dtype != aval.dtype:
            raise ValueError(f"Expected shard shape {part} and dtype {aval.dtype} doesn't match the single device array shape "
                             f"{a.shape} and dtype {a.dtype}. Shape of Array is {aval.str_short()} with sharding {sharding}")
    parts = [xla.shard_arrays(by_device[d])[0] for d in local]
    return xla.assemble(shardings.sharded_aval(aval, sharding).carrier, sharding, parts, committed=True)


def make_array_from_callback(shape: Sequence[int], sharding: Any, data_callback: Callable[..., Any], dtype: Any = None) -> Any:
    """An array whose parts a function gives: data_callback(index) -> T[part], for the index of each part held here.

    shape: of the whole. index: a tuple of slices into it. dtype: by default that of the parts.
    Raises ValueError for a part of another shape.

    >>> import teucer as jax, numpy as np
    >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
    >>> make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
    Array([0, 1, 2, 3], dtype=int32)
    """
    shape = tuple(shape)
    sharding = _by_rows("make_array_from_callback", sharding)
    expected = shardings.check_shape(sharding, shape)
    first = next(iter(sharding.addressable_devices_indices_map(shape).values()), None)
    if dtype is None:
        if first is None:
            raise ValueError("If the Array has no addressable shards, `dtype` must be provided via the `dtype` argument to "
                             "`jax.make_array_from_callback`.")
        kept = data_callback(first)
        dtype = aval_of(kept).dtype
    else:
        kept, dtype = None, dtypes.canonicalize_dtype(dtype)

    def part(index: tuple[slice, ...]) -> Any:
        value = data_callback(index) if kept is None or index != first else kept
        value = np.array(value, dtype)  # a copy: the shards are used in place
        if value.shape != expected:
            raise ValueError(f"make_array_from_callback: the callback gave a part of shape {value.shape} for index {index}; the "
                             f"parts of {shape} have shape {expected}.")
        return value

    return _from_parts(shardings.sharded_aval(ShapedArray(shape, dtype), sharding), sharding, part)


def _by_rows(name: str, where: Any) -> Any:
    """Where parts go that a function puts on devices: a sharding.

    Raises ValueError for a Format with a layout.
    """
    if isinstance(where, Format) and where.layout is not None:
        raise ValueError(f"{name}: parts are put on devices row by row, and cannot be laid out as {where}.\n"
                         "  Give its sharding here, and the Format to jax.device_put, with the array.")
    return as_sharding(where)


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Arrays of the values that each process has: with one process, `device_put` of the whole.

    sharding: a sharding or a tree prefix of them. local_data: a pytree of arrays. global_shape: a shape, or a tree of them.
    Raises ValueError if the data do not have the shape of what this process holds, NotImplementedError with several processes.

    >>> import teucer as jax, numpy as np
    >>> make_array_from_process_local_data(jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x")), np.arange(2))
    Array([0, 1], dtype=int32)
    """
    if backends.process_count() > 1:
        raise NotImplementedError("make_array_from_process_local_data: several processes are not implemented; use "
                                  "jax.make_array_from_single_device_arrays.")
    leaves, tree = pytrees.tree_flatten(local_data)
    placed = pytrees.flatten_axes("make_array_from_process_local_data sharding", tree, sharding)
    if global_shape is None or (isinstance(global_shape, tuple) and all(isinstance(d, int) for d in global_shape)):
        shapes = [global_shape] * len(leaves)
    else:
        shapes = tree.flatten_up_to(global_shape)
    for x, shape in zip(leaves, shapes, strict=True):
        if shape is not None and tuple(shape) != np.shape(x):
            raise ValueError(f"make_array_from_process_local_data: this is the only process, so its data are the whole; they have "
                             f"shape {np.shape(x)}, and global_shape is {tuple(shape)}.")
    return tree.unflatten([put_array(x, _by_rows("make_array_from_process_local_data", where))
                           for x, where in zip(leaves, placed, strict=True)])
