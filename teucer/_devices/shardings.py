"""Shardings: how an array is laid over devices."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from teucer._base import config, memo
from teucer._core.memory import space_of
from teucer._core.provided import provided
from teucer._devices import absent, abstract_sharding, meshes
from teucer._devices.meshes import AbstractMesh, AxisType, BaseMesh, Mesh
from teucer._devices.specs import PartitionSpec, entry_names
from teucer._xla import arrays
from teucer._xla.arrays import Sharding
from teucer._xla.client import DeviceList

if TYPE_CHECKING:
    from teucer._core.types import Aval, ShapedArray
    from teucer._core.typing import Size

__all__ = [
    "IndivisibleError", "DeviceSharding", "NamedSharding", "Sharding", "SingleDeviceSharding",
    "as_named", "check_shape", "device_list", "devices_of", "explicit_sharding", "is_of_no_mesh",
    "lie_alike", "make_device_list", "make_single_device_sharding", "sharded_aval",
    "single_device_sharding", "typed",
]  # fmt: skip


abstract_sharding.attach_members()


class IndivisibleError(ValueError):
    """An axis of an array cannot be cut into as many equal parts as its sharding says."""

    __module__ = "teucer.errors"


class DeviceSharding(Sharding):  # type: ignore[misc]  # jaxlib's classes are untyped
    """The members of a sharding that follow from its devices, in order, and from the number of
    parts into which it cuts each axis.

    A subclass says `_internal_device_list`, `_memory_kind`, `_parts(ndim)`, and `_places(ndim)`:
    where each device's part stands in the grid of parts.
    """

    _memory_kind: str | None
    _internal_device_list: Any

    def _parts(self, ndim: int) -> tuple[int, ...]:
        raise NotImplementedError

    def _places(self, ndim: int) -> Sequence[tuple[int, ...]]:
        raise NotImplementedError

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return set(self._internal_device_list)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process that hold a part of the array."""
        return {
            d for d in self._internal_device_list if d.process_index == d.client.process_index()
        }

    # The devices in order, for libraries: all of them, and the devices of this process.
    _device_assignment = property(lambda self: tuple(self._internal_device_list))
    _addressable_device_assignment = property(
        lambda self: tuple(
            [d for d in self._internal_device_list if d.process_index == d.client.process_index()]
        )
    )

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return len(self._internal_device_list)

    @property
    def memory_kind(self) -> str | None:
        """The memory of the devices; None of devices that are not there and say none."""
        return self._memory_kind or absent.default_memory_kind(self._internal_device_list)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of the array."""
        return bool(self._internal_device_list.is_fully_addressable)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process holds a part of the array."""
        return bool(self.addressable_devices)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of each device's part.

        Raises IndivisibleError (a ValueError) if an axis cannot be cut into equal parts.
        """
        return check_shape(self, tuple(global_shape))

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> Mapping[Any, tuple[slice, ...]]:
        """The part of the array that each device holds."""
        shape = tuple(global_shape)
        sizes, parts = self.shard_shape(shape), self._parts(len(shape))
        return {
            d: tuple(
                slice(None) if n == 1 else slice(i * size, (i + 1) * size)
                for i, n, size in zip(place, parts, sizes, strict=True)
            )
            for d, place in zip(self._internal_device_list, self._places(len(shape)), strict=True)
        }

    def addressable_devices_indices_map(
        self, global_shape: tuple[int, ...]
    ) -> Mapping[Any, tuple[slice, ...]]:
        """The part of the array that each device of this process holds."""
        whole = self.devices_indices_map(global_shape)
        if self.is_fully_addressable:
            return whole
        return {
            d: index for d, index in whole.items() if d.process_index == d.client.process_index()
        }

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Whether both lay out an array of `ndim` axes alike: the same parts on the same devices,
        in the same order."""
        if self is other:
            return True
        return (
            isinstance(other, Sharding)
            and self.memory_kind == other.memory_kind
            and lie_alike(self, other, ndim)
        )

    def _sums(self) -> tuple[bool | str, ...]:
        """Empty unless the parts of devices are still to be combined. Else an entry for each
        device: False for the first part of a sum, True for the others, "max" or "min" if the parts
        are combined by that."""
        return ()

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raise ValueError if the sharding partitions more axes than an array of this shape has."""

    def with_memory_kind(self, kind: str) -> Self:
        """The same layout in another memory of the devices."""
        raise NotImplementedError


def lie_alike(one: Any, other: Any, ndim: int) -> bool:
    """Whether two shardings lay out an array alike, in whichever memories."""
    mine, theirs = one._internal_device_list, other._internal_device_list
    same_cut = one._sums() == other._sums() and one._parts(ndim) == other._parts(ndim)
    return (
        (mine is theirs or tuple(mine) == tuple(theirs))
        and same_cut
        and list(one._places(ndim)) == list(other._places(ndim))
    )


def check_shape(sharding: Any, shape: tuple[int, ...], what: str = "") -> tuple[int, ...]:
    """The shape of each device's part of an array.

    Raises ValueError if the sharding does not fit an array of that shape; `what` names the array.
    """
    sharding.check_compatible_aval(shape)
    parts = sharding._parts(len(shape))
    for i, (size, n) in enumerate(zip(shape, parts, strict=True)):
        if size % n:
            factors = list(parts[: max(j for j, m in enumerate(parts) if m > 1) + 1])
            raise IndivisibleError(
                f"{what}Sharding {sharding} implies that array axis {i} is partitioned {n} times, "
                f"but the dimension size is {size} (full shape: {shape}, per-dimension tiling "
                f"factors: {factors} should evenly divide the shape)"
            )
    return tuple(size // n for size, n in zip(shape, parts, strict=True))


@final
class SingleDeviceSharding(arrays.SingleDeviceShardingBase):  # type: ignore[misc]  # jaxlib's classes are untyped
    """All of the array is on one device. Equal ones are one object.

    >>> import teucer as jax
    >>> jax.sharding.SingleDeviceSharding(jax.devices()[0]).is_fully_replicated
    True
    """

    is_fully_replicated = True
    num_devices = 1
    # jaxlib's classes have one base.
    addressable_devices, memory_kind = (
        DeviceSharding.addressable_devices,
        DeviceSharding.memory_kind,
    )
    is_fully_addressable, has_addressable_devices = (
        DeviceSharding.is_fully_addressable,
        DeviceSharding.has_addressable_devices,
    )
    shard_shape, check_compatible_aval = (
        DeviceSharding.shard_shape,
        DeviceSharding.check_compatible_aval,
    )
    devices_indices_map, is_equivalent_to = (
        DeviceSharding.devices_indices_map,
        DeviceSharding.is_equivalent_to,
    )
    addressable_devices_indices_map, _sums = (
        DeviceSharding.addressable_devices_indices_map,
        DeviceSharding._sums,
    )
    _device_assignment = DeviceSharding._device_assignment
    _addressable_device_assignment = DeviceSharding._addressable_device_assignment

    # C++ asks for the hash of each argument's sharding at every call. A hash of identity it
    # computes without Python.
    _made: ClassVar[dict[Any, SingleDeviceSharding]] = {}

    def __new__(cls, device: Any, memory_kind: str | None = None) -> SingleDeviceSharding:
        if memory_kind is not None and memory_kind == device.default_memory().kind:
            memory_kind = None
        found = cls._made.get((device, memory_kind))
        if found is None:
            self = super().__new__(cls)
            arrays.SingleDeviceShardingBase.__init__(self, device, memory_kind)
            found = cls._made.setdefault((device, memory_kind), self)
        return found

    def __init__(self, device: object, memory_kind: str | None = None) -> None:
        """All is done by `__new__`, which may return a sharding made before."""

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return arrays.HloSharding.replicate()

    def _parts(self, ndim: int) -> tuple[int, ...]:
        return (1,) * ndim

    def _places(self, ndim: int) -> Sequence[tuple[int, ...]]:
        return ((0,) * ndim,)

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return {self._device}

    def with_memory_kind(self, kind: str) -> Self:
        return type(self)(self._device, memory_kind=kind)

    def __reduce__(self) -> Any:
        return type(self), (self._device, self._memory_kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


def make_single_device_sharding(
    device: object, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding that puts all of an array on one device."""
    return SingleDeviceSharding(device, memory_kind)


@final
class NamedSharding(arrays.NamedShardingBase):  # type: ignore[misc]  # jaxlib's classes are untyped
    """An array's axes laid over the named axes of a mesh. Equal ones are one object.

    mesh: a Mesh, or an AbstractMesh for types. spec: for each axis of the array the mesh axes that
    partition it. Raises ValueError for a mesh axis that is not there, DuplicateSpecError for one
    that is named twice.

    >>> import teucer as jax
    >>> NamedSharding(jax.make_mesh((1,), ("x",)), PartitionSpec("x")).shard_shape((8, 4))
    (8, 4)
    """

    _made: ClassVar[memo.Interned[NamedSharding]] = memo.Interned()
    # jaxlib's classes have one base. With this one C++ takes the shards of arguments as they are,
    # without a call of Python.
    device_set, addressable_devices = DeviceSharding.device_set, DeviceSharding.addressable_devices
    is_fully_addressable, has_addressable_devices = (
        DeviceSharding.is_fully_addressable,
        DeviceSharding.has_addressable_devices,
    )
    shard_shape, is_equivalent_to = DeviceSharding.shard_shape, DeviceSharding.is_equivalent_to
    devices_indices_map = DeviceSharding.devices_indices_map
    addressable_devices_indices_map = DeviceSharding.addressable_devices_indices_map
    _device_assignment = DeviceSharding._device_assignment
    _addressable_device_assignment = DeviceSharding._addressable_device_assignment
    mesh: Any
    spec: PartitionSpec

    def __new__(
        cls,
        mesh: BaseMesh,
        spec: object,
        memory_kind: str | None = None,
        _logical_device_ids: object = None,
    ) -> NamedSharding:
        key = (mesh, spec, memory_kind)
        try:
            found = cls._made.get(key)
        except TypeError:  # one of them is no mesh or no spec, and has no hash
            found = None
        if found is None:
            meshes.check_spec(mesh, spec)
            found = super().__new__(cls)
            arrays.NamedShardingBase.__init__(found, mesh, spec, memory_kind)
            found._kind, found._typed = memory_kind, {}
            found = cls._made.keep(key, found)
        return found

    def __init__(
        self,
        mesh: object,
        spec: object,
        memory_kind: str | None = None,
        _logical_device_ids: object = None,
    ) -> None:
        """All is done by `__new__`, which may return a sharding made before."""

    @property
    def _memory_kind(self) -> str | None:
        return self._kind  # type: ignore[no-any-return]

    @property
    def memory_kind(self) -> str | None:
        """The memory of the devices; None where they are not known, or say none."""
        if self._kind is not None or self.mesh._internal_device_list is None:
            return self._memory_kind
        return absent.default_memory_kind(self._internal_device_list)

    @property
    def _internal_device_list(self) -> Any:
        devices = self.mesh._internal_device_list
        if devices is None:
            asked = sys._getframe(1).f_code.co_name
            raise ValueError(
                f"{asked} is not implemented for `jax.sharding.AbstractMesh`.\n    {self}\n"
                "  The devices are not known. Give a NamedSharding over a jax.sharding.Mesh."
            )
        return devices

    def _names(self, ndim: int) -> tuple[tuple[Any, ...], ...]:
        names = tuple(map(entry_names, self.spec.partitions))
        return names[:ndim] + ((),) * (ndim - len(names))

    def _parts(self, ndim: int) -> tuple[int, ...]:
        sizes = self.mesh.sizes
        return tuple([math.prod([sizes[n] for n in names]) for names in self._names(ndim)])

    def _places(self, ndim: int) -> Sequence[tuple[int, ...]]:
        return _places_of(self.mesh.axis_sizes, self._axes(ndim))

    def _sums(self) -> tuple[bool | str, ...]:
        if not self.spec.unreduced:
            return ()
        at = [i for i, name in enumerate(self.mesh.axis_names) if name in self.spec.unreduced]
        more = self.spec.combined or True
        return tuple(
            more if any(place[i] for i in at) else False
            for place in np.ndindex(*self.mesh.axis_sizes)
        )

    def _axes(self, ndim: int) -> tuple[tuple[int, ...], ...]:
        """For each axis of an array, the positions of the mesh axes that partition it."""
        at = {name: i for i, name in enumerate(self.mesh.axis_names)}
        return tuple(tuple(at[n] for n in names) for names in self._names(ndim))

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        parts = self._parts(num_dimensions)
        if math.prod(parts) == 1:
            return arrays.HloSharding.replicate()
        mesh = self.mesh
        used = [i for axes in self._axes(num_dimensions) for i in axes]
        rest = [i for i in range(len(mesh.axis_sizes)) if i not in used]
        copies = math.prod(mesh.axis_sizes[i] for i in rest)
        if copies == 1:
            return arrays.HloSharding.iota_tile(parts, mesh.axis_sizes, used + rest)
        return arrays.HloSharding.iota_tile(
            (*parts, copies), mesh.axis_sizes, used + rest, [arrays.OpSharding.Type.REPLICATED]
        )

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return int(self.mesh.size)

    @functools.cached_property  # asked by each read of an array
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return not self.spec.unreduced and all(n == 1 for n in self._parts(len(self.spec)))

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes along which devices hold the same."""
        return frozenset(self.mesh.axis_names) - set(self.spec.names()) - self.spec.unreduced

    def check_parts_of(self, aval: ShapedArray) -> None:
        """Check that a value of this type can be laid out so. Only parts of a maximum or minimum
        can become such parts.

        Raises ValueError otherwise.
        """
        wanted = self.spec
        if aval.partition is None:
            own = PartitionSpec(*[None] * aval.ndim)
        else:
            own = aval.partition.spec
        if own.combined != wanted.combined and own.unreduced and wanted.unreduced:
            raise ValueError(
                "The unreduced_kind of input and output sharding passed to `jax.reshard` should be "
                f"the same. Got input spec: {own} and output spec: {wanted}"
            )
        if wanted.combined and not wanted.unreduced <= own.unreduced:
            raise ValueError(
                "out_sharding passed to `jax.reshard` cannot be more unreduced than the input. Got "
                f"input pspec: {own}, out pspec: {wanted}\n"
                f"  lax.reduce_{wanted.combined}(x, axes, out_sharding=...) gives such parts."
            )

    def update(self, **kwargs: Any) -> NamedSharding:
        """The sharding with some of its fields (mesh, spec, memory_kind) changed."""
        return NamedSharding(
            kwargs.get("mesh", self.mesh),
            kwargs.get("spec", self.spec),
            kwargs.get("memory_kind", self._kind),
        )

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return self.update(memory_kind=kind)

    def with_spec(self, spec: Any) -> NamedSharding:
        """The same mesh with another spec."""
        return self.update(spec=spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec))

    def left_free(self, partitions: Sequence[object]) -> NamedSharding:
        """A sharding over the same devices in which the compiler may partition the axes that are
        UNCONSTRAINED."""
        mesh = (
            self.mesh
            if self.mesh.auto_axes
            else self.mesh.update(axis_types=(AxisType.Auto,) * len(self.mesh.axis_names))
        )
        return NamedSharding(mesh, PartitionSpec(*partitions))

    def shape_text(self, shape: tuple[int, ...]) -> str:
        """Sizes with the mesh axes that partition them, as types show them: `8@x,4`."""
        axes = [
            f"@({','.join(map(str, names))})" if len(names) > 1 else f"@{names[0]}" if names else ""
            for names in self._names(len(shape))
        ]
        return ",".join(f"{size}{axis}" for size, axis in zip(shape, axes, strict=True))

    def inserted(self, ndim: int, dim: int, entry: object) -> NamedSharding:
        """The sharding of a batch of arrays of `ndim` axes, whose batch dimension at `dim` has the
        given entry."""
        entries = [*self.spec.partitions, *[None] * (ndim - len(self.spec))]
        entries.insert(dim, entry)
        return self.with_spec(self.spec.update(partitions=entries))

    def permuted(self, order: Sequence[int]) -> NamedSharding:
        """The sharding, in types, of a transposed array: axis i of it is axis order[i] of the
        array."""
        entries = [*self.spec.partitions, *[None] * (len(order) - len(self.spec))]
        return self.with_spec(self.spec.update(partitions=[entries[i] for i in order]))

    def without(self, dim: int) -> NamedSharding | None:
        """The sharding, in types, of the elements of an array along one axis; None if nothing
        partitions them."""
        spec = self.spec.update(partitions=(*self.spec[:dim], *self.spec[dim + 1 :]))
        return self.with_spec(spec) if spec.names() or spec.unreduced or spec.reduced else None

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        if len(self.spec) > len(aval_shape):
            scalar = " For scalars the PartitionSpec should be P()" if not aval_shape else ""
            raise ValueError(
                f"Length of sharding.spec ({len(self.spec)}) is more than aval's ndim "
                f"({len(aval_shape)}). Sharding {self} is only valid for values of rank at least "
                f"{len(self.spec)}, but was applied to a value of rank {len(aval_shape)}.{scalar}"
            )

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec, self._kind)

    def __repr__(self) -> str:
        kind = self.memory_kind if isinstance(self.mesh, Mesh) else self._kind
        memory = "" if kind is None else f", memory_kind={kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{memory})"


arrays.first_named_sharding(lambda: arrays.NamedShardingBase(meshes.NO_MESH, PartitionSpec()))


def _places_of(sizes: tuple[int, ...], axes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """For each device of a mesh of these sizes, where its part stands in the grid of parts that the
    mesh axes cut."""
    coordinates = np.indices(sizes).reshape(len(sizes), -1)
    along = []
    for mesh_axes in axes:
        place = np.zeros(coordinates.shape[1], int)
        for i in mesh_axes:
            place = place * sizes[i] + coordinates[i]
        along.append(place.tolist())
    return list(zip(*along, strict=True)) if along else [()] * coordinates.shape[1]


_single: dict[Any, SingleDeviceSharding] = {}


def is_divided(sharding: Sharding | None) -> bool:
    """Whether a sharding gives several processes parts of their own."""
    return (
        sharding is not None
        and not sharding.is_fully_addressable
        and not sharding.is_fully_replicated
    )


def single_device_sharding(device: object) -> SingleDeviceSharding:
    """The sharding for the default memory of `device`; one object a device."""
    found = _single.get(device)
    if found is None:
        found = _single[device] = SingleDeviceSharding(device)
    return found


def device_list(sharding: Any) -> Any:
    """The devices of a sharding, in its order, as C++ takes them."""
    return sharding._internal_device_list


def devices_of(sharding: Any) -> tuple[Any, ...]:
    """The devices of a sharding, in its order."""
    return tuple(sharding._internal_device_list)


def make_device_list(devices: Any) -> Any:
    """A C++ list of devices."""
    return DeviceList(tuple(devices))


def as_named(where: object, no_mesh: Exception, mesh: BaseMesh | None = None) -> Any:
    """A sharding, or a PartitionSpec over the mesh in force, else over `mesh`, as a sharding.

    Raises `no_mesh` for a PartitionSpec without a mesh.
    """
    if not isinstance(where, PartitionSpec):
        return where
    mesh = meshes.mesh_of_specs() or mesh
    if mesh is None:
        raise no_mesh
    return NamedSharding(mesh, where)


def is_of_no_mesh(where: object) -> bool:
    """Whether a sharding, being over a mesh without axes, says nothing. Types of arrays without a
    sharding have such a one."""
    return (
        type(where) is NamedSharding
        and not where.mesh.axis_names
        and isinstance(where.mesh, meshes.AbstractMesh)
    )


def explicit_sharding(name: str, where: object, ndim: int | None) -> Any:
    """The sharding over Explicit mesh axes that a user gives for a result, as a NamedSharding; None
    if it says nothing.

    Raises ValueError for a PartitionSpec without a mesh, or over axes of another type.
    """
    if where is None or is_of_no_mesh(where):
        return None
    where = as_named(
        where,
        ValueError(
            "Using PartitionSpec when you are not under a mesh context is not allowed. Please "
            "pass a NamedSharding instance or enter into a mesh context via `jax.set_mesh`. Got "
            f"{where}"
        ),
    )
    if not isinstance(where, NamedSharding):
        raise TypeError(
            f"{name}: the sharding of a result is a NamedSharding or a PartitionSpec, got "
            f"{where!r}."
        )
    _check_context(name, where.mesh)
    for axis in where.spec.names():
        kind = where.mesh.type_of[axis]
        if kind is not AxisType.Explicit:
            raise ValueError(
                f"PartitionSpec passed to {name} cannot contain axis names that are of type Auto "
                f"or Manual. Got PartitionSpec: {where.spec} with axis name: {axis} of type: "
                f"{kind!s}."
            )
    if ndim is not None and len(where.spec) > ndim:
        where.check_compatible_aval((1,) * ndim)
    if where.spec.combined and name not in _OF_ANY_KIND:
        raise ValueError(
            f"`out_sharding` passed to `{name}` can only contain unreduced of kind `sum`. Got "
            f"out_sharding={where}"
        )
    return where


# Functions that may take or return parts of a maximum or minimum.
_OF_ANY_KIND = ("reshape", "reshard", "reduce_max", "reduce_min")


def _check_context(name: str, mesh: Mesh | AbstractMesh) -> None:
    """Check that the sharding of a result is over the mesh in force; `reshard` may go to another
    one."""
    in_force = meshes.get_abstract_mesh()
    if (
        name == "reshard"
        or in_force.empty
        or (mesh.shape_tuple, mesh.axis_types) == (in_force.shape_tuple, in_force.axis_types)
    ):
        return
    raise ValueError(
        f"Context mesh {in_force} should match the mesh of sharding {mesh.abstract_mesh} passed "
        f"to {name}.\n  Give a PartitionSpec, which is over the mesh in force, or lay the result "
        "out with jax.reshard."
    )


def typed(sharding: object, ndim: int) -> Any:
    """The part of a sharding that is kept in an array's type: its partition over Explicit mesh
    axes; None if there is none."""
    if type(sharding) is not NamedSharding:
        return None
    key = ~ndim if config.remove_size_one_mesh_axis_from_type.value else ndim
    found = sharding._typed.get(key, sharding)
    if found is sharding:
        found = sharding._typed[key] = _typed(sharding, ndim)
    return found


def _typed(sharding: NamedSharding, ndim: int) -> Any:
    mesh = sharding.mesh
    omitted = meshes.left_out(mesh)
    explicit = set(mesh.explicit_axes).difference(omitted)
    entries = [tuple(n for n in names if n in explicit) for names in sharding._names(ndim)]
    unreduced = sharding.spec.unreduced.difference(omitted)
    spec = PartitionSpec(
        *entries,
        unreduced=unreduced,
        reduced=sharding.spec.reduced.difference(omitted),
        unreduced_kind=sharding.spec.unreduced_kind if unreduced else None,
    )
    if not spec.names() and not spec.unreduced and not spec.reduced:
        return None
    return NamedSharding(mesh.abstract_mesh, spec)


def partition_of(sharding: Any, shape: tuple[Size, ...]) -> Any:
    """As `typed`, for the sharding that the maker of an array of this shape gives.

    Raises ValueError for one over devices, for more axes, or for an axis that it does not divide.
    """
    if not isinstance(sharding.mesh, AbstractMesh):
        raise ValueError(
            f"Mesh of an aval must be an AbstractMesh. Got {sharding.mesh!s} of type "
            f"{type(sharding.mesh)}\n  Write NamedSharding(mesh.abstract_mesh, spec)."
        )
    if len(sharding.spec) > len(shape):
        raise ValueError(
            f"Length of sharding.spec ({len(sharding.spec)}) must be equal to aval's ndim "
            f"({len(shape)}). Got sharding.spec {sharding.spec}, shape {shape} and sharding "
            f"{sharding}"
        )
    found = typed(sharding, len(shape))
    if found is not None:
        for i, (size, n) in enumerate(zip(shape, found._parts(len(shape)), strict=True)):
            if size % n:
                raise ValueError(
                    f"Sharding spec {found.spec[i]} implies that array axis {i} is partitioned "
                    f"{n} times, but does not evenly divide the dimension size {size}. Got shape: "
                    f"{shape} and sharding {sharding}"
                )
    return found


def whole_sharding(ndim: int) -> NamedSharding:
    """The sharding, in types, of an array of `ndim` axes that nothing partitions."""
    return NamedSharding(meshes.get_abstract_mesh(), PartitionSpec(*[None] * ndim))


provided.fill(partition_of=partition_of, whole_sharding=whole_sharding)


def sharded_aval(aval: Aval, sharding: Any) -> Any:
    """The type of an array of type `aval` that is laid out by `sharding`."""
    wanted, space = typed(sharding, aval.ndim), space_of(sharding._memory_kind)
    return (
        aval
        if aval.partition is wanted and aval.memory_space is space
        else aval.update(sharding=wanted, memory_space=space)
    )
