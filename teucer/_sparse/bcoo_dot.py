"""Products with BCOO buffers as primitives.

Products of a sparse array and a dense one, and products of two dense ones at given places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._sparse.bcoo_dense import columns
from teucer._sparse.contraction import (
    Contraction,
    as_numbers,
    at_places,
    contraction,
    product_dtype,
)
from teucer._sparse.defined import defined
from teucer._sparse.layout import validate_bcoo
from teucer._sparse.util import SparseInfo, broadcasting_vmap

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike


Role = tuple[str, int]


@defined("bcoo_dot_general")
def bcoo_dot_general_p(
    data: Array,
    indices: ArrayLike,
    rhs: Array,
    *,
    dimension_numbers: object,
    preferred_element_type: DTypeLike,
    lhs_spinfo: SparseInfo,
) -> tuple[Any, ...]:
    """The dense product of a BCOO array and a dense one, of axes of any kind.

    For each stored element the blocks of rhs at its place are taken, along the axes that are paired
    with sparse ones. Their products are added at the element's place along the other sparse axes.
    """
    shape = lhs_spinfo.shape
    layout = validate_bcoo(data, indices, shape)
    c = contraction("bcoo_dot_general", shape, rhs.shape, dimension_numbers)
    dtype = product_dtype(data, rhs, preferred_element_type)
    data, rhs = data.astype(dtype), rhs.astype(dtype)
    roles = _lhs_roles(c)
    n, m = layout.n_batch, layout.n_batch + layout.n_sparse
    batch, sparse, dense = roles[:n], roles[n:m], roles[m:]
    rhs = lax.transpose(
        rhs, [*_paired(c, batch), *_paired(c, sparse), *_paired(c, dense), *c.rhs_free]
    )
    left = [i for i, (role, _) in enumerate(sparse) if role != "contract"]

    def element(data: Any, indices: Array, rhs: Array) -> Any:
        places = columns(indices)
        blocks = at_places(
            rhs, [place for place, (role, _) in zip(places, sparse, strict=True) if role != "free"]
        )
        products = _products(data, blocks, [role for role, _ in dense])
        if not left:
            return products.sum(0, dtype=dtype)
        out = jnp.zeros((*(shape[n + i] for i in left), *products.shape[1:]), dtype)
        return out.at[tuple(places[i] for i in left)].add(
            products, mode="drop", indices_are_sorted=lhs_spinfo.indices_sorted and left[0] == 0
        )

    out = _mapped(element, [(0, 0, None if role == "free" else 0) for role, _ in batch])(
        data, indices, rhs
    )
    out = jnp.broadcast_to(out, (*shape[:n], *out.shape[n:]))
    out = out.sum([i for i, (role, _) in enumerate(batch) if role == "contract"], dtype=dtype)
    found = [r for r in batch if r[0] != "contract"] + [sparse[i] for i in left]
    found += [r for r in dense if r[0] == "batch"] + [r for r in dense if r[0] == "free"]
    return (_in_order(out, found, c),)


def _lhs_roles(c: Contraction) -> list[Role]:
    """For each axis of lhs: its role, and its place in the list of axes with this role."""
    lists = {"contract": c.lhs_contract, "batch": c.lhs_batch, "free": c.lhs_free}
    role = {a: (name, k) for name, axes in lists.items() for k, a in enumerate(axes)}
    return [role[a] for a in range(len(role))]


def _paired(c: Contraction, roles: Sequence[Role]) -> list[int]:
    """The axes of rhs that go with axes of lhs."""
    return [
        c.rhs_contract[k] if role == "contract" else c.rhs_batch[k]
        for role, k in roles
        if role != "free"
    ]


def _in_order(out: Any, roles: Sequence[Role], c: Contraction) -> Any:
    """A product in the order of axes of `lax.dot_general`. It has axes of lhs first, with these
    roles, then axes of rhs."""
    target = [k if role == "batch" else len(c.lhs_batch) + k for role, k in roles]
    rest = range(len(target), out.ndim)
    return lax.transpose(out, [*(target.index(i) for i in range(len(target))), *rest])


def _products(data: Any, blocks: Any, dense: Sequence[str]) -> Any:
    """For each stored element, the product of its block and the block of rhs.

    data: T[nse, *dense]; blocks: T[nse or 1, *paired, *free] -> T[nse, *batch, *dense free, *free]
    """
    if not dense:
        return lax.expand_dims(data, range(1, blocks.ndim)) * blocks
    paired = [i for i, role in enumerate(dense) if role != "free"]
    axes = {"contract": ([], []), "batch": ([], [])}  # type: dict[str, tuple[list[int], list[int]]]
    for at, i in enumerate(paired):
        left, right = axes[dense[i]]
        left.append(i + 1)
        right.append(at + 1)
    blocks = jnp.broadcast_to(blocks, (data.shape[0], *blocks.shape[1:]))
    (lb, rb) = axes["batch"]
    return lax.dot_general(data, blocks, (axes["contract"], ((0, *lb), (0, *rb))))


def _mapped(
    fun: Callable[..., object], axes: Sequence[tuple[int | None, ...]]
) -> Callable[..., Any]:
    """fun mapped over leading axes; of each, which operands have it."""
    for in_axes in reversed(axes):
        fun = broadcasting_vmap(fun, in_axes)
    return fun


@defined("bcoo_dot_general_sampled")
def bcoo_dot_general_sampled_p(
    A: Array, B: Array, indices: Array, *, dimension_numbers: object
) -> tuple[Any, ...]:
    """The product of two dense arrays, at places: int[*batch, nse, n_sparse] -> T[*batch, nse,
    *dense]."""
    c = contraction("bcoo_dot_general_sampled", A.shape, B.shape, dimension_numbers)
    dtype = product_dtype(A, B, None)
    A, B = A.astype(dtype), B.astype(dtype)
    n, n_sparse = indices.ndim - 2, indices.shape[-1]
    if n + n_sparse > len(c.shape):
        raise ValueError(
            f"bcoo_dot_general_sampled: indices.shape={indices.shape} name more axes than the "
            f"product has, {c.shape}."
        )
    # For each axis of the product, the axes of A and B that it comes from.
    axes: list[tuple[int | None, int | None]] = [*zip(c.lhs_batch, c.rhs_batch, strict=True)]
    axes += [(a, None) for a in c.lhs_free] + [(None, b) for b in c.rhs_free]
    batch, sparse, dense = axes[:n], axes[n : n + n_sparse], axes[n + n_sparse :]
    A = lax.transpose(A, [*_own(axes, 0), *c.lhs_contract])
    B = lax.transpose(B, [*_own(axes, 1), *c.rhs_contract])
    shared = [(a, b) for a, b in dense if a is not None and b is not None]
    k, of_lhs, of_rhs = len(c.lhs_contract), len(_own(dense, 0)), len(_own(dense, 1))

    def element(A: Any, B: Array, indices: Array) -> Any:
        places = columns(indices)
        left, right = (
            at_places(
                x, [place for place, own in zip(places, sparse, strict=True) if own[i] is not None]
            )
            for i, x in enumerate((A, B))
        )
        nse = indices.shape[0]
        left, right = (jnp.broadcast_to(x, (nse, *x.shape[1:])) for x in (left, right))
        both = tuple(range(len(shared) + 1))
        return lax.dot_general(
            left,
            right,
            (
                (
                    tuple(range(1 + of_lhs, 1 + of_lhs + k)),
                    tuple(range(1 + of_rhs, 1 + of_rhs + k)),
                ),
                (both, both),
            ),
        )

    in_axes = [(None if a is None else 0, None if b is None else 0, 0) for a, b in batch]
    return (_mapped(element, in_axes)(A, B, indices),)


def _own(axes: Sequence[tuple[int | None, int | None]], i: int) -> list[int]:
    return [a for pair in axes if (a := pair[i]) is not None]


@tracebacks.api_boundary
def bcoo_dot_general_sampled(
    A: ArrayLike, B: ArrayLike, indices: ArrayLike, *, dimension_numbers: object
) -> Any:
    """The product of two dense arrays, computed only at the places that indices name.

    A, B: as for `lax.dot_general`, with dimension_numbers. indices: int[*batch, nse, n_sparse], of
    a BCOO array of the shape of the product. The result is the data of such an array: T[*batch,
    nse, *dense].

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> x = jnp.arange(3.)
    >>> sparse.bcoo_dot_general_sampled(x, x, jnp.array([[2, 1], [2, 2]]),
    ...     dimension_numbers=(([], []), ([], [])))
    Array([2., 4.], dtype=float32)
    """
    A, B, indices = jnp.asarray(A), jnp.asarray(B), jnp.asarray(indices)
    return bcoo_dot_general_sampled_p.call(
        A, B, indices, dimension_numbers=as_numbers(dimension_numbers)
    )[0]


def _bcoo_dot_general(
    data: Any,
    indices: Any,
    rhs: Any,
    *,
    dimension_numbers: object,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    """`bcoo_dot_general` of buffers and a dense array."""
    return bcoo_dot_general_p.call(
        jnp.asarray(data),
        jnp.asarray(indices),
        jnp.asarray(rhs),
        lhs_spinfo=lhs_spinfo,
        dimension_numbers=as_numbers(dimension_numbers),
        preferred_element_type=preferred_element_type,
    )[0]


def _bcoo_rdot_general(
    lhs: Any,
    data: Array,
    indices: Array,
    *,
    dimension_numbers: object,
    preferred_element_type: DTypeLike,
    rhs_spinfo: SparseInfo,
) -> Any:
    """`bcoo_dot_general` of a dense array and buffers: the other way round, with the axes
    exchanged."""
    (lc, rc), (lb, rb) = as_numbers(dimension_numbers)
    out = _bcoo_dot_general(
        data,
        indices,
        lhs,
        lhs_spinfo=rhs_spinfo,
        dimension_numbers=((rc, lc), (rb, lb)),
        preferred_element_type=preferred_element_type,
    )
    n, free = len(lb), len(rhs_spinfo.shape) - len(rc) - len(rb)
    return lax.transpose(out, [*range(n), *range(n + free, out.ndim), *range(n, n + free)])
