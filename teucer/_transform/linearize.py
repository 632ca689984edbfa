"""Linearization.

A function's value at a point, and its derivative there as a linear jaxpr over residuals.

It is the jvp trace over partial evaluation. Primal values are known, tangents are not, and the
record is linear. Linearizing a call of a primitive gives the same equations for all operands of the
same types. So for frequent calls they are computed once and cached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._base import config, memo
from teucer._base.source import here
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from teucer._core.leaks import check_alive, check_leaks
from teucer._core.names import JVP, _names, within
from teucer._core.primitive import Primitive
from teucer._core.reference_types import RefType
from teucer._core.stage import StageTrace, StageTracer
from teucer._core.trace import EVAL, Trace, Tracer, current_trace, end, typeof, using
from teucer._core.types import ShapedArray, Zero, float0
from teucer._optimize.dce import dce_jaxpr, filtered
from teucer._programs.eager import runner
from teucer._transform.jvp import JVPTrace, JVPTracer
from teucer._transform.limits.calls import jvp_of_part
from teucer._transform.limits.tangents import Limits
from teucer._transform.partial import PartialTrace

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Params, Value


class Linearized(NamedTuple):
    """Results, and the linear map of tangents as a jaxpr over residuals."""

    outs: list[Any]
    jaxpr: Jaxpr
    residuals: list[Any]
    moving_outs: list[bool]


def linearize_flat(
    f: Callable[..., Sequence[object]],
    primals: Sequence[object],
    moving: Sequence[bool] | None = None,
    debug_info: DebugInfo | None = None,
) -> Linearized:
    """Evaluate `f`, a function of flat values, and record its derivative there as a linear jaxpr.

    moving: with respect to which arguments; by default all those that have tangents. The jaxpr
    takes the tangents of all.
    """
    partial = PartialTrace(current_trace(), debug_info)
    trace = LinearizeTrace(partial)
    args = []
    for i, x in enumerate(primals):
        aval = typeof(x).tangent_aval()
        if type(aval) is RefType:  # a reference has no cotangent; its own value has no tangent
            aval = aval.inner.update(dtype=float0)
        elif type(aval) is ShapedArray and aval.unreduced:
            aval.partition.spec.to_tangent_spec()  # raises for parts of a maximum
        tangent = partial.new_arg(aval)
        # Integers and booleans have no tangents: those are of dtype float0, which nothing computes
        # with.
        args.append(
            JVPTracer(trace, x, tangent) if aval.moves and (moving is None or moving[i]) else x
        )
    with within(JVP), using(trace):
        outs = f(*args)
    pairs = [trace.split(y) for y in outs]
    moving_outs = [type(t) is not Zero for _, t in pairs]
    jaxpr, residuals = partial.close([t for _, t in pairs if type(t) is not Zero])
    end(trace)
    del args, outs
    check_leaks(trace)
    return Linearized([y for y, _ in pairs], jaxpr, residuals, moving_outs)


def without_dead(lin: Linearized) -> Linearized:
    """The same linear map, without equations and residuals that no result needs."""
    live, _ = dce_jaxpr(lin.jaxpr, [True] * len(lin.jaxpr.outvars))
    read = {
        v
        for atoms in (*[eqn.invars for eqn in live.eqns], live.outvars)
        for v in atoms
        if type(v) is not Literal
    }
    kept = [v in read for v in lin.jaxpr.constvars]
    jaxpr = live.replace(invars=lin.jaxpr.invars, constvars=filtered(lin.jaxpr.constvars, kept))
    return lin._replace(jaxpr=jaxpr, residuals=filtered(lin.residuals, kept))


@final
class LinearizeTrace(JVPTrace):
    """The jvp trace of a linearization, whose parent is a `PartialTrace`."""

    __slots__ = ()

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        # Primitives that are not programs of their own may carry functions of Python, which look at
        # values.
        if not primitive.standalone:
            return super().process(primitive, args, params)
        partial: Any = self.parent
        # Plain loops: this runs for every operation of every gradient (benchmarks/).
        primals, tangents, types = [], [], []
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                t = x.tangent
                if type(t) is not StageTracer or t._trace is not partial or t.aval is not x.aval:
                    return super().process(primitive, args, params)
                primals.append(x.primal)
                tangents.append(t._var)
                types.append(x.aval)
            else:
                if isinstance(x, Tracer):
                    check_alive(x)
                primals.append(x)
                types.append(typeof(x).zero)
        if not tangents:
            return super().process(primitive, args, params)
        key = (primitive, *types, config.trace_context(), *params.items())
        try:
            found = _derivatives.get(key)
        except TypeError:  # parameters that are not hashable
            return super().process(primitive, args, params)
        if found is None:
            found = memo.remember(_derivatives, key, Derivative())
        known = found.known
        if known is None:
            found.calls += 1
            if found.calls < 0 or (found.calls <= RARE and type(primitive) is not Whole):
                return super().process(primitive, args, params)
            known = found.work_out(primitive, primals, types, params)
            if known is None:
                return super().process(primitive, args, params)
        values = known(partial.parent, primals)
        n = len(found.tangents)
        atoms = [*found.literals, *map(partial.atom, values[n:]), *tangents]
        source = _names.place or here(), _names.scope
        at = atoms.__getitem__
        for eqn, places in found.linear:
            outvars = []
            for v in eqn.outvars:
                outvars.append(Var(v.aval))
            partial.eqns.append(
                Eqn(eqn.primitive, list(map(at, places)), outvars, eqn.params, eqn.effects, source)
            )
            atoms += outvars
        return tuple(
            [
                y if place is None else JVPTracer(self, y, StageTracer(partial, atoms[place]))
                for y, place in zip(values, found.tangents, strict=False)
            ]
        )


@final
class Whole(Primitive):
    """Several operations that are differentiated as if they were one primitive; nothing records
    it."""

    name = "whole"

    def __init__(self, apply: Callable[..., Sequence[Value]]) -> None:
        """apply: operands -> results, under the current trace."""
        self.calls, self._apply = 0, apply

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value], **params: object
    ) -> tuple[list[Any], Sequence[Any]]:
        return jvp_of_part(self._apply, primals, tangents)

    def linearized(self, trace: Trace, args: Sequence[Value]) -> tuple[Any, ...] | None:
        """The results, if the parent records a linearization in which an operand has a tangent, and
        such calls have come often."""
        if type(trace) is not LinearizeTrace or not any(
            type(x) is JVPTracer and x._trace is trace for x in args
        ):
            return None
        self.calls += 1
        return trace.process(self, tuple(args), {}) if self.calls > RARE else None


def places_in(jaxpr: Jaxpr) -> tuple[list[Literal], dict[Atom, int]]:
    """The literals of a jaxpr, and the places of its atoms in a list: literals, constants,
    arguments, results of the equations."""
    literals = [
        v
        for v in (*(v for eqn in jaxpr.eqns for v in eqn.invars), *jaxpr.outvars)
        if type(v) is Literal
    ]
    atoms: Any = (
        *literals,
        *jaxpr.constvars,
        *jaxpr.invars,
        *(v for eqn in jaxpr.eqns for v in eqn.outvars),
    )
    return literals, {v: i for i, v in enumerate(atoms)}


@final
class Routine:
    """A jaxpr made ready to be evaluated often: its values have places in a list instead of
    names."""

    __slots__ = ("given", "outs", "runs", "steps")

    def __init__(self, closed: ClosedJaxpr) -> None:
        literals, place = places_in(closed.jaxpr)
        self.given = [*(v.value for v in literals), *closed.consts]
        self.steps = [
            (eqn.primitive, eqn.params, [place[v] for v in eqn.invars]) for eqn in closed.eqns
        ]
        self.runs = (
            [(runner(p, params), places) for p, params, places in self.steps]
            if all(p.standalone for p, _, _ in self.steps)
            else None
        )
        self.outs = [place[v] for v in closed.jaxpr.outvars]

    def __call__(self, trace: Trace, args: Sequence[Value]) -> list[Any]:
        """The results of the routine for `args`, computed under `trace`."""
        values = [*self.given, *args]
        at = values.__getitem__
        if trace is EVAL and self.runs is not None:
            for run, places in self.runs:
                values += run(*map(at, places))
        else:
            with using(trace):
                for primitive, params, places in self.steps:
                    values += trace.process(primitive, tuple(map(at, places)), params)
        return list(map(at, self.outs))


@final
class Derivative:
    """The jvp rule of a primitive for operands of some types, cut in two.

    known: operands -> results, residuals. literals, linear: the equations to record, on residuals
    and tangents, with the places of their operands. tangents: for each result the place of its
    tangent, None where it is zero.
    """

    __slots__ = ("calls", "known", "linear", "literals", "tangents")

    def __init__(self) -> None:
        self.calls = 0
        self.known: Routine | None = None

    def work_out(
        self,
        primitive: Primitive,
        primals: Sequence[Value],
        types: Sequence[Aval | Zero],
        params: Params,
    ) -> Routine | None:
        """Sets and returns `known`, None if results have limits, which only their trace follows.

        types: of each operand that moves; a Zero for each that does not.
        """
        outer = StageTrace(EVAL)
        inner = PartialTrace(outer)
        args = [outer.new_arg(typeof(x)) for x in primals]
        with using(inner):
            outs, tangents = primitive.jvp(
                args, [t if type(t) is Zero else inner.new_arg(t) for t in types], **params
            )
        if type(tangents) is Limits:
            self.calls = -sys.maxsize
            return None
        jaxpr, residuals = inner.close([t for t in tangents if type(t) is not Zero])
        self.literals, place = places_in(jaxpr)
        self.linear = [(eqn, [place[v] for v in eqn.invars]) for eqn in jaxpr.eqns]
        moved = iter(jaxpr.outvars)
        self.tangents = [None if type(t) is Zero else place[next(moved)] for t in tangents]
        self.known = Routine(ClosedJaxpr(*outer.close([*outs, *residuals])))
        return self.known


# To work a derivative out takes as long as so many calls then save, so a program that is traced
# once is not slowed down.
RARE = 7
_derivatives: dict[Any, Derivative] = {}


def forget() -> None:
    """Forget the derivatives of all primitives."""
    _derivatives.clear()
