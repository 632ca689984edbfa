"""Where operations stand in the user's program: its line and the name scopes in force."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from teucer._base import source, tracebacks
from teucer._core import names

__all__ = ["NameStack", "SourceInfo", "current", "current_name_stack", "extend_name_stack", "new_name_stack", "new_source_info",
           "register_exclusion", "reset_name_stack", "set_name_stack", "summarize", "user_context"]


@dataclasses.dataclass(frozen=True)
class NameStack:
    """The name scopes, the outermost first.

    >>> str(NameStack(("model", "layer")).extend("norm"))
    'model/layer/norm'
    """

    stack: tuple[str, ...] = ()

    def extend(self, name: str) -> NameStack:
        """The scopes with one more inside."""
        return NameStack((*self.stack, name))

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack(self.stack + other.stack)

    def __len__(self) -> int:
        return len(self.stack)

    def __str__(self) -> str:
        return "/".join(self.stack)


@dataclasses.dataclass(frozen=True)
class SourceInfo:
    """A place in the user's program (None if there is none), and the scopes in force there."""

    traceback: Any
    name_stack: NameStack


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
    return SourceInfo(source.user_frame(), current_name_stack())


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """A place as text, such as 'program.py:12:5 (train)'; num_frames: accepted for programs written for JAX.

    >>> summarize(new_source_info())
    'unknown'
    """
    return "unknown" if source_info.traceback is None else source.describe(source_info.traceback)


@contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Put scopes in force in the place of those that are, in a `with` block."""
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
def user_context(traceback: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Scopes in force in a `with` block; errors keep their own places, so that of `traceback` is not used."""
    with set_name_stack(current_name_stack() if name_stack is None else name_stack):
        yield


def register_exclusion(path: str) -> None:
    """Leave frames of files whose names begin so out of tracebacks."""
    tracebacks.excluded.append(path)
