"""Events of tracing and compiling, for listeners; and events of libraries, for the same listeners.

While programs are made, listeners hear these durations, with the function's name as `fun_name`:

- `/jax/core/compile/jaxpr_trace_duration`: of tracing the function;
- `/jax/core/compile/jaxpr_to_mlir_module_duration`: of lowering it;
- `/jax/core/compile/backend_compile_duration`: of compiling or loading it.

The events `/jax/compilation_cache/cache_hits` and `/jax/compilation_cache/cache_misses` say whether
the cache on disk had it.
"""

from __future__ import annotations

from collections.abc import Callable

from teucer._base.lazy import listing
from teucer._executables import events

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs",
    "record_event_time_span", "record_scalar", "register_event_duration_secs_listener",
    "register_event_listener", "register_event_time_span_listener", "register_scalar_listener",
    "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip
__dir__ = listing(__name__, __all__)


def record_event(event: str, **kwargs: object) -> None:
    """Tell the listeners for events that one happened."""
    events.event(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: object) -> None:
    """Tell the listeners for durations how many seconds something took."""
    events.duration(event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: object
) -> None:
    """Tell the listeners for spans when something began and ended, in seconds since 1970."""
    events.span(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: object) -> None:
    """Tell the listeners for scalars a number."""
    events.scalar(event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Have callback(event, **about) called for each event.

    >>> from teucer import monitoring
    >>> monitoring.register_event_listener(lambda event, **about: print(event, about))
    >>> monitoring.record_event("/my_library/saved", step=3)
    /my_library/saved {'step': 3}
    >>> monitoring.clear_event_listeners()
    """
    events.register("event", callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Have callback(event, seconds, **about) called for each duration."""
    events.register("duration", callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Have callback(event, start, end, **about) called for each span."""
    events.register("span", callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Have callback(event, value, **about) called for each scalar."""
    events.register("scalar", callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """No longer call it for events. Raises AssertionError if it is not registered."""
    events.unregister("event", callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """No longer call it for durations. Raises AssertionError if it is not registered."""
    events.unregister("duration", callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """No longer call it for spans. Raises AssertionError if it is not registered."""
    events.unregister("span", callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """No longer call it for scalars. Raises AssertionError if it is not registered."""
    events.unregister("scalar", callback)


def clear_event_listeners() -> None:
    """Forget all listeners."""
    events.clear()
