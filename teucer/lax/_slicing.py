"""Parts of arrays at places known beforehand, and their transpose, padding: slice and pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Work
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices import partition
from teucer._devices.specs import PartitionSpec
from teucer._dimensions import dimensions
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer.lax import _elementwise, _structure
from teucer.lax._costs import MOVE
from teucer.lax._shapes import is_array, squeeze
from teucer.lax._structure import Linear, canonical_axis

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Arrays, Atom, Avals, Dims, DTypeLike, Size, Values
    from teucer._devices.partition import Labels
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class SliceParams(TypedDict):
        start_indices: Sequence[int]
        limit_indices: Sequence[int]
        strides: Sequence[int] | None
        alike: NotRequired[int | None]


__all__ = ["index_in_dim", "pad", "pad_p", "slice", "slice_in_dim", "slice_p"]


def of_window(rule: Labels, shape: Sequence[Size]) -> Labels:
    """The rule of a window of an operand: it lies as the operand does, but for a single element,
    which lies whole on each device."""
    single = bool(shape) and all(not dimensions.is_symbolic(n) and n == 1 for n in shape)
    return rule._replace(results=[(None,) * len(shape)]) if single else rule


@final
class Slice(Linear):
    """x[start:limit:stride] along each axis.

    (C1) one start, limit and stride an axis.  (C2) 0 <= start <= limit <= size.  (C3) strides are
    positive.

    alike: the axis along which it is a part that the compiler is not to tell from others by its
    place, if there is one. It is whole along the others.
    """

    __slots__ = ()
    name = "slice"
    combines = partition.in_place
    cost = MOVE._replace(work=Work.PART)

    def types(
        self,
        x: ShapedArray,
        *,
        start_indices: Any,
        limit_indices: Any,
        strides: Sequence[int] | None,
        alike: int | None = None,
    ) -> Any:
        steps = (1,) * x.ndim if strides is None else strides
        _check_slice(x, tuple(start_indices), tuple(limit_indices), tuple(steps))
        shape = tuple(
            dimensions.ceil_div(b - a, s) if s != 1 else b - a
            for a, b, s in zip(start_indices, limit_indices, steps, strict=True)
        )
        return (ShapedArray(shape, x.dtype, x.weak_type),)

    def shard(self, x: ShapedArray, **params: Unpack[SliceParams]) -> Any:
        (out,) = self.types(x, **params)
        return of_window(partition.aligned(self, x), out.shape)._replace(doing="slicing")

    def lower(
        self,
        ctx: Context,
        x: Value,
        *,
        start_indices: Sequence[int],
        limit_indices: Sequence[int],
        strides: Sequence[int] | None,
        alike: int | None = None,
    ) -> Any:
        (aval,) = ctx.avals_out
        if alike is not None:
            return (hlo.slice_at(ctx, x, alike, start_indices[alike], aval.shape[alike]),)
        if 0 in aval.shape:
            # XLA's CPU backend aborts on an empty slice of a concatenation.
            return (hlo.splat(ctx, 0, aval.strengthen()),)
        return (
            hlo.slice(ctx, x, start_indices, limit_indices, strides or (1,) * len(start_indices)),
        )

    def transpose(self, cts: Arrays, x: Array | Undefined, **params: Unpack[SliceParams]) -> Any:
        start_indices = params["start_indices"]
        (ct,) = cts
        config = []
        for n, m, start, stride in zip(
            x.aval.shape,
            np.shape(ct),
            start_indices,
            params["strides"] or (1,) * len(start_indices),
            strict=True,
        ):
            config.append((start, n - start - dimensions.dilated(m, stride), stride - 1))
        return pad_p.call(
            ct, _structure.full((), 0, typeof(ct).dtype), padding_config=tuple(config)
        )

    def batch(self, axis: Axis, args: Arrays, dims: Dims, **params: Unpack[SliceParams]) -> Any:
        start_indices, limit_indices, strides = (
            params["start_indices"],
            params["limit_indices"],
            params["strides"],
        )
        (dim,) = dims
        outs = self.call(
            *args,
            **{
                **params,
                "start_indices": (*start_indices[:dim], 0, *start_indices[dim:]),
                "limit_indices": (*limit_indices[:dim], axis.size, *limit_indices[dim:]),
                "strides": None if strides is None else (*strides[:dim], 1, *strides[dim:]),
            },
        )
        return outs, dims

    def simplify(
        self,
        known: object,
        x: Atom,
        *,
        start_indices: Sequence[int],
        limit_indices: Sequence[int],
        strides: Sequence[int] | None,
        alike: int | None = None,
    ) -> Any:
        whole = (
            limit_indices == x.aval.shape
            and _is_at_origin(start_indices)
            and (strides is None or set(strides) <= {1})
        )
        return x if whole else None

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Values, avals: Avals, outs: Avals, **params: Unpack[SliceParams]
    ) -> Any:
        start_indices = params["start_indices"]
        steps = params["strides"] or (1,) * len(start_indices)
        if not dimensions.is_constant(steps):
            sizes.refuse("a step is dynamic")
        shape = sizes.bounded(outs[0].shape)
        spans = [(n - 1) * s + 1 if n else 0 for n, s in zip(shape, steps, strict=True)]
        starts = [sizes.value(a) if dimensions.is_symbolic(a) else a for a in start_indices]
        part = sizes.window(args[0], starts, spans)
        return (
            part if all(s == 1 for s in steps) else slice(part, (0,) * len(spans), spans, steps),
        )


def _is_at_origin(starts: Sequence[object]) -> bool:
    return not any(dimensions.is_symbolic(a) or a for a in starts)


def _check_slice(x: ShapedArray, starts: Any, limits: Any, strides: Sequence[int]) -> None:
    """Raise TypeError if a slice does not fit its operand."""
    if len(starts) != x.ndim:
        raise TypeError(
            "slice start_indices must have length equal to the number of dimensions of the "
            f"operand, got indices {starts} for operand shape {x.shape}."
        )
    if len(starts) != len(limits):
        raise TypeError(
            "slice limit_indices must have the same length as start_indices, got start_indices "
            f"{starts} and limit_indices {limits}."
        )
    if len(strides) != x.ndim:
        raise TypeError(
            "slice strides must have length equal to the number of dimensions of the operand, "
            f"got strides {strides} for operand shape {x.shape}."
        )
    if not all(b <= n for b, n in zip(limits, x.shape, strict=True)):
        raise TypeError(
            "slice limit_indices must be less than or equal to operand shape, got limit_indices "
            f"{limits} for operand shape {x.shape}."
        )
    if not all(a >= 0 for a in starts):
        raise TypeError(
            f"slice start_indices must have every element be nonnegative, got {starts}."
        )
    if not all(b >= a for a, b in zip(starts, limits, strict=True)):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, got start_indices "
            f"{starts} and limit_indices {limits}."
        )
    if not all(s > 0 for s in strides):
        raise TypeError(f"slice strides must be positive, got {strides}")


@final
class Pad(Primitive):
    """x with padding_value before, after, and between its elements; negative amounts cut.

    (C1) dtypes agree.  (C2) padding_value is a scalar.  (C3) one (low, high, interior) an axis.
    (C4) interior is not negative.  (C5) no size becomes negative.
    """

    __slots__ = ()
    name = "pad"
    linear_in = (0, 1)
    cost = MOVE

    def types(
        self, x: ShapedArray, value: ShapedArray, *, padding_config: Sequence[tuple[int, int, int]]
    ) -> Any:
        if x.dtype != value.dtype:
            raise TypeError(
                f"pad operand and padding_value must be same dtype: got {x.dtype} and "
                f"{value.dtype}."
            )
        if value.shape:
            raise ValueError(
                f"padding_value must be a scalar; got np.shape(padding_value)={value.shape}"
            )
        if len(padding_config) != x.ndim:
            raise ValueError(
                "length of padding_config must equal the number of axes of operand, got "
                f"padding_config {padding_config} for operand shape {x.shape}"
            )
        if any(interior < 0 for _, _, interior in padding_config):
            raise ValueError(
                "interior padding in padding_config must be nonnegative, got padding_config "
                f"{padding_config}"
            )
        shape = tuple(
            low + high + dimensions.dilated(n, interior + 1)
            for n, (low, high, interior) in zip(x.shape, padding_config, strict=True)
        )
        if any(type(n) is int and n < 0 for n in shape):
            raise ValueError(
                f"Dimension size after padding is not at least 0, got result shape {shape}, for "
                f"padding_config {padding_config} and operand shape {x.shape}"
            )
        dimensions.check_not_negative("pad", shape)
        return (ShapedArray(shape, x.dtype, x.weak_type and value.weak_type),)

    shard = partition.called("padding")

    def lower(
        self,
        ctx: Context,
        x: Value,
        value: Value,
        *,
        padding_config: Sequence[tuple[int, int, int]],
    ) -> Any:
        low, high, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
        return (rare_hlo.pad(ctx, x, value, low, high, interior, ctx.avals_out[0].strengthen()),)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Values, *, padding_config: object) -> Any:
        outs = self.call(*primals, padding_config=padding_config)
        if all(type(t) is Zero for t in tangents):
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(*map(array_ops.instantiate, tangents), padding_config=padding_config)

    def transpose(
        self,
        cts: Sequence[Array],
        x: Array | Undefined,
        value: ArrayLike | Undefined,
        *,
        padding_config: Sequence[tuple[int, int, int]],
    ) -> Any:
        (ct,) = cts
        ct_x = _unpadded(ct, (x.aval if type(x) is Undefined else typeof(x)).shape, padding_config)
        if type(value) is not Undefined:
            return ct_x, None
        axes = range(np.ndim(ct))
        rest = _elementwise.sub(_structure.reduce_sum(ct, axes), _structure.reduce_sum(ct_x, axes))
        return (ct_x if type(x) is Undefined else None), rest

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        padding_config: Sequence[tuple[int, int, int]],
    ) -> Any:
        (x, value), (dim, value_dim) = args, dims
        at = 0 if dim is None else dim
        config = (*padding_config[:at], (0, 0, 0), *padding_config[at:])
        if value_dim is None:
            return self.call(x, value, padding_config=config), (at,)
        if dim is None:
            x = array_ops.broadcast(x, axis.size, 0)
        aval = typeof(x)
        # Any value will do, as it is replaced; there is no zero among keys.
        any_value = (
            squeeze(slice_in_dim(value, 0, 1), (0,))
            if isinstance(aval.dtype, dtypes.ExtendedDType)
            else _structure.full((), 0, aval.dtype)
        )
        (padded,) = self.call(x, any_value, padding_config=config)
        inside = _structure.full(aval.shape, True, np.dtype(bool))
        (inside,) = self.call(
            inside, _structure.full((), False, np.dtype(bool)), padding_config=config
        )
        return (
            _elementwise.select(
                inside, padded, _structure.broadcast_to(value, np.shape(padded), (at,))
            ),
        ), (at,)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[ShapedArray],
        *,
        padding_config: Sequence[tuple[int, int, int]],
    ) -> Any:
        (x, value), (aval, _) = args, avals
        if not dimensions.is_constant([interior for _, _, interior in padding_config]):
            sizes.refuse("the number of holes between elements is dynamic")
        x = sizes.mask(x, aval, value)
        # Where the padding in front has a dynamic size, pad to its bound. The window then begins
        # later.
        fronts = [
            max(sizes.bounded(low), 0) if dimensions.is_symbolic(low) else low
            for low, _, _ in padding_config
        ]
        config = [
            (
                front,
                0
                if dimensions.is_symbolic(n)
                or dimensions.is_symbolic(low)
                or dimensions.is_symbolic(high)
                else high,
                interior,
            )
            for front, n, (low, high, interior) in zip(
                fronts, aval.shape, padding_config, strict=True
            )
        ]
        (y,) = self.call(x, value, padding_config=tuple(config))
        starts = [
            front - sizes.value(low) if dimensions.is_symbolic(low) else 0
            for front, (low, _, _) in zip(fronts, padding_config, strict=True)
        ]
        return (sizes.window(y, starts, outs[0].shape, value),)


def _unpadded(
    ct: Array, shape: Sequence[Size], padding_config: Sequence[tuple[int, int, int]]
) -> Any:
    """The cotangent of the operand of pad: its elements from among the padding; zeros for those
    that were cut off."""
    zero = _structure.full((), 0, typeof(ct).dtype)
    strides = tuple(interior + 1 for _, _, interior in padding_config)
    # As many as strides are long for each element: the slice then has n elements also where n may
    # be 0.
    highs = [
        n * s - m + low if dimensions.is_symbolic(n) else -high
        for n, m, s, (low, high, _) in zip(
            shape, np.shape(ct), strides, padding_config, strict=True
        )
    ]
    (whole,) = pad_p.call(
        ct,
        zero,
        padding_config=tuple(
            (-low, high, 0) for (low, _, _), high in zip(padding_config, highs, strict=True)
        ),
    )
    return (
        whole
        if all(s == 1 for s in strides)
        else slice(whole, (0,) * len(shape), np.shape(whole), strides)
    )


slice_p = Slice()
pad_p = Pad()


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """operand[start:limit:stride] along each axis.

    Raises TypeError if there is not one of each an axis, or they do not lie within the operand.

    >>> slice(np.int32([1, 2, 3, 4]), (1,), (4,), (2,)).tolist()
    [2, 4]
    """
    starts, limits = _integers(start_indices), _integers(limit_indices)
    steps = None if strides is None else _integers(strides)
    if (
        steps is not None
        and all(type(s) is int and s == 1 for s in steps)
        and len(steps) == len(starts)
    ):
        steps = None
    if (
        steps is None
        and _is_at_origin(starts)
        and limits == np.shape(operand)
        and len(starts) == len(limits)
        and is_array(operand)
    ):
        return operand
    return slice_p.call(operand, start_indices=starts, limit_indices=limits, strides=steps)[0]


def slice_in_dim(
    operand: ArrayLike,
    start_index: Size | None,
    limit_index: Size | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """operand[start:limit:stride] along one axis; negative places count from its end.

    Raises ValueError if the axis is out of range.

    >>> slice_in_dim(np.int32([1, 2, 3, 4]), -3, None).tolist()
    [2, 3, 4]
    """
    shape = np.shape(operand)
    at = canonical_axis(axis, len(shape), "slice_in_dim")
    size = shape[at]
    start = 0 if start_index is None else _from_front(start_index, size)
    limit = size if limit_index is None else _from_front(limit_index, size)
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[at], limits[at], steps[at] = start, limit, stride
    return slice(operand, starts, limits, steps)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The element of operand at a place of one axis, which is kept with size 1 or dropped.

    Raises IndexError if the index is out of range.

    >>> index_in_dim(np.int32([1, 2, 3]), -1, keepdims=False).tolist()
    3
    """
    at = canonical_axis(axis, np.ndim(operand), "index_in_dim")
    place, size = dimensions.as_size(index), np.shape(operand)[at]
    if not -size <= place < size:
        raise IndexError(f"index {place} is out of bounds for axis {at} with size {size}")
    start = place + size if place < 0 else place
    part = slice_in_dim(operand, start, start + 1, axis=at)
    return part if keepdims else squeeze(part, (at,))


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """operand with padding_value before, after, and between its elements: (low, high, interior) for
    each axis.

    Negative low and high cut elements off. Raises TypeError if dtypes differ, ValueError if the
    configuration does not fit.

    >>> pad(np.int32([1, 2]), np.int32(0), [(1, -1, 1)]).tolist()
    [0, 1, 0]
    """
    config = tuple(_padding(entry) for entry in padding_config)
    if isinstance(padding_value, int | float | complex):
        padding_value = _like_scalar(padding_value, typeof(operand).dtype)
    own = typeof(operand).partition
    if (
        own is not None and own.spec.unreduced
    ):  # one device has the value, the others nothing to add to it
        padding_value = array_ops.lay_out(
            padding_value, own.with_spec(PartitionSpec(unreduced=own.spec.unreduced))
        )
    return pad_p.call(operand, padding_value, padding_config=config)[0]


def _padding(entry: Any) -> tuple[Any, Any, Any]:
    if not isinstance(entry, Sequence | np.ndarray) or len(entry) != 3:
        raise ValueError(
            "pad: padding_config has (low, high, interior) for each axis.\n"
            f"    entry: {entry!r}\n"
            "  interior is the padding between elements, often 0; jnp.pad takes pairs."
        )
    low, high, interior = (dimensions.as_size(n) for n in entry)
    return low, high, interior


def _like_scalar(value: object, dtype: DTypeLike) -> Any:
    """A Python scalar in a dtype of its kind; itself if the kinds differ."""
    kinds: tuple[Any, ...] = (np.integer, np.floating, np.complexfloating)
    own = typeof(value).dtype
    return (
        _structure.full((), value, dtype)
        if any(dtypes.issubdtype(own, k) and dtypes.issubdtype(dtype, k) for k in kinds)
        and own != dtype
        else value
    )


def _integers(xs: Sequence[object]) -> tuple[Any, ...]:
    return tuple([dimensions.as_size(x) for x in xs])


def _from_front(place: Any, size: int) -> Any:
    """A place counted from the front of an axis."""
    place = _integers((place,))[0]
    return place + size if type(place) is int and place < 0 else place
