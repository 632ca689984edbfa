"""What a device holds: the compiler's figures, or its refusal, and what they are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from teucer._derived import hlo_text as hlo
from teucer._plan import buffers
from teucer._plan.chips import Chip
from teucer._plan.parts import origin, shown


class Held(NamedTuple):
    """Values of one type from one line that are in memory at the worst moment: how many, and their
    bytes in all. what: the argument's name, or the operation."""

    type: str
    many: int
    bytes: int
    what: str
    line: str


class Memory(NamedTuple):
    """What a device holds, in bytes.

    peak: the most at once, as the compiler says. capacity: what there is. arguments, results,
    temporaries, code: what the peak is made of; shared: results in the place of arguments that are
    donated. held: what is in memory at the worst moment, the largest first; an estimate, whose sum
    is `seen`. why: what the compiler says where it refuses.
    """

    peak: int
    capacity: int
    arguments: int
    results: int
    temporaries: int
    code: int
    shared: int
    held: tuple[Held, ...]
    seen: int
    why: str = ""

    @property
    def fits(self) -> bool:
        """Whether it fits."""
        return not self.why and self.peak <= self.capacity


def of(module: hlo.Module, stats: Any, chip: Chip, names: Sequence[str]) -> Memory:
    """The memory of a compiled program. names: of its arguments."""
    peak = buffers.peak_of(module)
    held: dict[object, Held] = {}
    for buffer in peak.live:
        row = buffer.instruction
        if row.opcode == "parameter":
            number = int(row.operands[0])
            what, line = names[number] if number < len(names) else row.name, ""
            what = f"argument {what}"
        else:
            source = origin(module, buffer.computation, row)
            place = module.place(source)
            scope = source.attribute(r'op_name="([^"]*)"') or ""
            what = re.split(r"[;:]", scope)[0].strip("()").rpartition("/")[2] or row.opcode
            line = "" if place is None else shown(*place[:2])
        key = (buffer.type, what, line)
        old = held.get(key, Held(buffer.type, 0, 0, what, line))
        held[key] = old._replace(many=old.many + 1, bytes=old.bytes + buffer.size)
    total = (
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        + stats.temp_size_in_bytes
        - stats.alias_size_in_bytes
    )
    return Memory(
        # Some plugins say no peak.
        int(getattr(stats, "peak_memory_in_bytes", 0) or total),
        int(chip.memory),
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.generated_code_size_in_bytes,
        stats.alias_size_in_bytes,
        tuple(sorted(held.values(), key=lambda h: -h.bytes)),
        peak.size,
    )


_AMOUNT = r"([\d.]+)([KMGT]?)"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def refusal(err: BaseException, chip: Chip) -> Memory | None:
    """What the compiler of TPUs says of a program that does not fit; None for another error."""
    said = str(err)
    if "RESOURCE_EXHAUSTED" not in said or "HBM" not in said.upper():
        return None
    need = re.search(rf"Used {_AMOUNT} of {_AMOUNT} hbm|\({_AMOUNT}\) exceeds available", said)
    sizes = [] if need is None else [g for g in need.groups() if g is not None]
    peak = _bytes(sizes[0], sizes[1]) if sizes else 0
    held = []
    for block in re.split(r"\n\s*\d+\. ", said)[1:]:
        size = re.search(rf"Size: {_AMOUNT}", block)
        kind = re.search(r"Shape: (\S+?)(?:\{|\s|$)", block)
        label = re.search(r'op_name="([^"]*)"', block)
        source = re.search(r'source_file="([^"]*)" source_line=(\d+)', block)
        if size is not None:
            held.append(
                Held(
                    kind[1] if kind is not None else "?",
                    1,
                    _bytes(size[1], size[2]),
                    label[1].rpartition("/")[2] if label is not None else "",
                    "" if source is None else shown(source[1], int(source[2])),
                )
            )
    first = said.partition("\n")[0]
    return Memory(
        peak, int(chip.memory), _said("arguments?", said), 0, _said("program", said), 0, 0,
        tuple(held), sum(h.bytes for h in held), first,
    )  # fmt: skip


def _said(what: str, text: str) -> int:
    found = re.search(rf"\b{what}\s+{_AMOUNT}", text)
    return 0 if found is None else _bytes(found[1], found[2])


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit])
