"""Which values to keep so that others can be computed again: a cut of a graph.

A value that the backward pass needs is kept, or its maker runs again, which needs other values.
For a price of a byte the cheapest choice is a minimum cut. Prices between 0 and infinity give the
lower hull of bytes kept against seconds. For few values all choices are tried.

The cut solves a problem of project selection: Picard, Maximal closure of a graph, Management
Science 22 (1976) 1268.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

# Candidates up to which all choices are tried, and how many of the choices are handed on.
EXHAUSTIVE, CHOICES = 12, 24
_SCALE = 1 << 20  # capacities are whole numbers
_INFINITE = 1 << 28


class Maker(NamedTuple):
    """An operation that makes values of others. Values are numbers; makers stand in the order in
    which they run."""

    takes: tuple[int, ...]
    gives: tuple[int, ...]
    seconds: float


class Graph(NamedTuple):
    """needed: the values that the backward pass needs. sizes: of values that may be kept, in bytes.
    Values without a maker are kept anyway."""

    makers: tuple[Maker, ...]
    needed: frozenset[int]
    sizes: dict[int, int]


class Choice(NamedTuple):
    """Values to keep, their bytes, and the seconds that it takes to compute the others again."""

    kept: frozenset[int]
    size: int
    seconds: float


def choice(graph: Graph, kept: Iterable[int]) -> Choice:
    """The size and the time of the choice to keep the values `kept`. Values that are never used do
    not count."""
    allowed, wanted = frozenset(kept), set(graph.needed)
    used, seconds = set(), 0.0
    for maker in reversed(graph.makers):
        asked = wanted.intersection(maker.gives)
        used |= asked & allowed
        if not asked <= allowed:
            seconds += maker.seconds
            wanted.update(maker.takes)
    return Choice(frozenset(used), sum(graph.sizes[v] for v in used), seconds)


def frontier(graph: Graph) -> list[Choice]:
    """The best choices, which no other beats in both bytes and seconds; those that keep least
    first."""
    graph = _relevant(graph)
    if len(graph.sizes) <= EXHAUSTIVE:
        values = sorted(graph.sizes)
        found = [
            choice(graph, some)
            for n in range(len(values) + 1)
            for some in itertools.combinations(values, n)
        ]
    else:
        found = _between(graph, choice(graph, ()), choice(graph, graph.sizes), 4)
    return _thinned(undominated(found))


def undominated(choices: Iterable[Choice]) -> list[Choice]:
    """The choices that no other choice beats both in size and in time."""
    best: list[Choice] = []
    for found in sorted(choices, key=lambda c: (c.size, c.seconds)):
        if not best or found.seconds < best[-1].seconds * (1 - 1e-9):
            best.append(found)
    return best


def _thinned(choices: Sequence[Choice]) -> list[Choice]:
    """At most `CHOICES` of the choices, whose sizes differ by about equal steps."""
    if len(choices) <= CHOICES:
        return list(choices)
    places = np.linspace(choices[0].size, choices[-1].size, CHOICES)
    sizes = [c.size for c in choices]
    chosen = {int(np.searchsorted(sizes, place, side="right")) - 1 for place in places}
    return [choices[max(i, 0)] for i in sorted(chosen)]


def _relevant(graph: Graph) -> Graph:
    """The graph without values and makers that no needed value depends on."""
    wanted, makers = set(graph.needed), []
    for maker in reversed(graph.makers):
        if not wanted.isdisjoint(maker.gives):
            makers.append(maker)
            wanted.update(maker.takes)
    made = {v for maker in makers for v in maker.gives}
    sizes = {v: n for v, n in graph.sizes.items() if v in wanted and v in made}
    return Graph(tuple(makers[::-1]), graph.needed & made, sizes)


def _between(graph: Graph, less: Choice, more: Choice, depth: int) -> list[Choice]:
    """Corners of the lower hull between two choices."""
    if not depth or more.size <= less.size or more.seconds >= less.seconds:
        return [less, more]
    price = (less.seconds - more.seconds) / (more.size - less.size)
    found = cheapest(graph, price)
    if found.kept in (less.kept, more.kept):
        return [less, more]
    return [*_between(graph, less, found, depth - 1), *_between(graph, found, more, depth - 1)]


def cheapest(graph: Graph, price: float) -> Choice:
    """The choice of least seconds, where a byte that is kept costs `price` seconds."""
    from scipy.sparse import csr_array  # here, since other choices need no cut
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    values = sorted({v for maker in graph.makers for v in (*maker.takes, *maker.gives)})
    inside = {v: 2 + 2 * i for i, v in enumerate(values)}
    first = 2 + 2 * len(values)
    total = sum(m.seconds for m in graph.makers) + price * sum(graph.sizes.values())
    scale = _SCALE / max(total, 1e-300)
    edges: dict[tuple[int, int], int] = {}
    for v in values:
        if v in graph.needed:
            edges[0, inside[v]] = _INFINITE
        size = graph.sizes.get(v)
        edges[inside[v], inside[v] + 1] = (
            _INFINITE if size is None else int(size * price * scale) + 1
        )
    for i, maker in enumerate(graph.makers):
        edges[first + i, 1] = int(maker.seconds * scale) + 1
        for v in maker.gives:
            edges[inside[v] + 1, first + i] = _INFINITE
        for v in maker.takes:
            edges[first + i, inside[v]] = _INFINITE
    n = first + len(graph.makers)
    (rows, columns), capacities = zip(*edges, strict=True), list(edges.values())
    network = csr_array((np.asarray(capacities, np.int32), (rows, columns)), shape=(n, n))
    rest = network - maximum_flow(network, 0, 1).flow
    rest.data = np.maximum(rest.data, 0)
    rest.eliminate_zeros()
    reached = set(breadth_first_order(rest, 0, return_predecessors=False).tolist())
    return choice(
        graph, [v for v in graph.sizes if inside[v] in reached and inside[v] + 1 not in reached]
    )
