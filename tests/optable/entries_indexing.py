"""Entries of operations at places that are data.

Dynamic slices, gather, scatter, sorting, the greatest elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, bad, sample

from teucer import lax

F = np.float32
MOVED = {
    "dtypes": ("bool", "int32", "float32", "float64", "complex64", "complex128"),
    "quick": ("int32", "float32"),
    "ulp": 0,
    "widen": "no",
}
ORDERED = ("int32", "float32", "float64", "uint8", "bfloat16")
NUMERIC = ("int32", "float32", "float64", "complex64", "complex128")


def clamped(start: Any, size: int, n: int) -> int:
    start = int(start)
    return int(np.clip(start + n if start < 0 else start, 0, n - size))


def dynamic_slices(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(5, 4), [np.int32(1), draw.index(4)], slice_sizes=(3, 2))
    yield sample(draw(5), [np.int32(9)], slice_sizes=(2,))  # a start beyond the end is moved back
    yield sample(draw(5), [np.int32(-2)], slice_sizes=(2,))


def window(x: Any, starts: Any, sizes: Any) -> Any:
    starts = [clamped(s, k, n) for s, k, n in zip(starts, sizes, x.shape, strict=True)]
    return tuple(slice(s, s + k) for s, k in zip(starts, sizes, strict=True))


def updated(x: Any, update: Any, starts: Any) -> Any:
    y = x.copy()
    y[window(x, starts, update.shape)] = update
    return y


def updates(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(5, 4), draw(3, 2), [np.int32(1), draw.index(4)])
    yield sample(draw(5), draw(2), [np.int32(9)])
    yield sample(draw(5), draw(2), [np.int32(-3)])


# Rows and columns of a matrix, as jnp's x[i] and x[:, i] ask for them; points; windows.
ROWS: Any = ((1,), (0,), (0,))
POINTS: Any = ((), (0, 1), (0, 1))


def gather(
    x: Any, indices: Any, *, numbers: Any, slice_sizes: Any, mode: str, fill_value: Any = None
) -> Any:
    dimension_numbers = lax.GatherDimensionNumbers(*numbers)
    return lax.gather(x, indices, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value)


def gathers(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(5, 3), draw.index(5, 4, 1), numbers=ROWS, slice_sizes=(1, 3), mode="clip")
    yield sample(
        draw(5, 3),
        np.array([[4], [7], [-1]], np.int32),
        numbers=ROWS,
        slice_sizes=(1, 3),
        mode="clip",
    )
    yield sample(
        draw(5, 3),
        np.array([[4], [7], [0]], np.int32),
        numbers=ROWS,
        slice_sizes=(1, 3),
        mode="fill",
        fill_value=0,
    )
    yield sample(
        draw(5, 3),
        np.stack([draw.index(5, 2), draw.index(3, 2)], -1),
        numbers=POINTS,
        slice_sizes=(1, 1),
        mode="promise_in_bounds",
    )


def gathered(
    x: Any, indices: Any, *, numbers: Any, slice_sizes: Any, mode: str, fill_value: Any = None
) -> Any:
    if numbers is POINTS:
        return x[indices[:, 0], indices[:, 1]]
    i = indices[:, 0]
    rows = x[np.clip(i, 0, 4)]
    return (
        rows
        if mode == "clip"
        else np.where(((i >= 0) & (i < 5))[:, None], rows, np.asarray(fill_value, x.dtype))
    )


def scatter_op(
    name: str, combine: Callable[[Any, Any, Any], None], *, unique: bool = False, **options: Any
) -> Op:
    def apply(x: Any, indices: Any, updates: Any, *, mode: str) -> Any:
        numbers = lax.ScatterDimensionNumbers(*ROWS)
        return getattr(lax, name)(x, indices, updates, numbers, mode=mode, unique_indices=unique)

    def samples(draw: Draw) -> Iterable[Sample]:
        places = draw.places(5, 4, 1) if unique else draw.index(5, 4, 1)
        yield sample(
            draw.distinct(5, 3),
            places,
            draw(4, 3),
            mode="clip" if not unique else "promise_in_bounds",
        )
        if not unique:
            yield sample(
                draw.distinct(5, 3), np.array([[4], [7], [0]], np.int32), draw(3, 3), mode="drop"
            )

    def reference(x: Any, indices: Any, updates: Any, *, mode: str) -> Any:
        y = x.copy()
        for i, u in zip(indices[:, 0], updates, strict=True):
            if 0 <= i < 5:
                combine(y, i, u)
        return y

    return Op(name, apply, samples, reference=reference, widen="no", **options)


def put(y: Any, i: int, u: Any) -> None:
    y[i] = u


def add(y: Any, i: int, u: Any) -> None:
    y[i] += u


def sub(y: Any, i: int, u: Any) -> None:
    y[i] -= u


def mul(y: Any, i: int, u: Any) -> None:
    y[i] *= u


def least(y: Any, i: int, u: Any) -> None:
    y[i] = np.minimum(y[i], u)


def greatest(y: Any, i: int, u: Any) -> None:
    y[i] = np.maximum(y[i], u)


def sorts(draw: Draw) -> Iterable[Sample]:
    yield sample(draw.distinct(4, 5))
    yield sample(draw.distinct(4, 5), dimension=0)
    yield sample(draw(6), is_stable=False)
    yield sample(draw(0))


def sort_together(*xs: Any, num_keys: int) -> Any:
    return lax.sort(xs, dimension=0, num_keys=num_keys)


def sorted_together(*xs: Any, num_keys: int) -> Any:
    order = np.lexsort(xs[num_keys - 1 :: -1] if num_keys > 1 else xs[:1])
    return [x[order] for x in xs]


def greatest_k(x: Any, k: int, axis: int = -1) -> Any:
    order = np.take(np.argsort(-x.astype(np.float64), axis, kind="stable"), np.arange(k), axis)
    return [np.take_along_axis(x, order, axis), order]


OPS = [
    Op(
        "dynamic_slice",
        "lax.dynamic_slice",
        dynamic_slices,
        **MOVED,
        reference=lambda x, starts, slice_sizes: x[window(x, starts, slice_sizes)],
        errors=[
            bad(
                (TypeError, ValueError),
                "dynamic_slice.*slice_sizes",
                np.ones(3, F),
                [np.int32(0)],
                slice_sizes=(4,),
            ),
            bad(
                (TypeError, ValueError),
                "dynamic_slice.*",
                np.ones(3, F),
                [np.int32(0)],
                slice_sizes=(1, 1),
            ),
            bad(
                TypeError,
                "(?s)dynamic_slice.*int.*float32",
                np.ones(3, F),
                [F(0)],
                slice_sizes=(1,),
            ),
        ],
    ),
    Op(
        "dynamic_update_slice",
        "lax.dynamic_update_slice",
        updates,
        **MOVED,
        reference=updated,
        errors=[
            bad(
                (TypeError, ValueError),
                r"dynamic_update_slice.*\(4,\).*\(3,\)",
                np.ones(3, F),
                np.ones(4, F),
                [np.int32(0)],
            ),
            bad(
                TypeError,
                "dynamic_update_slice.*float32.*int32",
                np.ones(3, F),
                np.ones(2, np.int32),
                [np.int32(0)],
            ),
        ],
    ),
    Op(
        "dynamic_index_in_dim",
        "lax.dynamic_index_in_dim",
        lambda draw: [sample(draw(4, 3), draw.index(3), axis=1)],
        reference=lambda x, i, axis: x[:, i : i + 1],
        **MOVED,
    ),
    Op(
        "dynamic_index_in_dim_dropped",
        lambda x, i: lax.dynamic_index_in_dim(x, i, 0, keepdims=False),
        lambda draw: [sample(draw(4, 3), np.int32(i)) for i in (-2, 1, 9)],
        reference=lambda x, i: x[clamped(i, 1, 4)],
        **MOVED,
    ),
    Op(
        "dynamic_slice_in_dim",
        "lax.dynamic_slice_in_dim",
        lambda draw: [sample(draw(4, 5), np.int32(i), slice_size=2, axis=1) for i in (1, -3, 4)],
        reference=lambda x, i, slice_size, axis: x[window(x, (0, i), (4, 2))],
        **MOVED,
    ),
    Op(
        "dynamic_update_index_in_dim",
        "lax.dynamic_update_index_in_dim",
        lambda draw: [sample(draw(4, 3), draw(4), np.int32(i), axis=1) for i in (1, -1, 9)],
        reference=lambda x, u, i, axis: updated(x, u[:, None], (0, i)),
        **MOVED,
    ),
    Op(
        "dynamic_update_slice_in_dim",
        "lax.dynamic_update_slice_in_dim",
        lambda draw: [sample(draw(4, 3), draw(4, 2), np.int32(i), axis=1) for i in (1, -2, 9)],
        reference=lambda x, u, i, axis: updated(x, u, (0, i)),
        **MOVED,
    ),
    Op(
        "index_take",
        "lax.index_take",
        lambda draw: [sample(draw(4, 3), [draw.index(4, 5)], axes=(0,))],
        reference=lambda x, indices, axes: x[indices[0]],
        **MOVED,
    ),
    Op(
        "gather",
        gather,
        gathers,
        reference=gathered,
        **MOVED,
        errors=[
            bad(
                TypeError,
                "(?i)gather.*collapse.*bound is 2",
                np.ones((5, 3), F),
                np.zeros((2, 1), np.int32),
                numbers=ROWS,
                slice_sizes=(2, 3),
                mode="clip",
            ),
            bad(
                TypeError,
                "gather.*out of range.*got 4",
                np.ones((5, 3), F),
                np.zeros((2, 1), np.int32),
                numbers=ROWS,
                slice_sizes=(1, 4),
                mode="clip",
            ),
            bad(
                (TypeError, ValueError),
                "indices must have an integer type",
                np.ones((5, 3), F),
                np.zeros((2, 1), F),
                numbers=ROWS,
                slice_sizes=(1, 3),
                mode="clip",
            ),
        ],
    ),
    scatter_op("scatter", put, unique=True, dtypes=MOVED["dtypes"], quick=MOVED["quick"], ulp=0),
    scatter_op("scatter_add", add, dtypes=NUMERIC),
    scatter_op("scatter_sub", sub, dtypes=NUMERIC),
    scatter_op(
        "scatter_mul",
        mul,
        dtypes=NUMERIC,
        exceptions={
            "gradient": "has a derivative only where indices are unique: scatter_mul_unique"
        },
    ),
    scatter_op("scatter_min", least, dtypes=("int32", "float32", "float64"), ulp=0),
    scatter_op("scatter_max", greatest, dtypes=("int32", "float32", "float64"), ulp=0),
    Op(
        "scatter_mul_unique",
        lambda x, i, u: lax.scatter_mul(
            x, i, u, lax.ScatterDimensionNumbers(*ROWS), unique_indices=True
        ),
        lambda draw: [sample(draw(5, 3), draw.places(5, 4, 1), draw(4, 3))],
        ("float32", "float64"),
        reference=lambda x, i, u: np.stack(
            [x[k] * (u[list(i[:, 0]).index(k)] if k in i else 1) for k in range(5)]
        ),
    ),
    Op(
        "sort",
        "lax.sort",
        sorts,
        ORDERED,
        reference=lambda x, dimension=-1, is_stable=True: np.sort(x, dimension),
        ulp=0,
        widen="no",
        errors=[
            bad(ValueError, "(?s)axis 1.*out of bounds|sort.*dimension", np.ones(3, F), dimension=1)
        ],
    ),
    Op(
        "sort_booleans", "lax.sort", lambda draw: [sample(draw(3, 4))], ("bool",), reference=np.sort
    ),
    Op(
        "sort_matrices_together",
        lambda *xs: lax.sort(xs, num_keys=2),
        lambda draw: [
            sample(draw(3, 4, low=0, high=1, dtype=np.int32), draw.distinct(3, 4), draw(3, 4))
        ],
        ("float32", "float64", "int32"),
        ulp=0,
        reference=lambda *xs: [
            np.take_along_axis(x, np.lexsort((xs[1], xs[0]), axis=-1), -1) for x in xs
        ],
    ),
    Op(
        "sort_complex",
        "lax.sort",
        lambda draw: [sample(draw.distinct(7))],
        ("complex64", "complex128"),
        reference=np.sort,
        ulp=0,
    ),
    Op(
        "sort_pairs",
        sort_together,
        lambda draw: [sample(draw.distinct(6), draw(6), num_keys=1)],
        ("float32", "float64", "int32"),
        reference=sorted_together,
        ulp=0,
    ),
    Op(
        "sort_by_two_keys",
        sort_together,
        lambda draw: [
            sample(draw(6, low=0, high=1, dtype=np.int32), draw.distinct(6), draw(6), num_keys=2)
        ],
        ("float32", "float64", "int32"),
        reference=sorted_together,
        ulp=0,
    ),
    Op(
        "sort_key_val",
        lambda k, v: lax.sort_key_val(k, v),
        lambda draw: [sample(draw.distinct(6), draw(6))],
        ("float32", "float64"),
        reference=lambda k, v: [k[np.argsort(k)], v[np.argsort(k)]],
        ulp=0,
    ),
    Op(
        "top_k",
        "lax.top_k",
        lambda draw: [
            sample(draw.distinct(3, 6), k=2),
            sample(draw(5), k=5),
            sample(draw.distinct(5, 3), k=3, axis=0),
            sample(draw(3, 5), k=0),
        ],
        ("int32", "float32", "float64", "bfloat16", "uint8", "bool"),
        quick=("int32", "float32"),
        reference=greatest_k,
        ulp=0,
        errors=[
            bad(ValueError, "top_k.*k", np.ones(3, F), k=4),
            bad(ValueError, "top_k must be nonnegative, got -1", np.ones(3, F), k=-1),
        ],
    ),
    Op(
        "approx_max_k",
        "lax.approx_max_k",
        lambda draw: [sample(draw.distinct(3, 6), k=2)],
        ("float32", "bfloat16"),
        reference=greatest_k,
        ulp=0,
        gradients=("float64",),
    ),
    Op(
        "approx_min_k",
        "lax.approx_min_k",
        lambda draw: [
            sample(draw.distinct(3, 6), k=2),
            sample(draw.distinct(5, 3), k=2, reduction_dimension=0),
        ],
        ("float32",),
        reference=lambda x, k, reduction_dimension=-1: [
            s * y for s, y in zip((-1, 1), greatest_k(-x, k, reduction_dimension), strict=True)
        ],
        ulp=0,
        gradients=("float64",),
    ),
]
