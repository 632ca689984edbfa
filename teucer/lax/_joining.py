"""Arrays joined and taken apart: concatenate, stack, unstack, split, tile."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays import transfer
from teucer._core import array_ops, dialects
from teucer._core.cost import Work
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices import partition
from teucer._devices.partition import Labels, every, kept, whole
from teucer._dimensions.dimensions import as_size, is_constant, is_symbolic
from teucer._lower import hlo
from teucer.lax import _many, _structure
from teucer.lax._costs import MOVE
from teucer.lax._families import check_same
from teucer.lax._shapes import broadcast_in_dim, is_array
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import Linear, canonical_axis

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Arrays, Aval, Avals, Dims, HostArray, Size
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "concatenate", "concatenate_p", "shape_as_value", "split", "split_p", "stack", "stack_p",
    "tile", "tile_p", "unstack", "unstack_p",
]  # fmt: skip


def _dims_at(axis: Any, args: Sequence[ArrayLike], dims: Dims, at: int) -> list[Any]:
    """All operands with the batch dimension at `at`."""
    return [array_ops.to_axis(x, d, axis.size, at) for x, d in zip(args, dims, strict=True)]


class _Joins(Primitive):
    """A primitive that is linear in all of its operands jointly."""

    __slots__ = ()
    linear_in = "sum"
    combines = partition.in_place

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(*map(array_ops.instantiate, tangents), **params)

    def evaluate(self, *xs: ArrayLike, **params: int) -> tuple[Any, ...]:
        return _many.join(xs, self, params, concatenate_p)


@final
class Concatenate(_Joins):
    """Arrays one after another along an axis.

    (C1) operands have one number of axes.  (C2) dimension is one.  (C3) the other sizes agree.
    (C4) dtypes agree.
    """

    __slots__ = ()
    name = "concatenate"
    cost = MOVE

    def types(self, *xs: ShapedArray, dimension: int) -> Any:
        shapes = ", ".join(str(x.shape) for x in xs)
        if len({x.ndim for x in xs}) != 1:
            raise TypeError(
                f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}."
            )
        first = xs[0]
        if not 0 <= dimension < first.ndim:
            raise TypeError(
                f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}."
            )
        rest = [x.shape[:dimension] + x.shape[dimension + 1 :] for x in xs]
        if any(r != rest[0] for r in rest):
            raise TypeError(
                "Cannot concatenate arrays with shapes that differ in dimensions other than the "
                f"one being concatenated: concatenating along dimension {dimension} for shapes "
                f"{shapes}."
            )
        check_same("concatenate", [x.update(shape=()) for x in xs])
        size: Any = sum(x.shape[dimension] for x in xs)
        shape = (*first.shape[:dimension], size, *first.shape[dimension + 1 :])
        return (ShapedArray(shape, first.dtype, all(x.weak_type for x in xs)),)

    shard = partition.alike("All operands should have the same sharding")

    def lower(self, ctx: Context, *xs: Value, dimension: int) -> Any:
        return (hlo.concatenate(ctx, xs, dimension),)

    def transpose(self, cts: Sequence[Array], *xs: Array | Undefined, dimension: int) -> Any:
        sizes = [(x.aval if type(x) is Undefined else typeof(x)).shape[dimension] for x in xs]
        if len(sizes) > _many.SEVERAL and is_constant(sizes):
            parts = split_p.call(cts[0], sizes=tuple(sizes), axis=dimension)
            return tuple(
                ct if type(x) is Undefined else None for x, ct in zip(xs, parts, strict=True)
            )
        limits = list(itertools.accumulate(sizes))
        starts = [0, *limits[:-1]]
        return tuple(
            slice_in_dim(cts[0], a, b, axis=dimension) if type(x) is Undefined else None
            for x, a, b in zip(xs, starts, limits, strict=True)
        )

    def batch(self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, *, dimension: int) -> Any:
        at = next(d for d in dims if d is not None)
        return self.call(
            *_dims_at(axis, args, dims, at), dimension=dimension + (dimension >= at)
        ), (at,)

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Sequence[Aval], outs: Avals, *, dimension: int
    ) -> Any:
        lengths = [aval.shape[dimension] for aval in avals]
        (y,) = self.call(*args, dimension=dimension)
        if is_constant(lengths[:-1]):
            return (sizes.fit(y, outs[0].shape),)
        start: Any = 0
        # In order: each array overwrites the padding of the array before it.
        for x, n in zip(args, lengths, strict=True):
            y = sizes.put(y, x, [start if a == dimension else 0 for a in range(avals[0].ndim)])
            start = start + n
        return (sizes.fit(y, outs[0].shape),)


@final
class Stack(_Joins):
    """Arrays of one type along a new axis.  (C1) shapes agree.  (C2) dtypes agree.  (C3) axis is
    one of the result."""

    __slots__ = ()
    name = "stack"
    cost = MOVE

    def types(self, *xs: ShapedArray, axis: int) -> Any:
        first = xs[0]
        if len({x.ndim for x in xs}) != 1:
            raise ValueError(
                "Cannot stack arrays with different numbers of dimensions: got "
                f"{', '.join(str(x.shape) for x in xs)}."
            )
        if any(x.shape != first.shape for x in xs):
            raise ValueError(
                "Cannot stack arrays with different shapes: got "
                f"{', '.join(str(x.shape) for x in xs)}."
            )
        check_same("stack", xs)
        shape = (*first.shape[:axis], len(xs), *first.shape[axis:])
        return (ShapedArray(shape, first.dtype, all(x.weak_type for x in xs)),)

    def shard(self, *xs: ShapedArray, axis: int, **params: object) -> Any:
        labels = every(xs[0])
        return Labels([labels] * len(xs), [(*labels[:axis], None, *labels[axis:])])

    def lower(self, ctx: Context, *xs: Value, axis: int) -> Any:
        shape = (*xs[0].shape[:axis], 1, *xs[0].shape[axis:])
        return (hlo.concatenate(ctx, [hlo.reshape(ctx, x, shape) for x in xs], axis),)

    def transpose(self, cts: Sequence[object], *xs: Array | Undefined, axis: int) -> Any:
        parts = unstack_p.call(cts[0], axis=axis)
        return tuple(ct if type(x) is Undefined else None for x, ct in zip(xs, parts, strict=True))

    def batch(self, mapped: Axis, args: Sequence[Array], dims: Dims, /, *, axis: int) -> Any:
        return self.call(*_dims_at(mapped, args, dims, 0), axis=axis + 1), (0,)

    padded = dialects.through


@final
class Unstack(Linear):
    """The arrays of which x consists along an axis.  (C1) axis is one of x.

    alike: whether the compiler is not to tell them from each other by their places.
    """

    __slots__ = ()
    name = "unstack"
    combines = partition.in_place
    multiple_results = True
    cost = MOVE._replace(work=Work.PART)

    def types(self, x: ShapedArray, *, axis: int, alike: bool = False) -> Any:
        canonical_axis(axis, x.ndim, "unstack")
        aval = ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], x.dtype, x.weak_type)
        return (aval,) * operator.index(x.shape[axis])

    def shard(self, x: ShapedArray, *, axis: int, **params: object) -> Any:
        return Labels(
            [whole(x, (axis,))],
            [kept(x, (axis,))],
            whole=f"unstack operand cannot be sharded on the unstacking axis {axis}",
        )

    def lower(self, ctx: Context, x: Value, *, axis: int, alike: bool = False) -> Any:
        outs = []
        for i, aval in enumerate(ctx.avals_out):
            if alike:
                outs.append(hlo.reshape(ctx, hlo.slice_at(ctx, x, axis, i, 1), aval.shape))
                continue
            start = [i if a == axis else 0 for a in range(len(x.shape))]
            limit = [i + 1 if a == axis else n for a, n in enumerate(x.shape)]
            outs.append(
                hlo.reshape(ctx, hlo.slice(ctx, x, start, limit, (1,) * len(start)), aval.shape)
            )
        return tuple(outs)

    def evaluate(self, x: ArrayLike, *, axis: int, **params: bool) -> tuple[Any, ...]:
        limits = range(1, np.shape(x)[axis])
        return _many.part(x, self, {"axis": axis, **params}, limits, axis)

    def transpose(self, cts: Sequence[object], x: ArrayLike | Undefined, *, axis: int) -> Any:
        return stack_p.call(*map(array_ops.instantiate, cts), axis=axis)

    def batch(self, mapped: Axis, args: Arrays, dims: Sequence[int], /, *, axis: int) -> Any:
        outs = self.call(array_ops.moveaxis(args[0], dims[0], 0), axis=axis + 1)
        return outs, (0,) * len(outs)

    padded = dialects.through


@final
class Split(Linear):
    """x cut along an axis into parts of given sizes.  (C1) sizes are not negative.  (C2) they add
    up to x's."""

    __slots__ = ()
    name = "split"
    combines = partition.in_place
    multiple_results = True
    cost = MOVE

    def types(self, x: ShapedArray, *, sizes: Sequence[Size], axis: int) -> Any:
        if any(n < 0 for n in sizes):
            raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
        if sum(sizes) != x.shape[axis]:
            raise ValueError(
                f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape "
                f"{list(x.shape)}"
            )
        return tuple(
            ShapedArray((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, x.weak_type)
            for n in sizes
        )

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value, *, sizes: Sequence[Size], axis: int) -> Any:
        outs, at = [], 0
        for size in sizes:
            start = [at if a == axis else 0 for a in range(len(x.shape))]
            limit = [at + size if a == axis else n for a, n in enumerate(x.shape)]
            outs.append(hlo.slice(ctx, x, start, limit, (1,) * len(start)))
            at += size
        return tuple(outs)

    def evaluate(self, x: ArrayLike, *, sizes: Sequence[int], axis: int) -> tuple[Any, ...]:
        limits = list(itertools.accumulate(sizes))[:-1]
        return _many.part(x, self, {"sizes": sizes, "axis": axis}, limits, axis)

    def transpose(
        self, cts: Sequence[object], x: ArrayLike | Undefined, *, sizes: Sequence[Size], axis: int
    ) -> Any:
        return concatenate_p.call(*map(array_ops.instantiate, cts), dimension=axis)

    def batch(
        self, mapped: Axis, args: Arrays, dims: Sequence[int], /, *, sizes: Sequence[int], axis: int
    ) -> Any:
        (dim,) = dims
        outs = self.call(*args, sizes=sizes, axis=axis + (axis >= dim))
        return outs, (dim,) * len(outs)

    @dialects.padded.rule
    def padded(
        self,
        known: Any,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[Array],
        /,
        *,
        sizes: Sequence[Size],
        axis: int,
    ) -> Any:
        start: Any = 0
        parts = []
        for aval in outs:
            parts.append(
                known.window(
                    *args, [start if a == axis else 0 for a in range(aval.ndim)], aval.shape
                )
            )
            start = start + aval.shape[axis]
        return tuple(parts)


@final
class Tile(Linear):
    """x repeated reps[i] times along each axis i.  (C1) one count an axis.  (C2) counts are not
    negative."""

    __slots__ = ()
    name = "tile"
    combines = partition.in_place
    cost = MOVE._replace(subnormals=None)

    def types(self, x: ShapedArray, *, reps: Sequence[int]) -> Any:
        if len(reps) != x.ndim:
            raise TypeError(
                f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and "
                f"x.ndim={x.ndim}."
            )
        if any(r < 0 for r in reps):
            raise ValueError(f"tile: reps must not be negative.\n    reps: {tuple(reps)}")
        shape = tuple(n * r for n, r in zip(x.shape, reps, strict=True))
        return (ShapedArray(shape, x.dtype, x.weak_type),)

    def shard(self, x: ShapedArray, *, reps: Sequence[int], **params: object) -> Any:
        repeated = [i for i, n in enumerate(reps) if n != 1]
        labels, said = (
            whole(x, repeated),
            f"Operand cannot be sharded on dimensions {repeated} when the tiling is non-trivial",
        )
        return Labels([labels], [labels], whole=said)

    def lower(self, ctx: Context, x: Value, *, reps: Sequence[int]) -> Any:
        (aval,) = ctx.avals_out
        shape = tuple(d for pair in zip(reps, x.shape, strict=True) for d in pair)
        wide = hlo.broadcast_in_dim(ctx, x, shape, range(1, len(shape), 2))
        return (hlo.reshape(ctx, wide, aval.shape),)

    def transpose(self, cts: Sequence[Array], x: Array | Undefined, *, reps: Sequence[int]) -> Any:
        shape = tuple(d for pair in zip(reps, x.aval.shape, strict=True) for d in pair)
        return (_structure.reduce_sum(_structure.reshape(cts[0], shape), range(0, len(shape), 2)),)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, *, reps: Sequence[int]) -> Any:
        (dim,) = dims
        return self.call(*args, reps=(*reps[:dim], 1, *reps[dim:])), dims

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Avals, *, reps: Sequence[int]
    ) -> Any:
        (x,), (aval,) = args, avals
        for a, (n, times) in enumerate(zip(aval.shape, reps, strict=True)):
            if (is_symbolic(n) and times != 1) or is_symbolic(times):
                x = sizes.take(x, sizes.remainders(outs[0].shape[a], n), a)
        return self.call(
            x,
            reps=tuple(
                1 if is_symbolic(n) or is_symbolic(r) else r
                for n, r in zip(aval.shape, reps, strict=True)
            ),
        )


concatenate_p = Concatenate()
stack_p = Stack()
unstack_p = Unstack()
split_p = Split()
tile_p = Tile()


def concatenate(operands: Array | HostArray | Sequence[ArrayLike], dimension: int) -> Array:
    """Arrays of one dtype, one after another along an axis.

    Raises ValueError for no operands; TypeError if shapes or dtypes do not fit or the axis is out
    of range.

    >>> concatenate([np.float32([1, 2]), np.float32([3])], 0)
    Array([1., 2., 3.], dtype=float32)
    """
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    given: Any = operands  # an array is a sequence of its rows
    xs = list(given) if isinstance(given, list | tuple) else unstack(given)
    if len(xs) == 1 and is_array(xs[0]) and 0 <= operator.index(dimension) < xs[0].ndim:
        return xs[0]
    return concatenate_p.call(*xs, dimension=operator.index(dimension))[0]


def stack(operands: Array | HostArray | Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape and dtype along a new axis.

    Raises ValueError for no operands or different shapes, TypeError for different dtypes.

    >>> stack([np.float32([1, 2]), np.float32([3, 4])], 1).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    if len(operands) == 0:
        raise ValueError("stack requires a non-empty sequence of arrays")
    given: Any = operands  # an array is a sequence of its rows
    xs = list(given) if isinstance(given, list | tuple) else unstack(given)
    return stack_p.call(*xs, axis=canonical_axis(axis, np.ndim(xs[0]) + 1, "stack"))[0]


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The arrays of which x consists along an axis.

    Raises ValueError if the axis is out of range.

    >>> [y.tolist() for y in unstack(np.float32([[1, 2], [3, 4]]))]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return unstack_p.call(x, axis=canonical_axis(axis, np.ndim(x), "unstack"))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """operand cut along an axis into parts of the given sizes.

    Raises ValueError if the sizes do not add up to the axis' size, or the axis is out of range.

    >>> [y.tolist() for y in split(np.float32([1, 2, 3]), (1, 2))]
    [[1.0], [2.0, 3.0]]
    """
    parts = tuple(as_size(n) for n in sizes)
    return list(
        split_p.call(operand, sizes=parts, axis=canonical_axis(axis, np.ndim(operand), "split"))
    )


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """operand repeated reps[i] times along each axis i.

    Raises TypeError if there is not one count an axis, ValueError if one is negative.

    >>> tile(np.int32([1, 2]), (2,)).tolist()
    [1, 2, 1, 2]
    """
    return tile_p.call(operand, reps=tuple(as_size(r) for r in reps))[0]


def shape_as_value(shape: Sequence[Size]) -> Any:
    """A shape as an array of integers.

    >>> shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    sizes = _structure.canonical_shape(shape, "shape_as_value")
    if any(map(is_symbolic, sizes)):
        return concatenate(
            [
                broadcast_in_dim(_structure.convert_element_type(d, np.int32), (1,), ())
                for d in sizes
            ],
            0,
        )
    return transfer.put(np.asarray(sizes, np.int32), None)
