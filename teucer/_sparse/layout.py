"""How the buffers of batched COO arrays are laid out: which dimensions are batch, sparse, dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes

if TYPE_CHECKING:
    from teucer._core.typing import Array


class BCOOProperties(NamedTuple):
    """Numbers of dimensions by kind, and of stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


class BCSRProperties(NamedTuple):
    """Numbers of dimensions by kind (two are sparse), and of stored elements."""

    n_batch: int
    n_dense: int
    nse: int


def _fits(batch: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(n in (1, m) for n, m in zip(batch, wanted, strict=True))


def validate_bcoo(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """The layout of the BCOO array of these buffers; data: T[*batch, nse, *dense], indices:
    int[*batch, nse, n_sparse].

    Raises TypeError if indices are no integers (C1), ValueError if shapes do not fit (C2). Batch
    axes may have size 1.
    """
    shape, stored, places = tuple(shape), tuple(data.shape), tuple(indices.shape)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"BCOO: indices must be integers, got {indices.dtype}.")
    if len(places) < 2:
        raise ValueError(
            f"BCOO: indices must have at least two axes, (nse, n_sparse), got {places}."
        )
    nse, n_sparse = places[-2:]
    n_batch = len(places) - 2
    n_dense = len(shape) - n_batch - n_sparse
    text = f"for {nse=}, {n_batch=}, {n_dense=}"
    if n_dense < 0:
        raise ValueError(
            f"Invalid indices.shape={places} for shape={shape}: {n_batch} batch and {n_sparse} "
            "sparse dimensions are more than the shape has."
        )
    dense = shape[n_batch + n_sparse :]
    if len(stored) != n_batch + 1 + n_dense or stored[n_batch:] != (nse, *dense):
        raise ValueError(f"Invalid data.shape={stored} {text}.\n    shape: {shape}")
    if not _fits(stored[:n_batch], shape[:n_batch]):
        raise ValueError(
            f"data batch dimensions not compatible {text}, shape={shape}: got {stored}."
        )
    if not _fits(places[:n_batch], shape[:n_batch]):
        raise ValueError(
            f"indices batch dimensions not compatible {text}, shape={shape}: got {places}."
        )
    return BCOOProperties(n_batch, n_sparse, n_dense, nse)


def validate_bcsr(
    data: Array, indices: Array, indptr: Array, shape: Sequence[int]
) -> BCSRProperties:
    """The layout of the BCSR array of these buffers; data: T[*batch, nse, *dense], indices:
    int[*batch, nse], indptr: int[*batch, rows + 1].

    Raises TypeError if indices or indptr are no integers (C1), ValueError if shapes do not fit
    (C2).
    """
    shape, stored, places, rows = (
        tuple(shape),
        tuple(data.shape),
        tuple(indices.shape),
        tuple(indptr.shape),
    )
    for name, x in (("indices", indices), ("indptr", indptr)):
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise TypeError(f"BCSR: {name} must be integers, got {x.dtype}.")
    if not places:
        raise ValueError("BCSR: indices must have at least one axis.")
    nse, n_batch = places[-1], len(places) - 1
    n_dense = len(shape) - n_batch - 2
    if n_dense < 0:
        raise ValueError(
            f"Invalid indices.shape={places} for shape={shape}: a BCSR array has two sparse "
            "dimensions."
        )
    if len(stored) != n_batch + 1 + n_dense or stored[n_batch:] != (nse, *shape[n_batch + 2 :]):
        raise ValueError(
            f"Invalid data.shape={stored} for {nse=}, {n_batch=}, {n_dense=}.\n    shape: {shape}"
        )
    if len(rows) != n_batch + 1 or rows[-1] != shape[n_batch] + 1:
        raise ValueError(f"Invalid indptr.shape={rows} for shape={shape} and {n_batch=}.")
    for batch in (stored[:n_batch], places[:n_batch], rows[:n_batch]):
        if not _fits(batch, shape[:n_batch]):
            raise ValueError(
                "batch dimensions of the buffers do not fit those of the shape.\n"
                f"    data: {stored}\n    indices: {places}\n    indptr: {rows}\n"
                f"    shape: {shape}"
            )
    return BCSRProperties(n_batch, n_dense, nse)
