"""Compiled programs read as text.

From which line each instruction comes, how many operations it does, how many bytes it moves.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_ROW = re.compile(r"^(\d+) (.*)$")
_FIELD = re.compile(r"(\w+)=(\d+)")
_SHAPE = re.compile(r"\b(pred|bf16|[a-z]\d+(?:e\d\w*)?|c\d+)\[([\d,]*)\]")
_HEAD = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_NO_ARITHMETIC = frozenset(
    {
        "bitcast",
        "broadcast",
        "concatenate",
        "constant",
        "convert",
        "copy",
        "dynamic-slice",
        "dynamic-update-slice",
        "gather",
        "get-tuple-element",
        "iota",
        "pad",
        "parameter",
        "reshape",
        "reverse",
        "select",
        "slice",
        "transpose",
        "tuple",
    }
)
_BITS = {"pred": 8, "bf16": 16}


class Instruction(NamedTuple):
    """An instruction: its place, (file, line) or None, its name in the program, operations, and
    bytes of operands and result."""

    place: tuple[str, int] | None
    scope: str
    operations: float
    bytes: int


class _Read(NamedTuple):
    name: str
    shape: str
    opcode: str
    rest: str


def instructions(text: str) -> dict[str, Instruction]:
    """The instructions of a module, in the form that `Compiled.as_text()` gives, by their names."""
    tables = frames(text)
    computations = _computations(text)
    found: dict[str, Instruction] = {}
    counted: dict[str, float] = {}

    def count(computation: str) -> float:
        if computation not in counted:
            counted[computation] = 0.0  # a circle ends here
            rows = computations.get(computation, [])
            shapes = {row.name: row.shape for row in rows}
            counted[computation] = sum(operations(row, shapes) for row in rows)
        return counted[computation]

    def operations(row: _Read, shapes: dict[str, str]) -> float:
        called = re.search(r"(?:calls|to_apply|body)=%?([\w.\-]+)", row.rest)
        if row.opcode in ("fusion", "call", "while") and called:
            trips = re.search(r'known_trip_count":\{"n":"(\d+)"', row.rest)
            return count(called[1]) * (int(trips[1]) if trips else 1)
        if row.opcode == "dot":
            axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", row.rest)
            lhs = re.match(r"[^%]*%?([\w.\-]+)", row.rest)
            sizes = _sizes(shapes.get(lhs[1], "")) if lhs else []
            contracted = (
                [sizes[int(i)] for i in axes[1].split(",") if int(i) < len(sizes)]
                if axes and axes[1]
                else []
            )
            return 2.0 * _elements(row.shape) * math.prod(contracted)
        if row.opcode in ("reduce", "reduce-window"):
            first = re.match(r"[^%]*%?([\w.\-]+)", row.rest)
            return float(_elements(shapes.get(first[1], "") if first else ""))
        return 0.0 if row.opcode in _NO_ARITHMETIC else float(_elements(row.shape))

    for rows in computations.values():
        shapes = {row.name: row.shape for row in rows}
        places = _places(rows, tables, computations)
        for row in rows:
            moved = _bytes(row.shape) + sum(_bytes(shapes.get(name, "")) for name in _operands(row))
            # What runs within a loop or a call is counted by itself.
            done = (
                0.0 if row.opcode in ("while", "call", "conditional") else operations(row, shapes)
            )
            found[row.name] = Instruction(
                places.get(row.name), _scope(row.rest), done, moved if done else 0
            )
    return found


def _places(
    rows: list[_Read], tables: dict[int, tuple[str, int]], computations: dict[str, list[_Read]]
) -> dict[str, tuple[str, int]]:
    """Where the instructions of a computation come from: what does not say it, from where what uses
    it comes, or its operands."""
    found: dict[str, tuple[str, int]] = {}
    for row in rows:
        place = _place(row, tables, computations)
        if place is not None:
            found[row.name] = place
    for ordered in (list(reversed(rows)), rows):
        for row in ordered:
            for operand in _operands(row):
                if row.name in found and operand not in found:
                    found[operand] = found[row.name]
                elif operand in found and row.name not in found:
                    found[row.name] = found[operand]
    return found


def _operands(row: _Read) -> list[str]:
    return re.findall(r"%([\w.\-]+)", row.rest.partition("), ")[0])


def _place(
    row: _Read, tables: dict[int, tuple[str, int]], computations: dict[str, list[_Read]]
) -> tuple[str, int] | None:
    """Where an instruction comes from; a fusion that does not say it, from where most of what it
    does comes."""
    frame = re.search(r"stack_frame_id=(\d+)", row.rest)
    if frame:
        return tables.get(int(frame[1]))
    called = re.search(r"(?:calls|to_apply|body)=%?([\w.\-]+)", row.rest)
    inner = computations.get(called[1], []) if called else []
    places = [p for p in (_place(one, tables, {}) for one in inner) if p is not None]
    return max(set(places), key=places.count) if places else None


def _scope(rest: str) -> str:
    name = re.search(r'op_name="([^"]*)"', rest)
    return name[1] if name else ""


def frames(text: str) -> dict[int, tuple[str, int]]:
    """For each number of a stack frame, the file and the line."""
    sections: dict[str, dict[int, str]] = {}
    current: dict[int, str] | None = None
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            current = sections[line] = {}
        elif current is not None and (match := _ROW.match(line)):
            current[int(match[1])] = match[2]
        elif line:
            current = None
    files = {i: name.strip('"') for i, name in sections.get("FileNames", {}).items()}
    locations = {
        i: {k: int(v) for k, v in _FIELD.findall(row)}
        for i, row in sections.get("FileLocations", {}).items()
    }
    found = {}
    for i, row in sections.get("StackFrames", {}).items():
        at = locations.get({k: int(v) for k, v in _FIELD.findall(row)}.get("file_location_id", 0))
        if at is not None:
            found[i] = (files.get(at.get("file_name_id", 0), "?"), at.get("line", 0))
    return found


def _computations(text: str) -> dict[str, list[_Read]]:
    found: dict[str, list[_Read]] = {}
    rows: list[_Read] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            rows = found[head[1]] = []
        elif row := _LINE.match(line):
            rows.append(_Read(row[1], row[2], row[3], row[4]))
    return found


def _sizes(shape: str) -> list[int]:
    match = _SHAPE.search(shape)
    return [int(n) for n in match[2].split(",") if n] if match else []


def _elements(shape: str) -> int:
    return math.prod(_sizes(shape)) if _SHAPE.search(shape) else 0


def _bytes(shape: str) -> int:
    total = 0
    for kind, sizes in _SHAPE.findall(shape):
        bits = _BITS.get(kind) or int(re.sub(r"\D", " ", kind).split()[0])
        total += math.prod(int(n) for n in sizes.split(",") if n) * max(bits // 8, 1)
    return total
