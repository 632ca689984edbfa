"""One way for each kind of segment, so that all together keep a budget: a knapsack.

The backward pass holds all kept values, and the values that one segment needs at a time. For each
bound of the latter the former is a multiple-choice knapsack, solved by lists of undominated states
(Nemhauser and Ullmann, Management Science 15 (1969) 494).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# States of the knapsack, at most, and bounds tried: more are thinned by size.
STATES, BOUNDS = 4096, 48


class Load(NamedTuple):
    """The cost of a way, for all segments of a kind. kept: bytes for the backward pass. back: bytes
    that the backward pass of one segment needs beside."""

    kept: int
    back: int
    seconds: float


class _State(NamedTuple):
    kept: int
    seconds: float
    ways: tuple[int, ...]


def choose(kinds: Sequence[Sequence[Load]], budget: float) -> list[int] | None:
    """For each kind the number of its way: the fastest choice whose peak, kept values and those
    needed beside, is within the budget; None if there is none."""
    best: _State | None = None
    for bound in _bounds(kinds):
        found = _knapsack(kinds, bound, budget - bound)
        if found is not None and (best is None or found.seconds < best.seconds):
            best = found
    return None if best is None else list(best.ways)


def least(kinds: Sequence[Sequence[Load]]) -> int:
    """The smallest budget, in bytes, that some choice keeps."""
    found = []
    for bound in _bounds(kinds):
        allowed = [[load.kept for load in loads if load.back <= bound] for loads in kinds]
        if all(allowed):
            found.append(bound + sum(map(min, allowed)))
    return min(found)


def _bounds(kinds: Sequence[Sequence[Load]]) -> list[int]:
    """Candidate limits on the bytes that one segment may need: the needs of all ways."""
    found = sorted({load.back for loads in kinds for load in loads})
    smallest = max((min(load.back for load in loads) for loads in kinds), default=0)
    found = [bound for bound in found if bound >= smallest] or [smallest]
    step = -(-len(found) // BOUNDS)
    return sorted({*found[::step], found[0], found[-1]})


def _knapsack(kinds: Sequence[Sequence[Load]], bound: float, most: float) -> _State | None:
    states = [_State(0, 0.0, ())]
    rest = [min((x.kept for x in loads if x.back <= bound), default=0) for loads in kinds]
    for i, loads in enumerate(kinds):
        later = sum(rest[i + 1 :])
        grown = [
            _State(state.kept + load.kept, state.seconds + load.seconds, (*state.ways, way))
            for way, load in enumerate(loads)
            if load.back <= bound
            for state in states
            if state.kept + load.kept + later <= most
        ]
        states = []
        for state in sorted(grown):
            if not states or state.seconds < states[-1].seconds:
                states.append(state)
        if len(states) > STATES:
            states = [*states[:: -(-len(states) // STATES)], states[-1]]
    return min(states, key=lambda state: state.seconds, default=None)
