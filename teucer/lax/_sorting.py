"""Order: sort, the greatest k elements, and their approximate kin."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final, overload

import numpy as np

from teucer._base import dtypes, errors
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Subnormals, Work
from teucer._core.primitive import Primitive
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices.partition import Labels, whole
from teucer._dimensions.dimensions import as_size, bounds
from teucer._hlo import order, rare_hlo
from teucer._lower import hlo
from teucer.lax import _structure
from teucer.lax._elementwise import select
from teucer.lax._identities import lowest
from teucer.lax._indexing.gather import gather_p
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode
from teucer.lax._shapes import broadcasted_iota, expand_dims
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import canonical_axis, full

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import ArrayLike, Arrays, Aval, Avals, Dims, Tangents, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class SortParams(TypedDict):
        dimension: int
        is_stable: bool
        num_keys: int

    class ApproxTopKParams(TypedDict):
        k: int
        reduction_dimension: int
        recall_target: float
        aggregate_to_topk: bool
        is_max_k: bool
        reduction_input_size_override: int


__all__ = [
    "approx_max_k", "approx_min_k", "approx_top_k_p", "sort", "sort_key_val", "sort_p", "top_k",
    "top_k_p",
]  # fmt: skip


def take_along(x: ArrayLike, places: Any, axis: int) -> Any:
    """result[i, j, k] = x[i, places[i, j, k], k] for axis 1, and so on; places are distinct along
    the axis and in bounds."""
    ndim = np.ndim(x)
    if 0 in np.shape(x):
        return full(np.shape(places), 0, typeof(x).dtype)
    others = tuple(i for i in range(ndim) if i != axis)
    return gather_p.call(
        x,
        expand_dims(places, (ndim,)),
        slice_sizes=(1,) * ndim,
        dimension_numbers=GatherDimensionNumbers((), (axis,), (axis,), others, others),
        fill_value=None,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        indices_are_sorted=False,
        unique_indices=True,
    )[0]


def _taken(tangents: Sequence[Any], avals: Avals, places: object, axis: int) -> tuple[Any, ...]:
    """Tangents moved to where the elements went; Zero stays Zero."""
    return tuple(
        aval.zero if type(t) is Zero else take_along(t, places, axis)
        for t, aval in zip(tangents, avals, strict=True)
    )


@final
class Sort(Primitive):
    """Arrays sorted together along an axis, by the first num_keys of them: the first decides, then
    the second, ...

    Floats are ordered as real numbers, -0 equal to 0, NaN greater than all; complex ones by real,
    then imaginary part. (C1) there is an operand, all of one shape.  (C2) dimension is an axis.
    (C3) 1 <= num_keys <= the number of operands. (C4) the operands by which is sorted are numbers
    or booleans.
    """

    __slots__ = ()
    name = "sort"
    cost = Cost(work=Work.LIBRARY, subnormals=Subnormals.MOVE)
    multiple_results = True

    def types(self, *xs: ShapedArray, dimension: int, is_stable: object, num_keys: int) -> Any:
        if any(x.shape != xs[0].shape for x in xs):
            raise TypeError(
                "Arguments to sort must have equal shapes, got: "
                f"{' '.join(str(x.shape) for x in xs)}"
            )
        canonical_axis(dimension, xs[0].ndim, "sort")
        for x in xs[:num_keys]:
            if dtypes.is_extended(x.dtype):
                raise TypeError(
                    f"sort: lt_to does not accept dtype {x.dtype.name}; values of it have no order."
                )
        return xs

    def shard(self, *xs: ShapedArray, **params: Unpack[SortParams]) -> Any:
        labels = whole(xs[0], (params["dimension"],))
        return Labels(
            [labels] * len(xs),
            [labels],
            whole="Arguments to sort must be unsharded over the sorting dimension",
        )

    def lower(self, ctx: Context, *xs: Value, **params: Unpack[SortParams]) -> Any:
        dimension = params["dimension"]
        found = ctx.target.sort(ctx, xs, dimension, params["num_keys"])
        if found is not None:
            return found
        if len(xs) == 1 and ctx.target.sorts_integers and xs[0].dtype.name in _AS_INTEGERS:
            return (_sort_as_integers(ctx, xs[0], dimension),)
        avals = [x.aval for x in xs]
        if ctx.target.sorts_integers:
            # The CPU's compiler sorts wider floats, and takes subnormal ones for zeros.
            xs = tuple([order.bits(ctx, x) if x.dtype == dtypes.bfloat16 else x for x in xs])

        def before(*pairs: Any) -> Any:
            keys = [
                part
                for i in range(params["num_keys"])
                for part in _parts(ctx, pairs[2 * i], pairs[2 * i + 1], avals[i].dtype)
            ]
            found: Any = None
            for a, b in reversed(keys):
                less = hlo.compare(ctx, a, b, "LT", _order(a))
                if found is not None:
                    tie = hlo.elementwise(
                        ctx, "and", hlo.compare(ctx, a, b, "EQ", _order(a)), found
                    )
                    less = hlo.elementwise(ctx, "or", less, tie)
                found = less
            return (found,)

        found = rare_hlo.sort(ctx, xs, dimension, params["is_stable"], before)
        return tuple(
            [
                y if y.dtype == aval.dtype else hlo.bitcast_convert(ctx, y, aval.strengthen())
                for y, aval in zip(found, avals, strict=True)
            ]
        )

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Tangents, **params: Unpack[SortParams]
    ) -> Any:
        dimension = params["dimension"]
        places = broadcasted_iota(np.int32, np.shape(primals[0]), dimension)
        *outs, places = self.call(*primals, places, **params)
        return tuple(outs), _taken(tangents, [typeof(y) for y in outs], places, dimension)

    def batch(self, axis: Axis, args: Arrays, dims: Dims, **params: Unpack[SortParams]) -> Any:
        dimension = params["dimension"]
        at = next(d for d in dims if d is not None)
        xs = [array_ops.to_axis(x, d, axis.size, at) for x, d in zip(args, dims, strict=True)]
        return self.call(*xs, **{**params, "dimension": dimension + (dimension >= at)}), (
            at,
        ) * len(xs)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[object],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        **params: Unpack[SortParams],
    ) -> Any:
        inside = sizes.inside(avals[0].shape, (params["dimension"],))
        if inside is None:
            return self.call(*args, **params)
        behind = select(
            inside, *(_structure.full(np.shape(inside), i, np.dtype(np.int32)) for i in (0, 1))
        )
        return self.call(behind, *args, **{**params, "num_keys": params["num_keys"] + 1})[1:]


_AS_INTEGERS = frozenset(["bfloat16", "float16", "float32", "float64"])


def _sort_as_integers(ctx: Context, x: Value, dimension: int) -> Any:
    """Floats sorted by their bits as integers of the same order. XLA's CPU backend has a fast path
    for integers: a third of the time. Nothing tells equal elements apart but the sign of zero: -0
    comes before 0."""
    bits = order.bits(ctx, x)
    aval, kind = bits.aval, bits.dtype
    # All NaNs become one, as bits: a select of 16-bit floats may round subnormal numbers to zero.
    is_nan = hlo.compare(ctx, x, x, "NE")
    nan = hlo.splat(ctx, int(np.array(np.nan, x.dtype).view(kind)), aval)
    bits = hlo.select(ctx, is_nan, nan, bits)

    def flipped(z: Any) -> Any:
        # Of negative floats the greater has the lesser bits: all but the sign are complemented.
        sign = hlo.elementwise(
            ctx, "shift_right_arithmetic", z, hlo.splat(ctx, 8 * kind.itemsize - 1, aval)
        )
        mask = hlo.elementwise(ctx, "and", sign, hlo.splat(ctx, np.iinfo(kind).max, aval))
        return hlo.elementwise(ctx, "xor", z, mask)

    (found,) = rare_hlo.sort(
        ctx, [flipped(bits)], dimension, False, lambda a, b: (hlo.compare(ctx, a, b, "LT"),)
    )
    return hlo.bitcast_convert(ctx, flipped(found), x.aval.strengthen())


def _order(a: Any) -> str | None:
    return "TOTALORDER" if dtypes.issubdtype(a.dtype, np.floating) else None


def _parts(ctx: Context, a: Value, b: Value, dtype: Any) -> list[tuple[Any, Any]]:
    """The pairs of scalars that decide the order of a and b, of a dtype or its bits."""
    if dtype == dtypes.bfloat16 and a.dtype != dtype:
        return [
            (order.ordered(ctx, a, dtype, nan="last"), order.ordered(ctx, b, dtype, nan="last"))
        ]
    if a.dtype.kind == "c":
        part = np.finfo(a.dtype).dtype
        halves = [
            tuple(ctx.op1(f"stablehlo.{name}", (z,), ShapedArray((), part)) for z in (a, b))
            for name in ("real", "imag")
        ]
        return [(_canonical(ctx, p), _canonical(ctx, q)) for p, q in halves]
    if dtypes.issubdtype(a.dtype, np.floating):
        return [(_canonical(ctx, a), _canonical(ctx, b))]
    return [(a, b)]


def _canonical(ctx: Context, a: Value) -> Any:
    """A float with one zero and one NaN, in a form of comparison that XLA knows; or an integer of
    that order, where it takes subnormal floats for zeros."""
    if ctx.target.sorts_integers and a.dtype.name in _AS_INTEGERS:
        return order.keys(ctx, a, nan="last")
    zero, nan = ctx.constant(0, a.dtype), ctx.constant(np.nan, a.dtype)
    unsigned = hlo.select(ctx, hlo.compare(ctx, a, zero, "EQ"), zero, a)
    return hlo.select(ctx, hlo.compare(ctx, a, a, "NE"), nan, unsigned)


@final
class TopK(Primitive):
    """The k greatest elements along an axis in descending order, and their places; NaN counts as
    greatest.

    (C1) axis is one of x.  (C2) 0 <= k <= its size.  (C3) x is not complex.
    """

    __slots__ = ()
    name = "top_k"
    multiple_results = True
    cost = Cost(subnormals=Subnormals.READ)

    def types(self, x: ShapedArray, *, k: int, axis: int) -> Any:
        canonical_axis(axis, x.ndim, "top_k")
        if k < 0:
            raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
        if isinstance(x.dtype, dtypes.ExtendedDType):
            raise TypeError(f"top_k does not order typed keys.\n    operand: {x.str_short(True)}")
        if dtypes.issubdtype(x.dtype, np.complexfloating):
            raise ValueError("top_k is not compatible with complex inputs.")
        if k > x.shape[axis]:
            raise ValueError(
                f"k argument to top_k must be no larger than size along axis; got {k=} with "
                f"shape={list(x.shape)} and {axis=}"
            )
        if bounds(x.shape[axis])[0] > 2**31:
            raise ValueError(
                "top_k returns int32 indices, which will overflow for an axis of size "
                f"{x.shape[axis]}.\n  Take the greatest of parts of the axis first."
            )
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return (ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, np.dtype(np.int32)))

    def shard(self, x: ShapedArray, *, axis: int, **params: object) -> Any:
        return Labels([whole(x, (axis,))], [whole(x, (axis,))])

    def lower(self, ctx: Context, x: Value, *, k: int, axis: int) -> Any:
        values, places = ctx.avals_out
        if 0 in values.shape:
            return hlo.splat(ctx, 0, values.strengthen()), hlo.splat(ctx, 0, places)
        last = len(x.shape) - 1
        order = list(range(len(x.shape)))
        order[axis], order[last] = last, axis
        x = hlo.transpose(ctx, x, order)
        shape = (*x.shape[:-1], k)
        found = rare_hlo.top_k(
            ctx, x, k, [ShapedArray(shape, x.dtype), ShapedArray(shape, places.dtype)]
        )
        return tuple(hlo.transpose(ctx, y, order) for y in found)

    def jvp(self, primals: Arrays, tangents: Sequence[object], *, k: int, axis: int) -> Any:
        outs = self.call(*primals, k=k, axis=axis)
        return outs, (*_taken(tangents, [typeof(outs[0])], outs[1], axis), typeof(outs[1]).zero)

    def batch(
        self, mapped: Axis, args: Sequence[Array], dims: Sequence[int], /, *, k: int, axis: int
    ) -> Any:
        return self.call(*args, k=k, axis=axis + (axis >= dims[0])), (*dims, *dims)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[object],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        *,
        k: int,
        axis: int,
    ) -> Any:
        # Of equal elements the first come first, and k are in the array.
        return self.call(
            sizes.mask(args[0], avals[0], lowest(avals[0].dtype), (axis,)),
            k=sizes.bounded(k),
            axis=axis,
        )


@final
class ApproxTopK(Primitive):
    """The k greatest or least floats along an axis and their places, where some may be missed. Here
    none is.

    (C1) x is real floating.  (C2) reduction_dimension is an axis of x.  (C3) 0 <= k <= its size.
    (C4) 0 < recall_target <= 1.
    """

    __slots__ = ()
    name = "approx_top_k"
    multiple_results = True

    def types(
        self,
        x: ShapedArray,
        *,
        k: int,
        reduction_dimension: int,
        recall_target: Any,
        aggregate_to_topk: object,
        **params: object,
    ) -> Any:
        if k <= 0:
            raise ValueError(f"k must be positive, got {k}")
        if not dtypes.issubdtype(x.dtype, np.floating):
            raise ValueError(f"operand must be a floating type\n    operand: {x.str_short(True)}")
        axis = canonical_axis(reduction_dimension, x.ndim, "approx_top_k")
        if k > x.shape[axis]:
            raise ValueError(
                f"k must be smaller than the size of reduction_dim {x.shape[axis]}, got {k}"
            )
        if not 0 < recall_target <= 1:
            raise ValueError(
                f"approx_top_k: recall_target must be above 0 and at most 1, got {recall_target}."
            )
        size = k if aggregate_to_topk else x.shape[axis]
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        return (ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, np.dtype(np.int32)))

    def shard(self, x: ShapedArray, **params: Unpack[ApproxTopKParams]) -> Any:
        labels = whole(x, (params["reduction_dimension"] % x.ndim,))
        return Labels([labels], [labels])

    def lower(self, ctx: Context, x: Value, **params: Unpack[ApproxTopKParams]) -> Any:
        axis = canonical_axis(params["reduction_dimension"], len(x.shape), "approx_top_k")
        size = ctx.avals_out[0].shape[axis]

        def exact(x: ArrayLike) -> Any:
            if params["is_max_k"]:
                return top_k_p.call(x, k=size, axis=axis)
            places = broadcasted_iota(np.int32, np.shape(x), axis)
            both = sort_p.call(x, places, dimension=axis, is_stable=True, num_keys=1)
            return tuple(slice_in_dim(y, 0, size, axis=axis) for y in both)

        return ctx.trace(exact, x)

    def jvp(self, primals: Arrays, tangents: Values, **params: Unpack[ApproxTopKParams]) -> Any:
        outs = self.call(*primals, **params)
        axis = canonical_axis(params["reduction_dimension"], np.ndim(primals[0]), "approx_top_k")
        return outs, (*_taken(tangents, [typeof(outs[0])], outs[1], axis), typeof(outs[1]).zero)

    def batch(
        self, axis: Axis, args: Arrays, dims: Sequence[int], **params: Unpack[ApproxTopKParams]
    ) -> Any:
        at = canonical_axis(params["reduction_dimension"], np.ndim(args[0]) - 1, "approx_top_k")
        return self.call(*args, **{**params, "reduction_dimension": at + (at >= dims[0])}), (
            *dims,
            *dims,
        )

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[object],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        **params: Unpack[ApproxTopKParams],
    ) -> Any:
        # As TopK; NaN is behind all floats that are sorted, and of NaNs the first come first.
        x = sizes.mask(
            args[0],
            avals[0],
            -np.inf if params["is_max_k"] else np.nan,
            (canonical_axis(params["reduction_dimension"], avals[0].ndim),),
        )
        return self.call(x, **{**params, "k": sizes.bounded(params["k"])})


sort_p = Sort()
top_k_p = TopK()
approx_top_k_p = ApproxTopK()


@overload
def sort(
    operand: ArrayLike, dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> Array: ...
@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> tuple[Array, ...]: ...
def sort(
    operand: ArrayLike | Sequence[ArrayLike],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Array | tuple[Array, ...]:
    """An array, or arrays together, in ascending order along an axis.

    operand: an array or a sequence of arrays of one shape; the first num_keys of them decide the
    order. -0 is equal to 0, and NaN greater than all. Complex numbers are ordered by their real
    parts, then by their imaginary parts. Raises TypeError if shapes differ, ValueError if the axis
    or num_keys is out of range.

    >>> sort(np.float32([3, 1, 2]))
    Array([1., 2., 3.], dtype=float32)
    """
    xs = tuple(operand) if isinstance(operand, list | tuple) else (operand,)
    if not xs:
        raise TypeError("Sort requires at least one operand")
    if not 1 <= num_keys <= len(xs):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(xs)}")
    outs = sort_p.call(
        *xs,
        dimension=canonical_axis(dimension, np.ndim(xs[0]), "sort"),
        is_stable=bool(is_stable),
        num_keys=operator.index(num_keys),
    )
    return outs if isinstance(operand, list | tuple) else outs[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """keys in ascending order along an axis, and values in the same order.

    >>> sort_key_val(np.int32([3, 1]), np.int32([7, 8]))
    (Array([1, 3], dtype=int32), Array([8, 7], dtype=int32))
    """
    sorted_keys, moved = sort((keys, values), dimension, is_stable, 1)
    return sorted_keys, moved


def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> list[Array]:
    """The k greatest elements along an axis in descending order, and their places; of equal ones
    the first come first.

    NaN counts as greatest, and 0 as greater than -0. is_stable: if False, equal elements may come
    in any order; here they come in theirs all the same.
    Raises ValueError if k is negative or larger than the axis, or elements are complex.

    >>> top_k(np.float32([1, 3, 2]), 2)
    [Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    at = canonical_axis(axis, np.ndim(operand), "top_k")
    if isinstance(k, Tracer) and k.concrete() is None:
        raise errors.ConcretizationTypeError(
            k, "It arose in the argument k of top_k, which sets the size of the result."
        )
    return list(top_k_p.call(operand, k=as_size(k), axis=at))


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k greatest floats along an axis in descending order, and their places; recall_target of
    them at least.

    aggregate_to_topk: whether to return k, or all candidates. Every element is a candidate here, so
    that none is missed. Raises ValueError if elements are not real floats, or k or the axis is out
    of range.

    >>> approx_max_k(np.float32([1, 3, 2]), 1)
    [Array([3.], dtype=float32), Array([1], dtype=int32)]
    """
    return _approx(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        True,
    )


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """As `approx_max_k`, the k least floats in ascending order.

    >>> approx_min_k(np.float32([1, 3, 2]), 1)
    [Array([1.], dtype=float32), Array([0], dtype=int32)]
    """
    return _approx(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        False,
    )


def _approx(
    operand: ArrayLike,
    k: int,
    axis: int,
    recall_target: float,
    override: int,
    aggregate: bool,
    is_max: bool,
) -> Any:
    return list(
        approx_top_k_p.call(
            operand,
            k=as_size(k),
            reduction_dimension=operator.index(axis),
            recall_target=float(recall_target),
            is_max_k=is_max,
            aggregate_to_topk=bool(aggregate),
            reduction_input_size_override=operator.index(override),
        )
    )
