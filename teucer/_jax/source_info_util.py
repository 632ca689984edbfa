"""Where operations stand in the user's program: its line and the name scopes in force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from teucer._base import source, tracebacks
from teucer._core import names
from teucer._core.places import NameStack, SourceInfo


class Frame(NamedTuple):
    """A place in a file. Lines count from 1, columns from 0."""

    file_name: str
    function_name: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int


def new_name_stack(name: str = "") -> NameStack:
    """The scopes of one name, or none.

    >>> str(new_name_stack("layer"))
    'layer'
    """
    return NameStack((name,) if name else ())


def new_source_info() -> SourceInfo:
    """No place, no scopes."""
    return SourceInfo(None, NameStack())


def current_name_stack() -> NameStack:
    """The scopes in force.

    >>> import teucer as jax
    >>> with jax.named_scope("layer"):
    ...     str(current_name_stack())
    'layer'
    """
    return NameStack(names._names.scope)


def current() -> SourceInfo:
    """The user's line that runs, and the scopes in force."""
    return SourceInfo(source.here(), current_name_stack())


def user_frame(traceback: object) -> Frame | None:
    """The place of a `SourceInfo`, its `traceback`, spelled out; None if there is none.

    >>> user_frame(current().traceback).function_name
    '<module>'
    """
    return next(user_frames(traceback), None)


def user_frames(traceback: object) -> Iterator[Frame]:
    """The calls of a `SourceInfo`, its `traceback`, spelled out, the innermost first."""
    for record in source.records(traceback):
        place = source.spelled_out(record)
        yield Frame(
            place.file,
            record[0].co_qualname,
            place.line,
            place.column - 1,
            place.end_line,
            place.end_column - 1,
        )


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """A place as text, such as 'program.py:12:5 (train)'; num_frames: of how many calls, a line
    each, the innermost last.

    >>> summarize(new_source_info())
    'unknown'
    """
    shown = [source.text(record) for record in source.records(source_info.traceback)[:num_frames]]
    return "\n".join(reversed(shown)) or "unknown"


@contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Replace the scopes in force in a `with` block."""
    saved, names._names.scope = names._names.scope, tuple(name_stack.stack)
    try:
        yield
    finally:
        names._names.scope = saved


def reset_name_stack() -> Any:
    """Put no scopes in force, in a `with` block."""
    return set_name_stack(NameStack())


@contextmanager
def extend_name_stack(name: str) -> Iterator[NameStack]:
    """Add a scope in a `with` block, which gets all of them.

    >>> with extend_name_stack("layer") as scopes:
    ...     str(scopes)
    'layer'
    """
    with names.scope(name):
        yield current_name_stack()


@contextmanager
def transform_name_stack(name: str) -> Iterator[NameStack]:
    """Add the name of a transformation in a `with` block, which gets all scopes.

    >>> with transform_name_stack("jvp"), extend_name_stack("layer") as scopes:
    ...     str(scopes)
    'jvp(layer)'
    """
    with names.within(names.Transform(name)):
        yield current_name_stack()


@contextmanager
def user_context(traceback: object, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Scopes in force in a `with` block; errors keep their own places, so `traceback` is not
    used."""
    with set_name_stack(current_name_stack() if name_stack is None else name_stack):
        yield


def register_exclusion(path: str) -> None:
    """Leave frames of files whose names begin so out of tracebacks."""
    tracebacks.excluded.append(path)
