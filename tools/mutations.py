"""The changes that `tools/mutants.py` draws from: mistakes that a writer of a module could make."""

from __future__ import annotations

import ast
import copy
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Change(NamedTuple):
    """Another text for what stands in some bytes of a module: its lines, those of the statement
    that it is in, and whether these run when a function is called, and not at import."""

    lines: range
    statement: range
    in_function: bool
    start: int
    end: int
    new: str

    def made(self, text: str) -> str:
        data = text.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()

    def named(self, text: str) -> str:
        old = text.encode()[self.start : self.end].decode()
        return f"line {self.lines[0]}: {old}\n  -> {self.new.strip()}"


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
UNSEEN_WORDS = {"strict", "stacklevel", "help"}
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


def lines_of(node: ast.expr | ast.stmt) -> range:
    """The lines of a node; of a statement that holds others, those of its head."""
    body = getattr(node, "body", None) if isinstance(node, ast.stmt) else None
    last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or 0
    return range(node.lineno, last + 1)


def changes(text: str) -> dict[tuple[int, int], list[Change]]:
    """The changes that can be made to a module, by the bytes that they replace.

    No change moves a line. Left out is what changes nothing that tests could see (`seen`).
    """
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int], list[Change]] = {}

    def add(node: ast.expr | ast.stmt, new: ast.AST, statement: range, inside: bool) -> None:
        at = (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        )
        written = ast.unparse(new).replace("\n", " ")
        written += "\n" * ((node.end_lineno or 0) - node.lineno)
        if isinstance(node, ast.expr):
            written = f"({written})"
        found.setdefault(at, []).append(Change(lines_of(node), statement, inside, *at, written))

    def visit(node: ast.AST, statement: range, inside: bool) -> None:
        if isinstance(node, ast.stmt):
            statement = lines_of(node)
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                return
            case ast.If(test=test):
                add(test, ast.Constant(False), statement, inside)
                add(test, ast.Constant(True), statement, inside)
            case ast.While(test=test):
                add(test, ast.Constant(False), statement, inside)
        if isinstance(node, ast.expr | ast.stmt):
            for new in variants(node):
                add(node, new, statement, inside)
        function = isinstance(node, ast.FunctionDef | ast.Lambda)
        for child in seen(node):  # defaults of parameters are computed at import
            visit(child, statement, inside or (function and not isinstance(child, ast.arguments)))

    visit(ast.parse(text), range(0), False)
    return found


def function_lines(text: str) -> set[int]:
    """The lines of a module that run when one of its functions is called."""
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.Lambda)
        for body in (node.body if isinstance(node.body, list) else [node.body])
        for line in range(body.lineno, (body.end_lineno or 0) + 1)
    }


def compiles(change: Change, text: str) -> bool:
    """Not where a star needs its tuple, or in a pattern of `match`."""
    try:
        compile(change.made(text), "changed", "exec")
    except SyntaxError:
        return False
    return True


def drawn(text: str, number: int, seed: int) -> list[Change]:
    """So many of the changes, each at a place of its own."""
    places = changes(text)
    dice = random.Random(seed)
    found: list[Change] = []
    for at in dice.sample(sorted(places), len(places)):
        change = dice.choice(places[at])
        if len(found) < number and compiles(change, text):
            found.append(change)
    return sorted(found, key=lambda change: (change.start, -change.end))
