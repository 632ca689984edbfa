"""Counts of the use of a team's cache, kept in a file of the local folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from teucer._executables import disk_cache

_NUMBERS = struct.Struct("<4Q")
_PREFIX = "remote-"
_TRIES = 50


class Counts(NamedTuple):
    """How many entries were fetched, were missing, were uploaded, and were refused."""

    fetched: int = 0
    misses: int = 0
    uploaded: int = 0
    refused: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sums."""
        return Counts(*map(sum, zip(self, other, strict=True)))


def read(folder: Path, address: str) -> Counts:
    """The counts of processes that have ended."""
    with contextlib.suppress(OSError):
        return _unpacked(_file(folder, address).read_bytes())
    return Counts()


def add(folder: Path, address: str, new: Counts) -> None:
    """Add this process's counts. A folder that cannot be written has no counts."""
    if not any(new):
        return
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(_file(folder, address), flags, 0o600)
        try:
            _wait_for(handle)
            total = _unpacked(os.read(handle, _NUMBERS.size)).plus(new)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, _NUMBERS.pack(*(n % (1 << 63) for n in total)))
        finally:
            os.close(handle)


def clear(folder: Path) -> None:
    """Forget the counts of all addresses."""
    for path in folder.glob(f"{_PREFIX}*.counts"):
        path.unlink(missing_ok=True)


def _file(folder: Path, address: str) -> Path:
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    return folder / f"{_PREFIX}{digest}.counts"


def _wait_for(handle: int) -> None:
    """Lock the file. If others have it for long, their counts are lost, and nothing else."""
    for _ in range(_TRIES):
        if disk_cache.hold(handle):
            break
        time.sleep(0.001)


def _unpacked(data: bytes) -> Counts:
    return Counts(*_NUMBERS.unpack(data)) if len(data) == _NUMBERS.size else Counts()
