"""Rematerialisation.

`checkpoint` keeps few residuals for the backward pass and computes the others again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from teucer._base import config
from teucer._core import array_ops, dialects, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eval_jaxpr, interpret
from teucer._core.memory import space_of
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import current_trace
from teucer._derived.remat_rules import for_later, for_now, has_rule, remat_rule_p
from teucer._executables import compilations
from teucer._lower import hlo
from teucer._optimize.dce import dce_closed, dce_jaxpr, filtered, narrowed
from teucer._optimize.effects import Effect
from teucer._optimize.unchanged import forward_call
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining.bytes import bytes_of
from teucer._transform.jit_calls import JaxprCall, hoist_consts, jit_p
from teucer._transform.partial import split_jaxpr
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Cotangent, Dims, Params, Tangents, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._transform.partial import PartialTrace


Policy = Callable[..., Any]


class Offloadable(NamedTuple):
    """A policy's answer: save the value in memory `dst`, away from memory `src`."""

    src: str
    dst: str


class _Saveable:
    """A policy's answer: keep the value."""


class _Recompute:
    """A policy's answer: compute the value again."""


Saveable, Recompute = _Saveable(), _Recompute()


@final
class Remat(JaxprCall):
    """Evaluates a jaxpr; partial evaluation keeps only the residuals that the policy allows.  (C1)
    jaxpr has no constants."""

    __slots__ = ()
    name = "remat2"
    multiple_results = True
    mergeable = False

    def evaluate(self, *args: Value, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr(*args))

    def lower(
        self,
        ctx: Context,
        *values: Written,
        jaxpr: ClosedJaxpr,
        prevent_cse: Pinned,
        differentiated: bool,
        **params: object,
    ) -> Any:
        if differentiated and prevent_cse:
            pinned = prevent_cse if isinstance(prevent_cse, tuple) else (True,) * len(values)
            held = iter(hlo.optimization_barrier(ctx, filtered(values, pinned)))
            values = tuple([next(held) if p else v for v, p in zip(values, pinned, strict=True)])
            least = ctx.target.again_as_calls
            if least is not None and not jaxpr.effects and _made(jaxpr.jaxpr) >= least:
                return outlined_call_p.lower(ctx, *values, jaxpr=jaxpr)
        return ctx.inline(
            jaxpr,
            *values,
            under="checkpoint/rematted_computation" if differentiated else "checkpoint",
        )

    def for_operands(self, params: Params, sources: Sequence[int | None]) -> dict[str, Any]:
        flags = params["prevent_cse"]
        if isinstance(flags, bool):
            return params
        if all(i is None for i in sources):  # transposed: those that are not pinned come first
            n = min(flags.count(False), len(sources))
            flags = (False,) * n + (True,) * (len(sources) - n)
        else:
            flags = tuple([True if i is None else flags[i] for i in sources])
        return {**params, "prevent_cse": flags}

    def partial_eval(self, trace: PartialTrace, args: Sequence[Value], params: Params) -> Any:
        unknown = [trace.is_unknown(x) for x in args]
        plan = _plan(inline_calls(params["jaxpr"]), tuple(unknown), params["policy"])
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        unknown_args = [x for x, u in zip(args, unknown, strict=True) if u]
        known_params = {**params, "jaxpr": hoist_consts(plan.known.jaxpr), "prevent_cse": True}
        outs = trace.evaluate_known(self, (*plan.known.consts, *known_args), known_params)
        n_known = sum(not u for u in plan.unknown_outs)
        if config.log_checkpoint_residuals.value:
            compilations.log_residuals([known_args[i] for i in plan.inputs_used], outs[n_known:])
        operands = (
            *plan.staged.consts,
            *[known_args[i] for i in plan.inputs_used],
            *outs[n_known:],
            *unknown_args,
        )
        jaxpr, flags = hoist_consts(plan.staged.jaxpr), params["prevent_cse"]
        if not isinstance(flags, bool):
            of_known = filtered(flags, [not u for u in unknown])
            n_consts, n_used = len(plan.staged.consts), len(plan.inputs_used)
            flags = [True] * len(operands)
            flags[n_consts : n_consts + n_used] = [of_known[i] for i in plan.inputs_used]
            order = sorted(range(len(operands)), key=lambda i: flags[i])
            operands = tuple([operands[i] for i in order])
            invars = [jaxpr.jaxpr.invars[i] for i in order]
            jaxpr = ClosedJaxpr(jaxpr.jaxpr.replace(invars=invars), ())
            flags = tuple(sorted(flags))
        staged = trace.record(
            self,
            operands,
            {**params, "jaxpr": jaxpr, "prevent_cse": flags, "differentiated": True},
        )
        known_outs, staged_outs = iter(outs[:n_known]), iter(staged)
        return tuple(next(staged_outs) if u else next(known_outs) for u in plan.unknown_outs)

    def inlined(self, operands: Sequence[Value], params: Params) -> Any:
        # The second computation must not be merged with the first.
        return None if params["differentiated"] else (params["jaxpr"], operands)

    def forward(self, eqn: Eqn) -> Any:
        return forward_call(eqn, "jaxpr")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        closed, taken = dce_closed(eqn.params["jaxpr"], used)
        sources = [i for i, t in enumerate(taken) if t]
        flags = self.for_operands(eqn.params, sources)["prevent_cse"]
        return narrowed(eqn, used, taken, jaxpr=closed, prevent_cse=flags)

    padded = dialects.padded.rule(JaxprCall.on_buffers)


def _made(jaxpr: Jaxpr) -> int:
    """The bytes of all values that a jaxpr computes."""
    return sum(bytes_of(v.aval) for eqn in jaxpr.eqns for v in eqn.outvars)


remat_p = Remat()


# Which operands of the second computation are behind a barrier, so that the compiler does not merge
# it with the first: all, none, or the marked ones.
Pinned: TypeAlias = "bool | tuple[bool, ...]"


class _Plan(NamedTuple):
    """known: known inputs -> (known results, saved values). staged: (known inputs used, saved
    values, unknown inputs) -> unknown results; it recomputes the values that it needs."""

    known: ClosedJaxpr
    staged: ClosedJaxpr
    unknown_outs: tuple[bool, ...]
    inputs_used: tuple[int, ...]


def _plan(closed: ClosedJaxpr, unknown: tuple[bool, ...], policy: Policy | None) -> _Plan:
    split = split_jaxpr(closed, unknown)
    known = hoist_consts(split.known.jaxpr).jaxpr
    known_consts = split.known.consts
    n_known = sum(not u for u in split.unknown_outs)
    computed = iter(known.outvars[n_known:])
    inputs = known.invars[len(known_consts) :]
    residuals = [next(computed) if f is None else inputs[f] for f in split.forwarded]
    cut = _cut(known, residuals, policy)
    saved = list(cut.saved)
    offloaded = list(cut.saved.values())
    inputs_used = tuple(i for i, v in enumerate(inputs) if v in cut.needed)
    run_now = Jaxpr(
        known.invars[: len(known_consts)], inputs, [*known.outvars[:n_known], *saved], cut.now
    )
    run_now = dce_jaxpr(run_now, [True] * len(run_now.outvars))[0].replace(invars=inputs)
    staged = split.staged
    constvars = known.invars[: len(known_consts)]
    recompute = Jaxpr(constvars, [*(inputs[i] for i in inputs_used), *saved], residuals, cut.again)

    def rerun(*args: object) -> list[Any]:
        m = len(recompute.invars)
        n = m - len(saved)
        back = [
            x if where is None else _moved(x, where.src)
            for x, where in zip(args[n:m], offloaded, strict=True)
        ]
        found = eval_jaxpr(recompute, known_consts, *args[:n], *back)
        return staged(*found, *args[m:])

    moved = [
        v.aval if where is None else v.aval.update(memory_space=space_of(where.dst))
        for v, where in zip(saved, offloaded, strict=True)
    ]
    avals = [
        *(inputs[i].aval for i in inputs_used),
        *moved,
        *(a for a, u in zip(closed.in_avals, unknown, strict=True) if u),
    ]
    again = stage_jaxpr(rerun, avals, closed.jaxpr.debug_info)
    again = dce_closed(again, [True] * len(again.out_avals), [True] * len(avals))[0]
    return _Plan(
        _offloading(ClosedJaxpr(run_now, known_consts), offloaded, n_known),
        again,
        split.unknown_outs,
        inputs_used,
    )


def _offloading(
    run_now: ClosedJaxpr, offloaded: Sequence[Offloadable | None], n_known: int
) -> ClosedJaxpr:
    """The part that runs now. Saved values that are offloaded are moved to their memory."""
    if not any(offloaded):
        return run_now

    def run(*args: Value) -> list[Any]:
        outs = run_now(*args)
        return [
            *outs[:n_known],
            *[
                x if where is None else _moved(x, where.dst)
                for x, where in zip(outs[n_known:], offloaded, strict=True)
            ],
        ]

    return stage_jaxpr(run, run_now.in_avals, run_now.jaxpr.debug_info)


def _moved(x: Value, kind: str) -> Any:
    return array_ops.lay_out(x, space_of(kind))


class _Cut(NamedTuple):
    """now: the equations to run now, which also give the values to save. saved: these, and where
    each is moved to.
    again: the equations to run again. needed: the variables that they and the residuals need."""

    now: list[Eqn]
    saved: dict[Var, Offloadable | None]
    again: list[Eqn]
    needed: set[Var]


class BodyCut(NamedTuple):
    """A body cut in two: now: inputs -> (results, values to save); again: (inputs, values saved) ->
    the results in use.

    answers: where each saved value is moved to; None where it stays.
    """

    now: ClosedJaxpr
    again: ClosedJaxpr
    answers: list[Offloadable | None]


class Saving(NamedTuple):
    """An equation with bodies cut in two: now: it also gives values to save, its last results;
    again: it takes them last, and gives the results in use."""

    now: Eqn
    again: Eqn
    answers: list[Offloadable | None]


CutBody = Callable[[ClosedJaxpr, Sequence[bool]], "BodyCut | None"]


def _saves_within(eqn: Eqn, policy: Policy | None) -> bool:
    """Whether values may be saved of the bodies of an equation."""
    if policy is not None:
        return True
    view = structure.of(eqn)
    return view is not None and any(has_rule(body) for body, _ in view.bodies)


def _cut(known: Jaxpr, residuals: Sequence[object], policy: Policy | None) -> _Cut:
    """Which values to save, so that residuals can be computed from them and the inputs; by which
    equations."""
    needed = {v for v in residuals if isinstance(v, Var)}
    saved: dict[Var, Offloadable | None] = {}
    eqns, now = [], []
    for eqn in reversed(known.eqns):
        if eqn.primitive is remat_rule_p:
            now.append(for_now(eqn))
            if not needed.isdisjoint(eqn.outvars):
                later = for_later(eqn, known.invars)
                if later is None:
                    saved[eqn.outvars[0]] = None
                else:
                    eqns.append(later)
                    needed.update(v for v in later.invars if not isinstance(v, Literal))
            continue
        now.append(eqn)
        if eqn.effects:
            if any(e.kind == "io" for e in eqn.effects if isinstance(e, Effect)):
                raise NotImplementedError(
                    "Effects not supported in partial-eval of `checkpoint`/`remat`: an "
                    "io_callback would be called twice.\n  Call it outside of the function that "
                    "is computed again."
                )
            if _looks_again(eqn, known, policy):
                eqns.append(eqn)
                needed.update(v for v in eqn.invars if not isinstance(v, Literal))
                continue
        if needed.isdisjoint(eqn.outvars):
            continue
        answer = _answer(policy, eqn)
        if answer is not None:
            saved.update(
                (v, answer if isinstance(answer, Offloadable) else None)
                for v in reversed(eqn.outvars)
                if v in needed
            )
            continue
        if eqn.primitive.saving is not None and not eqn.effects and _saves_within(eqn, policy):
            found = eqn.primitive.saving(
                eqn, [v in needed for v in eqn.outvars], functools.partial(_cut_body, policy)
            )
            if found is not None:
                now[-1], eqn = found.now, found.again
                saved.update(
                    reversed(
                        list(
                            zip(
                                found.now.outvars[-len(found.answers) :], found.answers, strict=True
                            )
                        )
                    )
                )
        eqns.append(eqn)
        needed.update(v for v in eqn.invars if not isinstance(v, Literal))
    return _Cut(now[::-1], dict(reversed(saved.items())), eqns[::-1], needed)


def _cut_body(policy: Policy | None, closed: ClosedJaxpr, used: Sequence[bool]) -> BodyCut | None:
    """A body cut where the policy and rules of functions say, for the results in use; None if
    nothing of it is saved."""
    closed = inline_calls(closed)
    jaxpr = closed.jaxpr
    wanted = [v for v, u in zip(jaxpr.outvars, used, strict=True) if u]
    cut = _cut(jaxpr, wanted, policy)
    if not cut.saved:
        return None
    saved = list(cut.saved)
    now = Jaxpr(
        jaxpr.constvars,
        jaxpr.invars,
        [*jaxpr.outvars, *saved],
        cut.now,
        debug_info=jaxpr.debug_info,
    )
    again = Jaxpr(jaxpr.constvars, [*jaxpr.invars, *saved], wanted, cut.again)
    return BodyCut(
        ClosedJaxpr(now, closed.consts), ClosedJaxpr(again, closed.consts), list(cut.saved.values())
    )


def _looks_again(eqn: Eqn, known: Jaxpr, policy: Policy | None) -> bool:
    """Whether rematerialisation calls a debug callback a second time. It does not if the policy
    saves the callback and a value that it shows."""
    if not any(isinstance(e, Effect) and e.kind == "debug" for e in eqn.effects):
        return False
    if _answer(policy, eqn) is None:
        return True
    # A value that is named and not saved is available in the backward pass, as inputs are. So a
    # callback that shows it makes no value be saved.
    again = {
        *known.invars,
        *[
            v
            for e in known.eqns
            if e.primitive is name_p and _answer(policy, e) is None
            for v in e.outvars
        ],
    }
    return all(isinstance(v, Literal) or v in again for v in eqn.invars)


def _answer(policy: Policy | None, eqn: Eqn) -> Any:
    """The policy's answer for an equation if its results are saved; None if they are computed
    again."""
    if policy is None:
        return None
    answer = policy(eqn.primitive, *(v.aval for v in eqn.invars), **eqn.params)
    return (
        answer if answer is True or answer is Saveable or isinstance(answer, Offloadable) else None
    )


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with the equations of jit calls in the place of the calls, so that a policy sees
    them."""
    if not any(eqn.primitive is jit_p for eqn in closed.eqns):
        return closed
    made: ClosedJaxpr = closed.kept(
        "inlined",
        lambda: stage_jaxpr(
            lambda *args: _eval_inline(closed, args), closed.in_avals, closed.jaxpr.debug_info
        ),
    )
    return made


def _eval_inline(closed: ClosedJaxpr, args: Sequence[Value]) -> list[Any]:
    process = current_trace().process

    def handle(eqn: Eqn, operands: tuple[object, ...]) -> Sequence[Any]:
        if eqn.primitive is jit_p:
            return _eval_inline(eqn.params["jaxpr"], operands)
        return process(eqn.primitive, operands, eqn.params)

    return interpret(closed, args, handle)


@final
class Name(Primitive):
    """x, with a name that policies of `checkpoint` can refer to."""

    __slots__ = ()
    name = "name"

    def types(self, x: ShapedArray, *, name: str) -> Any:
        return (x,)

    def evaluate(self, x: Value, *, name: str) -> Any:
        return (x,)

    def lower(self, ctx: Context, x: Value, *, name: str) -> Any:
        return (x,)

    def jvp(self, primals: Sequence[Value], tangents: Tangents, *, name: str) -> Any:
        return self.call(*primals, name=name), tuple(tangents)

    def transpose(self, cts: Sequence[Cotangent], x: Value, *, name: str) -> Any:
        return tuple(cts)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, *, name: str) -> Any:
        return self.call(*args, name=name), dims

    def simplify(self, known: object, x: Value, *, name: str) -> Any:
        return x

    padded = dialects.through


name_p = Name()


def checkpoint_name(x: Value, name: str) -> Any:
    """A pytree of arrays, named for policies of `checkpoint`: `save_only_these_names` and its kin.

    Derivatives of named values have no name. `checkpoint_name_fwd` is the same.
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: name must be a str, got {name!r}")
    return pytrees.tree_map(lambda leaf: name_p.call(leaf, name=name)[0], x)


checkpoint_name_fwd = checkpoint_name
