"""Entries of gather and the scatters, in all their forms.

Windows of rows, of blocks, and paired with axes of the indices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, sample

from teucer import lax

MOVED = ("int32", "float32", "float64", "uint8", "bool", "bfloat16", "complex64")
NUMERIC = ("int32", "float32", "float64", "uint8", "complex64")
QUICK = ("int32", "float32")
FILL = {"b": True, "u": 255, "f": np.nan, "c": np.nan, "i": np.iinfo(np.int32).min, "V": np.nan}
# Dimension numbers, and the sizes of a window in an operand of (4, 3).
FORMS: dict[str, Any] = {
    "rows": (lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3)),
    "blocks": (lax.GatherDimensionNumbers((0, 2), (), (1, 0)), (2, 2)),
    "paired": (lax.GatherDimensionNumbers((1,), (), (1,), (0,), (0,)), (1, 2)),
}
# Places that lie partly outside, and those that all lie inside.
OUTSIDE = {
    "rows": [[2], [0], [2], [5], [-1]],
    "blocks": [[1, 0], [0, 2], [2, 3]],
    "paired": [[0], [1], [0], [3]],
}
INSIDE = {
    "rows": [[2], [0], [3]],
    "blocks": [[1, 0], [0, 2], [1, 1]],
    "paired": [[0], [1], [0], [1]],
}


def gather(x: Any, indices: Any, *, form: str, mode: str | None) -> Any:
    numbers, sizes = FORMS[form]
    return lax.gather(x, indices, numbers, sizes, **({} if mode is None else {"mode": mode}))


def gathers(draw: Draw, modes: tuple[str | None, ...]) -> Iterable[Sample]:
    for form in FORMS:
        for mode in modes:
            at = INSIDE[form] if mode is None else OUTSIDE[form]
            yield sample(draw(4, 3), np.array(at, np.int32), form=form, mode=mode)


def places(numbers: Any, indices: Any, shape: Any, sizes: Any, mode: Any) -> Iterable[Any]:
    """For each index vector and offset in a window: the place in the operand, or None if the window
    is left out."""
    mapped, of_operand, of_indices = numbers[2], numbers[3], numbers[4]
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


def result_place(batch: Any, offset: Any, window_axes: Any, dropped: Any) -> Any:
    kept, rest = iter([o for i, o in enumerate(offset) if i not in dropped]), iter(batch)
    ndim = len(offset) - len(dropped) + len(batch)
    return tuple(next(kept) if i in window_axes else next(rest) for i in range(ndim))


def gathered(x: Any, indices: Any, *, form: str, mode: str | None) -> Any:
    """What gather computes, an element at a time."""
    d, sizes = FORMS[form]
    dropped = {*d[1], *d[3]}
    found = {
        result_place(batch, offset, d[0], dropped): FILL[x.dtype.kind]
        if place is None
        else x[place]
        for batch, offset, place in places(d, indices, x.shape, sizes, mode)
    }
    shape = tuple(max(p[i] for p in found) + 1 for i in range(len(next(iter(found)))))
    out = np.zeros(shape, x.dtype)
    for place, value in found.items():
        out[place] = value
    return out


def scattered(combine: Callable[..., Any]) -> Callable[..., Any]:
    """What a scatter computes, an element at a time."""

    def reference(x: Any, indices: Any, updates: Any, *, form: str, mode: str) -> Any:
        d = FORMS[form][0]
        sizes, window, dropped = [1] * x.ndim, iter(d[0]), {*d[1], *d[3]}
        for i in range(x.ndim):
            if i not in dropped:
                sizes[i] = updates.shape[next(window)]
        out = x.copy()
        for batch, offset, place in places(d, indices, x.shape, sizes, mode):
            if place is not None:
                out[place] = combine(
                    out[place], updates[result_place(batch, offset, d[0], dropped)]
                )
        return out

    return reference


def scatter_op(
    name: str,
    combine: Callable[..., Any],
    dtypes: Any,
    *,
    mode: str,
    forms: tuple[str, ...] = tuple(FORMS),
    unique: bool = False,
    **options: Any,
) -> Op:
    def apply(x: Any, indices: Any, updates: Any, *, form: str, mode: str) -> Any:
        numbers = lax.ScatterDimensionNumbers(*FORMS[form][0])
        return getattr(lax, name)(x, indices, updates, numbers, mode=mode, unique_indices=unique)

    def samples(draw: Draw) -> Iterable[Sample]:
        for form in forms:
            at = np.array([[4], [0], [-1]] if unique else OUTSIDE[form], np.int32)
            shape = {"rows": (len(at), 3), "blocks": (2, len(at), 2), "paired": (len(at), 2)}[form]
            yield sample(draw.distinct(4, 3), at, draw(*shape), form=form, mode=mode)

    what = "unique" if unique else mode
    return Op(
        f"{name}_{what}_windows",
        apply,
        samples,
        dtypes,
        quick=QUICK,
        reference=scattered(combine),
        widen="no",
        vmap_calls=2,
        **options,
    )


def put(x: Any, u: Any) -> Any:
    return u


OPS = [
    Op(
        "gather_windows",
        gather,
        lambda draw: gathers(draw, (None, "clip")),
        MOVED,
        quick=QUICK,
        reference=gathered,
        ulp=0,
        widen="no",
        vmap_calls=6,
        gradient_calls=6,
    ),
    Op(
        "gather_filled_windows",
        gather,
        lambda draw: gathers(draw, ("fill",)),
        MOVED,
        quick=QUICK,
        reference=gathered,
        ulp=0,
        widen="no",
        gradients=(),
    ),
    scatter_op("scatter", put, MOVED, mode="drop", forms=("rows",), unique=True, ulp=0),
    scatter_op("scatter_add", np.add, NUMERIC, mode="clip"),
    scatter_op("scatter_add", np.add, NUMERIC, mode="drop"),
    scatter_op("scatter_sub", np.subtract, NUMERIC, mode="clip"),
    scatter_op(
        "scatter_mul",
        np.multiply,
        NUMERIC,
        mode="drop",
        exceptions={
            "gradient": "has a derivative only where indices are unique: scatter_mul_unique_windows"
        },
    ),
    scatter_op(
        "scatter_mul",
        np.multiply,
        ("float32", "float64"),
        mode="drop",
        forms=("rows",),
        unique=True,
    ),
    scatter_op("scatter_min", np.minimum, ("int32", "float32", "float64"), mode="drop", ulp=0),
    scatter_op(
        "scatter_max", np.maximum, ("int32", "float32", "float64", "bool"), mode="clip", ulp=0
    ),
]
