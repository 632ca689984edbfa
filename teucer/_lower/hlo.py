"""StableHLO operations as functions that write them.

One a line of the specification (docs/spec.md, openxla/stablehlo).

The names are those of the specification. Elementwise operations need no function: see
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
    """A part of x along an axis. The compiler is not told its place, so that parts of equal shapes
    are alike to it, unless it divides them among devices."""
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


def reduce_window(
    ctx: Context,
    xs: Sequence[Value],
    inits: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    *,
    window: Shape,
    strides: Shape,
    padding: Sequence[tuple[int, int]],
    base_dilation: Shape,
    window_dilation: Shape,
) -> tuple[Value, ...]:
    scalars = [ShapedArray((), x.dtype) for x in xs]
    amounts = [amount for ends in padding for amount in ends]
    if not is_constant((*window, *amounts)):
        fields = [sizes(ctx, field) for field in (window, strides, base_dilation, window_dilation)]
        return custom_call(
            ctx,
            "stablehlo.dynamic_reduce_window",
            [*xs, *inits, *fields, reshape(ctx, sizes(ctx, amounts), (len(padding), 2))],
            avals,
            api_version=2,
            called=[ctx.function("reducer", scalars + scalars, scalars, body)],
        )
    region = ctx.region(scalars + scalars, body)
    return ctx.op(
        "stablehlo.reduce_window",
        (*xs, *inits),
        avals,
        f"window_dimensions = {i64s(window)}, window_strides = {i64s(strides)}, "
        f"base_dilations = {i64s(base_dilation)}, window_dilations = {i64s(window_dilation)}, "
        f"padding = {pairs(padding)}",
        [region],
    )


def select_and_scatter(
    ctx: Context,
    x: Value,
    source: Value,
    init: Value,
    select: Callable[..., Sequence[Value]],
    scatter: Callable[..., Sequence[Value]],
    *,
    window: Shape,
    strides: Shape,
    padding: Sequence[tuple[int, int]],
    aval: ShapedArray,
) -> Value:
    """`select` says whether the first of two elements of a window is chosen; `scatter` combines
    what meets at one."""
    scalar, value = ShapedArray((), x.dtype), ShapedArray((), source.dtype)
    regions = [ctx.region([scalar, scalar], select), ctx.region([value, value], scatter)]
    return ctx.op(
        "stablehlo.select_and_scatter",
        (x, source, init),
        [aval],
        (
            f"window_dimensions = {i64s(window)}, window_strides = {i64s(strides)}, padding = "
            f"{pairs(padding)}"
        ),
        regions,
    )[0]


def pairs(padding: Sequence[tuple[int, int]]) -> str:
    """Padding before and after each axis as an attribute."""
    return text.array(np.asarray(padding, np.int64).reshape(len(padding), 2))


def top_k(ctx: Context, x: Value, k: int, avals: Sequence[Aval]) -> tuple[Value, ...]:
    """The greatest elements along the last axis, and their places."""
    if is_symbolic(k):
        return custom_call(
            ctx, "stablehlo.dynamic_top_k", [x, size(ctx, k)], avals, api_version=2, shaped=False
        )
    return ctx.op("chlo.top_k", (x,), avals, f"k = {k} : i64")


def sort(
    ctx: Context,
    xs: Sequence[Value],
    dimension: int,
    is_stable: bool,
    comparator: Callable[..., Sequence[Value]],
) -> tuple[Value, ...]:
    """Sort several arrays together; `comparator` takes (a0, b0, a1, b1, ...) and returns whether a
    goes before b."""
    if 2 in [bit_width(x.dtype) for x in xs]:  # XLA's CPU sorts them wrongly
        wide = [convert(ctx, x, np.dtype(np.int8)) if bit_width(x.dtype) == 2 else x for x in xs]
        sorted_ = sort(ctx, wide, dimension, is_stable, comparator)
        return tuple(convert(ctx, y, x.dtype) for y, x in zip(sorted_, xs, strict=True))
    scalars = [ShapedArray((), x.dtype) for x in xs for _ in range(2)]
    region = ctx.region(scalars, comparator)
    return ctx.op(
        "stablehlo.sort",
        xs,
        [x.aval for x in xs],
        f"dimension = {dimension} : i64, is_stable = {str(is_stable).lower()}",
        [region],
    )


def gather(
    ctx: Context,
    x: Value,
    indices: Value,
    numbers: Any,
    slice_sizes: Shape,
    indices_are_sorted: bool,
    aval: ShapedArray,
) -> Value:
    """numbers: `lax.GatherDimensionNumbers`; the components of an index vector lie along the last
    axis of `indices`."""
    dynamic = not is_constant(slice_sizes)
    operands, name = (
        ((x, indices, sizes(ctx, slice_sizes)), "dynamic_gather")
        if dynamic
        else ((x, indices), "gather")
    )
    window = "" if dynamic else f"slice_sizes = {i64s(slice_sizes)}, "
    return ctx.op1(
        f"stablehlo.{name}",
        operands,
        aval,
        f"dimension_numbers = #stablehlo.gather<offset_dims = {list(numbers.offset_dims)}, "
        f"collapsed_slice_dims = {list(numbers.collapsed_slice_dims)}, operand_batching_dims = "
        f"{list(numbers.operand_batching_dims)}, start_indices_batching_dims = "
        f"{list(numbers.start_indices_batching_dims)}, start_index_map = "
        f"{list(numbers.start_index_map)}, index_vector_dim = {len(indices.shape) - 1}>, "
        f"{window}indices_are_sorted = {str(indices_are_sorted).lower()}",
    )


def scatter(
    ctx: Context,
    x: Value,
    indices: Value,
    updates: Value,
    numbers: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    body: Callable[..., Sequence[Value]],
) -> Value:
    """numbers: `lax.ScatterDimensionNumbers`; `body` takes an old element and its update."""
    scalar = ShapedArray((), x.dtype)
    region = ctx.region([scalar, scalar], body)
    return ctx.op(
        "stablehlo.scatter",
        (x, indices, updates),
        [x.aval],
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = "
        f"{list(numbers.update_window_dims)}, inserted_window_dims = "
        f"{list(numbers.inserted_window_dims)}, input_batching_dims = "
        f"{list(numbers.operand_batching_dims)}, scatter_indices_batching_dims = "
        f"{list(numbers.scatter_indices_batching_dims)}, scatter_dims_to_operand_dims = "
        f"{list(numbers.scatter_dims_to_operand_dims)}, index_vector_dim = "
        f"{len(indices.shape) - 1}>, indices_are_sorted = {str(indices_are_sorted).lower()}, "
        f"unique_indices = {str(unique_indices).lower()}",
        [region],
    )[0]


def case(
    ctx: Context,
    index: Value,
    branches: Sequence[Callable[[], Sequence[Value]]],
    avals: Sequence[ShapedArray],
) -> tuple[Value, ...]:
    """The results of the branch that the i32 `index` chooses; the last one if it is out of
    bounds."""
    return ctx.op(
        "stablehlo.case", (index,), avals, regions=[ctx.region((), branch) for branch in branches]
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


def fft(ctx: Context, x: Value, kind: str, length: Shape, aval: ShapedArray) -> Value:
    """kind: FFT IFFT RFFT IRFFT."""
    return ctx.op1(
        "stablehlo.fft",
        (x,),
        aval,
        f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {i64s(length)}",
    )


def rng_bit_generator(
    ctx: Context, state: Value, algorithm: str, aval: ShapedArray
) -> tuple[Value, ...]:
    """algorithm: DEFAULT THREE_FRY PHILOX. Returns the new state and the bits."""
    if aval.symbolic:
        return custom_call(
            ctx,
            "stablehlo.dynamic_rng_bit_generator",
            [state, sizes(ctx, aval.shape)],
            [state.aval, aval],
            api_version=2,
            attributes=f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>",
            shaped=False,
        )
    return ctx.op(
        "stablehlo.rng_bit_generator",
        (state,),
        (state.aval, aval),
        f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>",
    )


def optimization_barrier(ctx: Context, xs: Sequence[Value]) -> tuple[Value, ...]:
    """xs, which the compiler is not to look through; but for parts of sums, which XLA sums there
    and takes for parts after it."""
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
    """An operation that targets have written otherwise where their compilers have slow code for it
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
    """contract, batch: axes of lhs and of rhs. options: the attributes precision_config and
    algorithm."""
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


def triangular_solve(
    ctx: Context,
    a: Value,
    b: Value,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> Value:
    """transpose_a: NO_TRANSPOSE TRANSPOSE ADJOINT."""
    return ctx.op1(
        "stablehlo.triangular_solve",
        (a, b),
        b.aval.strengthen(),
        f"left_side = {str(left_side).lower()}, lower = {str(lower).lower()}, unit_diagonal = "
        f"{str(unit_diagonal).lower()}, transpose_a = #stablehlo<transpose {transpose_a}>",
    )


def cholesky(ctx: Context, a: Value, *, lower: bool) -> Value:
    return ctx.op1("stablehlo.cholesky", (a,), a.aval.strengthen(), f"lower = {str(lower).lower()}")


@Legalized
def convolution(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    aval: ShapedArray,
    options: str,
    *,
    window_strides: Shape,
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    dimension_numbers: tuple[Shape, Shape, Shape],
    feature_group_count: int,
    batch_group_count: int,
) -> Value:
    """dimension_numbers: for each of lhs, rhs and the result, which axes are (batch, feature,
    spatial...), those of rhs being (output feature, input feature, spatial...). options: the
    attribute precision_config."""
    lhs_spec, rhs_spec, out_spec = (
        _numbered(spec, names)
        for spec, names in zip(dimension_numbers, ("bf", "oi", "bf"), strict=True)
    )
    amounts = [amount for pair in padding for amount in pair]
    operands: tuple[Value, ...] = (lhs, rhs)
    if is_constant(amounts):
        name, window = (
            "convolution",
            f"padding = {pairs(padding) if padding else 'dense<> : tensor<0x2xi64>'}, ",
        )
    else:
        name, window, operands = (
            "dynamic_conv",
            "",
            (lhs, rhs, reshape(ctx, sizes(ctx, amounts), (len(padding), 2))),
        )
    return ctx.op1(
        f"stablehlo.{name}",
        operands,
        aval,
        f"window_strides = {i64s(window_strides)}, {window}lhs_dilation = {i64s(lhs_dilation)}, "
        f"rhs_dilation = {i64s(rhs_dilation)}, dimension_numbers = "
        f"#stablehlo.conv<{lhs_spec}x{rhs_spec}->{out_spec}>, feature_group_count = "
        f"{feature_group_count} : i64, batch_group_count = {batch_group_count} : i64, {options}",
    )


def _numbered(spec: Shape, names: str) -> str:
    """The axes of an array by what they are: `[b, 0, 1, f]`."""
    labels = [""] * len(spec)
    for label, axis in zip([*names, *map(str, range(len(spec) - 2))], spec, strict=True):
        labels[axis] = label
    return f"[{', '.join(labels)}]"


@Legalized
def extreme(ctx: Context, x: Value, init: Value, axes: Sequence[int], op: str) -> Value:
    """The greatest or least real number along axes. init: that of none; op: maximum minimum."""
    return reduce(ctx, [x], [init], axes, lambda a, b: (elementwise(ctx, op, a, b),))[0]


@Legalized
def extreme_of_windows(
    ctx: Context,
    x: Value,
    init: Value,
    op: str,
    aval: ShapedArray,
    *,
    window: Shape,
    strides: Shape,
    padding: Sequence[tuple[int, int]],
    base_dilation: Shape,
    window_dilation: Shape,
) -> Value:
    """As `extreme`, of each window."""
    return reduce_window(
        ctx,
        [x],
        [init],
        lambda a, b: (elementwise(ctx, op, a, b),),
        [aval],
        window=window,
        strides=strides,
        padding=padding,
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )[0]
