"""A program as a sequence of segments, some of which are equal.

Layers that repeat are found as repeated runs of equations. The rest is cut where few bytes pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal
from teucer._optimize.structure import structural_key
from teucer._targets.outlining.bytes import bytes_of
from teucer._targets.outlining.repeats import repeats

# Equations of a segment that repeats, at least; parts of the rest of a program, at most; the part
# of a program's bytes from which on cutting is worth while.
SHORTEST, PARTS, WORTH = 3, 8, 1 / 64


class Segment(NamedTuple):
    """Equations start to stop. kind: equal for segments that are alike, which follow one another
    in a run if `run` is equal too."""

    start: int
    stop: int
    kind: int
    run: int


def segments(jaxpr: Jaxpr) -> list[Segment]:
    """All equations of a jaxpr, as segments."""
    eqns = jaxpr.eqns
    widths = _widths(jaxpr)
    made = [sum(bytes_of(v.aval) for v in eqn.outvars) for eqn in eqns]
    total = sum(made)
    found: list[tuple[int, int, Any]] = []
    for number, (starts, length) in enumerate(_repeated(jaxpr, widths)):
        for run, start in starts:
            if sum(made[start : start + length]) * len(starts) >= total * WORTH:
                found.append((start, start + length, (number, run)))
    found += [
        (i, i + 1, None)
        for i, eqn in enumerate(eqns)
        if is_scan(eqn) and not any(start <= i < stop for start, stop, _ in found)
    ]
    found.sort(key=lambda part: part[0])
    parts: list[tuple[int, int, Any]] = []
    last = 0
    for start, stop, kind in [*found, (len(eqns), len(eqns), None)]:
        parts += [(a, b, None) for a, b in _rest(last, start, widths, made, total)]
        if stop > start:
            parts.append((start, stop, kind))
        last = stop
    return _numbered(jaxpr, parts)


def whole(jaxpr: Jaxpr) -> list[Segment]:
    """All equations as one segment."""
    return [Segment(0, len(jaxpr.eqns), 0, 0)]


def parts_of_inputs(jaxpr: Jaxpr, free: Sequence[bool]) -> list[bool]:
    """Which equations only take parts of inputs that are there anyway, such as a layer's
    parameters of stacked ones, or reshape them."""
    there = {v for v, f in zip(jaxpr.invars, free, strict=True) if f}
    found = []
    for eqn in jaxpr.eqns:
        takes = [v for v in eqn.invars if type(v) is not Literal]
        is_part = bool(takes) and there.issuperset(takes) and _takes_part(eqn)
        if is_part:
            there.update(eqn.outvars)
        found.append(is_part)
    return found


def _takes_part(eqn: Eqn) -> bool:
    cost = eqn.primitive.cost
    if cost.work in (Work.RESHAPE, Work.TRANSPOSE, Work.PART):
        return True
    places = all(v.aval.ndim == 0 for v in eqn.invars[1:])
    return cost.fuses and places and bytes_of(eqn.outvars[0].aval) < bytes_of(eqn.invars[0].aval)


def is_scan(eqn: Eqn) -> bool:
    """Whether an equation is a loop of a known number of steps, more than one."""
    found = structure.of(eqn)
    return isinstance(found, structure.Loop) and found.condition is None and found.times > 1


def program_of(jaxpr: Jaxpr, start: int, stop: int) -> Jaxpr:
    """Some equations as a program, from the values that they take to the values that later
    equations need."""
    eqns = jaxpr.eqns[start:stop]
    made = {v for eqn in eqns for v in eqn.outvars}
    taken = dict.fromkeys(
        v for eqn in eqns for v in eqn.invars if type(v) is not Literal and v not in made
    )
    last = _last_uses(jaxpr)
    given = [v for eqn in eqns for v in eqn.outvars if last.get(v, -1) >= stop]
    effects = frozenset(e for eqn in eqns for e in eqn.effects)
    return Jaxpr([], list(taken), given, eqns, effects)


def _widths(jaxpr: Jaxpr) -> list[int]:
    """For each place between equations the bytes of the values that are made before it and used
    behind it."""
    n, last = len(jaxpr.eqns), _last_uses(jaxpr)
    change = [0] * (n + 2)
    for i, eqn in enumerate(jaxpr.eqns):
        for v in eqn.outvars:
            if last.get(v, i) > i:
                size = bytes_of(v.aval)
                change[i + 1] += size
                change[last[v] + 1] -= size
    return list(itertools.accumulate(change))[: n + 1]


def _last_uses(jaxpr: Jaxpr) -> dict[Any, int]:
    """The number of the last equation that uses each value, or of all for results; kept on the
    jaxpr."""
    found: dict[Any, int] | None = jaxpr.cache.get(_last_uses)
    if found is None:
        found = {}
        for i, eqn in enumerate(jaxpr.eqns):
            found.update((v, i) for v in eqn.invars if type(v) is not Literal)
        found.update((v, len(jaxpr.eqns)) for v in jaxpr.outvars if type(v) is not Literal)
        jaxpr.cache[_last_uses] = found
    return found


def _letter(eqn: Eqn) -> Any:
    """A key of an equation, equal for equations that differ only in numbers, such as a layer's
    place in stacked parameters."""
    inner = tuple(
        [structural_key(p.jaxpr) for p in eqn.params.values() if isinstance(p, ClosedJaxpr)]
    )
    return (
        eqn.primitive,
        *(v.aval for v in eqn.invars),
        None,
        *(v.aval for v in eqn.outvars),
    ), inner


def _repeated(jaxpr: Jaxpr, widths: Sequence[int]) -> list[tuple[list[tuple[int, int]], int]]:
    """Repeats: their places, each with the number of its run, and their length."""
    numbers: dict[Any, int] = {}
    letters = np.array(
        [numbers.setdefault(_letter(eqn), len(numbers)) for eqn in jaxpr.eqns], np.int64
    )
    found = []
    taken = np.zeros(len(letters), bool)
    for repeat in repeats(letters, SHORTEST, lambda repeat: True):
        starts, length = sorted(repeat.starts), repeat.length
        runs: list[list[int]] = []
        for start in starts:
            if runs and runs[-1][-1] + length == start:
                runs[-1].append(start)
            else:
                runs.append([start])
        places = []
        for number, run in enumerate(runs):
            begin, end = run[0], run[-1] + length
            if len(run) > 1:
                while end < len(letters) and letters[end] == letters[end - length]:
                    end += 1
                while begin > 0 and letters[begin - 1] == letters[begin + length - 1]:
                    begin -= 1
                begin += _shift(begin, end, length, widths)
            at = [(number, s) for s in range(begin, end - length + 1, length)]
            if not any(taken[s : s + length].any() for _, s in at):
                places += at
        for _, s in places:
            taken[s : s + length] = True
        if places:
            found.append((places, length))
    return found


def _shift(begin: int, end: int, length: int, widths: Sequence[int]) -> int:
    """Where to cut a run of so many equations each: where few bytes pass, in many parts."""
    return min(
        range(length), key=lambda k: (widths[begin + k + length], -((end - begin - k) // length), k)
    )


def _rest(
    start: int, stop: int, widths: Sequence[int], made: Sequence[int], total: int
) -> list[tuple[int, int]]:
    """Equations that do not repeat, as parts of about as many bytes, cut where few pass."""
    size = sum(made[start:stop])
    if stop - start < 2 * SHORTEST or size < total * WORTH:
        return [(start, stop)] if stop > start else []
    wanted = size / PARTS
    cuts, begin, passed = [start], start, 0
    sums = list(itertools.accumulate(made[start:stop], initial=0))
    while True:
        window = [
            i
            for i in range(begin + 1, stop)
            if wanted / 2 <= sums[i - start] - passed <= 2 * wanted
        ]
        if not window or sums[-1] - passed < 1.5 * wanted:
            break
        begin = min(window, key=lambda i: (widths[i], i))
        passed = sums[begin - start]
        cuts.append(begin)
    return list(itertools.pairwise([*cuts, stop]))


def _numbered(jaxpr: Jaxpr, parts: Sequence[tuple[int, int, Any]]) -> list[Segment]:
    """Segments with kinds: parts of one repeat are alike if data flow in them alike."""
    kinds: dict[Any, int] = {}
    runs: dict[Any, int] = {}
    found = []
    for start, stop, repeat in parts:
        key = start if repeat is None else (repeat[0], _flow(program_of(jaxpr, start, stop)))
        kind = kinds.setdefault(key, len(kinds))
        found.append(Segment(start, stop, kind, runs.setdefault((kind, repeat), len(runs))))
    return found


def _flow(program: Jaxpr) -> Any:
    """How values flow within a program, and their types."""
    numbers: dict[Any, int] = {v: i for i, v in enumerate(program.invars)}
    rows = []
    for eqn in program.eqns:
        rows.append(tuple([-1 if type(v) is Literal else numbers[v] for v in eqn.invars]))
        for v in eqn.outvars:
            numbers[v] = len(numbers)
    return tuple(rows), tuple([numbers[v] for v in program.outvars if type(v) is not Literal])
