"""Collectives: what the elements of named axes (`vmap(axis_name=...)`) say to one another.

Under the batching of its own axis a collective is an ordinary operation on the batch. One over several axes is done one axis
after another; the elements are numbered with the last of the axes running fastest.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, final

import numpy as np

from teucer._base import dtypes, pytrees
from teucer._core import axes as named
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._transform import arith
from teucer._transform.batch import batch_flat, mapped_aval
from teucer.lax._arithmetic import add, div, eq, mul
from teucer.lax._dynamic import dynamic_index_in_dim, index_take
from teucer.lax._reductions import reduce_max, reduce_min
from teucer.lax._selection import select
from teucer.lax._shapes import iota, squeeze
from teucer.lax._slicing import index_in_dim
from teucer.lax._structure import (
    Linear,
    broadcast_to,
    canonical_axis,
    check_axes,
    convert_element_type,
    expand,
    full,
    moveaxis,
    reduce_sum,
    reshape,
    zeros,
)

__all__ = ["all_gather", "all_gather_p", "all_to_all", "all_to_all_p", "axis_index", "axis_index_p", "axis_size", "pbroadcast",
           "pbroadcast_p", "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "ppermute", "ppermute_p", "pshuffle", "psum", "psum_p",
           "psum_scatter", "pswapaxes", "reduce_scatter_p"]


def _names(axis_name: Any) -> tuple[Any, ...]:
    """One or several names of axes as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _size(names: Sequence[Any]) -> Any:
    """The number of elements of named axes.

    Raises NameError for a name that no axis in force has.
    """
    return math.prod(named.axis_size(name) for name in names)


def _merged(x: Any, at: int, count: int) -> Any:
    """x with `count` axes from `at` on made into one."""
    shape = np.shape(x)
    return reshape(x, (*shape[:at], math.prod(shape[at:at + count]), *shape[at + count:]))


def _divided(x: Any, at: int, sizes: Sequence[Any]) -> Any:
    """x with one axis divided: into axes of the given sizes, and what remains of it."""
    shape = np.shape(x)
    return reshape(x, (*shape[:at], *sizes, shape[at] // math.prod(sizes), *shape[at + 1:]))


def _taken(x: Any, places: Sequence[int]) -> Any:
    """The elements of x at static places of its first axis."""
    return index_take(x, (np.asarray(places, np.int32),), (0,))


# --- Primitives ------------------------------------------------------------------------------------------------------


class Collective(Primitive):
    """An operation between the elements of named axes."""

    __slots__ = ()

    def names(self, params: Any) -> tuple[Any, ...]:
        """The axes that a call speaks of."""
        return _names(params["axis_name"])

    def uses_axis(self, name: Any, params: Any) -> bool:
        return name is not None and name in self.names(params)

    def evaluate(self, *args: Any, **params: Any) -> NoReturn:
        self.types(*map(typeof, args), **params)
        raise NotImplementedError(f"{self.name}: a collective over the named axes {self.names(params)} was called on values that "
                                  "are computed at once, outside the function that is mapped over these axes.\n  Call it "
                                  "in the mapped function itself.")


def _refuse_groups(primitive: Primitive, axis_index_groups: Any) -> None:
    if axis_index_groups is not None:
        raise NotImplementedError(f"{primitive.name}: axis_index_groups not supported in vmap collectives.\n"
                                  f"    axis_index_groups: {axis_index_groups}\n  Reshape the mapped axis and map twice, with a "
                                  "name for each of the two axes.")


class AllReduce(Collective):
    """x reduced over named axes: an element gets the result of all, or of those of its group in axis_index_groups.

    reduce(x, axes) reduces axes of an array; repeated(x, size) is the result for equal elements.
    """

    __slots__ = ()

    def __init__(self, name: str, reduce: Callable[..., Any], repeated: Callable[..., Any]) -> None:
        self.name, self.reduce, self.repeated = name, reduce, repeated

    def names(self, params: Any) -> tuple[Any, ...]:
        return params["axes"]  # type: ignore[no-any-return]

    def types(self, x: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        _size(axes)
        return (x,)

    def batch(self, axis: Any, args: Any, dims: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        (x,), (dim,) = args, dims
        _size(axes)
        rest = tuple(name for name in axes if name != axis.name)
        if len(rest) == len(axes):
            return self.bind(x, axes=axes, axis_index_groups=axis_index_groups), dims
        _refuse_groups(self, axis_index_groups)
        y = self.repeated(x, axis.size) if dim is None else self.reduce(x, (dim,))
        return (self.bind(y, axes=rest, axis_index_groups=None) if rest else (y,)), (None,)


@final
class PSum(AllReduce):
    """The sum over named axes."""

    __slots__ = ()

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def transpose(self, cts: Any, x: Any, **params: Any) -> Any:
        return self.bind(*cts, **params)


def _times(x: Any, size: Any) -> Any:
    aval = typeof(x)
    return mul(x, full((), size, aval.dtype, aval.weak_type))


psum_p = PSum("psum", reduce_sum, _times)
pmax_p = AllReduce("pmax", reduce_max, lambda x, size: x)
pmin_p = AllReduce("pmin", reduce_min, lambda x, size: x)


@final
class AxisIndex(Collective):
    """The element's number along a named axis."""

    __slots__ = ()
    name = "axis_index"

    def types(self, *, axis_name: Any) -> Any:
        named.axis_size(axis_name)
        return (ShapedArray((), np.dtype(np.int32)),)

    def batch(self, axis: Any, args: Any, dims: Any, *, axis_name: Any) -> Any:
        named.axis_size(axis_name)
        return (iota(np.int32, axis.size),), (0,)


class Exchange(Collective, Linear):
    """A collective in which elements hand on (sums of) parts of their operand.

    Under the batching of a named axis: `shifted` are the parameters for an operand with one more axis in front; `one_by_one`
    does the same by collectives over one axis each; `on_batch` does it on a batch, in front, of an operand over one axis.
    """

    __slots__ = ()

    def shifted(self, params: Any) -> dict[str, Any]:
        raise NotImplementedError(self.name)

    def one_by_one(self, x: Any, names: tuple[Any, ...], params: Any) -> Any:
        raise NotImplementedError(self.name)

    def on_batch(self, x: Any, params: Any) -> tuple[Any, int | None]:
        raise NotImplementedError(self.name)

    def batch(self, axis: Any, args: Any, dims: Any, **params: Any) -> Any:
        names = self.names(params)
        self.types(mapped_aval(typeof(args[0]), dims[0]), **params)
        if axis.name not in names:
            return self.bind(moveaxis(args[0], dims[0], 0), **self.shifted(params)), (0,)
        _refuse_groups(self, params.get("axis_index_groups"))
        if len(names) > 1:
            return batch_flat(lambda x: (self.one_by_one(x, names, params),), axis, args, dims)
        y, dim = self.on_batch(arith.to_axis(args[0], dims[0], axis.size, 0), self.shifted(params))
        return (y,), (dim,)


@final
class AllGather(Exchange):
    """The operands of all elements, for each: along a new axis, or if tiled joined along an axis that they have."""

    __slots__ = ()
    name = "all_gather"

    def types(self, x: Any, *, all_gather_dimension: int, axis_index_groups: Any, axis_name: Any, axis_size: int,
              tiled: bool) -> Any:
        _size(axis_name)
        shape = list(x.shape)
        if tiled:
            shape[all_gather_dimension] *= axis_size
        else:
            shape.insert(all_gather_dimension, axis_size)
        return (x.update(shape=tuple(shape)),)

    def transpose(self, cts: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> Any:
        return reduce_scatter_p.bind(*cts, scatter_dimension=all_gather_dimension, **params)

    def shifted(self, params: Any) -> dict[str, Any]:
        return {**params, "all_gather_dimension": params["all_gather_dimension"] + 1}

    def one_by_one(self, x: Any, names: tuple[Any, ...], params: Any) -> Any:
        at = params["all_gather_dimension"]
        for name in reversed(names):
            x = all_gather(x, name, axis=at)
        return _merged(x, at, len(names) + params["tiled"])

    def on_batch(self, x: Any, params: Any) -> tuple[Any, int | None]:
        at = params["all_gather_dimension"] - 1
        y = moveaxis(x, 0, at)
        return _merged(y, at, 2) if params["tiled"] else y, None


@final
class ReduceScatter(Exchange):
    """The sum over all elements, of which each gets its part along an axis.  (C1) the axis divides into that many parts."""

    __slots__ = ()
    name = "reduce_scatter"

    def types(self, x: Any, *, axis_index_groups: Any, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool) -> Any:
        _size(axis_name)
        size = x.shape[scatter_dimension]
        if size % axis_size if tiled else size != axis_size:
            what = "be divisible by" if tiled else "match"
            raise ValueError(f"psum_scatter: reduce_scatter operand scatter dimension size {size} must {what} shard count "
                             f"{axis_size} (C1).\n    x: {x.str_short(short_dtypes=True)}, axis {scatter_dimension} has size {size}"
                             + ("" if tiled else "\n  With tiled=True each element gets several of its places."))
        kept = (size // axis_size,) if tiled else ()
        return (x.update(shape=(*x.shape[:scatter_dimension], *kept, *x.shape[scatter_dimension + 1:])),)

    def transpose(self, cts: Any, x: Any, *, scatter_dimension: int, **params: Any) -> Any:
        return all_gather_p.bind(*cts, all_gather_dimension=scatter_dimension, **params)

    def shifted(self, params: Any) -> dict[str, Any]:
        return {**params, "scatter_dimension": params["scatter_dimension"] + 1}

    def one_by_one(self, x: Any, names: tuple[Any, ...], params: Any) -> Any:
        at = params["scatter_dimension"]
        for name in names:
            x = psum_scatter(x, name, scatter_dimension=at, tiled=True)
        return x if params["tiled"] else squeeze(x, (at,))

    def on_batch(self, x: Any, params: Any) -> tuple[Any, int | None]:
        at, size = params["scatter_dimension"] - 1, np.shape(x)[0]
        parts = _divided(reduce_sum(x, (0,)), at, (size,))
        return moveaxis(parts if params["tiled"] else squeeze(parts, (at + 1,)), at, 0), 0


@final
class AllToAll(Exchange):
    """Each element sends the i-th part of its operand along split_axis to element i, and joins what it gets along concat_axis.

    tiled: as the function was called; the primitive keeps the rank either way.
    (C1) split_axis divides into as many parts as there are elements.
    """

    __slots__ = ()
    name = "all_to_all"

    def types(self, x: Any, *, axis_index_groups: Any, axis_name: Any, concat_axis: int, split_axis: int, tiled: bool) -> Any:
        n = _group_size(_names(axis_name), axis_index_groups)
        shape = list(x.shape)
        if shape[split_axis] % n:
            raise ValueError(f"The size of all_to_all split_axis ({shape[split_axis]}) has to be divisible by the size of the "
                             f"named axis {axis_name} ({n}) (C1).\n    x: {x.str_short(short_dtypes=True)}, split_axis: "
                             f"{split_axis}")
        shape[split_axis] //= n
        shape[concat_axis] *= n
        return (x.update(shape=tuple(shape)),)

    def transpose(self, cts: Any, x: Any, *, concat_axis: int, split_axis: int, **params: Any) -> Any:
        return self.bind(*cts, concat_axis=split_axis, split_axis=concat_axis, **params)

    def shifted(self, params: Any) -> dict[str, Any]:
        return {**params, "split_axis": params["split_axis"] + 1, "concat_axis": params["concat_axis"] + 1}

    def one_by_one(self, x: Any, names: tuple[Any, ...], params: Any) -> Any:
        split, concat = params["split_axis"], params["concat_axis"]
        x = _divided(x, split, [named.axis_size(name) for name in names])
        for i, name in enumerate(names):
            x = pswapaxes(x, name, split + i)
        for i in range(len(names)):
            x = moveaxis(x, split + i, concat + i) if split > concat else moveaxis(x, split, concat + len(names) - 1)
        return _merged(x, concat, len(names) + 1)

    def on_batch(self, x: Any, params: Any) -> tuple[Any, int | None]:
        split, concat = params["split_axis"], params["concat_axis"]
        parts = _divided(x, split, np.shape(x)[:1])
        # The number of the part becomes that of the element, and the element's becomes the place among what is joined.
        sent = moveaxis(moveaxis(parts, split, 0), 1, concat)
        return _merged(sent, concat, 2), 0


@final
class PPermute(Exchange):
    """The operand of another element: of `source` for `target`, for the pairs (source, target) of perm; zero for the others.

    (C1) sources are distinct, and so are targets.  (C2) all of them are elements.
    """

    __slots__ = ()
    name = "ppermute"

    def types(self, x: Any, *, axis_name: Any, perm: Any) -> Any:
        size = _size(axis_name)
        for ends in zip(*perm, strict=True):
            if len(set(ends)) != len(ends):
                raise ValueError(f"ppermute sources and destinations must be unique, got {perm} (C1).")
            if not all(0 <= i < size for i in ends):
                raise ValueError(f"ppermute: sources and destinations must be elements of the axis {axis_name}, of size {size}, "
                                 f"got {perm} (C2).")
        return (x,)

    def transpose(self, cts: Any, x: Any, *, axis_name: Any, perm: Any) -> Any:
        return self.bind(*cts, axis_name=axis_name, perm=tuple((target, source) for source, target in perm))

    def shifted(self, params: Any) -> dict[str, Any]:
        return params  # type: ignore[no-any-return]

    def one_by_one(self, x: Any, names: tuple[Any, ...], params: Any) -> Any:
        everyone = _permuted(all_gather(x, names), params["perm"])
        return dynamic_index_in_dim(everyone, axis_index(names), 0, keepdims=False)

    def on_batch(self, x: Any, params: Any) -> tuple[Any, int | None]:
        return _permuted(x, params["perm"]), 0


def _permuted(x: Any, perm: Any) -> Any:
    """x with its elements along the first axis moved by the pairs (source, target); zeros where none goes."""
    sources = {target: source for source, target in perm}
    taken = _taken(x, [sources.get(i, 0) for i in range(np.shape(x)[0])])
    if len(sources) == np.shape(x)[0]:
        return taken
    reached = broadcast_to(np.asarray([i in sources for i in range(np.shape(x)[0])]), np.shape(x), (0,))
    return select(reached, taken, zeros(typeof(taken)))


@final
class PBroadcast(Exchange):
    """The operand of element `source`, for all.  (C1) it is an element."""

    __slots__ = ()
    name = "pbroadcast"

    def types(self, x: Any, *, axis_name: Any, source: int) -> Any:
        size = _size(_names(axis_name))
        if not 0 <= source < size:
            raise ValueError(f"pbroadcast: source must be an element of the axis {axis_name}, of size {size}, got {source} (C1).")
        return (x,)

    def transpose(self, cts: Any, x: Any, *, axis_name: Any, source: int) -> Any:
        total = psum(cts[0], axis_name)
        here = broadcast_to(eq(axis_index(axis_name), np.int32(source)), np.shape(total), ())
        return (select(here, total, zeros(typeof(total))),)

    def shifted(self, params: Any) -> dict[str, Any]:
        return params  # type: ignore[no-any-return]

    def one_by_one(self, x: Any, names: tuple[Any, ...], params: Any) -> Any:
        return index_in_dim(all_gather(x, names), params["source"], 0, keepdims=False)

    def on_batch(self, x: Any, params: Any) -> tuple[Any, int | None]:
        return index_in_dim(x, params["source"], 0, keepdims=False), None


axis_index_p = AxisIndex()
all_gather_p = AllGather()
reduce_scatter_p = ReduceScatter()
all_to_all_p = AllToAll()
ppermute_p = PPermute()
pbroadcast_p = PBroadcast()


# --- Functions -------------------------------------------------------------------------------------------------------


def _groups(axis_name: Any, axis_index_groups: Any) -> Any:
    """The groups of the elements of axes, as a tuple of tuples.

    Raises ValueError unless each element is in one of them.
    """
    if axis_index_groups is None:
        return None
    groups = tuple(tuple(operator.index(i) for i in group) for group in axis_index_groups)
    if sorted(i for group in groups for i in group) != list(range(_size(_names(axis_name)))):
        raise ValueError(f"axis_index_groups must cover all indices exactly once, got {groups} for the axis {axis_name} of size "
                         f"{_size(_names(axis_name))}.")
    return groups


def _group_size(names: Sequence[Any], groups: Any) -> Any:
    """The number of elements that take part in a collective with each other.

    Raises ValueError if groups differ in size.
    """
    if groups is None:
        return _size(names)
    if len({len(group) for group in groups}) != 1:
        raise ValueError(f"axis_index_groups must all be the same size, got {groups}.")
    return len(groups[0])


def _checked(op: str, x: Any) -> Any:
    if not is_valid_type(x):
        raise TypeError(f"{op}: Argument {x!r:.100} of type {type(x)} is not a valid JAX type.")
    return x


def _all_reduce(primitive: AllReduce, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    names = _names(axis_name)
    positions = [name for name in names if isinstance(name, int)]
    names = tuple(name for name in names if not isinstance(name, int))
    if axis_index_groups is not None and positions:
        raise ValueError(f"axis_index_groups only supported for sums over just named axes, got {axis_name}.")
    if len(set(names)) != len(names):
        raise ValueError(f"duplicate value in 'axes' of reduction: {names}")
    groups = _groups(names, axis_index_groups)

    def one(leaf: Any) -> Any:
        aval = typeof(_checked(str(primitive.name), leaf))
        axes = tuple(canonical_axis(p, aval.ndim) for p in positions)
        check_axes(aval, axes)
        if primitive is psum_p and aval.dtype == np.bool_:
            leaf = convert_element_type(leaf, dtypes.canonicalize_dtype(np.int32))
        elif primitive is psum_p and not axes and isinstance(leaf, int | float | complex | np.ndarray | np.generic):
            # The sum of equal elements is known, as a Python number if x is one: a size, say.
            return leaf * _group_size(names, groups)
        y = primitive.reduce(leaf, axes) if axes else leaf
        return primitive.bind(y, axes=names, axis_index_groups=groups)[0] if names else y

    return pytrees.tree_map(one, x)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over the elements of a named axis.

    x: a pytree of arrays; booleans are summed as int32, and a Python number gives that number times the size of the axis.
    axis_name: a name, or several in a tuple; a number is an axis of the array itself.
    axis_index_groups: lists of the elements' numbers; each group has its own sum.
    Raises NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x / psum(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """
    return _all_reduce(psum_p, x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over the elements of a named axis. Arguments as `psum`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([-1.,  1.], dtype=float32)
    """
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)

    def mean(total: Any) -> Any:
        if isinstance(total, int | float | complex | np.ndarray | np.generic):
            return total / count
        aval = typeof(total)
        kind = dtypes.to_inexact_dtype(aval.dtype)
        y = convert_element_type(total, kind, aval.weak_type)
        return div(y, full((), count, kind, aval.weak_type))

    return pytrees.tree_map(mean, psum(x, axis_name, axis_index_groups=axis_index_groups))


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The greatest over the elements of a named axis. Arguments as `psum`; inside the mapped function it has no derivative.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pmax(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([3., 3.], dtype=float32)
    """
    return _all_reduce(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The least over the elements of a named axis. Arguments as `psum`; inside the mapped function it has no derivative.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pmin(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([1., 1.], dtype=float32)
    """
    return _all_reduce(pmin_p, x, axis_name, axis_index_groups)


def axis_index(axis_name: Any) -> Any:
    """The element's number along a named axis: int32[]. Of several, the last runs fastest.

    Raises NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x + axis_index("i"), axis_name="i")(jnp.zeros(3))
    Array([0., 1., 2.], dtype=float32)
    """
    if not isinstance(axis_name, tuple | list):
        return axis_index_p.bind(axis_name=axis_name)[0]
    index: Any = 0
    stride = 1
    for name in reversed(axis_name):
        index = add(index, mul(axis_index(name), np.int32(stride)))
        stride *= named.axis_size(name)
    return index


def axis_size(axis_name: Any) -> Any:
    """The size of a named axis as a Python int; of several, the product.

    Raises NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: x / axis_size("i"), axis_name="i")(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return _size(_names(axis_name))


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False,
               to: str = "varying") -> Any:
    """The arrays of all elements of a named axis, for each: T[shape] -> T with a new axis.

    x: a pytree of arrays. axis: where the new axis goes; if tiled, the axis along which the arrays are joined.
    Raises ValueError if axis is out of bounds, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: all_gather(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([[1., 3.],
           [1., 3.]], dtype=float32)
    """
    if to not in ("varying", "reduced", "invarying"):
        raise ValueError(f"Got unexpected `to` value for `jax.lax.all_gather`, {to!r}. Allowed `to` values are: 'varying', "
                         "'reduced', 'invarying'.")
    if to != "varying":
        raise NotImplementedError(f"all_gather: to={to!r} is a matter of shard_map; under vmap leave it out.")
    names = _names(axis_name)
    groups = _groups(names, axis_index_groups)
    size = _group_size(names, groups)

    def one(leaf: Any) -> Any:
        ndim = typeof(_checked("all_gather", leaf)).ndim
        return all_gather_p.bind(leaf, all_gather_dimension=canonical_axis(axis, ndim + (not tiled)), axis_index_groups=groups,
                                 axis_name=names, axis_size=size, tiled=bool(tiled))[0]

    return pytrees.tree_map(one, x)


def psum_scatter(x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """The sum over the elements of a named axis, of which each gets its part along an axis.

    x: a pytree of arrays; their axis scatter_dimension has the size of the named axis and goes away, or if tiled a multiple of
    it and stays.
    Raises ValueError if it has another size, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([4., 6.], dtype=float32)
    """
    names = _names(axis_name)
    groups = _groups(names, axis_index_groups)
    size = _group_size(names, groups)

    def one(leaf: Any) -> Any:
        at = canonical_axis(scatter_dimension, typeof(_checked("psum_scatter", leaf)).ndim)
        return reduce_scatter_p.bind(leaf, axis_index_groups=groups, axis_name=names, axis_size=size, scatter_dimension=at,
                                     tiled=bool(tiled))[0]

    return pytrees.tree_map(one, x)


def all_to_all(x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None,
               tiled: bool = False) -> Any:
    """Each element of a named axis sends the i-th part of its array to element i.

    x: a pytree of arrays; split_axis has the size of the named axis and goes away, and the parts are stacked along a new axis
    at concat_axis; or if tiled it is divided into that many parts, which are joined along concat_axis.
    Raises ValueError if it has another size, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    groups = _groups(axis_name, axis_index_groups)
    size = _group_size(_names(axis_name), groups)

    def one(leaf: Any) -> Any:
        shape = typeof(_checked("all_to_all", leaf)).shape
        split, concat = canonical_axis(split_axis, len(shape)), canonical_axis(concat_axis, len(shape))
        params = {"axis_index_groups": groups, "axis_name": axis_name, "tiled": bool(tiled)}
        if tiled:
            return all_to_all_p.bind(leaf, concat_axis=concat, split_axis=split, **params)[0]
        if shape[split] != size:
            raise ValueError("all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are "
                             f"{size} and {shape[split]} respectively.\n  With tiled=True the axis is divided.")
        if split == concat:
            return all_to_all_p.bind(leaf, concat_axis=concat, split_axis=split, **params)[0]
        # The new axis has size 1 before, the axis that goes away has it after.
        new, old = (concat + 1, split) if split < concat else (concat, split + 1)
        return squeeze(all_to_all_p.bind(expand(leaf, 1, new), concat_axis=new, split_axis=old, **params)[0], (old,))

    return pytrees.tree_map(one, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """A named axis and an axis of the arrays, of one size, change places: x[j] of element i is x[i] of element j.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Elements of a named axis send their arrays to others.

    x: a pytree of arrays. perm: pairs (source, target) of elements' numbers; elements that nothing is sent to get zeros.
    Raises ValueError if a source or a target stands there twice, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(jnp.array([1., 2., 3.]))
    Array([0., 1., 2.], dtype=float32)
    """
    names = _names(axis_name)
    pairs = tuple((operator.index(source), operator.index(target)) for source, target in perm)
    return pytrees.tree_map(lambda leaf: ppermute_p.bind(_checked("ppermute", leaf), axis_name=names, perm=pairs)[0], x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """The elements of a named axis in another order: element i gets the arrays of element perm[i].

    Raises ValueError if perm is not a permutation.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pshuffle(x, "i", [1, 0]), axis_name="i")(jnp.array([1., 3.]))
    Array([3., 1.], dtype=float32)
    """
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The arrays of element `source` of a named axis, for all.

    Raises ValueError if there is no such element, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i")(jnp.array([1., 3.]))
    Array([3., 3.], dtype=float32)
    """
    at = operator.index(source)
    return pytrees.tree_map(lambda leaf: pbroadcast_p.bind(_checked("pbroadcast", leaf), axis_name=axis_name, source=at)[0], x)
