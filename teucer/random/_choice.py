"""Samples of finite sets.

Permutations, choices with and without replacement, categories by their log-probabilities.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, Shape
from teucer._dimensions.dimensions import as_size, bounds, is_symbolic, max_dim
from teucer._transform.library import library
from teucer.lax import cond, fori_loop
from teucer.lax._arithmetic import add, div, gt, le, mul, sub
from teucer.lax._cumulative import cumsum
from teucer.lax._elementwise import log
from teucer.lax._extremes import argmax
from teucer.lax._indexing.gather import gather
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode
from teucer.lax._selection import where_else
from teucer.lax._shapes import iota_p
from teucer.lax._slicing import index_in_dim, slice_in_dim
from teucer.lax._sorting import sort, top_k
from teucer.lax._structure import canonical_axis, convert_element_type, full, moveaxis, reshape
from teucer.random._arguments import as_shape, cast, parameter, place, scalar, spread
from teucer.random._inverse import is_precise, standard_gumbel
from teucer.random._keys import one_key
from teucer.random._uniform import between, raw_bits, split_key, whole_numbers

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike, Value
    from teucer._devices.specs import OutSharding


_MOST = np.iinfo(np.uint32).max


def _places(n: int, dtype: Any = None) -> Any:
    return iota_p.call(
        dtype=dtype or dtypes.canonicalize_dtype(int), shape=(n,), dimension=0, sharding=None
    )[0]


def _taken(x: Any, places: Any, axis: int) -> Any:
    """The elements of x along an axis at places that exist; the axes of `places` stand where that
    axis was."""
    shape, n = np.shape(x), np.ndim(places)
    offset = (*range(axis), *range(axis + n, len(shape) + n - 1))
    numbers = GatherDimensionNumbers(
        offset_dims=offset, collapsed_slice_dims=(axis,), start_index_map=(axis,)
    )
    sizes = tuple(1 if i == axis else d for i, d in enumerate(shape))
    return gather(
        x, reshape(places, (*np.shape(places), 1)), numbers, sizes, mode=GatherScatterMode.CLIP
    )


def _shuffled(key: Array, x: Any, axis: int) -> Any:
    """x sorted by random numbers along an axis.

    Numbers of 32 bits may be equal; so many rounds that three times the bits of log2(size) are
    drawn make an order that ties favour improbable.
    """
    size = math.prod(np.shape(x))
    least, most = (_rounds(n) for n in bounds(size))
    for i in range(most):
        key, sub_key = split_key(key)
        once = functools.partial(_sorted_by, raw_bits(sub_key, 32, np.shape(x)), axis)
        if i < max(least, 1):
            x = once(x)
        else:  # a size that comes at run time
            x = cond(
                gt(convert_element_type(size, np.int32), np.int32(_MOST ** (i / 3))),
                once,
                lambda x: x,
                x,
            )
    return x


def _rounds(size: float) -> int:
    return math.ceil(3 * math.log(min(max(1, size), _MOST)) / math.log(_MOST))


def _sorted_by(numbers: Array, axis: int, x: Array) -> Any:
    return sort((numbers, x), axis, num_keys=1)[1]


@library(static=("axis", "independent"))
def _permuted(key: Any, x: ArrayLike, *, axis: int, independent: bool) -> Any:
    if independent or np.ndim(x) == 1:
        return _shuffled(key, x, axis)
    return _taken(x, _shuffled(key, _places(np.shape(x)[axis]), 0), axis)


@library(static=("n", "dtype"))
def _permuted_places(key: Array, *, n: int, dtype: DTypeLike) -> Any:
    return _shuffled(key, _places(n, dtype), 0)


def permutation(
    key: Array,
    x: int | ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """x in a random order along an axis; for an integer x, a permutation of 0, ..., x - 1.

    independent: shuffle each row along the axis by itself, not all in the same way.
    Raises TypeError if x is a scalar but no integer, ValueError if the axis is out of bounds.

    >>> from teucer import random
    >>> random.permutation(random.key(0), 4)
    Array([..., dtype=int32)
    """
    typed, _ = one_key("permutation", key)
    aval = typeof(parameter("permutation", x, 1, keys=True))
    axis = canonical_axis(axis, aval.ndim or 1)
    if not aval.shape:
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        return place(
            _permuted_places(typed, n=max_dim(as_size(x), 0), dtype=dtypes.canonicalize_dtype(int)),
            out_sharding,
        )
    return place(_permuted(typed, x, axis=axis, independent=bool(independent)), out_sharding)


def choice(
    key: Value,
    a: int | ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Elements of a along an axis, or for an integer a of 0, ..., a - 1, chosen at random.

    replace: whether an element may be chosen again. p: probabilities of the elements; by default
    all are alike.
    mode: as of `gumbel`, for p without replacement.
    Raises ValueError if there are too few elements, or p is not one probability an element.

    >>> from teucer import random
    >>> random.choice(random.key(0), 5, (3,))
    Array([..., dtype=int32)

    Method: with p, inversion of the cumulated probabilities; without replacement the largest of
    Gumbel samples plus log(p), Vieira, Gumbel-max trick and weighted reservoir sampling (2014).
    """
    typed, _ = one_key("choice", key)
    size = as_shape("choice", shape)
    given = parameter("choice", a, 1)
    aval = typeof(given)
    axis = canonical_axis(axis, aval.ndim or 1)
    n = aval.shape[axis] if aval.shape else given if is_symbolic(a) else int(given)
    draws = math.prod(size)
    if draws == 0:
        return full(size, 0, aval.dtype)
    if n <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and draws > n:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size {n}) when "
            "'replace=False'"
        )
    if p is not None:
        if typeof(parameter("choice", p, 2)).shape != (n,):
            raise ValueError(
                "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
                f"{typeof(p).shape} and a.shape[axis] is {n}."
            )
        p = cast(p, dtypes.to_inexact_dtype(typeof(p).dtype))
    values = a if aval.shape else None
    return _chosen(
        typed, values, p, n=n, size=size, axis=axis, replace=bool(replace), precise=is_precise(mode)
    )


@library(static=("n", "size", "axis", "replace", "precise"))
def _chosen(
    key: Array,
    a: Any,
    p: Any,
    *,
    n: int,
    size: tuple[int, ...],
    axis: int,
    replace: bool,
    precise: bool,
) -> Any:
    draws = math.prod(size)
    if p is None and not replace:
        found = (
            _shuffled(key, _places(n), 0)
            if a is None
            else _permuted(key, a, axis=axis, independent=False)
        )
        found = slice_in_dim(found, 0, draws, axis=axis)
        rest = np.shape(found)
        return reshape(found, (*rest[:axis], *size, *rest[axis + 1 :]))
    if p is None:
        places = whole_numbers(key, 0, n, shape=size, dtype=dtypes.canonicalize_dtype(int))
    elif replace:
        places = _by_probability(key, p, size)
    else:
        scores = add(
            standard_gumbel(key, shape=(n,), dtype=typeof(p).dtype, precise=precise), log(p)
        )
        places = reshape(cast(top_k(scores, draws)[1], dtypes.canonicalize_dtype(int)), size)
    return places if a is None else _taken(a, places, axis)


def _by_probability(key: Array, p: Any, size: tuple[int, ...]) -> Any:
    """Places with the given probabilities, which need not sum to 1."""
    dtype = typeof(p).dtype
    cumulated = cumsum(p, 0)
    u = between(key, 0.0, 1.0, shape=size, dtype=dtype)
    return _first_not_below(
        cumulated, mul(index_in_dim(cumulated, -1, 0, False), sub(scalar(1, dtype), u))
    )


def _first_not_below(ordered: Any, x: ArrayLike) -> Any:
    """For each element of x the first place at which it could be inserted: a search by halves."""
    n = np.shape(ordered)[0]
    dtype = dtypes.canonicalize_dtype(int)

    def halve(_: Any, bounds: Any) -> Any:
        low, high = bounds
        middle = add(low, div(sub(high, low), scalar(2, dtype)))
        left = le(x, _taken(ordered, middle, 0))
        return where_else(left, low, middle), where_else(left, middle, high)

    start = full(np.shape(x), 0, dtype), full(np.shape(x), n, dtype)
    return fori_loop(0, math.ceil(math.log2(n + 1)), halve, start)[1]


def categorical(
    key: Array,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Categories by their log-probabilities along an axis, which need not be normalized.

    shape: of the sample; its last axes are the axes of logits without `axis`. By default it has no
    others.
    replace: with False, the axes before those hold different categories. mode: as of `gumbel`.
    Raises ValueError if the shapes do not agree, or there are fewer categories than samples without
    replacement.

    >>> from teucer import random
    >>> random.categorical(random.key(0), np.zeros(3, "float32"), shape=(4,))
    Array([..., dtype=int32)

    Method: the largest of Gumbel samples plus logits (as for `choice`).
    """
    typed, _ = one_key("categorical", key)
    aval = typeof(parameter("categorical", logits, 0))
    if not -aval.ndim <= axis < aval.ndim:
        raise IndexError(
            f"categorical: axis {axis} is out of bounds for logits of {aval.ndim} axes.\n"
            f"    logits: {aval}"
        )
    axis %= aval.ndim
    batch = (*aval.shape[:axis], *aval.shape[axis + 1 :])
    size = batch if shape is None else as_shape("categorical", shape)
    own = size[len(size) - len(batch) :]
    if len(size) < len(batch) or not all(b in (1, d) for b, d in zip(batch, own, strict=True)):
        raise ValueError(
            f"Incompatible shapes for broadcasting: shapes=[{size}, {batch}]\n"
            "  categorical: the last axes of shape are those of logits without axis."
        )
    categories = aval.shape[axis]
    extra = size[: len(size) - len(batch)]
    if not replace and math.prod(extra) > categories:
        raise ValueError(
            f"Number of samples without replacement ({math.prod(extra)}) cannot exceed number of "
            f"categories ({categories})."
        )
    own = (*own[:axis], categories, *own[axis:])
    logits = cast(logits, dtypes.to_inexact_dtype(aval.dtype))
    return place(
        _categories(
            typed,
            logits,
            axis=axis,
            own=own,
            extra=extra,
            replace=bool(replace),
            precise=is_precise(mode),
        ),
        out_sharding,
    )


@library(static=("axis", "own", "extra", "replace", "precise"))
def _categories(
    key: Array,
    logits: ArrayLike,
    *,
    axis: int,
    own: tuple[int, ...],
    extra: tuple[int, ...],
    replace: bool,
    precise: bool,
) -> Any:
    dtype, index = typeof(logits).dtype, dtypes.canonicalize_dtype(int)
    if replace:
        noise = standard_gumbel(key, shape=(*extra, *own), dtype=dtype, precise=precise)
        return argmax(add(noise, spread(logits, (*extra, *own))), axis + len(extra), index)
    noise = standard_gumbel(key, shape=own, dtype=dtype, precise=precise)
    found = top_k(add(spread(logits, own), noise), math.prod(extra), axis=axis)[1]
    rest = (*own[:axis], *own[axis + 1 :])
    return cast(reshape(moveaxis(found, axis, 0), (*extra, *rest)), index)
