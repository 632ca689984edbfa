"""Jaxprs run one primitive after the other, calls and loops in Python.

What no compiler has rearranged.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params
from teucer._core.trace import EVAL, typeof
from teucer._optimize.checker import check_jaxpr
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import PASSES, Pass, optimize, share
from teucer._programs.lower import lower
from teucer._programs.prepare import prepared
from teucer.lax._control.reversal.primitive import parts

CALLS = {
    "jit": "jaxpr",
    "outlined_call": "jaxpr",
    "joined_call": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


def stepwise(jaxpr: Jaxpr, *args: Any) -> list[Any]:
    """The results of a jaxpr without constants."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return jnp.asarray(v.val, v.aval.dtype) if type(v) is Literal else env[v]

    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        outs = _call(eqn.primitive, operands, eqn.params)
        for v, y in zip(eqn.outvars, outs, strict=True):
            assert (typeof(y).shape, typeof(y).dtype) == (v.aval.shape, v.aval.dtype)
            env[v] = y
    return [read(v) for v in jaxpr.outvars]


def _call(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    name = str(primitive.name)
    if name in CALLS:
        return _closed(params[CALLS[name]], operands)
    if name == "cond":
        return _closed(params["branches"][int(operands[0])], operands[1:])
    if name == "while":
        return _while(operands, **params)
    if name == "scan":
        return _scan(operands, **params)
    if name == "reversed_while":
        return _reversed_while(operands, **params)
    return EVAL.process(primitive, tuple(operands), params)


def _closed(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    assert not closed.consts
    return stepwise(closed.jaxpr, *operands)


def _while(
    operands: Sequence[Any], cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Sequence[Any]:
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    body_consts, carry = rest[:body_nconsts], rest[body_nconsts:]
    while _closed(cond_jaxpr, [*cond_consts, *carry])[0]:
        carry = _closed(body_jaxpr, [*body_consts, *carry])
    return carry


def _scan(
    operands: Sequence[Any],
    jaxpr: Any,
    num_consts: int,
    num_carry: int,
    length: int,
    reverse: bool,
    **params: Any,
) -> Sequence[Any]:
    consts, rest = operands[:num_consts], operands[num_consts:]
    carry, xs = rest[:num_carry], rest[num_carry:]
    rows = []
    for i in reversed(range(length)) if reverse else range(length):
        outs = _closed(jaxpr, [*consts, *carry, *(x[i] for x in xs)])
        carry = outs[:num_carry]
        rows.append(outs[num_carry:])
    rows = rows[::-1] if reverse else rows
    avals = jaxpr.out_avals[num_carry:]
    return [
        *carry,
        *(
            jnp.stack([row[j] for row in rows]) if rows else jnp.zeros((0, *a.shape), a.dtype)
            for j, a in enumerate(avals)
        ),
    ]


def _reversed_while(
    operands: Sequence[Any], forward: ClosedJaxpr, back: ClosedJaxpr, **params: Any
) -> Sequence[Any]:
    given = parts(operands, forward, back)
    states = [given.state]
    for _ in range(int(given.steps) - 1):
        states.append(_closed(forward, [*given.forward_consts, *states[-1]]))
    cts = given.cts
    for state in states[::-1] if given.steps > 0 else ():
        cts = _closed(back, [*given.back_consts, *state, *cts])
    return cts


def compiled_text(f: Any, *args: Any, **options: Any) -> str:
    """The text that XLA compiles for a jitted function: after the passes."""
    return lower(prepared(jax.jit(f, **options).trace(*args).job)).text


def bits(x: Any) -> tuple[Any, ...]:
    """Shape, dtype and bytes of an array: of equal arrays, whose zeros have one sign and whose nans
    are the same."""
    x = np.asarray(x)
    return x.shape, x.dtype, x.tobytes()


def check_nothing_dead(jaxpr: Jaxpr) -> None:
    """Something uses a result of each equation without effects, at every depth that the pass
    reaches: what custom rules stand for is left as it is."""
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
    used.update(v for v in jaxpr.outvars if type(v) is not Literal)
    for eqn in jaxpr.eqns:
        assert eqn.effects or not used.isdisjoint(eqn.outvars), eqn
        if eqn.primitive.dce is not None:
            for inner in jaxprs_in_params(eqn.params):
                check_nothing_dead(inner)


def check_each_pass(jaxpr: Jaxpr, *args: Any) -> None:
    """No pass changes a bit of the results, nor do all together. Where nothing is dead or equal,
    the equations stay the same objects."""
    live = remove_dead(jaxpr)
    check_nothing_dead(live)
    shared = share(jaxpr)
    for before, after in ((live, remove_dead(live)), (shared, share(shared))):
        assert all(map(operator.is_, before.eqns, after.eqns))
        assert len(before.eqns) == len(after.eqns)
    with config.optimize_jaxprs(False):
        expected = list(map(bits, stepwise(jaxpr, *args)))
        for step in (*PASSES[0].parts, *PASSES, Pass("all", optimize)):
            after = step.apply(jaxpr)
            check_jaxpr(after)
            assert list(map(bits, stepwise(after, *args))) == expected, step.name
