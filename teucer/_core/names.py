"""Names of parts of programs (`named_scope`), places in them, and what the compiler is told of operations (`set_xla_metadata`)."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any, final

__all__ = ["Tagged", "Used", "rescoped", "scope", "tagging", "tags_of"]


class _Names(threading.local):
    scope: tuple[str, ...] = ()
    place: Any = None  # while a jaxpr is traced again: the record of the user's line that made the equation


_names = _Names()


class scope(ContextDecorator):
    """Add a name to the scopes in a `with` block or a function; may be entered again while entered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.saved: list[tuple[str, ...]] = []

    def _recreate_cm(self) -> scope:  # A fresh one for each call: decorated functions run in several threads.
        return scope(self.name)

    def __enter__(self) -> str:
        self.saved.append(_names.scope)
        outer = _names.scope
        inner = (*outer, self.name)
        _names.scope = Tagged(inner, outer.tags) if type(outer) is Tagged else inner
        return self.name

    def __exit__(self, *exc: object) -> None:
        _names.scope = self.saved.pop()


class Used:
    """Whether anything was ever told: nothing looks for it before."""

    ever = False


@final
class Tagged(tuple[str, ...]):
    """The scopes of an operation of which the compiler is told something: `tags`, pairs of strings."""

    tags: tuple[tuple[str, str], ...]

    def __new__(cls, scopes: tuple[str, ...], tags: tuple[tuple[str, str], ...]) -> Tagged:
        made = super().__new__(cls, scopes)
        made.tags = tags
        return made


def tagging() -> bool:
    """Whether operations may have tags."""
    return Used.ever


def tags_of(source: Any) -> tuple[tuple[str, str], ...] | None:
    """The tags of an equation with this source; None where it says nothing of them."""
    return source[1].tags if source is not None and type(source[1]) is Tagged else None


def rescoped(source: Any, outer: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes in force while an equation is traced again within `outer`: those, with its tags."""
    own = tags_of(source)
    if own is None:
        return outer
    around = outer.tags if type(outer) is Tagged else ()
    return Tagged(outer, tuple({**dict(around), **dict(own)}.items()))
