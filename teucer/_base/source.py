"""Source locations: the user's line that made an operation, recorded cheaply and spelled out on demand."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DEMOS = os.path.join(_PACKAGE, "cli", "demos") + os.sep  # programs as a user would write them
_PASSED_THROUGH = frozenset({contextlib.__file__, functools.__file__})  # the library is often called from these
_CALLED_LIBRARIES = frozenset({"numpy", "opt_einsum"})  # these compare sizes

Record: TypeAlias = tuple[CodeType, int]
"""Code and the index of the instruction in it: what a frame knows of its place without computing a line number."""


class Location(NamedTuple):
    """A record spelled out. Lines count from 1, columns from 1 as editors show them."""

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int


_internal: dict[str, bool] = {}


def is_internal(filename: str) -> bool:
    """Whether a file, named as in a code object, belongs to Teucer; decided once for each name."""
    try:
        return _internal[filename]
    except KeyError:
        own = filename.startswith(_PACKAGE) and not filename.startswith(_DEMOS)
        _internal[filename] = result = own or filename in _PASSED_THROUGH
        return result


def user_frame() -> Record | None:
    """The place in the user's code from which Teucer was called: the innermost frame of a file that is not Teucer's.

    None where there is no such frame.

    >>> code, instruction = user_frame()
    >>> code.co_name
    '<module>'
    """
    frame: FrameType | None = sys._getframe(1)
    internal = _internal
    while frame is not None:
        code = frame.f_code
        try:
            if not internal[code.co_filename]:
                return code, frame.f_lasti
        except KeyError:
            if not is_internal(code.co_filename):
                return code, frame.f_lasti
        frame = frame.f_back
    return None


def asked_by_user(frame: FrameType | None) -> bool:
    """Whether the user's code asks what a frame asks: an `__eq__`, and libraries that Teucer calls, ask for their callers."""
    while frame is not None and (frame.f_code.co_name == "__eq__"
                                 or frame.f_globals.get("__name__", "").partition(".")[0] in _CALLED_LIBRARIES):
        frame = frame.f_back
    return frame is not None and not is_internal(frame.f_code.co_filename)


def user_stacklevel() -> int:
    """The `stacklevel` with which the caller's warnings.warn points at the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def locate(record: Record) -> Location:
    """File, function, line and column of a record."""
    code, instruction = record
    line = end_line = column = end_column = None
    if instruction >= 0:
        line, end_line, column, end_column = next(itertools.islice(code.co_positions(), instruction // 2, None))
    line = code.co_firstlineno if line is None else line
    column = (column or 0) + 1
    return Location(code.co_filename, code.co_qualname.rpartition("<locals>.")[2], line, column,
                    line if end_line is None else end_line, column if end_column is None else end_column + 1)


def describe(record: Record) -> str:
    """A record as text: file.py:12:5 (function), the file relative to the working directory where it lies below it."""
    place = locate(record)
    below = os.getcwd() + os.sep
    file = place.file.removeprefix(below)
    return f"{file}:{place.line}:{place.column} ({place.function})"
