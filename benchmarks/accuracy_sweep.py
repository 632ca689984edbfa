"""All inputs of float32 through a function, in parts: what `accuracy.py --all` does.

The reference is a function of float64. Errors are computed in blocks that stay in a processor's
cache; only those above the largest so far are looked at again. Where SciPy's function loses digits,
as near its zeros, mpmath decides on the largest that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

# Numbers that a library is given at once, and that are looked at together.
PART, BLOCK = 2**22, 2**14
# How many inputs are kept for a second look.
LEFT = 64


class Candidate(NamedTuple):
    """An input, and the error of a library there by the reference of float64."""

    error: float
    x: float
    y: float


def parts(step: int, *, positive: bool) -> Iterator[np.ndarray]:
    """The numbers of float32 by their bits, or of every `step` of them one that is drawn by chance,
    in one array that is filled again and again.

    positive: only those without a sign.
    """
    generator = np.random.default_rng(2026)
    first, bits = np.arange(0, PART * step, step, dtype=np.uint32), np.empty(PART, np.uint32)
    for start in range(0, 2**31 if positive else 2**32, PART * step):
        np.add(first, np.uint32(start), out=bits)
        if step > 1:
            bits += generator.integers(0, step, PART, dtype=np.uint32)
        yield bits.view(np.float32)


def sweep(
    reference: Callable[[np.ndarray], np.ndarray],
    usable: Callable[[np.ndarray], np.ndarray],
    functions: list[Callable[[np.ndarray], np.ndarray]],
    errors: Callable[..., np.ndarray],
    step: int,
    *,
    positive: bool = False,
) -> list[list[Candidate]]:
    """For each function the inputs of its largest errors, the largest last.

    reference: the function, of float32, in float64.
    usable: which inputs count.
    errors: the errors of results, as `accuracy.errors` defines them.
    positive: whether numbers with a sign are left out.
    """
    found: list[list[Candidate]] = [[] for _ in functions]
    for numbers in parts(step, positive=positive):
        if not usable(numbers[:: PART // 64]).any():
            continue
        results = [function(numbers) for function in functions]
        for start in range(0, PART, BLOCK):
            block = slice(start, start + BLOCK)
            x = numbers[block]
            ends = x[[0, -1]]
            if usable(ends).all() and ends[0] * ends[1] > 0:  # all are between these
                counts = None
            else:
                counts = usable(x)
                if not counts.any():
                    continue
                x = np.where(counts, x, np.float32(0.5))
            with np.errstate(all="ignore"):
                exact = reference(x)
                nearest = exact.astype(np.float32).view(np.int32)
            for result, candidates in zip(results, found, strict=True):
                add_candidates(candidates, Block(x, result[block], exact, nearest, counts), errors)
    return found


class Block(NamedTuple):
    """Inputs and results of float32, the exact ones, and the bits of the nearest to these; which
    count, all without."""

    x: np.ndarray
    y: np.ndarray
    exact: np.ndarray
    nearest: np.ndarray
    counts: np.ndarray | None


def add_candidates(
    candidates: list[Candidate], block: Block, errors: Callable[..., np.ndarray]
) -> None:
    """Add the inputs whose errors are larger than those of the candidates, of which so many stay as
    before."""
    least = candidates[-LEFT].error if len(candidates) >= LEFT else 0.5
    # Numbers of one sign are as far apart as their bits; half a unit is that of the nearest one.
    apart, limit = block.y.view(np.int32) - block.nearest, np.int32(min(least - 0.5, 2**30))
    suspect = (apart > limit) | (apart < -limit)
    if block.counts is not None:
        suspect &= block.counts
    if not suspect.any():
        return
    at = np.flatnonzero(suspect)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(block.nearest.view(np.float32)[at]))
        # Below a power of two it is twice that of the exact result.
        at = at[~(np.abs(block.y[at] - block.exact[at]) <= 0.5 * least * unit)]
    if not at.size:
        return
    error = errors(block.y[at], block.exact[at], np.ones(at.size, bool))
    candidates += [
        Candidate(float(error[i]), float(block.x[at[i]]), float(block.y[at[i]]))
        for i in np.argsort(error)[-LEFT:]
        if error[i] > least
    ]
    candidates.sort()
    del candidates[:-LEFT]


def decided(
    candidates: list[Candidate],
    exact: Callable[[np.ndarray], np.ndarray],
    errors: Callable[..., np.ndarray],
) -> list[Candidate]:
    """The candidates with errors by a reference in more digits, the largest last; those it refuses
    are left out."""
    x, y = (np.array([getattr(c, name) for c in candidates]) for name in ("x", "y"))
    values: Any = exact(x)
    error = errors(y.astype(np.float32), values, ~np.isnan(values))
    return sorted(Candidate(float(e), c.x, c.y) for e, c in zip(error, candidates, strict=True))
