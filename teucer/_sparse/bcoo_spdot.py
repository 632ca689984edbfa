"""Products of two BCOO arrays: pairs of stored elements that meet along the contracted axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._sparse import places as _places
from teucer._sparse import util
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_order import bcoo_sum_duplicates_p
from teucer._sparse.contraction import Contraction, as_numbers, contraction, product_dtype
from teucer._sparse.defined import defined
from teucer._sparse.layout import validate_bcoo
from teucer._sparse.util import SparseInfo, broadcasting_vmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Array, DTypeLike


# Up to so many pairs of elements, all pairs are compared; beyond, matching pairs are found on the
# host if indices are known.
FEW_PAIRS = 1 << 20
MOST_PAIRS = 1 << 30


class _Axes:
    """The axes of both operands by role and kind. (C1) batch axes of the product are batch
    dimensions of both, and contracted ones are sparse; (C2) batch dimensions that rhs leaves free
    do not stand behind sparse ones of lhs."""

    def __init__(self, c: Contraction, lhs_n_batch: int, rhs_n_batch: int) -> None:
        self.lhs_free_batch = [a for a in c.lhs_free if a < lhs_n_batch]
        self.rhs_free_batch = [a for a in c.rhs_free if a < rhs_n_batch]
        self.lhs_free = [a - lhs_n_batch for a in c.lhs_free if a >= lhs_n_batch]
        self.rhs_free = [a - rhs_n_batch for a in c.rhs_free if a >= rhs_n_batch]
        self.lhs_contract = [a - lhs_n_batch for a in c.lhs_contract]
        self.rhs_contract = [a - rhs_n_batch for a in c.rhs_contract]
        if self.rhs_free_batch and self.lhs_free:
            raise ValueError(
                "bcoo_dot_general: cannot have unused batch dims on rhs with unused sparse dims "
                f"on lhs.\n    batch axes of rhs that are left: {self.rhs_free_batch}\n"
                "  Make them sparse first: rhs.update_layout(n_batch=...)."
            )


@defined("bcoo_spdot_general", several=True)
def bcoo_spdot_general_p(
    lhs_data: object,
    lhs_indices: object,
    rhs_data: object,
    rhs_indices: object,
    *,
    lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo,
    dimension_numbers: object,
    preferred_element_type: DTypeLike,
) -> tuple[Any, ...]:
    """The buffers of the product."""
    left = validate_bcoo(lhs_data, lhs_indices, lhs_spinfo.shape)
    right = validate_bcoo(rhs_data, rhs_indices, rhs_spinfo.shape)
    c = contraction("bcoo_dot_general", lhs_spinfo.shape, rhs_spinfo.shape, dimension_numbers)
    axes = _Axes(c, left.n_batch, right.n_batch)
    lhs_sizes, rhs_sizes = lhs_spinfo.shape[left.n_batch :], rhs_spinfo.shape[right.n_batch :]
    sizes = [lhs_sizes[a] for a in axes.lhs_free] + [rhs_sizes[a] for a in axes.rhs_free]
    dtype = product_dtype(lhs_data, rhs_data, preferred_element_type)

    def element(ld: Any, li: object, rd: Any, ri: object) -> Any:
        ld, rd = ld.astype(dtype), rd.astype(dtype)
        products = _pairs if axes.rhs_free else _single_products
        data, indices = products(ld, li, rd, ri, axes, lhs_sizes, rhs_sizes)
        return _at_most(data, indices, sizes) if sizes else (data, indices)

    mapped: Any = element
    for _ in axes.rhs_free_batch:
        mapped = broadcasting_vmap(mapped, (None, None, 0, 0))
    for _ in axes.lhs_free_batch:
        mapped = broadcasting_vmap(mapped, (0, 0, None, None))
    for _ in c.lhs_batch:
        mapped = broadcasting_vmap(mapped)
    lhs_bufs = [
        _batch_first(x, (*c.lhs_batch, *axes.lhs_free_batch)) for x in (lhs_data, lhs_indices)
    ]
    rhs_bufs = [
        _batch_first(x, (*c.rhs_batch, *axes.rhs_free_batch)) for x in (rhs_data, rhs_indices)
    ]
    data, indices = mapped(*lhs_bufs, *rhs_bufs)
    return data, indices


def _single_products(
    ld: Any, li: Any, rd: Any, ri: Any, axes: _Axes, lhs_sizes: Any, rhs_sizes: Any
) -> tuple[Any, Any]:
    """Data and indices of a product with rhs contracted along all its axes: one for each element of
    lhs."""
    left, right = (np.array(a, int) for a in (axes.lhs_contract, axes.rhs_contract))
    factor = _places.sums_at(li[:, left], ri[:, right], rd, [rhs_sizes[b] for b in right])
    within = _places.inside(li, lhs_sizes)
    data = jnp.where(within, ld * factor, jnp.zeros((), ld.dtype))
    if not axes.lhs_free:
        return data.sum(dtype=data.dtype)[None], jnp.zeros((1, 0), li.dtype)
    sizes = [lhs_sizes[a] for a in axes.lhs_free]
    return data, _places.kept(within, li[:, np.array(axes.lhs_free, int)], sizes)


def _pairs(
    ld: Any, li: Any, rd: Any, ri: Any, axes: _Axes, lhs_sizes: Any, rhs_sizes: Any
) -> tuple[Any, Any]:
    """Data and indices of a product: one for each pair of elements."""
    if li.shape[0] * ri.shape[0] > MOST_PAIRS:
        raise util.SparseEfficiencyError(
            f"bcoo_dot_general of two sparse arrays: {li.shape[0]} elements of lhs and "
            f"{ri.shape[0]} of rhs make too many pairs to look at where indices are traced.\n"
            "  Compute it outside jit, where the pairs that meet are known, or make one of the "
            "arrays dense."
        )
    kind = np.promote_types(li.dtype, ri.dtype)
    li, ri = li.astype(kind), ri.astype(kind)
    meets = _places.inside(li, lhs_sizes)[:, None] & _places.inside(ri, rhs_sizes)[None]
    for a, b in zip(axes.lhs_contract, axes.rhs_contract, strict=True):
        meets = meets & (li[:, a, None] == ri[None, :, b])
    data = jnp.where(meets, ld[:, None] * rd[None], jnp.zeros((), ld.dtype))
    places = [jnp.broadcast_to(li[:, a, None], meets.shape) for a in axes.lhs_free]
    places += [jnp.broadcast_to(ri[None, :, b], meets.shape) for b in axes.rhs_free]
    sizes = [lhs_sizes[a] for a in axes.lhs_free] + [rhs_sizes[b] for b in axes.rhs_free]
    indices = _places.kept(meets, jnp.stack(places, -1), sizes)
    return data.reshape(-1), indices.reshape(-1, len(sizes))


def _at_most(data: Array, indices: Array, sizes: Sequence[int]) -> tuple[Any, Any]:
    """Buffers that store no more than there are places."""
    most = math.prod(sizes)
    if data.shape[0] <= most:
        return data, indices
    data, indices = bcoo_sum_duplicates_p.call(
        data, indices, spinfo=SparseInfo(tuple(sizes)), nse=most
    )
    return data, indices


def _batch_first(x: Any, batch: Any) -> Any:
    return lax.transpose(x, (*batch, *range(len(batch), x.ndim)))


def spdot_general(
    lhs: BCOO, rhs: BCOO, *, dimension_numbers: object, preferred_element_type: DTypeLike
) -> BCOO:
    """The product of two BCOO arrays, as a BCOO array.

    Raises NotImplementedError for dense dimensions, and for axes of kinds that do not fit;
    ValueError and TypeError where `_Axes` and `contraction` raise them.
    """
    numbers = as_numbers(dimension_numbers)
    c = contraction("bcoo_dot_general", lhs.shape, rhs.shape, numbers)
    for name, mat, batch, contracted in (
        ("lhs", lhs, c.lhs_batch, c.lhs_contract),
        ("rhs", rhs, c.rhs_batch, c.rhs_contract),
    ):
        if mat.n_dense:
            raise NotImplementedError(
                f"bcoo_dot_general of two sparse arrays: {name} has dense dimensions, {mat!r}.\n"
                f"  Make them sparse first: {name}.update_layout(n_dense=0)."
            )
        if any(a >= mat.n_batch for a in batch) or any(a < mat.n_batch for a in contracted):
            raise NotImplementedError(
                "bcoo_dot_general of two sparse arrays: batch axes of the product must be batch "
                "dimensions, contracted ones sparse dimensions.\n"
                f"    {name}: {mat!r}, batch axes {batch}, contracted axes {contracted}"
            )
    axes = _Axes(c, lhs.n_batch, rhs.n_batch)
    many = lhs.nse * rhs.nse > FEW_PAIRS and math.prod(c.shape) > FEW_PAIRS
    if (
        many
        and lhs.n_batch == rhs.n_batch == 0
        and util.is_known(lhs.indices)
        and util.is_known(rhs.indices)
    ):
        return _by_plan(lhs, rhs, c, axes, preferred_element_type)
    data, indices = bcoo_spdot_general_p.call(
        *lhs._bufs,
        *rhs._bufs,
        lhs_spinfo=lhs._info,
        rhs_spinfo=rhs._info,
        dimension_numbers=numbers,
        preferred_element_type=preferred_element_type,
    )
    return BCOO((data, indices), shape=c.shape)


def _by_plan(lhs: BCOO, rhs: BCOO, c: Contraction, axes: _Axes, preferred: Any) -> BCOO:
    """The product where indices are known: which elements meet, and where, is found on the host;
    the result stores each place once."""
    (lhs_at, li), (rhs_at, ri) = _stored(lhs), _stored(rhs)
    sizes = [lhs.shape[a] for a in axes.lhs_contract]
    lhs_key, rhs_key = (
        _joint(li[:, axes.lhs_contract], sizes),
        _joint(ri[:, axes.rhs_contract], sizes),
    )
    by_key = np.argsort(rhs_key, kind="stable")
    first, last = (
        np.searchsorted(rhs_key[by_key], lhs_key, side=side) for side in ("left", "right")
    )
    counts = last - first
    left = np.repeat(np.arange(len(lhs_key)), counts)
    # The k-th pair of an element of lhs is with the k-th element of rhs that has its key.
    right = by_key[np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts - first, counts)]
    places = np.concatenate([li[left][:, axes.lhs_free], ri[right][:, axes.rhs_free]], 1)
    found, group = np.unique(_joint(places, c.shape), return_inverse=True)
    dtype = product_dtype(lhs.data, rhs.data, preferred)
    products = lhs.data.astype(dtype)[lhs_at[left]] * rhs.data.astype(dtype)[rhs_at[right]]
    data = jnp.zeros(len(found), dtype).at[group.reshape(-1)].add(products)
    indices = np.stack(np.unravel_index(found, c.shape), 1)
    return BCOO(
        (data, jnp.asarray(indices, lhs.indices.dtype)),
        shape=c.shape,
        indices_sorted=True,
        unique_indices=True,
    )


def _stored(mat: BCOO) -> tuple[Any, Any]:
    """Which elements of an array with no batch dimensions are within it, and their indices, as
    NumPy arrays."""
    indices = util.known(mat.indices, "indices").astype(np.int64)
    at = np.flatnonzero(((indices >= 0) & (indices < np.array(mat.shape))).all(1))
    return at, indices[at]


def _joint(indices: Any, sizes: Any) -> Any:
    return (
        np.ravel_multi_index(tuple(indices.T), tuple(sizes))
        if len(sizes)
        else np.zeros(len(indices), int)
    )
