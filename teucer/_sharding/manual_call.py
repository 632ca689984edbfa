"""`shard_map` as a primitive.

A jaxpr that each device of a mesh runs on its parts of the arguments.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._core import array_ops, axes, dialects, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn
from teucer._core.primitive import Axis, Primitive, Undefined
from teucer._core.reference_types import at_operands
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._devices import meshes
from teucer._devices.meshes import AxisType, Mesh
from teucer._devices.parts import low_specs, names_of_spec, whole_aval
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec, entry_names, kind_within
from teucer._dialects.high.lowering import lowered, refuse_mutable, taken_apart
from teucer._dialects.meshes.manual import manual_computation
from teucer._dialects.references.discharge import discharged
from teucer._optimize.dce import dce_closed, filtered, narrowed
from teucer._transform.batch import batch_flat, unmapped_aval
from teucer._transform.jit_calls import hoisted, jaxpr_uses_axis
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._transform.partial import split_jaxpr
from teucer._transform.transpose import transpose_jaxpr
from teucer.lax._arithmetic import div
from teucer.lax._collectives.reductions import psum_p
from teucer.lax._collectives.varying import cast
from teucer.lax._control.bodies import run

if TYPE_CHECKING:
    from teucer._core.typing import Array, Aval, Avals, Cotangent, Dims, Tangents, Value, Values
    from teucer._devices.meshes import BaseMesh
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._transform.partial import PartialTrace

    class ShardMapParams(TypedDict):
        jaxpr: ClosedJaxpr
        mesh: BaseMesh
        in_specs: Sequence[PartitionSpec]
        out_specs: Sequence[PartitionSpec]
        newly_manual_axes: frozenset[str]
        check_vma: bool


@contextlib.contextmanager
def inside(mesh: BaseMesh, manual: frozenset[str], check_vma: bool) -> Iterator[None]:
    """In the `with` block one writes for each device: the manual axes are in force, and are Manual
    axes of the mesh in force."""
    abstract = mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    told = manual - meshes.left_out(mesh) if check_vma else frozenset()
    if check_vma:  # types are asked for varying axes only once there is one that varies
        ShapedArray((), np.dtype(np.bool_), vma=told)
    with (
        axes.extended({name: mesh.sizes[name] for name in manual - told}),
        axes.extended({name: mesh.sizes[name] for name in told}, manual=True),
        meshes.use_abstract_mesh(abstract),
    ):
        yield


def named_over(
    aval: Aval, mesh: BaseMesh, manual: frozenset[str], check_vma: bool
) -> tuple[Any, ...]:
    """The manual axes over which the parts of a value may differ, in the order of the mesh."""
    differ = aval.vma | aval.unreduced if check_vma else manual
    return tuple(name for name in mesh.axis_names if name in manual and name in differ)


def residual_spec(aval: Aval, mesh: BaseMesh, manual: frozenset[str], check_vma: bool) -> Any:
    """The sharding of a value's stacked parts between calls; kinds of sums in the type stay."""
    if aval.is_high:
        high: Any = aval  # a library's type
        return high.nospec(
            mesh, check_vma, tuple(name for name in mesh.axis_names if name in manual)
        )
    varying = [
        name for name in named_over(aval, mesh, manual, check_vma) if name not in aval.unreduced
    ]
    unreduced = aval.unreduced & manual
    return PartitionSpec(
        tuple(varying),
        unreduced=unreduced,
        reduced=aval.reduced & manual,
        unreduced_kind=kind_within(aval, unreduced),
    )


def stacked(x: Array) -> Any:
    """A part of a value as one element along a new axis in front, over which all parts can be laid
    side by side."""
    return array_ops.reshape(x, (1, *np.shape(x)))


def stacked_aval(aval: ShapedArray) -> Any:
    """The type of `stacked`'s result."""
    sharding = None if aval.partition is None else aval.partition.inserted(aval.ndim, 0, None)
    return aval.update(shape=(1, *aval.shape), sharding=sharding)


def unstacked(x: Array) -> Any:
    """The inverse of `stacked`."""
    return array_ops.reshape(x, np.shape(x)[1:])


def _as_mapped(
    operands: Sequence[Any], *, jaxpr: ClosedJaxpr, mesh: BaseMesh, **params: object
) -> structure.Mapped:
    return structure.Mapped(jaxpr, operands, mesh)


@structure.structured(structure.Mapped, _as_mapped, lambda m: {"jaxpr": m.body, "mesh": m.mesh})
@final
class ShardMap(Primitive):
    """Each device of a mesh evaluates `jaxpr` on its parts of the operands; results consist of the
    devices' results.

    mesh: with the types that its axes have outside. newly_manual_axes: those along which the
    program is written by hand.
    in_specs, out_specs: over these axes alone. check_vma: whether types say over which of them
    values vary. (C1) jaxpr has no constants.
    """

    __slots__ = ()
    name = "shard_map"
    higher_order = True
    multiple_results = True

    def within(self, params: ShardMapParams) -> Any:
        return inside(params["mesh"], params["newly_manual_axes"], params["check_vma"])

    def types(self, *avals: ShapedArray, **params: Unpack[ShardMapParams]) -> Any:
        mesh, manual, check_vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
        return tuple(
            whole_aval(aval, spec, mesh, manual, check_vma)
            for aval, spec in zip(params["jaxpr"].out_avals, params["out_specs"], strict=True)
        )

    def effects(self, *avals: ShapedArray, **params: Unpack[ShardMapParams]) -> Any:
        jaxpr = params["jaxpr"]
        return at_operands(jaxpr.effects, jaxpr.jaxpr.invars)

    @dialects.on_values.rule
    def on_values(
        self, operands: Values, groups: Sequence[int | None], **params: Unpack[ShardMapParams]
    ) -> Any:
        """References are divided as arrays are, and their arrays are assembled from the devices'
        writes."""
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        with self.within(params):
            inner = discharged(jaxpr, groups)
        of_group = {g: spec for g, spec in zip(groups, in_specs, strict=True) if g is not None}
        more = [of_group[g] for g in inner.changed]
        for aval, spec in zip(inner.jaxpr.out_avals[inner.n_outs :], more, strict=True):
            extra = (aval.vma & params["newly_manual_axes"]) - names_of_spec(spec)
            if extra:
                raise ValueError(
                    "shard_map: what is written to a reference differs over mesh axes over which "
                    f"it is not divided.\n    {aval.str_short(short_dtypes=True)} is written, "
                    f"in_specs has {spec}\n  Name the axes {sorted(extra, key=str)} in in_specs, "
                    "or sum or gather there before it is written."
                )
        return inner.split(
            self.on_jaxpr(inner.jaxpr, operands, in_specs, (*out_specs, *more), params)
        )

    @dialects.on_low.rule
    def on_low(self, operands: Values, avals: Avals, **params: Unpack[ShardMapParams]) -> Any:
        """The call on low values: the parts of a high value are divided as its spec says."""
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        refuse_mutable(self, avals)
        given = taken_apart(operands, avals)
        with self.within(params):
            low = lowered(jaxpr)
            specs = [
                s
                for aval, spec in zip(jaxpr.out_avals, out_specs, strict=True)
                for s in low_specs(spec, aval)
            ]
            body = _laid_out(low.jaxpr, specs, params) if params["check_vma"] else low.jaxpr
        ins = [s for aval, spec in zip(avals, in_specs, strict=True) for s in low_specs(spec, aval)]
        outs = self.on_jaxpr(body, given.low, ins, specs, params)
        return low._replace(outs=self.types(*avals, **params)).raised(outs, operands)

    def evaluate(self, *args: Value, **params: Unpack[ShardMapParams]) -> Any:
        return run(self, args, params, params["jaxpr"], _placements(params))

    def lower(self, ctx: Context, *values: Written, **params: Unpack[ShardMapParams]) -> Any:
        jaxpr = params["jaxpr"]
        return manual_computation(
            ctx,
            params["mesh"],
            params["newly_manual_axes"],
            values,
            params["in_specs"],
            jaxpr.in_avals,
            list(ctx.avals_out),
            params["out_specs"],
            lambda *parts: ctx.inline(jaxpr, *parts),
        )

    def on_jaxpr(
        self,
        closed: ClosedJaxpr,
        operands: Sequence[Value],
        in_specs: Sequence[PartitionSpec],
        out_specs: Sequence[PartitionSpec],
        params: ShardMapParams,
    ) -> Any:
        """A call of a transformed jaxpr; the constants that rules have brought in become operands,
        the same on each device."""
        inner, consts = hoisted(closed)
        return self.call(
            *consts,
            *operands,
            **{
                **params,
                "jaxpr": inner,
                "out_specs": tuple(out_specs),
                "in_specs": (*[PartitionSpec()] * len(consts), *in_specs),
            },
        )

    def jvp(self, primals: Values, tangents: Tangents, **params: Unpack[ShardMapParams]) -> Any:
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        moving = [type(t) is not Zero for t in tangents]
        with self.within(params):
            jvp, out_moving = jvp_jaxpr(jaxpr, moving, False)
        operands = (*primals, *filtered(tangents, moving))
        of_tangents = [
            [spec.to_tangent_spec() for spec in filtered(specs, which)]
            for specs, which in ((in_specs, moving), (out_specs, out_moving))
        ]
        outs = self.on_jaxpr(
            jvp, operands, (*in_specs, *of_tangents[0]), (*out_specs, *of_tangents[1]), params
        )
        return split_tangents(outs, out_moving)

    def transpose(
        self, cts: Sequence[Cotangent], *args: Value, **params: Unpack[ShardMapParams]
    ) -> Any:
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        linear = [type(x) is Undefined for x in args]
        given = [type(ct) is not Zero for ct in cts]
        with self.within(params):
            transposed, nonzero = transpose_jaxpr(jaxpr, linear, given)
            if not params["check_vma"]:
                specs = tuple(filtered(filtered(in_specs, linear), nonzero))
                transposed = transposed.kept(
                    ("summed", specs), lambda: _summed(transposed, specs, params)
                )
        ct_specs, cts = (
            [spec.to_ct_spec() for spec in filtered(out_specs, given)],
            filtered(cts, given),
        )
        if not params["check_vma"]:
            # A result that is the same on several devices has its cotangent from all of them
            # together.
            cts = [_share(ct, spec, params) for ct, spec in zip(cts, ct_specs, strict=True)]
        fixed = [not lin for lin in linear]
        outs = iter(
            self.on_jaxpr(
                transposed,
                (*filtered(args, fixed), *cts),
                (*filtered(in_specs, fixed), *ct_specs),
                [spec.to_ct_spec() for spec in filtered(filtered(in_specs, linear), nonzero)],
                params,
            )
        )
        found = iter([next(outs) if nz else None for nz in nonzero])
        return tuple(next(found) if lin else None for lin in linear)

    def partial_eval(
        self, trace: PartialTrace, args: Sequence[Value], params: ShardMapParams
    ) -> Any:
        """Run the known part now, record the rest. Residuals that may differ between devices are
        concatenated, one part for each device."""
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        unknown = tuple(trace.is_unknown(x) for x in args)
        with self.within(params):
            split, known, staged, residual_specs = jaxpr.kept(
                ("shard_map", unknown), lambda: _split(jaxpr, unknown, params)
            )
        is_known, known_outs = [not u for u in unknown], [not u for u in split.unknown_outs]
        known_args, known_specs = filtered(args, is_known), filtered(in_specs, is_known)
        inner, consts = hoisted(known)
        outs = trace.evaluate_known(
            self,
            (*consts, *known_args),
            {
                **params,
                "jaxpr": inner,
                "in_specs": (*[PartitionSpec()] * len(consts), *known_specs),
                "out_specs": (*filtered(out_specs, known_outs), *residual_specs),
            },
        )
        n = sum(known_outs)
        computed, laid = iter(outs[n:]), iter(residual_specs)
        residuals = [next(computed) if f is None else known_args[f] for f in split.forwarded]
        specs = [next(laid) if f is None else known_specs[f] for f in split.forwarded]
        inner, consts = hoisted(staged)
        rest = trace.record(
            self,
            (*consts, *residuals, *filtered(args, unknown)),
            {
                **params,
                "jaxpr": inner,
                "in_specs": (
                    *[PartitionSpec()] * len(consts),
                    *specs,
                    *filtered(in_specs, unknown),
                ),
                "out_specs": tuple(filtered(out_specs, split.unknown_outs)),
            },
        )
        now, later = iter(outs[:n]), iter(rest)
        return tuple(next(later) if u else next(now) for u in split.unknown_outs)

    def batch(self, axis: Axis, args: Values, dims: Dims, **params: Unpack[ShardMapParams]) -> Any:
        jaxpr, in_specs, out_specs = params["jaxpr"], params["in_specs"], params["out_specs"]
        mesh, batched = params["mesh"], tuple(d is not None for d in dims)
        for spec in (*filtered(in_specs, batched), *out_specs):
            if not isinstance(spec, PartitionSpec):
                raise NotImplementedError(
                    f"vmap of shard_map: {spec!r:.100} does not say how a batch of high values is "
                    "divided.\n  Call vmap within the function that shard_map is given."
                )
        over = entry_names(axis.spmd_name)
        if axis.explicit is None and not set(over) <= params["newly_manual_axes"]:
            over = ()
        if any(jaxpr_uses_axis(jaxpr.jaxpr, name) for name in over):
            # an operation that names the axis is between parts of one element of the batch
            over = ()
        over, rest = [
            tuple(n for n in over if (n in params["newly_manual_axes"]) is mine)
            for mine in (True, False)
        ]
        for spec in (*in_specs, *out_specs):
            if names_of_spec(spec).intersection(over):
                raise ValueError(
                    "vmap spmd_axis_name cannot appear in shard_map in_specs got "
                    f"spmd_axis_name={axis.spmd_name!r} and spec {spec}\n"
                    "  vmap over another mesh axis, or leave it out of the specs."
                )
        n = math.prod(mesh.sizes[name] for name in over)
        if axis.size % n:
            raise ValueError(
                f"vmap: the size {axis.size} of the mapped axis is not divisible by that of "
                f"spmd_axis_name {axis.spmd_name!r}, {n}."
            )
        explicit = axis.explicit
        if explicit is not None:
            here = mesh.abstract_mesh.update_axis_types(
                dict.fromkeys(params["newly_manual_axes"], AxisType.Manual)
            )
            explicit = NamedSharding(here, PartitionSpec(rest)) if rest else None
        inner = axis._replace(size=axis.size // n, spmd_name=rest or None, explicit=explicit)
        with self.within(params):
            key = ("shard_map batch", inner, batched, over)
            body, out_batched = jaxpr.kept(
                key, lambda: _batched(jaxpr, inner, batched, frozenset(over), params["check_vma"])
            )

        def spec_of(spec: PartitionSpec, is_batched: bool) -> PartitionSpec:
            return spec.update(partitions=(over, *spec.partitions)) if is_batched else spec

        operands = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        outs = self.on_jaxpr(
            body,
            operands,
            list(map(spec_of, in_specs, batched)),
            list(map(spec_of, out_specs, out_batched)),
            params,
        )
        return outs, tuple(0 if b else None for b in out_batched)

    def uses_axis(self, name: object, params: ShardMapParams) -> bool:
        return (
            name is not None
            and name not in params["newly_manual_axes"]
            and jaxpr_uses_axis(params["jaxpr"].jaxpr, name)
        )

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        closed, taken = dce_closed(eqn.params["jaxpr"], used)
        return narrowed(
            eqn,
            used,
            taken,
            jaxpr=closed,
            in_specs=tuple(filtered(eqn.params["in_specs"], taken)),
            out_specs=tuple(filtered(eqn.params["out_specs"], used)),
        )


shard_map_p = ShardMap()


def _placements(params: ShardMapParams) -> tuple[Any, ...]:
    """The shardings of results, if the specs cover all mesh axes; None if the compiler decides
    about some."""
    mesh, specs = params["mesh"], params["out_specs"]
    if not isinstance(mesh, Mesh) or len(params["newly_manual_axes"]) < len(mesh.axis_names):
        return (None,) * len(specs)
    return tuple(NamedSharding(mesh, spec) for spec in specs)


def as_said(y: Value, spec: PartitionSpec) -> Any:
    """A part of a result, of the type that its spec says."""
    y = array_ops.vary(y, names_of_spec(spec))
    rest = spec.unreduced - typeof(y).unreduced
    return cast(y, rest, "unreduced") if rest else y


def _laid_out(
    low: ClosedJaxpr, specs: Sequence[PartitionSpec], params: ShardMapParams
) -> ClosedJaxpr:
    """A jaxpr on the low values of high values, whose results have the types that their specs say.

    Raises ValueError if one differs along mesh axes over which its spec does not divide it.
    """
    for aval, spec in zip(low.out_avals, specs, strict=True):
        extra = (aval.vma & params["newly_manual_axes"]) - names_of_spec(spec)
        if extra:
            raise ValueError(
                "shard_map: a part of a result of a high type differs over mesh axes that its "
                f"out_specs does not name.\n    {aval.str_short(short_dtypes=True)}, of which the "
                f"spec is {spec}\n  Name the axes {sorted(extra, key=str)} in what its to_lo() "
                "gives, or sum or gather there."
            )
    return stage_jaxpr(
        lambda *args: list(map(as_said, low(*args), specs)), low.in_avals, low.jaxpr.debug_info
    )


def _share(ct: Array, spec: object, params: ShardMapParams) -> Any:
    """A device's share of a cotangent, of a value that is the same on several devices."""
    copies = math.prod(params["mesh"].sizes[name] for name in _same_over(spec, params))
    if copies == 1:
        return ct
    _refuse_sums(typeof(ct))
    return div(ct, np.asarray(copies, typeof(ct).dtype))


def _refuse_sums(aval: ShapedArray) -> None:
    if aval.is_high:
        raise NotImplementedError(
            "shard_map: with check_vma=False the cotangent of a value that is the same on "
            "several devices is a sum over these, which high types do not say.\n"
            f"    type: {aval.str_short()}\n  Leave check_vma=True, or name all mesh axes in its "
            "spec."
        )


def _same_over(spec: object, params: ShardMapParams) -> tuple[Any, ...]:
    """The manual axes over which a value is taken to be the same, and its cotangent to be divided
    among devices."""
    other = names_of_spec(spec)
    if isinstance(spec, PartitionSpec):
        other = other | spec.unreduced | spec.reduced
    return tuple(
        n for n in params["mesh"].axis_names if n in params["newly_manual_axes"] and n not in other
    )


def _summed(
    transposed: ClosedJaxpr, specs: Sequence[PartitionSpec], params: ShardMapParams
) -> ClosedJaxpr:
    """Cotangents summed over the devices that were given the same operand."""

    def total(*args: Value) -> list[Any]:
        outs = []
        for ct, spec in zip(transposed(*args), specs, strict=True):
            rest = _same_over(spec, params)
            if rest:
                _refuse_sums(typeof(ct))
            outs.append(psum_p.call(ct, axes=rest, axis_index_groups=None)[0] if rest else ct)
        return outs

    return stage_jaxpr(total, transposed.in_avals, transposed.jaxpr.debug_info)


def _split(jaxpr: ClosedJaxpr, unknown: tuple[bool, ...], params: ShardMapParams) -> Any:
    """The parts of `split_jaxpr`, between which residuals are stacked, and the specs of these."""
    split = split_jaxpr(jaxpr, unknown)
    n = sum(not u for u in split.unknown_outs)
    info = jaxpr.jaxpr.debug_info

    def known(*args: Value) -> list[Any]:
        outs = split.known(*args)
        return [*outs[:n], *(y if typeof(y).is_high else stacked(y) for y in outs[n:])]

    def staged(*args: Array) -> list[Any]:
        m = len(split.forwarded)
        residuals = [
            unstacked(x) if f is None and not typeof(x).is_high else x
            for x, f in zip(args[:m], split.forwarded, strict=True)
        ]
        return split.staged(*residuals, *args[m:])

    kept = stage_jaxpr(known, split.known.in_avals, info)
    differ = params["newly_manual_axes"]
    if not params["check_vma"] and not jaxpr.effects:
        # Nothing differs along an axis that divides no operand and that no operation names.
        sums = [s.unreduced for s in params["in_specs"] if isinstance(s, PartitionSpec)]
        named = frozenset[str]().union(*map(names_of_spec, params["in_specs"]), *sums)
        differ = frozenset(
            name for name in differ if name in named or jaxpr_uses_axis(jaxpr.jaxpr, name)
        )
    specs = tuple(
        residual_spec(a, params["mesh"], differ, params["check_vma"]) for a in kept.out_avals[n:]
    )
    avals = list(split.staged.in_avals)
    for i, f in enumerate(split.forwarded):
        if f is None and not avals[i].is_high:
            avals[i] = stacked_aval(avals[i])
    return split, kept, stage_jaxpr(staged, avals, info), specs


def _batched(
    jaxpr: ClosedJaxpr, axis: Axis, batched: Sequence[bool], over: frozenset[str], check_vma: bool
) -> Any:
    """The jaxpr on batches, in front, where each device along the axes `over` has its part; and
    which results are batched."""
    out_batched: list[bool] = []

    def on_batch(*args: Value) -> list[Any]:
        outs, dims = batch_flat(jaxpr, axis, args, [0 if b else None for b in batched])
        out_batched[:] = [d is not None for d in dims]
        return [
            y
            if d is None
            else array_ops.vary(array_ops.moveaxis(y, d, 0), over if check_vma else frozenset())
            for y, d in zip(outs, dims, strict=True)
        ]

    avals = []
    for aval, is_batched in zip(jaxpr.in_avals, batched, strict=True):
        aval = unmapped_aval(aval, 0 if is_batched else None, axis.size, axis.explicit)
        avals.append(aval.update(vma=aval.vma | over) if is_batched and check_vma else aval)
    return stage_jaxpr(on_batch, avals, jaxpr.jaxpr.debug_info), tuple(out_batched)
