"""Entries of operations on shapes: elements are moved, repeated and joined, and not changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, bad, sample

from teucer import lax

KINDS = ("bool", "int32", "float32", "float64", "complex64", "complex128", "bfloat16", "uint8")
MOVED = {"dtypes": KINDS, "quick": ("int32", "float32"), "ulp": 0, "widen": "no"}
F = np.float32


def one(*shape: int, **kwargs: Any) -> Any:
    """Samples of one operand of a shape."""
    return lambda draw: [sample(draw(*shape), **kwargs)]


def broadcasts(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3), shape=(2, 3), broadcast_dimensions=(1,))
    yield sample(draw(2, 1), shape=(2, 3, 4), broadcast_dimensions=(0, 2))
    yield sample(draw(), shape=(2, 0), broadcast_dimensions=())
    yield sample(draw(), shape=(), broadcast_dimensions=())


def in_dim(x: Any, shape: Any, broadcast_dimensions: Any) -> Any:
    spread = [1] * len(shape)
    for i, d in enumerate(broadcast_dimensions):
        spread[d] = x.shape[i]
    return np.broadcast_to(x.reshape(spread), shape)


def reshapes(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(2, 6), new_sizes=(3, 4))
    yield sample(draw(2, 6), new_sizes=(12,), dimensions=(1, 0))
    yield sample(draw(1), new_sizes=())
    yield sample(draw(0, 3), new_sizes=(3, 0, 2))


def reshaped(x: Any, new_sizes: Any, dimensions: Any = None) -> Any:
    return np.reshape(x if dimensions is None else x.transpose(dimensions), new_sizes)


def slices(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(5, 4), start_indices=(1, 0), limit_indices=(4, 3))
    yield sample(draw(7, 4), start_indices=(0, 1), limit_indices=(7, 4), strides=(3, 2))
    yield sample(draw(3), start_indices=(1,), limit_indices=(1,))
    yield sample(draw(), start_indices=(), limit_indices=())


def sliced(x: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    strides = strides or (1,) * x.ndim
    return x[tuple(slice(*b) for b in zip(start_indices, limit_indices, strides, strict=True))]


def pads(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(2, 3), draw(), padding_config=((1, 2, 0), (0, 1, 2)))
    yield sample(draw(5, 3), draw(), padding_config=((-1, 1, 0), (-1, -1, 1)))
    yield sample(draw(0, 2), draw(), padding_config=((1, 1, 1), (0, 0, 0)))
    yield sample(draw(3, 4), draw(), padding_config=((-1, 2, 1), (1, -2, 2)))


def padded(x: Any, value: Any, padding_config: Any) -> Any:
    for axis, (low, high, interior) in enumerate(padding_config):
        n = x.shape[axis]
        wide = list(x.shape)
        wide[axis] = n + max(n - 1, 0) * interior
        spread = np.full(wide, value, x.dtype)
        spread[(slice(None),) * axis + (slice(None, None, interior + 1),)] = x
        ends = [(0, 0)] * x.ndim
        ends[axis] = (max(low, 0), max(high, 0))
        spread = np.pad(spread, ends, constant_values=value)
        x = spread[
            (slice(None),) * axis + (slice(max(-low, 0), spread.shape[axis] - max(-high, 0)),)
        ]
    return x


def joins(draw: Draw) -> Iterable[Sample]:
    yield sample([draw(2, 3), draw(2, 1), draw(2, 2)], dimension=1)
    yield sample([draw(2, 3), draw(0, 3)], dimension=0)
    yield sample([draw(4)], dimension=0)


def concatenations(operation: str) -> Op:
    x, y = np.ones((2, 3), F), np.ones((3, 3), F)
    return Op(
        operation,
        f"lax.{operation}",
        joins,
        reference=lambda xs, dimension: np.concatenate(xs, dimension),
        **MOVED,
        errors=[
            bad(TypeError, r"concatenate.*\(2, 3\).*\(3, 3\)", [x, y], dimension=1),
            bad(
                TypeError, r"concatenate.*\(2, 3\).*\(2, 4\)", [x, np.ones((2, 4), F)], dimension=0
            ),
            bad(ValueError, "concatenate", [], dimension=0),
            bad((TypeError, ValueError), "concatenate.*dimension", [x, x], dimension=2),
            bad(
                TypeError,
                "concatenate.*float32.*int32",
                [x, np.ones((2, 3), np.int32)],
                dimension=0,
            ),
        ],
    )


OPS = [
    Op(
        "broadcast_in_dim",
        "lax.broadcast_in_dim",
        broadcasts,
        reference=in_dim,
        **MOVED,
        errors=[
            bad(
                TypeError,
                "broadcast_in_dim.*broadcast_dimensions.*length",
                np.ones(3, F),
                shape=(3, 3),
                broadcast_dimensions=(),
            ),
            bad(
                TypeError,
                "broadcast_in_dim.*subset",
                np.ones(3, F),
                shape=(3, 3),
                broadcast_dimensions=(2,),
            ),
            bad(
                TypeError,
                r"broadcast_in_dim.*\(3,\).*\(4,\)",
                np.ones(3, F),
                shape=(4,),
                broadcast_dimensions=(0,),
            ),
            bad(
                TypeError,
                "broadcast_in_dim.*must not contain duplicates",
                np.ones((2, 2), F),
                shape=(2, 2),
                broadcast_dimensions=(0, 0),
            ),
        ],
    ),
    Op(
        "broadcast",
        "lax.broadcast",
        one(3, sizes=(2, 4)),
        reference=lambda x, sizes: np.broadcast_to(x, (*sizes, 3)),
        **MOVED,
    ),
    Op(
        "reshape",
        "lax.reshape",
        reshapes,
        reference=reshaped,
        **MOVED,
        errors=[
            bad(
                TypeError,
                r"reshape total size must be unchanged.*\(2, 3\).*6",
                np.ones((2, 3), F),
                new_sizes=(4,),
            ),
            bad(
                (TypeError, ValueError),
                "reshape",
                np.ones((2, 3), F),
                new_sizes=(6,),
                dimensions=(0, 0),
            ),
        ],
    ),
    Op(
        "transpose",
        "lax.transpose",
        lambda draw: [
            sample(draw(2, 3, 4), permutation=(2, 0, 1)),
            sample(draw(), permutation=()),
            sample(draw(0, 2), permutation=(1, 0)),
        ],
        reference=lambda x, permutation: np.transpose(x, permutation),
        **MOVED,
        errors=[
            bad(
                TypeError,
                "transpose permutation isn't a permutation",
                np.ones((2, 3), F),
                permutation=(0, 0),
            )
        ],
    ),
    Op(
        "rev",
        "lax.rev",
        lambda draw: [
            sample(draw(2, 3), dimensions=(1,)),
            sample(draw(2, 3, 2), dimensions=(0, 2)),
            sample(draw(2), dimensions=()),
        ],
        reference=lambda x, dimensions: np.flip(x, dimensions),
        **MOVED,
        errors=[
            bad((TypeError, ValueError), "rev", np.ones(3, F), dimensions=(1,)),
            bad((TypeError, ValueError), "rev", np.ones(3, F), dimensions=(0, 0)),
        ],
    ),
    Op(
        "squeeze",
        "lax.squeeze",
        lambda draw: [
            sample(draw(1, 3, 1), dimensions=(0,)),
            sample(draw(1, 3, 1), dimensions=(0, -1)),
            sample(draw(2, 1, 3), dimensions=(1,)),
        ],
        reference=lambda x, dimensions: np.squeeze(x, dimensions),
        **MOVED,
        errors=[bad(ValueError, "(?s)squeeze.*size.*1", np.ones((1, 3), F), dimensions=(1,))],
    ),
    Op(
        "expand_dims",
        "lax.expand_dims",
        lambda draw: [sample(draw(2, 3), dimensions=(0, 2)), sample(draw(), dimensions=(-1,))],
        reference=lambda x, dimensions: np.expand_dims(x, dimensions),
        **MOVED,
    ),
    Op(
        "collapse",
        "lax.collapse",
        one(2, 3, 4, start_dimension=1, stop_dimension=3),
        reference=lambda x, start_dimension, stop_dimension: x.reshape(2, 12),
        **MOVED,
    ),
    Op(
        "slice",
        "lax.slice",
        slices,
        reference=sliced,
        **MOVED,
        errors=[
            bad(
                (TypeError, ValueError),
                r"slice.*limit_indices",
                np.ones(3, F),
                start_indices=(0,),
                limit_indices=(4,),
            ),
            bad(
                (TypeError, ValueError),
                r"slice.*start_indices",
                np.ones(3, F),
                start_indices=(2,),
                limit_indices=(1,),
            ),
            bad(
                (TypeError, ValueError),
                r"slice.*strides",
                np.ones(3, F),
                start_indices=(0,),
                limit_indices=(1,),
                strides=(0,),
            ),
            bad(
                (TypeError, ValueError),
                r"slice.*start_indices",
                np.ones(3, F),
                start_indices=(0, 0),
                limit_indices=(1,),
            ),
        ],
    ),
    Op(
        "slice_in_dim",
        "lax.slice_in_dim",
        lambda draw: [
            sample(draw(2, 5), start_index=1, limit_index=-1, stride=2, axis=1),
            sample(draw(5), start_index=None, limit_index=None),
            sample(draw(2, 5), start_index=-4, limit_index=-1, axis=1),
        ],
        reference=lambda x, start_index, limit_index, stride=1, axis=0: x[
            (slice(None),) * axis + (slice(start_index, limit_index, stride),)
        ],
        **MOVED,
    ),
    Op(
        "index_in_dim",
        "lax.index_in_dim",
        lambda draw: [
            sample(draw(2, 3), index=-1, axis=1, keepdims=False),
            sample(draw(3, 2), index=-3),
            sample(draw(3, 2), index=1),
        ],
        reference=lambda x, index, axis=0, keepdims=True: np.take(
            x, [index] if keepdims else index, axis
        ),
        **MOVED,
        errors=[
            bad(IndexError, "index_in_dim|index", np.ones((2, 3), F), index=i) for i in (2, -3)
        ],
    ),
    Op(
        "pad",
        "lax.pad",
        pads,
        reference=padded,
        **MOVED,
        errors=[
            bad(
                ValueError,
                r"length of padding_config must equal.*\(\).*\(3,\)",
                np.ones(3, F),
                F(0),
                padding_config=(),
            ),
            bad(
                ValueError,
                "interior padding in padding_config must be nonnegative",
                np.ones(3, F),
                F(0),
                padding_config=((0, 0, -1),),
            ),
            bad(
                ValueError,
                r"after padding is not at least 0.*\(-1,\).*\(3,\)",
                np.ones(3, F),
                F(0),
                padding_config=((-2, -2, 0),),
            ),
            bad(
                TypeError,
                "pad.*float32.*int32",
                np.ones(3, F),
                np.int32(0),
                padding_config=((0, 0, 0),),
            ),
        ],
    ),
    concatenations("concatenate"),
    Op(
        "stack",
        "lax.stack",
        lambda draw: [
            sample([draw(2, 3), draw(2, 3)], axis=1),
            sample([draw(2), draw(2), draw(2)], axis=-1),
        ],
        reference=lambda xs, axis: np.stack(xs, axis),
        **MOVED,
        errors=[
            bad(
                (TypeError, ValueError),
                r"stack.*\(2,\).*\(3,\)",
                [np.ones(2, F), np.ones(3, F)],
                axis=0,
            )
        ],
    ),
    Op("stack_of_an_array", "lax.stack", one(3, 2, axis=1), reference=lambda x, axis: x.T, **MOVED),
    Op(
        "broadcast_to_rank",
        "lax.broadcast_to_rank",
        one(2, rank=3),
        reference=lambda x, rank: x.reshape(1, 1, 2),
        **MOVED,
    ),
    Op(
        "broadcast_like",
        "lax.broadcast_like",
        lambda draw: [sample(draw(3), draw(2, 3))],
        reference=lambda x, y: np.broadcast_to(x, y.shape),
        **MOVED,
    ),
    Op(
        "unstack",
        "lax.unstack",
        one(2, 3, axis=1),
        reference=lambda x, axis: [x[:, i] for i in range(3)],
        **MOVED,
    ),
    Op(
        "split",
        "lax.split",
        lambda draw: [
            sample(draw(5, 2), sizes=(2, 0, 3), axis=0),
            sample(draw(2, 4), sizes=(1, 3), axis=1),
        ],
        reference=lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
        **MOVED,
        errors=[
            bad(
                ValueError,
                r"Sum of sizes 2 must be equal to dimension 0.*\[3\]",
                np.ones(3, F),
                sizes=(1, 1),
                axis=0,
            )
        ],
    ),
    Op(
        "tile",
        "lax.tile",
        lambda draw: [sample(draw(2, 3), reps=reps) for reps in ((2, 1), (2, 3), (0, 3))],
        reference=lambda x, reps: np.tile(x, reps),
        **MOVED,
    ),
    Op(
        "full_like",
        "lax.full_like",
        one(2, 3, fill_value=1),
        reference=lambda x, fill_value: np.ones_like(x),
        **MOVED,
        gradients=(),
    ),
    Op(
        "iota",
        lambda dtype, size: lax.iota(dtype, size),
        lambda draw: [sample(dtype=draw.dtype, size=5)],
        ("int32", "float32", "uint8", "complex64"),
        reference=lambda dtype, size: np.arange(size),
        ulp=0,
        gradients=(),
        exceptions={"vmap": "has no operand"},
    ),
    Op(
        "broadcasted_iota",
        "lax.broadcasted_iota",
        lambda draw: [sample(dtype=draw.dtype, shape=(2, 3), dimension=1)],
        ("int32", "float32"),
        reference=lambda dtype, shape, dimension: np.broadcast_to(np.arange(3), (2, 3)),
        ulp=0,
        gradients=(),
        exceptions={"vmap": "has no operand"},
    ),
    Op(
        "full",
        "lax.full",
        lambda draw: [sample(shape=(2, 3), fill_value=2.5, dtype=draw.dtype)],
        ("float32", "complex64", "bfloat16"),
        reference=lambda shape, fill_value, dtype: np.full(shape, fill_value),
        ulp=0,
        gradients=(),
        exceptions={"vmap": "has no operand"},
    ),
    Op(
        "empty",
        lambda shape, dtype: lax.mul(lax.empty(shape, dtype), dtype.type(0)),
        lambda draw: [sample(shape=(2, 0), dtype=draw.dtype)],
        ("float32", "int32"),
        reference=lambda shape, dtype: np.zeros(shape),
        gradients=(),
        exceptions={"vmap": "has no operand"},
    ),
]
