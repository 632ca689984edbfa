"""Keys of x[key] taken apart.

What happens to each axis (static, hashable), and the places (data).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes, errors
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import is_valid_type
from teucer._dimensions.dimensions import (
    as_size,
    ceil_div,
    is_constant,
    is_known_below,
    is_symbolic,
    max_dim,
    min_dim,
)
from teucer._dynamic.dynamic import results_allowed
from teucer._trees import pytrees
from teucer.lax import _joining, _shapes, _structure
from teucer.numpy._nonzero import nonzero
from teucer.numpy._operands import is_unknown, readable

if TYPE_CHECKING:
    from teucer._core.typing import AnyArray, Size, Value


# The effect of a key on an axis. "window" (size) and "steps" (start, size, step) are slices; the
# place of a window is an operand, so that x[0:2] and x[2:4] are one program. ("window", size,
# "anywhere") may lie outside. An axis that a boolean scalar adds is "fresh", and is indexed by
# "array".
Item = tuple[Any, ...]
FULL, NEW, INT, SCALAR, ARRAY = ("full",), ("new",), ("int",), ("scalar",), ("array",)


@pytrees.register_pytree_node_class
@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """A slice of fixed size that may start anywhere: the place of its start may be traced.

    As a pytree its leaves are the start and the size, those of them that are no ints.
    """

    start: Any
    size: Any
    stride: int = 1

    @classmethod
    def from_slice(cls, slc: slice, size: int) -> Slice:
        """The elements that an ordinary slice takes of an axis of `size` elements.

        >>> Slice.from_slice(slice(-3, None), 10)
        Slice(start=7, size=3, stride=1)
        """
        start, stop, step = slc.indices(size)
        return cls(start, len(range(start, stop, step)), step)

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is traced."""
        return isinstance(self.start, Tracer | ArrayImpl)

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size is traced; it never is."""
        return isinstance(self.size, Tracer)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The parts that are no ints; which these are, the ints, and the stride."""
        parts = self.start, self.size
        dynamic = tuple([not isinstance(x, int) for x in parts])
        static = tuple([x for x, d in zip(parts, dynamic, strict=True) if not d])
        return tuple([x for x, d in zip(parts, dynamic, strict=True) if d]), (
            dynamic,
            static,
            self.stride,
        )

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Iterable[Any]) -> Slice:
        """The slice of what `tree_flatten` gave."""
        dynamic, static, stride = aux
        leaves, ints = iter(children), iter(static)
        start, size = [next(leaves if d else ints) for d in dynamic]
        return cls(start, size, stride)


def ds(start: Any, size: int | None = None, stride: Any = None) -> Any:
    """A slice of fixed size that may start anywhere, for keys of arrays and references.

    start: an integer, which may be traced. size: an int. stride: an int of at least 0, by default
    1. A slice that reaches beyond an array is moved inside for reads; a change of such a slice
    is dropped. With one argument that is the size, from 0; `ds(None)` is `:`.
    Raises TypeError for a size that is traced, ValueError for a negative stride.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jit(lambda x, i: x[jax.ds(i, 2)])(jnp.arange(10), 4)
    Array([4, 5], dtype=int32)
    """
    if size is None:
        if start is None:
            return slice(None, None, stride)
        start, size = 0, start
    if stride is not None and not isinstance(stride, Tracer) and stride < 0:
        raise ValueError(f"`stride` must be >= 0, got {stride}")
    if isinstance(size, Tracer):
        raise TypeError(f"ds: the size of a slice is an int, got {size}, which is traced.")
    start = (
        0
        if start is None
        else start
        if isinstance(start, Tracer | ArrayImpl)
        else operator.index(start)
    )
    return Slice(start, as_size(size), 1 if stride is None else operator.index(stride))


class Key(NamedTuple):
    """A key for arrays of one shape.

    items: what happens to each axis, in order; new axes among them.
    fresh: axes of size 1 to add to the array first, counted in the result.
    split: whether NumPy puts the axes of index arrays in front: they are not side by side.
    operands: the places, one for each item that is a window, int, scalar or array.
    in_bounds: whether every int lies in its axis.
    """

    items: tuple[Item, ...]
    fresh: tuple[int, ...]
    split: bool
    operands: tuple[Any, ...]
    in_bounds: bool

    @property
    def plan(self) -> Key:
        """The hashable part."""
        return self._replace(operands=())


def is_basic(key: Key) -> bool:
    """Whether there are no index arrays: slices, new axes and single places only."""
    return ARRAY not in key.items


def needs_places(key: Key, shape: Sequence[Size]) -> bool:
    """Whether a slice may have steps beyond the axis, as far as is known. Then each place must be
    named."""
    if all(item[0] != "steps" or is_constant(item[1:]) for item in key.items):
        return False
    axes = [item for i, item in enumerate(key.items) if item != NEW and i not in key.fresh]
    return any(
        item[0] == "steps" and not _is_strided(item[1], item[2], item[3], n)
        for item, n in zip(axes, shape, strict=True)
    )


def _is_strided(start: Size, size: Size, step: object, n: Size) -> bool:
    """Whether a slice of an axis of size n is known to have a fixed stride."""
    if type(step) is not int:
        return False
    end = start + (size - 1) * step
    first, last = (start, end) if step > 0 else (end, start)
    return is_known_below(max_dim(last + 1, first), n + 1)


def may_lie_outside(key: Key) -> bool:
    """Whether a single place, or a slice of fixed size, may lie outside of its axis."""
    return not key.in_bounds or any(item[-1] in ("scalar", "anywhere") for item in key.items)


def starts_of(key: Key, operands: Sequence[Value] | None = None) -> list[Any]:
    """For each item of the key its operand, or None. operands: values in place of the operands that
    the key has."""
    given = iter(key.operands if operands is None else operands)
    return [
        next(given) if item[0] in ("window", "int", "scalar", "array") else None
        for item in key.items
    ]


def layout(key: Key, batch_ndim: int) -> list[tuple[str, int]]:
    """The origin of each axis of the result: the index arrays, or the key's item at a position."""
    batch = [("batch", i) for i in range(batch_ndim)]
    out: list[tuple[str, int]] = batch if key.split else []
    placed = key.split
    for position, item in enumerate(key.items):
        if item not in (ARRAY, INT, SCALAR):
            out = [*out, ("axis", position)]
        elif not placed:
            out, placed = [*out, *batch], True
    return out


def out_of_bounds(key: Key, shape: Sequence[Size]) -> IndexError:
    """The error for an int of a key that lies outside of its axis."""
    places = [
        (item, start) for item, start in zip(key.items, starts_of(key), strict=True) if item != NEW
    ]
    taken = [pair for i, pair in enumerate(places) if i not in key.fresh]
    axis, i, n = next(
        (axis, start, n)
        for axis, ((item, start), n) in enumerate(zip(taken, shape, strict=True))
        if item == INT and not 0 <= start < n
    )
    return IndexError(
        f"index {i - n if i < 0 else i} out of bounds for axis {axis} with size {n}\n"
        "  Such an index is moved inside unless jax_check_static_indices is set."
    )


def parse(key: Any, shape: Sequence[Any], *, wrap: bool = True) -> Key:
    """Take a key for arrays of a shape apart.

    wrap: whether negative ints count from the end.
    Raises IndexError for too many indices, masks of another shape, traced slices and things that
    are no index; TypeError for lists, strings and numbers that are not integers;
    NonConcreteBooleanIndexError for traced masks.

    >>> parse((0, slice(1, 3)), (4, 5)).items
    (('int',), ('window', 2))
    """
    entries = key if isinstance(key, tuple) else (_not_a_sequence(key),)
    parts = [part for position, e in enumerate(entries) for part in _parts(e, position)]
    used = sum(kind not in _WITHOUT_AXIS for kind, _ in parts)
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed\n"
            f"    shape: {tuple(shape)}\n    key: {_text(key)}"
        )
    where = [i for i, (kind, _) in enumerate(parts) if kind == "ellipsis"]
    if len(where) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = where[0] if where else len(parts)
    rest: list[Any] = [("full", None)] * (len(shape) - used)
    split = _is_split([kind for kind, _ in parts])
    return _assign([*parts[:at], *rest, *parts[at + 1 :]], tuple(shape), wrap, split, key)


_WITHOUT_AXIS = frozenset({"new", "ellipsis", "bool"})
_ADVANCED = frozenset({"int", "scalar", "array", "mask", "bool"})


def _is_split(kinds: list[str]) -> bool:
    """Whether other entries stand between the index arrays; single places count as arrays if there
    is any."""
    if not any(k in ("array", "mask", "bool") for k in kinds):
        return False
    places = [i for i, k in enumerate(kinds) if k in _ADVANCED]
    return places[-1] - places[0] + 1 != len(places)


def _assign(parts: list[Any], shape: tuple[int, ...], wrap: bool, split: bool, key: object) -> Key:
    """The key of an index whose parts are given the axes that they index."""
    items: list[Item] = []
    operands: list[Any] = []
    fresh: list[int] = []
    in_bounds = True
    axis = count = 0  # the next axis of the array, and of the array with new axes
    for kind, value in parts:
        if kind == "new":
            items.append(NEW)
            continue
        if kind == "bool":
            fresh.append(count)
            items.append(ARRAY)
            operands.append(np.zeros(int(value), np.int32))
            count += 1
            continue
        n = shape[axis]
        axis, count = axis + 1, count + 1
        if kind == "full":
            items.append(FULL)
        elif kind == "slice":
            _add_slice(value, n, items, operands)
        elif kind == "anywhere":
            _add_window(value, n, items, operands, wrap)
        elif kind == "mask":
            index, size, first, whole = value
            # An empty list is a mask of no elements and as well a list of no places.
            if size not in (0, n):
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {first}: got "
                    f"{whole}, expected {list(shape[axis - 1 : axis - 1 + len(whole)])}\n"
                    f"    key: {_text(key)}"
                )
            items.append(ARRAY)
            operands.append(index)
        else:
            if kind == "int":
                value = value + n if wrap and value < 0 else value
                in_bounds = in_bounds and (
                    0 <= value < n if type(n) is int else is_known_below(value, n)
                )
            items.append((kind,))
            operands.append(_counted(value, n) if kind == "array" else value)
    return Key(tuple(items), tuple(fresh), split, tuple(operands), in_bounds)


def _counted(places: Any, n: Size) -> Any:
    """Places in an axis of size n; as an iota if NumPy's array counts all of it, and a program is
    being recorded. The passes then see that each is taken once (`lax._indexing.places`)."""
    if not isinstance(places, np.ndarray) or not current_trace().staging():
        return places
    shape = places.shape
    if type(n) is not int or n < 2 or n not in shape or places.size != n:
        return places
    flat = places.reshape(n)
    if flat[0] != 0 or flat[-1] != n - 1 or not np.array_equal(flat, np.arange(n)):
        return places
    return _shapes.broadcasted_iota(dtypes.canonicalize_dtype(places.dtype), shape, shape.index(n))


def _add_window(s: Slice, n: Size, items: list[Item], operands: list[Any], wrap: bool) -> None:
    """Append the item of a slice of fixed size, which may reach beyond the axis, and its
    operands."""
    start, size, stride = s.start, s.size, s.stride
    if type(n) is int and type(size) is int and not 0 <= size * (stride == 1) <= n:
        raise TypeError(f"ds: a slice of size {size} does not fit into an axis of size {n}.")
    if type(start) is int and type(size) is int and type(n) is int:
        start = start + n if wrap and start < 0 else start
        if stride and start >= 0 and start + size * stride - (stride - 1) <= n:
            _add_slice(slice(start, start + size * stride, stride), n, items, operands)
            return
    start = np.int32(start) if type(start) is int else start
    items.append(("window", size, "anywhere") if stride == 1 else ARRAY)
    operands.append(start if stride == 1 else start + stride * np.arange(size, dtype=np.int32))


def _add_slice(s: slice, n: Size, items: list[Item], operands: list[Any]) -> None:
    """Append the item of a slice of an axis of size n, and the operand of a window."""
    start, size, step = _extent(s, n)
    if step == 1 or (type(size) is int and size <= 1):
        if size is n or (type(size) is int and size == n and start == 0):
            items.append(FULL)
        else:
            items.append(("window", size))
            operands.append(start)
    else:
        items.append(("steps", start, size, step))


def _extent(s: slice, n: Size) -> tuple[Any, Any, int]:
    """First place, number of places and step of a slice."""
    if s.start is None and s.stop is None and s.step is None:
        return 0, n, 1
    for bound in (s.start, s.stop, s.step):
        if isinstance(bound, Tracer) and bound.concrete() is None:
            raise IndexError(
                f"Slice entries must be static integers. Got {s}\n"
                f"    {bound!r} is traced; its value is not known\n"
                "  Of fixed size, and starting anywhere: jax.ds(start, size) in a key, or "
                "lax.dynamic_slice."
            )
    if type(n) is not int or any(map(is_symbolic, (s.start, s.stop, s.step))):
        return _symbolic_extent(s, n)
    start, stop, step = s.indices(n)
    size = len(range(start, stop, step))
    return (start if size else 0), size, step  # an empty slice that goes down may begin at -1


def _symbolic_extent(s: slice, n: Any) -> tuple[Any, Any, int]:
    """As `_extent`, of an axis whose size is symbolic.

    Raises InconclusiveDimensionOperation if it is not known whether a bound counts from the front
    or the end.
    """
    step = 1 if s.step is None else as_size(s.step)
    if step == 0:
        raise ValueError(f"slice step cannot be zero\n    key: {s}")
    first, last = (0, n) if step > 0 else (-1, n - 1)

    def place(bound: Any) -> Any:
        bound = as_size(bound)
        return min_dim(last, bound) if bound >= 0 else max_dim(first, bound + n)

    default = (0, n) if step > 0 else (n - 1, -1)
    start, stop = (
        d if bound is None else place(bound)
        for bound, d in zip((s.start, s.stop), default, strict=True)
    )
    return (
        start,
        max_dim(ceil_div(stop - start, step) if step > 0 else ceil_div(start - stop, -step), 0),
        step,
    )


def _not_a_sequence(key: object) -> Any:
    if isinstance(key, str):
        return key
    if isinstance(key, list | range):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[array(seq)]` instead of `arr[seq]`.\n    key: {_text(key)}"
        )
    return key


def _parts(e: Any, position: int) -> list[tuple[str, Any]]:
    """The kind and value of one entry of a key; a mask of k axes gives k of them."""
    kind = type(e)
    if kind is int:
        return [("int", e)]
    if e is None:
        return [("new", None)]
    if kind is slice:
        return [("slice", e)]
    if kind is Slice:
        if e.stride == 1 or type(e.start) is int:
            return [("anywhere", e)]
        return [("array", e.start + e.stride * np.arange(e.size, dtype=np.int32))]
    if e is Ellipsis:
        return [_ELLIPSIS_PART]
    if isinstance(e, str):
        raise TypeError(f"JAX does not support string indexing; got idx={e!r}")
    if isinstance(e, list | tuple):
        e = _from_sequence(e)
    elif not isinstance(e, np.ndarray | np.generic | ArrayImpl | Tracer) and hasattr(
        e, "__jax_array__"
    ):
        e = e.__jax_array__()
    if isinstance(e, bool | np.bool_):
        return [("bool", bool(e))]
    if not isinstance(e, np.ndarray | np.generic | ArrayImpl | Tracer):
        return [("int", _as_int(e))]
    return _array_parts(e, position)


_ELLIPSIS_PART = ("ellipsis", None)


def _array_parts(e: Any, position: int) -> list[tuple[str, Any]]:
    if dtypes.issubdtype(e.dtype, np.bool_):
        if e.ndim and is_unknown(e) and results_allowed():
            return [
                ("mask", (index, size, position, e.shape))
                for index, size in zip(nonzero(e), e.shape, strict=True)
            ]
        mask = _concrete_mask(e)
        if mask.ndim == 0:
            return [("bool", bool(mask))]
        return [
            ("mask", (index.astype(np.int32), size, position, mask.shape))
            for index, size in zip(mask.nonzero(), mask.shape, strict=True)
        ]
    if not dtypes.issubdtype(e.dtype, np.integer):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {e.dtype}\n"
            f"    position: {position}"
        )
    if e.ndim:
        return [("array", e)]
    return [("int", int(e))] if isinstance(e, np.ndarray | np.generic) else [("scalar", e)]


def _concrete_mask(mask: AnyArray) -> np.ndarray[Any, Any]:
    value = mask.concrete() if isinstance(mask, Tracer) else mask
    if value is None:
        raise errors.NonConcreteBooleanIndexError(mask)
    return np.asarray(readable(value))


def _as_int(e: Any) -> int:
    try:
        return operator.index(e)
    except TypeError:
        pass
    if isinstance(e, float | complex):
        raise TypeError(
            "Indexer must have integer or boolean type, got indexer with type "
            f"{np.asarray(e).dtype}\n    index: {e}"
        )
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean "
        f"arrays are valid indices. Got {e!r:.200}"
    )


def _from_sequence(xs: Sequence[Any]) -> Any:
    """The index array that a list within a key is."""
    if not len(xs):
        return np.zeros(0, np.int32)
    if any(isinstance(x, Tracer | ArrayImpl | list | tuple) for x in xs):
        rows = [_from_sequence(x) if isinstance(x, list | tuple) else x for x in xs]
        if all(isinstance(x, np.ndarray | np.generic | int) for x in rows):
            return np.asarray(rows)
        common = dtypes.result_type(*rows)
        return _joining.stack([_structure.convert_element_type(x, common) for x in rows])
    if not all(is_valid_type(x) for x in xs):
        raise TypeError(
            "a sequence within an index holds something that is not a number.\n"
            f"    index: {_text(xs)}"
        )
    return np.asarray(xs)


def _text(key: object) -> str:
    """A key in an error message."""
    if isinstance(key, tuple):
        return f"({', '.join(_text(k) for k in key)})"
    if is_valid_type(key) and not isinstance(key, bool | int | float | complex):
        return typeof(key).str_short(short_dtypes=True)
    return f"{key!r:.100}"
