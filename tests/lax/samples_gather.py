"""Sample inputs of gather and the scatters."""

from __future__ import annotations

import itertools

import numpy as np
from lax.laws import dtype_of, numbers
from lax.sampling import Sample

from teucer.lax import GatherDimensionNumbers, ScatterDimensionNumbers

__all__ = ["SAMPLES"]

ALL = ("float32", "bfloat16", "int32", "uint8", "bool", "complex64")
NUMERIC = ("float32", "int32", "uint8", "complex64")
FEW = ("float32", "int32")
FILL = {"b": True, "u": 255, "f": np.nan, "c": np.nan, "i": np.iinfo(np.int32).min, "V": np.nan}


def _places(numbers_, indices, shape, sizes, mode):
    """For each index vector and offset in a window: the place in the operand, or None if the window is left out."""
    mapped, of_operand, of_indices = numbers_[2], numbers_[3], numbers_[4]
    for batch in np.ndindex(indices.shape[:-1]):
        start = np.zeros(len(shape), np.int64)
        start[list(mapped)] = indices[batch]
        if mode in (None, "clip"):
            start = np.clip(start, 0, np.subtract(shape, sizes))
        for a, b in zip(of_operand, of_indices, strict=True):
            start[a] = batch[b]
        inside = all(0 <= s <= n - k for s, n, k in zip(start, shape, sizes, strict=True))
        for offset in itertools.product(*map(range, sizes)):
            yield batch, offset, tuple(start + offset) if inside else None


def _result_place(batch, offset, window_axes, dropped):
    kept, rest = iter([o for i, o in enumerate(offset) if i not in dropped]), iter(batch)
    ndim = len(offset) - len(dropped) + len(batch)
    return tuple(next(kept) if i in window_axes else next(rest) for i in range(ndim))


def gathered(x, indices, d, sizes, mode=None):
    """What gather computes, an element at a time."""
    dropped = {*d[1], *d[3]}
    found = {_result_place(batch, offset, d[0], dropped): FILL[x.dtype.kind] if place is None else x[place]
             for batch, offset, place in _places(d, indices, x.shape, sizes, mode)}
    shape = tuple(max(p[i] for p in found) + 1 for i in range(len(next(iter(found)))))
    out = np.zeros(shape, x.dtype)
    for place, value in found.items():
        out[place] = value
    return out


def scattered(combine):
    """What a scatter computes, an element at a time."""
    def reference(x, indices, updates, d, mode="drop", **_):
        sizes, window, dropped = [1] * x.ndim, iter(d[0]), {*d[1], *d[3]}
        for i in range(x.ndim):
            if i not in dropped:
                sizes[i] = updates.shape[next(window)]
        out = x.copy()
        for batch, offset, place in _places(d, indices, x.shape, sizes, mode):
            if place is not None:
                out[place] = combine(out[place], updates[_result_place(batch, offset, d[0], dropped)])
        return out
    return reference


ROWS = GatherDimensionNumbers((1,), (0,), (0,))
BLOCKS = GatherDimensionNumbers((0, 2), (), (1, 0))
PAIRED = GatherDimensionNumbers((1,), (), (1,), (0,), (0,))
OF = {id(n): ScatterDimensionNumbers(*n) for n in (ROWS, BLOCKS, PAIRED)}
SIZES = {"rows": (1, 3), "blocks": (2, 2), "paired": (1, 2)}


def _gather(which, mode):
    def args(r, d):
        kwargs = {} if mode is None else {"mode": mode}
        spread = (0, 3) if mode is None else (-2, 6)
        if which == "rows":
            return (numbers(r, d, 4, 3), r.integers(*spread, (5, 1)).astype(np.int32), ROWS, (1, 3)), kwargs
        if which == "blocks":
            spread = (0, 2) if mode is None else spread
            return (numbers(r, d, 4, 3), r.integers(*spread, (3, 2)).astype(np.int32), BLOCKS, (2, 2)), kwargs
        spread = (0, 2) if mode is None else spread
        return (numbers(r, d, 4, 3), r.integers(*spread, (4, 1)).astype(np.int32), PAIRED, (1, 2)), kwargs
    return args


def _scatter(which, mode, unique=False):
    def args(r, d):
        kwargs = {"mode": mode, "unique_indices": unique}
        if which == "rows":
            at = r.permutation(6)[:3, None] - 1 if unique else np.array([[2], [0], [2], [5]])
            return (numbers(r, d, 4, 3), at.astype(np.int32), _updates(r, d, len(at), 3), OF[id(ROWS)]), kwargs
        if which == "blocks":
            at = np.array([[1, 0], [0, 2], [2, 3]])
            return (numbers(r, d, 4, 3), at.astype(np.int32), _updates(r, d, 2, 3, 2), OF[id(BLOCKS)]), kwargs
        at = np.array([[0], [1], [0], [3]])
        return (numbers(r, d, 4, 3), at.astype(np.int32), _updates(r, d, 4, 2), OF[id(PAIRED)]), kwargs
    return args


def _updates(r, d, *shape):
    """Updates that are equal to none of the operand's elements."""
    found = numbers(r, d, *shape)
    if d == "bool":
        return found
    return (found * 2 + 1).astype(dtype_of(d)) if d in ("int32", "uint8") else found * dtype_of(d).type(1.1)


SAMPLES = [Sample(f"gather {which} {mode}", "lax.gather", _gather(which, mode), ALL if which == "rows" else FEW, gathered, True)
           for which in ("rows", "blocks", "paired") for mode in (None, "clip", "fill")]
SAMPLES += [Sample(f"scatter_add {which} {mode}", "lax.scatter_add", _scatter(which, mode), NUMERIC, scattered(np.add), True)
            for which in ("rows", "blocks", "paired") for mode in ("clip", "drop")]
SAMPLES += [
    Sample("scatter unique", "lax.scatter", _scatter("rows", "drop", unique=True), ALL, scattered(lambda x, u: u), True),
    Sample("scatter", "lax.scatter", _scatter("paired", "drop"), ALL, scattered(lambda x, u: u), True),
    Sample("scatter several", "lax.scatter", _scatter("rows", "drop"), FEW, None, True),
    Sample("scatter_sub", "lax.scatter_sub", _scatter("rows", "clip"), NUMERIC, scattered(np.subtract), True),
    Sample("scatter_mul", "lax.scatter_mul", _scatter("rows", "drop"), NUMERIC, scattered(np.multiply), False),
    Sample("scatter_mul unique", "lax.scatter_mul", _scatter("rows", "drop", unique=True), FEW, scattered(np.multiply), True),
    Sample("scatter_min", "lax.scatter_min", _scatter("rows", "drop"), FEW, scattered(np.minimum), True),
    Sample("scatter_max", "lax.scatter_max", _scatter("blocks", "clip"), (*FEW, "bool"), scattered(np.maximum), True),
]
