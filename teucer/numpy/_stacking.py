"""Arrays joined, repeated, and taken apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.typing import AnyArray, Array, ArrayLike, DTypeLike, Shape
from teucer._dimensions.dimensions import as_size, ceil_div, is_symbolic, max_dim, min_dim
from teucer._transform.vmap import vmap
from teucer.lax import _cumulative, _elementwise, _joining, _slicing, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from teucer.lax._padding import dynamic_size
from teucer.numpy._library import at_once, fast
from teucer.numpy._manipulation import atleast_1d, atleast_2d, atleast_3d, ravel, reshape
from teucer.numpy._operands import (
    axis_of,
    concrete,
    is_unknown,
    operand,
    operands,
    promoted,
    several,
)
from teucer.numpy._promotion import ANY, check_arraylike, convert, refuse_out

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack",
    "hsplit", "hstack", "repeat", "resize", "split", "stack", "tile", "trim_zeros", "vsplit",
    "vstack",
]  # fmt: skip


def _joined(name: str, arrays: Any, dtype: Any) -> list[Any]:
    """Arrays to be joined, in one dtype."""
    xs = list(operand(name, arrays)) if _is_array(arrays) else operands(name, *arrays)
    if dtype is None:
        return promoted(name, ANY, *xs) if len({(x.dtype, x.weak_type) for x in xs}) > 1 else xs
    return [_converted(name, x, dtype) for x in xs]


def _converted(name: str, x: Any, dtype: DTypeLike | None) -> Any:
    """An array in the dtype that the user asks for, if any."""
    if dtype is None:
        return x
    wanted = dtypes.check_user_dtype_supported(dtype, name)
    dtypes.report_dropped(x.dtype, wanted)
    return convert(x, wanted)


def concatenate(
    arrays: ArrayLike | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """Arrays joined along an axis; all flattened first if it is None.

    Raises ValueError for no arrays or arrays without axes, TypeError if other axes differ in size.

    >>> concatenate([np.zeros((2, 1)), np.ones((2, 2))], axis=1).tolist()
    [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    if _is_array(arrays) and axis is not None and np.ndim(arrays) >= 2:
        x = operand("concatenate", arrays)  # an array's rows, joined: two of its axes become one
        at = _structure.canonical_axis(axis, x.ndim - 1)
        moved = _structure.moveaxis(x, 0, at)
        out = _structure.reshape(
            moved,
            (*moved.shape[:at], moved.shape[at] * moved.shape[at + 1], *moved.shape[at + 2 :]),
        )
        return _converted("concatenate", out, dtype)
    xs = _joined("concatenate", arrays, dtype)
    if not xs:
        raise ValueError(f"Need at least one array to concatenate.\n    arrays: {arrays!r:.100}")
    if axis is None:
        return concatenate([ravel(x) for x in xs])
    if xs[0].ndim == 0:
        raise ValueError(
            "Zero-dimensional arrays cannot be concatenated.\n"
            f"    arrays: {len(xs)}, the first of shape {xs[0].shape}\n"
            "  Use stack or hstack; the arrays are one argument, a sequence: jnp.concatenate([x, "
            "y])."
        )
    return _joining.concatenate(xs, axis_of(xs[0], axis))


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """As `concatenate`.

    >>> concat([np.zeros(1), np.ones(2)]).tolist()
    [0.0, 1.0, 1.0]
    """
    return concatenate(arrays, axis)


def stack(
    arrays: ArrayLike | Sequence[ArrayLike],
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Arrays of one shape joined along a new axis.

    Raises ValueError for no arrays or arrays of several shapes.

    >>> stack([np.zeros(2), np.ones(2)], axis=1).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    refuse_out("stack", out)
    if _is_array(arrays):
        rows = _each("stack", arrays, lambda x: x)
        out = _structure.moveaxis(rows, 0, _structure.canonical_axis(axis, rows.ndim))
        return _converted("stack", out, dtype)
    xs = _joined("stack", arrays, dtype)
    if not xs:
        raise ValueError("Need at least one array to stack.")
    shapes = [x.shape for x in xs]
    if any(s != shapes[0] for s in shapes):
        raise ValueError(
            f"All input arrays must have the same shape. Got {', '.join(map(str, shapes))}."
        )
    return _joining.stack(xs, _structure.canonical_axis(axis, len(shapes[0]) + 1))


def vstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along the first axis; arrays of one axis are rows.

    >>> vstack([np.zeros(2), np.ones(2)]).shape
    (2, 2)
    """
    return concatenate(_each("vstack", tup, atleast_2d), 0, dtype)


def hstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along the second axis, or along the first if they have one.

    >>> hstack([np.zeros(2), np.ones(2)]).shape
    (4,)
    """
    xs = _each("hstack", tup, atleast_1d)
    ndim = xs.ndim - 1 if _is_array(xs) else xs[0].ndim
    return concatenate(xs, 0 if ndim == 1 else 1, dtype)


def dstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along the third axis.

    >>> dstack([np.zeros(2), np.ones(2)]).shape
    (1, 2, 2)
    """
    return concatenate(_each("dstack", tup, atleast_3d), 2, dtype)


def column_stack(tup: ArrayLike | Sequence[ArrayLike]) -> Array:
    """Arrays joined along the second axis; arrays of one axis are columns.

    >>> column_stack([np.zeros(2), np.ones((2, 2))]).shape
    (2, 3)
    """
    return concatenate(
        _each(
            "column_stack", tup, lambda x: x if x.ndim >= 2 else _structure.reshape(x, (x.size, 1))
        ),
        1,
    )


def _is_array(arrays: object) -> TypeGuard[AnyArray]:
    return isinstance(arrays, ArrayImpl | Tracer | np.ndarray)


def _each(name: str, arrays: Any, shaped: Callable[[Any], Any]) -> Any:
    """A function applied to each array; to the rows of one array all at once, however many there
    are."""
    if _is_array(arrays):
        rows = operand(name, arrays)
        if rows.shape[:1] in ((), (0,)):
            raise ValueError(f"Need at least one array to {name}. Got {rows.aval}.")
        return vmap(shaped)(rows)
    xs = operands(name, *arrays)
    if not xs:
        raise ValueError(f"Need at least one array to {name}.")
    return [shaped(x) for x in xs]


def block(arrays: ArrayLike | Sequence[Any]) -> Array:
    """An array from nested lists of blocks: the innermost lists are joined along the last axis.

    Raises ValueError if lists are nested to different depths, or empty.

    >>> block([[np.zeros((1, 2)), np.ones((1, 1))], [np.ones((1, 3))]]).tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    out, _depth = _block(arrays)
    return out


def _block(xs: Any) -> tuple[Any, int]:
    if isinstance(xs, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {repr(xs)[:100]}")
    if not isinstance(xs, list):
        return operand("block", xs), 1
    if not xs:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    parts = [_block(x) for x in xs]
    depths = {depth for _, depth in parts}
    if len(depths) > 1:
        raise ValueError("Mismatched list depths in jax.numpy.block")
    (depth,) = depths
    ndim = max(depth, *(np.ndim(x) for x, _ in parts))
    full = [_structure.reshape(x, (1,) * (ndim - x.ndim) + x.shape) for x, _ in parts]
    return concatenate(full, -depth), depth + 1


def split(ary: ArrayLike, indices_or_sections: object, axis: int = 0) -> list[Array]:
    """An array cut along an axis: into so many equal parts, or at the places given.

    Raises ValueError if the parts would not be equal.

    >>> [x.tolist() for x in split(np.arange(5), [2, 3])]
    [[0, 1], [2], [3, 4]]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: object, axis: int = 0) -> list[Array]:
    """As `split`; the first parts are longer by one where they cannot be equal.

    >>> [x.tolist() for x in array_split(np.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def hsplit(ary: ArrayLike, indices_or_sections: object) -> list[Array]:
    """An array cut along its second axis, or the first if it has one.

    >>> [x.tolist() for x in hsplit(np.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    x = operand("hsplit", ary)
    return _split("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: object) -> list[Array]:
    """An array cut along its first axis.

    >>> [x.shape for x in vsplit(np.zeros((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: object) -> list[Array]:
    """An array cut along its third axis.

    >>> [x.shape for x in dsplit(np.zeros((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def _split(name: str, ary: Any, indices_or_sections: Any, axis: int) -> list[Any]:
    x = operand(name, ary)
    at = axis_of(x, axis)
    n = x.shape[at]
    if isinstance(indices_or_sections, Sequence) or (
        isinstance(indices_or_sections, np.ndarray | ArrayImpl | Tracer)
        and np.ndim(indices_or_sections)
    ):
        symbolic = isinstance(indices_or_sections, Sequence) and any(
            map(is_symbolic, indices_or_sections)
        )
        known = (
            np.empty(0)
            if symbolic
            else concrete(indices_or_sections, name, "the places to cut at must be known")
        )
        if known.size and known.dtype.kind not in "biu":
            raise TypeError(
                f"{name}: Only integer scalar arrays can be converted to a scalar index, got "
                f"places to cut at of dtype {known.dtype}."
            )
        given: Any = indices_or_sections if symbolic else known
        places = [as_size(i) for i in given]
        bounds = [0, *(min_dim(n, max_dim(i + n if i < 0 else i, 0)) for i in places), n]
    elif is_symbolic(indices_or_sections):
        raise ValueError(
            f"jax.numpy.{name} with a symbolic number of sections is not supported.\n"
            f"    sections: {indices_or_sections}\n  It would give as many arrays. Reshape to "
            "(sections, -1, ...), or cut at given places."
        )
    else:
        parts = int(concrete(indices_or_sections, name, "the number of parts must be known")[()])
        if parts <= 0:
            raise ValueError("number sections must be larger than 0.")
        size, rest = divmod(n, parts)
        if rest != 0 and name != "array_split":
            raise ValueError(
                f"array split does not result in an equal division: rest is {rest}\n"
                f"    axis {at} has size {n}"
            )
        bounds = [i * size + min_dim(i, rest) for i in range(parts + 1)]
    sizes = [max_dim(b - a, 0) for a, b in itertools.pairwise(bounds)]
    if sum(sizes) == n:
        return list(_joining.split(x, sizes, at))
    return [
        _slicing.slice_in_dim(x, a, a + size, axis=at)
        for a, size in zip(bounds, sizes, strict=False)
    ]


@at_once(static=("reps",))
def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """A repeated as a whole along its axes, and along new leading axes for further numbers.

    >>> tile(np.arange(2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    x = operand("tile", A)
    counts = tuple(reps) if isinstance(reps, Sequence) else several(reps)
    ndim = max(x.ndim, len(counts))
    shape = (1,) * (ndim - x.ndim) + x.shape
    counts = (1,) * (ndim - len(counts)) + _structure.canonical_shape(counts, "tile")
    return _joining.tile(
        _structure.broadcast_to(x, shape, tuple(range(ndim - x.ndim, ndim))), counts
    )


def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """a with each element repeated, along an axis or flattened.

    repeats: how often, once for all or for each element. total_repeat_length: the size of the
    result's axis; needed where repeats is traced. A longer result is cut off; missing elements
    repeat the last one.
    Raises ConcretizationTypeError if the length is not known, ValueError if the number of repeats
    does not fit.

    >>> repeat(np.arange(3), np.array([1, 0, 2])).tolist()
    [0, 2, 2]
    """
    x = operand("repeat", a)
    if out_sharding is not None:
        from teucer.lax._sharding import laid_out  # for arrays over meshes

        return laid_out(
            "jnp.repeat",
            out_sharding,
            lambda x, n: repeat(x, n, axis, total_repeat_length=total_repeat_length),
            x,
            repeats,
        )
    if axis is None:
        x, axis = ravel(x), 0
    x = atleast_1d(x)
    at = axis_of(x, axis)
    n = x.shape[at]
    if is_symbolic(repeats) and total_repeat_length is None:
        return _repeat_each(x, at, max_dim(repeats, 0))
    if is_symbolic(repeats):
        repeats = max_dim(repeats, 0).__jax_array__()
    check_arraylike("repeat", repeats, at=1)
    counts = repeats if isinstance(repeats, ArrayImpl | Tracer) else np.asarray(repeats)
    if not dtypes.issubdtype(counts.dtype, np.integer) and counts.dtype != np.bool_:
        raise TypeError(f"repeat: repeats must be integers, got {counts.dtype}.")
    if np.ndim(counts) > 1 or (np.ndim(counts) == 1 and np.shape(counts)[0] not in (1, n)):
        raise ValueError(
            "repeat: repeats must be one number, or one for each element along the axis.\n"
            f"    repeats: shape {np.shape(counts)}\n    axis {at} has size {n}"
        )
    if total_repeat_length is not None:
        return _repeat_to(x, counts, at, as_size(total_repeat_length))
    if is_unknown(counts):
        each = _structure.broadcast_to(counts, (n,), (0,) if np.ndim(counts) else ())
        length = dynamic_size(_total(each))
        if length is not None:
            return _repeat_to(x, counts, at, length)
    known = concrete(
        counts,
        "repeat",
        "When jit-compiling jnp.repeat, the total number of repeats must be static.\n"
        "Give total_repeat_length, the size of the result.",
    )
    if known.size and known.min() < 0:
        raise ValueError(f"repeat: repeats may not be negative, got {known.min()}.")
    if known.size == 1:
        return _repeat_each(x, at, int(known.reshape(())))
    return _taken(x, np.repeat(np.arange(n, dtype=np.int32), known), at)


def _total(counts: Any) -> Any:
    """The sum of counts: the greatest integer where it is beyond all, -1 where a count is
    negative."""
    exact = _structure.reduce_sum(_structure.convert_element_type(counts, np.int32), (0,))
    # Sums of integers wrap around, sums of floats do not.
    beyond = (
        _structure.reduce_sum(_structure.convert_element_type(counts, np.float32), (0,)) > 2**30
    )
    negative = (
        _structure.reduce_sum(_structure.convert_element_type(counts < 0, np.int32), (0,)) > 0
    )
    return _elementwise.select(
        negative, np.int32(-1), _elementwise.select(beyond, np.int32(2**31 - 1), exact)
    )


def _repeat_each(x: Any, axis: int, count: int) -> Any:
    shape = x.shape
    spread = _structure.broadcast_to(
        x,
        (*shape[: axis + 1], count, *shape[axis + 1 :]),
        [i + (i > axis) for i in range(len(shape))],
    )
    return _structure.reshape(spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


@fast(static=("axis", "length"))
def _repeat_to(x: Array, counts: Any, axis: int, length: int) -> Any:
    n = x.shape[axis]
    if length == 0 or n == 0:
        return _structure.full((*x.shape[:axis], length, *x.shape[axis + 1 :]), 0, x.dtype)
    every = _structure.broadcast_to(
        _structure.convert_element_type(counts, np.int32), (n,), (0,) if np.ndim(counts) else ()
    )
    # The copies of each element but the first begin at `begins`. Put a 1 there: the running sum
    # then says for each place which element it repeats.
    begins = _slicing.slice(_cumulative.cumsum(every), (0,), (n - 1,))
    marks = _gather.scatter_add(
        _structure.full((length,), 0, np.int32),
        _structure.reshape(begins, (n - 1, 1)),
        _structure.full((n - 1,), 1, np.int32),
        ScatterDimensionNumbers((), (0,), (0,)),
    )
    return _taken(x, _cumulative.cumsum(marks), axis)


def _taken(x: Any, places: Any, axis: int) -> Any:
    """The parts of x at places of an axis, which lie within it."""
    if 0 in np.shape(places) or 0 in x.shape:
        return _structure.full(
            (*x.shape[:axis], np.shape(places)[0], *x.shape[axis + 1 :]), 0, x.dtype
        )
    others = tuple(i for i in range(x.ndim) if i != axis)
    sizes = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return _gather.gather(
        x,
        _structure.reshape(places, (np.shape(places)[0], 1)),
        GatherDimensionNumbers(others, (axis,), (axis,)),
        sizes,
        mode="promise_in_bounds",
    )


def resize(a: ArrayLike, new_shape: Shape) -> Array:
    """a in another shape: its elements again and again, or only the first ones.

    >>> resize(np.arange(3), (2, 2)).tolist()
    [[0, 1], [2, 0]]
    """
    sizes = tuple(new_shape) if isinstance(new_shape, Sequence) else (new_shape,)
    if any(d < 0 for d in sizes):
        raise ValueError("all elements of `new_shape` must be non-negative")
    x = ravel(operand("resize", a))
    total = math.prod(map(as_size, sizes))
    if x.size == 0 or total == 0:
        return _structure.full(sizes, 0, x.dtype)
    times = ceil_div(total, x.size)
    return reshape(_slicing.slice(tile(x, times), (0,), (total,)), sizes)


@at_once(static=("axis",))
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Values joined to the end of an array along an axis; both flattened if it is None.

    >>> append(np.arange(2), np.array([[5]])).tolist()
    [0, 1, 5]
    """
    x, y = operands("append", arr, values)
    return concatenate([x, y], axis)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """An array without the zeros at its borders; "f": in front, "b": at the back. The values must
    be known.

    >>> trim_zeros(np.array([0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    x = operand("trim_zeros", filt)
    if not x.ndim:
        return x
    places = np.nonzero(concrete(x, "trim_zeros", "the size of the result depends on the values"))
    axes = range(x.ndim) if axis is None else [axis_of(x, a) for a in several(axis)]
    low, high = [0] * x.ndim, list(x.shape)
    for i in axes:
        if not places[i].size:
            low[i] = high[i]
            continue
        low[i] = int(places[i].min()) if "f" in trim.lower() else 0
        high[i] = int(places[i].max()) + 1 if "b" in trim.lower() else high[i]
    return _slicing.slice(x, low, high)
