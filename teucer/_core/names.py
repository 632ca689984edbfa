"""Name scopes: names that the user gives to parts of a program (`named_scope`), for profiles and dumps."""

from __future__ import annotations

import threading

__all__ = ["scope"]


class _Names(threading.local):
    scope: tuple[str, ...] = ()


_names = _Names()


class scope:
    """Add a name to the scopes in a `with` block."""

    __slots__ = ("name", "saved")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.saved = _names.scope
        _names.scope = (*self.saved, self.name)

    def __exit__(self, *exc: object) -> None:
        _names.scope = self.saved
