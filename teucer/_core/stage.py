"""Staging: a trace that records what the program does as a jaxpr."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import config, functions
from teucer._base.source import here, is_internal
from teucer._core import high_types as high
from teucer._core.checker import check_jaxpr
from teucer._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from teucer._core.names import NO_SCOPES, _names, apart
from teucer._core.partition import laid_out
from teucer._core.primitive import NO_EFFECTS
from teucer._core.references import types as references
from teucer._core.trace import Trace, Tracer, check_alive, check_leaks, current_trace, end, using
from teucer._core.types import (
    aval_of,
    aval_rules,
    float0,
    high_types,
    in_host_memory,
    partitioned,
    varying,
)
from teucer._dimensions.dimensions import Dimension
from teucer._trees import pytrees
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value

__all__ = ["DebugInfo", "StageTrace", "StageTracer", "is_written", "stage_flat", "stage_jaxpr"]

_LITERAL_TYPES = frozenset({int, float, complex, bool})


class DebugInfo:
    """For messages: what is being traced, and how its flat arguments are called. Looked up when a
    message needs it.

    The function is referred to weakly: what was traced of it is kept as long as it lives. Its code
    says its place and its parameters when it is gone.
    """

    __slots__ = ("_arg_names", "_code", "_fun", "name", "out_tree", "seconds", "transform")

    def __init__(
        self,
        fun: Callable[..., object] | str,
        arg_names: Sequence[str] | Callable[[Callable[..., object]], Sequence[str]] = (),
        transform: str = "jit",
    ) -> None:
        self.name = fun if isinstance(fun, str) else functions.fun_name(fun)
        self._arg_names, self.transform = arg_names, transform
        self.out_tree: Any = None  # of what the function returned, once it is known
        self.seconds = 0.0  # that tracing took
        self._code = getattr(getattr(fun, "__wrapped__", fun), "__code__", None)
        try:
            self._fun: Callable[[], Any] = weakref.ref(fun)  # a str cannot be
        except TypeError:
            self._fun = _nothing

    def _described(self) -> Any:
        """The function, or one of its code that only has its signature; None if nothing is
        known."""
        fun = self._fun()
        return functions.of_code(self._code) if fun is None else fun

    @property
    def where(self) -> str:
        """File and line of the function; '' if they are not known."""
        fun = self._described()
        return "" if fun is None else functions.where(fun)

    # The same under JAX's names.
    @property
    def func_name(self) -> str:
        return self.name

    @property
    def traced_for(self) -> str:
        return self.transform

    @property
    def func_filename(self) -> str | None:
        return self.where.rpartition(":")[0] or None

    @property
    def func_lineno(self) -> int | None:
        line = self.where.rpartition(":")[2]
        return int(line) if line.isdigit() else None

    @property
    def func_src_info(self) -> str:
        return f"{self.name} at {self.where}" if self.where else self.name

    @property
    def arg_names(self) -> Sequence[str]:
        """What the user calls the flat arguments."""
        if not callable(self._arg_names):
            return self._arg_names
        fun = self._described()
        return () if fun is None else self._arg_names(fun)

    @property
    def result_paths(self) -> tuple[str, ...] | None:
        """Where the flat results are in what the function returned, as `result['x'][0]`; None
        before it has returned."""
        tree = self.out_tree
        return (
            None
            if tree is None
            else tuple([f"result{pytrees.keystr(path)}" for path in pytrees.leaf_paths(tree)])
        )

    def safe_arg_names(self, expected_size: int) -> tuple[str, ...]:
        """Names of so many arguments: '' for each if others are known."""
        names = tuple(self.arg_names)
        return names if len(names) == expected_size else ("",) * expected_size

    def safe_result_paths(self, expected_size: int) -> tuple[str, ...]:
        """Paths of so many results: '' for each if others are known."""
        paths = self.result_paths or ()
        return paths if len(paths) == expected_size else ("",) * expected_size

    def resolve_result_paths(self) -> DebugInfo:
        """This: paths are worked out when they are asked for."""
        return self

    def __repr__(self) -> str:
        return (
            f"DebugInfo(traced_for={self.traced_for!r}, func_src_info={self.func_src_info!r}, "
            f"arg_names={self.arg_names!r}, result_paths={self.result_paths!r})"
        )


def _nothing() -> None:
    return None


@final
class StageTracer(Tracer):
    """A value of the program being recorded: a variable of its jaxpr, or a literal."""

    __slots__ = ("_var", "aval")
    aval: Any

    def __init__(self, trace: Trace, var: Atom) -> None:
        self._trace, self._var, self.aval = trace, var, var.aval

    def origin(self) -> str:
        return self._trace.origin_of(self._var)  # type: ignore[attr-defined, no-any-return]

    def reason(self) -> str:
        return self._trace.reason_for(self._var)  # type: ignore[attr-defined, no-any-return]

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"


class StageTrace(Trace):
    """Records equations. `jaxpr(outs)` closes the record."""

    __slots__ = ("eqns", "invars", "consts", "debug_info", "states")

    def __init__(self, parent: Trace | None, debug_info: DebugInfo | None = None) -> None:
        super().__init__(parent)
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        # By identity of the value, which is kept so that the identity stays its own.
        self.consts: dict[int, tuple[Var, Any]] = {}
        self.debug_info = debug_info
        # Of values that change, at the equation that comes next.
        self.states: dict[Any, Any] = {}

    def staging(self) -> bool:
        return True

    def new_arg(self, aval: Aval) -> StageTracer:
        """A new argument of the recorded program."""
        var = Var(aval)
        self.invars.append(var)
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
        for a in args:
            v = a._var if type(a) is StageTracer and a._trace is self else self.atom(a)
            invars.append(v)
            avals.append(v.aval)
        if references.made:
            if not primitive.takes_references:
                references.refuse(primitive, avals)
            if self.states:
                avals = [
                    high.AvalQDD(a.aval, self.states[v]) if type(a) is high.AvalQDD else a
                    for v, a in zip(invars, avals, strict=True)
                ]
        effects = NO_EFFECTS if primitive.pure else primitive.effects(*avals, **params)
        outvars = []
        outs = []
        types = primitive.types(*avals, **params)
        if partitioned or varying or in_host_memory:
            types = laid_out(primitive, avals, params, types)
        for aval in types:
            var = Var(aval)
            outvars.append(var)
            outs.append(StageTracer(self, var))
        self.eqns.append(
            Eqn(primitive, invars, outvars, params, effects, (_names.place or here(), _names.scope))
        )
        if high_types:
            self.states.update(
                (invars[e.index], e.state) for e in effects if type(e) is high.StateEffect
            )
            return tuple(
                [
                    self.stateful(v) if type(v.aval) is high.AvalQDD else out
                    for v, out in zip(outvars, outs, strict=True)
                ]
            )
        return tuple(outs)

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for a value in this trace."""
        kind = type(x)
        if kind is StageTracer and x._trace is self:
            var: Atom = x._var
            return var
        if kind is not ArrayImpl:  # what most constants are
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
            if high_types and high.is_mutable(aval):
                aval = high.AvalQDD(aval, high.state_in(self.parent, x))
            entry = self.consts[id(x)] = (Var(aval), x)
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
            check_jaxpr(jaxpr)
        return jaxpr, consts

    def origin_of(self, var: Atom) -> str:
        """Where the equation that defines `var` stands in the user's program; '' for an
        argument."""
        for i, v in enumerate(self.invars):
            if v is var:
                return f"argument {self._arg_name(i)}" + (
                    f" of {self.debug_info.name}" if self.debug_info else ""
                )
        for eqn in reversed(self.eqns):
            if any(v is var for v in eqn.outvars):
                return eqn.where("")
        return ""

    def reason_for(self, var: Atom) -> str:
        """Which arguments the value of `var` depends on, so that it is not known."""
        d, needed = self.debug_info, {id(var)}
        for eqn in reversed(self.eqns):
            if any(id(v) in needed for v in eqn.outvars):
                needed.update(map(id, eqn.invars))
        names_ = [self._arg_name(i) for i, v in enumerate(self.invars) if id(v) in needed]
        if d is None:
            return ""
        why = (
            "Constants are traced too: compute with NumPy, or under "
            "jax.ensure_compile_time_eval(), what must be known."
        )
        if names_:
            s, listed = (
                "s" * (len(names_) > 1),
                " and ".join(filter(None, (", ".join(names_[:-1]), names_[-1]))),
            )
            why = (
                "This concrete value was not available in Python because it depends on "
                f"the value{s} of the argument{s} {listed}."
            )
        place = "" if not d.where or is_internal(d.where.rpartition(":")[0]) else f" at {d.where}"
        return (
            f"The error occurred while tracing the function {d.name}{place} for {d.transform}.\n"
            f"{why}"
        )

    def _arg_name(self, i: int) -> str:
        names_ = self.debug_info.arg_names if self.debug_info else ()
        return names_[i] if i < len(names_) else str(i)

    def __repr__(self) -> str:
        d = self.debug_info
        return f"{d.name} being traced for {d.transform}" if d else "a function being traced"


def is_written(ref: StageTracer) -> bool:
    """Whether the program being recorded changes the array of a reference."""
    eqns: list[Eqn] = ref._trace.eqns  # type: ignore[attr-defined]
    return any(
        eqn.invars[i] is ref._var
        for eqn in eqns
        if eqn.effects
        for i in references.touched(eqn.effects).written
    )


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
