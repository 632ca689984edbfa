"""The collectives of a program as records, as text, and as a table in the terminal."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final, overload


class Collective(NamedTuple):
    """One collective of a compiled program.

    kind: XLA's name of it, such as 'all-reduce'. types: of a device's operands. bytes: the
    size of that. sent: what a device sends each time, if they send in a ring. times: how often it
    runs in a call, nan if that depends on values. axes: the mesh axes that it is along, None if
    they are none of the mesh. devices: how many take part together. operation: the equation that it
    comes from. line: file and line of the user's program. remedy: a change that would remove it.
    """

    kind: str
    types: str
    bytes: int
    sent: float
    times: float
    axes: tuple[str, ...] | None
    devices: int | None
    operation: str
    line: str
    remedy: str


@final
class Communication:
    """The collectives of a compiled program, in the order of its text.

    Iterating gives rows of type `Collective`; printing it gives a table. `mesh` has the sizes of
    the axes, `sent` the bytes that a device sends in a call.
    """

    def __init__(self, name: str, mesh: dict[str, int], collectives: Sequence[Collective]) -> None:
        self.name, self.mesh, self.collectives = name, mesh, tuple(collectives)

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.collectives)

    def __len__(self) -> int:
        return len(self.collectives)

    @overload
    def __getitem__(self, i: int) -> Collective: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Collective, ...]: ...
    def __getitem__(self, i: int | slice) -> Collective | tuple[Collective, ...]:
        return self.collectives[i]

    @property
    def sent(self) -> float:
        """Bytes that a device sends in a call. A loop of unknown length counts once."""
        return sum(c.sent * (1 if math.isnan(c.times) else c.times) for c in self)

    @property
    def title(self) -> str:
        """The title of the table, and its sum."""
        mesh = ", ".join(f"{name}={n}" for name, n in self.mesh.items())
        if not self.collectives:
            return f"{self.name} over ({mesh}): no collectives"
        more = " at least" if any(math.isnan(c.times) for c in self) else ""
        sent = f"a device sends{more} {amount(self.sent)} in a call"
        return f"{self.name} over ({mesh}): {len(self)} collective{'s' * (len(self) > 1)}; {sent}"

    def __repr__(self) -> str:
        if not self.collectives:
            return self.title
        rows = [HEAD, *map(_cells, self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(w) if i in NUMBERS else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        remedies = list(
            dict.fromkeys(f"  {c.line or c.operation}: {c.remedy}" for c in self if c.remedy)
        )
        return "\n".join(
            [
                self.title,
                "",
                *lines,
                *(["", "What would remove them:", *remedies] if remedies else []),
            ]
        )

    def __rich__(self) -> Any:
        from rich.table import Table  # only where rich prints the table

        table = Table(title=self.title, title_justify="left")
        for i, name in enumerate(HEAD):
            table.add_column(
                name, justify="right" if i in NUMBERS else "left", no_wrap=i in (0, *NUMBERS)
            )
        table.add_column("what would remove it", style="dim")
        for c in self:
            table.add_row(
                *_cells(c), c.remedy, style="yellow" if c.sent * c.times > self.sent / 4 else None
            )
        return table

    def show(self) -> None:
        """Print it; with colours and frames on a terminal, if there is rich (the extra `cli`)."""
        if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
            from rich.console import Console

            Console().print(self)
        else:
            print(self)


HEAD = ("collective", "of each device", "axes", "bytes", "sent", "times", "operation", "line")
NUMBERS = (3, 4, 5)


def _cells(c: Collective) -> tuple[str, ...]:
    axes = "?" if c.axes is None else ", ".join(c.axes)
    types = c.types if len(c.types) <= 40 else c.types[:37] + "..."
    times = "?" if math.isnan(c.times) else f"{c.times:g}"
    return c.kind, types, axes, amount(c.bytes), amount(c.sent), times, c.operation, c.line


def amount(n: float) -> str:
    """A number of bytes as text with a unit, such as 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError(n)
