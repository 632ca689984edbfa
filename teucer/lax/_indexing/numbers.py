"""How gather and scatter read their indices: dimension numbers, modes, and their checks."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._devices import meshes
from teucer._devices.partition import Labels

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import DTypeLike, Size

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers"]


class GatherScatterMode(enum.Enum):
    """The treatment of windows that do not lie within the operand.

    CLIP: they are moved inside. FILL_OR_DROP: gather gives a fill value, scatter leaves them out.
    PROMISE_IN_BOUNDS: the caller promises that there are none. ONE_HOT: as FILL_OR_DROP, for
    scatter.
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode that a string names: clip, fill, drop, promise_in_bounds, one_hot; None is
        FILL_OR_DROP.

        Raises ValueError for another name.
        """
        if isinstance(s, GatherScatterMode):
            return s
        try:
            return _MODES[s]
        except (KeyError, TypeError):
            raise ValueError(
                f'Unknown gather mode "{s}"\n  Modes: {", ".join(k for k in _MODES if k)}.'
            ) from None


_MODES: dict[str | None, GatherScatterMode] = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    None: GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and result belong together in `gather`.

    offset_dims: the axes of the result along the windows.
    collapsed_slice_dims: axes of the operand along which windows have size 1, which are dropped.
    start_index_map: the axis of the operand that each component of an index vector counts along.
    operand_batching_dims, start_indices_batching_dims: pairs of axes that run together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and updates belong together in the scatters.

    update_window_dims: the axes of the updates along the windows.
    inserted_window_dims: axes of the operand along which windows have size 1, which updates lack.
    scatter_dims_to_operand_dims: the axis of the operand that each component of an index vector
    counts along.
    operand_batching_dims, scatter_indices_batching_dims: pairs of axes that run together.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def as_tuples(numbers: object) -> Any:
    """Dimension numbers with their fields as tuples of ints."""
    if not isinstance(numbers, GatherDimensionNumbers | ScatterDimensionNumbers):
        raise TypeError(
            "dimension_numbers must be GatherDimensionNumbers or ScatterDimensionNumbers, got "
            f"{numbers!r:.100}.\n  x[...], jnp.take and x.at[...] choose them by themselves."
        )
    try:
        return _as_tuples(numbers)
    except TypeError:  # lists cannot be looked up
        return _as_tuples(type(numbers)(*map(tuple, numbers)))


@functools.lru_cache(maxsize=4096, typed=True)
def _as_tuples(numbers: Any) -> Any:
    return type(numbers)(*(tuple(operator.index(d) for d in field) for field in numbers))


def check_gather(
    x: ShapedArray, indices: ShapedArray, d: GatherDimensionNumbers, slice_sizes: Sequence[int]
) -> tuple[Any, ...]:
    """The shape of a gather's result. Raises if operands, dimension numbers and sizes do not fit.

    Each field is checked by itself before those whose lengths must agree: the first wrong one is
    named.
    """
    _check_indices("Gather", indices, d.start_indices_batching_dims, "start_indices_batching_dims")
    _check_axes("offset_dims", "gather", d.offset_dims)
    out_ndim = len(d.offset_dims) + indices.ndim - 1
    for i, axis in enumerate(d.offset_dims):
        if not 0 <= axis < out_ndim:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {axis}, but should have "
                f"been in [0, {out_ndim})"
            )
    _check_map("start_index_map", "start_index_map", d.start_index_map, x.ndim, "gather")
    for name, axes in (
        ("collapsed_slice_dims", d.collapsed_slice_dims),
        ("operand_batching_dims", d.operand_batching_dims),
    ):
        _check_axes(name, "gather", axes)
        _check_range(name, "gather", axes, x.ndim)
    _check_disjoint(
        "collapsed_slice_dims", d.collapsed_slice_dims, d.operand_batching_dims, "gather"
    )
    _check_disjoint("start_index_map", d.start_index_map, d.operand_batching_dims, "gather")
    _check_index_vector("Gather", indices, d.start_index_map, "start_index_map")
    _check_batching(
        "Gather",
        x,
        indices,
        (d.operand_batching_dims, d.start_indices_batching_dims),
        "start_indices_batching_dims",
    )
    if len(slice_sizes) != x.ndim:
        raise TypeError(
            "Gather op must have one slice size for every input dimension; got: "
            f"len(slice_sizes)={len(slice_sizes)}, input_shape.rank={x.ndim}"
        )
    if len(slice_sizes) != len(d.offset_dims) + len(d.collapsed_slice_dims) + len(
        d.operand_batching_dims
    ):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension "
            f"or explicitly collapsed/batching; got len(slice_sizes)={len(slice_sizes)}, "
            f"output_slice_sizes={d.offset_dims}, collapsed_slice_dims={d.collapsed_slice_dims}, "
            f"operand_batching_dims={d.operand_batching_dims}."
        )
    for i, (size, n) in enumerate(zip(slice_sizes, x.shape, strict=True)):
        # An axis of dynamic size may turn out to be empty: then there is nothing to take, nor a
        # place to take it from.
        if size < 0 or ((type(n) is int or type(size) is not int or size > 1) and size > n):
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within [0, {n} + "
                f"1), got {size}."
            )
    _check_units(d, slice_sizes)
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    window = iter([n for i, n in enumerate(slice_sizes) if i not in dropped])
    batch = iter(indices.shape[:-1])
    return tuple(next(window) if i in d.offset_dims else next(batch) for i in range(out_ndim))


def _check_units(d: GatherDimensionNumbers, slice_sizes: Sequence[int]) -> None:
    """Raise TypeError if a window is larger than one along an axis that the result lacks."""
    for i, axis in enumerate(d.collapsed_slice_dims):
        if slice_sizes[axis] != 1:
            raise TypeError(
                "Gather op can only collapse slice dims with bound 1, but bound is "
                f"{slice_sizes[axis]} for index {axis} at position {i}."
            )
    for i, axis in enumerate(d.operand_batching_dims):
        if slice_sizes[axis] > 1:
            raise TypeError(
                "Gather op can only have operand batching dims with bound 0/1, but bound is "
                f"{slice_sizes[axis]} for index {axis} at position {i}."
            )


def check_scatter(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, d: ScatterDimensionNumbers
) -> None:
    """Raise if operand, indices, updates and dimension numbers of a scatter do not fit."""
    mapped, window, inserted = (
        d.scatter_dims_to_operand_dims,
        d.update_window_dims,
        d.inserted_window_dims,
    )
    _check_indices(
        "Scatter", indices, d.scatter_indices_batching_dims, "scatter_indices_batching_dims"
    )
    ndim = len(window) + indices.ndim - 1
    if updates.ndim != ndim:
        raise TypeError(f"Updates tensor must be of rank {ndim}; got {updates.ndim}.")
    _check_axes("update_window_dims", "scatter", window)
    _check_range("update_window_dims", "scatter", window, updates.ndim)
    for name, axes in (
        ("inserted_window_dims", inserted),
        ("operand_batching_dims", d.operand_batching_dims),
    ):
        _check_axes(name, "scatter", axes)
        _check_range(name, "scatter", axes, x.ndim)
    _check_disjoint("inserted_window_dims", inserted, d.operand_batching_dims, "scatter")
    _check_disjoint("scatter_dims_to_operand_dims", mapped, d.operand_batching_dims, "scatter")
    _check_map(
        "scatter_dims_to_operand_dims",
        "scatter_dims_to_operand_dims mapping",
        mapped,
        x.ndim,
        "scatter",
    )
    _check_index_vector("Scatter", indices, mapped, "scatter_dims_to_operand_dims")
    _check_batching(
        "Scatter",
        x,
        indices,
        (d.operand_batching_dims, d.scatter_indices_batching_dims),
        "scatter_indices_batching_dims",
    )
    size = len(window) + len(inserted) + len(d.operand_batching_dims)
    if x.ndim != size:
        raise TypeError(
            f"Scatter op has window of size {size}; doesn't match operand of rank {x.ndim}."
        )
    for axis, along in zip(window, window_axes(d, x.ndim), strict=True):
        if updates.shape[axis] > x.shape[along]:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed the bounds of the "
                f"corresponding dimensions of operand. For dimension {axis}, updates bound is "
                f"{updates.shape[axis]}, operand bound is {x.shape[along]}."
            )
    scattered = [i for i in range(updates.ndim) if i not in window]
    for i, (axis, n) in enumerate(zip(scattered, indices.shape[:-1], strict=True)):
        if updates.shape[axis] != n:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of "
                f"the corresponding dimensions of scatter indices. For scatter dimension {i}, "
                f"updates bound is {updates.shape[axis]}, indices bound is {n}."
            )


def window_axes(d: ScatterDimensionNumbers, ndim: int) -> list[int]:
    """The axes of the operand along the windows, in order."""
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    return [i for i in range(ndim) if i not in dropped]


def window_sizes(d: ScatterDimensionNumbers, ndim: int, updates_shape: Any) -> tuple[Any, ...]:
    """The size of a scatter's windows along each axis of the operand."""
    sizes = [1] * ndim
    for axis, along in zip(d.update_window_dims, window_axes(d, ndim), strict=True):
        sizes[along] = updates_shape[axis]
    return tuple(sizes)


def _check_indices(op: str, indices: ShapedArray, batching: Sequence[int], name: str) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError("indices must have an integer type")
    if indices.ndim == 0:
        raise TypeError(
            f"{op} index leaf dimension must be within [0, rank(indices) + 1). rank(indices) is 0 "
            f"and {op.lower()} index leaf dimension is -1."
        )
    if indices.ndim - 1 in batching:
        raise TypeError(
            f"{op} op cannot have the index vector dimension as a batching dimension; got "
            f"{batching}."
        )
    if len(set(batching)) != len(batching):
        raise TypeError(f"{name} in {op.lower()} op must not repeat; got: {batching}.")
    _check_range(name, op.lower(), batching, indices.ndim)


def _check_index_vector(op: str, indices: ShapedArray, mapped: Sequence[int], name: str) -> None:
    if len(mapped) != indices.shape[-1]:
        raise TypeError(
            f"{op} op has {len(mapped)} elements in {name} and the bound of dimension "
            f"index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. These two "
            "numbers must be equal."
        )


def _check_axes(name: str, op: str, axes: Sequence[int]) -> None:
    if list(axes) != sorted(axes):
        raise TypeError(f"{name} in {op} op must be sorted; got {tuple(axes)}")
    if len(set(axes)) != len(axes):
        raise TypeError(f"{name} in {op} op must not repeat; got: {tuple(axes)}.")


def _check_range(name: str, op: str, axes: Sequence[int], ndim: int) -> None:
    for axis in axes:
        if not 0 <= axis < ndim:
            raise TypeError(
                f"Invalid {name} set in {op} op; valid range is [0, {ndim}); got: {axis}."
            )


def _check_map(field: str, name: str, mapped: Sequence[int], ndim: int, op: str) -> None:
    for i, axis in enumerate(mapped):
        if not 0 <= axis < ndim:
            raise TypeError(f"Invalid {name}; domain is [0, {ndim}), got: {i}->{axis}.")
    if len(set(mapped)) != len(mapped):
        raise TypeError(f"{field} in {op} op must not repeat; got: {tuple(mapped)}.")


def _check_disjoint(name: str, axes: Sequence[object], batching: Any, op: str) -> None:
    if not set(axes).isdisjoint(batching):
        raise TypeError(
            f"{name} and operand_batching_dims in {op} op must be disjoint; got: {tuple(axes)} and "
            f"{tuple(batching)}."
        )


def _check_batching(op: str, x: ShapedArray, indices: ShapedArray, pairs: Any, name: str) -> None:
    of_operand, of_indices = pairs
    if len(of_operand) != len(of_indices):
        raise TypeError(
            f"{op} op requires equal numbers of operand_batching_dims and {name}, got "
            f"{of_operand} and {of_indices}."
        )
    left, right = tuple(x.shape[i] for i in of_operand), tuple(indices.shape[i] for i in of_indices)
    if left != right:
        raise TypeError(
            f"{op} op requires operand batching dimensions and indices batching dimensions to "
            f"have the same shape, got {left} and {right}."
        )


# --- Which axes lie over the same mesh axes -------------------------------------------------------


def gather_labels(
    x: ShapedArray, indices: ShapedArray, d: Any, slice_sizes: Sequence[int]
) -> Labels:
    """An axis taken whole keeps its partition, and so do batch axes; one from which windows are cut
    must have none. One of size 1 loses its own, and so do all where no mesh is in force, which
    could say another layout."""
    own, windows = _whole_windows(x, d.collapsed_slice_dims, d.operand_batching_dims, slice_sizes)
    loses_all = meshes.get_abstract_mesh().empty
    own = tuple(
        ("cut", i) if label is None and (loses_all or x.shape[i] == 1) else label
        for i, label in enumerate(own)
    )
    at = _batch_labels(indices, d.start_indices_batching_dims, d.operand_batching_dims)
    return Labels(
        [own, (*at, None)],
        [_interleaved(len(windows) + len(at), d.offset_dims, windows, at)],
        "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather "
        "indexing as out sharding could not be resolved unambiguously.",
    )


def scatter_labels(x: Any, indices: ShapedArray, updates: Any, d: Any) -> Labels:
    """As of the gather of the same windows. The result is laid out as the operand, wherever the
    updates lie that are put together in it."""
    sizes = window_sizes(d, x.ndim, updates.shape)
    own, windows = _whole_windows(x, d.inserted_window_dims, d.operand_batching_dims, sizes)
    places = dict(zip(d.scatter_indices_batching_dims, d.operand_batching_dims, strict=True))
    at, of_updates = (
        [places.get(i, (what, i)) for i in range(indices.ndim - 1)] for what in ("index", "update")
    )
    return Labels(
        [own, (*at, None), _interleaved(updates.ndim, d.update_window_dims, windows, of_updates)],
        [own],
        (
            "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec for the "
            "scatter update."
        ),
    )


def _whole_windows(
    x: ShapedArray, collapsed: Any, batching: Any, sizes: Sequence[Size]
) -> tuple[tuple[Any, ...], list[Any]]:
    """Labels of the operand's axes, and of those that windows have, in their order."""
    windows = [
        i if sizes[i] == x.shape[i] else None
        for i in range(x.ndim)
        if i not in collapsed and i not in batching
    ]
    return tuple(i if i in windows or i in batching else None for i in range(x.ndim)), windows


def _batch_labels(indices: ShapedArray, batching: Any, operand_batching: Any) -> list[Any]:
    places = dict(zip(batching, operand_batching, strict=True))
    return [places.get(i, ("index", i)) for i in range(indices.ndim - 1)]


def _interleaved(
    ndim: int, window_dims: Any, windows: Sequence[object], at: Sequence[object]
) -> tuple[Any, ...]:
    inner, outer = iter(windows), iter(at)
    return tuple([next(inner if i in window_dims else outer) for i in range(ndim)])


def fill_for(dtype: DTypeLike) -> Any:
    """The fill value of `gather` for places outside the operand: NaN, the least signed or greatest
    unsigned integer, or True.

    >>> fill_for(np.dtype("int8"))
    -128
    """
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtype == np.bool_:
        return True
    info = dtypes.iinfo(dtype)
    return info.max if dtypes.issubdtype(dtype, np.unsignedinteger) else info.min
