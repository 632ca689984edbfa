"""Repeated substrings of a sequence of numbers, in n log n.

What outlining looks for in the equations of a program.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._targets.outlining import constants

if TYPE_CHECKING:
    from teucer._core.typing import HostArray


class Repeat(NamedTuple):
    """A substring that occurs at several places, which do not overlap."""

    starts: list[int]
    length: int

    @property
    def weight(self) -> float:
        """How many letters need not be written again. Adjacent occurrences count for more: they can
        be cut anywhere, and looped."""
        adjacent = any(b == a + self.length for a, b in itertools.pairwise(self.starts))
        return (len(self.starts) - (constants.ADJACENT if adjacent else 1)) * self.length


def repeats(
    letters: HostArray, shortest: int, worthwhile: Callable[[Repeat], bool]
) -> list[Repeat]:
    """Worthwhile repeats of at least `shortest` letters that do not overlap, the largest savings
    first.

    letters: i64[n]; negative ones are like no other.

    The candidates are the maximal repeats of the sequence: the left-diverse nodes of its suffix
    tree (Gusfield, Algorithms on Strings, Trees and Sequences, section 7.12). Where occurrences
    overlap, as in `abcabcabc`, the first period of each stands for it.

    >>> repeats(np.array([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 9]), 2, lambda r: True)
    [Repeat(starts=[1, 4, 7], length=3)]
    """
    n = len(letters)
    if n < 2 * shortest or not _any_repeated(letters, shortest):
        return []
    order, rank = _suffix_array(letters)
    before = np.where(order > 0, letters[order - 1], -n - 1)
    # A node is left-diverse if the letters before its suffixes, which are neighbours in the order,
    # change somewhere.
    changes = np.concatenate([[0], np.cumsum(before[1:] != before[:-1])])
    heap: list[tuple[float, int, int, int]] = []
    common = _common_prefixes(letters, order, rank)
    nodes = [
        (length, left, right)
        for length, left, right in _intervals(common)
        if length >= shortest and changes[right - 1] > changes[left]
    ]
    for length, left, right in _without_nested_runs(nodes, letters, order, common, shortest):
        heapq.heappush(heap, (length - min((right - left) * length, n), -length, left, right))
    closed = np.append(letters, -n - 1)
    covered = np.zeros(
        n + 1, np.int64
    )  # how many letters before each place belong to a repeat that was chosen
    chosen: list[Repeat] = []
    # Each look at a candidate costs its number of places; the bound keeps degenerate sequences
    # linear.
    work = constants.LOOKS * n + constants.LOOKS_LEAST
    while heap and work > 0:
        bound, negative, left, right = heapq.heappop(heap)
        starts, length = np.sort(order[left:right]), -negative
        work -= len(starts) + constants.LOOKS_EACH
        gaps = np.diff(starts)
        period = int(gaps.min())
        if period < shortest:
            # Where occurrences follow one another at this distance all is periodic up to the end of
            # the last, and may be behind it.
            last = np.flatnonzero(np.append(gaps != period, True))
            ends = starts[last] + length
            for _ in range(period - 1):
                ends += closed[ends] == closed[ends - period]
            ends = ends[np.searchsorted(last, np.arange(len(starts)))]
            length = period * -(-constants.PERIODS * shortest // period)
            starts = starts[starts + length <= ends]
        else:
            length = min(length, period)
        found = _disjoint(starts, length, covered)
        if len(found.starts) < 2:
            continue
        if -found.weight > constants.STALE * bound and heap and -found.weight > heap[0][0]:
            heapq.heappush(heap, (-found.weight, negative, left, right))
        elif worthwhile(found):
            chosen.append(found)
            marks = np.zeros(n + 1, np.int64)
            for start in found.starts:
                marks[start + 1 : start + found.length + 1] = 1
            covered += np.cumsum(marks)
    return chosen


def _without_nested_runs(
    nodes: list[tuple[int, int, int]],
    letters: HostArray,
    order: HostArray,
    common: list[int],
    shortest: int,
) -> Iterator[tuple[int, int, int]]:
    """The nodes; but of nodes that overlap in runs of one period, less than `shortest`, only the
    shortest.

    A run such as `aaaa` (the updates of parameters of one shape) has as many nodes as letters. All
    of them come down to parts of one length, which the shortest has at all places that the others
    have.
    """
    n, places = len(letters), np.arange(len(letters))
    lengths, lefts, _ = np.array(nodes, np.int64).reshape(-1, 3).T
    # Suffixes that begin with the same `shortest` letters are neighbours in the order, a group.
    begins = np.append(0, np.flatnonzero(np.array(common[1:], np.int64) < shortest) + 1)
    groups = np.searchsorted(begins, lefts, side="right") - 1
    periods, reach = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    for period in range(1, shortest):
        differs = np.append(letters[period:] != letters[:-period], np.ones(period, bool))
        # From each place on, how many letters equal the letter one period ahead.
        equal = np.minimum.accumulate(np.where(differs, places, n)[::-1])[::-1] - places
        here = (periods == 0) & (equal[order[lefts]] >= lengths - period)
        periods[here] = period
        reach[here] = np.maximum.reduceat(equal[order], begins)[groups[here]]
    shortest_of: dict[tuple[int, int], int] = {}
    for k in np.lexsort((lengths, groups)).tolist():
        overlaps = periods[k] > 0 and lengths[k] <= reach[k]
        if not overlaps or shortest_of.setdefault((int(groups[k]), int(periods[k])), k) == k:
            yield nodes[k]


def _disjoint(starts: HostArray, length: int, covered: HostArray) -> Repeat:
    """The places that are free and do not overlap."""
    free = starts[covered[starts + length] == covered[starts]]
    taken: list[int] = []
    end = -1
    for start in free.tolist():
        if start >= end:
            taken.append(start)
            end = start + length
    return Repeat(taken, length)


def _any_repeated(letters: HostArray, length: int) -> bool:
    """Whether any substring of a length occurs twice, with few errors to the side of yes."""
    with np.errstate(over="ignore"):
        mixed = (letters.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        total, step = mixed, 1
        while step < length:
            width = min(step, length - step)
            total = total[: len(total) - width] * np.uint64(0xC2B2AE3D27D4EB4F) + total[width:]
            step += width
    total.sort()  # np.unique would load numpy.ma
    return bool((total[1:] == total[:-1]).any())


def _suffix_array(letters: HostArray) -> tuple[Any, Any]:
    """The order of the suffixes, and the place of each in it, by doubling (Manber and Myers
    1993)."""
    n = len(letters)
    rank = np.searchsorted(np.sort(letters), letters)
    step = 1
    while True:
        following = np.zeros(n, np.int64)
        following[: n - step] = rank[step:] + 1
        keys = rank * (n + 1) + following
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        rank = np.empty(n, np.int64)
        rank[order] = np.concatenate([[0], np.cumsum(sorted_keys[1:] != sorted_keys[:-1])])
        step *= 2
        if rank[order[-1]] == n - 1 or step >= n:
            return order, rank


def _common_prefixes(letters: HostArray, order: HostArray, rank: HostArray) -> list[int]:
    """For each suffix in order, the letters that it has in common with the one before (Kasai et al.
    2001)."""
    n = len(letters)
    s, suffixes, places = letters.tolist(), order.tolist(), rank.tolist()
    common = [0] * n
    h = 0
    for i, place in enumerate(places):
        if place == 0:
            h = 0
            continue
        j = suffixes[place - 1]
        while i + h < n and j + h < n and s[i + h] == s[j + h]:
            h += 1
        common[place] = h
        if h:
            h -= 1
    return common


def _intervals(common: list[int]) -> Iterator[tuple[int, int, int]]:
    """The inner nodes of the suffix tree: a length, and the range of the suffixes that begin with
    that many equal letters."""
    open_: list[tuple[int, int]] = [(0, 0)]
    for i, h in enumerate([*common[1:], 0], 1):
        left = i - 1
        while open_ and open_[-1][0] > h:
            length, left = open_.pop()
            yield length, left, i
        if not open_ or open_[-1][0] < h:
            open_.append((h, left))
