"""Name scopes: names that the user gives to parts of a program (`named_scope`), for profiles and dumps."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["current_scope", "scope"]


class _Names(threading.local):
    scope: tuple[str, ...] = ()


_names = _Names()


def current_scope() -> tuple[str, ...]:
    """The names in force in this thread, outermost first."""
    return _names.scope


class scope:
    """Add a name to the scopes in a `with` block."""

    __slots__ = ("name", "saved")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.saved = _names.scope
        _names.scope = (*self.saved, self.name)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        _names.scope = self.saved
