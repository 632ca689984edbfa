"""The values of `sparsify`.

Dense or sparse, by references to buffers, which several of them may share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._sparse.base import JAXSparse
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.util import Shape
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value


class SparsifyValue(NamedTuple):
    """A value of `sparsify`: its shape, and the numbers of its buffers in a SparsifyEnv."""

    shape: Shape
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def is_sparse(self) -> bool:
        """Whether it is a BCOO or BCSR array."""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """Whether it is a dense array."""
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        """Whether it is a BCOO array."""
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        """Whether it is a BCSR array."""
        return self.is_sparse() and self.indptr_ref is not None


class SparsifyEnv:
    """Buffers of the values of one run of `sparsify`."""

    def __init__(self, bufs: Sequence[object] = ()) -> None:
        self._buffers = list(bufs)

    def _push(self, buffer: object) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def _get(self, ref: int | None) -> Any:
        if ref is None:
            raise RuntimeError("Internal: the value has no such buffer.")
        return self._buffers[ref]

    def data(self, spvalue: SparsifyValue) -> Any:
        """The elements of a value, those stored if it is sparse."""
        return self._get(spvalue.data_ref)

    def indices(self, spvalue: SparsifyValue) -> Any:
        """The indices of a sparse value."""
        return self._get(spvalue.indices_ref)

    def indptr(self, spvalue: SparsifyValue) -> Any:
        """The row pointers of a BCSR value."""
        return self._get(spvalue.indptr_ref)

    def dense(self, data: Any) -> SparsifyValue:
        """A dense array as a value."""
        return SparsifyValue(tuple(typeof(data).shape), self._push(data))

    def sparse(
        self,
        shape: Any,
        data: Array | None = None,
        indices: Array | None = None,
        indptr: Array | None = None,
        *,
        data_ref: int | None = None,
        indices_ref: int | None = None,
        indptr_ref: int | None = None,
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> SparsifyValue:
        """A sparse array as a value: of each buffer the array, or the number of one that is
        here."""
        for name, given, ref in (("data", data, data_ref), ("indices", indices, indices_ref)):
            if (given is None) == (ref is None):
                raise ValueError(
                    f"SparsifyEnv.sparse: exactly one of {name} and {name}_ref must be given."
                )
        data_ref = self._push(data) if data_ref is None else data_ref
        indices_ref = self._push(indices) if indices_ref is None else indices_ref
        if indptr is not None:
            indptr_ref = self._push(indptr)
        return SparsifyValue(
            tuple(shape), data_ref, indices_ref, indptr_ref, indices_sorted, unique_indices
        )


def _is_sparse(x: Array) -> bool:
    return isinstance(x, JAXSparse)


def _is_spvalue(x: Array) -> bool:
    return isinstance(x, SparsifyValue)


def spvalue_of(spenv: SparsifyEnv, x: Any) -> SparsifyValue:
    """An array as a value."""
    if isinstance(x, BCOO | BCSR):
        return spenv.sparse(
            x.shape,
            x.data,
            x.indices,
            x.indptr if isinstance(x, BCSR) else None,
            indices_sorted=x.indices_sorted,
            unique_indices=x.unique_indices,
        )
    if isinstance(x, JAXSparse):
        raise NotImplementedError(
            f"sparsify: arrays of the format {type(x).__name__} are not supported; those of BCOO "
            "and BCSR are."
        )
    return spenv.dense(x)


def array_of(spenv: SparsifyEnv, spvalue: SparsifyValue) -> Any:
    """The array, sparse or dense, that a value of the environment stands for."""
    if spvalue.is_dense():
        return spenv.data(spvalue)
    flags = {
        "shape": spvalue.shape,
        "indices_sorted": bool(spvalue.indices_sorted),
        "unique_indices": bool(spvalue.unique_indices),
    }
    bufs = [spenv.data(spvalue), spenv.indices(spvalue)]
    if spvalue.is_bcsr():
        return BCSR.tree_unflatten(flags, (*bufs, spenv.indptr(spvalue)))
    return BCOO.tree_unflatten(flags, bufs)


def arrays_to_spvalues(spenv: SparsifyEnv, args: Sequence[Value]) -> Any:
    """A tree of arrays as one of values."""
    return pytrees.tree_map(lambda x: spvalue_of(spenv, x), args, is_leaf=_is_sparse)


def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: object) -> Any:
    """A tree of values as one of arrays."""
    return pytrees.tree_map(lambda v: array_of(spenv, v), spvalues, is_leaf=_is_spvalue)


def spvalues_to_avals(spenv: SparsifyEnv, spvalues: object) -> Any:
    """A tree of values as one of the types of the dense arrays that they stand for."""

    def aval(spvalue: SparsifyValue) -> Any:
        data = typeof(spenv.data(spvalue))
        return ShapedArray(spvalue.shape, data.dtype, data.weak_type)

    return pytrees.tree_map(aval, spvalues, is_leaf=_is_spvalue)
