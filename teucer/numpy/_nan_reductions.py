"""Reductions that leave nan out."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, Axis, DTypeLike
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._families import scalar_like
from teucer.lax._identities import identity_of
from teucer.numpy import _reductions
from teucer.numpy import _reductions as reductions
from teucer.numpy._library import fast
from teucer.numpy._promotion import broadcast_to, convert, refuse_out
from teucer.numpy._ufuncs import is_kind

__all__ = [
    "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
]  # fmt: skip


def _number(x: Any) -> Any:
    """Where x is a number."""
    return lax.eq(x, x)


def _without_nan(x: Array, value: ArrayLike) -> Any:
    return lax.where_else(_number(x), x, scalar_like(x, value)) if is_kind(x, np.inexact) else x


@fast(static=("name", "axis", "dtype", "keepdims"))
def _total(
    name: str, a: ArrayLike, axis: Axis, dtype: Any, keepdims: bool, initial: Any, where: object
) -> Any:
    x = reductions.strong(f"nan{name}", a)
    return getattr(_reductions, f"_{name}").__wrapped__(
        _without_nan(x, 0 if name == "sum" else 1), axis, dtype, keepdims, initial, where, True
    )


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum over axes of the elements that are not nan; arguments as in `sum`.

    >>> nansum(np.float32([1, np.nan]))
    Array(1., dtype=float32)
    """
    refuse_out("nansum", out)
    return _total("sum", a, reductions.axis_key(axis), dtype, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product over axes of the elements that are not nan; arguments as in `prod`.

    >>> nanprod(np.float32([2, np.nan]))
    Array(2., dtype=float32)
    """
    refuse_out("nanprod", out)
    return _total("prod", a, reductions.axis_key(axis), dtype, keepdims, initial, where)


@fast(static=("name", "axis", "keepdims"))
def _extreme(
    name: str, a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: Any
) -> Any:
    x = reductions.strong(f"nan{name}", a)
    reduce = getattr(_reductions, f"_{name}").__wrapped__
    if not is_kind(x, np.inexact):
        return reduce(x, axis, keepdims, initial, where)
    number = _number(x)
    filled = _without_nan(x, identity_of(f"{name}imum", typeof(x).dtype))
    out = reduce(filled, axis, keepdims, initial, where)
    if initial is not None:
        return out
    axes = reductions.axes_of(axis, np.ndim(x))
    return lax.where_else(
        reductions.fold("any", number, axes, keepdims, None, None), out, scalar_like(out, np.nan)
    )


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest element over axes that is not nan; nan if all are. Arguments as in `max`.

    >>> nanmax(np.float32([1, np.nan]))
    Array(1., dtype=float32)
    """
    refuse_out("nanmax", out)
    return _extreme("max", a, reductions.axis_key(axis), keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element over axes that is not nan; nan if all are. Arguments as in `min`.

    >>> nanmin(np.float32([1, np.nan]))
    Array(1., dtype=float32)
    """
    refuse_out("nanmin", out)
    return _extreme("min", a, reductions.axis_key(axis), keepdims, initial, where)


@fast(static=("name", "axis", "keepdims"))
def _arg(name: str, a: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    x = reductions.strong(f"nan{name}", a)
    if not is_kind(x, np.inexact):
        return _reductions._arg.__wrapped__(name, x, axis, keepdims)
    number = _number(x)
    filled = _without_nan(x, identity_of(f"{name.removeprefix('arg')}imum", typeof(x).dtype))
    out = _reductions._arg.__wrapped__(name, filled, axis, keepdims)
    found = reductions.fold(
        "any", number, reductions.axes_of(axis, np.ndim(x)), keepdims, None, None
    )
    return lax.where_else(found, out, scalar_like(out, -1))


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The place of the greatest element that is not nan; -1 if all are.

    >>> nanargmax(np.float32([1, np.nan, 3]))
    Array(2, dtype=int32)
    """
    refuse_out("nanargmax", out)
    return _arg("argmax", a, reductions.axis_key(axis), bool(keepdims))


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The place of the least element that is not nan; -1 if all are.

    >>> nanargmin(np.float32([1, np.nan, 3]))
    Array(0, dtype=int32)
    """
    refuse_out("nanargmin", out)
    return _arg("argmin", a, reductions.axis_key(axis), bool(keepdims))


def _taking_part(x: Array, where: ArrayLike | None) -> Any:
    number = _number(x)
    if where is not None:
        reductions.check_mask(where)
    return number if where is None else lax.bitwise_and(number, broadcast_to(where, np.shape(x)))


@fast(static=("axis", "dtype", "keepdims"))
def _mean(a: ArrayLike, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Any:
    x, result = reductions.inexact("nanmean", a, dtype)
    dtypes.report_dropped(typeof(a).dtype, result)
    axes = reductions.axes_of(axis, np.ndim(x))
    mask = _taking_part(x, where)
    n = reductions.fold("sum", convert(mask, np.dtype(np.int32)), axes, keepdims, None, None)
    return _structure.convert_element_type(
        reductions.divided(reductions.fold("sum", x, axes, keepdims, mask, None), n), result
    )


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over axes of the elements that are not nan; nan if all are. Arguments as in `mean`.

    >>> nanmean(np.float32([1, np.nan, 3]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    return _mean(a, reductions.axis_key(axis), dtype, keepdims, where)


@fast(static=("name", "axis", "dtype", "keepdims"))
def _var(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    ddof: object,
    keepdims: bool,
    where: Any,
    mean: ArrayLike | None,
) -> Any:
    x, result = reductions.inexact(name, a, dtype)
    axes = reductions.axes_of(axis, np.ndim(x))
    mask = _taking_part(x, where)
    whole = convert(mask, np.dtype(np.int32))
    if mean is None:
        mean = reductions.divided(
            reductions.fold("sum", x, axes, True, mask, None),
            reductions.fold("sum", whole, axes, True, None, None),
        )
    # The difference of an element that takes no part is 0, and not nan, so that its derivative is 0
    # too.
    difference = lax.select(
        mask,
        lax.sub(x, broadcast_to(convert(mean, typeof(x).dtype), np.shape(x))),
        _structure.full(np.shape(x), 0, typeof(x).dtype),
    )
    squares = (
        lax.square(lax.abs(difference))
        if is_kind(x, np.complexfloating)
        else lax.square(difference)
    )
    total = reductions.fold("sum", squares, axes, keepdims, None, None)
    freedom = lax.sub(
        convert(reductions.fold("sum", whole, axes, keepdims, None, None), typeof(total).dtype),
        convert(ddof, typeof(total).dtype),
    )
    some = lax.gt(freedom, scalar_like(freedom, 0))
    out = lax.where_else(
        some,
        lax.div(total, lax.where_else(some, freedom, scalar_like(freedom, 1))),
        scalar_like(total, np.nan),
    )
    out = lax.sqrt(out) if name == "nanstd" else out
    return _structure.convert_element_type(out, reductions.variance_dtype(name, a, result, dtype))


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The variance over axes of the elements that are not nan; arguments as in `var`.

    >>> nanvar(np.float32([1, np.nan, 3]))
    Array(1., dtype=float32)
    """
    refuse_out("nanvar", out)
    return _var("nanvar", a, reductions.axis_key(axis), dtype, ddof, keepdims, where, mean)


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The standard deviation over axes of the elements that are not nan; arguments as in `std`.

    >>> nanstd(np.float32([1, np.nan, 3]))
    Array(1., dtype=float32)
    """
    refuse_out("nanstd", out)
    return _var("nanstd", a, reductions.axis_key(axis), dtype, ddof, keepdims, where, mean)
