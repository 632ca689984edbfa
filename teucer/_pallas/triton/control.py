"""Triton's rules of programs within programs: calls, conditions, loops; and of references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Literal
from teucer._derived.remat import name_p
from teucer._pallas import accesses, counting
from teucer._pallas.triton import memory
from teucer._pallas.triton.arithmetic import convert
from teucer._pallas.triton.table import TRITON, run
from teucer._pallas.triton.text import BOOL, I32, Refused, Value, Writer, is_float, is_signed
from teucer.lax import _references

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike


@TRITON.define(structure.Call)
def _call(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    call: Any = structure.of(eqn, operands)
    return run(w, call.body, operands)


@TRITON.define(name_p)
def _same(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (x,)


# --- Conditions and loops -----------------------------------------------------------------------


def _counts(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "i"


@TRITON.define(structure.Branch)
def _cond(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    branch: Any = structure.of(eqn, operands)
    if branch.platforms is not None:
        raise Refused("a choice by platform", "Let the kernel compute the same on every platform.")
    avals = [v.aval for v in eqn.outvars]
    return _branch(w, branch.index, branch.programs, 0, avals, branch.operands)


def _branch(
    w: Writer,
    index: Value,
    branches: Sequence[Any],
    first: int,
    avals: Sequence[Any],
    operands: Sequence[Any],
) -> Sequence[Any]:
    """The branch of this index, from `first` on. The last branch also serves all greater
    indices."""
    if first == len(branches) - 1:
        return run(w, branches[first], operands)
    here = index if index.dtype == BOOL else w.compare("sle", index, w.constant(first, index.dtype))
    outs = [Value("", a.dtype, a.shape) for a in avals]
    name, kinds = w.name(), ", ".join(o.type for o in outs)
    result = f"{name}{f':{len(outs)}' if len(outs) > 1 else ''} = " if outs else ""
    w.line(f"{result}scf.if {here.name}{f' -> ({kinds})' if outs else ''} {{")
    for part in (0, 1):
        with w.block():
            found = (
                run(w, branches[first], operands)
                if part == 0
                else _branch(w, index, branches, first + 1, avals, operands)
            )
            if outs:
                w.line(f"scf.yield {', '.join(x.name for x in found)} : {kinds}")
        w.line("} else {" if part == 0 else "}")
    return _results(name, outs)


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
    plain = [c._replace(bounds=None) for c in carry]
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
        pairs = ", ".join(f"{c.name} = {x.name}" for c, x in zip(inner, carry, strict=True))
        head = (
            f"{name}{f':{len(carry)}' if len(carry) > 1 else ''} = {head} iter_args({pairs}) -> "
            f"({kinds})"
        )
    w.line(f"{head} : {low.type} {{")
    with w.block():
        after = body(i, inner)
        if carry:
            w.line(f"scf.yield {', '.join(x.name for x in after)} : {kinds}")
    w.line("}")
    return _results(name, plain) if carry else []


@TRITON.define(structure.Loop)
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
    held = [k for k in range(n) if k != counter]
    first = start[counter].bounds if counter is not None else None
    if counter is not None and (first is None or first[0] != first[1]):
        counter, held = None, list(range(n))

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
    low, high = w.constant(begin, dtype), w.constant(begin + loop.length, dtype)
    outs = for_loop(w, low, high, [start[k] for k in held], step)
    if counter is not None:
        outs.insert(counter, high)
    return outs


def _while(w: Writer, loop: structure.Loop) -> Any:
    cond: Any = loop.condition
    cond_consts, body, consts, start = loop.condition_consts, loop.body, loop.consts, loop.carry
    bounded = counting.bounded(cond, body, len(cond_consts), len(consts), _counts)
    if bounded is not None:
        return _counted(w, body, bounded, consts, start)
    plain = [x._replace(bounds=None) for x in start]
    kinds, name = ", ".join(x.type for x in plain), w.name()
    before, after = ([x._replace(name=w.name()) for x in plain] for _ in range(2))
    pairs = ", ".join(f"{a.name} = {x.name}" for a, x in zip(before, start, strict=True))
    w.line(
        f"{name}{f':{len(start)}' if len(start) > 1 else ''} = scf.while ({pairs}) : ({kinds}) -> "
        f"({kinds}) {{"
    )
    with w.block():
        (go,) = run(w, cond, [*cond_consts, *before])
        w.line(f"scf.condition({go.name}) {', '.join(x.name for x in before)} : {kinds}")
    w.line("} do {")
    w.line(f"^bb0({', '.join(f'{x.name}: {x.type}' for x in after)}):")
    with w.block():
        outs = run(w, body, [*consts, *after])
        w.line(f"scf.yield {', '.join(x.name for x in outs)} : {kinds}")
    w.line("}")
    return _results(name, plain)


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


@TRITON.define(_references.get_p)
def _get(w: Writer, eqn: Eqn, ref: Any, *places: Value) -> Any:
    return (memory.load(w, ref, eqn.params["views"], places),)


@TRITON.define(_references.swap_p)
def _swap(w: Writer, eqn: Eqn, ref: Any, value: Value, *places: Value) -> Any:
    old = memory.load(w, ref, eqn.params["views"], places) if eqn.outvars[0] in w.used else value
    memory.store(w, ref, value, eqn.params["views"], places)
    return (old,)


@TRITON.define(_references.addupdate_p)
def _addupdate(w: Writer, eqn: Eqn, ref: Any, value: Value, *places: Value) -> Any:
    views = eqn.params["views"]
    if accesses.names_places(views):  # an element may be named several times
        memory.atomic(w, ref, _ADD(ref.dtype), value, views, places, None)
        return ()
    old = memory.load(w, ref, views, places)
    (new,) = TRITON[lax.add_p](w, eqn, old, value)
    memory.store(w, ref, new, views, places)
    return ()


def _ADD(dtype: DTypeLike) -> str:  # one of the operations
    return "fadd" if is_float(dtype) else "add"


@TRITON.define(accesses.masked_load_p)
def _masked_load(w: Writer, eqn: Eqn, ref: Any, mask: Value, other: Value, *places: Value) -> Any:
    p = eqn.params
    return (
        memory.load(
            w,
            ref,
            p["views"],
            places,
            mask=mask,
            other=convert(w, other, ref.dtype),
            cache=p["cache_modifier"],
            evict=p["eviction_policy"],
            volatile=p["volatile"],
        ),
    )


@TRITON.define(accesses.masked_swap_p)
def _masked_swap(w: Writer, eqn: Eqn, ref: Any, value: Value, mask: Value, *places: Value) -> Any:
    views, policy = eqn.params["views"], eqn.params["eviction_policy"]
    old = (
        memory.load(w, ref, views, places, mask=mask, other=value)
        if eqn.outvars[0] in w.used
        else value
    )
    memory.store(w, ref, value, views, places, mask=mask, evict=policy)
    return (old,)


@TRITON.define(accesses.atomic_rmw_p)
def _atomic(w: Writer, eqn: Eqn, ref: Any, value: Value, mask: Value, *places: Value) -> Any:
    kind, dtype = eqn.params["operation"], ref.dtype
    if kind in ("max", "min") and is_float(dtype):
        raise Refused(
            f"atomic_{kind} of {dtype}", "Take the integers of the same bits and order, or int32."
        )
    operation = {
        "add": _ADD(dtype),
        "max": "max" if is_signed(dtype) else "umax",
        "min": "min" if is_signed(dtype) else "umin",
    }.get(kind, {"xchg": "exch"}.get(kind, kind))
    everywhere = type(eqn.invars[2]) is Literal
    return (
        memory.atomic(
            w, ref, operation, value, eqn.params["views"], places, None if everywhere else mask
        ),
    )


@TRITON.define(accesses.atomic_cas_p)
def _cas(w: Writer, eqn: Eqn, ref: Any, compared: Value, value: Value, *places: Value) -> Any:
    return (memory.compare_and_swap(w, ref, compared, value, eqn.params["views"], places),)
