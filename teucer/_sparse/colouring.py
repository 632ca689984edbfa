"""Columns of a sparse matrix in as few groups as can be found, such that no row has two of one
group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def colouring(pattern: Any, shape: Sequence[int] = ()) -> Any:
    """The group of each column of a pattern in the format CSR: int[columns].

    shape: sizes of the grid whose points are the columns, if they form one. Groups that follow the
    grid are tried first.

    Sources: Curtis, Powell & Reid, J. Inst. Math. Appl. 13 (1974) 117 (the idea); Jones &
    Plassmann, SIAM J. Sci. Comput. 14 (1993) 654 (groups found for many columns at once);
    Culberson, Univ. of Alberta TR 92-07 (1992) (fewer, group by group).
    """
    n = pattern.shape[1]
    least = int(np.diff(pattern.indptr).max(initial=0))
    if least <= 1:
        return np.zeros(n, np.int32)
    if least == n:
        return np.arange(n, dtype=np.int32)
    ones = pattern.astype(np.int8)
    ones.data[:] = 1
    graph = (ones.astype(bool).T @ ones.astype(bool)).tocoo()
    apart = graph.row < graph.col
    pairs = graph.row[apart], graph.col[apart]
    found = _on_grid(pairs, shape, least) if shape and math.prod(shape) == n else None
    if found is not None and found.max() < least + 4:
        return found
    greedy = _improved(_independent_sets(graph.tocsr()), graph.tocsr())
    return greedy if found is None or greedy.max() < found.max() else found


def _on_grid(pairs: tuple[Any, Any], shape: Sequence[int], least: int) -> Any:
    """Groups c . index mod p: enough for stencils."""
    axes = [a for a, n in enumerate(shape) if n > 1]
    index = [i.reshape(-1) for i in np.indices(shape, np.int32)]
    spans = [2 * shape[a] for a in axes]
    moves = np.zeros(len(pairs[0]), np.int64)
    for a, span in zip(axes, spans, strict=True):
        moves = moves * span + (index[a][pairs[1]] - index[a][pairs[0]] + shape[a])
    moves = np.unique(moves)  # a stencil has few
    if len(moves) > 20_000:
        return None
    steps = np.stack(np.unravel_index(moves, spans)) - np.array([[shape[a]] for a in axes])
    for p in range(least, 2 * least + 4):
        for c in itertools.islice(itertools.product(range(p), repeat=len(axes)), 4000):
            if (np.array(c, np.int32) @ steps % p != 0).all():
                return (sum(k * index[a] for k, a in zip(c, axes, strict=True)) % p).astype(
                    np.int32
                )
    return None


def _independent_sets(graph: Any) -> Any:
    """A colour for each vertex, chosen in rounds: each uncoloured vertex that ranks before its
    uncoloured neighbours gets the smallest colour that no neighbour has."""
    n = graph.shape[0]
    rank = np.random.default_rng(0).permutation(n)
    colour = np.full(n, -1, np.int32)
    degree = np.diff(graph.indptr)
    owner = np.repeat(np.arange(n), degree)
    neighbour = graph.indices
    other = owner != neighbour
    owner, neighbour = owner[other], neighbour[other]
    while (colour < 0).any():
        free = colour < 0
        blocked = np.zeros(n, bool)
        blocked[owner[free[neighbour] & (rank[neighbour] > rank[owner])]] = True
        chosen = free & ~blocked
        given = np.flatnonzero(chosen)
        colour[given] = _smallest(colour, graph, given)
        live = free[owner] & ~chosen[owner]
        owner, neighbour = owner[live], neighbour[live]
    return colour


def _smallest(colour: Any, graph: Any, given: Any) -> Any:
    """For each of the vertices `given`, which have no colour yet, the smallest that no neighbour
    has."""
    degree = graph.indptr[given + 1] - graph.indptr[given]
    ends = np.cumsum(degree)
    edges = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
        graph.indptr[given] - ends + degree, degree
    )
    seen = colour[graph.indices[edges]]
    of = seen >= 0
    used = np.zeros((len(given), int(colour.max(initial=0)) + 2), bool)
    used[np.repeat(np.arange(len(given)), degree)[of], seen[of]] = True
    return np.argmin(used, axis=1).astype(np.int32)


def _improved(colour: Any, graph: object, rounds: int = 6) -> Any:
    """Colours given anew, group by group from the last to the first: never more, often fewer."""
    for number in range(rounds):
        sizes = np.bincount(colour)
        count = len(sizes)
        order = np.argsort(sizes) if number % 2 else np.arange(count)[::-1]
        members = np.split(np.argsort(colour, kind="stable"), np.cumsum(sizes)[:-1])
        fresh = np.full(len(colour), -1, np.int32)
        for group in order:
            fresh[members[group]] = _smallest(fresh, graph, members[group])
        if np.max(fresh) + 1 == count and number > 3:
            break
        colour = fresh
    return colour
