"""Arrays in other shapes.

Broadcast, iota, full, reshape, transpose, rev, squeeze, expand_dims, collapse.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, final

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.transfer import put_array
from teucer._base import dtypes
from teucer._core import array_ops, axes, dialects
from teucer._core.cost import Work
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._derived.moves import filled_at
from teucer._devices import partition
from teucer._devices.meshes import AbstractMesh, Mesh
from teucer._devices.partition import Labels, every, kept
from teucer._devices.shardings import NamedSharding, Sharding, explicit_sharding, typed
from teucer._dimensions.dimensions import is_constant, is_symbolic
from teucer._lower import hlo
from teucer._lower.context import Value
from teucer.lax import _structure
from teucer.lax._costs import CHEAP_MOVE, FUSED, MOVE
from teucer.lax._structure import Linear, canonical_axis, canonical_shape

if TYPE_CHECKING:
    from teucer._core.jaxpr import ClosedJaxpr
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import Arrays, Avals, Size, Tangents
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "collapse", "dtype", "empty", "expand_dims", "full", "full_like", "iota",
    "iota_p", "reshape", "rev", "rev_p", "squeeze", "squeeze_p", "transpose",
]  # fmt: skip


def bumped(axes: Sequence[int], dim: int) -> tuple[int, ...]:
    """Axes of an array as axes of the array with a batch dimension inserted at `dim`."""
    return tuple([a + (a >= dim) for a in axes])


def is_array(x: object) -> TypeGuard[Array]:
    """Whether x is an array or tracer already, so that an operation that changes nothing may return
    it as it is."""
    return isinstance(x, ArrayImpl | Tracer)


@final
class Iota(Primitive):
    """0, 1, 2, ... along an axis.  (C1) dimension is an axis of shape.  (C2) dtype is numeric."""

    __slots__ = ()
    name = "iota"
    cost = MOVE._replace(subnormals=None)

    def types(
        self, *, dtype: DTypeLike, shape: Sequence[Size], dimension: int, sharding: object = None
    ) -> Any:
        if not dtypes.issubdtype(dtype, np.number):
            raise TypeError(
                f"iota does not accept dtype {dtype}. Accepted dtypes are subtypes of integer, "
                "floating, complexfloating."
            )
        if not 0 <= dimension < len(shape):
            raise ValueError(
                f"iota dimension must be between 0 and len(shape), got dimension={dimension} for "
                f"shape={tuple(shape)}"
            )
        return (ShapedArray(tuple(shape), dtype, sharding=typed(sharding, len(shape))),)

    def lower(
        self,
        ctx: Context,
        *,
        dtype: DTypeLike | None,
        shape: Sequence[Size],
        dimension: int,
        sharding: object = None,
    ) -> Any:
        (aval,) = ctx.avals_out
        if dtypes.bit_width(aval.dtype) < 8 or aval.dtype.name.startswith("float8"):
            counted = hlo.iota(ctx, aval.update(dtype=np.dtype(np.int32)), dimension)
            return (hlo.convert(ctx, counted, aval.dtype),)
        return (hlo.iota(ctx, aval, dimension),)

    padded = dialects.through


@final
class Empty(Primitive):
    """An array whose elements are not specified; here zeros."""

    __slots__ = ()
    name = "empty"
    cost = FUSED

    def types(self, *, shape: Sequence[Size], dtype: DTypeLike, out_sharding: object = None) -> Any:
        return (ShapedArray(tuple(shape), dtype, sharding=typed(out_sharding, len(shape))),)

    def lower(
        self,
        ctx: Context,
        *,
        shape: Sequence[Size],
        dtype: DTypeLike | None,
        out_sharding: object = None,
    ) -> Any:
        (aval,) = ctx.avals_out
        return (Value(hlo.splat(ctx, 0, aval.physical).name, aval),)

    on_keys = dialects.on_keys.rule(lower)

    padded = dialects.through


@final
class Rev(Linear):
    """x with the order of elements along axes reversed.  (C1) dimensions are distinct axes of x."""

    __slots__ = ()
    name = "rev"
    cost = MOVE
    rearranges = True

    def types(self, x: ShapedArray, *, dimensions: Sequence[int]) -> Any:
        if any(d < 0 for d in dimensions):
            raise TypeError(
                f"rev dimensions must have every element be nonnegative, got {tuple(dimensions)}."
            )
        if len(set(dimensions)) != len(dimensions):
            raise TypeError(f"rev dimensions must be unique, got {tuple(dimensions)}.")
        if any(d >= x.ndim for d in dimensions):
            raise TypeError(
                "rev dimensions must all be less than operand ndim, got dimensions "
                f"{tuple(dimensions)} for operand ndim {x.ndim}.\n"
                f"    operand: {x.str_short(short_dtypes=True)}"
            )
        return (x,)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value, *, dimensions: Sequence[int]) -> Any:
        return (hlo.reverse(ctx, x, dimensions),)

    def transpose(self, cts: Tangents, x: Array | Undefined, *, dimensions: Sequence[int]) -> Any:
        return self.call(*cts, dimensions=dimensions)

    def batch(
        self, axis: Axis, args: Sequence[Array], dims: Sequence[int], *, dimensions: Sequence[int]
    ) -> Any:
        return self.call(*args, dimensions=bumped(dimensions, dims[0])), dims

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Avals, *, dimensions: Sequence[int]
    ) -> Any:
        ((aval,), (x,)) = avals, self.call(*args, dimensions=dimensions)
        # The padding behind the elements is now in front of them.
        starts = [
            np.shape(x)[a] - sizes.value(n) if a in dimensions and is_symbolic(n) else 0
            for a, n in enumerate(aval.shape)
        ]
        return (sizes.window(x, starts, aval.shape),)


@final
class Squeeze(Linear):
    """x without some of its axes of size 1.  (C1) dimensions are distinct axes of x.  (C2) their
    sizes are 1."""

    __slots__ = ()
    name = "squeeze"
    cost = CHEAP_MOVE._replace(work=Work.RESHAPE)
    rearranges = True

    def types(self, x: ShapedArray, *, dimensions: Sequence[int]) -> Any:
        if len(set(dimensions)) != len(dimensions):
            raise ValueError(f"dimensions are not unique: {tuple(dimensions)}")
        for d in dimensions:
            if canonical_axis(d, x.ndim, "squeeze") != d or x.shape[d] != 1:
                raise ValueError(
                    "cannot select an axis to squeeze out which has size not equal to one, got "
                    f"shape={x.shape} and dimensions={tuple(dimensions)}"
                )
        shape = tuple(n for i, n in enumerate(x.shape) if i not in dimensions)
        return (ShapedArray(shape, x.dtype, x.weak_type),)

    def shard(self, x: ShapedArray, *, dimensions: Sequence[int], **params: object) -> Any:
        return Labels([every(x)], [kept(x, dimensions)])

    def lower(self, ctx: Context, x: Value, *, dimensions: Sequence[int]) -> Any:
        return (hlo.reshape(ctx, x, ctx.avals_out[0].shape),)

    def transpose(self, cts: Arrays, x: Array | Undefined, *, dimensions: Sequence[int]) -> Any:
        return (_structure.reshape(cts[0], x.aval.shape),)

    def batch(
        self, axis: Axis, args: Sequence[Array], dims: Sequence[int], *, dimensions: Sequence[int]
    ) -> Any:
        (dim,) = dims
        return self.call(*args, dimensions=bumped(dimensions, dim)), (
            dim - sum(d < dim for d in dimensions),
        )

    padded = dialects.through


iota_p = Iota()
empty_p = Empty()
rev_p = Rev()
squeeze_p = Squeeze()


def dtype(x: Any) -> Any:
    """The dtype of a value, or that which a dtype, its name or a type of scalars stands for.

    >>> dtype(1.0), dtype("float32")
    (dtype('float32'), dtype('float32'))
    """
    if x is None:
        raise ValueError("Invalid argument to dtype: None.\n  Give a value, or a dtype.")
    if isinstance(x, str | type | np.dtype):
        return dtypes.canonicalize_dtype(dtypes.as_dtype(x), allow_extended_dtype=True)
    return typeof(x).dtype


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: object = None) -> Array:
    """operand repeated along new leading axes of the given sizes.

    operand: T[shape]  ->  T[*sizes, *shape]

    >>> broadcast(np.float32([1, 2]), (2,)).shape
    (2, 2)
    """
    if not len(sizes) and is_array(operand):
        return operand
    shape = np.shape(operand)
    n = len(sizes)
    return broadcast_in_dim(
        operand, (*sizes, *shape), tuple(range(n, n + len(shape))), out_sharding=out_sharding
    )


def broadcast_in_dim(
    operand: ArrayLike,
    shape: Sequence[Size],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: object = None,
) -> Array:
    """operand in a larger shape: its axis i becomes axis broadcast_dimensions[i]; axes of size 1
    are repeated.

    Raises TypeError if the dimensions are not distinct axes of `shape`, or a size does not fit.

    >>> broadcast_in_dim(np.float32([1, 2]), (2, 3), (0,)).shape
    (2, 3)
    """
    shape = canonical_shape(shape, "broadcast_in_dim")
    dims = tuple(operator.index(d) for d in broadcast_dimensions)
    out_sharding = explicit_sharding("broadcast_in_dim", out_sharding, len(shape))
    if (
        np.shape(operand) == shape
        and dims == tuple(range(len(shape)))
        and out_sharding is None
        and is_array(operand)
    ):
        return operand
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))) and len(set(dims)) == len(dims) == np.ndim(operand):
        operand, dims = _structure.transpose(operand, order), tuple(sorted(dims))
    return _structure.broadcast_in_dim_p.call(
        operand, shape=shape, broadcast_dimensions=dims, sharding=out_sharding
    )[0]


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """arr broadcast to the shape of like_arr by the rules of NumPy, and laid out as it is over
    Explicit mesh axes.

    >>> broadcast_like(np.float32(1), np.zeros(3)).shape
    (3,)
    """
    shape, ndim = np.shape(like_arr), np.ndim(arr)
    own, wanted = typeof(arr).partition, typeof(like_arr).partition
    if broadcast_shapes(np.shape(arr), shape) != shape:
        raise ValueError(
            f"broadcast_like: arr does not fit.\n    arr: {typeof(arr)}\n"
            f"    like_arr: {typeof(like_arr)}"
        )
    if (
        own is not None
        and wanted is not None
        and any(
            entry is not None
            and np.shape(arr)[i] != 1
            and wanted.spec[len(shape) - ndim + i] != entry
            for i, entry in enumerate(own.spec.partitions)
        )
    ):
        raise ValueError(
            f"Incompatible types for broadcasting: input type={typeof(arr)} and requested "
            f"type={typeof(like_arr)}\n  broadcast_like: lay arr out as like_arr with jax.reshard."
        )
    out = broadcast_in_dim(arr, shape, tuple(range(len(shape) - ndim, len(shape))))
    if wanted is not None and isinstance(like_arr, ArrayImpl):
        wanted = like_arr.sharding  # with its devices
    return array_ops.lay_out(out, wanted)


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which all shapes broadcast by the rules of NumPy.

    Raises ValueError if there is none, TypeError for an object that is no shape.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    shapes = tuple(canonical_shape(s, "broadcast_shapes") for s in shapes)
    ndim = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (ndim - len(s)) + tuple(s) for s in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        larger = [d for d in sizes if not (type(d) is int and d == 1)]
        if any(d != larger[0] for d in larger[1:]):
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={list(shapes)}")
        out.append(larger[0] if larger else 1)
    return tuple(out)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """x with new leading axes of size 1, so that it has `rank` axes; x itself if it has as many.

    >>> broadcast_to_rank(np.float32([1, 2]), 3).shape
    (1, 1, 2)
    """
    ndim = np.ndim(x)
    array: Any = x
    if ndim >= rank:
        return array
    return broadcast_in_dim(
        array, (1,) * (rank - ndim) + tuple(np.shape(x)), tuple(range(rank - ndim, rank))
    )


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, ..., size - 1.

    >>> iota(np.int32, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: DTypeLike, shape: Shape, dimension: int, *, out_sharding: object = None
) -> Array:
    """An array in which each element is its index along `dimension`.

    Raises TypeError for a dtype that does not count, ValueError for a dimension outside the shape.

    >>> broadcasted_iota(np.int32, (2, 2), 0).tolist()
    [[0, 0], [1, 1]]
    """
    kind = dtypes.check_user_dtype_supported(dtype, "iota")
    shape = _sizes(shape, "iota")
    return iota_p.call(
        dtype=kind,
        shape=shape,
        dimension=operator.index(dimension),
        sharding=explicit_sharding("iota", out_sharding, len(shape)),
    )[0]


def empty(shape: Sequence[Size], dtype: DTypeLike | None, *, out_sharding: object = None) -> Array:
    """An array whose elements are not specified.

    >>> empty((2, 3), np.float32).shape
    (2, 3)
    """
    kind = dtypes.check_user_dtype_supported(dtype, "empty")
    shape = _sizes(shape, "empty")
    return empty_p.call(
        shape=shape,
        dtype=kind,
        out_sharding=explicit_sharding("empty", out_sharding, len(shape)),
    )[0]


def _sizes(shape: Shape, op: str) -> tuple[Any, ...]:
    """The shape of a new array. One axis may be given by its size."""
    several = isinstance(shape, Iterable) and getattr(shape, "ndim", 1) > 0
    return canonical_shape(shape if several else (shape,), op)  # type: ignore[arg-type]


def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: DTypeLike | dtypes.ExtendedDType | None = None,
    *,
    sharding: object = None,
) -> Array:
    """An array of equal elements; without a dtype it has the value's, weak if that is weak.

    A Python integer beyond an integer dtype that is given wraps around, as -1 does to 255. Of keys,
    each word is the number. Raises TypeError if fill_value is not a scalar.

    >>> full((2,), 3, np.float32)
    Array([3., 3.], dtype=float32)
    """
    if np.ndim(fill_value):
        raise TypeError(
            "full must be called with scalar fill_value, got fill_value.shape "
            f"{np.shape(fill_value)}."
        )
    aval = typeof(fill_value)
    fill_value = fill_value[()] if isinstance(fill_value, np.ndarray) else fill_value
    shape = _sizes(shape, "full")
    if dtype is None:
        kind, weak = aval.dtype, aval.weak_type
    else:
        kind = dtypes.check_user_dtype_supported(dtype, "full")
        weak = False
        dtypes.report_dropped(aval.dtype, kind)
    if aval.extended:
        out = broadcast_in_dim(fill_value, shape, ())
    elif isinstance(kind, dtypes.ExtendedDType):
        words = kind.physical
        out = kind.of_words(full((*shape, *words.shape), fill_value, words.dtype))
    else:
        # XLA decides which integers NaN and floats out of range become.
        rounded = dtypes.issubdtype(aval.dtype, np.inexact) and dtypes.issubdtype(kind, np.integer)
        on_host = aval.dtype == kind or not (rounded or is_array(fill_value))
        value = fill_value if on_host else _structure.convert_element_type(fill_value, kind, weak)
        if (
            type(value) is int
            and dtypes.issubdtype(kind, np.integer)
            and not (dtypes.iinfo(kind).min <= value <= dtypes.iinfo(kind).max)
        ):
            value = _structure.number(np.asarray(value, aval.dtype).astype(kind), kind)
        if typed(sharding, len(shape)) is not None:
            return _structure.full(shape, value, kind, weak, sharding)
        out = _structure.full(shape, value, kind, weak)
    return filled_at(out, sharding)


def place_of_like(x: ArrayLike, aval: ShapedArray) -> Any:
    """How an array like x is to be laid out: as x, if that is committed or a struct says it, else
    as the type says."""
    if isinstance(x, ArrayImpl):
        return x.sharding if x._committed else None
    own = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
    return (
        own
        if isinstance(own, Sharding) and not isinstance(getattr(own, "mesh", None), AbstractMesh)
        else aval.partition
    )


def full_like(
    x: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    sharding: object = None,
) -> Array:
    """An array of equal elements with the shape and dtype of x, unless they are given.

    It varies over the manual mesh axes over which x does, so that it may begin a loop whose results
    do.

    >>> full_like(np.zeros(2, np.float32), 1)
    Array([1., 1.], dtype=float32)
    """
    aval = typeof(x)
    sizes = aval.shape if shape is None else shape
    if sharding is None and shape is None:
        sharding = place_of_like(x, aval)
    out = full(sizes, fill_value, aval.dtype if dtype is None else dtype, sharding=sharding)
    if dtype is None and aval.weak_type:
        out = _structure.convert_element_type(out, aval.dtype, True)
    return varying_as(named_as(out, sharding), aval)


def named_as(x: Any, sharding: object) -> Any:
    """An array with the very sharding that was asked for, where a program gave it one that is
    alike."""
    if isinstance(x, ArrayImpl) and isinstance(sharding, NamedSharding):
        return put_array(x, sharding) if isinstance(sharding.mesh, Mesh) else x
    return x


def varying_as(x: Array, aval: ShapedArray) -> Any:
    """x, cast to vary over the manual mesh axes of a type."""
    missing = (aval.vma & axes.manual_axes()) - typeof(x).vma if aval.vma else frozenset()
    return array_ops.vary(x, missing) if missing else x


def reshape(
    operand: ArrayLike,
    new_sizes: Shape,
    dimensions: int | Sequence[int] | None = None,
    *,
    out_sharding: object = None,
) -> Array:
    """operand with the same elements in another shape, read in the order of axes `dimensions`.

    Raises TypeError if the number of elements differs, or dimensions is not a permutation of the
    axes.

    >>> reshape(np.float32([[1, 2], [3, 4]]), (4,), (1, 0)).tolist()
    [1.0, 3.0, 2.0, 4.0]
    """
    shape = canonical_sizes(new_sizes)
    if dimensions is not None:
        listed = dimensions if isinstance(dimensions, Iterable) else (dimensions,)
        order = tuple(operator.index(d) for d in listed)
        if sorted(order) != list(range(np.ndim(operand))):
            raise TypeError(
                "reshape dimensions must be a permutation of operand dimensions, got dimensions "
                f"{order} for shape {np.shape(operand)}."
            )
        operand = _structure.transpose(operand, order)
    out_sharding = explicit_sharding("reshape", out_sharding, len(shape))
    if np.shape(operand) == shape and out_sharding is None and is_array(operand):
        return operand
    return _structure.reshape_p.call(
        operand, new_sizes=shape, dimensions=None, sharding=out_sharding
    )[0]


def canonical_sizes(new_sizes: Any) -> tuple[Any, ...]:
    """The sizes given to reshape: one integer, or a sequence of integers that are not negative."""
    try:
        given = tuple(new_sizes)
    except TypeError:
        given = (new_sizes,)
    if any(type(d) is int and d < 0 for d in given):
        raise TypeError(f"reshape new_sizes must all be positive, got {given}.")
    return canonical_shape(given, "reshape")


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """operand with its axes permuted: axis i of the result is axis permutation[i].

    Raises TypeError if it is not a permutation.

    >>> transpose(np.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    order = tuple(operator.index(d) for d in permutation)
    if order == tuple(range(np.ndim(operand))) and is_array(operand):
        return operand
    return _structure.transpose_p.call(operand, permutation=order)[0]


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """operand with the order of elements along `dimensions` reversed.

    Raises TypeError if they are not distinct axes, counted from the front.

    >>> rev(np.int32([1, 2, 3]), (0,)).tolist()
    [3, 2, 1]
    """
    return rev_p.call(operand, dimensions=tuple(operator.index(d) for d in dimensions))[0]


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """array without the axes `dimensions`, which have size 1.

    Raises ValueError if an axis is out of range, named twice, or of another size.

    >>> squeeze(np.zeros((1, 3)), (0,)).shape
    (3,)
    """
    ndim = np.ndim(array)
    axes = tuple(canonical_axis(d, ndim, "squeeze") for d in dimensions)
    if not axes and is_array(array):
        return array
    return squeeze_p.call(array, dimensions=axes)[0]


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """array with new axes of size 1, which are `dimensions` of the result.

    Raises ValueError if an axis is out of range or named twice.

    >>> expand_dims(np.zeros(3), (0, -1)).shape
    (1, 3, 1)
    """
    ndim = np.ndim(array) + len(dimensions)
    axes = {canonical_axis(d, ndim, "expand_dims") for d in dimensions}
    if len(axes) != len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    kept = tuple(i for i in range(ndim) if i not in axes)
    sizes = iter(np.shape(array))
    return broadcast_in_dim(
        array, tuple(1 if i in axes else next(sizes) for i in range(ndim)), kept
    )


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """operand with the axes from start to stop (exclusive) made into one.

    Raises ValueError if start is after stop.

    >>> collapse(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = np.shape(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ValueError(f"Invalid dimension range passed to collapse: {shape}[{start}:{stop}]")
    size: Any = 1
    for d in shape[start:stop]:
        size = size * d
    return reshape(operand, (*shape[:start], size, *shape[stop:]))


# Facts for the passes: which values count along an axis


def counts_along(known: Any, x: Any) -> int | None:
    """The axis along which the elements of an operand are 0, 1, 2, ..., and equal along all others;
    None if that is not known. known: what the passes know (`_optimize.passes.Known`)."""
    made = known.made.get(x)
    if made is None or not dtypes.issubdtype(x.aval.dtype, np.integer):
        return None
    shape, params = x.aval.shape, made.params
    if made.primitive is iota_p:
        axis: int = params["dimension"]
        fits = is_constant(shape) and shape[axis] - 1 <= dtypes.iinfo(x.aval.dtype).max
        return axis if fits else None
    if made.primitive not in _KEEPS or len(made.invars) != 1:
        return None
    (of,) = made.invars
    before = counts_along(known, of)
    if before is None:
        return None
    size = of.aval.shape[before]
    if made.primitive is _structure.broadcast_in_dim_p:
        after: int = params["broadcast_dimensions"][before]
        return after if shape[after] == size else None
    if made.primitive is _structure.convert_element_type_p:
        return before if size - 1 <= dtypes.iinfo(x.aval.dtype).max else None
    # A reshape that adds and drops axes of size 1 only.
    long = [[i for i, n in enumerate(s) if n != 1] for s in (of.aval.shape, shape)]
    same = [of.aval.shape[i] for i in long[0]] == [shape[i] for i in long[1]]
    return long[1][long[0].index(before)] if same and before in long[0] else None


_KEEPS = frozenset(
    {_structure.broadcast_in_dim_p, _structure.reshape_p, _structure.convert_element_type_p}
)


def never_negative(known: Any, x: Any, y: Any) -> tuple[ClosedJaxpr, tuple[()]] | None:
    """For x < y: always false, if x counts something and y is 0. So indices that come from counting
    need not be checked for being negative."""
    zero = known.constant(y)
    if zero is None or zero.val != 0 or counts_along(known, x) is None:
        return None
    if x.aval.partition is not None or x.aval.vma:
        return None
    false = ShapedArray(x.aval.shape, np.dtype(bool))
    return stage_jaxpr(lambda: (_structure.full(false.shape, False, false.dtype),), ()), ()
