"""A kernel ready to run.

A jaxpr over references to blocks, its grid, and which parts of arrays a step sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.types import ShapedArray
from teucer._pallas.specs import Dim


class Block(NamedTuple):
    """Which part of an array a step sees.

    index: (*constants, *place, *references to scalars) -> starts; n_consts: how many operands are
    its constants.
    """

    array: ShapedArray
    dims: tuple[Dim, ...]
    index: ClosedJaxpr | None
    n_consts: int
    memory_space: Any
    pipeline_mode: Any = None

    @property
    def inner(self) -> ShapedArray:
        """The type of the block as the kernel sees it."""
        return self.array.update(
            shape=tuple(d.size for d in self.dims if not d.squeezed), weak_type=False
        )

    @property
    def whole(self) -> bool:
        """Whether every step sees all of the array."""
        return self.index is None and all(d.padding == (0, 0) for d in self.dims)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """Elements before and behind the array so that all blocks lie within."""
        return tuple(
            [
                d.padding if not d.counts_blocks else (0, -n % d.size)
                for d, n in zip(self.dims, self.array.shape, strict=True)
            ]
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel ready to run.

    jaxpr: (*constants, *place in the grid, *dynamic sizes, *references to scalars, blocks of inputs
    and outputs, scratch) -> ().
    grid: sizes, None for sizes that are operands. aliases: (input, output) pairs that are one
    array.
    options: `compiler_params`, for the compilers of the targets. cost: of the kernel, where its
    user says it. metadata: for readers of the program.
    """

    jaxpr: ClosedJaxpr
    n_consts: int
    grid: tuple[int | None, ...]
    n_scalars: int
    ins: tuple[Block, ...]
    outs: tuple[Block, ...]
    scratch: tuple[ShapedArray, ...]
    aliases: tuple[tuple[int, int], ...]
    name: str
    options: Any = None
    cost: Any = None
    metadata: Any = None

    def __repr__(self) -> str:
        return f"{self.name}: {self.jaxpr.jaxpr}"


class Operands(NamedTuple):
    """The operands of a call by group: traced sizes of the grid, constants of kernel and index
    maps."""

    grid: list[Any]
    sizes: list[Any]
    consts: Sequence[Any]
    map_consts: list[Sequence[Any]]
    scalars: Sequence[Any]
    inputs: list[Any]

    @staticmethod
    def of(kernel: Kernel, operands: Sequence[Any]) -> Operands:
        dynamic = kernel.grid.count(None)
        sizes, rest = list(operands[:dynamic]), operands[dynamic:]
        given = iter(sizes)
        grid = [next(given) if n is None else n for n in kernel.grid]
        consts, rest = rest[: kernel.n_consts], rest[kernel.n_consts :]
        map_consts = []
        for b in (*kernel.ins, *kernel.outs):
            map_consts.append(rest[: b.n_consts])
            rest = rest[b.n_consts :]
        return Operands(
            grid,
            sizes,
            consts,
            map_consts,
            rest[: kernel.n_scalars],
            list(rest[kernel.n_scalars :]),
        )
