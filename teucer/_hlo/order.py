"""Floats as integers of the same order.

Processors that take subnormal numbers for zeros do so where they compare floats, but not where they
compare integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from teucer._core.types import ShapedArray
from teucer._lower import hlo

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value

DType: TypeAlias = "np.dtype[Any]"
# Where NaNs stand among integers of the order of floats.
Nans: TypeAlias = Literal["first", "last", "by sign"]


def integers(dtype: DType, kind: Literal["int", "uint"] = "int") -> DType:
    """The integers as wide as floats of a dtype."""
    return np.dtype(f"{kind}{8 * dtype.itemsize}")


def bits(ctx: Context, x: Value, kind: Literal["int", "uint"] = "int") -> Value:
    """The bits of floats."""
    return hlo.bitcast_convert(ctx, x, ShapedArray(x.shape, integers(x.dtype, kind)))


def infinity(dtype: DType) -> int:
    """The bits of infinity. Without its sign a NaN has greater ones."""
    return int(np.array(np.inf, dtype).view(integers(dtype)))


def most(dtype: DType) -> int:
    """All bits of floats but the sign."""
    return int(np.iinfo(integers(dtype)).max)


def keys(ctx: Context, x: Value, *, nan: Nans = "by sign") -> Value:
    """Integers of the order of floats, the same for both zeros.

    nan: where NaNs stand: all of them before or behind the numbers, as equals, or each at the end
    that its sign says.
    """
    return ordered(ctx, bits(ctx, x), x.dtype, nan=nan)


def ordered(ctx: Context, b: Value, dtype: DType, *, nan: Nans = "by sign") -> Value:
    """`keys` of floats of a dtype, of their bits."""
    least = -most(dtype) - 1
    # Of negative floats the greater has the lesser bits.
    turned = hlo.elementwise(ctx, "subtract", hlo.splat(ctx, least, b.aval), b)
    found = hlo.select(ctx, hlo.compare(ctx, b, hlo.splat(ctx, 0, b.aval), "LT"), turned, b)
    if nan == "by sign":
        return found
    size = hlo.elementwise(ctx, "and", b, hlo.splat(ctx, most(dtype), b.aval))
    is_nan = hlo.compare(ctx, size, hlo.splat(ctx, infinity(dtype), b.aval), "GT")
    end = least if nan == "first" else most(dtype)
    return hlo.select(ctx, is_nan, hlo.splat(ctx, end, b.aval), found)
