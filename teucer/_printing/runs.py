"""Runs of equal parts, and short names of places: what makes a long program short to look at."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

_LONGEST = 256  # equations of a part that repeats
_LIBRARY = re.compile(r"\S*/(?:site|dist)-packages/")
_STANDARD = re.compile(r"\S*/lib/python3\.\d+/")
_CELL = re.compile(r"<ipython-input-(\d+)-\w*>:(\d+)|\S*/ipykernel_\d+/\d+\.py:(\d+)")


class Run(NamedTuple):
    """Places `start` to `start + size * times`: a part that is there `times` times, one after the
    other."""

    start: int
    size: int
    times: int


def runs_of(keys: Sequence[Hashable], least: int = 3) -> list[Run]:
    """A sequence as runs; what does not repeat is a run of one time.

    least: repetitions that make a run, of at least two places more than it shows. Parts are the
    shortest that repeat.

    >>> runs_of("aababababc")
    [Run(start=0, size=1, times=1), Run(start=1, size=2, times=4), Run(start=9, size=1, times=1)]
    """
    found: list[Run] = []
    at, single = 0, 0
    while at < len(keys):
        run = _run_at(keys, at, least)
        if run is None:
            at += 1
            continue
        if single < at:
            found.append(Run(single, at - single, 1))
        found.append(run)
        at = single = run.start + run.size * run.times
    if single < len(keys):
        found.append(Run(single, len(keys) - single, 1))
    return found


def _run_at(keys: Sequence[Hashable], at: int, least: int) -> Run | None:
    """The run that begins at a place, if one does."""
    first = keys[at]
    for size in range(1, min(_LONGEST, (len(keys) - at) // least) + 1):
        if keys[at + size] != first:
            continue
        part, times = keys[at : at + size], 1
        while keys[at + size * times : at + size * (times + 1)] == part:
            times += 1
        if times >= least:
            return Run(at, size, times)
    return None


def short(place: str) -> str:
    """A place as text without what all paths of a library have, and cells of notebooks as cells.

    >>> short("/env/lib/python3.11/site-packages/optax/_src/update.py:42:5 (apply_updates)")
    'optax/_src/update.py:42:5 (apply_updates)'
    >>> short("<ipython-input-4-1a2b>:2:7 (loss)")
    'cell 4, line 2:7 (loss)'
    """
    place = _LIBRARY.sub("", place)
    place = _STANDARD.sub("", place)
    return _CELL.sub(
        lambda cell: f"cell {cell[1]}, line {cell[2]}" if cell[1] else f"cell, line {cell[3]}",
        place,
    )
