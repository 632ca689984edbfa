"""Host memory: pages that arrays have let go stay with the process, to be used again.

XLA takes the memory of results and temporaries from malloc at every call. glibc maps large blocks anew each time and unmaps them
when they are freed, and each page of a new map costs a fault: a quarter to a half of the time of a training step on CPU
(docs/performance.md).
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_freed_pages"]

# Of malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST = 1 << 25  # the greatest threshold that glibc takes
_MOST = (1 << 31) - 1  # mallopt takes an int


def keep_freed_pages() -> bool:
    """Have malloc take blocks of up to 32 MB from its heaps, each of which keeps up to an eighth of the machine's memory.

    Returns whether it was done: not where malloc is another than glibc's, or where the environment says how malloc is to behave.
    """
    if any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "gnu_get_libc_version"):
        return False
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return bool(libc.mallopt(_MMAP_THRESHOLD, _LARGEST) and libc.mallopt(_TRIM_THRESHOLD, min(memory // 8, _MOST)))
