"""Pieces: a program cut at the functions that it calls; each piece is compiled by itself and they
run one after another.

XLA makes a copy of a function for each of its calls, and all of its passes go over the copies:
compile time grows with the number of layers. A function that is an executable of its own, or a few
calls of it that are, is compiled once (docs/outlining.md).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from teucer._core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from teucer._optimize.structure import structural_key
from teucer._targets.outlined_call import outlined_call_p

__all__ = ["CutProgram", "Cutting", "Piece", "cut"]


class Cutting(Protocol):
    """When a target cuts programs.

    copied: equations that XLA would have to copy, at least. groups, runs: as of `Limits`.
    """

    @property
    def copied(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def runs(self) -> int: ...

    def large(self, function: Jaxpr) -> bool:
        """Whether a function may be a piece."""

    def most(self, function: Jaxpr) -> int:
        """How many calls of a function may share a piece."""

    def singly(self) -> Cutting:
        """The same, with a piece for each call."""


class Piece(NamedTuple):
    """A part of a program.

    reads: the numbers of the values that it takes; first come the program's arguments, then the
    constants of the cut, then the results of the pieces in their order. drops: those that no later
    piece takes, nor the program gives. calls: how many calls of a function it is, 0 for what comes
    between them.
    """

    jaxpr: Jaxpr
    reads: tuple[int, ...]
    drops: tuple[int, ...]
    calls: int


class CutProgram(NamedTuple):
    """A program in pieces; constants that functions are called with; the numbers of its results
    among the values."""

    pieces: tuple[Piece, ...]
    consts: tuple[Any, ...]
    results: tuple[int, ...]


def cut(jaxpr: Jaxpr, limits: Cutting) -> CutProgram | None:
    """The pieces of a jaxpr without constants; None if it stays whole."""
    calls = [
        eqn
        for eqn in jaxpr.eqns
        if eqn.primitive is outlined_call_p
        and limits.large(_function(eqn))
        and len(_function(eqn).eqns) != 1
    ]  # what is merely expensive is no piece
    lengths = {id(_function(eqn)): len(_function(eqn).eqns) for eqn in calls}
    if (
        jaxpr.effects
        or sum(len(_function(eqn).eqns) for eqn in calls) - sum(lengths.values()) < limits.copied
    ):
        return None
    parts = _shared(_parts(jaxpr.eqns, calls), {id(eqn) for eqn in calls}, limits)
    last_use = {
        v: k
        for k, (part, _) in enumerate(parts)
        for eqn in part
        for v in eqn.invars
        if isinstance(v, Var)
    }
    last_use.update((v, len(parts)) for v in jaxpr.outvars if isinstance(v, Var))
    split = [
        _call(part[0]) if count == 1 else _stretch(part, count, k, last_use)
        for k, (part, count) in enumerate(parts)
    ]
    known: dict[Any, Jaxpr] = {}
    split = [
        s._replace(jaxpr=known.setdefault(structural_key(s.jaxpr), s.jaxpr)) if s.calls > 1 else s
        for s in split
    ]
    if len(known) * limits.runs > sum(s.calls > 1 for s in split):
        return cut(jaxpr, limits.singly())
    # Results that no piece makes, or that are one value twice, are made by a last piece.
    results: list[Atom] = list(jaxpr.outvars)
    once: set[Atom] = {v for s in split for v in s.results}
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
        split.append(_Stretch(Jaxpr([], operands, given, []), operands, new, 0))
    return _numbered(jaxpr.invars, split, results)


class _Stretch(NamedTuple):
    """A piece before its values have numbers: what it computes, from what and for what, and of how
    many calls."""

    jaxpr: Jaxpr
    operands: Sequence[Atom]
    results: Sequence[Var]
    calls: int


def _function(call: Eqn) -> Jaxpr:
    jaxpr: Jaxpr = call.params["jaxpr"].jaxpr
    return jaxpr


def _parts(eqns: Sequence[Eqn], calls: Sequence[Eqn]) -> list[list[Eqn]]:
    """The equations in as few parts as may be: each of the calls by itself, and what comes between
    them.

    The others have time from when their operands are there (`ready`) to when a call needs what they
    make (`due`), both numbers of calls: the fewest parts are those that stab all of these
    intervals. Each goes into the last that it can, so that what is cheap to make is made where it
    is used.
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
        by = (
            k
            if k is not None
            else min((due[v] for v in eqn.outvars if v in due), default=len(calls))
        )
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


def _shared(
    parts: Sequence[list[Eqn]], calls: set[int], limits: Cutting
) -> list[tuple[list[Eqn], int]]:
    """The parts with their numbers of calls: calls of one function that follow one another in
    groups, and the rest one by one."""
    shared: list[tuple[list[Eqn], int]] = []
    for function, run in itertools.groupby(
        parts, lambda part: _function(part[0]) if id(part[0]) in calls else None
    ):
        found = list(run)
        if function is None:
            shared += [(part, 0) for part in found]
            continue
        size = _group_size(function, len(found), limits)
        grouped = len(found) // size * size
        for start, end in itertools.pairwise(
            [*range(0, grouped, size), *range(grouped, len(found) + 1)]
        ):
            shared.append(([part[0] for part in found[start:end]], end - start))
    return shared


def _group_size(function: Jaxpr, calls: int, limits: Cutting) -> int:
    """How many calls share a piece. The function says it and not their number, so that an edit of
    one layer, or a model of fewer layers, finds the pieces of the others. Short runs that leave a
    rest stay single calls: one executable rather than two."""
    size = 1 << max(limits.most(function), 1).bit_length() - 1
    return size if calls >= (2 if calls % size == 0 else limits.groups) * size else 1


def _call(eqn: Eqn) -> _Stretch:
    return _Stretch(_function(eqn), eqn.invars, eqn.outvars, 1)


def _stretch(part: list[Eqn], calls: int, k: int, last_use: dict[Var, int]) -> _Stretch:
    """Part k as a jaxpr of its own, with its operands and those of its results that later parts
    use.

    Literals that functions are called with are operands: they are what groups of calls may differ
    in.
    """
    stands: dict[Atom, Var] = {
        v: Var(v.aval) for eqn in part for v in eqn.invars if calls and type(v) is Literal
    }
    made = {v: None for eqn in part for v in eqn.outvars}
    taken = dict.fromkeys(
        v for eqn in part for v in eqn.invars if type(v) is not Literal or v in stands
    )
    operands = [v for v in taken if v not in made]
    outvars = [v for v in made if last_use.get(v, -1) > k]
    if stands:
        part = [
            eqn.replace(invars=[stands[v] if type(v) is Literal else v for v in eqn.invars])
            for eqn in part
        ]
    invars = [stands[v] if type(v) is Literal else v for v in operands]
    return _Stretch(Jaxpr([], invars, outvars, part), operands, outvars, calls)


def _numbered(
    invars: Sequence[Var], split: Sequence[_Stretch], results: Sequence[Atom]
) -> CutProgram:
    """The pieces with numbers for the values."""
    literals = [v for s in split for v in s.operands if type(v) is Literal]
    values = itertools.chain(invars, literals, *(s.results for s in split))
    numbers = {id(v): i for i, v in enumerate(values)}
    last = {id(v): k for k, s in enumerate(split) for v in (*s.operands, *s.results)}
    last.update((id(v), len(split)) for v in results)
    drops: list[list[int]] = [[] for _ in range(len(split) + 1)]
    for v, k in last.items():
        drops[k].append(numbers[v])
    pieces = [
        Piece(s.jaxpr, tuple([numbers[id(v)] for v in s.operands]), tuple(drops[k]), s.calls)
        for k, s in enumerate(split)
    ]
    consts = tuple([np.asarray(v.val, v.aval.dtype) for v in literals])
    return CutProgram(tuple(pieces), consts, tuple([numbers[id(v)] for v in results]))
