"""Pieces: a program cut at the functions that it calls; each piece is compiled by itself and they
run one after another.

XLA makes a copy of a function for each of its calls, and all of its passes go over the copies:
compile time grows with the number of layers. A function that is an executable of its own, or a few
calls of it that are, is compiled once (docs/outlining.md).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from teucer._core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from teucer._optimize.effects import Effect
from teucer._optimize.structure import literal_key, structural_key
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining.factors import with_factors


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
        """The same rules of cutting, but with a piece for each call."""


class Piece(NamedTuple):
    """A part of a program.

    reads: the numbers of the values that it takes; first come the program's arguments, then the
    constants of the cut, then the results of the pieces in their order. drops: values that no later
    piece takes, nor the program returns. calls: the number of calls of a function that it consists
    of, 0 for a part between calls.
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
    calls = _calls(jaxpr, limits)
    lengths = {id(_function(eqn)): len(_function(eqn).eqns) for eqn in calls}
    if (
        not all(type(effect) is Effect and not effect.ordered for effect in jaxpr.effects)
        or sum(len(_function(eqn).eqns) for eqn in calls) - sum(lengths.values()) < limits.copied
    ):
        return None
    functions = {id(eqn): _function(eqn) for eqn in calls}
    jaxpr, factors = with_factors(jaxpr, lambda eqn: functions.get(id(eqn)))
    calls = _calls(jaxpr, limits)
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
        _call(part[0]) if count == 1 else _stretch(part, count, k, last_use, factors)
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
    """A piece before its values have numbers: its jaxpr, operands and results, and its number of
    calls."""

    jaxpr: Jaxpr
    operands: Sequence[Atom]
    results: Sequence[Var]
    calls: int


def _calls(jaxpr: Jaxpr, limits: Cutting) -> list[Eqn]:
    """The calls that become pieces; calls of merely expensive operations do not."""
    return [
        eqn
        for eqn in jaxpr.eqns
        if eqn.primitive is outlined_call_p
        and limits.large(_function(eqn))
        and len(_function(eqn).eqns) != 1
    ]


def _function(call: Eqn) -> Jaxpr:
    jaxpr: Jaxpr = call.params["jaxpr"].jaxpr
    return jaxpr


def _parts(eqns: Sequence[Eqn], calls: Sequence[Eqn]) -> list[list[Eqn]]:
    """The equations in as few parts as possible: each call by itself, and the parts between calls.

    Another equation may run from the call after which its operands exist (`ready`) to the call that
    needs its results (`due`). The fewest parts are the fewest points that stab all of these
    intervals. Each equation goes into the last part that it can, so that cheap values are made
    where they are used. Values that only results need, such as new parameters, are made as soon as
    possible.
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
    wanted: dict[Atom, int] = {}  # the first part that uses a value
    for i in reversed(rest):
        used = [wanted[v] for v in eqns[i].outvars if v in wanted]
        if latest[i] == len(calls) and not used:
            at = opened[bisect.bisect_left(opened, earliest[i])]
        else:
            at = min([opened[bisect.bisect_right(opened, latest[i]) - 1], *used])
        between[at].append(eqns[i])
        wanted.update(
            (v, min(at, wanted.get(v, at))) for v in eqns[i].invars if type(v) is not Literal
        )
    for part in between:
        part.reverse()
    parts = [between[0]]
    for call, rest_of_it in zip(calls, between[1:], strict=True):
        parts += [[call], rest_of_it]
    return list(filter(None, parts))


def _shared(
    parts: Sequence[list[Eqn]], calls: set[int], limits: Cutting
) -> list[tuple[list[Eqn], int]]:
    """The parts with their numbers of calls: calls of one function that follow one another in
    groups, and the rest one by one."""
    runs = [
        (function, [eqn for part in found for eqn in part])
        for function, found in itertools.groupby(
            parts, lambda part: _function(part[0]) if id(part[0]) in calls else None
        )
    ]
    lengths: dict[int, list[int]] = {}  # of the runs of a function
    for function, eqns in runs:
        if function is not None:
            lengths.setdefault(id(function), []).append(len(eqns))
    shared: list[tuple[list[Eqn], int]] = []
    for function, eqns in runs:
        if function is None:
            shared.append((eqns, 0))
            continue
        size = _group_size(function, lengths[id(function)], limits)
        grouped = len(eqns) // size * size
        bounds = [*range(0, grouped, size), *range(grouped, len(eqns) + 1)]
        shared += [(eqns[start:end], end - start) for start, end in itertools.pairwise(bounds)]
    return shared


def _group_size(function: Jaxpr, runs: Sequence[int], limits: Cutting) -> int:
    """How many calls share a piece, in runs of so many calls. The function says it and not their
    number, so that an edit of one layer, or a model of fewer layers, finds the pieces of the
    others. If a rest is left and the groups are few, all stay single calls: one executable rather
    than two."""
    size = 1 << max(limits.most(function), 1).bit_length() - 1
    groups = sum(calls // size for calls in runs)
    left_over = any(calls % size for calls in runs)
    return size if groups >= (limits.groups if left_over else 2) else 1


def _call(eqn: Eqn) -> _Stretch:
    return _Stretch(_function(eqn), eqn.invars, eqn.outvars, 1)


def _stretch(
    part: list[Eqn], calls: int, k: int, last_use: dict[Var, int], factors: Collection[Literal]
) -> _Stretch:
    """Part k as a jaxpr of its own, with its operands, and the results that later parts use.

    Literals that functions are called with are operands, since groups of calls may differ in them,
    and so are the factors of updates.
    """
    stands: dict[Atom, Var] = {
        v: Var(v.aval)
        for eqn in part
        for v in eqn.invars
        if type(v) is Literal and (calls or v in factors)
    }
    made = {v: None for eqn in part for v in eqn.outvars}
    taken = dict.fromkeys(
        v for eqn in part for v in eqn.invars if type(v) is not Literal or v in stands
    )
    operands = [v for v in taken if v not in made]
    outvars = [v for v in made if last_use.get(v, -1) > k]
    if stands:
        part = [eqn.replace(invars=[stands.get(v, v) for v in eqn.invars]) for eqn in part]
    invars = [stands[v] if type(v) is Literal else v for v in operands]
    return _Stretch(Jaxpr([], invars, outvars, part), operands, outvars, calls)


def _numbered(
    invars: Sequence[Var], split: Sequence[_Stretch], results: Sequence[Atom]
) -> CutProgram:
    """The pieces with numbers for the values."""
    literals = [v for s in split for v in s.operands if type(v) is Literal]
    unique = {literal_key(v): v for v in literals}
    values = itertools.chain(invars, unique.values(), *(s.results for s in split))
    numbers = {id(v): i for i, v in enumerate(values)}
    numbers.update((id(v), numbers[id(unique[literal_key(v)])]) for v in literals)
    last = {numbers[id(v)]: k for k, s in enumerate(split) for v in (*s.operands, *s.results)}
    last.update((numbers[id(v)], len(split)) for v in results)
    drops: list[list[int]] = [[] for _ in range(len(split) + 1)]
    for number, k in last.items():
        drops[k].append(number)
    pieces = [
        Piece(s.jaxpr, tuple([numbers[id(v)] for v in s.operands]), tuple(drops[k]), s.calls)
        for k, s in enumerate(split)
    ]
    consts = tuple([np.asarray(v.val, v.aval.dtype) for v in unique.values()])
    return CutProgram(tuple(pieces), consts, tuple([numbers[id(v)] for v in results]))
