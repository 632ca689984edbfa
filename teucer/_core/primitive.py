"""Primitives: one record that holds a primitive's name and all of its rules.

A structural primitive is one final subclass; a family of alike ones is a subclass built from a
table (`lax`). Every rule takes and returns tuples, for one operand as for many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from teucer._base.memo import Unique
from teucer._core import dialects
from teucer._core import trace as _trace
from teucer._core.cost import UNKNOWN, Cost
from teucer._core.missing import MissingRule, Undefined, no_rule
from teucer._core.provided import provided
from teucer._core.trace import EVAL

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Dims, Value, Values

__all__ = ["Axis", "Call", "FunctionCall", "MissingRule", "Primitive", "Undefined"]


class Axis(NamedTuple):
    """The axis that `vmap` maps over: its size, its name for collectives, the mesh axes that it is
    laid over.

    explicit: where these are Explicit mesh axes, the partition of an array of this axis alone.
    """

    size: Any
    name: Any = None
    spmd_name: Any = None
    explicit: Any = None


class Call(NamedTuple):
    """The result of a `simplify` rule: the same primitive on other operands, with other
    parameters."""

    operands: tuple[Any, ...]
    params: dict[str, Any]


NO_EFFECTS: frozenset[Any] = frozenset()


class Primitive(Unique):
    """An operation of the language of jaxprs.

    Rules, each overridden where it exists (docs/rules.md):

    types(*avals, **params) -> avals
        The types of the results. Raises for bad operands.
    lower(ctx, *values, **params) -> values
        Writes StableHLO text, by the functions of `teucer._lower.hlo`.
    jvp(primals, tangents, **params) -> outs, tangents
        Tangents may be `Zero`.
    transpose(cts, *args, **params) -> cts of args
        The operands in which it is linear come as `Undefined`. The others get None.
    batch(axis, args, dims, **params) -> outs, dims
        A dim is an int or None. `axis` has the size and the name of the mapped axis.
    partial_eval(trace, args, params) -> outs
        For primitives some of whose results are known though operands are unknown.
    stage(trace, args, params) -> outs
        For primitives that record something else than one equation.
    evaluate(*args, **params) -> outs
        For primitives that do not run as programs of their own.
    shard(*avals, **params) -> Labels
        Which axes of operands and results lie over the same mesh axes. None where `types` says it.
    effects(*avals, **params) -> frozenset
        What the primitive does besides computing its results.

    Rules of the passes over jaxprs that are to be lowered (`teucer._optimize.passes`), for the
    primitives that have one:

    simplify(known, *operands, **params) -> atom | call | (closed, operands)
        The operand that the result is, bit for bit; or a shorter `Call`; or the jaxpr that is
        written in place of the call. None: there is nothing simpler.
    fold(*arrays, **params) -> array | None
        The result for scalars, computed by NumPy. None if XLA may differ.
    inlined(operands, params) -> (closed, operands) | None
        The jaxpr that lowering writes in place of the call.
    forward(eqn) -> eqn, atoms
        For each result the operand or literal that it is, or None.
    dce(eqn, used) -> eqn
        The equation with the results that are used, and no others.
    saving(eqn, used, cut) -> Saving | None
        The rule of `checkpoint` for primitives with bodies (`teucer._derived.remat`).

    Rules of dialects stand in tables (`_core.dialects`). Members that only libraries written for
    JAX use are outside the core (`_derived.members`).
    """

    __slots__ = ("__dict__",)
    name: Any
    # Whether `bind` gives a list of results, not one.
    multiple_results: bool = False
    # Whether calls have no effects, and whether they run as programs of their own: where no method
    # says otherwise.
    pure: ClassVar[bool] = True
    standalone: ClassVar[bool] = True
    # In which operands, taken together, the primitive is linear: all ("sum"), all but the first
    # ("cases"), each by itself ("product"), or those at some positions. None: it is not. Parts of a
    # sum (`unreduced` types) may be operands only there.
    linear_in: str | tuple[int, ...] | None = None
    # Whether the primitive carries Python functions or jaxprs and takes part in transforming them.
    higher_order: ClassVar[bool] = False
    # Whether two calls on the same operands may become one, and whether each element of the one
    # result is an element of the one operand.
    mergeable: ClassVar[bool] = True
    rearranges: ClassVar[bool] = False
    # Its cost in compiled code, for the targets.
    cost: Cost = UNKNOWN

    def __init_subclass__(cls) -> None:
        cls.pure = cls.effects is Primitive.effects
        cls.standalone = cls.evaluate is Primitive.evaluate

    if not TYPE_CHECKING:  # a type checker would accept any name as a member

        def __getattr__(self, name: str) -> Any:
            return provided.member(self, name)

    def call(self, *args: Value, **params: object) -> tuple[Any, ...]:
        """Apply the primitive under the current trace. This is what rules and functions of ours
        call."""
        trace = _trace._current.trace
        if trace.placed and not (
            self.higher_order  # libraries say the types of their operands
            or dialects.high[type(self)]
            or dialects.casts[type(self)]
        ):
            args = provided.alike(args)
        if trace is EVAL and self.standalone:
            return provided.runner(self, params)(*args)
        return trace.process(self, args, params)

    def bind(self, *args: Value, **params: object) -> Any:
        """Apply the primitive as libraries do: one result, or the list of them if there are
        several."""
        outs = self.call(*args, **params)
        return list(outs) if self.multiple_results else outs[0]

    def evaluate(self, *args: Value, **params: object) -> tuple[Any, ...]:
        return provided.runner(self, params)(*args)

    def types(self, *avals: Aval, **params: object) -> tuple[Any, ...]:
        self.missing("Type rule", "types", *avals)

    def effects(self, *avals: Aval, **params: object) -> frozenset[Any]:
        return NO_EFFECTS

    def lower(self, ctx: object, *values: object, **params: object) -> tuple[Any, ...]:
        self.missing("Lowering rule", "lower")

    def jvp(self, primals: Values, tangents: Values, **params: object) -> tuple[Any, Any]:
        self.missing("Differentiation rule", "jvp", *primals)

    def transpose(self, cts: Sequence[Value], *args: Value, **params: object) -> Any:
        self.missing("Transpose rule (for reverse-mode differentiation)", "transpose", *args)

    def batch(self, axis: Axis, args: Values, dims: Dims, **params: object) -> tuple[Any, Any]:
        self.missing("Batching rule (for vmap)", "batch", *args)

    def shard(self, *avals: Aval, **params: object) -> Any:
        if not self.higher_order:
            self.missing("Sharding rule", "shard", *avals)

    stage: Any = None
    partial_eval: Any = None
    # within(params): a `with` block in which the named axes of jaxprs among the parameters are in
    # force.
    within: Any = None
    # For collectives: uses_axis(name, params) says whether a call uses the named axis.
    uses_axis: Any = None
    simplify: Any = None
    fold: Any = None
    inlined: Any = None
    forward: Any = None
    dce: Any = None
    saving: Any = None

    def missing(self, what: str, rule: str, *operands: object) -> NoReturn:
        """Raise the error that names the primitive and the rule that it lacks."""
        raise no_rule(self, what, rule, operands)

    def __repr__(self) -> str:
        return str(self.name)


class FunctionCall(Primitive):
    """A primitive that is a call of params["jaxpr"], which lowering makes a function of the
    module."""

    __slots__ = ()
