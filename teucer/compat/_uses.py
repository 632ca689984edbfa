"""The names of JAX that source code uses, read without importing it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_GUARDS = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}


@dataclass(frozen=True)
class Use:
    """A use of a name of JAX, as `jax.numpy.clip`, at a line of a file.

    keywords: the keywords of a call. guarded: the program works without the name, or checks the
    release first.
    """

    name: str
    file: Path
    line: int
    keywords: tuple[str, ...] = ()
    guarded: bool = False


def uses(file: Path) -> list[Use]:
    """The uses in a file.

    Raises SyntaxError if it is no Python of this version.
    """
    found = _Finder(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of escapes in the package's strings
        found.visit(ast.parse(file.read_text(encoding="utf-8", errors="replace"), str(file)))
    return list(dict.fromkeys(found.uses))


class _Finder(ast.NodeVisitor):
    def __init__(self, file: Path) -> None:
        self.file, self.uses = file, list[Use]()
        self.names: dict[str, str] = {}  # the meaning of the file's names
        self.hidden: list[set[str]] = []  # parameters of the functions around
        self.guards = 0

    def add(self, name: str, node: ast.AST, keywords: tuple[str, ...] = ()) -> None:
        line = getattr(node, "lineno", 0)
        self.uses.append(Use(name, self.file, line, keywords, self.guards > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if _is_jax(alias.name):
                self.add(alias.name, node)
                self.names[alias.asname or "jax"] = alias.name if alias.asname else "jax"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module or not _is_jax(node.module):
            return
        for alias in node.names:
            if alias.name == "*":
                self.add(node.module, node)
                continue
            name = f"{node.module}.{alias.name}"
            self.add(name, node)
            self.names[alias.asname or alias.name] = name

    def dotted(self, node: ast.AST) -> str | None:
        """The name of JAX that an expression is."""
        if isinstance(node, ast.Attribute):
            value = self.dotted(node.value)
            return value and f"{value}.{node.attr}"
        if isinstance(node, ast.Name) and not any(node.id in names for names in self.hidden):
            return self.names.get(node.id)
        return None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.dotted(node)
        if name is None:
            self.generic_visit(node)
        else:
            self.add(name, node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.dotted(node.func)
        keywords = tuple(k.arg for k in node.keywords if k.arg)
        if name and keywords:
            self.add(name, node, keywords)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        a = node.args
        own = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        self.hidden.append({x.arg for x in own})
        self.generic_visit(node)
        self.hidden.pop()

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_Lambda = visit_FunctionDef

    def visit_Try(self, node: ast.Try) -> None:
        caught = {
            n.id for h in node.handlers for n in ast.walk(h.type or h) if isinstance(n, ast.Name)
        }
        guarded = bool(caught & _GUARDS) or any(h.type is None for h in node.handlers)
        self.guarded(node.body, guarded)
        for handler in node.handlers:
            self.guarded(handler.body, guarded)
        self.guarded([*node.orelse, *node.finalbody], False)

    def visit_If(self, node: ast.If) -> None:
        asked = ast.unparse(node.test)
        guarded = any(word in asked for word in ("hasattr", "version", "TYPE_CHECKING"))
        self.guarded([node.test], True) if guarded else self.visit(node.test)
        self.guarded([*node.body, *node.orelse], guarded)

    def guarded(self, nodes: list[ast.AST] | list[ast.stmt], really: bool) -> None:
        self.guards += really
        for node in nodes:
            self.visit(node)
        self.guards -= really


def _is_jax(module: str) -> bool:
    return module == "jax" or module.startswith("jax.")


def files(place: Path) -> Iterator[Path]:
    """The Python files of a package or folder, tests left out; or the file itself."""
    if place.is_file():
        yield place
        return
    for file in sorted(place.rglob("*.py")):
        parts = file.relative_to(place).parts
        if not any(p.startswith(("test", ".")) or p.endswith("_test.py") for p in parts):
            yield file
