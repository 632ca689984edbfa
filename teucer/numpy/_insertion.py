"""Parts of an axis left out or put in: `delete` and `insert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import Tracer, typeof
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_symbolic
from teucer.lax import _cumulative, _elementwise, _joining, _shapes, _slicing, _sorting, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import ScatterDimensionNumbers
from teucer.numpy._library import converting, fast
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import axis_of, concrete, is_unknown, operand, positions, size_as
from teucer.numpy._promotion import check_arraylike, convert
from teucer.numpy._reading import wrapped
from teucer.numpy._stacking import _taken

if TYPE_CHECKING:
    from teucer._core.typing import AnyArray, Size

__all__ = ["delete", "insert"]


@converting
def delete(
    arr: ArrayLike, obj: object, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """An array without the parts at some places along an axis; flattened first if it is None.

    obj: an int, slice, integers, or a mask. assume_unique_indices: integers may be traced; they are
    distinct. Raises ConcretizationTypeError if traced places may not be distinct.

    >>> delete(np.arange(4), np.array([0, 2])).tolist()
    [1, 3]
    """
    x = operand("delete", arr)
    if axis is None:
        x, axis = ravel(x), 0
    at = axis_of(x, axis)
    n = x.shape[at]
    if isinstance(obj, slice):
        _check_known("delete", n)
        kept = np.delete(np.arange(n, dtype=np.int32), obj)
        return _taken(x, kept, at)
    if (
        isinstance(obj, Tracer)
        and dtypes.issubdtype(obj.dtype, np.integer)
        and (np.size(obj) == 1 or assume_unique_indices)
    ):
        return _delete_traced(x, ravel(obj), at)
    check_arraylike("delete", obj, at=1)
    known = concrete(
        obj,
        "delete",
        "the size of the result depends on how many places are distinct.\nGive "
        "assume_unique_indices=True if they are.",
    )
    if known.dtype.kind not in "biu":
        raise ValueError(
            f"np.delete(arr, obj): got obj.dtype={known.dtype}; must be integer or bool."
        )
    if known.dtype == bool and known.ndim:
        _check_known("delete", n)
        if known.shape != (n,):
            raise ValueError(
                "boolean array argument obj to delete must be one dimensional and match the axis "
                f"length of {n}, got shape {known.shape}."
            )
    else:
        known = known.astype(np.int64)
        if is_symbolic(n):
            return _delete_known(x, sorted({int(i) for i in known.ravel()}), at)
        outside = known[(known < -n) | (known >= n)]
        if outside.size:
            # As NumPy has it: a number is a wrong argument, one among several a wrong index.
            raise (IndexError if known.ndim else ValueError)(
                f"delete: index {outside.ravel()[0]} is out of bounds for axis {at} with size "
                f"{n}.\n    obj: {known.tolist()}"
            )
    return _taken(x, np.delete(np.arange(n, dtype=np.int32), known), at)


def _check_known(name: str, n: Size) -> None:
    """Raise NotImplementedError for an axis of symbolic size."""
    if is_symbolic(n):
        raise NotImplementedError(
            f"{name}: by slices, masks or both ends not done along an axis of symbolic size, "
            f"which is {n}.\n  Join the parts: jnp.concatenate([x[:i], new, x[j:]])."
        )


def _delete_known(x: Array, places: list[int], axis: int) -> Any:
    """x without the elements at `places` of an axis of symbolic size. places: in order, all counted
    from the beginning, or all from the end."""
    n = x.shape[axis]
    if places and (places[0] < 0) != (places[-1] < 0):
        _check_known("delete", n)
    if places and (n < -places[0] or n <= places[-1]):
        raise ValueError(
            f"delete: places {places} are out of bounds for axis {axis} with size {n}."
        )
    firsts = [0, *(n + i + 1 if i < 0 else i + 1 for i in places)]
    ends = [*(n + i if i < 0 else i for i in places), n]
    return _joining.concatenate(
        [
            _slicing.slice_in_dim(x, first, end, axis=axis)
            for first, end in zip(firsts, ends, strict=True)
        ],
        axis,
    )


@fast(static=("axis",))
def _delete_traced(x: Any, places: Any, axis: int) -> Any:
    n, count = x.shape[axis], np.shape(places)[0]
    places = wrapped(_structure.convert_element_type(places, np.int32), n)
    places = _elementwise.clamp(np.int32(0), places, size_as(n - 1, np.int32))
    # The k-th kept element moves up by one for each deleted place before it.
    inside = _gather.scatter_add(
        _structure.full((n,), 1, np.int32),
        _structure.reshape(places, (count, 1)),
        _structure.full((count,), -1, np.int32),
        ScatterDimensionNumbers((), (0,), (0,)),
    )
    rank = _elementwise.sub(_cumulative.cumsum(inside), np.int32(1))
    outside = _structure.broadcast_to(size_as(n, np.int32), (n,), ())
    target = _elementwise.select(_elementwise.gt(inside, np.int32(0)), rank, outside)
    kept = _gather.scatter(
        _structure.full((n - count,), 0, np.int32),
        _structure.reshape(target, (n, 1)),
        _shapes.iota(np.int32, n),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )
    return _taken(x, kept, axis)


@converting
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """An array with values put in before places along an axis; flattened first if it is None.

    obj: an int, slice, integers, which may be traced, or a mask. Raises IndexError for a known
    place out of bounds.

    >>> insert(np.arange(3), 1, 9).tolist()
    [0, 9, 1, 2]
    """
    x = operand("insert", arr)
    if is_symbolic(obj):
        obj = size_as(obj, np.int32)
    if not isinstance(obj, slice):
        check_arraylike("insert", obj, at=1)
    new = operand("insert", values, 2)
    if axis is None:
        x, axis = ravel(x), 0
    at = axis_of(x, axis)
    n = x.shape[at]
    if isinstance(obj, slice):
        _check_known("insert", n)
    places = (
        np.arange(*obj.indices(n))
        if isinstance(obj, slice)
        else obj
        if is_unknown(obj)
        else concrete(obj, "insert", "")
    )
    if isinstance(places, np.ndarray) and places.dtype == bool:
        places = places.nonzero()[0]
    if not dtypes.issubdtype(places.dtype, np.integer) and places.size:
        raise ValueError(f"jnp.insert(): index array must be integer typed; got {places}")
    if places.ndim > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if (
        isinstance(places, np.ndarray)
        and places.size
        and (-n > int(np.min(places)) or n < int(np.max(places)))
    ):
        raise IndexError(
            f"insert: place out of bounds for axis {at} with size {n}.\n    obj: {places.tolist()}"
        )
    dtypes.report_dropped(new.dtype, x.dtype)
    new = convert(new, x.dtype, typeof(x).weak_type)
    if np.ndim(new) < x.ndim:
        new = _shapes.expand_dims(new, range(x.ndim - np.ndim(new)))
    if places.ndim == 0:
        # One place: the whole of values goes there, its first axis along the axis.
        new = _structure.moveaxis(new, 0, at)
    count = places.size if places.size != 1 else np.shape(new)[at]
    return _inserted(x, places, count, new, at)


def _inserted(x: Any, places: Any, count: int, new: Any, axis: int) -> Any:
    n = x.shape[axis]
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if np.ndim(new) > len(shape):
        raise ValueError(
            f"insert: values have more axes than the array.\n    values: shape {np.shape(new)}"
        )
    filled = _shapes.broadcast_in_dim(new, shape, range(len(shape)))
    # In the order of their places, new elements before old ones.
    if (
        isinstance(places, np.ndarray | np.generic)
        and not is_symbolic(n)
        and not is_symbolic(count)
    ):
        known = np.asarray(places)
        keys = [np.broadcast_to(2 * (known + n * (known < 0)), (count,)), np.arange(1, 2 * n, 2)]
        numbers = np.concatenate([np.arange(n, n + count), np.arange(n)]).astype(np.int32)
        source: AnyArray = numbers[np.argsort(np.concatenate(keys), kind="stable")]
    else:
        order = _joining.concatenate([positions(count) + size_as(n, np.int32), positions(n)], 0)
        firsts = _structure.convert_element_type(wrapped(places, n), np.int32)
        ranks = _joining.concatenate(
            [
                _structure.broadcast_to(ravel(2 * firsts), (count,), (0,)),
                2 * positions(n) + np.int32(1),
            ],
            0,
        )
        source = _sorting.sort((ranks, order), num_keys=1)[1]
    return _taken(_joining.concatenate([x, filled], axis), source, axis)
