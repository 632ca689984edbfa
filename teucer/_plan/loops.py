"""How often loops of compiled programs turn, where compilers do not say it.

libtpu drops the count. It is the constant that the condition compares a counter with, less where
the counter starts, over what the body adds to it.
"""

from __future__ import annotations

import math

from teucer._derived import hlo_text as hlo

_HANDED_ON = ("copy", "bitcast", "convert", "reshape", "broadcast")


def turns(module: hlo.Module, loop: hlo.Instruction) -> float:
    """How often a loop runs its body; nan if that depends on values."""
    if not math.isnan(loop.trips):
        return loop.trips
    condition = module.computations.get(loop.attribute(r"condition=%?([\w.\-]+)") or "")
    body = module.computations.get(loop.called or "")
    if condition is None or body is None:
        return math.nan
    test = _test(module, condition)
    if test is None:
        return math.nan
    index, limit, at_end = test
    step = _step(module, body, index)
    start = _start(module, loop, index)
    if not step:
        return math.nan
    return max(0.0, float(-(-(limit + at_end - start) // step)))


def _test(module: hlo.Module, condition: hlo.Computation) -> tuple[int, int, int] | None:
    """Which element of the state is compared, with what, and 1 if it may be as large."""
    root = condition.root
    names = dict(condition.instructions)
    operands = list(root.operands)
    if root.opcode == "fusion":
        inner = module.computations.get(root.called or "")
        if inner is None or inner.root.opcode != "compare":
            return None
        numbers = inner.parameters
        operands = [
            root.operands[numbers[name]]
            if name in numbers
            else f"{_constant(inner.instructions, name)}"
            for name in inner.root.operands
        ]
        root = inner.root
    if root.opcode != "compare":
        return None
    way = root.attribute(r"direction=(\w\w)")
    first, second = operands[:2]
    index = _element(names, first)
    limit = _constant(names, second)
    if index is None or limit is None or way not in ("LT", "LE"):
        return None
    return index, limit, int(way == "LE")


def _element(names: dict[str, hlo.Instruction], name: str) -> int | None:
    """The number of the element of a loop's state that a name is."""
    row = names.get(name)
    while row is not None and row.opcode in _HANDED_ON:
        row = names.get(row.operands[0])
    found = None if row is None else row.attribute(r"index=(\d+)")
    return int(found) if found is not None and row is not None else None


def _constant(names: dict[str, hlo.Instruction], name: str) -> int | None:
    """The integer that a name is."""
    if name.lstrip("-").isdecimal():
        return int(name)
    row = names.get(name)
    while row is not None and row.opcode in _HANDED_ON:
        row = names.get(row.operands[0])
    if row is None or row.opcode != "constant":
        return None
    text = row.operands[0].strip("{} ")
    return int(text) if text.lstrip("-").isdecimal() else None


def _step(module: hlo.Module, body: hlo.Computation, index: int) -> int | None:
    """What the body adds to an element of the state."""
    root = body.root
    if root.opcode != "tuple" or index >= len(root.operands):
        return None
    names, row = body.instructions, body.instructions.get(root.operands[index])
    while row is not None and row.opcode in _HANDED_ON:
        row = names.get(row.operands[0])
    if row is not None and row.opcode == "fusion":
        given = row.operands
        inner = module.computations.get(row.called or "")
        if inner is None:
            return None
        added = inner.root
        if added.opcode != "add":
            return None
        for name in added.operands:
            found = _constant(inner.instructions, name)
            if found is None and name in inner.parameters:
                found = _constant(names, given[inner.parameters[name]])
            if found is not None:
                return found
        return None
    if row is None or row.opcode != "add":
        return None
    return next((c for c in (_constant(names, n) for n in row.operands) if c is not None), None)


def _start(module: hlo.Module, loop: hlo.Instruction, index: int) -> int:
    """Where an element of the state starts, if that is known; else 0."""
    for computation in module.computations.values():
        if loop.name not in computation.instructions:
            continue
        state = computation.instructions.get(loop.operands[0])
        if state is not None and state.opcode == "tuple" and index < len(state.operands):
            return _constant(computation.instructions, state.operands[index]) or 0
    return 0
