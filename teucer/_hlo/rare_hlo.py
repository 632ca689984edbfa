"""Operations of StableHLO that few programs have, as functions that write them.

They stand beside those of `_lower.hlo`, and are written in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base.element_types import bit_width
from teucer._core.types import ShapedArray
from teucer._dimensions import dimensions
from teucer._dimensions.dimensions import is_constant, is_symbolic
from teucer._lower import hlo, text
from teucer._lower.context import Context, Value
from teucer._lower.hlo import Shape
from teucer._lower.text import i64s

if TYPE_CHECKING:
    from teucer._core.typing import Aval


def pad(
    ctx: Context,
    x: Value,
    value: Value,
    low: Shape,
    high: Shape,
    interior: Shape,
    aval: ShapedArray,
) -> Value:
    """Put value before, after and between the elements of x; negative amounts cut."""
    if not any(
        i != 0 and (dimensions.bounds(a).low < 0 or dimensions.bounds(b).low < 0)
        for a, b, i in zip(low, high, interior, strict=True)
    ):
        return hlo.pad(ctx, x, value, low, high, interior, aval)
    # First spread, then cut: XLA's partitioner aborts the process where one operation does both.
    start = [dimensions.max_dim(-a, 0) for a in low]
    before, after = ([dimensions.max_dim(a, 0) for a in side] for side in (low, high))
    shape = tuple(
        a + b + dimensions.dilated(n, i + 1)
        for n, a, b, i in zip(x.shape, before, after, interior, strict=True)
    )
    wide = hlo.pad(ctx, x, value, before, after, interior, aval.update(shape=shape))
    limits = [a + n for a, n in zip(start, aval.shape, strict=True)]
    return hlo.slice(ctx, wide, start, limits, (1,) * len(start))


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
        fields = [
            hlo.sizes(ctx, field) for field in (window, strides, base_dilation, window_dilation)
        ]
        return hlo.custom_call(
            ctx,
            "stablehlo.dynamic_reduce_window",
            [*xs, *inits, *fields, hlo.reshape(ctx, hlo.sizes(ctx, amounts), (len(padding), 2))],
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


@hlo.Legalized
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
    elements that meet at one place."""
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
        return hlo.custom_call(
            ctx,
            "stablehlo.dynamic_top_k",
            [x, hlo.size(ctx, k)],
            avals,
            api_version=2,
            shaped=False,
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
        wide = [
            hlo.convert(ctx, x, np.dtype(np.int8)) if bit_width(x.dtype) == 2 else x for x in xs
        ]
        sorted_ = sort(ctx, wide, dimension, is_stable, comparator)
        return tuple(hlo.convert(ctx, y, x.dtype) for y, x in zip(sorted_, xs, strict=True))
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
        ((x, indices, hlo.sizes(ctx, slice_sizes)), "dynamic_gather")
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
        return hlo.custom_call(
            ctx,
            "stablehlo.dynamic_rng_bit_generator",
            [state, hlo.sizes(ctx, aval.shape)],
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


@hlo.Legalized
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
    spatial...), or for rhs (output feature, input feature, spatial...). options: the attribute
    precision_config."""
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
            (lhs, rhs, hlo.reshape(ctx, hlo.sizes(ctx, amounts), (len(padding), 2))),
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
    """The axes of an array by their roles: `[b, 0, 1, f]`."""
    labels = [""] * len(spec)
    for label, axis in zip([*names, *map(str, range(len(spec) - 2))], spec, strict=True):
        labels[axis] = label
    return f"[{', '.join(labels)}]"


@hlo.Legalized
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
        lambda a, b: (hlo.elementwise(ctx, op, a, b),),
        [aval],
        window=window,
        strides=strides,
        padding=padding,
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )[0]


def paired(ctx: Context, token: Value, number: Value) -> tuple[Value, ...]:
    """A token and a number, each of which waits for the other."""
    both = (token, number)
    return ctx.op("stablehlo.optimization_barrier", both, [v.aval for v in both])
