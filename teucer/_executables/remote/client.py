"""Entries from and to the cache of a team, by threads, with bounded patience.

A store that is slow, full, gone, or gives garbage costs a warning: no call here waits without bound
or fails. A separate thread fetches each entry, so that a hanging fetch is abandoned; another thread
uploads.
"""

from __future__ import annotations

import atexit
import collections
import os
import threading
import warnings
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, final

from teucer._base import config, source
from teucer._executables import disk_cache
from teucer._executables.remote import counts, envelopes, keys, stores

THREAD = "teucer-remote"
_OPENING = 60.0  # seconds in which fsspec and its drivers are imported, on a machine that is busy
_RATE = 1 << 20  # bytes a second: faster transfers get no warning
_SWIFT = 1.0  # seconds that an entry may take before the wait counts
_SHARE = 0.1  # the share of compile time that may go into asking for missing entries
_FAILURES = 3  # in a row, after which reading, or writing, is given up
_QUEUE, _QUEUE_BYTES = 1024, 256 << 20  # uploads that wait


class Upload(NamedTuple):
    """An entry to be uploaded, and a function that is told whether it was."""

    name: str
    content: bytes
    ended: Callable[[bool], None] | None


@final
class _Request:
    """An entry that a thread asks for."""

    def __init__(self) -> None:
        self.opened, self.ended = threading.Event(), threading.Event()
        self.received = 0
        self.data: bytes | None = None
        self.error: Exception | None = None

    def receive(self, size: int) -> None:
        """Note bytes that have come: while they come, the wait is not in vain."""
        self.received += size

    def wait(self, seconds: float) -> bool:
        """Whether it has ended in time."""
        if not self.opened.wait(_OPENING):
            return False
        start = monotonic()
        while (left := start + seconds + self.received / _RATE - monotonic()) > 0:
            if self.ended.wait(left):
                return True
        return self.ended.is_set()


@final
class Remote:
    """The cache of a team at an address, as this process uses it."""

    def __init__(self, address: str, key: keys.Key | None, unsigned: bool) -> None:
        self.address, self.shown = address, stores.shown(address)
        self.key, self.unsigned = key, unsigned
        self._store: stores.Store | None = None
        self._opening, self._lock = threading.Lock(), threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._vain = self._compiling = 0.0
        self._failed = {"reading": 0, "writing": 0}
        self._queue: collections.deque[Upload] = collections.deque()
        self._queued = self._left_out = 0  # bytes that wait; entries that found no place
        self._uploader: threading.Thread | None = None
        self._unsaid: list[str] = []
        self._said: set[str] = set()
        self._counts, self._folder = counts.Counts(), disk_cache.cache_dir()

    @property
    def _seconds(self) -> float:
        """The patience of this thread."""
        return float(config.cache_patience.value)

    # Reading

    def fetch(self, name: str) -> bytes | None:
        """The content of an entry, if it is there, can be trusted, and comes in time."""
        self._say_now()
        allowed = self._allowed()
        if self._failed["reading"] >= _FAILURES:
            return None
        if allowed <= 0:
            self._give_up(
                f"{self._seconds:g} seconds were waited in vain (teucer_cache_patience)", "reading"
            )
            return None
        request, start = _Request(), monotonic()
        try:
            self._start(lambda: self._ask(name, request))
        except RuntimeError:  # a process that may have no more threads
            return None
        in_time = request.wait(allowed)
        took = monotonic() - start
        if not in_time:
            self._give_up(f"it does not answer within {took:.1f} seconds", "reading")
        elif request.error is not None:
            self._note_failure(request.error, "reading")
            self._vain += took
        elif request.data is None:
            self._failed["reading"] = 0
            self._vain += took
            self.count(counts.Counts(misses=1))
        else:
            return self._opened(name, request.data, took)
        return None

    def _opened(self, name: str, data: bytes, took: float) -> bytes | None:
        self._failed["reading"] = 0
        try:
            content = envelopes.opened(name, data, self.key, self.unsigned)
        except envelopes.Refused as err:
            self._vain += took
            self.count(counts.Counts(refused=1))
            self.say(f"entry {name} is not used: {err}. It is compiled here", str(err))
            return None
        self._vain += max(0.0, took - _SWIFT - len(data) / _RATE)
        self.count(counts.Counts(fetched=1))
        return content

    def compiled(self, seconds: float) -> None:
        """A program was compiled that was not there, which took so long."""
        self._compiling += seconds

    def _allowed(self) -> float:
        """How many seconds the next wait for an entry may take."""
        return float(self._seconds + _SHARE * self._compiling - self._vain)

    def _ask(self, name: str, request: _Request) -> None:
        try:
            store = self.store()
            request.opened.set()
            request.data = store.get(name, disk_cache.limit() + envelopes.OVERHEAD, request.receive)
        except Exception as err:  # whatever a driver raises
            request.error = err
        finally:
            request.opened.set()
            request.ended.set()

    def store(self) -> stores.Store:
        """The store, which is opened at first use. Raises the exceptions of opening."""
        with self._opening:
            if self._store is None:
                self._store = stores.open_store(self.address, self._seconds)
            return self._store

    # Writing

    def upload(
        self, name: str, content: bytes, ended: Callable[[bool], None] | None = None
    ) -> None:
        """Upload an entry, by and by. ended: is told, in another thread, whether it is there."""
        with self._lock:
            place = len(self._queue) < _QUEUE and self._queued + len(content) <= _QUEUE_BYTES
            place = (place or not self._queue) and self._failed["writing"] < _FAILURES
            if place:
                self._queue.append(Upload(name, content, ended))
                self._queued += len(content)
                try:
                    if self._uploader is None:
                        self._uploader = self._start(self._upload_all)
                except RuntimeError:  # as above
                    self._queue.pop()
                    self._queued, place = self._queued - len(content), False
            else:
                self._left_out += self._failed["writing"] < _FAILURES
        if not place and ended is not None:
            ended(False)

    def _upload_all(self) -> None:
        """Upload the queue, in a thread. An entry stays in the queue until it is stored."""
        while True:
            with self._lock:
                if not self._queue:
                    self._uploader = None
                    self._changed.notify_all()
                    return
                upload = self._queue[0]
            done = self._failed["writing"] < _FAILURES and self._put(upload)
            if upload.ended is not None:
                upload.ended(done)
            with self._lock:
                self._queue.popleft()
                self._queued -= len(upload.content)

    def _put(self, upload: Upload) -> bool:
        try:
            store = self.store()
            if not store.writable:
                return False
            store.put(upload.name, envelopes.sealed(upload.name, upload.content, self.key))
        except Exception as err:  # whatever a driver raises
            self._note_failure(err, "writing")
            return False
        self._failed["writing"] = 0
        self.count(counts.Counts(uploaded=1))
        return True

    def flush(self, seconds: float) -> bool:
        """Wait for the uploads; whether all have ended in time. Gives warnings that are still
        due."""
        with self._lock:
            ended = self._changed.wait_for(lambda: self._uploader is None, seconds)
            left = self._left_out + (0 if ended else len(self._queue))
            self._left_out = 0
        if left:
            self.say(f"programs that were not uploaded: {left}. `teucer cache push` uploads them")
        self._say_now()
        self.save_counts()
        return bool(ended)

    # Counts and warnings

    def save_counts(self) -> None:
        """Add the counts to the file of counts."""
        with self._lock:
            new, self._counts = self._counts, counts.Counts()
        if self._folder is not None:
            counts.add(self._folder, self.address, new)

    def count(self, new: counts.Counts) -> None:
        """Note what has been done."""
        with self._lock:
            self._counts = self._counts.plus(new)

    def _note_failure(self, err: Exception, what: str) -> None:
        self._failed[what] = (
            _FAILURES if isinstance(err, stores.Unusable) else self._failed[what] + 1
        )
        reason = str(err) if isinstance(err, stores.Unusable) else f"{type(err).__name__}: {err}"
        self._say_failing(stores.shown(reason, self.address).rstrip(". \n"), what)

    def _give_up(self, reason: str, what: str) -> None:
        self._failed[what] = _FAILURES
        self._say_failing(reason, what)

    def _say_failing(self, reason: str, what: str) -> None:
        """Warn once about the failure, and say whether the cache is still used."""
        rest = {
            "reading": "What the local folder lacks is compiled here",
            "writing": "`teucer cache push` uploads later what is missing",
        }
        self.say(f"{what} fails: {reason}.\n  {rest[what]}", what)

    def say(self, text: str, kind: str = "") -> None:
        """Warn, once of each kind; threads of this module leave the warning to one of the
        user's."""
        with self._lock:
            if (kind or text) not in self._said:
                self._said.add(kind or text)
                self._unsaid.append(f"The team's cache {self.shown}: {text}.")
        if not threading.current_thread().name.startswith(THREAD):
            self._say_now()

    def _say_now(self) -> None:
        while self._unsaid:
            text = self._unsaid.pop(0)
            if config.raise_persistent_cache_errors.value:
                raise OSError(text)
            warnings.warn(text, stacklevel=source.user_stacklevel())

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=THREAD, daemon=True)
        thread.start()
        return thread


# By address, key and whether entries may be unsigned: what the environment says may change.
_remotes: dict[tuple[str | bool | None, ...], Remote | None] = {}
_making = threading.Lock()


def current() -> Remote | None:
    """The cache of the team that the options name; None if there is none, or none can be used:
    then a warning says why, once."""
    address, unsigned = disk_cache.remote_address(), config.cache_unsigned.value
    if address is None:
        return None
    known = address, unsigned, os.environ.get(keys.KEY), os.environ.get(keys.KEY_FILE)
    if known in _remotes:
        return _remotes[known]
    why = ""
    with _making:
        if known not in _remotes:
            try:
                _remotes[known] = usable(address)
            except stores.Unusable as err:
                _remotes[known], why = None, str(err)
    if why:
        warnings.warn(
            f"The team's cache {stores.shown(address)} is not used: {why}",
            stacklevel=source.user_stacklevel(),
        )
    return _remotes[known]


def usable(address: str) -> Remote:
    """The cache of a team at an address.

    Raises stores.Unusable without a key, unless the user runs unsigned entries.
    """
    unsigned = config.cache_unsigned.value
    try:
        key = keys.team_key()
    except keys.UnusableKey as err:
        raise stores.Unusable(f"{err}.") from None
    if key is None and not unsigned:
        raise stores.Unusable(
            "its entries are machine code, and nothing says who wrote them.\n"
            f"  Give all of the team one key, in {keys.KEY} or a file that {keys.KEY_FILE} names. "
            "TEUCER_CACHE_UNSIGNED=1 runs what anybody has written there."
        )
    return Remote(address, key, unsigned)


def flush() -> None:
    """Wait for all uploads, at most as long as the user has patience."""
    deadline = monotonic() + config.cache_patience.value
    for remote in [remote for remote in _remotes.values() if remote is not None]:
        remote.flush(max(0.0, deadline - monotonic()))


def _after_fork() -> None:
    """Threads stay with the parent, and so do its uploads and counts."""
    global _making
    _remotes.clear()
    _making = threading.Lock()  # which a thread of the parent may have held


# Flush before `threading` ends the pools of threads, which drivers of stores need. Functions of
# atexit run later.
getattr(threading, "_register_atexit", atexit.register)(flush)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
