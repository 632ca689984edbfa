"""Pipelines within kernels: blocks of references that pass by a body.

Blocks of memory that kernels do not reach are copied while the body works on others: each array has
two buffers, and semaphores tell the end of copies. Blocks of other memory are parts of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.types import ShapedArray
from teucer._pallas import kernel
from teucer._pallas.semaphores import AsyncCopy, SemaphoreType, make_async_copy
from teucer._pallas.specs import BlockSpec, MemoryRef, dim_of
from teucer.numpy._references import View


def emit_pipeline(
    body: Callable[..., None],
    *,
    grid: tuple[Any, ...],
    in_specs: object = (),
    out_specs: object = (),
    tiling: object = None,
    core_axis: object = None,
    core_axis_name: object = None,
    dimension_semantics: object = None,
    trace_scopes: bool = True,
    no_pipelining: bool = False,
    output_wait_read_only: bool = False,
    _explicit_indices: bool = False,
) -> Callable[..., None]:
    """A function of references that runs `body` on their blocks, for each place of a grid.

    body: (*references to blocks of arguments, *of results) -> None; `pl.program_id` is the place in
    this grid. in_specs, out_specs: BlockSpecs, whose blocks divide the references. The blocks of
    references in pl.ANY are copied to VMEM while the body runs on others, and back.
    core_axis_name: an axis of cores, over which the first axis of the grid is divided that
    dimension_semantics calls parallel. The rest is for compilers of kernels.
    Raises ValueError for blocks that do not divide their reference.
    """
    n_in = len(_listed(in_specs))
    specs = [*_listed(in_specs), *_listed(out_specs)]
    axis = _divided(grid, dimension_semantics, core_axis_name or core_axis)

    def run(*refs: Any, scratches: Sequence[object] = (), **options: object) -> None:
        if len(refs) != len(specs):
            raise TypeError(
                f"emit_pipeline: {len(specs)} references are wanted, one for each spec, got "
                f"{len(refs)}."
            )
        sizes, first = list(grid), [np.int32(0)] * len(grid)
        if axis is not None:
            at, name = axis
            sizes[at] = grid[at] // lax.axis_size(name)
            first[at] = lax.axis_index(name) * np.int32(sizes[at])
        views = [r if type(r) is View else View(r) for r in refs]
        arrays = [
            _Array(v, s, k >= n_in) for k, (v, s) in enumerate(zip(views, specs, strict=True))
        ]

        def place_of(i: Any) -> list[Any]:
            place: list[Any] = []
            for n, start in reversed(list(zip(sizes, first, strict=True))):
                k = lax.rem(i, jnp.int32(n))
                place.append(k if start is np.int32(0) else k + start)
                i = lax.div(i, jnp.int32(n))
            return place[::-1]

        def step(place: Sequence[Any], blocks: Sequence[Any]) -> None:
            with kernel.in_grid(place, grid):
                body(*([tuple(place)] if _explicit_indices else []), *blocks, *scratches)

        total = math.prod(sizes) if all(isinstance(n, int) for n in sizes) else _product(sizes)
        copied = [a for a in arrays if a.is_copied]
        if not copied:
            lax.fori_loop(0, total, lambda i, c: (_run_on(step, arrays, place_of(i)), c)[1], None)
            return
        kernel.run_scoped(
            lambda *memory: _pipelined(step, arrays, memory, place_of, total),
            [MemoryRef(ShapedArray((2, *a.block), a.view.dtype), a.space) for a in copied],
            [SemaphoreType.DMA((2,)) for _ in copied],
        )

    return run


def _product(sizes: Sequence[Any]) -> Any:
    total: Any = jnp.int32(1)
    for n in sizes:
        total = total * jnp.int32(n)
    return total


def _divided(grid: Sequence[Any], semantics: Any, name: Any) -> tuple[int, Any] | None:
    """The axis of the grid that cores share, and the name of theirs."""
    if name is None:
        return None
    names = [str(getattr(s, "value", s)) for s in semantics or ()]
    cores = lax.axis_size(name)
    for axis, (n, said) in enumerate(zip(grid, names, strict=False)):
        if said != "arbitrary" and isinstance(n, int) and n % cores == 0:
            return axis, name
    if cores == 1:
        return None
    raise ValueError(
        f"emit_pipeline: no parallel axis of the grid {tuple(grid)} can be divided among {cores} "
        f"cores.\n    dimension_semantics: {tuple(names)}\n  Say 'parallel' of an axis whose size "
        "is a multiple."
    )


def _listed(specs: Any) -> list[BlockSpec]:
    return list(specs) if isinstance(specs, tuple | list) else [specs]


_FAR = ("any", "hbm", "host")  # memory that kernels do not reach


class _Array:
    """An array that passes by in blocks. space: where its blocks are copied."""

    def __init__(self, view: View, spec: BlockSpec, is_result: bool) -> None:
        self.view, self.spec, self.is_result = view, spec, is_result
        self.dims = None if spec.block_shape is None else [dim_of(d) for d in spec.block_shape]
        far = str(view.aval.memory_space) in _FAR and kernel.in_kernel()
        self.is_copied = far and self.dims is not None
        self.space = spec.memory_space if spec.memory_space is not None else "vmem"
        if self.dims is not None:
            for d, n in zip(self.dims, view.shape, strict=True):
                if d.counts_blocks and n % d.size:
                    raise ValueError(
                        f"emit_pipeline: blocks of {d.size} do not divide an axis of {n}.\n"
                        f"    reference: {view.aval.str_short(True)}\n"
                        "  Choose blocks that do, or give the kernel blocks by pallas_call, which "
                        "pads."
                    )

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of a block as the body sees it."""
        return tuple(d.size for d in self.dims or () if not d.squeezed)

    def index(self, place: Sequence[Any]) -> list[Any]:
        """The numbers of the block at a place of the grid."""
        if self.spec.index_map is None:
            return [np.int32(0)] * len(self.dims or ())
        found = self.spec.index_map(*place)
        return [
            jnp.asarray(i, np.int32)
            for i in (found if isinstance(found, tuple | list) else (found,))
        ]

    def part(self, place: Sequence[Any]) -> View:
        """The block at a place of the grid, where it lies."""
        if self.dims is None:
            return self.view
        key: list[Any] = []
        for d, i in zip(self.dims, self.index(place), strict=True):
            start = i * np.int32(d.size) if d.counts_blocks and d.size != 1 else i
            key.append(start if d.squeezed else kernel.ds(start, d.size))
        return self.view.at[tuple(key)]


def _run_on(step: Callable[..., None], arrays: Sequence[_Array], place: Sequence[Any]) -> None:
    step(place, [a.part(place) for a in arrays])


def _differ(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Whether two blocks are different ones."""
    found: Any = np.bool_(False)
    for x, y in zip(a, b, strict=True):
        found = jnp.logical_or(found, x != y)
    return found


def _pipelined(
    step: Callable[..., None],
    arrays: Sequence[_Array],
    memory: Sequence[Any],
    place_of: Callable[[Any], list[Any]],
    total: Any,
) -> None:
    """Run steps while the blocks of the next one, and results of those before, are copied.

    Carried for each array that is copied: how many blocks it had before. Every other one lies in
    the same buffer.
    """
    buffers, sems = memory
    copied = [a for a in arrays if a.is_copied]

    def fetch(k: int, place: Sequence[Any], slot: Any) -> AsyncCopy:
        part = copied[k].part(place)
        return make_async_copy(part, buffers[k].at[slot], sems[k].at[slot])

    def give(k: int, place: Sequence[Any], slot: Any) -> AsyncCopy:
        part = copied[k].part(place)
        return make_async_copy(buffers[k].at[slot], part, sems[k].at[slot])

    start = place_of(jnp.int32(0))

    @kernel.when(jnp.int32(total) > 0)
    def _() -> None:
        for k, a in enumerate(copied):
            if not a.is_result:
                fetch(k, start, np.int32(0)).start()

    def one(i: Any, counts: Any) -> Any:
        i = jnp.asarray(i, np.int32)
        here, last = place_of(i), i == total - 1
        behind, before = place_of(jnp.minimum(i + 1, total - 1)), place_of(jnp.maximum(i - 1, 0))
        after, blocks = [], {}
        for k, (a, count) in enumerate(zip(copied, counts, strict=True)):
            slot = lax.rem(count, np.int32(2))
            changes = jnp.logical_and(_differ(a.index(here), a.index(behind)), ~last)
            fresh = jnp.logical_or(_differ(a.index(here), a.index(before)), i == 0)
            if a.is_result:  # the copy of two blocks ago must have left the buffer

                @kernel.when(jnp.logical_and(fresh, count >= 2))
                def _(k: int = k, slot: Any = slot) -> None:
                    give(k, here, slot).wait()
            else:

                @kernel.when(changes)
                def _(k: int = k, slot: Any = slot) -> None:
                    fetch(k, behind, 1 - slot).start()

                @kernel.when(fresh)
                def _(k: int = k, slot: Any = slot) -> None:
                    fetch(k, here, slot).wait()

            blocks[id(a)] = buffers[k].at[slot]
            after.append((k, a, count, slot, jnp.logical_or(changes, last)))
        step(here, [blocks.get(id(a)) if a.is_copied else a.part(here) for a in arrays])
        counts = []
        for k, a, count, slot, ends in after:
            if a.is_result:

                @kernel.when(ends)
                def _(k: int = k, slot: Any = slot) -> None:
                    give(k, here, slot).start()

            counts.append(count + jnp.asarray(ends, np.int32))
        return counts

    counts = lax.fori_loop(0, total, one, [jnp.int32(0) for _ in copied])
    for k, (a, count) in enumerate(zip(copied, counts, strict=True)):
        if a.is_result:
            for back in (1, 2):

                @kernel.when(count >= back)
                def _(k: int = k, count: Any = count, back: int = back) -> None:
                    give(k, start, lax.rem(count - back, np.int32(2))).wait()
