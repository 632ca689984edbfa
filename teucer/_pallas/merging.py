"""Steps of a grid done together.

Neighbours that write blocks of their own become one step on larger blocks.

A step is a few small loops for XLA on the CPU, each on one core. Larger steps cost less for each
element, products of matrices are larger, and loops are spread over cores. The computation of a step
does not change: lanes of `vmap` take the place of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._core.reference_types import RefEffect
from teucer._core.stage import stage_jaxpr
from teucer._dialects.references.discharge import Discharged, discharged
from teucer._optimize.passes import optimize
from teucer._pallas import steps
from teucer._pallas.records import Block, Kernel
from teucer._transform.vmap import vmap

if TYPE_CHECKING:
    from teucer._core.typing import Size, Value


# Steps are merged until their blocks have so many elements: benchmarks/notes/kernels.md.
_ENOUGH = 2**22


class Lanes(NamedTuple):
    """How many neighbouring places along axes of the grid are one step: pairs (axis, count), in the
    order of the axes."""

    counts: tuple[tuple[int, int], ...]

    def count(self, axis: int | None) -> int:
        return dict(self.counts).get(axis, 1) if axis is not None else 1


ONE_BY_ONE = Lanes(())


def body_of(kernel: Kernel) -> Discharged:
    """A step on values: (constants, place, dynamic sizes, scalars, blocks, scratch) -> the blocks
    and scratch that it changes."""
    first = kernel.n_consts + len(kernel.grid) + kernel.grid.count(None)
    return discharged(kernel.jaxpr, (*[None] * first, *range(len(kernel.jaxpr.in_avals) - first)))


def along(block: Block, rank: int) -> tuple[int | None, ...]:
    """For each axis of a block the axis of the grid whose place is its number of the block; None
    for others."""
    if block.index is None:
        return (None,) * len(block.dims)
    jaxpr = block.index.jaxpr
    place = jaxpr.invars[block.n_consts : block.n_consts + rank]
    return tuple(
        [
            place.index(v) if v in place and d.counts_blocks else None
            for v, d in zip(jaxpr.outvars, block.dims, strict=True)
        ]
    )


def lanes_of(kernel: Kernel) -> Lanes:
    """Which steps may be done together, and how many are worth it. Cheap but for kernels with
    scratch memory."""
    if (
        any(not isinstance(e, RefEffect) for e in kernel.jaxpr.effects)
        or kernel.n_scalars
        or any(g < len(kernel.ins) for g in body_of(kernel).changed)
        or any(b.array.symbolic for b in (*kernel.ins, *kernel.outs))
    ):
        return ONE_BY_ONE
    rank, blocks = len(kernel.grid), (*kernel.ins, *kernel.outs)
    used = {v for eqn in kernel.jaxpr.eqns for v in eqn.invars}
    place = kernel.jaxpr.jaxpr.invars[kernel.n_consts : kernel.n_consts + rank]
    moving = [(along(b, rank), steps.axes_of(b, rank)) for b in blocks]
    free = [
        a
        for a, n in enumerate(kernel.grid)
        if n not in (None, 0, 1)
        and place[a] not in used
        and all(_moves_alone(b, m, a, n) for b, m in zip(blocks, moving, strict=True))
        and all(a in m[1] for m in moving[len(kernel.ins) :])
    ]
    size, counts = sum(math.prod(b.inner.shape) for b in blocks), {}
    for a in reversed(free):
        own = sum(
            math.prod(b.inner.shape) for b, m in zip(blocks, moving, strict=True) if a in m[1]
        )
        n = kernel.grid[a]
        assert n is not None
        c = max(
            d for d in range(1, n + 1) if n % d == 0 and (d == 1 or size + own * (d - 1) <= _ENOUGH)
        )
        size += own * (c - 1)
        if c > 1:
            counts[a] = c
    if counts and kernel.scratch and not _begins_anew(kernel, max(counts)):
        return ONE_BY_ONE
    return Lanes(tuple(sorted(counts.items())))


def _moves_alone(block: Block, moving: tuple[Any, frozenset[int]], axis: int, n: Size) -> bool:
    """Whether a block stays in place along an axis of the grid, or goes from one neighbour to the
    next within the array."""
    dims, depends = moving
    if axis not in depends:
        return True
    if dims.count(axis) != 1:
        return False
    d = dims.index(axis)
    others = [v for i, v in enumerate(block.index.jaxpr.outvars) if i != d]  # type: ignore[union-attr]
    place = block.index.jaxpr.invars[block.n_consts + axis]  # type: ignore[union-attr]
    made = any(place in eqn.invars for eqn in block.index.jaxpr.eqns)  # type: ignore[union-attr]
    low, high = block.padding[d]
    return (
        not made
        and place not in others
        and n * block.dims[d].size <= block.array.shape[d] + low + high
    )


def _begins_anew(kernel: Kernel, last: int) -> bool:
    """Whether scratch memory is written before it is read, where all axes of the grid behind `last`
    begin."""
    body, first, rank = body_of(kernel).jaxpr, kernel.n_consts, len(kernel.grid)
    zeros = range(first + last + 1, first + rank)

    def at_the_beginning(*args: object) -> Any:
        return body(*(np.int32(0) if i in zeros else x for i, x in enumerate(args)))

    jaxpr = optimize(stage_jaxpr(at_the_beginning, body.in_avals).jaxpr)
    used = {v for eqn in jaxpr.eqns for v in eqn.invars} | set(jaxpr.outvars)
    return used.isdisjoint(jaxpr.invars[len(jaxpr.invars) - len(kernel.scratch) :])


class Parts(NamedTuple):
    """How a block of a step of several lanes is read and written.

    sizes: of the part of the array. split: the shape with lanes as axes. lanes: for each axis of
    lanes, from outside, its place in the rest of the shape; None if all lanes see the same.
    """

    sizes: tuple[int, ...]
    split: tuple[int, ...]
    lanes: tuple[int | None, ...]


def parts_of(block: Block, lanes: Lanes, rank: int) -> Parts:
    dims = along(block, rank)
    split: list[int] = []
    at: dict[int, int] = {}
    for d, axis in zip(block.dims, dims, strict=True):
        if axis is not None and lanes.count(axis) > 1:
            at[axis] = len(split)
            split.append(lanes.count(axis))
        if not d.squeezed:
            split.append(d.size)
    before: list[int] = []
    places: list[int | None] = []
    for axis, _ in lanes.counts:
        place = at.get(axis)
        places.append(None if place is None else place - sum(p < place for p in before))
        before += [] if place is None else [place]
    sizes = tuple([d.size * lanes.count(a) for d, a in zip(block.dims, dims, strict=True)])
    return Parts(sizes, tuple(split), tuple(places))


def over_lanes(
    body: Discharged, lanes: Lanes, blocks: Sequence[Parts], n_before: int, n_scratch: int
) -> Any:
    """A step of several lanes: (values that all lanes share, blocks, scratch) -> the changed
    values, by group.

    n_before: how many operands come before the blocks. Scratch memory has the lanes in front.
    """

    def at_level(k: int) -> list[int | None]:
        return [*[None] * n_before, *(b.lanes[k] for b in blocks), *[0] * n_scratch]

    def f(*operands: Value) -> list[Any]:
        return list(body.jaxpr(*operands))

    for k in reversed(range(len(lanes.counts))):
        level = at_level(k)
        f = vmap(f, in_axes=level, out_axes=[level[n_before + g] for g in body.changed])
    return f
