"""One window of an array, at a place that is data.

Dynamic_slice and dynamic_update_slice, and index_take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Subnormals
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike
from teucer._devices import partition
from teucer._dimensions.dimensions import is_constant, is_symbolic
from teucer._lower import hlo
from teucer.lax import _elementwise, _structure
from teucer.lax._costs import MOVE, nothing
from teucer.lax._indexing.gather import gather, gather_p, scatter_p
from teucer.lax._indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from teucer.lax._joining import concatenate, stack, unstack
from teucer.lax._shapes import expand_dims, squeeze
from teucer.lax._slicing import of_window
from teucer.lax._structure import canonical_axis, canonical_shape

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Arrays, Aval, Dims, Size, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_slice_p",
    "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p", "index_take",
]  # fmt: skip


def _check_starts(op: str, x: ShapedArray, starts: Sequence[Any]) -> None:
    if len(starts) != x.ndim:
        raise ValueError(
            f"{op}: Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {x.shape})"
        )
    if any(s.shape for s in starts):
        raise TypeError(
            f"start_indices arguments to {op} must be scalars,  got indices {tuple(starts)}"
        )
    if any(
        not dtypes.issubdtype(s.dtype, np.integer) or s.dtype != starts[0].dtype for s in starts
    ):
        raise TypeError(
            f"index arguments to {op} must be integers of the same type, got: "
            f"{', '.join(s.dtype.name for s in starts)}"
        )


def _vector(axis: Any, starts: Sequence[object], dims: Sequence[int | None]) -> Any:
    """Scalar indices, batched or not, as a batch of index vectors."""
    return stack(
        [array_ops.to_axis(s, d, axis.size, 0) for s, d in zip(starts, dims, strict=True)], 1
    )


def _with_zero(starts: Sequence[object], at: int) -> list[Any]:
    zero = _structure.number(0, typeof(starts[0]).dtype if starts else np.int32)
    return [*starts[:at], zero, *starts[at:]]


@final
class DynamicSlice(Primitive):
    """The window of x of a given size at given places, which are clamped so that it lies within x.

    (C1) a scalar index an axis.  (C2) they have one integer dtype.  (C3) slice_sizes fit into x.
    """

    __slots__ = ()
    name = "dynamic_slice"
    linear_in = (0,)
    combines = partition.in_place
    cost = MOVE

    def types(self, x: ShapedArray, *starts: ShapedArray, slice_sizes: Sequence[int]) -> Any:
        _check_starts("dynamic_slice", x, starts)
        if len(slice_sizes) != x.ndim:
            raise TypeError(
                "dynamic_slice slice_sizes must have length equal to the number of dimensions of "
                f"the operand, got {tuple(slice_sizes)} for operand shape {x.shape}."
            )
        if not all(size <= n for size, n in zip(slice_sizes, x.shape, strict=True)):
            raise TypeError(
                "dynamic_slice: slice slice_sizes must be less than or equal to operand shape, "
                f"got slice_sizes {tuple(slice_sizes)} for operand shape {x.shape}."
            )
        if not all(size >= 0 for size in slice_sizes):
            raise TypeError(
                "dynamic_slice: slice slice_sizes must be greater than or equal to zero, got "
                f"slice_sizes of {tuple(slice_sizes)}."
            )
        return (ShapedArray(tuple(slice_sizes), x.dtype, x.weak_type),)

    def shard(self, *avals: ShapedArray, slice_sizes: Sequence[int]) -> Any:
        return of_window(partition.aligned(self, *avals), slice_sizes)

    def lower(self, ctx: Context, x: Value, *starts: Value, slice_sizes: Sequence[int]) -> Any:
        return (hlo.dynamic_slice(ctx, x, starts, slice_sizes),)

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Values, *, slice_sizes: Sequence[int]
    ) -> Any:
        outs = self.call(*primals, slice_sizes=slice_sizes)
        return outs, self.call(tangents[0], *primals[1:], slice_sizes=slice_sizes)

    def transpose(
        self, cts: Values, x: Array | Undefined, *starts: object, slice_sizes: Sequence[int]
    ) -> Any:
        zeros = _structure.zeros(x.aval.strengthen().cotangent_aval())
        return (dynamic_update_slice_p.call(zeros, *cts, *starts)[0], *(None for _ in starts))

    def batch(
        self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, *, slice_sizes: Sequence[int]
    ) -> Any:
        (x, *starts), (dim, *start_dims) = args, dims
        if dim is not None and all(d is None for d in start_dims):
            sizes = (*slice_sizes[:dim], axis.size, *slice_sizes[dim:])
            return self.call(x, *_with_zero(starts, dim), slice_sizes=sizes), (dim,)
        every = tuple(range(len(starts)))
        return gather_p.batch(
            axis,
            (x, _vector(axis, starts, start_dims)),
            (dim, 0),
            slice_sizes=tuple(slice_sizes),
            dimension_numbers=GatherDimensionNumbers(every, (), every),
            fill_value=None,
            indices_are_sorted=True,
            unique_indices=True,
            mode=GatherScatterMode.CLIP,
        )

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        *,
        slice_sizes: Sequence[Size],
    ) -> Any:
        x, *starts = args
        return (
            sizes.window(
                x, sizes.clamped(starts, avals[0].shape, slice_sizes), slice_sizes, fits=True
            ),
        )


@final
class DynamicUpdateSlice(Primitive):
    """x with the window at given places, which are clamped as for `dynamic_slice`, replaced.

    (C1) and (C2) as `dynamic_slice`.  (C3) dtypes agree.  (C4) the update has as many axes as x and
    fits into it.
    """

    __slots__ = ()
    name = "dynamic_update_slice"
    cost = Cost(operations=nothing, subnormals=Subnormals.MOVE)
    linear_in = (0, 1)
    combines = partition.in_place

    def types(self, x: ShapedArray, update: Aval, *starts: ShapedArray) -> Any:
        if x.ndim != update.ndim:
            raise TypeError(
                "dynamic_update_slice update must have the same rank as operand, got update shape "
                f"{update.shape} for operand shape {x.shape}."
            )
        _check_starts("dynamic_update_slice", x, starts)
        if not all(m <= n for m, n in zip(update.shape, x.shape, strict=True)):
            raise TypeError(
                "dynamic_update_slice update shape must be smaller than operand shape, got "
                f"update shape {update.shape} for operand shape {x.shape}."
            )
        if x.dtype != update.dtype:
            raise TypeError(
                "lax.dynamic_update_slice requires arguments to have the same dtypes, got "
                f"{x.dtype}, {update.dtype}."
            )
        return (x if update.weak_type or not x.weak_type else x.strengthen(),)

    shard = partition.alike(
        "dynamic_update_slice operand sharding must be equal to update sharding"
    )

    def lower(self, ctx: Context, x: Value, update: Value, *starts: Value) -> Any:
        if ctx.module.mesh is not None and is_constant((*x.aval.shape, *update.aval.shape)):
            # XLA's partitioner does not clamp along an axis that is divided.
            lengths = zip(x.aval.shape, update.aval.shape, strict=True)
            ends = [
                min(n - k, np.iinfo(i.dtype).max) for i, (n, k) in zip(starts, lengths, strict=True)
            ]
            starts = tuple(
                [
                    ctx.op1(
                        "stablehlo.clamp",
                        (ctx.constant(0, i.dtype), i, ctx.constant(end, i.dtype)),
                        i.aval,
                    )
                    for i, end in zip(starts, ends, strict=True)
                ]
            )
        return (hlo.dynamic_update_slice(ctx, x, update, starts),)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[object]) -> Any:
        outs = self.call(*primals)
        tx, tu = map(array_ops.instantiate, tangents[:2])
        return outs, self.call(tx, tu, *primals[2:])

    def transpose(
        self, cts: Values, x: Array | Undefined, update: Array | Undefined, *starts: object
    ) -> Any:
        (ct,) = cts
        shape = update.aval.shape if type(update) is Undefined else np.shape(update)
        ct_x = ct_update = None
        if type(x) is Undefined:
            (ct_x,) = self.call(ct, _structure.full(shape, 0, typeof(ct).dtype), *starts)
        if type(update) is Undefined:
            (ct_update,) = dynamic_slice_p.call(ct, *starts, slice_sizes=shape)
        return (ct_x, ct_update, *(None for _ in starts))

    def batch(self, axis: Axis, args: Sequence[ArrayLike], dims: Dims) -> Any:
        (x, update, *starts), (dim, update_dim, *start_dims) = args, dims
        if all(d is None for d in start_dims):
            at = update_dim if dim is None else dim
            assert at is not None
            both = [
                array_ops.to_axis(x, dim, axis.size, at),
                array_ops.to_axis(update, update_dim, axis.size, at),
            ]
            return self.call(*both, *_with_zero(starts, at)), (at,)
        every = tuple(range(len(starts)))
        return scatter_p.batch(
            axis,
            (x, _vector(axis, starts, start_dims), update),
            (dim, 0, update_dim),
            dimension_numbers=ScatterDimensionNumbers(every, (), every),
            indices_are_sorted=True,
            unique_indices=True,
            mode=GatherScatterMode.CLIP,
            update_jaxpr=None,
            update_consts=(),
        )

    @dialects.padded.rule
    def padded(self, sizes: Sizes, args: Arrays, avals: Sequence[Aval], outs: Arrays) -> Any:
        x, update, *starts = args
        starts = sizes.clamped(starts, avals[0].shape, avals[1].shape)
        inside = sizes.inside(avals[1].shape)
        if inside is not None:
            update = _elementwise.select(
                inside, update, sizes.window(x, starts, avals[1].shape, fits=True)
            )
        return (sizes.put(x, update, starts),)


dynamic_slice_p = DynamicSlice()
dynamic_update_slice_p = DynamicUpdateSlice()


def _start_indices(
    op: str, operand: ArrayLike, start_indices: Any, allowed: bool | Sequence[bool]
) -> list[Any]:
    """Start indices as scalars of one dtype of 32 bits or more, where `allowed` says for all axes
    or for each whether negative ones count from the end.
    """
    if isinstance(start_indices, list | tuple):
        starts = list(start_indices)
    else:
        if np.ndim(start_indices) != 1:
            raise TypeError(
                f"{op}: start_indices must be a sequence of scalars or an array of one axis.\n"
                f"    start_indices: {typeof(start_indices)}"
            )
        starts = list(unstack(start_indices))
    shape = np.shape(operand)
    if len(starts) != len(shape):
        raise ValueError(
            f"{op}: Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {shape})"
        )
    kinds = [typeof(s).dtype for s in starts if not isinstance(s, int)]
    kind = next((k for k in kinds), np.dtype(np.int32))
    wide = (
        np.dtype(np.int32)
        if dtypes.issubdtype(kind, np.integer) and dtypes.bit_width(kind) < 32
        else kind
    )
    from_end = [allowed] * len(starts) if isinstance(allowed, bool) else allowed
    if len(from_end) != len(starts):
        raise ValueError(
            f"{op}: allow_negative_indices needs one value for each axis.\n"
            f"    allow_negative_indices: {allowed}"
        )
    return [
        _start(s, n, kind, wide, counted)
        for s, n, counted in zip(starts, shape, from_end, strict=True)
    ]


def _start(start: ArrayLike, size: Size, kind: object, wide: Any, from_end: bool) -> Any:
    """One start index. `kind` is the dtype of those that are arrays; `wide` the dtype that they
    get."""
    if isinstance(start, int) and not isinstance(start, bool):
        if start < 0 and not from_end:
            raise ValueError(
                f"Index {start} is out of bounds for dimension {size} if "
                "allow_negative_indices=False"
            )
        static = start + size if from_end and start < 0 else start
        if is_symbolic(static):
            return _structure.convert_element_type(static, wide)
        return _structure.number(static, wide) if dtypes.issubdtype(wide, np.integer) else static
    aval = typeof(start)
    if aval.dtype != kind or aval.ndim or not dtypes.issubdtype(kind, np.integer):
        return start
    if isinstance(start, np.integer):
        return _start(int(start), size, kind, wide, from_end)
    start = _structure.convert_element_type(start, wide)
    if not from_end or dtypes.issubdtype(kind, np.unsignedinteger):
        return start
    zero, n = _structure.number(0, wide), _structure.full((), size, wide)
    return _elementwise.select(_elementwise.lt(start, zero), _elementwise.add(start, n), start)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: int | Sequence[Size],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The window of operand of size slice_sizes at start_indices, which are clamped so that it lies
    within operand.

    start_indices: a scalar an axis, or an array of them; negative ones count from the end, if
    allowed. Raises TypeError if sizes or dtypes of indices do not fit, ValueError for another
    number of indices, or a negative number where that is not allowed.

    >>> dynamic_slice(np.int32([1, 2, 3]), (5,), (2,)).tolist()
    [2, 3]
    """
    starts = _start_indices("dynamic_slice", operand, start_indices, allow_negative_indices)
    sizes = slice_sizes if isinstance(slice_sizes, Iterable) else (slice_sizes,)
    return dynamic_slice_p.call(
        operand, *starts, slice_sizes=canonical_shape(sizes, "dynamic_slice")
    )[0]


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """operand with the window at start_indices, which are clamped as by `dynamic_slice`, replaced
    by update.

    Raises TypeError if shapes or dtypes do not fit, ValueError for another number of indices.

    >>> dynamic_update_slice(np.int32([1, 2, 3]), np.int32([7]), (1,)).tolist()
    [1, 7, 3]
    """
    starts = _start_indices("dynamic_update_slice", operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.call(operand, update, *starts)[0]


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis, whole along the others.

    >>> dynamic_slice_in_dim(np.int32([1, 2, 3]), 1, 2).tolist()
    [2, 3]
    """
    at = canonical_axis(axis, np.ndim(operand), "dynamic_slice_in_dim")
    sizes: list[Any] = list(np.shape(operand))
    sizes[at] = slice_size
    return dynamic_slice(
        operand,
        _along(operand, at, start_index),
        sizes,
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The element of operand at a place of one axis, which is kept with size 1 or dropped.

    >>> dynamic_index_in_dim(np.int32([1, 2, 3]), -1, keepdims=False).tolist()
    3
    """
    part = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return part if keepdims else squeeze(part, (axis,))


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` at a place of one axis, at the start of the others.

    >>> dynamic_update_slice_in_dim(np.int32([1, 2, 3]), np.int32([7, 8]), 1, 0).tolist()
    [1, 7, 8]
    """
    at = canonical_axis(axis, np.ndim(operand), "dynamic_update_slice_in_dim")
    return dynamic_update_slice(
        operand,
        update,
        _along(operand, at, start_index),
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """operand with the element at a place of one axis replaced; update may lack that axis.

    >>> dynamic_update_index_in_dim(np.int32([1, 2, 3]), np.int32(7), 1, 0).tolist()
    [1, 7, 3]
    """
    ndim = np.ndim(operand)
    at = canonical_axis(axis, ndim, "dynamic_update_index_in_dim")
    if np.ndim(update) == ndim - 1:
        update = expand_dims(update, (at,))
    if np.ndim(update) != ndim or np.shape(update)[at] != 1:
        raise ValueError(
            "dynamic_update_index_in_dim: update must be one element along the axis.\n"
            f"    operand: {typeof(operand)}\n    update: {typeof(update)}\n    axis: {axis}"
        )
    return dynamic_update_slice_in_dim(
        operand, update, index, at, allow_negative_indices=allow_negative_indices
    )


def _along(operand: ArrayLike, axis: int, start: ArrayLike) -> list[Any]:
    starts: list[Any] = [0] * np.ndim(operand)
    starts[axis] = start
    return starts


def index_take(src: ArrayLike, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """The elements of src at places of some axes: result[i, ...] = src[idxs[0][i], idxs[1][i],
    ...].

    idxs: arrays of one axis and one length, one for each of axes; places are taken modulo the size
    of their axis.

    >>> index_take(np.float32([[1, 2], [3, 4]]), (np.int32([0, -1]), np.int32([1, 0])), (0, 1))
    Array([2., 3.], dtype=float32)
    """
    shape = np.shape(src)
    places = concatenate([expand_dims(i, (1,)) for i in idxs], 1)
    kind = typeof(places).dtype
    sizes = _structure.broadcast_to(
        np.asarray([shape[a] for a in axes], kind), np.shape(places), (1,)
    )
    places = _elementwise.rem(_elementwise.add(_elementwise.rem(places, sizes), sizes), sizes)
    windows = tuple(1 if a in axes else n for a, n in enumerate(shape))
    numbers = GatherDimensionNumbers(
        tuple(range(1, len(shape) - len(axes) + 1)), tuple(axes), tuple(axes)
    )
    return gather(src, places, numbers, windows, mode=GatherScatterMode.PROMISE_IN_BOUNDS)
