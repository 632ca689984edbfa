"""Tridiagonal systems where no LAPACK is: eliminated an equation a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax._arithmetic import abs as absolute
from teucer.lax._arithmetic import add, div, eq, gt, mul, neg, sub
from teucer.lax._control.iteration import scan
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_max
from teucer.lax._selection import where_else
from teucer.lax._shapes import transpose
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import broadcast_to, convert_element_type, full, reshape
from teucer.lax.linalg._matrices import like

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["solved_tridiagonal"]


def solved_tridiagonal(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool) -> Any:
    """The solution X of A X = B by elimination with partial pivoting, an equation a step. NaN for a
    singular matrix, unless its pivots of zero are perturbed.

    Golub & Van Loan, Matrix Computations (2013), section 4.3.5.
    """
    n_batch = typeof(d).ndim - 1
    first = (n_batch, *range(n_batch))
    dl, d, du = (transpose(x, first) for x in (dl, d, du))
    b = transpose(b, (*first, n_batch + 1))
    n, dtype = typeof(d).shape[0], typeof(d).dtype
    # The last one is not read.
    ends_at = slice_in_dim(du, n - 1, n, axis=0)
    du = concatenate([slice_in_dim(du, 0, n - 1, axis=0), like(ends_at, 0)], 0)
    after: Any = [slice_in_dim(x, 1, n, axis=0) for x in (dl, d, du, b)]
    start = [reshape(slice_in_dim(x, 0, 1, axis=0), typeof(x).shape[1:]) for x in (d, du, b)]

    def eliminate(pivot: Any, equation: Any) -> Any:
        (p, q, right), (low, middle, high, given) = pivot, equation
        swaps = gt(absolute(low), absolute(p))
        zero = like(p, 0)
        smaller, larger = where_else(swaps, p, low), where_else(swaps, low, p)
        nothing = eq(larger, zero)
        factor = where_else(nothing, zero, div(smaller, where_else(nothing, like(p, 1), larger)))
        kept = (
            larger,
            where_else(swaps, middle, q),
            where_else(swaps, high, zero),
            _where_rows(swaps, given, right),
        )
        rest = (
            where_else(swaps, sub(q, mul(factor, middle)), sub(middle, mul(factor, q))),
            where_else(swaps, neg(mul(factor, high)), high),
            sub(
                _where_rows(swaps, right, given),
                mul(_to_rows(factor, given), _where_rows(swaps, given, right)),
            ),
        )
        return rest, kept

    last, kept = scan(eliminate, tuple(start), tuple(after))
    ends = (last[0], last[1], like(last[1], 0), last[2])
    pivots, second, third, right = (
        concatenate([x, _one_more(y)], 0) for x, y in zip(kept, ends, strict=True)
    )
    size = absolute(pivots)
    least = full((), float(dtypes.finfo(dtype).eps), typeof(size).dtype)
    is_zero = eq(size, like(size, 0))
    if perturb_singular:
        largest = reduce_max(size, (0,))
        largest = where_else(gt(largest, like(largest, 0)), largest, like(largest, 1))
        small = mul(largest, broadcast_to(least, typeof(largest).shape, ()))
        small = broadcast_to(small, typeof(size).shape, tuple(range(1, typeof(size).ndim)))
        pivots = where_else(is_zero, convert_element_type(small, dtype), pivots)

    def substitute(found: Any, equation: Any) -> Any:
        (next_one, next_two), (p, q, r, given) = found, equation
        x = sub(given, add(mul(_to_rows(q, given), next_one), mul(_to_rows(r, given), next_two)))
        x = div(x, _to_rows(p, given))
        return (x, next_one), x

    nothing = like(start[2], 0)
    _, x = scan(substitute, (nothing, nothing), (pivots, second, third, right), reverse=True)
    if not perturb_singular:
        singular = reduce_max(convert_element_type(is_zero, np.int32), (0,))
        bad = gt(singular, like(singular, 0))
        whole = broadcast_to(bad, typeof(x).shape, tuple(range(1, n_batch + 1)))
        x = where_else(whole, like(x, np.nan), x)
    return transpose(x, (*range(1, n_batch + 1), 0, n_batch + 1))


def _one_more(x: Array) -> Any:
    return broadcast_to(x, (1, *typeof(x).shape), tuple(range(1, typeof(x).ndim + 1)))


def _to_rows(x: Array, like_rows: Array) -> Any:
    """A number for each matrix as a row of numbers."""
    return broadcast_to(x, typeof(like_rows).shape, tuple(range(typeof(x).ndim)))


def _where_rows(mask: Array, x: Array, y: Array) -> Any:
    return where_else(_to_rows(mask, x), x, y)
