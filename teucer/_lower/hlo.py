"""StableHLO operations as functions that write them.

One a line of the specification (docs/spec.md, openxla/stablehlo).

The names are as in the specification. Elementwise operations need no function: see
`elementwise`. Where sizes are symbolic, the operation is written in its dynamic form, which takes
sizes as values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, final

import numpy as np

from teucer._base import dtypes
from teucer._base.element_types import bit_width
from teucer._base.errors import InconclusiveDimensionOperation
from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import is_constant, is_symbolic
from teucer._lower import text
from teucer._lower.context import Context, Value
from teucer._lower.text import i64s

if TYPE_CHECKING:
    from teucer._core.typing import Aval, DType, Size


Shape: TypeAlias = "Sequence[Size]"
Operands = ParamSpec("Operands")


def size(ctx: Context, value: Any) -> Value:
    """A size, constant or symbolic, as a scalar; written once a block."""
    dtype = dtypes.canonicalize_dtype(np.dtype(np.int64))
    if not is_symbolic(value):
        return ctx.constant(value, dtype)
    found = ctx.constants.get(value)
    if found is None:
        found = ctx.constants[value] = value.fold(
            functools.partial(_variable, ctx),
            lambda n: ctx.constant(n, dtype),
            functools.partial(_of_sizes, ctx),
        )
    return found


def _variable(ctx: Context, name: str) -> Value:
    if name not in ctx.scalars:
        raise InconclusiveDimensionOperation(
            f"Encountered dimension variable '{name}' that is not appearing in the shapes of the "
            "function arguments.\n  Its value is not known here: sizes come from the arguments "
            "of the function that is exported."
        )
    return ctx.scalars[name]


def _of_sizes(ctx: Context, kind: str, x: Value, y: Value) -> Value:
    """An operation of `Dimension.fold` on scalars. Division rounds down."""
    if kind in _SAME_ON_SIZES:
        return elementwise(ctx, _SAME_ON_SIZES[kind], x, y)
    rest = elementwise(ctx, "remainder", x, y)
    signs = compare(ctx, elementwise(ctx, "sign", rest), elementwise(ctx, "sign", y), "NE")
    rounded = elementwise(ctx, "and", signs, compare(ctx, rest, ctx.constant(0, x.dtype), "NE"))
    if kind == "mod":
        return select(ctx, rounded, elementwise(ctx, "add", rest, y), rest)
    quotient = elementwise(ctx, "divide", x, y)
    return select(
        ctx, rounded, elementwise(ctx, "subtract", quotient, ctx.constant(1, x.dtype)), quotient
    )


_SAME_ON_SIZES = {"add": "add", "multiply": "multiply", "max": "maximum", "min": "minimum"}


def sizes(ctx: Context, shape: Sequence[Size]) -> Value:
    """A shape as an array of integers."""
    dtype = dtypes.canonicalize_dtype(np.dtype(np.int64))
    if is_constant(shape):
        return ctx.constant(np.asarray(shape, dtype))
    key = ("sizes", tuple(shape))
    found = ctx.constants.get(key)
    if found is None:
        parts = [reshape(ctx, size(ctx, n), (1,)) for n in shape]
        found = ctx.constants[key] = parts[0] if len(parts) == 1 else concatenate(ctx, parts, 0)
    return found


def elementwise(
    ctx: Context, name: str, *xs: Value, aval: ShapedArray | None = None, properties: str = ""
) -> Value:
    """The operation stablehlo.<name> on values of one type; the result has the first's type unless
    `aval` is given."""
    return ctx.op1(
        f"stablehlo.{name}", xs, xs[0].aval.strengthen() if aval is None else aval, properties
    )


def splat(ctx: Context, value: object, aval: ShapedArray) -> Value:
    """A constant of type `aval` with all elements equal to a scalar."""
    if not aval.shape:
        return ctx.constant(value, aval.dtype)
    if aval.symbolic:
        return broadcast_in_dim(ctx, ctx.constant(value, aval.dtype), aval.shape, ())
    scalar = text.dense(np.asarray(value, aval.dtype)) if 0 not in aval.shape else "dense<>"
    return ctx.op1("stablehlo.constant", (), aval, f"value = {scalar} : {text.tensor_type(aval)}")


def compare(ctx: Context, x: Value, y: Value, direction: str, kind: str | None = None) -> Value:
    """direction: EQ NE GE GT LE LT. kind: FLOAT TOTALORDER SIGNED UNSIGNED; by default from the
    dtype."""
    if kind is None:
        code = x.dtype.kind if x.dtype.name[:3] not in ("int", "uin") else x.dtype.name[0]
        kind = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED"}.get(code, "FLOAT")
    return ctx.op1(
        "stablehlo.compare",
        (x, y),
        ShapedArray(x.shape, np.dtype(bool)),
        f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>",
    )


def convert(ctx: Context, x: Value, dtype: DType) -> Value:
    if x.dtype == dtype:
        return x
    return ctx.op1("stablehlo.convert", (x,), ShapedArray(x.shape, dtype))


def bitcast_convert(ctx: Context, x: Value, aval: ShapedArray) -> Value:
    if aval.symbolic and len(aval.shape) != len(x.shape):
        raise InconclusiveDimensionOperation(
            "bitcast_convert between widths is not implemented for symbolic sizes.\n"
            f"    x: {x.aval}"
        )
    return ctx.op1("stablehlo.bitcast_convert", (x,), aval)


def select(ctx: Context, pred: Value, on_true: Value, on_false: Value) -> Value:
    return ctx.op1("stablehlo.select", (pred, on_true, on_false), on_true.aval)


def clamp(ctx: Context, low: Value, x: Value, high: Value) -> Value:
    return ctx.op1("stablehlo.clamp", (low, x, high), x.aval)


def broadcast_in_dim(ctx: Context, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
    shape = tuple(shape)
    if x.shape == shape and tuple(dims) == tuple(range(len(shape))):
        return x
    aval = ShapedArray(shape, x.dtype)
    if aval.symbolic:
        return ctx.op1(
            "stablehlo.dynamic_broadcast_in_dim",
            (x, sizes(ctx, aval.physical.shape)),
            aval,
            f"broadcast_dimensions = {i64s(dims)}",
        )
    return ctx.op1("stablehlo.broadcast_in_dim", (x,), aval, f"broadcast_dimensions = {i64s(dims)}")


def reshape(ctx: Context, x: Value, shape: Shape) -> Value:
    shape = tuple(shape)
    if x.shape == shape:
        return x
    aval = ShapedArray(shape, x.dtype)
    if aval.symbolic or x.aval.symbolic:
        return ctx.op1("stablehlo.dynamic_reshape", (x, sizes(ctx, shape)), aval)
    return ctx.op1("stablehlo.reshape", (x,), aval)


def transpose(ctx: Context, x: Value, permutation: Sequence[int]) -> Value:
    if tuple(permutation) == tuple(range(len(x.shape))):
        return x
    return ctx.op1(
        "stablehlo.transpose",
        (x,),
        ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype),
        f"permutation = {i64s(permutation)}",
    )


def reverse(ctx: Context, x: Value, dims: Sequence[int]) -> Value:
    return ctx.op1("stablehlo.reverse", (x,), x.aval, f"dimensions = {i64s(dims)}")


def slice(ctx: Context, x: Value, start: Shape, limit: Shape, strides: Shape) -> Value:
    aval = ShapedArray(
        tuple([(b - a + s - 1) // s for a, b, s in zip(start, limit, strides, strict=True)]),
        x.dtype,
    )
    if not is_constant(start) or not is_constant(limit):
        return ctx.op1(
            "stablehlo.real_dynamic_slice",
            (x, sizes(ctx, start), sizes(ctx, limit), sizes(ctx, strides)),
            aval,
        )
    return ctx.op1(
        "stablehlo.slice",
        (x,),
        aval,
        f"start_indices = {i64s(start)}, limit_indices = {i64s(limit)}, strides = {i64s(strides)}",
    )


def slice_at(ctx: Context, x: Value, axis: int, start: int, width: int) -> Value:
    """The part of x from `start` on along an axis. The place is not in the text, so that XLA takes
    parts of equal shapes for equal. If XLA divides x among devices, the place is in the text."""
    if ctx.module.mesh is not None:
        starts, limits = [0] * len(x.shape), list(x.shape)
        starts[axis], limits[axis] = start, start + width
        return slice(ctx, x, starts, limits, (1,) * len(starts))
    integer = ShapedArray((), np.dtype(np.int32))
    place, zero = (splat(ctx, i, integer) for i in (start, 0))
    (place,) = optimization_barrier(ctx, [place])
    places = [place if a == axis else zero for a in range(len(x.shape))]
    return dynamic_slice(ctx, x, places, (*x.shape[:axis], width, *x.shape[axis + 1 :]))


def concatenate(ctx: Context, xs: Sequence[Value], axis: int) -> Value:
    dtype = xs[0].dtype
    if bit_width(dtype) == 2:  # XLA's CPU aborts the process
        wide = [convert(ctx, x, np.dtype(np.int8)) for x in xs]
        return convert(ctx, concatenate(ctx, wide, axis), dtype)
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return ctx.op1(
        "stablehlo.concatenate",
        xs,
        ShapedArray(tuple(shape), xs[0].dtype),
        f"dimension = {axis} : i64",
    )


def pad(
    ctx: Context,
    x: Value,
    value: Value,
    low: Shape,
    high: Shape,
    interior: Shape,
    aval: ShapedArray,
) -> Value:
    if not is_constant((*low, *high, *interior)):
        return ctx.op1(
            "stablehlo.dynamic_pad",
            (x, value, *(sizes(ctx, amounts) for amounts in (low, high, interior))),
            aval,
        )
    return ctx.op1(
        "stablehlo.pad",
        (x, value),
        aval,
        f"edge_padding_low = {i64s(low)}, edge_padding_high = {i64s(high)}, "
        f"interior_padding = {i64s(interior)}",
    )


def dynamic_slice(ctx: Context, x: Value, starts: Sequence[Value], window: Shape) -> Value:
    aval = ShapedArray(tuple(window), x.dtype)
    if aval.symbolic:
        # No operation takes both places and sizes as values but gather, which clamps alike.
        at = concatenate(ctx, [reshape(ctx, s, (1,)) for s in starts], 0)
        axes = list(range(len(x.shape)))
        return ctx.op1(
            "stablehlo.dynamic_gather",
            (x, at, sizes(ctx, window)),
            aval,
            (
                f"dimension_numbers = #stablehlo.gather<offset_dims = {axes}, start_index_map = "
                f"{axes}>"
            ),
        )
    return ctx.op1("stablehlo.dynamic_slice", (x, *starts), aval, f"slice_sizes = {i64s(window)}")


def dynamic_update_slice(ctx: Context, x: Value, update: Value, starts: Sequence[Value]) -> Value:
    return ctx.op1("stablehlo.dynamic_update_slice", (x, update, *starts), x.aval)


def iota(ctx: Context, aval: ShapedArray, dimension: int) -> Value:
    if aval.symbolic:
        return ctx.op1(
            "stablehlo.dynamic_iota",
            (sizes(ctx, aval.shape),),
            aval,
            f"iota_dimension = {dimension} : i64",
        )
    return ctx.op1("stablehlo.iota", (), aval, f"iota_dimension = {dimension} : i64")


def reduce(
    ctx: Context,
    xs: Sequence[Value],
    inits: Sequence[Value],
    axes: Sequence[int],
    body: Callable[..., Sequence[Value]],
) -> tuple[Value, ...]:
    """Reduce several arrays together over `axes`; `body` combines accumulators and elements (all
    scalars)."""
    shape = tuple(d for i, d in enumerate(xs[0].shape) if i not in axes)
    scalars = [ShapedArray((), x.dtype) for x in xs]
    region = ctx.region(scalars + scalars, body)
    return ctx.op(
        "stablehlo.reduce",
        (*xs, *inits),
        [ShapedArray(shape, x.dtype) for x in xs],
        f"dimensions = {i64s(axes)}",
        [region],
    )


def while_(
    ctx: Context,
    init: Sequence[Value],
    cond: Callable[..., Sequence[Value]],
    body: Callable[..., Sequence[Value]],
) -> tuple[Value, ...]:
    avals = [v.aval for v in init]
    return ctx.op(
        "stablehlo.while", init, avals, regions=[ctx.region(avals, cond), ctx.region(avals, body)]
    )


def optimization_barrier(ctx: Context, xs: Sequence[Value]) -> tuple[Value, ...]:
    """xs behind a barrier for the compiler. Parts of sums get none: XLA would sum them there, and
    take the sums for parts."""
    held = [x for x in xs if not x.aval.unreduced]
    outs = iter(
        ctx.op("stablehlo.optimization_barrier", held, [x.aval for x in held]) if held else ()
    )
    return tuple([x if x.aval.unreduced else next(outs) for x in xs])


def custom_call(
    ctx: Context,
    target: str,
    operands: Sequence[Value],
    avals: Sequence[Aval],
    *,
    config: str | None = None,
    api_version: int = 4,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    has_side_effect: bool = False,
    aliases: Sequence[tuple[int, int]] = (),
    attributes: str = "",
    called: Sequence[str] = (),
    shaped: bool = True,
) -> tuple[Value, ...]:
    """Call a foreign function.

    config: the backend_config attribute: a dictionary `{a = 1 : i64}` with api_version 4 (typed
    FFI), else a string.
    layouts: axes from minor to major, for each operand and result.
    aliases: (result, operand) pairs that share their buffer. called: symbols of functions that it
    calls.
    shaped: whether symbolic shapes of results are told as further operands, which go when the
    module is refined.
    """
    if called:
        shaped = False
    if shaped and any(aval.symbolic for aval in avals):
        n = len(operands)
        operands = [*operands, *(sizes(ctx, aval.physical.shape) for aval in avals)]
        told = ", ".join(map(str, range(n, len(operands))))
        told = f"indices_of_shape_operands = dense<[{told}]> : tensor<{len(avals)}xi64>"
        attributes = f"{attributes}, {told}" if attributes else told
        if operand_layouts is not None:
            operand_layouts = [*operand_layouts, *([0] for _ in avals)]
    parts = [f'call_target_name = "{target}"', f"api_version = {api_version} : i32"]
    if has_side_effect:
        parts.append("has_side_effect = true")
    if config is not None:
        parts.append(f"backend_config = {config}")
    if operand_layouts is not None:
        parts.append(f"operand_layouts = [{', '.join(map(_layout, operand_layouts))}]")
    if result_layouts is not None:
        parts.append(f"result_layouts = [{', '.join(map(_layout, result_layouts))}]")
    if called:
        parts.append(f"called_computations = [{', '.join(f'@{symbol}' for symbol in called)}]")
    if aliases:
        several = len(avals) > 1
        items = [
            f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if several else ''}], "
            f"operand_index = {operand}, operand_tuple_indices = []>"
            for out, operand in aliases
        ]
        parts.append(f"output_operand_aliases = [{', '.join(items)}]")
    return ctx.op("stablehlo.custom_call", operands, avals, ", ".join(parts), attributes=attributes)


def _layout(order: Sequence[int]) -> str:
    return (
        f"dense<[{', '.join(map(str, order))}]> : tensor<{len(order)}xindex>"
        if len(order)
        else "dense<> : tensor<0xindex>"
    )


@final
class Legalized(Generic[Operands]):
    """An operation that targets write in another way if their compilers have slow code for it
    (`Target.legal`).

    plain: writes it as it is.
    """

    def __init__(self, plain: Callable[Concatenate[Context, Operands], Value]) -> None:
        self.plain = plain
        functools.update_wrapper(self, plain)

    def __call__(self, ctx: Context, *args: Operands.args, **kwargs: Operands.kwargs) -> Value:
        write = ctx.target.legal.get(self.plain.__name__, self.plain)
        value: Value = write(ctx, *args, **kwargs)
        return value


@Legalized
def dot_general(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    contract: tuple[Shape, Shape],
    batch: tuple[Shape, Shape],
    aval: ShapedArray,
    options: str,
) -> Value:
    """The product of lhs and rhs. contract, batch: axes of lhs and of rhs. options: the attributes
    precision_config and algorithm."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = contract, batch
    return ctx.op1(
        "stablehlo.dot_general",
        (lhs, rhs),
        aval,
        f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {_axes(lhs_batch)}, "
        f"rhs_batching_dimensions = {_axes(rhs_batch)}, lhs_contracting_dimensions = "
        f"{_axes(lhs_contract)}, rhs_contracting_dimensions = {_axes(rhs_contract)}>, {options}",
    )


def _axes(axes: Shape) -> str:
    return f"[{', '.join(map(str, axes))}]"


@Legalized
def extreme(ctx: Context, x: Value, init: Value, axes: Sequence[int], op: str) -> Value:
    """The greatest or least real number along axes. init: the result for no numbers; op: maximum
    minimum."""
    return reduce(ctx, [x], [init], axes, lambda a, b: (elementwise(ctx, op, a, b),))[0]
