"""Rules on speed and memory: constants, callbacks, unrolled loops, donation."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from teucer._check.graph import Value, ancestors, number_of, plain
from teucer._check.lines import in_library, record_of
from teucer._check.program import Found, Program
from teucer._core import structure
from teucer._derived.liveness import bytes_of, peak_of, size_text

_LARGE = 4 << 20  # bytes of a constant
_REPEATED = 32  # steps of a Python loop
_EQUATIONS = 256  # equations that the steps of such a loop make in all
_CALLBACKS = {"io_callback", "pure_callback", "debug_callback", "debug_print", "callback"}


def constants(program: Program) -> Iterator[Found]:
    """T501: a large array that the program contains, instead of taking it as an argument."""
    for v in program.graph.of("constant"):
        if not v.shape or not _is_sized(v):
            continue
        size = bytes_of(v.aval)
        if size < _LARGE:
            continue
        use: Any = next((u for u in v.uses if u.eqn is not None), None)
        yield Found(
            "T501",
            f"an array of {size_text(size)}, {v.aval.str_short(True)}, is closed over: it becomes "
            "part of the program, is hashed and compiled, and stays in memory with it.",
            use if use is not None else program.line,
            "Pass it as an argument.",
        )


def _is_sized(v: Value) -> bool:
    return all(isinstance(n, int) for n in v.shape)


def callbacks(program: Program) -> Iterator[Found]:
    """T502: a callback within a loop, so that each step waits for Python."""
    for eqn, context in program.graph.equations:
        name = eqn.primitive.name
        if name in _CALLBACKS and context.loops and not in_library(eqn.place):
            if name.startswith("debug"):
                continue
            n = context.times
            often = f"{n} times" if n > 1 else "at each step"
            yield Found(
                "T502",
                f"{name} runs within a loop, {often}: each waits for Python and the host.",
                eqn.place,
                "Return what the steps give as stacked results of scan, and call Python once, "
                "after the loop; or write the function in jnp.",
            )


def unrolled(program: Program) -> Iterator[Found]:
    """T503: a loop of Python whose steps are written out in the program."""
    by_record: dict[Any, list[Any]] = collections.defaultdict(list)
    for eqn, context in program.graph.equations:
        if context.backward or in_library(eqn.place) or context.calls:
            continue
        record = record_of(eqn.place)
        by_record[record, context.loops].append(eqn)
    groups: dict[Any, list[tuple[int, Any]]] = collections.defaultdict(list)
    for (record, loops), eqns in by_record.items():
        kinds = collections.Counter((e.primitive, tuple(v.aval for v in e.outvars)) for e in eqns)
        times = min(kinds.values())
        if times >= _REPEATED:
            groups[record[0], loops].append((len(eqns), eqns[0]))
    for found in groups.values():
        total = sum(n for n, _ in found)
        if total >= _EQUATIONS:
            first = min(found, key=lambda f: _number(f[1]))[1]
            yield Found(
                "T503",
                f"a Python loop is unrolled into {total} equations: tracing and compiling take "
                "time in proportion.",
                first.place,
                "Write it as jax.lax.scan or fori_loop; where steps do not depend on each other, "
                "as operations on whole arrays, or vmap.",
            )


def _number(eqn: Any) -> int:
    record = record_of(eqn.place)
    return record[1] if record is not None else 0


def donations(program: Program) -> Iterator[Found]:
    """T507: donated arguments that no result has the type of."""
    donated = program.donated
    if not any(donated):
        return
    free = collections.Counter(_kind(v.aval) for v in program.graph.results)
    for v, given, name in zip(program.graph.arguments, donated, program.names, strict=True):
        if not given:
            continue
        kind = _kind(v.aval)
        if free[kind] > 0:
            free[kind] -= 1
            continue
        yield Found(
            "T507",
            f"the donated argument {name}, {v.aval.str_short(True)}, cannot be used: no result has "
            "its shape and type. It is deleted all the same.",
            program.line,
            "Donate what is replaced by a result of the same type, or do not donate it.",
        )


def _kind(aval: Any) -> Any:
    return getattr(aval, "shape", None), str(getattr(aval, "dtype", None))


def memory(program: Program) -> Iterator[Found]:
    """T506: a program that needs more memory than there is."""
    limit = program.settings.memory
    if limit is None or any(not _is_sized(v) for v in program.graph.values if v.shape):
        return
    peak = peak_of(program.jaxpr, [f"argument {n}" for n in program.names], program.donated)
    if peak.size > limit:
        largest = peak.live[0] if peak.live else None
        most = ""
        if largest is not None:
            what = largest.name or f"the result of {largest.eqn and largest.eqn.primitive.name}"
            most = f" The largest part is {what}, {size_text(largest.size)}."
        yield Found(
            "T506",
            f"the program needs about {size_text(peak.size)}; the device has {size_text(limit)}."
            f"{most}",
            peak.at.place if peak.at is not None else program.line,
            "Shard arrays over devices, use smaller batches, or jax.checkpoint; "
            "jax.debug.memory shows what is live.",
        )


_STEPS = 16  # of a loop that is worth to be an operation on arrays


def elementwise_loops(program: Program) -> Iterator[Found]:
    """T505: a loop whose steps write elements that depend on no other step."""
    for v in program.graph.of("carry"):
        if v.next is None or not v.shape or v.context.backward or len(v.context.loops) != 1:
            continue
        made = plain(v.next)
        if made.op not in ("scatter", "dynamic_update_slice") or not made.is_users:
            continue
        update = made.operands[2] if made.op == "scatter" else made.operands[1]
        known = 1 < structure.times(v.context.loops[0]) < _STEPS
        if plain(made.operands[0]) is not v or known or not _is_free(update):
            continue
        yield Found(
            "T505",
            "the steps of this loop write elements that do not depend on each other, one at a "
            "time.",
            made,
            "Compute all at once: operations on whole arrays, or jax.vmap of what a step does.",
        )


def _is_free(update: Value) -> bool:
    """Whether what a step writes depends on counters and constants of the loop only."""
    most = 200
    found = list(ancestors(update, most))
    if len(found) >= most:
        return False
    return any(x.op == "carry" for x in found) and all(
        x.op != "element" and not x.op.startswith("random") and (x.op != "carry" or _is_counter(x))
        for x in found
    )


def _is_counter(x: Value) -> bool:
    if x.shape or x.is_float or x.next is None:
        return False
    step = plain(x.next)
    return step.op == "add" and any(number_of(y) is not None for y in step.operands)
