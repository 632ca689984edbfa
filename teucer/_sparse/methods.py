"""The methods of BCOO and BCSR arrays that are functions of them, attached to the classes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._sparse import bcoo, bcsr
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.transform import sparsify
from teucer._trees.containers import Container, containers

if TYPE_CHECKING:
    from teucer._core.typing import Axes, DTypeLike

__all__: list[str] = []


def _attach(
    cls: type, kind: Callable[..., Any] = lambda f: f
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def attach(method: Callable[..., object]) -> Callable[..., Any]:
        name = (
            method.__name__.lstrip("_") if not method.__name__.startswith("__") else method.__name__
        )
        method.__name__, method.__qualname__ = name, f"{cls.__name__}.{name}"
        setattr(cls, name, kind(method))
        return method

    return attach


@_attach(BCOO)
def todense(self: BCOO) -> Any:
    """The array with its zeros, as an Array."""
    return bcoo.bcoo_todense(self)


@_attach(BCOO)
def sort_indices(self: BCOO) -> BCOO:
    """The array with its indices in lexicographic order."""
    return bcoo.bcoo_sort_indices(self)


@_attach(BCOO)
def sum_duplicates(self: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """The array with each place once, in lexicographic order; elements of one place are added.

    nse: as for `bcoo_sum_duplicates`. remove_zeros: whether stored zeros are left out, for which
    their values must be known.
    """
    return (bcoo.bcoo_eliminate_zeros if remove_zeros else bcoo.bcoo_sum_duplicates)(self, nse=nse)


@_attach(BCOO)
def update_layout(
    self: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The array with other numbers of batch and dense dimensions: as `bcoo_update_layout`."""
    return bcoo.bcoo_update_layout(
        self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
    )


@_attach(BCOO)
def transpose(self: BCOO, axes: Any = None) -> BCOO:
    """The array with its axes permuted, by default reversed: as `bcoo_transpose`."""
    permutation = range(self.ndim)[::-1] if axes is None else [int(a) % self.ndim for a in axes]
    return bcoo.bcoo_transpose(self, permutation=permutation)


@_attach(BCOO, classmethod)
def fromdense(
    cls: type[BCOO],
    mat: object,
    *,
    nse: int | None = None,
    index_dtype: DTypeLike = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCOO:
    """The array of the elements of a dense one that are not zero: as `bcoo_fromdense`."""
    return bcoo.bcoo_fromdense(
        mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
    )


def _check_layout(op: str, n_dense: int, n_batch: int) -> None:
    if n_dense or n_batch:
        raise NotImplementedError(
            f"{op}: matrices of SciPy have sparse dimensions alone; got n_dense={n_dense}, "
            f"n_batch={n_batch}.\n  Use update_layout on the result."
        )


@_attach(BCOO, classmethod)
def from_scipy_sparse(
    cls: type[BCOO],
    mat: Any,
    *,
    index_dtype: DTypeLike | None = None,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCOO:
    """The BCOO array of a matrix of `scipy.sparse`, of any format.

    Raises NotImplementedError for n_dense and n_batch.
    """
    _check_layout("BCOO.from_scipy_sparse", n_dense, n_batch)
    coo = mat.tocoo()
    indices = np.stack([coo.row, coo.col], 1).astype(index_dtype or coo.row.dtype)
    steps = np.diff(indices.astype(np.int64) @ [mat.shape[1], 1]) if len(indices) else np.ones(0)
    in_order = bool((steps > 0).all())
    return cls(
        (jnp.asarray(coo.data), jnp.asarray(indices)),
        shape=mat.shape,
        indices_sorted=in_order,
        unique_indices=in_order,
    )


@_attach(BCSR)
def _todense(self: BCSR) -> Any:
    """The array with its zeros, as an Array."""
    return bcsr.bcsr_todense(self)


@_attach(BCSR)
def _sum_duplicates(self: BCSR, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
    """The array with each place once, in order; elements of one place are added: as
    `BCOO.sum_duplicates`."""
    return (bcsr.bcsr_eliminate_zeros if remove_zeros else bcsr.bcsr_sum_duplicates)(self, nse=nse)


@_attach(BCSR)
def _transpose(self: BCSR, axes: Axes | None = None) -> BCSR:
    """The array with its axes permuted, by default reversed."""
    return BCSR.from_bcoo(self.to_bcoo().transpose(axes))


@_attach(BCSR, classmethod)
def _fromdense(
    cls: type[BCSR],
    mat: object,
    *,
    nse: int | None = None,
    index_dtype: DTypeLike = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCSR:
    """The array of the elements of a dense one that are not zero: as `bcsr_fromdense`."""
    return bcsr.bcsr_fromdense(
        mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
    )


@_attach(BCSR, classmethod)
def _from_scipy_sparse(
    cls: type[BCSR],
    mat: Any,
    *,
    index_dtype: DTypeLike | None = None,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCSR:
    """The BCSR array of a matrix of `scipy.sparse`, of any format.

    Raises NotImplementedError for n_dense and n_batch.
    """
    _check_layout("BCSR.from_scipy_sparse", n_dense, n_batch)
    csr = mat.tocsr()
    kind = np.dtype(index_dtype or csr.indices.dtype)
    bufs = (
        jnp.asarray(csr.data),
        jnp.asarray(csr.indices.astype(kind)),
        jnp.asarray(csr.indptr.astype(kind)),
    )
    return cls(
        bufs,
        shape=mat.shape,
        indices_sorted=bool(csr.has_sorted_indices),
        unique_indices=bool(csr.has_canonical_format),
    )


def _shared(cls: Any) -> None:
    @_attach(cls)
    def reshape(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The array with the same elements in another shape, given as ints or a tuple; axes of
        different kinds do not mix."""
        sizes = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
        order = kwargs.pop("order", "C")
        if kwargs or order != "C":
            raise NotImplementedError(
                f"{type(self).__name__}.reshape: order must be 'C', and other arguments are not "
                "supported."
            )
        sizes = [operator.index(n) for n in sizes]
        if sizes.count(-1) == 1:
            rest = int(np.prod([n for n in sizes if n != -1]))
            sizes[sizes.index(-1)] = self.size // max(rest, 1)
        return sparsify(lambda x: jnp.reshape(x, tuple(sizes)))(self)

    @_attach(cls)
    def astype(self: object, *args: Any, **kwargs: object) -> Any:
        """The array with elements of another dtype."""
        return sparsify(lambda x: x.astype(*args, **kwargs))(self)

    @_attach(cls)
    def sum(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The sum along axes: arguments as for `jnp.sum`. Over all axes it is dense."""
        return sparsify(lambda x: jnp.sum(x, *args, **kwargs))(self)

    @_attach(cls)
    def __iter__(self: Any) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return iter([self[i] for i in range(self.shape[0])])

    @_attach(cls)
    def __getitem__(self: object, item: object) -> Any:
        return sparsify(lambda x: x[item])(self)


_shared(BCOO)
_shared(BCSR)


def _element(mat: Any, axis: int) -> Any:
    """An element of the batch mat along a batch dimension. Its buffers lack that axis already."""
    bufs, aux = mat.tree_flatten()
    return type(mat).tree_unflatten({**aux, "shape": _without(mat.shape, axis)}, bufs)


def _batch(mat: Any, axis: int, size: int) -> Any:
    bufs, aux = mat.tree_flatten()
    at = axis if axis >= 0 else axis + len(mat.shape) + 1
    if at > mat.n_batch - 1:
        raise ValueError(
            f"vmap: out_axes of a sparse array must be among its batch dimensions, got {axis} for "
            f"{mat!r}."
        )
    return type(mat)(bufs, **{**aux, "shape": (*mat.shape[:at], size, *mat.shape[at:])})


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


for _cls in (BCOO, BCSR):
    containers[_cls] = Container(_element, _batch)
