"""Weighted means."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, Axis
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.numpy._creation import full
from teucer.numpy._library import fast
from teucer.numpy._promotion import INEXACT, broadcast_to, promote_dtypes
from teucer.numpy._reductions import axes_of, axis_key, count, fold, keep, mean

__all__ = ["average"]


@fast(static=("axis", "keepdims"))
def _average(a: ArrayLike, axis: Axis, weights: ArrayLike, keepdims: bool) -> Any:
    x, w = promote_dtypes("average", INEXACT, a, weights)
    x, w = (_structure.convert_element_type(v, typeof(v).dtype) for v in (x, w))  # not weakly typed
    axes = axes_of(axis, np.ndim(x))
    if np.shape(x) != np.shape(w):
        if axis is None:
            raise ValueError(
                "Axis must be specified when shapes of a and weights differ.\n"
                f"    a: {typeof(x)}, weights: {typeof(w)}"
            )
        if np.shape(w) != tuple(np.shape(x)[i] for i in axes):
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis.\n"
                f"    a: {typeof(x)}, weights: {typeof(w)}, axis: {axis}"
            )
        order = tuple(int(i) for i in np.argsort(axes))
        w = _structure.transpose(w, order)
        w = broadcast_to(
            keep(w, tuple(np.shape(x)), tuple(i for i in range(np.ndim(x)) if i not in axes)),
            np.shape(x),
        )
    total = fold("sum", w, axes, keepdims, None, None)
    return lax.div(fold("sum", lax.mul(x, w), axes, keepdims, None, None), total), total


@overload
def average(
    a: ArrayLike,
    axis: Axis = ...,
    weights: ArrayLike | None = ...,
    returned: Literal[False] = ...,
    keepdims: bool = ...,
) -> Array: ...
@overload
def average(
    a: ArrayLike,
    axis: Axis = ...,
    weights: ArrayLike | None = ...,
    returned: bool = ...,
    keepdims: bool = ...,
) -> Any: ...
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
    """The mean of elements over axes, each with a weight; `returned` gives the sum of the weights
    too.

    weights: of the shape of a, or of its axes `axis`. Raises ValueError for other shapes.

    >>> average(np.float32([1, 2]), weights=np.float32([3, 1]))
    Array(1.25, dtype=float32)
    """
    key = axis_key(axis)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        if not returned:
            return out
        total = full(np.shape(out), count(a, axes_of(key, np.ndim(a))), typeof(out).dtype)
    else:
        out, total = _average(a, key, weights, keepdims)
    return (out, total) if returned else out
