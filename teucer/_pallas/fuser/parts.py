"""Which part of an array a step of a kernel needs: for each axis a size, and where it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Atom
from teucer._pallas.specs import BlockSpec, dim_of, no_block_spec


class Number(NamedTuple):
    """The block number that the index map of spec `spec` gives along an axis."""

    spec: int
    axis: int


class Shifted(NamedTuple):
    """A block number so many blocks further."""

    start: Any
    by: int


class Scaled(NamedTuple):
    """`start * by + more`: the number of a block along two axes that are one."""

    start: Any
    by: int
    more: Any


class Quotient(NamedTuple):
    """`start // by`: the place along the first of two axes that are one."""

    start: Any
    by: int


class Remainder(NamedTuple):
    """`start % by`: the number of the block along the second of two axes that are one."""

    start: Any
    by: int


class Given(NamedTuple):
    """A scalar of the program, no less than 0 and no more than `limit`."""

    atom: Atom
    limit: int


class Part(NamedTuple):
    """The part along one axis: `size` elements, from the block number `start`; seen: whether the
    kernel sees the axis."""

    size: int
    start: Any
    seen: bool = True


Parts = tuple[Part, ...]


def whole(shape: Sequence[int]) -> Parts:
    """The parts that make up all of an array: whole axes."""
    return tuple([Part(n, 0) for n in shape])


def parts_of_spec(spec: Any, number: int, shape: Sequence[int], op: str) -> Parts:
    """The part that a BlockSpec says. number: by which its index map is known."""
    if spec is no_block_spec or spec is None or spec.block_shape is None:
        return whole(shape)
    dims = list(map(dim_of, spec.block_shape))
    if len(dims) != len(shape):
        raise ValueError(
            f"{op}: block_shape {spec.block_shape} is for arrays of {len(dims)} axes, not for "
            f"shape {tuple(shape)}."
        )
    if any(not d.counts_blocks for d in dims):
        raise NotImplementedError(
            f"{op}: blocks that begin at elements, {spec.block_shape}, are not fused.\n"
            "  Use blocks that are counted, pl.Blocked."
        )
    at_0 = [
        spec.index_map is None or (d.size == n and not d.squeezed)
        for d, n in zip(dims, shape, strict=True)
    ]
    return tuple(
        [
            Part(d.size, 0 if at_0[i] else Number(number, i), not d.squeezed)
            for i, d in enumerate(dims)
        ]
    )


def spec_of_parts(
    parts: Parts, index_map: Callable[..., object], like: BlockSpec | None
) -> BlockSpec:
    """The BlockSpec of a part; memory space and pipeline mode are taken from the spec of the
    whole."""
    shape = tuple([p.size if p.seen else None for p in parts])
    if like is None:
        return BlockSpec(shape, index_map)
    return BlockSpec(shape, index_map, like.pipeline_mode, memory_space=like.memory_space)


class Numbers:
    """Block numbers at one place of the grid. scalar: computes a scalar of the program."""

    def __init__(
        self, specs: Sequence[object], place: Sequence[object], scalar: Callable[[Atom], Any]
    ) -> None:
        self.specs, self.place, self.scalar = specs, tuple(place), scalar
        self.found: dict[int, Any] = {}

    def of(self, start: int) -> Any:
        """The number of the block at which a part starts."""
        if isinstance(start, int):
            return start
        if isinstance(start, Number):
            if start.spec not in self.found:
                found = self.specs[start.spec].index_map(*self.place)
                self.found[start.spec] = found if isinstance(found, tuple | list) else (found,)
            return self.found[start.spec][start.axis]
        if isinstance(start, Given):
            return lax.clamp(
                np.int32(0),
                lax.convert_element_type(self.scalar(start.atom), np.int32),
                np.int32(start.limit),
            )
        inner = self.of(start.start)
        if isinstance(start, Shifted):
            return inner + start.by
        if isinstance(start, Scaled):
            return inner * start.by + self.of(start.more)
        return inner // start.by if isinstance(start, Quotient) else inner % start.by


def begin_at(part: Part, element: int) -> Part | None:
    """`part`, counted from element 0 of an array in place of `element`.

    None if `element` is not the beginning of a block.
    """
    if element % part.size:
        return None
    return part if element == 0 else part._replace(start=Shifted(part.start, element // part.size))
