"""`teucer profile`: where the time of a program goes, by source line."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import html
import linecache
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from teucer import profiler
from teucer._base import config, source
from teucer._derived.liveness import size_text
from teucer._derived.moves import live_arrays
from teucer._executables import compilations
from teucer._executables.compile import loaded
from teucer.debug._costs import count_text
from teucer.debug._hlo import Instruction, instructions

_ROWS = 25
_SEVERAL = 4  # programs of one line that are worth a word


@dataclasses.dataclass
class ProfileLine:
    """The cost of a line of the user's program while programs ran: seconds, times, operations and
    bytes."""

    place: tuple[str, int] | None
    seconds: float = 0.0
    times: int = 0
    operations: float = 0.0
    bytes: float = 0.0
    backward: float = 0.0

    @property
    def text(self) -> str:
        """The line."""
        return linecache.getline(*self.place).strip() if self.place is not None else ""

    @property
    def name(self) -> str:
        """File and line, the file relative to the working directory where it lies below it."""
        if self.place is None:
            return "(no line)"
        return f"{self.place[0].removeprefix(os.getcwd() + os.sep)}:{self.place[1]}"


@dataclasses.dataclass
class MadeAt:
    """The programs that were made for calls of a line of the user's program."""

    line: ProfileLine
    seconds: float = 0.0
    functions: list[str] = dataclasses.field(default_factory=list)  # one entry a program
    signatures: set[str] = dataclasses.field(default_factory=set)

    @property
    def advice(self) -> str:
        """What to do, if there is something."""
        n, names = len(self.functions), set(self.functions)
        if n < _SEVERAL:
            return ""
        if len(names) > n // 2:
            return f"put jit around it: each of its {n} operations is a program of its own"
        if len(self.signatures) == 1:
            return (
                "it is made anew for equal arguments: make the jitted function once, outside of "
                "loops and calls"
            )
        return (
            f"{len(self.signatures)} kinds of arguments: pad them to a few sizes, or give jit "
            "dynamic_dims"
        )


@dataclasses.dataclass(frozen=True)
class Profile:
    """Where the time went. `str` is a table for a terminal, `html` a page that stands alone.

    wall: seconds from beginning to end. running: seconds of operations, on all threads and devices.
    made: seconds to trace, lower and compile, by function. peak: operations and bytes a second that
    this machine can do.
    """

    lines: tuple[ProfileLine, ...]
    wall: float
    made: dict[str, tuple[float, float, float, int]]
    peak: tuple[float, float]
    made_at: tuple[MadeAt, ...] = ()

    @property
    def making(self) -> float:
        """Seconds in which programs were traced, lowered and compiled."""
        return sum(sum(row[:3]) for row in self.made.values())

    @property
    def running(self) -> float:
        """Seconds of operations, on all threads and devices."""
        return sum(line.seconds for line in self.lines)

    @property
    def attributed(self) -> float:
        """Which part of `running` has a line."""
        named = sum(line.seconds for line in self.lines if line.place is not None)
        return named / self.running if self.running else 1.0

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table: share, milliseconds, times, operations and bytes a second with their shares,
        line, text."""
        for line in self.lines:
            rate, moved = (
                n / line.seconds if line.seconds else 0.0 for n in (line.operations, line.bytes)
            )
            share = line.seconds / self.running if self.running else 0.0
            of_machine = (
                max(rate / self.peak[0], moved / self.peak[1]) if min(self.peak) > 0 else 0.0
            )
            back = (
                f" ({100 * line.backward / line.seconds:.0f} % backward)"
                if line.backward and line.seconds
                else ""
            )
            yield (
                f"{100 * share:.1f}",
                f"{1e3 * line.seconds:.2f}",
                str(line.times),
                f"{count_text(rate)}",
                f"{size_text(moved)}",
                f"{100 * of_machine:.0f}",
                line.name,
                line.text + back,
            )

    def __str__(self) -> str:
        head = ("%", "ms", "times", "ops/s", "bytes/s", "% of machine", "line", "")
        rows = [head, *list(self.rows())[:_ROWS]]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
        share = 100 * self.making / self.wall if self.wall else 0.0
        said = [
            f"wall {self.wall:.2f} s; operations {self.running:.2f} s on all threads, of which "
            f"{100 * self.attributed:.0f} % have a line; {sum(r[3] for r in self.made.values())} "
            f"programs made in {self.making:.2f} s, {share:.0f} % of the wall time",
            "",
        ]
        said += [
            "  ".join(
                [
                    *(cell.rjust(w) for cell, w in zip(row[:6], widths, strict=False)),
                    row[6].ljust(widths[6]),
                    row[7],
                ]
            )
            for row in rows
        ]
        if self.made:
            said += ["", "made:", "  trace ms  lower ms  compile ms  programs  function"]
            ordered = sorted(self.made.items(), key=lambda item: -sum(item[1][:3]))
            said += [
                f"  {1e3 * t:8.1f}  {1e3 * low:8.1f}  {1e3 * c:10.1f}  {n:8d}  {name}"
                for name, (t, low, c, n) in ordered[:_ROWS]
            ]
            t, low, c, n = (sum(row[i] for row in self.made.values()) for i in range(4))
            said.append(f"  {1e3 * t:8.1f}  {1e3 * low:8.1f}  {1e3 * c:10.1f}  {n:8d}  in all")
        if self.made_at:
            said += ["", "made for calls at:", "  seconds  programs  line"]
            for at in self.made_at[:_ROWS]:
                text = at.line.text
                said.append(
                    f"  {at.seconds:7.2f}  {len(at.functions):8d}  {at.line.name}  {text}".rstrip()
                )
                said += [f"{'':21}{at.advice}"] if at.advice else []
        return "\n".join(said)

    @property
    def html(self) -> str:
        """The page."""
        head = ("%", "ms", "times", "ops/s", "bytes/s", "% of machine", "line", "")
        cells = "".join(f"<th>{name}</th>" for name in head)
        body = "".join(
            (
                '<tr style="background:linear-gradient(to right,#4a90d944 {0}%,transparent '
                '{0}%)">{1}</tr>'
            ).format(row[0], "".join(f"<td>{html.escape(cell)}</td>" for cell in row))
            for row in self.rows()
        )
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            "<title>profile</title><style>"
            "body { font: 14px system-ui; margin: 1.5em }"
            "table { border-collapse: collapse; font: 13px ui-monospace, monospace }"
            "td, th { padding: .15em .8em; text-align: right }"
            "td:nth-child(n+7), th:nth-child(n+7) { text-align: left }"
            "</style></head><body><h1>Where the time goes</h1>"
            f"<table><tr>{cells}</tr>{body}</table>"
            f"<pre>{html.escape(str(self))}</pre></body></html>"
        )


class Recording:
    """From `start` to `stop`, programs say from which lines they come, and a trace is taken."""

    def start(self) -> Recording:
        """Begin."""
        config.locations.set_global(True)
        compilations.compilations.clear()
        options = profiler.ProfileOptions()
        options.python_tracer_level, options.host_tracer_level = 0, 1  # what runs, and no more
        self.session = profiler.ProfileSession(profiler_options=options).start()
        self.began = time.perf_counter()
        return self

    def wait(self) -> None:
        """Wait for programs that run behind, as far as somebody holds their results."""
        for array in live_arrays():
            with contextlib.suppress(
                Exception
            ):  # the program has heard of it, or dropped the array
                array.block_until_ready()

    def stop(self) -> Profile:
        """End, and say where the time went."""
        self.wait()
        wall = time.perf_counter() - self.began
        data = self.session.stop()
        config.locations.set_global(False)
        known = _known()
        lines: dict[Any, ProfileLine] = {}
        for module, name, seconds in _own_times(
            data, {name for found in known.values() for one in found for name in one}
        ):
            found = next((one[name] for one in known.get(module, ()) if name in one), None)
            place = found.place if found is not None else None
            line = lines.setdefault(place, ProfileLine(place))
            line.seconds += seconds
            line.times += 1
            if found is not None:
                line.operations += found.operations
                line.bytes += found.bytes
                line.backward += seconds * ("transpose(" in found.scope)
        made: dict[str, tuple[float, float, float, int]] = {}
        for row in compilations.compilations:
            t, low, c, n = made.get(row.function, (0.0, 0.0, 0.0, 0))
            made[row.function] = (
                t + row.trace_time,
                low + row.lower_time,
                c + row.compile_time,
                n + 1,
            )
        ordered = tuple(sorted(lines.values(), key=lambda line: -line.seconds))
        return Profile(ordered, wall, made, _machine(), _made_at(compilations.compilations))

    def export(self, folder: Path) -> None:
        """Write the trace, for Perfetto and TensorBoard."""
        self.session.export_profile_data(folder)


def _made_at(rows: Iterable[compilations.Compilation]) -> tuple[MadeAt, ...]:
    """The programs by the line of the program, and of no library, that called for them."""
    found: dict[Any, MadeAt] = {}
    for row in rows:
        calls = source.records(row.place)
        own = [call for call in calls if not source.is_library(call[0].co_filename)] or calls
        place = source.spelled_out(own[0]) if own else None
        key = (place.file, place.line) if place is not None else None
        at = found.setdefault(key, MadeAt(ProfileLine(key)))
        at.seconds += row.trace_time + row.lower_time + row.compile_time
        at.functions.append(row.function)
        at.signatures.add(row.signature)
    return tuple(sorted(found.values(), key=lambda at: -at.seconds))


def _known() -> dict[str, list[dict[str, Instruction]]]:
    """The instructions of the programs that are loaded, by the names of their modules."""
    found: dict[str, list[dict[str, Instruction]]] = collections.defaultdict(list)
    for executable in loaded():
        for module in executable.whole().hlo_modules():
            found[module.name].append(instructions(module.to_string()))
    return found


def _own_times(data: Any, names: set[str]) -> Iterator[tuple[str, str, float]]:
    """Module, instruction and seconds of each operation that ran, without those that ran within it.

    names: of instructions. Traces of hosts have many other events, whose details are not read.
    """
    for plane in data.planes:
        on_host = plane.name.startswith("/host:")
        for line in plane.lines:
            asked = (
                e for e in line.events if e.duration_ns > 0 and (not on_host or e.name in names)
            )
            events = sorted(
                ((e.start_ns, e.start_ns + e.duration_ns, e) for e in asked),
                key=lambda item: (item[0], -item[1]),
            )
            yield from _nested(events)


def _nested(events: Iterable[tuple[float, float, Any]]) -> Iterator[tuple[str, str, float]]:
    open_: list[list[Any]] = []  # end, module, name, seconds of its own
    for start, end, event in events:
        while open_ and open_[-1][0] <= start:
            yield from _closed(open_.pop())
        stats = dict(event.stats)
        module = str(stats.get("hlo_module", ""))
        if not module:
            continue
        if open_:
            open_[-1][3] -= (end - start) / 1e9
        open_.append(
            [
                end,
                module.partition("(")[0],
                str(stats.get("hlo_op", event.name)),
                (end - start) / 1e9,
            ]
        )
    while open_:
        yield from _closed(open_.pop())


def _closed(entry: list[Any]) -> Iterator[tuple[str, str, float]]:
    yield entry[1], entry[2], max(entry[3], 0.0)


def _machine() -> tuple[float, float]:
    """Operations and bytes a second of a large matrix product and a large copy on the host,
    measured by NumPy."""
    a = np.ones((1024, 1024), np.float32)
    source = np.ones(2**23, np.float32)
    products, copies = [], []
    for _ in range(5):
        start = time.perf_counter()
        a @ a
        products.append(time.perf_counter() - start)
        start = time.perf_counter()
        source.copy()
        copies.append(time.perf_counter() - start)
    return 2 * 1024**3 / min(products), 2 * source.nbytes / min(copies)
