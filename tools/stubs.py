"""Write the tables of names of `lax` and `numpy`, and the stubs of all modules whose names are loaded on first use.

    tools/stubs.py            write what is not fresh
    tools/stubs.py --check    name what is not fresh

The tables say what each room hands on: its `__all__`. Type checkers and editors read stubs, which say where each name
stands; that file then says what it is.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# The modules that hand names on, and whose tables say from where.
MODULES = ("teucer", "teucer.debug", "teucer.extend", "teucer.image", "teucer.interpreters", "teucer.lax", "teucer.nn",
           "teucer.numpy", "teucer.ops", "teucer.scipy", "teucer.scipy.cluster", "teucer.scipy.signal", "teucer.scipy.sparse",
           "teucer.scipy.spatial", "teucer.scipy.stats", "teucer.sharding")
# The faces whose tables are made here, and of each the rooms that only its other rooms use.
INNER = {
    "teucer.lax": """
        _associative _attributes _blame _breakpoints _buffer_callback _callbacks _chebyshev _control.bodies
        _control.scan_lowering _convolution.lowering _double _exact _families _foreign _foreign_lowering _gamma _gaussian
        _groups _identities _index_groups _indexing.padded _on_demand _outside _padding _programs _random_keys
        _reference_parts _references _terms _varying _window_shapes _zeta""",
    "teucer.numpy": """
        _array_methods _index_keys _indexing _library _linalg_decompositions _linalg_norms _linalg_products _linalg_systems
        _operands _operators _others _promotion _reading _reference_views _references _updates _writing""",
}
TABLE = re.compile(r"(?<=^_ROOMS = {\n).*?(?=^}$)", re.MULTILINE | re.DOTALL)
HEAD = "# Made by tools/stubs.py from the tables of this module.\n"


def listed(path: Path) -> list[str]:
    """The names in the `__all__` of a file, as far as it is a list."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and isinstance(node.value, ast.List):
            return sorted(item.value for item in node.value.elts if isinstance(item, ast.Constant))
    return []


def table(face: str) -> str:
    """The table of a face: each room that it hands on, and the names in its `__all__`. No name comes from two rooms."""
    folder, lines, known = path(face).parent, [], set()
    for file in sorted(folder.rglob("*.py")):
        room = ".".join(file.relative_to(folder).with_suffix("").parts)
        names = listed(file)
        if names and room.startswith("_") and room not in ("__init__", *INNER[face].split()):
            if twice := known.intersection(names):
                raise ValueError(f"{room} and another room of {face} list {sorted(twice)} in their __all__")
            known.update(names)
            rows = textwrap.wrap(" ".join(names), 88)
            text = "\n".join(f'        "{row}{" " * (row is not rows[-1])}"' for row in rows)
            lines.append(f'    "{face}.{room}":\n{text},\n')
    return "".join(lines)


def tabled(face: str) -> str:
    """The text of a face with its table as it should be."""
    text = path(face).with_suffix(".py").read_text()
    return TABLE.sub(lambda _: table(face), text, count=1)


def places(module: ModuleType) -> dict[str, tuple[str, str]]:
    """For each name that a module hands on, the module that defines it, and its name there."""
    if module.__name__ == "teucer.numpy":
        rooms = {name: (room, name) for name, room in module._WHERE.items()}
        return rooms | {alias: rooms[name] for alias, name in module._ALIASES.items()} | {
            "ndarray": ("teucer._core.typing", "Array"), **{name: (f"teucer.numpy.{name}", ".") for name in module._MODULES}}
    give = module.__getattr__
    where = dict(zip(give.__code__.co_freevars, (cell.cell_contents for cell in give.__closure__), strict=True))["where"]
    return dict(where)


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
    """Write the tables and the stubs, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for make, names, suffix in ((tabled, INNER, ".py"), (stub, MODULES, ".pyi")):  # stubs are made of the tables
        for name in names:
            file = path(name).with_suffix(suffix)
            text = make(name)
            if not file.exists() or file.read_text() != text:
                stale.append(name)
                if not check:
                    file.write_text(text)
    if check:
        print("\n".join(f"{name}: run tools/stubs.py" for name in stale))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
