"""Programs with effects that may still be running."""

from __future__ import annotations

import atexit
import collections
import threading
from typing import Any

from teucer._executables.callbacks import explained, was_told

_lock = threading.Lock()
_running: collections.deque[tuple[Any, Any]] = collections.deque()
_MANY = 64


def watch(token: object, program: object) -> None:
    """Remember a running program by its token, and keep it as long; of many, wait for the one that
    was started first."""
    with _lock:
        _running.append((token, program))
        oldest = _running.popleft() if len(_running) > _MANY else None
    if oldest is not None:
        oldest[0].block_until_ready()


def effects_barrier() -> None:
    """Wait until all effects of the programs started so far have happened. Raises the exception of
    the first failed one.

    >>> import teucer as jax
    >>> jax.jit(lambda x: jax.debug.print("x = {x}", x=x))(3); jax.effects_barrier()
    x = 3
    """
    with _lock:
        tokens = [token for token, _ in _running]
        _running.clear()
    failed = []
    for token in tokens:
        try:
            token.block_until_ready()
        except Exception as err:
            if not was_told(err):
                failed.append(explained(err))
    if failed:
        raise failed[0]


atexit.register(effects_barrier)
