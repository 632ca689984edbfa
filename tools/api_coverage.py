"""Which of JAX's public names Teucer has: names, signatures and members, by module.

    python tools/api_coverage.py [--modules jax.numpy ...] [--all] [--signatures]

The inventory (`tests/data/api_names.json`) has a line a name: kind, tier, whether it is documented,
signature. `--make` made it of the inventories that an introspection of JAX gave; nothing here
imports JAX. Exceptions, each with its reason or the issue that builds it, are lines of
`tests/data/api_exceptions.txt`.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "tests" / "data"
NAMES, EXCEPTIONS = DATA / "api_names.json", DATA / "api_exceptions.txt"
SIMPLE = re.compile(r"None|True|False|-?\d+(\.\d+)?|'[^']*'|\(\)")


@dataclass(frozen=True, slots=True)
class Name:
    """A public name of JAX. signature: "(x, /, *, axis=None)", empty where there is none to
    compare."""

    module: str
    name: str
    kind: str
    tier: int
    documented: bool
    signature: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def inventory() -> list[Name]:
    """All names of tiers 1 and 2, those that JAX 0.12 added among them."""
    return [
        Name(module, name, *entry)
        for module, names in json.loads(NAMES.read_text()).items()
        for name, entry in names.items()
    ]


def exceptions() -> dict[str, str]:
    """Pattern of paths -> why names that match it are not held to be complete."""
    lines = (line.partition("#")[0].strip() for line in EXCEPTIONS.read_text().splitlines())
    return {
        pattern: reason.strip()
        for patterns, _, reason in (line.partition(":") for line in lines if line)
        for pattern in patterns.split()
    }


def reason(path: str, patterns: dict[str, str]) -> str | None:
    """Why a path is excepted; None if it is not."""
    return next(
        (why for pattern, why in patterns.items() if fnmatch.fnmatchcase(path, pattern)), None
    )


def find(name: Name) -> Any:
    """What Teucer has under a name of JAX. Raises AttributeError or ImportError where it has
    nothing."""
    if name.kind == "module":
        return module(name.path)
    import teucer

    found = module(name.module)
    for part in name.name.split("."):
        if part.endswith("[]"):
            found = type(teucer.numpy.zeros(1).at[0])
        elif part.endswith("()"):
            found = getattr(found, part[:-2])()
        elif found is teucer.Array and not hasattr(
            found, part
        ):  # what only arrays have that hold values
            found = getattr(type(teucer.numpy.zeros(1)), part)
        elif isinstance(found, type) and part in fields_of(found):
            return None
        else:
            found = getattr(found, part)
    return found


def module(path: str) -> Any:
    """Teucer's module for one of JAX, or the object that stands in its place."""
    own = re.sub(r"^jax\b", "teucer", path)
    try:
        return importlib.import_module(own)
    except ModuleNotFoundError:
        parent, _, name = own.rpartition(".")
        if not parent:
            raise
        return getattr(importlib.import_module(parent), name)


def fields_of(cls: type) -> set[str]:
    """Attributes that only instances have: those that are annotated, in slots, or assigned in
    methods of the class."""
    found: set[str] = set()
    for base in cls.__mro__[:-1]:
        found |= set(vars(base).get("__annotations__", ())) | set(vars(base).get("__slots__", ()))
        for method in vars(base).values():
            code = getattr(method, "__code__", None)
            found |= (
                set(code.co_names)
                if code is not None and method.__name__ in ("__init__", "__new__")
                else set()
            )
    return found


def parameters(signature: str) -> dict[str, tuple[str, str]]:
    """Name -> (kind, default) of a printed signature; kind is one of `/`, `` (either), `*` (by
    keyword), `*args`, `**kwargs`."""
    depth, parts, part = 0, [], ""
    for c in signature.strip()[1:-1] + ",":
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            depth += (c in "([{<") - (c in ")]}>")
            part += c
    found, kind = {}, ""
    for text in filter(None, parts):
        if text == "/":
            found = {n: ("/", default) for n, (_, default) in found.items()}
        elif text == "*":
            kind = "*"
        elif text.startswith("**"):
            found[text[2:]] = ("**kwargs", "")
        elif text.startswith("*"):
            found[text[1:]] = ("*args", "")
            kind = "*"
        else:
            n, _, default = text.partition("=")
            found[n] = (kind, default)
    return found


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "",
    inspect.Parameter.KEYWORD_ONLY: "*",
    inspect.Parameter.VAR_POSITIONAL: "*args",
    inspect.Parameter.VAR_KEYWORD: "**kwargs",
}


def differences(name: Name, found: Any) -> list[str]:
    """What of JAX's signature ours does not take."""
    if not name.signature or not callable(found):
        return []
    try:
        own = inspect.signature(found)
    except (ValueError, TypeError):
        return []
    expected = parameters(name.signature)
    have = {
        p.name: (KINDS[p.kind], "" if p.default is p.empty else repr(p.default))
        for p in own.parameters.values()
    }
    if "." in name.name and next(iter(expected), "") in ("self", "cls", "x"):
        expected = dict(list(expected.items())[1:])
        # What is found on a class has the object as its first parameter; C++ and bound methods do
        # not show it.
        have = dict(list(have.items())[1 if inspect.isfunction(found) else 0 :])
    return list(_differences(expected, have))


def _differences(
    expected: dict[str, tuple[str, str]], have: dict[str, tuple[str, str]]
) -> Iterator[str]:
    kinds = {kind for kind, _ in have.values()}
    expected_kinds = [kind for kind, _ in expected.values()]
    places = [n for n, (kind, _) in have.items() if kind in ("/", "")]
    for place, (n, (kind, default)) in enumerate(expected.items()):
        if kind in ("*args", "**kwargs"):
            if kind not in kinds:
                yield f"no {kind}"
            continue
        positional = place < len(places) and (places[place] == n or kind == "/")
        if kind == "/" and not positional and "*args" not in kinds:
            yield f"no operand {n} at place {place}"
        elif kind == "*" and n not in have and "**kwargs" not in kinds:
            yield f"no keyword {n}"
        elif (
            kind == ""
            and not positional
            and not ("*args" in kinds and (n in have or "**kwargs" in kinds))
        ):
            yield f"{n} is not at place {place}"
        elif kind == "" and positional and have[places[place]][0] == "/":
            yield f"{n} is not a keyword"
        own = have.get(places[place] if positional else n)
        if own is not None and default and not own[1]:
            yield f"{n} has no default"
        elif (
            own is not None
            and SIMPLE.fullmatch(default)
            and SIMPLE.fullmatch(own[1])
            and own[1] != default
        ):
            yield f"{n}={own[1]}, not {default}"
    for n, (kind, default) in have.items():
        stands_for_another = (
            n in places
            and places.index(n) < len(expected)
            and expected_kinds[places.index(n)] == "/"
        )
        if n not in expected and not default and kind in ("/", "", "*") and not stands_for_another:
            yield f"requires {n}"


@dataclass(frozen=True, slots=True)
class Report:
    """The state of one name. differences: what of its signature is not taken. excepted: why it need
    not be."""

    name: Name
    missing: bool
    differences: list[str]
    excepted: str | None


def reports(names: list[Name]) -> Iterator[Report]:
    """What is found of each name."""
    patterns = exceptions()
    for name in names:
        excepted = reason(name.path, patterns)
        try:
            found = find(name)
        except (AttributeError, ImportError):
            yield Report(name, True, [], excepted)
        else:
            yield Report(name, False, differences(name, found), excepted)


def make_inventory(folder: Path) -> None:
    """Write the compact inventory from `jax_api.json` and `jax_0_12.json`."""
    table: dict[str, dict[str, tuple[Any, ...]]] = collections.defaultdict(dict)
    for e in json.loads((folder / "jax_api.json").read_text()):
        if e["tier"] <= 2 and e.get("exists", True) and not e.get("reachable_as"):
            table[e["module"]][e["name"]] = (
                e["kind"],
                e["tier"],
                e["documented"],
                e["signature"] or "",
            )
    for module, names in json.loads((folder / "jax_0_12.json").read_text())["added"].items():
        for name in names:
            # The inventory of 0.12 has no markers of kinds of parameters: only the names are
            # compared.
            tier = 2 if "experimental" in module else 1
            table[module].setdefault(name, ("added in 0.12", tier, True, ""))

    def lines(names: dict[str, tuple[Any, ...]]) -> str:
        return ",\n".join(f"  {json.dumps(n)}: {json.dumps(v)}" for n, v in sorted(names.items()))

    modules = [f" {json.dumps(m)}: {{\n{lines(names)}\n }}" for m, names in sorted(table.items())]
    NAMES.write_text("{\n" + ",\n".join(modules) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modules", nargs="*", help="only these modules of JAX")
    parser.add_argument(
        "--all", action="store_true", help="also names that are not documented, and excepted ones"
    )
    parser.add_argument(
        "--signatures", action="store_true", help="also what of signatures is not taken"
    )
    parser.add_argument(
        "--make",
        type=Path,
        metavar="FOLDER",
        help="write the inventory from those in a folder, and stop",
    )
    options = parser.parse_args()
    if options.make:
        make_inventory(options.make)
        return
    names = [n for n in inventory() if options.modules is None or n.module in options.modules]
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for report in reports(names):
        counts[report.name.module][0] += report.name.documented and not report.missing
        counts[report.name.module][1] += report.name.documented
        if (report.excepted or not report.name.documented) and not options.all:
            continue
        name, why = report.name, f"[{report.excepted}]" * bool(report.excepted)
        if report.missing:
            print("missing  ", name.path, name.kind, name.signature, why)
        elif report.differences and options.signatures:
            print("signature", name.path, "; ".join(report.differences), why)
    for module, (have, of) in sorted(counts.items()):
        if have < of:
            print(f"{module}: {have} of {of} documented names")
    print(
        f"together: {sum(h for h, _ in counts.values())} of {sum(n for _, n in counts.values())} "
        "documented names"
    )


if __name__ == "__main__":
    main()
