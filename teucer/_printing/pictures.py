"""Jaxprs as HTML: one row an equation, with the programs that it carries folded behind it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from teucer._core.names import stack_text
from teucer._printing.printer import _Printer
from teucer._printing.runs import runs_of, short
from teucer._xla import pretty as pp

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn, Jaxpr


STYLE = """
.tj { font: 13px/1.45 ui-monospace, monospace; }
.tj .e, .tj summary { display: flex; gap: 1em; padding: 0 .3em; border-radius: 3px; }
.tj .e:hover, .tj summary:hover { background: #8882; }
.tj .c { flex: 1; white-space: pre-wrap; overflow-wrap: anywhere; }
.tj .n, .tj .p { color: #888; white-space: nowrap; }
.tj details > div { margin-left: 1.5em; border-left: 2px solid #8884; padding-left: .5em; }
.tj .h { color: #888; }
.tj summary { cursor: pointer; } .tj summary::before { content: "\\25B8"; }
.tj details[open] > summary::before { content: "\\25BE"; }
"""
MOST = 3000  # rows that fit on a page
_OFF = re.compile(r" ?\b\w+=(?:None|False|\(\))(?=[ \]])")


class Rows:
    """Writes the rows of a program. notes(equation): a remark written behind it. Variables have the
    names of the printed jaxpr."""

    def __init__(self, jaxpr: Jaxpr, notes: Callable[[Eqn], str] | None = None) -> None:
        self.notes = notes
        self.left = MOST
        # Each program within is written as a fold of its own, and as dots in the equation.
        self.printer = _Printer(False, True, False, dict.fromkeys(_within(jaxpr), "…"))

    def program(self, jaxpr: Jaxpr, title: str = "") -> Iterator[str]:
        """A program: its arguments, its equations, its results."""
        printer = self.printer
        constants, arguments = (
            " ".join(map(printer.binder, vs)) for vs in (jaxpr.constvars, jaxpr.invars)
        )
        yield f'<div class="h">{html.escape(f"{title} λ {constants} ; {arguments}")}</div>'
        yield from self.equations(jaxpr.eqns)
        yield (
            f'<div class="h">in ({html.escape(", ".join(map(printer.name, jaxpr.outvars)))})</div>'
        )

    def equations(self, eqns: Sequence[Eqn]) -> Iterator[str]:
        """Rows of equations; of a part that repeats the first time is shown, the others folded."""
        for start, size, times in runs_of([key_of(eqn) for eqn in eqns]):
            yield from self._plain(eqns[start : start + size])
            if times > 1:
                again = eqns[start + size : start + size * times]
                part = "this equation" if size == 1 else f"these {size} equations"
                yield (
                    f'<details class="again"><summary><span class="c">× {times}: {part} '
                    f"{times - 1} times more</span></summary><div>"
                )
                yield from self._plain(again)
                yield "</div></details>"

    def _plain(self, eqns: Sequence[Eqn]) -> Iterator[str]:
        for i, eqn in enumerate(eqns):
            if self.left <= 0:
                yield f'<div class="h">… {len(eqns) - i} more equations</div>'
                return
            self.left -= 1
            yield from self.equation(eqn)

    def equation(self, eqn: Eqn) -> Iterator[str]:
        """The row of an equation, and folds of the programs that it carries."""
        text = _without_defaults(pp.layout(self.printer.eqn(eqn, None), 10**6), eqn)
        place = short(eqn.where(""))
        stack = stack_text(eqn.source[1]) if eqn.source is not None else ""
        note = self.notes(eqn) if self.notes is not None else ""
        cells = (
            f'<span class="c">{html.escape(text)}</span><span class="n">{html.escape(note)}</span>'
            f'<span class="p" title="{html.escape(stack)}">{html.escape(place)}</span>'
        )
        inner = list(_carried(eqn))
        if not inner:
            yield f'<div class="e">{cells}</div>'
            return
        yield f"<details><summary>{cells}</summary><div>"
        for title, jaxpr in inner:
            yield from self.program(jaxpr, title)
        yield "</div></details>"


def key_of(eqn: Eqn) -> Hashable:
    """A key that is equal for equations of one run: they differ in their variables alone."""
    params = [
        (name, id(value) if type(value).__name__ in ("Jaxpr", "ClosedJaxpr") else repr(value))
        for name, value in eqn.params.items()
    ]
    types = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    return eqn.primitive.name, tuple(params), tuple(types), eqn.where("")


def _without_defaults(text: str, eqn: Eqn) -> str:
    """The text of an equation without parameters that say nothing: those that are off, and the
    dtype of a product where the result shows it."""
    text = _OFF.sub("", text)
    if len(eqn.outvars) == 1:
        dtype = getattr(eqn.outvars[0].aval, "dtype", None)
        text = re.sub(rf" ?\bpreferred_element_type={dtype}\b", "", text)
    name = eqn.primitive.name
    return text.replace(f"{name}[ ", f"{name}[").replace(f"{name}[] ", f"{name} ")


def _carried(eqn: Eqn) -> Iterator[tuple[str, Jaxpr]]:
    """The programs that an equation carries, each with the name of its parameter."""
    for name, value in eqn.params.items():
        for item in value if isinstance(value, tuple) else (value,):
            kind = type(item).__name__
            if kind in ("Jaxpr", "ClosedJaxpr"):
                yield name, item if kind == "Jaxpr" else item.jaxpr


def _within(jaxpr: Jaxpr) -> Iterable[Jaxpr]:
    found: dict[Jaxpr, None] = {}
    waiting = [jaxpr]
    while waiting:
        for eqn in waiting.pop().eqns:
            for _, inner in _carried(eqn):
                if inner not in found:
                    found[inner] = None
                    waiting.append(inner)
    return found


def fragment(jaxpr: Jaxpr, notes: Callable[[Eqn], str] | None = None) -> str:
    """The rows of a program, as a part of a page that has STYLE."""
    return f'<div class="tj">{"".join(Rows(jaxpr, notes).program(jaxpr))}</div>'


def notebook(jaxpr: Jaxpr) -> str:
    """A jaxpr as notebooks show it."""
    return f"<style>{STYLE}</style>{fragment(jaxpr)}"
