"""Triton's rules of structure: shapes, reductions, products of matrices, parts of arrays, scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Eqn
from teucer._pallas.triton.arithmetic import convert
from teucer._pallas.triton.table import TRITON, by_program, run
from teucer._pallas.triton.text import (
    BOOL,
    I32,
    Refused,
    Value,
    Writer,
    element,
    is_float,
    is_signed,
    type_text,
)
from teucer.lax import _joining, _reductions, _shapes, _structure
from teucer.lax._precision import Precision

if TYPE_CHECKING:
    from teucer._core.typing import Array, DType
    from teucer.lax._precision import PrecisionLike

F32, F64, I8 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int8)
# Triton's products are of blocks of at least this many rows, columns and contracted elements
_LEAST = 16
_MATRIX = 2


# --- Shapes -------------------------------------------------------------------------------------


@TRITON.define(_structure.broadcast_in_dim_p)
def _broadcast(w: Writer, eqn: Eqn, x: Value) -> Any:
    shape, dims = eqn.outvars[0].aval.shape, eqn.params["broadcast_dimensions"]
    if not x.shape:
        return (w.spread(x, shape),)
    for axis in range(len(shape)):
        if axis not in dims:
            x = w.expand(x, axis)
    return (w.spread(x, shape),)


@TRITON.define(_structure.reshape_p, _shapes.squeeze_p)
def _reshape(w: Writer, eqn: Eqn, x: Value) -> Any:
    shape = eqn.outvars[0].aval.shape
    added = [i for i, n in enumerate(shape) if n == 1]
    if (
        x.shape and tuple(n for n in shape if n != 1) == x.shape
    ):  # new axes of size 1 keep elements where they are
        for axis in added:
            x = w.expand(x, axis)
        return (x,)
    return (w.reshape(x, shape),)


@TRITON.define(_structure.transpose_p)
def _transpose(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (_transposed(w, x, eqn.params["permutation"]),)


def _transposed(w: Writer, x: Value, order: Sequence[int]) -> Value:
    if list(order) == sorted(order):
        return x
    shape = tuple(x.shape[i] for i in order)
    return w.make(
        f"tt.trans {x.name} {{order = array<i32: {', '.join(map(str, order))}>}} : {x.type} -> "
        f"{type_text(x.dtype, shape)}",
        x.dtype,
        shape,
        x.bounds,
    )


@TRITON.define(_shapes.iota_p)
def _iota(w: Writer, eqn: Eqn) -> Any:
    aval = eqn.outvars[0].aval
    return (convert(w, w.places(aval.shape, eqn.params["dimension"]), aval.dtype),)


@TRITON.define(_shapes.empty_p)
def _empty(w: Writer, eqn: Eqn) -> Any:
    aval = eqn.outvars[0].aval
    return (w.constant(0, aval.dtype, aval.shape),)


# --- Parts of arrays ----------------------------------------------------------------------------


def _taken(w: Writer, x: Value, at: Value, axis: int) -> Value:
    """The elements of x at places along an axis; `at` has the shape of the result."""
    if x.dtype == BOOL:
        return convert(w, _taken(w, convert(w, x, I8), at, axis), BOOL)
    return w.make(
        f"tt.gather {x.name}[{at.name}] {{axis = {axis} : i32}} : ({x.type}, {at.type}) -> "
        f"{type_text(x.dtype, at.shape)}",
        x.dtype,
        at.shape,
    )


def _window(w: Writer, x: Value, axis: int, start: Value, size: int, step: int = 1) -> Value:
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    type_text(x.dtype, shape)
    if size == 1 and x.shape[axis] == 1:
        return x
    return _taken(w, x, w.add(w.times(w.places(shape, axis), step), start), axis)


@TRITON.define(lax.slice_p)
def _slice(w: Writer, eqn: Eqn, x: Value) -> Any:
    shape, starts, steps = (
        eqn.outvars[0].aval.shape,
        eqn.params["start_indices"],
        eqn.params["strides"],
    )
    for axis, (n, start) in enumerate(zip(shape, starts, strict=True)):
        step = 1 if steps is None else steps[axis]
        if n != x.shape[axis] or step != 1:
            x = _window(w, x, axis, w.constant(start, I32), n, step)
    return (x,)


def _inside(w: Writer, start: Value, last: int) -> Value:
    return w.at_most(w.at_least(convert(w, start, I32), 0), last)


@TRITON.define(lax.dynamic_slice_p)
def _dynamic_slice(w: Writer, eqn: Eqn, x: Value, *starts: Value) -> Any:
    shape = eqn.outvars[0].aval.shape
    for axis, (n, start) in enumerate(zip(shape, starts[: len(shape)], strict=True)):
        if n != x.shape[axis]:
            x = _window(w, x, axis, _inside(w, start, x.shape[axis] - n), n)
    return (x,)


@TRITON.define(lax.dynamic_update_slice_p)
def _dynamic_update_slice(w: Writer, eqn: Eqn, x: Value, part: Value, *starts: Value) -> Any:
    return (
        _put(
            w,
            x,
            part,
            [_inside(w, s, n - m) for s, n, m in zip(starts, x.shape, part.shape, strict=True)],
        ),
    )


def _put(w: Writer, x: Value, part: Value, starts: Sequence[Value]) -> Value:
    """x in which the elements from `starts` on are replaced by `part`."""
    inside = None
    for axis, (n, m, start) in enumerate(zip(x.shape, part.shape, starts, strict=True)):
        if n == m and start.bounds == (0, 0):
            continue
        shape = (*x.shape[: axis + 1], *part.shape[axis + 1 :])
        places = w.places(shape, axis)
        moved = w.make(
            f"arith.subi {places.name}, {w.spread(start, shape).name} : {places.type}", I32, shape
        )
        low, high = w.constant(0, I32, shape), w.constant(m, I32, shape)
        part = _taken(w, part, w.at_most(w.at_least(moved, 0), m - 1), axis)
        here = w.both(w.compare("sge", moved, low), w.compare("slt", moved, high))
        assert here is not None
        if shape != x.shape:
            first = w.places(x.shape, axis)
            moved = w.make(
                f"arith.subi {first.name}, {w.spread(start, x.shape).name} : {first.type}",
                I32,
                x.shape,
            )
            here = w.both(
                w.compare("sge", moved, w.constant(0, I32, x.shape)),
                w.compare("slt", moved, w.constant(m, I32, x.shape)),
            )
        inside = w.both(inside, here)
    return part if inside is None else w.select(inside, part, x)


@TRITON.define(lax.rev_p)
def _rev(w: Writer, eqn: Eqn, x: Value) -> Any:
    for axis in eqn.params["dimensions"]:
        n = x.shape[axis]
        x = _window(w, x, axis, w.constant(n - 1, I32), n, -1) if n > 1 else x
    return (x,)


@TRITON.define(lax.pad_p)
def _pad(w: Writer, eqn: Eqn, x: Value, fill: Value) -> Any:
    config, shape = eqn.params["padding_config"], eqn.outvars[0].aval.shape
    if any(inner for _, _, inner in config) or any(low < 0 or high < 0 for low, high, _ in config):
        raise Refused(
            "padding between elements, or of negative sizes",
            "Let the block be of the size that is wanted.",
        )
    return (_put(w, w.spread(fill, shape), x, [w.constant(low, I32) for low, _, _ in config]),)


@TRITON.define(_joining.concatenate_p)
def _concatenate(w: Writer, eqn: Eqn, *xs: Value) -> Any:
    axis, shape = eqn.params["dimension"], eqn.outvars[0].aval.shape
    type_text(xs[0].dtype, shape)
    parts = list(xs)
    while len(parts) > 1:
        # XLA 0.11's compiler dies of tt.join on arrays of one element.
        one = math.prod(parts[0].shape) == 1
        if one or len(parts) % 2 or any(x.shape != parts[0].shape for x in parts):
            out, start = w.constant(0, xs[0].dtype, shape), 0
            zeros = [w.constant(0, I32)] * len(shape)
            for x in xs:
                out = _put(w, out, x, [*zeros[:axis], w.constant(start, I32), *zeros[axis + 1 :]])
                start += x.shape[axis]
            return (out,)
        parts = [_joined(w, a, b, axis) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return (parts[0],)


def _joined(w: Writer, x: Value, y: Value, axis: int) -> Value:
    """Two arrays of one shape, one behind the other along an axis."""
    both = w.make(
        f"tt.join {x.name}, {y.name} : {x.type} -> {type_text(x.dtype, (*x.shape, 2))}",
        x.dtype,
        (*x.shape, 2),
    )
    rank = len(x.shape)
    moved = _transposed(w, both, [*range(axis), rank, *range(axis, rank)])
    return w.reshape(moved, (*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :]))


@TRITON.define(_joining.split_p)
def _split(w: Writer, eqn: Eqn, x: Value) -> Any:
    axis, start, outs = eqn.params["axis"], 0, []
    for n in eqn.params["sizes"]:
        outs.append(_window(w, x, axis, w.constant(start, I32), n))
        start += n
    return outs


TRITON[_joining.stack_p] = by_program(
    lambda e, *xs: [
        lax.concatenate([lax.expand_dims(x, [e.params["axis"]]) for x in xs], e.params["axis"])
    ]
)
TRITON[_joining.unstack_p] = by_program(
    lambda e, x: [
        lax.squeeze(lax.slice_in_dim(x, i, i + 1, axis=e.params["axis"]), [e.params["axis"]])
        for i in range(x.shape[e.params["axis"]])
    ]
)
TRITON[_joining.tile_p] = by_program(lambda e, x: [_tiled(x, e.params["reps"])])


def _tiled(x: Array, reps: Sequence[int]) -> Any:
    shape = [n for pair in zip(reps, x.shape, strict=True) for n in pair]
    wide = lax.broadcast_in_dim(x, shape, [2 * i + 1 for i in range(x.ndim)])
    return lax.reshape(wide, [r * n for r, n in zip(reps, x.shape, strict=True)])


# --- Reductions and scans -----------------------------------------------------------------------


def _by_kind(floats: str | None, signed: str, unsigned: str) -> Callable[[Any], str | None]:
    return lambda dtype: floats if is_float(dtype) else signed if is_signed(dtype) else unsigned


_SUM = _by_kind("arith.addf", "arith.addi", "arith.addi")
_PRODUCT = _by_kind("arith.mulf", "arith.muli", "arith.muli")
_MAX = _by_kind("arith.maximumf", "arith.maxsi", "arith.maxui")
_MIN = _by_kind("arith.minimumf", "arith.minsi", "arith.minui")
_REDUCTIONS: dict[Any, Callable[[Any], str | None]] = {
    lax.reduce_sum_p: _SUM,
    lax.reduce_prod_p: _PRODUCT,
    lax.reduce_max_p: _MAX,
    lax.reduce_min_p: _MIN,
    lax.reduce_and_p: _by_kind(None, "arith.andi", "arith.andi"),
    lax.reduce_or_p: _by_kind(None, "arith.ori", "arith.ori"),
    lax.reduce_xor_p: _by_kind(None, "arith.xori", "arith.xori"),
}


@TRITON.define(*_REDUCTIONS)
def _reduce(w: Writer, eqn: Eqn, x: Value) -> Any:
    op = _REDUCTIONS[eqn.primitive](x.dtype)
    if op is None:
        raise Refused(
            f"{eqn.primitive} of {x.dtype}", "Convert the operand to booleans or integers."
        )
    narrow = is_float(x.dtype) and x.dtype.itemsize < F32.itemsize
    out = convert(w, x, F32) if narrow else x
    for axis in sorted(eqn.params["axes"], reverse=True):
        out = w.reduce(out, axis, op)
    return (convert(w, out, x.dtype),)


@TRITON.define(_reductions.reduce_p)
def _reduce_by(w: Writer, eqn: Eqn, *operands: Value) -> Any:
    n, computation = len(operands) // 2, eqn.params["jaxpr"]
    xs, inits = list(operands[:n]), operands[n:]
    for axis in sorted(eqn.params["dimensions"], reverse=True):
        outs = [Value("", x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :])) for x in xs]
        name, kinds = w.name(), ", ".join(element(x.dtype) for x in xs)
        pairs = [Value(w.name(), x.dtype) for x in (*xs, *xs)]
        several = f":{n}" if n > 1 else ""
        w.line(
            f'{name}{several} = "tt.reduce"({", ".join(x.name for x in xs)}) <{{axis = {axis} : '
            "i32}> ({"
        )
        w.line(f"^bb0({', '.join(f'{v.name}: {v.type}' for v in pairs)}):")
        with w.block():
            found = run(w, computation, pairs)
            w.line(f"tt.reduce.return {', '.join(v.name for v in found)} : {kinds}")
        w.line(f"}}) : ({', '.join(x.type for x in xs)}) -> ({', '.join(o.type for o in outs)})")
        xs = [o._replace(name=f"{name}#{i}" if n > 1 else name) for i, o in enumerate(outs)]
    return run(
        w, computation, [*(w.spread(a, x.shape) for a, x in zip(inits, xs, strict=True)), *xs]
    )


@TRITON.define(lax.argmax_p, lax.argmin_p)
def _arg(w: Writer, eqn: Eqn, x: Value) -> Any:
    (axis,), index = eqn.params["axes"], eqn.outvars[0].aval.dtype
    if is_float(x.dtype) and x.dtype.itemsize < F32.itemsize:
        x = convert(w, x, F32)
    places, shape = w.places(x.shape, axis), (*x.shape[:axis], *x.shape[axis + 1 :])
    kind, found = element(x.dtype), w.name()
    a, i, b, j = (w.name() for _ in range(4))
    greater = eqn.primitive is lax.argmax_p
    w.line(f'{found}:2 = "tt.reduce"({x.name}, {places.name}) <{{axis = {axis} : i32}}> ({{')
    w.line(f"^bb0({a}: {kind}, {i}: i32, {b}: {kind}, {j}: i32):")
    with w.block():
        left, right = Value(a, x.dtype), Value(b, x.dtype)
        if is_float(x.dtype):
            better = w.compare("ogt" if greater else "olt", left, right)
            a_nan, b_nan = w.compare("une", left, left), w.compare("une", right, right)
            only = w.both(a_nan, w.compare("oeq", right, right))
            better = _either(w, better, only)
            tie = _either(w, w.compare("oeq", left, right), w.both(a_nan, b_nan))
        else:
            better = w.compare(
                ("s" if is_signed(x.dtype) else "u") + ("gt" if greater else "lt"), left, right
            )
            tie = w.compare("eq", left, right)
        first = _either(w, better, w.both(tie, w.compare("slt", Value(i, I32), Value(j, I32))))
        best, place = w.select(first, left, right), w.select(first, Value(i, I32), Value(j, I32))
        w.line(f"tt.reduce.return {best.name}, {place.name} : {kind}, i32")
    outs = type_text(x.dtype, shape), type_text(I32, shape)
    w.line(f"}}) : ({x.type}, {places.type}) -> ({', '.join(outs)})")
    return (convert(w, Value(f"{found}#1", I32, shape), index),)


def _either(w: Writer, x: Value | None, y: Value | None) -> Value:
    assert x is not None
    assert y is not None
    return w.make(f"arith.ori {x.name}, {y.name} : {x.type}", BOOL, x.shape)


_SCANS = {lax.cumsum_p: _SUM, lax.cumprod_p: _PRODUCT, lax.cummax_p: _MAX, lax.cummin_p: _MIN}


@TRITON.define(*_SCANS)
def _scan(w: Writer, eqn: Eqn, x: Value) -> Any:
    op, dtype = _SCANS[eqn.primitive](x.dtype), x.dtype
    if is_float(dtype) and dtype.itemsize < F32.itemsize:
        x = convert(w, x, F32)
    kind, (out, a, b, c) = element(x.dtype), (w.name() for _ in range(4))
    reverse = "true" if eqn.params["reverse"] else "false"
    w.line(
        f'{out} = "tt.scan"({x.name}) <{{axis = {eqn.params["axis"]} : i32, reverse = '
        f"{reverse}}}> ({{"
    )
    w.line(f"^bb0({a}: {kind}, {b}: {kind}):")
    w.line(f"  {c} = {op} {a}, {b} : {kind}")
    w.line(f"  tt.scan.return {c} : {kind}")
    w.line(f"}}) : ({x.type}) -> {x.type}")
    return (convert(w, Value(out, x.dtype, x.shape), dtype),)


# --- Products of matrices -----------------------------------------------------------------------


@TRITON.define(lax.dot_general_p)
def _dot(w: Writer, eqn: Eqn, x: Value, y: Value) -> Any:
    (x_sum, y_sum), (x_batch, y_batch) = eqn.params["dimension_numbers"]
    aval, batch = eqn.outvars[0].aval, len(x_batch)
    x, y = (
        _as_matrices(w, x, x_sum, x_batch, last=True),
        _as_matrices(w, y, y_sum, y_batch, last=False),
    )
    sizes = (*x.shape[-_MATRIX:], y.shape[-1])
    matrices = (
        len(x.shape) == len(y.shape) == _MATRIX + batch and batch <= 1 and min(sizes) >= _LEAST
    )
    floats = is_float(x.dtype) and is_float(y.dtype) and F64 not in (x.dtype, y.dtype, aval.dtype)
    if matrices and (floats or x.dtype == y.dtype == I8):
        return (convert(w, _product(w, eqn, x, y), aval.dtype),)
    return (w.reshape(_summed(w, x, y, batch, aval.dtype), aval.shape),)


def _as_matrices(
    w: Writer, x: Value, contracted: Sequence[int], batch: Sequence[int], *, last: bool
) -> Value:
    """x as matrices: batch axes, then the axis that is kept and the contracted one. The contracted
    axis comes second if `last`, else first."""
    if len(contracted) != 1:
        raise Refused(
            f"a product over {len(contracted)} axes",
            "Reshape the operands so that one axis is contracted.",
        )
    kept = [i for i in range(len(x.shape)) if i not in (*contracted, *batch)]
    if len(kept) > 1:
        raise Refused(
            f"a product of an array of shape {x.shape}, of which {len(kept)} axes are kept",
            "Reshape the operands to matrices.",
        )
    order = [*batch, *kept, *contracted] if last else [*batch, *contracted, *kept]
    return _transposed(w, x, order)


def _product(w: Writer, eqn: Eqn, x: Value, y: Value) -> Value:
    """The product of two matrices by tt.dot, which adds up in float32, or in int32."""
    if x.dtype != y.dtype:
        common = (
            F32 if F32 in (x.dtype, y.dtype) else max(x.dtype, y.dtype, key=lambda d: d.itemsize)
        )
        x, y = convert(w, x, common), convert(w, y, common)
    total = np.dtype(np.int32) if x.dtype == I8 else F32
    shape = (*x.shape[:-1], y.shape[-1])
    zeros = w.constant(0, total, shape)
    how = _precision(eqn.params["precision"]) if x.dtype == F32 else "ieee"
    return w.make(
        f"tt.dot {x.name}, {y.name}, {zeros.name}, inputPrecision = {how} : {x.type} * {y.type} -> "
        f"{zeros.type}",
        total,
        shape,
    )


def _precision(precision: PrecisionLike) -> str:
    """How tt.dot multiplies float32: by default in TF32, as XLA does on these GPUs."""
    if isinstance(precision, tuple):
        precision = max(precision, key=lambda p: int(p) if isinstance(p, Precision) else 0)
    name = getattr(precision, "name", str(precision)).upper()
    if precision is None or name in ("DEFAULT", "TF32_TF32_F32", "BF16_BF16_F32"):
        return "tf32"
    return "tf32x3" if name in ("HIGH", "TF32_TF32_F32_X3", "BF16_BF16_F32_X3") else "ieee"


_LARGEST = 2**20  # elements of an array in Triton


def _summed(w: Writer, x: Value, y: Value, batch: int, dtype: DType) -> Value:
    """A product that Triton's dot lacks, of small matrices, vectors, float64 or integers: products,
    added up."""
    total = F32 if is_float(dtype) and dtype.itemsize < F32.itemsize else dtype
    x, y = convert(w, x, total), convert(w, y, total)
    if len(x.shape) == batch + 1:
        x = w.expand(x, batch)
    if len(y.shape) == batch + 1:
        y = w.expand(y, batch + 1)
    shape = (*x.shape, y.shape[-1])
    if math.prod(shape) > _LARGEST:
        raise Refused(
            (
                f"a product of {dtype} with {math.prod(shape)} terms, which Triton has no "
                "operation for"
            ),
            "Let rows, columns and contracted elements be at least 16, of floats of up to 32 bits "
            "or int8; or let blocks be smaller.",
        )
    x, y = w.alike(w.expand(x, batch + _MATRIX), w.expand(y, batch))
    op = "arith.mulf" if is_float(total) else "arith.muli"
    products = w.make(f"{op} {x.name}, {y.name} : {x.type}", total, x.shape)
    added = _SUM(total)
    assert added is not None
    return convert(w, w.reduce(products, batch + 1, added), dtype)
