"""Linear parts of eager derivatives, each as one program.

A backward or tangent pass contains no control flow of Python. Operation by operation, a new
function would compile hundreds of small programs for it. So the whole pass becomes one program,
unless almost all of its operations have been compiled already. Passes that consist of the same
equations on the same types share it.

`jit` and other recorded programs do not come here: a pass is recorded equation by equation there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from teucer._base import config, memo
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, eval_jaxpr
from teucer._core.primitive import Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import EVAL, Trace, current_trace, typeof, using
from teucer._core.types import Zero
from teucer._devices.placement import IncompatibleDevices, Placement, placement_of
from teucer._optimize.structure import literal_key, params_key
from teucer._programs.compile import program_for
from teucer._programs.eager import check_no_tracers, runner
from teucer._programs.job import Job
from teucer._programs.run import execute, fast_path, shard_arg_fallback
from teucer._transform.batch import BatchTrace
from teucer._transform.jit_calls import JaxprCall, hoist_consts, jit_p
from teucer._transform.jvp import JVPTrace
from teucer._transform.linearize import LinearizeTrace, Routine
from teucer._transform.partial import PartialTrace, split_jaxpr
from teucer._transform.transpose import backward_pass
from teucer._trees.pytrees import tree_structure
from teucer._xla.dispatcher import dispatcher

if TYPE_CHECKING:
    from teucer._core.jaxpr import Atom, Eqn
    from teucer._core.typing import Aval, Params, Value

T = TypeVar("T")

# Fewer equations are run one by one: to look a pass up takes as long.
FEWEST = 3
# Equations of a pass that compile as fast, as part of it, as one operation by itself.
EQUATIONS_AN_OPERATION = 8
# Passes that differ in parameters alone, a slice's places say. Further ones go by operation.
ALIKE = 2
_MOST = 512  # passes that are remembered
_THROUGH = frozenset({JVPTrace, LinearizeTrace, BatchTrace, PartialTrace})


class _Pass(NamedTuple):
    """A pass as a jaxpr without constants. consts: its first arguments. known: facts that `fun`
    returns beside its results."""

    jaxpr: ClosedJaxpr
    consts: Sequence[Any]
    known: Any


_passes: dict[Any, _Pass | None] = {}
_alike: dict[Any, int] = {}


def pull(
    jaxpr: Jaxpr,
    residuals: Sequence[Value],
    cts: Sequence[Value],
    wanted: Sequence[bool] | None = None,
) -> list[Any]:
    """Cotangents of the arguments of a linear jaxpr, as `backward_pass` gives them."""
    zeros = tuple([type(ct) is Zero for ct in cts])

    def pulled(
        jaxpr: Jaxpr, residuals: Sequence[Value], *moving: Value
    ) -> tuple[list[Any], list[bool]]:
        rest = iter(moving)
        given = [ct if zero else next(rest) for ct, zero in zip(cts, zeros, strict=True)]
        args = [Undefined(v.aval) for v in jaxpr.invars]
        outs = backward_pass(jaxpr, residuals, args, given, wanted)
        return [y for y in outs if type(y) is not Zero], [type(y) is not Zero for y in outs]

    outs, given = in_one(
        jaxpr,
        ("pull", zeros, None if wanted is None else tuple(wanted)),
        pulled,
        residuals,
        [ct for ct, zero in zip(cts, zeros, strict=True) if not zero],
    )
    found = iter(outs)
    return [
        next(found) if g else v.aval.zero_cotangent
        for v, g in zip(jaxpr.invars, given, strict=True)
    ]


def push(jaxpr: Jaxpr, residuals: Sequence[Value], *tangents: Value) -> list[Any]:
    """Results of a linear jaxpr, as `eval_jaxpr` gives them."""
    outs, _ = in_one(jaxpr, ("push",), _pushed, residuals, tangents)
    return outs


def _pushed(jaxpr: Jaxpr, residuals: Sequence[Value], *tangents: Value) -> tuple[list[Any], None]:
    return eval_jaxpr(jaxpr, residuals, *tangents), None


def in_one(
    jaxpr: Jaxpr,
    how: tuple[Hashable, ...],
    fun: Callable[..., tuple[list[Any], T]],
    residuals: Sequence[Value],
    operands: Sequence[Value] = (),
) -> tuple[list[Any], T]:
    """fun(jaxpr, residuals, *operands), as one program if possible: the results, and facts about
    them.

    jaxpr: the linear jaxpr that `fun` passes through. how: all else that it depends on.
    """
    read = _read(jaxpr) if _is_eager() and len(jaxpr.eqns) >= FEWEST else None
    if read is None:
        return fun(jaxpr, residuals, *operands)
    given = (*residuals, *read.literals, *operands)
    types = tuple(map(typeof, given))
    key = read.equations, read.avals, how, types, config.trace_context()
    try:
        found = _passes[key]
    except KeyError:
        found = memo.remember(_passes, key, _made(jaxpr, read, how, fun, types), _MOST)
    except TypeError:  # a parameter that is not hashable
        found = None
    if found is None:
        return fun(jaxpr, residuals, *operands)
    return list(linear_program_p.call(*found.consts, *given, jaxpr=found.jaxpr)), found.known


def _made(
    jaxpr: Jaxpr,
    read: _Read,
    how: tuple[Hashable, ...],
    fun: Callable[..., tuple[list[Any], T]],
    types: tuple[Aval, ...],
) -> _Pass | None:
    """The pass, None if it goes by operation."""
    alike = how, types, read.avals, tuple([(p, operands) for p, operands, *_ in read.equations])
    count = _alike[alike] = memo.remember(_alike, alike, 0, _MOST) + 1
    if count > ALIKE:
        return None
    known: list[T] = []
    lifted, n = read.lifted(jaxpr), len(jaxpr.constvars) + len(read.literals)

    def run(*values: Value) -> list[Any]:
        outs, of_them = fun(lifted, values[:n], *values[n:])
        known.append(of_them)
        return outs

    closed = stage_jaxpr(run, types, jaxpr.debug_info)
    return _Pass(hoist_consts(closed.jaxpr), closed.consts, known[-1])


class _Read(NamedTuple):
    """The parts of a linear jaxpr that do not depend on values.

    avals: types of its inputs. literals: their values, which become operands, since Python numbers
    may differ from call to call. Equations name them by negative numbers.
    """

    equations: tuple[Any, ...]
    avals: tuple[Aval, ...]
    literals: list[Any]

    def lifted(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr with constants in the place of literals."""
        names = [Var(typeof(x)) for x in self.literals]

        def lifted(atoms: Sequence[Atom], numbers: Sequence[int]) -> list[Atom]:
            return [v if i >= 0 else names[~i] for v, i in zip(atoms, numbers, strict=True)]

        *equations, (_, outs) = self.equations
        return jaxpr.replace(
            constvars=[*jaxpr.constvars, *names],
            outvars=lifted(jaxpr.outvars, outs),
            eqns=[
                eqn.replace(invars=lifted(eqn.invars, numbers))
                for eqn, (_, numbers, *_) in zip(jaxpr.eqns, equations, strict=True)
            ],
        )


def _read(jaxpr: Jaxpr) -> _Read | None:
    """A jaxpr with variables numbered; None if an equation has effects, or may call functions of
    Python."""
    if jaxpr.effects or jaxpr.dialects:
        return None
    numbers: dict[Any, int] = {}
    for v in (*jaxpr.constvars, *jaxpr.invars):
        numbers[v] = len(numbers)
    equations: list[Any] = []
    literals: list[Any] = []
    places: dict[Any, int] = {}

    def number(v: Atom) -> int:
        if type(v) is not Literal:
            return numbers[v]
        place = places.setdefault((literal_key(v), v.aval), len(literals))
        if place == len(literals):
            literals.append(v.val)
        return ~place

    # A plain loop: this runs for every equation of every eager gradient.
    for eqn in jaxpr.eqns:
        if eqn.effects or not _is_plain(eqn):
            return None
        operands = tuple([number(v) for v in eqn.invars])
        for v in eqn.outvars:
            numbers[v] = len(numbers)
        equations.append(
            (
                eqn.primitive,
                operands,
                params_key(eqn.params),
                tuple([v.aval for v in eqn.outvars]),
            )
        )
    equations.append((None, tuple([number(v) for v in jaxpr.outvars])))
    avals = tuple([v.aval for v in (*jaxpr.constvars, *jaxpr.invars)])
    return _Read(tuple(equations), avals, literals)


def _is_plain(eqn: Eqn) -> bool:
    """Whether a call compiles without a function of Python that looks at values."""
    p = eqn.primitive
    return (
        p.standalone
        or (p.linear_in == "sum" and not p.uses_axis)
        or (p is jit_p and all(map(_is_plain, eqn.params["jaxpr"].jaxpr.eqns)))
    )


def _is_eager() -> bool:
    """Whether the values beneath the transformations are concrete, and no option asks to look at
    each operation."""
    trace: Trace | None = current_trace()
    while trace is not EVAL:
        if type(trace) not in _THROUGH:
            return False
        trace = trace.parent  # type: ignore[union-attr]  # the last one is EVAL
    return not (
        config.disable_jit.value
        or config.debug_nans.value
        or config.debug_infs.value
        or config.debug_key_reuse.value
    )


@structure.internal
@final
class LinearProgram(JaxprCall):
    """A call of a linear pass. It runs as one program; a trace records its equations."""

    __slots__ = ()
    name = "linear_program"

    def evaluate(self, *args: Value, jaxpr: ClosedJaxpr) -> tuple[Any, ...]:
        run = jaxpr.cache.get(LinearProgram)
        if run is None:
            run = jaxpr.cache[LinearProgram] = _runner(jaxpr)
        outs: tuple[Any, ...] = run(*args)
        return outs

    def stage(self, trace: Trace, args: tuple[Value, ...], params: Params) -> Any:
        return tuple(params["jaxpr"](*args))

    def partial_eval(self, trace: PartialTrace, args: Sequence[Value], params: Params) -> Any:
        """The known part as one program, the rest as its equations."""
        unknown = [trace.is_unknown(x) for x in args]
        split = split_jaxpr(params["jaxpr"], unknown)
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        outs = trace.evaluate_known(
            self,
            (*split.known.consts, *known_args),
            {"jaxpr": hoist_consts(split.known.jaxpr)},
        )
        n_known = sum(not u for u in split.unknown_outs)
        computed, known = iter(outs[n_known:]), iter(outs[:n_known])
        residuals = [next(computed) if f is None else known_args[f] for f in split.forwarded]
        with using(trace):
            rest = iter(
                split.staged(*residuals, *[x for x, u in zip(args, unknown, strict=True) if u])
            )
        return tuple([next(rest) if u else next(known) for u in split.unknown_outs])


linear_program_p = LinearProgram()


def _runner(closed: ClosedJaxpr) -> Callable[..., Any]:
    """Runs a pass: a C++ dispatcher, which compiles for each placement of the arguments."""
    jaxpr = closed.jaxpr
    name = "pass" if jaxpr.debug_info is None else jaxpr.debug_info.name
    tree = tree_structure((0,) * len(jaxpr.outvars))
    routine: list[Routine] = []
    whole: dict[Placement, bool] = {}

    def by_operation(args: Sequence[Value]) -> tuple[Any, ...]:
        if not routine:
            routine.append(Routine(closed))
        return tuple(routine[0](EVAL, args))

    def cache_miss(*args: Value) -> tuple[Any, Any]:
        check_no_tracers(args)
        try:
            placement = placement_of(args)
        except IncompatibleDevices:  # operations move them
            return by_operation(args), None
        if placement not in whole:
            whole[placement] = len(placement.devices) == 1 and _is_new(jaxpr, placement)
        if not whole[placement]:
            return by_operation(args), None
        program = program_for(Job(jaxpr, name, placement, (False,) * len(args)))
        return tuple(execute(program, args)), fast_path(program, tree, args)

    def plain(*args: Value) -> Any:
        return by_operation(args)

    return dispatcher(name, plain, cache_miss, shard_arg_fallback=shard_arg_fallback)  # type: ignore[no-any-return]


def _is_new(jaxpr: Jaxpr, placement: Placement) -> bool:
    """Whether it takes longer to compile operations that no program is there for than to compile
    the pass."""
    missing: set[Any] = set()
    for eqn in jaxpr.eqns:
        avals = tuple([v.aval for v in eqn.invars])
        params = eqn.params
        found = (
            params["jaxpr"].jaxpr
            if eqn.primitive is jit_p
            else vars(runner(eqn.primitive, params))["staged"].get((avals, config.trace_context()))
        )
        if found is None or not found.cache.get("programs"):
            missing.add((eqn.primitive, avals, *params.items()))
    return len(missing) > 1 + len(jaxpr.eqns) / EQUATIONS_AN_OPERATION


def forget() -> None:
    """Forget all passes."""
    _passes.clear()
    _alike.clear()
