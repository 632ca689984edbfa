"""Host memory: pages that arrays have freed stay with the process, to be used again.

XLA takes the memory of results and temporaries from malloc at every call. glibc maps large blocks
anew each time, and unmaps them when they are freed. Each page of a new map costs a fault. That is a
quarter to a half of the time of a training step on the CPU (docs/performance.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator

# Of malloc.h.
_MXFAST, _TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = 1, -1, -2, -3
_LARGEST = 1 << 25  # the greatest threshold that glibc takes
_MOST = (1 << 31) - 1  # mallopt takes an int
_PAD = 1 << 27  # twice a thread's heap: malloc unmaps a heap if this much is free before it
_QUICK = 16 * ctypes.sizeof(
    ctypes.c_void_p
)  # blocks of up to so many bytes go to malloc's quick lists by default

_kept = False  # whether malloc of this process keeps pages
_heaps_kept = False


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def keep_freed_pages() -> bool:
    """Have malloc take blocks of up to 32 MB from its heaps. The main heap keeps up to an eighth of
    the machine's memory.

    Returns whether it was done: not where malloc is another than glibc's, or where the environment
    says how malloc is to behave.
    """
    global _kept  # malloc's state is the process's, too
    if any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
        return False
    libc = _libc()
    if not hasattr(libc, "mallopt") or not hasattr(libc, "gnu_get_libc_version"):
        return False
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _kept = bool(
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        and libc.mallopt(_TRIM_THRESHOLD, min(memory // 8, _MOST))
    )
    return _kept


def keep_heaps() -> None:
    """Have malloc keep the heaps of threads too, if it keeps pages: for programs that take and give
    back many blocks at each call.

    Calls of small programs take some percent longer then. They would take more with malloc's quick
    lists, which are emptied whenever a block comes back to much free memory.
    """
    global _heaps_kept
    if _kept:
        _heaps_kept = True  # first, so that no thread that is `joining` brings the quick lists back
        libc = _libc()
        libc.mallopt(_TOP_PAD, _PAD)
        libc.mallopt(_MXFAST, 0)


@contextlib.contextmanager
def joining() -> Iterator[None]:
    """In the `with` block, malloc merges small freed blocks with their neighbours at once, if it
    keeps pages.

    Loading an executable frees very many small blocks. Otherwise malloc walks its quick lists each
    time that a large block is freed, which takes an eighth of the time.
    """
    _quick_lists_up_to(0)
    try:
        yield
    finally:
        _quick_lists_up_to(_QUICK)


def _quick_lists_up_to(size: int) -> None:
    if _kept and not _heaps_kept:
        _libc().mallopt(_MXFAST, size)


def give_back_if_scarce(part: float = 0.5) -> None:
    """Give free pages back to the system, if pages are kept and the process has more than this part
    of the machine's memory."""
    if _kept:
        with open("/proc/self/statm", "rb") as memory:
            resident = int(memory.read().split()[1])
        if resident > part * os.sysconf("SC_PHYS_PAGES"):
            _libc().malloc_trim(0)
