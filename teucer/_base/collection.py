"""Python's search for cycles of objects, less often while modules are loaded and programs are
traced and compiled."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any, final

# Containers that are made, less those that are freed, between searches; Python's own number is 700
# to 2000.
RARELY = 100_000


@final
class _Rarely(contextlib.ContextDecorator):
    """Tracing makes many objects that live long and few cycles: looking at them again and again
    takes a third of the time.

    The thresholds are the process's: the first thread that comes in sets them, the last that goes
    restores them.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._found = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._found = gc.get_threshold()
                if 0 < self._found[0] < RARELY:
                    gc.set_threshold(RARELY, *self._found[1:])

    def __exit__(self, *exc: Any) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and gc.get_threshold() == (RARELY, *self._found[1:]):
                gc.set_threshold(*self._found)


rarely_collected = _Rarely()
