"""Vectorisation as users call it: `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core import reference_types as references
from teucer._core.calls import FlatFunction, check_callable, fun_name, leaf_names, where
from teucer._core.high import MappingSpec
from teucer._core.names import VMAP, within
from teucer._core.primitive import Axis
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._devices.meshes import left_out
from teucer._devices.specs import PartitionSpec, entry_names
from teucer._transform.batch import batch_flat, laid_over
from teucer._trees import pytrees
from teucer._trees.containers import (
    batched,
    has_container,
    has_vmappable,
    of_elements,
    spec_types,
    vmappables,
)
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.typing import Dim, Partition, Size, Value
    from teucer._xla.pytree import PyTreeDef


boundary = tracebacks.api_boundary


class Inferred(MappingSpec):
    """A value of `out_axes`: each result is mapped along the axis where its batch rule left the
    batch."""

    def __repr__(self) -> str:
        return "infer"


INFERRED = Inferred()


def vmap(
    fun: Callable[..., object],
    in_axes: object = 0,
    out_axes: object = 0,
    axis_name: object = None,
    axis_size: int | None = None,
    spmd_axis_name: object = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """A function that maps `fun` over an axis of its arguments.

    in_axes: the axis of each positional argument to map over (an int, None for not at all, or a
        tree prefix of them); keyword arguments are mapped over axis 0.
    out_axes: where the mapped axis goes in the results; None for results that do not depend on it.
    axis_name: the axis's name, for collectives. axis_size: its size, needed only if no argument is
    mapped. Raises ValueError if sizes differ, an axis is out of bounds, or the trees do not fit.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(jnp.dot)(jnp.ones((2, 3)), jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if in_axes is not None and not isinstance(in_axes, tuple) and not _is_axis(in_axes):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes!r}."
        )
    for tree, name in ((in_axes, "in_axes"), (out_axes, "out_axes")):
        if type(tree) is not int and not all(map(_is_axis, pytrees.tree_leaves(tree))):
            raise TypeError(
                f"vmap {name} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {tree!r}."
            )

    @tracebacks.boundary_of(fun, _doc(fun))
    def mapped(*args: object, **kwargs: object) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        flat, tree = pytrees.tree_flatten((args, kwargs))
        axes: Any = None
        if has_vmappable(args, kwargs):
            from teucer._trees.vmappables import marks  # for classes of libraries

            flat, axes, tree = marks(
                (args, kwargs),
                lambda t: pytrees.flatten_axes("vmap in_axes", t, (in_axes, 0), kws=True),
            )
        if references.may_alias(flat):
            from teucer._dialects.references.aliases import (
                refuse_aliases,  # for calls with references
            )

            references.refuse_parts(tree, f"When tracing {fun_name(fun)} for vmap")
            refuse_aliases(
                [typeof(x) if is_valid_type(x) else None for x in flat],
                flat,
                (),
                fun_name(fun),
                "vmap",
                lambda: leaf_names(fun, tree),
            )
        dims = _in_dims(fun, in_axes, kwargs, flat, tree, axes)
        size = _mapped_size(fun, flat, dims, tree, axis_size)
        one = (
            of_elements(fun, pytrees.tree_unflatten(tree, dims))
            if has_container(args, kwargs)
            else fun
        )
        f = FlatFunction(lambda a, k: one(*a, **k), tree, "vmap", named=fun)
        explicit = None
        for x in flat:
            if type(x) is not ArrayImpl or type(x._carried) is not ShapedArray or x._carried.placed:
                explicit = _explicit(flat, dims, spmd_axis_name)
                break
        if explicit is not None:
            flat = [laid_over(x, d, explicit) for x, d in zip(flat, dims, strict=True)]
        spread = spmd_axis_name if explicit is None else explicit.spec[0]
        with within(VMAP):
            outs, out_dims = batch_flat(f, Axis(size, axis_name, spread, explicit), flat, dims)
        wanted = (
            [out_axes] * len(outs)
            if type(out_axes) is int
            else pytrees.flatten_axes("vmap out_axes", f.tree, out_axes)
        )
        if vmappables and has_vmappable(pytrees.tree_unflatten(f.tree, [None] * len(outs))):
            from teucer._trees.vmappables import Mark, batches

            marked = pytrees.tree_unflatten(f.tree, list(map(Mark, outs, out_dims)))
            return batches(
                marked,
                wanted,
                size,
                lambda y, d, w: _to_out_axis(y, d, w, size, 0, f.tree, fun, explicit),
            )
        moved = [
            _to_out_axis(y, d, w, size, i, f.tree, fun, explicit)
            for i, (y, d, w) in enumerate(zip(outs, out_dims, wanted, strict=True))
        ]
        out = pytrees.tree_unflatten(f.tree, moved)
        return (
            batched(out, pytrees.tree_unflatten(f.tree, wanted), size)
            if has_container(out)
            else out
        )

    return mapped


def _doc(fun: Callable[..., object]) -> str:
    """The docstring of a mapped function."""
    name = fun_name(fun)
    text = (
        f"Vectorized version of {name}. Takes its arguments with one more array axis, over which "
        f"{name} is mapped."
    )
    return f"{text}\n\nOriginal documentation:\n\n{fun.__doc__}" if fun.__doc__ else text


def _is_axis(x: Value) -> bool:
    """Whether a leaf of in_axes or out_axes is an axis: an int or an object for one, and not a bool
    or an array."""
    return isinstance(x, (MappingSpec, *spec_types())) or (
        hasattr(x, "__index__") and not isinstance(x, bool | np.bool_) and not getattr(x, "ndim", 0)
    )


def _explicit(flat: Sequence[Value], dims: Sequence[int | None], spmd_axis_name: object) -> Any:
    """The partition of the mapped axis over Explicit mesh axes, as the arguments' types say it;
    None if they say nothing.

    Raises ValueError where they do not agree, with each other or with `spmd_axis_name`.
    """
    owns = [
        (own, d)
        for x, d in zip(flat, dims, strict=True)
        if is_valid_type(x) and (own := typeof(x).partition) is not None
    ]
    found = {own.spec[d]: own for own, d in owns if d is not None and own.spec[d] is not None}
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(
            "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
            f"inconsistent axis specs: {', '.join(map(repr, found))}\n"
            "  Lay one out as the other with jax.reshard."
        )
    ((entry, own),) = found.items()
    told = tuple(name for name in entry_names(spmd_axis_name) if name not in left_out(own.mesh))
    if spmd_axis_name is not None and told != tuple(entry_names(entry)):
        raise ValueError(
            "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is "
            f"allowed. Got spmd_axis_name={spmd_axis_name!r} and arrays sharded on {entry!r}\n"
            "  Leave out spmd_axis_name."
        )
    for other, d in owns:
        if d is None and set(other.spec.names()) & set(entry_names(entry)):
            raise ValueError(
                "Unmapped values passed to vmap cannot be sharded along the mesh axes of the "
                f"mapped axis, {entry!r}. Got {other.spec}\n"
                "  Lay the unmapped value out otherwise with jax.reshard."
            )
    return own.with_spec(PartitionSpec(entry))


def _in_dims(
    fun: Callable[..., object],
    in_axes: object,
    kwargs: dict[str, object],
    flat: Sequence[Value],
    tree: PyTreeDef,
    given: Sequence[int | None] | None,
) -> list[int | None]:
    axes = (
        given
        if given is not None
        else [in_axes] * len(flat)
        if type(in_axes) is int and not kwargs
        else pytrees.flatten_axes("vmap in_axes", tree, (in_axes, 0), kws=True)
    )
    dims: list[int | None] = []
    for i, (x, axis) in enumerate(zip(flat, axes, strict=True)):
        if axis is None:
            dims.append(None)
            continue
        try:
            aval = typeof(x)
        except TypeError:
            raise TypeError(
                f"vmap: Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type\n"
                f"    {_leaf_name(fun, tree, i)}, mapped over axis {axis}"
            ) from None
        if aval.is_high:
            dims.append(axis)
            continue
        n = aval.ndim
        if not -n <= axis < n:
            raise ValueError(
                f"vmap was requested to map its argument along axis {axis}, which implies that "
                f"its rank should be at least {axis + 1 if axis >= 0 else -axis}, but is only {n} "
                f"(its shape is {aval.shape}).\n    {_leaf_name(fun, tree, i)}: "
                f"{aval.str_short(short_dtypes=True)}"
            )
        dims.append(axis % n)
    return dims


def _mapped_size(
    fun: Callable[..., object],
    flat: Sequence[Value],
    dims: Sequence[int | None],
    tree: PyTreeDef,
    axis_size: int | None,
) -> Any:
    sizes = [
        typeof(x).shape[d]
        for x, d in zip(flat, dims, strict=True)
        if d is not None and not typeof(x).is_high
    ]
    if axis_size is not None:
        sizes.append(axis_size)
    if not sizes:
        if not flat:
            args, kwargs = pytrees.tree_unflatten(tree, [])
            raise ValueError(
                "vmap wrapped function must be passed at least one argument containing an array "
                f"or axis_size must be specified, got empty *args={args} and **kwargs={kwargs}\n"
                f"    function: {fun_name(fun)} at {where(fun)}"
            )
        raise ValueError(
            "vmap must have at least one non-None value in in_axes or axis_size must be specified\n"
            f"    function: {fun_name(fun)} at {where(fun)}"
        )
    if any(size != sizes[0] for size in sizes):  # no set: equal sizes may have different hashes
        raise ValueError(_size_mismatch(fun, flat, dims, tree, axis_size))
    return sizes[0]


def _size_mismatch(
    fun: Callable[..., object],
    flat: Sequence[object],
    dims: Sequence[int | None],
    tree: PyTreeDef,
    axis_size: int | None,
) -> str:
    found: list[
        tuple[Any, list[int]]
    ] = []  # leaves by size; no dict: equal sizes may have different hashes
    for i, (x, d) in enumerate(zip(flat, dims, strict=True)):
        if d is not None and not typeof(x).is_high:
            size = typeof(x).shape[d]
            alike = next((leaves for other, leaves in found if other == size), None)
            if alike is None:
                found.append((size, [i]))
            else:
                alike.append(i)

    def example(i: int) -> str:
        return f"axis {dims[i]} of {_leaf_name(fun, tree, i)} of type {typeof(flat[i]).str_short()}"

    lines = [] if axis_size is None else [f"  * the `axis_size` argument was {axis_size}"]
    most = max(len(leaves) for _, leaves in found)
    for size, leaves in sorted(found, key=lambda pair: -len(pair[1])):
        if len(leaves) == 1:
            lines.append(f"  * one axis had size {size}: {example(leaves[0])}")
        else:
            which = (
                "most"
                if len(leaves) == most and sum(len(ls) == most for _, ls in found) == 1
                else "some"
            )
            lines.append(
                f"  * {which} axes ({len(leaves)} of them) had size {size}, e.g. "
                f"{example(leaves[0])}"
            )
    return "vmap got inconsistent sizes for array axes to be mapped:\n" + ";\n".join(lines)


def _leaf_name(fun: Callable[..., object], tree: PyTreeDef, index: int) -> str:
    """How the user would call a leaf of the arguments: `argument x[0]`, or `kwargs['y'][0]` of
    those given by name."""
    path = pytrees.keystr(list(pytrees.leaf_paths(tree))[index])
    if path.startswith("[1]"):
        return f"kwargs{path[3:]}"
    return f"argument {leaf_names(fun, tree)[index]}"


def _to_out_axis(
    y: Any,
    dim: Dim,
    wanted: Any,
    size: Size,
    i: int,
    tree: PyTreeDef,
    fun: Callable[..., object],
    explicit: Partition | None,
) -> Any:
    if wanted is INFERRED or (dim == wanted and typeof(y).is_high):
        return y
    if type(typeof(y)) is references.RefType:
        if dim != wanted:
            raise ValueError(
                f"vmap: {fun_name(fun)} at {where(fun)} returns a reference that is mapped over "
                f"axis {dim}, where out_axes says {wanted}.\n"
                f"  Give out_axes={dim}, or return its array, ref[...]."
            )
        return y
    if wanted is None:
        if dim is not None:
            path = pytrees.keystr(list(pytrees.leaf_paths(tree))[i])
            raise ValueError(
                f"at vmap out_axes{path}, got axis spec None but output was batched on axis "
                f"{dim}\n    function: {fun_name(fun)} at {where(fun)}\n"
                "  out_axes may be None only for results that do not depend on the mapped "
                "arguments."
            )
        return y
    if typeof(y).is_high:
        return array_ops.to_axis(y, dim, size, wanted)
    ndim = np.ndim(y) + (dim is None)
    if not -ndim <= wanted < ndim:
        raise ValueError(
            f"axis {wanted} is out of bounds for array of dimension {ndim}: out_axes of vmap for "
            f"a result of {fun_name(fun)} with {ndim - 1} axes."
        )
    return laid_over(array_ops.to_axis(y, dim, size, wanted % ndim), wanted % ndim, explicit)
