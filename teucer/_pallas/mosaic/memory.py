"""Parts of the memory that a kernel sees: loads, stores, and memory as copies take it.

A part is a box of the memory: along each of its axes a start, a size and a stride. Views compose
boxes; what boxes cannot say becomes an operation on memory, or on the value that was loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from teucer._pallas.mosaic.text import (
    BOOL,
    I32,
    Ref,
    Refused,
    Value,
    Writer,
    memory_text,
    type_text,
)
from teucer.numpy import _references as views_of
from teucer.numpy._index_keys import NEW, starts_of

_NEW = -1  # an axis of size 1 that memory does not have


class Part(NamedTuple):
    """A box of memory, and the axes of it that are seen, in order; _NEW for those that it lacks."""

    ref: Ref
    starts: tuple[Value, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    seen: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 if a == _NEW else self.sizes[a] for a in self.seen)

    @property
    def is_strided(self) -> bool:
        return any(s != 1 for s in self.strides)

    @property
    def is_whole(self) -> bool:
        return self.sizes == self.ref.shape and all(s.bounds == (0, 0) for s in self.starts)


def part_of(w: Writer, ref: Ref, views: Sequence[Any], operands: Sequence[Any]) -> Part:
    """The part of a reference that views one after the other name."""
    zero = w.constant(0, I32)
    rank = len(ref.shape)
    part = Part(ref, (zero,) * rank, ref.shape, (1,) * rank, ref.seen)
    at = 0
    for view in views:
        own, at = operands[at : at + view.n], at + view.n
        part = _VIEWS[type(view)](w, part, view, own)
    return part


def _index(w: Writer, part: Part, view: Any, operands: Sequence[Value]) -> Part:
    key = view.key
    if key.fresh:
        raise Refused("an index that is a boolean", "Select by pl.when or jnp.where.")
    starts, sizes, strides = map(list, (part.starts, part.sizes, part.strides))
    seen: list[int] = []
    axes = iter(part.seen)
    for item, operand in zip(key.items, starts_of(key, operands), strict=True):
        if item == NEW:
            seen.append(_NEW)
            continue
        axis = next(axes)
        kind = item[0]
        if kind == "full":
            seen.append(axis)
            continue
        if kind == "array" and operand.shape:
            raise Refused(
                "elements of a reference that an index array names",
                "Read the reference, and take along an axis: jnp.take_along_axis(ref[...], "
                "places, axis); or read rows one by one, ref[pl.ds(i, 1)], in a loop.",
            )
        if axis == _NEW:
            if kind in ("window", "steps"):
                seen.append(_NEW)
            continue
        size, step = 1, 1
        if kind == "steps":
            _, first, size, step = item
            if step < 0:
                raise Refused("a part with a negative step", "Read it, and turn it by jnp.flip.")
            start = w.constant(first, I32)
        elif kind == "window":
            start, size = w.convert(operand, I32), item[1]
        else:
            start = w.convert(operand, I32)
            start = start if kind == "int" else w.from_end(start, sizes[axis])
        starts[axis] = w.add(starts[axis], w.times(start, strides[axis]))
        sizes[axis] = size
        strides[axis] = strides[axis] * step if size > 1 else 1
        if kind in ("window", "steps"):
            seen.append(axis)
    return Part(part.ref, tuple(starts), tuple(sizes), tuple(strides), tuple(seen))


def _transposed(w: Writer, part: Part, view: Any, operands: Sequence[Value]) -> Part:
    return part._replace(seen=tuple(part.seen[i] for i in view.permutation))


def _reshaped(w: Writer, part: Part, view: Any, operands: Sequence[Value]) -> Part:
    ref = memory(w, part)
    shape = tuple(view.shape)
    if ref.shape == shape:
        return part_of(w, ref, (), ())
    new = ref._replace(name=w.name(), shape=shape, seen=tuple(range(len(shape))))
    w.line(f"{new.name} = tpu.memref_reshape {ref.name} : {ref.type} -> {new.type}")
    return part_of(w, new, (), ())


def _cast(w: Writer, part: Part, view: Any, operands: Sequence[Value]) -> Part:
    ref = memory(w, part)
    shape = tuple(views_of.bitcast_shape(ref.shape, ref.dtype, view.dtype))
    new = ref._replace(name=w.name(), shape=shape, dtype=view.dtype)
    w.line(f"{new.name} = tpu.memref_bitcast {ref.name} : {ref.type} -> {new.type}")
    return part_of(w, new, (), ())


_VIEWS: dict[type, Any] = {
    views_of.Index: _index,
    views_of.Transpose: _transposed,
    views_of.Reshape: _reshaped,
    views_of.Bitcast: _cast,
}


# --- Memory ---------------------------------------------------------------------------------


def memory(w: Writer, part: Part) -> Ref:
    """A part as memory of its own, as copies and views of other shapes take it."""
    if part.is_strided:
        raise Refused(
            "a part with steps, as memory",
            "Copy all of it, and take every so many rows when it is loaded.",
        )
    kept = [a for a in part.seen if a != _NEW]
    if kept != sorted(kept) or len(kept) != len(part.seen):
        raise Refused(
            "a part with other or new axes, as memory",
            "Copy it as it lies, and transpose what is loaded.",
        )
    ref = part.ref
    if not part.is_whole:
        found = Ref.whole(w.name(), ref.dtype, part.sizes, ref.space)
        places = ", ".join(s.name for s in part.starts)
        w.line(f"{found.name} = tpu.memref_slice {ref.name}[{places}] : {ref.type} -> {found.type}")
        ref = found
    if len(kept) != len(ref.shape):
        found = Ref.whole(w.name(), ref.dtype, part.shape, ref.space)
        w.line(f"{found.name} = tpu.memref_squeeze {ref.name} : {ref.type} -> {found.type}")
        ref = found
    return Ref.whole(ref.name, ref.dtype, ref.shape, ref.space)


# --- Access -----------------------------------------------------------------------------------

_LOADED = ("vmem", "smem")


def _check_access(part: Part, what: str) -> None:
    space = part.ref.space
    if space not in _LOADED:
        raise Refused(
            f"a {what} {'to' if what == 'store' else 'from'} memory {space}",
            "Kernels reach VMEM and SMEM; copy a part there first: pltpu.sync_copy(ref.at[...], "
            "scratch), with scratch_shapes=[pltpu.VMEM(shape, dtype)].",
        )
    if space == "smem" and part.shape:
        raise Refused(
            f"a {what} of an array of shape {part.shape} in SMEM",
            "SMEM holds scalars: name an element, ref[i, j], or keep the array in VMEM.",
        )


def _places(w: Writer, part: Part) -> str:
    return ", ".join(w.index(s) for s in part.starts)


def load(w: Writer, ref: Ref, views: Sequence[Any], operands: Sequence[Any]) -> Value:
    """The elements of a part."""
    part = part_of(w, ref, views, operands)
    _check_access(part, "load")
    ref = part.ref
    stored = I32 if ref.dtype == BOOL else ref.dtype
    if ref.space == "smem":
        x = w.make(f"memref.load {ref.name}[{_places(w, part)}] : {ref.type}", stored)
        return w.as_bool(x) if ref.dtype == BOOL else x
    sizes = part.sizes
    kind = type_text(stored, sizes)
    if part.is_strided:
        steps = ", ".join(map(str, part.strides))
        text = f"tpu.strided_load {ref.name}[{_places(w, part)}] {{strides = array<i32: {steps}>}}"
    else:
        text = f"vector.load {ref.name}[{_places(w, part)}]"
    x = w.make(f"{text} : {ref.type}, {kind}", stored, sizes)
    kept = [a for a in part.seen if a != _NEW]
    x = w.reshape(x, [sizes[a] for a in sorted(kept)])
    order = [sorted(kept).index(a) for a in kept]
    x = w.reshape(w.transpose(x, order), part.shape)
    return w.as_bool(x) if ref.dtype == BOOL else x


def store(
    w: Writer,
    ref: Ref,
    value: Value,
    views: Sequence[Any],
    operands: Sequence[Any],
    mask: Value | None = None,
) -> None:
    """Write the elements of a part, those for which the mask holds."""
    part = part_of(w, ref, views, operands)
    _check_access(part, "store")
    ref = part.ref
    if value.dtype == BOOL:
        value = w.as_int(value)
    if ref.space == "smem":
        if mask is not None:
            old = w.make(f"memref.load {ref.name}[{_places(w, part)}] : {ref.type}", value.dtype)
            value = w.select(mask, value, old)
        w.line(f"memref.store {value.name}, {ref.name}[{_places(w, part)}] : {ref.type}")
        return
    value = _in_memory(w, part, value)
    if part.is_strided:
        steps = ", ".join(map(str, part.strides))
        at = f"{ref.name}[{_places(w, part)}]"
        if mask is not None:
            old = w.make(
                f"tpu.strided_load {at} {{strides = array<i32: {steps}>}} : {ref.type}, "
                f"{value.type}",
                value.dtype,
                value.shape,
            )
            value = w.select(_in_memory(w, part, mask), value, old)
        w.line(
            f"tpu.strided_store {at}, {value.name} {{strides = array<i32: {steps}>}} : {ref.type}, "
            f"{value.type}"
        )
        return
    masked, kind = "", ""
    if mask is not None:
        mask = _in_memory(w, part, mask)
        masked, kind = f" masked {mask.name}", mask.type
    w.line(
        f"tpu.vector_store {ref.name}[{_places(w, part)}], {value.name}{masked} "
        f"{{strides = array<i32>}} : {ref.type}, {value.type}, {kind}"
    )


def _in_memory(w: Writer, part: Part, value: Value) -> Value:
    """A value with the axes of memory."""
    kept = [a for a in part.seen if a != _NEW]
    x = w.reshape(value, [part.sizes[a] for a in kept]) if kept else value
    x = w.transpose(x, [kept.index(a) for a in sorted(kept)])
    return w.reshape(x, part.sizes)


def allocate(w: Writer, dtype: Any, shape: Sequence[int], space: Any) -> Ref:
    """Memory for the rest of a region."""
    ref = Ref.whole(w.name(), dtype, shape, space)
    semaphore = "semaphore" in memory_text(dtype, shape, space)
    op = "tpu.sem_alloc" if semaphore else "memref.alloca()"
    w.line(f"{ref.name} = {op} : {ref.type}")
    return ref
