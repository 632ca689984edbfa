"""Equal values among eigenvalues and singular values.

Vectors of equal values turn without bound. `_transform.limits.tangents` says what derivatives are
made of that. Values count as equal if they differ by no more than rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _arithmetic as ops
from teucer.lax._arithmetic import abs as absolute
from teucer.lax._conversion import stop_gradient
from teucer.lax._elementwise import pow
from teucer.lax._selection import select
from teucer.lax._structure import broadcast_to, convert_element_type, reduce_sum
from teucer.lax.linalg._lapack import real_dtype
from teucer.lax.linalg._matrices import columns, eye, like, rows, tril

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["Gaps", "gaps", "inverse", "tolerance"]


class Gaps(NamedTuple):
    """For values w: 1 / (w_j - w_i) as matrices, with 0 where these are equal.

    turns: 1 / (d_j - d_i) where two values are equal, else 0, for the directions d.
    """

    inverse: Any
    turns: Any
    directions: Any


def gaps(w: Array, inner: Array, zero: Array | None = None, *, single: bool = True) -> Gaps:
    """The gaps between the values w, as matrices of the shape of `inner`.

    Two equal values have the directions -1 and 1: these make the limit of second derivatives right,
    too. zero: which values are zero. Their directions are 1, 2, ..., and 0 of a single one if
    `single` is off.
    """
    change = ops.sub(rows(w, inner), columns(w, inner))
    size = absolute(change)
    close = ops.le(size, rows(tolerance(w), size))
    twins = ops.bitwise_and(close, ops.bitwise_not(convert_element_type(eye(size), np.bool_)))
    count = convert_element_type(twins, typeof(size).dtype)
    along = (typeof(size).ndim - 1,)
    before, others = reduce_sum(tril(count, -1), along), reduce_sum(count, along)
    alone = ops.eq(others, like(others, 0))
    d = select(alone, like(before, 0), ops.sub(ops.add(before, before), like(before, 1)))
    if zero is not None:
        from_zero = zero if single else ops.bitwise_and(zero, ops.bitwise_not(alone))
        d = select(from_zero, ops.add(before, like(before, 1)), d)
    d = convert_element_type(d, typeof(w).dtype)
    steps = ops.sub(rows(d, inner), columns(d, inner))
    apart = ops.bitwise_and(twins, ops.ne(steps, like(steps, 0)))
    turns = ops.add(inverse(steps, apart), _barrier(change, twins, columns(others, size)))
    return Gaps(inverse(change, ops.bitwise_not(close)), turns, d)


def _barrier(change: Array, twins: Array, others: Array) -> Any:
    """Zeros whose derivatives are infinite where no limit is known. If more than two values are
    equal, the first derivatives are infinite; if two are, the second ones."""
    here = ops.sub(change, stop_gradient(change))
    here = ops.real(here) if dtypes.issubdtype(typeof(here).dtype, np.complexfloating) else here
    power = select(ops.gt(others, like(others, 1)), like(here, 0.5), like(here, 1.5))
    zeros = pow(select(twins, here, like(here, 1)), power)
    return convert_element_type(select(twins, zeros, like(here, 0)), typeof(change).dtype)


def tolerance(w: Array) -> Any:
    """By how much equal values may differ: some roundings of the sum of all sizes."""
    size = absolute(w)
    axis = typeof(size).ndim - 1
    total = reduce_sum(size, (axis,))
    eps = float(dtypes.finfo(real_dtype(typeof(w).dtype)).eps)
    return broadcast_to(
        ops.mul(total, like(total, 4 * eps)), typeof(size).shape, tuple(range(axis))
    )


def inverse(x: Array, where: Array) -> Any:
    """1 / x at some places, elsewhere 0."""
    return select(where, ops.div(like(x, 1), select(where, x, like(x, 1))), like(x, 0))
