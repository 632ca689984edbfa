"""Jaxprs: programs as data. Equations over typed variables, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._base.source import Place
from teucer._core import dialects
from teucer._core.dialects import HIGH, REFERENCES, kinds_of
from teucer._core.names import NO_SCOPES, _names, joined, tagged, tags_of
from teucer._core.places import NOWHERE, SourceInfo, source_info, source_of, where
from teucer._core.provided import provided
from teucer._core.reference_types import RefEffect, RefType, at_inputs
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import aval_of

if TYPE_CHECKING:
    from teucer._core.debug_info import DebugInfo
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Source, Value


_outvars = attrgetter("outvars")


class Var:
    """A variable, identified by being itself."""

    __slots__ = ("aval", "__weakref__")
    aval: Any

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


@final
class DropVar(Var):
    """A result that nothing uses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


@final
class Literal:
    """A scalar constant written into an equation."""

    __slots__ = ("val", "aval")
    val: Any
    aval: Any

    def __init__(self, val: object, aval: Aval | None = None) -> None:
        self.val, self.aval = val, aval_of(val) if aval is None else aval

    @property
    def value(self) -> Any:
        """The value as one of its type: a scalar of NumPy is not weakly typed, a number of Python
        is."""
        return self.val if typeof(self.val) is self.aval else self.val.item()

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal


class EqnContext(NamedTuple):
    """Information about an equation beside its parameters: metadata for the compiler, by name.

    Interpreters of jaxprs apply the primitive in `with ctx.manager:`. Equations staged there get
    the same metadata.
    """

    xla_metadata: dict[str, str]

    @property
    def compute_type(self) -> str | None:
        """Where `compute_on` lets it run, as interpreters written for JAX ask."""
        said = self.xla_metadata.get("_xla_compute_type")
        return {"host": "device_host", "sparse": "tpu_sparsecore"}.get(said or "", said)

    @property
    def manager(self) -> AbstractContextManager[None]:
        return tagged(self.xla_metadata)


@final
class Eqn:
    """`outvars = primitive[params] invars`, with the place in the user's program that it comes
    from."""

    __slots__ = ("primitive", "invars", "outvars", "params", "effects", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        params: Params,
        effects: frozenset[object],
        source: Source,
    ) -> None:
        self.primitive, self.invars, self.outvars = primitive, invars, outvars
        self.params, self.effects, self.source = params, effects, source

    @property
    def source_info(self) -> SourceInfo:
        """Where the equation comes from, and its name scopes."""
        return source_info(self.source)

    @property
    def place(self) -> Place | None:
        """The calls of the user that the equation comes from."""
        return self.source[0] if self.source is not None else None

    def where(self, before: str = " at ") -> str:
        """The line that the equation comes from as text, after `before`; '' if it is not known."""
        return where(self.source, before)

    @property
    def ctx(self) -> EqnContext:
        """Information about the equation beside its parameters."""
        return EqnContext(dict(tags_of(self.source) or ()))

    def replace(self, **changes: object) -> Eqn:
        """The equation with some of its fields changed."""
        # As libraries call it: the source spelled out, which says the context too.
        changes.pop("ctx", None)
        if "source_info" in changes:
            changes["source"] = source_of(changes.pop("source_info"))  # type: ignore[arg-type]  # of any field
        return Eqn(**({name: getattr(self, name) for name in Eqn.__slots__} | changes))

    def __repr__(self) -> str:
        return provided.printing().eqn_text(self)


def new_eqn(
    primitive: Primitive,
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    params: Params,
    source: Source = None,
) -> Eqn:
    """An equation whose effects follow from its primitive."""
    return Eqn(
        primitive,
        invars,
        outvars,
        params,
        primitive.effects(*(v.aval for v in invars), **params),
        source,
    )


@final
class Jaxpr:
    """A program: constants and arguments, equations, results, effects."""

    __slots__ = (
        "constvars",
        "invars",
        "outvars",
        "eqns",
        "effects",
        "debug_info",
        "cache",
        "__weakref__",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Eqn],
        effects: frozenset[object] | None = None,
        debug_info: DebugInfo | None = None,
    ) -> None:
        self.constvars, self.invars, self.outvars, self.eqns = (
            list(constvars),
            list(invars),
            list(outvars),
            list(eqns),
        )
        self.effects = join_effects(eqns, (*constvars, *invars)) if effects is None else effects
        self.debug_info = debug_info
        # Transformed versions of this jaxpr, kept as long as it lives.
        self.cache: dict[Any, Any] = {}

    def replace(self, **changes: Any) -> Jaxpr:
        """The jaxpr with some of its fields changed."""
        return Jaxpr(
            **{
                "constvars": self.constvars,
                "invars": self.invars,
                "outvars": self.outvars,
                "eqns": self.eqns,
                "effects": self.effects,
                "debug_info": self.debug_info,
                **changes,
            }
        )

    @property
    def jaxpr(self) -> Jaxpr:
        """Itself, as a closed one has it."""
        return self

    @property
    def consts(self) -> list[Any]:
        """The values of its constants, which it does not have."""
        return []

    # Libraries rewrite the list of equations in place.
    _eqns = property(lambda self: self.eqns)

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def is_high(self) -> bool:
        """Whether types of libraries, or primitives on them, are in the program."""
        return HIGH in self.dialects

    @property
    def dialects(self) -> frozenset[str]:
        """Which of high types, references, host memory and sums the types and primitives say, those
        of inner jaxprs included."""
        known: frozenset[str] | None = self.cache.get("dialects")
        if known is not None:
            return known
        found: set[str] = set()
        # Plain loops: this runs for every program.
        for v in chain(self.constvars, self.invars, self.outvars, *map(_outvars, self.eqns)):
            if v.aval.is_high:
                found.add(HIGH)
            if type(v.aval) is RefType:
                found.add(REFERENCES)
            if v.aval.placed:
                found.update(kinds_of(v.aval))
        for eqn in self.eqns:
            if dialects.high[type(eqn.primitive)]:
                found.add(HIGH)
            if eqn.params:
                for inner in jaxprs_in_params(eqn.params):
                    found |= inner.dialects
        self.cache["dialects"] = known = frozenset(found)
        return known

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]

    def pretty_print(self, **options: Any) -> str:
        """The jaxpr as text."""
        return provided.printing().jaxpr_text(self, **options)

    def __str__(self) -> str:
        return provided.printing().jaxpr_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return provided.printing().notebook(self)


@final
class ClosedJaxpr:
    """A jaxpr with the values of its constants."""

    __slots__ = ("jaxpr", "consts", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Value] = ()) -> None:
        assert len(consts) == len(jaxpr.constvars)
        self.jaxpr, self.consts = jaxpr, list(consts)

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.outvars]

    @property
    def is_high(self) -> bool:
        """Whether types of libraries, or primitives on them, are in the program."""
        return self.jaxpr.is_high

    @property
    def constvars(self) -> list[Var]:
        return self.jaxpr.constvars

    @property
    def invars(self) -> list[Var]:
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        return self.jaxpr.outvars

    @property
    def debug_info(self) -> Any:
        return self.jaxpr.debug_info

    @property
    def literals(self) -> list[Any]:
        return self.consts

    @property
    def eqns(self) -> list[Eqn]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Any]:
        return self.jaxpr.effects

    @property
    def cache(self) -> dict[Any, Any]:
        return self.jaxpr.cache

    def kept(self, key: object, make: Callable[[], object]) -> Any:
        """The result of `make`, kept on the jaxpr under a key.

        Not kept: results with constants of a running trace, and anything for a jaxpr with
        constants.
        """
        if self.consts:
            return make()
        found = self.jaxpr.cache.get(key)
        if found is None:
            found = make()
            if not any(isinstance(c, Tracer) for c in _constants(found)):
                self.jaxpr.cache[key] = found
        return found

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """A closed jaxpr of f(jaxpr) and the same constants."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    @property
    def num_consts(self) -> int:
        return len(self.consts)

    @property
    def all_invars(self) -> list[Var]:
        """The variables of constants, then of arguments."""
        return [*self.jaxpr.constvars, *self.jaxpr.invars]

    def with_consts(self, consts: Sequence[Value]) -> ClosedJaxpr:
        """The jaxpr with other values of its constants."""
        return ClosedJaxpr(self.jaxpr, consts)

    def replace(
        self,
        *,
        jaxpr: Jaxpr | ClosedJaxpr | None = None,
        consts: Sequence[Value] | None = None,
        **changes: object,
    ) -> ClosedJaxpr:
        """The closed jaxpr with some of its fields, or of its jaxpr's, changed."""
        inner = self.jaxpr if jaxpr is None else jaxpr.jaxpr
        return ClosedJaxpr(
            inner.replace(**changes) if changes else inner,
            self.consts if consts is None else consts,
        )

    def pretty_print(self, **options: Any) -> str:
        """The jaxpr as text."""
        return provided.printing().jaxpr_text(self.jaxpr, **options)

    def __call__(self, *args: Value) -> list[Any]:
        """Evaluate on flat arguments under the current trace."""
        return eval_jaxpr(self.jaxpr, self.consts, *args)

    def __str__(self) -> str:
        return provided.printing().jaxpr_text(self.jaxpr)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return provided.printing().notebook(self.jaxpr)


def _constants(made: object) -> Iterator[Any]:
    """The constants of the closed jaxprs in a transformation's result."""
    if isinstance(made, ClosedJaxpr):
        yield from made.consts
    elif isinstance(made, tuple):
        for item in made:
            yield from _constants(item)


def refers(args: Sequence[Value], params: Params) -> bool:
    """Whether a call that carries jaxprs or functions uses references."""
    carries = False
    for inner in jaxprs_in_params(params):
        if REFERENCES in inner.dialects:
            return True
        carries = True
    return not carries and any(type(typeof(x)) is RefType for x in args)


def join_effects(eqns: Iterable[Eqn], inputs: Sequence[Var]) -> frozenset[Any]:
    """The effects of all equations together, of a jaxpr with these inputs."""
    effects: frozenset[Any] = frozenset()
    for eqn in eqns:
        if eqn.effects:
            effects |= eqn.effects
    if effects and any(isinstance(e, RefEffect) for e in effects):
        return at_inputs(eqns, inputs)
    return effects


def interpret(
    closed: ClosedJaxpr,
    args: Sequence[Value],
    handle: Callable[[Eqn, tuple[object, ...]], Iterable[object]],
) -> list[Any]:
    """The results of a jaxpr on values of any kind.

    handle(equation, its operands) -> its results. Equations that `handle` stages get the user's
    line of the equation.
    """
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    saved, outer, own = _names.place, _names.scope, NO_SCOPES
    try:
        for eqn in jaxpr.eqns:
            operands = tuple([v.val if type(v) is Literal else env[v] for v in eqn.invars])
            place, scopes = eqn.source or NOWHERE
            _names.place = place or saved
            if scopes is not own:  # neighbours mostly share one tuple
                own, _names.scope = scopes, joined(outer, scopes)
            env.update(zip(eqn.outvars, handle(eqn, operands), strict=True))
    finally:
        _names.place, _names.scope = saved, outer
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Value], *args: Value) -> list[Any]:
    """The results of a jaxpr on flat arguments under the current trace.

    `interpret` written out, without a call of `handle`: this runs for every equation of every
    transformed program (benchmarks/).
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    process = current_trace().process
    saved, outer, own = _names.place, _names.scope, NO_SCOPES
    try:
        for eqn in jaxpr.eqns:
            operands = tuple([v.val if type(v) is Literal else env[v] for v in eqn.invars])
            place, scopes = eqn.source or NOWHERE
            _names.place = place or saved
            if scopes is not own:  # neighbours mostly share one tuple
                own, _names.scope = scopes, joined(outer, scopes)
            env.update(zip(eqn.outvars, process(eqn.primitive, operands, eqn.params), strict=True))
    finally:
        _names.place, _names.scope = saved, outer
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def jaxprs_in_params(params: Params) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of an equation."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Jaxpr):
                yield item
            elif isinstance(item, ClosedJaxpr):
                yield item.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs that the equations of `jaxpr` carry."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)
