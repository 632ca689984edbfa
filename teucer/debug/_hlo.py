"""The instructions of compiled programs: their lines, operations, and bytes moved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from teucer._derived import hlo_text

_NO_ARITHMETIC = frozenset(
    {
        "bitcast", "broadcast", "concatenate", "constant", "convert", "copy", "dynamic-slice",
        "dynamic-update-slice", "gather", "get-tuple-element", "iota", "pad", "parameter",
        "reshape", "reverse", "select", "slice", "transpose", "tuple",
    }
)  # fmt: skip


class Instruction(NamedTuple):
    """An instruction: its place, (file, line) or None, its name in the program, operations, and
    bytes of operands and result."""

    place: tuple[str, int] | None
    scope: str
    operations: float
    bytes: int


def instructions(text: str) -> dict[str, Instruction]:
    """The instructions of a module, in the form that `Compiled.as_text()` gives, by their names."""
    module = hlo_text.Module(text)
    found: dict[str, Instruction] = {}
    counted: dict[str, float] = {}

    def count(name: str) -> float:
        if name not in counted:
            counted[name] = 0.0  # a circle ends here
            computation = module.computations.get(name)
            if computation is not None:
                counted[name] = sum(
                    operations(row, computation) for row in computation.instructions.values()
                )
        return counted[name]

    def operations(row: hlo_text.Instruction, computation: hlo_text.Computation) -> float:
        if row.opcode in ("fusion", "call", "while") and row.called:
            return count(row.called) * (1.0 if math.isnan(row.trips) else row.trips)
        if row.opcode == "dot":
            axes = row.attribute(r"lhs_contracting_dims=\{([\d,]*)\}")
            sizes = _sizes(computation.type_of(row.operands[0]))
            contracted = (
                [sizes[int(i)] for i in axes.split(",") if int(i) < len(sizes)] if axes else []
            )
            return 2.0 * _elements(row.type) * math.prod(contracted)
        if row.opcode in ("reduce", "reduce-window"):
            return float(_elements(computation.type_of(row.operands[0])))
        return 0.0 if row.opcode in _NO_ARITHMETIC else float(_elements(row.type))

    for computation in module.computations.values():
        rows = list(computation.instructions.values())
        places = _places(rows, module)
        for row in rows:
            moved = sum(map(hlo_text.size_of, (row.type, *map(computation.type_of, row.operands))))
            # Instructions within a loop or a call are counted by themselves.
            done = (
                0.0
                if row.opcode in ("while", "call", "conditional")
                else operations(row, computation)
            )
            found[row.name] = Instruction(
                places.get(row.name),
                row.attribute(r'op_name="([^"]*)"') or "",
                done,
                moved if done else 0,
            )
    return found


def _places(
    rows: list[hlo_text.Instruction], module: hlo_text.Module
) -> dict[str, tuple[str, int]]:
    """The lines of a computation's instructions. An instruction without a line gets the line of a
    reader, or of its operands."""
    found: dict[str, tuple[str, int]] = {}
    for row in rows:
        place = _place(row, module)
        if place is not None:
            found[row.name] = place
    for ordered in (list(reversed(rows)), rows):
        for row in ordered:
            for operand in row.operands:
                if row.name in found and operand not in found:
                    found[operand] = found[row.name]
                elif operand in found and row.name not in found:
                    found[row.name] = found[operand]
    return found


def _place(row: hlo_text.Instruction, module: hlo_text.Module) -> tuple[str, int] | None:
    """The line of an instruction; of a fusion without one, the line of most of its operations."""
    if row.says_place:
        return _line(row, module)
    inner = module.computations.get(row.called or "")
    rows: Iterable[hlo_text.Instruction] = inner.instructions.values() if inner else ()
    places = [place for place in (_line(one, module) for one in rows) if place is not None]
    return max(set(places), key=places.count) if places else None


def _line(row: hlo_text.Instruction, module: hlo_text.Module) -> tuple[str, int] | None:
    place = module.place(row)
    return None if place is None else place[:2]


def _sizes(kind: str) -> list[int]:
    return next((sizes for _, sizes in hlo_text.sizes_in(kind)), [])


def _elements(kind: str) -> int:
    return next((math.prod(sizes) for _, sizes in hlo_text.sizes_in(kind)), 0)
