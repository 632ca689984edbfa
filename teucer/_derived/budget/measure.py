"""The values that a program keeps for its backward pass, and their cost: found by differentiating
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var, jaxprs_in_params
from teucer._core.memory import MemorySpace
from teucer._derived.budget import costs
from teucer._derived.liveness import Run
from teucer._derived.remat import inline_calls
from teucer._optimize.passes import optimize
from teucer._targets.outlining.bytes import bytes_of
from teucer._transform.jit_calls import hoist_consts
from teucer._transform.jvp import jvp_jaxpr
from teucer._transform.partial import Split, split_jaxpr
from teucer._transform.transpose import transpose_jaxpr

if TYPE_CHECKING:
    from teucer._core.typing import Aval
    from teucer._targets.outlining.constants import Speeds


class Measured(NamedTuple):
    """own: bytes kept of values that the program computes, results excluded. inputs, results:
    places of the operands and results that are kept. cotangents: the operands, by place, that get
    cotangents which are apart. back: bytes that the backward pass needs beside, while it runs.
    host: bytes kept in the memory of the host. seconds: of both passes.
    """

    own: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    cotangents: tuple[int, ...]
    back: int
    host: int
    seconds: float


def measure(
    closed: ClosedJaxpr, free: Sequence[bool], apart: Sequence[bool], speeds: Speeds
) -> Measured:
    """The cost of differentiating a program by all of its operands.

    free: operands that are kept anyway. apart: operands whose cotangents do not count in `back`.
    """
    split, moving = split_of(closed)
    n_known = sum(not u for u in split.unknown_outs)
    staged = hoist_consts(split.staged.jaxpr)
    n = len(staged.in_avals) - sum(moving)
    linear = [i >= n for i in range(len(staged.in_avals))]
    transposed, nonzero = transpose_jaxpr(staged, linear, [True] * len(staged.out_avals))
    both = _both(split, transposed)
    n_consts = len(both.invars) - len(closed.in_avals) - (len(transposed.in_avals) - n)
    n_given = n_consts + len(closed.in_avals)
    there = [True] * n_consts + list(free)
    run = Run(
        both,
        [""] * len(both.invars),
        [i >= n_given or not there[i] for i in range(len(both.invars))],
    )
    kept = _kept(run, both.invars[n_given:])
    ends = [v for v in both.outvars[:n_known] if type(v) is not Literal]
    outs = [i for i, u in enumerate(split.unknown_outs) if not u]
    own = [v for v in kept if v not in ends and v not in both.invars]
    host = sum(bytes_of(v.aval) for v in own if on_host(v.aval))
    at = {v: i for v, i in zip(both.outvars[:n_known], outs, strict=True) if type(v) is not Literal}
    inputs = [i for i, v in enumerate(both.invars[n_consts:n_given]) if v in kept and not free[i]]
    which = [i for i, m in enumerate(moving) if m]
    which = [i for i, nz in zip(which, nonzero, strict=True) if nz]
    whole = {v for v, i in zip(both.outvars[n_known:], which, strict=True) if apart[i]}
    beside = {*kept, *whole, *[v for v, t in zip(both.invars, there, strict=False) if t]}
    return Measured(
        sum(bytes_of(v.aval) for v in own) - host,
        tuple(inputs),
        tuple(at[v] for v in kept if v in at and v not in both.invars),
        tuple(i for i in which if apart[i]),
        max(run.peak - sum(bytes_of(v.aval) for v in run.there if v in beside), 0)
        + _reordered(both),
        host,
        costs.seconds_of(both, speeds) + costs.offloaded(host, speeds),
    )


def _reordered(jaxpr: Jaxpr) -> int:
    """The largest array that is transposed: compilers may copy it for products of batches."""
    sizes = [0]
    for eqn in jaxpr.eqns:
        if eqn.primitive.cost.work is Work.TRANSPOSE and eqn.outvars[0].aval.ndim > 2:
            sizes.append(bytes_of(eqn.outvars[0].aval))
        if structure.kind_of(eqn.primitive) is not None:
            sizes += map(_reordered, jaxprs_in_params(eqn.params))
    return max(sizes)


def _both(split: Split, transposed: ClosedJaxpr) -> Jaxpr:
    """The forward pass and the backward pass, as one program of constants, operands and
    cotangents."""
    known, back = split.known.jaxpr, hoist_consts(transposed.jaxpr).jaxpr
    n_known = sum(not u for u in split.unknown_outs)
    computed = iter(known.outvars[n_known:])
    given = [next(computed) if f is None else known.invars[f] for f in split.forwarded]
    fixed = len(back.invars) - len(transposed.in_avals)  # constants that rules have brought in
    consts = [*back.invars[:fixed], *back.invars[fixed : fixed + len(split.staged.jaxpr.constvars)]]
    names: dict[Atom, Atom] = dict(
        zip(back.invars[len(consts) : len(consts) + len(given)], given, strict=True)
    )
    eqns = [eqn.replace(invars=[names.get(v, v) for v in eqn.invars]) for eqn in back.eqns]
    joint = Jaxpr(
        [],
        [*known.constvars, *consts, *known.invars, *back.invars[len(consts) + len(given) :]],
        [*known.outvars[:n_known], *[names.get(v, v) for v in back.outvars]],
        [*known.eqns, *eqns],
    )
    return optimize(inline_calls(ClosedJaxpr(joint, ())).jaxpr)


def _kept(run: Run, cotangents: Sequence[Var]) -> list[Var]:
    """The values that the forward pass makes or is given, and that the backward pass (equations
    that depend on cotangents) uses. Values that are computed at their use do not count."""
    tainted: set[Atom] = set(cotangents)
    first = len(run.jaxpr.eqns)
    for i, eqn in enumerate(run.jaxpr.eqns):
        if not tainted.isdisjoint(eqn.invars):
            tainted.update(eqn.outvars)
            first = min(first, i)
    found = [*run.jaxpr.invars, *[v for eqn in run.jaxpr.eqns for v in eqn.outvars]]
    uses = {v for eqn in run.jaxpr.eqns[first:] for v in eqn.invars if type(v) is not Literal}
    reads = {v: run.last.get(v, -1) for v in found if v not in tainted and v not in run.virtual}
    ends = {v for v in run.jaxpr.outvars if type(v) is not Literal}
    return [
        v
        for v, last in reads.items()
        if last >= first and (v in uses or v not in ends or _through(run, v, first))
    ]


def _through(run: Run, v: Var, first: int) -> bool:
    """Whether the backward pass uses a value through others that have no place."""
    for user in run.users.get(v, ()):
        if user is not None:
            for out in user.outvars:
                if out in run.virtual and any(
                    u is not None and any(u is e for e in run.jaxpr.eqns[first:])
                    for u in run.users.get(out, ())
                ):
                    return True
    return False


def split_of(closed: ClosedJaxpr) -> tuple[Split, list[bool]]:
    """The derivative of a program, cut into the forward pass and the rest; and the operands by
    which it is taken."""
    moving = [is_inexact(aval) for aval in closed.in_avals]
    jvp, _ = jvp_jaxpr(closed, moving, False)
    unknown = [False] * len(moving) + [True] * sum(moving)
    return split_jaxpr(inline_calls(jvp), unknown), moving


def is_inexact(aval: Aval) -> bool:
    """Whether values of a type have tangents."""
    dtype = getattr(aval, "dtype", None)
    if dtype is None or isinstance(dtype, dtypes.ExtendedDType):
        return False
    return bool(dtypes.issubdtype(dtype, np.inexact))


def on_host(aval: Aval) -> bool:
    """Whether values of a type are in the memory of the host."""
    return getattr(aval, "memory_space", None) is MemorySpace.Host
