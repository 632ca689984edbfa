"""A kernel as a module of the tpu dialect, and the call of it that libtpu compiles.

libtpu runs the grid: it copies blocks to VMEM and back while steps run. The function of the kernel
says where blocks lie (`window_params`); maps from places of the grid to blocks are functions of
their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._pallas.cost import kernel_cost
from teucer._pallas.mosaic import arithmetic, checks, control, instructions, random, shapes
from teucer._pallas.mosaic.spaces import space_of
from teucer._pallas.mosaic.table import run
from teucer._pallas.mosaic.text import BOOL, I32, Ref, Refused, Value, Writer, memory_text
from teucer._pallas.records import Block, Kernel
from teucer.lax._attributes import quoted
from teucer.lax._foreign.lowering import custom_call

if TYPE_CHECKING:
    from teucer._lower.context import Context

TARGET_NAME = "tpu_custom_call"
_RULES = (arithmetic, control, instructions, random, shapes)  # loaded, so that the table is full
_DYNAMIC = -(2**63)  # how a grid says that a size is an operand
FAR = ("any", "hbm", "host")  # memory whose blocks are not copied
_SYNCHRONOUS = "pipeline_mode = #tpu.pipeline_mode<synchronous>, "


class Window(NamedTuple):
    """An array that steps see: the memory of a block, and how libtpu is told of it.

    inner: the shape of the memory. params: an entry of window_params.
    """

    inner: tuple[int, ...]
    dtype: np.dtype[Any]
    space: Any
    seen: tuple[int, ...]
    buffers: int
    name: str


class Module(NamedTuple):
    """text: of the module. name: of its function. remote: whether it speaks to other devices."""

    text: str
    name: str
    remote: bool


def module_of(
    kernel: Kernel, avals: Sequence[ShapedArray], mesh: tuple[tuple[Any, int], ...] = ()
) -> Module:
    """The module of a kernel for operands of these types. Raises Refused, with the line, for what
    Mosaic lacks.

    mesh: the axes of the mesh over which it runs, with their sizes.
    """
    given = operands_of(kernel, avals)
    grid = kernel.grid
    blocks = (*kernel.ins, *kernel.outs)
    if not grid and any(not b.whole for b in blocks):
        grid = (1,)
    windows = _windows(kernel, given, grid)
    scratch = [_scratch(r) for r in kernel.jaxpr.in_avals[len(kernel.jaxpr.in_avals) - len(
        kernel.scratch):]]  # fmt: skip
    checks.check(kernel, windows, scratch)
    w = Writer()
    w.mesh = mesh
    prefetch = [
        Ref(w.name(), BOOL if a.dtype == BOOL else a.dtype, a.shape or (1,), "smem",
            tuple(range(len(a.shape))))
        for a in given.prefetched
    ]  # fmt: skip
    place = [Value(w.name(), I32, (), (0, n - 1) if n is not None else None) for n in grid]
    memories = [Ref(w.name(), x.dtype, x.inner, x.space, x.seen) for x in windows]
    own = [r._replace(name=w.name()) for r in scratch]
    sizes = [
        w.make(f"tpu.iteration_bound {i} : i32", I32)
        for i, n in enumerate(kernel.grid)
        if n is None
    ]
    body(w, kernel, given, prefetch, place[: len(kernel.grid)], sizes, memories, own)
    name = re.sub(r"\W", "_", kernel.name) or "kernel"
    refs = [*prefetch, *memories, *own]
    args = ", ".join([*(f"{p.name}: i32" for p in place), *(f"{r.name}: {r.type}" for r in refs)])
    attributes = _attributes(kernel, grid, given, windows, own)
    lines = "\n".join([*w.first, *w.lines])
    maps = _maps(kernel, given, grid, windows, prefetch) if grid else []
    text = (
        f"module @{name} {{\n  func.func @{name}({args}) attributes {{{attributes}}} {{\n{lines}\n"
        f"    return\n  }}\n{''.join(maps)}}}\n"
    )
    return Module(text, name, w.remote)


class _Operands(NamedTuple):
    """The operands of a kernel as the module takes them.

    consts: of the kernel, each (whether it is prefetched, its number there or among arrays).
    map_consts: numbers of prefetched ones, for each block.
    """

    prefetched: list[ShapedArray]
    arrays: list[ShapedArray]
    consts: list[tuple[bool, int]]
    map_consts: list[list[int]]
    scalars: list[int]


def operands_of(kernel: Kernel, avals: Sequence[ShapedArray]) -> _Operands:
    at = kernel.grid.count(None)
    found = _Operands([], [], [], [], [])

    def prefetched(aval: ShapedArray) -> int:
        found.prefetched.append(aval)
        return len(found.prefetched) - 1

    for aval in avals[at : at + kernel.n_consts]:
        if isinstance(aval.dtype, dtypes.ExtendedDType):
            raise Refused("a random key", "Pass its words: jax.random.key_data(key).")
        if aval.shape:
            found.arrays.append(aval)
            found.consts.append((False, len(found.arrays) - 1))
        else:
            found.consts.append((True, prefetched(aval)))
    at += kernel.n_consts
    for block in (*kernel.ins, *kernel.outs):
        found.map_consts.append([prefetched(a) for a in avals[at : at + block.n_consts]])
        at += block.n_consts
    for aval in avals[at : at + kernel.n_scalars]:
        found.scalars.append(prefetched(aval))
    return found


def _windows(kernel: Kernel, given: _Operands, grid: Sequence[int | None]) -> list[Window]:
    whole = [Block(a, (), None, 0, None) for a in given.arrays]
    named = [
        *((f"constant {i}", b) for i, b in enumerate(whole)),
        *((f"input {i}", b) for i, b in enumerate(kernel.ins)),
        *((f"output {i}", b) for i, b in enumerate(kernel.outs)),
    ]
    return [_window(b, name, grid) for name, b in named]


def _window(b: Block, name: str, grid: Sequence[int | None]) -> Window:
    space = space_of(b.memory_space, "vmem" if b.array.shape else "smem")
    if b.whole or not b.dims:
        inner: tuple[int, ...] = tuple(b.array.shape) or (1,)
        seen = tuple(i for i in range(len(b.array.shape)) if not b.dims or not b.dims[i].squeezed)
    else:
        inner = tuple(d.size for d in b.dims)
        seen = tuple(i for i, d in enumerate(b.dims) if not d.squeezed)
        if space in FAR:  # the kernel has the array, and sees a part of it
            inner, seen = tuple(b.array.shape), tuple(range(len(b.array.shape)))
    mode = getattr(b.pipeline_mode, "buffer_count", None)
    if mode not in (None, 1, 2):
        raise Refused(
            f"{name} with {mode} buffers",
            "libtpu's pipeline has one or two: pl.Buffered(1), pl.Buffered(2); "
            "pltpu.emit_pipeline takes more.",
        )
    moves = bool(grid) and b.index is not None
    return Window(inner, b.array.dtype, space, seen, (mode or 2) if moves else 1, name)


def _scratch(ref: Any) -> Ref:
    aval = ref.inner
    return Ref.whole("", aval.dtype, aval.shape, space_of(ref.memory_space, "vmem"))


def body(
    w: Writer,
    kernel: Kernel,
    given: _Operands,
    prefetch: Sequence[Ref],
    place: Sequence[Value],
    sizes: Sequence[Value],
    memories: Sequence[Ref],
    own: Sequence[Ref],
) -> None:
    """Write what a step does."""
    consts = [
        control.memory.load(w, prefetch[k]._replace(seen=()) if early else memories[k], (), ())
        for early, k in given.consts
    ]
    scalars = [prefetch[k] for k in given.scalars]
    seen = [
        _block_of(w, m, b, [control.memory.load(w, prefetch[c]._replace(seen=()), (), ())
                            for c in maps], place, scalars)
        if m.space in FAR and not b.whole
        else m
        for m, b, maps in zip(
            memories[len(given.arrays) :], (*kernel.ins, *kernel.outs), given.map_consts,
            strict=True,
        )
    ]  # fmt: skip
    run(w, kernel.jaxpr, [*consts, *place, *sizes, *scalars, *seen, *own])


def _block_of(
    w: Writer,
    ref: Ref,
    block: Block,
    consts: Sequence[Value],
    place: Sequence[Value],
    scalars: Sequence[Ref],
) -> Ref:
    """The block of an array that is not copied, as a part of its memory."""
    assert block.index is not None
    for d, n in zip(block.dims, ref.shape, strict=True):
        if (d.counts_blocks and n % d.size) or d.padding != (0, 0):
            raise Refused(
                f"blocks of {[d.size for d in block.dims]} of an array of {list(ref.shape)} in "
                f"memory {ref.space}, which reach over its end",
                "Choose blocks that divide the array, or see all of it: "
                "pl.BlockSpec(memory_space=pl.ANY).",
            )
    found = run(w, block.index, [*consts, *place, *scalars])
    starts = [
        w.times(x, d.size) if d.counts_blocks else x for x, d in zip(found, block.dims, strict=True)
    ]
    sizes = tuple(d.size for d in block.dims)
    seen = tuple(i for i, d in enumerate(block.dims) if not d.squeezed)
    part = control.memory.Part(ref, tuple(starts), sizes, (1,) * len(sizes), seen)
    return control.memory.memory(w, part)


def _attributes(
    kernel: Kernel,
    grid: Sequence[int | None],
    given: _Operands,
    windows: Sequence[Window],
    own: Sequence[Ref],
) -> str:
    semantics = _semantics(kernel, len(grid))
    said = ", ".join(f"#tpu.dimension_semantics<{s}>" for s in semantics)
    parts = [f"dimension_semantics = [{said}]"]
    if grid:
        bounds = ", ".join(str(_DYNAMIC if n is None else n) for n in grid)
        parts.append(f"iteration_bounds = array<i64: {bounds}>")
    parts.append(f"scalar_prefetch = {len(given.prefetched)} : i64")
    parts.append(f"scratch_operands = {len(own)} : i64")
    parts.append("tpu.core_type = #tpu.core_type<tc>")
    if grid:
        blocks = [*[None] * len(given.arrays), *kernel.ins, *kernel.outs]
        each = [_params(i, x, b) for i, (x, b) in enumerate(zip(windows, blocks, strict=True))]
        parts.append(f"window_params = [{', '.join(each)}]")
    return ", ".join(parts)


_SEMANTICS = ("parallel", "arbitrary", "core_parallel", "subcore_parallel")


def options_of(kernel: Kernel) -> Any:
    """What the user tells the compiler of TPU kernels."""
    options = kernel.options
    return options.get("mosaic_tpu") if isinstance(options, Mapping) else options


def _semantics(kernel: Kernel, rank: int) -> list[str]:
    given = getattr(options_of(kernel), "dimension_semantics", None)
    if given is None:
        return ["arbitrary"] * rank
    names = [str(getattr(s, "value", s)) for s in given]
    if len(names) != len(kernel.grid):
        raise Refused(
            f"dimension_semantics of {len(names)} axes, for a grid of {len(kernel.grid)}",
            "Say it for each axis of the grid: 'parallel' or 'arbitrary'.",
        )
    for name in names:
        if name not in _SEMANTICS:
            raise Refused(
                f"dimension_semantics with {name!r}", f"It is one of {', '.join(_SEMANTICS)}."
            )
    return names or ["arbitrary"] * rank


def _params(i: int, window: Window, block: Block | None) -> str:
    if window.space not in ("vmem", "smem"):
        return "{}"
    mode = _SYNCHRONOUS if window.buffers == 1 else ""
    bounds = ", ".join(map(str, window.inner))
    kind = ""
    elements = block is not None and block.index is not None
    if elements and any(not d.counts_blocks for d in block.dims):
        low, high = (
            ", ".join(str(d.padding[k]) if not d.counts_blocks else "0" for d in block.dims)
            for k in (0, 1)
        )
        kind = f", window_kind = #tpu.element_window<[{low}], [{high}]>"
    return (
        f"{{{mode}transform_indices = @transform_{i}, window_bounds = array<i64: {bounds}>{kind}}}"
    )


def _maps(
    kernel: Kernel,
    given: _Operands,
    grid: Sequence[int | None],
    windows: Sequence[Window],
    prefetch: Sequence[Ref],
) -> list[str]:
    """A function for each window: from a place of the grid to the number of a block."""
    found = []
    first = len(given.arrays)
    for i, window in enumerate(windows):
        if window.space not in ("vmem", "smem"):
            continue
        w = Writer()
        refs = [r._replace(name=w.name()) for r in prefetch]
        place = [Value(w.name(), I32, (), (0, n - 1) if n is not None else None) for n in grid]
        k = i - first
        b = (*kernel.ins, *kernel.outs)[k] if k >= 0 else None
        if b is None or b.index is None:
            outs = [w.constant(0, I32)] * len(window.inner)
        else:
            consts = [
                control.memory.load(w, refs[c]._replace(seen=()), (), ())
                for c in given.map_consts[k]
            ]
            scalars = [refs[s] for s in given.scalars]
            outs = run(w, b.index, [*consts, *place[: len(kernel.grid)], *scalars])
            elements = any(not d.counts_blocks for d in b.dims)
            outs = [
                w.times(x, d.size) if elements and d.counts_blocks else x
                for x, d in zip(outs, b.dims, strict=True)
            ]
        args = [f"{p.name}: i32" for p in place] + [f"{r.name}: {r.type}" for r in refs]
        kinds = ", ".join(["i32"] * len(outs))
        lines = "\n".join([*w.first, *w.lines])
        found.append(
            f"  func.func @transform_{i}({', '.join(args)}) -> ({kinds}) {{\n{lines}\n"
            f"    return {', '.join(x.name for x in outs)} : {kinds}\n  }}\n"
        )
    return found


# --- The call -----------------------------------------------------------------------------------


def lower(ctx: Context, kernel: Kernel, values: Sequence[Any]) -> Any:
    """Write the call of a kernel in a program for TPUs."""
    if 0 in kernel.grid:
        raise Refused(
            "a grid without steps", "Call the kernel only where there is something to do."
        )
    from teucer._xla.platforms import mosaic  # MLIR's bindings take time to load

    avals = [v.aval for v in values]
    module = module_of(kernel, avals, _mesh(ctx))
    given = operands_of(kernel, avals)
    config = _config(kernel, module)
    config["custom_call_config"]["body"] = mosaic.serialized(module.text)
    n = kernel.grid.count(None)
    operands = in_order(kernel, given, list(values), n)
    operands = [_as_memory(ctx, v, keep=i < n) for i, v in enumerate(operands)]
    outs = [b.array for b in kernel.outs]
    first = len(operands) - len(kernel.ins)
    made = [memory_aval(a) for a in outs]
    options = options_of(kernel)
    effects = getattr(options, "has_side_effects", False)
    metadata = json.dumps(dict(kernel.metadata or {}), indent=0 if kernel.metadata else None)
    results = custom_call(
        ctx,
        TARGET_NAME,
        operands,
        made,
        backend_config=json.dumps(config),
        api_version=1,
        operand_layouts=[_rows(v.aval) for v in operands],
        result_layouts=[_rows(a) for a in made],
        has_side_effect=bool(getattr(effects, "value", effects)),
        aliases=[(o, first + i) for i, o in kernel.aliases],
        extra={
            "kernel_name": quoted(module.name),
            "mhlo.frontend_attributes": f"{{kernel_metadata = {quoted(metadata)}}}",
        },
    )
    return tuple(
        _from_memory(ctx, x, a) if (x.aval.shape, x.aval.dtype) != (a.shape, a.dtype) else x
        for x, a in zip(results, outs, strict=True)
    )


def _mesh(ctx: Context) -> tuple[tuple[Any, int], ...]:
    """The axes of the mesh of the devices that run the program, with their sizes."""
    return () if ctx.manual is None else tuple(ctx.manual.mesh.sizes.items())


def in_order(kernel: Kernel, given: _Operands, values: list[Any], n: int) -> list[Any]:
    """The operands as the module takes them: sizes, what is prefetched, arrays."""
    consts = values[n : n + kernel.n_consts]
    rest = values[n + kernel.n_consts :]
    maps = sum(len(c) for c in given.map_consts)
    early = [v for v, (is_early, _) in zip(consts, given.consts, strict=True) if is_early]
    arrays = [v for v, (is_early, _) in zip(consts, given.consts, strict=True) if not is_early]
    return [
        *values[:n],
        *early,
        *rest[: maps + kernel.n_scalars],
        *arrays,
        *rest[maps + kernel.n_scalars :],
    ]


def memory_aval(aval: ShapedArray) -> ShapedArray:
    dtype = I32 if aval.dtype == BOOL else aval.dtype
    return ShapedArray(aval.shape or (1,), dtype)


def _as_memory(ctx: Context, value: Any, *, keep: bool) -> Any:
    """An operand as kernels have it: booleans as int32, scalars as arrays of one element."""
    aval = value.aval
    if keep or (aval.shape and aval.dtype != BOOL):
        return value
    new = memory_aval(aval)

    def change(x: Any) -> tuple[Any]:
        return (lax.reshape(lax.convert_element_type(x, new.dtype), new.shape),)

    return ctx.trace(change, value)[0]


def _from_memory(ctx: Context, value: Any, aval: ShapedArray) -> Any:
    def change(x: Any) -> tuple[Any]:
        if aval.dtype == BOOL:
            x = lax.ne(x, lax.full_like(x, 0))
        return (lax.reshape(x, aval.shape),)

    return ctx.trace(change, value)[0]


def _rows(aval: ShapedArray) -> tuple[int, ...]:
    return tuple(reversed(range(len(aval.shape))))


_LIKE_JAX = {  # options of CompilerParams that are said as they are, where they differ from this
    "shape_invariant_numerics": True,
    "disable_bounds_checks": False,
    "disable_semaphore_checks": False,
    "skip_device_barrier": False,
    "internal_scratch_in_bytes": None,
    "collective_id": None,
}


def _config(kernel: Kernel, module: Module) -> dict[str, Any]:
    """What libtpu is told beside the module."""
    options = options_of(kernel)
    call: dict[str, Any] = {"serialization_format": 1, "needs_layout_passes": True}
    if module.remote:
        call["has_communication"] = True
    for name, usual in _LIKE_JAX.items():
        value = getattr(options, name, usual)
        if value != usual:
            call[name] = value
    fused = getattr(options, "allow_input_fusion", None)
    if fused is not None:
        call["allow_input_fusion"] = [bool(f) for f in fused]
    cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
    if cost is not None:
        call["cost_estimate"] = {
            name: int(getattr(cost, name, 0))
            for name in (
                "flops", "transcendentals", "bytes_accessed", "remote_bytes_transferred",
            )
        }  # fmt: skip
    config: dict[str, Any] = {"custom_call_config": call}
    limit = getattr(options, "vmem_limit_bytes", None)
    if limit is not None:
        config["scoped_memory_configs"] = [{"memory_space": 1, "offset": 0, "size": int(limit)}]
    flags: Mapping[str, Any] | None = getattr(options, "flags", None)
    if flags:
        config["flag_configs"] = [
            {"flag_type": name, "value": _flag(value)} for name, value in flags.items()
        ]
    return config


def _flag(value: Any) -> dict[str, Any]:
    kinds: Sequence[tuple[type, str, Callable[[Any], Any]]] = (
        (bool, "boolean_value", bool),
        (int, "integer_value", int),
        (float, "double_value", float),
        (str, "string_value", str),
    )
    for kind, name, of in kinds:
        if isinstance(value, kind):
            return {name: of(value)}
    raise Refused(f"a flag of type {type(value).__name__}", "Flags are numbers, bools or strings.")


__all__ = ["TARGET_NAME", "Module", "lower", "memory_text", "module_of"]
