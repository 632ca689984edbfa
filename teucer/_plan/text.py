"""A plan as text for a terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._derived.liveness import size_text

if TYPE_CHECKING:
    from teucer._plan.parts import Part
    from teucer._plan.plan import Plan

_ROWS = 10
NAMES = {
    "products": "products (matrix units)",
    "elements": "elementwise work",
    "memory": "memory traffic",
    "copy": "copies that are waited for",
    "collective": "collectives that are waited for",
}


def time_text(seconds: float) -> str:
    """A time for people.

    >>> time_text(0.0123), time_text(2e-6)
    ('12.3 ms', '2 us')
    """
    if seconds < 1e-9:
        return "0 s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError(seconds)


def rate_text(amount: float) -> str:
    """A number of operations for people.

    >>> rate_text(1.5e12)
    '1.5 T'
    """
    for unit in ("", "k", "M", "G", "T", "P", "E"):
        if amount < 1000 or unit == "E":
            return f"{amount:.3g} {unit}".strip()
        amount /= 1000
    raise AssertionError(amount)


def title(plan: Plan) -> str:
    """Of what the plan is."""
    mesh = ", ".join(f"{name}={n}" for name, n in plan.mesh.items())
    return f"{plan.name} on {plan.topology}: {plan.devices} x {plan.chip.kind}, mesh {mesh}"


def summary(plan: Plan) -> list[tuple[str, str]]:
    """The lines at the head: what is asked, and the answer."""
    memory = plan.memory
    share = f"{100 * memory.peak / memory.capacity:.0f} %"
    of = f"{size_text(memory.peak)} of {size_text(memory.capacity)} a device ({share})"
    rows = [("fits", f"{'yes' if plan.fits else 'no'}, {of}" if memory.peak else "no")]
    if memory.why:
        rows.append(("the compiler says", memory.why))
    if plan.seconds is not None:
        rows.append(("time of a call", f"{time_text(plan.seconds)}, limited by {plan.limit}"))
        used = plan.utilisation or 0.0
        rows.append(
            (
                "utilisation",
                f"{100 * used:.1f} % of {rate_text(plan.chip.peak)}FLOP/s a device: "
                f"{rate_text(plan.asked / plan.devices)}FLOP asked for, "
                f"{rate_text(plan.products)}FLOP done",
            )
        )
        if plan.tokens:
            rate = plan.tokens / plan.seconds
            rows.append(("tokens", f"{plan.tokens} a call, {rate_text(rate)} a second"))
        if plan.cost_per_million is not None:
            rows.append(("cost", f"{plan.cost_per_million:.4g} a million tokens"))
    rows.append(("compile time", f"{time_text(plan.compile_seconds)} on this machine"))
    return rows


def report(plan: Plan) -> str:
    """All of it."""
    said = [title(plan), ""]
    width = max(len(name) for name, _ in summary(plan)) + 2
    said += [f"  {name.ljust(width)}{value}" for name, value in summary(plan)]
    if plan.seconds:
        said += ["", "Where the time goes:", *table(_kinds(plan))]
        collectives = [p for p in plan.parts if p.kind == "collective"]
        if collectives:
            said += ["", f"Collectives ({time_text(plan.overlapped)} overlapped with work):"]
            said += table(_collectives(collectives), numbers=(3, 4, 5, 6, 7))
        lines = by_line(plan)
        said += ["", "By line:", *table(_lines(lines, plan.seconds), numbers=(0, 1, 2, 3))]
    said += ["", *_held(plan)]
    if plan.advice:
        said += ["", "What would help:", *(f"  - {one}" for one in plan.advice)]
    if plan.unknown_loops:
        said += [
            "",
            f"{plan.unknown_loops} loops turn as often as values say. They count as one turn.",
        ]
    return "\n".join(said)


def _kinds(plan: Plan) -> list[tuple[str, ...]]:
    assert plan.seconds
    return [
        (time_text(seconds), f"{100 * seconds / plan.seconds:.1f} %", NAMES[kind])
        for kind, seconds in plan.waited.items()
        if seconds > 5e-4 * plan.seconds
    ]


def _collectives(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    head = (
        "collective", "along", "links", "times", "sent", "takes", "waited", "GB/s", "line",
        "of each device",
    )  # fmt: skip
    return [head, *(_collective(p) for p in parts[:_ROWS]), *_rest(parts)]


def _collective(p: Part) -> tuple[str, ...]:
    along = "?" if p.axes is None else ", ".join(p.axes)
    types = p.types if len(p.types) <= 44 else p.types[:41] + "..."
    speed = f"{p.sent / p.seconds / 1e9:.3g}" if p.seconds else ""
    return (
        p.what, along, p.links, f"{p.times:g}", size_text(p.sent), time_text(p.seconds),
        time_text(p.waited), speed, f"{p.line}{_pass(p)}", types,
    )  # fmt: skip


def _rest(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    rest = parts[_ROWS:]
    if not rest:
        return []
    return [
        (
            f"{len(rest)} others", "", "", "", size_text(sum(p.sent for p in rest)),
            time_text(sum(p.seconds for p in rest)), time_text(sum(p.waited for p in rest)), "",
            "", "",
        )
    ]  # fmt: skip


def _pass(p: Part) -> str:
    return " again" if p.again else " backward" if p.backward else ""


def by_line(plan: Plan) -> list[tuple[str, dict[str, float]]]:
    """What each line of the program takes: seconds in all and by kind, the slowest first."""
    found: dict[str, dict[str, float]] = {}
    for p in plan.parts:
        row = found.setdefault(p.line or "(no line)", {})
        row[p.kind] = row.get(p.kind, 0.0) + p.waited
        row["all"] = row.get("all", 0.0) + p.waited
    return sorted(found.items(), key=lambda item: -item[1]["all"])


def _lines(rows: Sequence[tuple[str, dict[str, float]]], seconds: float) -> list[tuple[str, ...]]:
    head = ("time", "products", "memory", "collectives", "line")
    table: list[tuple[str, ...]] = [head]
    for line, kinds in rows[:_ROWS]:
        memory = kinds.get("memory", 0.0) + kinds.get("elements", 0.0) + kinds.get("copy", 0.0)
        table.append(
            (
                f"{time_text(kinds['all'])} {100 * kinds['all'] / seconds:.0f} %",
                *(
                    time_text(t) if t else ""
                    for t in (kinds.get("products", 0.0), memory, kinds.get("collective", 0.0))
                ),
                f"{line}  {source_of(line)}".rstrip(),
            )
        )
    return table


def source_of(line: str) -> str:
    """The text of a line of the program."""
    import linecache

    file, _, number = line.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdecimal() else ""


def _held(plan: Plan) -> list[str]:
    memory = plan.memory
    said = ["Memory of a device:"]
    if memory.why and memory.held:
        said.append("  as the same program has it on as many v5p chips, which have more memory:")
    if memory.held or not memory.why:
        said.append(
            f"  arguments {size_text(memory.arguments)}, results {size_text(memory.results)}, "
            f"temporaries {size_text(memory.temporaries)}, code {size_text(memory.code)}; "
            f"{size_text(memory.shared)} of the results lie in the place of arguments"
        )
    if memory.held:
        said.append("  at the worst moment, about:")
        rows = [
            (size_text(h.bytes), f"{h.many} x {h.type}", h.what, h.line)
            for h in memory.held[:_ROWS]
        ]
        rest = memory.held[_ROWS:]
        if rest:
            rows.append((size_text(sum(h.bytes for h in rest)), f"{len(rest)} others", "", ""))
        said += ["  " + line for line in table(rows, numbers=(0,))]
    return said


def table(rows: Sequence[Sequence[str]], numbers: Sequence[int] = (0, 1)) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.rjust(w) if i in numbers else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def as_dict(plan: Plan) -> dict[str, Any]:
    """All of it, as JSON has it."""
    memory = plan.memory._asdict()
    memory["held"] = [h._asdict() for h in plan.memory.held]
    return {
        "name": plan.name,
        "topology": plan.topology,
        "devices": plan.devices,
        "chip": plan.chip._asdict(),
        "mesh": plan.mesh,
        "fits": plan.fits,
        "memory": memory,
        "seconds": plan.seconds,
        "waited": plan.waited,
        "overlapped": plan.overlapped,
        "limit": plan.limit,
        "utilisation": plan.utilisation,
        "operations_asked": plan.asked,
        "operations_a_device": None if math.isnan(plan.products) else plan.products,
        "tokens": plan.tokens,
        "cost_per_million_tokens": plan.cost_per_million,
        "compile_seconds": plan.compile_seconds,
        "unknown_loops": plan.unknown_loops,
        "advice": list(plan.advice),
        "parts": [{**p._asdict(), "axes": p.axes and list(p.axes)} for p in plan.parts],
    }
