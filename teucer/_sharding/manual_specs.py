"""The specs of `shard_map`: read, and checked against arguments, results and the mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core.calls import fun_name, leaf_names
from teucer._core.high import is_high, low_types
from teucer._core.trace import typeof
from teucer._devices.meshes import AxisType, left_out
from teucer._devices.parts import low_specs
from teucer._devices.specs import PartitionSpec, entry_names, kind_within
from teucer._dialects.high.types import HighSpec
from teucer._sharding.manual_eager import Devices
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import Aval, ShapedArray
    from teucer._core.typing import Value
    from teucer._devices.meshes import BaseMesh
    from teucer._xla.pytree import PyTree


@final
class _Infer:
    """In the place of in_specs: as the types of the arguments say."""

    def __repr__(self) -> str:
        return "jax.sharding.Infer"


Infer = _Infer()


def check_are_specs(what: str, specs: object) -> None:
    wrong = [
        (path, s)
        for path, s in pytrees.tree_flatten_with_path(specs, is_leaf=lambda s: s is None)[0]
        if not (isinstance(s, PartitionSpec | HighSpec) or s is Infer or s is None)
    ]
    if wrong:
        listed = "\n".join(
            f"    {what}{pytrees.keystr(path)} is {s!r:.100} of type {type(s).__name__}"
            for path, s in wrong
        )
        raise TypeError(
            f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` "
            f"instances, but:\n{listed}\n  Write jax.P('x') for 'x'."
        )


class Names:
    """The user's names of the divided arguments, looked up for a message."""

    def __init__(self, f: Callable[..., object], tree: PyTree, places: Sequence[int]) -> None:
        self.f, self.tree, self.places = f, tree, places

    def __getitem__(self, i: int) -> str:
        return leaf_names(self.f, self.tree)[self.places[i]]


def in_specs_of(
    names: Names, given: Sequence[Any], avals: Sequence[Aval], where: Devices
) -> list[Any]:
    explicit, omitted = where.mesh.type_of, left_out(where.mesh)
    all_explicit = all(explicit[n] is AxisType.Explicit for n in where.manual)
    found = []
    for i, (spec, aval) in enumerate(zip(given, avals, strict=True)):
        if is_high(aval):
            if spec is Infer:
                raise TypeError(
                    f"shard_map: the type {aval.str_short()} does not say how {names[i]} is "
                    "divided.\n  Give in_specs, with a spec of that type."
                )
            found.append(spec)
            continue
        own = (
            [entry_names(e) for e in aval.partition.spec.partitions]
            if aval.partition is not None
            else [()] * aval.ndim
        )
        mine = PartitionSpec(
            *[tuple(n for n in e if n in where.manual) for e in own],
            unreduced=aval.unreduced & where.manual,
            reduced=aval.reduced & where.manual,
            unreduced_kind=kind_within(aval, aval.unreduced & where.manual),
        )
        if spec is Infer:
            if not all_explicit:
                raise ValueError(
                    f"in_specs is not given, and the mesh axes {sorted(where.manual, key=str)} "
                    f"are not all of type Explicit: {where.mesh}, so that the types of the "
                    "arguments do not say how they are divided.\n  Give in_specs."
                )
            found.append(mine)
            continue
        stated = [tuple(n for n in entry_names(e) if n not in omitted) for e in spec.partitions]
        stated += [()] * (aval.ndim - len(stated))
        differ = (spec.unreduced, spec.reduced, spec.unreduced_kind) != (
            mine.unreduced,
            mine.reduced,
            mine.unreduced_kind,
        )
        if differ:
            _check_sums("in_specs", spec, where)
        if differ or (
            (all_explicit or aval.partition is not None)
            and any(
                [n for n in e if explicit[n] is AxisType.Explicit and n in where.manual] != list(m)
                for e, m in zip(stated, map(entry_names, mine.partitions), strict=False)
            )
        ):
            raise ValueError(
                f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
                f"{aval.sharding.spec} for arg: {aval.str_short(short_dtypes=True)}. `in_specs` "
                "is an optional argument so you can omit specifying it and shard_map will infer "
                "the in_specs from the arguments. If you want to reshard your inputs, you can "
                "use `jax.reshard` on the arguments and then pass those args to shard_map.\n"
                f"    {names[i]}"
            )
        found.append(spec)
    return found


def check_names(what: str, given: Sequence[object], where: Devices) -> None:
    specs = [
        low for s in given for low in ([s] if isinstance(s, PartitionSpec) else low_specs(s, None))
    ]
    for spec in specs:
        unknown = [n for n in spec.names() if n not in where.mesh.axis_names]
        if unknown:
            raise ValueError(
                f"shard_map {what}: {spec} names the axes {unknown}, which the mesh does not "
                f"have.\n    mesh: {where.mesh}"
            )
        other = [n for n in spec.names() if n not in where.manual]
        if other:
            raise ValueError(
                f"{what} refers to {other[0]!r} in {spec}, which is not one of the manual axes "
                f"{sorted(where.manual, key=str)} of the shard_map.\n"
                "  Add it to axis_names, or leave it out: along other axes the compiler, or "
                "types, partition."
            )
        if len(set(spec.names())) < len(spec.names()):
            raise ValueError(f"shard_map {what}: {spec} names a mesh axis twice.")
        if spec.unreduced or spec.reduced:
            _check_sums(what, spec, where)


def _check_sums(what: str, spec: PartitionSpec, where: Devices) -> None:
    """Check that all axes are manual, and of type Explicit outside, if a spec has unreduced
    axes."""
    if len(where.manual) < len(where.mesh.axis_names):
        raise NotImplementedError(
            f"unreduced and reduced axes can only be passed to {what} when shard_map is in full "
            f"manual mode. Got {what}={spec}, axis_names={set(where.manual)} and mesh "
            f"{where.mesh}\n  Leave out axis_names."
        )
    if any(where.mesh.type_of[n] is not AxisType.Explicit for n in where.mesh.axis_names):
        raise ValueError(
            "unreduced and reduced axes can only be used when the mesh passed to shard_map "
            f"contains axis names all of type `Explicit`. Got {what}={spec} and mesh {where.mesh}"
        )


def _mesh_text(mesh: BaseMesh) -> str:
    return (
        f"The mesh given has shape {mesh.axis_sizes} with corresponding axis names "
        f"{mesh.axis_names}."
    )


def _pairs(specs: Sequence[Any], avals: Sequence[Aval]) -> list[tuple[int, PartitionSpec, Any]]:
    """For each array its spec and type, with the number of the value that it is a part of."""
    found = []
    for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
        parts, own = (low_types(aval), low_specs(spec, aval)) if is_high(aval) else ([aval], [spec])
        if len(parts) != len(own):
            raise ValueError(
                f"shard_map: {spec!r:.100} has {len(own)} specs for values of type "
                f"{aval.str_short()}, which are made of {len(parts)}."
            )
        found += [(i, s, a) for s, a in zip(own, parts, strict=True)]
    return found


def check_ranks_and_sizes(
    f: Callable[..., object],
    names: Names,
    specs: Sequence[object],
    avals: Sequence[ShapedArray],
    mesh: BaseMesh,
) -> None:
    for i, spec, aval in _pairs(specs, avals):
        if len(spec) > aval.ndim:
            scalar = (
                "" if aval.ndim else "\n  For scalars consider using an in_specs entry of `P()`."
            )
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given an in_specs entry "
                "which is too long to be compatible with the corresponding input value from the "
                f"function:\n    in_specs is {spec} which has length {len(spec)}\n"
                f"    {names[i]} has shape {aval.str_short()}, which has rank {aval.ndim} (and "
                f"{aval.ndim} < {len(spec)})\n  Entries in in_specs must be of length no greater "
                f"than the number of axes in the corresponding input value.{scalar}"
            )
        for axis, entry in enumerate(spec.partitions):
            n = math.prod(mesh.sizes[name] for name in entry_names(entry))
            if aval.shape[axis] % n:
                axes = "mesh axis" if len(entry_names(entry)) == 1 else "mesh axes"
                raise ValueError(
                    f"shard_map applied to the function '{fun_name(f)}' was given argument arrays "
                    "with axis sizes that are not evenly divisible by the corresponding mesh "
                    f"axis sizes:\n    {_mesh_text(mesh)}\n    {names[i]} of shape "
                    f"{aval.str_short()} corresponds to in_specs of value {spec}, which maps "
                    f"array axis {axis} (of size {aval.shape[axis]}) to {axes} {entry!r} (of size "
                    f"{n}), but {n} does not evenly divide {aval.shape[axis]}\n"
                    "  Change the mesh, or pad the argument."
                )


def out_specs_of(
    f: Callable[..., object], out_specs: object, outs: Sequence[Value], tree: PyTree, where: Devices
) -> list[Any]:
    """The spec of each result, checked against its type."""
    specs = pytrees.flatten_axes("shard_map out_specs", tree, out_specs)
    specs = [PartitionSpec() if s is None else s for s in specs]
    check_names("out_specs", specs, where)
    for i, spec, aval in _pairs(specs, list(map(typeof, outs))):
        result = f"{fun_name(f)}(*args){pytrees.keystr(list(pytrees.leaf_paths(tree))[i])}"
        if len(spec) > aval.ndim:
            scalar = (
                "\n  Of a scalar it is jax.P(); add an axis to scalars that differ from device to "
                "device, x[None], so that they can be put together."
                if not aval.ndim
                else ""
            )
            raise ValueError(
                f"shard_map applied to the function '{fun_name(f)}' was given an out_specs entry "
                "which is too long to be compatible with the corresponding output value from the "
                f"function:\n    out_specs is {spec} which has length {len(spec)}\n"
                f"    {result} has shape {aval.str_short()}, which has rank {aval.ndim} (and "
                f"{aval.ndim} < {len(spec)})\n  Entries in out_specs must be of length no greater "
                f"than the number of axes in the corresponding output value.{scalar}"
            )
        if where.check_vma and spec.reduced != aval.reduced & where.manual:
            raise ValueError(
                "out_specs passed to shard_map should be equal to the reduced present on the "
                f"out_aval. Got out_specs={spec} and "
                f"out_aval={aval.str_short(short_dtypes=True)}\n    {result}\n"
                "  Cast it with jax.lax.pcast(x, axes, to='reduced')."
            )
        if where.check_vma and spec.combined != _combined(aval):
            raise ValueError(
                "out_specs passed to shard_map should be equal to the unreduced_kind present on "
                f"the out_aval. Got out_specs={spec} and "
                f"out_aval={aval.str_short(short_dtypes=True)}\n    {result}"
            )
        extra = (
            (aval.vma | aval.unreduced) & where.manual - set(spec.names()) - spec.unreduced
            if where.check_vma
            else ()
        )
        if extra:
            raise ValueError(_not_replicated(f"'{fun_name(f)}'", result, aval, spec, extra, where))
    return specs


def _combined(aval: ShapedArray) -> str:
    return "" if aval.partition is None else aval.partition.spec.combined


def _not_replicated(
    function: str,
    result: str,
    aval: ShapedArray,
    spec: PartitionSpec,
    extra: frozenset[str],
    where: Devices,
) -> str:
    def listed(names: frozenset[str]) -> str:
        manual = [str(n) for n in where.mesh.axis_names if n in names and n in where.manual]
        return f"{{{','.join(manual)}}}"

    return (
        f"shard_map applied to the function {function} was given out_specs which require "
        "replication which can't be statically inferred given the mesh:\n"
        f"    {_mesh_text(where.mesh)}\n    {result}: {aval.str_short(short_dtypes=True)}, "
        f"out_specs is {spec} which implies that the corresponding output value is only varying "
        f"across mesh axes {listed(frozenset(spec.names()))} and not {listed(extra)}, but it was "
        f"inferred to be possibly varying over {listed(aval.vma | aval.unreduced)}\n"
        "  Check if these output values are meant to be replicated over those mesh axes: sum or "
        "gather them there (jax.lax.psum), or name the axes in out_specs. If they are equal all "
        "the same, pass the check_vma=False argument to `jax.shard_map`."
    )
