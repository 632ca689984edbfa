"""Sample inputs of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from lax.sampling import Sample

__all__ = ["SAMPLES", "made", "numbers"]

DTYPES = ("float32", "complex64", "int32", "bfloat16")


def made(*shapes: tuple[int, ...], **options: Any) -> Any:
    """A maker of arrays of the given shapes."""
    def args(rng: Any, dtype: Any) -> Any:
        return tuple(numbers(rng, dtype, shape) for shape in shapes), options
    return args


def numbers(rng: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    x = 3 * rng.normal(size=shape)
    return (x + 3j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def _sized(rng: Any, dtype: Any) -> Any:
    return (numbers(rng, dtype, (7, 4)), numbers(rng, dtype, (3, 4, 5)), np.int32([2, 0, 3])), {}


def _ragged(x: Any, w: Any, sizes: Any) -> Any:
    starts = np.cumsum(sizes) - sizes
    rows = [x[a:a + n] @ m for a, n, m in zip(starts, sizes, w, strict=True)]
    return np.concatenate([*rows, np.zeros((len(x) - sum(sizes), w.shape[2]), x.dtype)])


SAMPLES = [
    Sample("dot_vectors", "lax.dot", made((3,), (3,)), DTYPES, np.dot, True),
    Sample("dot_matrix_vector", "lax.dot", made((2, 3), (3,)), DTYPES, np.dot, True),
    Sample("dot_matrices", "lax.dot", made((2, 3), (3, 4)), DTYPES, np.dot, True),
    Sample("batch_matmul", "lax.batch_matmul", made((5, 2, 3), (5, 3, 4)), DTYPES, np.matmul, True),
    Sample("dot_general_outer", "lax.dot_general", made((2,), (3,), dimension_numbers=(((), ()), ((), ()))), DTYPES,
           lambda x, y, dimension_numbers: np.outer(x, y), True),
    Sample("dot_general_batched", "lax.dot_general",
           made((2, 2, 3, 4), (4, 2, 5, 3), dimension_numbers=(((3, 2), (0, 3)), ((0,), (1,)))), DTYPES[:3],
           lambda x, y, dimension_numbers: np.einsum("bikl,lbjk->bij", x, y), True),
    Sample("ragged_dot", "lax.ragged_dot", _sized, ("float32", "complex64"), _ragged, True),
    Sample("scaled_dot", "lax.scaled_dot", made((2, 8), (8, 3)), ("float32",), None, False),
]
