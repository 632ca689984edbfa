"""Programs written for each device of a mesh: `shard_map`, `smap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core.calls import check_callable, debug_info, flatten_call, flatten_results
from teucer._core.reference_types import RefType, refuse_parts
from teucer._core.stage import stage_flat
from teucer._core.trace import EVAL, current_trace, typeof
from teucer._core.types import is_valid_type
from teucer._devices import meshes
from teucer._devices.meshes import AbstractMesh, AxisType, Mesh
from teucer._devices.parts import part_aval
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec, entry_names
from teucer._dialects.high.types import HighSpec
from teucer._sharding.manual_call import as_said, inside, shard_map_p
from teucer._sharding.manual_eager import Devices, run_eagerly
from teucer._sharding.manual_specs import (
    Infer,
    Names,
    check_are_specs,
    check_names,
    check_ranks_and_sizes,
    in_specs_of,
    out_specs_of,
)
from teucer._transform.jit import jit
from teucer._transform.jit_calls import hoist_consts
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.meshes import BaseMesh

__all__ = ["Infer", "over_devices", "shard_map", "smap"]


def shard_map(
    f: Callable[..., object] | None = None,
    /,
    *,
    out_specs: object,
    in_specs: object = Infer,
    mesh: BaseMesh | None = None,
    axis_names: object = frozenset(),
    check_vma: bool = True,
) -> Any:
    """A function that each device of a mesh runs on its parts of the arguments, and that
    communicates by collectives.

    f: a function of arrays, the parts of each device; or None, for a decorator.
    in_specs: how the arguments are divided: a PartitionSpec an array, or a tree prefix of them.
        Along mesh axes that a spec does not name each device has the whole. By default as the types
        of the arguments say, over Explicit mesh axes.
    out_specs: how the results are put together. Along mesh axes that a spec does not name the parts
    must be equal.
    mesh: a Mesh, or AbstractMesh; by default the one in force.
    axis_names: the mesh axes along which the program is written by hand, by default all; the
        compiler, or types, partition along the others.
    check_vma: whether types say over which mesh axes values vary, so that results which differ
        where out_specs says that they do not are found, and derivatives communicate no more than
        they must.
    Raises ValueError for a spec that does not fit, an axis that does not divide, or a result that
    is not the same on all devices.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> total = jax.shard_map(lambda x: jax.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=jax.P("x"),
    ...     out_specs=jax.P())
    >>> total(jnp.arange(4.))
    Array(6., dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    check_callable(f, "shard_map")
    names = {axis_names} if isinstance(axis_names, str) else axis_names
    if not isinstance(names, set | frozenset):
        raise TypeError(
            "shard_map: `axis_names` argument of shard_map should be of type `set`. Got type: "
            f"{type(names)}"
        )
    check_are_specs("in_specs", in_specs)
    check_are_specs("out_specs", out_specs)
    given, manual_names = mesh, frozenset(names)

    @tracebacks.boundary_of(f)
    def sharded(*args: object) -> Any:
        return _call(f, args, in_specs, out_specs, given, manual_names, bool(check_vma))

    return sharded


def smap(
    f: Callable[..., object] | None = None,
    /,
    *,
    in_axes: object = Infer,
    out_axes: object,
    axis_name: Any,
) -> Any:
    """`shard_map` along one axis of the mesh in force, with axes of arrays as `vmap` says them.

    in_axes, out_axes: which axis of each array is divided; None for none. axis_name: the mesh axis.
    Raises TypeError for axes that are no ints, ValueError without a mesh in force.
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if not isinstance(axis_name, str):
        raise TypeError(f"smap: axis_name must be a str, got {type(axis_name)}: {axis_name!r}")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(axis is Infer or isinstance(axis, int) for axis in pytrees.tree_leaves(axes)):
            raise TypeError(
                f"smap {what} must be an int, None, jax.sharding.Infer, or a tuple of entries "
                "corresponding to the positional arguments passed to the function, but got "
                f"{axes!r}."
            )
    if in_axes is not None and in_axes is not Infer and not isinstance(in_axes, int | tuple | list):
        raise TypeError(
            "smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries, but "
            f"got {in_axes!r}."
        )

    def spec(axis: Any) -> Any:
        return (
            axis
            if axis is Infer
            else PartitionSpec()
            if axis is None
            else PartitionSpec(*[None] * axis, axis_name)
        )

    def specs(axes: Any) -> Any:
        return pytrees.tree_map(spec, axes, is_leaf=lambda a: a is None)

    mapped = shard_map(
        f, in_specs=specs(in_axes), out_specs=specs(out_axes), axis_names={axis_name}
    )

    @tracebacks.boundary_of(f)
    def smapped(*args: object) -> Any:
        kind = meshes.get_abstract_mesh().type_of.get(axis_name)
        if kind is not AxisType.Explicit and any(
            axis is Infer for axis in pytrees.tree_leaves(in_axes)
        ):
            raise TypeError(
                f"in_axes was not specified when axis_name={axis_name!r} was of type {kind}, so "
                "that the types of arguments do not say along which axes they are divided.\n"
                "  smap: give in_axes."
            )
        return mapped(*(_spread(args, in_axes, axis_name) if kind is AxisType.Explicit else args))

    return smapped


def _spread(args: tuple[object, ...], in_axes: object, name: str) -> Any:
    """Arguments divided over an Explicit mesh axis as `in_axes` says, whatever their types say."""
    leaves, tree = pytrees.tree_flatten(args)
    axes = pytrees.flatten_axes(
        "smap in_axes", tree, tuple(in_axes) if isinstance(in_axes, list) else in_axes
    )
    return pytrees.tree_unflatten(
        tree,
        [
            x if axis is Infer or not is_valid_type(x) else _over_axis(x, axis, name)
            for x, axis in zip(leaves, axes, strict=True)
        ],
    )


def _over_axis(x: Value, axis: int | None, name: str) -> Any:
    own = typeof(x).sharding
    entries = [tuple(n for n in entry_names(e) if n != name) for e in own.spec.partitions]
    if axis is not None and -len(entries) <= axis < len(entries):
        entries[axis] = (name, *entries[axis])
    wanted = own.spec.update(partitions=entries)
    return (
        x
        if wanted == own.spec
        else array_ops.lay_out(x, NamedSharding(meshes.get_abstract_mesh(), wanted))
    )


# --- Calls ----------------------------------------------------------------------------------------


def _call(
    f: Callable[..., object],
    args: tuple[object, ...],
    in_specs: object,
    out_specs: object,
    mesh: BaseMesh | None,
    names: frozenset[str],
    check_vma: bool,
) -> Any:
    if isinstance(mesh, AbstractMesh) and current_trace() is EVAL:
        _check_devices_of(args, mesh)
    given_mesh, where = mesh, _devices(mesh, names, check_vma)
    mesh, manual = where.mesh, where.manual
    call = flatten_call(args, {})
    given = pytrees.flatten_axes(
        "shard_map in_specs",
        pytrees.treedef_children(call.tree)[0],
        tuple(in_specs) if isinstance(in_specs, list) else in_specs,
    )
    whole = (None, PartitionSpec())
    if any(spec not in whole for spec in given):
        refuse_parts(call.tree, "When tracing for shard_map, where in_specs divide arguments")
    # A value without a spec is no argument: the function sees it as it is.
    divided = [i for i, spec in enumerate(given) if spec is not None]
    leaves, given = [call.leaves[i] for i in divided], [given[i] for i in divided]
    names_of_leaves = Names(f, call.tree, divided)
    for i, x in enumerate(leaves):
        if not is_valid_type(x):
            raise TypeError(
                f"shard_map: Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type.\n"
                f"    {names_of_leaves[i]}"
            )
    avals = [typeof(x) for x in leaves]
    check_names("in_specs", [s for s in given if isinstance(s, PartitionSpec)], where)
    specs = in_specs_of(names_of_leaves, given, avals, where)
    check_names("in_specs", specs, where)
    check_ranks_and_sizes(f, names_of_leaves, specs, avals, mesh)
    parts = [part_aval(a, s, mesh, manual, check_vma) for a, s in zip(avals, specs, strict=True)]
    info = debug_info("shard_map", f, call)
    out_tree: list[Any] = []
    laid: list[PartitionSpec] = []

    def flat(*parts: Value) -> list[Any]:
        filled = list(call.leaves)
        for i, part in zip(divided, parts, strict=True):
            filled[i] = part
        outs, tree = flatten_results(call.apply(f, filled), "shard_map", info)
        out_tree.append(tree)
        laid[:] = out_specs_of(f, out_specs, outs, tree, where)
        if not check_vma:
            return outs
        return [
            y if typeof(y).is_high else as_said(y, spec) for y, spec in zip(outs, laid, strict=True)
        ]

    high = any(a.is_high for a in avals) or any(
        isinstance(s, HighSpec) for s in pytrees.tree_leaves(out_specs)
    )
    if current_trace() is EVAL and (high or any(type(a) is RefType for a in avals)):
        return jit(
            functools.partial(
                _call,
                f,
                in_specs=in_specs,
                out_specs=out_specs,
                mesh=given_mesh,
                names=names,
                check_vma=check_vma,
            )
        )(args)
    if current_trace() is EVAL:
        outs = run_eagerly(flat, leaves, parts, specs, lambda _: laid, where)
    else:
        with inside(*where):
            jaxpr, consts = stage_flat(flat, parts, info)
        outs = shard_map_p.call(
            *consts,
            *leaves,
            jaxpr=hoist_consts(jaxpr),
            mesh=mesh,
            check_vma=check_vma,
            newly_manual_axes=manual,
            out_specs=tuple(laid),
            in_specs=(*[PartitionSpec()] * len(consts), *specs),
        )
    return pytrees.tree_unflatten(out_tree[-1], outs)


def over_devices(
    f: Callable[..., Sequence[object]],
    args: Sequence[Value],
    in_specs: Sequence[PartitionSpec],
    out_specs: Callable[[], Sequence[PartitionSpec]],
    mesh: BaseMesh,
) -> Any:
    """The results of a function of flat values that each device of a mesh runs on its parts; types
    say nothing of it.

    out_specs: asked once the function has run.
    """
    where = Devices(mesh, frozenset(mesh.axis_names), False)
    with inside(*where):
        jaxpr, consts = stage_flat(
            f, [part_aval(typeof(x), s, *where) for x, s in zip(args, in_specs, strict=True)]
        )
    return shard_map_p.call(
        *consts,
        *args,
        jaxpr=hoist_consts(jaxpr),
        mesh=mesh,
        check_vma=False,
        newly_manual_axes=where.manual,
        in_specs=(*[PartitionSpec()] * len(consts), *in_specs),
        out_specs=tuple(out_specs()),
    )


def _check_devices_of(args: tuple[object, ...], mesh: AbstractMesh) -> None:
    """Check that arrays, where they run at once, have the devices that a mesh leaves open.

    Raises ValueError if none lies over a mesh, or one lies on a device of its own, or over a mesh
    of another shape.
    """
    if meshes.mesh_in_force() is not None:
        return
    leaves = pytrees.tree_leaves(args)
    laid = [x for x in leaves if isinstance(getattr(x, "sharding", None), NamedSharding)]
    for x in leaves:
        own = getattr(x, "sharding", None)
        if not isinstance(own, NamedSharding):
            if laid and not getattr(x, "_committed", False):
                continue  # it goes where the others are
            raise ValueError(
                "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map` when "
                f"passing `AbstractMesh` to the mesh argument. Got {type(x)} with sharding {own}\n"
                "  Or pass a jax.sharding.Mesh."
            )
        if own.mesh.shape_tuple != mesh.shape_tuple:
            raise ValueError(
                f"Mesh shape of the input {own.mesh.shape_tuple} does not match the mesh shape "
                f"passed to shard_map {mesh.shape_tuple} for shape {typeof(x).str_short()}"
            )


def _devices(mesh: BaseMesh | None, names: frozenset[str], check_vma: bool) -> Devices:
    """The mesh that is given or in force, with the types that its axes have here, and the axes that
    become manual."""
    in_force = meshes.get_abstract_mesh()
    if mesh is None:
        mesh = meshes.mesh_in_force() or in_force
        if in_force.empty:
            raise ValueError(
                "The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh "
                "context, or pass a mesh to `shard_map`."
            )
        if mesh.abstract_mesh is not in_force:
            mesh = (
                mesh.update(axis_types=in_force.axis_types)
                if mesh.shape_tuple == in_force.shape_tuple
                else in_force
            )
    elif not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(
            "shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` instance "
            f"for its second argument, but got {mesh} of type {type(mesh)}."
        )
    elif not in_force.empty:
        if mesh.shape_tuple != in_force.shape_tuple:
            raise ValueError(
                f"The context mesh {in_force} should match the mesh passed to shard_map {mesh}\n"
                "  Leave out `mesh`, or pass the mesh in force."
            )
        mesh = mesh.update(axis_types=in_force.axis_types)
    if mesh.empty:
        raise ValueError(f"shard_map requires a non-empty mesh, got {mesh}.")
    outer = frozenset(mesh.manual_axes)
    manual = names or frozenset(mesh.axis_names) - outer
    if not manual <= set(mesh.axis_names):
        raise ValueError(
            f"jax.shard_map requires axis_names={set(names)} to be a subset of "
            f"mesh.axis_names={mesh.axis_names}"
        )
    if manual & outer:
        raise ValueError(
            f"shard_map: the mesh axes {sorted(manual & outer, key=str)} are manual already, of "
            f"the shard_map around this one.\n    mesh: {mesh}\n"
            "  Give axis_names, of the other axes."
        )
    return Devices(mesh, manual, check_vma)
