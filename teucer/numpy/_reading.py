"""Reading x[key]: slices where the key says the places, one gather where index arrays do."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import config, dtypes
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import (
    bounds,
    is_constant,
    is_size,
    is_symbolic,
    max_dim,
    min_dim,
)
from teucer.lax import _dynamic, _elementwise, _joining, _shapes, _slicing, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode
from teucer.numpy._index_keys import (
    ARRAY,
    FULL,
    INT,
    NEW,
    SCALAR,
    Key,
    is_basic,
    layout,
    may_lie_outside,
    needs_places,
    starts_of,
)
from teucer.numpy._operands import size_as

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Size


class Options(NamedTuple):
    """The keyword arguments of `.at[].get` and the updates; mode None is the default of reads or of
    writes."""

    mode: GatherScatterMode | None = None
    fill_value: Any = None
    indices_are_sorted: bool = False
    unique_indices: bool = False
    wrap_negative_indices: bool = True


_KEEP = (None, GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


def read(x: ArrayLike, key: Key, options: Options = Options()) -> Any:
    """x[key], for a key parsed for the shape of x.

    Raises IndexError where a place is asked of an axis of size 0.

    >>> from teucer.numpy._index_keys import parse
    >>> read(np.arange(4), parse(slice(None, None, -1), (4,))).tolist()
    [3, 2, 1, 0]
    """
    # A place outside is moved inside by a slice; a fill value or an index array needs a gather.
    if (
        is_basic(key)
        and not needs_places(key, np.shape(x))
        and (options.mode in _KEEP or not may_lie_outside(key))
    ):
        return _read_basic(x, key, options)
    x = with_fresh_axes(x, key)
    found = access(np.shape(x), key, options.wrap_negative_indices)
    if 0 in found.shape:
        return _structure.full(found.shape, 0, typeof(x).dtype, typeof(x).weak_type)
    if _has_no_places(x, found):
        return _structure.full(found.shape, 0, typeof(x).dtype, typeof(x).weak_type)
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if options.mode is None else options.mode
    single = all(n == 1 for n in np.shape(found.indices)[:-1])
    out = _gather.gather(
        x,
        found.indices,
        GatherDimensionNumbers(found.window_dims, found.collapsed, found.mapped),
        found.slice_sizes,
        mode=mode,
        fill_value=options.fill_value,
        indices_are_sorted=options.indices_are_sorted or single,
        unique_indices=options.unique_indices or single,
    )
    return _shapes.expand_dims(out, found.new_axes) if found.new_axes else out


def with_fresh_axes(x: ArrayLike, key: Key) -> Any:
    """x with a new axis for each boolean scalar in the key."""
    return _shapes.expand_dims(x, key.fresh) if key.fresh else x


def is_static(places: Sequence[object]) -> bool:
    """Whether all places are Python ints."""
    return all(type(p) is int for p in places)


def _read_basic(x: ArrayLike, key: Key, options: Options) -> Any:
    items = [item for item in key.items if item is not NEW and item != NEW]
    shape = np.shape(x)
    starts = places(
        key,
        shape,
        options.wrap_negative_indices,
        outside=options.mode is None and config.checked.value,
    )
    if is_static(starts):
        out, reverse = _static_window(x, items, starts, shape)
    else:
        out = _dynamic_window(x, items, starts, shape)
        out, reverse = _take_steps(out, items)
    if reverse:
        out = _shapes.rev(out, reverse)
    dropped = [i for i, item in enumerate(items) if item in (INT, SCALAR)]
    out = _shapes.squeeze(out, dropped) if dropped else out
    new = new_axes(key.items)
    return _shapes.expand_dims(out, new) if new else out


def new_axes(items: Sequence[object]) -> list[int]:
    """The axes of a basic key's result that the key adds."""
    kept = [item for item in items if item not in (INT, SCALAR)]
    return [i for i, item in enumerate(kept) if item == NEW]


def places(key: Key, shape: Sequence[Size], wrap: bool, outside: bool = False) -> list[Any]:
    """Where the window of a basic key starts along each axis.

    outside: whether ints outside of their axes stay there, so that the program moves them inside
    and not this function.
    """
    out: list[Any] = []
    for item, start in zip(key.items, starts_of(key), strict=True):
        if item == NEW:
            continue
        n = shape[len(out)]
        if item in (INT, SCALAR) and type(n) is int and n == 0:
            raise IndexError(
                f"index is out of bounds for axis {len(out)} with size 0\n    shape: {tuple(shape)}"
            )
        if item == INT and outside and type(start) is int and type(n) is int and not 0 <= start < n:
            out.append(np.int32(start))
        elif item == INT and type(start) is int:
            out.append(
                min(max(start, 0), n - 1) if type(n) is int else max_dim(min_dim(start, n - 1), 0)
            )
        else:
            out.append(
                0
                if start is None
                else wrapped(start, n)
                if wrap and item[-1] in ("scalar", "anywhere")
                else start
            )
    return out


def wrapped(index: ArrayLike, n: Size) -> Any:
    """Indices with the negative ones counted from the end of an axis of size n."""
    if isinstance(index, np.ndarray | np.generic):
        index = index.astype(np.int32) if index.dtype.itemsize < 4 else index
        if index.dtype.kind != "i" or not (index < 0).any():
            return index
        if type(n) is int:
            return np.where(index < 0, index + n, index)
    dtype = typeof(index).dtype
    if dtypes.bit_width(dtype) < 32:
        index, dtype = _structure.convert_element_type(index, np.int32), np.dtype(np.int32)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return index
    index = _structure.convert_element_type(index, dtype)
    return _elementwise.select(
        _elementwise.lt(index, _structure.number(0, dtype)),
        _elementwise.add(index, size_as(n, dtype)),
        index,
    )


def window_size(item: Any, n: Any) -> Any:
    """How much of an axis of size n the window of a basic item spans."""
    if item in (INT, SCALAR):
        return 1
    return item[1] if item[0] == "window" else n


def _static_window(
    x: ArrayLike, items: Sequence[Any], starts: Sequence[int], shape: Any
) -> tuple[Any, list[int]]:
    """The slice of x with constant bounds, and the axes along which it must still be reversed."""
    low, high, strides, reverse = [], [], [], []
    for axis, (item, start) in enumerate(zip(items, starts, strict=True)):
        if item[0] == "steps":
            start, last, step = first_last_step(item)
            low.append(start)
            high.append(
                max_dim(last + 1, start) if is_symbolic(last) or is_symbolic(start) else last + 1
            )
            strides.append(step)
            if item[3] < 0:
                reverse.append(axis)
        else:
            low.append(start)
            high.append(start + window_size(item, shape[axis]))
            strides.append(1)
    return _sliced(x, low, high, strides), reverse


def first_last_step(item: Any) -> tuple[Any, Any, int]:
    """The least and greatest place of a slice with steps, and the distance between places."""
    _, start, size, step = item
    end = start + (size - 1) * step
    return (start, end, step) if step > 0 else (end, start, -step)


def _sliced(x: Any, low: list[Any], high: list[Any], strides: list[int]) -> Any:
    shape = np.shape(x)
    if (
        all(type(a) is int and a == 0 for a in low)
        and tuple(high) == shape
        and all(s == 1 for s in strides)
    ):
        return x
    return _slicing.slice(x, low, high, None if all(s == 1 for s in strides) else strides)


def _take_steps(x: ArrayLike, items: Sequence[Any]) -> tuple[Any, list[int]]:
    """The slices with steps of a window that is whole along their axes."""
    if not any(item[0] == "steps" for item in items):
        return x, []
    whole = [item if item[0] == "steps" else FULL for item in items]
    return _static_window(x, whole, [0] * len(items), np.shape(x))


def _dynamic_window(
    x: Any, items: Sequence[object], starts: Sequence[object], shape: Sequence[Size]
) -> Any:
    sizes = tuple(window_size(item, n) for item, n in zip(items, shape, strict=True))
    return _dynamic.dynamic_slice_p.call(x, *as_indices(starts), slice_sizes=sizes)[0]


def as_indices(starts: Sequence[Any]) -> list[Any]:
    """Places as scalars of one integer dtype."""
    kinds = {typeof(s).dtype for s in starts if type(s) is not int}
    dtype = common_index_dtype(kinds)
    return [size_as(s, dtype) for s in starts]


def common_index_dtype(kinds: set[Any]) -> Any:
    """An integer dtype of 32 bits or more for indices of the given dtypes."""
    wide = [k for k in kinds if dtypes.bit_width(k) == 64]
    if wide:
        return np.dtype(np.int64) if len(kinds) > 1 else wide[0]
    return np.dtype(np.uint32) if kinds == {np.dtype(np.uint32)} else np.dtype(np.int32)


def basic_windows(
    key: Key, shape: Sequence[Size], wrap: bool
) -> tuple[list[Any], list[Any], list[int]]:
    """For a basic key: the items without new axes, the places of the window, and the axes that the
    result adds."""
    return (
        [item for item in key.items if item != NEW],
        places(key, shape, wrap),
        new_axes(key.items),
    )


class Access(NamedTuple):
    """A key as the dimension numbers of gather and scatter.

    shape: of the result, without and with the axes that the key adds: `window_shape`, `shape`.
    """

    indices: Any
    window_dims: tuple[int, ...]
    collapsed: tuple[int, ...]
    mapped: tuple[int, ...]
    slice_sizes: tuple[Any, ...]
    inner_shape: tuple[Any, ...]
    shape: tuple[Any, ...]
    new_axes: tuple[int, ...]


def access(shape: Sequence[Size], key: Key, wrap: bool) -> Access:
    """How gather reads, and scatter writes, the elements of a key in arrays of a shape.

    Raises ValueError if index arrays do not broadcast together.
    """
    starts = starts_of(key)
    advanced = [
        s for item, s in zip(key.items, starts, strict=True) if item in (ARRAY, INT, SCALAR)
    ]
    batch = _broadcast_shape([np.shape(s) for s in advanced])
    axes = layout(key, len(batch))
    sizes: dict[Any, Any] = {("batch", i): n for i, n in enumerate(batch)}
    components: list[tuple[Any, Any]] = []  # (value, the first of its tags in the layout)
    mapped, collapsed, slice_sizes = [], [], []
    axis = 0
    for position, (item, start) in enumerate(zip(key.items, starts, strict=True)):
        if item == NEW:
            sizes["axis", position] = 1
            continue
        n = shape[axis]
        if item == FULL:
            size = sizes["axis", position] = n
        elif item[0] == "window":
            size = sizes["axis", position] = item[1]
            components.append(
                (wrapped(start, n) if wrap and item[-1] == "anywhere" else start, None)
            )
        elif item[0] == "steps":
            size, sizes["axis", position] = 1, item[2]
            components.append((_arange(item), ("axis", position)))
        else:
            size = 1
            components.append((wrapped(start, n) if wrap and item != INT else start, "batch"))
        slice_sizes.append(size)
        if item != FULL:
            mapped.append(axis)
        if item in (INT, SCALAR, ARRAY) or item[0] == "steps":
            collapsed.append(axis)
        axis += 1
    inner = [tag for tag in axes if not _is_new(key, tag)]
    windows = tuple(
        i
        for i, tag in enumerate(inner)
        if tag[0] == "axis" and key.items[tag[1]][0] in ("full", "window")
    )
    tags = [tag for i, tag in enumerate(inner) if i not in windows]
    return Access(
        _stacked(components, tags, [sizes[t] for t in tags], len(batch)),
        windows,
        tuple(collapsed),
        tuple(mapped),
        tuple(slice_sizes),
        tuple(sizes[t] for t in inner),
        tuple(sizes[t] for t in axes),
        tuple(i for i, tag in enumerate(axes) if _is_new(key, tag)),
    )


def _is_new(key: Key, tag: Any) -> bool:
    return tag[0] == "axis" and key.items[tag[1]] == NEW


def _arange(item: Any) -> Any:
    _, start, size, step = item
    if not is_constant((start, size, step)):
        counted = _shapes.broadcasted_iota(np.dtype(np.int32), (size,), 0)
        first, distance = (_structure.full((), n, np.dtype(np.int32)) for n in (start, step))
        return _elementwise.add(_elementwise.mul(counted, distance), first)
    return np.arange(start, start + size * step, step, dtype=np.int32)[:size]


def _broadcast_shape(shapes: Sequence[Any]) -> tuple[Any, ...]:
    out: list[Any] = []
    for sizes in itertools.zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        wide = [n for n in sizes if not (type(n) is int and n == 1)]
        if any(n != wide[0] for n in wide[1:]):
            raise ValueError(
                f"Incompatible shapes for broadcasting: shapes={list(shapes)}\n"
                "  Index arrays must broadcast to one shape."
            )
        out.append(wide[0] if wide else 1)
    return tuple(reversed(out))


def _stacked(components: list[Any], tags: list[Any], shape: list[Any], batch_ndim: int) -> Any:
    """The components of the index vectors, broadcast and side by side."""
    kinds = {typeof(c).dtype for c, _ in components if type(c) is not int}
    dtype = common_index_dtype(kinds)
    if not components:
        return np.zeros((*shape, 0), np.int32)
    full = [_component(c, where, tags, shape, batch_ndim, dtype) for c, where in components]
    if all(isinstance(c, np.ndarray) for c in full):
        return np.stack(full, -1)
    if len(full) == 1:
        return _structure.broadcast_to(full[0], (*shape, 1), range(len(shape)))
    return _joining.concatenate(
        [_structure.broadcast_to(c, (*shape, 1), range(len(shape))) for c in full], len(shape)
    )


def _component(
    value: Any,
    where: str | int | None,
    tags: list[Any],
    shape: list[Any],
    batch_ndim: int,
    dtype: Any,
) -> Any:
    ndim = len(np.shape(value))
    if where is None:
        axes: list[int] = []
    elif where == "batch":
        axes = [tags.index(("batch", i)) for i in range(batch_ndim - ndim, batch_ndim)]
    else:
        axes = [tags.index(where)]
    if type(value) is int or isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value, dtype)
        spread = [1] * len(shape)
        for size, axis in zip(value.shape, axes, strict=True):
            spread[axis] = size
        if all(type(n) is int for n in shape):
            return np.broadcast_to(value.reshape(spread), shape)
    return _structure.broadcast_to(_structure.convert_element_type(value, dtype), shape, axes)


def _has_no_places(x: ArrayLike, found: Access) -> bool:
    """Whether a key of index arrays names no element, as a mask does of an array without elements.

    Raises IndexError where it must name one of an axis of size 0.
    """
    may_be_none = any(bounds(n).low <= 0 for n in np.shape(found.indices)[:-1])
    for axis in found.mapped:
        n = np.shape(x)[axis]
        if may_be_none:
            if type(n) is int and n == 0:
                return True
        elif is_size("indexing", n, 0):
            raise IndexError(
                f"index is out of bounds for axis {axis} with size 0\n    shape: {np.shape(x)}"
            )
    return False
