"""Compiled programs read as text: computations, their instructions, and how often each runs.

https://openxla.org/xla/operation_semantics says what the instructions are.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"(ROOT )?%?([\w.\-]+) = (.*)$")
_ARRAY = re.compile(r"([a-z]+\d*[a-z0-9]*)\[([\d,<= ]*)\]")
_CALLED = re.compile(
    r"(body|condition|to_apply|calls|true_computation|false_computation)=%([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_BITS = {"pred": 8, "token": 0, "opaque": 0, "s4": 4, "u4": 4, "s2": 2, "u2": 2, "s1": 1, "u1": 1}


class Instruction(NamedTuple):
    """One instruction: its name, the text of its type, its operands by name, and what follows."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @property
    def called(self) -> str | None:
        """The computation that a fusion, a call or a loop runs, by name."""
        return self.attribute(r"(?:calls|to_apply|body)=%?([\w.\-]+)")

    @property
    def says_place(self) -> bool:
        """Whether it says from which stack frame it comes."""
        return "stack_frame_id=" in self.attributes

    @property
    def trips(self) -> float:
        """How often a loop runs its body; nan where that is not known."""
        found = self.attribute(r'"known_trip_count":\{"n":"(\d+)"')
        return math.nan if found is None else float(found)

    def attribute(self, pattern: str) -> str | None:
        """The text of the pattern's group in the attributes, or None."""
        found = re.search(pattern, self.attributes)
        return None if found is None else found[1]


class Computation(NamedTuple):
    """A function of a module: its instructions by name, in order."""

    name: str
    is_entry: bool
    instructions: dict[str, Instruction]

    @property
    def parameters(self) -> dict[str, int]:
        """The names of the parameters, and their numbers."""
        return {
            i.name: int(i.operands[0])
            for i in self.instructions.values()
            if i.opcode == "parameter"
        }

    def type_of(self, name: str) -> str:
        """The text of the type of an instruction; none where the name is of no instruction."""
        found = self.instructions.get(name)
        return "" if found is None else found.type

    @property
    def root(self) -> Instruction:
        """The instruction whose value is the result."""
        return next(i for i in reversed(self.instructions.values()) if i.is_root)


class Module:
    """A compiled program, from its text."""

    def __init__(self, text: str) -> None:
        self.computations = dict(_computations(text))
        self._places = places(text)

    @property
    def entry(self) -> Computation:
        """The computation that the program is."""
        return next(c for c in self.computations.values() if c.is_entry)

    @functools.cached_property
    def runs(self) -> dict[str, float]:
        """How often each computation runs; nan after a loop with an unknown number of turns."""
        runs = dict.fromkeys(self.computations, 0.0)

        def visit(name: str, times: float) -> None:
            runs[name] += times
            for instruction in self.computations[name].instructions.values():
                for called, factor in _calls(instruction):
                    if called in runs:
                        visit(called, times * factor)

        visit(self.entry.name, 1.0)
        return runs

    def callers(self, name: str) -> Iterator[tuple[Computation, Instruction]]:
        """The instructions that call a computation."""
        for computation in self.computations.values():
            for instruction in computation.instructions.values():
                if any(called == name for called, _ in _calls(instruction)):
                    yield computation, instruction

    def place(self, instruction: Instruction) -> tuple[str, int, str] | None:
        """The file, line and function of the user's program that an instruction comes from."""
        frame = instruction.attribute(r"stack_frame_id=(\d+)")
        if frame is not None:
            return self._places.get(int(frame))
        file, line = (
            instruction.attribute(r'source_file="([^"]*)"'),
            instruction.attribute(r"source_line=(\d+)"),
        )
        return None if file is None else (file, int(line or 0), "")


def _computations(text: str) -> Iterator[tuple[str, Computation]]:
    current: Computation | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if current is None:
            header = _HEADER.match(stripped)
            if header is not None and not line.startswith(" "):
                current = Computation(header[2], header[1] is not None, {})
        elif stripped == "}":
            yield current.name, current
            current = None
        else:
            made = _instruction(stripped)
            if made is not None:
                current.instructions[made.name] = made


def _instruction(line: str) -> Instruction | None:
    found = _INSTRUCTION.match(line)
    if found is None:
        return None
    rest = found[3]
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    kind, rest = rest[:end], rest[end:].strip()
    opcode, _, rest = rest.partition("(")
    close = _closing("(" + rest, 0) - 1
    operands = tuple(re.findall(r"%([\w.\-]+)", rest[:close])) or (rest[:close],)
    return Instruction(
        found[2], kind, opcode.strip(), operands, rest[close + 1 :], found[1] is not None
    )


def _closing(text: str, start: int) -> int:
    """Where the parenthesis at `start` is closed."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return len(text) - 1


def _calls(instruction: Instruction) -> list[tuple[str, float]]:
    """The computations that an instruction runs, each with how often."""
    if instruction.opcode.startswith(
        ("all-reduce", "reduce-scatter", "reduce", "sort", "scatter", "select-and", "map")
    ):
        return []  # of scalars
    times = instruction.trips if instruction.opcode == "while" else 1.0
    found = [(name, times) for _, name in _CALLED.findall(instruction.attributes)]
    branches = _BRANCHES.search(instruction.attributes)
    if branches is not None:
        found += [(name.strip().lstrip("%"), 1.0) for name in branches[1].split(",")]
    return found


def called_by(instruction: Instruction) -> list[str]:
    """The computations that an instruction runs, by name."""
    return [name for name, _ in _calls(instruction)]


def places(text: str) -> dict[int, tuple[str, int, str]]:
    """The file, line and function of each stack frame in the tables at the head of a module."""
    files = _table(text, "FileNames", r'"(.*)"')
    functions = _table(text, "FunctionNames", r'"(.*)"')
    locations = _table(
        text, "FileLocations", r"\{file_name_id=(\d+) function_name_id=(\d+) line=(\d+)"
    )
    frames = _table(text, "StackFrames", r"\{file_location_id=(\d+)")
    found = {}
    for frame, (location,) in frames.items():
        if int(location) in locations:
            file, function, line = locations[int(location)]
            found[frame] = (files[int(file)][0], int(line), functions[int(function)][0])
    return found


def _table(text: str, name: str, pattern: str) -> dict[int, tuple[str, ...]]:
    found = re.search(rf"^{name}\n((?:\d+ .*\n)*)", text, re.MULTILINE)
    rows: dict[int, tuple[str, ...]] = {}
    for line in found[1].splitlines() if found is not None else ():
        number, _, rest = line.partition(" ")
        match = re.match(pattern, rest)
        if match is not None:
            rows[int(number)] = match.groups()
    return rows


def sizes_in(kind: str) -> list[tuple[str, list[int]]]:
    """The dtype and the shape of each array in the text of a type."""
    return [
        (dtype, [int(n.strip().removeprefix("<=")) for n in sizes.split(",") if n.strip()])
        for dtype, sizes in _ARRAY.findall(kind)
    ]


def size_of(kind: str) -> int:
    """Bytes of values of a type, from its text; of a tuple, of all elements."""
    total = 0
    for dtype, sizes in sizes_in(kind):
        digits = re.search(r"\d+", dtype)
        bits = _BITS.get(dtype) if dtype in _BITS else int(digits[0]) if digits is not None else 0
        total += -(-math.prod(sizes) * (bits or 0) // 8)
    return total
