"""Lowering: jaxpr -> StableHLO text. The context is what a primitive's `lower` rule writes to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes, errors, source
from teucer._core import axes, dialects, places
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from teucer._core.names import stack_text, tagging, tags_of
from teucer._core.provided import provided
from teucer._core.stage import stage_flat
from teucer._core.types import DEVICE, ShapedArray, aval_of
from teucer._devices import meshes
from teucer._devices.chosen import GSPMDSharding
from teucer._devices.partition import gives_parts
from teucer._devices.placement import Named
from teucer._devices.shardings import NamedSharding, SingleDeviceSharding
from teucer._devices.specs import UNCONSTRAINED, PartitionSpec
from teucer._executables.callbacks import by_transfers
from teucer._lower import text
from teucer._lower.boundary import Argument, argument, boundary, donated_to, finished, returned
from teucer._lower.module import Module
from teucer._lower.value import Value

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, DTypeLike, Params

__all__ = ["PLATFORM", "Argument", "Context", "Value", "lower_module"]

# The scalar that says on which of several platforms a module runs: its number among them.
PLATFORM = "_platform_index"


@final
class Context:
    """Where operations are written: a block of a function of a module."""

    __slots__ = (
        "module",
        "platforms",
        "lines",
        "count",
        "avals_out",
        "callers",
        "constants",
        "label",
        "manual",
        "order",
        "path",
        "place",
        "scalars",
        "source",
        "tags",
    )

    def __init__(self, module: Module, platforms: Sequence[str]) -> None:
        self.module, self.platforms = module, tuple(platforms)
        self.lines: list[str] = []
        # Leading arguments of every function: the platform's number, sizes of dimension variables.
        self.scalars: dict[str, Value] = {}
        self.count = 0
        self.avals_out: Sequence[Any] = ()
        self.constants: dict[Any, Value] = {}
        # The token of the last ordered effect written in this block: the next one waits for it.
        self.order: Value | None = None
        self.source: Any = None
        self.label = ""
        # The surroundings of the equations being written: calls, names as text, and a line if all
        # come from one.
        self.callers: tuple[source.Record, ...] = ()
        self.path = ""
        self.place: Any = None
        # Metadata for the compiler on the operations of the equation being written.
        self.tags: tuple[tuple[str, str], ...] = ()
        # The manual computation being written (`teucer._dialects.meshes.manual`).
        self.manual: Any = None

    @property
    def platform(self) -> str:
        """The platform that is lowered for. Rules that ask are asked once for each
        (`by_platform`)."""
        return self.platforms[0]

    target = property(
        lambda self: provided.target(self.platforms[0]),
        doc="That of the platform, a `_targets.interface.Target`.",
    )

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        avals: Sequence[Aval],
        properties: str = "",
        regions: Sequence[str] = (),
        attributes: str = "",
    ) -> tuple[Value, ...]:
        """Write one operation in MLIR's generic form; its results have the given types.

        properties, attributes: the operation's own and the discardable attributes, as `a = 1 : i64,
        b = unit`.
        """
        n = self.count
        self.count = n + len(avals)
        outs = tuple([Value(f"%{n + i}", aval) for i, aval in enumerate(avals)])
        left = f"{', '.join([v.name for v in outs])} = " if outs else ""
        props = f" <{{{properties}}}>" if properties else ""
        blocks = f" ({', '.join(regions)})" if regions else ""
        attributes = text.with_metadata(attributes, self.tags) if self.tags else attributes
        attrs = f" {{{attributes}}}" if attributes else ""
        in_types = ", ".join([text.tensor_type(v.aval) for v in operands])
        out_types = ", ".join([text.tensor_type(aval) for aval in avals])
        self.lines.append(
            f'{left}"{name}"({", ".join([v.name for v in operands])}){props}{blocks}{attrs} : '
            f"({in_types}) -> ({out_types}){self.location()}"
        )
        return outs

    def op1(self, name: str, operands: Sequence[Value], aval: Aval, properties: str = "") -> Value:
        """`op` for an operation of one result, without regions and discardable attributes."""
        if self.tags:
            return self.op(name, operands, (aval,), properties)[0]
        n = self.count
        self.count = n + 1
        name_of = f'%{n} = "{name}"('
        props = f" <{{{properties}}}>" if properties else ""
        where = self.location() if self.module.locations is not None else ""
        try:
            out = aval._hlo
            types = [v.aval._hlo for v in operands]
        except AttributeError:
            out = text.tensor_type(aval)
            types = [text.tensor_type(v.aval) for v in operands]
        self.lines.append(
            f"{name_of}{', '.join([v.name for v in operands])}){props} : ({', '.join(types)}) -> "
            f"{out}{where}"
        )
        return Value(f"%{n}", aval)

    def location(self) -> str:
        """Where the operation being written comes from, if the module says so."""
        if self.module.locations is None or self.source is None:
            return ""
        return self.module.locations.named(self.within(self.label), self.calls())  # type: ignore[no-any-return]

    def calls(self) -> tuple[source.Record, ...]:
        """The user's calls that the operation being written comes from, the innermost first."""
        return (
            *source.records(self.place or (self.source[0] if self.source is not None else None)),
            *self.callers,
        )

    def within(self, label: str) -> str:
        """The names around the operation being written, then its own name. Transformations are
        written around the name of a call."""
        scopes = self.source[1] if self.source is not None else ()
        scopes, label = ((*scopes, label), "") if label.startswith("jit(") else (scopes, label)
        return "/".join(filter(None, (self.path, stack_text(scopes), label)))

    def constant(self, value: object, dtype: DTypeLike | None = None) -> Value:
        """A constant: a NumPy array or scalar, of the given dtype. A scalar is written once a
        block."""
        array = np.asarray(value, dtype)
        key = (array.dtype, array.tobytes()) if not array.shape else None
        found = self.constants.get(key) if key is not None else None
        if found is not None:
            return found
        n = self.count
        self.count = n + 1
        out = Value(f"%{n}", ShapedArray(array.shape, array.dtype))
        kind = text.tensor_type(out.aval)
        self.lines.append(
            f'%{n} = "stablehlo.constant"() <{{value = {text.dense(array)} : {kind}}}> : () -> '
            f"{kind}"
        )
        if key is not None:
            self.constants[key] = out
        return out

    def literal(self, value: object, aval: Aval) -> Value:
        """A Python or NumPy scalar, or a constant array, as a value of type `aval`."""
        if aval.dtype == dtypes.float0:
            return self.constant(np.zeros(aval.shape, np.bool_))
        return self.constant(value, aval.dtype)

    def region(
        self,
        avals: Sequence[Aval],
        body: Callable[..., Sequence[Value]],
        terminator: str = "stablehlo.return",
    ) -> str:
        """The text of a region with one block, of arguments of the given types, that returns what
        `body` returns."""
        n = self.count
        self.count = n + len(avals)
        args = [Value(f"%{n + i}", aval) for i, aval in enumerate(avals)]
        outer_lines, outer_constants, outer_order = self.lines, self.constants, self.order
        self.lines, self.constants, self.order = [], {}, None
        try:
            outs = body(*args)
            lines = self.lines
        finally:
            self.lines, self.constants, self.order = outer_lines, outer_constants, outer_order
        head = (
            f"^bb0({', '.join(f'{v.name}: {text.tensor_type(v.aval)}' for v in args)}):\n"
            if args
            else "^bb0:\n"
        )
        return f"{{\n{head}{text.joined(lines)}{returned(terminator, outs)}\n}}"

    def inline(self, closed: ClosedJaxpr, *args: Value, under: str = "") -> tuple[Value, ...]:
        """Write the equations of a closed jaxpr here. under: the name of this part of the equation
        in names of operations."""
        return self.inline_jaxpr(closed.jaxpr, [self.const(c) for c in closed.consts], args, under)

    def const(self, x: Any) -> Value:
        """The value of a constant of a jaxpr."""
        if isinstance(x, Value):
            return x
        aval = aval_of(x)
        if isinstance(aval.dtype, dtypes.ExtendedDType):
            from_key = self.constant(np.asarray(x._key_data()))
            return Value(from_key.name, aval)
        return self.literal(np.asarray(x), aval)

    def inline_jaxpr(
        self, jaxpr: Jaxpr, consts: Sequence[Value], args: Sequence[Value], under: str = ""
    ) -> tuple[Value, ...]:
        """Write the equations of a jaxpr here, on the given values."""
        around = self.path, self.source, self.label, self.callers
        if self.module.locations is not None:
            self.path = self.within(under)
            if under.startswith("jit("):  # a function's equations say the calls within it
                self.callers = self.calls()
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        literal, several = self.literal, len(self.platforms) > 1
        tagged, outer_tags = tagging(), self.tags
        try:
            for eqn in jaxpr.eqns:
                # Plain loops: this runs for every equation of every program (benchmarks/).
                operands, avals, extended, placed = [], [], False, False
                for u in eqn.invars:
                    value = literal(u.val, u.aval) if type(u) is Literal else env[u]
                    operands.append(value)
                    extended = extended or value.aval.extended
                    placed = placed or value.aval.placed
                for v in eqn.outvars:
                    avals.append(v.aval)
                    extended = extended or v.aval.extended
                    placed = placed or v.aval.placed
                self.avals_out = avals
                primitive = eqn.primitive
                self.source, self.label = eqn.source, primitive.name
                if tagged:
                    own = tags_of(eqn.source)
                    self.tags = outer_tags if own is None else own
                if (extended and not primitive.higher_order) or several:
                    results = self.lower_by_rule(primitive, operands, eqn.params, extended)
                elif placed and gives_parts(primitive, [v.aval for v in operands], avals):
                    results = self.on_parts(
                        operands, avals, functools.partial(primitive.lower, self, **eqn.params)
                    )
                else:
                    results = primitive.lower(self, *operands, **eqn.params)
                if placed and (
                    not primitive.higher_order
                    or any(a.unreduced for a in avals if type(a) is ShapedArray)
                ):
                    results = self.laid_out(results, avals, eqn.params)
                outvars = eqn.outvars
                if len(outvars) == 1:
                    (env[outvars[0]],) = results
                    continue
                env.update(zip(outvars, results, strict=True))
        except errors.InconclusiveDimensionOperation as err:
            if not hasattr(err, "__notes__"):
                err.add_note(
                    (
                        f"    in the lowering of {eqn.primitive}: "
                        f"{', '.join(str(v.aval) for v in operands)}"
                    )
                    + eqn.where("\n    at ")
                )
            raise
        self.tags, (self.path, self.source, self.label, self.callers) = outer_tags, around
        return tuple(
            [literal(v.val, v.aval) if type(v) is Literal else env[v] for v in jaxpr.outvars]
        )

    def trace(self, f: Callable[..., Sequence[object]], *args: Value) -> tuple[Value, ...]:
        """Write `f`, a function of arrays that returns a tuple of arrays, as operations."""
        return self.write(self.staged(f, *args), *args)

    def staged(self, f: Callable[..., Sequence[object]], *args: Value) -> ClosedJaxpr:
        """A function of arrays as a jaxpr."""
        avals = [  # only the results of an equation are laid out
            v.aval.update(sharding=None, vma=frozenset(), memory_space=DEVICE)
            if v.aval.placed
            else v.aval
            for v in args
        ]
        with axes.extended(self.manual.sizes if self.manual is not None else {}):
            return ClosedJaxpr(*stage_flat(f, avals))

    def write(self, closed: ClosedJaxpr, *args: Value) -> tuple[Value, ...]:
        """Write a jaxpr that a rule has traced."""
        saved = self.place
        if self.source is not None:  # the lines of the rule and of its callers are not the user's
            self.place = self.place or self.source[0]
        consts = [self.const(c) for c in closed.consts]
        outs = self.inline_jaxpr(closed.jaxpr, consts, args, self.label)
        self.place = saved
        return outs

    def whole(self, x: Value, axes: Sequence[int] | None = None) -> Value:
        """x with some axes, by default all, on every device, where XLA cannot divide an operation
        along them."""
        mesh = self.module.mesh
        if mesh is None or self.all_manual():
            return x
        entries = [
            None if axes is None or i in axes else UNCONSTRAINED
            for i in range(x.aval.physical.ndim)
        ]
        return self.constrain(x, NamedSharding(mesh, PartitionSpec()).left_free(entries))

    def may_divide(self) -> bool:
        """Whether the compiler may divide arrays among devices."""
        return self.module.mesh is not None and not self.all_manual()

    def all_manual(self) -> bool:
        """Whether no mesh axis is left along which the compiler, or types, could partition."""
        return self.manual is not None and len(self.manual.axes) == len(self.manual.mesh.axis_names)

    def laid_out(
        self, results: Sequence[Value], avals: Sequence[Aval], params: Params
    ) -> tuple[Value, ...]:
        """Results laid out as their types, or a parameter with the devices, say."""
        if self.all_manual():
            return tuple([Value(v.name, aval) for v, aval in zip(results, avals, strict=True)])
        given = getattr(params.get("out_sharding") or params.get("sharding"), "mesh", None)
        of = [
            a.partition
            if a.partition is None or type(given) is not meshes.Mesh
            else a.partition.update(mesh=given)
            for a in avals
        ]
        return tuple(
            [
                v
                if s is None
                else Value(self.constrain(v, s, of_type=True).name, aval)
                if aval.unreduced <= v.aval.unreduced
                else Value(self.summed(v, aval.partition).name, aval)
                for v, aval, s in zip(results, avals, of, strict=True)
            ]
        )

    def constrain(
        self,
        x: Value,
        sharding: NamedSharding | GSPMDSharding | SingleDeviceSharding,
        *,
        of_type: bool = False,
    ) -> Value:
        """x laid out by a sharding; of_type: whether it is from a type, which leaves Auto mesh axes
        to the compiler."""
        if type(sharding) is SingleDeviceSharding:
            self.module.name_device(sharding._device, self.named())
            return x
        n = self.count
        self.count = n + 1
        where = self.module.sharding(
            sharding, x.aval.physical.ndim, of_type=of_type, by=self.named()
        )
        self.lines.append(
            f"%{n} = sdy.sharding_constraint {x.name} {where} : "
            f"{text.tensor_type(x.aval)}{self.location()}"
        )
        return Value(f"%{n}", x.aval)

    def named(self) -> Named:
        """The name and line of the operation that is being written, for messages."""
        return Named(self.label, places.where(self.source))

    def summed(self, x: Value, sharding: NamedSharding) -> Value:
        """x laid out by a sharding over other axes. The sum of its parts is still to be taken."""
        if sharding.spec.unreduced - x.aval.unreduced:
            sharding.check_parts_of(x.aval)
            # Shardy aborts on a reduction whose result is unreduced, unless it reduces over
            # devices.
            x = self.constrain(
                x,
                x.aval.partition or sharding.with_spec([None] * x.aval.physical.ndim),
                of_type=True,
            )
        return self.constrain(x, sharding, of_type=True)

    def on_parts(
        self, args: Sequence[Value], avals: Sequence[Aval], body: Callable[..., Sequence[Value]]
    ) -> Sequence[Value]:
        """Write the operations of `body`. If its results are parts of unreduced sums, write them
        for each device by itself."""
        if not any(a.unreduced for a in avals):
            return body(*args)
        return provided.on_parts(self, args, avals, body)

    def call(
        self, name: str, closed: ClosedJaxpr, *args: Value, attributes: str = ""
    ) -> tuple[Value, ...]:
        """Call a closed jaxpr as a function of the module, which is emitted once."""
        found = self.module.emitted.get((closed.jaxpr, self.platforms, self.manual))
        symbol = found[0] if found is not None else emit_function(self, name, closed)
        target = f"callee = @{symbol}"
        self.label = f"jit({name})"
        return self.op(
            "func.call",
            (*self.scalars.values(), *args),
            closed.out_avals,
            target,
            attributes=attributes,
        )

    def function(
        self,
        name: str,
        avals: Sequence[Aval],
        out_avals: Sequence[Aval],
        body: Callable[..., Sequence[Value]],
    ) -> str:
        """The symbol of a new function. `body` writes its operations to this context."""
        symbol = self.module.unique_name(name)
        takes, gives = (", ".join(map(text.tensor_type, listed)) for listed in (avals, out_avals))
        self.module.functions.append(
            f'"func.func"() <{{sym_name = "{symbol}", sym_visibility = "private", function_type = '
            f"({takes}) -> ({gives})}}> ({self.region(avals, body, 'func.return')}) : () -> ()"
        )
        return symbol

    def lower_by_rule(
        self, primitive: Primitive, operands: list[Value], params: Params, extended: bool
    ) -> Sequence[Value]:
        """Write a primitive that is on keys, or for several platforms."""
        avals = self.avals_out

        def rule() -> Any:
            self.avals_out = avals
            if extended and not primitive.higher_order:
                on_keys = dialects.on_keys.of(primitive)
                return (
                    provided.lower_keys(self, primitive, operands, params)
                    if on_keys is None
                    else on_keys(self, *operands, **params)
                )
            return primitive.lower(self, *operands, **params)

        # The rule of a primitive that carries jaxprs does not ask for the platform; the equations
        # of the jaxprs do.
        results: Sequence[Value] = (
            rule() if primitive.higher_order else self.by_platform(rule, avals)
        )
        return results

    def by_platform(
        self, rule: Callable[[], Sequence[Value]], avals: Sequence[Aval]
    ) -> tuple[Value, ...]:
        """Apply `rule`, which writes operations for a platform. If the texts for several platforms
        differ, write a case over the platform's number."""
        if len(self.platforms) == 1:
            return tuple(rule())
        platforms, first, branches, ends = self.platforms, self.count, [], []
        try:
            for platform in platforms:
                self.platforms, self.count = (platform,), first
                branches.append(self.region((), rule))
                ends.append(self.count)
            self.platforms, self.count = platforms[:1], first
            if all(branch == branches[0] for branch in branches):
                return tuple(rule())
        finally:
            self.platforms = platforms
        self.count = max(ends)
        return self.op("stablehlo.case", (self.scalars[PLATFORM],), avals, regions=branches)


def emit_function(caller: Context, name: str, closed: ClosedJaxpr) -> str:
    """Add a private function for a closed jaxpr to the module; its symbol."""
    module = caller.module
    symbol, called = module.unique_name(name), len(module.host_callbacks)
    key = closed.jaxpr, caller.platforms, caller.manual
    module.emitted[key] = (symbol, closed.jaxpr)
    ctx = Context(module, caller.platforms)
    ctx.manual = caller.manual
    args = [
        Value(f"%arg{i}", aval)
        for i, aval in enumerate([v.aval for v in caller.scalars.values()] + closed.in_avals)
    ]
    ctx.scalars = dict(zip(caller.scalars, args, strict=False))
    outs = ctx.inline(closed, *args[len(ctx.scalars) :])
    if by_transfers(module.host_callbacks[called:]):  # each call has channels of its own
        del module.emitted[key]
    signature = ", ".join(f"{v.name}: {text.tensor_type(v.aval)}" for v in args)
    results = ", ".join(text.tensor_type(v.aval) for v in outs)
    module.functions.append(
        f"func.func private @{symbol}({signature}) -> ({results}) {{\n"
        f"{text.joined(ctx.lines)}{returned('func.return', outs)}\n}}"
    )
    return symbol


def lower_module(
    name: str,
    jaxpr: Jaxpr,
    args: Sequence[Argument],
    platforms: Sequence[str],
    *,
    consts: Sequence[object] = (),
    solve: Callable[[Context, Sequence[Value]], dict[str, Value]] | None = None,
    locations: bool = False,
    outs: Sequence[NamedSharding | GSPMDSharding | None] = (),
    out_buffers: Sequence[tuple[str, ...]] = (),
    mesh: meshes.BaseMesh | None = None,
    manual: object = None,
    abstract: bool = False,
    arg_names: Sequence[str] = (),
) -> tuple[str, Module]:
    """The text of a module whose main function is `jaxpr`.

    platforms: for several, the first argument of the module is the number of the one that it runs
    on.
    consts: values of the jaxpr's constants, which are written into the module.
    solve: writes the sizes of dimension variables, by name, from the values of the arguments.
    outs: shardings of results, None where the compiler chooses. out_buffers: as of arguments.
    mesh: over whose devices it runs; abstract: or it has none. manual: the manual computation that
    it is a part of.
    locations: whether operations say where they come from: for reading, since text is the key of
    the caches. arg_names: names of the arguments in messages; arguments then say it too.
    """
    module = Module(locations=locations, abstract=abstract)
    module.unique_name("main")
    module.mesh = mesh
    ctx = Context(module, platforms)
    ctx.path = f"jit({name.removeprefix('jit_')})"
    ended, table = (module.locations.begin(ctx), module.locations.text) if locations else ("", str)
    ctx.manual = manual
    head = []
    if len(platforms) > 1:
        ctx.scalars[PLATFORM] = Value("%platform", ShapedArray((), np.dtype(np.int32)))
        head.append(f'%platform: tensor<i32> {{jax.global_constant = "{PLATFORM}"}}')
    values = [Value(f"%arg{i}", arg.aval) for i, arg in enumerate(args)]
    if True in [arg.aval.symbolic for arg in args] and solve is not None:
        module.polymorphic = True
        ctx.scalars.update(solve(ctx, values))
    results = ctx.inline_jaxpr(jaxpr, [ctx.const(c) for c in consts], values)
    results = finished(ctx, results, outs, mesh) if outs else results
    aliases, n = donated_to(args, results, outs, out_buffers), len(results)
    listed = [
        argument(module, v, arg, aliases.get(i))
        for i, (v, arg) in enumerate(zip(values, args, strict=True))
    ]
    if locations and arg_names:
        listed = [
            f"{said} loc({text.quoted(name)})" if name else said
            for said, name in zip(listed, arg_names, strict=True)
        ]
    kinds = ", ".join(
        [
            text.tensor_type(v.aval) + text.attributes(boundary(module, v.aval, s, buffer))
            for v, s, buffer in zip(
                results, outs or (None,) * n, out_buffers or ((),) * n, strict=True
            )
        ]
    )
    main = (
        f"func.func public @main({', '.join(head + listed)}) -> ({kinds}) {{\n"
        f"{text.joined(ctx.lines)}"
    )
    main += f"{returned('func.return', results)}{ended}\n}}"
    symbol = Module().unique_name(name).rstrip("_")
    attributes, meshes_ = module.definitions()
    functions, table = "\n".join(module.functions), table()
    return f"module @{symbol}{attributes} {{\n{meshes_}{main}\n{functions}\n}}\n{table}", module
