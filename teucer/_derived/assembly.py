"""Arrays made of their parts: one array a device, what a function gives, what each process has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.formats import Format, Layout
from teucer._base import dtypes
from teucer._core.types import ShapedArray, aval_of
from teucer._derived.moves import in_layout
from teucer._devices import shardings
from teucer._trees import pytrees
from teucer._xla import arrays as xla

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike, Value
    from teucer._devices.shardings import Sharding

__all__ = [
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding,
    arrays: Sequence[Array],
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """An array of its parts: one array on each device of this process, in the order of the
    sharding's devices.

    shape: of the whole. arrays: T[sharding.shard_shape(shape)] each, on one device. dtype: needed
    only if there are no arrays. Raises ValueError if numbers, shapes or devices do not agree with
    the sharding, TypeError for what is no array.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
    >>> make_array_from_single_device_arrays((2,), sharding,
    ...     [jax.device_put(jnp.arange(2), jax.devices()[0])])
    Array([0, 1], dtype=int32)
    """
    shape = tuple(shape)
    if not isinstance(arrays, Sequence):
        raise TypeError(
            "Expected `arrays` to be a sequence (list, tuple, etc), got "
            f"{type(arrays)}: make_array_from_single_device_arrays takes one array a device."
        )
    bad = [type(a) for a in arrays if not isinstance(a, ArrayImpl)]
    if bad:
        raise TypeError(
            f"make_array_from_single_device_arrays: the arrays must be jax.Arrays, got {bad[0]}.\n"
            "  Put each on its device with jax.device_put."
        )
    if not arrays and dtype is None:
        raise ValueError(
            "If the Array has no addressable shards, `dtype` must be provided via the `dtype` "
            "argument to `jax.make_array_from_single_device_arrays`."
        )
    aval = ShapedArray(shape, dtypes.as_dtype(arrays[0].dtype if arrays else dtype))
    local = [
        d for d in shardings.devices_of(sharding) if d.process_index == d.client.process_index()
    ]
    by_device = {next(iter(a.sharding.device_set)): a for a in arrays}
    if set(by_device) != set(local) or len(arrays) != len(local):
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match. Sharding contains "
            f"devices {sorted(d.id for d in local)}, the arrays are on "
            f"{sorted(d.id for d in by_device)}."
        )
    part = sharding.shard_shape(shape)
    for a in arrays:
        if a.shape != part or a.dtype != aval.dtype:
            raise ValueError(
                f"Expected shard shape {part} and dtype {aval.dtype} doesn't match the single "
                f"device array shape {a.shape} and dtype {a.dtype}. Shape of Array is "
                f"{aval.str_short()} with sharding {sharding}"
            )
    parts = [xla.shard_arrays(by_device[d])[0] for d in local]
    return xla.assemble(
        shardings.sharded_aval(aval, sharding).carrier, sharding, parts, committed=True
    )


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding | Format,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: DTypeLike | None = None,
) -> Any:
    """An array whose parts a function gives: data_callback(index) -> T[part], for the index of each
    part held here.

    shape: of the whole. sharding: a Sharding, or a Format, with a layout in memory. index: a tuple
    of slices into the whole.
    dtype: by default that of the parts.
    Raises ValueError for a part of another shape, TypeError for a Format without sharding or with
    Layout.AUTO.

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
            raise ValueError(
                "If the Array has no addressable shards, `dtype` must be provided via the `dtype` "
                "argument to `jax.make_array_from_callback`."
            )
        kept = data_callback(first)
        dtype = aval_of(kept).dtype
    else:
        kept, dtype = None, dtypes.canonicalize_dtype(dtype)

    def part(index: tuple[slice, ...]) -> Any:
        value = data_callback(index) if kept is None or index != first else kept
        if np.shape(value) != expected:
            raise ValueError(
                f"make_array_from_callback: the callback gave a part of shape {np.shape(value)} "
                f"for index {index}; the parts of {shape} have shape {expected}."
            )
        if dtypes.is_extended(dtype):
            return np.array(value._key_data())
        return np.array(value, dtype)  # a copy: the shards are used in place

    made = transfer.from_parts(
        shardings.sharded_aval(ShapedArray(shape, dtype), sharding), sharding, part
    )
    return made if layout is None else in_layout(made, layout, "make_array_from_callback results")


def _placed(name: str, where: object) -> tuple[Any, Layout | None]:
    """A sharding, or that of a Format, and its layout.

    Raises TypeError for a Format without one, or with a layout that is left to the compiler.
    """
    if not isinstance(where, Format):
        return transfer.as_sharding(where), None
    if not isinstance(where.layout, Layout | None):
        raise TypeError(
            "`Layout.AUTO` cannot be used in place of a device-local layout when calling "
            f"`jax.{name}`. Got {where}"
        )
    if where.sharding is None:
        raise TypeError(f"{name}: the Format has no sharding: {where}.")
    return where.sharding, where.layout


def make_array_from_process_local_data(
    sharding: object, local_data: object, global_shape: object = None
) -> Any:
    """Arrays of the values that each process has: with one process, `device_put` of the whole.

    sharding: a Sharding or a Format, or a tree prefix of them. local_data: a pytree of arrays.
    global_shape: a shape, or a tree of shapes.
    What a process gives is the parts that its devices hold, side by side; along an axis where
    global_shape is the size of the data, it is the whole. An axis of global_shape may be None: then
    it is as long as the parts of all processes together. Raises ValueError if the data do not have
    the shape of what this process holds.

    >>> import teucer as jax, numpy as np
    >>> make_array_from_process_local_data(jax.NamedSharding(jax.make_mesh((1,), ("x",)),
    ...     jax.P("x")), np.arange(2))
    Array([0, 1], dtype=int32)
    """
    leaves, tree = pytrees.tree_flatten(local_data)
    placed = pytrees.flatten_axes("make_array_from_process_local_data sharding", tree, sharding)
    if global_shape is None or (
        isinstance(global_shape, tuple) and all(isinstance(d, int | None) for d in global_shape)
    ):
        shapes = [global_shape] * len(leaves)
    else:
        shapes = tree.flatten_up_to(global_shape)
    made = []
    for x, where, shape in zip(leaves, placed, shapes, strict=True):
        own, layout = _placed("make_array_from_process_local_data", where)
        out = (
            transfer.put_array(x, own)
            if own.is_fully_addressable and shape is None
            else _of_local(x, own, shape)
        )
        made.append(
            out
            if layout is None
            else in_layout(out, layout, "make_array_from_process_local_data results")
        )
    return tree.unflatten(made)


def _of_local(x: Value, sharding: Sharding, global_shape: Sequence[int | None] | None) -> Any:
    """An array of which this process has the parts that its devices hold, or the whole along some
    axes."""
    data = np.asarray(x)
    shape = (None,) * data.ndim if global_shape is None else tuple(global_shape)
    if len(shape) != data.ndim:
        raise ValueError(
            f"make_array_from_process_local_data: global_shape {shape} has {len(shape)} axes, and "
            f"the data have shape {data.shape}."
        )
    parts = sharding._parts(data.ndim)
    # Which parts along each axis this process holds, in order.
    grid = list(sharding.addressable_devices_indices_map(parts).values())
    held = [sorted({index[d].indices(n)[0] for index in grid}) for d, n in enumerate(parts)]
    full = []
    for d, (size, n, own) in enumerate(zip(data.shape, parts, held, strict=True)):
        joined = size * n // len(own)
        expected = joined if shape[d] is None else shape[d]
        if expected not in (joined, size) or size * n % len(own):
            raise ValueError(
                f"make_array_from_process_local_data: the data have shape {data.shape}, and this "
                f"process holds {len(own)} of the {n} parts along axis {d}; so global_shape[{d}] "
                f"is {joined}, or {size} if the data are the whole, not {shape[d]}."
            )
        full.append(expected)

    def part(index: tuple[slice, ...]) -> Any:
        local = []
        for i, n, own, size, total in zip(index, parts, held, data.shape, full, strict=True):
            start, stop, _ = i.indices(total)
            offset = (
                0
                if total == size
                else (own.index(start * n // (total or 1)) - start * n // (total or 1))
                * (total // n)
            )
            local.append(slice(start + offset, stop + offset))
        return data[tuple(local)]

    aval = ShapedArray(tuple(full), aval_of(data).dtype)
    shardings.check_shape(sharding, aval.shape)
    return transfer.from_parts(
        shardings.sharded_aval(aval, sharding),
        sharding,
        lambda index: np.array(part(index), aval.dtype),
    )
