"""Mosaic's rules of programs within programs: calls, conditions, loops; and of references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer import lax
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn
from teucer._derived.remat import name_p
from teucer._pallas import accesses, counting, debugging
from teucer._pallas.mosaic import memory
from teucer._pallas.mosaic.spaces import space_of
from teucer._pallas.mosaic.table import MOSAIC, run
from teucer._pallas.mosaic.text import BOOL, I32, Ref, Refused, Value, Writer, is_float
from teucer.lax import _references
from teucer.lax._attributes import quoted


@MOSAIC.define(structure.Call)
def _call(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    call: Any = structure.of(eqn, operands)
    return run(w, call.body, operands)


@MOSAIC.define(name_p)
def _same(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (x,)


# --- Conditions and loops -----------------------------------------------------------------------


def _counts(dtype: np.dtype[Any]) -> bool:
    return bool(dtype == I32)


def _carried(w: Writer, x: Value) -> Value:
    """A value as regions hand it on: masks are integers there."""
    return w.as_int(x) if x.dtype == BOOL and x.shape else x


def _back(w: Writer, x: Value, dtype: Any) -> Value:
    return w.as_bool(x) if dtype == BOOL and x.dtype != BOOL else x


def _types(avals: Sequence[Any]) -> list[Value]:
    return [Value("", I32 if a.dtype == BOOL and a.shape else a.dtype, a.shape) for a in avals]


@MOSAIC.define(structure.Branch)
def _cond(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    branch: Any = structure.of(eqn, operands)
    if branch.platforms is not None:
        program = dict(zip(branch.platforms, branch.programs, strict=True)).get("tpu")
        if program is None:
            raise Refused(
                "a choice by platform that leaves TPUs out",
                "Give a default, or compute the same on every platform.",
            )
        return run(w, program, branch.operands)
    avals = [v.aval for v in eqn.outvars]
    known = branch.index.bounds
    if known and known[0] == known[1]:
        return run(w, branch.chosen(known[0]), branch.operands)
    return _branch(w, branch.index, branch.programs, 0, avals, branch.operands)


def _branch(
    w: Writer,
    index: Value,
    branches: Sequence[Any],
    first: int,
    avals: Sequence[Any],
    operands: Sequence[Any],
) -> Sequence[Any]:
    """The branch of this index, from `first` on: the last one is for all that are greater."""
    if first == len(branches) - 1:
        return run(w, branches[first], operands)
    two = index.dtype == BOOL
    here = index if two else w.compare("sle", index, w.constant(first, index.dtype))
    outs = _types(avals)
    name, kinds = w.name(), ", ".join(o.type for o in outs)
    result = f"{name}{f':{len(outs)}' if len(outs) > 1 else ''} = " if outs else ""
    # A boolean index names the second branch where it is true.
    parts = (1, 0) if two else (0, 1)
    w.line(f"{result}scf.if {here.name}{f' -> ({kinds})' if outs else ''} {{")
    for part in parts:
        with w.block():
            if two:
                found = run(w, branches[part], operands)
            elif part == 0:
                found = run(w, branches[first], operands)
            else:
                found = _branch(w, index, branches, first + 1, avals, operands)
            if outs:
                found = [_carried(w, x) for x in found]
                w.line(f"scf.yield {', '.join(x.name for x in found)} : {kinds}")
        w.line("} else {" if part == parts[0] else "}")
    return [_back(w, x, a.dtype) for x, a in zip(_results(name, outs), avals, strict=True)]


def _results(name: str, outs: Sequence[Value]) -> list[Value]:
    if len(outs) == 1:
        return [outs[0]._replace(name=name)]
    return [o._replace(name=f"{name}#{i}") for i, o in enumerate(outs)]


def for_loop(
    w: Writer,
    low: Value,
    high: Value,
    carry: Sequence[Value],
    body: Callable[[Value, Sequence[Value]], Sequence[Value]],
) -> list[Value]:
    """Run body(i, carry) for i = low .. high - 1."""
    kinds_of = [c.dtype for c in carry]
    given = [_carried(w, c) for c in carry]
    plain = [c._replace(bounds=None) for c in given]
    known = (
        (low.bounds[0], max(low.bounds[0], high.bounds[1] - 1))
        if low.bounds and high.bounds
        else None
    )
    i, name = Value(w.name(), low.dtype, (), known), w.name()
    inner = [c._replace(name=w.name()) for c in plain]
    one, kinds = w.constant(1, low.dtype), ", ".join(c.type for c in plain)
    head = f"scf.for {i.name} = {low.name} to {high.name} step {one.name}"
    if carry:
        pairs = ", ".join(f"{c.name} = {x.name}" for c, x in zip(inner, given, strict=True))
        several = f":{len(carry)}" if len(carry) > 1 else ""
        head = f"{name}{several} = {head} iter_args({pairs}) -> ({kinds})"
    w.line(f"{head} : {low.type} {{")
    with w.block():
        seen = [_back(w, x, d) for x, d in zip(inner, kinds_of, strict=True)]
        after = [_carried(w, x) for x in body(i, seen)]
        if carry:
            w.line(f"scf.yield {', '.join(x.name for x in after)} : {kinds}")
    w.line("}")
    found = _results(name, plain) if carry else []
    return [_back(w, x, d) for x, d in zip(found, kinds_of, strict=True)]


@MOSAIC.define(structure.Loop)
def _loop(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    loop: Any = structure.of(eqn, operands)
    return _scan(w, eqn, loop) if loop.condition is None else _while(w, loop)


def _scan(w: Writer, eqn: Eqn, loop: structure.Loop) -> Any:
    body, consts, start = loop.body, loop.consts, loop.carry
    m, n = len(consts), len(start)
    if loop.xs or len(eqn.outvars) > n:
        raise Refused(
            "a scan over arrays, or one that stacks results",
            "Loop over places: jax.lax.fori_loop, with ref[i] in its body.",
        )
    counter = counting.counter(body, m, _counts)
    first = start[counter].bounds if counter is not None else None
    if counter is not None and (first is None or first[0] != first[1]):
        counter = None
    held = [k for k in range(n) if k != counter]

    def step(i: Value, carry: Sequence[Value]) -> list[Value]:
        full: list[Any] = [None] * n
        for k, x in zip(held, carry, strict=True):
            full[k] = x
        if counter is not None:
            full[counter] = i
        outs = run(w, body, [*consts, *full])
        return [outs[k] for k in held]

    dtype = start[counter].dtype if counter is not None else I32
    begin = first[0] if counter is not None and first else 0
    times = int(loop.length)
    carry = [start[k] for k in held]
    unroll = int(eqn.params.get("unroll") or 1)
    if unroll >= times:
        for i in range(times):
            carry = step(w.constant(begin + i, dtype), carry)
        outs = list(carry)
    else:
        low, high = w.constant(begin, dtype), w.constant(begin + times, dtype)
        outs = for_loop(w, low, high, carry, step)
    if counter is not None:
        outs.insert(counter, w.constant(begin + times, dtype))
    return outs


def _while(w: Writer, loop: structure.Loop) -> Any:
    cond: Any = loop.condition
    cond_consts, body, consts, start = loop.condition_consts, loop.body, loop.consts, loop.carry
    bounded = counting.bounded(cond, body, len(cond_consts), len(consts), _counts)
    if bounded is not None:
        return _counted(w, body, bounded, consts, start)
    dtypes = [x.dtype for x in start]
    given = [_carried(w, x) for x in start]
    plain = [x._replace(bounds=None) for x in given]
    kinds, name = ", ".join(x.type for x in plain), w.name()
    before, after = ([x._replace(name=w.name()) for x in plain] for _ in range(2))
    pairs = ", ".join(f"{a.name} = {x.name}" for a, x in zip(before, given, strict=True))
    several = f":{len(start)}" if len(start) > 1 else ""
    w.line(f"{name}{several} = scf.while ({pairs}) : ({kinds}) -> ({kinds}) {{")
    with w.block():
        seen = [_back(w, x, d) for x, d in zip(before, dtypes, strict=True)]
        (go,) = run(w, cond, [*cond_consts, *seen])
        w.line(f"scf.condition({go.name}) {', '.join(x.name for x in before)} : {kinds}")
    w.line("} do {")
    w.line(f"^bb0({', '.join(f'{x.name}: {x.type}' for x in after)}):")
    with w.block():
        seen = [_back(w, x, d) for x, d in zip(after, dtypes, strict=True)]
        outs = [_carried(w, x) for x in run(w, body, [*consts, *seen])]
        w.line(f"scf.yield {', '.join(x.name for x in outs)} : {kinds}")
    w.line("}")
    found = _results(name, plain)
    return [_back(w, x, d) for x, d in zip(found, dtypes, strict=True)]


def _counted(
    w: Writer,
    body: ClosedJaxpr,
    bounded: tuple[int, int],
    consts: Sequence[Any],
    start: Sequence[Any],
) -> list[Any]:
    i, n = bounded
    held = [k for k in range(len(start)) if k not in bounded]

    def step(count: Value, carry: Sequence[Value]) -> list[Value]:
        full: list[Any] = [None] * len(start)
        full[i], full[n] = count, start[n]
        for k, x in zip(held, carry, strict=True):
            full[k] = x
        outs = run(w, body, [*consts, *full])
        return [outs[k] for k in held]

    found = iter(for_loop(w, start[i], start[n], [start[k] for k in held], step))
    last = w.make(f"arith.maxsi {start[i].name}, {start[n].name} : {start[i].type}", start[i].dtype)
    return [last if k == i else start[n] if k == n else next(found) for k in range(len(start))]


# --- References ---------------------------------------------------------------------------------


@MOSAIC.define(_references.get_p)
def _get(w: Writer, eqn: Eqn, ref: Ref, *places: Value) -> Any:
    return (memory.load(w, ref, eqn.params["views"], places),)


@MOSAIC.define(_references.swap_p)
def _swap(w: Writer, eqn: Eqn, ref: Ref, value: Value, *places: Value) -> Any:
    views = eqn.params["views"]
    old = memory.load(w, ref, views, places) if eqn.outvars[0] in w.used else value
    memory.store(w, ref, value, views, places)
    return (old,)


@MOSAIC.define(_references.addupdate_p)
def _addupdate(w: Writer, eqn: Eqn, ref: Ref, value: Value, *places: Value) -> Any:
    views = eqn.params["views"]
    (new,) = MOSAIC[lax.add_p](w, eqn, memory.load(w, ref, views, places), value)
    memory.store(w, ref, new, views, places)
    return ()


@MOSAIC.define(accesses.masked_load_p)
def _masked_load(w: Writer, eqn: Eqn, ref: Ref, mask: Value, other: Value, *places: Value) -> Any:
    x = memory.load(w, ref, eqn.params["views"], places)
    return (w.select(w.spread(mask, x.shape), x, w.spread(w.convert(other, x.dtype), x.shape)),)


@MOSAIC.define(accesses.masked_swap_p)
def _masked_swap(w: Writer, eqn: Eqn, ref: Ref, value: Value, mask: Value, *places: Value) -> Any:
    views, old = eqn.params["views"], value
    if eqn.outvars[0] in w.used:
        old = w.select(mask, memory.load(w, ref, views, places), value)
    memory.store(w, ref, value, views, places, mask)
    return (old,)


@MOSAIC.define(_references.empty_ref_p)
def _empty_ref(w: Writer, eqn: Eqn) -> Any:
    aval = eqn.params["aval"]
    space = space_of(eqn.params["memory_space"], "vmem")
    return (memory.allocate(w, aval.dtype, aval.shape, space),)


@MOSAIC.define(debugging.debug_print_p)
def _print(w: Writer, eqn: Eqn, *xs: Value) -> Any:
    parts = eqn.params["fmt"].split("{}")
    text = parts[0]
    for k, (x, part) in enumerate(zip(xs, parts[1:], strict=False)):
        text += f"${'f' if is_float(x.dtype) else 's'}{k}{part}"
    if not xs:
        w.line(f"tpu.log {quoted(text)}")
        return ()
    if any(x.shape for x in xs):
        if len(xs) > 1:
            raise Refused("debug_print of several arrays", "Print one array at a time.")
        (x,) = xs
        buffer = memory.allocate(w, x.dtype, x.shape, "vmem")
        memory.store(w, buffer, x, (), ())
        shape = f"{{shape = array<i64: {', '.join(map(str, x.shape))}>}}"
        w.line(f"tpu.log_buffer {quoted(text)} {shape} : {buffer.name} : {buffer.type}")
        return ()
    names, kinds = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
    w.line(f"tpu.log {quoted(text)} {{formatted = true}} : [{names}] : {kinds}")
    return ()
