"""Elements at given places: take, put, and their kin along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_size
from teucer.lax import _cumulative, _elementwise, _reductions, _selection, _shapes, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from teucer.numpy import _updates
from teucer.numpy._index_keys import parse
from teucer.numpy._library import at_once, converting, fast
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import axis_of, broadcast_value, index_dtype, operand, operands, size_as
from teucer.numpy._promotion import broadcast_shapes, convert, refuse_out
from teucer.numpy._reading import Options, common_index_dtype, wrapped

if TYPE_CHECKING:
    from teucer._core.typing import Size

__all__ = ["place", "put", "put_along_axis", "take", "take_along_axis"]

_IN_PLACE = (
    "cannot modify arrays in-place, because JAX arrays are immutable. Pass inplace=False to "
    "instead return an updated array."
)


@at_once(static=("axis", "out", "mode", "unique_indices", "indices_are_sorted"))
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The elements of a at integer places of an axis, of the flattened array if it is None.

    mode: the result for places outside: "fill" (the default): fill_value, by default NaN or the
    least signed or greatest unsigned integer; "clip": the nearest element; "wrap": the places count
    around. Negative ones count from the end, except with "clip".
    Raises ValueError for places that are not integers.

    >>> take(np.array([3., 5.]), np.array([1, 4])).tolist()
    [5.0, nan]
    """
    refuse_out("take", out)
    options = axis, mode, bool(unique_indices), bool(indices_are_sorted)
    if fill_value is None and (axis is None or type(axis) is int):
        return _take_fast(a, indices, *options)
    return _take(a, indices, *options, fill_value)


def _take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None,
    mode: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    fill_value: Array | None = None,
) -> Any:
    x, places = operands("take", a, indices)
    if places.dtype == np.bool_:
        places = convert(places, index_dtype())
    if not dtypes.issubdtype(places.dtype, np.integer):
        raise ValueError(f"take: indices must have an integer type, got {places.dtype}.")
    if axis is None:
        x, axis = ravel(x), 0
    at = axis_of(x, axis)
    if mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.take is not supported.\n  Modes: fill, clip, wrap."
        )
    n = x.shape[at]
    if is_size("take", n, 0) and not is_size("take", places.size, 0):
        raise IndexError(
            f"Cannot do a non-empty jnp.take() from an empty axis.\n    a: {typeof(x)}, axis: {at}"
        )
    if mode == "wrap" and n:
        places = places % n
    parsed = GatherScatterMode.from_any("clip" if mode == "wrap" else mode)
    wrap = mode != "clip"
    key = parse((slice(None),) * at + (places,), x.shape, wrap=wrap)
    fill = None if fill_value is None else _updates.fill_scalar(fill_value, x)
    return _updates.get(x, key, Options(parsed, fill, indices_are_sorted, unique_indices, wrap))


_take_fast = fast(static=("axis", "mode", "unique_indices", "indices_are_sorted"))(_take)


def _checked_indices(
    name: str, arr: ArrayLike, indices: ArrayLike, axis: int | None
) -> tuple[Any, Any, int]:
    x, places = operands(name, arr, indices)
    if not dtypes.issubdtype(places.dtype, np.integer):
        raise TypeError(f"{name} indices must be of integer type, got {places.dtype}")
    if axis is None:
        if places.ndim != 1:
            raise ValueError(f"{name} indices must be 1D if axis=None, got shape {places.shape}")
        return ravel(x), places, 0
    if x.ndim != places.ndim:
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {places.ndim} vs. {x.ndim}"
        )
    return x, places, axis_of(x, axis)


@at_once(static=("axis", "mode", "fill_value", "wrap_negative_indices"))
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """For each line of arr along an axis, the elements at the places that the same line of indices
    names.

    The other axes broadcast together. mode and fill_value as for `take`, without "wrap"; "one_hot"
    gives 0 for places outside, by comparing all places with all elements, which accelerators may do
    faster than they gather.
    wrap_negative_indices: whether negative places count from the end; by default they do, but for
    "promise_in_bounds".

    >>> take_along_axis(np.array([[1, 2], [3, 4]]), np.array([[1], [0]]), 1).tolist()
    [[2], [3]]
    """
    x, places, at = _checked_indices("take_along_axis", arr, indices, axis)
    parsed = GatherScatterMode.from_any(mode)
    fill = None if fill_value is None else _updates.fill_scalar(fill_value, x)
    promised = parsed is GatherScatterMode.PROMISE_IN_BOUNDS
    wrap = not promised if wrap_negative_indices is None else wrap_negative_indices
    return _take_along(x, places, at, Options(parsed, fill, wrap_negative_indices=wrap))


def _aligned(x: Any, places: Any, axis: int) -> tuple[Any, Any]:
    """Both broadcast to one shape but for the axis."""
    rest = [tuple(n for i, n in enumerate(v.shape) if i != axis) for v in (x, places)]
    common = broadcast_shapes("take_along_axis", rest)
    return tuple(
        broadcast_value(v, (*common[:axis], v.shape[axis], *common[axis:])) for v in (x, places)
    )


@fast(static=("axis", "options"))
def _take_along(x: Any, places: Any, axis: int, options: Options) -> Any:
    x, places = _aligned(x, places, axis)
    if 0 in places.shape:
        return _structure.full(places.shape, 0, x.dtype)
    if is_size("take_along_axis", x.shape[axis], 0):
        raise IndexError(
            f"take_along_axis: axis {axis} has size 0 and no places.\n    arr: {typeof(x)}"
        )
    if options.mode is GatherScatterMode.ONE_HOT:
        return _by_comparison(x, places, axis, options)
    others = tuple(i for i in range(x.ndim) if i != axis)
    return _gather.gather(
        x,
        _vectors(places, x.shape[axis], options),
        GatherDimensionNumbers((), (axis,), (axis,), others, others),
        (1,) * x.ndim,
        mode=options.mode,
        fill_value=options.fill_value,
    )


def _by_comparison(x: Any, places: object, axis: int, options: Options) -> Any:
    """For each line, the elements at the wanted places; zero if there is none."""
    places = _shapes.expand_dims(_wrapped(places, x.shape[axis], options), (axis + 1,))
    shape = (*places.shape[: axis + 1], *x.shape[axis:])
    own = _shapes.broadcasted_iota(places.dtype, shape, axis + 1)
    each = _structure.broadcast_to(x, shape, [*range(axis), *range(axis + 1, len(shape))])
    chosen = _elementwise.eq(own, _structure.broadcast_to(places, shape, range(len(shape))))
    found = _selection.select(chosen, each, _structure.full(shape, 0, x.dtype))
    if x.dtype == np.bool_:
        return _reductions.reduce_or(found, (axis + 1,))
    return _structure.reduce_sum(found, [axis + 1])


def _wrapped(places: Any, n: Size, options: Options) -> Any:
    """Places counted from the start. With mode "promise_in_bounds" they keep their dtype."""
    if options.mode is GatherScatterMode.PROMISE_IN_BOUNDS and not options.wrap_negative_indices:
        return places
    places = _structure.convert_element_type(places, common_index_dtype({places.dtype}))
    return wrapped(places, n) if options.wrap_negative_indices else places


def _vectors(places: Any, n: int, options: Options) -> Any:
    return _shapes.expand_dims(_wrapped(places, n, options), (places.ndim,))


@converting
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """arr with values put at the places of each line along an axis; `inplace` must be False.

    >>> put_along_axis(np.zeros((2, 2)), np.array([[1], [0]]), 5, 1, inplace=False).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    if inplace:
        raise ValueError(f"jax.numpy.put_along_axis {_IN_PLACE}")
    shape = np.shape(arr)
    x, places, at = _checked_indices("put_along_axis", arr, indices, axis)
    value = operand("put_along_axis", values, 2)
    _updates.check_cast(x, value)
    out = _put_along(x, places, value, at, Options(GatherScatterMode.from_any(mode)))
    return _structure.reshape(out, shape)


@fast(static=("axis", "options"))
def _put_along(x: Any, places: Any, value: Any, axis: int, options: Options) -> Any:
    x, places = _aligned(x, places, axis)
    others = tuple(i for i in range(x.ndim) if i != axis)
    if 0 in places.shape or 0 in x.shape:
        return x
    return _gather.scatter(
        x,
        _vectors(places, x.shape[axis], options),
        convert(broadcast_value(value, places.shape), x.dtype),
        ScatterDimensionNumbers((), (axis,), (axis,), others, others),
        mode=options.mode,
    )


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """a with values put at places of the flattened array, again and again if they are fewer;
    `inplace` must be False.

    mode: the treatment of places outside: "wrap" counts around, "clip" takes the nearest element,
    and negative ones for the first. By default negative ones count from the end first.

    >>> put(np.zeros(3), np.array([0, 2]), np.array([7.]), inplace=False).tolist()
    [7.0, 0.0, 7.0]
    """
    if inplace:
        raise ValueError(f"jax.numpy.put {_IN_PLACE}")
    x, places, values = operands("put", a, ind, v)
    if mode not in (None, "clip", "wrap"):
        if mode == "raise":
            raise NotImplementedError(
                "The 'raise' mode to jnp.put is not supported.\n  Modes: clip, wrap."
            )
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode}")
    if not dtypes.issubdtype(places.dtype, np.integer):
        raise TypeError(f"put: indices must have an integer type, got {places.dtype}.")
    if 0 in (places.size, x.size, values.size):
        return x
    _updates.check_cast(x, values)
    return _put(x, places, values, mode)


@fast(static=("mode",))
def _put(x: Any, places: Any, values: Any, mode: str | None) -> Any:
    flat, places, values = ravel(x), ravel(places), ravel(values)
    n, count = flat.shape[0], places.shape[0]
    places = _structure.convert_element_type(places, np.int32)
    if mode == "wrap":
        places = places % n
    else:
        if mode is None:
            places = wrapped(places, n)
        places = _elementwise.clamp(np.int32(0), places, size_as(n - 1, np.int32))
    source = np.arange(count, dtype=np.int32) % values.shape[0]
    values = convert(values[source], flat.dtype)
    out = _gather.scatter(
        flat,
        _structure.reshape(places, (count, 1)),
        values,
        ScatterDimensionNumbers((), (0,), (0,)),
    )
    return _structure.reshape(out, x.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """arr with the elements where mask is true replaced by values in turn, again and again;
    `inplace` must be False.

    >>> place(np.arange(4), np.arange(4) > 0, np.array([7, 8]), inplace=False).tolist()
    [0, 7, 8, 7]
    """
    if inplace:
        raise ValueError(f"jax.numpy.place {_IN_PLACE}")
    x, chosen, values = operands("place", arr, mask, vals)
    if x.size != chosen.size:
        raise ValueError(
            f"place: arr and mask must be the same size.\n    arr: {typeof(x)}\n"
            f"    mask: {typeof(chosen)}"
        )
    if not values.size:
        raise ValueError("place: Cannot place values from an empty array")
    _updates.check_cast(x, values)
    return _place(x, chosen, values) if x.size else x


@fast
def _place(x: Any, mask: Any, values: Any) -> Any:
    chosen, values = _structure.convert_element_type(ravel(mask), np.dtype(bool)), ravel(values)
    rank = _cumulative.cumsum(_structure.convert_element_type(chosen, np.int32)) - 1
    new = convert(values[rank % values.shape[0]], x.dtype)
    return _structure.reshape(_elementwise.select(chosen, new, ravel(x)), x.shape)
