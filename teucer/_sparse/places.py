"""The places of stored elements as keys.

Their order, which are equal, which are of the array at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp

if TYPE_CHECKING:
    from teucer._core.typing import Array


NOWHERE = np.iinfo(np.int32).max  # a number that no place has


def wide(indices: Any) -> Any:
    """Indices in a dtype in which the sizes of axes can be written."""
    return indices.astype(np.int32) if indices.dtype.itemsize < 4 else indices


def row(values: Sequence[int], x: Any) -> Any:
    """Numbers that go with the last axis of x, with as many axes as x, in its dtype."""
    return np.array(list(values), x.dtype).reshape((1,) * (x.ndim - 1) + (-1,))


def kept(keep: Any, indices: Any, sizes: Sequence[int]) -> Any:
    """Index vectors where bool[...] keep says so, elsewhere the sizes, which are out of bounds:
    int[..., n]."""
    return jnp.where(keep[..., None], indices, row(sizes, indices))


def inside(indices: Any, sizes: Sequence[int]) -> Any:
    """Whether each index vector is within the array: int[..., n] -> bool[...]."""
    if not indices.shape[-1]:
        return jnp.ones(indices.shape[:-1], bool)
    indices = wide(indices)
    return ((indices >= 0) & (indices < row(sizes, indices))).all(-1)


def keys(indices: Array, sizes: Sequence[int]) -> tuple[Any, ...]:
    """Keys with the lexicographic order of the index vectors: one number if 32 bits are enough.

    int[nse, n] -> arrays int[nse]. All vectors out of bounds have the same key, the greatest.
    """
    n = indices.shape[-1]
    limits = [int(s) for s in sizes]
    indices = wide(indices)
    places = kept(inside(indices, sizes), indices, limits)
    if not n:
        return (jnp.zeros(indices.shape[:1], np.int32),)
    if np.prod([float(s + 1) for s in limits]) < 2.0**31:
        key = jnp.zeros(indices.shape[:1], np.int32)
        for k, s in enumerate(limits):
            key = key * (s + 1) + places[:, k].astype(np.int32)
        return (key,)
    return tuple(places[:, k] for k in range(n))


def order(indices: Array, sizes: Sequence[int]) -> tuple[Any, tuple[Any, ...]]:
    """The stable permutation that sorts index vectors, and their sorted keys."""
    found = keys(indices, sizes)
    *ordered, permutation = lax.sort(
        (*found, jnp.arange(indices.shape[0], dtype=np.int32)), num_keys=len(found)
    )
    return permutation, tuple(ordered)


class Groups(NamedTuple):
    """Elements by place. permutation: of the elements, by place; group: of each in that order, the
    number of its place, NOWHERE where it is out of bounds; starts: whether it is the first of its
    place; count: of places."""

    permutation: Any
    group: Any
    starts: Any
    count: Any


def groups(indices: Array, sizes: Sequence[int]) -> Groups:
    """Which elements stand at one place: int[nse, n] -> arrays of length nse."""
    permutation, ordered = order(indices, sizes)
    nse = indices.shape[0]
    if not nse:
        none = jnp.zeros(0, np.int32)
        return Groups(permutation, none, none.astype(bool), jnp.int32(0))
    differs = jnp.zeros(nse - 1, bool)
    for key in ordered:
        differs = differs | (key[1:] != key[:-1])
    valid = inside(indices, sizes)[permutation]
    starts = jnp.concatenate([jnp.ones(1, bool), differs]) & valid
    group = jnp.cumsum(starts, dtype=np.int32) - 1
    return Groups(permutation, jnp.where(valid, group, NOWHERE), starts, starts.sum(dtype=np.int32))


def first_of_each(indices: Any, sizes: Sequence[int]) -> Any:
    """Whether each element is the first that stands at its place: int[nse, n] -> bool[nse]."""
    found = groups(indices, sizes)
    return jnp.zeros(indices.shape[0], bool).at[found.permutation].set(found.starts)


def sums_at(wanted: Any, indices: Any, data: Any, sizes: Sequence[int]) -> Any:
    """The sum of the elements that stand at each wanted place.

    int[m, n], int[nse, n], T[nse, *dense] -> T[m, *dense]; 0 where there is none, or out of bounds.
    """
    m = wanted.shape[0]
    kind = np.promote_types(wanted.dtype, indices.dtype)
    found = groups(jnp.concatenate([wanted.astype(kind), indices.astype(kind)]), sizes)
    group = jnp.zeros(found.group.shape, np.int32).at[found.permutation].set(found.group)
    sums = (
        jnp.zeros((group.shape[0], *data.shape[1:]), data.dtype)
        .at[group[m:]]
        .add(data, mode="drop")
    )
    return sums.at[group[:m]].get(mode="fill", fill_value=0)
