"""Order: sort and its kin, and places in sorted arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions import dimensions
from teucer.lax import _conversion, _elementwise, _joining, _shapes, _sorting, _structure
from teucer.lax._control.iteration import fori_loop
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import GatherDimensionNumbers
from teucer.numpy import _in_memory, _ufuncs
from teucer.numpy._library import at_once, fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import flip, ravel
from teucer.numpy._operands import axis_of, index_dtype, operand, operands, promoted
from teucer.numpy._promotion import ANY, convert

__all__ = [
    "argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort",
    "sort_complex",
]  # fmt: skip


def _checked(name: str, a: Any, axis: int | None, kind: Any, order: Any) -> tuple[Any, int]:
    x = operand(name, a)
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            "specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    return (ravel(x), 0) if axis is None else (x, axis_of(x, axis))


@at_once(static=("axis", "kind", "order", "stable", "descending"), in_memory=_in_memory.sort)
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements of a in ascending order along an axis, flattened for None; NaNs come last.

    stable: whether equal elements keep their order, which one sees of zeros of different sign.

    >>> sort(np.array([3, 1, 2]), descending=True).tolist()
    [3, 2, 1]
    """
    x, at = _checked("sort", a, axis, kind, order)
    return _sort(x, at, bool(stable), bool(descending))


@fast(static=("axis", "stable", "descending"))
def _sort(x: Any, axis: int, stable: bool, descending: bool) -> Any:
    # Reversed twice, equal elements keep their order.
    out = _sorting.sort(flip(x, axis) if descending and stable else x, axis, is_stable=stable)
    return flip(out, axis) if descending else out


@at_once(
    static=("axis", "kind", "order", "stable", "descending", "dtype"),
    in_memory=_in_memory.argsort,
)
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The places that bring a in ascending order along an axis, of the flattened array for None.

    >>> argsort(np.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    x, at = _checked("argsort", a, axis, kind, order)
    wanted = index_dtype() if dtype is None else dtypes.check_user_dtype_supported(dtype, "argsort")
    return _argsort(x, at, bool(stable), bool(descending), wanted)


@fast(static=("axis", "stable", "descending", "dtype"))
def _argsort(x: Any, axis: int, stable: bool, descending: bool, dtype: Any) -> Any:
    reverse = descending and stable
    places = _shapes.broadcasted_iota(_wide_enough(x.shape[axis]), x.shape, axis)
    places = flip(places, axis) if reverse else places
    _, order = _sorting.sort(
        [flip(x, axis) if reverse else x, places], axis, is_stable=stable, num_keys=1
    )
    return _structure.convert_element_type(flip(order, axis) if descending else order, dtype)


def _wide_enough(n: Any) -> Any:
    return np.dtype(np.int32) if type(n) is not int or n < 2**31 else np.dtype(np.int64)


def sort_complex(a: ArrayLike) -> Array:
    """The elements of a as complex numbers, in ascending order of real and then imaginary parts,
    along the last axis.

    >>> sort_complex(np.array([2, 1])).tolist()
    [(1+0j), (2+0j)]
    """
    x = operand("sort_complex", a)
    return sort(convert(x, dtypes.to_complex_dtype(x.dtype)))


def lexsort(keys: Any, axis: int = -1, *, batch_size: int = 16) -> Array:
    """The places that sort by the last key, then by the one before, and so on.

    batch_size: how many keys are compared in one sort in JAX; here it is all of them, with the same
    result. Raises TypeError for no keys, ValueError for keys of several shapes.

    >>> lexsort((np.array([2, 1, 0]), np.array([0, 1, 0]))).tolist()
    [2, 0, 1]
    """
    if batch_size < 1:
        raise ValueError(f"lexsort: batch_size must be positive, got {batch_size}")
    given = (
        keys
        if not isinstance(keys, ArrayImpl | Tracer | np.ndarray)
        else list(operand("lexsort", keys))
    )
    if not len(given):
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    xs = operands("lexsort", *given)
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"all keys need to be the same shape, got {[x.shape for x in xs]}")
    if xs[0].ndim == 0:
        return _structure.full((), 0, index_dtype())
    return _lexsort(xs, axis_of(xs[0], axis), index_dtype())


@fast(static=("axis", "dtype"))
def _lexsort(keys: Any, axis: int, dtype: Any) -> Any:
    places = _shapes.broadcasted_iota(_wide_enough(keys[0].shape[axis]), keys[0].shape, axis)
    *_, order = _sorting.sort([*reversed(keys), places], axis, is_stable=True, num_keys=len(keys))
    return _structure.convert_element_type(order, dtype)


def _kth(x: Any, kth: Any, axis: int) -> None:
    """Check the places of a partition; the whole is sorted, so they do not matter further."""
    for k in kth if isinstance(kth, Sequence | np.ndarray) and np.ndim(kth) else (kth,):
        _structure.canonical_axis(k, x.shape[axis])


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """a with its elements moved along an axis so that no element before place kth is greater, and
    none after it less.

    The order on either side is not specified.

    >>> int(partition(np.array([3, 1, 2, 0]), 1)[1])
    1
    """
    x = operand("partition", a)
    at = axis_of(x, axis)
    _kth(x, kth, at)
    return sort(x, at)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The places that `partition` a.

    >>> int(argpartition(np.array([3, 1, 2, 0]), 0)[0])
    3
    """
    x = operand("argpartition", a)
    at = axis_of(x, axis)
    _kth(x, kth, at)
    return argsort(x, at)


_METHODS = ("compare_all", "scan", "scan_unrolled", "sort")


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Where in the sorted array a the values v would be put to keep it sorted; before equal
    elements, or after with "right".

    method: "scan" and "scan_unrolled" are binary searches, "sort" sorts both together,
    "compare_all" compares all pairs.
    The result is the same. sorter: the places that sort a, if it is not sorted.
    Raises ValueError if a has not one axis.

    >>> searchsorted(np.array([1, 2, 2, 3]), np.array([2, 5])).tolist()
    [1, 4]
    """
    if method not in _METHODS:
        raise ValueError(f"invalid argument method={method!r}, expected one of {list(_METHODS)}")
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    return _searchsorted(a, v, sorter, side == "right", method)


@fast(static=("right", "method"))
def _searchsorted(a: Any, v: Any, sorter: Any, right: bool, method: str) -> Any:
    x, values = promoted("searchsorted", ANY, a, v)
    if x.ndim != 1:
        raise ValueError(f"a should be 1-dimensional, got shape {x.shape}")
    if sorter is not None:
        x = x[operand("searchsorted", sorter, 3)]
    return _search(x, values, right, method, _place_dtype(x.shape[0]))


def _place_dtype(n: Any) -> Any:
    """The dtype of places in a sorted array of size n: 32 bits, where that is enough."""
    return (
        np.dtype(np.int32)
        if dimensions.bounds(n).high < 2**31 or dimensions.is_symbolic(n)
        else index_dtype()
    )


@fast(static=("right", "method", "dtype"))
def _search(x: Any, v: Any, right: bool, method: str, dtype: Any) -> Any:
    n = x.shape[0]
    if n == 0 or 0 in v.shape:
        return _structure.full(v.shape, 0, dtype)
    if method == "sort":
        out = _search_by_sort(x, v, right)
    elif method == "compare_all":
        pairs = _precedes(
            _shapes.broadcast_in_dim(_ordered(x), (*v.shape, n), (v.ndim,)),
            _shapes.broadcast_in_dim(_ordered(v), (*v.shape, n), range(v.ndim)),
            right,
        )
        out = _structure.reduce_sum(_structure.convert_element_type(pairs, np.int32), [v.ndim])
    else:
        out = _binary_search(x, v, right, method == "scan_unrolled")
    return _structure.convert_element_type(out, dtype)


def _ordered(x: Any) -> Any:
    """Numbers in the order of sorted arrays, NaN last; complex numbers as they are.

    Floats become integers: to compare those needs no cases, for which XLA would make loops.
    """
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    if dtypes.bit_width(x.dtype) < 16:
        x = _structure.convert_element_type(x, np.float32)
    return _ordered_bits(_bits(x), x.dtype)


def _bits(x: Any) -> Any:
    return _conversion.bitcast_convert_type(x, np.dtype(f"int{dtypes.bit_width(x.dtype)}"))


def _ordered_bits(bits: Any, dtype: Any) -> Any:
    """Integers of the order of the floats that have the bits. Both zeros are 0."""
    kind = bits.dtype
    least, most = (_structure.number(n, kind) for n in (np.iinfo(kind).min, np.iinfo(kind).max))
    infinity = _structure.number(np.array(np.inf, dtype).view(kind), kind)
    is_nan = _ufuncs.greater(_elementwise.bitwise_and(bits, most), infinity)
    # A greater negative float has lesser bits.
    return where(is_nan, most, where(bits < 0, least - bits, bits))


def _precedes(x: Any, v: Any, right: bool) -> Any:
    """Whether elements stand before the place of v, both of them `_ordered`."""
    before = _elementwise.bitwise_not(_ufuncs.less(v, x)) if right else _ufuncs.less(x, v)
    if not dtypes.issubdtype(x.dtype, np.complexfloating):
        return before
    nan_x, nan_v = _ufuncs.isnan(x), _ufuncs.isnan(v)
    if right:
        return where(nan_v, True, _elementwise.bitwise_and(before, _elementwise.bitwise_not(nan_x)))
    return where(nan_v, _elementwise.bitwise_not(nan_x), before)


def _binary_search(x: Any, v: Any, right: bool, unrolled: bool) -> Any:
    n = x.shape[0]
    # Too many steps do no harm: the last ones change nothing.
    steps = int(min(dimensions.bounds(n).high, 2**31 - 1)).bit_length()
    wanted = _ordered(v)
    # Some processors round subnormals of this type to zero even where they only move.
    by_bits = x.dtype == dtypes.bfloat16
    held = _bits(x) if by_bits else x

    def step(_: Any, bounds: Any) -> Any:
        low, high = bounds
        middle = (low + high) // 2
        element = _gather.gather(
            held,
            _shapes.expand_dims(middle, (v.ndim,)),
            GatherDimensionNumbers((), (0,), (0,)),
            (1,),
            mode="clip",
        )
        element = _ordered_bits(element, x.dtype) if by_bits else _ordered(element)
        go = _elementwise.bitwise_and(_precedes(element, wanted, right), low < high)
        return where(go, middle + 1, low), where(go, high, where(low < high, middle, high))

    bounds = tuple(
        _structure.full(v.shape, bound, np.int32, sharding=v.aval.partition) for bound in (0, n)
    )
    if not unrolled:
        return fori_loop(0, steps, step, bounds)[0]
    for i in range(steps):
        bounds = step(i, bounds)
    return bounds[0]


def _search_by_sort(x: Any, v: Any, right: bool) -> Any:
    """The rank among both together, less the rank among the values alone."""
    n, flat = x.shape[0], ravel(v)
    both = _joining.concatenate([x, flat] if right else [flat, x], 0)
    alone = slice(n, None) if right else slice(0, flat.shape[0])
    inverse = _ranks(both)[alone]
    return _structure.reshape(inverse - _ranks(flat), v.shape)


def _ranks(x: Any) -> Any:
    return _argsort(
        _argsort(x, 0, True, False, np.dtype(np.int32)), 0, True, False, np.dtype(np.int32)
    )


@at_once(static=("right", "method"))
def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The number of the bin of each element: i if bins[i-1] <= x < bins[i]; bins ascend, or
    descend.

    right: the right edge belongs to a bin, and not the left one.

    >>> digitize(np.array([0.5, 2.5]), np.array([0., 1., 2.])).tolist()
    [1, 3]
    """
    values, edges = operands("digitize", x, bins)
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got bins={edges.aval}")
    return _digitize(values, edges, bool(right), method or "scan")


@fast(static=("right", "method"))
def _digitize(x: Any, bins: Any, right: bool, method: str) -> Any:
    n = bins.shape[0]
    if n == 0:
        return _structure.full(x.shape, 0, _place_dtype(n))
    side = "left" if right else "right"
    ascending = searchsorted(bins, x, side, method=method)
    descending = n - searchsorted(flip(bins), x, side, method=method)
    return where(bins[-1] >= bins[0], ascending, descending)
