"""Known answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import teucer as jax

__all__ = ["Answer", "check_values"]


class Answer(NamedTuple):
    """A program with a known answer.

    check: runs it, and returns the fault as text, "" if there is none.
    seconds: the longest that it may take; a fault may be a hang.
    """

    name: str
    check: Callable[[], str]
    seconds: float = 60.0


def check_values(
    f: Callable[..., object], args: Sequence[object], expected: object, rtol: float = 1e-5
) -> str:
    """The difference between jit(f)(*args) and the expected values as text, "" if there is none.

    rtol: relative to the largest expected value; NaN and infinities must stand where they are
    expected. Each array is compared by itself.
    """
    found = jax.tree.leaves(jax.jit(f)(*args))
    wanted = [np.asarray(e) for e in jax.tree.leaves(expected)]
    if len(found) != len(wanted):
        return f"{len(found)} results, {len(wanted)} expected"
    for i, (x, e) in enumerate(zip(found, wanted, strict=True)):
        where = f"result {i}: " if len(wanted) > 1 else ""
        if text := _difference(np.asarray(x), e, rtol):
            return where + text
    return ""


def _difference(x: np.ndarray, e: np.ndarray, rtol: float) -> str:
    if x.shape != e.shape:
        return f"shape {x.shape}, expected {e.shape}"
    wide = "complex128" if "c" in (x.dtype.kind, e.dtype.kind) else "float64"
    x, e = x.astype(wide), e.astype(wide)
    plain = np.isfinite(e)
    if not np.array_equal(x[~plain], e[~plain], equal_nan=True):
        return f"{np.count_nonzero(~_same(x, e) & ~plain)} NaN or infinities are not as expected"
    if not plain.any():
        return ""
    if not np.isfinite(x[plain]).all():
        return "NaN or infinite where a number is expected"
    error = np.abs(x - np.where(plain, e, 0))[plain]
    scale = np.abs(e[plain]).max()
    if error.max() <= rtol * scale:
        return ""
    place = tuple(int(i) for i in np.argwhere(plain)[error.argmax()])
    wrong = np.count_nonzero(error > rtol * scale)
    return f"{wrong} of {x.size} values, {x[place]:.9g} for {e[place]:.9g} at {place}"


def _same(x: np.ndarray, e: np.ndarray) -> np.ndarray:
    return (x == e) | (np.isnan(x) & np.isnan(e))
