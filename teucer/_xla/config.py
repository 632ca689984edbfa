"""Option cells that jaxlib's C++ dispatcher can read: thread-local values over a global one."""

from __future__ import annotations

from typing import Any

from jaxlib import _jax

# Config(name, value, include_in_jit_key=, include_in_trace_context=) with value, set_local,
# swap_local, set_global.
Config = _jax.config.Config
unset: object = _jax.config.unset
"""What a cell holds locally while the thread follows the global value."""

trace_context = _jax.config.trace_context
trace_context_names = _jax.config.trace_context_names

_TRANSFER_LEVELS = _jax.guard_lib.TransferGuardLevel
_COLLECTION_LEVELS = _jax.guard_lib.GarbageCollectionGuardLevel


def register_dispatcher_cells(enable_x64: Any, disable_jit: Any, post_hook: Any) -> None:
    """Tell the C++ dispatcher which cells hold the three options that it reads itself."""
    _jax.jax_jit.set_enable_x64_state(enable_x64)
    _jax.jax_jit.set_disable_jit_state(disable_jit)
    _jax.jax_jit.set_post_hook_state(post_hook)


def set_guard(kind: str, level: str | None, *, local: bool) -> None:
    """Set the C++ guard `kind` ("host_to_device", ..., "garbage_collect_array") for this thread or
    for all."""
    state = _jax.guard_lib.thread_local_state() if local else _jax.guard_lib.global_state()
    levels = _COLLECTION_LEVELS if kind == "garbage_collect_array" else _TRANSFER_LEVELS
    setattr(state, kind, None if level is None else getattr(levels, level.upper()))


def get_guard(kind: str, *, local: bool) -> str | None:
    """The level of the C++ guard `kind` for this thread or for all, or None where none is set."""
    state = _jax.guard_lib.thread_local_state() if local else _jax.guard_lib.global_state()
    level = getattr(state, kind)
    return None if level is None else level.name.lower()


class explicit_transfer:
    """In force, the guards of this thread count transfers of a kind as asked for by the user.

    kind: "explicit_device_put" or "explicit_device_get". A class, since @contextmanager costs three
    times as much a call.
    """

    __slots__ = ("before", "kind", "state")

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __enter__(self) -> None:
        self.state = _jax.guard_lib.thread_local_state()
        self.before = getattr(self.state, self.kind)
        setattr(self.state, self.kind, True)

    def __exit__(self, *exception: object) -> None:
        setattr(self.state, self.kind, self.before)


def set_thread_guard(active: bool) -> None:
    """Switch the check that arrays of one program are used from one thread only."""
    _jax.guard_lib.update_thread_guard_global_state(active)
