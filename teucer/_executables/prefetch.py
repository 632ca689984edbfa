"""Executables that are loaded from disk while the function that needs them is still traced.

Entries of the cache go by the text of a program, which is there when its function has been traced,
optimised and lowered. The programs are known beforehand: an earlier process has left a **prefetch
list** for this place. It is found by the function's place and name, the types of its arguments, and
how many such functions were traced before it. A thread loads the programs of the list, since XLA
loads without the interpreter's lock. If the list has the **fingerprint** of the program as it is
written, the loaded program runs. Else the text decides: loads that no program asks for are dropped,
and the list is written anew.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._base import config
from teucer._base.functions import fun_name, where
from teucer._base.source import is_internal
from teucer._devices import backends
from teucer._executables import cpu_features, disk_cache, stored
from teucer._xla import client as xla

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


# Bytes of executables that are worth a prefetch: some ten milliseconds of loading.
LEAST = 1 << 16
THREAD = "teucer-prefetch"

_lock = threading.Lock()
# How often functions have been traced in this process, by the keys of their prefetch lists.
_traced: collections.Counter[str] = collections.Counter()


class Entry(NamedTuple):
    """An executable in the cache, with the means to load it: XLA's compile options, written out,
    and the devices."""

    name: str
    options: bytes
    platform: str
    devices: tuple[int, ...]


class PrefetchList(NamedTuple):
    """The entries of a program. For a program that is one executable, its fingerprint and which
    arguments it takes."""

    entries: tuple[Entry, ...] = ()
    fingerprint: str | None = None
    kept: tuple[bool, ...] = ()


_NOTHING = PrefetchList()


class Prefetched(NamedTuple):
    """An executable of the runtime, and the bytes that it was read from."""

    code: Any
    size: int


class PrefetchedProgram(NamedTuple):
    """The executable of a whole program, loaded, and which arguments it takes."""

    loaded: Prefetched
    kept: tuple[bool, ...]


@final
class _PendingLoad:
    """A pending load. The prefetch thread performs it, unless the program asks first."""

    __slots__ = ("path", "entry", "begun", "ended", "found", "__weakref__")

    def __init__(self, path: Path, entry: Entry) -> None:
        self.path, self.entry = path, entry
        self.begun, self.ended = False, threading.Event()
        self.found: Prefetched | None = None

    def begin(self) -> bool:
        """Claim the load: true if no thread had begun it."""
        with _lock:
            first, self.begun = not self.begun, True
        return first

    def leave(self) -> None:
        """Do not load it, unless a thread has begun. Threads that wait for it find nothing."""
        if self.begin():
            self.ended.set()

    def load(self) -> None:
        """Load it, if that is possible. If not, compiling it says why."""
        _, options, platform, ids = self.entry
        try:
            with contextlib.suppress(OSError, LookupError, RuntimeError):
                client = backends.client_of(platform)
                by_id = {d.id: d for d in client.devices()}
                devices = xla.DeviceList(tuple([by_id[i] for i in ids]))
                data = disk_cache.read(self.path)
                if data is not None:
                    code = stored.load(
                        data, client, devices, xla.CompileOptions.ParseFromString(options)
                    )
                    self.found = Prefetched(code, len(data))
        finally:
            self.ended.set()


# Loads of prefetches that are not settled. Weak: if the trace of a function fails, nothing stays.
_pending: weakref.WeakValueDictionary[Path, _PendingLoad] = weakref.WeakValueDictionary()


@final
class Prefetch:
    """Which entries a function will need, as far as known, and the file that says so."""

    def __init__(self, path: Path) -> None:
        self._path, self._used = path, False
        data = disk_cache.read(path)
        self._known = _NOTHING if data is None else _decoded(data)
        self._loadings = [
            _PendingLoad(path.parent / entry.name, entry) for entry in self._known.entries
        ]
        if self._loadings:
            _pending.update({loading.path: loading for loading in self._loadings})
            with contextlib.suppress(RuntimeError):  # of a process that may have no more threads
                threading.Thread(target=_load, args=(list(self._loadings),), name=THREAD).start()

    def first_use(self) -> bool:
        """Claim the result: true at the first use, since a prefetch gives one program."""
        with _lock:
            first, self._used = not self._used, True
        return first

    def take(self, fingerprint: Callable[[], str | None]) -> PrefetchedProgram | None:
        """The program of the function, if it is a whole one, was loaded, and is for the same
        fingerprint."""
        known = self._known
        if known.fingerprint is None or known.fingerprint != fingerprint():
            return None
        (loading,) = self._loadings
        found = take(loading.path)
        if found is None:
            return None
        disk_cache.count(loading.path, hit=True)
        return PrefetchedProgram(found, known.kept)

    def settle(
        self,
        needed: Mapping[Entry, int],
        whole: Callable[[], tuple[str | None, tuple[bool, ...]]] | None,
    ) -> None:
        """The function has got its program. needed: the entries that it is made of, with their
        sizes.

        whole: of a program that is one executable, its fingerprint and which arguments it takes.
        """
        for loading in self._loadings:
            loading.leave()
        self._loadings.clear()
        known = _NOTHING
        if sum(needed.values()) >= LEAST:
            known = PrefetchList(tuple(needed), *(whole() if whole is not None else (None, ())))
        if known != self._known:
            disk_cache.write(self._path, _encoded(known))


def begin(fun: Callable[..., object], avals: Sequence[ShapedArray]) -> Prefetch | None:
    """Begin to load the program of a function of the user's that is about to be traced.

    None where there is no cache, and for Teucer's own functions, whose programs are small.
    """
    place = where(fun)
    if not config.preload.value or is_internal(place.rpartition(":")[0]):
        return None
    folder = disk_cache.cache_dir()
    if folder is None:
        return None
    types = [f"{number} {aval.str_short()}" for aval, number in collections.Counter(avals).items()]
    about = "\0".join(
        (
            xla.jaxlib_version,
            cpu_features.host(),
            os.environ.get("XLA_FLAGS", ""),
            place,
            fun_name(fun),
            *types,
        )
    )
    import hashlib  # as in `disk_cache`

    name = hashlib.sha256(about.encode()).hexdigest()
    with _lock:
        number = _traced[name]
        _traced[name] += 1
    return Prefetch(folder / f"{name}-{number}{disk_cache.PREFETCH}")


def take(path: Path) -> Prefetched | None:
    """The executable of an entry, if a prefetch has loaded it, or is just loading it. It is taken
    once."""
    loading = _pending.pop(path, None)
    if loading is None or loading.begin():
        return None
    loading.ended.wait()
    return loading.found


def _load(loadings: Sequence[_PendingLoad]) -> None:
    for loading in loadings:
        if loading.begin():
            loading.load()


def _encoded(known: PrefetchList) -> bytes:
    """The list as text: a line about the whole program, then a line for each entry."""
    lines = [f"{known.fingerprint or '-'} {''.join('01'[kept] for kept in known.kept)}"]
    lines += [
        f"{e.name} {e.options.hex()} {e.platform} {','.join(map(str, e.devices))}"
        for e in known.entries
    ]
    return "\n".join(lines).encode()


def _decoded(data: bytes) -> PrefetchList:
    (fingerprint, kept), *rows = [line.split(" ") for line in data.decode().splitlines()]
    entries = [
        Entry(name, bytes.fromhex(options), platform, tuple(map(int, devices.split(","))))
        for name, options, platform, devices in rows
    ]
    return PrefetchList(
        tuple(entries),
        None if fingerprint == "-" else fingerprint,
        tuple([flag == "1" for flag in kept]),
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pending.clear)  # the thread stays with the parent
