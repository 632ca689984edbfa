"""Reductions over axes: sums, products, extremes, means, variances."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from teucer._base import dtypes, errors
from teucer._core.trace import Tracer, typeof
from teucer._core.typing import Array, ArrayLike, Axis, DTypeLike
from teucer._dimensions.dimensions import bounds, is_symbolic
from teucer.lax import _elementwise as lax
from teucer.lax import _extremes, _reductions, _structure
from teucer.lax._families import scalar_like
from teucer.lax._identities import identity_of
from teucer.numpy import _in_memory
from teucer.numpy import _promotion as promotion
from teucer.numpy._library import fast
from teucer.numpy._ufuncs import is_kind

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "ptp", "std",
    "sum", "var",
]  # fmt: skip


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes given to a reduction, counted from the front; None is all of them.

    Raises ValueError for an axis out of bounds or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(
        _structure.canonical_axis(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,))
    )
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def axis_key(axis: Any) -> Any:
    """An axis argument, None, an integer or a sequence of them, as a hashable value."""
    if axis is None or type(axis) is int:
        return axis
    several = (isinstance(axis, Sequence | Set) and not isinstance(axis, str)) or (
        isinstance(axis, np.ndarray) and axis.ndim
    )
    return tuple(map(_axis_number, axis)) if several else _axis_number(axis)


def _axis_number(axis: Any) -> int:
    if isinstance(axis, Tracer) and axis.concrete() is None:
        raise errors.ConcretizationTypeError(axis, "The axis argument must be known statically.")
    try:
        return operator.index(axis)
    except TypeError as err:
        raise TypeError(
            f"{err}\n    axis: {axis!r:.100}\n  An axis is an int, or a sequence of ints."
        ) from None


def keep(out: Any, shape: Any, axes: tuple[int, ...]) -> Any:
    """A reduced array with the reduced axes back, of size 1."""
    kept = tuple(1 if i in axes else d for i, d in enumerate(shape))
    if promotion.lays_out_ones(out):
        return _structure.broadcast_to(out, kept, [i for i in range(len(shape)) if i not in axes])
    return _structure.reshape(out, kept)


def strong(name: str, a: Any) -> Any:
    """The operand of a reduction, strongly typed."""
    promotion.check_arraylike(name, a)
    x = promotion.as_value(a)
    dtype = typeof(x).dtype
    if dtypes.is_extended(dtype):
        raise TypeError(f"{name} does not accept dtype {dtype.name}.")
    return _structure.convert_element_type(x, dtype)


def count(x: ArrayLike, axes: tuple[int, ...]) -> int:
    """The number of elements over axes."""
    return math.prod(np.shape(x)[i] for i in axes)


def check_mask(where: ArrayLike) -> None:
    """Raise ValueError if the argument `where` of a reduction is not boolean."""
    promotion.check_arraylike("where", where)
    if typeof(where).dtype != np.bool_:
        raise ValueError(
            f"where must be None or a boolean array; got where.dtype={typeof(where).dtype}."
        )


def masked(x: Any, where: Any, neutral: object) -> Any:
    """x with the neutral element where it does not take part, in the shape to which both
    broadcast."""
    if where is None:
        return x
    check_mask(where)
    shape = promotion.broadcast_shapes("where", [np.shape(x), np.shape(where)])
    mask = promotion.as_value(where)
    return lax.select(
        promotion.broadcast_to(mask, shape) if shape else mask,
        promotion.broadcast_to(x, shape) if shape else x,
        _structure.full(shape, neutral, typeof(x).dtype),
    )


def fold(name: str, x: Any, axis: Axis, keepdims: bool, where: object, initial: Any) -> Any:
    """x reduced by the operation called `name`, which the table names."""
    reduce, combine, neutral = _FOLDS[name]
    dtype = typeof(x).dtype
    if where is not None:
        x = masked(x, where, identity_of(neutral, dtype))
    shape = typeof(x).shape
    axes = axes_of(axis, len(shape))
    out = reduce(x, axes) if axes else x
    if initial is not None:
        if np.ndim(initial):
            raise ValueError(
                f"initial value must be a scalar. Got array of shape {np.shape(initial)}"
            )
        out = combine(promotion.convert(initial, dtype), out)
    return keep(out, shape, axes) if keepdims else out


_FOLDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "sum": (_reductions.reduce_sum, lax.add, "add"),
    "prod": (_reductions.reduce_prod, lax.mul, "multiply"),
    "max": (_reductions.reduce_max, lax.max, "maximum"),
    "min": (_reductions.reduce_min, lax.min, "minimum"),
    "all": (_reductions.reduce_and, lax.bitwise_and, "and"),
    "any": (_reductions.reduce_or, lax.bitwise_or, "or"),
}


# Sums and products


def result_dtype(name: str, given: object, dtype: DTypeLike | None, promote_integers: bool) -> Any:
    """The dtype of a sum or product: integers narrower than the default ones become those."""
    if dtype is not None:
        kind = dtypes.check_user_dtype_supported(dtype, name)
        dtypes.report_dropped(given, kind)
        return kind
    if given == np.bool_:
        return dtypes.canonicalize_dtype(int)
    if promote_integers and dtypes.issubdtype(given, np.integer):
        wide = dtypes.canonicalize_dtype(
            np.uint64 if dtypes.issubdtype(given, np.unsignedinteger) else np.int64
        )
        return wide if dtypes.bit_width(given) < dtypes.bit_width(wide) else given
    return given


@functools.cache
def compute_dtype(dtype: DTypeLike) -> Any:
    """The dtype in which sums and products are computed: float32 for floats of fewer bits."""
    return (
        np.dtype(np.float32) if dtype in dtypes.FLOATS and dtypes.bit_width(dtype) < 32 else dtype
    )


def _total(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    where: object,
    promote_integers: bool,
) -> Any:
    x = strong(name, a)
    result = result_dtype(name, typeof(x).dtype, dtype, promote_integers)
    kind = {"sum": "any", "prod": "all"}[name] if result == np.bool_ else name
    out = fold(
        kind,
        _structure.convert_element_type(x, compute_dtype(result)),
        axis,
        keepdims,
        where,
        initial,
    )
    return _structure.convert_element_type(out, result)


@fast(static=("axis", "dtype", "keepdims", "promote_integers"))
def _sum(
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: ArrayLike | None,
    where: Any,
    promote_integers: bool,
) -> Any:
    return _total("sum", a, axis, dtype, keepdims, initial, where, promote_integers)


@fast(static=("axis", "dtype", "keepdims", "promote_integers"))
def _prod(
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote_integers: bool,
) -> Any:
    return _total("prod", a, axis, dtype, keepdims, initial, where, promote_integers)


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum of elements over axes, by default over all.

    a: T[shape]  ->  T[shape without axes], or with size 1 there for keepdims; integers narrower
    than the default ones become
    those, unless promote_integers is off; booleans are counted. 16-bit floats are summed as
    float32.
    initial: added to the sum. where: which elements take part, broadcast with a.
    Raises ValueError for an axis out of bounds or named twice.

    >>> sum(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([4., 6.], dtype=float32)
    """
    promotion.refuse_out("sum", out)
    return _sum(a, axis_key(axis), dtype, keepdims, initial, where, promote_integers)


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product of elements over axes, by default over all; dtypes and arguments as in `sum`.

    >>> prod(np.int8([20, 10]))
    Array(200, dtype=int32)
    """
    promotion.refuse_out("prod", out)
    return _prod(a, axis_key(axis), dtype, keepdims, initial, where, promote_integers)


# Extremes


def _extreme(
    name: str, a: ArrayLike, axis: Any, keepdims: bool, initial: ArrayLike | None, where: Any
) -> Any:
    x = strong(name, a)
    if initial is None:
        if where is not None:
            raise ValueError(
                f"reduction operation {name} does not have an identity, so to use a where mask "
                "one has to specify 'initial'"
            )
        n = count(x, axes_of(axis, np.ndim(x)))
        if is_symbolic(n) and bounds(n).low <= 0:
            raise errors.InconclusiveDimensionOperation(
                f"{name}: the array may turn out to be empty, and then there is none: its size is "
                f"{n}, from {bounds(n).low} on.\n    a: {typeof(x).str_short(short_dtypes=True)}\n"
                "  Give `initial`, which is the result then."
            )
        if n == 0:
            raise ValueError(
                f"zero-size array to reduction operation {name} which has no identity\n"
                f"    a: {typeof(x).str_short(short_dtypes=True)}, axis: {axis}"
            )
    return fold(name, x, axis, keepdims, where, initial)


@fast(static=("axis", "keepdims"), in_memory=functools.partial(_in_memory.extreme, "max"))
def _max(
    a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return _extreme("max", a, axis, keepdims, initial, where)


@fast(static=("axis", "keepdims"), in_memory=functools.partial(_in_memory.extreme, "min"))
def _min(
    a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return _extreme("min", a, axis, keepdims, initial, where)


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest element over axes, by default over all; nan if there is one.

    initial: takes part too; needed with `where`, which says which elements take part.
    Raises ValueError for no elements and no initial value.

    >>> max(np.float32([[1, 2], [3, 4]]), axis=1)
    Array([2., 4.], dtype=float32)
    """
    promotion.refuse_out("max", out)
    return _max(a, axis_key(axis), keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element over axes, by default over all; nan if there is one. Arguments as in `max`.

    >>> min(np.float32([[1, 2], [3, 4]]), axis=1)
    Array([1., 3.], dtype=float32)
    """
    promotion.refuse_out("min", out)
    return _min(a, axis_key(axis), keepdims, initial, where)


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The difference of the greatest and the least element over axes.

    >>> ptp(np.float32([1, 5, 3]))
    Array(4., dtype=float32)
    """
    promotion.refuse_out("ptp", out)
    promotion.check_arraylike("ptp", a)
    return _ptp(a, axis_key(axis), keepdims)


@fast(static=("axis", "keepdims"))
def _ptp(a: Any, axis: Any, keepdims: bool) -> Any:
    return lax.sub(_max(a, axis, keepdims, None, None), _min(a, axis, keepdims, None, None))


@fast(static=("name", "axis", "keepdims"), in_memory=_in_memory.place)
def _arg(name: str, a: ArrayLike, axis: Any, keepdims: bool) -> Any:
    x = strong(name, a)
    ndim = np.ndim(x)
    if axis is None:
        flat, at = _structure.reshape(x, (count(x, tuple(range(ndim))),)), 0
    else:
        flat, at = x, _structure.canonical_axis(axis, ndim)
    if np.shape(flat)[at] == 0:
        raise ValueError(
            f"attempt to get {name} of an empty sequence\n"
            f"    a: {typeof(x).str_short(short_dtypes=True)}"
        )
    out = getattr(_extremes, name)(flat, at, dtypes.canonicalize_dtype(int))
    return (
        keep(out, np.shape(x), tuple(range(ndim)) if axis is None else (at,)) if keepdims else out
    )


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The place of the greatest element along an axis, or in the flattened array: the first of
    equal ones, or of nan.

    Raises ValueError if there are no elements.

    >>> argmax(np.float32([1, 5, 3]))
    Array(1, dtype=int32)
    """
    promotion.refuse_out("argmax", out)
    return _arg("argmax", a, axis_key(axis), bool(keepdims))


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The place of the least element along an axis, or in the flattened array: the first of equal
    ones, or of nan.

    >>> argmin(np.float32([1, 5, 3]))
    Array(0, dtype=int32)
    """
    promotion.refuse_out("argmin", out)
    return _arg("argmin", a, axis_key(axis), bool(keepdims))


# Truth


@fast(static=("name", "axis", "keepdims"))
def _truth(name: str, a: ArrayLike, axis: Any, keepdims: bool, where: Any) -> Any:
    x = strong(name, a)
    x = x if typeof(x).dtype == np.bool_ else lax.ne(x, scalar_like(x, 0))
    return fold(name, x, axis, keepdims, where, None)


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements over axes are true, or not 0; of no elements true.

    >>> all(np.array([True, False]))
    Array(False, dtype=bool)
    """
    promotion.refuse_out("all", out)
    return _truth("all", a, axis_key(axis), keepdims, where)


def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether an element over axes is true, or not 0; of no elements false.

    >>> any(np.array([True, False]))
    Array(True, dtype=bool)
    """
    promotion.refuse_out("any", out)
    return _truth("any", a, axis_key(axis), keepdims, where)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements over axes that are not 0.

    >>> count_nonzero(np.float32([0, 1, 2]))
    Array(2, dtype=int32)
    """
    return _count_nonzero(a, axis_key(axis), keepdims)


@fast(static=("axis", "keepdims"))
def _count_nonzero(a: Any, axis: Any, keepdims: bool) -> Any:
    x = strong("count_nonzero", a)
    return _sum(
        lax.ne(x, scalar_like(x, 0)) if not is_kind(x, np.bool_) else x,
        axis,
        None,
        keepdims,
        None,
        None,
        True,
    )


# Means


def divided(total: Any, n: Any) -> Any:
    """A sum divided by a number of elements, known or an array."""
    return lax.div(total, promotion.convert(n, typeof(total).dtype))


def taking_part(x: ArrayLike, axes: tuple[int, ...], where: Any, keepdims: bool) -> Any:
    """The number of elements that take part in a reduction of x."""
    if where is None:
        return count(x, axes)
    check_mask(where)
    mask = promotion.broadcast_to(promotion.as_value(where), np.shape(x))
    return _total("sum", mask, axes, dtypes.canonicalize_dtype(float), keepdims, None, None, True)


def inexact(name: str, a: ArrayLike, dtype: Any) -> tuple[Any, Any]:
    """The operand of a mean in the dtype of its computation, and the dtype of the result."""
    x = strong(name, a)
    result = (
        dtypes.to_inexact_dtype(typeof(x).dtype)
        if dtype is None
        else dtypes.check_user_dtype_supported(dtype, name)
    )
    if result == np.bool_:
        raise TypeError(f"{name} does not compute booleans, got {dtype=}.")
    return promotion.convert(x, compute_dtype(dtypes.to_inexact_dtype(result))), result


@fast(static=("axis", "dtype", "keepdims"))
def _mean(a: ArrayLike, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Any:
    x, result = inexact("mean", a, dtype)
    dtypes.report_dropped(typeof(a).dtype, result)
    axes = axes_of(axis, np.ndim(x))
    n = taking_part(x, axes, where, keepdims)
    return _structure.convert_element_type(
        divided(fold("sum", x, axes, keepdims, where, None), n), result
    )


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean of elements over axes, by default over all; of no elements nan.

    a: T[shape]  ->  T[shape without axes], integers and booleans as floats. where: which elements
    take part.

    >>> mean(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([2., 3.], dtype=float32)
    """
    promotion.refuse_out("mean", out)
    return _mean(a, axis_key(axis), dtype, keepdims, where)


@fast(static=("name", "axis", "dtype", "keepdims"))
def _var(
    name: str,
    a: ArrayLike,
    axis: Any,
    dtype: Any,
    ddof: Any,
    keepdims: bool,
    where: Any,
    mean: ArrayLike | None,
) -> Any:
    x, result = inexact(name, a, dtype)
    axes = axes_of(axis, np.ndim(x))
    n = taking_part(x, axes, where, keepdims)
    center = (
        divided(
            fold("sum", x, axes, True, where, None),
            n if isinstance(n, int) or keepdims else taking_part(x, axes, where, True),
        )
        if mean is None
        else promotion.convert(mean, typeof(x).dtype)
    )
    difference = lax.sub(*promotion.promote(name, promotion.INEXACT, x, center))
    squares = (
        lax.square(lax.abs(difference))
        if is_kind(x, np.complexfloating)
        else lax.square(difference)
    )
    total = fold("sum", squares, axes, keepdims, where, None)
    freedom = lax.sub(
        promotion.convert(n, typeof(total).dtype), promotion.convert(ddof, typeof(total).dtype)
    )
    out = lax.div(total, freedom)
    out = lax.where_else(lax.gt(freedom, scalar_like(freedom, 0)), out, scalar_like(out, np.nan))
    out = lax.sqrt(out) if name == "std" else out
    return _structure.convert_element_type(out, variance_dtype(name, a, result, dtype))


def variance_dtype(name: str, a: ArrayLike, result: object, given: object) -> Any:
    """The dtype of a variance or deviation: real, also of complex numbers, unless a complex one is
    asked for."""
    if given is not None:
        if is_kind(a, np.complexfloating) and not dtypes.issubdtype(result, np.complexfloating):
            raise ValueError(
                f"jax.numpy.{name} does not yet support real dtype parameters when computing the "
                f"variance of an array of complex values.\n    a: {typeof(a)}, dtype: {given}"
            )
        if name.endswith("std") and not dtypes.issubdtype(result, np.inexact):
            raise ValueError(f"dtype argument to jnp.{name} must be inexact; got {result}")
        if dtypes.issubdtype(result, np.complexfloating):
            return result
    return dtypes.to_floating_dtype(result)


def _degrees(ddof: object, correction: object) -> Any:
    if correction is None:
        return ddof
    if not (isinstance(ddof, int) and ddof == 0):
        raise ValueError(
            "ddof and correction can't be provided simultaneously.\n"
            f"    ddof: {ddof}, correction: {correction}"
        )
    return correction


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """The variance of elements over axes: the mean of |x - mean|^2, with n - ddof for the number n
    of elements.

    Real, also of complex numbers; nan where n <= ddof. mean: the mean, if it is known, with axes of
    size 1.
    correction: another name of ddof. Raises ValueError if both are given.

    >>> var(np.float32([1, 2, 3, 4]))
    Array(1.25, dtype=float32)
    """
    promotion.refuse_out("var", out)
    return _var("var", a, axis_key(axis), dtype, _degrees(ddof, correction), keepdims, where, mean)


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """The standard deviation of elements over axes: the root of `var`, with the same arguments.

    >>> std(np.float32([1, 3]))
    Array(1., dtype=float32)
    """
    promotion.refuse_out("std", out)
    return _var("std", a, axis_key(axis), dtype, _degrees(ddof, correction), keepdims, where, mean)
