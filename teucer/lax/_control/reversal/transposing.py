"""The transpose rule of while loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._base import source
from teucer._core import array_ops
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, jaxprs_in_params
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._optimize.dce import filtered
from teucer._optimize.effects import DCE_SINK, Effect
from teucer._optimize.passes import map_jaxprs
from teucer._transform.transpose import transpose_jaxpr
from teucer.lax._collectives.reductions import pmax
from teucer.lax._control.bodies import hoisted, reordered, split_list
from teucer.lax._control.reversal.counted import COUNT, ZERO, LoopCut, cut_loop, steps_of
from teucer.lax._control.reversal.masks import Masks
from teucer.lax._control.reversal.primitive import pruned, reversed_while_p

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike
    from teucer._transform.partial import Split


def transposed(
    loop: Primitive, cts: Sequence[Any], args: Sequence[ArrayLike | Undefined], **params: Any
) -> tuple[Any, ...]:
    """Cotangents of the operands in which a while loop is linear.

    Raises NotLinear if the condition depends on these.
    """
    unknown = [type(x) is Undefined for x in args]
    cut = cut_loop(params, unknown)
    if cut.goes_on:
        Primitive.transpose(loop, cts, *args)  # which raises
    m, n = params["cond_nconsts"], params["body_nconsts"]
    _, consts, carry = split_list(args, m, n)
    given = [ct for ct, u in zip(cts, cut.carry, strict=True) if u]
    back = _backwards(params["body_jaxpr"], cut, tuple(type(ct) is not Zero for ct in given))
    known = [x for x, u in zip(consts, cut.consts, strict=True) if not u]
    state = [x for x, u in zip(carry, cut.carry, strict=True) if not u]
    steps = steps_of(loop, cut, args, params)
    sums = [
        array_ops.zeros(x.aval.cotangent_aval())
        for x, nz in zip(filtered(consts, cut.consts), back.moves, strict=True)
        if nz
    ]
    last = [array_ops.instantiate(ct) for ct, g in zip(given, back.given, strict=True) if g]
    (_, own), (pull, more) = hoisted(cut.split.known), hoisted(back.pull)
    forward, own_consts, back_consts = back.forward, [*own, *known], [*more, *own, *known]
    if axes := typeof(steps).vma:
        # Devices take different numbers of steps. They go back together, since a step may sum the
        # cotangents of common values.
        masks = Masks(
            typeof(steps),
            COUNT,
            tuple(axes <= typeof(x).vma for x in state),
            tuple(axes <= typeof(x).vma for x in (*sums, *last)),
            joint=False,
        )
        forward, pull = masks.forward(forward), masks.back(pull)
        own_consts, back_consts, state = [steps, *own_consts], [steps, *back_consts], [ZERO, *state]
        steps = pmax(steps, tuple(axes))
    operands = [steps, *own_consts, *back_consts, *state, *sums, *last]
    forward, pull, taken, _ = pruned(forward, pull, [True] * (len(sums) + len(last)))
    found = iter(
        reversed_while_p.call(
            *filtered(operands, taken), loop=loop, forward=forward, back=pull, count=COUNT
        )
    )
    const_cts = iter([next(found) if nz else None for nz in back.moves])
    carry_cts = iter([next(found) if g else None for g in back.given])
    pulled = [
        *[None] * m,
        *(next(const_cts) if u else None for u in cut.consts),
        *(next(carry_cts) if u else None for u in cut.carry),
    ]
    return tuple(ct if u else None for ct, u in zip(pulled, unknown, strict=True))


class Backwards(NamedTuple):
    """The two bodies of a reversed loop.

    forward: (known consts, known carry) -> known carry. pull: (known consts, known carry, sums of
    cotangents of unknown consts, cotangents of the unknown carry) -> sums, cotangents. Known consts
    are the constants of `split.known`, and the loop's own. moves, given: which unknown consts, and
    which of the unknown carry, have a cotangent.
    """

    forward: ClosedJaxpr
    pull: ClosedJaxpr
    split: Split
    moves: list[bool]
    given: list[bool]


def _backwards(body: ClosedJaxpr, cut: LoopCut, given: tuple[bool, ...]) -> Backwards:
    key = ("backwards", *cut.consts, *cut.carry, *given)
    return body.kept(key, lambda: _make_backwards(body, cut, list(given)))


def _make_backwards(body: ClosedJaxpr, cut: LoopCut, given: list[bool]) -> Backwards:
    known, consts = hoisted(cut.split.known)
    staged, staged_consts = hoisted(cut.split.staged)
    h, n_state = len(consts), cut.carry.count(False)
    n_res, lin = len(cut.split.forwarded), cut.consts.count(True)
    linear = [False] * (len(staged_consts) + n_res) + [True] * (lin + len(given))
    while True:
        step, nonzero = transpose_jaxpr(staged, linear, given)
        moves, pulled = nonzero[:lin], nonzero[lin:]
        settled = [g or p for g, p in zip(given, pulled, strict=True)]
        if settled == given:
            break
        given = settled
    known = silent(known)
    residual_outs = range(n_state, len(known.out_avals))
    residuals_of = reordered(known, range(len(known.in_avals)), residual_outs)
    in_consts, in_carry = split_list(body.in_avals, len(cut.consts))
    sums = [a.cotangent_aval() for a in filtered(filtered(in_consts, cut.consts), moves)]
    unknown = filtered(in_carry, cut.carry)
    cts = [a.cotangent_aval() for a in filtered(unknown, given)]

    def pull(*args: Array) -> list[Any]:
        at = len(known.in_avals)
        inputs, total, last = args[:at], args[at : at + len(sums)], args[at + len(sums) :]
        computed = iter(residuals_of(*inputs))
        residuals = [next(computed) if f is None else inputs[h + f] for f in cut.split.forwarded]
        outs = iter(step(*staged_consts, *residuals, *last))
        added = [array_ops.add_cotangents(t, next(outs)) for t in total]
        return [
            *added,
            *(
                next(outs) if p else array_ops.zeros(a.cotangent_aval())
                for a, p, g in zip(unknown, pulled, given, strict=True)
                if g
            ),
        ]

    avals = [*known.in_avals, *sums, *cts]
    forward = reordered(known, range(len(known.in_avals)), range(n_state))
    closed = stage_jaxpr(pull, avals, body.jaxpr.debug_info)
    return Backwards(forward, closed, cut.split, moves, given)


def silent(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr without the callbacks of debug, which the steps made when they first ran.

    Raises NotImplementedError for other effects, which would happen again.
    """
    if not closed.effects:
        return closed
    return closed.kept("silent", lambda: closed.replace(jaxpr=_silent(closed.jaxpr)))


def _silent(jaxpr: Jaxpr) -> Jaxpr:
    if not jaxpr.effects:
        return jaxpr
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if not eqn.effects:
            eqns.append(eqn)
            continue
        if not all(
            effect == DCE_SINK or (isinstance(effect, Effect) and effect.kind == "debug")
            for effect in eqn.effects
        ):
            raise NotImplementedError(
                "Reverse-mode differentiation of lax.while_loop or lax.fori_loop with dynamic "
                "start/stop values: the backward pass computes steps again, and an effect of the "
                f"body would happen again.\n    {eqn.primitive}: "
                f"{source.describe(eqn.source and eqn.source[0])}\n"
                "  Call it outside of the loop, or give the function around the loop a rule: "
                "jax.custom_vjp."
            )
        if next(jaxprs_in_params(eqn.params), None) is not None:
            eqns.append(map_jaxprs(eqn, _silent).replace(effects=frozenset()))
    return jaxpr.replace(eqns=eqns, effects=frozenset())
