"""Write the stubs of modules whose names are loaded on first use: `tools/stubs.py`; `--check` says which are not fresh.

Type checkers and editors read stubs, which say where each name stands; that file then says what it is.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# The modules that hand names on, and whose tables say from where.
MODULES = ("teucer", "teucer.debug", "teucer.extend", "teucer.image", "teucer.interpreters", "teucer.lax", "teucer.nn",
           "teucer.numpy", "teucer.ops", "teucer.scipy", "teucer.scipy.cluster", "teucer.scipy.signal", "teucer.scipy.sparse",
           "teucer.scipy.spatial", "teucer.scipy.stats", "teucer.sharding")
HEAD = "# Made by tools/stubs.py from the tables of this module.\n"


def places(module: ModuleType) -> dict[str, tuple[str, str]]:
    """For each name that a module hands on, the module that defines it, and its name there."""
    if module.__name__ == "teucer.numpy":
        rooms = {name: (f"teucer.numpy.{room}", name) for name, room in module._WHERE.items()}
        return rooms | {alias: rooms[name] for alias, name in module._ALIASES.items()} | {
            "ndarray": ("teucer._core.typing", "Array"), **{name: (f"teucer.numpy.{name}", ".") for name in module._MODULES}}
    give = module.__getattr__
    where = dict(zip(give.__code__.co_freevars, (cell.cell_contents for cell in give.__closure__), strict=True))["where"]
    return dict(where)


def maker(room: str, name: str) -> str:
    """The module that defines a name which a room may hand on from another."""
    others = [m.__name__ for m in vars(importlib.import_module(room)).values()
              if isinstance(m, ModuleType) and m.__name__.startswith("teucer.lax._") and name in getattr(m, "__all__", ())]
    return others[0] if others and room == "teucer.lax._elementwise" else room


def stub(name: str) -> str:
    """The text of a module's stub."""
    module = importlib.import_module(name)
    known = places(module)
    lines, others = [], []
    for public in sorted(set(module.__all__) | set(known)):
        if public == "Array" and name == "teucer":
            lines.append("from teucer._core.typing import Array as Array")
        elif public in known:
            room, other = known[public]
            if other == ".":
                parent, _, last = room.rpartition(".")
                lines.append(f"from {parent} import {last} as {public}")
            elif other == public:
                room = maker(room, public)
                lines.append(f"from {room} import {public} as {public}")
            else:  # another name is not handed on by an import
                lines.append(f"from {room} import {other} as _{public}")
                others.append(f"{public} = _{public}")
        else:
            others.append(f"{public}: Any")
    head = ["from typing import Any"] if any(line.endswith(": Any") for line in others) else []
    return HEAD + "\n".join([*head, *sorted(set(lines)), *([""] if others else []), *others]) + "\n"


def path(name: str) -> Path:
    """Where the stub of a module stands."""
    return ROOT / name.replace(".", "/") / "__init__.pyi"


def main() -> int:
    """Write the stubs, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [name for name in MODULES if not path(name).exists() or path(name).read_text() != stub(name)]
    if check:
        print("\n".join(f"{name}: run tools/stubs.py" for name in stale))
        return bool(stale)
    for name in stale:
        path(name).write_text(stub(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
