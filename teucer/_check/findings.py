"""Findings of a check, with number, level, line and remedy, and the report of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from teucer._check.numbers import NUMBERS
from teucer._check.sarif import sarif_of

Level: TypeAlias = Literal["error", "warning", "hint"]


class Line(NamedTuple):
    """A place in the user's program; lines and columns count from 1."""

    file: str
    line: int
    column: int = 1
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One fault: its number, what is wrong, where, and what to do.

    level: error (the program fails, or gives wrong numbers, whatever the data), warning (it does so
    for some data, or wastes much), hint (a habit that costs something).
    """

    number: str
    message: str
    line: Line | None
    remedy: str
    text: str = ""  # the line itself

    @property
    def level(self) -> Level:
        return NUMBERS[self.number].level

    @property
    def title(self) -> str:
        return NUMBERS[self.number].title

    @property
    def page(self) -> str:
        """Where the guide explains it."""
        return f"docs/guide/checking.md#{self.number.lower()}"

    def __str__(self) -> str:
        where = f"{self.line}: " if self.line is not None else ""
        said = [f"{where}{self.level} {self.number}: {self.message}"]
        said += [f"    {self.text}"] if self.text else []
        said.append(f"  -> {self.remedy}")
        return "\n".join(said)

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        where = {} if self.line is None else self.line._asdict()
        return {
            "number": self.number,
            "level": self.level,
            "title": self.title,
            "message": self.message,
            "remedy": self.remedy,
            "text": self.text,
            "page": self.page,
            **where,
        }


@dataclasses.dataclass(frozen=True)
class Report:
    """The findings of a check, the worst first.

    `str` is text for people; true if there are findings. checked: the functions. notes: parts that
    could not be checked, and why.
    """

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    silenced: int = 0
    notes: tuple[str, ...] = ()

    def of(self, level: Level) -> tuple[Finding, ...]:
        """The findings of a level."""
        return tuple(f for f in self.findings if f.level == level)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the findings, each once."""
        return tuple(dict.fromkeys(f.number for f in self.findings))

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        said = [str(f) for f in self.findings]
        said += [f"note: {note}" for note in self.notes]
        return "\n".join([*said, self._summary()])

    def _summary(self) -> str:
        n = len(self.checked)
        levels: tuple[Level, ...] = ("error", "warning", "hint")
        counts = [f"{len(self.of(level))} {level}{'s' * (len(self.of(level)) != 1)}"
                  for level in levels]  # fmt: skip
        hidden = f", {self.silenced} silenced" if self.silenced else ""
        return f"{n} function{'s' * (n != 1)} checked: {', '.join(counts)}{hidden}"

    def json(self) -> str:
        """The report as JSON."""
        return json.dumps(
            {
                "findings": [f.as_dict() for f in self.findings],
                "checked": list(self.checked),
                "silenced": self.silenced,
                "notes": list(self.notes),
            },
            indent=2,
        )

    def sarif(self) -> str:
        """The report as SARIF 2.1.0, which editors and code hosts show."""
        return json.dumps(sarif_of([f.as_dict() for f in self.findings]), indent=2)

    def with_one_hint_a_file(self) -> Report:
        """The report with the first hint of each file only; a note counts the others."""
        kept, seen, hidden = [], set(), 0
        for f in self.findings:
            file = f.line.file if f.line is not None else ""
            if f.level == "hint" and file in seen:
                hidden += 1
                continue
            if f.level == "hint":
                seen.add(file)
            kept.append(f)
        more = (f"{hidden} more hint{'s' * (hidden != 1)}: --hints shows them",) * bool(hidden)
        return dataclasses.replace(self, findings=tuple(kept), notes=(*self.notes, *more))


_ORDER = {"error": 0, "warning": 1, "hint": 2}


def report_of(
    findings: Iterable[Finding],
    checked: Iterable[str],
    silenced: int = 0,
    notes: Iterable[str] = (),
) -> Report:
    """A report of findings: each once, the worst first, then by place."""
    unique = {(f.number, f.line and f.line[:2]): f for f in reversed(list(findings))}
    ordered = sorted(
        unique.values(),
        key=lambda f: (_ORDER[f.level], f.line[:3] if f.line else ("", 0, 0), f.number),
    )
    return Report(
        tuple(ordered), tuple(dict.fromkeys(checked)), silenced, tuple(dict.fromkeys(notes))
    )
