"""What is in the memory of a device at the worst moment of a scheduled program.

A buffer is in memory from the instruction that makes it to the last one that uses it. Loops and
calls update their operands in place. Compilers share places in ways that texts do not show: the sum
is an estimate, of which the compiler's own figure is the measure.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

from teucer._derived import hlo_text as hlo
from teucer._plan.work import arrays, memory_size

# The buffers of a value: of a tuple, those of each element.
_Value: TypeAlias = "int | list[Any]"


class Buffer(NamedTuple):
    """A buffer: its bytes, the type of what is in it, and the instruction that makes it."""

    size: int
    type: str
    instruction: hlo.Instruction
    computation: hlo.Computation


class Peak(NamedTuple):
    """The most that is in memory at once: bytes, what is there, and at which instruction."""

    size: int
    live: tuple[Buffer, ...]
    at: hlo.Instruction | None


def peak_of(module: hlo.Module) -> Peak:
    """The worst moment of a module; arguments are in memory all the time."""
    return _Walk(module, module.entry, owned=True).peak()


class _Walk:
    """One computation. owned: whether its parameters are buffers, and not those of a caller."""

    def __init__(self, module: hlo.Module, computation: hlo.Computation, *, owned: bool) -> None:
        self._module, self._computation, self._owned = module, computation, owned
        self._buffers: list[Buffer] = []
        self._values: dict[str, _Value] = {}

    def peak(self) -> Peak:
        rows = list(self._computation.instructions.values())
        made: dict[int, int] = {}
        last: dict[int, int] = {}
        inner: dict[int, Peak] = {}
        for i, row in enumerate(rows):
            before = len(self._buffers)
            self._values[row.name] = self._value(row)
            made |= dict.fromkeys(range(before, len(self._buffers)), i)
            for name in row.operands:
                last |= dict.fromkeys(_leaves(self._values.get(name, [])), i)
            if row.opcode in ("while", "call", "conditional"):
                inner[i] = max(
                    (
                        _Walk(self._module, self._module.computations[name], owned=False).peak()
                        for name in hlo.called_by(row)
                        if name in self._module.computations
                    ),
                    key=lambda p: p.size,
                    default=Peak(0, (), None),
                )
        last |= dict.fromkeys(_leaves(self._values[self._computation.root.name]), len(rows))
        for buffer in range(len(self._buffers)):
            if self._buffers[buffer].instruction.opcode == "parameter":
                made[buffer], last[buffer] = 0, len(rows)
        return self._worst(rows, made, last, inner)

    def _worst(
        self,
        rows: list[hlo.Instruction],
        made: dict[int, int],
        last: dict[int, int],
        inner: dict[int, Peak],
    ) -> Peak:
        ends: dict[int, list[int]] = {}
        begins: dict[int, list[int]] = {}
        for buffer, at in made.items():
            begins.setdefault(at, []).append(buffer)
            ends.setdefault(max(at, last.get(buffer, at)), []).append(buffer)
        now, best, at, live = 0, -1, 0, set[int]()
        kept: tuple[int, ...] = ()
        for i in range(len(rows)):
            live |= set(begins.get(i, ()))
            now += sum(self._buffers[b].size for b in begins.get(i, ()))
            within = inner[i].size if i in inner else 0
            if now + within > best:
                best, at, kept = now + within, i, tuple(live)
            for buffer in ends.get(i, ()):
                live.discard(buffer)
                now -= self._buffers[buffer].size
        found = [self._buffers[b] for b in kept if self._buffers[b].size]
        if at in inner:
            found += inner[at].live
        return Peak(max(best, 0), tuple(found), rows[at] if rows else None)

    def _value(self, row: hlo.Instruction) -> _Value:
        known = self._values
        opcode, first = row.opcode, known.get(row.operands[0], []) if row.operands else []
        if opcode == "tuple":
            return [known.get(name, []) for name in row.operands]
        if opcode == "get-tuple-element":
            index = int(row.attribute(r"index=(\d+)") or 0)
            return first[index] if isinstance(first, list) and index < len(first) else []
        if opcode in ("bitcast", "while", "opt-barrier", "copy-done", "add-dependency"):
            return first
        if opcode == "constant" or (opcode == "parameter" and not self._owned):
            return self._empty(row)
        if opcode.endswith("-done"):
            return first[1] if isinstance(first, list) and len(first) > 1 else first
        made = [self._new(a.text, a.size if a.space == 0 else 0, row) for a in arrays(row.type)]
        self._alias(row, made)
        if opcode == "dynamic-update-slice":
            return first
        return made if row.type.startswith("(") or len(made) != 1 else made[0]

    def _empty(self, row: hlo.Instruction) -> _Value:
        """A value without buffers, of the form of its type."""
        return [[] for _ in arrays(row.type)] if row.type.startswith("(") else []

    def _alias(self, row: hlo.Instruction, made: list[int]) -> None:
        """Results that lie where an operand did."""
        said = re.search(r"output_to_operand_aliasing=\{(.*?\))\}", row.attributes)
        pairs = re.findall(r"\{(\d*)\}: \((\d+), \{(\d*)\}\)", said[1]) if said else []
        if row.opcode.endswith("-start") and len(made) > 1:
            pairs = [("0", "0", "")]
        elif row.opcode == "fusion" and not pairs:
            pairs = self._in_place(row)
        for out, operand, element in pairs:
            target = int(out or 0)
            if target < len(made) and self._values.get(row.operands[int(operand)]) is not None:
                buffer = made[target]
                self._buffers[buffer] = self._buffers[buffer]._replace(size=0)
                del element

    def _in_place(self, row: hlo.Instruction) -> list[tuple[str, str, str]]:
        """What a fusion updates in place: the operand that it writes a part of."""
        inner = self._module.computations.get(row.called or "")
        if inner is None or inner.root.opcode != "dynamic-update-slice":
            return []
        number = inner.parameters.get(inner.root.operands[0])
        return [] if number is None else [("", str(number), "")]

    def _new(self, text: str, size: int, row: hlo.Instruction) -> int:
        self._buffers.append(Buffer(size, text, row, self._computation))
        return len(self._buffers) - 1


def _leaves(value: _Value) -> list[int]:
    if isinstance(value, int):
        return [value]
    return [leaf for one in value for leaf in _leaves(one)]


def total(kind: str) -> int:
    """Bytes of a type in the memory of the device."""
    return memory_size(kind)
