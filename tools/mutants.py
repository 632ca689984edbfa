"""Break the library on purpose, in a copy, and see whether a test notices.

    tools/mutants.py                        every change listed in tools/mutants.toml, with the
    tests named there
    tools/mutants.py FILE                   those of one file below teucer/
    tools/mutants.py FILE -n 40 TEST ...    40 changes of that file, drawn by chance, with these
    tests

A change that no test notices is a mutant that lives: it is named. The exit status is 1 if a listed
one lives, or more than a tenth of those that are drawn.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow")


class Mutant(NamedTuple):
    """A change to a file of the library, why it matters, and the tests that notice it."""

    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def changed(self, text: str) -> str:
        """The text of the file with the change. Raises ValueError if `old` does not stand there
        exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"mutants.toml: in teucer/{self.file} this stands {text.count(self.old)} times, "
                f"not once:\n  {self.old}"
            )
        return text.replace(self.old, self.new)


def listed() -> list[Mutant]:
    """The mutants of tools/mutants.toml."""
    with (ROOT / "tools" / "mutants.toml").open("rb") as file:
        return [
            Mutant(m["why"], m["file"], m["old"], m["new"], tuple(m["tests"]))
            for m in tomllib.load(file)["mutant"]
        ]


def environment(folder: Path) -> dict[str, str]:
    """That of a process which imports the library from a copy."""
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def passes(folder: Path, tests: Sequence[str], limit: float | None = None) -> bool:
    """Whether the tests pass in a copy of the repository. They fail if they take longer than
    `limit`, in seconds."""
    try:
        done = subprocess.run(
            [sys.executable, *PYTEST, *tests],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        # A change may break the import of the tests: 2 and 3 are pytest's words for that, 4 and 5
        # for names of no test. 4 is also that for an import that breaks in a conftest.
        if done.returncode in (2, 3) or "while loading conftest" in done.stderr:
            return False
        raise RuntimeError(
            f"pytest could not run {' '.join(tests)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == 0


def copied(folder: Path) -> None:
    """A copy of what tests need of the repository, with its bytecode: a file that is changed has
    another time than its bytecode says."""
    for name in ("teucer", "tests", "tools", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)


def lives(folder: Path, file: str, text: str, tests: Sequence[str], limit: float) -> bool:
    """Whether the tests pass while a file of the copy has another text."""
    path = folder / "teucer" / file
    before = path.read_text()
    path.write_text(text)
    try:
        return passes(folder, tests, limit)
    finally:
        path.write_text(before)


def run_listed(folder: Path, mutants: Sequence[Mutant], limit: float) -> int:
    """Make each change in the copy, and run its tests; how many live."""
    living = 0
    for mutant in mutants:
        text = (folder / "teucer" / mutant.file).read_text()
        alive = lives(folder, mutant.file, mutant.changed(text), mutant.tests, limit)
        print(f"{'LIVES ' if alive else 'killed'}  {mutant.file}: {mutant.why}", flush=True)
        living += alive
    return living


class Change(NamedTuple):
    """Another text for what stands in some bytes of a module, at a line of it."""

    line: int
    start: int
    end: int
    new: str

    def made(self, text: str) -> str:
        data = text.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()

    def named(self, text: str) -> str:
        old = text.encode()[self.start : self.end].decode()
        return f"line {self.line}: {old}\n  -> {self.new.strip()}"


COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


def altered(node: ast.AST, **fields: object) -> ast.AST:
    """A node with other fields."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def shorter(nodes: Sequence[ast.AST]) -> Iterator[list[ast.AST]]:
    """The nodes without one of them."""
    for i in range(len(nodes)):
        yield [*nodes[:i], *nodes[i + 1 :]]


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node: mistakes that a writer could make."""
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                other = COMPARISONS[type(op)]()
                yield altered(node, ops=[*ops[:i], other, *ops[i + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield altered(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for rest in shorter(values):
                yield rest[0] if len(rest) == 1 else altered(node, values=rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd(), right=right):
            yield from (left, right)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            yield altered(node, op=ARITHMETIC[type(op)]())
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Tuple(elts=elements, ctx=ast.Load()) if len(elements) > 2:  # fields of keys
            for rest in shorter(elements):
                yield altered(node, elts=rest)
        case ast.Call(keywords=keywords):
            for word in keywords:
                if word.arg not in UNSEEN_WORDS:
                    yield altered(node, keywords=[w for w in keywords if w is not word])
        case (
            ast.Raise()
            | ast.AugAssign()
            | ast.Delete()
            | ast.Expr(value=ast.Call())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
        ):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


# Nothing of these changes what a program does: what is said in errors (other tests match it), our
# own invariants, types, decorators, which mark classes as final and have functions compiled.
UNSEEN_WORDS = {"strict", "stacklevel"}
UNSEEN_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "bases"}


def seen(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes directly within one that tests can notice."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assert():
            return
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
            name in ("__slots__", "__all__")
            # A name of a type for annotations.
            or (isinstance(value, ast.BinOp) and name[0].isupper() and not name.isupper())
        ):
            return
        case ast.keyword(arg=word) if word in UNSEEN_WORDS:
            return
    for name, value in ast.iter_fields(node):
        if name not in UNSEEN_FIELDS:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def changes(text: str) -> dict[tuple[int, int], list[Change]]:
    """The changes that can be made to a module, by the bytes that they replace.

    No change moves a line. Left out is what changes nothing that tests could see (`seen`).
    """
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int], list[Change]] = {}

    def add(node: ast.expr | ast.stmt, new: ast.AST) -> None:
        at = (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        )
        written = ast.unparse(new).replace("\n", " ")
        written += "\n" * ((node.end_lineno or 0) - node.lineno)
        change = Change(node.lineno, *at, written if isinstance(node, ast.stmt) else f"({written})")
        try:
            compile(change.made(text), "changed", "exec")
        except SyntaxError:  # a star that needs its tuple, a pattern of `match`
            return
        found.setdefault(at, []).append(change)

    def visit(node: ast.AST) -> None:
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                return
            case ast.If(test=test):
                add(test, ast.Constant(False))
                add(test, ast.Constant(True))
            case ast.While(test=test):
                add(test, ast.Constant(False))
        if isinstance(node, ast.expr | ast.stmt):
            for new in variants(node):
                add(node, new)
        for child in seen(node):
            visit(child)

    visit(ast.parse(text))
    return found


def drawn(text: str, number: int, seed: int) -> list[Change]:
    """So many of the changes, each at a place of its own."""
    places = changes(text)
    dice = random.Random(seed)
    at = dice.sample(sorted(places), min(number, len(places)))
    return [dice.choice(places[where]) for where in sorted(at)]


def run_drawn(
    folder: Path, file: str, number: int, seed: int, tests: Sequence[str], limit: float
) -> tuple[int, int]:
    """Changes by chance of a file of the copy: how many live, among how many."""
    text = (folder / "teucer" / file).read_text()
    chosen = drawn(text, number, seed)
    living = 0
    for change in chosen:
        alive = lives(folder, file, change.made(text), tests, limit)
        print(f"{'LIVES ' if alive else 'killed'}  {change.named(text)}", flush=True)
        living += alive
    return living, len(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", help="a file below teucer/")
    parser.add_argument("tests", nargs="*", help="tests near it, as pytest takes them")
    parser.add_argument("-n", "--number", type=int, default=40, help="how many changes are drawn")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chosen = [m for m in listed() if args.file in (None, m.file)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        start = time.monotonic()
        if not passes(folder, args.tests or sorted({test for m in chosen for test in m.tests})):
            print("The tests fail without any change. Mend them first.")
            return 2
        # A change may make a loop endless. A slow machine makes no test fail.
        limit = 3 * (time.monotonic() - start) + 60
        if args.tests:
            living, number = run_drawn(folder, args.file, args.number, args.seed, args.tests, limit)
        else:
            living, number = run_listed(folder, chosen, limit), len(chosen)
    print(f"{number - living} of {number} killed")
    return int(living > (number / 10 if args.tests else 0))


if __name__ == "__main__":
    sys.exit(main())
