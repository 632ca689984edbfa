"""Pieces: a program cut at the functions that it calls; each piece is compiled by itself and they run one after another.

XLA makes a copy of a function for each of its calls, and all of its passes go over the copies: compile time grows with the
number of layers. A function that is an executable of its own is compiled once (docs/outlining.md).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from teucer._core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from teucer._optimize.outline import Costs, outlined_call_p
from teucer._optimize.sizes import carried

__all__ = ["Cut", "Limits", "Piece", "cut"]


class Limits(NamedTuple):
    """When a program is cut; the figures behind the defaults are in docs/outlining.md.

    carried: bytes that a function takes and gives, at least, so that what its call costs by itself is small beside it.
    copied: equations that XLA would have to copy, at least.
    """

    carried: int = Costs().carried
    copied: int = 500


FORCED = Limits(carried=0, copied=1)


class Piece(NamedTuple):
    """A part of a program.

    reads: the numbers of the values that it takes; first come the program's arguments, then the constants of the cut, then the
    results of the pieces in their order. drops: those that no later piece takes, nor the program gives.
    """

    jaxpr: Jaxpr
    reads: tuple[int, ...]
    drops: tuple[int, ...]


class Cut(NamedTuple):
    """A program in pieces; constants that functions are called with; the numbers of its results among the values."""

    pieces: tuple[Piece, ...]
    consts: tuple[Any, ...]
    results: tuple[int, ...]


def cut(jaxpr: Jaxpr, forced: bool = False) -> Cut | None:
    """The pieces of a jaxpr without constants; None where it had better stay whole. forced: wherever it calls something twice."""
    limits = FORCED if forced else Limits()
    calls = [eqn for eqn in jaxpr.eqns if eqn.primitive is outlined_call_p and carried(_function(eqn)) >= limits.carried]
    lengths = {id(_function(eqn)): len(_function(eqn).eqns) for eqn in calls}
    if jaxpr.effects or sum(len(_function(eqn).eqns) for eqn in calls) - sum(lengths.values()) < limits.copied:
        return None
    parts = _parts(jaxpr.eqns, calls)
    last_use = {v: k for k, part in enumerate(parts) for eqn in part for v in eqn.invars if isinstance(v, Var)}
    last_use.update((v, len(parts)) for v in jaxpr.outvars if isinstance(v, Var))
    cuts = {id(eqn) for eqn in calls}
    split = [(_function(part[0]), part[0].invars, part[0].outvars) if id(part[0]) in cuts else _rest(part, k, last_use)
             for k, part in enumerate(parts)]
    # Results that no piece makes, or that are one value twice, are made by a last piece.
    results: list[Atom] = list(jaxpr.outvars)
    once: set[Atom] = {v for _, _, outvars in split for v in outvars}
    others = []
    for i, v in enumerate(results):
        if v in once:
            once.remove(v)
        else:
            others.append(i)
    if others:
        given = [results[i] for i in others]
        operands = list(dict.fromkeys(v for v in given if isinstance(v, Var)))
        new = [Var(v.aval) for v in given]
        for i, v in zip(others, new, strict=True):
            results[i] = v
        split.append((Jaxpr([], operands, given, []), operands, new))
    return _numbered(jaxpr.invars, split, results)


def _function(call: Eqn) -> Jaxpr:
    jaxpr: Jaxpr = call.params["jaxpr"].jaxpr
    return jaxpr


def _parts(eqns: Sequence[Eqn], calls: Sequence[Eqn]) -> list[list[Eqn]]:
    """The equations in as few parts as may be: each of the calls by itself, and what comes between them.

    The others have time from when their operands are there (`ready`) to when a call needs what they make (`due`), both numbers
    of calls: the fewest parts are those that stab all of these intervals. Each goes into the last that it can, so that what is
    cheap to make is made where it is used.
    """
    order = {id(eqn): k for k, eqn in enumerate(calls)}
    ready: dict[Atom, int] = {}
    earliest = []
    for eqn in eqns:
        k = order.get(id(eqn))
        at = max((ready.get(v, 0) for v in eqn.invars if type(v) is not Literal), default=0)
        ready.update(dict.fromkeys(eqn.outvars, at if k is None else k + 1))
        earliest.append(at)
    due: dict[Atom, int] = {}
    latest = []
    for eqn in reversed(eqns):
        k = order.get(id(eqn))
        by = k if k is not None else min((due[v] for v in eqn.outvars if v in due), default=len(calls))
        due.update((v, min(by, due.get(v, by))) for v in eqn.invars if type(v) is not Literal)
        latest.append(by)
    latest.reverse()
    rest = [i for i, eqn in enumerate(eqns) if id(eqn) not in order]
    opened: list[int] = []  # numbers of calls before which there is a part, greatest first
    for i in sorted(rest, key=earliest.__getitem__, reverse=True):
        if not opened or opened[-1] > latest[i]:
            opened.append(earliest[i])
    opened.reverse()
    between: list[list[Eqn]] = [[] for _ in range(len(calls) + 1)]
    for i in rest:
        between[opened[bisect.bisect_right(opened, latest[i]) - 1]].append(eqns[i])
    parts = [between[0]]
    for call, rest_of_it in zip(calls, between[1:], strict=True):
        parts += [[call], rest_of_it]
    return list(filter(None, parts))


def _rest(part: list[Eqn], k: int, last_use: dict[Var, int]) -> tuple[Jaxpr, Sequence[Atom], Sequence[Var]]:
    """What comes between calls as a jaxpr of its own, with its operands and those of its results that later parts use."""
    made = {v: None for eqn in part for v in eqn.outvars}
    operands = list(dict.fromkeys(v for eqn in part for v in eqn.invars if isinstance(v, Var) and v not in made))
    outvars = [v for v in made if last_use.get(v, -1) > k]
    return Jaxpr([], operands, outvars, part), operands, outvars


def _numbered(invars: Sequence[Var], split: Sequence[tuple[Jaxpr, Sequence[Atom], Sequence[Var]]],
              results: Sequence[Atom]) -> Cut:
    """The pieces with numbers for the values."""
    literals = [v for _, operands, _ in split for v in operands if type(v) is Literal]
    values = itertools.chain(invars, literals, *(outvars for _, _, outvars in split))
    numbers = {id(v): i for i, v in enumerate(values)}
    last = {id(v): k for k, (_, operands, outvars) in enumerate(split) for v in (*operands, *outvars)}
    last.update((id(v), len(split)) for v in results)
    drops: list[list[int]] = [[] for _ in range(len(split) + 1)]
    for v, k in last.items():
        drops[k].append(numbers[v])
    pieces = [Piece(jaxpr, tuple([numbers[id(v)] for v in operands]), tuple(drops[k]))
              for k, (jaxpr, operands, _) in enumerate(split)]
    return Cut(tuple(pieces), tuple([np.asarray(v.val, v.aval.dtype) for v in literals]), tuple([numbers[id(v)] for v in results]))
