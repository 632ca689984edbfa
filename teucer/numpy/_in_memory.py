"""Eager functions that NumPy computes in the memory of arrays on a CPU, with the bits that the
compiled programs give (docs/performance.md, "Beside NumPy").

A function says None where NumPy cannot give these bits, or where a program is as fast.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes
from teucer._core.types import ShapedArray
from teucer._devices.placement import placement_of
from teucer.lax import _many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Array, HostArray

    Axes: TypeAlias = int | tuple[int, ...] | None

# A program takes as long to be called as NumPy for fewer elements.
LEAST = 4096
_NAMES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
_DTYPES = frozenset(map(np.dtype, _NAMES))


def _values(x: object, least: int = LEAST) -> np.ndarray[Any, Any] | None:
    """The values of an array on one CPU as a NumPy array, if it has so many elements; else None."""
    if (
        type(x) is not ArrayImpl
        or x.size < least
        or x.dtype not in _DTYPES
        or x.aval.weak_type
        or x.is_deleted()
        or config.debug_nans.value
        or config.debug_infs.value
        or config.disable_jit.value
    ):
        return None
    return np.asarray(x) if _many.lie_in_host_memory((x,), placement_of((x,))) else None


def _like(x: object, *values: HostArray) -> list[Any]:
    """Values as arrays that lie where x does."""
    where = placement_of((x,))
    with config.transfer_guard("allow"):
        return [
            transfer.put(
                v, where.device, committed=where.committed, aval=ShapedArray(v.shape, v.dtype)
            )
            for v in values
        ]


class _Call(NamedTuple):
    x: ArrayImpl
    axis: int


def _call(args: Sequence[object], options: dict[str, object]) -> _Call | None:
    """A call of `sort` or `argsort` that asks for no more than an array, an axis and stability."""
    if not 1 <= len(args) <= 2 or options.keys() - {"axis", "stable"}:
        return None
    x, axis = args[0], args[1] if len(args) == 2 else options.get("axis", -1)
    if type(x) is not ArrayImpl or (len(args) == 2 and "axis" in options):
        return None
    axis = -1 if axis is None and x.ndim == 1 else axis
    return _Call(x, axis) if type(axis) is int and -x.ndim <= axis < x.ndim else None


def sort(*args: object, **options: object) -> Array | None:
    """As `_sorting.sort`."""
    call = _call(args, options)
    values = None if call is None else _values(call.x)
    if call is None or values is None:
        return None
    x, axis = call
    if values.dtype.kind != "f":
        return _like(x, np.sort(values, axis))[0]
    keys = _keys(values)
    keys.sort(axis)
    return _like(x, _flipped(keys).view(values.dtype))[0]


def _keys(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats as integers of the same order, -0 before 0, with one NaN."""
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return _flipped(values.view(f"i{values.itemsize}"))


def _flipped(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Of negative floats the greater has the lesser bits: all but the sign are complemented.
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max)


def argsort(*args: object, **options: object) -> Array | None:
    """As `_sorting.argsort`, of one axis."""
    call = _call(args, options)
    values = None if call is None or call.x.ndim != 1 else _values(call.x)
    # Of wider numbers a program sorts as fast.
    if call is None or values is None or values.itemsize > 4:
        return None
    return _like(call.x, _places(values).astype(dtypes.canonicalize_dtype(int)))[0]


def _places(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The places that sort values, in order for equal ones. Zeros of either sign are equal; so are
    NaNs."""
    if values.itemsize > 4:
        return np.argsort(values, kind="stable")
    # NumPy's fast sorts are not stable. So the places are sorted, too.
    keys = values
    if values.dtype.kind == "f":
        keys = _keys(np.where(values == 0, np.zeros((), values.dtype), values))
    elif values.dtype == np.uint32:  # as int32, in the same order
        keys = (values ^ np.uint32(1 << 31)).view(np.int32)
    both = keys.astype(np.int64) << 32
    both |= np.arange(len(values))
    both.sort()
    return both & 0xFFFFFFFF


def unique(x: object, equal_nan: bool) -> list[Array] | None:
    """The distinct elements of an array of one axis, where each comes first, which of them each
    element is, and how often each comes."""
    values = _values(x, 1)
    if values is None:
        return None
    order = _places(values)
    ordered = values[order]
    begins = np.ones(len(values), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    if equal_nan and values.dtype.kind == "f":
        nans = np.isnan(ordered)
        begins[1:] &= ~(nans[1:] & nans[:-1])
    starts = np.flatnonzero(begins)
    inverse = np.empty(len(values), np.int64)
    inverse[order] = np.cumsum(begins) - 1
    kind = dtypes.canonicalize_dtype(int)
    counts = np.diff(starts, append=len(values))
    return _like(x, ordered[starts], *(v.astype(kind) for v in (order[starts], inverse, counts)))


def extreme(
    name: str, x: object, axis: Axes, keepdims: bool, initial: object, where: object
) -> Array | None:
    """As `_reductions._extreme`."""
    values = _values(x) if initial is None and where is None else None
    if values is None or not _is_in(axis, values.ndim):
        return None
    out = np.asarray(getattr(values, name)(axis, keepdims=keepdims))
    return _like(x, out)[0] if _is_one(out) else None


def place(name: str, x: object, axis: Axes, keepdims: bool) -> Array | None:
    """As `_reductions._arg`."""
    values = _values(x)
    if values is None or not _is_in(axis, values.ndim) or not (axis is None or values.ndim == 1):
        return None
    at = getattr(values, name)()
    if not _is_one(values.reshape(-1)[at]):
        return None
    shape = (1,) * values.ndim if keepdims else ()
    return _like(x, np.full(shape, at, dtypes.canonicalize_dtype(int)))[0]


def _is_in(axis: Axes, ndim: int) -> bool:
    axes: Sequence[int] = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return all(-ndim <= a < ndim for a in axes) and len({a % ndim for a in axes}) == len(axes)


def _is_one(found: np.ndarray[Any, Any]) -> bool:
    """Whether numbers that are equal have the same bits: there are no zeros, NaNs, nor subnormal
    numbers, which a program may take for zeros."""
    if found.dtype.kind != "f":
        return True
    return math.prod(found.shape) > 0 and bool(
        (np.abs(found) >= np.finfo(found.dtype).smallest_normal).all()
    )
