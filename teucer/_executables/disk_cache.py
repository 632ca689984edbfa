"""The compilation cache on disk.

A folder with a file for each program, prefetch lists (`prefetch`), the compilers' own caches
(`xla_caches`), and a file that counts its use. Behind it a team may keep entries (`remote`).

An entry is written whole or not at all, readable by the user alone, and starts with a checksum of
its content, its name and the version of its format. An entry that does not agree, or that others
may have written, counts as missing. Of more than the allowed bytes the entries that were used least
recently go.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import stat
import struct
import threading
import time
import warnings
from pathlib import Path
from typing import NamedTuple

from teucer._base import config, source
from teucer._executables import events

try:
    import fcntl
except ImportError:  # Windows: processes that end at the same moment may lose each other's counts
    fcntl = None  # type: ignore[assignment]


SUFFIX, PREFETCH, UNFINISHED, COUNTS = ".xla", ".prefetch", ".new-", "counts"
# The prefix of folders with the compilers' own caches (`xla_caches`).
OWN = "compiler-"
_FORMAT = b"teucer-4\0"
_CHECKSUM = 32
_LAST_TRIES = 20
_NUMBERS = struct.Struct("<3Q")
_lock = threading.Lock()


class UseCounts(NamedTuple):
    """Counts of a cache: entries found and missed, bytes written since it was last looked
    through."""

    hits: int = 0
    misses: int = 0
    written: int = 0


# Counts of this process that are not in the file of counts yet, by folder, as text: paths take
# several calls to hash.
_uncounted: dict[str, UseCounts] = {}
# Folders for which a warning was given, with the errno.
_complained: set[tuple[Path, int | None]] = set()
_UNKNOWN = UseCounts(written=1 << 62)  # a folder without counts has not been looked through


# The compiler passes of users. Their effect on programs has no name, so no key could contain it.
user_passes: set[tuple[str, int, str]] = set()


def cache_dir() -> Path | None:
    """The folder of the cache; None if it is off, users' passes run in the compiler, or there is no
    folder of the user's."""
    if not config.enable_compilation_cache.value or user_passes:
        return None
    chosen = config.cache_dir.value or config.compilation_cache_dir.value
    if chosen and "://" not in chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError as err:  # ~ of a user who is not there
            _complain("finding", Path(chosen), err)
            return None
    return users_folder()


def remote_address() -> str | None:
    """The address of the cache of a team, which stands behind the folder; None without one."""
    named: str | None = config.cache_remote.value
    chosen: str | None = config.cache_dir.value or config.compilation_cache_dir.value
    return named or (chosen if chosen and "://" in chosen else None) or None


def users_folder() -> Path | None:
    """Teucer's default folder in the user's cache folder; None if there is none."""
    homes = []
    for name in ("XDG_CACHE_HOME", "HOME"):
        try:
            homes.append(os.environ[name])  # not `get`, which would be one Python call more
        except KeyError:
            homes.append("")
    return _users_folder(*homes)


@functools.lru_cache(4)
def _users_folder(cache_home: str, home: str) -> Path | None:
    """The folder of a user. home: as the environment has it, which `expanduser` reads."""
    if not os.path.isabs(cache_home):
        cache_home = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache_home) / "teucer" if os.path.isabs(cache_home) else None


def entries(folder: Path) -> list[Path]:
    """The programs of the cache in `folder`, including programs that a process is writing, or could
    not finish."""
    return [path for path in _files(folder) if path.suffix != PREFETCH]


def kept_by_compilers(folder: Path) -> list[Path]:
    """The files that compilers keep in the cache in `folder`."""
    return sorted(path for path in folder.glob(f"{OWN}*/**/*") if path.is_file())


def make_folder(path: Path) -> bool:
    """Make a folder of the cache for a compiler. True if it exists, and only the user or root can
    have written into it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return is_ours(path.stat())
    except OSError as err:
        _complain("writing", path, err)
        return False


def read(path: Path) -> bytes | None:
    """The content of a file, None if there is none that can be trusted; marks it as used."""
    try:
        with path.open("rb") as file:
            if not is_ours(os.fstat(file.fileno())):
                return None
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as err:
        _complain("reading", path, err)
        return None
    content = memoryview(data)[_CHECKSUM:]
    if data[:_CHECKSUM] != _checksum(path, content):
        return None
    with contextlib.suppress(OSError):  # of a folder that is shared and not ours
        os.utime(path)
    return bytes(content)


def count(path: Path, *, hit: bool) -> None:
    """Count that a program was found in an entry, or had to be compiled."""
    _note(path.parent, UseCounts(hits=1) if hit else UseCounts(misses=1))
    events.event("/jax/compilation_cache/compile_requests_use_cache")
    events.event(
        "/jax/compilation_cache/cache_hits" if hit else "/jax/compilation_cache/cache_misses"
    )


def write(path: Path, content: bytes) -> None:
    """Make a file: an entry or a prefetch list.

    A cache that cannot be written is a slower program: a warning if the folder was named by an
    option, an error with jax_raise_persistent_cache_errors.
    """
    most = limit()
    size = _CHECKSUM + len(content)
    kept = size <= most and len(content) >= config.persistent_cache_min_entry_size_bytes.value
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if kept:
            write_whole(path, _checksum(path, content) + content)
        slack = most // 16
        _note(path.parent, UseCounts(written=size if kept else 0))
        if _save_counts(path.parent).written > slack:
            _evict(path.parent, most - slack)
            _save_counts(path.parent, looked_through=True)
    except OSError as err:
        _complain("writing", path, err)


def counts(folder: Path) -> UseCounts:
    """The counts of all processes. Those that still run are counted up to their last miss."""
    with contextlib.suppress(OSError):
        if _uncounted.get(str(folder)):
            _save_counts(folder)
        return _unpacked((folder / COUNTS).read_bytes())
    return _UNKNOWN


def clear(folder: Path) -> int:
    """Remove all files; how many entries there were."""
    found = entries(folder)
    for path in (*_files(folder), *kept_by_compilers(folder), folder / COUNTS):
        path.unlink(missing_ok=True)
    return len(found)


def limit() -> int:
    """Bytes that the cache may have; a negative option is no bound."""
    chosen = config.compilation_cache_max_size.value
    most: int = config.cache_max_bytes.value if chosen < 0 else chosen
    return most if most >= 0 else 1 << 62


def _files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return sorted(
            Path(e.path)
            for e in found
            if e.name.endswith((SUFFIX, PREFETCH)) or e.name.startswith(UNFINISHED)
        )
    return []


def is_ours(status: os.stat_result) -> bool:
    """Whether only the user or root can have written a file."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _checksum(path: Path, content: bytes | memoryview) -> bytes:
    import hashlib  # 2 ms to load, for programs that compile

    digest = hashlib.sha256(_FORMAT + path.name.encode() + b"\0")
    digest.update(content)
    return digest.digest()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, which others see as a whole or not at all."""
    # As tempfile.mkstemp, which takes 7 ms to load.
    unfinished = path.with_name(f"{UNFINISHED}{os.urandom(8).hex()}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(unfinished, flags | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except OSError:
        os.unlink(unfinished)
        raise


def _complain(what: str, path: Path, err: OSError | RuntimeError) -> None:
    """Raise an error of the cache, or warn of it, once for each folder and cause, where an option
    names the folder."""
    if config.raise_persistent_cache_errors.value:
        raise err
    cause = (path.parent, err.errno if isinstance(err, OSError) else None)
    if cause not in _complained and (config.cache_dir.value or config.compilation_cache_dir.value):
        _complained.add(cause)
        warnings.warn(
            f"Error {what} persistent compilation cache entry {path}: {err}",
            stacklevel=source.user_stacklevel(),
        )


def _note(folder: Path, new: UseCounts) -> None:
    with _lock:
        name = str(folder)
        _uncounted[name] = UseCounts(
            *map(sum, zip(_uncounted.get(name, UseCounts()), new, strict=True))
        )


def _save_counts(folder: Path, looked_through: bool = False) -> UseCounts:
    """Add this process's counts to the file of counts; gives the sums.

    While another process has the file, nothing is saved, so that no process waits.
    """
    handle = os.open(folder / COUNTS, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        free = hold(handle)
        found = _unpacked(os.read(handle, _NUMBERS.size))
        if not free:
            return found
        with _lock:
            new = _uncounted.pop(str(folder), UseCounts())
        total = UseCounts(
            found.hits + new.hits,
            found.misses + new.misses,
            0 if looked_through else found.written + new.written,
        )
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(
            handle, _NUMBERS.pack(*(n % (1 << 63) for n in total))
        )  # bytes of chance may be in a damaged file
        return total
    finally:
        os.close(handle)  # releases the lock


def _unpacked(data: bytes) -> UseCounts:
    return UseCounts(*_NUMBERS.unpack(data)) if len(data) == _NUMBERS.size else _UNKNOWN


def hold(handle: int) -> bool:
    """Try to lock the file exclusively, until it is closed."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _evict(folder: Path, most: int) -> None:
    """Remove the least recently used files until `most` bytes are left. Others may remove them at
    the same time."""
    found = []
    for path in (*_files(folder), *kept_by_compilers(folder)):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        path.unlink(missing_ok=True)
        total -= size


@atexit.register
def _save_the_last_hits() -> None:
    for folder in map(Path, list(_uncounted)):
        with contextlib.suppress(OSError):
            for _ in range(_LAST_TRIES):  # other processes that end may have the file
                _save_counts(folder)
                if str(folder) not in _uncounted:
                    break
                time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_uncounted.clear)
