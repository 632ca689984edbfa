"""Sharding rules.

They give the partition of an operation's results over Explicit mesh axes.

A rule names the axes of operands and results by labels, as a contraction is written: axes of one
label lie over the same mesh axes. `Primitive.shard(*avals, **params)` returns a `Labels`. Here they
are applied, and the labels of the common families made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._base.errors import NonlinearOnPartsError, ShardingTypeError
from teucer._core import array_ops, dialects
from teucer._core.provided import provided
from teucer._core.trace import typeof
from teucer._core.types import DEVICE, ShapedArray
from teucer._devices import forbidden
from teucer._devices.specs import (
    AS_IN_0_12,
    UNCONSTRAINED,
    DuplicateSpecError,
    PartitionSpec,
    UnreducedKind,
    entry_names,
    kind_within,
)

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Primitive
    from teucer._core.typing import Aval, Dims, Params, Partition, Size, Value


Axes = tuple[Any, ...]
NOTHING: frozenset[Any] = frozenset()


class Labels(NamedTuple):
    """Labels of the axes of operands and of results; the last one of the results is for all that
    follow.

    An axis of label None, or that is not named, must not be partitioned. A label that only operands
    have is summed over.
    remedy: what the user can do where the rule does not allow a partition. Words of messages, where
    the common ones do not fit: whole: of an axis that must not be partitioned. alike: of axes that
    differ. doing: the name of the operation.
    """

    operands: Sequence[Axes]
    results: Sequence[Axes]
    remedy: str = (
        "Lay the operand out otherwise with jax.reshard, or let the compiler partition: "
        "jax.sharding.auto_axes."
    )
    whole: str = ""
    alike: str = ""
    doing: str = ""


def every(x: Aval) -> Axes:
    """Labels of all axes of x, by position."""
    return tuple(range(x.ndim))


def aligned(primitive: Primitive, *avals: Aval, **params: object) -> Labels:
    """The rule of operations on corresponding elements, of operands of one shape or scalars."""
    labels = max(map(every, avals), key=len, default=())
    return Labels([every(a) for a in avals], [labels])


def alike(said: str) -> Callable[..., Labels]:
    """The rule of operations whose partitioned operands must lie alike. said: the error if they do
    not."""

    def rule(primitive: Primitive, *avals: Aval, **params: object) -> Labels:
        if len({a.partition.spec for a in avals if getattr(a, "partition", None) is not None}) > 1:
            raise ShardingTypeError(
                f"{said}. Got {_listed(avals)}\n  {primitive}: lay one out as the other with "
                "jax.reshard."
            )
        return aligned(primitive, *avals)

    return rule


def called(doing: str) -> Callable[..., Labels]:
    """The rule `aligned` of an operation that messages call by this name."""

    def rule(primitive: Primitive, *avals: Aval, **params: object) -> Labels:
        return aligned(primitive, *avals)._replace(doing=doing)

    return rule


def kept(x: Aval, dims: Sequence[int]) -> Axes:
    """Labels of the axes of x but some."""
    return tuple([i for i in range(x.ndim) if i not in dims])


def whole(x: Aval, dims: Sequence[int]) -> Axes:
    """Labels of x that forbid partitions along some axes."""
    return tuple(None if i in dims else i for i in range(x.ndim))


def leading(n: int, avals: Sequence[Aval]) -> Labels:
    """The rule of operations that are the same for each element of their n leading axes, and take
    the others whole."""
    return Labels([tuple(range(min(n, a.ndim))) for a in avals], [tuple(range(n))])


def laid_out(
    primitive: Primitive, avals: Sequence[Aval], params: Params, outs: tuple[Aval, ...]
) -> tuple[Any, ...]:
    """The types of results with their partition, the manual mesh axes over which they vary, and
    their memory.

    Those of primitives that carry jaxprs have both; a primitive that is given the sharding of its
    result has that one. Raises ShardingTypeError where partitions of operands do not go together,
    ValueError if they are over different meshes.
    """
    outs = _in_memory(primitive, avals, _varied(primitive, avals, params, outs))
    sharding = None
    for aval in avals:
        own = getattr(aval, "partition", None)  # a token has none
        if own is not None:
            if sharding is not None and sharding.mesh.shape_tuple != own.mesh.shape_tuple:
                raise ValueError(
                    f"Mesh for all inputs should be equal. Got one mesh: {sharding.mesh} and "
                    f"another mesh: {own.mesh}\n  {primitive}: {_listed(avals)}"
                )
            sharding = own
    if sharding is None:
        return outs
    rule = primitive.shard(*avals, **params)
    if rule is None:
        return outs
    sums = of_sums(primitive, avals)
    if (params.get("out_sharding") or params.get("sharding")) is not None:
        return outs
    entries = _entries(primitive, avals, rule)
    return tuple(
        [
            _laid_out(
                rule.doing or primitive,
                avals,
                out,
                [entries.get(label) for label in _named(rule, i)],
                sharding,
                sums,
            )
            for i, out in enumerate(outs)
        ]
    )


def _recorded(
    primitive: Primitive, avals: Sequence[Aval], params: Params, outs: tuple[Aval, ...]
) -> tuple[Any, ...]:
    """As `laid_out`, of an operation that a program records."""
    outs = laid_out(primitive, avals, params, outs)
    if forbidden.no_collectives.value:
        forbidden.check(primitive, avals, params, outs)
    return outs


def _varied(
    primitive: Primitive, avals: Sequence[Aval], params: Params, outs: tuple[Aval, ...]
) -> tuple[Any, ...]:
    """The types of results, which vary over the manual axes over which some operand does unless a
    rule says otherwise.

    Types that libraries give say it themselves.
    """
    if primitive.higher_order or dialects.high[type(primitive)]:
        return outs
    vma = varies_over(avals)
    varies = dialects.varies.of(primitive)
    if varies is not None:
        vma = varies(vma, *avals, **params)
    return tuple(
        [
            out.update(vma=vma) if isinstance(out, ShapedArray) and out.vma != vma else out
            for out in outs
        ]
    )


def _in_memory(
    primitive: Primitive, avals: Sequence[Aval], outs: tuple[Aval, ...]
) -> tuple[Any, ...]:
    """The types of results, which are in the memory of the operands.

    Raises ValueError for operands, other than scalars, that are in several.
    """
    if primitive.higher_order or dialects.relocates[type(primitive)]:
        return outs
    arrays = [a for a in avals if isinstance(a, ShapedArray)]
    spaces = [a.memory_space for a in arrays if a.ndim] or [
        a.memory_space for a in arrays if a.memory_space is not DEVICE
    ]
    if not spaces:
        return outs
    first = spaces[0]
    if any(space is not first for space in spaces):
        raise ValueError(
            f"memory_space of all inputs passed to `{primitive}` must be the same.\n"
            f"    operands: {_listed(avals)}\n  Move one with jax.device_put(x, "
            "jax.memory.Space.Device), or Host."
        )
    return tuple(
        [
            out.update(memory_space=first)
            if isinstance(out, ShapedArray) and out.memory_space is not first
            else out
            for out in outs
        ]
    )


def varies_over(avals: Sequence[Aval]) -> frozenset[Any]:
    """The manual axes over which some value of these types varies."""
    return NOTHING.union(*[aval.vma for aval in avals if isinstance(aval, ShapedArray)])


def _named(rule: Labels, i: int) -> Axes:
    return rule.results[min(i, len(rule.results) - 1)]


def _entries(primitive: Primitive, avals: Sequence[Aval], rule: Labels) -> dict[Any, Any]:
    """For each label the mesh axes that its axes lie over."""
    found: dict[Any, Any] = {}
    twice = set()
    for labels, aval in zip(rule.operands, avals, strict=True):
        if getattr(aval, "partition", None) is None:
            continue
        for i, entry in enumerate(aval.partition.spec.partitions):
            label = labels[i] if i < len(labels) else None
            if entry is None:
                continue
            if label is None:
                said = rule.whole and f"{rule.whole}.\n  "
                raise ShardingTypeError(
                    f"{said}{primitive}: axis {i} of an operand must not be partitioned over mesh "
                    f"axes, and is over {entry!r}.\n    operands: {_listed(avals)}\n"
                    f"  {rule.remedy}"
                )
            if label in found:
                twice.add(label)
                if found[label] != entry:
                    said = rule.alike or f"{primitive} got incompatible shardings for broadcasting"
                    raise ShardingTypeError(
                        f"{said}: {', '.join(_spec(a) for a in avals)}.\n"
                        f"    operands: {_listed(avals)}\n  Lay one out as the other with "
                        "jax.reshard."
                    )
            found[label] = entry
    contracted = [label for label in twice if not any(label in labels for labels in rule.results)]
    if contracted:
        raise ShardingTypeError(
            "Contracting dimensions are sharded and it is ambiguous how the output should be "
            "sharded. Please specify the output sharding via the `out_sharding` parameter.\n"
            f"  {primitive}: {_listed(avals)}, contracted over "
            f"{', '.join(repr(found[label]) for label in contracted)}"
        )
    return found


def _laid_out(
    doing: object,
    avals: Sequence[Aval],
    out: Aval,
    entries: Sequence[object],
    sharding: Partition,
    sums: Sums,
) -> Any:
    if not any(e is not None for e in entries) and sums is WHOLE:
        return out
    spec = PartitionSpec(
        *entries,
        *[None] * (out.ndim - len(entries)),
        unreduced=sums.unreduced,
        reduced=sums.reduced,
        unreduced_kind=sums.kind,
    )
    sizes = sharding.mesh.sizes
    for i, entry in enumerate(spec.partitions):
        n = 1
        for name in entry_names(entry):
            n *= sizes[name]
        if out.shape[i] % n:
            raise ShardingTypeError(
                f"{doing} on sharded dims where out dim ({out.shape[i]}) is not divisible by mesh "
                f"axes ({n}) with spec ({entry}) is not implemented. Got input types "
                f"{_listed(avals)} and output shape={out.shape}\n"
                "  Lay the operand out otherwise first with jax.reshard."
            )
    try:
        return out.update(sharding=sharding.with_spec(spec))
    except DuplicateSpecError:
        shown = ",".join(
            f"{n}@{e}" if e else str(n) for n, e in zip(out.shape, spec.partitions, strict=True)
        )
        kind = out.str_short(short_dtypes=True).partition("[")[0]
        raise ShardingTypeError(
            f"{doing} operation with inputs: {_listed(avals)} produces an illegally sharded "
            f"result: {kind}[{shown}]\n  A mesh axis partitions one axis of an array. Lay an "
            "operand out otherwise with jax.reshard, or say the sharding of the result with "
            "out_sharding."
        ) from None


class Sums(NamedTuple):
    """The mesh axes over which a value is still to be summed, or combined as `kind` says, and those
    over which its cotangent is still to be summed."""

    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    kind: UnreducedKind | None = None


WHOLE = Sums(NOTHING, NOTHING)


def of_sums(primitive: Primitive, avals: Sequence[Aval]) -> Sums:
    """The mesh axes over which results are still to be summed, from the types of operands, and from
    how the primitive is linear (`Primitive.linear_in`).

    Raises ShardingTypeError where parts of a sum cannot be operands, or operands do not go
    together.
    """
    arrays = [a for a in avals if isinstance(a, ShapedArray)]
    unreduced = NOTHING.union(*[a.unreduced for a in arrays])
    reduced = NOTHING.union(*[a.reduced for a in arrays]) - unreduced
    kind = None
    if unreduced:
        kind = _check_kind(primitive, arrays)
        _check_unreduced(primitive, avals, kind)
    if dialects.drops_reduced[type(primitive)]:
        reduced = NOTHING
    elif reduced:
        _check_reduced(primitive, arrays, reduced)
    return Sums(unreduced, reduced, kind) if unreduced or reduced else WHOLE


def _check_kind(primitive: Primitive, arrays: Sequence[Aval]) -> UnreducedKind | None:
    """How operands that are unreduced parts are to be combined: all in one way. Parts of a maximum
    or minimum may only be operands of primitives that move elements, or that take the same extreme
    (`combines`)."""
    kinds = {kind for a in arrays if (kind := kind_within(a, a.unreduced)) is not None}
    for kind in kinds - {UnreducedKind.sum}:
        if len(kinds) > 1 or not (primitive.rearranges or _combines(primitive, kind)):
            raise NonlinearOnPartsError(
                f"{primitive} cannot take parts of which the {kind.name} is still to be taken over "
                f"mesh axes. Got {_listed(arrays)}\n  Take it first, with jax.reshard."
            )
    return next(iter(kinds), None)


def _combines(primitive: Primitive, kind: UnreducedKind) -> bool:
    rule = combines.of(primitive)
    return rule is not None and rule(kind)


# combines(kind) -> bool: whether the primitive may act on each part of a maximum or minimum that is
# still to be taken.
combines = dialects.Table()


@combines.rule
def in_place(primitive: Primitive, kind: UnreducedKind) -> bool:
    """The rule `combines` of primitives whose results are elements of their operands, at places
    that these do not decide."""
    return True


def _check_unreduced(primitive: Any, avals: Sequence[Aval], combined: UnreducedKind | None) -> None:
    """Check that results are linear in the operands that are still to be summed."""
    kind, of_each = (
        primitive.linear_in,
        [a.unreduced if isinstance(a, ShapedArray) else NOTHING for a in avals],
    )
    if kind is None and combined is not UnreducedKind.sum:
        kind = "sum"
    if kind == "product":
        named = [i for i, axes in enumerate(of_each) if axes]
        if len(named) > 1:
            raise ShardingTypeError(
                f"lhs and rhs to `{primitive}` cannot be unreduced since {primitive} is bilinear. "
                f"Got lhs={set(of_each[0])}, rhs={set(of_each[1])}\n"
                "  Reduce one with jax.reshard first."
            )
        left, right = ("LHS", "RHS") if named[0] == 0 else ("RHS", "LHS")
        if avals[1 - named[0]].reduced != of_each[named[0]]:
            raise ShardingTypeError(
                f"{right} should be reduced along the same axes {left} is unreduced on. Got "
                f"lhs={avals[0].str_short()} and rhs={avals[1].str_short()}\n"
                "  Sum first, or lay the other factor out as jax.P(reduced=...), with "
                "jax.reshard."
            )
        return
    among = {"sum": range(len(avals)), "cases": range(1, len(avals))}.get(kind, kind)
    if among is None or any(axes and i not in among for i, axes in enumerate(of_each)):
        raise NonlinearOnPartsError(
            f"{primitive} is a non-linear operation and cannot accept input that is unreduced; "
            f"the unreduced rule for {primitive} is not implemented. Got {_listed(avals)}\n"
            "  Sum first, with jax.reshard."
        )
    # A number beside arrays is zero if it is allowed, as the value that pads.
    different = {of_each[i] for i in among if kind == "sum" or avals[i].ndim or of_each[i]}
    if len(different) > 1 and NOTHING in different:
        which = ("lhs", "rhs") if of_each[0] else ("rhs", "lhs")
        raise ShardingTypeError(
            f"{which[0]} is unreduced while {which[1]} is not. `{primitive}` operation does not "
            f"allow this because there will be implicit communication. Please reduce {which[0]} "
            f"via `reshard` before calling `{primitive}`.\n    operands: {_listed(avals)}"
        )
    if len(different) > 1:
        raise ShardingTypeError(
            f"lhs and rhs to `{primitive}` must be unreduced along the same mesh axes. Got "
            f"{_listed(avals)}\n  Sum first, with jax.reshard."
        )


def parts_of_sum(ct: Aval, axes: Sequence[int], aval: ShapedArray) -> Any:
    """How the sum of a cotangent over axes is laid out that is still to be summed over mesh axes,
    as `aval` wants; or None."""
    if not aval.reduced or ct.partition is None:
        return None
    spec = ct.partition.spec
    left = aval.reduced.intersection(n for i in axes for n in entry_names(spec[i]))
    rest = [e for i, e in enumerate(spec.partitions) if i not in axes]
    return (
        ct.partition.with_spec(spec.update(partitions=rest, unreduced=spec.unreduced | left))
        if left
        else None
    )


def gives_parts(primitive: Primitive, avals: Sequence[Aval], outs: Sequence[Aval]) -> bool:
    """Whether the results are parts of sums: because operands are parts, or because operands are
    divided along axes that the primitive sums over."""
    if primitive.higher_order or (
        primitive.linear_in is None
        and not dialects.drops_reduced[type(primitive)]
        and combines.of(primitive) is None
    ):
        return False
    wanted = NOTHING.union(*[a.unreduced for a in outs])
    specs = [a.partition.spec for a in avals if a.partition is not None]
    return bool(wanted) and wanted <= NOTHING.union(*[s.unreduced.union(s.names()) for s in specs])


def check_parts(
    x: Aval,
    axes: Sequence[int],
    out_sharding: Partition | None,
    name: str = "reduce_sum",
    kind: UnreducedKind = UnreducedKind.sum,
) -> None:
    """Check that a reduction of x over axes may be laid out so, if over some mesh axes it is still
    to be taken."""
    wanted = frozenset() if out_sharding is None else out_sharding.spec.unreduced
    over = (
        () if x.partition is None else (n for i in axes for n in entry_names(x.partition.spec[i]))
    )
    if not wanted <= x.unreduced.union(over):
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be in operand's specs that were "
            f"{name if AS_IN_0_12 else 'summed'} over. Got "
            f"operand={x.str_short()}, axes={set(axes)}, unreduced_spec={set(wanted)}"
        )
    if wanted and out_sharding is not None and out_sharding.spec.unreduced_kind is not kind:
        raise ShardingTypeError(
            f"{name} requires `out_sharding`'s unreduced_kind to be {kind} but got "
            f"{out_sharding.spec}"
        )


def check_same_parts(name: str, x: Aval, out_sharding: Partition | None) -> None:
    """Check that a given sharding of a result leaves the same mesh axes to be summed as x, in
    values and in cotangents."""
    if out_sharding is None:
        return
    for what in ("unreduced", "reduced"):
        own, wanted = getattr(x, what), getattr(out_sharding.spec, what)
        if own != wanted or (own and x.partition.spec.combined != out_sharding.spec.combined):
            how = (
                f"must be {what} over the same mesh axes as operand"
                if own
                else f"cannot contain {what} axes"
            )
            raise ValueError(
                f"{name}: out_sharding {how}. Got operand={x.str_short()} and "
                f"out_sharding={out_sharding.spec}\n  Change that with jax.reshard."
            )


def _check_reduced(
    primitive: Primitive, arrays: Sequence[Aval], reduced: frozenset[object]
) -> None:
    """Check that cotangents of all operands are sums over the same axes; numbers and parts of sums
    are left out."""
    kinds = {(a.shape, a.dtype) for a in arrays if a.ndim}
    for aval in arrays:
        lacking = reduced - aval.reduced - aval.unreduced
        apart = len(kinds) > 1 and not dtypes.issubdtype(
            aval.dtype, np.inexact
        )  # places, or a condition
        if not lacking or not aval.ndim or apart:
            continue
        over = aval.vma.union(aval.partition.spec.names() if aval.partition is not None else ())
        if lacking & over:
            raise ShardingTypeError(
                "Inputs cannot be sharded/varying on the same axes that another input is reduced "
                "on. Reshard the input which is reduced to be sharded on the mesh axes it is "
                "reduced on via `jax.sharding.reshard(inp, jax.P(...))`. Got input type: "
                f"{aval.str_short()} and reduced spec: {set(reduced)}\n"
                f"  {primitive}: {_listed(arrays)}"
            )
        raise ShardingTypeError(
            "Inputs cannot be replicated on the same axes that another input is reduced on. Got "
            f"input type: {aval.str_short()} and reduced spec: {set(reduced)}\n"
            f"  {primitive}: {_listed(arrays)}\n  Lay it out as jax.P(reduced=...) with "
            "jax.reshard."
        )


def _listed(avals: Sequence[Aval]) -> str:
    return ", ".join(a.str_short(short_dtypes=True) for a in avals)


def _spec(aval: Aval) -> str:
    return str((None,) * aval.ndim if aval.partition is None else aval.partition.spec.partitions)


def reshaped(x: Aval, shape: Sequence[Size]) -> PartitionSpec:
    """The partition of x in another shape: where axes are merged it goes with the first of them,
    split with the parts it fills. An axis of size 1 keeps its own if it is where it was, and more
    than such axes comes or goes.

    Raises ShardingTypeError where that does not say it.
    """
    sizes = x.partition.mesh.sizes
    entries: list[tuple[Any, ...]] = [()] * len(shape)
    for old, new in _groups(x.shape, shape):
        names = [entry_names(x.partition.spec[i]) for i in old]
        filled = sum(1 for _ in itertools.takewhile(bool, names))
        left = [n for group in names for n in group]
        possible = (len(old) == 1 or len(new) == 1) and not any(names[filled:])
        for j in new if possible else ():
            left_over = shape[j]
            while left and left_over % sizes[left[0]] == 0:
                left_over //= sizes[left[0]]
                entries[j] = (*entries[j], left.pop(0))
            if left_over != 1:
                break
        if left:
            raise ShardingTypeError(
                "This reshape is not supported. Please specify the sharding of the output via "
                "the `out_sharding` argument of jax.lax.reshape. Got operand type: "
                f"{x.str_short()}, new sizes: {tuple(shape)}"
            )
    spec: PartitionSpec = x.partition.spec
    if [d for d in x.shape if d != 1] != [d for d in shape if d != 1]:
        for i, (old_size, size) in enumerate(zip(x.shape, shape, strict=False)):
            if old_size == 1 == size:
                entries[i] = entry_names(spec[i])
    return spec.update(partitions=entries)


def _groups(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """The axes of two shapes in the smallest consecutive groups of equal size; axes of size 1 are
    in none."""
    left, right = [[i for i, d in enumerate(shape) if d != 1] for shape in (old, new)]
    groups = []
    while (left or right) and 0 not in old:
        group: tuple[list[int], list[int]] = ([], [])
        sizes = [1, 1]
        while not (group[0] and group[1]) or sizes[0] != sizes[1]:
            side = 0 if sizes[0] <= sizes[1] and left else 1
            axis = (left, right)[side].pop(0)
            group[side].append(axis)
            sizes[side] *= (old, new)[side][axis]
        groups.append(group)
    return groups


def batched(
    sharding: Partition | None, ndim: int, at: int, axis: Axis, args: Sequence[Value], dims: Dims
) -> Any:
    """The sharding given for a result of `ndim` axes, with a batch axis at `at` that lies as the
    operands' batch axis."""
    if sharding is None:
        return None
    entry = axis.spmd_name
    for x, dim in zip(args, dims, strict=True):
        own = typeof(x).partition
        if own is not None and dim is not None:
            entry = own.spec[dim]
    return sharding.inserted(ndim, at, entry)


def as_primal(ct: Value, aval: ShapedArray) -> Any:
    """A cotangent laid out as the value whose cotangent it is."""
    own, wanted = typeof(ct).partition, aval.cotangent_aval().partition
    if own is wanted:
        return ct
    if wanted is None:
        # Axes of a cotangent that are not said to be divided may still be: the compiler need not
        # gather it, since it is summed next.
        wanted = own.with_spec(() if own.spec.unreduced else (UNCONSTRAINED,) * typeof(ct).ndim)
    return array_ops.lay_out(ct, wanted)


def cast_alike(xs: tuple[Value, ...]) -> tuple[Any, ...]:
    """Values, each cast to vary over the manual mesh axes over which some of them does.

    Numbers that go with arrays whose cotangents are sums over mesh axes are cast to have such
    cotangents too.
    """
    of_each = [aval.vma if isinstance(aval := typeof(x), ShapedArray) else None for x in xs]
    known = [vma for vma in of_each if vma is not None]
    if any(known):
        union = frozenset().union(*known)
        xs = tuple(
            [
                x if vma is None or vma == union else provided.vary(x, union - vma)
                for x, vma in zip(xs, of_each, strict=True)
            ]
        )
    return reduced_alike(xs)


def reduced_alike(xs: tuple[Value, ...]) -> tuple[Any, ...]:
    """Values; numbers beside arrays whose cotangents are sums over mesh axes are cast to have such
    cotangents too."""
    avals = [typeof(x) for x in xs]
    model = next((a.partition for a in avals if isinstance(a, ShapedArray) and a.reduced), None)
    if model is None or any(isinstance(a, ShapedArray) and a.unreduced for a in avals):
        return xs
    reduced = PartitionSpec(reduced=model.spec.reduced)
    return tuple(
        [
            provided.reduce_cotangents(x, model.with_spec(reduced))
            if isinstance(a, ShapedArray)
            and not a.ndim
            and not a.reduced
            and not a.vma
            and dtypes.issubdtype(a.dtype, np.inexact)
            else x
            for x, a in zip(xs, avals, strict=True)
        ]
    )


provided.fill(laid_out=_recorded, alike=cast_alike)
