"""Elements of axes combined by any associative function: all prefixes of them, or all together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer._dimensions.dimensions import bounds, is_symbolic, min_dim
from teucer.lax import _elementwise, _structure
from teucer.lax._joining import concatenate, stack
from teucer.lax._shapes import broadcasted_iota, squeeze
from teucer.lax._slicing import slice_in_dim

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike


# A function of two lists of arrays of like sizes.
Combine = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def prefixes(fn: Combine, xs: Sequence[ArrayLike], axis: int) -> list[Any]:
    """All prefixes of arrays along an axis combined by an associative function of lists of arrays.

    Method: pairs are combined, then scanned, then the places between are filled. Blelloch,
    CMU-CS-90-190 (1990), section 1.2.
    """
    n = np.shape(xs[0])[axis]
    if is_symbolic(n):
        return _by_doubling(fn, xs, axis)
    if n < 2:
        return list(xs)

    def part(ys: Sequence[Any], start: int, limit: Any, stride: int = 1) -> list[Any]:
        return [slice_in_dim(y, start, limit, stride, axis) for y in ys]

    pairs = fn(part(xs, 0, n - n % 2, 2), part(xs, 1, n, 2))
    odd = prefixes(fn, pairs, axis)
    before = part(odd, 0, (n - 1) // 2)
    even = fn(before, part(xs, 2, n, 2)) if n > 2 else before
    first = part(xs, 0, 1)
    even = [concatenate([a, b], axis) for a, b in zip(first, even, strict=True)] if n > 2 else first
    return [_interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """a0 b0 a1 b1 ... along an axis; a may be one longer."""
    m, shape = np.shape(odd)[axis], list(np.shape(odd))
    mixed = stack([slice_in_dim(even, 0, m, axis=axis), odd], axis + 1)
    shape[axis] = 2 * m
    mixed = _structure.reshape(mixed, shape)
    if np.shape(even)[axis] == m:
        return mixed
    return concatenate([mixed, slice_in_dim(even, m, m + 1, axis=axis)], axis)


def _by_doubling(fn: Combine, xs: Sequence[ArrayLike], axis: int) -> list[Any]:
    """As `prefixes`, for a size known only at run time: each element with the one 1, 2, 4, ...
    places before it.

    Method: Hillis and Steele, Data parallel algorithms, CACM 29 (1986) 1170.
    """
    n = np.shape(xs[0])[axis]
    most = min(bounds(n).high, 2**31 - 1)
    place, step = np.dtype(np.int32), 1
    while step < most:
        # An element without another in front is combined with an arbitrary one, and the result is
        # dropped.
        start = n - min_dim(step, n)
        before = [slice_in_dim(concatenate([x, x], axis), start, start + n, axis=axis) for x in xs]
        combined = fn(before, xs)
        xs = [
            _elementwise.select(
                _elementwise.ge(broadcasted_iota(place, np.shape(x), axis), np.int32(step)),
                y,
                _structure.convert_element_type(x, typeof(y).dtype),
            )
            for x, y in zip(xs, combined, strict=True)
        ]
        step *= 2
    return list(xs)


def total(fn: Combine, xs: Sequence[Array], axes: Sequence[int], identity: Sequence[Any]) -> Any:
    """The elements of arrays over axes combined pair by pair, in order, by an associative function
    of lists; None of none.

    identity: scalars that change nothing when they come first.
    """
    kept = [i for i in range(np.ndim(xs[0])) if i not in axes]
    shape = [np.shape(xs[0])[i] for i in kept]
    size = math.prod([np.shape(xs[0])[i] for i in axes])
    if not is_symbolic(size) and size == 0:
        return None
    flat = [
        _structure.reshape(_structure.transpose(x, [*sorted(axes), *kept]), (size, *shape))
        for x in xs
    ]
    if is_symbolic(size):
        first = [
            _structure.broadcast_to(
                _structure.convert_element_type(i, typeof(x).dtype), (1, *shape), ()
            )
            for i, x in zip(identity, flat, strict=True)
        ]
        flat = prefixes(fn, [concatenate([i, x], 0) for i, x in zip(first, flat, strict=True)], 0)
        return [squeeze(slice_in_dim(x, size, size + 1), (0,)) for x in flat]
    while size > 1:
        even = size - size % 2
        last = [slice_in_dim(x, even, size) for x in flat]
        flat = list(fn(*([slice_in_dim(x, start, even, 2) for x in flat] for start in (0, 1))))
        if size % 2:
            flat = [concatenate([x, y], 0) for x, y in zip(flat, last, strict=True)]
        size = size - even // 2
    return [squeeze(x, (0,)) for x in flat]
