"""The compilation cache on disk: a folder with a file for each program.

An entry is written whole or not at all, readable by the user alone, and starts with a checksum. What does not load, or
belongs to another user, counts as missing. Of more than the allowed bytes the entries that were used least recently go.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from teucer._base import config

__all__ = ["cache_dir", "entries", "read", "write"]

SUFFIX, UNFINISHED = ".xla", ".new-"
_CHECKSUM = 32
# Bytes written by this process since it last looked at the whole folder; None: it has not looked. Only an estimate of when
# to look again, so threads may disturb each other's count.
_unchecked: int | None = None


def cache_dir() -> Path | None:
    """The folder of the cache; None if it is off, or there is no folder of the user's."""
    options = config.config
    if not options.jax_enable_compilation_cache:
        return None
    chosen = options.teucer_cache_dir or options.jax_compilation_cache_dir
    if chosen:
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "teucer" if os.path.isabs(home) else None


def entries(folder: Path) -> list[Path]:
    """The files of the cache in `folder`; those that a process is writing, or could not finish, included."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return sorted(Path(e.path) for e in found if e.name.endswith(SUFFIX) or e.name.startswith(UNFINISHED))
    return []


def read(path: Path) -> bytes | None:
    """The content of an entry, None if there is none that can be trusted; marks it as used."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "geteuid") and os.fstat(file.fileno()).st_uid not in (0, os.geteuid()):
                return None
            data = file.read()
        os.utime(path)
    except OSError:
        return None
    checksum, content = data[:_CHECKSUM], data[_CHECKSUM:]
    return content if hashlib.sha256(content).digest() == checksum else None


def write(path: Path, content: bytes) -> None:
    """Make an entry. A cache that cannot be written is a slower program; an error with jax_raise_persistent_cache_errors."""
    global _unchecked  # a count of this process
    limit = _limit()
    size = _CHECKSUM + len(content)
    if size > limit or len(content) < config.persistent_cache_min_entry_size_bytes.value:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(unfinished, path)
        except OSError:
            os.unlink(unfinished)
            raise
        slack = limit // 16
        _unchecked = None if _unchecked is None else _unchecked + size
        if _unchecked is None or _unchecked > slack:
            _evict(path.parent, limit - slack)
            _unchecked = 0
    except OSError:
        if config.raise_persistent_cache_errors.value:
            raise


def _limit() -> int:
    """Bytes that the cache may have; a negative option is no bound."""
    chosen = config.compilation_cache_max_size.value
    limit: int = config.cache_max_bytes.value if chosen < 0 else chosen
    return limit if limit >= 0 else 1 << 62


def _evict(folder: Path, limit: int) -> None:
    """Remove the least recently used entries until `limit` bytes are left. Others may remove them at the same time."""
    found = []
    for path in entries(folder):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= size
