"""Primitives: one record that holds a primitive's name and all of its rules.

A structural primitive is one final subclass; a family of alike ones is a subclass built from a
table (`lax`). Every rule takes and returns tuples, for one operand as for many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self, cast

from teucer._core import array_ops
from teucer._core import trace as _trace
from teucer._core.cost import UNKNOWN, Cost
from teucer._core.missing import MissingRule, Undefined, no_rule
from teucer._core.provided import provided
from teucer._core.types import summed, varying

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Avals, Dims, Params, Value

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
    """What a `simplify` rule puts in the place of a call: the same primitive on other operands,
    with other parameters."""

    operands: tuple[Any, ...]
    params: dict[str, Any]


NO_EFFECTS: frozenset[Any] = frozenset()


class Primitive:
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
    varies(vma, *avals, **params) -> frozenset
        The manual mesh axes over which results vary, where these are not `vma`, the union of those
        of the operands.
    padded(sizes, args, avals, outs, **params) -> outs
        The primitive on buffers that are longer than their arrays (`_dynamic.padding`).
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
    """

    __slots__ = ("__dict__",)
    name: Any
    # Whether `bind` gives a list of results, not one. Interpreters of jaxprs written for JAX read
    # this and the next four.
    multiple_results: bool = False
    call_primitive: ClassVar[bool] = False
    map_primitive: ClassVar[bool] = False
    skip_canonicalization: bool = False
    # is_effectful(params): whether an equation has effects; None where its type rule says it.
    is_effectful: Any = None
    # Whether calls have no effects, and whether they run as programs of their own: where no method
    # says otherwise.
    pure: ClassVar[bool] = True
    standalone: ClassVar[bool] = True
    # Whether operands that vary over different manual mesh axes are cast to vary over all of these.
    alike: ClassVar[bool] = True
    # In which operands, taken together, the primitive is linear: all ("sum"), all but the first
    # ("cases"), each by itself ("product"), or those at some positions. None: it is not. Parts of a
    # sum (`unreduced` types) may be operands only there.
    linear_in: str | tuple[int, ...] | None = None
    # Whether cotangents of the result are sums over the mesh axes over which those of the operands
    # are (`reduced` types).
    keeps_reduced: ClassVar[bool] = True
    # Whether the primitive carries Python functions or jaxprs and takes part in transforming them.
    higher_order: ClassVar[bool] = False
    # Whether two calls on the same operands may become one, and whether each element of the one
    # result is an element of the one operand.
    mergeable: ClassVar[bool] = True
    rearranges: ClassVar[bool] = False
    # Whether the types that it gives its results say in which memory they are: other results are
    # where the operands are.
    relocates: ClassVar[bool] = False
    # What compilers make of it, for the targets.
    cost: Cost = UNKNOWN
    # The same where the first operand is complex, if that differs.
    complex_cost: Cost | None = None
    # The dtypes of operands for which a target may ask for a series (the parameter `series`) in
    # place of the compiler's operation.
    series: frozenset[str] = frozenset()

    # Whether operands may be references.
    # Whether results are references: then transformations ask its rules though no operand takes
    # part.
    # Whether results are references of tangents, which are unknown to partial evaluation.
    takes_references: ClassVar[bool] = False
    makes_references: ClassVar[bool] = False
    deferred: ClassVar[bool] = False
    # Whether its transpose rule is a user's function. It is called even where no cotangent comes,
    # since its results need not be linear (running statistics, say).
    pulls_zeros: ClassVar[bool] = False
    # Whether it is an operation of a library on high types, or consists of several. Lowering
    # evaluates it (`_optimize.high`).
    high: ClassVar[bool] = False
    # Whether its rules are Python functions, which may read and write references themselves.
    keeps_references: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        cls.takes_references = cls.takes_references or cls.higher_order
        cls.pure = cls.effects is Primitive.effects
        cls.standalone = cls.evaluate is Primitive.evaluate
        if cls.higher_order or cls.high:  # libraries say the types of their operands
            cls.alike = False

    def call(self, *args: Value, **params: object) -> tuple[Any, ...]:
        """Apply the primitive under the current trace. This is what rules and functions of ours
        call."""
        if (varying or summed) and self.alike:
            args = array_ops.alike(args)
        return _trace._current.trace.process(self, args, params)

    def bind(self, *args: Value, **params: object) -> Any:
        """Apply the primitive as libraries do: one result, or the list of them if there are
        several."""
        outs = self.call(*args, **params)
        return list(outs) if self.multiple_results else outs[0]

    def bind_with_trace(
        self, trace: _trace.Trace, args: Sequence[Value], *rest: Avals | Params
    ) -> Any:
        """`bind` under another trace than the current one.

        rest: (avals, params) or (params,).
        """
        with _trace.using(trace):
            outs = self.call(*args, **cast("Params", rest[-1]))
        return list(outs) if self.multiple_results else outs[0]

    def impl(self, *args: Value, **params: object) -> Any:
        """The results on values outside any transformation, as `bind` gives them."""
        # The class's own: what `def_impl` has put in its place may call this.
        outs = type(self).evaluate(self, *args, **params)
        return list(outs) if self.multiple_results else outs[0]

    def def_impl(self, impl: Callable[..., Value]) -> Callable[..., Value]:
        """Compute by impl(*values, **params) outside any transformation; also a decorator. Give
        `impl` back to undo it."""
        own: dict[str, Any] = vars(self)
        if getattr(impl, "__self__", None) is self:
            for name in ("impl", "evaluate", "standalone"):
                own.pop(name, None)
            return impl

        def evaluate(*args: Value, **params: object) -> tuple[Any, ...]:
            outs: Any = impl(*args, **params)
            return tuple(outs) if self.multiple_results else (outs,)

        own.update(impl=impl, evaluate=evaluate, standalone=False)
        return impl

    def abstract_eval(self, *avals: Aval, **params: object) -> tuple[Any, frozenset[Any]]:
        """The types of results, one or a list of them as `bind` gives results, and the effects."""
        outs = self.types(*avals, **params)
        return list(outs) if self.multiple_results else outs[0], self.effects(*avals, **params)

    def get_bind_params(self, params: Params) -> dict[str, Any]:
        """The parameters with which an interpreter of jaxprs calls `bind`: those of the
        equation."""
        return params

    def evaluate(self, *args: Value, **params: object) -> tuple[Any, ...]:
        return provided.runner(self, params)(*args)

    def types(self, *avals: Aval, **params: object) -> tuple[Any, ...]:
        self.missing("Type rule", "types", *avals)

    def effects(self, *avals: Aval, **params: object) -> frozenset[Any]:
        return NO_EFFECTS

    def lower(self, ctx: object, *values: object, **params: object) -> tuple[Any, ...]:
        self.missing("Lowering rule", "lower")

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value], **params: object
    ) -> tuple[Any, Any]:
        self.missing("Differentiation rule", "jvp", *primals)

    def transpose(self, cts: Sequence[Value], *args: Value, **params: object) -> Any:
        self.missing("Transpose rule (for reverse-mode differentiation)", "transpose", *args)

    def batch(
        self, axis: Axis, args: Sequence[Value], dims: Dims, **params: object
    ) -> tuple[Any, Any]:
        self.missing("Batching rule (for vmap)", "batch", *args)

    def shard(self, *avals: Aval, **params: object) -> Any:
        if not self.higher_order:
            self.missing("Sharding rule", "shard", *avals)

    varies: Any = None
    # None where elements that are not of the array would come into the result: then dynamic
    # dimensions are refused.
    padded: Any = None
    stage: Any = None
    partial_eval: Any = None
    # For primitives on typed keys that know their buffers; the default maps the primitive over
    # them.
    lower_extended: Any = None
    # within(params): a `with` block in which the named axes are in force that jaxprs among the
    # parameters name.
    within: Any = None
    # For collectives: uses_axis(name, params) says whether a call uses the named axis.
    uses_axis: Any = None
    # discharge(cells, *operands, **params) -> outs: on arrays in the place of references
    # (`_optimize.discharge`).
    discharge: Any = None
    # on_values(operands, groups, **params) -> outs, {group: array}: a call with arrays in the place
    # of references.
    on_values: Any = None
    # on_low(operands, avals, **params) -> outs: a call with operands of high types, made with what
    # these are made of.
    on_low: Any = None
    # text(printer, eqn, used) -> the equation, where jaxprs show it in a way of its own.
    text: Any = None
    simplify: Any = None
    fold: Any = None
    inlined: Any = None
    forward: Any = None
    dce: Any = None
    saving: Any = None

    def through(
        self,
        sizes: Any,
        args: Sequence[Value],
        avals: Sequence[Aval],
        outs: Sequence[Value],
        **params: object,
    ) -> Any:
        """The rule `padded` of a primitive that lets no elements meet: it acts on the buffers."""
        return self.call(*args, **sizes.bounded(params))

    def missing(self, what: str, rule: str, *operands: object) -> NoReturn:
        """Raise the error that names the primitive and the rule that it lacks."""
        raise no_rule(self, what, rule, operands)

    def __repr__(self) -> str:
        return str(self.name)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class FunctionCall(Primitive):
    """A primitive that is a call of params["jaxpr"], which lowering makes a function of the
    module."""

    __slots__ = ()
