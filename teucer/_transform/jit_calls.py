"""Calls of jaxprs as primitives: `jit`."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._core import array_ops, dialects, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from teucer._core.places import source_info
from teucer._core.primitive import FunctionCall, Primitive, Undefined
from teucer._core.provided import provided
from teucer._core.reference_types import at_operands
from teucer._core.types import Zero
from teucer._devices.placement import placement_of
from teucer._lower import text
from teucer._optimize.dce import dce_closed, filtered, narrowed
from teucer._optimize.unchanged import forward_call
from teucer._programs import run
from teucer._programs.compile import program_for
from teucer._programs.eager import check_no_tracers
from teucer._programs.job import Job
from teucer._transform.batch import batch_jaxpr
from teucer._transform.limits.calls import jvp_of_call
from teucer._transform.partial import split_jaxpr
from teucer._transform.transpose import transpose_jaxpr
from teucer._xla.client import XlaRuntimeError

if TYPE_CHECKING:
    from teucer._core.jaxpr import Atom, Var
    from teucer._core.primitive import Axis
    from teucer._core.stage import StageTrace
    from teucer._core.typing import Aval, Dims, Params, Value, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._programs.program import Program
    from teucer._transform.partial import PartialTrace
    from teucer._transform.staged import Staged
    from teucer._xla.dispatcher import FastPath


class Inline(enum.Enum):
    """Where a jitted function that is called within another is inlined: the argument `inline` of
    `jit`.

    JAX_EARLY: while the outer function is traced; its jaxpr has no call.
    JAX_LATE: when the outer jaxpr is written as StableHLO.
    XLA_EARLY, XLA_LATE: by the compiler, which is told when.
    AUTO: the program decides.

    >>> import teucer as jax
    >>> jax.make_jaxpr(lambda x: jax.jit(jax.lax.sin, inline=Inline.JAX_EARLY)(x))(1.)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


def execute(
    program: Program, jaxpr: ClosedJaxpr, args: Sequence[Value], n_consts: int = 0
) -> list[Any]:
    """Run the program of a jaxpr.

    n_consts: how many of the first arguments are the same at each call, and stay on its devices.
    A value that jax_debug_nans refuses is traced to the primitive that makes it; if memory runs
    out, the error shows the largest values.
    """
    if n_consts:
        args = (*_placed(program, jaxpr, args[:n_consts]), *args[n_consts:])
    try:
        return run.execute(program, args)
    except XlaRuntimeError as err:
        if "RESOURCE_EXHAUSTED" in str(err):
            err.add_note(provided.memory_note(jaxpr.jaxpr))
        raise
    except FloatingPointError:
        # Donated ones are deleted after the first run; over several processes the second run
        # would need them all.
        if all(
            type(x) is not ArrayImpl or (not x.is_deleted() and x.is_fully_addressable)
            for x in args
        ):
            provided.blame(jaxpr, args)
        raise


def execute_staged(
    program: Program, staged: Staged, args: Sequence[Value]
) -> tuple[list[Any], FastPath | None]:
    """Run the program of a traced function, constants first; also gives a fast path for the next
    time."""
    donated, n_consts = staged.donated, len(staged.consts)
    seen = False
    if True in donated:
        from teucer._executables import donation  # for programs that are given arrays

        seen = donation.checked(
            program.kept, len(program.placement.devices), donated, args, staged.debug_info
        )
    fast = None if seen else run.fast_path(program, staged.out_tree, args, n_consts)
    return execute(program, staged.jaxpr, args, 0 if fast else n_consts), fast


def _placed(program: Program, jaxpr: ClosedJaxpr, consts: Sequence[Value]) -> tuple[Value, ...]:
    """The first arguments of a program on its devices, kept for its next calls."""
    found = jaxpr.cache.get((_placed, program))
    if found is None or not all(map(operator.is_, found[0], consts)):
        shardings = iter(program.in_shardings)
        wanted = [next(shardings) if kept else None for kept in program.kept[: len(consts)]]
        there = tuple(
            x if sharding is None or type(x) is ArrayImpl else transfer.to_sharding(x, sharding)
            for x, sharding in zip(consts, wanted, strict=True)
        )
        found = jaxpr.cache[_placed, program] = consts, there
    return cast(tuple[Any, ...], found[1])


def hoist_consts(jaxpr: Jaxpr) -> ClosedJaxpr:
    """The jaxpr with its constants as its first inputs."""
    if not jaxpr.constvars:
        return ClosedJaxpr(jaxpr, ())
    return ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), ())


# Bytes of a NumPy array that is compared with others: a hundred microseconds, at most once a trace.
_MERGED_MOST = 1 << 20


def merge_equal(jaxpr: Jaxpr, consts: Sequence[Value]) -> tuple[Jaxpr, list[Value]]:
    """The jaxpr and its constants with one of those NumPy arrays that are equal bit for bit.

    Masks and indices that a layer makes anew are operands of the program otherwise, one for each
    layer: layers then differ in them. The one that stays is a copy, since whoever has the others
    may write to this one.
    """
    first: dict[Any, int] = {}
    same: dict[int, int] = {}  # by place: the place of the first equal one
    arrays = {place: x for place, x in enumerate(consts) if type(x) is np.ndarray}
    for place, x in arrays.items():
        if x.nbytes <= _MERGED_MOST and not x.dtype.hasobject:
            key = jaxpr.constvars[place].aval, x.tobytes()
            if (known := first.setdefault(key, place)) != place:
                same[place] = known
    if not same or jaxpr.effects:  # effects count operands
        return jaxpr, list(consts)
    constvars = jaxpr.constvars
    names: dict[Atom, Var] = {constvars[place]: constvars[known] for place, known in same.items()}
    eqns = [
        eqn.replace(invars=[names.get(v, v) for v in eqn.invars])
        if not names.keys().isdisjoint(eqn.invars)
        else eqn
        for eqn in jaxpr.eqns
    ]
    kept = [place for place in range(len(consts)) if place not in same]
    shared = set(same.values())
    return (
        jaxpr.replace(
            constvars=[constvars[place] for place in kept],
            outvars=[names.get(v, v) for v in jaxpr.outvars],
            eqns=eqns,
        ),
        [arrays[place].copy() if place in shared else consts[place] for place in kept],
    )


def hoisted(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The jaxpr with its constants as its first inputs, kept on it, and their values."""
    if not closed.jaxpr.constvars:
        return closed, []
    found = closed.cache.get("hoisted")
    if found is None:
        found = closed.cache["hoisted"] = hoist_consts(closed.jaxpr)
    return found, closed.consts


@structure.calls("jaxpr")
class JaxprCall(Primitive):
    """A primitive that evaluates `jaxpr` on its operands; derivatives and batches of it are calls
    of transformed jaxprs.

    (C1) jaxpr has no constants.
    """

    __slots__ = ()
    higher_order = True

    def on_jaxpr(
        self,
        closed: ClosedJaxpr,
        operands: Sequence[object],
        params: dict[str, object],
        sources: Sequence[int | None] | None = None,
    ) -> Any:
        """A call of a transformed jaxpr; the constants that rules have brought in become operands.

        sources: the operand of this call that each operand is, or is the tangent of; None for none.
        By default one for one.
        """
        inner, consts = hoisted(closed)
        if consts or sources is not None:
            sources = range(len(operands)) if sources is None else sources
            params = self.for_operands(params, [*[None] * len(consts), *sources])
        return self.call(*consts, *operands, jaxpr=inner, **params)

    def for_operands(self, params: Params, sources: Sequence[int | None]) -> dict[str, Any]:
        """The parameters for other operands; sources: for each, the place of the operand that it
        comes from."""
        return params

    def types(self, *avals: Aval, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr.out_avals)

    def effects(self, *avals: Aval, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return at_operands(jaxpr.effects, jaxpr.jaxpr.invars)

    @dialects.on_values.rule
    def on_values(
        self, operands: Values, groups: Sequence[int], *, jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        from teucer._dialects.references.discharge import discharged

        inner = discharged(jaxpr, groups)
        outs = self.on_jaxpr(
            inner.jaxpr, operands, params, range(len(operands)) if inner.jaxpr.consts else None
        )
        return inner.split(outs)

    @dialects.on_low.rule
    def on_low(
        self, operands: Values, avals: Sequence[Aval], *, jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        from teucer._dialects.high.lowering import lowered, taken_apart

        low, given = lowered(jaxpr), taken_apart(operands, avals)
        return low.raised(self.on_jaxpr(low.jaxpr, given.low, params, given.sources), operands)

    def jvp(
        self, primals: Values, tangents: Values, *, jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        moving = [type(t) is not Zero for t in tangents]
        jvp, taken = jvp_of_call(jaxpr, moving)
        sources = [i for i, m in enumerate(moving) if m]
        operands = (*primals, *[tangents[i] for i in sources])
        return taken(self.on_jaxpr(jvp, operands, params, [*range(len(primals)), *sources]))

    def transpose(self, cts: Values, *args: Value, jaxpr: ClosedJaxpr, **params: object) -> Any:
        linear = [type(x) is Undefined for x in args]
        given = [type(ct) is not Zero for ct in cts]
        transposed, nonzero = transpose_jaxpr(jaxpr, linear, given)
        operands = [x for x, lin in zip(args, linear, strict=True) if not lin]
        operands += [ct for ct, g in zip(cts, given, strict=True) if g]
        outs = iter(self.on_jaxpr(transposed, operands, params, [None] * len(operands)))
        found = iter([next(outs) if nz else None for nz in nonzero])
        return tuple(next(found) if lin else None for lin in linear)

    def batch(
        self, axis: Axis, args: Sequence[Value], dims: Dims, *, jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        batched, out_batched = batch_jaxpr(jaxpr, axis, [d is not None for d in dims], False)
        operands = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        outs = self.on_jaxpr(batched, operands, params)
        return outs, tuple(0 if b else None for b in out_batched)

    def uses_axis(self, name: object, params: Params) -> bool:
        return name is not None and jaxpr_uses_axis(params["jaxpr"].jaxpr, name)

    def on_buffers(
        self,
        sizes: Any,
        args: Sequence[Value],
        avals: Sequence[Aval],
        outs: Sequence[Value],
        *,
        jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Any:
        """The rule `padded` of a call that stays one."""
        inner, given, found = sizes.inner(jaxpr)
        sources = [*[None] * len(given), *range(len(args))]
        return sizes.learn(self.on_jaxpr(inner, (*given, *args), params, sources), found)


class ProgramCall(JaxprCall):
    """A call that runs as a program of its own, which may be given the buffers of operands
    (`donated_invars`)."""

    __slots__ = ()

    def for_operands(self, params: Params, sources: Sequence[int | None]) -> dict[str, Any]:
        donated = params["donated_invars"]
        return {**params, "donated_invars": tuple([i is not None and donated[i] for i in sources])}

    def for_staged(
        self, params: Params, avals: Sequence[Aval], outs: Sequence[Value]
    ) -> dict[str, Any]:
        """The parameters of the staged part, after the known part has given `outs` for the types
        `avals`."""
        return params

    def partial_eval(self, trace: PartialTrace, args: Iterable[Value], params: Params) -> Any:
        """Call the known part in the parent, record a call of the rest."""
        unknown = [trace.is_unknown(x) for x in args]
        split = split_jaxpr(params["jaxpr"], unknown)
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        unknown_args = [x for x, u in zip(args, unknown, strict=True) if u]

        def call_params(inner: ClosedJaxpr, operands: Sequence[Value]) -> dict[str, Any]:
            return {**self.for_operands(params, [None] * len(operands)), "jaxpr": inner}

        known_jaxpr, operands = hoist_consts(split.known.jaxpr), (*split.known.consts, *known_args)
        outs = trace.evaluate_known(self, operands, call_params(known_jaxpr, operands))
        params = self.for_staged(params, known_jaxpr.out_avals, outs)
        n_known = sum(not u for u in split.unknown_outs)
        computed = iter(outs[n_known:])
        # A residual that is an input of the known part goes straight to the staged part.
        residuals = [next(computed) if f is None else known_args[f] for f in split.forwarded]
        operands = (*split.staged.consts, *residuals, *unknown_args)
        staged = trace.record(
            self, operands, call_params(hoist_consts(split.staged.jaxpr), operands)
        )
        known_outs, staged_outs = iter(outs[:n_known]), iter(staged)
        return tuple(next(staged_outs) if u else next(known_outs) for u in split.unknown_outs)


def _as_of_caller(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr whose equations come from the line where it is evaluated."""
    jaxpr = closed.jaxpr
    made: Jaxpr = closed.kept(
        "of_caller",
        lambda: jaxpr.replace(
            eqns=[
                eqn.replace(source=(None, source_info(eqn.source).name_stack.stack))
                for eqn in jaxpr.eqns
            ]
        ),
    )
    return ClosedJaxpr(made, closed.consts)


@final
class Jit(ProgramCall, FunctionCall):
    """A call of a jaxpr, compiled as one program when run eagerly, and a function of the module
    when lowered."""

    __slots__ = ()
    name = "jit"
    multiple_results = True

    def evaluate(
        self,
        *args: Value,
        jaxpr: ClosedJaxpr,
        name: str,
        donated_invars: Sequence[bool],
        keep_unused: bool,
        inline: bool | Inline,
        options: tuple[tuple[str, object], ...],
        outline: bool | None = None,
    ) -> Any:
        check_no_tracers(args)
        apart = bool(jaxpr.jaxpr.dialects)
        if apart:
            programs = provided.on_arrays()
        job = Job(
            jaxpr.jaxpr,
            name,
            placement_of(programs.arrays(args) if apart else args),
            tuple(donated_invars),
            keep_unused,
            options,
            outline,
        )
        if apart and (outs := programs.run_apart(job, args)) is not None:
            return tuple(outs)
        program = program_for(job)
        return tuple(execute(program, jaxpr, args))

    def stage(self, trace: StageTrace, args: tuple[Value, ...], params: Params) -> Any:
        if params["inline"] is True:
            return tuple(_as_of_caller(params["jaxpr"])(*args))
        return trace.record(self, args, params)

    def lower(
        self,
        ctx: Context,
        *values: Written,
        jaxpr: ClosedJaxpr,
        name: str,
        inline: bool | Inline = False,
        **params: object,
    ) -> Any:
        # Effects keep their order within one function of the module, so a program that has them is
        # written in place.
        if jaxpr.effects or inline is Inline.JAX_LATE:
            return ctx.inline(jaxpr, *values, under=f"jit({name})")
        told = (
            text.with_metadata("", [("inlineable", inline.value)])
            if isinstance(inline, Inline)
            else ""
        )
        return ctx.call(name, jaxpr, *values, attributes=told)

    def forward(self, eqn: Eqn) -> Any:
        return forward_call(eqn, "jaxpr")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        closed, taken = dce_closed(eqn.params["jaxpr"], used)
        return narrowed(
            eqn,
            used,
            taken,
            jaxpr=closed,
            donated_invars=tuple(filtered(eqn.params["donated_invars"], taken)),
        )

    padded = dialects.padded.rule(JaxprCall.on_buffers)


jit_p = Jit()


def jaxpr_uses_axis(jaxpr: Jaxpr, name: object) -> bool:
    """Whether a jaxpr uses a named axis."""
    return any(
        eqn.primitive.uses_axis is not None and eqn.primitive.uses_axis(name, eqn.params)
        for eqn in jaxpr.eqns
    )
