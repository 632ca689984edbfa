"""What is remembered of functions and calls: as long as the function lives, and of bounded size."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any, final

__all__ = ["Memo", "forget", "remember"]

LIMIT = 4096
_lock = threading.Lock()
_memos: list[Memo] = []


def remember(found: dict[Any, Any], key: Any, value: Any) -> Any:
    """Keep `value` under `key` unless something is there; returns what is. The oldest of more than
    LIMIT entries goes.

    >>> entries = {}
    >>> remember(entries, "a", 1), remember(entries, "a", 2)
    (1, 1)
    """
    with _lock:
        value = found.setdefault(key, value)
        while len(found) > LIMIT:
            with contextlib.suppress(
                RuntimeError
            ):  # functions that die meanwhile take their entries with them
                found.pop(next(iter(found)), None)
        return value


@final
class _Same(weakref.ref[Any]):
    """A weak reference that equals those to the same object, whatever the object says of equality
    and hashing."""

    __slots__ = ("_id",)

    def __init__(self, x: Any, callback: Any = None) -> None:
        super().__init__(x, callback)  # type: ignore[call-arg]  # typeshed knows the __new__ of references only
        self._id = id(x)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, _Same) and self._id == other._id and self() is other()
        )


@final
class Memo:
    """A dictionary for each function, kept as long as the function lives.

    What is kept may refer to the function, which then lives until LIMIT others have come.
    """

    def __init__(self) -> None:
        self._entries: dict[_Same, dict[Any, Any]] = {}
        _memos.append(self)

    def of(self, fun: Any) -> dict[Any, Any]:
        """What is kept of `fun`; of a callable that cannot be referred to weakly, nothing."""
        try:
            found = self._entries.get(_Same(fun))
        except TypeError:
            return {}
        if found is None:
            entries = self._entries
            found = remember(entries, _Same(fun, lambda ref: entries.pop(ref, None)), {})
        return found

    def drop(self, fun: Any) -> None:
        """Forget what is kept of `fun`."""
        self.of(fun).clear()

    def __len__(self) -> int:
        return len(self._entries)


def forget() -> None:
    """Forget all that is kept of functions."""
    with _lock:
        for memo in _memos:
            memo._entries.clear()
