"""Functions of sparse arrays of any format."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse.base import JAXSparse
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.coo import COO
from teucer._sparse.csr import CSC, CSR
from teucer._sparse.defined import defined
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike, Value
    from teucer._xla.pytree import PyTree


_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


@defined("todense")
def todense_p(*bufs: Value, tree: PyTree) -> tuple[Any, ...]:
    """The dense array of a sparse one, given its buffers and the tree of which they are leaves."""
    array = pytrees.tree_unflatten(tree, bufs)
    return (array.todense() if isinstance(array, JAXSparse) else jnp.asarray(array),)


@tracebacks.api_boundary
def todense(arr: ArrayLike) -> Any:
    """A sparse array of any format as a dense one; a dense one as it is.

    >>> from teucer.experimental import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    bufs, tree = pytrees.tree_flatten(arr)
    return todense_p.call(*map(jnp.asarray, bufs), tree=tree)[0]


def _format(op: str, name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(
            f"{op}: sparse_format={name!r} not recognized; must be one of {sorted(_FORMATS)}."
        )
    return _FORMATS[name]


@tracebacks.api_boundary
def empty(
    shape: Sequence[int],
    dtype: DTypeLike | None = None,
    index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo",
    **kwds: object,
) -> Any:
    """A sparse array of zeros.

    sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc". kwds: for "bcoo" and "bcsr" n_batch,
    n_dense, and nse, the number of elements of padding. Raises ValueError for another format.

    >>> from teucer.experimental import sparse
    >>> sparse.empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    return _format("empty", sparse_format)._empty(
        shape, dtype=dtype, index_dtype=index_dtype, **kwds
    )


@tracebacks.api_boundary
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo",
    **kwds: object,
) -> Any:
    """A sparse matrix with ones along a diagonal.

    N, M: rows and columns, by default as many. k: the diagonal, above the main one if positive.
    sparse_format: as for `empty`.
    kwds: for "bcoo" and "bcsr" n_batch and n_dense.

    >>> from teucer.experimental import sparse
    >>> sparse.eye(2, 3, k=1).indices
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    rows = operator.index(N)
    return _format("eye", sparse_format)._eye(
        rows,
        rows if M is None else operator.index(M),
        operator.index(k),
        dtype=dtype,
        index_dtype=index_dtype,
        **kwds,
    )
