"""Programs with effects that may still be running."""

from __future__ import annotations

import atexit
import threading
from typing import Any

__all__ = ["effects_barrier", "watch"]

_lock = threading.Lock()
_running: list[Any] = []


def watch(token: Any) -> None:
    """Remember a running program by its token."""
    with _lock:
        _running.append(token)
        if len(_running) > 64:
            del _running[:-64]


def effects_barrier() -> None:
    """Wait until all effects of the programs started so far have happened.

    >>> import teucer as jax
    >>> jax.jit(lambda x: jax.debug.print("x = {x}", x=x))(3); jax.effects_barrier()
    x = 3
    """
    with _lock:
        tokens, _running[:] = list(_running), []
    for token in tokens:
        token.block_until_ready()


atexit.register(effects_barrier)
