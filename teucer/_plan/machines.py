"""Names of slices and machines: 'v5e-256', 'v5p-128', '2xv5e-256', 'v5e:16x16', 'h100-16'."""

from __future__ import annotations

import difflib
import math
import re
from typing import NamedTuple

from teucer._plan.chips import BY_NAME, CHIPS

# Sizes of slices by the number of chips, from the pages that `chips` names.
_FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_SQUARE = {4: "2x2", 16: "4x4", 64: "8x8", 256: "16x16", 512: "16x32", 1024: "32x32"}
_CUBE = {
    4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8",
    512: "8x8x8", 1024: "8x8x16", 2048: "8x16x16", 4096: "16x16x16", 8960: "16x20x28",
}  # fmt: skip
# By generation: the sizes, and how many units its names count a chip (v5p-128 counts cores).
_SLICES = {
    "v3": (_SQUARE, 2),
    "v4": ({n: s for n, s in _CUBE.items() if n <= 4096}, 2),
    "v5e": (_FLAT, 1),
    "v5p": (_CUBE, 2),
    "v6e": (_FLAT, 1),
    "tpu7x": (_CUBE, 2),
}
_OTHER_NAMES = {"v5litepod": "v5e", "v7x": "tpu7x", "ironwood": "tpu7x", "trillium": "v6e"}
_NAME = re.compile(r"(?:(\d+)x)?([a-z]+\d*[a-z]*)(?:(-)(\d+)|[:=](\d+(?:x\d+)*))?")


class Machine(NamedTuple):
    """What `get_topology_desc` is asked for."""

    topology: str
    platform: str
    options: tuple[tuple[str, object], ...]


def machine(name: str) -> Machine:
    """The topology of a name.

    name: a kind of accelerator and how many, as clouds sell them: of v3, v4, v5p and tpu7x that
    counts cores, two a chip. Or a kind and the chips along each axis. Several slices: '2xv5e-256'.
    Raises ValueError for a kind or a number that there is not.

    >>> machine("v5p-128").topology
    'v5p:4x4x4'
    >>> machine("2xv5e-256")
    Machine(topology='v5e:16x16', platform='tpu', options=(('num_slices', 2),))
    """
    found = _NAME.fullmatch(name.strip().lower())
    kind = "" if found is None else _OTHER_NAMES.get(found[2], found[2])
    if found is None or kind not in BY_NAME:
        close = difflib.get_close_matches(kind or name.lower(), [*BY_NAME, *_OTHER_NAMES], 1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(
            f"plan: {name!r} names no accelerator that is known.{meant}\n  Known are "
            f"{', '.join(chip.name for chip in CHIPS)}: write 'v5e-256', 'v5e:16x16', "
            "'2xv5e-256' for two slices, or 'h100-16'."
        )
    slices, count, sizes = int(found[1] or 1), found[4], found[5]
    if kind not in _SLICES:
        return _gpus(name, kind, slices, int(count or 8))
    options: list[tuple[str, object]] = [("num_slices", slices)] if slices > 1 else []
    if kind == "v4":
        options.append(("chip_config_name", "megacore"))
    known, unit = _SLICES[kind]
    if count is not None:
        if int(count) % unit or int(count) // unit not in known:
            nearest = sorted(known, key=lambda n: abs(n * unit - int(count)))[:3]
            raise ValueError(
                f"plan: there is no slice {name!r}. Near it are "
                f"{', '.join(f'{kind}-{n * unit}' for n in sorted(nearest))}; other sizes are "
                f"written by axis: '{kind}:{known[16 if 16 in known else 4]}'."
            )
        sizes = known[int(count) // unit]
    if sizes is None:
        sizes = known[4]
    return Machine(f"{kind}:{sizes}", "tpu", tuple(options))


def _gpus(name: str, kind: str, nodes: int, count: int) -> Machine:
    if count > 8 and count % 8:
        raise ValueError(f"plan: {name!r} is no whole number of machines of 8 GPUs.")
    shape = f"{nodes}x{max(1, count // 8)}x{min(count, 8)}"
    return Machine(kind, "cuda", (("topology", shape),))


def larger(chips: int) -> Machine | None:
    """A slice of v5p, which has much memory, with `chips` chips; None if there is no such slice."""
    sizes = "1x1x1" if chips == 1 else _CUBE.get(chips)
    return None if sizes is None else Machine(f"v5p:{sizes}", "tpu", ())


def mesh_sizes(text: str) -> dict[str, int]:
    """The axes of a mesh, as the command line has them.

    Raises ValueError for another form.

    >>> mesh_sizes("data=32,model=8")
    {'data': 32, 'model': 8}
    """
    sizes: dict[str, int] = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, equals, size = part.partition("=")
        if not (equals and name.isidentifier() and size.isdecimal() and int(size)):
            raise ValueError(f"plan: cannot read the mesh at {part!r}. Write 'data=32,model=8'.")
        if name in sizes:
            raise ValueError(f"plan: the mesh has two axes {name!r}.")
        sizes[name] = int(size)
    return sizes


def check_mesh(sizes: dict[str, int], count: int, where: str) -> None:
    """Raise ValueError unless the axes of a mesh multiply to the number of devices."""
    places = math.prod(sizes.values())
    if places == count:
        return
    product = " x ".join(f"{name}={n}" for name, n in sizes.items())
    hints = [
        f"{name}={n * count // places}"
        for name, n in sizes.items()
        if n * count % places == 0 and n * count // places
    ]
    hint = f"\n  With {' or '.join(hints)} it would." if hints else ""
    raise ValueError(
        f"plan: the mesh {product or 'of no axes'} has {places} places, and {where} has {count} "
        f"devices. The axes of a mesh multiply to the number of devices.{hint}"
    )
