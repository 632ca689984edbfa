"""Meshes: devices in a grid with named axes, and the mesh in force."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np

from teucer._base import config, memo
from teucer._devices import backends
from teucer._devices.specs import AS_IN_0_12, UNCONSTRAINED, DuplicateSpecError, PartitionSpec
from teucer._xla.client import DeviceList


@final
class AxisType(enum.Enum):
    """Who partitions along a mesh axis: the compiler, the types of the program, or the program by
    hand (shard_map)."""

    Auto = 1
    Explicit = 2
    Manual = 3

    def __repr__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, slots=True)
class AbstractDevice:
    """The description of a mesh's devices, without the devices."""

    device_kind: str
    num_cores: int | None
    platform: str

    def __repr__(self) -> str:
        return f"AbstractDevice({self.text()})"

    def text(self) -> str:
        """Its fields, as representations show them."""
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"
        )


# The types of the axes of an AbstractMesh that says none.
_ABSTRACT = AxisType.Explicit if AS_IN_0_12 else AxisType.Auto


class BaseMesh(memo.Unique):
    """The base class of meshes with and without devices: named axes with sizes and types. Equal
    meshes are one object."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    size: int

    if TYPE_CHECKING:

        @property
        def abstract_mesh(self) -> AbstractMesh: ...

    def _set_axes(self, sizes: Any, names: Any, types: Any) -> None:
        self.axis_sizes, self.axis_names, self.axis_types = sizes, names, types
        self.size = math.prod(sizes) if names else 0
        self.sizes = dict(zip(names, sizes, strict=True))
        self.type_of = dict(zip(names, types, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """Names and sizes of the axes."""
        return tuple(self.sizes.items())

    @property
    def shape(self) -> Mapping[Any, int]:
        """Sizes of the axes by name."""
        return collections.OrderedDict(self.sizes)

    @property
    def empty(self) -> bool:
        """Whether there are no devices."""
        return self.size == 0

    def _of_type(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in self.type_of.items() if t is kind)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """The axes along which the compiler partitions."""
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The axes along which types say the partition."""
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """The axes along which the program partitions by hand."""
        return self._of_type(AxisType.Manual)

    def _all(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(t is kind for t in self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether all axes are Auto."""
        return self._all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether all axes are Explicit."""
        return self._all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether all axes are Manual."""
        return self._all(AxisType.Manual)

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        """Whether no axis is Auto."""
        return bool(self.axis_types) and AxisType.Auto not in self.axis_types

    def _axes_text(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{axes}, axis_types={_types_text(self.axis_types)}"


def _types_text(types: Sequence[AxisType]) -> str:
    inner = ", ".join(t.name for t in types)
    return f"({inner},)" if len(types) == 1 else f"({inner})"


def _canonical_types(
    names: tuple[object, ...], types: Any, default: AxisType
) -> tuple[AxisType, ...]:
    if types is None:
        return (default,) * len(names)
    given = tuple(types) if isinstance(types, tuple | list) else (types,)
    if not all(isinstance(t, AxisType) for t in given):
        raise TypeError(
            "axis_types passed to Mesh must be of type `jax.sharding.AxisType`. Got "
            f"{given} of type {tuple(map(type, given))}"
        )
    if len(given) != len(names):
        raise ValueError(
            "Number of axis names should match the number of axis_types. "
            f"Got axis_names={names} and axis_types={given}."
        )
    return given


def _canonical_names(names: Any) -> tuple[Any, ...]:
    given = (names,) if isinstance(names, str) else tuple(names)
    if None in given:
        raise ValueError(f"Mesh axis names cannot be None. Got: {given}")
    if len(set(given)) != len(given):
        raise ValueError(f"Mesh axis names must be distinct, got {given}.")
    return given


@final
class AbstractMesh(BaseMesh):
    """A mesh without devices, for types and traced programs.

    axis_types: by default all Explicit; all Auto beside jaxlib before 0.12, as in JAX of that
    release.

    >>> AbstractMesh((4, 2), ("x", "y")).size
    8
    """

    _made: ClassVar[memo.Interned[AbstractMesh]] = memo.Interned()
    _internal_device_list = None
    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Any,
        axis_names: Any,
        axis_types: object = None,
        *,
        abstract_device: Any = None,
    ) -> AbstractMesh:
        names, sizes = _canonical_names(axis_names), tuple(axis_sizes)
        if len(names) != len(sizes):
            raise ValueError(
                f"AbstractMesh: one size an axis, got axis_sizes={sizes} and axis_names={names}."
            )
        key = (sizes, names, _canonical_types(names, axis_types, _ABSTRACT), abstract_device)
        found = cls._made.get(key)
        if found is None:
            found = super().__new__(cls)
            found._set_axes(*key[:3])
            found.abstract_device = abstract_device
            found = cls._made.keep(key, found)
        return found

    def __reduce__(self) -> Any:
        return _remake_abstract, (
            self.axis_sizes,
            self.axis_names,
            self.axis_types,
            self.abstract_device,
        )

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """This mesh."""
        return self

    def update(
        self,
        axis_sizes: object = None,
        axis_names: object = None,
        axis_types: object = None,
        **kwargs: object,
    ) -> AbstractMesh:
        """The mesh with some of its fields changed."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=kwargs.get("abstract_device", self.abstract_device),
        )

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> AbstractMesh:
        """The mesh with the types of some axes changed."""
        return self.update(
            axis_types=tuple({**self.type_of, **name_to_type}[n] for n in self.axis_names)
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("devices", "device_ids", "is_multi_process", "local_devices", "local_mesh"):
            raise ValueError(f"AbstractMesh does not implement {name}")
        raise AttributeError(f"'AbstractMesh' object has no attribute {name!r}")

    def __enter__(self) -> Any:
        raise RuntimeError(
            "AbstractMesh is not a context manager; use jax.sharding.use_abstract_mesh(mesh)."
        )

    def __exit__(self, *exc: object) -> None:
        """Never reached: `__enter__` raises."""

    def __repr__(self) -> str:
        if not self.axis_names:
            return "AbstractMesh((), axis_types=())"
        device = f", {self.abstract_device.text()}" if self.abstract_device else ""
        return f"AbstractMesh({self._axes_text()}{device})"


def _remake_abstract(
    sizes: Sequence[int], names: Sequence[str], types: object, device: object
) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


@final
class Mesh(BaseMesh, contextlib.ContextDecorator):
    """Devices in a grid with named axes.

    devices: an array of devices. axis_names: a name an axis of it. axis_types: an AxisType an axis;
    by default all Auto. Raises ValueError if numbers of axes and names differ.

    >>> import teucer as jax, numpy as np
    >>> Mesh(np.array(jax.devices()[:1]), ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    _made: ClassVar[memo.Interned[Mesh]] = memo.Interned()
    devices: Any
    device_list: Any
    # C++ reads it.
    _internal_device_list: Any
    flat_devices: tuple[Any, ...]

    def __new__(cls, devices: object, axis_names: object, axis_types: object = None) -> Mesh:
        grid = np.array(devices, dtype=object)
        names = _canonical_names(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        types = _canonical_types(names, axis_types, AxisType.Auto)
        # A mesh without axes may be one of no devices: np.empty((), object) holds None.
        key = (tuple([d for d in grid.flat if d is not None]), grid.shape, names, types)
        found = cls._made.get(key)
        if found is None:
            found = super().__new__(cls)
            found._set_axes(grid.shape, names, types)
            grid.flags.writeable = False
            found.devices, found.flat_devices = grid, key[0]
            found.device_list = found._internal_device_list = DeviceList(key[0])
            found = cls._made.keep(key, found)
        return found

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    @property
    def is_scalar(self) -> bool:
        """Whether the mesh has no axes."""
        return not self.axis_names

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        if not self.flat_devices:
            return _NO_ABSTRACT_MESH
        first = self.flat_devices[0]
        device = AbstractDevice(
            first.device_kind, getattr(first, "num_cores", None), first.platform
        )
        return AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device
        )

    @property
    def device_ids(self) -> Any:
        """The devices' numbers, in the grid."""
        return np.array([d.id for d in self.flat_devices], dtype=int).reshape(self.devices.shape)

    @property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return len({d.process_index for d in self.flat_devices}) > 1

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        return [d for d in self.flat_devices if d.process_index == d.client.process_index()]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that belongs to this process.

        Raises ValueError if that part is no grid.
        """
        here = np.array(
            [d.process_index == d.client.process_index() for d in self.flat_devices]
        ).reshape(self.devices.shape)
        part = self.devices[np.ix_(*(sorted(set(i)) for i in np.nonzero(here)))]
        if part.size != here.sum():
            raise ValueError(
                "When passing host local inputs to pjit, devices connected to a single host must "
                f"form a contiguous subcube of the global device mesh: {self}."
            )
        return Mesh(part, self.axis_names, self.axis_types)

    def update(
        self, devices: object = None, axis_names: object = None, axis_types: object = None
    ) -> Mesh:
        """The mesh with some of its fields changed."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        if config.disallow_mesh_context_manager.value:
            raise RuntimeError(
                "Mesh context manager is disabled by the option jax_disallow_mesh_context_manager; "
                "use jax.set_mesh(mesh)."
            )
        _outer.append(_in_force().named)
        _cell.set_local(_in_force()._replace(named=self))
        return self

    def __exit__(self, *exc: object) -> None:
        _cell.set_local(_in_force()._replace(named=_outer.pop()))

    def __str__(self) -> str:
        return f"Mesh({self._axes_text()})" if self.flat_devices else "Mesh()"

    def __repr__(self) -> str:
        axes = (
            f"axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={_types_text(self.axis_types)}"
        )
        return f"Mesh({axes})" if self.flat_devices else "Mesh()"


_NO_ABSTRACT_MESH = AbstractMesh((), ())
NO_MESH = Mesh(np.empty((0,), object), ("none",))
NO_MESH._set_axes((), (), ())


_UNSAID: Any = object()


def make_mesh(
    axis_sizes: Sequence[int] = _UNSAID,
    axis_names: Sequence[object] = _UNSAID,
    axis_types: object = None,
    *,
    devices: Sequence[object] | None = None,
    axis_shapes: Sequence[int] = _UNSAID,
) -> Mesh:
    """A mesh of the first devices, by default of all that there are, in the order in which they are
    near each other.

    axis_sizes, axis_names: sizes and names of its axes. axis_shapes: the sizes, as releases of JAX
    before 0.12 call them. axis_types: an AxisType an axis; by
    default all Explicit. Raises ValueError if there are fewer devices than the mesh needs.

    >>> make_mesh((1,), ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Explicit,))
    """
    if (axis_sizes is _UNSAID) is (axis_shapes is _UNSAID) or axis_names is _UNSAID:
        raise TypeError("make_mesh() needs axis_sizes (or axis_shapes) and axis_names.")
    found = list(backends.devices() if devices is None else devices)
    sizes = tuple(axis_shapes if axis_sizes is _UNSAID else axis_sizes)
    if not all(isinstance(size, int | np.integer) for size in sizes):
        raise ValueError(
            f"`{'axis_sizes' if AS_IN_0_12 else 'axis_shapes'}` passed to `make_mesh` should be a "
            f"sequence of ints. Got {sizes}"
        )
    n = math.prod(sizes)
    if n > len(found):
        raise ValueError(
            f"Number of devices {len(found)} must be >= the product of mesh_shape {sizes}\n"
            f"  Make a smaller mesh. Without accelerators JAX_NUM_CPU_DEVICES={n} or "
            f'jax.config.update("jax_num_cpu_devices", {n}), before the first array, gives as many '
            "devices."
        )
    names = _canonical_names(axis_names)
    grid = np.empty(n, object)
    grid[:] = found[:n]
    return Mesh(grid.reshape(sizes), names, _canonical_types(names, axis_types, AxisType.Explicit))


class InForce(NamedTuple):
    """The mesh that programs are written for: `mesh` by set_mesh, `abstract` by use_abstract_mesh,
    `named` by `with mesh:`."""

    mesh: Mesh | None = None
    abstract: AbstractMesh | None = None
    named: Mesh | None = None


CONTEXT = "teucer_mesh"  # the name of the mesh in force in `config.trace_context_names()`
_cell = config.context_cell(CONTEXT, None, config.JIT, config.TRACE)
# Values that the `with mesh:` blocks now open must restore.
_outer: list[Any] = []


def _in_force() -> InForce:
    return _cell.value or InForce()


def mesh_in_force() -> Mesh | None:
    """The mesh over whose devices programs run by default, set by `set_mesh`; None where there is
    none.

    The types of its axes are taken from the abstract mesh in force, which `use_abstract_mesh` may
    have changed.
    """
    found = _cell.value
    if found is None or found.mesh is None:
        return None
    mesh, abstract = found.mesh, found.abstract
    if (
        abstract is None
        or abstract is mesh.abstract_mesh
        or abstract.manual_axes
        or abstract.size != mesh.size
    ):
        return mesh  # type: ignore[no-any-return]
    return Mesh(mesh.devices.reshape(abstract.axis_sizes), abstract.axis_names, abstract.axis_types)


def left_out(mesh: BaseMesh) -> frozenset[Any]:
    """The mesh axes that types leave out: axes of size 1, if the option says so."""
    if not config.remove_size_one_mesh_axis_from_type.value:
        return frozenset()
    return frozenset([name for name, size in mesh.sizes.items() if size == 1])


def with_devices(abstract: AbstractMesh) -> Mesh | None:
    """The devices of a mesh that a type names: taken from the mesh in force, else from the only
    mesh like it. Among several such meshes the one with devices in their usual order is taken."""
    in_force = mesh_in_force()
    alike = (
        [m for m in Mesh._made if m.abstract_mesh is abstract] if in_force is None else [in_force]
    )
    if len(alike) > 1:
        usual = list(range(abstract.size))
        alike = [m for m in alike if [d.id for d in m.flat_devices] == usual]
    return alike[0] if len(alike) == 1 else None


def mesh_of_specs() -> BaseMesh | None:
    """The mesh that bare PartitionSpecs name; None where there is none."""
    found = _cell.value
    return None if found is None else found.abstract or found.mesh


def mesh_of_block() -> Mesh | None:
    """The mesh of the innermost `with mesh:` block, which `pjit` and `with_sharding_constraint`
    heed; None where there is none."""
    found = _cell.value
    return None if found is None or found.abstract or found.mesh else found.named


def innermost_block() -> Mesh:
    """The mesh of the innermost `with mesh:` block, whatever set_mesh says; an empty one where
    there is none."""
    return _in_force().named or NO_MESH


def get_mesh() -> Mesh:
    """The mesh set by `set_mesh`; an empty one where there is none."""
    return _in_force().mesh or NO_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The mesh in force without its devices; an empty one where there is none."""
    found = _in_force()
    if found.abstract is not None:
        return found.abstract
    return found.mesh.abstract_mesh if found.mesh is not None else _NO_ABSTRACT_MESH


@final
class set_mesh:
    """Set the mesh of this thread, at once; as a context manager, until the end of the block.

    Programs run over its devices, bare PartitionSpecs name its axes, and types show partitions
    over its Explicit ones.

    >>> with set_mesh(make_mesh((1,), ("x",))):
    ...     print(get_abstract_mesh().axis_names)
    ('x',)
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got type: {type(mesh)}")
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                "jax.set_mesh: the mesh contains manual axes, which only the function that "
                f"jax.shard_map maps has.\n    mesh: {mesh}\n"
                "  Give its axes the types Auto or Explicit."
            )
        self.prev_mesh, self.prev_abstract_mesh = get_mesh(), get_abstract_mesh()
        in_force = InForce(
            mesh if mesh is not None and mesh.flat_devices else None, named=_in_force().named
        )
        self._saved = _cell.swap_local(in_force if in_force != InForce() else None)

    def __enter__(self) -> None:
        """The mesh is set already."""

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        _cell.set_local(self._saved)


@final
class use_abstract_mesh:
    """Trace for another mesh without devices until the end of the block."""

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh)}"
            )
        self.mesh = mesh

    def __enter__(self) -> AbstractMesh:
        self.prev = get_abstract_mesh()
        if not self.mesh.empty and not self.prev.empty and self.mesh.size != self.prev.size:
            raise ValueError(
                f"use_abstract_mesh cannot change the size of the mesh. Got new mesh: {self.mesh} "
                f"with size={self.mesh.size} and prev mesh: {self.prev} with size={self.prev.size}"
            )
        self._saved = _cell.swap_local(_in_force()._replace(abstract=self.mesh))
        return self.mesh

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        _cell.set_local(self._saved)


def check_spec(mesh: Any, spec: Any) -> None:
    """Check that a spec names axes that a mesh has, of each once, and of types that allow it.

    Raises TypeError for objects of other types, ValueError and DuplicateSpecError for wrong axes.
    """
    if not isinstance(mesh, BaseMesh):
        raise TypeError(
            f"NamedSharding: mesh must be a Mesh or an AbstractMesh, got {type(mesh)}: "
            f"{mesh!r:.100}."
        )
    if spec is None:
        raise TypeError(
            "NamedSharding: Unexpected None as its spec.\n"
            "  Write jax.P() for an array that is whole on each device."
        )
    if not isinstance(spec, PartitionSpec):
        raise TypeError(
            f"NamedSharding: spec must be a PartitionSpec, got {type(spec)}: {spec!r:.100}.\n"
            "  Write jax.P('x', None) for a tuple ('x', None)."
        )
    # Over an AbstractMesh it says, within the backward pass, that a type leaves the partition open.
    if UNCONSTRAINED in spec.partitions and isinstance(mesh, Mesh) and not mesh.auto_axes:
        raise ValueError(
            f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got "
            f"mesh axis_types: {mesh.axis_types}\n  The compiler partitions along Auto axes only."
        )
    seen = set()
    for what, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        for name in sorted(axes, key=str):
            if name not in mesh.sizes:
                raise ValueError(
                    f"{what} axes {name} is not found in mesh.axis_names={mesh.axis_names}. Got "
                    f"pspec={spec}"
                )
    for name in (*spec.names(), *sorted(spec.unreduced), *sorted(spec.reduced)):
        if name not in mesh.sizes:
            raise ValueError(
                f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}."
            )
        if name in seen:
            raise DuplicateSpecError(
                "A single NamedSharding spec specification can map every mesh axis to at most "
                f"one positional dimension, but {spec} has duplicate entries for `{name}`"
            )
        seen.add(name)
    # In types, the manual axes of the function of parts.
    allowed = (
        (AxisType.Explicit,) if isinstance(mesh, Mesh) else (AxisType.Explicit, AxisType.Manual)
    )
    for what, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        if any(mesh.type_of[n] not in allowed for n in axes):
            raise ValueError(
                f"{what} axes can only refer to mesh axes that is of type `Explicit`. Got "
                f"{what.lower()} axes: {axes} and mesh: {mesh}"
            )
