"""`show`: a program as a page that stands alone, and as text for a terminal."""

from __future__ import annotations

import dataclasses
import html
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

from teucer._base import source, tracebacks
from teucer._core import structure
from teucer._core.calls import fun_name
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, jaxprs_in_params
from teucer._derived.liveness import Peak, bytes_of, is_backward, peak_of, size_text
from teucer._derived.stages import jit
from teucer._optimize.operations import operations, total_operations
from teucer._printing.pictures import MOST, STYLE, Rows
from teucer._printing.runs import runs_of, short
from teucer.debug._costs import bytes_moved, count_text


@dataclasses.dataclass(frozen=True, repr=False)
class Picture:
    """A program to be looked at: `str` is text for a terminal, `html` a page that stands alone;
    notebooks show the page."""

    name: str
    jaxpr: ClosedJaxpr
    peak: Peak
    inputs: tuple[str, ...] = ()  # what the arguments are called

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return str(self)

    @property
    def html(self) -> str:
        """The page."""
        return _page(self)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="600" '
            'style="border:0"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; returns its path."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path


@tracebacks.api_boundary
def show(fun: Callable[..., object], *args: object, **kwargs: object) -> Picture:
    """A program to be looked at: equations folded by function and by line, with shapes, bytes and
    operations.

    args: arrays, or their types (ShapeDtypeStruct). Print the result in a terminal, save its page
    with `.save(path)`, or leave it to a notebook. The forward and the backward pass stand side by
    side; a chart shows the memory that the program is predicted to need.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> picture = jax.debug.show(lambda x: jnp.sin(x) @ x, jnp.ones((8, 8)))
    >>> print(str(picture).splitlines()[0])
    <lambda>: 2 equations, 1.1 k operations, predicted peak 768 B
    """
    function: Any = fun if hasattr(fun, "trace") else jit(fun)
    traced = function.trace(*args, **kwargs)
    names = tuple(traced.arg_names)
    peak = peak_of(traced.jaxpr, [f"argument {name}" for name in names])
    return Picture(fun_name(fun), traced.jaxpr, peak, names)


def _count(jaxpr: Jaxpr) -> int:
    return len(jaxpr.eqns) + sum(
        _count(inner) for eqn in jaxpr.eqns for inner in jaxprs_in_params(eqn.params)
    )


def _title(picture: Picture) -> str:
    jaxpr = picture.jaxpr.jaxpr
    return (
        f"{picture.name}: {_count(jaxpr)} equations, {count_text(total_operations(jaxpr))} "
        f"operations, predicted peak {size_text(picture.peak.size)}"
    )


@dataclasses.dataclass
class _Line:
    """The equations of one line of the user's program."""

    place: str
    text: str
    eqns: list[tuple[Eqn, bool]] = dataclasses.field(
        default_factory=list
    )  # and whether it is of the backward pass
    operations: float = 0.0
    bytes: int = 0


def _lines(jaxpr: Jaxpr) -> list[_Line]:
    """The lines of a program in the order in which they first run. Lines of called functions stand
    at the call."""
    found: dict[Any, _Line] = {}

    def visit(jaxpr: Jaxpr, times: float, backward: bool) -> None:
        for eqn in jaxpr.eqns:
            back = backward or is_backward(eqn)
            inner = list(jaxprs_in_params(eqn.params)) if eqn.primitive.higher_order else []
            if inner:
                again = structure.times(eqn)
                for body in inner:
                    visit(body, times * again, back)
                continue
            place = source.locate(eqn.place)
            key = (place.file, place.line) if place is not None else None
            if key not in found:
                shown = short(source.describe(eqn.place))
                found[key] = _Line(
                    shown, linecache.getline(*key).strip() if key is not None else ""
                )
            line = found[key]
            line.eqns.append((eqn, back))
            line.operations += times * operations(eqn)
            line.bytes += int(times * bytes_moved(eqn))

    visit(jaxpr, 1.0, False)
    return list(found.values())


def _note(eqn: Eqn) -> str:
    made = sum(bytes_of(v.aval) for v in eqn.outvars)
    done = operations(eqn)
    return f"{size_text(made)}{f', {count_text(done)} ops' if done else ''}"


# --- Text --------------------------------------------------------------------------------------


def _text(picture: Picture) -> str:
    said = [_title(picture), ""]
    for line in _lines(picture.jaxpr.jaxpr):
        backward = sum(back for _, back in line.eqns)
        way = f", {backward} in the backward pass" if backward else ""
        said.append(f"{line.place}  {line.text}")
        said.append(
            f"    {len(line.eqns)} equations{way}; {count_text(line.operations)} operations; "
            f"{size_text(line.bytes)} read and written"
        )
        said += _equations(line)
    said += ["", str(picture.peak)]
    return "\n".join(said)


def _equations(line: _Line) -> list[str]:
    """The equations of a line; a part that repeats is shown once."""
    shown = [
        f"      {'<' if back else '>'} {eqn.primitive.name}: "
        f"{', '.join(v.aval.str_short(True) for v in eqn.outvars)}"
        for eqn, back in line.eqns
    ]
    said = []
    for start, size, times in runs_of(shown):
        said += shown[start : start + size]
        if times > 1:
            said[-1] += f"    x {times}" if size == 1 else f"    these {size} x {times}"
    return said


# --- The page ----------------------------------------------------------------------------------

_PAGE_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; }
h1 { font-size: 1.3em; } h2 { font-size: 1.05em; margin: 1.5em 0 .5em; }
.passes { display: grid; grid-template-columns: repeat(auto-fit, minmax(30em, 1fr)); gap: 1.5em; }
table { border-collapse: collapse; font: 13px ui-monospace, monospace; }
td, th { padding: .1em .8em; text-align: left; }
td.r { text-align: right; white-space: nowrap; }
.bar { background: #4a90d955; display: block; height: .8em; }
.hidden { display: none !important; } input { font: inherit; padding: .3em .6em; width: 24em; }
svg { width: 100%; height: 9em; } svg rect { fill: #4a90d9; } svg rect.top { fill: #d0453e; }
svg rect:hover { fill: #222; } pre { font: 13px ui-monospace, monospace; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b; }
  svg rect:hover { fill: #fff; }
}
"""
_SCRIPT = """
const field = document.getElementById("search");
field.addEventListener("input", () => {
  const wanted = field.value.toLowerCase();
  let found = 0;
  for (const row of document.querySelectorAll(".tj .e, .tj details, tr.l")) {
    const hit = row.textContent.toLowerCase().includes(wanted);
    row.classList.toggle("hidden", !hit);
    if (row.tagName === "DETAILS" && wanted) row.open = hit;
    found += hit && row.tagName !== "DETAILS";
  }
  document.getElementById("found").textContent = wanted ? found + " found" : "";
});
for (const [button, open] of [["open", true], ["close", false]])
  document.getElementById(button).addEventListener("click", () => {
    for (const fold of document.querySelectorAll(".tj details")) fold.open = open;
  });
"""


def _page(picture: Picture) -> str:
    jaxpr = picture.jaxpr.jaxpr
    title = html.escape(_title(picture))
    rows = Rows(jaxpr, _note)
    forward = [eqn for eqn in jaxpr.eqns if not is_backward(eqn)]
    backward = [eqn for eqn in jaxpr.eqns if is_backward(eqn)]
    arguments = " ".join(map(rows.printer.binder, jaxpr.constvars))
    named = dict(zip(jaxpr.invars, picture.inputs, strict=False))
    arguments += "".join(
        f" {named[v]} = {rows.printer.binder(v)}," if v in named else f" {rows.printer.binder(v)},"
        for v in jaxpr.invars
    )
    arguments = arguments.strip(" ,")
    passes = [
        ("Forward" if backward else "Equations", forward),
        *([("Backward", backward)] if backward else []),
    ]
    columns = ""
    for name, eqns in passes:
        rows.left = MOST // len(passes)  # so that a long forward pass does not cut off the other
        columns += (
            f'<section><h2>{name}</h2><div class="tj">{"".join(rows.equations(eqns))}</div>'
            "</section>"
        )
    results = ", ".join(map(rows.printer.name, jaxpr.outvars))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_PAGE_STYLE}{STYLE}</style></head><body><h1>{title}</h1>"
        '<p><input id="search" placeholder="search: an operation, a shape, a line"> '
        '<span id="found"></span> '
        '<button id="open">unfold all</button> <button id="close">fold all</button></p>'
        f'<p class="tj"><span class="h">λ {html.escape(arguments)} → '
        f"({html.escape(results)})</span></p>"
        f'<div class="passes">{columns}</div>'
        f"<h2>By line</h2>{_table(jaxpr)}<h2>Memory</h2>{_chart(picture.peak)}"
        f"<pre>{html.escape(str(picture.peak))}</pre><script>{_SCRIPT}</script></body></html>"
    )


def _table(jaxpr: Jaxpr) -> str:
    lines = _lines(jaxpr)
    most = max((line.bytes for line in lines), default=0) or 1
    body = "".join(
        f'<tr class="l"><td>{html.escape(line.place)}</td><td>{html.escape(line.text)}</td>'
        f'<td class="r">{len(line.eqns)}</td><td class="r">{count_text(line.operations)}</td>'
        f'<td class="r">{size_text(line.bytes)}</td>'
        f'<td><span class="bar" style="width:{8 * line.bytes / most:.2f}em"></span></td></tr>'
        for line in lines
    )
    head = "".join(
        f"<th>{name}</th>"
        for name in ("line", "", "equations", "operations", "read and written", "")
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _chart(peak: Peak) -> str:
    """The memory at each equation, as bars."""
    levels = peak.levels
    if not levels or not peak.size:
        return "<p>No memory is needed.</p>"
    bars = []
    for i, (size, eqn) in enumerate(levels):
        height = 100 * size / peak.size
        kind = ' class="top"' if eqn is peak.at else ""
        place = short(eqn.where(""))
        said = html.escape(f"{size_text(size)}: {eqn.primitive.name} {place}")
        bars.append(
            f'<rect{kind} x="{i}" y="{100 - height:.2f}" width="0.9" height="{height:.2f}">'
            f"<title>{said}</title></rect>"
        )
    return f'<svg viewBox="0 0 {len(levels)} 100" preserveAspectRatio="none">{"".join(bars)}</svg>'
