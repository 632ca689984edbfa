"""Sums and products of BCOO arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse import places
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_dense import columns
from teucer._sparse.bcoo_dot import _bcoo_dot_general, _bcoo_rdot_general
from teucer._sparse.bcoo_layout import bcoo_update_layout
from teucer._sparse.bcoo_shapes import bcoo_broadcast_in_dim, full_batch, without_columns
from teucer._sparse.bcoo_spdot import spdot_general
from teucer._sparse.layout import validate_bcoo
from teucer._sparse.util import SparseInfo, nfold_vmap

if TYPE_CHECKING:
    from teucer._core.typing import Array


@tracebacks.api_boundary
def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of two arrays, one at least BCOO: as `lax.dot_general`.

    The product of two BCOO arrays is one; of a BCOO array and a dense one a dense array.
    precision is for dense products, and has no part in these. Raises TypeError for axes that do not
    fit or other operands, NotImplementedError for an out_sharding and as `spdot_general`.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_dot_general(sparse.eye(3), jnp.arange(3.),
    ...     dimension_numbers=(([1], [0]), ([], [])))
    Array([0., 1., 2.], dtype=float32)
    """
    if out_sharding is not None:
        raise NotImplementedError(
            f"bcoo_dot_general: out_sharding is not supported, got {out_sharding}.\n"
            "  Lay the result out: jax.reshard(result, out_sharding)."
        )
    given = {
        "dimension_numbers": dimension_numbers,
        "preferred_element_type": preferred_element_type,
    }
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return spdot_general(lhs, rhs, **given)
    if isinstance(lhs, BCOO):
        return _bcoo_dot_general(lhs.data, lhs.indices, rhs, lhs_spinfo=lhs._info, **given)
    if isinstance(rhs, BCOO):
        return _bcoo_rdot_general(lhs, *rhs._bufs, rhs_spinfo=rhs._info, **given)
    raise TypeError(
        "bcoo_dot_general: one operand at least must be a BCOO array.\n"
        f"    lhs: {type(lhs).__name__}\n    rhs: {type(rhs).__name__}"
    )


@tracebacks.api_boundary
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum of a BCOO array over axes.

    The elements stored stay, at places with fewer components, unless no sparse dimension is left.
    Raises ValueError if axes are not distinct axes of mat.

    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_reduce_sum(sparse.eye(3), axes=(0,)).todense()
    Array([1., 1., 1.], dtype=float32)
    """
    wanted = [
        operator.index(a) + (a < 0) * mat.ndim
        for a in np.atleast_1d(np.asarray(axes, int)).tolist()
    ]
    if len(set(wanted)) != len(wanted) or any(not 0 <= a < mat.ndim for a in wanted):
        raise ValueError(f"bcoo_reduce_sum: axes={tuple(axes)} are not distinct axes of {mat!r}.")
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat) if any(a < n for a in wanted) else mat._bufs
    dense = [a - mat.n_sparse + 1 for a in wanted if a >= m]
    data = data.sum(dense, dtype=data.dtype) if dense else data
    dropped = [a - n for a in wanted if n <= a < m]
    if dropped:
        data, indices = without_columns(data, indices, mat.shape[n:m], dropped)
    batch = sorted(a for a in wanted if a < n)
    data, indices = (_merged(x, batch, n) for x in (data, indices))
    n -= len(batch)
    if not indices.shape[-1] and indices.shape[n] != 1:
        data = data.sum(n, keepdims=True, dtype=data.dtype)
        indices = jnp.zeros((*indices.shape[:n], 1, 0), indices.dtype)
    return BCOO((data, indices), shape=tuple(s for a, s in enumerate(mat.shape) if a not in wanted))


def _merged(x: Array, axes: Sequence[int], n: int) -> Any:
    """x with some of its n first axes merged with the one that follows them."""
    kept = [a for a in range(n) if a not in axes]
    x = lax.transpose(x, (*kept, *axes, *range(n, x.ndim)))
    count = int(np.prod(x.shape[len(kept) : n + 1]))
    return x.reshape(*x.shape[: len(kept)], count, *x.shape[n + 1 :])


def dense_at(indices: Any, v: Any, shape: Sequence[int], n_dense: int, fill: Any) -> Any:
    """Elements of a dense array, of sizes that broadcast to the shape, at the places of a BCOO
    array of n_dense dense axes.

    int[*batch, nse, n_sparse], T[...] -> T[*batch, nse, *dense] but for sizes 1; `fill` out of
    bounds. Raises NotImplementedError if v is larger than the shape.
    """
    v = jnp.asarray(v)
    if v.ndim > len(shape) or any(
        s not in (1, t) for s, t in zip(v.shape[::-1], shape[::-1], strict=False)
    ):
        raise NotImplementedError(
            "element by element: the result would be larger than the sparse array.\n"
            f"    sparse: {tuple(shape)}\n    dense: {v.shape}"
        )
    v = lax.expand_dims(v, range(len(shape) - v.ndim))
    n = indices.ndim - 2
    sizes = v.shape[n : len(shape) - n_dense]

    def element(indices: Any, v: Any) -> Any:
        at = [
            jnp.zeros_like(i) if size == 1 else i
            for i, size in zip(columns(indices), sizes, strict=True)
        ]
        return v.at[tuple(at)].get(mode="fill", fill_value=fill) if at else v[None]

    return nfold_vmap(element, n)(indices, v)


def _bcoo_multiply_dense(data: Array, indices: Any, v: Array, *, spinfo: SparseInfo) -> Any:
    """The data of a BCOO array times elements of a dense array that broadcasts to its shape."""
    layout = validate_bcoo(data, indices, spinfo.shape)
    factor = dense_at(indices, v, spinfo.shape, layout.n_dense, 0)
    return jnp.multiply(data, factor)


@tracebacks.api_boundary
def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> BCOO:
    """A BCOO array times a dense one element by element, as a BCOO array.

    v: of sizes that broadcast to the shape of sp_mat. Raises NotImplementedError if the product
    would be larger.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.bcoo_multiply_dense(sparse.eye(3), jnp.arange(3.)).data
    Array([0., 1., 2.], dtype=float32)
    """
    data = _bcoo_multiply_dense(sp_mat.data, sp_mat.indices, v, spinfo=sp_mat._info)
    return BCOO(
        (data, sp_mat.indices),
        shape=sp_mat.shape,
        indices_sorted=sp_mat.indices_sorted,
        unique_indices=sp_mat.unique_indices,
    )


@tracebacks.api_boundary
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of two BCOO arrays element by element; it stores no more than one of them.

    The arrays have as many axes; sizes 1 are repeated. Raises ValueError if shapes do not fit.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> M = sparse.BCOO.fromdense(jnp.array([0., 2., 3.]))
    >>> sparse.bcoo_multiply_sparse(M, M).todense()
    Array([0., 4., 9.], dtype=float32)
    """
    if lhs.ndim != rhs.ndim or any(
        a != b and 1 not in (a, b) for a, b in zip(lhs.shape, rhs.shape, strict=True)
    ):
        raise ValueError(
            f"bcoo_multiply_sparse: shapes do not fit.\n    lhs: {lhs!r}\n    rhs: {rhs!r}"
        )
    n_batch, n_dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(mat, n_batch=n_batch, n_dense=n_dense) for mat in (lhs, rhs))
    shape = tuple(b if a == 1 else a for a, b in zip(lhs.shape, rhs.shape, strict=True))
    m = n_batch + lhs.n_sparse
    if rhs.shape[n_batch:m] == shape[n_batch:m] and lhs.shape[n_batch:m] != shape[n_batch:m]:
        lhs, rhs = rhs, lhs
    lhs = bcoo_broadcast_in_dim(lhs, shape=shape, broadcast_dimensions=range(len(shape)))
    # Along sparse axes of size 1, each element of lhs meets all elements of rhs.
    paired = [k for k in range(m - n_batch) if rhs.shape[n_batch + k] == shape[n_batch + k]]
    kind = jnp.promote_types(lhs.dtype, rhs.dtype)
    sizes = shape[n_batch:m]

    def element(ld: Any, li: Any, rd: Any, ri: Any) -> Any:
        inside = places.inside(ri, rhs.shape[n_batch:m])
        at = np.array(paired, int)
        of_rhs = places.kept(inside, ri[:, at], [sizes[k] for k in paired])
        rd = jnp.where(lax.expand_dims(inside, range(1, rd.ndim)), rd, jnp.zeros((), rd.dtype))
        return ld * places.sums_at(li[:, at], of_rhs, rd, [sizes[k] for k in paired])

    ld, rd = lhs.data.astype(kind), rhs.data.astype(kind)
    data = nfold_vmap(element, n_batch)(ld, lhs.indices, rd, rhs.indices)
    return BCOO(
        (data, lhs.indices),
        shape=shape,
        indices_sorted=lhs.indices_sorted,
        unique_indices=lhs.unique_indices,
    )
