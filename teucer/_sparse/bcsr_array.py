"""The class of batched CSR arrays: buffers, shape and layout.

Its operators are attached by `operators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from teucer import numpy as jnp
from teucer._sparse.base import Batched
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_order import bcoo_sort_indices
from teucer._sparse.layout import BCSRProperties, validate_bcsr
from teucer._sparse.util import _coo_to_csr, _csr_to_coo
from teucer._trees.registry import register_pytree_node_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import ArrayLike, DTypeLike, Size


@register_pytree_node_class
class BCSR(Batched):
    """A sparse array in the batched format of compressed rows: two sparse dimensions, whose rows
    lie one after another.

    args: (data, indices, indptr); data: T[*batch, nse, *dense], the values that are stored;
        indices: int[*batch, nse], their columns; indptr: int[*batch, rows + 1], where each row
        starts. Elements behind the last row are padding.
    shape: the sizes of all axes, batch dimensions first, then the two sparse, then dense ones.
    indices_sorted, unique_indices: properties of the columns of each row.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCSR.fromdense(jnp.array([[0., 2., 0.], [1., 0., 4.]]))
    >>> M.indptr
    Array([0, 1, 3], dtype=int32)
    >>> M @ jnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    _buffers = ("data", "indices", "indptr")
    indptr: Any
    n_sparse = 2

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[Size],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__(args, shape=shape)
        validate_bcsr(self.data, self.indices, self.indptr, self.shape)

    def _layout(self) -> BCSRProperties:
        return validate_bcsr(self.data, self.indices, self.indptr, self.shape)

    @property
    def nse(self) -> int:
        """Number of stored elements, of each batch element."""
        nse: int = self.indices.shape[-1]
        return nse

    @property
    def n_batch(self) -> int:
        """Number of batch dimensions."""
        return self.indices.ndim - 1

    def to_bcoo(self) -> BCOO:
        """The array in the format BCOO.

        >>> from teucer.experimental import sparse
        >>> sparse.eye(2, sparse_format="bcsr").to_bcoo()
        BCOO(float32[2, 2], nse=2)
        """
        indices = _bcsr_to_bcoo(self.indices, self.indptr, shape=self.shape)
        return BCOO(
            (self.data, indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Self:
        """A BCOO array with two sparse dimensions in the format BCSR.

        Raises NotImplementedError for another number.

        >>> from teucer.experimental import sparse
        >>> sparse.BCSR.from_bcoo(sparse.eye(2)).indptr
        Array([0, 1, 2], dtype=int32)
        """
        if arr.n_sparse != 2:
            raise NotImplementedError(
                f"BCSR.from_bcoo requires n_sparse=2; got n_sparse={arr.n_sparse} of {arr!r}.\n"
                "  Change the kinds of its axes by update_layout, or keep the BCOO array."
            )
        if not arr.indices_sorted:
            arr = bcoo_sort_indices(arr)
        indices, indptr = _bcoo_to_bcsr(arr.indices, shape=arr.shape)
        return cls(
            (arr.data, indices, indptr),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

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
        if len(tuple(shape)) - n_batch - n_dense != 2:
            raise ValueError(
                f"BCSR arrays have two sparse dimensions; got shape={tuple(shape)}, "
                f"n_batch={n_batch}, n_dense={n_dense}."
            )
        empty = BCOO._empty(
            shape, dtype=dtype, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch, nse=nse
        )
        return cls.from_bcoo(empty)

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32", **kwds: Any
    ) -> Self:
        return cls.from_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype, **kwds))


def _bcoo_to_bcsr(indices: Any, *, shape: Any, index_dtype: Any = None) -> tuple[Any, Any]:
    """Columns and row pointers of places in lexicographic order: int[*batch, nse, 2] -> int[*batch,
    nse], int[*batch, rows + 1]."""
    indices = jnp.asarray(indices)
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    if n_sparse != 2:
        raise ValueError(
            f"Must have 2 sparse dimensions to be converted to BCSR; got n_sparse={n_sparse}."
        )
    kind = indices.dtype if index_dtype is None else index_dtype
    indptr = _coo_to_csr(indices[..., 0], shape[n_batch])
    return indices[..., 1].astype(kind), indptr.astype(kind)


def _bcsr_to_bcoo(indices: ArrayLike, indptr: ArrayLike, *, shape: Sequence[Size]) -> Any:
    """Index vectors, of columns and row pointers: int[*batch, nse], int[*batch, rows + 1] ->
    int[*batch, nse, 2]."""
    row, col = _csr_to_coo(jnp.asarray(indices), jnp.asarray(indptr))
    row, col = jnp.broadcast_arrays(row, col)
    return jnp.stack([row, col], -1)
