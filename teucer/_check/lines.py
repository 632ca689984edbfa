"""Lines of the user's program: where an equation or an error comes from, and what is silenced."""

from __future__ import annotations

import linecache
import re
from types import TracebackType
from typing import TYPE_CHECKING

from teucer._base import source
from teucer._check.findings import Line

if TYPE_CHECKING:
    from teucer._base.source import Place, Record

_IGNORE = re.compile(r"#\s*teucer:\s*ignore(?:\[([\w\s,]+)\])?")


def record_of(place: Place | None) -> Record | None:
    """The innermost call that is not Teucer's: two equations of one record come from one call."""
    found = source.records(place)
    return found[0] if found else None


def in_library(place: Place | None) -> bool:
    """Whether an equation comes from an installed package, or from no line at all."""
    record = record_of(place)
    return record is None or source.is_library(record[0].co_filename)


def line_of(place: Place | None) -> Line | None:
    """The innermost line of the user's own program, else of a library."""
    found = source.records(place)
    if not found:
        return None
    own = [r for r in found if not source.is_library(r[0].co_filename)]
    return _line(source.spelled_out((own or found)[0]))


def _line(place: source.Location) -> Line:
    return Line(place.file, place.line, place.column, place.function)


def line_of_error(err: BaseException) -> Line | None:
    """The innermost line of the user's own program that an error passed, else of a library."""
    found: list[Line] = []
    own: list[Line] = []
    frames: TracebackType | None = err.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        if not source.is_internal(code.co_filename):
            line = _line(source.spelled_out((code, frames.tb_lasti)))
            found.append(line)
            if not source.is_library(code.co_filename):
                own.append(line)
        frames = frames.tb_next
    return (own or found or [None])[-1]  # type: ignore[list-item]  # None where there is none


def line_of_function(fun: object) -> Line | None:
    """Where a function is defined; None for those that Python did not read from a file."""
    while hasattr(fun, "__wrapped__"):
        fun = fun.__wrapped__
    code = getattr(getattr(fun, "func", fun), "__code__", None)
    if code is None or code.co_filename.startswith("<") or source.is_internal(code.co_filename):
        return None
    return Line(code.co_filename, code.co_firstlineno, 1, code.co_name)


def text_of(line: Line | None) -> str:
    """The source text of a line."""
    return "" if line is None else linecache.getline(line.file, line.line).strip()


def is_silenced(number: str, line: Line | None) -> bool:
    """Whether the line says so: `# teucer: ignore[T401]`, several numbers, or no brackets for all.

    A comment on a line of its own silences the line below it.
    """
    if line is None:
        return False
    above = linecache.getline(line.file, line.line - 1).strip() if line.line > 1 else ""
    texts = [linecache.getline(line.file, line.line), above if above.startswith("#") else ""]
    for text in texts:
        for match in _IGNORE.finditer(text):
            listed = match[1]
            if listed is None or number in re.split(r"[\s,]+", listed):
                return True
    return False
