"""The places of greatest and least elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import dialects
from teucer._core.cost import Cost, Work, of_operand
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._devices.partition import Labels, every, kept
from teucer._lower import hlo
from teucer.lax._identities import highest, lowest
from teucer.lax._shapes import bumped

if TYPE_CHECKING:
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["argmax", "argmax_p", "argmin", "argmin_p"]


@final
class ArgExtreme(Primitive):
    """The place of the greatest or least element along an axis: the first of equal ones, the first
    NaN if there is one.

    (C1) axes is one axis of x.  (C2) it is not empty.  (C3) index_dtype is an integer dtype.  (C4)
    x is ordered.
    """

    __slots__ = ()

    def __init__(self, name: str, direction: str, start: Callable[[Any], Any]) -> None:
        self.name, self.direction, self.start = name, direction, start
        self.cost = Cost(operations=of_operand, work=Work.EXTREMUM, decides=name.upper())

    def types(self, x: ShapedArray, *, axes: Sequence[int], index_dtype: DTypeLike) -> Any:
        (axis,) = axes
        if not 0 <= axis < x.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
        if not dtypes.issubdtype(index_dtype, np.integer):
            raise TypeError(f"index_dtype must be an integer type, but got {np.dtype(index_dtype)}")
        if type(x.shape[axis]) is int and x.shape[axis] < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={x.shape} axis={axis}"
            )
        if dtypes.issubdtype(x.dtype, np.complexfloating):
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype}. Accepted dtypes are subtypes of "
                "integer, floating, bool."
            )
        return (ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], index_dtype),)

    def shard(self, x: ShapedArray, *, axes: Sequence[int], **params: object) -> Any:
        return Labels([every(x)], [kept(x, axes)])

    def lower(self, ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: DTypeLike) -> Any:
        places = hlo.iota(ctx, ShapedArray(x.shape, index_dtype), axes[0])
        inits = [ctx.constant(self.start(x.dtype), x.dtype), ctx.constant(0, index_dtype)]
        floating = dtypes.issubdtype(x.dtype, np.floating)
        # In order, of two NaNs the first is a. XLA knows this form on the CPU, and makes one loop
        # of it and of the greatest element itself.
        in_order = ctx.target.reduces_in_order

        def body(a: Any, i: Any, b: Any, j: Any) -> Any:
            def both(p: Any, q: Any) -> Any:
                return hlo.elementwise(ctx, "and", p, q)

            def either(p: Any, q: Any) -> Any:
                return hlo.elementwise(ctx, "or", p, q)

            better, tie = hlo.compare(ctx, a, b, self.direction), hlo.compare(ctx, a, b, "EQ")
            if floating and in_order:
                better = either(better, hlo.compare(ctx, a, a, "NE"))
            elif floating:
                a_nan, b_nan = hlo.compare(ctx, a, a, "NE"), hlo.compare(ctx, b, b, "NE")
                better = either(better, both(a_nan, hlo.compare(ctx, b, b, "EQ")))
                tie = either(tie, both(a_nan, b_nan))
            first = either(better, both(tie, hlo.compare(ctx, i, j, "LT")))
            value = better if in_order else either(better, tie)
            return hlo.select(ctx, value, a, b), hlo.select(ctx, first, i, j)

        return (hlo.reduce(ctx, [x, places], inits, axes, body)[1],)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        return outs, (typeof(outs[0]).zero,)

    def batch(
        self,
        axis: object,
        args: Sequence[Array],
        dims: Sequence[int],
        *,
        axes: Sequence[int],
        index_dtype: DTypeLike,
    ) -> Any:
        (dim,) = dims
        outs = self.call(*args, axes=bumped(axes, dim), index_dtype=index_dtype)
        return outs, (dim - (axes[0] < dim),)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[Array],
        *,
        axes: Sequence[int],
        index_dtype: DTypeLike,
    ) -> Any:
        (x,), (aval,) = args, avals
        if sizes.may_be_empty(aval.shape[axes[0]]):
            sizes.refuse("the axis may be empty, and then there is no such element")
        # The first of equal elements counts, and there is none before the first of the array.
        return self.call(
            sizes.mask(x, aval, self.start(aval.dtype), axes), axes=axes, index_dtype=index_dtype
        )


argmax_p = ArgExtreme("argmax", "GT", lowest)
argmin_p = ArgExtreme("argmin", "LT", highest)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The place of the greatest element along an axis: the first of equal ones, or the first NaN.

    Raises ValueError if the axis is out of bounds or empty, TypeError if index_dtype is not an
    integer dtype.

    >>> argmax(np.float32([1, 3, 2]), 0, np.int32)
    Array(1, dtype=int32)
    """
    return _arg(argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The place of the least element along an axis: the first of equal ones, or the first NaN.

    >>> argmin(np.float32([1, 3, 2]), 0, np.int32)
    Array(0, dtype=int32)
    """
    return _arg(argmin_p, operand, axis, index_dtype)


def _arg(primitive: Primitive, operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Any:
    kind = dtypes.check_user_dtype_supported(index_dtype, primitive.name)
    return primitive.call(operand, axes=(operator.index(axis),), index_dtype=kind)[0]
