"""Mosaic's rules of structure: shapes, parts of vectors, reductions, scans, products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Eqn
from teucer._pallas.mosaic.table import MOSAIC, by_program
from teucer._pallas.mosaic.text import (
    BOOL,
    F32,
    I32,
    Refused,
    Value,
    Writer,
    bits,
    is_float,
    is_signed,
    type_text,
)
from teucer.lax import _joining, _shapes, _structure

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.lax._precision import PrecisionLike

U32 = np.dtype(np.uint32)


# --- Shapes -------------------------------------------------------------------------------------


@MOSAIC.define(_structure.broadcast_in_dim_p)
def _broadcast(w: Writer, eqn: Eqn, x: Value) -> Any:
    shape, dims = eqn.outvars[0].aval.shape, eqn.params["broadcast_dimensions"]
    if x.shape:
        own = [1] * len(shape)
        for n, axis in zip(x.shape, dims, strict=True):
            own[axis] = n
        x = w.reshape(x, own)
    return (w.spread(x, shape) if shape else x,)


@MOSAIC.define(_structure.reshape_p, _shapes.squeeze_p)
def _reshape(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (w.reshape(x, eqn.outvars[0].aval.shape),)


@MOSAIC.define(_structure.transpose_p)
def _transpose(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (w.transpose(x, eqn.params["permutation"]),)


@MOSAIC.define(_shapes.iota_p)
def _iota(w: Writer, eqn: Eqn) -> Any:
    aval = eqn.outvars[0].aval
    return (w.convert(w.places(aval.shape, eqn.params["dimension"]), aval.dtype),)


@MOSAIC.define(_shapes.empty_p)
def _empty(w: Writer, eqn: Eqn) -> Any:
    aval = eqn.outvars[0].aval
    return (w.constant(0, aval.dtype, aval.shape),)


# --- Parts of vectors ---------------------------------------------------------------------------


def window(w: Writer, x: Value, starts: Sequence[int], sizes: Sequence[int]) -> Value:
    """A part of a vector, at places that are known."""
    if tuple(sizes) == x.shape:
        return x
    if x.dtype == BOOL:
        return w.as_bool(window(w, w.as_int(x), starts, sizes))
    # In the generic form, which all versions of the dialect read.
    said = [", ".join(map(str, part)) for part in (starts, sizes, [1] * len(sizes))]
    return w.make(
        f'"vector.extract_strided_slice"({x.name}) <{{offsets = [{said[0]}], sizes = [{said[1]}], '
        f"strides = [{said[2]}]}}> : ({x.type}) -> {type_text(x.dtype, sizes)}",
        x.dtype,
        sizes,
        x.bounds,
    )


@MOSAIC.define(lax.slice_p)
def _slice(w: Writer, eqn: Eqn, x: Value) -> Any:
    p = eqn.params
    starts, steps = p["start_indices"], p["strides"]
    if steps is None or all(s == 1 for s in steps):
        return (window(w, x, starts, eqn.outvars[0].aval.shape),)
    return by_program(_strided)(w, eqn, x)


def _strided(e: Eqn, x: Array) -> Any:
    """Every so many elements: a window, whose axes are split in two, of which the first place is
    taken."""
    p = e.params
    for axis, (start, limit, step) in enumerate(
        zip(p["start_indices"], p["limit_indices"], p["strides"], strict=True)
    ):
        n = -(-(limit - start) // step)
        whole = min(n * step, x.shape[axis] - start)
        x = lax.slice_in_dim(x, start, start + whole, axis=axis)
        if step > 1:
            missing = n * step - whole
            pads = [(0, missing if i == axis else 0, 0) for i in range(x.ndim)]
            x = lax.pad(x, lax.full((), 0, x.dtype), pads) if missing else x
            split = (*x.shape[:axis], n, step, *x.shape[axis + 1 :])
            x = lax.slice_in_dim(lax.reshape(x, split), 0, 1, axis=axis + 1)
            x = lax.squeeze(x, [axis + 1])
    return [x]


def rotated(w: Writer, x: Value, by: Value, axis: int, stride: Any = None) -> Value:
    """The elements moved round along an axis. stride: (by how much more for each place, of which
    other axis)."""
    rank = len(x.shape)
    if rank == 1:
        return w.reshape(rotated(w, w.reshape(x, (1, *x.shape)), by, 1), x.shape)
    if x.dtype == BOOL:
        return w.as_bool(rotated(w, w.as_int(x), by, axis, stride))
    if bits(x.dtype) != 32:
        wide = F32 if is_float(x.dtype) else I32 if is_signed(x.dtype) else U32
        return w.convert(rotated(w, w.convert(x, wide), by, axis, stride), x.dtype)
    more = ""
    if stride is not None:
        more = f" {{stride = {stride[0]} : si32, stride_dimension = {stride[1]} : si32}}"
    return w.make(
        f"tpu.dynamic_rotate {x.name} by {by.name} dim {axis}{more} : {x.type}, {by.type} -> "
        f"{x.type}",
        x.dtype,
        x.shape,
        x.bounds,
    )


def _inside(w: Writer, start: Value, last: int) -> Value:
    """The start of a window, moved inside where it may lie outside."""
    x = w.convert(start, I32)
    known = x.bounds
    if known is None or known[0] < 0:
        x = w.make(f"arith.maxsi {x.name}, {w.constant(0, I32).name} : i32", I32)
    if known is None or known[1] > last:
        x = w.make(f"arith.minsi {x.name}, {w.constant(last, I32).name} : i32", I32, (), (0, last))
    return x._replace(bounds=known if known and 0 <= known[0] <= known[1] <= last else (0, last))


def _single(x: Value) -> int | None:
    return x.bounds[0] if x.bounds and x.bounds[0] == x.bounds[1] else None


@MOSAIC.define(lax.dynamic_slice_p)
def _dynamic_slice(w: Writer, eqn: Eqn, x: Value, *starts: Value) -> Any:
    sizes = eqn.outvars[0].aval.shape
    for axis, (n, size, start) in enumerate(zip(x.shape, sizes, starts[: len(sizes)], strict=True)):
        if size == n:
            continue
        at = _inside(w, start, n - size)
        first = _single(at)
        if first is None:  # moved to the front
            back = w.make(f"arith.subi {w.constant(n, I32).name}, {at.name} : i32", I32)
            x, first = rotated(w, x, back, axis), 0
        begin = [first if i == axis else 0 for i in range(len(sizes))]
        x = window(w, x, begin, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
    return (x,)


@MOSAIC.define(lax.dynamic_update_slice_p)
def _dynamic_update_slice(w: Writer, eqn: Eqn, x: Value, part: Value, *starts: Value) -> Any:
    inside, m = None, part.shape
    for axis, (n, size, start) in enumerate(zip(x.shape, m, starts, strict=True)):
        if size == n:
            continue
        at = _inside(w, start, n - size)
        rest = (*part.shape[:axis], n - size, *part.shape[axis + 1 :])
        part = rotated(w, joined(w, [part, w.constant(0, x.dtype, rest)], axis), at, axis)
        places, begin = w.places(x.shape, axis), w.spread(at, x.shape)
        end = w.spread(w.add(at, w.constant(size, I32)), x.shape)
        here = w.both(w.compare("sge", places, begin), w.compare("slt", places, end))
        inside = here if inside is None else w.both(inside, here)
    return (part if inside is None else w.select(inside, part, x),)


def joined(w: Writer, xs: Sequence[Value], axis: int) -> Value:
    """Vectors one behind the other along an axis."""
    xs = [x for x in xs if x.shape[axis]]
    if len(xs) == 1:
        return xs[0]
    if xs[0].dtype == BOOL:
        return w.as_bool(joined(w, [w.as_int(x) for x in xs], axis))
    if len(xs[0].shape) == 1:
        return w.reshape(joined(w, [w.reshape(x, (1, *x.shape)) for x in xs], 1),
                         (sum(x.shape[0] for x in xs),))  # fmt: skip
    shape = (*xs[0].shape[:axis], sum(x.shape[axis] for x in xs), *xs[0].shape[axis + 1 :])
    names, kinds = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
    return w.make(
        f"tpu.concatenate {names} in {axis} : {kinds} -> {type_text(xs[0].dtype, shape)}",
        xs[0].dtype,
        shape,
    )


@MOSAIC.define(_joining.concatenate_p)
def _concatenate(w: Writer, eqn: Eqn, *xs: Value) -> Any:
    return (joined(w, xs, eqn.params["dimension"]),)


@MOSAIC.define(_joining.split_p)
def _split(w: Writer, eqn: Eqn, x: Value) -> Any:
    axis, start, outs = eqn.params["axis"], 0, []
    for n in eqn.params["sizes"]:
        begin = [start if i == axis else 0 for i in range(len(x.shape))]
        outs.append(window(w, x, begin, (*x.shape[:axis], n, *x.shape[axis + 1 :])))
        start += n
    return outs


@MOSAIC.define(lax.pad_p)
def _pad(w: Writer, eqn: Eqn, x: Value, fill: Value) -> Any:
    config = eqn.params["padding_config"]
    if any(inner for _, _, inner in config):
        raise Refused("padding between elements", "Let the block be of the size that is wanted.")
    for axis, (low, high, _) in enumerate(config):
        cut = [max(-low, 0) if i == axis else 0 for i in range(len(x.shape))]
        size = x.shape[axis] - max(-low, 0) - max(-high, 0)
        x = window(w, x, cut, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
        parts = [x]
        for n, at in ((low, 0), (high, 1)):
            if n > 0:
                more = w.spread(fill, (*x.shape[:axis], n, *x.shape[axis + 1 :]))
                parts.insert(0 if at == 0 else len(parts), more)
        x = joined(w, parts, axis)
    return (x,)


MOSAIC[_joining.stack_p] = by_program(
    lambda e, *xs: [
        lax.concatenate([lax.expand_dims(x, [e.params["axis"]]) for x in xs], e.params["axis"])
    ]
)
MOSAIC[_joining.unstack_p] = by_program(
    lambda e, x: [
        lax.squeeze(lax.slice_in_dim(x, i, i + 1, axis=e.params["axis"]), [e.params["axis"]])
        for i in range(x.shape[e.params["axis"]])
    ]
)
MOSAIC[_joining.tile_p] = by_program(lambda e, x: [_tiled(x, e.params["reps"])])


def _tiled(x: Array, reps: Sequence[int]) -> Any:
    for axis, n in enumerate(reps):
        x = lax.concatenate([x] * n, axis) if n != 1 else x
    return x


@MOSAIC.define(lax.rev_p)
def _rev(w: Writer, eqn: Eqn, x: Value) -> Any:
    """Axes turned round one place at a time would be long; halves change places instead."""
    return by_program(lambda e, x: [_turned(x, e.params["dimensions"])])(w, eqn, x)


def _turned(x: Array, axes: Sequence[int]) -> Any:
    for axis in axes:
        n = x.shape[axis]
        if n > _UNROLLED:
            raise Refused(
                f"an axis of {n} elements turned round",
                f"Turn it round outside of the kernel; up to {_UNROLLED} elements are done here.",
            )
        parts = [lax.slice_in_dim(x, i, i + 1, axis=axis) for i in reversed(range(n))]
        x = lax.concatenate(parts, axis)
    return x


_UNROLLED = 128


@MOSAIC.define(lax.gather_p)
def _gather(w: Writer, eqn: Eqn, x: Value, places: Value) -> Any:
    """Elements taken along one axis, as jnp.take_along_axis does."""
    p, rank = eqn.params, len(x.shape)
    d = p["dimension_numbers"]
    axis = d.start_index_map[0] if len(d.start_index_map) == 1 else -1
    others = tuple(i for i in range(rank) if i != axis)
    along = (
        axis >= 0
        and all(n == 1 for n in p["slice_sizes"])
        and tuple(d.operand_batching_dims) == others
        and tuple(d.collapsed_slice_dims) == (axis,)
        and places.shape == (*x.shape, 1)
        and not d.offset_dims
    )
    if not along or bits(x.dtype) != 32:
        raise Refused(
            f"elements of {x.dtype}{list(x.shape)} taken at places {list(places.shape)}",
            "Take as many elements of 32 bits as there are along one axis, "
            "jnp.take_along_axis(x, places, axis), or rows by ref[pl.ds(i, n)].",
        )
    at = w.convert(w.reshape(places, x.shape), I32)
    return (
        w.make(
            f"tpu.dynamic_gather {x.name}[{at.name}] in [{axis}] : {x.type}, {at.type} -> {x.type}",
            x.dtype,
            x.shape,
        ),
    )


# --- Reductions and scans -----------------------------------------------------------------------

_FOLDS: dict[Any, tuple[str, str | None, Callable[[Any], Any]]] = {
    lax.reduce_sum_p: ("add", "add", lambda dtype: 0),
    lax.reduce_max_p: (
        "maximumf",
        "maxsi",
        lambda dtype: -np.inf if is_float(dtype) else -(2**31),
    ),
    lax.reduce_min_p: (
        "minimumf",
        "minsi",
        lambda dtype: np.inf if is_float(dtype) else 2**31 - 1,
    ),
}


@MOSAIC.define(*_FOLDS)
def _reduce(w: Writer, eqn: Eqn, x: Value) -> Any:
    axes = tuple(sorted(eqn.params["axes"]))
    if not axes or not x.shape:
        return (x,)
    if x.dtype == BOOL:  # any and all, of 0 and 1
        return (w.as_bool(_folded(w, eqn.primitive, w.as_int(x), axes)),)
    if x.dtype.kind == "u" and bits(x.dtype) == 32 and eqn.primitive is not lax.reduce_sum_p:
        return _of_signed(w, eqn, x, axes)
    wide = F32 if is_float(x.dtype) else I32
    return (w.convert(_folded(w, eqn.primitive, w.convert(x, wide), axes), x.dtype),)


def _of_signed(w: Writer, eqn: Eqn, x: Value, axes: Sequence[int]) -> Any:
    """The extreme of unsigned numbers, whose order is that of signed ones with the first bit
    turned."""
    top = -(2**31)

    def turned(v: Value, dtype: Any) -> Value:
        bit = w.constant(top, I32, v.shape)
        return w.make(f"arith.xori {v.name}, {bit.name} : {v.type}", dtype, v.shape)

    return (turned(_folded(w, eqn.primitive, turned(x, I32), axes), U32),)


def _folded(w: Writer, primitive: Any, x: Value, axes: Sequence[int]) -> Value:
    floats, integers, start = _FOLDS[primitive]
    kind = floats if is_float(x.dtype) else integers
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if not shape:  # a vector is left, of one element
        one = _folded(w, primitive, w.reshape(x, (1, *x.shape)), [a + 1 for a in axes])
        return w.reshape(one, ())
    first = w.constant(start(x.dtype), x.dtype, shape)
    said = ", ".join(map(str, axes))
    return w.make(
        f"vector.multi_reduction <{kind}>, {x.name}, {first.name} [{said}] : {x.type} to "
        f"{first.type}",
        x.dtype,
        shape,
    )


def _halved(x: Array, axis: int, fold: Callable[[Any, Any], Any]) -> Any:
    """The elements along an axis folded by halves."""
    while x.shape[axis] > 1:
        half = x.shape[axis] // 2
        low = lax.slice_in_dim(x, 0, half, axis=axis)
        high = lax.slice_in_dim(x, half, 2 * half, axis=axis)
        folded = fold(low, high)
        if x.shape[axis] % 2:
            rest = lax.slice_in_dim(x, 2 * half, x.shape[axis], axis=axis)
            folded = lax.concatenate([folded, rest], axis)
        x = folded
    return lax.squeeze(x, [axis])


_BY_HALVES = {
    lax.reduce_prod_p: lax.mul,
    lax.reduce_and_p: lax.bitwise_and,
    lax.reduce_or_p: lax.bitwise_or,
    lax.reduce_xor_p: lax.bitwise_xor,
}


@MOSAIC.define(*_BY_HALVES)
def _reduce_by_halves(w: Writer, eqn: Eqn, x: Value) -> Any:
    axes = eqn.params["axes"]
    if x.dtype == BOOL and eqn.primitive in (lax.reduce_and_p, lax.reduce_or_p):
        fold = lax.reduce_min_p if eqn.primitive is lax.reduce_and_p else lax.reduce_max_p
        return (w.as_bool(_folded(w, fold, w.as_int(x), tuple(sorted(axes)))),)

    def program(e: Eqn, x: Array) -> Any:
        for axis in sorted(axes, reverse=True):
            x = _halved(x, axis, _BY_HALVES[e.primitive])
        return [x]

    if x.dtype == BOOL:
        (out,) = by_program(program)(w, eqn, w.as_int(x))
        return (w.as_bool(out),)
    return by_program(program)(w, eqn, x)


@MOSAIC.define(lax.argmax_p, lax.argmin_p)
def _arg(w: Writer, eqn: Eqn, x: Value) -> Any:
    """The first place of the extreme, which a NaN is."""

    def program(e: Eqn, x: Array) -> Any:
        (axis,) = e.params["axes"]
        greatest = e.primitive is lax.argmax_p
        wide = F32 if is_float(x.dtype) else np.dtype(I32) if x.dtype.kind != "u" else x.dtype
        x = lax.convert_element_type(x, wide)
        best = (lax.max_p if greatest else lax.min_p) and (
            lax.reduce_max(x, [axis]) if greatest else lax.reduce_min(x, [axis])
        )
        kept = [i for i in range(x.ndim) if i != axis]
        here = lax.eq(x, lax.broadcast_in_dim(best, x.shape, kept))
        if is_float(x.dtype):
            here = lax.bitwise_or(here, lax.ne(x, x))
        places = lax.broadcasted_iota(np.int32, x.shape, axis)
        first = lax.reduce_min(lax.select(here, places, lax.full_like(places, 2**31 - 1)), [axis])
        return [lax.convert_element_type(first, e.outvars[0].aval.dtype)]

    return by_program(program)(w, eqn, x)


_SCANS: dict[Any, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    lax.cumsum_p: (lax.add, lambda dtype: 0),
    lax.cumprod_p: (lax.mul, lambda dtype: 1),
    lax.cummax_p: (lax.max, lambda dtype: -np.inf if is_float(dtype) else np.iinfo(dtype).min),
    lax.cummin_p: (lax.min, lambda dtype: np.inf if is_float(dtype) else np.iinfo(dtype).max),
}


@MOSAIC.define(*_SCANS)
def _scan(w: Writer, eqn: Eqn, x: Value) -> Any:
    """Sums of ever longer stretches, each of two of half the length (W. Hillis and G. Steele, Data
    parallel algorithms, 1986)."""
    fold, neutral = _SCANS[eqn.primitive]

    def program(e: Eqn, x: Array) -> Any:
        axis, reverse, dtype = e.params["axis"], e.params["reverse"], x.dtype
        wide = F32 if is_float(dtype) else dtype
        x, n, step = lax.convert_element_type(x, wide), x.shape[axis], 1
        while step < n:
            edge = lax.full((*x.shape[:axis], step, *x.shape[axis + 1 :]), neutral(wide), wide)
            if reverse:
                moved = [lax.slice_in_dim(x, step, n, axis=axis), edge]
            else:
                moved = [edge, lax.slice_in_dim(x, 0, n - step, axis=axis)]
            x, step = fold(x, lax.concatenate(moved, axis)), 2 * step
        return [lax.convert_element_type(x, dtype)]

    return by_program(program)(w, eqn, x)


# --- Products of matrices -----------------------------------------------------------------------


@MOSAIC.define(lax.dot_general_p)
def _dot(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    ((x_sum, y_sum), (x_batch, y_batch)) = eqn.params["dimension_numbers"]
    aval = eqn.outvars[0].aval
    x, x_at = _as_matrices(w, x, x_sum, x_batch)
    y, y_at = _as_matrices(w, y, y_sum, y_batch)
    return (w.reshape(w.convert(_product(w, eqn, x, y, x_at, y_at), aval.dtype), aval.shape),)


def _as_matrices(
    w: Writer, x: Value, contracted: Sequence[int], batch: Sequence[int]
) -> tuple[Value, int]:
    """At most one batch axis, the first; one that is kept; one that is contracted: its place among
    the last two. Neighbours become one axis, others are brought there."""
    kept = [i for i in range(len(x.shape)) if i not in (*contracted, *batch)]
    sizes = [math.prod(x.shape[i] for i in axes) for axes in (batch, kept, contracted)]
    first = [*batch, *kept, *contracted]
    other = [*batch, *contracted, *kept]
    last = first != sorted(first) and other == sorted(other)
    order = other if last else first
    x = w.transpose(x, order)
    matrix = (sizes[2], sizes[1]) if last else (sizes[1], sizes[2])
    lead = (sizes[0],) if batch else ()
    return w.reshape(x, (*lead, *matrix)), 0 if last else 1


def _operand(w: Writer, eqn: Eqn, x: Value, y: Value) -> tuple[Value, Value]:
    """Operands of types that the matrix unit takes."""
    if x.dtype == y.dtype and x.dtype.name in ("int8", "uint8", "int4", "uint4"):
        return x, y
    if is_float(x.dtype) and is_float(y.dtype):

        def one(v: Value) -> Value:
            return w.convert(v, F32) if v.dtype.name == "float16" else v

        return one(x), one(y)
    raise Refused(
        f"a product of matrices of {x.dtype} and {y.dtype}",
        "Matrix units take floats, and int8 by int8: convert the operands.",
    )


def _product(w: Writer, eqn: Eqn, x: Value, y: Value, x_at: int, y_at: int) -> Value:
    """tpu.matmul, which adds up in float32, or in int32."""
    x, y = _operand(w, eqn, x, y)
    lead = len(x.shape) - 2
    m, n = x.shape[lead + 1 - x_at], y.shape[lead + 1 - y_at]
    total = F32 if is_float(x.dtype) else I32
    zeros = w.constant(0, total, (*x.shape[:lead], m, n))
    xs, ys = lead + x_at, lead + y_at
    xk, yk = lead + 1 - x_at, lead + 1 - y_at
    order = ", ".join(map(str, [*([0, 0] if lead else []), 0, xk, 1, yk]))
    batch = "0" if lead else ""
    numbers = (
        f"#tpu.dot_dimension_numbers<[{xs}], [{ys}], [{xk}], [{yk}], [{order}], [{batch}], "
        f"[{batch}]>"
    )
    how = _precision(eqn.params["precision"]) if F32 in (x.dtype, y.dtype) else None
    precision = f", precision = #tpu.contract_precision<{how}>" if how else ""
    return w.make(
        f"tpu.matmul {x.name}, {y.name}, {zeros.name} {{dimension_numbers = {numbers}{precision}, "
        f"transpose_lhs_hint = false}} : {x.type}, {y.type}, {zeros.type} -> {zeros.type}",
        total,
        zeros.shape,
    )


def _precision(precision: PrecisionLike) -> str | None:
    """How float32 is multiplied: by default rounded to bfloat16, as other products on TPUs."""
    given = precision if isinstance(precision, tuple) else (precision,)
    names = [getattr(p, "name", str(p)).upper() for p in given]
    if all(name in ("NONE", "DEFAULT", "BF16_BF16_F32", "FASTEST") for name in names):
        return None
    high = ("NONE", "DEFAULT", "HIGH", "BF16_BF16_F32_X3")
    return "bf16x3" if all(name in high for name in names) else "fp32"
