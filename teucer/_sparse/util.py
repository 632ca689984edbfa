"""Helpers of the sparse formats: efficiency errors, maps over batch dimensions, counts, row
pointers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import errors
from teucer._core.trace import Tracer
from teucer._transform.vmap import vmap
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value


Shape = tuple[int, ...]


class SparseEfficiencyError(ValueError):
    """An operation would store far more than its operand."""

    __module__ = "teucer.experimental.sparse.util"


class SparseEfficiencyWarning(UserWarning):
    """An operation stores far more than its operand, or runs by a slow way."""

    __module__ = "teucer.experimental.sparse.util"


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """An operation on a GPU cannot use the library cuSPARSE."""

    __module__ = "teucer.experimental.sparse.util"


class SparseInfo(NamedTuple):
    """The properties of a sparse array beside its buffers."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False


def known(x: Any, why: str) -> np.ndarray[Any, Any]:
    """The numbers of an array, which Python code needs.

    Raises ConcretizationTypeError, with `why`, where the array is traced.
    """
    value = x
    while isinstance(value, Tracer):
        inner = value.concrete()
        if inner is None:
            raise errors.ConcretizationTypeError(x, why)
        value = inner
    return np.asarray(value)


def is_known(x: object) -> bool:
    """Whether Python code can look at the numbers of an array."""
    while isinstance(x, Tracer):
        x = x.concrete()
    return x is not None


def broadcasting_vmap(
    fun: Callable[..., object], in_axes: Any = 0, out_axes: object = 0
) -> Callable[..., Any]:
    """As `vmap`, but an argument whose mapped axis has size 1 is used for every element.

    >>> import teucer.numpy as jnp
    >>> broadcasting_vmap(jnp.add)(jnp.arange(3), jnp.array([10]))
    Array([10, 11, 12], dtype=int32)
    """

    @functools.wraps(fun)
    def mapped(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
        leaves, tree = pytrees.tree_flatten(args)
        flat: list[Any] = pytrees.flatten_axes("in_axes", tree, tuple(axes))
        sizes = {np.shape(x)[d] for x, d in zip(leaves, flat, strict=True) if d is not None}
        several = sizes - {1}
        if len(several) > 1:
            raise ValueError(
                f"broadcasting_vmap: sizes of mapped axes do not fit: {sorted(sizes)}."
            )
        if several:
            alone = [
                d is not None and np.shape(x)[d] == 1 for x, d in zip(leaves, flat, strict=True)
            ]
            leaves = [
                lax.squeeze(x, [d]) if one else x
                for x, d, one in zip(leaves, flat, alone, strict=True)
            ]
            flat = [None if one else d for d, one in zip(flat, alone, strict=True)]

        def on_leaves(*values: Value) -> Any:
            return fun(*pytrees.tree_unflatten(tree, values))

        return vmap(on_leaves, tuple(flat), out_axes)(*leaves)

    return mapped


def nfold_vmap(
    fun: Callable[..., object], N: int, *, broadcasted: bool = True, in_axes: object = 0
) -> Callable[..., Any]:
    """`fun` mapped over N leading axes; broadcasted: axes of size 1 go with any.

    >>> import teucer.numpy as jnp
    >>> nfold_vmap(jnp.sum, 2)(jnp.ones((2, 3, 4))).shape
    (2, 3)
    """
    mapping = broadcasting_vmap if broadcasted else vmap
    for _ in range(N):
        fun = mapping(fun, in_axes)
    return fun


def stored_mask(mat: Any, n_batch: int, n_dense: int) -> Any:
    """bool[*batch, *sparse]: where a dense array has blocks that are not zero."""
    mask = mat if mat.dtype == np.bool_ else mat != 0
    if n_dense:
        mask = mask.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    return mask


def _count_stored_elements_per_batch(mat: object, n_batch: int = 0, n_dense: int = 0) -> Any:
    """int[*batch]: how many blocks of each batch element are not zero.

    >>> import numpy as np
    >>> _count_stored_elements_per_batch(np.array([[1, 0, 2], [0, 0, 3]]), n_batch=1)
    Array([2, 1], dtype=int32)
    """
    mat = jnp.asarray(mat)
    mask = stored_mask(mat, n_batch, n_dense)
    return mask.sum(tuple(range(n_batch, mask.ndim)), dtype=np.int32)


def _count_stored_elements(mat: object, n_batch: int = 0, n_dense: int = 0) -> Any:
    """The number of elements to store, the most of all batch elements."""
    counts = _count_stored_elements_per_batch(mat, n_batch, n_dense)
    return counts.max(initial=0)


def split_shape(shape: Sequence[Any], n_batch: int, n_sparse: int) -> tuple[Shape, Shape, Shape]:
    """The sizes of the batch, sparse and dense dimensions."""
    shape = tuple(shape)
    return shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]


def _csr_to_coo(indices: Array, indptr: Array) -> tuple[Any, Any]:
    """Row and column of each stored element, from columns and row pointers.

    int[*batch, nse], int[*batch, rows + 1] -> int[*batch, nse] twice. Elements behind the last row
    have row `rows`.
    """
    nse = np.shape(indices)[-1]

    def rows(indptr: Array) -> Any:
        ends = jnp.zeros(nse, np.int32).at[indptr[1:]].add(1, mode="drop", indices_are_sorted=True)
        return jnp.cumsum(ends, dtype=np.int32)

    return nfold_vmap(rows, np.ndim(indptr) - 1)(indptr).astype(indices.dtype), indices


def _coo_to_csr(row: Array, nrows: int) -> Any:
    """Row pointers of stored elements whose rows are sorted: int[*batch, nse] -> int[*batch, nrows
    + 1]."""

    def pointers(row: Array) -> Any:
        counts = jnp.zeros(nrows + 1, np.int32).at[row.astype(np.int32) + 1].add(1, mode="drop")
        return jnp.cumsum(counts, dtype=row.dtype)

    return nfold_vmap(pointers, np.ndim(row) - 1)(row)


def sparse_size(shape: Sequence[int]) -> int:
    """How many places the sparse dimensions have."""
    return math.prod(shape)
