"""Views of references: parts of their arrays, one view after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._core.trace import typeof
from teucer.lax import _conversion, _reference_parts, _structure
from teucer.lax._indexing.numbers import GatherScatterMode
from teucer.numpy._index_keys import Key, is_basic, parse
from teucer.numpy._reading import Options, read
from teucer.numpy._writing import write

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Size, Value


class Index(NamedTuple):
    """The elements that a key names; its places are operands."""

    key: Key
    n: int
    shape: tuple[Any, ...]

    def read(self, x: Array, places: Sequence[object]) -> Any:
        return read(x, self.key._replace(operands=tuple(places)))

    def write(self, operation: str, x: Any, value: Any, places: Sequence[object]) -> Any:
        key = self.key._replace(operands=tuple(places))
        return write(operation, x, value, key, _INSIDE if is_basic(key) else Options())

    def text(self, places: Sequence[str]) -> str:
        rest, parts = iter(places), []
        sizes = iter(self.shape)
        for item in self.key.items:
            n = None if item[0] == "new" else next(sizes)
            if item[0] == "full":
                parts.append(":")
            elif item[0] == "new":
                parts.append("None")
            elif item[0] == "window":
                start, size = next(rest), item[1]
                whole = start.isdigit()
                last = int(start) + size if whole else f"{start}+{size}"
                parts.append(f"{start if start != '0' else ''}:{last if last != n else ''}")
            elif item[0] == "steps":
                parts.append(f"{item[1]}:{item[1] + item[2] * item[3]}:{item[3]}")
            else:
                parts.append(next(rest))
        return "[" + ",".join(parts) + "]"


class Reshape(NamedTuple):
    """The elements in another shape."""

    shape: tuple[Any, ...]
    n: int = 0

    def read(self, x: ArrayLike, places: Sequence[Any]) -> Any:
        return _structure.reshape(x, self.shape)

    def put(self, x: Any, part: Any, places: Sequence[Any]) -> Any:
        return _structure.reshape(part, np.shape(x))

    def text(self, places: Sequence[str]) -> str:
        return f".reshape({self.shape})"


class Transpose(NamedTuple):
    """The axes in another order."""

    permutation: tuple[int, ...]
    n: int = 0

    def read(self, x: ArrayLike, places: Sequence[Any]) -> Any:
        return _structure.transpose(x, self.permutation)

    def put(self, x: Any, part: Any, places: Sequence[Any]) -> Any:
        return _structure.transpose(part, tuple(int(i) for i in np.argsort(self.permutation)))

    def text(self, places: Sequence[str]) -> str:
        return f".transpose({self.permutation})"


class Bitcast(NamedTuple):
    """The bits taken for another dtype; the axis before the last is as much shorter or longer as
    elements are wider or narrower."""

    dtype: Any
    n: int = 0

    def read(self, x: Array, places: Sequence[object]) -> Any:
        return _bitcast(x, self.dtype)

    def put(self, x: ArrayLike, part: object, places: Sequence[object]) -> Any:
        return _bitcast(part, typeof(x).dtype)

    def text(self, places: Sequence[str]) -> str:
        return f".bitcast({self.dtype.name})"


_INSIDE = Options(mode=GatherScatterMode.CLIP)


def _bitcast(x: Any, dtype: Any) -> Any:
    """The bits of x taken for another dtype; several rows can make one, as TPUs pack them; the
    first row has the lowest bits."""
    shape, old = np.shape(x), typeof(x).dtype
    if old.itemsize == dtype.itemsize:
        return _conversion.bitcast_convert_type(x, dtype)
    rows, columns = shape[-2], shape[-1]
    if old.itemsize < dtype.itemsize:
        k = dtype.itemsize // old.itemsize
        packed = _structure.reshape(x, (*shape[:-2], rows // k, k, columns))
        return _conversion.bitcast_convert_type(_structure.moveaxis(packed, -2, -1), dtype)
    narrow = _structure.moveaxis(_conversion.bitcast_convert_type(x, dtype), -1, -2)
    return _structure.reshape(
        narrow, (*shape[:-2], rows * (old.itemsize // dtype.itemsize), columns)
    )


def bitcast_shape(shape: tuple[Size, ...], old: Any, new: Any) -> tuple[Any, ...]:
    if old.itemsize == new.itemsize:
        return shape
    if len(shape) < 2 or (shape[-2] * old.itemsize) % new.itemsize:
        raise ValueError(
            f"bitcast: elements of {new.itemsize} bytes cannot be made of those of {old.itemsize} "
            f"in an array of shape {shape}.\n  The axis before the last is the one that gets "
            "shorter or longer."
        )
    return (*shape[:-2], shape[-2] * old.itemsize // new.itemsize, shape[-1])


def _split(views: Sequence[Any], operands: Sequence[Value]) -> list[tuple[Any, Sequence[Any]]]:
    pairs, at = [], 0
    for view in views:
        pairs.append((view, operands[at : at + view.n]))
        at += view.n
    return pairs


def read_views(x: ArrayLike, views: Sequence[object], operands: Sequence[Array]) -> Any:
    """The part of an array."""
    for view, places in _split(views, operands):
        x = view.read(x, places)
    return x


def write_views(
    operation: str,
    x: ArrayLike,
    value: ArrayLike,
    views: Sequence[object],
    operands: Sequence[Array],
) -> Any:
    """An array with its part set to a value, or a value added to it."""
    if not views:
        return value if operation == "set" else _added(x, value)
    (view, places), *rest = _split(views, operands)
    if type(view) is Index and not rest:
        return view.write(operation, x, value, places)
    part = write_views(operation, view.read(x, places), value, views[1:], operands[view.n :])
    return view.write("set", x, part, places) if type(view) is Index else view.put(x, part, places)


def _added(x: ArrayLike, value: ArrayLike) -> Any:
    aval = typeof(x)
    return (
        _structure.add_any_p.call(x, value)[0]
        if typeof(value) is aval
        else write("add", x, value, parse((), aval.shape))
    )


def parts_text(name: str, views: Sequence[object], operands: Sequence[str]) -> str:
    return name + (
        "".join(view.text(places) for view, places in _split(views, operands)) or "[...]"
    )


_reference_parts.install(read=read_views, write=write_views, text=parts_text)
