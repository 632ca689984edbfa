"""Quantiles, percentiles and medians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, Axis
from teucer._dimensions.dimensions import is_size
from teucer._transform.vmap import vmap
from teucer.lax import _cumulative, _dynamic, _sorting, _structure
from teucer.lax import _elementwise as lax
from teucer.lax._families import scalar_like
from teucer.numpy import _promotion as promotion
from teucer.numpy._library import fast
from teucer.numpy._operands import size_as
from teucer.numpy._reductions import axes_of, axis_key, compute_dtype, fold, keep
from teucer.numpy._taking import take_along_axis
from teucer.numpy._ufuncs import is_kind

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _line_first(x: Array, axes: tuple[int, ...]) -> Any:
    """x with the reduced axes as one first axis."""
    rest = [i for i in range(np.ndim(x)) if i not in axes]
    moved = _structure.transpose(x, (*axes, *rest))
    n = math.prod(np.shape(x)[i] for i in axes)
    return _structure.reshape(moved, (n, *(np.shape(x)[i] for i in rest)))


@fast(static=("name", "axis", "method", "keepdims", "skip_nan", "percent"))
def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: ArrayLike | None,
    percent: bool,
) -> Any:
    promotion.check_arraylike(name, a, q)
    for operand in (a, q):
        if is_kind(operand, np.complexfloating):
            raise ValueError(
                f"{name} does not support complex input, as the operation is poorly defined."
            )
    if method not in _METHODS:
        raise ValueError(
            "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or "
            f"'inverted_cdf'\n    method: {method!r}"
        )
    if np.ndim(q) > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {np.shape(q)}")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."
        )
    if typeof(
        q
    ).weak_type:  # alone first: under strict promotion integers do not meet Python floats
        (a,) = promotion.promote_dtypes(name, promotion.INEXACT, a)
    x, place = promotion.promote_dtypes(name, promotion.INEXACT, a, q)
    # Places among the elements are whole numbers, which 16 bits do not count far.
    x, place = (
        _structure.convert_element_type(v, compute_dtype(typeof(v).dtype)) for v in (x, place)
    )
    if percent:
        place = lax.div(place, scalar_like(place, 100))
    place = lax.max(lax.min(place, scalar_like(place, 1)), scalar_like(place, 0))
    axes = axes_of(axis, np.ndim(x))
    line = _line_first(x, axes)
    if is_size(name, np.shape(line)[0], 0):
        raise ValueError(
            f"{name}: there are no elements along the axis.\n"
            f"    a: {typeof(x).str_short(short_dtypes=True)}"
        )
    if weights is not None:
        w = promotion.convert(weights, typeof(x).dtype)
        if np.shape(w) != np.shape(x):
            full = tuple(np.shape(x)[i] if i in axes else 1 for i in range(np.ndim(x)))
            w = promotion.broadcast_to(_structure.reshape(w, full), np.shape(x))
        at_share = _weighted(line, _line_first(w, axes))
    else:
        at_share = _unweighted(line, method, skip_nan)
    at = vmap(at_share)(place) if np.ndim(q) else at_share(place)
    at = promotion.convert(at, dtypes.to_inexact_dtype(typeof(a).dtype))
    if not keepdims:
        return at
    kept = keep(_structure.full(np.shape(line)[1:], 0, np.dtype(bool)), np.shape(x), axes)
    return _structure.reshape(at, (*np.shape(q), *np.shape(kept)))


def _unweighted(line: Any, method: str, skip_nan: bool) -> Callable[[Any], Any]:
    """The quantile of the first axis, as a function of the share, a scalar."""
    n, rest = np.shape(line)[0], np.shape(line)[1:]
    number = lax.eq(line, line)
    ordered = _sorting.sort(line, 0)
    if skip_nan:
        counted = promotion.convert(
            fold("sum", promotion.convert(number, np.dtype(np.int32)), 0, False, None, None),
            typeof(line).dtype,
        )
        empty = lax.eq(counted, scalar_like(counted, 0))
    else:
        counted = _structure.full(rest, n, typeof(line).dtype)
        empty = fold(
            "any", lax.bitwise_not(number), 0, False, None, None
        )  # a line with a nan has no quantiles
    last = lax.max(lax.sub(counted, scalar_like(counted, 1)), scalar_like(counted, 0))

    def at_share(q: Array) -> Any:
        found = _at_place(ordered, last, _structure.broadcast_to(q, rest, ()), method, counted)
        return lax.where_else(empty, scalar_like(found, np.nan), found)

    return at_share


def _at_place(ordered: Any, last: Any, q: ArrayLike, method: str, counted: Any) -> Any:
    """The elements between which a quantile lies, joined as the method says."""
    if method == "inverted_cdf":
        index = lax.sub(lax.ceil(lax.mul(q, counted)), scalar_like(q, 1))
        return _pick(ordered, lax.max(index, scalar_like(index, 0)))
    position = lax.mul(q, last)
    low, high = lax.floor(position), lax.ceil(position)
    if method == "nearest":
        return _pick(
            ordered, lax.select(lax.le(position, lax.add(low, scalar_like(low, 0.5))), low, high)
        )
    if method in ("lower", "higher"):
        return _pick(ordered, low if method == "lower" else high)
    below, above = _pick(ordered, low), _pick(ordered, high)
    if method == "midpoint":
        return lax.mul(lax.add(below, above), scalar_like(below, 0.5))
    weight = lax.sub(position, low)
    return lax.add(lax.mul(below, lax.sub(scalar_like(weight, 1), weight)), lax.mul(above, weight))


def _pick(ordered: Any, index: Any) -> Any:
    """For each line along the first axis, the element at its index."""
    index = promotion.convert(index, np.dtype(np.int32))
    places = _structure.reshape(index, (1, *np.shape(index)))
    return _structure.reshape(
        take_along_axis(ordered, places, 0, mode="promise_in_bounds"), np.shape(index)
    )


def _weighted(line: Any, weights: Any) -> Callable[[Any], Any]:
    """A function of a share q. It gives the first element of each line at which the cumulated
    weights reach q times their sum."""
    ordered, moved = _sorting.sort_key_val(line, weights, 0)
    so_far = _cumulative.cumsum(moved, 0)
    n, rest = np.shape(line)[0], np.shape(line)[1:]
    total = _dynamic.dynamic_index_in_dim(so_far, n - 1, 0, keepdims=False)

    def at_share(q: Array) -> Any:
        reached = lax.lt(
            so_far,
            promotion.broadcast_to(
                lax.mul(_structure.broadcast_to(q, rest, ()), total), np.shape(so_far)
            ),
        )
        index = fold("sum", promotion.convert(reached, np.dtype(np.int32)), 0, False, None, None)
        return _pick(ordered, lax.min(index, size_as(n - 1, np.dtype(np.int32))))

    return at_share


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The values below which the shares q of the elements over axes lie; nan if an element is nan.

    q: a number in [0, 1], or an array of one axis, which then is the first of the result.
    method: the result for a place between two elements: 'linear', 'lower', 'higher',
    'midpoint', 'nearest', 'inverted_cdf'; weights go with the last alone.
    Raises ValueError for complex numbers, other methods, and a q of more axes.

    >>> quantile(np.float32([1, 2, 3, 4]), 0.5)
    Array(2.5, dtype=float32)
    """
    _check("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, axis_key(axis), method, keepdims, False, weights, False)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """As `quantile`, of the elements that are not nan; nan if all are.

    >>> nanquantile(np.float32([1, 2, np.nan]), 0.5)
    Array(1.5, dtype=float32)
    """
    _check("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, axis_key(axis), method, keepdims, True, weights, False)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """As `quantile`, with q in percent. out_sharding lays the result out over Explicit mesh axes.

    >>> percentile(np.float32([1, 2, 3, 4]), 50)
    Array(2.5, dtype=float32)
    """
    _check("percentile", out, overwrite_input)
    if out_sharding is not None:
        from teucer.lax._sharding import laid_out  # for arrays over meshes

        return laid_out(
            "jnp.percentile",
            out_sharding,
            lambda a, q, weights: percentile(
                a, q, axis, method=method, keepdims=keepdims, weights=weights
            ),
            a,
            q,
            weights,
        )
    return _quantile("percentile", a, q, axis_key(axis), method, keepdims, False, weights, True)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """As `percentile`, of the elements that are not nan; nan if all are.

    >>> nanpercentile(np.float32([1, 2, np.nan]), 50)
    Array(1.5, dtype=float32)
    """
    _check("nanpercentile", out, overwrite_input)
    return _quantile("nanpercentile", a, q, axis_key(axis), method, keepdims, True, weights, True)


def median(
    a: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element over axes, or the mean of the middle two; nan if an element is nan.

    >>> median(np.float32([3, 1, 2]))
    Array(2., dtype=float32)
    """
    _check("median", out, overwrite_input)
    return _quantile("median", a, 0.5, axis_key(axis), "midpoint", keepdims, False, None, False)


def nanmedian(
    a: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """As `median`, of the elements that are not nan; nan if all are.

    >>> nanmedian(np.float32([3, 1, np.nan]))
    Array(2., dtype=float32)
    """
    _check("nanmedian", out, overwrite_input)
    return _quantile("nanmedian", a, 0.5, axis_key(axis), "midpoint", keepdims, True, None, False)


def _check(name: str, out: Any, overwrite_input: bool) -> None:
    promotion.refuse_out(name, out)
    if overwrite_input:
        raise ValueError(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None\n"
            "  Arrays are immutable."
        )
