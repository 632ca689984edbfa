"""Reductions over windows that slide along arrays: pooling, and its derivatives."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, final

import numpy as np

from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Work, of_operand
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._devices import partition
from teucer._devices.partition import Labels, every
from teucer._dimensions.dimensions import as_size, ceil_div, dilated, max_dim
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer._transform.batch import batch_flat
from teucer._transform.jvp import jvp_flat
from teucer._trees import pytrees
from teucer.lax import _elementwise, _structure
from teucer.lax import _reductions as reductions
from teucer.lax._families import NUMERIC, Accepts
from teucer.lax._identities import identity_of
from teucer.lax._selection import where_else
from teucer.lax._slicing import pad_p, slice_in_dim
from teucer.lax._window_shapes import (
    PlainWindowParams,
    WindowParams,
    Windows,
    check_batch_only,
    moved_by_padding,
    padded_windows,
)

if TYPE_CHECKING:
    from teucer._core.jaxpr import ClosedJaxpr
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import (
        Array,
        ArrayLike,
        Arrays,
        Aval,
        Avals,
        Dims,
        DTypeLike,
        Size,
        Tangents,
    )
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "padtype_to_pads", "reduce_window", "reduce_window_max_p", "reduce_window_min_p",
    "reduce_window_p", "reduce_window_shape_tuple", "reduce_window_sum_p",
    "select_and_gather_add_p", "select_and_scatter_add_p", "select_and_scatter_p",
]  # fmt: skip

ORDERED = Accepts((np.number, np.bool_))


def _visited(
    *avals: ShapedArray, select_prim: object = None, **windows: Unpack[WindowParams]
) -> float:
    """The elements of the last operand that the windows hold."""
    return Windows(**windows).visited(avals[-1].shape)


class _WindowReduction(Primitive):
    """x reduced over windows by an associative operation, beginning with its identity.

    (C1) the windows have as many axes as x and are positive.  (C2) the dtype is accepted.
    """

    __slots__ = ()
    cost = Cost(moves=_visited, work=Work.WINDOW, operations=of_operand)

    def __init__(self, name: str, op: str, accepts: Accepts) -> None:
        self.name, self.op, self.accepts = name, op, accepts

    def types(self, x: ShapedArray, **windows: Unpack[WindowParams]) -> Any:
        w = Windows(**windows)
        w.check(x)
        if x.dtype not in self.accepts:
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype}. Accepted dtypes are subtypes of "
                f"{self.accepts}."
            )
        return (ShapedArray(w.out_shape(x.shape), x.dtype, x.weak_type),)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value, **windows: Unpack[WindowParams]) -> Any:
        init = ctx.constant(identity_of(self.op, x.dtype), x.dtype)
        if self.op in ("maximum", "minimum") and x.dtype.kind != "c":
            return (_lower_extreme(ctx, x, init, self.op, Windows(**windows)),)
        return _lower(ctx, [x], [init], reductions.scalar_body(ctx, self.op), Windows(**windows))

    def batch(
        self, axis: Axis, args: Arrays, dims: Sequence[int], **windows: Unpack[WindowParams]
    ) -> Any:
        return self.call(*args, **Windows(**windows).at(dims[0])._asdict()), dims

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[object],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        **windows: Unpack[WindowParams],
    ) -> Any:
        w, fill = Windows(**windows), identity_of(self.op, avals[0].dtype)
        x = moved_by_padding(
            sizes,
            sizes.mask(args[0], avals[0], fill),
            [low for low, _ in w.padding],
            fill,
            w.base_dilation,
        )
        return self.call(x, **padded_windows(sizes, avals[0].shape, outs[0].shape, windows))


def _lower(
    ctx: Context, xs: Sequence[Value], inits: Sequence[Any], body: Callable[..., Any], w: Windows
) -> Any:
    avals = [aval.strengthen() for aval in ctx.avals_out]
    return rare_hlo.reduce_window(
        ctx,
        xs,
        inits,
        body,
        avals,
        window=w.window_dimensions,
        strides=w.window_strides,
        padding=w.padding,
        base_dilation=w.base_dilation,
        window_dilation=w.window_dilation,
    )


def _lower_extreme(ctx: Context, x: Value, init: Value, op: str, w: Windows) -> Value:
    return rare_hlo.extreme_of_windows(
        ctx,
        x,
        init,
        op,
        ctx.avals_out[0].strengthen(),
        window=w.window_dimensions,
        strides=w.window_strides,
        padding=w.padding,
        base_dilation=w.base_dilation,
        window_dilation=w.window_dilation,
    )


@final
class WindowSum(_WindowReduction):
    """The sum over windows, which is linear. Its transpose sums the cotangents of the windows that
    an element is in."""

    __slots__ = ()

    def jvp(
        self, primals: Sequence[Array], tangents: Sequence[object], **windows: Unpack[WindowParams]
    ) -> Any:
        return self.call(*primals, **windows), self.call(*tangents, **windows)

    def transpose(self, cts: Arrays, x: Array | Undefined, **windows: Unpack[WindowParams]) -> Any:
        (ct,) = cts
        w, shape = Windows(**windows), x.aval.shape
        if 0 in shape or 0 in np.shape(ct):
            return (_structure.full(shape, 0, typeof(ct).dtype),)
        config = []
        for n, m, size, s, (low, _), b, d in zip(shape, np.shape(ct), *w, strict=True):
            before = dilated(size, d) - 1 - low
            config.append((before, dilated(n, b) + low - dilated(m, s), s - 1))
        (spread,) = pad_p.call(
            ct, _structure.full((), 0, typeof(ct).dtype), padding_config=tuple(config)
        )
        ones = (1,) * len(shape)
        return self.call(
            spread,
            window_dimensions=w.window_dimensions,
            window_strides=w.base_dilation,
            padding=((0, 0),) * len(shape),
            base_dilation=ones,
            window_dilation=w.window_dilation,
        )


@final
class WindowExtreme(_WindowReduction):
    """The greatest or least element of each window. Its tangent is the tangent of the first such
    element."""

    __slots__ = ()

    def jvp(self, primals: Arrays, tangents: Arrays, **windows: Unpack[WindowParams]) -> Any:
        (x,), (t,) = primals, tangents
        outs = self.call(x, **windows)
        select = _elementwise.ge_p if self.op == "maximum" else _elementwise.le_p
        if not Windows(**windows).is_dilated():
            return outs, select_and_gather_add_p.call(t, x, select_prim=select, **windows)

        def combine(a: Any, b: Any) -> Any:
            (first,) = select.call(a[0], b[0])
            return [_elementwise.select(first, p, q) for p, q in zip(a, b, strict=True)]

        inits = [
            _structure.full((), identity_of(self.op, typeof(x).dtype), typeof(x).dtype),
            _structure.full((), 0, typeof(t).dtype),
        ]
        return outs, (windows_by_doubling(combine, [x, t], inits, Windows(**windows))[1],)


def windows_by_doubling(
    combine: Callable[..., Any], xs: Sequence[ArrayLike], inits: Sequence[object], w: Windows
) -> list[Any]:
    """Arrays reduced together over windows by an associative function of lists, in steps that can
    be transformed.

    Along each axis in turn, windows of 1, 2, 4, ... elements are made of two of half the size:
    O(log(size)) operations.
    """
    ys = _padded(xs, inits, w)
    for axis, (size, stride, d) in enumerate(
        zip(w.window_dimensions, w.window_strides, w.window_dilation, strict=True)
    ):
        count = max(np.shape(ys[0])[axis] - (size - 1) * d, 0)
        powers, length, offset, found = ys, 1, 0, None
        while offset < size:
            if size & length:
                part = [slice_in_dim(p, offset * d, offset * d + count, axis=axis) for p in powers]
                found = part if found is None else combine(found, part)
                offset += length
            if offset < size:
                step = length * d
                powers = combine(
                    [slice_in_dim(p, 0, np.shape(p)[axis] - step, axis=axis) for p in powers],
                    [slice_in_dim(p, step, None, axis=axis) for p in powers],
                )
                length *= 2
        assert found is not None
        ys = [slice_in_dim(y, 0, None, stride, axis) for y in found]
    return ys


def _padded(xs: Sequence[ArrayLike], inits: Sequence[Any], w: Windows) -> list[Any]:
    """Arrays with initial values around and between their elements, as windows see them."""
    config = tuple(
        (low, high, b - 1) for (low, high), b in zip(w.padding, w.base_dilation, strict=True)
    )
    return [
        pad_p.call(x, init, padding_config=config)[0] for x, init in zip(xs, inits, strict=True)
    ]


def _windows_in_order(
    combine: Callable[..., Any], xs: Sequence[ArrayLike], inits: Sequence[Any], w: Windows
) -> list[Any]:
    """Arrays reduced together over windows, element after element, without padding, as XLA's CPU
    compiler mostly does. The function of lists need not be associative."""
    shape = w.out_shape(np.shape(xs[0]))
    found = [_structure.broadcast_to(init, shape, ()) for init in inits]
    everywhere = not any(map(any, w.padding)) and all(b == 1 for b in w.base_dilation)
    there = _structure.full(np.shape(xs[0]), True, np.dtype(bool))
    *ys, there = _padded([*xs, there], [*inits, np.False_], w)
    for place in itertools.product(*map(range, w.window_dimensions)):
        parts = [*ys, there]
        for axis, (i, size, stride, d) in enumerate(
            zip(place, w.window_dimensions, w.window_strides, w.window_dilation, strict=True)
        ):
            last = np.shape(there)[axis] - (size - 1 - i) * d
            parts = [slice_in_dim(y, i * d, last, stride, axis) for y in parts]
        *part, is_element = parts
        combined = combine(found, part)
        found = combined if everywhere else [
            where_else(is_element, new, old)
            for new, old in zip(combined, found, strict=True)
        ]  # fmt: skip
    return found


@final
class ReduceWindow(Primitive):
    """Arrays reduced together over windows by a computation on scalars, beginning with initial
    values.

    Operands are the arrays, then the initial values.  (C1) as for the named ones.  (C2) initial
    values are scalars of the arrays' dtypes.  (C3) the arrays have one shape.  (C4) the computation
    returns the types that it takes.
    """

    __slots__ = ()
    name = "reduce_window"
    cost = Cost(work=Work.WINDOW, operations=of_operand)
    multiple_results = True

    def types(
        self,
        *operands: ShapedArray,
        jaxpr: ClosedJaxpr,
        consts: Sequence[Array],
        **windows: Unpack[WindowParams],
    ) -> Any:
        n = len(operands) // 2
        xs, inits = operands[:n], operands[n:]
        if any(init.shape for init in inits):
            raise TypeError(
                "reduce_window expected init_values to be scalars but init_values have shapes "
                f"{[init.shape for init in inits]}."
            )
        if any(x.shape != xs[0].shape for x in xs):
            raise ValueError(
                f"reduce_window: operands differ in shape.\n    operands: {', '.join(map(str, xs))}"
            )
        for x, init in zip(xs, inits, strict=True):
            if x.dtype != init.dtype:
                raise TypeError(
                    "reduce_window: an initial value has not the dtype of its operand.\n"
                    f"    operand: {x.str_short(True)}\n    initial value: {init.str_short(True)}"
                )
        w = Windows(**windows)
        w.check(xs[0])
        reductions.check_computation("reduce_window", jaxpr, xs)
        return tuple(ShapedArray(w.out_shape(x.shape), x.dtype, x.weak_type) for x in xs)

    shard = partition.aligned

    def lower(
        self,
        ctx: Context,
        *values: Value,
        jaxpr: ClosedJaxpr,
        consts: Sequence[Array],
        **windows: Unpack[WindowParams],
    ) -> Any:
        n, w = len(values) // 2, Windows(**windows)
        op = reductions.extreme_of(jaxpr)
        if op is not None and values[0].dtype.kind != "c":
            x, init = values
            y = _lower_extreme(ctx, x, init, op, w)
            # A target may ignore the initial value, and start from the identity.
            return (hlo.elementwise(ctx, op, hlo.broadcast_in_dim(ctx, init, y.shape, ()), y),)
        return _lower(ctx, values[:n], values[n:], lambda *ab: ctx.inline(jaxpr, *ab), w)

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Tangents, *, jaxpr: ClosedJaxpr, **params: Any
    ) -> Any:
        outs = self.call(*primals, jaxpr=jaxpr, **params)
        _, moved = jvp_flat(
            lambda *zs: _reduce_window_in_parts(jaxpr, zs, **params), primals, tangents
        )
        return outs, tuple(moved)

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Dims,
        *,
        jaxpr: ClosedJaxpr,
        consts: Sequence[Array],
        **windows: Unpack[WindowParams],
    ) -> Any:
        n = len(args) // 2
        if any(d is not None for d in dims[n:]):
            outs, out_dims = batch_flat(
                lambda *zs: _reduce_window_in_parts(jaxpr, zs, consts=consts, **windows),
                axis,
                args,
                dims,
            )
            return tuple(outs), tuple(out_dims)
        xs = [
            array_ops.to_axis(x, d, axis.size, 0) for x, d in zip(args[:n], dims[:n], strict=True)
        ]
        reduced = self.call(
            *xs, *args[n:], jaxpr=jaxpr, consts=consts, **Windows(**windows).at(0)._asdict()
        )
        return reduced, (0,) * n

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[Array],
        *,
        jaxpr: ClosedJaxpr,
        consts: Sequence[Array],
        **windows: Unpack[WindowParams],
    ) -> Any:
        n, w = len(args) // 2, Windows(**windows)
        lows = [low for low, _ in w.padding]
        # Pad with the initial value, as XLA does.
        xs = [
            moved_by_padding(sizes, sizes.mask(x, aval, init), lows, init, w.base_dilation)
            for x, aval, init in zip(args[:n], avals, args[n:], strict=False)
        ]
        return self.call(
            *xs,
            *args[n:],
            jaxpr=jaxpr,
            consts=consts,
            **padded_windows(sizes, avals[0].shape, outs[0].shape, windows),
        )


# Windows of at most so many elements are reduced one element after the other. So even the
# derivative of a function that is not associative agrees with XLA's result. For larger windows it
# must be associative.
_FEW = 32


def _reduce_window_in_parts(
    jaxpr: ClosedJaxpr,
    operands: Sequence[ArrayLike],
    *,
    consts: Sequence[Array],
    **windows: Unpack[WindowParams],
) -> list[Any]:
    n, w = len(operands) // 2, Windows(**windows)

    def combine(a: Any, b: Any) -> Any:
        return reductions.apply_scalar_jaxpr(jaxpr, [*a, *b])

    shape = w.out_shape(np.shape(operands[0]))
    if 0 in shape:
        return [_structure.broadcast_to(init, shape, ()) for init in operands[n:]]
    if math.prod(w.window_dimensions) <= _FEW:
        return _windows_in_order(combine, operands[:n], operands[n:], w)
    found = windows_by_doubling(combine, operands[:n], operands[n:], w)
    return combine(
        [
            _structure.broadcast_to(i, np.shape(y), ())
            for i, y in zip(operands[n:], found, strict=True)
        ],
        found,
    )


@final
class SelectAndGatherAdd(Primitive):
    """Of each window, the element of `values` at the place of the operand's element that
    select_prim prefers.

    (C1) as for the named reductions.  (C2) values and operand have one shape.
    """

    __slots__ = ()
    name = "select_and_gather_add"
    cost = Cost(moves=_visited)

    def types(
        self,
        values: ShapedArray,
        x: ShapedArray,
        *,
        select_prim: object,
        **windows: Unpack[WindowParams],
    ) -> Any:
        w = Windows(**windows)
        w.check(x)
        if values.shape != x.shape:
            raise TypeError(
                f"select_and_gather_add: operands differ in shape.\n    {values}\n    {x}"
            )
        return (ShapedArray(w.out_shape(x.shape), values.dtype, values.weak_type),)

    shard = partition.aligned

    def lower(
        self,
        ctx: Context,
        values: Value,
        x: Value,
        *,
        select_prim: Primitive,
        **windows: Unpack[WindowParams],
    ) -> Any:
        inits = [ctx.constant(_worst(select_prim, x.dtype), x.dtype), ctx.constant(0, values.dtype)]
        w, direction = Windows(**windows), _direction(select_prim)
        (aval,) = ctx.avals_out

        def body(a: Any, t: Any, b: Any, u: Any) -> Any:
            first = hlo.compare(ctx, a, b, direction)
            return hlo.select(ctx, first, a, b), hlo.select(ctx, first, t, u)

        avals = [ShapedArray(aval.shape, x.dtype), aval.strengthen()]
        return (
            rare_hlo.reduce_window(
                ctx,
                [x, values],
                inits,
                body,
                avals,
                window=w.window_dimensions,
                strides=w.window_strides,
                padding=w.padding,
                base_dilation=w.base_dilation,
                window_dilation=w.window_dilation,
            )[1],
        )

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        t = tangents[0]
        return outs, (
            (typeof(outs[0]).zero,) if type(t) is Zero else self.call(t, primals[1], **params)
        )

    def transpose(
        self,
        cts: Sequence[object],
        values: Array | Undefined,
        x: ArrayLike,
        *,
        select_prim: object,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: object,
        base_dilation: Sequence[int],
        window_dilation: Sequence[int],
    ) -> Any:
        return select_and_scatter_add_p.call(
            *cts,
            x,
            select_prim=select_prim,
            window_dimensions=window_dimensions,
            window_strides=window_strides,
            padding=padding,
        )[0], None

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        select_prim: Primitive,
        **windows: Unpack[WindowParams],
    ) -> Any:
        both = [array_ops.to_axis(z, d, axis.size, 0) for z, d in zip(args, dims, strict=True)]
        return self.call(*both, select_prim=select_prim, **Windows(**windows).at(0)._asdict()), (0,)

    @dialects.padded.rule
    def padded(
        self, sizes: Sequence[Size], args: Arrays, avals: Avals, outs: Arrays, **params: object
    ) -> Any:
        check_batch_only(sizes, avals, params)
        return self.call(*args, **params)


@final
class SelectAndScatterAdd(Primitive):
    """Zeros in the shape of x, to which each window adds its element of `source` where select_prim
    prefers x's.

    (C1) as for the named reductions.  (C2) source has an element for each window.
    """

    __slots__ = ()
    name = "select_and_scatter_add"
    cost = Cost(
        moves=lambda source, x, *, select_prim, **windows: _undilated(**windows).visited(x.shape)
    )

    def types(
        self,
        source: Aval,
        x: ShapedArray,
        *,
        select_prim: object,
        **windows: Unpack[PlainWindowParams],
    ) -> Any:
        w = _undilated(**windows)
        w.check(x)
        if source.shape != w.out_shape(x.shape):
            raise TypeError(
                "select_and_scatter_add: source has not one element for each window.\n"
                f"    source: {source}\n    windows: {w.out_shape(x.shape)}"
            )
        return (ShapedArray(x.shape, source.dtype, source.weak_type),)

    def shard(self, source: ShapedArray, x: ShapedArray, **params: object) -> Any:
        return Labels([every(source), every(x)], [every(x)])

    def lower(
        self,
        ctx: Context,
        source: Value,
        x: Value,
        *,
        select_prim: Primitive,
        **windows: Unpack[PlainWindowParams],
    ) -> Any:
        w, direction = _undilated(**windows), _direction(select_prim)
        (aval,) = ctx.avals_out
        # Padding must never be preferred, so it is written out; the operation's own is of zeros.
        low, high = zip(*w.padding, strict=True) if w.padding else ((), ())
        shape = tuple(n + a + b for n, a, b in zip(x.shape, low, high, strict=True))
        zeros = (0,) * len(shape)
        worst = ctx.constant(_worst(select_prim, x.dtype), x.dtype)
        padded = hlo.pad(ctx, x, worst, low, high, zeros, ShapedArray(shape, x.dtype))
        init = ctx.constant(0, source.dtype)
        out = rare_hlo.select_and_scatter(
            ctx,
            padded,
            source,
            init,
            lambda a, b: (hlo.compare(ctx, a, b, direction),),
            reductions.scalar_body(ctx, "add"),
            window=w.window_dimensions,
            strides=w.window_strides,
            padding=((0, 0),) * len(shape),
            aval=ShapedArray(shape, source.dtype),
        )
        crop = [tuple(-n for n in edge) for edge in (low, high)]
        return (hlo.pad(ctx, out, init, crop[0], crop[1], zeros, aval.strengthen()),)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        t = tangents[0]
        return outs, (
            (typeof(outs[0]).zero,) if type(t) is Zero else self.call(t, primals[1], **params)
        )

    def transpose(
        self,
        cts: Sequence[Array | Zero],
        source: ArrayLike,
        x: Array,
        *,
        select_prim: Primitive,
        **windows: Unpack[PlainWindowParams],
    ) -> Any:
        return select_and_gather_add_p.call(
            *cts, x, select_prim=select_prim, **_undilated(**windows)._asdict()
        )[0], None

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        select_prim: object,
        **windows: Unpack[PlainWindowParams],
    ) -> Any:
        both = [array_ops.to_axis(z, d, axis.size, 0) for z, d in zip(args, dims, strict=True)]
        w = _undilated(**windows).at(0)
        return self.call(
            *both,
            select_prim=select_prim,
            window_dimensions=w.window_dimensions,
            window_strides=w.window_strides,
            padding=w.padding,
        ), (0,)

    @dialects.padded.rule
    def padded(
        self, sizes: Sequence[Size], args: Arrays, avals: Avals, outs: Arrays, **params: object
    ) -> Any:
        check_batch_only(sizes, avals, params)
        return self.call(*args, **params)


@final
class SelectAndScatter(Primitive):
    """As `select_and_scatter_add`, with any computations to select an element of a window and to
    combine sources.

    (C1) and (C2) as there.  (C3) source and initial value have the operand's dtype.
    """

    __slots__ = ()
    name = "select_and_scatter"

    def types(
        self,
        x: ShapedArray,
        source: Aval,
        init: Aval,
        *,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: object,
        **computations: object,
    ) -> Any:
        w = _undilated(window_dimensions, window_strides, padding)
        w.check(x)
        if (
            source.shape != w.out_shape(x.shape)
            or init.shape
            or not x.dtype == source.dtype == init.dtype
        ):
            raise TypeError(
                "select_and_scatter: source must have an element for each window, and the "
                f"initial value be a scalar, of the operand's dtype (C2, C3).\n    operand: {x}\n"
                f"    source: {source}\n    initial value: {init}\n"
                f"    windows: {w.out_shape(x.shape)}"
            )
        return (x,)

    shard = partition.aligned

    def lower(
        self,
        ctx: Context,
        x: Value,
        source: Value,
        init: Value,
        *,
        select_jaxpr: Any,
        scatter_jaxpr: Any,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Any,
        **consts: object,
    ) -> Any:
        return (
            rare_hlo.select_and_scatter(
                ctx,
                x,
                source,
                init,
                lambda a, b: ctx.inline(select_jaxpr, a, b),
                lambda a, b: ctx.inline(scatter_jaxpr, a, b),
                window=window_dimensions,
                strides=window_strides,
                padding=padding,
                aval=x.aval.strengthen(),
            ),
        )

    @dialects.padded.rule
    def padded(
        self, sizes: Sequence[Size], args: Arrays, avals: Avals, outs: Arrays, **params: object
    ) -> Any:
        check_batch_only(sizes, avals, params)
        return self.call(*args, **params)


def _undilated(window_dimensions: Any, window_strides: Any, padding: Any) -> Windows:
    ones = (1,) * len(window_dimensions)
    return Windows(window_dimensions, window_strides, padding, ones, ones)


def _direction(select_prim: object) -> str:
    return "GE" if select_prim is _elementwise.ge_p else "LE"


def _worst(select_prim: object, dtype: DTypeLike) -> Any:
    """The value that a selection prefers least."""
    return identity_of("maximum" if select_prim is _elementwise.ge_p else "minimum", dtype)


reduce_window_sum_p = WindowSum("reduce_window_sum", "add", NUMERIC)
reduce_window_max_p = WindowExtreme("reduce_window_max", "maximum", ORDERED)
reduce_window_min_p = WindowExtreme("reduce_window_min", "minimum", ORDERED)
reduce_window_p = ReduceWindow()
select_and_gather_add_p = SelectAndGatherAdd()
select_and_scatter_add_p = SelectAndScatterAdd()
select_and_scatter_p = SelectAndScatter()
_NAMED: dict[str, Any] = {
    "add": reduce_window_sum_p,
    "maximum": reduce_window_max_p,
    "minimum": reduce_window_min_p,
}


def reduce_window(
    operand: ArrayLike,
    init_value: ArrayLike,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Arrays reduced together over windows by an associative computation on scalars.

    operand, init_value: trees of one structure; the initial value should be the computation's
    identity.
    padding: "VALID" (none), "SAME" (as many windows as steps fit, the rest of the padding at the
    end), "SAME_LOWER", or (low, high) for each axis.
    Raises TypeError or ValueError if the windows do not fit the operands.

    >>> from teucer import lax
    >>> reduce_window(np.float32([1, 2, 3, 4]), np.float32(0), lax.add, (2,))
    Array([3., 5., 7.], dtype=float32)
    """
    xs, tree = pytrees.tree_flatten(operand)
    inits, init_tree = pytrees.tree_flatten(init_value)
    if tree != init_tree:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}"
        )
    if not xs:
        raise ValueError("reduce_window must have at least one operand.")
    avals = [typeof(x) for x in xs]
    w = _windows(
        avals[0], window_dimensions, window_strides, padding, (base_dilation, window_dilation)
    )
    if len(xs) == 1:
        named = reductions.monoid(computation, inits[0], avals[0], _NAMED)
        if named is not None:
            return pytrees.tree_unflatten(tree, named.call(*xs, **w._asdict()))
    jaxpr, out_tree = reductions.tree_computation("reduce_window", computation, tree, avals)
    if out_tree != tree:
        raise ValueError(
            f"reduce_window output must have the same tree structure as the operands: {tree} vs. "
            f"{out_tree}\n  The computation takes two trees of scalars, and returns a third."
        )
    return pytrees.tree_unflatten(
        tree, reduce_window_p.call(*xs, *inits, jaxpr=jaxpr, consts=(), **w._asdict())
    )


def _windows(x: ShapedArray, window: Any, strides: object, padding: Any, dilations: Any) -> Windows:
    """The windows that a user described; None means 1 along each axis."""
    sizes = tuple(as_size(d) for d in window)
    ones = (1,) * len(sizes)
    steps, base, holes = (
        ones if d is None else tuple(operator.index(n) for n in d) for d in (strides, *dilations)
    )
    w = Windows(sizes, steps, ((0, 0),) * len(sizes), base, holes)
    w.check(x)
    if isinstance(padding, str):
        shape = tuple(dilated(n, b) for n, b in zip(x.shape, base, strict=True))
        padding = padtype_to_pads(
            shape, tuple(dilated(n, d) for n, d in zip(sizes, holes, strict=True)), steps, padding
        )
    return w._replace(padding=tuple((as_size(low), as_size(high)) for low, high in padding))


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of the result of `reduce_window`.

    >>> reduce_window_shape_tuple((4, 5), (2, 2), (1, 2), [(0, 0), (1, 1)])
    (3, 3)
    """
    ones = (1,) * len(window_dimensions)
    return Windows(
        tuple(window_dimensions),
        tuple(window_strides),
        tuple(padding),
        tuple(base_dilation or ones),
        tuple(window_dilation or ones),
    ).out_shape(tuple(operand_shape))


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """The padding (low, high) of each axis that "VALID", "SAME" or "SAME_LOWER" stands for.

    Raises RuntimeError for another string, TypeError for anything else.

    >>> padtype_to_pads((5,), (2,), (2,), "SAME")
    [(0, 1)]
    """
    if not isinstance(padding, str):
        raise TypeError(f"Unknown padding type: {padding}.")
    kind = padding.upper()
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}."
        )
    sizes = zip(*(map(as_size, v) for v in (in_shape, window_shape, window_strides)), strict=True)
    totals = [max_dim((ceil_div(n, s) - 1) * s + w - n, 0) for n, w, s in sizes]
    less = [(t // 2, t - t // 2) for t in totals]
    return less if kind == "SAME" else [(high, low) for low, high in less]
