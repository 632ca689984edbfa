"""Statistics of samples: ranks, the most common value, the error of a mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer.lax._structure import canonical_axis
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike
from teucer.scipy._operands import along_last, matrices

_RANKS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The most common values, and how often they come."""

    mode: Any
    count: Any


@fast(static=("axis", "nan_policy", "keepdims"))
def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """The most common values along an axis (None: of all elements), the least one of several, and
    their counts.

    nan_policy: "propagate": nan is a value as others, and the greatest. Others raise
    NotImplementedError. Of no elements the mode is nan and the count 0.

    >>> mode(jnp.array([2, 4, 1, 1, 4, 4]))
    ModeResult(mode=Array(4, dtype=int32), count=Array(3, dtype=int32))
    """
    _check_policy("mode", nan_policy, ("propagate",))
    x, place = _along("mode", a, axis)
    n = x.shape[place]
    if n == 0:
        (x,) = matrices("mode", x)
        shape = x.shape[:place] + x.shape[place + 1 :]
        result = jnp.full(shape, jnp.nan, x.dtype), jnp.zeros(shape, x.dtype)
    else:
        ordered = jnp.sort(jnp.moveaxis(x, place, -1), axis=-1)
        length = along_last(jnp.arange(1, n + 1), ordered) - _first_of_equals(ordered)
        best = jnp.argmax(length, axis=-1)[..., None]
        result = (
            jnp.take_along_axis(ordered, best, -1)[..., 0],
            jnp.take_along_axis(length, best, -1)[..., 0],
        )
    if keepdims:
        result = result[0][_kept(a, axis)], result[1][_kept(a, axis)]
    return ModeResult(*result)


@fast(static=("method", "axis", "nan_policy"))
def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Ranks from 1 along an axis (None: of all elements, as a vector).

    method: the ranks of equal elements: the "average", "min" or "max" of their ranks, the
    "dense" rank, which counts only elements that differ, or the "ordinal" one, by place.
    nan_policy: "propagate": ranks of a slice with a nan are nan; "omit": only the rank of the nan
    is nan.
    Raises ValueError for other methods, NotImplementedError for other policies.

    >>> rankdata(jnp.array([1, 3, 2, 3]))
    Array([1. , 3.5, 2. , 3.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy, ("propagate", "omit"))
    if method not in _RANKS:
        raise ValueError(f"rankdata: unknown method {method!r}\n  allowed: {', '.join(_RANKS)}")
    x, place = _along("rankdata", a, axis)
    x = jnp.moveaxis(x, place, -1)
    n = x.shape[-1]
    order = jnp.argsort(x, axis=-1, stable=True)
    back = jnp.argsort(order, axis=-1)
    if method == "ordinal" or n == 0:
        ranks = back + 1
    else:
        ordered = jnp.take_along_axis(x, order, -1)
        first = _first_of_equals(ordered)
        if method == "dense":
            ranks = jnp.cumsum(first == along_last(jnp.arange(n), ordered), axis=-1)
        else:
            last = n - jnp.flip(_first_of_equals(jnp.flip(ordered, -1)), -1)
            ranks = {
                "min": first + 1,
                "max": last,
                "average": 0.5 * (first + 1 + last).astype(float),
            }[method]
        ranks = jnp.take_along_axis(ranks, back, -1)
    ranks = ranks.astype(float)
    if jnp.issubdtype(x.dtype, np.inexact):
        is_nan = jnp.isnan(x)
        ranks = jnp.where(
            is_nan if nan_policy == "omit" else is_nan.any(axis=-1, keepdims=True), jnp.nan, ranks
        )
    return jnp.moveaxis(ranks, -1, place)


@fast(static=("axis", "ddof", "nan_policy", "keepdims"))
def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean along an axis (None: of all elements): the standard deviation
    over the root of the number.

    ddof: subtracted from the number of elements in the variance.
    nan_policy: "propagate" or "omit", which leaves elements out that are nan. Raises ValueError for
    others.

    >>> round(float(sem(jnp.array([1.0, 2.0, 4.0]))), 4)
    0.8819
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(
            f"sem: nan_policy {nan_policy!r} is not supported\n  allowed: 'propagate', 'omit'"
        )
    x, place = _along("sem", a, axis)
    (x,) = matrices("sem", x)
    if nan_policy == "omit":
        std, count = jnp.nanstd(x, axis=place, ddof=ddof), jnp.sum(~jnp.isnan(x), axis=place)
    else:
        std, count = jnp.std(x, axis=place, ddof=ddof), jnp.asarray(x.shape[place])
    error = (std / jnp.sqrt(count.astype(std.dtype))).astype(x.dtype)
    return error[_kept(a, axis)] if keepdims else error


def _along(op: str, a: ArrayLike, axis: int | None) -> tuple[Any, int]:
    """An array and the axis to go along; as a vector for no axis, as is a number."""
    check_arraylike(op, a)
    x = jnp.asarray(a)
    return (
        (x.reshape(-1), 0) if axis is None or not x.ndim else (x, canonical_axis(axis, x.ndim, op))
    )


def _kept(a: ArrayLike, axis: int | None) -> Any:
    """The index that puts axes of size 1 where a reduction took them away."""
    ndim = np.ndim(a)
    return (
        (None,) * ndim if axis is None else (slice(None),) * (axis % ndim) + (None,) if ndim else ()
    )


def _first_of_equals(ordered: Any) -> Any:
    """For each element of ordered ones, along the last axis, the place of the first that equals
    it."""
    here, before = ordered[..., 1:], ordered[..., :-1]
    differs = (here != before) & ~((here != here) & (before != before))
    starts = jnp.pad(differs, [(0, 0)] * (ordered.ndim - 1) + [(1, 0)], constant_values=True)
    return lax.cummax(
        jnp.where(starts, along_last(jnp.arange(ordered.shape[-1]), ordered), 0),
        axis=ordered.ndim - 1,
    )


def _check_policy(op: str, policy: str, allowed: tuple[str, ...]) -> None:
    if policy not in allowed:
        raise NotImplementedError(
            f"{op}: Logic for `nan_policy` of {policy} is not implemented\n"
            f"  allowed: {', '.join(allowed)}"
        )
