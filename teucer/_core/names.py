"""Name scopes: names that the user gives to parts of a program (`named_scope`), for profiles and dumps; and places in programs."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any

__all__ = ["scope"]


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
        _names.scope = (*_names.scope, self.name)
        return self.name

    def __exit__(self, *exc: object) -> None:
        _names.scope = self.saved.pop()
