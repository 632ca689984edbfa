"""Arrays read and written at places that are data.

Gather, and the scatters, which are its transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Subnormals, Work, of_operand
from teucer._core.primitive import Axis, Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike, Dims, Params
from teucer._devices import partition
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer.lax import _elementwise, _shapes, _structure
from teucer.lax._costs import nothing
from teucer.lax._indexing import numbers as _indexing
from teucer.lax._indexing import padded as _padded_indexing
from teucer.lax._indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from teucer.lax._indexing.padded import bounds, inside, wide
from teucer.lax._indexing.places import chosen_places, chosen_updates
from teucer.lax._reductions import check_computation, scalar_body, scalar_computation

if TYPE_CHECKING:
    from teucer._core.jaxpr import ClosedJaxpr
    from teucer._core.typing import Arrays, Atom, Axes, Tangents
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class GatherParams(TypedDict):
        dimension_numbers: GatherDimensionNumbers
        slice_sizes: Axes
        mode: GatherScatterMode
        fill_value: ArrayLike | None
        indices_are_sorted: bool
        unique_indices: bool

    class ScatterParams(TypedDict):
        dimension_numbers: ScatterDimensionNumbers
        mode: GatherScatterMode
        update_jaxpr: ClosedJaxpr | None
        indices_are_sorted: bool
        unique_indices: bool
        update_consts: tuple[()]


__all__ = [
    "gather", "gather_p", "scatter", "scatter_add", "scatter_add_p", "scatter_apply",
    "scatter_max", "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p",
    "scatter_p", "scatter_sub", "scatter_sub_p",
]  # fmt: skip

_FILL, _CLIP = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP


@final
class Gather(Primitive):
    """Windows of x at the places that indices name: result[batch, offset] = x[indices[batch] +
    offset].

    (C1) indices are integers; their last axis has a component for each axis of start_index_map.
    (C2) axes in dimension numbers are sorted, distinct and in range.  (C3) slice_sizes has a size
    for each axis, within it, 1 where collapsed. (C4) batching axes pair axes of one size.
    """

    __slots__ = ()
    name = "gather"
    cost = Cost(operations=nothing, work=Work.GATHER, subnormals=Subnormals.MOVE)
    linear_in = (0,)
    combines = partition.in_place

    def types(
        self,
        x: ShapedArray,
        indices: ShapedArray,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: Axes,
        **params: object,
    ) -> Any:
        if params["mode"] is GatherScatterMode.ONE_HOT:
            raise ValueError(
                "gather: the mode ONE_HOT is for scatter alone.\n"
                "  Modes: clip, fill, promise_in_bounds."
            )
        shape = _indexing.check_gather(x, indices, dimension_numbers, slice_sizes)
        return (ShapedArray(shape, x.dtype, x.weak_type),)

    def shard(self, x: ShapedArray, indices: ShapedArray, **params: Unpack[GatherParams]) -> Any:
        return _indexing.gather_labels(
            x, indices, params["dimension_numbers"], params["slice_sizes"]
        )

    def lower(self, ctx: Context, x: Value, indices: Value, **params: Unpack[GatherParams]) -> Any:
        slice_sizes, fill_value = params["slice_sizes"], params["fill_value"]
        (aval,) = ctx.avals_out
        d = params["dimension_numbers"]
        if 0 in aval.shape:
            return (hlo.splat(ctx, 0, aval.strengthen()),)
        indices = wide(ctx, indices)
        out = rare_hlo.gather(
            ctx, x, indices, d, slice_sizes, params["indices_are_sorted"], aval.strengthen()
        )
        if params["mode"] is not _FILL:
            return (out,)
        batch_dims = [i for i in range(len(aval.shape)) if i not in d.offset_dims]

        def masked(values: Any, at: Any) -> Any:
            limits = [x.shape[a] - slice_sizes[a] for a in d.start_index_map]
            fits = _structure.broadcast_to(inside(at, limits), aval.shape, batch_dims)
            fill = _structure.full(
                aval.shape,
                _indexing.fill_for(x.dtype) if fill_value is None else fill_value,
                x.dtype,
            )
            return (_elementwise.select(fits, values, fill),)

        return ctx.trace(masked, out, indices)

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Tangents, **params: Unpack[GatherParams]
    ) -> Any:
        outs = self.call(*primals, **params)
        return outs, self.call(tangents[0], primals[1], **(params | {"fill_value": 0}))

    def transpose(
        self, cts: Arrays, x: Array | Undefined, indices: ArrayLike, **params: Unpack[GatherParams]
    ) -> Any:
        mode = params["mode"]
        d = params["dimension_numbers"]
        (ct,) = cts
        placed = chosen_places(x.aval, indices, ct, d, params["slice_sizes"], mode)
        if placed is not None:
            return placed, None
        (placed,) = scatter_add_p.call(
            _structure.zeros(x.aval.strengthen().cotangent_aval()),
            indices,
            ct,
            update_jaxpr=None,
            update_consts=(),
            mode=mode,
            indices_are_sorted=params["indices_are_sorted"],
            unique_indices=params["unique_indices"],
            dimension_numbers=ScatterDimensionNumbers(
                d.offset_dims,
                d.collapsed_slice_dims,
                d.start_index_map,
                d.operand_batching_dims,
                d.start_indices_batching_dims,
            ),
        )
        return placed, None

    def batch(
        self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: Unpack[GatherParams]
    ) -> Any:
        slice_sizes, unique_indices, indices_are_sorted = (
            params["slice_sizes"],
            params["unique_indices"],
            params["indices_are_sorted"],
        )
        (x, indices), (dim, index_dim) = args, dims
        d = params["dimension_numbers"]
        after = GatherDimensionNumbers(*(tuple(a + 1 for a in field) for field in d))
        if dim is not None:
            x = array_ops.moveaxis(x, dim, 0)
        if index_dim is not None:
            indices = array_ops.moveaxis(indices, index_dim, 0)
        if dim is None:
            after = d._replace(
                offset_dims=after.offset_dims,
                start_indices_batching_dims=after.start_indices_batching_dims,
            )
            # Two elements of the batch may read the same place.
            unique_indices = indices_are_sorted = False
        elif index_dim is None:
            after = after._replace(
                offset_dims=(0, *after.offset_dims),
                start_indices_batching_dims=d.start_indices_batching_dims,
            )
            slice_sizes = (axis.size, *slice_sizes)
        else:
            after = after._replace(
                operand_batching_dims=(0, *after.operand_batching_dims),
                start_indices_batching_dims=(0, *after.start_indices_batching_dims),
            )
            slice_sizes = (0 if axis.size == 0 else 1, *slice_sizes)
        return self.call(
            x,
            indices,
            **{
                **params,
                "dimension_numbers": after,
                "slice_sizes": slice_sizes,
                "unique_indices": unique_indices,
                "indices_are_sorted": indices_are_sorted,
            },
        ), (0,)

    padded = dialects.padded.rule(_padded_indexing.gather)


class Scatter(Primitive):
    """x with updates put into, or combined with, the windows at the places that indices name.

    (C1) operand and updates have one dtype.  (C2) as `gather` C1.  (C3) as `gather` C2.  (C4)
    windows fit into x, and the other axes of updates are the axes of indices.  (C5) as `gather` C4.
    """

    __slots__ = ()
    cost = Cost(operations=of_operand)

    def __init__(self, name: str, op: str) -> None:
        self.name, self.op = name, op

    def types(
        self,
        x: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: object,
    ) -> Any:
        if x.dtype != updates.dtype:
            raise TypeError(
                f"lax.scatter requires arguments to have the same dtypes, got {x.dtype}, "
                f"{updates.dtype}.\n    operand: {x.str_short(True)}\n"
                f"    updates: {updates.str_short(True)}"
            )
        _indexing.check_scatter(x, indices, updates, dimension_numbers)
        return (x if updates.weak_type or not x.weak_type else x.strengthen(),)

    def shard(
        self,
        x: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        **params: Unpack[ScatterParams],
    ) -> Any:
        return _indexing.scatter_labels(x, indices, updates, params["dimension_numbers"])

    def lower(
        self,
        ctx: Context,
        x: Value,
        indices: Value,
        updates: Value,
        **params: Unpack[ScatterParams],
    ) -> Any:
        dimension_numbers = params["dimension_numbers"]
        if 0 in updates.shape or 0 in x.shape:
            return (x,)
        indices = wide(ctx, indices)
        if params["mode"] is _CLIP:
            sizes = _indexing.window_sizes(dimension_numbers, len(x.shape), updates.shape)
            limits = [x.shape[a] - sizes[a] for a in dimension_numbers.scatter_dims_to_operand_dims]

            def clipped(at: Any) -> Any:
                low, high = bounds(at, limits)
                return (_elementwise.clamp(low, at, high),)

            (indices,) = ctx.trace(clipped, indices)
        return (
            rare_hlo.scatter(
                ctx,
                x,
                indices,
                updates,
                dimension_numbers,
                params["indices_are_sorted"],
                params["unique_indices"],
                self.body(ctx, params["update_jaxpr"]),
            ),
        )

    def body(self, ctx: Context, update_jaxpr: ClosedJaxpr | None) -> Callable[..., Any]:
        """The computation on an old element and its update."""
        return scalar_body(ctx, self.op)

    def batch(
        self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: Unpack[ScatterParams]
    ) -> Any:
        (x, indices, updates), (dim, index_dim, updates_dim) = args, dims
        x = array_ops.to_axis(x, dim, axis.size, 0)
        updates = array_ops.to_axis(updates, updates_dim, axis.size, 0)
        d = params["dimension_numbers"]
        after = ScatterDimensionNumbers(*(tuple(a + 1 for a in field) for field in d))
        if index_dim is None:
            after = after._replace(
                update_window_dims=(0, *after.update_window_dims),
                scatter_indices_batching_dims=d.scatter_indices_batching_dims,
            )
        else:
            indices = array_ops.moveaxis(indices, index_dim, 0)
            after = after._replace(
                operand_batching_dims=(0, *after.operand_batching_dims),
                scatter_indices_batching_dims=(0, *after.scatter_indices_batching_dims),
            )
        return self.call(x, indices, updates, **{**params, "dimension_numbers": after}), (0,)

    def simplify(
        self, known: Any, x: Atom, indices: Atom, updates: Atom, **params: Unpack[ScatterParams]
    ) -> Any:
        """A choice, where each row has one window and x is one number."""
        if params["update_jaxpr"] is not None:
            return None
        d, combine = params["dimension_numbers"], _COMBINED[self.op]
        return chosen_updates(known, x, indices, updates, d, params["mode"], combine)

    padded = dialects.padded.rule(_padded_indexing.scatter)


# By operation of StableHLO, the function of an element and its update.
_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "": lambda old, new: new,
    "add": _elementwise.add,
    "subtract": _elementwise.sub,
    "multiply": _elementwise.mul,
    "minimum": _elementwise.min,
    "maximum": _elementwise.max,
}


def _gather_updates(
    x: ArrayLike, indices: ArrayLike, updates_shape: object, params: Params, fill: object = 0
) -> Any:
    """The windows of x that a scatter's updates meet: zero where an update is left out."""
    d = params["dimension_numbers"]
    numbers = GatherDimensionNumbers(
        tuple(d.update_window_dims),
        tuple(d.inserted_window_dims),
        tuple(d.scatter_dims_to_operand_dims),
        tuple(d.operand_batching_dims),
        tuple(d.scatter_indices_batching_dims),
    )
    mode = _FILL if params["mode"] is GatherScatterMode.ONE_HOT else params["mode"]
    return gather_p.call(
        x,
        indices,
        dimension_numbers=numbers,
        fill_value=fill,
        mode=mode,
        slice_sizes=_indexing.window_sizes(d, np.ndim(x), updates_shape),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
    )[0]


def _shape_of(x: Array | Undefined) -> Any:
    return x.aval.shape if type(x) is Undefined else np.shape(x)


@final
class LinearScatter(Scatter):
    """Updates added or subtracted: linear in operand and updates together."""

    __slots__ = ()
    linear_in = (0, 2)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Tangents, **params: object) -> Any:
        x, indices, updates = primals
        outs = self.call(x, indices, updates, **params)
        tx, _, tu = tangents
        if type(tu) is Zero:
            return outs, (tx,)
        return outs, self.call(array_ops.instantiate(tx), indices, tu, **params)

    def transpose(
        self,
        cts: Arrays,
        x: Array | Undefined,
        indices: ArrayLike,
        updates: Array | Undefined,
        **params: object,
    ) -> Any:
        (ct,) = cts
        ct_updates = None
        if type(updates) is Undefined:
            ct_updates = _gather_updates(ct, indices, updates.aval.shape, params)
            if self.op == "subtract":
                ct_updates = _elementwise.neg(ct_updates)
        return (ct if type(x) is Undefined else None), None, ct_updates

    def lower(self, ctx: Context, x: Value, indices: Value, updates: Value, **params: Any) -> Any:
        if x.dtype.kind != "c" or ctx.target.adds_complex:
            return super().lower(ctx, x, indices, updates, **params)

        def by_parts(x: ArrayLike, at: object, updates: Array) -> Any:
            re, im = (
                self.call(part(x), at, part(updates), **params)[0]
                for part in (_elementwise.real, _elementwise.imag)
            )
            return (_elementwise.complex(re, im),)

        # GPUs add atomically only what fits into a word.
        return ctx.trace(by_parts, x, indices, updates)


@final
class ScatterReplace(Scatter):
    """Updates put in the place of elements, or elements replaced by a function of them
    (update_jaxpr)."""

    __slots__ = ()
    cost = Scatter.cost._replace(subnormals=Subnormals.MOVE)

    def body(self, ctx: Context, update_jaxpr: ClosedJaxpr | None) -> Callable[..., Any]:
        if update_jaxpr is None:
            return lambda old, new: (new,)
        return lambda old, new: ctx.inline(update_jaxpr, old, new)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Tangents, **params: object) -> Any:
        if params["update_jaxpr"] is not None:
            raise NotImplementedError(
                "scatter_apply: JVP not implemented.\n  Gather the elements, apply the function "
                "to them, and scatter the results."
            )
        x, indices, updates = primals
        outs = self.call(x, indices, updates, **params)
        tx, tu = array_ops.instantiate(tangents[0]), array_ops.instantiate(tangents[2])
        if params["unique_indices"]:
            return outs, self.call(tx, indices, tu, **params)
        # Of several updates of one element one wins: found by scattering their numbers.
        shape = np.shape(updates)
        int32 = np.dtype(np.int32)
        numbers = _structure.reshape(
            _elementwise.add(_shapes.iota(int32, prod(shape)), np.int32(1)), shape
        )
        zeros = _structure.full(np.shape(x), 0, int32)
        (winners,) = self.call(zeros, indices, numbers, **params)
        won = _elementwise.eq(_gather_updates(winners, indices, shape, params), numbers)
        kept = _elementwise.select(
            _elementwise.eq(winners, zeros), tx, _structure.full(np.shape(tx), 0, typeof(tx).dtype)
        )
        placed = _elementwise.select(won, tu, _structure.full(shape, 0, typeof(tu).dtype))
        return outs, scatter_add_p.call(kept, indices, placed, **params)

    def transpose(
        self,
        cts: Arrays,
        x: Array | Undefined,
        indices: ArrayLike,
        updates: Array | Undefined,
        **params: object,
    ) -> Any:
        (ct,) = cts
        if not params["unique_indices"]:
            raise NotImplementedError(
                "scatter transpose is only implemented where unique_indices=True\n"
                "  Pass it if no two indices are equal."
            )
        ct_x = ct_updates = None
        if type(x) is Undefined:
            zeros = _structure.full(_shape_of(updates), 0, typeof(ct).dtype)
            (ct_x,) = self.call(ct, indices, zeros, **params)
        if type(updates) is Undefined:
            ct_updates = _gather_updates(ct, indices, updates.aval.shape, params)
        return ct_x, None, ct_updates


@final
class ScatterProduct(Scatter):
    """Elements multiplied by updates."""

    __slots__ = ()

    def jvp(self, primals: Sequence[ArrayLike], tangents: Tangents, **params: object) -> Any:
        (x, indices, updates), (tx, _, tu) = primals, tangents
        outs = self.call(x, indices, updates, **params)
        total: Any = None
        if type(tx) is not Zero:
            (total,) = self.call(tx, indices, updates, **params)
        if type(tu) is not Zero:
            if not params["unique_indices"]:
                raise NotImplementedError(
                    "scatter_mul gradients are only implemented if `unique_indices=True`\n"
                    "  Pass it if no two indices are equal."
                )
            (spread,) = scatter_add_p.call(
                _structure.full(np.shape(x), 0, typeof(tu).dtype), indices, tu, **params
            )
            total = array_ops.add_cotangents(total, _elementwise.mul(x, spread))
        return outs, (total,)

    def transpose(
        self,
        cts: Arrays,
        x: Array | Undefined,
        indices: ArrayLike,
        updates: Array | Undefined,
        **params: object,
    ) -> Any:
        (ct,) = cts
        if type(x) is Undefined and type(updates) is not Undefined:
            return self.call(ct, indices, updates, **params)[0], None, None
        if type(updates) is not Undefined or type(x) is Undefined or not params["unique_indices"]:
            raise NotImplementedError(
                "scatter_mul gradients are only implemented if `unique_indices=True`\n"
                "  Pass it if no two indices are equal."
            )
        return (
            None,
            None,
            _gather_updates(_elementwise.mul(ct, x), indices, updates.aval.shape, params),
        )


@final
class ScatterExtreme(Scatter):
    """The greater or lesser of elements and updates. Equal ones share the tangent equally."""

    __slots__ = ()

    def jvp(self, primals: Sequence[ArrayLike], tangents: Tangents, **params: object) -> Any:
        (x, indices, updates), (tx, _, tu) = primals, tangents
        outs = self.call(x, indices, updates, **params)
        kind, shape = typeof(outs[0]).dtype, np.shape(updates)

        def as_number(p: Array) -> Any:
            return _structure.convert_element_type(p, kind)

        old = as_number(_elementwise.eq(x, outs[0]))
        met = _gather_updates(outs[0], indices, shape, params, fill=None)
        new = as_number(_elementwise.eq(updates, met))
        (count,) = scatter_add_p.call(old, indices, new, **params)
        weighted = [
            _elementwise.mul(array_ops.instantiate(t), w) for t, w in ((tx, old), (tu, new))
        ]
        (total,) = scatter_add_p.call(weighted[0], indices, weighted[1], **params)
        # Where the result is NaN nothing is equal to it.
        none = _elementwise.eq(count, _structure.full(np.shape(count), 0, kind))
        count = _elementwise.select(none, _structure.full(np.shape(count), 1, kind), count)
        return outs, (_elementwise.div(total, count),)


gather_p = Gather()
scatter_p = ScatterReplace("scatter", "")
scatter_add_p = LinearScatter("scatter-add", "add")
scatter_sub_p = LinearScatter("scatter-sub", "subtract")
scatter_mul_p = ScatterProduct("scatter-mul", "multiply")
scatter_min_p = ScatterExtreme("scatter-min", "minimum")
scatter_max_p = ScatterExtreme("scatter-max", "maximum")


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Axes,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: object = None,
) -> Array:
    """Windows of operand at the places that are the rows of start_indices.

    mode: the result for windows outside the operand: "clip" moves them inside, "fill" gives
    fill_value (by default NaN, the least signed or greatest unsigned integer, or True),
    "promise_in_bounds" (the default) says that there are none. Raises TypeError if shapes and
    dimension numbers do not fit, ValueError for indices that are not integers.

    >>> numbers = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,),
    ...     start_index_map=(0,))
    >>> gather(np.float32([1, 2, 3]), np.int32([[2], [0]]), numbers, (1,))
    Array([3., 1.], dtype=float32)
    """
    parsed = (
        GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    )
    if (
        parsed is _FILL
        and fill_value is None
        and not isinstance(typeof(operand).dtype, dtypes.ExtendedDType)
    ):
        fill_value = _indexing.fill_for(typeof(operand).dtype)
    return gather_p.call(
        operand,
        start_indices,
        dimension_numbers=_indexing.as_tuples(dimension_numbers),
        slice_sizes=_structure.canonical_shape(slice_sizes, "gather"),
        mode=parsed,
        fill_value=fill_value if parsed is _FILL else None,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
    )[0]


def _scatter(
    primitive: Scatter,
    operand: ArrayLike,
    scatter_indices: object,
    updates: ArrayLike,
    dimension_numbers: object,
    options: Any,
    update_jaxpr: object = None,
) -> Any:
    """Bind a scatter; options: (indices_are_sorted, unique_indices, mode)."""
    indices_are_sorted, unique_indices, mode = options
    return primitive.call(
        operand,
        scatter_indices,
        updates,
        dimension_numbers=_indexing.as_tuples(dimension_numbers),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=update_jaxpr,
        update_consts=(),
    )[0]


def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """operand with windows replaced by updates. The rows of scatter_indices are the places of the
    windows.

    mode: the treatment of windows outside the operand: left out ("drop" or "fill", the default),
    moved inside ("clip"), or promised not to exist ("promise_in_bounds"). Of several updates of one
    element, any one may win. Raises TypeError if shapes, dtypes or dimension numbers do not fit,
    ValueError for indices that are not integers.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([4, 5]), numbers)
    Array([5., 2., 4.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_p, operand, scatter_indices, updates, dimension_numbers, how)


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, but updates are added to the elements, all of them where several meet.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_add(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([4, 5]), numbers)
    Array([6., 2., 7.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_add_p, operand, scatter_indices, updates, dimension_numbers, how)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, but updates are subtracted from the elements.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_sub(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([4, 5]), numbers)
    Array([-4.,  2., -1.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_sub_p, operand, scatter_indices, updates, dimension_numbers, how)


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, but elements are multiplied by the updates.

    Differentiable in the updates only with unique_indices.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_mul(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([4, 5]), numbers)
    Array([ 5.,  2., 12.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_mul_p, operand, scatter_indices, updates, dimension_numbers, how)


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, but the least of element and updates is kept.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_min(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([4, 5]), numbers)
    Array([1., 2., 3.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_min_p, operand, scatter_indices, updates, dimension_numbers, how)


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, but the greatest of element and updates is kept.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_max(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([4, 5]), numbers)
    Array([5., 2., 4.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_max_p, operand, scatter_indices, updates, dimension_numbers, how)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], object],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Axes = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """operand with a function of one element applied to those in the windows; as often as windows
    meet an element.

    update_shape: the shape that updates would have in `scatter`. Not differentiable.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_apply(np.float32([1, 2]), np.int32([[1]]), _elementwise.square, numbers,
    ...     update_shape=(1,))
    Array([1., 4.], dtype=float32)
    """
    aval = typeof(operand)
    jaxpr = scalar_computation("scatter_apply", lambda old, new: (func(old),), [aval, aval])
    check_computation("scatter_apply", jaxpr, [aval])
    updates = _structure.full(
        _structure.canonical_shape(update_shape, "scatter_apply"), 0, aval.dtype
    )
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(scatter_p, operand, scatter_indices, updates, dimension_numbers, how, jaxpr)
