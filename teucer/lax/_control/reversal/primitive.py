"""The primitive that goes back through the steps of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, final

from teucer._core import array_ops, axes, dialects, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof, using
from teucer._core.types import ShapedArray, Zero
from teucer._dialects.high.lowering import lowered, refuse_mutable, taken_apart
from teucer._optimize.dce import dce_closed, narrowed
from teucer._optimize.unchanged import unchanged
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._transform.transpose import transpose_jaxpr
from teucer.lax import _arithmetic, _reductions
from teucer.lax._control.bodies import hoisted, jaxprs_use_axis, reordered, run, split_list
from teucer.lax._control.reversal.counted import ONE, ZERO
from teucer.lax._control.reversal.masks import Masks
from teucer.lax._control.reversal.schedule import backwards, looped, slots_for, unless_lost

if TYPE_CHECKING:
    from teucer._core.high import AvalQDD
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, ArrayLike, Dims, Params, Tangents, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value
    from teucer._transform.partial import PartialTrace

    class ReversedParams(TypedDict):
        loop: Primitive
        forward: ClosedJaxpr
        back: ClosedJaxpr
        count: ShapedArray


class Parts(NamedTuple):
    """The groups of operands, or of values for each operand."""

    steps: Any
    forward_consts: list[Any]
    back_consts: list[Any]
    state: list[Any]
    cts: list[Any]


def parts(xs: Sequence[Any], forward: ClosedJaxpr, back: ClosedJaxpr) -> Parts:
    """Operands, or values for each operand, by group."""
    n, k = len(forward.jaxpr.outvars), len(back.jaxpr.outvars)
    own = len(forward.jaxpr.invars) - n, len(back.jaxpr.invars) - n - k
    (steps,), *groups = split_list(xs, 1, *own, n)
    return Parts(steps, *groups)


def _as_call(operands: Sequence[Any], **params: Unpack[ReversedParams]) -> structure.Call:
    return structure.Call(as_loops(**params), operands)


@structure.structured(structure.Call, _as_call, lambda call: {})
@final
class ReversedWhile(Primitive):
    """The cotangents before a loop, from the cotangents after it.

    Operands are the number of steps, the consts of `forward`, the consts of `back`, the first
    state, and the last cotangents; results are the first cotangents. forward: (consts, state) ->
    next state.
    back: (consts, state before a step, cotangents after it) -> cotangents before it. loop: the
    primitive of while loops. count: the type of the number of steps.
    (C1) the jaxprs have no constants and no effects, and return their carry in the types in which
    they take it.
    """

    __slots__ = ()
    name = "reversed_while"
    multiple_results = True
    higher_order = True

    def types(self, *avals: ShapedArray, back: ClosedJaxpr, **params: object) -> Any:
        return tuple(back.out_avals)

    def evaluate(self, *args: Array, **params: Unpack[ReversedParams]) -> Any:
        return run(self, args, params, params["back"])

    def lower(self, ctx: Context, *values: Value, **params: Unpack[ReversedParams]) -> Any:
        k = len(values) - len(params["back"].jaxpr.outvars)

        def counted(steps: Array, *args: Array) -> list[Any]:
            steps, cts = unless_lost(steps, args[k - 1 :])
            return whole(steps, *args[: k - 1], *cts)

        with axes.extended(ctx.manual.sizes if ctx.manual is not None else {}):
            whole = as_loops(**params)
            closed = whole.kept("counted", lambda: stage_jaxpr(counted, whole.in_avals))
        return ctx.inline(closed, *values, under="reversed_while")

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Tangents, **params: Unpack[ReversedParams]
    ) -> Any:
        """A pair of a value and its tangent is a state, or a cotangent, of the differentiated
        loop."""
        forward, back = params["forward"], params["back"]
        given, dots = parts(primals, forward, back), parts(tangents, forward, back)
        moves = parts([type(t) is not Zero for t in tangents], forward, back)
        state_moves, cts_move = moves.state, moves.cts
        while True:
            ahead, out = jvp_jaxpr(forward, [*moves.forward_consts, *state_moves], state_moves)
            if out == state_moves:
                break
            state_moves = out
        while True:
            pull, out = jvp_jaxpr(back, [*moves.back_consts, *state_moves, *cts_move], cts_move)
            if out == cts_move:
                break
            cts_move = out
        ahead, ahead_consts = _tangents_beside(ahead, [moves.forward_consts, state_moves])
        pull, pull_consts = _tangents_beside(pull, [moves.back_consts, state_moves, cts_move])
        outs = self.call(
            given.steps,
            *ahead_consts,
            *_with(given.forward_consts, dots.forward_consts, moves.forward_consts),
            *pull_consts,
            *_with(given.back_consts, dots.back_consts, moves.back_consts),
            *_with(given.state, dots.state, state_moves),
            *_with(given.cts, dots.cts, cts_move),
            **{**params, "forward": ahead, "back": pull},
        )
        return split_tangents(outs, cts_move)

    def partial_eval(self, trace: PartialTrace, args: Sequence[ArrayLike], params: Params) -> Any:
        """If only cotangents are unknown, or everything is, the whole call is recorded. Other cases
        are cut loop by loop."""
        unknown = parts([trace.is_unknown(x) for x in args], params["forward"], params["back"])
        first = (unknown.steps, *unknown.forward_consts, *unknown.back_consts, *unknown.state)
        if unknown.steps or (all(unknown.cts) and not any(first)):
            return trace.record(self, tuple(args), params)
        whole = as_loops(**params)
        with using(trace):
            return tuple(whole(*args))

    def transpose(
        self, cts: Tangents, *args: Array | Undefined, **params: Unpack[ReversedParams]
    ) -> Any:
        linear = parts([type(x) is Undefined for x in args], params["forward"], params["back"])
        first = (linear.steps, *linear.forward_consts, *linear.back_consts, *linear.state)
        if all(linear.cts) and not any(first):
            return _forwards(cts, args, **params)
        flags = [type(x) is Undefined for x in args]
        given = [type(ct) is not Zero for ct in cts]
        pulled, nonzero = transpose_jaxpr(as_loops(**params), flags, given)
        found = iter(
            pulled(
                *(x for x in args if type(x) is not Undefined),
                *(ct for ct in cts if type(ct) is not Zero),
            )
        )
        moving = iter(nonzero)
        return tuple(next(found) if f and next(moving) else None for f in flags)

    def batch(
        self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: Unpack[ReversedParams]
    ) -> Any:
        """The loops of a batch go back together."""
        forward, back = params["forward"], params["back"]
        given = parts(args, forward, back)
        at = parts(dims, forward, back)
        is_batched = parts([d is not None for d in dims], forward, back)
        own_steps = is_batched.steps
        state, cts = is_batched.state, is_batched.cts
        changed = [
            s != len(given.forward_consts) + i for i, s in enumerate(unchanged(forward.jaxpr))
        ]
        while True:
            wanted = [b or (own_steps and c) for b, c in zip(state, changed, strict=True)]
            ahead, out = batch_jaxpr(forward, axis, [*is_batched.forward_consts, *wanted], wanted)
            if out == state:
                break
            state = out
        while True:
            wanted = [b or own_steps for b in cts]
            pull, out = batch_jaxpr(back, axis, [*is_batched.back_consts, *state, *wanted], wanted)
            if out == cts:
                break
            cts = out
        ahead, ahead_consts = hoisted(ahead)
        pull, pull_consts = hoisted(pull)

        def moved(
            xs: Sequence[Any], at: Sequence[int | None], batched: Sequence[bool]
        ) -> list[Any]:
            return [
                array_ops.to_axis(x, d, axis.size, 0) if b else x
                for x, d, b in zip(xs, at, batched, strict=True)
            ]

        own = [
            *ahead_consts,
            *moved(given.forward_consts, at.forward_consts, is_batched.forward_consts),
        ]
        own_back = [
            *pull_consts,
            *moved(given.back_consts, at.back_consts, is_batched.back_consts),
        ]
        first, last = moved(given.state, at.state, state), moved(given.cts, at.cts, cts)
        steps = given.steps
        if own_steps:
            lengths = array_ops.to_axis(steps, at.steps, axis.size, 0)
            steps = _reductions.reduce_max(lengths, (0,))
            joint = jaxprs_use_axis((forward, back), axis.name)
            masks = Masks(typeof(lengths), params["count"], tuple(state), tuple(cts), joint)
            ahead, pull = masks.forward(ahead), masks.back(pull)
            own, own_back = [lengths, *own], [lengths, *own_back]
            first = [array_ops.vary(ZERO, params["count"].vma), *first]
        outs = self.call(
            steps, *own, *own_back, *first, *last, **{**params, "forward": ahead, "back": pull}
        )
        return outs, tuple(0 if b else None for b in cts)

    def uses_axis(self, name: str, params: Params) -> bool:
        return jaxprs_use_axis((params["forward"], params["back"]), name)

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        forward, back, taken, cts = pruned(eqn.params["forward"], eqn.params["back"], used)
        return narrowed(eqn, cts, taken, forward=forward, back=back)

    @dialects.on_low.rule
    def on_low(
        self, operands: Values, avals: Sequence[AvalQDD], **params: Unpack[ReversedParams]
    ) -> Any:
        refuse_mutable(self, avals)
        given = taken_apart(operands, avals)
        low_forward, low = lowered(params["forward"]), lowered(params["back"])
        (forward, own), (back, own_back) = hoisted(low_forward.jaxpr), hoisted(low.jaxpr)
        groups = parts(range(len(operands)), params["forward"], params["back"])
        m, n = given.count(0, 1), len(groups.forward_consts) + 1
        k = given.count(0, n)
        outs = self.call(
            *given.low[:m],
            *own,
            *given.low[m:k],
            *own_back,
            *given.low[k:],
            **{**params, "forward": forward, "back": back},
        )
        return low.raised(outs, operands)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[ShapedArray],
        **params: Unpack[ReversedParams],
    ) -> Any:
        given = parts(args, params["forward"], params["back"])
        (forward, back), own = sizes.together((params["forward"], params["back"]))
        return self.call(
            given.steps,
            *own,
            *given.forward_consts,
            *own,
            *given.back_consts,
            *given.state,
            *given.cts,
            **{**params, "forward": forward, "back": back},
        )


reversed_while_p = ReversedWhile()


def as_loops(
    *, loop: Primitive, forward: ClosedJaxpr, back: ClosedJaxpr, count: ShapedArray
) -> ClosedJaxpr:
    """The primitive as while loops."""
    n, k = len(forward.jaxpr.outvars), len(back.jaxpr.outvars)
    consts, state = split_list(forward.in_avals, len(forward.jaxpr.invars) - n)
    back_consts, _, cts = split_list(back.in_avals, len(back.jaxpr.invars) - n - k, n)

    def whole(*args: Array) -> list[Any]:
        given = parts(args, forward, back)
        return backwards(
            loop,
            given.steps,
            lambda *state: forward(*given.forward_consts, *state),
            lambda *rest: back(*given.back_consts, *rest),
            given.state,
            given.cts,
            slots_for(state),
        )

    made: ClosedJaxpr = back.kept(
        ("as loops", loop, forward, count),
        lambda: stage_jaxpr(whole, [count, *consts, *back_consts, *state, *cts]),
    )
    return made


def pruned(
    forward: ClosedJaxpr, back: ClosedJaxpr, used: Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[bool]]:
    """Both jaxprs with only the equations that results in use need; the operands and the results
    that are left."""
    n, cts = len(forward.jaxpr.outvars), list(used)
    m, own = len(back.jaxpr.invars) - n - len(cts), len(forward.jaxpr.invars) - n
    while True:
        taken = dce_closed(back, cts)[1]
        settled = [u or t for u, t in zip(cts, taken[m + n :], strict=True)]
        if settled == cts:
            break
        cts = settled
    state = taken[m : m + n]
    while True:
        taken = dce_closed(forward, state)[1]
        settled = [u or t for u, t in zip(state, taken[own:], strict=True)]
        if settled == state:
            break
        state = settled
    back, back_taken = dce_closed(back, cts, [*[False] * m, *state, *cts])
    forward, taken = dce_closed(forward, state, [*[False] * own, *state])
    return forward, back, [True, *taken[:own], *back_taken[:m], *state, *cts], cts


def _with(xs: Sequence[Array], dots: Sequence[Array | Zero], moving: Sequence[bool]) -> list[Any]:
    """Values, then the nonzero tangents."""
    return [*xs, *(array_ops.instantiate(t) for t, m in zip(dots, moving, strict=True) if m)]


def _tangents_beside(
    closed: ClosedJaxpr, moving: Sequence[Sequence[bool]]
) -> tuple[ClosedJaxpr, list[Any]]:
    """A `jvp_jaxpr` whose inputs are, group by group, values and their tangents; behind its
    constants, whose values are given, too."""
    closed, consts = hoisted(closed)
    h = len(consts)
    at, tangent = h, h + sum(map(len, moving))
    order = [*range(h)]
    for group in moving:
        m = sum(group)
        order += [*range(at, at + len(group)), *range(tangent, tangent + m)]
        at, tangent = at + len(group), tangent + m
    return reordered(closed, order, range(len(closed.out_avals))), consts


def _forwards(
    cts: Sequence[Array | Zero],
    args: Sequence[Array | Undefined],
    *,
    loop: Primitive,
    forward: ClosedJaxpr,
    back: ClosedJaxpr,
    count: ShapedArray,
) -> tuple[Any, ...]:
    """The transpose in the cotangents: a loop forwards, which needs no state kept."""
    given = parts(args, forward, back)
    n, k = len(given.state), len(given.cts)
    linear = [*[False] * (len(back.jaxpr.invars) - k), *[True] * k]
    moves = [type(ct) is not Zero for ct in cts]
    while True:
        push, found = transpose_jaxpr(back, linear, moves)
        settled = [m or f for m, f in zip(moves, found, strict=True)]
        if settled == moves:
            break
        moves = settled

    def step(i: Array, *rest: Array) -> list[Any]:
        state, cts = rest[:n], rest[n:]
        outs = iter(push(*given.back_consts, *state, *cts))
        new = [next(outs) if f else None for f in found]
        pulled = [
            array_ops.zeros(a.cotangent_aval()) if ct is None else ct
            for ct, a, m in zip(new, back.out_avals, moves, strict=True)
            if m
        ]
        return [_arithmetic.sub(i, ONE), *forward(*given.forward_consts, *state), *pulled]

    first = [array_ops.instantiate(ct) for ct, m in zip(cts, moves, strict=True) if m]
    outs = iter(
        looped(
            loop,
            lambda i, *rest: _arithmetic.gt(i, ZERO),
            step,
            [given.steps, *given.state, *first],
        )[1 + n :]
    )
    return (*[None] * (len(args) - k), *(next(outs) if m else None for m in moves))
