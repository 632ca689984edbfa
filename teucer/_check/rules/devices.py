"""Rules on several devices: gradients that are summed twice, arrays on every device."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from teucer._check.findings import Line
from teucer._check.graph import Value, ancestors, number_of
from teucer._check.lines import record_of
from teucer._check.program import Found, Program
from teucer._core import structure
from teucer._derived.communication.collect import communication
from teucer._derived.communication.table import amount
from teucer._derived.stages import jit

_PLACE = re.compile(r"(.+?):(\d+)")
_SUMS = ("psum", "psum_invariant")
_LINEAR = frozenset(
    {
        "pvary", "pbroadcast", "convert_element_type", "reshape", "squeeze", "expand_dims", "neg",
        "broadcast_in_dim", "transpose", "copy", "mul", "div", "stacked", "carried", "element",
    }
)  # fmt: skip
_ROWS = 256
_MOST = 4000  # values that are looked at for one sum


def sums_of_gradients(program: Program) -> Iterator[Found]:
    """T603: within shard_map the user sums a gradient over devices that is summed already."""
    for v in program.graph.of(*_SUMS):
        if v.context.mesh is None or not v.is_users or _is_mean(v):
            continue
        axes = set(v.params["axes"])
        seeds = [x for x in ancestors(v.operands[v.index], _MOST) if _is_backward_sum(x, axes)]
        if seeds and _is_same_everywhere(v, axes):
            yield _twice(
                v,
                "the gradient of what is replicated was summed over these devices already, by the "
                "derivative",
            )
            continue
        if any(number_of(x.operands[x.index]) == 1.0 for x in seeds):
            yield _twice(
                v,
                "the loss that is differentiated is a psum, whose derivative here sums the "
                "cotangents of all devices, too",
            )


def _is_same_everywhere(v: Value, axes: set[Any]) -> bool:
    """Whether a sum is of a value that all devices have: the call of psum itself spread it."""
    x = v.operands[v.index]
    return (
        x.op == "pvary"
        and axes <= set(x.params["axes"])
        and record_of(x.place) == record_of(v.place)
    )


def _twice(v: Value, why: str) -> Found:
    axes = ", ".join(map(str, v.params["axes"]))
    n = _count(v)
    return Found(
        "T603",
        f"this psum over {axes} makes a gradient {n} times too large: {why}.",
        v,
        "Remove the psum, or use pmean for a mean. To get the gradient of each device's own part, "
        "differentiate with respect to jax.lax.pcast(w, axes, to='varying').",
    )


def _linear(x: Value) -> Iterator[Value]:
    """A value, and the values that it is a multiple of."""
    queue, seen = [x], {id(x)}
    while queue:
        value = queue.pop()
        yield value
        if value.op in _LINEAR:
            for operand in value.operands[:2]:
                if operand.op != "constant" and id(operand) not in seen:
                    seen.add(id(operand))
                    queue.append(operand)


def _is_backward_sum(x: Value, axes: set[Any]) -> bool:
    return x.op in _SUMS and x.context.backward and axes <= set(x.params["axes"])


def _count(v: Value) -> int:
    n = 1
    for axis in v.params["axes"]:
        n *= dict(v.context.mesh.shape).get(axis, 1)
    return n


def _is_mean(v: Value) -> bool:
    """Whether all uses divide the sum by the number of devices."""
    n = _count(v)
    uses = [u for u in v.uses if u.eqn is not None]
    return bool(uses) and all(
        (u.op == "div" and number_of(u.operands[1]) == n)
        or (u.op == "mul" and any(_is_near(number_of(x), 1 / n) for x in u.operands))
        for u in uses
    )


def _is_near(x: float | None, y: float) -> bool:
    return x is not None and abs(x - y) < 1e-6


def gradients_of_all(program: Program) -> Iterator[Found]:
    """T602: a gradient of replicated values that was summed over devices, but is returned as a
    value of each device."""
    for v in program.graph.of("whole"):
        if v.eqn is None or v.context.mesh is not None:
            continue
        specs = v.eqn.params.get("out_specs", ())
        if v.index >= len(specs) or not _axes_of(specs[v.index]):
            continue
        given = _axes_of(specs[v.index])
        for x in _linear(v.operands[0]):
            if x.op == "psum_invariant" and x.context.backward and given & set(x.params["axes"]):
                yield Found(
                    "T602",
                    "the gradient of a value that is the same on all devices is summed over "
                    "them by the derivative; here the sum is given as each device's own.",
                    x,
                    "Where the parts are wanted, differentiate with respect to "
                    "jax.lax.pcast(w, axes, to='varying'). Where the sum is, give it with "
                    "out_specs=P().",
                )
                break


def _axes_of(spec: Any) -> set[Any]:
    found: set[Any] = set()
    for entry in tuple(spec or ()):
        if entry is not None:
            found |= set(entry) if isinstance(entry, tuple) else {entry}
    return found


def replicated(program: Program) -> Iterator[Found]:
    """T601: an array that every device has whole, beside one of the same length that is sharded."""
    for eqn, context in program.graph.equations:
        if structure.kind_of(eqn.primitive) is structure.Mapped and context.mesh is None:
            specs = eqn.params.get("in_specs") or ()
            shapes = [getattr(v.aval, "shape", ()) for v in eqn.invars]
            if len(specs) == len(shapes):
                # Few rows are often equal in number by chance, as devices and experts are.
                operands = [
                    (shape, spec.partitions)
                    if shape and isinstance(shape[0], int) and shape[0] >= _ROWS
                    else ((), ())
                    for shape, spec in zip(shapes, specs, strict=True)
                ]
                names = [f"operand {i}" for i in range(len(operands))]
                yield from _beside(operands, names, eqn.place)
    rows: list[tuple[Any, Any]] = []
    for x in program.leaves:
        spec: Any = getattr(getattr(x, "sharding", None), "spec", None)
        on_mesh = spec is not None and getattr(x.sharding.mesh, "size", 1) > 1
        rows.append((tuple(getattr(x, "shape", ())), spec.partitions if on_mesh else None))
    if len(rows) == len(program.names):
        yield from _beside(rows, list(program.names), program.line)


def _beside(
    rows: Sequence[tuple[tuple[Any, ...], Any]], names: Sequence[str], at: Any
) -> Iterator[Found]:
    split = {
        shape[0]: (name, spec[0])
        for (shape, spec), name in zip(rows, names, strict=True)
        if shape and spec and spec[0] is not None and shape[0] != 1
    }
    for (shape, spec), name in zip(rows, names, strict=True):
        if spec is None or not shape or any(spec) or shape[0] not in split or len(shape) < 1:
            continue
        other, axes = split[shape[0]]
        yield Found(
            "T601",
            f"{name} has {shape[0]} rows, as {other} has, and lies whole on every device, while "
            f"{other} is sharded over {axes}.",
            at,
            f"Shard it alike: P({axes!r}).",
        )


def collectives(program: Program) -> Iterator[Found]:
    """T604: needless communication of devices, found in the compiled program."""
    if not program.settings.compiled or program.traced.job.placement.mesh is None:
        return
    jitted = program.fun if hasattr(program.fun, "trace") else jit(program.fun)
    for row in communication(jitted, *program.args, **program.kwargs):
        if row.remedy:
            place = _PLACE.match(row.line)
            yield Found(
                "T604",
                f"{row.kind} of {row.types} in {row.operation}: devices send {amount(row.sent)} "
                "that an annotation would save.",
                Line(os.path.abspath(place[1]), int(place[2])) if place else program.line,
                row.remedy,
            )
