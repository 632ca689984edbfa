"""Kernels as loops over their grid.

Compiled on the CPU, interpreted anywhere, and step by step with checks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._dialects.references.discharge import discharged
from teucer._dimensions.dimensions import is_symbolic
from teucer._pallas.checked import InterpretParams, KernelError, Memory, run_checked
from teucer._pallas.merging import ONE_BY_ONE, Lanes, Parts, body_of, over_lanes, parts_of
from teucer._pallas.records import Block, Kernel, Operands
from teucer._pallas.semaphores import SemaphoreType

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value


def run_grid(kernel: Kernel, *operands: Value, lanes: Lanes = ONE_BY_ONE) -> Sequence[Any]:
    """The results of a kernel: a loop over the grid. lanes: which neighbouring steps are done
    together."""
    grid, sizes_given, consts, map_consts, scalars, inputs = Operands.of(kernel, operands)
    blocks = (*kernel.ins, *kernel.outs)
    alias = {o: i for i, o in kernel.aliases}
    ins = [_padded(x, b) for x, b in zip(inputs, kernel.ins, strict=True)]
    outs = [
        _padded(inputs[alias[o]] if o in alias else unwritten(b.array), b)
        for o, b in enumerate(kernel.outs)
    ]
    own = tuple([n for _, n in lanes.counts])
    scratch = [unwritten(a.update(shape=own + a.shape)) for a in kernel.scratch]
    n_in, n_out = len(ins), len(outs)
    body, parts = body_of(kernel), [parts_of(b, lanes, len(grid)) for b in blocks]
    before = len(consts) + len(grid) + len(sizes_given) + len(scalars)
    run = over_lanes(body, lanes, parts, before, len(scratch))

    def step(place: Sequence[Any], state: Sequence[object]) -> list[Any]:
        arrays = [*ins, *state[:n_out]]
        place = [
            i if lanes.count(a) == 1 else i * np.int32(lanes.count(a)) for a, i in enumerate(place)
        ]
        starts = [_starts(b, place, scalars, c) for b, c in zip(blocks, map_consts, strict=True)]
        seen = [_read(x, p, s) for x, p, s in zip(arrays, parts, starts, strict=True)]
        _, new = body.split(run(*consts, *place, *sizes_given, *scalars, *seen, *state[n_out:]))
        after = list(state)
        for g, value in new.items():
            k = g - kernel.n_scalars - n_in
            if 0 <= k < n_out:
                after[k] = _write(state[k], parts[n_in + k], starts[n_in + k], value)
            elif k >= n_out:
                after[k] = value
        return after

    steps = [n if lanes.count(a) == 1 else n // lanes.count(a) for a, n in enumerate(grid)]
    state = _over(steps, step, [*outs, *scratch])
    return [_cropped(x, b) for x, b in zip(state, kernel.outs, strict=False)]


def run_with_checks(
    kernel: Kernel, params: InterpretParams, operands: Sequence[Value]
) -> Sequence[Any]:
    """The results of a kernel, run in Python on known values."""
    given = Operands.of(kernel, operands)
    alias = {o: i for i, o in kernel.aliases}
    ins = [Memory(f"input {i}", x, True, True) for i, x in enumerate(given.inputs)]
    outs = [
        ins[alias[o]]
        if o in alias
        else Memory(f"output {o}", _unwritten(b.array, params), False, True)
        for o, b in enumerate(kernel.outs)
    ]
    n_scratch = len(kernel.scratch)
    spaces = kernel.jaxpr.in_avals[len(kernel.jaxpr.in_avals) - n_scratch :]
    whole = [Memory(f"scalars {i}", x, True, False) for i, x in enumerate(given.scalars)]
    axis = _shared_axis(kernel, params)

    def scratch_of() -> list[Memory]:
        return [
            Memory(f"scratch {i}", jnp.zeros(a.shape, a.dtype), True, False)
            if isinstance(ref.memory_space, SemaphoreType)
            else Memory(f"scratch {i}", _unwritten(a, params), False, False)
            for i, (a, ref) in enumerate(zip(kernel.scratch, spaces, strict=True))
        ]

    scratch = [scratch_of() for _ in range(1 if axis is None else params.num_cores_or_threads)]
    for peers in zip(*scratch, strict=True):
        for memory in peers:
            memory.peers = peers

    def seen(memory: Memory, block: Block, place: Sequence[int], consts: Sequence[Value]) -> Any:
        places = (
            np.pad(memory.places, block.padding, constant_values=-1)
            if block.padding
            else memory.places
        )
        starts = _starts(block, [np.int32(i) for i in place], given.scalars, consts)
        if starts is not None:
            if params.detect_out_of_bounds:
                _check_starts(kernel, memory, block, place, starts)
            first = [
                min(max(int(i), 0), n - d.size)
                for i, n, d in zip(starts, places.shape, block.dims, strict=True)
            ]
            places = places[
                tuple(slice(i, i + d.size) for i, d in zip(first, block.dims, strict=True))
            ]
        return places.squeeze(tuple(i for i, d in enumerate(block.dims) if d.squeezed))

    def blocks(place: Sequence[int]) -> list[Any]:
        shown = zip((*ins, *outs), (*kernel.ins, *kernel.outs), given.map_consts, strict=True)
        return [
            *(m.places for m in whole),
            *(seen(m, b, place, c) for m, b, c in shown),
            *(m.places for m in scratch[0]),
        ]

    run_checked(
        params,
        kernel.name,
        [int(n) for n in given.grid],
        axis,
        [[*whole, *ins, *outs, *own] for own in scratch],
        blocks,
        kernel.jaxpr,
        given.consts,
        given.sizes,
    )
    return tuple(
        [jnp.asarray(m.array, b.array.dtype) for m, b in zip(outs, kernel.outs, strict=True)]
    )


def _shared_axis(kernel: Kernel, params: InterpretParams) -> int | None:
    """The axis of the grid that cores share: the first parallel one that they divide."""
    cores = params.num_cores_or_threads
    if cores == 1:
        return None
    said = getattr(kernel.options, "dimension_semantics", None) or ()
    names = [str(getattr(s, "value", s)) for s in said]
    for axis, (n, name) in enumerate(zip(kernel.grid, names, strict=False)):
        if name != "arbitrary" and n is not None and n % cores == 0:
            return axis
    return None


def _check_starts(
    kernel: Kernel, memory: Memory, block: Block, place: Sequence[int], starts: Sequence[Any]
) -> None:
    """Raise KernelError if the block at a place of the grid lies outside of the array."""
    assert block.index is not None
    for axis, (start, n, d) in enumerate(zip(starts, block.array.shape, block.dims, strict=True)):
        if (
            not 0 <= int(start) < max(n + sum(d.padding), 1)
        ):  # starts are places in the padded array
            found = (
                f"block {int(start) // d.size} of {-(-n // d.size)}"
                if d.counts_blocks
                else f"element {int(start)} of {n}"
            )
            info = block.index.jaxpr.debug_info
            raise KernelError(
                f"{kernel.name}: the index map gives a block that lies outside: {found} along "
                f"axis {axis}.\n    reference: {memory.name}\n    at {tuple(place)} of the grid\n"
                f"    index_map: {info.where}\n  Blocks are counted from 0, elements by "
                "pl.Element."
            )


def _over(grid: Sequence[Any], step: Callable[..., list[Any]], state: list[Any]) -> list[Any]:
    """Run the steps of a grid one after another, the last axis fastest."""
    static = all(type(n) is int for n in grid)
    if static and math.prod(grid) == 0:
        return state
    if static and math.prod(grid) == 1:
        return step([np.int32(0)] * len(grid), state)

    # Axes of one place are known to be at 0, so that conditions on them are decided.
    long = [axis for axis, n in enumerate(grid) if type(n) is not int or n != 1]

    def one(i: Array, state: list[Any]) -> list[Any]:
        i = jnp.asarray(i, np.int32)  # the count is of 64 bits with jax_enable_x64
        place: list[Any] = [np.int32(0)] * len(grid)
        for axis in reversed(long):
            if axis == long[0]:
                place[axis] = i
            else:
                place[axis] = lax.rem(i, jnp.int32(grid[axis]))
                i = lax.div(i, jnp.int32(grid[axis]))
        return step(place, state)

    total: Any = (
        math.prod(grid)
        if static
        else functools.reduce(lambda a, b: a * b, [jnp.int32(n) for n in grid])
    )
    found: list[Any] = lax.fori_loop(jnp.int32(0) if not static else 0, total, one, state)
    return found


def unwritten(aval: ShapedArray) -> Any:
    """Memory that was never written: NaN if the dtype has any, so that a result that depends on it
    shows."""
    if dtypes.issubdtype(aval.dtype, np.inexact):
        return jnp.full(aval.shape, np.nan, aval.dtype)
    return jnp.zeros(aval.shape, aval.dtype)


def _unwritten(aval: ShapedArray, params: InterpretParams) -> Any:
    """The same, as it is said for a kernel."""
    if params.uninitialized_memory == "zero":
        return jnp.zeros(aval.shape, aval.dtype)
    return unwritten(aval)


def _is_padded(block: Block) -> bool:
    return any(is_symbolic(n) or n for pair in block.padding for n in pair)


def _padded(x: Array, block: Block) -> Any:
    if not _is_padded(block):
        return x
    fill = unwritten(ShapedArray((), typeof(x).dtype))
    return lax.pad(x, fill, [(lo, hi, 0) for lo, hi in block.padding])


def _cropped(x: Array, block: Block) -> Any:
    if not _is_padded(block):
        return x
    first = [lo for lo, _ in block.padding]
    return lax.slice(x, first, [lo + n for lo, n in zip(first, block.array.shape, strict=True)])


def _starts(
    block: Block, place: Sequence[object], scalars: Sequence[object], consts: Sequence[Value]
) -> list[Any] | None:
    """The places in the padded array where a block begins; None for a block that is the array."""
    if block.index is None:
        return None
    first = block.n_consts + len(place)
    index = discharged(block.index, (*[None] * first, *range(len(scalars)))).jaxpr
    found = index(*consts, *place, *scalars)
    return [
        i * np.int32(d.size) if d.counts_blocks and d.size != 1 else i
        for i, d in zip(found, block.dims, strict=True)
    ]


def _read(x: Array, parts: Parts, starts: list[Any] | None) -> Any:
    if starts is not None and typeof(x).shape != tuple(parts.sizes):  # all of an array begins at 0
        x = lax.dynamic_slice(x, starts, parts.sizes, allow_negative_indices=not typeof(x).symbolic)
    return lax.reshape(x, parts.split)


def _write(x: Any, parts: Parts, starts: list[Any] | None, value: Any) -> Any:
    value = lax.reshape(value, parts.sizes)
    if starts is None or typeof(x).shape == tuple(parts.sizes):
        return value
    return lax.dynamic_update_slice(x, value, starts, allow_negative_indices=not typeof(x).symbolic)
