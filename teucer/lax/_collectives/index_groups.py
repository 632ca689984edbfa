"""Groups of the elements of named axes (`axis_index_groups`), each of which has a collective of its
own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core import array_ops
from teucer._core.primitive import Axis
from teucer._transform.batch import batch_flat
from teucer.lax._collectives.varying import names_of, size_of
from teucer.lax._dynamic import index_take
from teucer.lax._joining import concatenate
from teucer.lax._structure import reshape

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Size


def groups_of(
    axis_name: object, axis_index_groups: Sequence[Sequence[int]] | None
) -> tuple[tuple[int, ...], ...] | None:
    """The groups of the elements of axes, as a tuple of tuples.

    Raises ValueError unless each element is in one of them.
    """
    if axis_index_groups is None:
        return None
    groups = tuple(tuple(operator.index(i) for i in group) for group in axis_index_groups)
    if sorted(i for group in groups for i in group) != list(range(size_of(names_of(axis_name)))):
        raise ValueError(
            f"axis_index_groups must cover all indices exactly once, got {groups} for the axis "
            f"{axis_name} of size {size_of(names_of(axis_name))}."
        )
    return groups


def group_size(names: Sequence[object], groups: Sequence[Sequence[int]] | None) -> Any:
    """The number of elements that take part in a collective with each other.

    Raises ValueError if groups differ in size.
    """
    if groups is None:
        return size_of(names)
    if len({len(group) for group in groups}) != 1:
        raise ValueError(
            f"axis_index_groups must all be the same size, got {groups}.\n"
            "  Only psum, pmean, pmax and pmin take groups of several sizes: the result of "
            "others has a shape that depends on the size."
        )
    return len(groups[0])


def number_within(
    groups: Sequence[Sequence[int]], of: Callable[[Sequence[int], int], int]
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """int32[elements]: `of(group, number in the group)` for each element, by its place in the
    axes."""
    numbers = np.zeros(sum(map(len, groups)), np.int32)
    for number, group in enumerate(groups):
        numbers[list(group)] = of(group, number)
    return numbers


def taken(x: ArrayLike, places: Sequence[int]) -> Any:
    """The elements of x at static places of its first axis."""
    return index_take(x, (np.asarray(places, np.int32),), (0,))


def on_groups(
    f: Callable[[object], tuple[object, int | None]], x: Array, groups: Sequence[Sequence[int]]
) -> Any:
    """T[elements, ...]: a collective on a batch, done on the part of each group.

    x: T[elements, ...]. f: takes the batch of one group, T[size, ...], and gives its result and the
    batch axis of that, or None where all elements have the same. Groups of one size are done
    together.
    """
    by_size: dict[int, list[Sequence[int]]] = {}
    for group in groups:
        by_size.setdefault(len(group), []).append(group)
    results, order = [], []
    for size, alike in by_size.items():
        places = [i for group in alike for i in group]
        batches = taken(x, places)
        batches = reshape(batches, (len(alike), size, *np.shape(batches)[1:]))

        def one(batch: Sequence[Size], size: int = size) -> tuple[Any, ...]:
            y, dim = f(batch)
            return (array_ops.to_axis(y, dim, size, 0),)

        (y,), (dim,) = batch_flat(one, Axis(len(alike)), (batches,), (0,))
        y = array_ops.to_axis(y, dim, len(alike), 0)
        results.append(reshape(y, (len(places), *np.shape(y)[2:])))
        order += places
    return taken(
        results[0] if len(results) == 1 else concatenate(results, 0), np.argsort(order).tolist()
    )
