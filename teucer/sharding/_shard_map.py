"""Programs written for each device of a mesh: `shard_map`, `smap`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, final

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core.calls import check_callable, debug_info, flatten_call, flatten_results, fun_name, leaf_names
from teucer._core.specs import PartitionSpec, entry_names
from teucer._core.stage import stage_flat
from teucer._core.trace import EVAL, current_trace, typeof
from teucer._core.types import is_valid_type
from teucer._devices import meshes
from teucer._devices.meshes import AbstractMesh, AxisType, Mesh
from teucer._transform.jit_calls import hoist_consts
from teucer._trees import pytrees
from teucer.sharding._manual_call import inside, part_aval, shard_map_p
from teucer.sharding._manual_eager import Devices, run_eagerly

__all__ = ["Infer", "over_devices", "shard_map", "smap"]


@final
class _Infer:
    """In the place of in_specs: as the types of the arguments say."""

    def __repr__(self) -> str:
        return "jax.sharding.Infer"


Infer = _Infer()


def shard_map(f: Callable[..., Any] | None = None, /, *, out_specs: Any, in_specs: Any = Infer, mesh: Any = None,
              axis_names: Any = frozenset(), check_vma: bool = True) -> Any:
    """A function that each device of a mesh runs on its parts of the arguments, and that communicates by collectives.

    f: a function of arrays, the parts of each device; or None, for a decorator.
    in_specs: how the arguments are divided: a PartitionSpec an array, or a tree prefix of them. Along mesh axes that a spec does
        not name each device has the whole. By default as the types of the arguments say, over Explicit mesh axes.
    out_specs: how the results are put together. Along mesh axes that a spec does not name the parts must be equal.
    mesh: a Mesh, or AbstractMesh; by default the one in force.
    axis_names: the mesh axes along which the program is written by hand, by default all; the compiler, or types, partition along
        the others.
    check_vma: whether types say over which mesh axes values vary, so that results which differ where out_specs says that they do
        not are found, and derivatives communicate no more than they must.
    Raises ValueError for a spec that does not fit, an axis that does not divide, or a result that is not the same on all devices.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> total = jax.shard_map(lambda x: jax.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P())
    >>> total(jnp.arange(4.))
    Array(6., dtype=float32)
    """
    if f is None:
        return functools.partial(shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
                                 check_vma=check_vma)
    check_callable(f, "shard_map")
    names = {axis_names} if isinstance(axis_names, str) else axis_names
    if not isinstance(names, set | frozenset):
        raise TypeError(f"shard_map: `axis_names` argument of shard_map should be of type `set`. Got type: {type(names)}")
    _check_are_specs("in_specs", in_specs)
    _check_are_specs("out_specs", out_specs)
    given, manual_names = mesh, frozenset(names)

    @tracebacks.boundary_of(f)
    def sharded(*args: Any) -> Any:
        return _call(f, args, in_specs, out_specs, given, manual_names, bool(check_vma))

    return sharded


def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any) -> Any:
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
            raise TypeError(f"smap {what} must be an int, None, jax.sharding.Infer, or a tuple of entries corresponding to the "
                            f"positional arguments passed to the function, but got {axes!r}.")
    if in_axes is not None and in_axes is not Infer and not isinstance(in_axes, int | tuple | list):
        raise TypeError(f"smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries, but got {in_axes!r}.")

    def spec(axis: Any) -> Any:
        return axis if axis is Infer else PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        return pytrees.tree_map(spec, axes, is_leaf=lambda a: a is None)

    return shard_map(f, in_specs=specs(in_axes), out_specs=specs(out_axes), axis_names={axis_name})


# --- Calls -----------------------------------------------------------------------------------------------------------


def _call(f: Callable[..., Any], args: tuple[Any, ...], in_specs: Any, out_specs: Any, mesh: Any, names: frozenset[Any],
          check_vma: bool) -> Any:
    where = _devices(mesh, names, check_vma)
    mesh, manual = where.mesh, where.manual
    call = flatten_call(args, {})
    given = pytrees.flatten_axes("shard_map in_specs", pytrees.treedef_children(call.tree)[0],
                                 tuple(in_specs) if isinstance(in_specs, list) else in_specs)
    # What has no spec is no argument: whatever it is, the function sees it as it is.
    divided = [i for i, spec in enumerate(given) if spec is not None]
    leaves, given = [call.leaves[i] for i in divided], [given[i] for i in divided]
    names_of_leaves = _Names(f, call.tree, divided)
    for i, x in enumerate(leaves):
        if not is_valid_type(x):
            raise TypeError(f"shard_map: Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type.\n"
                            f"    {names_of_leaves[i]}")
    avals = [typeof(x) for x in leaves]
    specs = _in_specs(names_of_leaves, given, avals, where)
    _check_names("in_specs", specs, where)
    _check_ranks_and_sizes(f, names_of_leaves, specs, avals, mesh)
    parts = [part_aval(a, s, mesh, manual, check_vma) for a, s in zip(avals, specs, strict=True)]
    info = debug_info("shard_map", f, call)
    out_tree: list[Any] = []
    laid: list[PartitionSpec] = []

    def flat(*parts: Any) -> list[Any]:
        filled = list(call.leaves)
        for i, part in zip(divided, parts, strict=True):
            filled[i] = part
        outs, tree = flatten_results(call.apply(f, filled), "shard_map", info)
        out_tree.append(tree)
        laid[:] = _out_specs(f, out_specs, outs, tree, where)
        if not check_vma:
            return outs
        return [array_ops.vary(y, frozenset(spec.names())) for y, spec in zip(outs, laid, strict=True)]

    if current_trace() is EVAL:
        outs = run_eagerly(flat, leaves, parts, specs, lambda _: laid, where)
    else:
        with inside(*where):
            jaxpr, consts = stage_flat(flat, parts, info)
        outs = shard_map_p.call(*consts, *leaves, jaxpr=hoist_consts(jaxpr), mesh=mesh, check_vma=check_vma,
                                newly_manual_axes=manual, out_specs=tuple(laid),
                                in_specs=(*[PartitionSpec()] * len(consts), *specs))
    return pytrees.tree_unflatten(out_tree[-1], outs)


def over_devices(f: Callable[..., Sequence[Any]], args: Sequence[Any], in_specs: Sequence[PartitionSpec],
                 out_specs: Callable[[], Sequence[PartitionSpec]], mesh: Any) -> Any:
    """The results of a function of flat values that each device of a mesh runs on its parts; types say nothing of it.

    out_specs: asked once the function has run.
    """
    where = Devices(mesh, frozenset(mesh.axis_names), False)
    with inside(*where):
        jaxpr, consts = stage_flat(f, [part_aval(typeof(x), s, *where) for x, s in zip(args, in_specs, strict=True)])
    return shard_map_p.call(*consts, *args, jaxpr=hoist_consts(jaxpr), mesh=mesh, check_vma=False, newly_manual_axes=where.manual,
                            in_specs=(*[PartitionSpec()] * len(consts), *in_specs), out_specs=tuple(out_specs()))


def _devices(mesh: Any, names: frozenset[Any], check_vma: bool) -> Devices:
    """The mesh that is given or in force, with the types that its axes have here, and the axes that become manual."""
    in_force = meshes.get_abstract_mesh()
    if mesh is None:
        mesh = meshes.mesh_in_force() or in_force
        if in_force.empty:
            raise ValueError("The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh context, or "
                             "pass a mesh "
                             "to `shard_map`.")
        if mesh.abstract_mesh is not in_force:
            mesh = mesh.update(axis_types=in_force.axis_types) if mesh.shape_tuple == in_force.shape_tuple else in_force
    elif not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(f"shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` instance for its second "
                        "argument, "
                        f"but got {mesh} of type {type(mesh)}.")
    elif not in_force.empty:
        if mesh.shape_tuple != in_force.shape_tuple:
            raise ValueError(f"The context mesh {in_force} should match the mesh passed to shard_map {mesh}\n  Leave out "
                             "`mesh`, or "
                             "pass the mesh in force.")
        mesh = mesh.update(axis_types=in_force.axis_types)
    if mesh.empty:
        raise ValueError(f"shard_map requires a non-empty mesh, got {mesh}.")
    outer = frozenset(mesh.manual_axes)
    manual = names or frozenset(mesh.axis_names) - outer
    if not manual <= set(mesh.axis_names):
        raise ValueError(f"jax.shard_map requires axis_names={set(names)} to be a subset of mesh.axis_names={mesh.axis_names}")
    if manual & outer:
        raise ValueError(f"shard_map: the mesh axes {sorted(manual & outer, key=str)} are manual already, of the shard_map "
                         "around this "
                         f"one.\n    mesh: {mesh}\n  Give axis_names, of the other axes.")
    return Devices(mesh, manual, check_vma)


def _check_are_specs(what: str, specs: Any) -> None:
    wrong = [(path, s) for path, s in pytrees.tree_flatten_with_path(specs, is_leaf=lambda s: s is None)[0]
             if not (isinstance(s, PartitionSpec) or s is Infer or s is None)]
    if wrong:
        listed = "\n".join(f"    {what}{pytrees.keystr(path)} is {s!r:.100} of type {type(s).__name__}" for path, s in wrong)
        raise TypeError(f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` instances, "
                        f"but:\n{listed}\n"
                        "  Write jax.P('x') for 'x'.")


class _Names:
    """What the user calls the arguments that are divided; looked up for a message."""

    def __init__(self, f: Callable[..., Any], tree: Any, places: Sequence[int]) -> None:
        self.f, self.tree, self.places = f, tree, places

    def __getitem__(self, i: int) -> str:
        return leaf_names(self.f, self.tree)[self.places[i]]


def _in_specs(names: _Names, given: Sequence[Any], avals: Sequence[Any], where: Devices) -> list[Any]:
    explicit = where.mesh.type_of
    found = []
    for i, (spec, aval) in enumerate(zip(given, avals, strict=True)):
        own = [entry_names(e) for e in aval.sharding.spec] if aval.sharding is not None else [()] * aval.ndim
        mine = PartitionSpec(*[tuple(n for n in e if n in where.manual) for e in own])
        if spec is Infer:
            if any(explicit[n] is not AxisType.Explicit for n in where.manual):
                raise ValueError(f"in_specs is not given, and the mesh axes {sorted(where.manual, key=str)} are not all of "
                                 "type "
                                 f"Explicit: {where.mesh}, so that the types of the arguments do not say how they are "
                                 "divided.\n"
                                 "  Give in_specs.")
            found.append(mine)
            continue
        stated = [entry_names(e) for e in spec]
        stated += [()] * (aval.ndim - len(stated))
        if aval.sharding is not None and any(
                [n for n in e if explicit[n] is AxisType.Explicit and n in where.manual] != list(m)
                for e, m in zip(stated, map(entry_names, mine), strict=False)):
            raise ValueError(f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
                             f"{aval.sharding.spec} for arg: "
                             f"{aval.str_short(short_dtypes=True)}. `in_specs` is an optional argument so you can omit "
                             "specifying it "
                             "and shard_map will infer the in_specs from the arguments. If you want to reshard your inputs, "
                             "you can "
                             f"use `jax.reshard` on the arguments and then pass those args to shard_map.\n    "
                             f"{names[i]}")
        found.append(spec)
    return found


def _check_names(what: str, specs: Sequence[PartitionSpec], where: Devices) -> None:
    for spec in specs:
        unknown = [n for n in spec.names() if n not in where.mesh.axis_names]
        if unknown:
            raise ValueError(f"shard_map {what}: {spec} names the axes {unknown}, which the mesh does not have.\n    mesh: "
                             f"{where.mesh}")
        other = [n for n in spec.names() if n not in where.manual]
        if other:
            raise ValueError(f"{what} refers to {other[0]!r} in {spec}, which is not one of the manual axes "
                             f"{sorted(where.manual, key=str)} of the shard_map.\n  Add it to axis_names, or leave it out: "
                             "along other "
                             "axes the compiler, or types, partition.")
        if len(set(spec.names())) < len(spec.names()):
            raise ValueError(f"shard_map {what}: {spec} names a mesh axis twice.")
        if spec.unreduced or spec.reduced:
            raise NotImplementedError(f"shard_map {what}: unreduced and reduced axes are not implemented, got {spec}.\n"
                                      "  Sum in the function, with jax.lax.psum.")


def _mesh_text(mesh: Any) -> str:
    return f"The mesh given has shape {mesh.axis_sizes} with corresponding axis names {mesh.axis_names}."


def _check_ranks_and_sizes(f: Any, names: _Names, specs: Sequence[PartitionSpec], avals: Sequence[Any], mesh: Any) -> None:
    for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
        if len(spec) > aval.ndim:
            scalar = "" if aval.ndim else "\n  For scalars consider using an in_specs entry of `P()`."
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given an in_specs entry which is too long to be "
                "compatible with "
                f"the corresponding input value from the function:\n    in_specs is {spec} which has length {len(spec)}\n    "
                f"{names[i]} has shape {aval.str_short()}, which has rank {aval.ndim} (and {aval.ndim} < "
                f"{len(spec)})\n"
                f"  Entries in in_specs must be of length no greater than the number of axes in the corresponding input "
                f"value.{scalar}")
        for axis, entry in enumerate(spec):
            n = math.prod(mesh.sizes[name] for name in entry_names(entry))
            if aval.shape[axis] % n:
                axes = "mesh axis" if len(entry_names(entry)) == 1 else "mesh axes"
                raise ValueError(
                    f"shard_map applied to the function '{fun_name(f)}' was given argument arrays with axis sizes that are "
                    "not evenly "
                    f"divisible by the corresponding mesh axis sizes:\n    {_mesh_text(mesh)}\n    "
                    f"{names[i]} of shape "
                    f"{aval.str_short()} corresponds to in_specs of value {spec}, which maps array axis {axis} (of size "
                    f"{aval.shape[axis]}) to {axes} {entry!r} (of size {n}), but {n} does not evenly divide "
                    f"{aval.shape[axis]}\n  "
                    "Change the mesh, or pad the argument.")


def _out_specs(f: Any, out_specs: Any, outs: Sequence[Any], tree: Any, where: Devices) -> list[PartitionSpec]:
    """The spec of each result, checked against its type."""
    specs = pytrees.flatten_axes("shard_map out_specs", tree, out_specs)
    specs = [PartitionSpec() if s is None else s for s in specs]
    _check_names("out_specs", specs, where)
    for i, (y, spec) in enumerate(zip(outs, specs, strict=True)):
        aval = typeof(y)
        result = f"{fun_name(f)}(*args){pytrees.keystr(list(pytrees.leaf_paths(tree))[i])}"
        if len(spec) > aval.ndim:
            scalar = ("\n  Of a scalar it is jax.P(); add an axis to scalars that differ from device to device, x[None], so "
                      "that they "
                      "can be put together." if not aval.ndim else "")
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given an out_specs entry which is too long to be "
                "compatible with "
                f"the corresponding output value from the function:\n    out_specs is {spec} which has length {len(spec)}\n "
                f"   {result} "
                f"has shape {aval.str_short()}, which has rank {aval.ndim} (and {aval.ndim} < {len(spec)})\n"
                f"  Entries in out_specs must be of length no greater than the number of axes in the corresponding output "
                f"value.{scalar}")
        extra = (aval.vma & where.manual) - set(spec.names()) if where.check_vma else ()
        if extra:
            axes = ", ".join(map(repr, sorted(extra, key=str)))
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given out_specs which require replication which "
                "can't be "
                f"statically inferred given the mesh:\n    {_mesh_text(where.mesh)}\n    {result}: "
                f"{aval.str_short(short_dtypes=True)}, "
                f"out_specs is {spec} which implies that the corresponding output value is replicated across mesh axis "
                f"{axes}, but could "
                "not infer replication over any axes\n  Check if these output values are meant to be replicated over those "
                "mesh axes: sum "
                "or gather them there (jax.lax.psum), or name the axes in out_specs. If they are equal all the same, pass the "
                "check_vma=False argument to `jax.shard_map`.")
    return specs


