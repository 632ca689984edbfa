"""Semaphores, and copies that they tell the end of.

Steps and cores run in order here, so a copy is done when it is begun.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from teucer import numpy as jnp
from teucer._base import dtypes, tracebacks
from teucer._core.reference_types import is_part
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray
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
        return MemoryRef(ShapedArray(tuple(shape), np.dtype(np.int32)), "semaphore_mem")

    @property
    def dtype(self) -> Any:
        return np.dtype(np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

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
    return _count(sem_or_view)[...]


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

    device_id: of another device's semaphore; that is only on TPUs, which kernels are not compiled
    for yet.
    """
    if device_id is not None:
        only_on_devices(
            "semaphore_signal of another device",
            "Exchange arrays by jax.shard_map and collectives.",
        )
    view = _count(sem_or_view)
    view.addupdate(jnp.asarray(inc, view.dtype))


@tracebacks.api_boundary
def semaphore_wait(sem_or_view: object, value: object = 1, *, decrement: bool = True) -> None:
    """Wait until the count is at least `value`, and take as much from it. Steps run in order: it
    must be so already.

    A count that is too small would wait for ever. Outside of a program that raises RuntimeError.
    """
    view = _count(sem_or_view)
    count = view[...]
    if not isinstance(count, Tracer) and not isinstance(value, Tracer) and int(count) < int(value):
        raise RuntimeError(
            f"semaphore_wait: the count is {int(count)}, and nobody is left to make it "
            f"{int(value)}.\n  Signal the semaphore before."
        )
    if decrement:
        view.addupdate(-jnp.asarray(value, view.dtype))


def only_on_devices(what: str, remedy: str) -> NoReturn:
    """Refuse operations without a meaning for interpreted kernels."""
    raise NotImplementedError(
        f"{what} is only on TPUs, which kernels are not compiled for yet.\n  {remedy}"
    )


class AsyncCopy:
    """A copy between references: `start()` begins it, `wait()` ends it. Here it is done at once.

    sem, src_sem: semaphores that tell that the values are there, and that the source is free again.
    """

    def __init__(
        self, src_ref: object, dst_ref: object, sem: object, src_sem: object = None
    ) -> None:
        self.src_ref, self.dst_ref, self.sem, self.src_sem = src_ref, dst_ref, sem, src_sem

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Begin to copy. add: to the old elements."""
        _copied(self.src_ref, self.dst_ref, add=add)
        for sem in (self.sem, self.src_sem):
            if sem is not None:
                semaphore_signal(sem)

    def wait(self) -> None:
        """Wait for the end of the copy."""
        for sem in (self.sem, self.src_sem):
            if sem is not None:
                semaphore_wait(sem)

    def wait_recv(self) -> None:
        """Wait until the values are there."""
        if self.sem is not None:
            semaphore_wait(self.sem)

    def wait_send(self) -> None:
        """Wait until the source is free again."""
        sem = self.sem if self.src_sem is None else self.src_sem
        if sem is not None:
            semaphore_wait(sem)


def _copied(src: object, dst: object, *, add: bool) -> None:
    have, want = (
        typeof(src) if type(src) is not View else src.aval,
        typeof(dst) if type(dst) is not View else dst.aval,
    )
    if (have.shape, have.dtype) != (want.shape, want.dtype):
        raise ValueError(
            f"a copy between references of different types: from {have.str_short(True)} to "
            f"{want.str_short(True)}"
        )
    source, target = (r if type(r) is View else View(r) for r in (src, dst))
    if add and dtypes.issubdtype(want.dtype, np.number):
        target.addupdate(source[...])
    else:
        target[...] = source[...]


def make_async_copy(
    src_ref: object, dst_ref: object, sem: object = None, *, src_sem: object = None
) -> AsyncCopy:
    """A copy to be started, whose end semaphores tell."""
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
def sync_copy(src_ref: object, dst_ref: object, *, add: bool = False) -> None:
    """Copy references, or trees of them."""
    sources, targets = (pytrees.tree_leaves(t, is_leaf=is_part) for t in (src_ref, dst_ref))
    for source, target in zip(sources, targets, strict=True):
        _copied(source, target, add=add)
