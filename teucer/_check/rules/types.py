"""Rules on types of arguments and results that make programs compile again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from teucer._check.program import Found, Program
from teucer._trees import pytrees


def states(program: Program) -> Iterator[Found]:
    """T106: a result that takes the place of an argument, and has another type."""
    try:
        args, _ = pytrees.tree_unflatten(program.traced.in_tree, program.graph.arguments)
    except (TypeError, ValueError):
        return
    out = pytrees.tree_unflatten(program.traced.out_tree, program.graph.results)
    outs = [out, *out] if isinstance(out, tuple) else [out]
    for given in args:
        leaves, tree = pytrees.tree_flatten(given)
        for result in outs:
            found, out_tree = pytrees.tree_flatten(result)
            if (
                tree != out_tree
                or not leaves
                or [x.shape for x in leaves] != [x.shape for x in found]
            ):
                continue
            if len(leaves) == 1 and (
                # Of a program's functions T107 tells this, once the result is given back.
                program.settings.called or not _is_update(leaves[0], found[0])
            ):
                continue
            if all(_is_other(x, y) for x, y in zip(leaves, found, strict=True)):
                continue
            for x, y in zip(leaves, found, strict=True):
                if _type(x) != _type(y):
                    yield _changed(program, x, y)
                    return


def _type(v: Any) -> tuple[str, bool]:
    return str(v.dtype), bool(getattr(v.aval, "weak_type", False))


def _is_update(x: Any, y: Any) -> bool:
    """Of single arrays: only a weak type that becomes a strong one, of one dtype."""
    return bool(x.dtype == y.dtype and getattr(x.aval, "weak_type", False) and x.uses)


def _is_other(x: Any, y: Any) -> bool:
    """Whether a result is no new value of an argument: a cast of it, or a test."""
    if x.dtype == y.dtype:
        return False
    return y.dtype == bool or (y.op == "convert_element_type" and y.operands[0] is x)


def _changed(program: Program, x: Any, y: Any) -> Found:
    (a, weak), (b, other) = _type(x), _type(y)
    before = f"{a}{' (weak, as Python numbers are)' if weak else ''}"
    after = f"{b}{' (weak)' if other else ''}"
    return Found(
        "T106",
        f"{x.constant} is {before}, and the result in its place is {after}: the second call "
        "compiles again, and a scan refuses it.",
        program.line,
        f"Start with jnp.asarray(value, jnp.{b}), or convert the result: .astype(x.dtype).",
    )
