"""Products of matrices on the CPU.

Those for which XLA has slow code are rewritten into products with fast code.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from teucer._base import dtypes
from teucer._dimensions.dimensions import is_constant
from teucer._hlo.contractions import roles_of
from teucer._lower import hlo
from teucer._targets.cpu import constants

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Axes
    from teucer._lower.context import Context
    from teucer._lower.value import Value


# Axes of the left and of the right operand, which go together.
Pairs: TypeAlias = "tuple[Axes, Axes]"
# The axes that are summed over, and the axes of the batch.
Numbers: TypeAlias = "tuple[Pairs, Pairs]"
# Stands for an operand where only its type is needed: a value, or its type.
Operand: TypeAlias = "Value | ShapedArray"


def dot_general(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    contract: Pairs,
    batch: Pairs,
    aval: ShapedArray,
    options: str,
) -> Any:
    """As `hlo.dot_general.plain`."""
    dimension_numbers = contract, batch
    if aval.dtype == np.float32 and _are_many_small(lhs, rhs, dimension_numbers):
        return _element_by_element(ctx, lhs, rhs, dimension_numbers)
    if gains_by_rows(lhs, rhs, dimension_numbers):
        left, _ = roles_of((len(lhs.shape), len(rhs.shape)), dimension_numbers)
        # XLA would make a product by columns of it again.
        (lhs,) = hlo.optimization_barrier(
            ctx, [hlo.transpose(ctx, lhs, (*left.batch, *left.kept, *left.contract))]
        )
        n = len(lhs.shape)
        contract, batch = (
            (range(n - len(contract[0]), n), contract[1]),
            (range(len(batch[0])), batch[1]),
        )
    return hlo.dot_general.plain(ctx, lhs, rhs, contract, batch, aval, options)


def _are_many_small(lhs: Operand, rhs: Operand, dimension_numbers: Numbers) -> bool:
    left, right = roles_of((len(lhs.shape), len(rhs.shape)), dimension_numbers)
    return (
        lhs.dtype == rhs.dtype == np.float32
        and len(left.kept) == len(left.contract) == len(right.kept) == 1
        and is_constant((*lhs.shape, *rhs.shape))
        and math.prod(lhs.shape[i] for i in left.batch) >= constants.SMALL_MANY
        and lhs.shape[left.kept[0]] in constants.SMALL_ROWS
        and lhs.shape[left.contract[0]] in constants.SMALL_ROWS
        and rhs.shape[right.kept[0]] in constants.SMALL_COLUMNS
    )


def _element_by_element(ctx: Context, lhs: Value, rhs: Value, dimension_numbers: Numbers) -> Any:
    """The products of matrices as products of elements, which are summed."""
    left, right = roles_of((len(lhs.shape), len(rhs.shape)), dimension_numbers)
    lhs = hlo.transpose(ctx, lhs, (*left.batch, *left.kept, *left.contract))
    rhs = hlo.transpose(ctx, rhs, (*right.batch, *right.contract, *right.kept))
    n = len(left.batch)
    shape = (*lhs.shape, rhs.shape[-1])
    products = hlo.elementwise(
        ctx,
        "multiply",
        hlo.broadcast_in_dim(ctx, lhs, shape, range(n + 2)),
        hlo.broadcast_in_dim(ctx, rhs, shape, (*range(n), n + 1, n + 2)),
    )
    return hlo.reduce(
        ctx,
        [products],
        [ctx.constant(0, lhs.dtype)],
        (n + 1,),
        lambda a, b: (hlo.elementwise(ctx, "add", a, b),),
    )[0]


def gains_by_rows(lhs: Operand, rhs: Operand, dimension_numbers: Numbers) -> bool:
    """Whether on CPU the left operand, which lies by columns, is worth a copy that lies by rows.

    XLA gives YNNPACK the products whose left operand lies by rows, and the others to Eigen, which
    takes up to 10 times longer.
    """
    left, right = roles_of((len(lhs.shape), len(rhs.shape)), dimension_numbers)
    if (
        lhs.dtype != rhs.dtype
        or not dtypes.issubdtype(lhs.dtype, np.floating)
        or dtypes.bit_width(lhs.dtype) < 16
        or (*left.batch, *left.contract, *left.kept) != tuple(range(len(lhs.shape)))
        or not is_constant((*lhs.shape, *rhs.shape))
    ):
        return False
    many, sums, rows = (math.prod(lhs.shape[i] for i in axes) for axes in left)
    columns = math.prod(rhs.shape[i] for i in right.kept)
    if many == 0 or min(sums, rows, columns) < 2:
        return False
    if many == 1:
        return (
            sums * rows * columns >= constants.ROWS_LEAST
            and (sums <= constants.ROWS_SHORT or min(rows, columns) <= constants.ROWS_NARROW)
            and bool(sums**2 <= constants.ROWS_LONG**2 * rows * columns)
        )
    return not constants.ROWS_SMALL < sums * rows * columns < constants.ROWS_LARGE
