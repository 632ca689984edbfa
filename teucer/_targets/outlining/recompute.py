"""Cheap values are computed again where they are used much later, in place of being kept.

A backward pass uses values of the forward pass: of `1 - tanh(x)`, `2 * x` and a mean in the
shape of x it needs tanh(x), x and the mean alone. XLA decides likewise within a function, and
cannot between the functions that outlining makes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from teucer._core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from teucer._optimize.dce import remove_dead
from teucer._targets.outlining.bytes import bytes_of
from teucer._targets.outlining.constants import (
    RECOMPUTE_FAR,
    RECOMPUTE_LIKE,
    RECOMPUTE_MOST,
    RECOMPUTE_SMALLER,
)
from teucer._targets.outlining.updates import updates_of


def recompute(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr, with cheap values computed again before uses that are far from the first
    computation; the same bits.

    Each use has its own copy: copies that are near each other are merged once functions are found.
    Values that updates make are not recomputed: only updates use them, and updates are moved to
    them (`teucer._targets.outlining.updates`).
    """
    eqns = jaxpr.eqns
    place = {v: i for i, eqn in enumerate(eqns) for v in eqn.outvars}
    far = _far_uses(eqns, place)
    again = _made_again(jaxpr, {v for uses in far.values() for v in uses})
    if not again:
        return jaxpr
    out: list[Eqn] = []

    def near(v: Atom, i: int, copies: dict[Var, Var], distant: Collection[Atom]) -> Atom:
        """The operand that replaces v in equation i: v itself, or if it is one of the distant a
        copy for this equation alone."""
        if type(v) is Literal or v not in again or v not in distant:
            return v
        if v not in copies:
            eqn = again[v]
            operands = [near(u, i, copies, eqn.invars) for u in eqn.invars]
            copies[v] = Var(v.aval)
            out.append(eqn.replace(invars=operands, outvars=[copies[v]]))
        return copies[v]

    for i, eqn in enumerate(eqns):
        if not again.keys().isdisjoint(eqn.invars):
            copies: dict[Any, Var] = {}
            eqn = eqn.replace(invars=[near(v, i, copies, far.get(i, ())) for v in eqn.invars])
        out.append(eqn)
    return remove_dead(jaxpr.replace(eqns=out))


def _far_uses(eqns: Sequence[Eqn], place: dict[Var, int]) -> dict[int, set[Any]]:
    """By number of an equation, its operands that were made far before it, or that are like such
    operands of an equation like it.

    Equations that make a value are alike if they are of one kind and follow equations of the same
    kinds. Those that use one are alike if they are followed by the same kinds. So the last layer
    goes like the others, though a short loss uses its value soon.
    """
    kinds: dict[Any, int] = {}
    letters = [
        kinds.setdefault((eqn.primitive, eqn.outvars[0].aval if eqn.outvars else None), len(kinds))
        for eqn in eqns
    ]
    made = [tuple(letters[max(i - RECOMPUTE_LIKE, 0) : i + 1]) for i in range(len(eqns))]
    used = [tuple(letters[i : i + 1 + RECOMPUTE_LIKE]) for i in range(len(eqns))]
    uses = [(i, v, place[v]) for i, eqn in enumerate(eqns) for v in eqn.invars if v in place]
    far = {(made[k], used[i]) for i, _, k in uses if i - k > RECOMPUTE_FAR}
    found: dict[int, set[Any]] = {}
    for i, v, k in uses:
        if i - k > RECOMPUTE_FAR or (made[k], used[i]) in far:
            found.setdefault(i, set()).add(v)
    return found


def _made_again(jaxpr: Jaxpr, far: set[Var]) -> dict[Any, Eqn]:
    """By variable, the cheap equation to compute it again from one array that is live anyway, and
    smaller ones.

    Only one array: so a value that a step of a recurrence computes from the step before and from
    another array is kept. Otherwise steps would differ: some would keep values, and some would
    recompute them from further and further back.
    """
    there = set(jaxpr.invars)  # arguments, constants, and kept values
    constant: set[Any] = set()  # derived from constants alone: outlining copies these to their uses
    again: dict[Any, Eqn] = {}
    cost: dict[
        Any, tuple[int, frozenset[Any]]
    ] = {}  # the number of equations that make a value, and the large arrays that it is made of
    sizes: dict[Any, int] = {}  # in bytes, by type

    def size_of(v: Atom) -> int:
        if v.aval not in sizes:
            sizes[v.aval] = bytes_of(v.aval)
        return sizes[v.aval]

    updates = updates_of(jaxpr)
    for i, eqn in enumerate(jaxpr.eqns):
        if all(type(u) is Literal or u in constant for u in eqn.invars):
            constant.update(eqn.outvars)
        elif i in updates:
            there.update(eqn.outvars)
        elif len(eqn.outvars) == 1 and eqn.primitive.cost.cheap and not eqn.effects:
            (v,) = eqn.outvars
            size, sources = 1, frozenset[Any]()
            missing = set()
            for u in eqn.invars:
                if u in cost:
                    size, sources = size + cost[u][0], sources | cost[u][1]
                elif u in there:
                    sources |= {u} if size_of(u) * RECOMPUTE_SMALLER > size_of(v) else frozenset()
                elif type(u) is not Literal and u not in constant:
                    missing.add(u)
            # One operand that is much smaller may be kept in the place of the result.
            if (
                len(missing) == 1
                and v in far
                and all(size_of(u) * RECOMPUTE_SMALLER <= size_of(v) for u in missing)
            ):
                there |= missing
                missing = set()
            if not missing and size <= RECOMPUTE_MOST and len(sources) <= 1:
                again[v], cost[v] = eqn, (size, sources)
                continue
        there.update(v for v in eqn.outvars if v in far)
    return again
