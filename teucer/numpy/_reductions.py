"""Reductions over axes: sums, extremes, means."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._transform.library import library
from teucer.lax import _elementwise as lax
from teucer.lax import _reductions, _structure
from teucer.numpy._promotion import as_value, broadcast_shapes, broadcast_to, check_arraylike, promote_dtypes, refuse_out
from teucer.numpy._promotion import INEXACT, convert

__all__ = ["all", "any", "max", "mean", "min", "prod", "sum"]


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes given to a reduction, counted from the front; None is all of them.

    Raises ValueError for an axis out of bounds or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(_structure.canonical_axis(operator.index(a), ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def keep(out: Any, shape: Any, axes: tuple[int, ...]) -> Any:
    """A reduced array with the axes back, of size 1."""
    return _structure.reshape(out, tuple(1 if i in axes else d for i, d in enumerate(shape)))


def _sum_dtype(x: Any, dtype: Any, name: str, promote_integers: bool) -> tuple[Any, Any]:
    """The dtypes of a sum or product: of the result, and of the computation, wider for 16-bit floats."""
    given = typeof(x).dtype
    if dtype is not None:
        result = dtypes.canonicalize_dtype(dtypes.check_user_dtype_supported(dtype, name))
    elif promote_integers and (given == np.bool_ or dtypes.issubdtype(given, np.integer)):
        wide = dtypes.canonicalize_dtype(np.uint64 if dtypes.issubdtype(given, np.unsignedinteger) else np.int64)
        result = wide if given == np.bool_ or given.itemsize < wide.itemsize else given
    else:
        result = dtypes.canonicalize_dtype(int) if given == np.bool_ else given
    wider = dtypes.issubdtype(result, np.floating) and result.itemsize < 4
    return result, np.dtype(np.float32) if wider else result


def _masked(x: Any, where: Any, neutral: Any) -> Any:
    """x with the neutral element where it does not take part, in the shape to which both broadcast."""
    if where is None:
        return x
    shape = broadcast_shapes("where", [np.shape(x), np.shape(where)])
    mask = broadcast_to(lax.convert_element_type(where, np.dtype(bool)), shape)
    return lax.select(mask, broadcast_to(x, shape), _structure.full(shape, neutral, typeof(x).dtype))


def _fold(name: str, x: Any, axis: Any, keepdims: bool, where: Any, initial: Any, neutral: Any, reduce: Any, combine: Any) -> Any:
    x = _masked(x, where, neutral)
    shape = np.shape(x)
    axes = axes_of(axis, len(shape))
    out = reduce(x, axes) if axes or not shape else x
    if initial is not None:
        if np.ndim(initial):
            raise ValueError(f"initial value must be a scalar. Got array of shape {np.shape(initial)}")
        out = combine(convert(initial, typeof(out).dtype), out)
    return keep(out, shape, axes) if keepdims else out


@library(static=("axis", "dtype", "keepdims", "promote_integers"))
def _sum(a: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any, promote_integers: Any) -> Any:
    check_arraylike("sum", a)
    result, wide = _sum_dtype(a, dtype, "sum", promote_integers)
    weak = typeof(a).weak_type and dtype is None
    x = _structure.convert_element_type(as_value(a), wide, weak and wide == typeof(a).dtype)
    out = _fold("sum", x, axis, keepdims, where, initial, 0, _reductions.reduce_sum, lax.add)
    return _structure.convert_element_type(out, result, weak)


def axis_key(axis: Any) -> Any:
    """An axis argument as a hashable value."""
    return tuple(map(operator.index, axis)) if isinstance(axis, list | tuple) else None if axis is None else operator.index(axis)


def sum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None, promote_integers: bool = True) -> Any:
    """The sum of elements over axes, all by default."""
    refuse_out("sum", out)
    return _sum(a, axis_key(axis), dtype, keepdims, initial, where, promote_integers)


@library(static=("axis", "dtype", "keepdims"))
def _mean(a: Any, axis: Any, dtype: Any, keepdims: Any, where: Any) -> Any:
    (x,) = promote_dtypes("mean", INEXACT, a)
    total = _sum.__wrapped__(x, axis, dtype, keepdims, None, where, True)
    n = 1
    for i in axes_of(axis, np.ndim(x)):
        n *= np.shape(x)[i]
    return lax.div(total, convert(n, typeof(total).dtype))


def mean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Any:
    """The mean of elements over axes, all by default."""
    refuse_out("mean", out)
    return _mean(a, axis_key(axis), dtype, keepdims, where)


@library(static=("axis", "keepdims"))
def _max(a: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    check_arraylike("max", a)
    return _fold("max", as_value(a), axis, keepdims, where, initial, None, _reductions.reduce_max, lax.max)


def max(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
    """The greatest element over axes, all by default."""
    refuse_out("max", out)
    return _max(a, axis_key(axis), keepdims, initial, where)
