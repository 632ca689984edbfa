"""Write the tables of names of `lax` and `numpy`, and the stubs of all modules whose names are
loaded on first use.

    tools/stubs.py            write what is not fresh
    tools/stubs.py --check    name what is not fresh

The tables say what each private module hands on: its `__all__`. Type checkers and editors read
stubs, which say where each name stands; that file then says what it is.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# The modules that hand names on, and whose tables say from where.
MODULES = (
    "teucer",
    "teucer.api_util",
    "teucer.custom_derivatives",
    "teucer.debug",
    "teucer.errors",
    "teucer.experimental.pallas",
    "teucer.experimental.sparse",
    "teucer.experimental.sparse.api",
    "teucer.experimental.sparse.bcoo",
    "teucer.experimental.sparse.bcsr",
    "teucer.experimental.sparse.coo",
    "teucer.experimental.sparse.csr",
    "teucer.experimental.sparse.transform",
    "teucer.experimental.sparse.util",
    "teucer.export",
    "teucer.extend",
    "teucer.extend.backend",
    "teucer.extend.core",
    "teucer.extend.core.primitives",
    "teucer.extend.linear_util",
    "teucer.extend.lowering",
    "teucer.extend.pallas",
    "teucer.extend.random",
    "teucer.extend.sharding",
    "teucer.extend.source_info_util",
    "teucer.extend.xla",
    "teucer.image",
    "teucer.interpreters",
    "teucer.interpreters.ad",
    "teucer.interpreters.batching",
    "teucer.interpreters.mlir",
    "teucer.interpreters.partial_eval",
    "teucer.interpreters.xla",
    "teucer.lax",
    "teucer.lax.linalg",
    "teucer.nn",
    "teucer.numpy",
    "teucer.ops",
    "teucer.ref",
    "teucer.scipy",
    "teucer.scipy.cluster",
    "teucer.scipy.linalg",
    "teucer.scipy.signal",
    "teucer.scipy.sparse",
    "teucer.scipy.spatial",
    "teucer.scipy.special",
    "teucer.scipy.stats",
    "teucer.sharding",
    "teucer.tree",
    "teucer.tree_util",
)
# The packages whose tables are made here, and of each the modules that only its others use.
INNER = {
    "teucer.lax": """
        _associative _attributes _blame _breakpoints _callbacks _checkpoint_policies
        _collectives.index_groups _collectives.lowering _collectives.varying _control.bodies
        _control.groups _control.scan_lowering _convolution.lowering _diagonals _families _folding
        _foreign.buffer_callback _foreign.calls _foreign.lowering _foreign.shared
        _formulas.complex_parts _formulas.double _formulas.series _formulas.terms _formulas.wide
        _functions.chebyshev _functions.gamma _functions.gaussian _functions.zeta _identities
        _indexing.padded _on_demand _padding _programs _random_keys _reference_parts _references
        _window_shapes""",
    "teucer.numpy": """
        _array_methods _bessel _einsum_products _foreign_arrays _index_keys _indexing _library
        _linalg_decompositions _linalg_norms _linalg_products _linalg_systems _operands _operators
        _opt_einsum _promotion _reading _reference_views _references _updates _writing""",
}
TABLE = re.compile(r"(?<=^_SOURCES = {\n).*?(?=^}$)", re.MULTILINE | re.DOTALL)
# The module of jnp whose functions are made by rows of lax.
ROWS = "teucer.numpy._from_lax"
# Functions whose types need overloads stand in a stub of their own.
SIGNATURES = {
    "teucer": (
        "teucer._derived.signatures",
        "jit vmap grad value_and_grad checkpoint remat custom_jvp custom_vjp vjp jvp linearize "
        "jacfwd jacrev jacobian hessian",
    ),
    "teucer.lax": ("teucer.lax._control.signatures", "scan cond switch while_loop fori_loop map"),
    "teucer.tree": ("teucer._derived.signatures", "map=tree_map"),
    "teucer.tree_util": ("teucer._derived.signatures", "tree_map"),
}
LINE = 100
HEAD = "# Made by tools/stubs.py from the tables of this module.\n"


def listed(path: Path) -> list[str]:
    """The names in the `__all__` of a file, as far as it is a list."""
    for node in ast.parse(path.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and isinstance(node.value, ast.List)
        ):
            return sorted(item.value for item in node.value.elts if isinstance(item, ast.Constant))
    return []


def handed(package: str) -> dict[str, list[str]]:
    """Each module that a package hands on, and the names in its `__all__`. No name comes from two
    modules."""
    folder, found, known = path(package).parent, {}, set()
    for file in sorted(folder.rglob("*.py")):
        source = ".".join(file.relative_to(folder).with_suffix("").parts)
        names = listed(file)
        if names and source.startswith("_") and source not in ("__init__", *INNER[package].split()):
            if twice := known.intersection(names):
                raise ValueError(
                    f"{source} and another module of {package} list {sorted(twice)} in __all__"
                )
            known.update(names)
            found[f"{package}.{source}"] = names
    return found


def rows() -> dict[str, list[str]]:
    """For each module of lax, the functions of jnp that its rows make: those that no module of jnp
    states."""
    numpy, found = importlib.import_module("teucer.numpy"), {}
    known = set().union(*handed("teucer.numpy").values())
    for source, names in handed("teucer.lax").items():
        importlib.import_module(source)
        for row in importlib.import_module("teucer.lax._families").ELEMENTWISE.values():
            name = numpy._ALIASES.get(row.numpy, row.numpy)
            if row.public in names and name and name not in known:
                if name != row.public:
                    raise ValueError(
                        f"the row of {row.name} makes jnp.{name} and lax.{row.public}: they need "
                        "one name"
                    )
                found.setdefault(source, []).append(name)
    return {source: sorted(names) for source, names in found.items()}


def jnp() -> dict[str, list[str]]:
    """What jnp hands on: of its modules, and what rows of lax make."""
    return handed("teucer.numpy") | {
        ROWS: sorted(name for names in rows().values() for name in names)
    }


def table(sources: dict[str, list[str]]) -> str:
    """The text of a table."""
    lines = []
    for source, names in sorted(sources.items()):
        line = f'    "{source}": "{" ".join(names)}",\n'
        if len(line) > LINE + 1:
            parts = textwrap.wrap(" ".join(names), LINE - 11)
            text = "\n".join(f'        "{part}{" " * (part is not parts[-1])}"' for part in parts)
            line = f'    "{source}": (\n{text}\n    ),\n'
        lines.append(line)
    return "".join(lines)


TABLES = {"teucer.lax": lambda: handed("teucer.lax"), ROWS: rows, "teucer.numpy": jnp}


def tabled(name: str) -> str:
    """The text of a module with its table as it should be."""
    new = table(TABLES[name]())
    return TABLE.sub(lambda _: new, path(name, ".py").read_text(), count=1)


def places(module: ModuleType) -> dict[str, tuple[str, str]]:
    """For each name that a module hands on, the module that defines it, and its name there."""
    if module.__name__ == "teucer.numpy":
        sources = {name: (source, name) for name, source in module._WHERE.items()}
        return (
            sources
            | {alias: sources[name] for alias, name in module._ALIASES.items()}
            | {
                "ndarray": ("teucer._core.typing", "Array"),
                **{name: (f"teucer.numpy.{name}", ".") for name in module._MODULES},
            }
        )
    give = module.__getattr__
    where = dict(
        zip(
            give.__code__.co_freevars,
            (cell.cell_contents for cell in give.__closure__),
            strict=True,
        )
    )["where"]
    return dict(where)


def stub(name: str) -> str:
    """The text of a module's stub."""
    module = importlib.import_module(name)
    typed, names = SIGNATURES.get(name, ("", ""))
    pairs = (item.partition("=") for item in names.split())
    known = places(module) | {function: (typed, other or function) for function, _, other in pairs}
    lines, others = [], []
    for public in sorted(set(module.__all__) | set(known)):
        if public == "Array" and name == "teucer":
            lines.append("from teucer._core.typing import Array as Array")
        elif public in known:
            source, other = known[public]
            if source == ROWS:
                elementwise = importlib.import_module("teucer.lax._families").ELEMENTWISE.values()
                kind = (
                    "Unary"
                    if next(row.arity for row in elementwise if row.public == other) == 1
                    else "Binary"
                )
                lines.append(f"from teucer._core.typing import {kind}")
                others.append(f"{public}: {kind}")
            elif other == ".":
                parent, _, last = source.rpartition(".")
                lines.append(f"from {parent} import {last} as {public}")
            elif other == public:
                lines.append(f"from {source} import {public} as {public}")
            else:  # another name is not handed on by an import
                lines.append(f"from {source} import {other} as _{public}")
                others.append(f"{public} = _{public}")
        else:
            others.append(f"{public}: Any")
    head = ["from typing import Any"] if any(line.endswith(": Any") for line in others) else []
    return HEAD + "\n".join([*head, *sorted(set(lines)), *([""] if others else []), *others]) + "\n"


def path(name: str, suffix: str = ".pyi") -> Path:
    """The file of a module, or its stub."""
    place = ROOT / name.replace(".", "/")
    return place / f"__init__{suffix}" if place.is_dir() else place.with_suffix(suffix)


def main() -> int:
    """Write the tables and the stubs, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for make, names, suffix in ((tabled, TABLES, ".py"), (stub, MODULES, ".pyi")):
        for name in names:
            file = path(name, suffix)
            text = make(name)
            if not file.exists() or file.read_text() != text:
                stale.append(name)
                if not check:
                    file.write_text(text)
        if (
            stale and not check and make is tabled
        ):  # stubs are made of the new tables, which another process loads
            return subprocess.call([sys.executable, __file__])
    if check:
        print("\n".join(f"{name}: run tools/stubs.py" for name in stale))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
