"""The known part of a while loop, run once, which counts its steps.

What is recorded for the rest is a loop of that many steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._core import array_ops
from teucer._core.jaxpr import ClosedJaxpr, Literal
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof, using
from teucer._core.types import ShapedArray
from teucer._transform.partial import Split, split_jaxpr
from teucer.lax import _arithmetic
from teucer.lax._control.bodies import hoisted, reordered, split_list

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Params
    from teucer._transform.partial import PartialTrace

COUNT = ShapedArray((), np.dtype(np.int32))
ZERO, ONE = np.int32(0), np.int32(1)


class LoopCut(NamedTuple):
    """A while loop cut into the part that depends on its known operands alone, and the rest.

    consts, carry: which of them are unknown. goes_on: whether the condition is.
    """

    consts: list[bool]
    carry: list[bool]
    split: Split
    goes_on: bool


def cut_loop(params: Params, unknown: Sequence[bool]) -> LoopCut:
    """Cut a while loop, given which operands are unknown; a carry that unknown values flow into
    becomes unknown."""
    cond, consts, carry = split_list(unknown, params["cond_nconsts"], params["body_nconsts"])
    while True:
        split = split_jaxpr(params["body_jaxpr"], [*consts, *carry], carry)
        if list(split.unknown_outs) == carry:
            break
        carry = list(split.unknown_outs)
    (goes_on,) = split_jaxpr(params["cond_jaxpr"], [*cond, *carry], False).unknown_outs
    return LoopCut(consts, carry, split, goes_on)


def partially_evaluated(
    loop: Primitive, trace: PartialTrace, args: tuple[ArrayLike, ...], params: Params
) -> tuple[Any, ...]:
    """Run the part of the carry that is known, if the condition depends on that alone; record the
    whole for the rest, with as many steps."""
    cut = cut_loop(params, [trace.is_unknown(x) for x in args])
    if cut.goes_on or all(cut.carry):
        return trace.record(loop, args, params)
    assert trace.parent is not None
    with using(trace.parent):
        steps, known = run_known(loop, cut, args, params)
    if counter_of(params) is None:
        args, params = _of_steps(steps, args, params)
        outs = list(trace.record(loop, args, params))[1:]
    else:
        outs = list(trace.record(loop, args, params))
    places = [i for i, u in enumerate(cut.carry) if not u]
    for i, y in zip(places, known, strict=True):
        outs[i] = y
    return tuple(outs)


def run_known(
    loop: Primitive, cut: LoopCut, args: Sequence[ArrayLike | Undefined], params: Params
) -> tuple[Any, list[Any]]:
    """The number of steps, and the known part of the last carry."""
    cond, m = params["cond_jaxpr"], params["cond_nconsts"]
    cond_consts, body_consts, carry = split_list(args, m, params["body_nconsts"])
    places = [i for i, u in enumerate(cut.carry) if not u]
    body, consts = hoisted(cut.split.known)
    body = reordered(body, range(len(body.in_avals)), range(len(places)))
    # The condition reads the known part of the carry only, so that the rest of its inputs may go.
    cond = reordered(cond, [*range(m), *(m + i for i in places)], (0,))
    own = [*consts, *(x for x, u in zip(body_consts, cut.consts, strict=True) if not u)]
    counted = counter_of(params) is None  # count here, since the loop does not
    first = [carry[i] for i in places]
    if counted:
        count = COUNT.update(vma=cond.out_avals[0].vma)
        cond = _past_count(cond, m, count)
        body = _counting(body, len(own), count, stops=True)
        first = [array_ops.vary(ZERO, count.vma), *first]
    outs = list(
        loop.call(
            *cond_consts,
            *own,
            *first,
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=m,
            body_nconsts=len(own),
        )
    )
    return (outs[0], outs[1:]) if counted else (_counted(args, params), outs)


def steps_of(
    loop: Primitive, cut: LoopCut, args: Sequence[ArrayLike | Undefined], params: Params
) -> Array:
    """The number of steps of a loop. A loop that does not count them is run once to find out."""
    if counter_of(params) is not None:
        return _counted(args, params)
    return run_known(loop, cut, args, params)[0]


def counter_of(params: Params) -> int | None:
    """The component of the carry that counts the steps, if the condition is `counter < const`; None
    otherwise."""
    cond, body, n = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr, params["body_nconsts"]
    if params["cond_nconsts"] != 1 or len(cond.eqns) != 1:
        return None
    (eqn,) = cond.eqns
    if eqn.primitive is not _arithmetic.lt_p or eqn.invars[1] is not cond.invars[0]:
        return None
    count = eqn.invars[0]
    if count.aval.update(vma=frozenset()) is not COUNT or count not in cond.invars[1:]:
        return None
    at = cond.invars.index(count) - 1
    makes = next((e for e in body.eqns if body.outvars[at] in e.outvars), None)
    if makes is None or makes.primitive is not _arithmetic.add_p:
        return None
    own, step = makes.invars
    fits = own is body.invars[n + at] and type(step) is Literal and step.val == 1
    return at if fits else None


def _counted(args: Sequence[Any], params: Params) -> Array:
    """The number of steps of a loop that counts them."""
    at = counter_of(params)
    assert at is not None
    first = args[1 + params["body_nconsts"] + at]
    if isinstance(first, np.generic) and first == 0:
        return args[0]
    return _arithmetic.max(_arithmetic.sub(args[0], first), ZERO)


def _of_steps(
    steps: Array, args: Sequence[ArrayLike], params: Params
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands and parameters of a loop that runs so many steps: it has a counter in front of its
    carry."""
    body, m, n = params["body_jaxpr"], params["cond_nconsts"], params["body_nconsts"]
    count = COUNT.update(vma=typeof(steps).vma)
    cond = body.kept(
        ("below", n, count),
        lambda: stage_jaxpr(
            lambda steps, i, *carry: [_arithmetic.lt(i, steps)], [count, count, *body.in_avals[n:]]
        ),
    )
    given = (steps, *args[m : m + n], array_ops.vary(ZERO, count.vma), *args[m + n :])
    return given, {
        "cond_jaxpr": cond,
        "body_jaxpr": _counting(body, n, count),
        "cond_nconsts": 1,
        "body_nconsts": n,
    }


def _counting(
    body: ClosedJaxpr, n_consts: int, count: ShapedArray, *, stops: bool = False
) -> ClosedJaxpr:
    """(consts, carry) -> carry as (consts, i, carry) -> (i + 1, carry). stops: the greatest i
    stays."""

    def step(*args: Array) -> list[Any]:
        consts, (i, *carry) = args[:n_consts], args[n_consts:]
        after = _arithmetic.add(i, ONE)
        return [_arithmetic.max(after, i) if stops else after, *body(*consts, *carry)]

    avals = [*body.in_avals[:n_consts], count, *body.in_avals[n_consts:]]
    return body.kept(
        ("counting", n_consts, count, stops),
        lambda: stage_jaxpr(step, avals, body.jaxpr.debug_info),
    )


def _past_count(cond: ClosedJaxpr, n_consts: int, count: ShapedArray) -> ClosedJaxpr:
    """The condition on a carry with a counter before it."""
    avals = [*cond.in_avals[:n_consts], count, *cond.in_avals[n_consts:]]
    return cond.kept(
        ("past count", n_consts, count),
        lambda: stage_jaxpr(lambda *args: cond(*args[:n_consts], *args[n_consts + 1 :]), avals),
    )
