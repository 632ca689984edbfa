"""The class of batched COO arrays: buffers, shape and layout.

`methods` attaches the operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from teucer import numpy as jnp
from teucer._sparse.base import Batched
from teucer._sparse.layout import BCOOProperties, validate_bcoo
from teucer._trees.registry import register_pytree_node_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import DTypeLike, Size


@register_pytree_node_class
class BCOO(Batched):
    """A sparse array in the batched coordinate format: values, and for each the index of its place.

    args: (data, indices); data: T[*batch, nse, *dense], the values (or dense blocks) that are
    stored; indices:
        int[*batch, nse, n_sparse], where they stand along the sparse dimensions. Elements of one
        place are added; elements whose index is out of bounds are padding. Batch axes of size 1 go
        with any size.
    shape: the sizes of all axes, batch dimensions first, then sparse, then dense ones.
    indices_sorted, unique_indices: properties of the indices of each batch element.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCOO.fromdense(jnp.array([[0., 2., 0.], [1., 0., 4.]]))
    >>> M
    BCOO(float32[2, 3], nse=3)
    >>> M @ jnp.ones(3)
    Array([2., 5.], dtype=float32)
    >>> M.indices
    Array([[0, 1],
           [1, 0],
           [1, 2]], dtype=int32)
    """

    _buffers = ("data", "indices")

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[Size],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(jnp.asarray, args)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__(args, shape=shape)
        validate_bcoo(self.data, self.indices, self.shape)

    if TYPE_CHECKING:  # Members that `methods` attaches.

        def sort_indices(self) -> BCOO: ...
        def update_layout(
            self,
            *,
            n_batch: int | None = ...,
            n_dense: int | None = ...,
            on_inefficient: str | None = ...,
        ) -> BCOO: ...

    def _layout(self) -> BCOOProperties:
        return validate_bcoo(self.data, self.indices, self.shape)

    @property
    def nse(self) -> int:
        """Number of stored elements, of each batch element."""
        nse: int = self.indices.shape[-2]
        return nse

    @property
    def n_batch(self) -> int:
        """Number of batch dimensions."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """Number of sparse dimensions."""
        n: int = self.indices.shape[-1]
        return n

    @classmethod
    def _empty(
        cls,
        shape: Sequence[Size],
        *,
        dtype: DTypeLike | None = None,
        index_dtype: DTypeLike = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> Self:
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if n_sparse < 0 or n_dense < 0 or n_batch < 0 or nse < 0:
            raise ValueError(
                f"Invalid inputs: shape={shape}, n_dense={n_dense}, n_batch={n_batch}, nse={nse}"
            )
        batch, sparse, dense = (
            shape[:n_batch],
            shape[n_batch : n_batch + n_sparse],
            shape[n_batch + n_sparse :],
        )
        data = jnp.zeros((*batch, nse, *dense), dtype)
        places = jnp.broadcast_to(jnp.asarray(sparse, index_dtype), (*batch, nse, n_sparse))
        return cls((data, places), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> Self:
        if n_batch < 0 or n_dense < 0 or n_batch + n_dense > 2:
            raise ValueError(
                f"Invalid inputs: shape={(N, M)}, n_dense={n_dense}, n_batch={n_batch}"
            )
        length = max(0, min(N + min(k, 0), M - max(k, 0)))
        row = np.arange(length) + max(-k, 0)
        col = row + k
        if n_batch + n_dense == 2:  # nothing is sparse: one block is stored, or none
            stored = (slice(None),) * n_batch + (slice(min(length, 1)),)
            data = np.expand_dims(np.eye(N, M, k), n_batch)[stored]
            places = np.zeros((*data.shape[: n_batch + 1], 0))
        elif n_batch:
            inside = np.isin(np.arange(N), row)
            data = inside[:, None][:, :length].astype(float)
            places = np.where(inside, np.arange(N) + k, M)[:, None, None][:, :length]
        elif n_dense:
            data, places = np.eye(M)[col], row[:, None]
        else:
            data, places = np.ones(length), np.stack([row, col], 1)
        return cls(
            (jnp.asarray(data, dtype or float), jnp.asarray(places, index_dtype)),
            shape=(N, M),
            indices_sorted=True,
            unique_indices=True,
        )
