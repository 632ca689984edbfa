"""Arrays made of their parts: one array for each device, results of a function, or values of each
process."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl, check_live
from teucer._arrays.formats import Format, Layout
from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray, aval_of
from teucer._derived.moves import in_layout
from teucer._devices import shardings
from teucer._dimensions.refusals import not_a_shape
from teucer._trees import pytrees
from teucer._xla import arrays as xla

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike
    from teucer._devices.shardings import Sharding


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding,
    arrays: Sequence[Array],
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """An array of its parts: one array on each device of this process, in the order of the
    sharding's devices.

    shape: of the whole. arrays: T[sharding.shard_shape(shape)] each, on one device. dtype: that of
    the arrays, needed only if there are none. Raises ValueError if numbers, shapes, dtypes or
    devices do not agree with the sharding, TypeError for what is no array.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
    >>> make_array_from_single_device_arrays((2,), sharding,
    ...     [jax.device_put(jnp.arange(2), jax.devices()[0])])
    Array([0, 1], dtype=int32)
    """
    name = "make_array_from_single_device_arrays"
    shape = _as_shape(name, shape)
    where = transfer.as_sharding(sharding)
    if not isinstance(arrays, Sequence):
        raise TypeError(
            f"jax.{name} `arrays` argument must be a list or tuple, but got {type(arrays)}.\n"
            "  It takes one array a device."
        )
    for a in arrays:
        if not isinstance(a, ArrayImpl):
            raise _no_part(a, arrays)
        check_live(a)
    if not arrays and dtype is None:
        raise _no_dtype(name)
    held = [len(a.sharding.device_set) for a in arrays]
    if held and max(held) > 1:
        raise ValueError(
            "When making an array from single-device arrays the input arrays must have one shard "
            f"each. An argument array had {max(held)} shard(s).\n"
            "  `x.addressable_shards` has the parts of an array: [s.data for s in ...]."
        )
    local = [d for d in shardings.devices_of(where) if d.process_index == d.client.process_index()]
    by_device = {next(iter(a.sharding.device_set)): a for a in arrays}
    _check_devices(where, local, [next(iter(a.sharding.device_set)).id for a in arrays])
    own = arrays[0].dtype if arrays else dtypes.canonicalize_dtype(dtype, True)
    aval = ShapedArray(shape, dtypes.as_dtype(own))
    part = where.shard_shape(shape)
    for a in arrays:
        _check_part(a, aval, where, part)
    if arrays and dtype is not None:
        _check_dtype(name, dtype, own)
    parts = [xla.shard_arrays(by_device[d])[0] for d in local]
    return xla.assemble(shardings.sharded_aval(aval, where).carrier, where, parts, committed=True)


def _as_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as ints; one int is the shape of a vector."""
    try:
        sizes = shape if isinstance(shape, Iterable) else (shape,)
        return tuple(map(operator.index, sizes))
    except TypeError as err:
        raise not_a_shape(name, shape) from err


def _no_part(x: object, arrays: Sequence[object]) -> Exception:
    """The error for a part that is no array on a device, such as a traced value."""
    if isinstance(x, Tracer):
        return ValueError(
            "jax.make_array_from_single_device_arrays requires a list of concrete arrays as "
            f"input, but got types {set(map(type, arrays))}\n    traced: {x}\n"
            "  Within a jitted function, jax.lax.with_sharding_constraint says how values lie."
        )
    return TypeError(
        f"Unsupported type for elements in `arrays`: {type(x)}\n"
        "  Put each on its device with jax.device_put."
    )


def _no_dtype(name: str) -> ValueError:
    return ValueError(
        "If the Array has no addressable shards, `dtype` must be provided via the `dtype` "
        f"argument to `jax.{name}`."
    )


def _check_devices(sharding: Sharding, local: Sequence[Any], own: Sequence[int]) -> None:
    """Check that each device of the sharding has one of the arrays, which lie on `own`."""
    if len(own) != len(local):
        raise ValueError(
            f"Expected {len(local)} per-device arrays (this is how many devices are addressable by "
            f"the sharding), but got {len(own)}\n    sharding: {sharding}"
        )
    if len(set(own)) < len(own):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from "
            f"distinct devices, but got device IDs {list(own)}"
        )
    wanted = {d.id for d in local}
    if wanted != set(own):
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match. Sharding contains "
            f"devices {wanted - set(own)} that are not present in per-device arrays. Per-device "
            f"arrays contain devices {set(own) - wanted} that are not present in the sharding."
        )


def _check_part(x: Any, aval: ShapedArray, sharding: Sharding, part: tuple[int, ...]) -> None:
    """Check that x can be a part, of shape `part`, of an array."""
    if np.shape(x) != part:
        raise ValueError(
            f"Expected shard shape {part} doesn't match the single device array shape "
            f"{np.shape(x)}. Shape of Array is {aval.str_short()} with sharding {sharding}"
        )
    dtype = aval_of(x).dtype
    if dtype != aval.dtype:
        raise ValueError(
            f"Input buffers to `Array` must have matching dtypes. Got {dtype}, expected "
            f"{aval.dtype} for buffer: {x!s:.200}"
        )


def _check_dtype(name: str, said: DTypeLike, own: Any) -> None:
    """Check that the parts have the dtype that the caller says."""
    if dtypes.canonicalize_dtype(said, allow_extended_dtype=True) != own:
        raise ValueError(
            f"If `dtype` is provided to `jax.{name}`, it must match the dtype of the addressable "
            f"shards. Got dtype={dtypes.as_dtype(said)} and shard dtype={own}.\n"
            "  Convert the parts with astype."
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
    dtype: that of the parts, needed only if no part is held here.
    Raises ValueError for a part of another shape or dtype, TypeError for a Format without sharding
    or with Layout.AUTO.

    >>> import teucer as jax, numpy as np
    >>> sharding = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))
    >>> make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
    Array([0, 1, 2, 3], dtype=int32)
    """
    name = "make_array_from_callback"
    shape = _as_shape(name, shape)
    sharding, layout = _placed(name, sharding)
    expected = shardings.check_shape(sharding, shape)
    first = next(iter(sharding.addressable_devices_indices_map(shape).values()), None)
    if first is None:
        if dtype is None:
            raise _no_dtype(name)
        kept, own = None, dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    else:
        kept = data_callback(first)
        own = aval_of(kept).dtype
    aval = ShapedArray(shape, own)

    def part(index: tuple[slice, ...]) -> Any:
        value = data_callback(index) if kept is None or index != first else kept
        _check_part(value, aval, sharding, expected)
        if dtypes.is_extended(own):
            return np.array(value._key_data())
        return np.array(value, own)  # a copy: the shards are used in place

    if dtype is not None:
        _check_dtype(name, dtype, own)
    made = transfer.from_parts(shardings.sharded_aval(aval, sharding), sharding, part)
    return made if layout is None else in_layout(made, layout, f"{name} results")


def _placed(name: str, where: object) -> tuple[Any, Layout | None]:
    """A sharding, or the sharding of a Format, and its layout.

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


def _of_local(x: Any, sharding: Sharding, global_shape: Sequence[int | None] | None) -> Any:
    """An array from the parts that this process holds, or from the whole along some axes."""
    given = aval_of(x)
    # A key is several numbers, which stay together.
    data = np.asarray(x._key_data() if dtypes.is_extended(given.dtype) else x)
    shape = (None,) * given.ndim if global_shape is None else tuple(global_shape)
    if len(shape) != given.ndim:
        raise ValueError(
            f"make_array_from_process_local_data: global_shape {shape} has {len(shape)} axes, and "
            f"the data have shape {given.shape}."
        )
    parts = sharding._parts(given.ndim)
    # Which parts along each axis this process holds, in order.
    grid = list(sharding.addressable_devices_indices_map(parts).values())
    held = [sorted({index[d].indices(n)[0] for index in grid}) for d, n in enumerate(parts)]
    full = []
    for d, (size, n, own) in enumerate(zip(given.shape, parts, held, strict=True)):
        joined = size * n // len(own)
        expected = joined if shape[d] is None else shape[d]
        if expected not in (joined, size) or size * n % len(own):
            raise ValueError(
                f"make_array_from_process_local_data: the data have shape {given.shape}, and this "
                f"process holds {len(own)} of the {n} parts along axis {d}; so global_shape[{d}] "
                f"is {joined}, or {size} if the data are the whole, not {shape[d]}."
            )
        full.append(expected)

    def part(index: tuple[slice, ...]) -> Any:
        local = []
        for i, n, own, size, total in zip(index, parts, held, given.shape, full, strict=True):
            start, stop, _ = i.indices(total)
            offset = (
                0
                if total == size
                else (own.index(start * n // (total or 1)) - start * n // (total or 1))
                * (total // n)
            )
            local.append(slice(start + offset, stop + offset))
        return data[tuple(local)]

    aval = ShapedArray(tuple(full), given.dtype)
    shardings.check_shape(sharding, aval.shape)
    kind = data.dtype if dtypes.is_extended(given.dtype) else given.dtype
    return transfer.from_parts(
        shardings.sharded_aval(aval, sharding), sharding, lambda index: np.array(part(index), kind)
    )
