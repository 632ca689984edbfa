"""Events of tracing, lowering and compiling, and of users, for listeners: `jax.monitoring`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

TRACING = "/jax/core/compile/jaxpr_trace_duration"
LOWERING = "/jax/core/compile/jaxpr_to_mlir_module_duration"
BACKEND_COMPILE = "/jax/core/compile/backend_compile_duration"

_lock = threading.Lock()
# Listeners by kind of event: event, duration, scalar, span. A tuple is replaced as a whole, so a
# walk over it needs no lock.
_listeners: dict[str, tuple[Callable[..., Any], ...]] = {}


def register(kind: str, listener: Callable[..., object]) -> None:
    """Have a listener called for events of a kind."""
    with _lock:
        _listeners[kind] = (*_listeners.get(kind, ()), listener)


def unregister(kind: str, listener: Callable[..., object]) -> None:
    """No longer call a listener. Raises AssertionError if it is not registered, as in JAX."""
    with _lock:
        found = list(_listeners.get(kind, ()))
        if listener not in found:
            raise AssertionError(f"{listener!r} is no listener for events of kind {kind}.")
        found.remove(listener)
        _listeners[kind] = tuple(found)


def listeners(kind: str) -> list[Callable[..., Any]]:
    """The listeners of a kind, in the order of registration."""
    return list(_listeners.get(kind, ()))


def clear() -> None:
    """Forget all listeners."""
    with _lock:
        _listeners.clear()


def event(name: str, **about: object) -> None:
    """Tell that something happened."""
    for listener in _listeners.get("event", ()):
        listener(name, **about)


def duration(name: str, seconds: float, **about: object) -> None:
    """Tell the listeners how long something took."""
    for listener in _listeners.get("duration", ()):
        listener(name, seconds, **about)


def scalar(name: str, value: float, **about: object) -> None:
    """Tell the listeners a number."""
    for listener in _listeners.get("scalar", ()):
        listener(name, value, **about)


def span(name: str, start: float, end: float, **about: object) -> None:
    """Tell the listeners when something began and ended, in seconds since 1970."""
    for listener in _listeners.get("span", ()):
        listener(name, start, end, **about)


def took(name: str, seconds: float, **about: object) -> None:
    """Report to listeners of every kind that something has just ended."""
    if not _listeners:
        return
    now = time.time()
    scalar(name, now - seconds, **about)
    duration(name, seconds, **about)
    span(name, now - seconds, now, **about)
