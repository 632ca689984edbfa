"""Caches: of functions and of calls, in bounded number, and of equal objects."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Generic, Self, TypeVar, final

T = TypeVar("T")

LIMIT = 4096  # for results that needed a compilation
RECENT = 512  # for results that Python makes quickly
_lock = threading.RLock()  # what goes meanwhile may come back here
_memos: list[Memo] = []


def remember(found: dict[Any, Any], key: Any, value: Any, limit: int | None = None) -> Any:
    """Keep `value` under `key` unless there is a value; returns the one kept. If there are more
    than `limit` entries, by default LIMIT, the oldest goes.

    >>> entries = {}
    >>> remember(entries, "a", 1), remember(entries, "a", 2)
    (1, 1)
    """
    with _lock:
        value = found.setdefault(key, value)
        while len(found) > (LIMIT if limit is None else limit):
            with contextlib.suppress(
                RuntimeError
            ):  # functions that die meanwhile take their entries with them
                found.pop(next(iter(found)), None)
        return value


@final
class _Same(weakref.ref[Any]):
    """A weak reference, equal to others to the same object. The object's own equality and hash are
    not used."""

    __slots__ = ("_id",)

    def __init__(self, x: Any, callback: Any = None) -> None:
        super().__init__(x, callback)  # type: ignore[call-arg]  # typeshed knows the __new__ of references only
        self._id = id(x)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        return self is other or (
            # At the end of the interpreter there are no more global names.
            type(other) is type(self) and self._id == other._id and self() is other()
        )


@final
class _Entries(dict[Any, Any]):
    """A dictionary that can be referred to weakly."""

    __slots__ = ("__weakref__",)


@final
class Memo:
    """A dictionary for each function, kept as long as the function lives and the dictionary is used
    elsewhere. The dictionaries of the last RECENT functions are kept here.

    Values may refer to the function and keep it alive, so the oldest give way to others.
    """

    def __init__(self) -> None:
        self._known: dict[_Same, weakref.ref[_Entries]] = {}
        self._recent: dict[_Same, _Entries] = {}
        _memos.append(self)

    def of(self, fun: Any) -> dict[Any, Any]:
        """The dictionary of `fun`; a new, empty one for a callable without weak references."""
        known, recent = self._known, self._recent
        try:
            key = _Same(fun)
        except TypeError:
            return {}
        gone = []  # goes after the lock is free, since it may end the life of anything
        with _lock:
            found = known[key]() if key in known else None
            if found is None:

                def forget_it(ref: Any) -> None:
                    known.pop(ref, None)
                    recent.pop(ref, None)

                key, found = _Same(fun, forget_it), _Entries()
                known[key] = weakref.ref(found)
            recent.pop(key, None)
            recent[key] = found
            while len(recent) > RECENT:
                gone.append(recent.pop(next(iter(recent))))
        del gone
        return found

    def drop(self, fun: Any) -> None:
        """Forget the dictionary of `fun`."""
        self.of(fun).clear()

    def forget(self) -> None:
        """Forget the dictionaries of all functions."""
        for ref in list(self._known.values()):
            found = ref()
            if found is not None:
                found.clear()
        self._recent.clear()

    def __len__(self) -> int:
        return len(self._known)


@final
class Interned(Generic[T]):
    """Objects by their parts, as long as they are used elsewhere: equal ones are one object.

    refs: the same as a dictionary of weak references, for code that cannot afford a call.
    """

    __slots__ = ("_gone", "refs")

    def __init__(self) -> None:
        refs: dict[Any, weakref.KeyedRef[Any, T]] = {}

        def gone(ref: Any) -> None:
            key = ref.key
            if refs.get(key) is ref:
                del refs[key]

        self.refs, self._gone = refs, gone

    def get(self, key: object) -> T | None:
        """The object made of `key`, if somebody has it."""
        found = self.refs.get(key)
        return None if found is None else found()

    def keep(self, key: object, made: T) -> T:
        """Give later calls the object, unless another thread has made one meanwhile; returns the
        one that is kept."""
        with _lock:
            found = self.get(key)
            if found is None:
                self.refs[key], found = weakref.KeyedRef(made, self._gone, key), made
            return found

    def __iter__(self) -> Iterator[T]:
        return (x for x in [ref() for ref in list(self.refs.values())] if x is not None)


class Unique:
    """An object that is its own copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def forget() -> None:
    """Forget all that is kept of functions."""
    for memo in _memos:
        memo.forget()
