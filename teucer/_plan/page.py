"""A plan as an HTML page that stands alone."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from teucer._derived.liveness import size_text
from teucer._plan import text

if TYPE_CHECKING:
    from teucer._plan.plan import Plan

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
table { border-collapse: collapse; margin: .5em 0 1.5em }
td, th { padding: .15em .8em .15em 0; text-align: left; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
tr + tr td { border-top: 1px solid #8884 }
code { font-size: 90% }
.bar { display: flex; height: 1.6em; width: 100% } .bar div { height: 100% }
.no { color: #c02d2d } .yes { color: #1b7f3b }
"""
_COLOURS = {
    "products": "#3b76b5", "elements": "#6a51a3", "memory": "#2f9e6e", "copy": "#c9a227",
    "collective": "#d0632b",
}  # fmt: skip


def page(plan: Plan) -> str:
    """The page."""
    kind = "yes" if plan.fits else "no"
    parts = [
        "<!doctype html><meta charset='utf-8'>",
        f"<title>{_e(text.title(plan))}</title><style>{_STYLE}</style>",
        f"<h1>{_e(plan.name)}</h1><p>{_e(text.title(plan))}</p>",
        _table(
            [
                (name, f"<b class={kind}>{_e(value)}</b>" if name == "fits" else _e(value))
                for name, value in text.summary(plan)
            ]
        ),
    ]
    if plan.advice:
        rows = "".join(f"<li>{_e(one)}</li>" for one in plan.advice)
        parts.append(f"<h2>What would help</h2><ol>{rows}</ol>")
    if plan.seconds:
        parts += [_time(plan, plan.seconds), _collectives(plan), _lines(plan, plan.seconds)]
    parts.append(_memory(plan))
    return "\n".join(parts)


def framed(plan: Plan) -> str:
    """The page within a page of a notebook."""
    return f'<iframe srcdoc="{_e(page(plan))}" width="100%" height="600" style="border:0"></iframe>'


def _time(plan: Plan, seconds: float) -> str:
    kinds = [(k, t) for k, t in plan.waited.items() if t > 0]
    bar = "".join(
        f"<div style='width:{100 * t / seconds:.2f}%;background:{_COLOURS[k]}' "
        f"title='{_e(text.NAMES[k])}: {text.time_text(t)}'></div>"
        for k, t in kinds
    )
    rows = [
        (
            f"<span style='color:{_COLOURS[k]}'>&#9632;</span> {_e(text.NAMES[k])}",
            text.time_text(t),
            f"{100 * t / seconds:.1f} %",
        )
        for k, t in kinds
    ]
    over = f"<p>Collectives overlapped with work: {text.time_text(plan.overlapped)}.</p>"
    return f"<h2>Time</h2><div class=bar>{bar}</div>{_table(rows, (1, 2))}{over}"


def _collectives(plan: Plan) -> str:
    rows = [
        (
            p.what,
            _e("?" if p.axes is None else ", ".join(p.axes)),
            _e(p.links),
            f"{p.times:g}",
            size_text(p.sent),
            text.time_text(p.seconds),
            text.time_text(p.waited),
            f"<code>{_e(p.line)}</code>",
            f"<code>{_e(p.types)}</code>",
        )
        for p in plan.parts
        if p.kind == "collective"
    ]
    if not rows:
        return ""
    head = (
        "collective", "along", "links", "times", "sent", "takes", "waited", "line",
        "of each device",
    )  # fmt: skip
    return f"<h2>Collectives</h2>{_table([head, *rows], (3, 4, 5, 6), head=True)}"


def _lines(plan: Plan, seconds: float) -> str:
    rows = []
    for line, kinds in text.by_line(plan):
        bar = "".join(
            f"<div style='width:{100 * kinds.get(k, 0.0) / seconds:.2f}%;background:{c}'></div>"
            for k, c in _COLOURS.items()
        )
        rows.append(
            (
                text.time_text(kinds["all"]),
                f"{100 * kinds['all'] / seconds:.1f} %",
                f"<div class=bar style='width:16em'>{bar}</div>",
                f"<code>{_e(line)}</code>",
                f"<code>{_e(text.source_of(line))}</code>",
            )
        )
    return f"<h2>By line</h2>{_table(rows, (0, 1))}"


def _memory(plan: Plan) -> str:
    rows = [
        (size_text(h.bytes), f"{h.many} x <code>{_e(h.type)}</code>", _e(h.what),
         f"<code>{_e(h.line)}</code>")
        for h in plan.memory.held
    ]  # fmt: skip
    m = plan.memory
    sums = (
        f"<p>Arguments {size_text(m.arguments)}, results {size_text(m.results)}, temporaries "
        f"{size_text(m.temporaries)}, code {size_text(m.code)}. At the worst moment, about:</p>"
    )
    return f"<h2>Memory of a device</h2>{sums}{_table(rows, (0,))}"


def _table(
    rows: Sequence[Sequence[str]], numbers: Sequence[int] = (), *, head: bool = False
) -> str:
    found = []
    for i, row in enumerate(rows):
        tag = "th" if head and i == 0 else "td"
        cells = "".join(
            f"<{tag}{' class=n' if j in numbers else ''}>{cell}</{tag}>"
            for j, cell in enumerate(row)
        )
        found.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(found)}</table>"


def _e(value: str) -> str:
    return html.escape(value)
