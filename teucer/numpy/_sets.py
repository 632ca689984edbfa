"""Arrays as sets: the distinct elements, and unions, intersections and differences."""

from __future__ import annotations

import operator
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from teucer._base import dtypes, errors
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_symbolic
from teucer._dynamic.dynamic import results_allowed
from teucer.lax import (
    _cumulative,
    _elementwise,
    _extremes,
    _joining,
    _reductions,
    _shapes,
    _slicing,
    _sorting,
    _structure,
)
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import ScatterDimensionNumbers
from teucer.lax._padding import dynamic_size
from teucer.numpy import _in_memory, _ufuncs
from teucer.numpy._creation import asarray
from teucer.numpy._library import fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import (
    axis_of,
    concrete,
    index_dtype,
    is_unknown,
    operand,
    operands,
    promoted,
)
from teucer.numpy._promotion import ANY, convert
from teucer.numpy._sorting import searchsorted
from teucer.numpy._taking import take

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


class UniqueAllResult(NamedTuple):
    """The distinct values, with three arrays.

    The first place of each value; for each element the number of its value; how often each comes.
    """

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Distinct values, and how often each comes."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Distinct values, and which of them each element is."""

    values: Any
    inverse_indices: Any


def _known(name: str, x: Array) -> None:
    if is_unknown(x):
        raise errors.ConcretizationTypeError(
            x,
            f"{name}: The error arose for the first argument of jnp.{name}(). To make "
            f"jnp.{name}() compatible with JIT and other transforms, you can specify a concrete "
            "value for the size argument, which will determine the output size.",
        )


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements in ascending order; with axis the distinct parts along it.

    return_index: also where each comes first; return_inverse: also which of them each element is;
    return_counts: also how often each comes. equal_nan: whether NaNs are one element. size: how
    many are given, cut off or filled up with fill_value (by default the least one); needed where ar
    is traced.
    Raises ConcretizationTypeError for a traced array without size.

    >>> unique(np.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    out = _unique("unique", ar, axis, equal_nan, size, fill_value)
    wanted = (
        out.values,
        *(
            v
            for v, yes in (
                (out.indices, return_index),
                (out.inverse_indices, return_inverse),
                (out.counts, return_counts),
            )
            if yes
        ),
    )
    return wanted if len(wanted) > 1 else out.values


def _unique(
    name: str, ar: Any, axis: int | None, equal_nan: bool, size: int | None, fill_value: Any
) -> UniqueAllResult:
    x = operand(name, ar)
    shape = x.shape
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        x = convert(x, x.dtype)  # strongly typed, as in JAX
        if equal_nan:  # a NaN in either part is one: alike, they lie side by side when sorted
            x = _elementwise.where_else(
                _ufuncs.isnan(x), _structure.number(complex(np.nan), x.dtype), x
            )
    if axis is None:
        x, at = ravel(x), 0
    else:
        at = axis_of(x, axis)
    n = x.shape[at]
    if size is None and not results_allowed():
        _known(name, x)
    if n == 0:
        none = _unique_of_none(name, x, at, size, fill_value)
        inverse = _structure.full(shape if axis is None else (0,), 0, index_dtype())
        return none._replace(inverse_indices=inverse)
    if size is None and x.ndim == 1 and (known := _in_memory.unique(x, bool(equal_nan))):
        distinct, first, inverse, counts = known
        inverse = _structure.reshape(inverse, shape) if axis is None else inverse
        return UniqueAllResult(distinct, first, inverse, counts)
    found = _sorted_runs(x, at, bool(equal_nan))
    if size is None:
        count = dynamic_size(found.count, n) if is_unknown(found.count) else int(found.count)
    else:
        count = size if is_symbolic(size) else operator.index(size)
    fill = None if fill_value is None else operand(name, fill_value)
    values, indices, counts = _runs(x, found, fill, at, count)
    inverse = _structure.reshape(found.inverse, shape) if axis is None else found.inverse
    return UniqueAllResult(values, indices, inverse, counts)


def _unique_of_none(
    name: str, x: Array, axis: int, size: int | None, fill_value: ArrayLike
) -> UniqueAllResult:
    if size and fill_value is None:
        raise ValueError(
            f"jnp.{name}: for zero-sized input with nonzero size argument, fill_value must be "
            "specified"
        )
    count = 0 if size is None else operator.index(size)
    zeros = _structure.full((count,), 0, index_dtype())
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    fill = 0 if fill_value is None else fill_value
    values = _shapes.broadcast_in_dim(
        convert(operand(name, fill), x.dtype), shape, range(len(shape) - np.ndim(fill), len(shape))
    )
    return UniqueAllResult(values, zeros, _structure.full((0,), 0, index_dtype()), zeros)


class _Runs(NamedTuple):
    """The parts in order: places of the parts, the number of the run of each, where runs begin; of
    the parts as given, too."""

    order: Any
    rank: Any
    begins: Any
    inverse: Any
    count: Any


@fast(static=("axis", "equal_nan"))
def _sorted_runs(x: Array, axis: int, equal_nan: bool) -> _Runs:
    n = x.shape[axis]
    rows = (
        _structure.reshape(
            _structure.moveaxis(x, axis, 0), (n, -1 if 0 in x.shape else x.size // n)
        )
        if x.ndim > 1
        else x
    )
    columns = [rows] if x.ndim == 1 else [rows[:, j] for j in range(rows.shape[1])]
    places = _shapes.iota(np.int32, n)
    *ordered, order = _sorting.sort(
        [*columns, places], 0, is_stable=True, num_keys=max(len(columns), 1)
    )
    begins = _elementwise.eq(places, np.int32(0))
    for c in ordered:
        before = _slicing.pad(c, _structure.full((), 0, c.dtype), [(1, -1, 0)])
        new = _elementwise.ne(c, before)
        if equal_nan and dtypes.issubdtype(c.dtype, np.inexact):
            both = _elementwise.bitwise_and(_ufuncs.isnan(c), _ufuncs.isnan(before))
            new = _elementwise.bitwise_and(new, _elementwise.bitwise_not(both))
        begins = _elementwise.bitwise_or(begins, new)
    rank = _cumulative.cumsum(_structure.convert_element_type(begins, np.int32)) - 1
    inverse = _scatter(_structure.full((n,), 0, np.int32), order, rank)
    count = _structure.reduce_sum(_structure.convert_element_type(begins, np.int32), (0,))
    return _Runs(
        order, rank, begins, _structure.convert_element_type(inverse, index_dtype()), count
    )


def _scatter(x: Any, places: Any, values: Any) -> Any:
    return _gather.scatter(
        x,
        _structure.reshape(places, (places.shape[0], 1)),
        values,
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )


@fast(static=("axis", "size"))
def _runs(x: Array, found: _Runs, fill: Any, axis: int, size: int) -> tuple[Any, Any, Any]:
    """Values, first places and lengths of the first `size` runs; missing runs repeat the first
    one."""
    n, (order, rank, begins, _, count) = x.shape[axis], found
    target = where(begins, rank, size)
    # Where the size is dynamic every run exists.
    first = _scatter(
        _structure.full((size,), 0, np.int32) + (0 if is_symbolic(size) else order[0]),
        target,
        order,
    )
    # One run more than is kept, since the last one ends where it begins.
    following = _scatter(
        _structure.full((size + 1,), n, np.int32),
        where(begins, rank, size + 1),
        _shapes.iota(np.int32, n),
    )
    exists = _shapes.iota(np.int32, size) < count
    counts = where(exists, following[1 : size + 1] - following[:size], 0)
    values = take(x, first, axis, mode="clip")
    if fill is not None:
        shape = [1] * x.ndim
        shape[axis] = size
        filling = convert(fill, x.dtype)
        filling = _shapes.expand_dims(filling, (axis,)) if filling.ndim else filling
        values = where(_structure.reshape(exists, shape), values, filling)
    return (
        values,
        _structure.convert_element_type(first, index_dtype()),
        _structure.convert_element_type(counts, index_dtype()),
    )


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAllResult:
    """The distinct elements, and all results of `unique` for them; NaNs are distinct.

    >>> unique_all(np.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return _unique("unique_all", x, None, False, size, fill_value)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCountsResult:
    """The distinct elements, and how often each comes; NaNs are distinct.

    >>> unique_counts(np.array([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    out = _unique("unique_counts", x, None, False, size, fill_value)
    return UniqueCountsResult(out.values, out.counts)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """The distinct elements, and which of them each element is; NaNs are distinct.

    >>> unique_inverse(np.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    out = _unique("unique_inverse", x, None, False, size, fill_value)
    return UniqueInverseResult(out.values, out.inverse_indices)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The distinct elements; NaNs are distinct.

    >>> unique_values(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return _unique("unique_values", x, None, False, size, fill_value).values


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The distinct elements of both arrays in ascending order; size and fill_value as for `unique`.

    >>> union1d(np.array([3, 1]), np.array([2, 3])).tolist()
    [1, 2, 3]
    """
    x, y = promoted("union1d", ANY, ar1, ar2)
    if size is None and not results_allowed():
        for v in (x, y):
            _known("union1d", v)
    return unique(_joining.concatenate([ravel(x), ravel(y)], 0), size=size, fill_value=fill_value)


@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = ...,
    return_indices: Literal[False] = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array: ...
@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = ...,
    return_indices: bool = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Any: ...
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array | tuple[Array, Array, Array]:
    """The distinct elements that both arrays have, in ascending order.

    return_indices: also where each comes first in either. assume_unique: the elements of each array
    are distinct.
    size: how many are given, cut off or filled up with fill_value (by default the least one; 0 if
    there is none).

    >>> intersect1d(np.array([3, 1, 2]), np.array([2, 3, 4])).tolist()
    [2, 3]
    """
    x, y = (ravel(v) for v in promoted("intersect1d", ANY, ar1, ar2))
    if size is None:
        return _intersection(x, y, assume_unique, return_indices)
    a = _padded_set(x, assume_unique)
    common = _elementwise.bitwise_and(a.exists, _member(a.values, y))
    n = a.values.shape[0]
    rank = _cumulative.cumsum(_structure.convert_element_type(common, np.int32)) - 1
    places = _scatter(
        _structure.full((operator.index(size),), n, np.int32),
        where(common, rank, size),
        _shapes.iota(np.int32, n),
    )
    found = places < n
    if not n:  # a value to pick, which is not found
        a = a._replace(values=_structure.full((1,), 0, x.dtype), indices=np.zeros(1, np.int32))
    first = _elementwise.min(places, np.int32(max(n - 1, 0)) + 0 * places)
    values = take(a.values, first, 0, mode="clip")
    values = where(
        found,
        values,
        (where(found[0], values[0], 0) if size else values)
        if fill_value is None
        else convert(operand("intersect1d", fill_value), x.dtype),
    )
    if not return_indices:
        return values
    i = where(found, take(a.indices, first, 0, mode="clip"), x.shape[0])
    j = where(found, _first_place(y, values), y.shape[0])
    return values, *(_structure.convert_element_type(v, index_dtype()) for v in (i, j))


def _intersection(x: Array, y: Array, assume_unique: bool, return_indices: bool) -> Any:
    a, b = (_values("intersect1d", v) for v in (x, y))
    _, i, j = np.intersect1d(a, b, assume_unique=assume_unique, return_indices=True)
    values = _like(take(x, i), x)
    return (
        (values, *(asarray(v.astype(index_dtype())) for v in (i, j))) if return_indices else values
    )


def _values(name: str, x: Array) -> np.ndarray[Any, Any]:
    """The elements, also of an array that is being differentiated."""
    _known(name, x)
    return concrete(x, name, "")


class _Padded(NamedTuple):
    values: Any
    indices: Any
    exists: Any


def _padded_set(x: Array, assume_unique: bool) -> _Padded:
    """The distinct elements in ascending order, in an array of the size of x."""
    n = x.shape[0]
    out = _unique("unique", x, None, True, n, None) if n else _unique_of_none("unique", x, 0, 0, 0)
    return _Padded(out.values, out.indices, out.counts > 0)


def _first_place(x: Any, values: Any) -> Any:
    shape = (values.shape[0], x.shape[0])
    pairs = _elementwise.eq(
        _shapes.broadcast_in_dim(values, shape, (0,)), _shapes.broadcast_in_dim(x, shape, (1,))
    )
    return _extremes.argmax(pairs, 1, np.int32) if x.shape[0] else values


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of ar1 that ar2 has not, in ascending order; in their order with
    assume_unique.

    size: how many are given, cut off or filled up with fill_value (by default 0).

    >>> setdiff1d(np.array([3, 1, 2]), np.array([2])).tolist()
    [1, 3]
    """
    x, y = (ravel(v) for v in promoted("setdiff1d", ANY, ar1, ar2))
    if size is None:
        for v in (x, y):
            _known("setdiff1d", v)
        kept = x if assume_unique else unique(x)
        kept = kept[np.asarray(isin(kept, y, invert=True))]
        return _like(kept, operand("setdiff1d", ar1))
    a = (
        _Padded(x, None, _structure.full(x.shape, True, np.dtype(bool)))
        if assume_unique
        else _padded_set(x, False)
    )
    kept = _elementwise.bitwise_and(a.exists, _elementwise.bitwise_not(_member(a.values, y)))
    fill = 0 if fill_value is None else fill_value
    return _like(_packed(a.values, kept, operator.index(size), fill), operand("setdiff1d", ar1))


def _packed(values: Any, kept: Any, size: int, fill: Any) -> Any:
    """The elements kept, moved to the front of an array of a size."""
    rank = _cumulative.cumsum(_structure.convert_element_type(kept, np.int32)) - 1
    filled = _shapes.broadcast_in_dim(
        convert(operand("fill_value", fill), values.dtype), (size,), ()
    )
    return _like(
        _scatter(filled, where(kept, rank, size), values) if values.shape[0] else filled, values
    )


def _like(values: Any, x: Any) -> Any:
    """Values in the dtype of x, weakly typed if it is."""
    return convert(asarray(values), x.dtype, typeof(x).weak_type)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements that only one of two arrays has, in ascending order.

    size: how many are given, cut off or filled up with fill_value (by default the least one; 0 if
    there is none).

    >>> setxor1d(np.array([3, 1]), np.array([2, 3])).tolist()
    [1, 2]
    """
    x, y = (ravel(v) for v in promoted("setxor1d", ANY, ar1, ar2))
    if size is None:
        given = [_values("setxor1d", v) for v in (x, y)]
        # The places of elements that both arrays have, in ascending order.
        places = np.concatenate(
            [
                start + (np.arange(v.size) if assume_unique else np.unique(v, return_index=True)[1])
                for start, v in zip((0, given[0].size), given, strict=True)
            ]
        ).astype(int)
        known = np.concatenate(given)
        places = places[np.argsort(known[places], kind="stable")]
        differs = known[places][1:] != known[places][:-1]
        alone = np.concatenate([[True], differs]) & np.concatenate([differs, [True]])
        return _like(take(_joining.concatenate([x, y], 0), places[alone[: places.size]]), x)
    a, b = _padded_set(x, assume_unique), _padded_set(y, assume_unique)
    values = _joining.concatenate([a.values, b.values], 0)
    only = _joining.concatenate(
        [
            _elementwise.bitwise_and(s.exists, _elementwise.bitwise_not(_member(s.values, other)))
            for s, other in ((a, y), (b, x))
        ],
        0,
    )
    order = _order_of(values, only)
    values, only = take(values, order, 0, mode="clip"), take(only, order, 0, mode="clip")
    if fill_value is None:
        fill_value = where(only[0], values[0], 0) if values.shape[0] else 0
    return _packed(values, only, operator.index(size), fill_value)


def _order_of(values: Any, chosen: Any) -> Any:
    """The places that sort values, with chosen ones in front."""
    places = _shapes.iota(np.int32, values.shape[0])
    *_, order = _sorting.sort([_elementwise.bitwise_not(chosen), values, places], 0, num_keys=2)
    return order


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element is one of test_elements.

    method: "compare_all" pairs, "binary_search" in the sorted elements, "sort" both together; the
    result is the same.

    >>> isin(np.array([1, 2, 3]), np.array([2])).tolist()
    [False, True, False]
    """
    methods = ("compare_all", "binary_search", "sort", "auto")
    if method not in methods:
        raise ValueError(
            f"{method=} is not implemented; options are 'compare_all', 'binary_search', 'sort', "
            "and 'auto'"
        )
    x, tests = promoted("isin", ANY, *operands("isin", element, test_elements))
    return _isin(x, ravel(tests), bool(invert), method)


@fast(static=("invert", "method"))
def _isin(x: Array, tests: Any, invert: bool, method: str) -> Any:
    found = _structure.convert_element_type(_member(x, tests, method), np.dtype(bool))
    return _elementwise.bitwise_not(found) if invert else found


def _member(x: Any, tests: Any, method: str = "auto") -> Any:
    n = tests.shape[0]
    if n == 0 or 0 in x.shape:
        return _structure.full(x.shape, False, np.dtype(bool))
    if method == "compare_all" or (method == "auto" and not is_symbolic(n) and n <= 16):
        shape = (*x.shape, n)
        each = _shapes.broadcast_in_dim(x, shape, range(x.ndim))
        pairs = _elementwise.eq(each, _shapes.broadcast_in_dim(tests, shape, (x.ndim,)))
        return _reductions.reduce_or(pairs, (x.ndim,))
    ordered = _sorting.sort(tests, 0)
    place = searchsorted(ordered, x, method="sort" if method == "sort" else "scan")
    return _elementwise.eq(take(ordered, place, 0, mode="clip"), x)
