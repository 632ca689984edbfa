"""Where programs run: on one device, or spread over the devices of a mesh."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import config, errors
from teucer._core.provided import provided
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray, aval_of
from teucer._devices import backends, meshes, shardings
from teucer._devices.chosen import from_hlo
from teucer._devices.meshes import AxisType, Mesh
from teucer._devices.shardings import NamedSharding, SingleDeviceSharding
from teucer._devices.specs import PartitionSpec
from teucer._xla.arrays import ArrayImpl, HloSharding
from teucer._xla.client import platform_of

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.meshes import BaseMesh


class Memories(NamedTuple):
    """The kinds of memory of a program's arguments and results; empty if all are in device
    memory."""

    ins: tuple[str, ...]
    outs: tuple[str, ...]


NOWHERE_ELSE = Memories((), ())


class Placement(NamedTuple):
    """Where a program runs, and whether its results are committed there.

    devices: one, or those of a mesh. mesh: over which values are laid, an AbstractMesh for a
    program that is not run; None on one device.
    ins, outs: shardings of the arguments and results, None where the compiler chooses; empty on one
    device.
    in_layouts, out_layouts: their layouts as `formats.at_boundary` has them; empty where all lie
    row by row.
    in_kinds, out_kinds: kinds of memory that `jit` was told; empty where types say them.
    """

    devices: tuple[Any, ...]
    committed: bool
    mesh: Any = None
    ins: tuple[Any, ...] = ()
    outs: tuple[Any, ...] = ()
    in_layouts: tuple[Any, ...] = ()
    out_layouts: tuple[Any, ...] = ()
    in_kinds: tuple[str | None, ...] = ()
    out_kinds: tuple[str | None, ...] = ()

    @property
    def device(self) -> Any:
        """The first device."""
        return self.devices[0]

    @property
    def platform(self) -> str:
        """The platforms for which programs are written: 'cpu', 'cuda', ..."""
        return platform_of(self.devices[0])

    def memories(
        self,
        in_avals: Sequence[ShapedArray],
        kept: Sequence[bool],
        out_avals: Sequence[ShapedArray],
    ) -> Memories:
        """Where the arguments that a program takes and its results are; where some are elsewhere,
        of all it is said."""
        if not self.in_kinds and not self.out_kinds:
            for aval in (*in_avals, *out_avals):
                if aval.placed:
                    break
            else:
                return NOWHERE_ELSE
        ins, outs = (
            [
                kind or _kind_of(aval)
                for aval, kind in zip(avals, kinds or (None,) * len(avals), strict=True)
            ]
            for avals, kinds in (
                (in_avals, list(itertools.compress(self.in_kinds, kept))),
                (out_avals, self.out_kinds),
            )
        )
        if not any(ins) and not any(outs):
            return NOWHERE_ELSE
        own = self.device.default_memory().kind
        return Memories(tuple([kind or own for kind in ins]), tuple([kind or own for kind in outs]))

    def __repr__(self) -> str:
        if self.mesh is None:
            return f"Placement(device={self.device!r}, committed={self.committed})"
        return f"Placement(mesh={self.mesh}, ins={self.ins}, outs={self.outs})"


def placement_of(args: Sequence[Value], device: object = None) -> Placement:
    """Where a program on these arguments runs: on `device`, else where its committed arguments are,
    else by default.

    The default is the mesh in force, else one device.
    Raises ValueError if committed arguments are on different devices.
    """
    if device is not None:
        return Placement((device,), True)
    if meshes.mesh_in_force() is not None:
        return spread(args)
    abstract = [_abstract_of(x) for x in args]
    if any(abstract):
        return _partly_abstract(args, abstract)
    found = None
    for x in args:
        own = sharding_of(x)
        if own is not None:
            if type(own) is not SingleDeviceSharding:
                return spread(args)
            if found is not None and found[1]._device is not own._device:
                raise IncompatibleDevices((found, (x, own)))
            found = (x, own)
    if found is not None:
        return Placement((found[1]._device,), True)
    return Placement((backends.target_device(),), False)


def spread(
    args: Sequence[Any],
    ins: Sequence[Any] | None = None,
    outs: Sequence[Any] = (),
    *,
    anywhere: bool = False,
) -> Placement:
    """The placement of a program that some of its arguments, or the mesh in force, spread over
    several devices.

    ins, outs: the shardings that `jit` was given for arguments and results; None for those that it
    was not. anywhere: whether the program may run on devices outside the mesh in force.
    Raises ValueError if they do not agree about the devices, or do not fit an argument.
    """
    mesh: Any = None
    first: tuple[Any, Any] | None = None
    placed = []
    for s in (*(ins or ()), *outs):
        if s is not None and not s.num_devices:
            raise ValueError(
                f"jit: One of in_shardings or out_shardings got an empty NamedSharding: {s} which "
                "is not allowed.\n  Give one over a mesh of devices, or None."
            )
    for i, x in enumerate(args):
        own = sharding_of(x)
        wanted = ins[i] if ins else None
        if wanted is not None and isinstance(x, ArrayImpl):
            _check_memory(x, x._sharding, wanted)
        if (
            wanted is not None
            and own is not None
            and not (
                own.is_equivalent_to(wanted, x.ndim)
                or type(own) is type(wanted) is SingleDeviceSharding
            )
        ):
            raise ValueError(
                "Sharding passed to jit does not match the sharding on the respective arg. Got "
                f"jit sharding: {wanted},\narg sharding: {own} for arg type: "
                f"{x.aval.str_short()}\n  Move the argument with jax.device_put."
            )
        placed.append(own if wanted is None else wanted)
    for x, s in [*zip(args, placed, strict=True), *((None, s) for s in outs)]:
        if s is None:
            continue
        if first is None:
            first = (x, s)
        elif shardings.devices_of(s) != shardings.devices_of(first[1]):
            raise IncompatibleDevices((first, (x, s)))
        if isinstance(s, NamedSharding) and mesh is None:
            mesh = s.mesh
    in_kinds, out_kinds = _kinds(ins or ()), _kinds(outs)
    in_force = meshes.mesh_in_force()
    if in_force is not None:
        if first is None or shardings.devices_of(first[1]) == in_force.flat_devices:
            mesh = in_force
        elif not anywhere:
            raise IncompatibleDevices((first, (in_force, NamedSharding(in_force, PartitionSpec()))))
    if not config.use_shardy_partitioner.value:
        raise NotImplementedError(
            "programs over several devices are partitioned by Shardy.\n  Leave the option "
            "jax_use_shardy_partitioner on."
        )
    if mesh is None:
        if first is None or len(devices := shardings.devices_of(first[1])) == 1:
            target = backends.target_device() if first is None else devices[0]
            return Placement((target,), first is not None, in_kinds=in_kinds, out_kinds=out_kinds)
        mesh = Mesh(devices, ("devices",))
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"jit: {mesh} has no devices to run or to be exported for.\n"
            "  Give shardings over a jax.sharding.Mesh."
        )
    named = [None if s is None else _over_mesh(s) for s in placed]
    for x, s in zip(args, named, strict=True):
        if s is not None and (ins or not isinstance(x, ArrayImpl)):
            shardings.check_shape(s, aval_of(x).shape)
    return Placement(
        mesh.flat_devices,
        True,
        mesh,
        tuple(named),
        tuple(outs),
        in_kinds=in_kinds,
        out_kinds=out_kinds,
    )


def _kinds(shardings: Sequence[Any]) -> tuple[str | None, ...]:
    """The kinds of memory that shardings say; empty where all are the devices'."""
    kinds = tuple([None if s is None else s._memory_kind for s in shardings])
    return kinds if any(kinds) else ()


def _kind_of(aval: ShapedArray) -> str | None:
    """The kind of memory that a type names, if it is not device memory."""
    space = getattr(aval, "memory_space", None)  # a reference has none
    return None if space is None else space.kind


def _check_memory(x: Any, own: Any, wanted: Any) -> None:
    if own.memory_kind != wanted.memory_kind:
        raise ValueError(
            "Memory kinds passed to jax.jit does not match memory kind on the respective arg. "
            f"Got jit memory kind: {wanted.memory_kind}, arg memory kind: {own.memory_kind} for "
            f"arg type: {aval_of(x).str_short()}\n  Move the argument with jax.device_put(x, "
            "sharding)."
        )


def _abstract_of(x: Value) -> NamedSharding | None:
    """The sharding of a struct over a mesh without devices."""
    s = None if isinstance(x, ArrayImpl) else getattr(x, "sharding", None)
    stated = type(s) is NamedSharding and _is_abstract(s.mesh)
    return s if stated and not isinstance(x, Tracer) else None


def _partly_abstract(args: Sequence[Value], abstract: Sequence[NamedSharding | None]) -> Placement:
    """The placement of a program that is lowered, and not run, for structs over meshes without
    devices: for no devices, or for those of the other arguments.

    Raises ValueError if meshes differ in size.
    """
    found = list(dict.fromkeys(s.mesh for s in abstract if s is not None))
    first = found[0]
    other = next((mesh for mesh in found if mesh.size != first.size), None)
    if other is not None:
        raise ValueError(
            "AbstractMesh should be of the same size across all shardings. "
            f"Got {first} and {other}\n  Lay all arguments over meshes of one size."
        )
    own = next((s for x in args if isinstance(s := sharding_of(x), NamedSharding)), None)
    if own is None:
        return Placement((backends.target_device(),) * first.size, True, first, tuple(abstract))
    devices = shardings.devices_of(own)
    if len(devices) != first.size:
        raise ValueError(
            f"AbstractMesh size: {first.size} does not match the device assignment size: "
            f"{len(devices)}\n    mesh: {first}\n    another argument: {own}\n"
            "  Lay all arguments over as many devices."
        )
    return spread(args, [with_assigned(s, devices) for s in abstract])


def with_assigned(where: Any, devices: Sequence[Any]) -> Any:
    """A sharding; one over an AbstractMesh with devices for it."""
    mesh: Any = getattr(where, "mesh", None)
    return where.update(mesh=assigned(mesh, devices)) if _is_abstract(mesh) else where


def assigned(mesh: meshes.AbstractMesh, devices: Sequence[object]) -> Mesh:
    """A mesh with devices. Raises DeviceCountError if there are not as many as it has places."""
    if mesh.size != len(devices):
        raise errors.DeviceCountError(
            f"Length of device_assignment ({len(devices)}) passed to `.compile()` must be equal to "
            f"the number of devices the jitted function was lowered with ({mesh.size}).\n  The "
            f"size of abstract mesh {mesh.size} in {mesh} must match the length of device "
            f"assignment: {len(devices)}\n  Pass as many devices as the mesh has places."
        )
    grid = np.empty(mesh.size, object)
    grid[:] = devices
    return Mesh(grid.reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)


def _is_abstract(mesh: BaseMesh) -> bool:
    return isinstance(mesh, meshes.AbstractMesh) and not mesh.empty


def to_be_lowered(placement: Placement, n_in: int) -> Placement:
    """The placement of a program that is to be lowered: for the abstract mesh in force, where no
    devices are said.

    Raises ValueError if that is of another size than the program's.
    """
    mesh = meshes.get_abstract_mesh()
    if mesh.empty or mesh.manual_axes or meshes.mesh_in_force() is not None:
        return placement
    if placement.mesh is not None and placement.mesh.size != mesh.size:
        raise ValueError(
            f"jit: the arguments are laid over {placement.mesh}, and the mesh in force is {mesh}, "
            "of another size.\n  Lay them over that mesh, or leave jax.sharding.use_abstract_mesh."
        )
    alone = placement.mesh is None and not placement.committed
    return over_mesh(placement, mesh, n_in) if alone else placement


def on_assigned(placement: Placement, devices: Sequence[object]) -> Placement:
    """A placement over an AbstractMesh, with devices. Raises DeviceCountError if there are not as
    many as the mesh has places."""
    ins, outs = (
        tuple([with_assigned(s, devices) for s in given])
        for given in (placement.ins, placement.outs)
    )
    mesh = assigned(placement.mesh, devices)
    return placement._replace(
        devices=mesh.flat_devices, committed=True, mesh=mesh, ins=ins, outs=outs
    )


def over_mesh(
    placement: Placement, mesh: Mesh | meshes.AbstractMesh, n_in: int, by: Named | None = None
) -> Placement:
    """The placement of a program that itself names a mesh, by an operation, and whose arguments are
    on no devices in particular."""
    if isinstance(mesh, meshes.AbstractMesh):
        return placement._replace(
            devices=placement.devices[:1] * mesh.size, mesh=mesh, ins=(None,) * n_in
        )
    _check_free(placement, mesh.flat_devices, by)
    return Placement(
        mesh.flat_devices,
        True,
        mesh,
        (None,) * n_in,
        in_kinds=placement.in_kinds,
        out_kinds=placement.out_kinds,
    )


def on_device(placement: Placement, device: object, by: Named) -> Placement:
    """The placement of a program that itself names its device, by an operation."""
    _check_free(placement, (device,), by)
    return placement._replace(devices=(device,), committed=True)


def _check_free(placement: Placement, devices: tuple[Any, ...], by: Named | None) -> None:
    if placement.committed and placement.devices != devices:
        raise IncompatibleDevices(((COMMITTED, placement.devices), (by or UNKNOWN, devices)))


def sharding_of(x: Value) -> Any:
    """The sharding that an argument is committed to; None if there is none."""
    if isinstance(x, ArrayImpl):
        return x._sharding if x._committed else None
    s = getattr(x, "sharding", None)  # a ShapeDtypeStruct
    if s is None or not hasattr(s, "_to_xla_hlo_sharding"):
        return None
    if isinstance(getattr(s, "mesh", None), meshes.AbstractMesh):
        mesh = meshes.mesh_in_force()
        return (
            s.update(mesh=mesh)
            if mesh is not None and mesh.shape_tuple == s.mesh.shape_tuple
            else None
        )
    return s


def _over_mesh(sharding: object) -> Any:
    """A sharding of an argument of a program over a mesh, which may be of one device."""
    if type(sharding) is SingleDeviceSharding:
        return NamedSharding(Mesh(shardings.devices_of(sharding), ("devices",)), PartitionSpec())
    return sharding


class Named(NamedTuple):
    """An operation that names devices: its name in messages, and its line, " at ..."."""

    label: str
    place: str


UNKNOWN = Named("a sharding", "")
# An argument, or a sharding of results given to `jit`: it is not known which.
COMMITTED = Named("arguments", "")


class IncompatibleDevices(ValueError):
    """The arguments and constants of a program are committed to different devices.

    placed: two arguments, None for the results, the mesh in force, or operations, each with its
    sharding or its devices. names: what messages call all arguments.
    """

    __module__ = "teucer.errors"

    def __init__(
        self,
        placed: Sequence[tuple[Any, Any]],
        args: Sequence[Value] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.placed = placed
        first, second = (self._said(x, s, args, names) for x, s in placed)
        super().__init__(
            f"Received incompatible devices for jitted computation. Got {first} and {second}\n"
            + (
                "  Lay values over one mesh, or move them with jax.device_put outside of jit."
                if all(isinstance(x, Named) for x, _ in placed)
                else "  Move one with jax.device_put."
            )
        )

    def naming(self, args: Sequence[Value], names: Sequence[str]) -> IncompatibleDevices:
        """The same, which names the arguments."""
        return IncompatibleDevices(self.placed, args, names)

    def _said(
        self, x: Value, sharding: object, args: Sequence[Value] | None, names: Sequence[str]
    ) -> str:
        devices = sharding if isinstance(sharding, tuple) else shardings.devices_of(sharding)
        where = (
            f"with device ids {[d.id for d in devices]} on platform {devices[0].platform.upper()}"
        )
        if x is COMMITTED and args is not None:
            x = next((arg for arg in args if sharding_of(arg) is not None), None)
        if x is None:
            return f"explicit output sharding {where}"
        if x is COMMITTED:
            return f"{x.label} {where}"
        if isinstance(x, Named):
            return f"{x.label} inside jit {where}{x.place}"
        if isinstance(x, Mesh):
            return f"jit's context mesh {where}"
        name = next(
            (f" {name}" for arg, name in zip(args or (), names, strict=True) if arg is x), ""
        )
        return f"argument{name} with shape {aval_of(x).str_short()} and {where}"


def pinned(
    placement: Placement, out_avals: Sequence[ShapedArray], handed_on: Sequence[object]
) -> tuple[Any, ...]:
    """The shardings of results that the program's author or the results' types say; None where the
    compiler chooses.

    handed_on: the sharding that was given for the argument which a result is; None for other
    results.
    """
    mesh: Any = placement.mesh
    mixed = AxisType.Auto in mesh.axis_types
    explicit = AxisType.Explicit in mesh.axis_types and not mixed
    found = []
    for aval, given, argument in zip(
        out_avals, placement.outs or (None,) * len(out_avals), handed_on, strict=True
    ):
        if given is not None:
            shardings.check_shape(given, aval.shape)
            found.append(given)
        elif aval.partition is not None and not (mixed and aval.partition.mesh.auto_axes):
            found.append(NamedSharding(_in_type(aval.partition.mesh, mesh), aval.partition.spec))
        else:
            found.append(
                (argument or NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim)))
                if explicit
                else None
            )
    return tuple(found)


def _in_type(wanted: meshes.AbstractMesh, mesh: BaseMesh) -> Any:
    """The mesh of a type, over the devices of a program's mesh; a program may reshard to another
    than its own."""
    if (
        not isinstance(mesh, Mesh)
        or wanted.size != mesh.size
        or (wanted.shape_tuple, wanted.axis_types) == (mesh.shape_tuple, mesh.axis_types)
    ):
        return mesh
    return Mesh(mesh.devices.reshape(wanted.axis_sizes), wanted.axis_names, wanted.axis_types)


def pinned_arguments(
    placement: Placement, in_avals: Sequence[ShapedArray], has_sums: bool
) -> tuple[Any, ...]:
    """The shardings of arguments that are said, or follow from their types where a program has sums
    that are still to be taken.

    Without them the compiler might have an argument come in parts of a sum.
    """
    mesh: Any = placement.mesh
    if not has_sums or AxisType.Auto in mesh.axis_types:
        return placement.ins
    return tuple(
        [
            given
            or NamedSharding(
                mesh, PartitionSpec() if aval.partition is None else aval.partition.spec
            )
            if isinstance(aval, ShapedArray)
            else given
            for given, aval in zip(placement.ins, in_avals, strict=True)
        ]
    )


def chosen_by_compiler(
    given: Sequence[Any],
    chosen: Any,
    avals: Sequence[ShapedArray],
    placement: Placement,
    like: Sequence[tuple[Any, Any]] = (),
) -> list[Any]:
    """The shardings given, and for each None the compiler's choice, written like the result's type
    or like an argument's sharding.

    like: the types of arguments, with their shardings.
    """
    if all(s is not None for s in given):
        return list(given)
    mesh: Any = placement.mesh
    read = [None] * len(given) if chosen is None else map(HloSharding.from_proto, chosen)

    def found(hlo: object, aval: ShapedArray) -> Any:
        ndim = aval.ndim
        own = from_hlo(hlo, mesh, ndim, mesh.device_list)
        said = [s for a, s in like if a.ndim == ndim and isinstance(s, NamedSharding)]
        if mesh.auto_axes and mesh.explicit_axes:
            said.insert(0, NamedSharding(mesh, aval.sharding.spec))
        return next((s for s in said if s.is_equivalent_to(own, ndim)), own)

    return [
        s if s is not None else found(c, aval)
        for s, c, aval in zip(given, read, avals, strict=True)
    ]


def _parts() -> Any:
    from teucer._devices import parts  # what few programs need: libraries' types within shard_map

    return parts


provided.fill(parts=_parts)


def with_devices(where: object) -> Any:
    """A sharding; one over an AbstractMesh with the devices of the mesh in force, if that is the
    same mesh."""
    mesh = meshes.mesh_in_force()
    if type(where) is NamedSharding and mesh is not None and where.mesh is mesh.abstract_mesh:
        return NamedSharding(mesh, where.spec, where._kind)
    return where
