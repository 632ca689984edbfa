"""Processes of one job divide the compilations among them.

The first that needs a program claims it in the coordination service. The others wait until it has
compiled and uploaded it, as long as it lives and with a bound, and fetch it.
"""

from __future__ import annotations

import contextlib
from time import monotonic
from typing import final

from teucer._base import config
from teucer._devices import processes
from teucer._xla.client import XlaRuntimeError

_ROOT = "teucer/compiling"
_LOOK = 1000  # milliseconds between looks at whether the other process lives
_RATE = 1 << 20  # bytes a second of an upload that is waited for


@final
class Claim:
    """A program that this process compiles for the others. They are told how it ended."""

    def __init__(self, name: str) -> None:
        self._name = name

    def compiled(self, size: int) -> None:
        """It is compiled, and is being uploaded."""
        self._tell("compiled", str(size))

    def ended(self, uploaded: bool) -> None:
        """Whether the others can fetch it."""
        self._tell("uploaded", str(int(uploaded)))
        if not uploaded:
            self._tell("compiled", "0")

    def _tell(self, what: str, text: str) -> None:
        client = processes.state.client
        with contextlib.suppress(XlaRuntimeError):  # of a job that ends
            if client is not None:
                client.key_value_set(f"{_ROOT}/{self._name}/{what}", text, allow_overwrite=True)


def claim(name: str) -> Claim | None:
    """Claim a program for this process.

    None if another process has claimed it. By then that process is done, or the wait is over.
    """
    state = processes.state
    own, place = str(state.process_id), f"{_ROOT}/{name}"
    try:
        state.client.key_value_set(f"{place}/by", own, allow_overwrite=False)
        return Claim(name)
    except XlaRuntimeError:
        try:
            by = state.client.blocking_key_value_get(f"{place}/by", _LOOK)
        except XlaRuntimeError:  # the service does not answer
            return None
    if by == own:  # this process compiles it again, since it was evicted
        return Claim(name)
    size = _heard(f"{place}/compiled", int(by), config.cache_wait.value)
    if size is not None and size.isdecimal():
        _heard(f"{place}/uploaded", int(by), config.cache_patience.value + int(size) / _RATE)
    return None


def _heard(key: str, by: int, seconds: float) -> str | None:
    """The value that another process writes; None if it has failed, or writes none within so many
    seconds."""
    state, deadline = processes.state, monotonic() + seconds
    while (left := deadline - monotonic()) > 0:
        if state.watch is None or by in state.watch.failed:
            return None
        with contextlib.suppress(XlaRuntimeError):
            return str(state.client.blocking_key_value_get(key, min(_LOOK, int(1000 * left) + 1)))
    return None
