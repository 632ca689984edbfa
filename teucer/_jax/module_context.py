"""Contexts of lowering rules that build operations with jaxlib's bindings of MLIR, and how such
rules are called.

A rule builds in a module of its own (`_jax/building.py`), in a function that becomes
one of the program's and is called where the rule was. Code that a rule has Teucer write
(`lower_fun`, `jaxpr_subcomp`, foreign calls) becomes a function of the program too. The rule's
module declares it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._devices import backends
from teucer._lower import text
from teucer._lower.context import PLATFORM, Context, Value

# Objects that rules ask to keep alive: an executable may be loaded again as long as the process
# lives.
_kept: list[Any] = []


@final
@dataclass(frozen=True)
class LoweringParameters:
    """How a program is lowered."""

    override_lowering_rules: tuple[Any, ...] | None = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


@final
@dataclass(frozen=True)
class ShardingContext:
    """Programs that the compiler partitions over devices."""

    num_devices: int
    device_assignment: tuple[Any, ...] | None = None
    abstract_mesh: Any = None


@final
@dataclass(frozen=True)
class SPMDAxisContext:
    """The axis context of programs of one device along the manual axes of a mesh."""

    mesh: Any
    manual_axes: frozenset[str] = frozenset()


AxisContext = SPMDAxisContext | ShardingContext


@final
class TokenSet:
    """Tokens that keep effects in the program's order, by effect."""

    def __init__(self, tokens: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        self._tokens = dict(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, effect: Any) -> Any:
        """The token of an effect. Raises KeyError if there is none."""
        return self._tokens[effect]

    def effects(self) -> set[Any]:
        """The effects that have tokens."""
        return set(self._tokens)

    def items(self) -> tuple[tuple[Any, Any], ...]:
        """Pairs of an effect and its token."""
        return tuple(self._tokens.items())

    def subset(self, effects: Iterable[Any]) -> TokenSet:
        """The tokens of some effects."""
        return TokenSet({effect: self._tokens[effect] for effect in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """These tokens, updated by `tokens`."""
        return TokenSet(
            {effect: tokens._tokens.get(effect, token) for effect, token in self._tokens.items()}
        )


@final
@dataclass(frozen=True)
class ModuleContext:
    """The module in which a rule builds, with the platforms and axes of its program."""

    context: Any
    module: Any
    symbol_table: Any
    platforms: tuple[str, ...]
    axis_context: Any
    ip: Any = None
    keepalives: list[Any] = field(default_factory=lambda: _kept)
    host_callbacks: list[Any] = field(default_factory=list)
    channel_iterator: Any = field(default_factory=lambda: itertools.count(1))
    cached_primitive_lowerings: dict[Any, Any] = field(default_factory=dict)
    lowering_parameters: LoweringParameters = LoweringParameters()
    traceback_caches: Any = None
    shape_poly_state: Any = None
    all_default_mem_kind: bool = True
    draft: Any = None  # the `Draft`
    writer: Any = None  # the `Context` of the program

    @property
    def backend(self) -> Any:
        """The client of the platform that is lowered for."""
        return self.get_backend()

    def get_backend(self, optional: bool = False) -> Any:
        """The client of the platform; with `optional` None, where several are lowered for."""
        if optional and len(self.platforms) > 1:
            return None
        return backends.local_devices(backend=self.platforms[0])[0].client

    def new_channel(self) -> int:
        """The number of a channel that no other has."""
        return int(next(self.channel_iterator))

    def add_keepalive(self, keepalive: object) -> None:
        """Keep an object as long as the program may run."""
        self.keepalives.append(keepalive)

    def replace(self, **fields: Any) -> ModuleContext:
        """A context with other fields."""
        return dataclasses.replace(self, **fields)

    def through(
        self,
        name: str,
        avals_in: Sequence[object],
        avals_out: Sequence[object],
        write: Callable[..., Sequence[Value]],
        values: Sequence[Any],
    ) -> list[Any]:
        """Call a function of values of MLIR that `write`, a rule for `Context`, writes."""
        function, sizes = self.function(name, avals_in, avals_out, write)
        results: list[Any] = self.draft.call(function, [*sizes, *values])
        return results

    def function(
        self,
        name: str,
        avals_in: Sequence[Any],
        avals_out: Sequence[Any],
        write: Callable[..., Sequence[Value]],
    ) -> tuple[Any, Sequence[Any]]:
        """A declared function that `write` writes into the program, and the scalars that it takes
        before its operands."""
        writer, scalars = self.writer, dict(self.writer.scalars)
        symbol = writer.module.unique_name(name)
        outs: list[Value] = []

        def body(*args: Value) -> Sequence[Value]:
            writer.scalars = dict(zip(scalars, args, strict=False))
            writer.avals_out = avals_out
            outs.extend(write(writer, *args[len(scalars) :]))
            return outs

        around = writer.scalars, writer.avals_out
        takes = [*(v.aval for v in scalars.values()), *avals_in]
        try:
            region = writer.region(takes, body, "func.return")
        finally:
            writer.scalars, writer.avals_out = around
        types, kinds = (
            [text.tensor_type(a) for a in takes],
            [text.tensor_type(v.aval) for v in outs],
        )
        writer.module.functions.append(
            f'"func.func"() <{{sym_name = "{symbol}", sym_visibility = "private", '
            f"function_type = ({', '.join(types)}) -> ({', '.join(kinds)})}}> ({region}) : () -> ()"
        )
        return self.draft.declare(symbol, types, kinds), self.draft.scalars


@final
@dataclass
class LoweringRuleContext:
    """The context of the call that a rule lowers. The fields have JAX's names."""

    module_context: ModuleContext
    primitive: Primitive | None
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    name_stack: Any = ""
    traceback: Any = None
    tokens_in: TokenSet = field(default_factory=TokenSet)
    tokens_out: TokenSet | None = None
    axis_size_env: Mapping[str, int] | None = None
    dim_var_values: Sequence[Any] = ()
    jaxpr_eqn_ctx: Any = None
    const_lowering: dict[Any, Any] = field(default_factory=dict)
    platforms: Sequence[str] | None = None

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Set the tokens after the call, once. Raises ValueError unless they have the effects of
        `tokens_in`."""
        if self.tokens_out is not None or tokens_out.effects() != self.tokens_in.effects():
            raise ValueError(
                "tokens_out is set once, for the effects of tokens_in: "
                f"{self.tokens_in.effects()}, got {tokens_out.effects()}."
            )
        self.tokens_out = tokens_out

    def replace(self, **fields: Any) -> LoweringRuleContext:
        """A context with other fields."""
        return dataclasses.replace(self, **fields)

    def is_forward_compat(self) -> bool:
        """Whether earlier versions must be able to read the program: never, a program is written
        for this one."""
        return False

    def through(
        self, write: Callable[..., Sequence[Value]], *values: Any, **params: object
    ) -> list[Any]:
        """Apply a rule that is written for `Context` to values of MLIR."""
        avals = [
            _aval_of(v, self.avals_in[i] if i < len(self.avals_in) else None)
            for i, v in enumerate(values)
        ]
        name = "rule" if self.primitive is None else self.primitive.name
        return self.module_context.through(
            name, avals, self.avals_out, lambda ctx, *args: write(ctx, *args, **params), values
        )


def _aval_of(value: Any, expected: Any) -> Any:
    """The type of a value of MLIR: the one expected if that is its type."""
    said = str(value.type)
    if expected is not None and text.tensor_type(expected) == said:
        return expected
    return ShapedArray(tuple(value.type.shape), text.dtype_of(str(value.type.element_type)))


def lowered_by(
    rule: Callable[..., object],
    primitive: Primitive,
    ctx: Context,
    values: Sequence[Value],
    params: Mapping[str, Any],
) -> tuple[Value, ...]:
    """Lower a call by a rule that builds with MLIR's bindings: the operations become a function of
    the program, which is called."""
    # jaxlib's bindings of MLIR take 0.15 s to load.
    from teucer._jax import building as operations

    expected, draft = tuple(ctx.avals_out), operations.Draft()
    symbol = ctx.module.unique_name(primitive.name)
    scalars = list(ctx.scalars.values())
    taken = [text.tensor_type(v.aval) for v in (*scalars, *values)]
    manual = ctx.manual
    module_context = ModuleContext(
        context=draft.context,
        module=draft.module,
        symbol_table=draft.symbols,
        platforms=ctx.platforms,
        draft=draft,
        writer=ctx,
        axis_context=SPMDAxisContext(manual.mesh, frozenset(manual.axes))
        if manual is not None
        else ShardingContext(1 if ctx.module.mesh is None else ctx.module.mesh.size),
    )
    rule_context = LoweringRuleContext(
        module_context,
        primitive,
        tuple(v.aval for v in values),
        list(expected),
        name_stack=ctx.within(primitive.name),
        platforms=None,
    )

    def body(*args: object) -> Any:
        draft.scalars = args[: len(scalars)]
        rule_context.dim_var_values = [
            x for name, x in zip(ctx.scalars, args, strict=False) if name != PLATFORM
        ]
        return rule(rule_context, *args[len(scalars) :], **params)

    try:
        draft.define(symbol, taken, [text.tensor_type(a) for a in expected], body)
    except ValueError as err:
        err.add_note(f"    in the lowering of {primitive.name}")
        raise
    draft.rename(ctx.module.unique_name, symbol)
    ctx.module.functions.extend(draft.texts())
    return ctx.op("func.call", (*scalars, *values), expected, f"callee = @{symbol}")
