"""Blocks of arrays as pointers.

Where the elements of a part lie, loads, stores and atomic operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._pallas.triton.text import (
    BOOL,
    I32,
    Refused,
    Value,
    Writer,
    element,
    is_float,
    type_text,
)
from teucer.numpy import _references as views_of
from teucer.numpy._index_keys import ARRAY, FULL, NEW, layout, starts_of

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike


_LARGEST = 2**31 - 1


class Spot(NamedTuple):
    """A place along an axis, as the sum of a scalar, which all elements share, and an array.
    Without an array the scalar is the place."""

    scalar: Value
    array: Value | None = None

    def whole(self, w: Writer) -> Value:
        return self.scalar if self.array is None else w.add(self.array, self.scalar)

    def bounds(self) -> tuple[int, int] | None:
        a = self.scalar.bounds
        if self.array is None or a is None:
            return a
        b = self.array.bounds
        return None if b is None else (a[0] + b[0], a[1] + b[1])


class Axis(NamedTuple):
    """An axis of the array behind a block: its size, where the block begins, how much of it the
    block has.

    seen: whether the kernel sees the axis.
    """

    size: int
    start: Value
    length: int
    seen: bool


class Pointer(NamedTuple):
    """A block of an array in memory: the form of a kernel's reference."""

    base: str
    dtype: np.dtype[Any]
    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(a.length for a in self.axes if a.seen)


class Part(NamedTuple):
    """Elements of a reference: the shape that they have, and for each axis of the block where they
    lie.

    where: places along the axes of `shape`, which broadcast, -> places along the axes of the block.
    """

    shape: tuple[int, ...]
    where: Callable[[Sequence[Spot]], list[Spot]]


# --- Views ------------------------------------------------------------------------------------


def _part(
    w: Writer, shape: Sequence[int], views: Sequence[Any], operands: Sequence[Any], guard: _Guard
) -> Part:
    """The elements that views one after the other name."""
    part = Part(tuple(shape), list)
    at = 0
    for view in views:
        own, at = operands[at : at + view.n], at + view.n
        rule = _VIEWS.get(type(view))
        if rule is None:
            raise Refused(
                f"a reference seen as another dtype ({type(view).__name__.lower()})",
                "Read it, and convert the elements: jax.lax.bitcast_convert_type.",
            )
        part = _behind(part, rule(w, part.shape, view, own, guard))
    return part


def _behind(outer: Part, inner: Part) -> Part:
    return Part(inner.shape, lambda spots: outer.where(inner.where(spots)))


class _Guard(NamedTuple):
    """The treatment of places outside. masks: conditions under which an element is touched; None if
    places are moved inside."""

    masks: list[Value] | None
    masked: bool


def _index(
    w: Writer, shape: Sequence[int], view: Any, operands: Sequence[Any], guard: _Guard
) -> Part:
    key = view.key
    if key.fresh:
        raise Refused("an index that is a boolean", "Select by pl.when or jnp.where.")
    starts = starts_of(key, operands)
    common = np.broadcast_shapes(
        *(x.shape for item, x in zip(key.items, starts, strict=True) if item == ARRAY)
    )
    axes = layout(key, len(common))
    out = {("batch", i): n for i, n in enumerate(common)}
    sources: list[tuple[Any, int, Any]] = []  # item, its result axis, operand
    sizes = iter(shape)
    for position, (item, operand) in enumerate(zip(key.items, starts, strict=True)):
        if item == NEW:
            out["axis", position] = 1
            continue
        n = next(sizes)
        axis = -1
        if item[0] in ("full", "window", "steps"):
            out["axis", position] = (
                n if item == FULL else item[1] if item[0] == "window" else item[2]
            )
            axis = axes.index(("axis", position))
        sources.append((item, axis, operand))
    rank, place = len(axes), axes.index(("batch", 0)) if common else 0
    lengths = tuple(shape)

    def where(spots: Sequence[Spot]) -> list[Spot]:
        found = []
        for (item, axis, operand), n in zip(sources, lengths, strict=True):
            kind = item[0]
            if kind == "full":
                found.append(spots[axis])
            elif kind == "window":
                start = operand if guard.masked else _moved(w, operand, n - item[1])
                found.append(Spot(w.add(start, spots[axis].scalar), spots[axis].array))
            elif kind == "steps":
                _, start, _, step = item
                scaled = w.add(w.times(spots[axis].scalar, step), w.constant(start, I32))
                array = spots[axis].array
                found.append(Spot(scaled, None if array is None else w.times(array, step)))
            elif kind == "array" and operand.shape:
                found.append(_gathered(w, operand, n, place, rank, common, spots, guard))
            else:
                found.append(Spot(_single(w, operand, n, guard, kind)))
        return found

    return Part(tuple(out[tag] for tag in axes), where)


def _narrow(w: Writer, x: Value) -> Value:
    if x.dtype.itemsize == I32.itemsize:
        return Value(x.name, I32, x.shape, x.bounds)
    op = (
        "arith.trunci"
        if x.dtype.itemsize > I32.itemsize
        else "arith.extsi"
        if x.dtype.kind == "i"
        else "arith.extui"
    )
    return w.make(f"{op} {x.name} : {x.type} to {type_text(I32, x.shape)}", I32, x.shape, x.bounds)


def _moved(w: Writer, start: Value, last: int) -> Value:
    """The start of a window, moved inside where it may lie outside."""
    return w.at_most(w.at_least(_narrow(w, start), 0), last)


def _from_end(w: Writer, x: Value, n: int) -> Value:
    """Negative places count from the end."""
    x = _narrow(w, x)
    if x.bounds and x.bounds[0] >= 0:
        return x
    zero = w.constant(0, I32, x.shape)
    moved = w.make(
        f"arith.addi {x.name}, {w.constant(n, I32, x.shape).name} : {x.type}", I32, x.shape
    )
    return w.select(w.compare("slt", x, zero), moved, x)


def _single(w: Writer, x: Value, n: int, guard: _Guard, kind: str) -> Value:
    x = _narrow(w, x) if kind == "int" else _from_end(w, x, n)
    return _kept_inside(w, x, n, guard)


def _kept_inside(w: Writer, x: Value, n: int, guard: _Guard) -> Value:
    if guard.masked or (x.bounds and x.bounds[0] >= 0 and x.bounds[1] < n):
        return x
    if guard.masks is None:
        return w.at_most(w.at_least(x, 0), n - 1)
    for how, edge in (("sge", 0), ("slt", n)):
        guard.masks.append(w.compare(how, x, w.constant(edge, I32, x.shape)))
    return x


def _gathered(
    w: Writer,
    x: Value,
    n: int,
    place: int,
    rank: int,
    common: Sequence[int],
    spots: Sequence[Spot],
    guard: _Guard,
) -> Spot:
    """The places that an index array names, where all elements of the part are wanted."""
    for i, size in enumerate(common):
        array = spots[place + i].array
        if size > 1 and (array is None or array.shape[place + i] != size):
            raise Refused("a part of a part that an index array names", "Index the reference once.")
    shape = [1] * rank
    shape[place + len(common) - len(x.shape) : place + len(common)] = x.shape
    return Spot(w.constant(0, I32), _kept_inside(w, _from_end(w, w.reshape(x, shape), n), n, guard))


def _transposed(
    w: Writer, shape: Sequence[int], view: Any, operands: Sequence[Any], guard: _Guard
) -> Part:
    order = view.permutation
    back = [order.index(i) for i in range(len(order))]
    return Part(tuple(shape[i] for i in order), lambda spots: [spots[i] for i in back])


def _reshaped(
    w: Writer, shape: Sequence[int], view: Any, operands: Sequence[Any], guard: _Guard
) -> Part:
    new, old = tuple(view.shape), tuple(shape)

    def where(spots: Sequence[Spot]) -> list[Spot]:
        flat = w.constant(0, I32)
        for spot, n in zip(spots, new, strict=True):
            flat = _sum(w, w.times(flat, n), spot.whole(w))
        found = []
        for n in reversed(old):
            size = w.constant(n, I32, flat.shape)
            rest = w.make(
                f"arith.remui {flat.name}, {size.name} : {flat.type}", I32, flat.shape, (0, n - 1)
            )
            flat = w.make(f"arith.divui {flat.name}, {size.name} : {flat.type}", I32, flat.shape)
            found.append(Spot(w.constant(0, I32), rest) if rest.shape else Spot(rest))
        return found[::-1]

    return Part(new, where)


def _sum(w: Writer, x: Value, y: Value) -> Value:
    return w.add(x, y) if x.shape or not y.shape else w.add(y, x)


_VIEWS: dict[type, Callable[..., Part]] = {
    views_of.Index: _index,
    views_of.Transpose: _transposed,
    views_of.Reshape: _reshaped,
}


# --- Addresses --------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Where the elements of a part lie: pointers to them, and the condition under which they are in
    the array."""

    pointers: str
    pointer_type: str
    shape: tuple[int, ...]
    inside: Value | None


def _places(
    w: Writer,
    ref: Pointer,
    views: Sequence[object],
    operands: Sequence[Any],
    *,
    moves: bool,
    masked: bool,
) -> _Places:
    """moves: whether places outside of the block are moved inside, as reads do; else they are not
    touched."""
    masks: list[Value] | None = None if moves else []
    part = _part(w, ref.shape, views, operands, _Guard(masks, masked))
    zero = w.constant(0, I32)
    seen = iter(
        part.where(
            [Spot(zero, w.places(part.shape, i, full=False)) for i in range(len(part.shape))]
        )
    )
    in_block = [next(seen) if a.seen else Spot(zero) for a in ref.axes]
    large = math.prod(a.size for a in ref.axes) > _LARGEST
    scalar, array, inside = _offsets(w, ref, in_block, large)
    for mask in masks or ():
        inside = w.both(inside, mask)
    kind = _memory_type(ref.dtype)
    base = ref.base
    if scalar is not None:
        base = w.name()
        w.line(f"{base} = tt.addptr {ref.base}, {scalar.name} : !tt.ptr<{kind}>, {scalar.type}")
    if not part.shape:
        if inside is not None and inside.shape:
            inside = w.reshape(inside, ())
        if array is not None:
            offset = w.reshape(array, ())
            base, before = w.name(), base
            w.line(f"{base} = tt.addptr {before}, {offset.name} : !tt.ptr<{kind}>, {offset.type}")
        return _Places(base, f"!tt.ptr<{kind}>", (), inside)
    type_text(ref.dtype, part.shape)
    offsets = w.spread(array if array is not None else w.constant(0, I32), part.shape)
    many = f"tensor<{'x'.join(map(str, part.shape))}x!tt.ptr<{kind}>>"
    all_bases, pointers = w.name(), w.name()
    w.line(f"{all_bases} = tt.splat {base} : !tt.ptr<{kind}> -> {many}")
    w.line(f"{pointers} = tt.addptr {all_bases}, {offsets.name} : {many}, {offsets.type}")
    return _Places(
        pointers, many, part.shape, None if inside is None else w.spread(inside, part.shape)
    )


def _offsets(
    w: Writer, ref: Pointer, spots: Sequence[Spot], large: bool
) -> tuple[Value | None, Value | None, Value | None]:
    """How far the elements lie from the first: a scalar and an array to add; and the condition that
    they are in the array."""
    scalar: Value | None = None
    array: Value | None = None
    inside: Value | None = None
    stride = 1
    for axis, spot in reversed(list(zip(ref.axes, spots, strict=True))):
        at = Spot(w.add(axis.start, spot.scalar), spot.array)
        bounds = at.bounds()
        if bounds is None or bounds[1] >= axis.size or bounds[0] < 0:
            place = at.whole(w)
            if bounds is None or bounds[1] >= axis.size:
                inside = w.both(
                    inside, w.compare("slt", place, w.constant(axis.size, I32, place.shape))
                )
            if bounds is None or bounds[0] < 0:
                inside = w.both(inside, w.compare("sge", place, w.constant(0, I32, place.shape)))
        if at.scalar.bounds != (0, 0):
            step = w.times(w.wide(at.scalar) if large else at.scalar, stride)
            scalar = step if scalar is None else w.add(scalar, step)
        if at.array is not None and at.array.bounds != (0, 0):
            step = w.times(w.wide(at.array) if large else at.array, stride)
            array = step if array is None else w.add(array, step)
        stride *= axis.size
    return scalar, array, inside


def _memory_type(dtype: DTypeLike) -> str:
    return "i8" if dtype == BOOL else element(dtype)


# --- Access -----------------------------------------------------------------------------------


_CACHE = {None: None, ".ca": 2, ".cg": 3, ".wb": 4, ".cs": 5, ".wt": 6, ".cv": 7}
_EVICT = {None: None, "evict_first": 2, "evict_last": 3}


def _hints(cache: object, evict: object, volatile: bool = False) -> str:
    if cache not in _CACHE or evict not in _EVICT:
        name, value, known = (
            ("cache_modifier", cache, _CACHE)
            if cache not in _CACHE
            else ("eviction_policy", evict, _EVICT)
        )
        raise Refused(f"{name}={value!r}", f"It is one of {', '.join(map(repr, known))}.")
    parts = [f"cache = {_CACHE[cache]} : i32"] if cache else []
    parts += [f"evict = {_EVICT[evict]} : i32"] if evict else []
    parts += ["isVolatile = true"] if volatile else []
    return f" {{{', '.join(parts)}}}" if parts else ""


def load(
    w: Writer,
    ref: Pointer,
    views: Sequence[Any],
    operands: Sequence[Any],
    *,
    mask: Value | None = None,
    other: Value | None = None,
    cache: object = None,
    evict: object = None,
    volatile: bool = False,
) -> Value:
    """The elements of a part; those outside of the array are NaN, or 0, and where the mask is false
    `other`."""
    at = _places(w, ref, views, operands, moves=True, masked=mask is not None)
    stored = np.dtype(np.int8) if ref.dtype == BOOL else ref.dtype
    nothing = np.nan if is_float(ref.dtype) else 0
    condition = w.both(at.inside, None if mask is None else w.spread(mask, at.shape))
    text = f"tt.load {at.pointers}"
    if condition is not None:
        plain = other is None or ref.dtype == BOOL
        rest = w.constant(nothing, stored, at.shape) if plain else w.spread(other, at.shape)  # type: ignore[arg-type]
        if (
            not plain and at.inside is not None and mask is not None
        ):  # where it is true, and outside of the array
            rest = w.select(w.spread(mask, at.shape), w.constant(nothing, stored, at.shape), rest)
        text += f", {condition.name}, {rest.name}"
    value = w.make(f"{text}{_hints(cache, evict, volatile)} : {at.pointer_type}", stored, at.shape)
    if ref.dtype != BOOL:
        return value
    truth = w.compare("ne", value, w.constant(0, stored, at.shape))
    if other is None or mask is None:
        return truth
    return w.select(w.spread(mask, at.shape), truth, w.spread(other, at.shape))


def store(
    w: Writer,
    ref: Pointer,
    value: Value,
    views: Sequence[object],
    operands: Sequence[Any],
    *,
    mask: Value | None = None,
    evict: object = None,
) -> None:
    """Let the elements of a part be a value, where the mask is true and they are in the array."""
    at = _places(w, ref, views, operands, moves=_is_basic(views), masked=mask is not None)
    if ref.dtype == BOOL:
        byte = type_text(np.dtype(np.int8), value.shape)
        value = w.make(f"arith.extui {value.name} : {value.type} to {byte}", np.int8, value.shape)
    condition = w.both(at.inside, None if mask is None else w.spread(mask, at.shape))
    text = f"tt.store {at.pointers}, {w.spread(value, at.shape).name}"
    if condition is not None:
        text += f", {condition.name}"
    w.line(f"{text}{_hints(None, evict)} : {at.pointer_type}")


def _is_basic(views: Sequence[object]) -> bool:
    return not any(
        type(v) is views_of.Index and any(item[0] == "array" for item in v.key.items) for v in views
    )


def atomic(
    w: Writer,
    ref: Pointer,
    operation: str,
    value: Value,
    views: Sequence[object],
    operands: Sequence[Any],
    mask: Value | None,
) -> Value:
    """Combine the elements of a part with a value; gives the old elements."""
    if ref.dtype.itemsize < 4 and not (operation == "fadd" and ref.dtype.itemsize == 2):  # bytes
        raise Refused(
            f"an atomic operation on {ref.dtype}", "Let the array be of int32, uint32 or float32."
        )
    at = _places(w, ref, views, operands, moves=_is_basic(views), masked=mask is not None)
    condition = w.both(at.inside, None if mask is None else w.spread(mask, at.shape))
    value = w.spread(value, at.shape)
    kinds = f"{at.pointer_type}, {value.type}"
    text = f"tt.atomic_rmw {operation}, acq_rel, gpu, {at.pointers}, {value.name}"
    if condition is not None:
        text, kinds = f"{text}, {condition.name}", f"{kinds}, {condition.type}"
    return w.make(f"{text} : ({kinds}) -> {value.type}", ref.dtype, at.shape)


def compare_and_swap(
    w: Writer,
    ref: Pointer,
    compared: Value,
    value: Value,
    views: Sequence[object],
    operands: Sequence[Any],
) -> Value:
    """Replace elements that equal `compared` by `value`; returns the elements before."""
    at = _places(w, ref, views, operands, moves=True, masked=False)
    if at.inside is not None:
        raise Refused(
            "a compare-and-swap that may lie outside of the array",
            "Choose blocks that divide the array.",
        )
    compared, value = w.spread(compared, at.shape), w.spread(value, at.shape)
    return w.make(
        f"tt.atomic_cas acq_rel, gpu, {at.pointers}, {compared.name}, {value.name} : "
        f"({at.pointer_type}, {compared.type}, {value.type}) -> {value.type}",
        ref.dtype,
        at.shape,
    )
