"""All inputs of float32 through a function, in parts: what `accuracy.py --all` does.

The reference is a function of float64. A part has one pass over float64 numbers; only errors above
the largest so far are looked at again. Where SciPy's function loses digits, as near its zeros,
mpmath decides on the largest that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

PART = 2**20
EXPONENT = np.int64(0x7FF0000000000000)


class Candidate(NamedTuple):
    """An input, and the error of a library there by the reference of float64."""

    error: float
    x: float
    y: float


def parts(step: int) -> Iterator[np.ndarray]:
    """The numbers of float32 by their bits, or of every `step` of them one that is drawn by
    chance."""
    generator = np.random.default_rng(2026)
    for start in range(0, 2**32, PART * step):
        bits = np.arange(start, start + PART * step, step, dtype=np.uint32)
        if step > 1:
            bits += generator.integers(0, step, PART, dtype=np.uint32)
        yield bits.view(np.float32)


def rough_errors(y: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|y - exact| in units in the last place of float32, in few passes; not finite where either is
    not."""
    info = np.finfo(np.float32)
    power = (exact.view(np.int64) & EXPONENT).view(np.float64)
    np.maximum(power, float(info.tiny), out=power)
    power *= float(info.eps)
    error = y.astype(np.float64)
    error -= exact
    np.abs(error, out=error)
    error /= power
    return error


def sweep(
    reference: Callable[[np.ndarray], np.ndarray],
    usable: Callable[[np.ndarray], np.ndarray],
    functions: list[Callable[[np.ndarray], np.ndarray]],
    errors: Callable[..., np.ndarray],
    step: int,
) -> list[list[Candidate]]:
    """For each function the inputs of its largest errors, the largest last.

    reference: the function, of float32, in float64.
    usable: which inputs count.
    errors: the errors of results, as `accuracy.errors` defines them.
    """
    found: list[list[Candidate]] = [[] for _ in functions]
    for x in parts(step):
        counts = usable(x)
        if not counts.any():
            continue
        with np.errstate(all="ignore"):
            exact = np.full(x.shape, np.nan)
            exact[counts] = reference(x[counts])
            nearest = exact.astype(np.float32)
        for function, candidates in zip(functions, found, strict=True):
            y = function(x)
            least = candidates[-LEFT].error if len(candidates) >= LEFT else 0.5
            with np.errstate(all="ignore"):
                right = (rough_errors(y, exact) <= least) | (y == nearest) | ~counts
            at = np.flatnonzero(~(right | (np.isnan(y) & np.isnan(exact))))
            if at.size:
                error = errors(y[at], exact[at], counts[at])
                for i in np.argsort(error)[-LEFT:]:
                    if error[i] > least:
                        candidates.append(
                            Candidate(float(error[i]), float(x[at[i]]), float(y[at[i]]))
                        )
                candidates.sort()
                del candidates[:-LEFT]
    return found


# How many inputs are kept for a second look.
LEFT = 64


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
