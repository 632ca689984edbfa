"""Staging: a trace that records what the program does as a jaxpr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import config
from teucer._base.source import here
from teucer._core import dialects, high
from teucer._core import reference_types as references
from teucer._core.debug_info import DebugInfo, origin_of, reason_for
from teucer._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from teucer._core.leaks import check_alive, check_leaks
from teucer._core.names import NO_SCOPES, _names, apart
from teucer._core.primitive import NO_EFFECTS
from teucer._core.provided import provided
from teucer._core.reference_types import RefType
from teucer._core.trace import Trace, Tracer, current_trace, end, using
from teucer._core.types import aval_of, aval_rules, float0
from teucer._dimensions.dimensions import Dimension
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value


_LITERAL_TYPES = frozenset({int, float, complex, bool})


@final
class StageTracer(Tracer):
    """A value of the program being recorded: a variable of its jaxpr, or a literal."""

    __slots__ = ("_var", "aval")
    aval: Any

    def __init__(self, trace: Trace, var: Atom) -> None:
        self._trace, self._var, self.aval = trace, var, var.aval

    def origin(self) -> str:
        return origin_of(self._trace, self._var)  # type: ignore[arg-type]

    def reason(self) -> str:
        return reason_for(self._trace, self._var)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"


class StageTrace(Trace):
    """Records equations. `jaxpr(outs)` closes the record."""

    __slots__ = ("eqns", "invars", "consts", "debug_info", "states")

    def __init__(self, parent: Trace | None, debug_info: DebugInfo | None = None) -> None:
        super().__init__(parent)
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        # Keyed by id(value). The value is kept alive so that its id is not reused.
        self.consts: dict[int, tuple[Var, Any]] = {}
        self.debug_info = debug_info
        # The states of values that change, before the next equation.
        self.states: dict[Any, Any] = {}

    def staging(self) -> bool:
        return True

    def new_arg(self, aval: Aval) -> StageTracer:
        """A new argument of the recorded program."""
        var = Var(aval)
        self.invars.append(var)
        if aval.placed:
            self.placed[:] = (True,)
        return self.stateful(var) if type(aval) is high.AvalQDD else StageTracer(self, var)

    def stateful(self, var: Var) -> StageTracer:
        """The value of a variable that changes."""
        tracer = StageTracer(self, var)
        tracer.aval, self.states[var] = var.aval.aval, var.aval.qdd
        return tracer

    def state(self, x: Value) -> Any:
        if type(x) is StageTracer and x._trace is self:
            return self.states.get(x._var)
        entry = self.consts.get(id(x))
        return None if entry is None else self.states.get(entry[0])

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        if primitive.stage is not None:
            return primitive.stage(self, args, params)  # type: ignore[no-any-return]
        return self.record(primitive, args, params)

    def record(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        """Append the equation `outs = primitive[params] args`."""
        # Plain loops: this runs for every equation of every program (benchmarks/).
        invars: list[Atom] = []
        avals = []
        refers = False
        placed = False
        for a in args:
            v = a._var if type(a) is StageTracer and a._trace is self else self.atom(a)
            invars.append(v)
            avals.append(v.aval)
            if type(v.aval) is RefType:
                refers = True
            if v.aval.placed:
                placed = True
        if refers and not (primitive.higher_order or dialects.takes_references[type(primitive)]):
            references.refuse(primitive, avals)
        if self.states:
            avals = [
                high.AvalQDD(a.aval, self.states[v]) if type(a) is high.AvalQDD else a
                for v, a in zip(invars, avals, strict=True)
            ]
        effects = NO_EFFECTS if primitive.pure else primitive.effects(*avals, **params)
        outvars = []
        outs = []
        changes = False
        types = primitive.types(*avals, **params)
        if not placed:
            placed = dialects.varies[type(primitive)] is not None
            for aval in types:
                if aval.placed:
                    placed = True
        if placed:
            types = provided.laid_out(primitive, avals, params, types)
        for aval in types:
            if aval.placed:
                self.placed[:] = (True,)
            var = Var(aval)
            outvars.append(var)
            outs.append(StageTracer(self, var))
            if type(aval) is high.AvalQDD:
                changes = True
        self.eqns.append(
            Eqn(primitive, invars, outvars, params, effects, (_names.place or here(), _names.scope))
        )
        return self.with_states(invars, effects, outs) if changes or effects else tuple(outs)

    def with_states(
        self, operands: Sequence[Atom], effects: Iterable[object], outs: Sequence[StageTracer]
    ) -> tuple[Any, ...]:
        """The results of an equation. Results that change have a state; operands get the state that
        an effect gives."""
        self.states.update(
            (operands[e.index], e.state) for e in effects if type(e) is high.StateEffect
        )
        return tuple(
            [
                self.stateful(y._var) if type(y.aval) is high.AvalQDD else y  # type: ignore[arg-type]
                for y in outs
            ]
        )

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for a value in this trace."""
        kind = type(x)
        if kind is StageTracer and x._trace is self:
            var: Atom = x._var
            return var
        if kind is not ArrayImpl:  # most constants are of type ArrayImpl
            if kind in _LITERAL_TYPES or (
                isinstance(x, np.generic | np.ndarray) and not x.shape and x.dtype != float0
            ):
                return Literal(x, aval_of(x))
            if isinstance(x, Tracer):
                check_alive(x)
            elif (
                (kind is Dimension or kind not in aval_rules)
                and hasattr(x, "__jax_array__")
                and not hasattr(x, "aval")
            ):
                with using(self):
                    return self.atom(x.__jax_array__())
        entry = self.consts.get(id(x))
        if entry is None:
            aval = aval_of(x)
            if aval.has_qdd and high.is_mutable(aval):
                aval = high.AvalQDD(aval, high.state_in(self.parent, x))
            entry = self.consts[id(x)] = (Var(aval), x)
            if aval.placed:
                self.placed[:] = (True,)
            if type(aval) is high.AvalQDD:
                self.states[entry[0]] = aval.qdd
        return entry[0]

    def lift(self, x: Value, aval: Aval) -> Any:
        return StageTracer(self, self.atom(x) if aval.shape else Literal(x, aval))

    def close(self, outs: Sequence[Value]) -> tuple[Jaxpr, list[Any]]:
        """The recorded jaxpr with the given results, and the values of its constants. Ends the
        trace."""
        outvars = [self.atom(x) for x in outs]
        _mark_unused(self.eqns, outvars)
        constvars = [var for var, _ in self.consts.values()]
        consts = [value for _, value in self.consts.values()]
        jaxpr = Jaxpr(constvars, self.invars, outvars, self.eqns, None, self.debug_info)
        end(self)
        if config.enable_checks.value:
            provided.check_jaxpr(jaxpr)
        return jaxpr, consts

    def __repr__(self) -> str:
        d = self.debug_info
        return f"{d.name} being traced for {d.transform}" if d else "a function being traced"


def _mark_unused(eqns: list[Eqn], outvars: Sequence[Atom]) -> None:
    """Replace results of several-result equations that nothing uses by DropVars, as jaxprs are
    printed."""
    multiple = [eqn for eqn in eqns if len(eqn.outvars) > 1]
    if not multiple:
        return
    used = {v for v in outvars if type(v) is Var}
    for eqn in eqns:
        used.update(v for v in eqn.invars if type(v) is Var)
    for eqn in multiple:
        eqn.outvars = [v if v in used else DropVar(v.aval) for v in eqn.outvars]


def stage_flat(
    f: Callable[..., Sequence[object]],
    in_avals: Sequence[Aval],
    debug_info: DebugInfo | None = None,
) -> tuple[Jaxpr, list[Any]]:
    """Record `f`, a function of flat values that returns flat values, on arguments of the given
    types."""
    if config.no_tracing.value:
        raise RuntimeError(
            "re-tracing function "
            f"{debug_info.name if debug_info else f} for jit, but the option 'no_tracing' is set."
        )
    start = time.perf_counter()
    trace = StageTrace(current_trace(), debug_info)
    args = [trace.new_arg(aval) for aval in in_avals]
    outer = _names.scope
    if outer is not NO_SCOPES:
        _names.scope = apart(outer)
    try:
        with using(trace):
            outs = f(*args)
        result = trace.close(outs)
    finally:
        _names.scope = outer
        end(trace)
    if debug_info is not None:
        debug_info.seconds = time.perf_counter() - start
    del args, outs
    check_leaks(trace)
    return result


def stage_jaxpr(
    f: Callable[..., Sequence[object]],
    in_avals: Sequence[Aval],
    debug_info: DebugInfo | None = None,
) -> ClosedJaxpr:
    """As `stage_flat`; the result is closed over its constants."""
    return ClosedJaxpr(*stage_flat(f, in_avals, debug_info))
