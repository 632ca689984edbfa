"""Factorizations and solutions of small matrices, written out (docs/performance.md, "Small
matrices").

A library is called for one matrix after another, which takes longer than the arithmetic. Here each
operation is one of all matrices. The algorithms are LAPACK's, pivots included, so errors are the
same, and a singular matrix gives the same result. Inside, matrices stand in front: (rows, columns,
...).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import array_ops
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import AnyArray, Array
from teucer._dimensions.dimensions import is_constant
from teucer.lax._arithmetic import abs as absolute
from teucer.lax._arithmetic import add, bitwise_and, conj, div, eq, gt, imag, mul, neg, real, sub
from teucer.lax._control.misc import optimization_barrier
from teucer.lax._elementwise import sqrt
from teucer.lax._joining import concatenate
from teucer.lax._selection import select
from teucer.lax._shapes import broadcast_in_dim
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import convert_element_type, full, reshape, transpose
from teucer.lax.linalg import _lapack as lapack
from teucer.lax.linalg._matrices import conjugate, matmul, matrix_transpose

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["cholesky", "eliminated", "has_small", "is_small", "lu", "triangular"]

# The most rows of matrices that are written out; and of a single matrix, for which LAPACK compiles
# sooner and takes as long.
MOST, MOST_ALONE = 4, 3
# Of other floats nothing has factorizations, and errors say so.
DTYPES = tuple(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def is_small(ctx: Context, x: Value) -> bool:
    """Whether the square matrices of x are written out."""
    *batch, m, n = x.shape
    alone = math.prod(batch) == 1 and ctx.target.kernels.lapack
    return (
        is_constant((m, n))
        and m == n
        and 0 < n <= (MOST_ALONE if alone else MOST)
        and x.dtype in DTYPES
    )


def has_small(x: Array) -> bool:
    """Whether `eliminated` takes the square matrices of x."""
    aval = typeof(x)
    n = aval.shape[-1]
    return is_constant((n,)) and 0 < n <= MOST and aval.dtype in DTYPES


def _in_front(x: Array) -> Any:
    """Matrices with their rows and columns in front."""
    n = typeof(x).ndim
    return transpose(x, (n - 2, n - 1, *range(n - 2)))


def _behind(x: Array) -> Any:
    n = typeof(x).ndim
    return transpose(x, (*range(2, n), 0, 1))


def _row(x: Array, i: int) -> Any:
    return reshape(slice_in_dim(x, i, i + 1), typeof(x).shape[1:])


def _part(row: Array, start: int, stop: int | None = None) -> Any:
    return slice_in_dim(row, start, typeof(row).shape[0] if stop is None else stop)


def _times(x: Array, row: Array) -> Any:
    """A number for each matrix, of shape (1, ...), times a row."""
    return mul(_spread(x, row), row)


def _spread(x: Array, row: Array) -> Any:
    shape = typeof(row).shape
    return broadcast_in_dim(reshape(x, shape[1:]), shape, tuple(range(1, len(shape))))


def _stacked(rows: Sequence[Any]) -> Any:
    return concatenate([reshape(row, (1, *typeof(row).shape)) for row in rows], 0)


def _magnitude(x: Array) -> Any:
    """The size by which LAPACK compares pivots."""
    if typeof(x).dtype.kind == "c":
        return add(absolute(real(x)), absolute(imag(x)))
    return absolute(x)


def _held(rows: Sequence[Any]) -> list[Any]:
    """Rows that are computed once: within one loop XLA would compute them for each use."""
    return list(optimization_barrier(tuple(rows)))


def _with_pivot_first(rows: list[Any], k: int) -> tuple[list[Any], Any]:
    """Rows from k on exchanged so that column k has its greatest element in row k, and which row
    that was: the first of equal ones."""
    best = _magnitude(_part(rows[k], k, k + 1))
    place = full(typeof(best).shape, k, np.dtype(np.int32))
    for i in range(k + 1, len(rows)):
        size = _magnitude(_part(rows[i], k, k + 1))
        greater = gt(size, best)
        best = select(greater, size, best)
        place = select(greater, full(typeof(best).shape, i, np.dtype(np.int32)), place)
    first, chosen = rows[k], rows[k]
    exchanged = list(rows)
    for i in range(k + 1, len(rows)):
        here = _spread(eq(place, full(typeof(place).shape, i, np.dtype(np.int32))), first)
        chosen = select(here, rows[i], chosen)
        exchanged[i] = select(here, first, rows[i])
    exchanged[k] = chosen
    return exchanged, place


def _reduced(row: Any, pivot: Any, k: int) -> tuple[Any, Any]:
    """(the factor by which the pivot's row is taken from a row, the row's elements behind column k
    after that)."""
    head, top = _part(row, k, k + 1), _part(pivot, k, k + 1)
    zero = full(typeof(head).shape, 0, typeof(head).dtype)
    # Where the pivot is 0, so are the elements below, and nothing is done.
    factor = select(eq(top, zero), head, div(head, top))
    rest = _part(pivot, k + 1)
    return factor, sub(_part(row, k + 1), _times(factor, rest))


def lu(x: Array) -> tuple[Any, Any, Any]:
    """As `lax.linalg.lu`, of square matrices."""
    a = _in_front(x)
    n = typeof(a).shape[0]
    rows = [_row(a, i) for i in range(n)]
    shape = typeof(rows[0]).shape[1:]
    order = [full((1, *shape), i, np.dtype(np.int32)) for i in range(n)]
    pivots = []
    for k in range(n):
        rows, place = _with_pivot_first(rows, k)
        pivots.append(place)
        first = chosen = order[k]
        for i in range(k + 1, n):
            here = eq(place, full(typeof(place).shape, i, np.dtype(np.int32)))
            chosen, order[i] = select(here, order[i], chosen), select(here, first, order[i])
        order[k] = chosen
        rows = _held(rows)
        for i in range(k + 1, n):
            factor, rest = _reduced(rows[i], rows[k], k)
            rows[i] = concatenate([_part(rows[i], 0, k), factor, rest], 0)
    last = len(shape)
    turned = (*range(1, last + 1), 0)
    return (
        _behind(_stacked(_held(rows))),
        transpose(concatenate(pivots, 0), turned),
        transpose(concatenate(order, 0), turned),
    )


def _eliminated(a: Array, b: Array) -> Any:
    """The solution of a x = b, by Gaussian elimination with partial pivoting."""
    a, b = _in_front(a), _in_front(b)
    n = typeof(a).shape[0]
    both = concatenate([a, b], 1)
    rows = _held([_row(both, i) for i in range(n)])
    for k in range(n - 1):
        rows, _ = _with_pivot_first(rows, k)
        for i in range(k + 1, n):
            _, rest = _reduced(rows[i], rows[k], k)
            rows[i] = concatenate([_part(rows[i], 0, k + 1), rest], 0)
        rows = _held(rows)
    upper = [[_part(row, j, j + 1) for j in range(n)] for row in rows]
    return _behind(_substituted(upper, [_part(row, n) for row in rows], backwards=True))


def _substituted(
    a: Sequence[Sequence[Any]], b: Sequence[Any], *, backwards: bool, unit: bool = False
) -> Any:
    """Solve a triangular system by substitution; the rows of the solution. a: its elements. b: the
    rows of the right side."""
    n = len(b)
    found: dict[int, Any] = {}
    for i in reversed(range(n)) if backwards else range(n):
        rest = b[i]
        for j, x in found.items():
            rest = sub(rest, _times(a[i][j], x))
        found[i] = rest if unit else div(rest, _spread(a[i][i], rest))
    return _stacked([found[i] for i in range(n)])


@final
class Eliminated(lapack.MatrixPrimitive):
    """The solution of a x = b for small square matrices.

    (C1) a is square, of at most `MOST` rows.  (C2) b has as many rows.  (C3) dtypes are equal,
    floating or complex, of 32 bits or more.
    """

    __slots__ = ()
    name = "eliminated"
    cost = lapack.cubes(2 / 3)

    def types(self, a: ShapedArray, b: ShapedArray) -> Any:
        lapack.check_rank("solve", (a, 2), (b, 2))
        lapack.check_inexact("solve", a, b)
        lapack.check_same_dtype("solve", a, b)
        return (b.strengthen(),)

    def lower(self, ctx: Context, a: Value, b: Value) -> Any:
        return ctx.trace(lambda a, b: (_eliminated(a, b),), a, b)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        # a x = b, so a dx = db - da x.
        (a, _), (ta, tb) = primals, tangents
        outs = self.call(*primals)
        change = tb if type(ta) is Zero else array_ops.add_cotangents(tb, neg(matmul(ta, outs[0])))
        if type(change) is Zero:
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(a, change)

    def transpose(self, cts: Sequence[Any], a: Any, b: Any) -> Any:
        return None, self.call(matrix_transpose(a), *cts)[0]


eliminated_p = Eliminated()


def eliminated(a: AnyArray, b: AnyArray) -> Any:
    """The solution x of a x = b for square matrices of at most `MOST` rows, by Gaussian elimination
    with partial pivoting: one equation of the program, and no calls of a library."""
    return eliminated_p.call(a, b)[0]


def triangular(
    a: Array,
    b: Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """As `lax.linalg.triangular_solve`."""
    if conjugate_a:
        a = conjugate(a)
    if not left_side:  # x a = b, so a^T x^T = b^T
        b, transpose_a = matrix_transpose(b), not transpose_a
    if transpose_a:
        a, lower = matrix_transpose(a), not lower
    a, b = _in_front(a), _in_front(b)
    n = typeof(a).shape[0]
    elements = [[_part(_row(a, i), j, j + 1) for j in range(n)] for i in range(n)]
    x = _behind(
        _substituted(
            elements, [_row(b, i) for i in range(n)], backwards=not lower, unit=unit_diagonal
        )
    )
    return x if left_side else matrix_transpose(x)


def cholesky(x: Array) -> Any:
    """The lower triangular factor of Hermitian matrices, whose lower triangles are read; NaN for a
    matrix that is not positive definite."""
    a = _in_front(x)
    n = typeof(a).shape[0]
    e = [[_part(_row(a, i), j, j + 1) for j in range(i + 1)] for i in range(n)]
    dtype = typeof(a).dtype
    is_complex = dtype.kind == "c"
    zero = full(typeof(e[0][0]).shape, 0, dtype)
    part = typeof(real(zero) if is_complex else zero).dtype
    none, nan = (full(typeof(zero).shape, value, part) for value in (0, np.nan))
    positive: Any = None
    for k in range(n):
        pivot = real(e[k][k]) if is_complex else e[k][k]
        is_positive = gt(pivot, none)
        positive = is_positive if positive is None else bitwise_and(positive, is_positive)
        root = sqrt(select(is_positive, pivot, nan))
        e[k][k] = convert_element_type(root, dtype)
        column = [div(e[i][k], e[k][k]) for i in range(k + 1, n)]
        column = _held([e[k][k], *column])
        for i in range(k, n):
            e[i][k] = column[i - k]
        for i in range(k + 1, n):
            for j in range(k + 1, i + 1):
                other = conj(e[j][k]) if is_complex else e[j][k]
                e[i][j] = sub(e[i][j], mul(e[i][k], other))
    bad = full(typeof(zero).shape, np.nan, dtype)
    rows = [
        concatenate([select(positive, e[i][j], bad) if j <= i else zero for j in range(n)], 0)
        for i in range(n)
    ]
    return _behind(_stacked(rows))
