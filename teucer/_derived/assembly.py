"""Arrays made of their parts: one array a device, what a function gives, what each process has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.formats import Format, Layout
from teucer._base import dtypes
from teucer._core.types import ShapedArray, aval_of
from teucer._derived.moves import in_layout
from teucer._devices import backends, shardings
from teucer._trees import pytrees
from teucer._xla import arrays as xla

__all__ = ["make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays"]


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

    shape: of the whole. sharding: a Sharding, or a Format, with a layout in memory. index: a tuple of slices into the whole.
    dtype: by default that of the parts.
    Raises ValueError for a part of another shape, TypeError for a Format without sharding or with Layout.AUTO.

    >>> import teucer as jax, numpy as np
    >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
    >>> make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
    Array([0, 1, 2, 3], dtype=int32)
    """
    shape = tuple(shape)
    sharding, layout = _placed("make_array_from_callback", sharding)
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

    made = transfer.from_parts(shardings.sharded_aval(ShapedArray(shape, dtype), sharding), sharding, part)
    return made if layout is None else in_layout(made, layout, "make_array_from_callback results")


def _placed(name: str, where: Any) -> tuple[Any, Layout | None]:
    """A sharding, or that of a Format, and its layout.

    Raises TypeError for a Format without one, or with a layout that is left to the compiler.
    """
    if not isinstance(where, Format):
        return transfer.as_sharding(where), None
    if not isinstance(where.layout, Layout | None):
        raise TypeError(f"`Layout.AUTO` cannot be used in place of a device-local layout when calling `jax.{name}`. Got {where}")
    if where.sharding is None:
        raise TypeError(f"{name}: the Format has no sharding: {where}.")
    return where.sharding, where.layout


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Arrays of the values that each process has: with one process, `device_put` of the whole.

    sharding: a Sharding or a Format, or a tree prefix of them. local_data: a pytree of arrays. global_shape: a shape, or a tree of
    shapes.
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
    made = []
    for x, where in zip(leaves, placed, strict=True):
        own, layout = _placed("make_array_from_process_local_data", where)
        out = transfer.put_array(x, own)
        made.append(out if layout is None else in_layout(out, layout, "make_array_from_process_local_data results"))
    return tree.unflatten(made)
