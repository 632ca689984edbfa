"""Semaphores, and copies that they tell the end of.

In kernels they are primitives (`copies`). Outside of kernels a copy is done when it is begun.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes, tracebacks
from teucer._core.reference_types import is_part
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray
from teucer._devices.meshes import AxisType, get_abstract_mesh
from teucer._pallas import copies
from teucer._pallas.kernel import in_kernel, run_scoped, scratch
from teucer._pallas.specs import MemoryRef
from teucer._trees import pytrees
from teucer.numpy._references import View


class DeviceIdType(enum.Enum):
    """How the number of a device is meant: by its place in the mesh, or as its number in a
    program."""

    MESH = "mesh"
    LOGICAL = "logical"


class SemaphoreType(enum.Enum):
    """Kinds of semaphores: a scratch shape as it is, or called with the shape of an array of
    them."""

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int]) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), np.dtype(np.int32)), self)

    @property
    def dtype(self) -> Any:
        return np.dtype(np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def memory_space(self) -> SemaphoreType:
        return self

    def get_array_aval(self) -> ShapedArray:
        """The type of the count."""
        return self(()).get_array_aval()

    def get_ref_aval(self) -> Any:
        """The type of a reference to it."""
        return self(()).get_ref_aval()


semaphore = SemaphoreType.REGULAR


def _count(sem_or_view: object) -> View:
    view = sem_or_view if type(sem_or_view) is View else View(sem_or_view)
    if view.shape:
        raise ValueError(f"a semaphore of an array of shape {view.shape} is to be named: sem.at[i]")
    return view


@tracebacks.api_boundary
def semaphore_read(sem_or_view: object) -> Any:
    """The count of a semaphore, int32."""
    view = _count(sem_or_view)
    if not in_kernel():
        return view[...]
    return copies.semaphore_read_p.call(*_operands(view), views=(view.transforms,))[0]


def _operands(*views: View) -> list[Any]:
    return [x for view in views for x in (view.ref, *view._operands)]


@tracebacks.api_boundary
def semaphore_signal(
    sem_or_view: object,
    inc: object = 1,
    *,
    device_id: object = None,
    device_id_type: object = DeviceIdType.MESH,
    core_index: object = None,
) -> None:
    """Add to the count of a semaphore.

    device_id: of another device's semaphore: its place along axes of the mesh, a dict or a tuple
    with one for each axis, or its number; device_id_type says which. core_index: of another core.
    """
    view = _count(sem_or_view)
    inc = jnp.asarray(inc, np.int32)
    if not in_kernel():
        if device_id is not None:
            only_on_devices("semaphore_signal of another device", _COLLECTIVES)
        view.addupdate(inc)
        return
    number = device_number("semaphore_signal", device_id, device_id_type)
    more = [] if number is None else [number.value]
    if core_index is not None:
        more.append(jnp.asarray(core_index, np.int32))
    copies.semaphore_signal_p.call(
        *_operands(view),
        inc,
        *more,
        views=(view.transforms,),
        mesh=() if number is None else number.mesh,
        core=core_index is not None,
    )


@tracebacks.api_boundary
def semaphore_wait(sem_or_view: object, value: object = 1, *, decrement: bool = True) -> None:
    """Wait until the count is at least `value`, and take as much from it. Interpreted, steps run in
    order: it must be so already.

    A count that is too small would wait for ever. Outside of a program that raises RuntimeError.
    """
    view = _count(sem_or_view)
    if in_kernel():
        copies.semaphore_wait_p.call(
            *_operands(view),
            jnp.asarray(value, np.int32),
            views=(view.transforms,),
            decrement=bool(decrement),
        )
        return
    count = view[...]
    if not isinstance(count, Tracer) and not isinstance(value, Tracer) and int(count) < int(value):
        raise RuntimeError(
            f"semaphore_wait: the count is {int(count)}, and nobody is left to make it "
            f"{int(value)}.\n  Signal the semaphore before."
        )
    if decrement:
        view.addupdate(-jnp.asarray(value, view.dtype))


_COLLECTIVES = "Call it in a kernel under jax.shard_map, or exchange arrays by collectives."


def only_on_devices(what: str, remedy: str) -> NoReturn:
    """Refuse what has no meaning here."""
    raise NotImplementedError(f"{what} has no meaning outside of a kernel.\n  {remedy}")


# --- Devices ------------------------------------------------------------------------------------


class Device(NamedTuple):
    """A device by its number in a mesh: the axes of that with their sizes, row by row."""

    value: Any
    mesh: copies.Mesh


def mesh_in_force(op: str) -> copies.Mesh:
    """The axes of the mesh over which the kernel runs. Raises ValueError if there is none."""
    here = get_abstract_mesh()
    mesh = tuple((n, here.sizes[n]) for n in here.axis_names if here.type_of[n] is AxisType.Manual)
    if not mesh:
        raise ValueError(
            f"{op}: a kernel speaks to other devices under jax.shard_map only.\n"
            "  Call it in jax.shard_map(f, mesh=..., in_specs=..., out_specs=...)."
        )
    return mesh


def device_number(op: str, device_id: Any, kind: object) -> Device | None:
    """The number of a device, given as users name devices; None for this device."""
    if device_id is None:
        return None
    mesh = mesh_in_force(op)
    if isinstance(device_id, Mapping):
        unknown = [name for name in device_id if name not in dict(mesh)]
        if unknown:
            raise ValueError(
                f"{op}: device_id names the axis {unknown[0]!r}, and the mesh has "
                f"{', '.join(repr(name) for name, _ in mesh)}."
            )
        places = [
            device_id[name] if name in device_id else lax.axis_index(name) for name, _ in mesh
        ]
    elif isinstance(device_id, tuple | list):
        places = list(device_id)
    elif kind is DeviceIdType.LOGICAL or len(mesh) > 1:
        return Device(jnp.asarray(device_id, np.int32), mesh)
    else:
        places = [device_id]
    if len(places) != len(mesh):
        raise ValueError(
            f"{op}: device_id has {len(places)} places, for a mesh of the axes "
            f"{', '.join(repr(name) for name, _ in mesh)}. Give one for each, or a dict."
        )
    number: Any = None
    for place, (_, size) in zip(places, mesh, strict=True):
        place = jnp.asarray(place, np.int32)
        number = place if number is None else number * np.int32(size) + place
    return Device(number, mesh)


# --- Copies -------------------------------------------------------------------------------------


class AsyncCopy:
    """A copy between references: `start()` begins it, `wait()` ends it. Interpreted, it is done at
    once.

    sem, src_sem: semaphores that tell that the values are there, and that the source is free again.
    device: to which the values go; None for this one.
    """

    def __init__(
        self,
        src_ref: object,
        dst_ref: object,
        sem: object,
        src_sem: object = None,
        device: Device | None = None,
    ) -> None:
        self.src_ref, self.dst_ref, self.sem, self.src_sem = src_ref, dst_ref, sem, src_sem
        self.device = device

    @property
    def is_remote(self) -> bool:
        """Whether the values go to another device."""
        return self.device is not None

    def _parts(self) -> list[View]:
        given = (self.src_ref, self.dst_ref, self.sem, self.src_sem)
        parts = [_as_view(r) for r in given[:2]]
        return parts + [_count(r) for r in given[2:] if r is not None]

    def _call(self, primitive: Any, **params: object) -> None:
        parts = self._parts()
        device = [] if self.device is None else [self.device.value]
        primitive.call(
            *_operands(*parts),
            *device,
            views=tuple(p.transforms for p in parts),
            mesh=() if self.device is None else self.device.mesh,
            **params,
        )

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Begin to copy. add: to what is there."""
        if in_kernel():
            self._call(copies.dma_start_p, add=bool(add), priority=int(priority))
            return
        _copied(self.src_ref, self.dst_ref, add=add)
        for sem in (self.sem, self.src_sem):
            if sem is not None:
                semaphore_signal(sem)

    def wait(self) -> None:
        """Wait for the end of the copy."""
        if self.src_sem is not None:
            self.wait_send()
        if self.sem is not None:
            self.wait_recv()

    def wait_recv(self) -> None:
        """Wait until the values are there."""
        self._wait(self.sem, send=False)

    def wait_send(self) -> None:
        """Wait until the source is free again."""
        self._wait(self.sem if self.src_sem is None else self.src_sem, send=True)

    def _wait(self, sem: object, *, send: bool) -> None:
        if sem is None:
            return
        if in_kernel():
            self._call(copies.dma_wait_p, send=send)
        else:
            semaphore_wait(sem)


def _as_view(ref: object) -> View:
    return ref if type(ref) is View else View(ref)


def _copied(src: object, dst: object, *, add: bool) -> None:
    source, target = _as_view(src), _as_view(dst)
    have, want = source.aval, target.aval
    if (have.shape, have.dtype) != (want.shape, want.dtype):
        raise ValueError(
            f"a copy between references of different types: from {have.str_short(True)} to "
            f"{want.str_short(True)}"
        )
    if add and dtypes.issubdtype(want.dtype, np.number):
        target.addupdate(source[...])
    else:
        target[...] = source[...]


def make_async_copy(
    src_ref: object, dst_ref: object, sem: object = None, *, src_sem: object = None
) -> AsyncCopy:
    """A copy that the kernel can start. Semaphores signal when it has ended."""
    return AsyncCopy(src_ref, dst_ref, sem, src_sem)


@tracebacks.api_boundary
def async_copy(
    src_ref: object,
    dst_ref: object,
    sem: object = None,
    *,
    src_sem: object = None,
    priority: int = 0,
    add: bool = False,
) -> AsyncCopy:
    """Start a copy; wait for it by `.wait()`."""
    copy = make_async_copy(src_ref, dst_ref, sem, src_sem=src_sem)
    copy.start(priority, add=add)
    return copy


@tracebacks.api_boundary
def make_async_remote_copy(
    src_ref: object,
    dst_ref: object,
    send_sem: object,
    recv_sem: object,
    device_id: object,
    device_id_type: object = DeviceIdType.MESH,
) -> AsyncCopy:
    """A copy to another device of the mesh, in a kernel under `jax.shard_map`.

    dst_ref, recv_sem: of that device. send_sem: of this one. device_id: its place along axes of the
    mesh, a dict or a tuple with one for each axis, or its number; device_id_type says which.
    Interpreted, devices keep step: all of them start a copy together, and one of them at most sends
    to each.
    """
    if not in_kernel():
        only_on_devices("a copy to another device", _COLLECTIVES)
    device = device_number("make_async_remote_copy", device_id, device_id_type)
    return AsyncCopy(src_ref, dst_ref, recv_sem, send_sem, device)


def async_remote_copy(
    src_ref: object,
    dst_ref: object,
    send_sem: object,
    recv_sem: object,
    device_id: object,
    device_id_type: object = DeviceIdType.MESH,
) -> AsyncCopy:
    """Start a copy to another device, as `make_async_remote_copy` says."""
    copy = make_async_remote_copy(src_ref, dst_ref, send_sem, recv_sem, device_id, device_id_type)
    copy.start()
    return copy


@tracebacks.api_boundary
def sync_copy(src_ref: object, dst_ref: object, *, add: bool = False) -> None:
    """Copy references, or trees of them."""
    sources, targets = (pytrees.tree_leaves(t, is_leaf=is_part) for t in (src_ref, dst_ref))
    for source, target in zip(sources, targets, strict=True):
        if in_kernel():
            run_scoped(
                lambda sem, s=source, t=target: async_copy(s, t, sem, add=add).wait(),
                SemaphoreType.DMA,
            )
        else:
            _copied(source, target, add=add)


@tracebacks.api_boundary
def get_barrier_semaphore(tag: object = None) -> Any:
    """The semaphore that the devices of a kernel share, which `collective_id` of its
    CompilerParams names."""
    if not in_kernel():
        only_on_devices("the semaphore that devices share", _COLLECTIVES)
    mesh_in_force("get_barrier_semaphore")
    return scratch(SemaphoreType.BARRIER)
