"""Copies and semaphores as primitives of kernels.

Targets have instructions for them. As programs on values, where steps and devices keep step, a copy
is done when it starts, and a semaphore is a number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.reference_types import ReadEffect, WriteEffect
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray
from teucer._dialects.references.discharge import Cell
from teucer.lax._reference_parts import Views, add_part, part_aval, read_part, set_part

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Value

_COUNT = ShapedArray((), np.dtype(np.int32))
# The axes of a mesh with their sizes, the outermost first: a device's number counts them row by
# row.
Mesh = tuple[tuple[Any, int], ...]


class Part(NamedTuple):
    """A part of a reference among operands."""

    ref: Any
    places: tuple[Any, ...]
    views: Views

    def read(self) -> Any:
        return read_part(self.ref.read(), *self.places, views=self.views)

    def write(self, value: Array) -> None:
        self.ref.write(set_part(self.ref.read(), value, *self.places, views=self.views))

    def add(self, value: Array) -> None:
        self.ref.write(add_part(self.ref.read(), value, *self.places, views=self.views))

    @property
    def aval(self) -> ShapedArray:
        """The type of the part; of a part of a type of reference."""
        return part_aval(self.ref.inner, self.views, self.places)


class Taken(NamedTuple):
    """Operands taken apart: parts of references, and what follows them."""

    parts: list[Part]
    rest: tuple[Any, ...]


def taken(operands: Sequence[Value], views: Sequence[Views]) -> Taken:
    """The parts that operands are: a reference and the places of its views each."""
    parts, at = [], 0
    for own in views:
        n = sum(view.n for view in own)
        parts.append(Part(operands[at], tuple(operands[at + 1 : at + 1 + n]), own))
        at += 1 + n
    return Taken(parts, tuple(operands[at:]))


def places_of(views: Sequence[Views]) -> list[int]:
    """The numbers of the operands that are references."""
    sizes = [1 + sum(view.n for view in own) for own in views]
    return [0, *itertools.accumulate(sizes)][:-1]


@dialects.takes_references.mark
class _OnParts(Primitive):
    """A primitive on parts of references. views: for each part those that name it. mesh: where an
    operand, the last, is the number of another device of this mesh; () elsewhere."""

    __slots__ = ()
    multiple_results = True
    mergeable = False

    def types(self, *avals: ShapedArray, views: Sequence[Views], **params: object) -> Any:
        return ()

    def effects(self, *avals: ShapedArray, views: Sequence[Views], **params: object) -> Any:
        refs = places_of(views)
        return frozenset([*(ReadEffect(i) for i in refs), *(WriteEffect(i) for i in refs)])

    @dialects.discharge.rule
    def discharge(self, *operands: Value, views: Sequence[Views], **params: object) -> Any:
        found = taken(operands, views)
        if any(type(p.ref) is not Cell for p in found.parts):
            return self.call(*operands, views=tuple(views), **params)
        return self.on_parts(found, **params)  # type: ignore[attr-defined]


def _me(mesh: Mesh) -> Any:
    """The number of this device in a mesh."""
    number: Any = np.int32(0)
    for name, size in mesh:
        number = number * np.int32(size) + lax.axis_index(name)
    return number


def _from_all(x: ArrayLike, mesh: Mesh) -> Any:
    return lax.all_gather(x, tuple(name for name, _ in mesh))


def _named_by_all(part: Part, mesh: Mesh) -> list[Part]:
    """The part as each device of a mesh names it: who sends says where it goes."""
    places = [_from_all(p, mesh) if isinstance(p, Tracer) else None for p in part.places]
    return [
        part._replace(
            places=tuple(
                own if all_ is None else all_[i]
                for own, all_ in zip(part.places, places, strict=True)
            )
        )
        for i in range(math.prod(size for _, size in mesh))
    ]


def _told(device: Value, mesh: Mesh) -> Any:
    """For each device of a mesh, whether it names this one."""
    return _from_all(jnp.asarray(device, np.int32), mesh) == _me(mesh)


@final
class Signal(_OnParts):
    """Adds to a semaphore. Operands: its part, the number, and a device's number if there is a
    mesh; core: of another core of the device, its number comes last."""

    __slots__ = ()
    name = "semaphore_signal"

    def on_parts(self, found: Taken, *, mesh: Mesh, core: bool) -> Any:
        (sem,), (inc, *device) = found
        if not mesh:
            sem.add(jnp.asarray(inc, np.int32))
            return ()
        told, given = _told(device[0], mesh), _from_all(jnp.asarray(inc, np.int32), mesh)
        for i, named in enumerate(_named_by_all(sem, mesh)):
            named.add(jnp.where(told[i], given[i], np.int32(0)))
        return ()


@final
class Wait(_OnParts):
    """Waits until a semaphore is no less than a number, and takes that off it. Operands: its part,
    the number."""

    __slots__ = ()
    name = "semaphore_wait"

    def on_parts(self, found: Taken, *, decrement: bool) -> Any:
        (sem,), (value,) = found
        if decrement:
            sem.add(-jnp.asarray(value, np.int32))
        return ()


@final
class Read(_OnParts):
    """The number that a semaphore is."""

    __slots__ = ()
    name = "semaphore_read"

    def types(self, *avals: ShapedArray, views: Sequence[Views], **params: object) -> Any:
        return (_COUNT,)

    def on_parts(self, found: Taken) -> Any:
        return (found.parts[0].read(),)


@final
class CopyStart(_OnParts):
    """Starts a copy. Parts: source, target, and the semaphores that tell its end, of the target,
    and of the source if there are two. add: to what is there."""

    __slots__ = ()
    name = "dma_start"

    def types(self, *avals: ShapedArray, views: Sequence[Views], **params: object) -> Any:
        source, target = (p.aval for p in taken(avals, views).parts[:2])
        if (source.shape, source.dtype) != (target.shape, target.dtype):
            raise ValueError(
                "a copy between references of different types: from "
                f"{source.str_short(True)} to {target.str_short(True)}"
            )
        return ()

    def on_parts(self, found: Taken, *, mesh: Mesh, add: bool, priority: int) -> Any:
        (source, target, *sems), device = found
        value = source.read()
        add = add and dtypes.issubdtype(value.dtype, np.number)
        if not mesh:
            _put(target, value, add)
            for sem in sems:
                sem.add(np.int32(1))
            return ()
        told, sent = _told(device[0], mesh), _from_all(value, mesh)
        targets, ends = (_named_by_all(p, mesh) for p in (target, sems[0]))
        for i, (named, end) in enumerate(zip(targets, ends, strict=True)):
            nothing = jnp.zeros_like(sent[i]) if add else named.read()
            _put(named, jnp.where(told[i], sent[i], nothing), add)
            end.add(jnp.asarray(told[i], np.int32))
        for sem in sems[1:]:
            sem.add(np.int32(1))
        return ()


def _put(target: Part, value: Any, add: bool) -> None:
    if add:
        target.add(value)
    else:
        target.write(value)


@final
class CopyWait(_OnParts):
    """Waits for the end of a copy. Parts: as those of its start. send: until the source is free;
    else until the values are there."""

    __slots__ = ()
    name = "dma_wait"

    def on_parts(self, found: Taken, *, mesh: Mesh, send: bool) -> Any:
        sems = found.parts[2:]
        sems[-1 if send else 0].add(np.int32(-1))
        return ()


semaphore_signal_p, semaphore_wait_p, semaphore_read_p = Signal(), Wait(), Read()
dma_start_p, dma_wait_p = CopyStart(), CopyWait()
