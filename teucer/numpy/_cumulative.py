"""Running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base.errors import ShardingTypeError
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer.lax import _cumulative as lax_cumulative
from teucer.lax import _elementwise as lax
from teucer.lax import _joining, _structure
from teucer.numpy._library import at_once, converting, fast
from teucer.numpy._promotion import convert, refuse_out
from teucer.numpy._reductions import axis_key, compute_dtype, count, result_dtype, strong

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]


@fast(static=("name", "axis", "dtype", "promote_integers", "skip_nan"))
def _running(
    name: str, a: ArrayLike, axis: int | None, dtype: Any, promote_integers: bool, skip_nan: bool
) -> Any:
    x = strong(name, a)
    if axis is None:
        if typeof(x).partition is not None:
            raise ShardingTypeError(
                f"The input should be fully replicated when axis is not specified to {name}. Got "
                f"input type={typeof(x).str_short()}\n  Give axis, or lay the input out with "
                "jax.reshard(x, jax.P())."
            )
        x, axis = _structure.reshape(x, (count(x, tuple(range(np.ndim(x)))),)), 0
    axis = _structure.canonical_axis(axis, np.ndim(x))
    is_sum = name in ("cumsum", "cumulative_sum", "nancumsum")
    if skip_nan:
        x = lax.where_else(lax.ne(x, x), _structure.number(0 if is_sum else 1, typeof(x).dtype), x)
    result = result_dtype(name, typeof(x).dtype, dtype, promote_integers)
    run = lax_cumulative.cumsum if is_sum else lax_cumulative.cumprod
    if result == np.bool_:
        return lax.ne(run(convert(convert(x, result), np.dtype(np.int32)), axis), np.int32(0))
    return _structure.convert_element_type(run(convert(x, compute_dtype(result)), axis), result)


@at_once(static=("axis", "dtype", "out"))
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The sums of the elements so far along an axis, or in the flattened array.

    a: T[shape]  ->  T[shape], booleans as int32; narrow integers stay and may overflow.
    Raises ValueError for an axis out of bounds.

    >>> cumsum(np.float32([1, 2, 3]))
    Array([1., 3., 6.], dtype=float32)
    """
    refuse_out("cumsum", out)
    return _running("cumsum", a, axis_key(axis), dtype, False, False)


@at_once(static=("axis", "dtype", "out"))
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The products of the elements so far along an axis, or in the flattened array; as `cumsum`.

    >>> cumprod(np.float32([1, 2, 3]))
    Array([1., 2., 6.], dtype=float32)
    """
    refuse_out("cumprod", out)
    return _running("cumprod", a, axis_key(axis), dtype, False, False)


@at_once(static=("axis", "dtype", "out"))
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """As `cumsum`, with nan counted as 0.

    >>> nancumsum(np.float32([1, np.nan, 3]))
    Array([1., 1., 4.], dtype=float32)
    """
    refuse_out("nancumsum", out)
    return _running("nancumsum", a, axis_key(axis), dtype, False, True)


@at_once(static=("axis", "dtype", "out"))
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """As `cumprod`, with nan counted as 1.

    >>> nancumprod(np.float32([2, np.nan, 3]))
    Array([2., 2., 6.], dtype=float32)
    """
    refuse_out("nancumprod", out)
    return _running("nancumprod", a, axis_key(axis), dtype, False, True)


def _with_initial(name: str, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    if np.ndim(x) == 0:
        raise ValueError(
            "The input must be non-scalar to take a cumulative sum or product, however a scalar "
            f"value or scalar array was given.\n    x: {typeof(x)}"
        )
    if axis is None:
        if np.ndim(x) > 1:
            raise ValueError(
                f"The input array has rank {np.ndim(x)}, however axis was not set to an explicit "
                "value. The axis argument is only optional for one-dimensional arrays."
            )
        axis = 0
    out = _running(name, x, axis, dtype, name == "cumulative_sum", False)
    if not include_initial:
        return out
    axis = _structure.canonical_axis(axis, np.ndim(x))
    shape = tuple(1 if i == axis else d for i, d in enumerate(np.shape(x)))
    start = _structure.full(shape, 0 if name == "cumulative_sum" else 1, typeof(out).dtype)
    return _joining.concatenate([start, out], axis)


@converting
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The sums of the elements so far along an axis; include_initial puts a 0 before them.

    Raises ValueError for an array of several axes if none is given.

    >>> cumulative_sum(np.int32([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _with_initial("cumulative_sum", x, axis, dtype, include_initial)


@converting
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The products of the elements so far along an axis; narrow integers stay. include_initial puts
    a 1 before them.

    >>> cumulative_prod(np.int32([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _with_initial("cumulative_prod", x, axis, dtype, include_initial)
