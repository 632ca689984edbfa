"""Collectives that reduce the arrays of all elements, and the numbers of elements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core import axes as named
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._core.typing import Array
from teucer._devices import partition
from teucer._transform.batch import batch_flat
from teucer._trees import pytrees
from teucer.lax import _structure as structure
from teucer.lax._arithmetic import add, div, eq, mul
from teucer.lax._collectives import lowering, varying
from teucer.lax._collectives.extremes import extreme_of_devices
from teucer.lax._collectives.index_groups import groups_of, number_within, on_groups
from teucer.lax._dynamic import dynamic_index_in_dim
from teucer.lax._identities import identity_of
from teucer.lax._reductions import reduce_max, reduce_min
from teucer.lax._selection import select
from teucer.lax._shapes import iota

if TYPE_CHECKING:
    from teucer._core.typing import AxisName, Dims, Groups, Params, Size, Value
    from teucer._lower.context import Context

__all__ = [
    "axis_index", "axis_index_p", "axis_size", "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "psum",
    "psum_p",
]  # fmt: skip


def varying_over(x: Any, names: Sequence[Any]) -> Any:
    """x, cast to vary over the manual axes among the named ones, if types show them."""
    return array_ops.vary(x, named.manual_axes().intersection(names))


def checked(op: str, x: Any) -> Any:
    if not is_valid_type(x):
        raise TypeError(f"{op}: Argument {x!r:.100} of type {type(x)} is not a valid JAX type.")
    return x


# --- Primitives -----------------------------------------------------------------------------------


class AllReduce(varying.Collective):
    """x reduced over named axes: an element gets the result over all elements, or over its group in
    axis_index_groups.

    reduce(x, axes) reduces axes of an array; repeated(x, size) is the result for equal elements; op
    combines two in StableHLO.
    """

    __slots__ = ()

    def __init__(
        self, name: str, reduce: Callable[..., object], repeated: Callable[..., object], op: str
    ) -> None:
        self.name, self.reduce, self.repeated, self.op = name, reduce, repeated, op

    def names(self, params: Params) -> tuple[Any, ...]:
        return params["axes"]

    def types(self, x: ShapedArray, *, axes: Sequence[Hashable], axis_index_groups: Groups) -> Any:
        varying.size_of(axes, self.name)
        return (x,)

    shard = partition.aligned

    @dialects.varies.rule
    def varies(
        self,
        vma: frozenset[str],
        x: ShapedArray,
        *,
        axes: Sequence[Hashable],
        axis_index_groups: Groups,
    ) -> Any:
        return vma if axis_index_groups is not None else vma - set(axes)

    def lower(self, ctx: Any, x: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        unequal = len({len(group) for group in axis_index_groups or ()}) > 1
        if self.op != "add" and x.aval.dtype.kind == "c" and unequal:
            return ctx.trace(lambda x: (self._by_masks(x, axes, axis_index_groups),), x)
        reduced = lowering.all_reduced if self.op == "add" else extreme_of_devices
        return (reduced(ctx, x, self.op, axes, axis_index_groups),)

    def batch(self, axis: Any, args: Any, dims: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        (x,), (dim,) = args, dims
        varying.size_of(axes)
        rest = tuple(name for name in axes if name != axis.name)
        if len(rest) == len(axes):
            return self.call(x, axes=axes, axis_index_groups=axis_index_groups), dims
        if axis_index_groups is not None and rest:
            return batch_flat(
                lambda x: (self._by_masks(x, axes, axis_index_groups),), axis, args, dims
            )
        if axis_index_groups is not None:
            everyone = array_ops.to_axis(x, dim, axis.size, 0)
            return (
                on_groups(
                    lambda batch: (self.reduce(batch, (0,)), None), everyone, axis_index_groups
                ),
            ), (0,)
        y = self.repeated(x, axis.size) if dim is None else self.reduce(x, (dim,))
        return (self.call(y, axes=rest, axis_index_groups=None) if rest else (y,)), (None,)

    def _by_masks(self, x: Any, axes: Any, groups: Any) -> Any:
        """As the collective of groups, by one of all elements: each group has a row, in which only
        its elements are."""
        aval, number = typeof(x), _number_within(axes, groups, lambda group, number: number)
        shape = (len(groups), *aval.shape)
        own = structure.broadcast_to(
            eq(iota(np.int32, len(groups)), structure.broadcast_to(number, (len(groups),), ())),
            shape,
            (0,),
        )
        nothing = structure.full(shape, identity_of(self.op, aval.dtype), aval.dtype)
        rows = select(own, structure.broadcast_to(x, shape, tuple(range(1, len(shape)))), nothing)
        return dynamic_index_in_dim(
            _between_devices(self, rows, tuple(axes), None), number, 0, keepdims=False
        )


@final
class PSum(AllReduce):
    """The sum over named axes."""

    __slots__ = ()

    def jvp(self, primals: Sequence[Value], tangents: Any, **params: object) -> Any:
        return self.call(*primals, **params), self.call(*tangents, **params)

    def transpose(self, cts: Any, x: Any, **params: object) -> Any:
        return self.call(*cts, **params)


def _times(x: Array, size: Size) -> Any:
    aval = typeof(x)
    return mul(x, structure.full((), size, aval.dtype, aval.weak_type))


psum_p = PSum("psum", structure.reduce_sum, _times, "add")
pmax_p = AllReduce("pmax", reduce_max, lambda x, size: x, "maximum")
pmin_p = AllReduce("pmin", reduce_min, lambda x, size: x, "minimum")


@final
class AxisIndex(varying.Collective):
    """The element's number along a named axis."""

    __slots__ = ()
    name = "axis_index"

    def types(self, *, axis_name: AxisName) -> Any:
        named.axis_size(axis_name)
        return (ShapedArray((), np.dtype(np.int32)),)

    @dialects.varies.rule
    def varies(self, vma: frozenset[str], *, axis_name: AxisName) -> Any:
        return named.manual_axes() & {axis_name}

    def lower(self, ctx: Context, *, axis_name: AxisName) -> Any:
        return (lowering.device_index(ctx, axis_name, ctx.avals_out[0]),)

    def batch(self, axis: Any, args: Sequence[Array], dims: Dims, *, axis_name: Any) -> Any:
        named.axis_size(axis_name)
        if axis.name != axis_name:
            return self.call(axis_name=axis_name), (None,)
        return (iota(np.int32, axis.size),), (0,)


axis_index_p = AxisIndex()


# --- Functions ------------------------------------------------------------------------------------


def _all_reduce(
    primitive: AllReduce, x: object, axis_name: AxisName, axis_index_groups: Groups
) -> Any:
    names = varying.names_of(axis_name)
    positions = [name for name in names if isinstance(name, int)]
    names = tuple(name for name in names if not isinstance(name, int))
    if axis_index_groups is not None and positions:
        raise ValueError(
            f"axis_index_groups only supported for sums over just named axes, got {axis_name}."
        )
    if len(set(names)) != len(names):
        raise ValueError(f"duplicate value in 'axes' of reduction: {names}")
    groups = groups_of(names, axis_index_groups)

    def one(leaf: object) -> Any:
        aval = typeof(checked(str(primitive.name), leaf))
        axes = tuple(structure.canonical_axis(p, aval.ndim) for p in positions)
        structure.check_axes(aval, axes)
        if primitive is psum_p and aval.dtype == np.bool_:
            leaf = structure.convert_element_type(leaf, dtypes.canonicalize_dtype(np.int32))
        elif (
            primitive is psum_p
            and not axes
            and isinstance(leaf, int | float | complex | np.ndarray | np.generic)
        ):
            # The sum of equal elements is known, as a Python number if x is one: a size, say.
            return leaf * _count(names, groups)
        y = primitive.reduce(leaf, axes) if axes else leaf
        return _between_devices(primitive, y, names, groups) if names else y

    return pytrees.tree_map(one, x)


def _number_within(
    axes: Sequence[Any], groups: Sequence[Sequence[int]], of: Callable[[Sequence[int], int], int]
) -> Any:
    """int32[]: `of(...)` for the group of this element (`number_within`)."""
    return dynamic_index_in_dim(
        number_within(groups, of), axis_index(tuple(axes)), 0, keepdims=False
    )


def _count(names: Sequence[Any], groups: Any) -> Any:
    """How many elements take part with this one: a Python number where that is the same for all,
    else int32[]."""
    if groups is None or len({len(group) for group in groups}) == 1:
        return varying.size_of(names) if groups is None else len(groups[0])
    return _number_within(names, groups, lambda group, number: len(group))


def _between_devices(
    primitive: AllReduce, x: Any, names: tuple[object, ...], groups: object
) -> Any:
    """x reduced over named axes. Some may be manual: the type of x says whether x varies over
    them."""
    manual = named.manual_axes().intersection(names)
    if manual and (primitive is psum_p or typeof(x).unreduced & manual):
        state = varying.one_state(str(primitive.name), typeof(x), names, manual)
        if state == "unreduced" and groups is None and manual == set(names):
            return _UNREDUCED[primitive].call(x, axes=names)[0]
    x = varying_over(x, names)
    if primitive is not psum_p or groups is not None or not manual:
        return primitive.call(x, axes=names, axis_index_groups=groups)[0]
    rest = tuple(name for name in names if name not in manual)
    x = primitive.call(x, axes=rest, axis_index_groups=None)[0] if rest else x
    return varying.psum_invariant_p.call(x, axes=tuple(name for name in names if name in manual))[0]


_UNREDUCED = {
    psum_p: varying.unreduced_psum_p,
    pmax_p: varying.unreduced_pmax_p,
    pmin_p: varying.unreduced_pmin_p,
}


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Groups = None) -> Any:
    """The sum over the elements of a named axis.

    x: a pytree of arrays; booleans are summed as int32, and a Python number gives that number times
    the size of the axis.
    axis_name: a name, or several in a tuple; a number is an axis of the array itself.
    axis_index_groups: lists of the elements' numbers, each number in one of them; each group has
    its own sum. Raises NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x / psum(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """
    return _all_reduce(psum_p, x, axis_name, axis_index_groups)


def pmean(x: object, axis_name: AxisName, *, axis_index_groups: Groups = None) -> Any:
    """The mean over the elements of a named axis. Arguments as `psum`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([-1.,  1.], dtype=float32)
    """
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)

    def mean(total: object) -> Any:
        if isinstance(total, int | float | complex | np.ndarray | np.generic):
            return total / count
        aval = typeof(total)
        kind = dtypes.to_inexact_dtype(aval.dtype)
        y = structure.convert_element_type(total, kind, aval.weak_type)
        if isinstance(count, int):
            return div(y, structure.full((), count, kind, aval.weak_type))
        return div(
            y, structure.broadcast_to(structure.convert_element_type(count, kind), aval.shape, ())
        )

    return pytrees.tree_map(mean, psum(x, axis_name, axis_index_groups=axis_index_groups))


def pmax(x: object, axis_name: AxisName, *, axis_index_groups: Groups = None) -> Any:
    """The greatest over the elements of a named axis. Arguments as `psum`; inside the mapped
    function it has no derivative.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pmax(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([3., 3.], dtype=float32)
    """
    return _all_reduce(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: object, axis_name: AxisName, *, axis_index_groups: Groups = None) -> Any:
    """The least over the elements of a named axis. Arguments as `psum`; inside the mapped function
    it has no derivative.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pmin(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([1., 1.], dtype=float32)
    """
    return _all_reduce(pmin_p, x, axis_name, axis_index_groups)


def axis_index(axis_name: AxisName) -> Array | np.int32:
    """The element's number along a named axis: int32[]. Of several, the last runs fastest.

    Raises NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x + axis_index("i"), axis_name="i")(jnp.zeros(3))
    Array([0., 1., 2.], dtype=float32)
    """
    if not isinstance(axis_name, tuple | list):
        known = named.known_place(axis_name)
        place: Any = (
            np.int32(known) if known is not None else axis_index_p.call(axis_name=axis_name)[0]
        )
        return place
    index: Any = 0
    stride = 1
    for name in reversed(axis_name):
        index = add(index, mul(axis_index(name), np.int32(stride)))
        stride *= named.axis_size(name)
    return index


def axis_size(axis_name: AxisName) -> int:
    """The size of a named axis as a Python int; of several, the product.

    Raises NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x / axis_size("i"), axis_name="i")(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return varying.size_of(varying.names_of(axis_name))
