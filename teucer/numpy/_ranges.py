"""Sequences of numbers between bounds, and grids."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from teucer._base import dtypes, errors
from teucer._core.trace import Tracer, typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._dimensions.dimensions import as_size, bounds, is_symbolic, max_dim
from teucer._transform.vmap import vmap
from teucer.lax import _elementwise as lax
from teucer.lax import _joining, _shapes, _structure
from teucer.lax._families import scalar_like
from teucer.numpy._arithmetic import power
from teucer.numpy._creation import checked_dtype, place
from teucer.numpy._library import converting, fast
from teucer.numpy._operands import size_as
from teucer.numpy._promotion import (
    INEXACT,
    broadcast_to,
    check_arraylike,
    convert,
    promote,
    promote_dtypes,
)
from teucer.numpy._ufuncs import floor, is_kind

if TYPE_CHECKING:
    from teucer._core.typing import Size

__all__ = ["fromfunction", "geomspace", "indices", "linspace", "logspace", "meshgrid"]


def _samples(num: Any, op: str) -> int:
    if isinstance(num, Tracer) and num.concrete() is None:
        raise errors.ConcretizationTypeError(
            num, f"It arose in the jnp.{op} argument 'num', which sets the size of the result."
        )
    n = as_size(num)
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    return n


def _scalar(x: Any, size: Any) -> Any:
    """A size as a scalar of x's dtype."""
    return (
        lax.convert_element_type(size, x.dtype)
        if is_symbolic(size)
        else _structure.number(size, x.dtype)
    )


@fast(static=("num", "endpoint", "dtype", "axis"))
def _linspace(
    start: Any, stop: Any, num: int, endpoint: bool, dtype: DTypeLike | None, axis: int
) -> tuple[Any, Any]:
    check_arraylike("linspace", start, stop)
    computed = dtypes.to_inexact_dtype(
        typeof(promote_dtypes("linspace", INEXACT, start, stop)[0]).dtype
    )
    result = computed if dtype is None else dtype
    low, high = (convert(v, computed) for v in promote("linspace", INEXACT, start, stop))
    shape = np.shape(low) or np.shape(high)
    low, high = (
        _structure.reshape(broadcast_to(v, shape) if shape else v, (1, *shape)) for v in (low, high)
    )
    if is_symbolic(num) and not bounds(num).low > 1:
        out, gap = _any_number(low, high, num, endpoint)
        return _laid_out(out, axis, result), _structure.reshape(gap, shape)
    steps = num - 1 if endpoint else num
    difference = lax.sub(high, low)
    gap = (
        lax.div(difference, _scalar(difference, steps))
        if steps > 0
        else _structure.full((1, *shape), np.nan, computed)
    )
    if num > 1:
        out = _between(low, high, steps, steps)
        if endpoint:
            out = _joining.concatenate([out, high], 0)
    elif num == 1:
        out = low
    else:
        out = _structure.full((0, *shape), 0, computed)
    return _laid_out(out, axis, result), _structure.reshape(gap, shape)


def _between(low: Any, high: Any, count: int, steps: object) -> Any:
    """The first `count` of the numbers that go from low to high in `steps` steps of one size, along
    a new first axis."""
    computed, (_, *shape) = typeof(low).dtype, np.shape(low)
    real = np.dtype(dtypes.finfo(computed).dtype) if computed in dtypes.COMPLEX else computed
    place_ = _shapes.broadcasted_iota(real, (count,), 0)
    share = lax.div(place_, _scalar(place_, steps))
    place_, share = (
        _structure.reshape(lax.convert_element_type(v, computed), (count, *[1] * len(shape)))
        for v in (place_, share)
    )
    place_, share, low, step = (
        broadcast_to(v, (count, *shape))
        for v in (place_, share, low, lax.div(high, _scalar(high, steps)))
    )
    # The first is met exactly, a bound that overflows with the other one does not, and whole steps
    # from 0 are whole numbers.
    return lax.add(lax.mul(low, lax.sub(scalar_like(share, 1), share)), lax.mul(step, place_))


def _any_number(low: ArrayLike, high: ArrayLike, num: Any, endpoint: bool) -> tuple[Any, Any]:
    """`num` numbers and their distance, where num is known only at run time and may be 0 or 1."""
    steps = num - 1 if endpoint else num
    out, difference = _between(low, high, num, max_dim(steps, 1)), lax.sub(high, low)
    nan = _structure.full(np.shape(difference), np.nan, typeof(difference).dtype)
    some = lax.gt(lax.convert_element_type(steps, np.dtype(np.int32)), np.int32(0))
    gap = lax.select(some, lax.div(difference, _scalar(difference, max_dim(steps, 1))), nan)
    if endpoint:
        place_ = _shapes.broadcasted_iota(np.dtype(np.int32), np.shape(out), 0)
        last = lax.bitwise_and(
            lax.eq(place_, lax.convert_element_type(steps, np.dtype(np.int32))),
            lax.gt(place_, np.int32(0)),
        )
        out = lax.select(last, broadcast_to(high, np.shape(out)), out)
    return out, gap


def _laid_out(out: Any, axis: int, dtype: Any) -> Any:
    """A sequence along the first axis as one along `axis`, in a dtype; integers are rounded
    down."""
    out = _structure.moveaxis(out, 0, _structure.canonical_axis(axis, np.ndim(out), "linspace"))
    if dtypes.issubdtype(dtype, np.integer) and not is_kind(out, np.integer):
        out = lax.floor(out)
    return lax.convert_element_type(out, dtype)


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    retstep: Literal[False] = ...,
    dtype: Any = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Array: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    retstep: bool = ...,
    dtype: Any = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Any: ...
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Array | tuple[Array, Array]:
    """num numbers at equal distances from start to stop, which is the last of them if endpoint.

    start, stop: numbers or arrays, which broadcast  ->  floats [shape] with a new axis at `axis`;
    retstep gives the distance too.
    Raises ValueError if num is negative.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    out, gap = _linspace(
        start,
        stop,
        _samples(num, "linspace"),
        bool(endpoint),
        checked_dtype(dtype, "linspace"),
        operator.index(axis),
    )
    out = place(out, device)
    return (out, gap) if retstep else out


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """base to the powers that `linspace` gives.

    >>> logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    check_arraylike("logspace", start, stop)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    out = power(base, exponents)
    kind = checked_dtype(dtype, "logspace")
    return out if kind is None else lax.convert_element_type(out, kind)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """num numbers at equal ratios from start to stop, which is the last of them if endpoint.

    start, stop: numbers of one sign, or complex.

    >>> geomspace(1, 100, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    return _geomspace(
        start,
        stop,
        _samples(num, "geomspace"),
        bool(endpoint),
        checked_dtype(dtype, "geomspace"),
        operator.index(axis),
    )


@fast(static=("num", "endpoint", "dtype", "axis"))
def _geomspace(
    start: Any, stop: Any, num: int, endpoint: bool, dtype: DTypeLike | None, axis: int
) -> Any:
    check_arraylike("geomspace", start, stop)
    low, high = promote("geomspace", INEXACT, start, stop)
    low, high = (convert(v, typeof(v).dtype) for v in (low, high))
    shape = np.shape(low) or np.shape(high)
    low, high = (broadcast_to(v, shape) if shape else v for v in (low, high))
    # Turned to start at a positive number: then there are logarithms.
    unit = lax.sign(low)
    exponents = _linspace.__wrapped__(
        lax.log(lax.div(low, unit)), lax.log(lax.div(high, unit)), num, endpoint, None, axis
    )[0]
    new = np.ndim(exponents)
    at = _structure.canonical_axis(axis, new, "geomspace")
    turned = _structure.reshape(
        unit, tuple(1 if i == at else d for i, d in enumerate(np.shape(exponents)))
    )
    out = lax.mul(lax.exp(exponents), broadcast_to(turned, np.shape(exponents)))
    if is_symbolic(num) or num > 0:
        out = _exact_ends(out, low, high, endpoint and (is_symbolic(num) or num > 1), at)
    if dtype is not None and dtypes.issubdtype(dtype, np.integer):
        out = floor.__wrapped__(out)
    return out if dtype is None else lax.convert_element_type(out, dtype)


def _exact_ends(out: Any, low: ArrayLike, high: ArrayLike, endpoint: bool, axis: int) -> Any:
    """A sequence with its first, and if asked its last, number replaced by the bounds."""
    shape = np.shape(out)
    place_ = _shapes.broadcasted_iota(np.dtype(np.int32), shape, axis)
    ends = ([(shape[axis] - 1, high)] if endpoint else []) + [(0, low)]
    for index, bound in ends:
        value = _structure.reshape(bound, tuple(1 if i == axis else d for i, d in enumerate(shape)))
        out = lax.select(
            lax.eq(place_, size_as(index, np.dtype(np.int32))), broadcast_to(value, shape), out
        )
    return out


@converting
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """The coordinates of a grid: for each sequence an array of them all over the grid.

    indexing: 'xy' lays the first sequence along the second axis, as in plots; 'ij' each along its
    own.
    sparse: axes of size 1 in place of repeated ones.
    Raises ValueError for arrays of several axes and other indexing.

    >>> [g.tolist() for g in meshgrid(np.int32([1, 2]), np.int32([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    check_arraylike("meshgrid", *xi)
    if any(np.ndim(x) != 1 for x in xi):
        raise ValueError(
            f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {[np.shape(x) for x in xi]}"
        )
    return list(_meshgrid(xi, sparse, indexing == "xy" and len(xi) > 1))


@fast(static=("sparse", "swap"))
def _meshgrid(xs: Sequence[ArrayLike], sparse: bool, swap: bool) -> Any:
    sizes = [np.shape(x)[0] for x in xs]
    order = [1, 0, *range(2, len(xs))] if swap else list(range(len(xs)))
    shape = tuple(sizes[i] for i in order)
    grids = []
    for i, x in enumerate(xs):
        line = _structure.reshape(x, tuple(d if order[k] == i else 1 for k, d in enumerate(shape)))
        grids.append(line if sparse else broadcast_to(line, shape))
    return tuple(grids)


@overload
def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = ..., sparse: Literal[False] = ...
) -> Array: ...
@overload
def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = ..., sparse: bool = ...
) -> Any: ...
def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The places of a grid of a shape: for each axis an array of places along it; sparse gives a
    tuple with axes of size 1.

    >>> indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = tuple(as_size(d) for d in dimensions)
    kind = checked_dtype(int if dtype is None else dtype, "indices")
    lines = [
        _structure.reshape(
            _shapes.broadcasted_iota(kind, (d,), 0),
            tuple(d if k == i else 1 for k in range(len(shape))),
        )
        for i, d in enumerate(shape)
    ]
    if sparse:
        return tuple(lines)
    if not lines:
        return _structure.full((0,), 0, kind)
    return _joining.concatenate(
        [_structure.reshape(broadcast_to(line, shape), (1, *shape)) for line in lines], 0
    )


def fromfunction(
    function: Callable[..., Any], shape: Sequence[Size], *, dtype: DTypeLike = float, **kwargs: Any
) -> Array:
    """The values of a function at each place of a grid. It is called with scalars, mapped over the
    grid by `vmap`.

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int).tolist()
    [[0, 1], [1, 2]]
    """
    sizes = _structure.canonical_shape(shape, "fromfunction")
    for i in range(len(sizes)):
        function = vmap(
            function,
            in_axes=tuple(0 if k == len(sizes) - 1 - i else None for k in range(len(sizes))),
        )
    kind = checked_dtype(dtype, "fromfunction")
    return function(*(_shapes.broadcasted_iota(kind, (d,), 0) for d in sizes), **kwargs)
