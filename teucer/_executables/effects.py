"""Programs with effects that may still be running."""

from __future__ import annotations

import atexit
import collections
import threading
from typing import Any

__all__ = ["effects_barrier", "watch"]

_lock = threading.Lock()
_running: collections.deque[Any] = collections.deque()
_MANY = 1024


def watch(token: Any) -> None:
    """Remember a running program by its token; of many, wait for the one that was started first."""
    with _lock:
        _running.append(token)
        oldest = _running.popleft() if len(_running) > _MANY else None
    if oldest is not None:
        oldest.block_until_ready()


def effects_barrier() -> None:
    """Wait until all effects of the programs started so far have happened.

    >>> import teucer as jax
    >>> jax.jit(lambda x: jax.debug.print("x = {x}", x=x))(3); jax.effects_barrier()
    x = 3
    """
    with _lock:
        tokens = list(_running)
        _running.clear()
    for token in tokens:
        token.block_until_ready()


atexit.register(effects_barrier)
