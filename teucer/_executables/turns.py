"""Where several processes need one program, one compiles it, and the others wait for its entry in
the cache.

A process that compiles locks a file beside the entry, and removes it when it has ended. If it dies,
the system releases the lock and the file stays: then one of those that wait is next. Nobody waits
longer than teucer_cache_wait seconds. Without locks (some network file systems, Windows) no process
waits.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

from teucer._base import config
from teucer._executables import disk_cache

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


_FIRST_LOOK, _LAST_LOOK = 0.002, 0.1  # seconds between looks at a lock, at first and at most


@contextlib.contextmanager
def turn(path: Path) -> Iterator[bool]:
    """In the `with` block, this process compiles an entry if it must.

    Gives whether it has waited for another process, so that the entry may be there.
    """
    handle, waited = _lock(path.with_name(disk_cache.UNFINISHED + path.name))
    try:
        yield waited
    finally:
        if handle is not None:
            # Remove the file while this process holds its lock. A process that opens the path later
            # makes a new file.
            with contextlib.suppress(OSError):
                path.with_name(disk_cache.UNFINISHED + path.name).unlink()
            os.close(handle)


def _lock(file: Path) -> tuple[int | None, bool]:
    """A handle of the locked file, or None without a lock; and whether another process had it
    before."""
    seconds = config.cache_wait.value
    if fcntl is None or seconds <= 0:
        return None, False
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:  # a folder that cannot be written; that is said when the entry is
        return None, False
    deadline, pause, waited = monotonic() + seconds, _FIRST_LOOK, False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:
                return handle, waited
            waited = True  # the one that had it has ended, and removed the file
            break
        except BlockingIOError:
            waited = True
        except OSError:  # no locks here
            break
        if monotonic() > deadline:
            break
        sleep(pause)
        pause = min(2 * pause, _LAST_LOOK)
    os.close(handle)
    return None, waited
