"""XLA's profiler: sessions, annotations of the trace, and the content of profiles."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

from jaxlib import _profile_data, _profiler

ProfileData: TypeAlias = _profile_data.ProfileData
ProfileEvent: TypeAlias = _profile_data.ProfileEvent
ProfileLine: TypeAlias = _profile_data.ProfileLine
ProfilePlane: TypeAlias = _profile_data.ProfilePlane
ProfileOptions: TypeAlias = _profiler.ProfileOptions
TraceMe = _profiler.TraceMe
profiled_instructions: Any = _profiler.get_profiled_instructions_proto


def session(options: Any = None) -> Any:
    """A session that records from now on; `stop()` gives its bytes, `export(bytes, folder)` writes
    them."""
    return _profiler.ProfilerSession() if options is None else _profiler.ProfilerSession(options)


def start_server(port: int) -> Any:
    """A server on a port, for TensorBoard, which runs as long as it is held."""
    return _profiler.start_server(port)


def register_subprocess(pid: int, port: int) -> Any:
    """Join the profiles of another process, found by the port of its server, with this
    process's."""
    return _profiler.register_subprocess(pid, port)


def heap_profile(client: Any) -> bytes:
    """The arrays and executables of a client in memory, for `pprof`."""
    data: bytes = client.heap_profile()
    return data


def _iterators() -> tuple[Any, ...]:
    """jaxlib's types of iterators. Held here, so that they are made once.

    Python 3.12 warns of each one that is made; where warnings are errors, nanobind then aborts the
    process.
    """
    event = b"\x08\x01\x18\x05"
    line = b"\x22" + bytes([len(event)]) + event
    plane = b"\x1a" + bytes([len(line)]) + line
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        planes = iter(
            ProfileData.from_serialized_xspace(b"\x0a" + bytes([len(plane)]) + plane).planes
        )
        first = next(planes)
        lines = iter(first.lines)
        events = iter(next(lines).events)
        found = (planes, lines, events, iter(first.stats), iter(next(events).stats))
        return tuple([type(x) for x in found])


_ITERATORS = _iterators()
