"""Threads of a process, as other processes of the program know them."""

from __future__ import annotations

import re
import threading
import zlib

# A worker of a pool takes whichever task comes next.
_WORKER = re.compile(r"_\d+$")
_NUMBERS = re.compile(r"\d+")


class _Label(threading.local):
    def __init__(self) -> None:
        self.number = zlib.crc32(_label(threading.current_thread()).encode())


def _label(thread: threading.Thread) -> str:
    """The name by which another process knows the same thread: its name without numbers, and how
    many threads of that name came before."""
    if _WORKER.search(thread.name):
        return "a worker"
    name = _NUMBERS.sub("", thread.name)
    alike = [t for t in threading.enumerate() if _NUMBERS.sub("", t.name) == name]
    return f"{name} {alike.index(thread) if thread in alike else 0}"


own = _Label()
"""Its `number` has 32 bits. The same thread of all processes has the same one, and others have
others, but for the workers of a pool."""


def name_of(ident: int) -> str:
    """The name of a thread."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return repr(names.get(ident, ident))


def is_main() -> bool:
    """Whether this is the thread whose end by an exception ends the process."""
    return threading.current_thread() is threading.main_thread()
