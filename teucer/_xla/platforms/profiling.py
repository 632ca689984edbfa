"""XLA's profiler: sessions, annotations of the trace, and what a profile says."""

from __future__ import annotations

from typing import Any, TypeAlias

from jaxlib import _profile_data, _profiler

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileLine",
    "ProfileOptions",
    "ProfilePlane",
    "TraceMe",
    "heap_profile",
    "register_subprocess",
    "session",
    "start_server",
]

ProfileData: TypeAlias = _profile_data.ProfileData
ProfileEvent: TypeAlias = _profile_data.ProfileEvent
ProfileLine: TypeAlias = _profile_data.ProfileLine
ProfilePlane: TypeAlias = _profile_data.ProfilePlane
ProfileOptions: TypeAlias = _profiler.ProfileOptions
TraceMe = _profiler.TraceMe


def session(options: Any = None) -> Any:
    """A session that records from now on; `stop()` gives its bytes, `export(bytes, folder)` writes them."""
    return _profiler.ProfilerSession() if options is None else _profiler.ProfilerSession(options)


def start_server(port: int) -> Any:
    """A server on a port, for TensorBoard, which runs as long as it is held."""
    return _profiler.start_server(port)


def register_subprocess(pid: int, port: int) -> Any:
    """Have the profiles of another process, by the port of its server, joined with those of this one."""
    return _profiler.register_subprocess(pid, port)


def heap_profile(client: Any) -> bytes:
    """The arrays and executables of a client in memory, for `pprof`."""
    data: bytes = client.heap_profile()
    return data
