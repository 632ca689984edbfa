"""Transfers of all entries to and from the cache of a team. The caller waits for them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar, final

from teucer._base import config
from teucer._executables import disk_cache
from teucer._executables.remote import client, counts, envelopes, stores

_Made = TypeVar("_Made")
_OPENING = 60.0  # seconds; as in `client`
_LISTING = 6  # times the patience
_RATE = 1 << 20  # bytes a second, as in `client`


class Failure(Exception):
    """A store does not do what it is asked to, and why."""


def sizes(remote: client.Remote) -> dict[str, int]:
    """The names of all entries of a store, with their sizes. Raises Failure."""
    store = _opened(remote)
    return _within(_patience() * _LISTING, store.sizes, remote)


def push(
    remote: client.Remote, folder: Path, wanted: Callable[[Path], bool] = lambda path: True
) -> Iterator[str]:
    """Upload the entries of a folder that a store lacks; gives the name of each that is there now.

    wanted: which entries. Raises Failure.
    """
    store = _opened(remote)
    if not store.writable:
        raise Failure("web servers are read only. Push to the store that the server shows")
    there = sizes(remote)
    for path in _entries(folder):
        if path.name in there or not wanted(path):
            continue
        content = _read(path)
        if content is not None:
            data = envelopes.sealed(path.name, content, remote.key)
            seconds = _patience() + len(data) / _RATE
            _within(seconds, lambda: store.put(path.name, data), remote)  # noqa: B023  # at once
            remote.count(counts.Counts(uploaded=1))
            yield path.name


def pull(remote: client.Remote, folder: Path) -> Iterator[tuple[str, str]]:
    """Fetch the entries of a store that a folder lacks, as long as they fit there; gives the name
    of each, and why it was refused, if it was.

    Raises Failure.
    """
    store, here = _opened(remote), {path.name for path in _entries(folder)}
    left = disk_cache.limit() - sum(path.stat().st_size for path in _entries(folder))
    for name, size in sorted(sizes(remote).items()):
        if name in here:
            continue
        if size > left:
            raise Failure("the local folder is full (teucer_cache_max_bytes); the rest stays there")
        most = left + envelopes.OVERHEAD
        seconds = _patience() + size / _RATE
        data = _within(
            seconds,
            lambda: store.get(name, most, lambda _: None),  # noqa: B023  # at once
            remote,
        )
        if data is None:  # another process has just removed the entry
            continue
        try:
            content = envelopes.opened(name, data, remote.key, remote.unsigned)
        except envelopes.Refused as err:
            remote.count(counts.Counts(refused=1))
            yield name, str(err)
            continue
        disk_cache.write(folder / name, content)
        left -= len(data)
        remote.count(counts.Counts(fetched=1))
        yield name, ""


def _entries(folder: Path) -> list[Path]:
    return [path for path in disk_cache.entries(folder) if stores.NAME.fullmatch(path.name)]


def _read(path: Path) -> bytes | None:
    """The content of a local entry that can be trusted, which does not count as used."""
    with contextlib.suppress(OSError):
        status = path.stat()
        content = disk_cache.read(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return content
    return None


def _patience() -> float:
    return float(config.cache_patience.value)


def _opened(remote: client.Remote) -> stores.Store:
    return _within(_OPENING, remote.store, remote)


@final
class _Outcome(Generic[_Made]):
    """A call in another thread: its result, or the exception that it raises."""

    def __init__(self, work: Callable[[], _Made]) -> None:
        self._work, self._values = work, list[_Made]()
        self.error: Exception | None = None

    def run(self) -> None:
        """Call the function."""
        try:
            self._values.append(self._work())
        except Exception as err:  # whatever a driver raises
            self.error = err

    def value(self) -> _Made:
        """The result of the call."""
        return self._values[0]


def _within(seconds: float, work: Callable[[], _Made], remote: client.Remote) -> _Made:
    """Run the function in another thread and return its result. A thread that takes longer is left
    behind.

    Raises Failure.
    """
    outcome = _Outcome(work)
    thread = threading.Thread(target=outcome.run, name=client.THREAD, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Failure(f"it does not answer within {seconds:.0f} seconds (teucer_cache_patience)")
    if outcome.error is not None:
        err = outcome.error
        kind = "" if isinstance(err, stores.Unusable) else f"{type(err).__name__}: "
        raise Failure(stores.shown(f"{kind}{err}", remote.address)) from None
    return outcome.value()
