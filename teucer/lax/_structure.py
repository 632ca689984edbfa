"""Operations that the rules of all others need. Imports no other module of lax but `_folding`.

broadcast_in_dim and its transpose reduce_sum, reshape, transpose, convert_element_type, add_any.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._arrays import transfer
from teucer._base import config, dtypes, errors
from teucer._base.errors import ShardingTypeError
from teucer._core import array_ops, dialects
from teucer._core.cost import Subnormals, Work
from teucer._core.primitive import Axis, Call, Primitive, Undefined
from teucer._core.provided import provided
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import ShapedArray, Zero
from teucer._devices import partition
from teucer._devices.partition import Labels, every, kept
from teucer._devices.shardings import typed
from teucer._dimensions.dimensions import as_size, check_not_negative, is_constant, is_symbolic
from teucer._dimensions.refusals import not_a_shape
from teucer._lower import hlo
from teucer.lax._costs import CHEAP_MOVE, MOVE, NORMAL, REDUCED
from teucer.lax._folding import convert

if TYPE_CHECKING:
    from teucer._core.typing import (
        Array,
        ArrayLike,
        Arrays,
        Atom,
        Avals,
        Axes,
        Cotangent,
        Dims,
        DTypeLike,
        HostArray,
        Partition,
        Shape,
        Size,
        Tangents,
    )
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class BroadcastInDimParams(TypedDict):
        shape: Sequence[Size]
        broadcast_dimensions: Axes
        sharding: Partition | None

    class ReshapeParams(TypedDict):
        new_sizes: Sequence[Size]
        dimensions: Axes | None
        sharding: Partition | None

    class ConvertElementTypeParams(TypedDict):
        new_dtype: DTypeLike
        weak_type: bool
        sharding: Partition | None


__all__ = ["broadcast_in_dim_p", "reduce_sum_p", "reshape_p", "transpose_p"]


class Linear(Primitive):
    """A primitive that is linear in its only operand: the tangent goes through the primitive
    itself."""

    __slots__ = ()
    linear_in: str | None = "sum"

    def jvp(self, primals: Arrays, tangents: Tangents, **params: object) -> Any:
        outs = self.call(*primals, **params)
        (t,) = tangents
        if type(t) is Zero:
            return outs, tuple(typeof(y).zero for y in outs)
        return outs, self.call(t, **params)


@final
class BroadcastInDim(Linear):
    """x with new axes, and axes of size 1 repeated: axis i of x becomes axis
    broadcast_dimensions[i].

    (C1) sizes are not negative.  (C2) broadcast_dimensions names increasing axes of the shape, one
    an axis of x. (C3) an axis of x has the size of its target, or 1.
    """

    __slots__ = ()
    name = "broadcast_in_dim"
    cost = CHEAP_MOVE._replace(work=Work.BROADCAST)
    rearranges = True

    def types(
        self,
        x: ShapedArray,
        *,
        shape: Sequence[Size],
        broadcast_dimensions: Axes,
        sharding: object = None,
    ) -> Any:
        dims = broadcast_dimensions
        if any(type(n) is int and n < 0 for n in shape):
            raise TypeError(
                "broadcast_in_dim shape must have every element be nonnegative, got "
                f"{tuple(shape)}."
            )
        if len(shape) < x.ndim:
            raise TypeError(
                "broadcast_in_dim target broadcast shape must have equal or higher rank to the "
                f"operand shape; got operand ndim {x.ndim} and target broadcast ndim {len(shape)}."
            )
        if len(dims) != x.ndim:
            raise TypeError(
                "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; got "
                f"broadcast_dimensions {tuple(dims)} for operand ndim {x.ndim}."
            )
        if not all(0 <= d < len(shape) for d in dims):
            raise TypeError(
                "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, got "
                f"{tuple(dims)} for operand ndim {x.ndim} and shape {tuple(shape)}."
            )
        for i, d in enumerate(dims):
            if x.shape[i] != shape[d] and x.shape[i] != 1:
                raise TypeError(
                    "broadcast_in_dim operand dimension sizes must either be 1, or be equal to "
                    "their corresponding dimensions in the target broadcast shape; got operand "
                    f"of shape {x.shape}, target broadcast shape {tuple(shape)}, "
                    f"broadcast_dimensions {tuple(dims)}"
                )
        if any(b <= a for a, b in itertools.pairwise(dims)):
            why = (
                "must not contain duplicates"
                if len(set(dims)) < len(dims)
                else "must be strictly increasing"
            )
            raise TypeError(f"broadcast_in_dim broadcast_dimensions {why}; got {tuple(dims)}")
        return (
            ShapedArray(tuple(shape), x.dtype, x.weak_type, sharding=typed(sharding, len(shape))),
        )

    def shard(self, x: ShapedArray, **params: Unpack[BroadcastInDimParams]) -> Any:
        place = {d: i for i, d in enumerate(params["broadcast_dimensions"])}
        return Labels([every(x)], [tuple(place.get(d) for d in range(len(params["shape"])))])

    def lower(
        self,
        ctx: Context,
        x: Value,
        *,
        shape: Sequence[Size],
        broadcast_dimensions: Any,
        sharding: Partition | None = None,
    ) -> Any:
        return (hlo.broadcast_in_dim(ctx, x, shape, broadcast_dimensions),)

    def transpose(
        self,
        cts: Tangents,
        x: Array | Undefined,
        *,
        shape: Sequence[Size],
        broadcast_dimensions: Axes,
        sharding: object = None,
    ) -> Any:
        (ct,) = cts
        aval = x.aval
        stretched = [
            d for i, d in enumerate(broadcast_dimensions) if aval.shape[i] == 1 and shape[d] != 1
        ]
        new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
        summed = tuple(sorted((*new, *stretched)))
        (total,) = reduce_sum_p.call(
            ct, axes=summed, out_sharding=partition.parts_of_sum(typeof(ct), summed, aval)
        )
        return (reshape(total, aval.shape),)

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Axes,
        *,
        shape: Sequence[Size],
        broadcast_dimensions: Axes,
        sharding: Partition | None = None,
    ) -> Any:
        x = moveaxis(args[0], dims[0], 0)
        outs = self.call(
            x,
            shape=(axis.size, *shape),
            broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions)),
            sharding=partition.batched(sharding, len(shape), 0, axis, args, dims),
        )
        return outs, (0,)

    def simplify(
        self,
        known: Any,
        x: Atom,
        *,
        shape: Sequence[Size],
        broadcast_dimensions: Axes,
        sharding: object = None,
    ) -> Any:
        if x.aval.shape == shape:
            return x
        made = known.made.get(x)
        if made is None or made.primitive is not self or made.params.get("sharding") is not None:
            return None
        dims = tuple([broadcast_dimensions[d] for d in made.params["broadcast_dimensions"]])
        return Call(
            (made.invars[0],), {"shape": shape, "broadcast_dimensions": dims, "sharding": sharding}
        )

    padded = dialects.through


@final
class ReduceSum(Linear):
    """The sum of x over axes.  (C1) axes are distinct and within x.  (C2) x is numeric.  (C3) x is
    not of 16-bit floats where the option jax_allow_f16_reductions forbids their sums, which lose
    digits, but over axes of size 1."""

    __slots__ = ()
    name = "reduce_sum"
    cost = REDUCED._replace(subnormals=Subnormals.ROUND)

    def types(self, x: ShapedArray, *, axes: Axes, out_sharding: Partition | None = None) -> Any:
        check_axes(x, axes)
        if not dtypes.issubdtype(x.dtype, np.number):
            raise TypeError(
                f"reduce_sum does not accept dtype {x.dtype}. Accepted dtypes are subtypes of "
                "number."
            )
        few = x.dtype in (np.float16, dtypes.bfloat16) and not all(x.shape[i] == 1 for i in axes)
        if few and not config.allow_f16_reductions.value:
            raise ValueError(
                f"reduce_sum on operand {x.str_short(short_dtypes=True)} is not allowed when "
                "jax_allow_f16_reductions=False.\n  Convert it to float32 first, as jnp.sum does."
            )
        partition.check_parts(x, axes, out_sharding)
        return (
            ShapedArray(
                tuple(d for i, d in enumerate(x.shape) if i not in axes),
                x.dtype,
                x.weak_type,
                sharding=typed(out_sharding, x.ndim - len(axes)),
            ),
        )

    def shard(self, x: ShapedArray, *, axes: Axes, out_sharding: object) -> Any:
        return Labels([every(x)], [kept(x, axes)])

    def lower(self, ctx: Context, x: Value, *, axes: Axes, out_sharding: object = None) -> Any:
        return hlo.reduce(
            ctx,
            [x],
            [ctx.constant(0, x.dtype)],
            axes,
            lambda a, b: (hlo.elementwise(ctx, "add", a, b),),
        )

    def transpose(
        self,
        cts: Sequence[Cotangent],
        x: Array | Undefined,
        *,
        axes: Axes,
        out_sharding: object = None,
    ) -> Any:
        return broadcast_in_dim_p.call(
            *cts,
            shape=x.aval.shape,
            broadcast_dimensions=kept(x.aval, axes),
            sharding=x.aval.cotangent_aval().partition,
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Axes,
        *,
        axes: Axes,
        out_sharding: Partition | None = None,
    ) -> Any:
        (dim,) = dims
        at = dim - sum(a < dim for a in axes)
        ndim = typeof(args[0]).ndim - 1 - len(axes)
        outs = self.call(
            args[0],
            axes=tuple(a + (a >= dim) for a in axes),
            out_sharding=partition.batched(out_sharding, ndim, at, axis, args, dims),
        )
        return outs, (at,)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Arrays,
        avals: Avals,
        outs: Sequence[object],
        *,
        axes: Axes,
        out_sharding: Partition | None = None,
    ) -> Any:
        return self.call(
            sizes.mask(args[0], avals[0], 0, axes), axes=axes, out_sharding=out_sharding
        )


@final
class Reshape(Linear):
    """x with the same elements in another shape.  (C1) the number of elements is the same."""

    __slots__ = ()
    name = "reshape"
    cost = CHEAP_MOVE._replace(work=Work.RESHAPE)
    rearranges = True

    def types(
        self,
        x: ShapedArray,
        *,
        new_sizes: Sequence[Size],
        dimensions: object = None,
        sharding: Partition | None = None,
    ) -> Any:
        aval = ShapedArray(
            new_sizes, x.dtype, x.weak_type, sharding=typed(sharding, len(new_sizes))
        )
        if aval.size != x.size:
            raise TypeError(
                f"reshape total size must be unchanged, got new_sizes {tuple(new_sizes)} (total "
                f"size {aval.size}) for shape {x.shape} (total size {x.size})."
            )
        partition.check_same_parts("reshape", x, sharding)
        if x.partition is not None and sharding is None:
            spec = partition.reshaped(x, aval.shape)
            return (aval.update(sharding=x.partition.with_spec(spec)),)
        return (aval,)

    def shard(self, *avals: ShapedArray, **params: Unpack[ReshapeParams]) -> Any:
        return None

    def lower(
        self,
        ctx: Context,
        x: Value,
        *,
        new_sizes: Any,
        dimensions: object = None,
        sharding: object = None,
    ) -> Any:
        return (hlo.reshape(ctx, x, new_sizes),)

    def transpose(
        self,
        cts: Tangents,
        x: Array | Undefined,
        *,
        new_sizes: Shape,
        dimensions: Axes | None = None,
        sharding: object = None,
    ) -> Any:
        return self.call(
            *cts,
            new_sizes=x.aval.shape,
            dimensions=None,
            sharding=x.aval.cotangent_aval().partition,
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Axes,
        *,
        new_sizes: Sequence[Size],
        dimensions: object = None,
        sharding: Partition | None = None,
    ) -> Any:
        x = moveaxis(args[0], dims[0], 0)
        return self.call(
            x,
            new_sizes=(axis.size, *new_sizes),
            dimensions=None,
            sharding=partition.batched(sharding, len(new_sizes), 0, axis, args, dims),
        ), (0,)

    def simplify(
        self,
        known: Any,
        x: Atom,
        *,
        new_sizes: Any,
        dimensions: Axes | None = None,
        sharding: object = None,
    ) -> Any:
        made = known.made.get(x)
        again = made is not None and made.primitive is self and made.params.get("sharding") is None
        source = made.invars[0] if again else x
        if source.aval.shape == new_sizes:
            return source
        return (
            Call(
                (source,), {"new_sizes": new_sizes, "dimensions": dimensions, "sharding": sharding}
            )
            if again
            else None
        )

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Arrays,
        avals: Avals,
        outs: Arrays,
        **params: Unpack[ReshapeParams],
    ) -> Any:
        (x,), (aval,) = args, avals
        a, b = aval.shape, tuple(params["new_sizes"])
        first = _agreeing(a, b)
        last = _agreeing(a[first:][::-1], b[first:][::-1])
        a, b = [s[first : len(s) - last] for s in (a, b)]
        lead, trail = np.shape(x)[:first], np.shape(x)[len(np.shape(x)) - last :]

        def shaped(y: Array, middle: Any) -> Any:
            return reshape(y, (*lead, *sizes.bounded(tuple(middle)), *trail))

        if any(map(is_symbolic, (*a[1:], *b[1:]))):
            # Elements of one row are not next to each other in the buffer: each is looked up.
            flat = shaped(x, (math.prod(sizes.bounded(tuple(a))),))
            return (shaped(sizes.take(flat, sizes.places(a, b), first), b),)
        # The elements are the first of the buffer, in order.
        flat = shaped(x, (math.prod(sizes.bounded(tuple(a))),))
        return (shaped(sizes.fit(flat, (*lead, math.prod(sizes.bounded(tuple(b))), *trail)), b),)


def _agreeing(a: Sequence[object], b: Sequence[object]) -> int:
    """How many sizes in front two shapes have in common."""
    return next(
        (i for i, (m, n) in enumerate(zip(a, b, strict=False)) if m != n), min(len(a), len(b))
    )


@final
class Transpose(Linear):
    """x with its axes permuted.  (C1) permutation is a permutation of x's axes."""

    __slots__ = ()
    name = "transpose"
    cost = MOVE._replace(
        work=Work.TRANSPOSE,
        moves=lambda x, *, permutation: 0 if permutation[-1] == x.ndim - 1 else int(x.size),
    )
    rearranges = True

    def types(self, x: ShapedArray, *, permutation: Axes) -> Any:
        if sorted(permutation) != list(range(x.ndim)):
            raise TypeError(
                f"transpose permutation isn't a permutation of operand dimensions, got permutation "
                f"{tuple(permutation)} for operand shape {x.shape}."
            )
        return (ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype, x.weak_type),)

    def shard(self, x: ShapedArray, *, permutation: Axes) -> Any:
        return Labels([every(x)], [tuple(permutation)])

    def lower(self, ctx: Context, x: Value, *, permutation: Axes) -> Any:
        return (hlo.transpose(ctx, x, permutation),)

    def transpose(self, cts: Tangents, x: ArrayLike | Undefined, *, permutation: Axes) -> Any:
        return self.call(*cts, permutation=tuple(int(i) for i in np.argsort(permutation)))

    def batch(self, axis: Axis, args: Arrays, dims: Axes, *, permutation: Axes) -> Any:
        (dim,) = dims
        return self.call(args[0], permutation=(dim, *(i + (i >= dim) for i in permutation))), (0,)

    def simplify(self, known: Any, x: Atom, *, permutation: Axes) -> Any:
        made = known.made.get(x)
        again = made is not None and made.primitive is self
        source, order = (
            (made.invars[0], tuple([made.params["permutation"][i] for i in permutation]))
            if again
            else (x, permutation)
        )
        if order == tuple(range(len(order))):
            return source
        return Call((source,), {"permutation": order}) if again else None

    padded = dialects.through


@final
class ConvertElementType(Primitive):
    """x as another dtype: floats to integers towards zero, complex to real by the real part,
    numbers to booleans by != 0."""

    __slots__ = ()
    name = "convert_element_type"
    linear_in = "sum"
    cost = CHEAP_MOVE._replace(subnormals=None, decides="BOOL")

    def types(
        self, x: ShapedArray, *, new_dtype: DTypeLike, weak_type: bool, sharding: object = None
    ) -> Any:
        if isinstance(x.dtype, dtypes.ExtendedDType) is not isinstance(
            new_dtype, dtypes.ExtendedDType
        ):
            raise TypeError(
                f"convert_element_type: typed keys are no numbers, got {x.dtype} to {new_dtype}.\n"
                "  jax.random.key_data gives their words, jax.random.wrap_key_data makes keys of "
                "words."
            )
        if (
            x.unreduced
            and dtypes.issubdtype(x.dtype, np.inexact)
            and not dtypes.issubdtype(new_dtype, np.inexact)
        ):
            raise ShardingTypeError(
                "convert_element_type: parts of a sum cannot be rounded one by one.\n"
                f"    x: {x.str_short()}, new_dtype: {new_dtype}\n  Sum first, with jax.reshard."
            )
        return (ShapedArray(x.shape, new_dtype, weak_type),)

    shard = partition.aligned

    def lower(
        self,
        ctx: Context,
        x: Value,
        *,
        new_dtype: DTypeLike,
        weak_type: bool,
        sharding: object = None,
    ) -> Any:
        (aval,) = ctx.avals_out
        if x.dtype.kind == "c" and aval.dtype.kind != "c":
            x = ctx.op1("stablehlo.real", (x,), ShapedArray(x.shape, np.finfo(x.dtype).dtype))
        if aval.dtype == np.bool_:
            return (hlo.compare(ctx, x, hlo.splat(ctx, 0, x.aval.strengthen()), "NE"),)
        return (hlo.convert(ctx, x, aval.dtype),)

    def jvp(
        self, primals: Arrays, tangents: Tangents, **params: Unpack[ConvertElementTypeParams]
    ) -> Any:
        (x,), (t,) = primals, tangents
        outs = self.call(x, **params)
        if type(t) is Zero or not dtypes.issubdtype(params["new_dtype"], np.inexact):
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(t, **params)

    def transpose(
        self,
        cts: Tangents,
        x: Array | Undefined,
        *,
        new_dtype: DTypeLike,
        weak_type: bool,
        sharding: object = None,
    ) -> Any:
        return self.call(*cts, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type, sharding=None)

    def batch(
        self, axis: Axis, args: Arrays, dims: Dims, **params: Unpack[ConvertElementTypeParams]
    ) -> Any:
        return self.call(*args, **params), dims

    def simplify(self, known: object, x: Atom, **params: Unpack[ConvertElementTypeParams]) -> Any:
        return x

    def fold(self, x: HostArray, **params: Unpack[ConvertElementTypeParams]) -> Any:
        return convert(x, params["new_dtype"])

    padded = dialects.through


@final
class AddAny(Primitive):
    """x + y, of two cotangents of one type."""

    __slots__ = ()
    name = "add_any"
    linear_in = "sum"
    cost = NORMAL

    def types(self, x: ShapedArray, y: ShapedArray) -> Any:
        if x.shape != y.shape or x.dtype != y.dtype:
            raise TypeError(f"add_any: operands differ in type.\n    x: {x}\n    y: {y}")
        return (x if x is y else x.strengthen(),)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value, y: Value) -> Any:
        return (ctx.op1("stablehlo.add", (x, y), ctx.avals_out[0]),)

    def jvp(self, primals: Arrays, tangents: Tangents) -> Any:
        return self.call(*primals), (array_ops.add_cotangents(*tangents),)

    def transpose(self, cts: Tangents, x: Array | Undefined, y: Array | Undefined) -> Any:
        (ct,) = cts
        return ct if type(x) is Undefined else None, ct if type(y) is Undefined else None

    def batch(self, axis: Axis, args: Arrays, dims: Dims) -> Any:
        first = next(d for d in dims if d is not None)
        return self.call(
            *(array_ops.to_axis(x, d, axis.size, first) for x, d in zip(args, dims, strict=True))
        ), (first,)

    padded = dialects.through


broadcast_in_dim_p = BroadcastInDim()
reduce_sum_p = ReduceSum()
reshape_p = Reshape()
transpose_p = Transpose()
convert_element_type_p = ConvertElementType()
add_any_p = AddAny()


def canonical_axis(axis: int, ndim: int, op: str = "axis") -> int:
    """An axis counted from the front.

    Raises ValueError if it is out of bounds.
    """
    if isinstance(axis, Tracer) and axis.concrete() is None:
        raise errors.ConcretizationTypeError(
            axis, f"{op}: The axis argument must be known statically."
        )
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return i + ndim if i < 0 else i


def canonical_shape(shape: Sequence[Size], op: str = "shape") -> tuple[Any, ...]:
    """A shape as a tuple of ints or symbolic dimensions.

    Raises TypeError if it is not a sequence of integers that are not negative.
    """
    try:
        sizes = tuple([as_size(d) for d in shape])
    except (TypeError, AttributeError) as err:
        raise not_a_shape(op, shape) from err
    if any(type(d) is int and d < 0 for d in sizes):
        raise TypeError(f"{op} shape must have every element be nonnegative, got {shape}.")
    check_not_negative(op, sizes)
    return sizes


def check_axes(x: Any, axes: Axes) -> None:
    """Raise ValueError if the axes of a reduction are not distinct axes of x, counted from the
    front."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of reduction: {tuple(axes)}")
    if not all(0 <= a < x.ndim for a in axes):
        raise ValueError(
            f"reduction axes {tuple(axes)} contains out-of-bounds indices for {x.str_short()}."
        )


def broadcast_to(x: Any, shape: Sequence[Size], dims: Axes) -> Any:
    """broadcast_in_dim, or x itself where that would change nothing."""
    shape = tuple(shape)
    if (
        tuple(np.shape(x)) == shape
        and len(dims) == len(shape)
        and not isinstance(x, int | float | complex)
    ):
        return x
    return broadcast_in_dim_p.call(x, shape=shape, broadcast_dimensions=tuple(dims), sharding=None)[
        0
    ]


def expand(x: ArrayLike, size: int, axis: int) -> Any:
    """x repeated along a new axis."""
    shape = list(np.shape(x))
    dims = [i + (i >= axis) for i in range(len(shape))]
    shape.insert(axis, size)
    return broadcast_to(x, shape, dims)


def reduce_sum(x: object, axes: Axes) -> Any:
    """The sum over axes, or x itself for none."""
    return reduce_sum_p.call(x, axes=tuple(sorted(axes)), out_sharding=None)[0] if axes else x


def reshape(x: ArrayLike, shape: Sequence[Size]) -> Any:
    """x in another shape, or x itself if it has it."""
    shape = tuple(shape)
    return (
        x
        if tuple(np.shape(x)) == shape
        else reshape_p.call(x, new_sizes=shape, dimensions=None, sharding=None)[0]
    )


def transpose(x: ArrayLike, permutation: Axes) -> Any:
    """x with its axes permuted, or x itself for the identity."""
    permutation = tuple(permutation)
    return (
        x
        if permutation == tuple(range(len(permutation)))
        else transpose_p.call(x, permutation=permutation)[0]
    )


def moveaxis(x: ArrayLike, source: int, destination: int) -> Any:
    """x with one axis moved."""
    ndim = np.ndim(x)
    if not ndim:
        raise ValueError(f"axis {source} is out of bounds for array of dimension 0")
    order = [i for i in range(ndim) if i != source % ndim]
    order.insert(destination % ndim, source % ndim)
    return transpose(x, order)


_HOST = (int, float, complex, np.ndarray, np.generic)


def convert_element_type(x: object, dtype: DTypeLike, weak_type: bool = False) -> Any:
    """x as another dtype, or x itself if it has it."""
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type and not isinstance(x, _HOST):
        return x
    return convert_element_type_p.call(
        x, new_dtype=np.dtype(dtype), weak_type=bool(weak_type), sharding=None
    )[0]


def number(value: object, dtype: Any) -> Any:
    """One number of the host or several, in a dtype. If 64-bit types are off, 64-bit numbers become
    an array, since NumPy's numbers are narrowed (`explicit_x64_dtypes`)."""
    x = np.asarray(value, dtype)
    if x.dtype not in dtypes.NARROWED or config.enable_x64.value:
        return x[()]
    return transfer.put(x, None, aval=ShapedArray(x.shape, x.dtype))


def full(
    shape: Sequence[Size],
    value: Any,
    dtype: DTypeLike,
    weak_type: bool = False,
    sharding: object = None,
) -> Any:
    """An array of equal elements."""
    if dtype == dtypes.float0:
        if is_constant(shape):
            return np.zeros(tuple(shape), dtypes.float0)
        return broadcast_in_dim_p.call(
            np.zeros((), dtypes.float0), shape=tuple(shape), broadcast_dimensions=(), sharding=None
        )[0]
    if isinstance(value, bool | int | float | complex | np.generic):
        value = np.asarray(value, dtype)
        if value.dtype in dtypes.NARROWED:
            value = number(value, dtype)
        if not shape and not weak_type:
            return value if config.tracing.value else transfer.put(value, None)
        if not shape and current_trace().staging():
            return current_trace().lift(value[()], ShapedArray((), value.dtype, True))
    elif is_symbolic(value):
        value = convert_element_type(value, dtype)
    out = broadcast_in_dim_p.call(
        value, shape=tuple(shape), broadcast_dimensions=(), sharding=sharding
    )[0]
    return convert_element_type(out, dtype, weak_type) if weak_type else out


def zeros(aval: ShapedArray) -> Any:
    """Zeros of type `aval`."""
    return full(aval.shape, 0, aval.dtype, getattr(aval, "weak_type", False), aval.partition)


def _ones(aval: ShapedArray) -> Any:
    return full(aval.shape, 1, aval.dtype, getattr(aval, "weak_type", False), aval.partition)


provided.fill(
    zeros=zeros,
    ones=_ones,
    add=lambda x, y: add_any_p.call(x, y)[0],
    broadcast=expand,
    moveaxis=moveaxis,
    reshape=reshape,
    sum_axis=lambda x, axis: reduce_sum(x, [axis]),
    convert=lambda x, aval: convert_element_type(x, aval.dtype, aval.weak_type),
)
