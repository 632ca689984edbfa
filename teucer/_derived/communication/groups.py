"""Among which devices the collectives of a compiled program are, from its text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from teucer._derived.hlo_text import Instruction


def device_groups(instruction: Instruction, count: int) -> list[list[int]] | None:
    """The groups of devices, of `count`, that a collective is among; None if that is not said."""
    listed = instruction.attribute(r"replica_groups=\{(\{[\d,{} ]*\})?\}")
    if listed is not None:
        return [
            [int(i) for i in group.split(",")] for group in re.findall(r"\{([\d, ]+)\}", listed)
        ]
    if re.search(r"replica_groups=\{\}", instruction.attributes):
        return [list(range(count))]
    counted = re.search(
        r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", instruction.attributes
    )
    if counted is not None:
        shape, sizes = _ints(counted[1]), _ints(counted[2])
        ids = np.arange(math.prod(sizes)).reshape(sizes)
        ids = ids.transpose(_ints(counted[3])) if counted[3] else ids
        groups: list[list[int]] = ids.reshape(shape).tolist()
        return groups
    named = re.search(
        r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}",
        instruction.attributes,
    )
    return None if named is None else _by_names(named[1], named[2], named[3])


def _by_names(mesh: str, order: str | None, axes: str) -> list[list[int]] | None:
    """Groups along named axes of a mesh.

    mesh: 'a'=2,'b'=4. order: of its devices, such as [4,2]T(1,0). axes: 'a', or a part 'b':(2)2.
    """
    parts = {
        name: (int(before or 1), int(size or 0))
        for name, before, size in re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", axes)
    }
    sizes: list[int] = []
    chosen = []
    for name, n in [(name, int(n)) for name, n in re.findall(r"'([^']*)'=(\d+)", mesh)]:
        if name not in parts:
            sizes.append(n)
            continue
        before, size = parts[name]
        size = size or n
        chosen.append(len(sizes) + 1)
        sizes += [before, size, n // (before * size)]
    ids = np.arange(math.prod(sizes))
    if order is not None:
        found = re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", order)
        if found is None:
            return None
        ids = ids.reshape(_ints(found[1]))
        ids = ids.transpose(_ints(found[2])) if found[2] else ids
    ids = np.moveaxis(ids.reshape(sizes), chosen, range(-len(chosen), 0))
    groups: list[list[int]] = ids.reshape(-1, math.prod(sizes[i] for i in chosen)).tolist()
    return groups


def pairs_of(instruction: Instruction) -> list[tuple[int, int]]:
    """The devices between which a collective-permute sends: (from, to)."""
    text = instruction.attribute(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}") or ""
    return [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", text)]


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(","))


def mesh_axes(
    instruction: Instruction, kind: str, mesh: Mapping[str, int]
) -> tuple[tuple[str, ...] | None, int | None]:
    """The axes of a mesh that a collective is along, None if they are none of it, and how many
    devices take part together.

    kind: XLA's name of the collective. mesh: the sizes of its axes by name.
    """
    count = math.prod(mesh.values())
    if kind == "collective-permute":
        groups: list[list[int]] | None = [[a, b] for a, b in pairs_of(instruction) if a != b]
    else:
        groups = device_groups(instruction, count)
    if not groups:
        return None, None
    shape = tuple(mesh.values())
    varying = set()
    for group in groups:
        places = np.array(np.unravel_index(np.array(group), shape))
        varying |= {i for i, row in enumerate(places) if len(set(row.tolist())) > 1}
    axes = tuple(name for i, name in enumerate(mesh) if i in varying)
    whole = math.prod(mesh[name] for name in axes)
    if kind == "collective-permute":
        return axes, whole
    size = max(map(len, groups))
    return (axes if size == whole else None), size
