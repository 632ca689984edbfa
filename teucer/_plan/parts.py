"""The rows of a timeline by line of the user's program."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from teucer._derived import hlo_text as hlo
from teucer._derived.communication.groups import mesh_axes
from teucer._plan.timeline import Row
from teucer._plan.work import arrays

_OP_NAME = r'op_name="([^"]*)"'


class Part(NamedTuple):
    """What takes time in a call, on one device.

    kind: 'products', 'elements', 'memory', 'copy' or 'collective'. what: XLA's name of it. types:
    of what each device gives to a collective. axes: of the mesh that a collective is along, None if
    they are none of it; links: of the network. times: how often it runs. seconds: in all; waited:
    what of that the device does nothing else in. operations: of products. bytes: to and from the
    memory, or given to a collective; sent: over links. operation, line: where it comes from.
    backward: whether it is of a backward pass; again: whether it is computed again for one.
    """

    kind: str
    what: str
    types: str
    axes: tuple[str, ...] | None
    links: str
    times: float
    seconds: float
    waited: float
    operations: float
    bytes: float
    sent: float
    operation: str
    line: str
    backward: bool
    again: bool


def of(module: hlo.Module, rows: Sequence[Row], mesh: Mapping[str, int]) -> tuple[Part, ...]:
    """The parts of a timeline, those that the device waits for longest first."""
    found: dict[object, Part] = {}
    for row in rows:
        part = _part(module, row, mesh)
        key = (
            part.kind, part.what, part.types, part.axes, part.operation, part.line, part.backward,
            part.again,
        )  # fmt: skip
        if key in found:
            old = found[key]
            part = old._replace(
                times=old.times + part.times,
                seconds=old.seconds + part.seconds,
                waited=old.waited + part.waited,
                operations=old.operations + part.operations,
                bytes=old.bytes + part.bytes,
                sent=old.sent + part.sent,
            )
        found[key] = part
    return tuple(sorted(found.values(), key=lambda p: (-p.waited, -p.seconds)))


def _part(module: hlo.Module, row: Row, mesh: Mapping[str, int]) -> Part:
    source = origin(module, row.computation, row.instruction)
    scope = source.attribute(_OP_NAME) or ""
    place = module.place(source)
    types = ""
    axes: tuple[str, ...] | None = ()
    if row.kind == "collective":
        inner = _collective_in(module, row)
        axes = mesh_axes(inner[0], inner[0].opcode.removesuffix("-start"), mesh)[0]
        types = ", ".join(
            array.text
            for name in inner[0].operands
            for array in arrays(inner[1].type_of(name))
            if array.size
        )
    return Part(
        row.kind,
        row.opcode,
        types,
        axes,
        "" if row.way is None else str(row.way),
        row.times,
        row.seconds * row.times,
        row.waited * row.times,
        row.products * row.times,
        row.bytes * row.times,
        row.sent * row.times,
        re.split(r"[;:]", scope)[0].strip("()").rpartition("/")[2],
        "" if place is None else shown(*place[:2]),
        "transpose(" in scope,
        "rematted_computation" in scope,
    )


def _collective_in(module: hlo.Module, row: Row) -> tuple[hlo.Instruction, hlo.Computation]:
    """The collective that a row is, or that its fusion has."""
    inner = module.computations.get(row.instruction.called or "")
    for found in inner.instructions.values() if inner is not None else ():
        if "replica_groups=" in found.attributes or "source_target_pairs=" in found.attributes:
            assert inner is not None
            return found, inner
    return row.instruction, row.computation


def origin(
    module: hlo.Module, computation: hlo.Computation, instruction: hlo.Instruction
) -> hlo.Instruction:
    """The instruction that says from where in the program another one comes: itself, what it does,
    or what uses it."""
    waiting, seen = [instruction], {instruction.name}
    while waiting:
        found = waiting.pop(0)
        for one in (found, *_within(module, found)):
            if module.place(one) is not None:
                return one
        users = [
            i
            for i in computation.instructions.values()
            if found.name in i.operands and i.opcode != "tuple"
        ]
        waiting += [user for user in users if user.name not in seen]
        seen |= {user.name for user in users}
    return instruction


def _within(module: hlo.Module, row: hlo.Instruction) -> list[hlo.Instruction]:
    """What a fusion does, the last first."""
    inner = module.computations.get(row.called or "") if row.opcode == "fusion" else None
    return [] if inner is None else list(reversed(inner.instructions.values()))


def shown(file: str, line: int) -> str:
    return f"{file.removeprefix(os.getcwd() + os.sep)}:{line}"
