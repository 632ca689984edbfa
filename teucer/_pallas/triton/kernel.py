"""A kernel as a Triton module, and the call of it that XLA compiles.

Each place of the grid is a program of its own. Axes along which results are added up, and scratch
memory is kept, become a loop in the program: the block of the result and scratch memory are its
carry, so they stay in registers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.types import ShapedArray
from teucer._dialects.references.discharge import discharged, makes_references
from teucer._pallas import steps
from teucer._pallas.records import Block, Kernel
from teucer._pallas.triton import arithmetic, control, instructions, memory, random, shapes
from teucer._pallas.triton.memory import Axis, Pointer
from teucer._pallas.triton.table import run
from teucer._pallas.triton.text import I32, Refused, Value, Writer, element, is_float
from teucer.lax._foreign.lowering import custom_call

if TYPE_CHECKING:
    from teucer._lower.context import Context


TARGET_NAME = "__gpu$xla.gpu.triton"
_RULES = (arithmetic, control, instructions, random, shapes)  # loaded, so that the table is full
_ALIGNED = 16  # bytes: XLA's buffers begin at multiples of it
_MOST = (2**31 - 1, 65535, 65535)  # programs along each axis of a launch


class Module(NamedTuple):
    """text: of the module. name: of its function. grid: how many programs run along x, y and z."""

    text: str
    name: str
    grid: tuple[int, int, int]


def module_of(kernel: Kernel, avals: Sequence[ShapedArray]) -> Module:
    """The module of a kernel for operands of these types. Raises Refused, with the line, for
    operations that Triton lacks."""
    if None in kernel.grid:
        raise Refused(
            "a grid whose size is traced",
            "Let the grid be as large as it may be, and let steps that are too "
            "many do nothing: pl.when(pl.program_id(0) < n).",
        )
    name = re.sub(r"\W", "_", kernel.name) or "kernel"
    order = steps.order_of(kernel)
    w = Writer()
    types = [*avals, *(b.array for b in kernel.outs)]
    arrays = [_argument(i, a) for i, a in enumerate(types)]
    programs = [i for i in range(len(kernel.grid)) if i not in order.in_order]
    sizes = [int(kernel.grid[i] or 1) for i in programs]
    grid = _launch(sizes)
    _write(w, kernel, order, arrays, dict(zip(programs, _place(w, sizes, grid), strict=True)))
    args = ", ".join(
        f"%arg{i}: !tt.ptr<{_memory(a)}> {{tt.divisibility = {_ALIGNED} : i32}}"
        for i, a in enumerate(types)
    )
    body = "\n".join([*w.first, *w.lines])
    text = f"module {{\n  tt.func public @{name}({args}) {{\n{body}\n    tt.return\n  }}\n}}\n"
    return Module(text, name, grid)


def _memory(aval: ShapedArray) -> str:
    return "i8" if aval.dtype == np.bool_ else element(aval.dtype)


def _argument(i: int, aval: ShapedArray) -> Pointer:
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        raise Refused("an argument of random keys", "Pass their words: jax.random.key_data(key).")
    zero = Value("%zero", I32, (), (0, 0))
    return Pointer(f"%arg{i}", aval.dtype, tuple(Axis(n, zero, n, True) for n in aval.shape))


def _launch(sizes: Sequence[int]) -> tuple[int, int, int]:
    """The programs along x, y and z: an axis of the grid each, or all along x."""
    if len(sizes) <= len(_MOST) and all(n <= most for n, most in zip(sizes, _MOST, strict=False)):
        x, y, z = (*sizes, 1, 1, 1)[:3]
        return x, y, z
    total = math.prod(sizes)
    if total > _MOST[0]:
        raise Refused(f"a grid of {total} steps", "Let blocks be larger.")
    return total, 1, 1


def _place(w: Writer, sizes: Sequence[int], grid: Sequence[int]) -> list[Value]:
    """The place of a program along the axes of its grid."""
    if tuple(sizes) == tuple(grid[: len(sizes)]):
        return [
            w.make(f"tt.get_program_id {axis} : i32", I32, (), (0, n - 1))
            for axis, n in zip("xyz", sizes, strict=False)
        ]
    rest = w.make("tt.get_program_id x : i32", I32, (), (0, grid[0] - 1))
    place = []
    for n in reversed(sizes):
        size = w.constant(n, I32)
        place.append(w.make(f"arith.remsi {rest.name}, {size.name} : i32", I32, (), (0, n - 1)))
        rest = w.make(
            f"arith.divsi {rest.name}, {size.name} : i32",
            I32,
            (),
            (0, (rest.bounds or (0, 0))[1] // n),
        )
    return place[::-1]


class _Blocks(NamedTuple):
    """The values of a program at a place of the grid: constants of the kernel, and references to
    scalars, inputs and results."""

    consts: list[Value]
    scalars: list[Pointer]
    ins: list[Pointer]
    outs: list[Pointer]


def _write(
    w: Writer,
    kernel: Kernel,
    order: steps.Order,
    arrays: Sequence[Pointer],
    place: dict[int, Value],
) -> None:
    """Write the body of the function."""
    zero = w.constant(0, I32)
    arrays = [a._replace(axes=tuple(x._replace(start=zero) for x in a.axes)) for a in arrays]
    blocks = (*kernel.ins, *kernel.outs)
    at = kernel.n_consts
    consts = [memory.load(w, a, (), ()) for a in arrays[:at]]
    map_consts = []
    for b in blocks:
        map_consts.append([memory.load(w, a, (), ()) for a in arrays[at : at + b.n_consts]])
        at += b.n_consts
    scalars, rest = list(arrays[at : at + kernel.n_scalars]), arrays[at + kernel.n_scalars :]

    def seen(place: dict[int, Value]) -> _Blocks:
        where = [place[i] for i in range(len(kernel.grid))]
        found = [
            _block(w, a, b, [*c, *where, *scalars])
            for a, b, c in zip(rest, blocks, map_consts, strict=True)
        ]
        return _Blocks(consts, scalars, found[: len(kernel.ins)], found[len(kernel.ins) :])

    if not order.in_order and not kernel.scratch:
        b = seen(place)
        where = [place[i] for i in range(len(kernel.grid))]
        run(w, _without_scopes(kernel.jaxpr), [*b.consts, *where, *b.scalars, *b.ins, *b.outs])
        return
    _in_order(w, kernel, order, place, seen)


def _without_scopes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A kernel whose own memory, of run_scoped, is values; references to blocks stay."""
    return discharged(closed).jaxpr if makes_references(closed.jaxpr) else closed


def _in_order(
    w: Writer, kernel: Kernel, order: steps.Order, place: dict[int, Value], seen: Any
) -> None:
    """Write the steps that run one after another as a loop. Its carry has held blocks and scratch
    memory."""
    rank = len(kernel.grid)
    for o in order.held:
        if steps.axes_of(kernel.outs[o], rank) & {*order.in_order}:
            raise Refused(
                (
                    f"result {o}, which stays in place along some axes of the grid that run in "
                    "order, and moves along others"
                ),
                "Loop within the kernel along the inner axis: jax.lax.fori_loop.",
            )
    n = len(kernel.jaxpr.in_avals)
    first = n - len(kernel.scratch) - len(kernel.outs)
    numbers = [first + o for o in order.held] + list(range(n - len(kernel.scratch), n))
    groups: list[int | None] = [None] * n
    for g in numbers:
        groups[g] = g
    body = discharged(kernel.jaxpr, tuple(groups), tuple(numbers)).jaxpr
    aliased = {o for _, o in kernel.aliases}
    sizes = [int(kernel.grid[i] or 1) for i in order.in_order]
    begin = seen({**place, **dict.fromkeys(order.in_order, w.constant(0, I32))})
    carry = [
        memory.load(w, begin.outs[o], (), ())
        if o in aliased
        else _unwritten(w, kernel.outs[o].inner)
        for o in order.held
    ]
    carry += [_unwritten(w, a) for a in kernel.scratch]

    def step(i: Value, held: Sequence[Value]) -> Sequence[Value]:
        now, rest = dict(place), i
        for axis, size in reversed(list(zip(order.in_order, sizes, strict=True))):
            if len(sizes) == 1:
                now[axis] = i
                break
            count = w.constant(size, I32)
            now[axis] = w.make(
                f"arith.remsi {rest.name}, {count.name} : i32", I32, (), (0, size - 1)
            )
            rest = w.make(f"arith.divsi {rest.name}, {count.name} : i32", I32)
        b = seen(now)
        outs: list[Any] = list(b.outs)
        for o, x in zip(order.held, held, strict=False):
            outs[o] = x
        where = [now[k] for k in range(rank)]
        return run(
            w, body, [*b.consts, *where, *b.scalars, *b.ins, *outs, *held[len(order.held) :]]
        )

    total = math.prod(sizes)
    last = (
        step(w.constant(0, I32), carry)
        if total == 1
        else control.for_loop(w, w.constant(0, I32), w.constant(total, I32), carry, step)
    )
    for o, x in zip(order.held, last, strict=False):
        memory.store(w, begin.outs[o], x, (), ())


def _unwritten(w: Writer, aval: ShapedArray) -> Value:
    return w.constant(np.nan if is_float(aval.dtype) else 0, aval.dtype, aval.shape)


def _block(w: Writer, array: Pointer, block: Block, operands: Sequence[Any]) -> Pointer:
    """The block of an array that the program sees at a place of the grid."""
    if block.index is None:
        starts = [w.constant(-d.padding[0], I32) for d in block.dims]
    else:
        found = run(w, block.index, operands)
        starts = []
        for x, d in zip(found, block.dims, strict=True):
            at = w.times(x, d.size) if d.counts_blocks else x
            low = 0 if d.counts_blocks else d.padding[0]
            starts.append(w.add(at, w.constant(-low, I32)))
    axes = [
        Axis(a.size, start, d.size, not d.squeezed)
        for a, start, d in zip(array.axes, starts, block.dims, strict=True)
    ]
    return array._replace(axes=tuple(axes))


def lower(ctx: Context, kernel: Kernel, values: Sequence[Any]) -> Any:
    """Write the call of a kernel in a program for NVIDIA GPUs."""
    module = module_of(kernel, [v.aval for v in values])
    options = kernel.options
    warps, stages = (
        getattr(options, "num_warps", None) or 4,
        getattr(options, "num_stages", None) or 3,
    )
    x, y, z = module.grid
    if 0 in module.grid:
        raise Refused(
            "a grid without steps", "Call the kernel only where there is something to do."
        )
    first = len(values) - len(kernel.ins)
    outs = [b.array for b in kernel.outs]
    config = {
        "name": module.name,
        "ir": module.text,
        "num_stages": np.int32(stages),
        "num_warps": np.int32(warps),
        "grid_x": np.int32(x),
        "grid_y": np.int32(y),
        "grid_z": np.int32(z),
        "debug": False,
    }
    return custom_call(
        ctx,
        TARGET_NAME,
        list(values),
        outs,
        backend_config=config,
        api_version=4,
        operand_layouts=[_rows(v.aval) for v in values],
        result_layouts=[_rows(a) for a in outs],
        has_side_effect=False,
        aliases=[(o, first + i) for i, o in kernel.aliases],
    )


def _rows(aval: ShapedArray) -> tuple[int, ...]:
    return tuple(reversed(range(len(aval.shape))))
