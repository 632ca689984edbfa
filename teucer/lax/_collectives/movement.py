"""Collectives that move data: each element gets arrays, or parts of arrays, of others."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._core import array_ops, dialects
from teucer._core import axes as named
from teucer._core.cost import of_operand
from teucer._core.trace import typeof
from teucer._devices import partition
from teucer._devices.partition import Labels
from teucer._devices.specs import UnreducedKind
from teucer._lower import hlo
from teucer._transform.batch import batch_flat, mapped_aval
from teucer._trees import pytrees
from teucer.lax import _structure as structure
from teucer.lax._arithmetic import mul
from teucer.lax._collectives import lowering
from teucer.lax._collectives import varying as variation
from teucer.lax._collectives.index_groups import group_size, groups_of, on_groups, taken
from teucer.lax._collectives.reductions import axis_index, checked, varying_over
from teucer.lax._costs import STILL
from teucer.lax._dynamic import dynamic_index_in_dim, dynamic_slice_in_dim
from teucer.lax._selection import select
from teucer.lax._shapes import squeeze

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, AxisName, Groups, Params, Size

    class AllGatherParams(TypedDict):
        all_gather_dimension: int
        axis_index_groups: Groups
        axis_name: Any
        axis_size: int
        tiled: bool

    class ReduceScatterParams(TypedDict):
        axis_index_groups: Groups
        axis_name: Any
        axis_size: int
        scatter_dimension: int
        tiled: bool

    class AllToAllParams(TypedDict):
        axis_index_groups: Groups
        axis_name: AxisName
        concat_axis: int
        split_axis: int
        tiled: bool


__all__ = [
    "all_gather", "all_gather_p", "all_to_all", "all_to_all_p", "ppermute", "ppermute_p",
    "pshuffle", "psum_scatter", "pswapaxes",
]  # fmt: skip


def _merged(x: ArrayLike, at: int, count: int) -> Any:
    """x with `count` axes from `at` on made into one."""
    shape = np.shape(x)
    return structure.reshape(
        x, (*shape[:at], math.prod(shape[at : at + count]), *shape[at + count :])
    )


def _divided(x: Any, at: int, sizes: Sequence[Size]) -> Any:
    """x with one axis divided into axes of the given sizes and a last axis for the rest."""
    shape = np.shape(x)
    return structure.reshape(
        x, (*shape[:at], *sizes, shape[at] // math.prod(sizes), *shape[at + 1 :])
    )


class Exchange(variation.Collective, structure.Linear):
    """A collective in which elements hand on (sums of) parts of their operand.

    Under the batching of a named axis: `shifted` are the parameters for an operand with one more
    axis in front; `one_by_one` does the same by collectives over one axis each; `on_batch` does it
    on a batch, in front, of an operand over one axis.
    """

    __slots__ = ()

    def shifted(self, params: Params) -> dict[str, Any]:
        raise NotImplementedError(self.name)

    def one_by_one(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        raise NotImplementedError(self.name)

    def on_batch(self, x: Any, params: Params) -> tuple[Any, int | None]:
        raise NotImplementedError(self.name)

    def batch(self, axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        names = self.names(params)
        self.types(mapped_aval(typeof(args[0]), dims[0]), **params)
        if axis.name not in names:
            return self.call(structure.moveaxis(args[0], dims[0], 0), **self.shifted(params)), (0,)
        groups = params.get("axis_index_groups")
        if len(names) > 1:
            one = self.one_by_one if groups is None else self._among_all
            return batch_flat(lambda x: (one(x, names, params),), axis, args, dims)
        everyone = array_ops.to_axis(args[0], dims[0], axis.size, 0)
        if groups is not None:
            return (
                on_groups(
                    lambda batch: self.on_batch(batch, self.shifted(params)), everyone, groups
                ),
            ), (0,)
        y, dim = self.on_batch(everyone, self.shifted(params))
        return (y,), (dim,)

    def _among_all(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        """The result for each group, computed by each element from the operands of all elements."""
        everyone = on_groups(
            lambda batch: self.on_batch(batch, self.shifted(params)),
            all_gather(x, names),
            params["axis_index_groups"],
        )
        return dynamic_index_in_dim(everyone, axis_index(names), 0, keepdims=False)


@final
class AllGather(Exchange):
    """The operands of all elements, for each: along a new axis, or if tiled joined along an axis
    that they have."""

    __slots__ = ()
    name = "all_gather"

    def types(
        self,
        x: ShapedArray,
        *,
        all_gather_dimension: int,
        axis_index_groups: Groups,
        axis_name: Any,
        axis_size: int,
        tiled: bool,
    ) -> Any:
        variation.size_of(axis_name)
        shape = list(x.shape)
        if tiled:
            shape[all_gather_dimension] *= axis_size
        else:
            shape.insert(all_gather_dimension, axis_size)
        return (x.update(shape=tuple(shape)),)

    def shard(self, x: ShapedArray, **params: Unpack[AllGatherParams]) -> Labels:
        tiled = params["tiled"]
        at = params["all_gather_dimension"]
        labels = partition.whole(x, (at,)) if tiled else partition.every(x)
        return Labels([labels], [labels if tiled else (*labels[:at], None, *labels[at:])])

    def lower(self, ctx: Any, x: Any, **params: Unpack[AllGatherParams]) -> Any:
        return (
            lowering.all_gathered(
                ctx,
                x,
                params["all_gather_dimension"],
                params["tiled"],
                params["axis_name"],
                params["axis_index_groups"],
            ),
        )

    def transpose(self, cts: Any, x: Any, *, all_gather_dimension: int, **params: object) -> Any:
        return reduce_scatter_p.call(*cts, scatter_dimension=all_gather_dimension, **params)

    def shifted(self, params: Params) -> dict[str, Any]:
        return {**params, "all_gather_dimension": params["all_gather_dimension"] + 1}

    def one_by_one(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        at = params["all_gather_dimension"]
        for name in reversed(names):
            x = all_gather(x, name, axis=at)
        return _merged(x, at, len(names) + params["tiled"])

    def on_batch(self, x: Any, params: Params) -> tuple[Any, int | None]:
        at = params["all_gather_dimension"] - 1
        y = structure.moveaxis(x, 0, at)
        return _merged(y, at, 2) if params["tiled"] else y, None


@final
class AllGatherAlike(Exchange):
    """As `AllGather`, of manual axes over which x varies; the result is known to be the same for
    all, or reduced (`after`)."""

    __slots__ = ()

    def __init__(self, name: str, after: str | None) -> None:
        self.name, self.after = name, after

    def types(self, x: ShapedArray, **params: Any) -> Any:
        params = {"axis_index_groups": None, **params}
        (whole,) = partition.laid_out(all_gather_p, (x,), params, all_gather_p.types(x, **params))
        return (whole.update(sharding=variation.with_sums(whole, params["axis_name"], self.after)),)

    @dialects.varies.rule
    def varies(self, vma: Any, x: ArrayLike, *, axis_name: Any, **params: Any) -> Any:
        return vma - set(axis_name)

    def shard(self, x: Any, **params: Any) -> None:
        return None

    def lower(self, ctx: Any, x: Any, **params: Any) -> Any:
        return all_gather_p.lower(ctx, x, axis_index_groups=None, **params)

    def transpose(
        self,
        cts: Any,
        x: Any,
        *,
        all_gather_dimension: int,
        axis_name: Any,
        axis_size: int,
        tiled: bool,
    ) -> Any:
        (ct,), at = cts, all_gather_dimension
        if self.after == "reduced":
            return unreduced_reduce_scatter_p.call(
                ct, scatter_dimension=at, axis_name=axis_name, axis_size=axis_size, tiled=tiled
            )
        ct = varying_over(ct, axis_name)
        n = x.aval.shape[at] if tiled else 1
        mine = dynamic_slice_in_dim(ct, mul(axis_index(axis_name), np.int32(n)), n, at)
        return (mine if tiled else squeeze(mine, (at,)),)

    def shifted(self, params: Params) -> dict[str, Any]:
        return all_gather_p.shifted(params)


@final
class UnreducedReduceScatter(Exchange):
    """As `ReduceScatter`, of parts of a sum that is still to be taken over the axes."""

    __slots__ = ()
    name = "unreduced_reduce_scatter"

    def types(self, x: Any, **params: Any) -> Any:
        variation.check_kind("unreduced_psum_scatter", x, UnreducedKind.sum)
        params = {"axis_index_groups": None, **params}
        own = x.update(sharding=variation.with_sums(x, params["axis_name"], None))
        return partition.laid_out(
            reduce_scatter_p, (own,), params, reduce_scatter_p.types(own, **params)
        )

    @dialects.varies.rule
    def varies(self, vma: Any, x: ArrayLike, *, axis_name: Any, **params: Any) -> Any:
        return vma | set(axis_name)

    def shard(self, x: Any, **params: Any) -> None:
        return None

    def lower(self, ctx: Any, x: Any, **params: Any) -> Any:
        return reduce_scatter_p.lower(ctx, x, axis_index_groups=None, **params)

    def transpose(self, cts: Any, x: Any, *, scatter_dimension: int, **params: object) -> Any:
        return all_gather_reduced_p.call(*cts, all_gather_dimension=scatter_dimension, **params)

    def shifted(self, params: Params) -> dict[str, Any]:
        return reduce_scatter_p.shifted(params)


@final
class ReduceScatter(Exchange):
    """The sum over all elements. Each element gets its part of the sum along an axis.  (C1) the
    axis divides into that many parts."""

    __slots__ = ()
    name = "reduce_scatter"
    cost = STILL._replace(operations=of_operand)

    def types(
        self,
        x: ShapedArray,
        *,
        axis_index_groups: Groups,
        axis_name: Any,
        axis_size: int,
        scatter_dimension: int,
        tiled: bool,
    ) -> Any:
        variation.size_of(axis_name)
        size = x.shape[scatter_dimension]
        if size % axis_size if tiled else size != axis_size:
            what = "be divisible by" if tiled else "match"
            raise ValueError(
                f"psum_scatter: reduce_scatter operand scatter dimension size {size} must {what} "
                f"shard count {axis_size}.\n    x: {x.str_short(short_dtypes=True)}, axis "
                f"{scatter_dimension} has size {size}"
                + ("" if tiled else "\n  With tiled=True each element gets several of its places.")
            )
        kept = (size // axis_size,) if tiled else ()
        return (
            x.update(
                shape=(*x.shape[:scatter_dimension], *kept, *x.shape[scatter_dimension + 1 :])
            ),
        )

    def shard(self, x: ShapedArray, **params: Unpack[ReduceScatterParams]) -> Labels:
        scatter_dimension = params["scatter_dimension"]
        labels = partition.whole(x, (scatter_dimension,))
        return Labels(
            [labels], [labels if params["tiled"] else partition.kept(x, (scatter_dimension,))]
        )

    def lower(self, ctx: Any, x: Any, **params: Unpack[ReduceScatterParams]) -> Any:
        (out,) = ctx.avals_out
        return (
            hlo.reshape(
                ctx,
                lowering.reduce_scattered(
                    ctx,
                    x,
                    params["scatter_dimension"],
                    params["axis_name"],
                    params["axis_index_groups"],
                ),
                out.shape,
            ),
        )

    def transpose(self, cts: Any, x: Any, *, scatter_dimension: int, **params: object) -> Any:
        return all_gather_p.call(*cts, all_gather_dimension=scatter_dimension, **params)

    def shifted(self, params: Params) -> dict[str, Any]:
        return {**params, "scatter_dimension": params["scatter_dimension"] + 1}

    def one_by_one(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        at = params["scatter_dimension"]
        for name in names:
            x = psum_scatter(x, name, scatter_dimension=at, tiled=True)
        return x if params["tiled"] else squeeze(x, (at,))

    def on_batch(self, x: Any, params: Params) -> tuple[Any, int | None]:
        at, size = params["scatter_dimension"] - 1, np.shape(x)[0]
        parts = _divided(structure.reduce_sum(x, (0,)), at, (size,))
        return structure.moveaxis(parts if params["tiled"] else squeeze(parts, (at + 1,)), at, 0), 0


@final
class AllToAll(Exchange):
    """Each element sends the i-th part of its operand along split_axis to element i, and joins the
    received parts along concat_axis.

    tiled: as the function was called; the primitive keeps the rank either way.
    (C1) split_axis divides into as many parts as there are elements.
    """

    __slots__ = ()
    name = "all_to_all"

    def types(
        self,
        x: ShapedArray,
        *,
        axis_index_groups: Groups,
        axis_name: AxisName,
        concat_axis: int,
        split_axis: int,
        tiled: bool,
    ) -> Any:
        n = group_size(variation.names_of(axis_name), axis_index_groups)
        shape = list(x.shape)
        if shape[split_axis] % n:
            raise ValueError(
                f"The size of all_to_all split_axis ({shape[split_axis]}) has to be divisible by "
                f"the size of the named axis {axis_name} ({n}).\n"
                f"    x: {x.str_short(short_dtypes=True)}, split_axis: {split_axis}"
            )
        shape[split_axis] //= n
        shape[concat_axis] *= n
        return (x.update(shape=tuple(shape)),)

    def shard(self, x: ShapedArray, **params: Unpack[AllToAllParams]) -> Labels:
        labels = partition.whole(x, (params["concat_axis"], params["split_axis"]))
        return Labels([labels], [labels])

    def lower(self, ctx: Any, x: Any, **params: Unpack[AllToAllParams]) -> Any:
        (out,) = ctx.avals_out
        return (
            lowering.all_to_all(
                ctx,
                x,
                params["split_axis"],
                params["concat_axis"],
                out,
                variation.names_of(params["axis_name"]),
                params["axis_index_groups"],
            ),
        )

    def transpose(self, cts: Any, x: Any, **params: Unpack[AllToAllParams]) -> Any:
        return self.call(
            *cts,
            **{**params, "concat_axis": params["split_axis"], "split_axis": params["concat_axis"]},
        )

    def shifted(self, params: Params) -> dict[str, Any]:
        return {
            **params,
            "split_axis": params["split_axis"] + 1,
            "concat_axis": params["concat_axis"] + 1,
        }

    def one_by_one(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        split, concat = params["split_axis"], params["concat_axis"]
        x = _divided(x, split, [named.axis_size(name) for name in names])
        for i, name in enumerate(names):
            x = pswapaxes(x, name, split + i)
        for i in range(len(names)):
            x = (
                structure.moveaxis(x, split + i, concat + i)
                if split > concat
                else structure.moveaxis(x, split, concat + len(names) - 1)
            )
        return _merged(x, concat, len(names) + 1)

    def on_batch(self, x: Any, params: Params) -> tuple[Any, int | None]:
        split, concat = params["split_axis"], params["concat_axis"]
        parts = _divided(x, split, np.shape(x)[:1])
        # On the batch an all_to_all exchanges two axes: the parts of each element become the
        # elements, and the elements become the parts to be joined.
        sent = structure.moveaxis(structure.moveaxis(parts, split, 0), 1, concat)
        return _merged(sent, concat, 2), 0


def check_pairs(op: str, axis_name: Any, perm: Sequence[tuple[int, int]]) -> None:
    """Check that sources and targets are distinct elements of the named axes."""
    size = variation.size_of(axis_name, op)
    for ends in zip(*perm, strict=True):
        if len(set(ends)) != len(ends):
            raise ValueError(f"{op} sources and destinations must be unique, got {perm}.")
        if not all(0 <= i < size for i in ends):
            raise ValueError(
                f"{op}: sources and destinations must be elements of the axis {axis_name}, of "
                f"size {size}, got {perm}."
            )


@final
class PPermute(Exchange):
    """The operand of another element: of `source` for `target`, for the pairs (source, target) of
    perm; zero for the others.

    (C1) sources are distinct, and so are targets.  (C2) all of them are elements.
    """

    __slots__ = ()
    name = "ppermute"

    def types(self, x: ShapedArray, *, axis_name: object, perm: Any) -> Any:
        check_pairs("ppermute", axis_name, perm)
        return (x,)

    shard = partition.aligned

    def lower(self, ctx: Any, x: Any, *, axis_name: Any, perm: Any) -> Any:
        return (lowering.permuted(ctx, x, perm, axis_name),)

    def transpose(self, cts: Any, x: Any, *, axis_name: object, perm: Any) -> Any:
        return self.call(
            *cts, axis_name=axis_name, perm=tuple((target, source) for source, target in perm)
        )

    def shifted(self, params: Params) -> dict[str, Any]:
        return params

    def one_by_one(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        everyone = _permuted(all_gather(x, names), params["perm"])
        return dynamic_index_in_dim(everyone, axis_index(names), 0, keepdims=False)

    def on_batch(self, x: Any, params: Params) -> tuple[Any, int | None]:
        return _permuted(x, params["perm"]), 0


def _permuted(x: Any, perm: Any) -> Any:
    """x with its elements along the first axis moved by the pairs (source, target); zeros where
    none goes."""
    sources = {target: source for source, target in perm}
    moved = taken(x, [sources.get(i, 0) for i in range(np.shape(x)[0])])
    if len(sources) == np.shape(x)[0]:
        return moved
    reached = structure.broadcast_to(
        np.asarray([i in sources for i in range(np.shape(x)[0])]), np.shape(x), (0,)
    )
    return select(reached, moved, structure.zeros(typeof(moved)))


all_gather_p = AllGather()
all_gather_invariant_p = AllGatherAlike("all_gather_invariant", None)
all_gather_reduced_p = AllGatherAlike("all_gather_reduced", "reduced")
unreduced_reduce_scatter_p = UnreducedReduceScatter()
reduce_scatter_p = ReduceScatter()
all_to_all_p = AllToAll()
ppermute_p = PPermute()


# --- Functions ------------------------------------------------------------------------------------


def all_gather(
    x: object,
    axis_name: AxisName,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The arrays of all elements of a named axis, for each: T[shape] -> T with a new axis.

    x: a pytree of arrays. axis: where the new axis goes; if tiled, the axis along which the arrays
    are joined.
    to: under shard_map 'invarying' says in types that the result is the same for all, 'reduced'
    also that its cotangent is still to be summed over the axes.
    Raises ValueError if axis is out of bounds, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: all_gather(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([[1., 3.],
           [1., 3.]], dtype=float32)
    """
    if to not in ("varying", "reduced", "invarying"):
        raise ValueError(
            f"Got unexpected `to` value for `jax.lax.all_gather`, {to!r}. Allowed `to` values "
            "are: 'varying', 'reduced', 'invarying'."
        )
    names = variation.names_of(axis_name)
    groups = groups_of(names, axis_index_groups)
    cast_p = (
        {"invarying": all_gather_invariant_p, "reduced": all_gather_reduced_p}.get(to)
        if named.manual_axes()
        else None
    )
    if cast_p is not None and (groups is not None or not named.manual_axes().issuperset(names)):
        raise NotImplementedError(
            f"all_gather: to={to!r} is of axes of a mesh alone, without axis_index_groups.\n"
            f"    axis_name: {axis_name}, axis_index_groups: {axis_index_groups}\n"
            "  Leave it out, or call it in jax.shard_map over these axes."
        )
    size = group_size(names, groups)

    def one(leaf: object) -> Any:
        ndim = typeof(checked("all_gather", leaf)).ndim
        if cast_p is not None:
            return cast_p.call(
                varying_over(leaf, names),
                axis_name=names,
                axis_size=size,
                tiled=bool(tiled),
                all_gather_dimension=structure.canonical_axis(axis, ndim + (not tiled)),
            )[0]
        return all_gather_p.call(
            varying_over(leaf, names),
            axis_index_groups=groups,
            all_gather_dimension=structure.canonical_axis(axis, ndim + (not tiled)),
            axis_name=names,
            axis_size=size,
            tiled=bool(tiled),
        )[0]

    return pytrees.tree_map(one, x)


def psum_scatter(
    x: object,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """The sum over the elements of a named axis. Each element gets its part of the sum along an
    axis.

    x: a pytree of arrays; their axis scatter_dimension has the size of the named axis and goes
    away, or if tiled a multiple of it and stays.
    Raises ValueError if it has another size, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([4., 6.], dtype=float32)
    """
    names = variation.names_of(axis_name)
    groups = groups_of(names, axis_index_groups)
    size = group_size(names, groups)

    def one(leaf: object) -> Any:
        at = structure.canonical_axis(scatter_dimension, typeof(checked("psum_scatter", leaf)).ndim)
        manual = named.manual_axes().intersection(names)
        if (
            manual
            and variation.one_state("psum_scatter", typeof(leaf), names, manual) == "unreduced"
            and groups is None
        ):
            return unreduced_reduce_scatter_p.call(
                leaf, axis_name=names, axis_size=size, scatter_dimension=at, tiled=bool(tiled)
            )[0]
        return reduce_scatter_p.call(
            varying_over(leaf, names),
            axis_index_groups=groups,
            axis_name=names,
            axis_size=size,
            scatter_dimension=at,
            tiled=bool(tiled),
        )[0]

    return pytrees.tree_map(one, x)


def all_to_all(
    x: object,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Each element of a named axis sends the i-th part of its array to element i.

    x: a pytree of arrays. split_axis has the size of the named axis and goes away; the parts are
    stacked along a new axis at concat_axis. If tiled, it is divided into that many parts, which are
    joined along concat_axis. Raises ValueError if it has another size, NameError for a name that no
    axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    groups = groups_of(axis_name, axis_index_groups)
    size = group_size(variation.names_of(axis_name), groups)

    def one(leaf: Any) -> Any:
        shape = typeof(checked("all_to_all", leaf)).shape
        leaf = varying_over(leaf, variation.names_of(axis_name))
        split, concat = (
            structure.canonical_axis(split_axis, len(shape)),
            structure.canonical_axis(concat_axis, len(shape)),
        )
        params = {"axis_index_groups": groups, "axis_name": axis_name, "tiled": bool(tiled)}
        if tiled:
            return all_to_all_p.call(leaf, concat_axis=concat, split_axis=split, **params)[0]
        if shape[split] != size:
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal "
                f"x.shape[split_axis], but they are {size} and {shape[split]} respectively.\n"
                "  With tiled=True the axis is divided."
            )
        if split == concat:
            return all_to_all_p.call(leaf, concat_axis=concat, split_axis=split, **params)[0]
        # Add the axis `new` of size 1 before the exchange. After it the axis `old` has size 1, and
        # is dropped.
        new, old = (concat + 1, split) if split < concat else (concat, split + 1)
        return squeeze(
            all_to_all_p.call(
                structure.expand(leaf, 1, new), concat_axis=new, split_axis=old, **params
            )[0],
            (old,),
        )

    return pytrees.tree_map(one, x)


def pswapaxes(
    x: object, axis_name: AxisName, axis: int, *, axis_index_groups: Groups = None
) -> Any:
    """A named axis and an axis of the arrays, of one size, change places: x[j] of element i is x[i]
    of element j.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: object, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Elements of a named axis send their arrays to others.

    x: a pytree of arrays. perm: pairs (source, target) of elements' numbers; elements that nothing
    is sent to get zeros. Raises ValueError if a source or a target stands there twice, NameError
    for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]),
    ...     axis_name="i")(jnp.array([1., 2., 3.]))
    Array([0., 1., 2.], dtype=float32)
    """
    names = variation.names_of(axis_name)
    pairs = tuple((operator.index(source), operator.index(target)) for source, target in perm)
    return pytrees.tree_map(
        lambda leaf: ppermute_p.call(
            varying_over(checked("ppermute", leaf), names), axis_name=names, perm=pairs
        )[0],
        x,
    )


def pshuffle(x: object, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """The elements of a named axis in another order: element i gets the arrays of element perm[i].

    Raises ValueError if perm is not a permutation of the axis.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pshuffle(x, "i", [1, 0]), axis_name="i")(jnp.array([1., 3.]))
    Array([3., 1.], dtype=float32)
    """
    if set(perm) != set(range(len(perm))) or len(perm) != variation.size_of(
        variation.names_of(axis_name)
    ):
        raise ValueError(
            f"`perm` does not represent a permutation: {perm}\n"
            f"  pshuffle: of axis {axis_name!r}, whose size is "
            f"{variation.size_of(variation.names_of(axis_name))}."
        )
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))
