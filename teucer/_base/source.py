"""Source locations.

The calls of the user that made an operation, recorded cheaply and spelled out on demand.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias

from teucer._xla.runtime_errors import Traceback

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DEMOS = os.path.join(_PACKAGE, "cli", "demos") + os.sep  # programs as a user would write them
_PASSED_THROUGH = frozenset(
    {contextlib.__file__, functools.__file__, "<frozen runpy>"}
)  # the library, or the user's program, is often called from these
_CALLED_LIBRARIES = frozenset({"numpy", "opt_einsum"})  # these compare sizes

# Where the code of Python and of packages lies: the lines of a library that the user calls are
# seldom what they look for.
_LIBRARIES = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
_STANDARD = os.path.dirname(os.__file__) + os.sep
_SAID = 6  # calls that a message says

Place: TypeAlias = Traceback
"""The calls that were being made, as C++ takes them down: the code objects, and the index of the
instruction in each."""

Record: TypeAlias = tuple[CodeType, int]
"""One of those calls."""

here = Traceback.get_traceback
"""The place that runs now; None where jaxlib is told to take down none."""


class Location(NamedTuple):
    """A record spelled out. Lines count from 1, columns from 1 as editors show them."""

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int


# By file: whether it is Teucer's own.
known_files: dict[str, bool] = {}


def is_internal(filename: str) -> bool:
    """Whether a file, named as in a code object, belongs to Teucer; decided once for each name."""
    try:
        return known_files[filename]
    except KeyError:
        own = filename.startswith(_PACKAGE) and not filename.startswith(_DEMOS)
        known_files[filename] = result = own or filename in _PASSED_THROUGH
        return result


def records(place: Place | None) -> list[Record]:
    """The calls of a place that stand in files that are not Teucer's, the innermost first.

    >>> code, instruction = records(here())[0]
    >>> code.co_name
    '<module>'
    """
    if place is None:
        return []
    return [
        (code, at)
        for code, at in zip(*place.raw_frames(), strict=True)
        if not is_internal(code.co_filename)
    ]


def asked_by_user(frame: FrameType | None) -> bool:
    """Whether a frame runs for the user's code. An `__eq__`, or a library that Teucer calls, runs
    for its caller."""
    while frame is not None and (
        frame.f_code.co_name == "__eq__"
        or frame.f_globals.get("__name__", "").partition(".")[0] in _CALLED_LIBRARIES
    ):
        frame = frame.f_back
    return frame is not None and not is_internal(frame.f_code.co_filename)


def user_stacklevel() -> int:
    """The `stacklevel` with which the caller's warnings.warn points at the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


class _Rehearsal(threading.local):
    on = False


_rehearsal = _Rehearsal()


class WouldWarn(Exception):
    """The user's program is rehearsed, and would warn."""


@contextlib.contextmanager
def rehearsal() -> Iterator[None]:
    """Have `warn` raise WouldWarn in a `with` block: no template may replace a call that warns."""
    before, _rehearsal.on = _rehearsal.on, True
    try:
        yield
    finally:
        _rehearsal.on = before


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line that led here."""
    if _rehearsal.on:
        raise WouldWarn(message)
    warnings.warn(message, category, stacklevel=user_stacklevel())


def is_library(filename: str) -> bool:
    """Whether a file belongs to Python or to a package that is installed."""
    return filename.startswith(_STANDARD) or any(part in filename for part in _LIBRARIES)


def spelled_out(record: Record) -> Location:
    """File, function, line and column of a call."""
    code, instruction = record
    line = end_line = column = end_column = None
    if instruction >= 0:
        line, end_line, column, end_column = next(
            itertools.islice(code.co_positions(), instruction // 2, None)
        )
    line = code.co_firstlineno if line is None else line
    column = (column or 0) + 1
    return Location(
        code.co_filename,
        code.co_qualname.rpartition("<locals>.")[2],
        line,
        column,
        line if end_line is None else end_line,
        column if end_column is None else end_column + 1,
    )


def locate(place: Place | None) -> Location | None:
    """The innermost line of the user's program; None if there is none."""
    found = records(place)
    return spelled_out(found[0]) if found else None


def describe(place: Place | None) -> str:
    """A place as text: file.py:12:5 (function), the file relative to the working directory where it
    lies below it.

    For a line of a library it also says which line of the user's program called the library.
    """
    found = records(place)
    if not found:
        return "an unknown line"
    own = _first_of_program(found)
    said = text(found[0])
    return f"{said}, called from {text(found[own])}" if own else said


def callers(place: Place | None) -> str:
    """The program's lines around the call that `describe` names, the nearest first, each as a line
    of a message."""
    found = records(place)
    outer = [
        record
        for record in found[_first_of_program(found) + 1 :]
        if not is_library(record[0].co_filename)
    ]
    return "".join([f"\n    called from {text(record)}" for record in outer[:_SAID]])


def _first_of_program(found: list[Record]) -> int:
    """The number of the innermost call that stands in no library; 0 if there is none."""
    return next((i for i, (code, _) in enumerate(found) if not is_library(code.co_filename)), 0)


def text(record: Record) -> str:
    """A call as text."""
    place = spelled_out(record)
    below = os.getcwd() + os.sep
    file = place.file.removeprefix(below)
    return f"{file}:{place.line}:{place.column} ({place.function})"
