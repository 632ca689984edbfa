"""Arrays to devices and back, as users say it: `device_put`, `device_get`, `block_until_ready`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl, to_numpy
from teucer._arrays.formats import Format, Layout, at_boundary, order_in, order_of
from teucer._base import config, dtypes, tracebacks
from teucer._core import dialects
from teucer._core.high import refuse_high
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.memory import MemorySpace, space_of
from teucer._core.primitive import Primitive
from teucer._core.provided import provided
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import Zero, is_valid_type
from teucer._devices import absent, backends, compared, processes
from teucer._devices.meshes import AbstractMesh
from teucer._devices.placement import with_devices
from teucer._devices.shardings import (
    NamedSharding,
    SingleDeviceSharding,
    check_shape,
    devices_of,
    is_of_no_mesh,
    sharded_aval,
)
from teucer._devices.specs import PartitionSpec
from teucer._executables.callbacks import explained
from teucer._lower import hlo
from teucer._programs.run import in_order
from teucer._trees import pytrees
from teucer._xla import arrays as xla
from teucer._xla.client import Device, XlaRuntimeError
from teucer._xla.config import explicit_transfer

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Arrays, Cotangent, Tangents, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._xla.pytree import PyTreeDef

    class DevicePutParams(TypedDict):
        device: object
        copy: bool
        src: object


@dialects.relocates.mark
@final
class DevicePut(Primitive):
    """x on a device, or x itself where the program runs already. src: where its cotangent is to go,
    if that is known."""

    __slots__ = ()
    name = "device_put"
    multiple_results = True

    def types(self, x: ShapedArray, *, device: object, copy: bool, src: object = None) -> Any:
        if isinstance(device, MemorySpace):
            return (x.update(memory_space=device),)
        if not isinstance(device, NamedSharding):
            return (
                x.update(memory_space=space_of(device._memory_kind))
                if isinstance(device, SingleDeviceSharding)
                else x,
            )
        check_shape(device, x.shape)
        return (sharded_aval(x, device),)

    def shard(self, *avals: ShapedArray, **params: Unpack[DevicePutParams]) -> Any:
        return None

    def evaluate(self, x: Value, *, device: object, copy: bool, src: object = None) -> Any:
        return (place(x, device, copy),)

    def lower(
        self, ctx: Context, x: Written, *, device: object, copy: bool, src: object = None
    ) -> Any:
        space = ctx.avals_out[0].memory_space
        if isinstance(device, NamedSharding | SingleDeviceSharding):
            x = ctx.constrain(x, device)
        if space is not x.aval.memory_space and not provided.target(ctx.platform).one_memory:
            name = space.kind or "device"
            x = hlo.custom_call(
                ctx,
                "annotate_device_placement",
                (x,),
                (x.aval.update(memory_space=space),),
                config='""',
                api_version=1,
                has_side_effect=True,
                attributes=f'mhlo.frontend_attributes = {{_xla_buffer_placement = "{name}"}}',
            )[0]
        return (x,)

    def jvp(self, primals: Arrays, tangents: Tangents, **params: Unpack[DevicePutParams]) -> Any:
        (t,) = tangents
        return self.call(*primals, **params), (t,) if type(t) is Zero else self.call(t, **params)

    def transpose(
        self,
        cts: Sequence[Cotangent],
        x: Undefined,
        *,
        device: object,
        copy: bool,
        src: object = None,
    ) -> Any:
        own, (ct,) = x.aval.memory_space, cts
        if src is not None:
            return self.call(ct, device=src, copy=False)
        return cts if typeof(ct).memory_space is own else self.call(ct, device=own, copy=False)

    def batch(
        self, axis: Axis, args: Arrays, dims: Sequence[int], *, copy: bool, **places: object
    ) -> Any:
        whole = {
            name: s.inserted(np.ndim(args[0]) - 1, dims[0], axis.spmd_name)
            if isinstance(s, NamedSharding)
            else s
            for name, s in places.items()
        }
        return self.call(*args, copy=copy, **whole), dims

    padded = dialects.through


device_put_p = DevicePut()


def place(x: Value, where: object, copy: bool = False) -> Any:
    """A concrete value on a device or laid out by a sharding; None leaves it where it is, or
    uncommitted by default."""
    if where is None:
        if isinstance(x, ArrayImpl):
            return transfer.put_array(x, x.sharding, committed=x._committed, copy=copy)
        return transfer.put(x, None)
    if isinstance(where, MemorySpace):
        return _in_memory(x, where, copy)
    sharding = transfer.as_sharding(where)
    alone = processes.state.client is None
    if isinstance(x, ArrayImpl) and not (
        alone and x._sharding.num_devices == sharding.num_devices == 1
    ):
        from teucer._derived.exchange import exchanged  # for several devices

        if (moved := exchanged(x, sharding, copy)) is not None:
            return moved
    return transfer.put_array(x, sharding, copy=copy)


def _in_memory(x: Value, space: MemorySpace, copy: bool) -> Any:
    """A concrete value where it is, in the memory of another space."""
    x = x if isinstance(x, ArrayImpl) else transfer.put(x, None)
    if space is MemorySpace.Any or (
        typeof(x).memory_space is space and x.sharding._memory_kind == space.kind
    ):
        return transfer.put_array(x, x.sharding, committed=x._committed, copy=copy)
    kind = space.kind or next(iter(x.sharding._internal_device_list)).default_memory().kind
    return transfer.put_array(x, x.sharding.with_memory_kind(kind), copy=copy)


@tracebacks.api_boundary
def device_put(
    x: Value,
    device: object = None,
    *,
    src: object = None,
    donate: object = False,
    may_alias: object = None,
) -> Any:
    """A pytree of arrays on a device.

    x: arrays, NumPy arrays, numbers. device: a Device, a Sharding, a Format (a layout in memory and
    a sharding), a `jax.memory.Space`, for where each array is already, or a tree prefix of them;
    None for the default device, to which the result is not committed. may_alias=False makes a copy.
    donate says that x is not used any more; it is deleted where its devices are to hold as much of
    it in another order. Both may be tree prefixes of x, too.
    Raises TypeError for leaves that are not arrays, ValueError for a device that is none or a
    layout that does not fit.

    >>> import teucer as jax, numpy as np
    >>> jax.device_put(np.arange(3), jax.devices()[0])
    Array([0, 1, 2], dtype=int32)
    """
    leaves, tree = pytrees.tree_flatten(x)
    if device is None or not isinstance(device, list | tuple | dict):
        places = [device] * len(leaves)
    else:
        places = pytrees.flatten_axes("device_put device", tree, device)
    donated = pytrees.flatten_axes("device_put donate", tree, donate)
    aliases = pytrees.flatten_axes("device_put may_alias", tree, may_alias)
    if any(d and alias for d, alias in zip(donated, aliases, strict=True)):
        raise ValueError(
            "device_put: may_alias and donate cannot be True at the same time.\n"
            "  What is donated may be written over."
        )
    if processes.state.client is not None:
        _compare(leaves, places, tree)
    with explicit_transfer("explicit_device_put"):
        try:
            placed = [
                _put_leaf(leaf, where, alias is False)
                for leaf, where, alias in zip(leaves, places, aliases, strict=True)
            ]
        except XlaRuntimeError as err:
            absent.explain(err)
            raise
    for i, (old, new, d) in enumerate(zip(leaves, placed, donated, strict=True)):
        if (
            d
            and isinstance(old, ArrayImpl)
            and isinstance(new, ArrayImpl)
            and _in_other_order(old, new)
        ):
            if any(
                a is b
                for a, b in zip(devices_of(old._sharding), devices_of(new._sharding), strict=True)
            ):
                placed[i] = place(
                    new, new._sharding, copy=True
                )  # devices that have kept their place share the buffer
            old.delete()
    return pytrees.tree_unflatten(tree, placed)


def _compare(leaves: Sequence[Value], places: Sequence[object], tree: PyTreeDef) -> None:
    """Check that host values, and arrays that are not committed, are the same in all processes
    whose devices are to hold them.

    Raises ValueError for arrays that are committed to devices of one process.
    """
    named: dict[tuple[int, ...], list[tuple[str, Any]]] = {}
    paths = list(pytrees.leaf_paths(tree))
    for i, (x, where) in enumerate(zip(leaves, places, strict=True)):
        if where is None or isinstance(x, Tracer) or isinstance(where, Device | MemorySpace):
            continue
        array: Any = x if isinstance(x, ArrayImpl) else None
        if array is not None and not array.is_fully_addressable:
            continue
        group = compared.group_of(devices_of(transfer.as_sharding(where)))
        if not group:
            continue
        path = pytrees.keystr(paths[i]) if len(leaves) > 1 else ""
        if array is not None and array._committed:
            raise ValueError(
                "device_put's second argument must be a Device or a Sharding which represents "
                f"addressable devices, but got {where}. Please pass device or Sharding which "
                f"represents addressable devices.\n    x{path}: {typeof(x).str_short()}, which is "
                f"on devices of process {processes.state.process_id}\n  Its parts in all "
                "processes become one array by jax.make_array_from_process_local_data."
            )
        if config.check_values.value:
            extended = dtypes.is_extended(getattr(x, "dtype", None))
            value = array._key_data() if extended else np.asarray(x)
            named.setdefault(group, []).append((f"x{path}", np.asarray(value)))
    for group, values in named.items():
        compared.compare("device_put", values, group)


def _in_other_order(x: ArrayImpl, y: ArrayImpl) -> bool:
    """Whether x and y are on the same devices, in different orders, with equally large parts."""
    (old, new), shape = (x._sharding, y._sharding), x.shape
    before, after = old._internal_device_list, new._internal_device_list
    return (
        before != after
        and set(before) == set(after)
        and math.prod(old.shard_shape(shape)) == math.prod(new.shard_shape(shape))
    )


def _put_leaf(x: Value, where: object, copy: bool) -> Any:
    strings = dtypes.is_string(getattr(x, "dtype", None)) and isinstance(x, ArrayImpl | np.ndarray)
    if not strings and not is_valid_type(x):
        raise TypeError(
            f"Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type for device_put."
        )
    if (
        where is not None
        and not isinstance(where, xla.Sharding | PartitionSpec | MemorySpace)
        and not hasattr(where, "sharding")
        and not hasattr(where, "platform")
    ):
        from teucer._advice import mistakes  # of errors alone

        raise ValueError(
            "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`, `jax.Device`, "
            "`Format`, `jax.memory.Space` or a pytree of these values. Received invalid value: "
            f"{where}{mistakes.on_place(where)}"
        )
    refuse_high("device_put", typeof(x))
    where = _stated(where)
    layout = where.layout if isinstance(where, Format) else None
    if not isinstance(layout, Layout | None):
        raise ValueError(
            f"sharding and layout in `Layout` instance should be concrete. Got layout: {where} "
            f"for input {typeof(x).str_short()}\n  AUTO is for jit, as in_shardings and "
            "out_shardings."
        )
    if isinstance(where, NamedSharding):
        where.check_compatible_aval(typeof(x).shape)
    device = _place_of(where)
    source = _source(x, device) if isinstance(x, Tracer) else {}
    placed = device_put_p.call(x, device=device, copy=copy, **source)[0]
    if layout is None or isinstance(placed, Tracer):  # a traced value has no place in memory
        return placed
    return in_layout(placed, layout, "device_put arguments")


def _source(x: Tracer, device: object) -> dict[str, Any]:
    """Where a value that is differentiated comes from, which goes to other devices, as a parameter
    of the primitive."""
    value = x.concrete()
    if (
        not isinstance(value, ArrayImpl)
        or not value._committed
        or device is None
        or isinstance(device, MemorySpace)
    ):
        return {}
    if type(device) is NamedSharding and isinstance(device.mesh, AbstractMesh):
        return {}
    there = (device,) if isinstance(device, Device) else devices_of(device)
    return {} if devices_of(value._sharding) == there else {"src": value._sharding}


def filled_at(x: Value, where: object) -> Any:
    """A new array of equal elements, placed on a device or laid out. Within a program, the program
    makes it where it runs."""
    if where is None or (
        isinstance(x, Tracer) and isinstance(where, Device | SingleDeviceSharding)
    ):
        return x
    return device_put(x, where)


def _stated(where: object) -> Any:
    """A sharding, or None if it says nothing: it is of a type without a mesh, or over Manual axes
    alone."""
    if type(where) is NamedSharding and isinstance(where.mesh, AbstractMesh):
        return (
            None if is_of_no_mesh(where) or where.mesh.are_all_axes_manual else with_devices(where)
        )
    return where


def _place_of(where: object) -> Any:
    """Where to put a value, as a parameter of the primitive."""
    # A Device, other than its sharding, says nothing of where a program runs.
    if where is None or isinstance(where, Device | MemorySpace):
        return where
    # The type of a value says it: a program that is being traced learns its devices later.
    of_type = type(where) is NamedSharding and isinstance(where.mesh, AbstractMesh)
    return where if of_type and current_trace().staging() else transfer.as_sharding(where)


def in_layout(x: Any, layout: Layout, what: str) -> Any:
    """An array in memory as a layout says.

    Raises ValueError for a layout that does not fit its shape.
    """
    at_boundary([layout], [x.aval], what)
    order = order_in(layout, x.aval)
    return x if order_of(x) == order else in_order(x, order)


@tracebacks.api_boundary
def device_get(x: Value) -> Any:
    """A pytree of arrays on the host: NumPy arrays in the place of device arrays; waits for them.
    Traced values stay.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.device_get(jnp.arange(3))
    array([0, 1, 2], dtype=int32)
    """
    leaves = pytrees.tree_leaves(x)
    with explicit_transfer("explicit_device_get"):
        for leaf in leaves:
            if isinstance(leaf, ArrayImpl):
                leaf.copy_to_host_async()
        return pytrees.tree_map(_get_leaf, x)


def _get_leaf(x: Value) -> Any:
    if isinstance(x, ArrayImpl):
        return x if dtypes.is_extended(x.dtype) else to_numpy(x)
    return x


def block_until_ready(x: Value) -> Any:
    """Wait until all arrays of a pytree are computed; returns the pytree. Raises an exception of
    their computation.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.block_until_ready(jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    arrays = []
    try:
        for leaf in pytrees.tree_leaves(x):
            if isinstance(leaf, ArrayImpl):
                arrays.append(leaf)
            elif hasattr(leaf, "block_until_ready"):
                leaf.block_until_ready()
        xla.block_until_ready(arrays)
    except Exception as err:
        if "RESOURCE_EXHAUSTED" in str(err):
            err.add_note(
                "jax.debug.memory(f, *args) says how much memory a function needs, and for what."
            )
        raise explained(err)  # noqa: B904  # it has its cause
    return x


def copy_to_host_async(x: Value) -> Any:
    """Start copying all arrays of a pytree to the host; returns the pytree."""
    for leaf in pytrees.tree_leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def live_arrays(platform: str | None = None) -> Sequence[Any]:
    """All arrays that are alive on a platform."""
    arrays: Sequence[Any] = backends.client_of(platform).live_arrays()
    return arrays


def _memory_note(jaxpr: Jaxpr) -> str:
    from teucer._derived.liveness import peak_of  # when memory has run out

    return (
        f"memory of {jaxpr.debug_info.name if jaxpr.debug_info else 'the program'}: "
        f"{peak_of(ClosedJaxpr(jaxpr))}"
    )


provided.fill(memory_note=_memory_note)
