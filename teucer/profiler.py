"""Profiles of programs: traces for Perfetto and TensorBoard, annotations in them, and memory by
allocation.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from teucer._base.lazy import listing
from teucer._devices import backends
from teucer._xla.platforms import profiling
from teucer._xla.platforms.profiling import (
    ProfileData,
    ProfileEvent,
    ProfileLine,
    ProfileOptions,
    ProfilePlane,
    TraceMe,
    register_subprocess,
)

__all__ = [
    "ProfileData", "ProfileEvent", "ProfileLine", "ProfileOptions", "ProfilePlane",
    "ProfileSession", "StepTraceAnnotation", "TraceAnnotation", "annotate_function",
    "device_memory_profile", "export_profile_data", "register_subprocess",
    "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace",
    "trace",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

P = ParamSpec("P")
R = TypeVar("R")
_lock = threading.Lock()


class _Running:
    """The running profilers of this process: one trace, one server."""

    session: ProfileSession | None = None
    server: Any = None


_running = _Running()


class TraceAnnotation(TraceMe):
    """A name in the trace for the events in a `with` block; keyword arguments are shown with it.

    >>> from teucer import profiler
    >>> with profiler.TraceAnnotation("load", batch=3):
    ...     pass
    """


class StepTraceAnnotation(TraceAnnotation):
    """A name in the trace for a step, such as one of training, which `step_num` counts."""

    def __init__(self, name: str, **kwargs: object) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(
    func: Callable[P, R], name: str | None = None, **decorator_kwargs: object
) -> Callable[P, R]:
    """The function, whose calls have a name in the trace, by default its own.

    decorator_kwargs: shown with it.
    """
    label = name or getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


class ProfileSession:
    """A trace that is taken: from `start` to `stop`, or in a `with` block.

    log_dir: the folder where it is written in the end; None keeps it in memory. The options are as
    for `start_trace`. Raises RuntimeError if one is taken already, or stopped before it was
    started.
    """

    def __init__(
        self,
        log_dir: os.PathLike[str] | str | None = None,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        profiler_options: object = None,
    ) -> None:
        self._options = {
            "create_perfetto_link": create_perfetto_link,
            "create_perfetto_trace": create_perfetto_trace,
        }
        self._log_dir, self._profiler_options = log_dir, profiler_options
        self._session: Any = None
        self._bytes: bytes | None = None

    @property
    def is_running(self) -> bool:
        """Whether the trace is being taken."""
        return self._session is not None

    @property
    def profile_data(self) -> Any:
        """The recorded profile, as ProfileData; None before it was stopped."""
        return None if self._bytes is None else ProfileData.from_serialized_xspace(self._bytes)

    def start(self) -> Self:
        """Begin to record."""
        with _lock:
            if _running.session is not None:
                raise RuntimeError(
                    "Profile has already been started. Only one profile may be run at a time."
                )
            backends.backends()  # the profiler listens to the clients that are there
            self._session = profiling.session(self._profiler_options)
            _running.session = self
        return self

    def stop(self) -> Any:
        """Stop, write the trace to log_dir, and return the recorded profile."""
        with _lock:
            if self._session is None:
                raise RuntimeError("No profile started")
            session, self._session = self._session, None
            _running.session = None
            self._bytes = session.stop()
            if self._log_dir is not None:
                _export(session, self._bytes, self._log_dir, **self._options)
        return self.profile_data

    def export_profile_data(
        self,
        log_dir: os.PathLike[str] | str,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        session_id: str | None = None,
    ) -> None:
        """Write the recorded profile to a folder. Raises RuntimeError if there is none."""
        if self._bytes is None:
            raise RuntimeError(
                "export_profile_data: the session has not been stopped; there is nothing to write."
            )
        _export(
            _exporter(session_id),
            self._bytes,
            log_dir,
            create_perfetto_link=create_perfetto_link,
            create_perfetto_trace=create_perfetto_trace,
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.stop()


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: object = None,
) -> None:
    """Begin to take a trace, which `stop_trace` ends and writes to a folder.

    log_dir/plugins/profile/TIME/HOST.xplane.pb is for TensorBoard and HOST.trace.json.gz for
    https://ui.perfetto.dev.
    create_perfetto_trace: also write perfetto_trace.json.gz beside them. create_perfetto_link:
    print where it is and how to open it; nothing is served from this process.
    profiler_options: a ProfileOptions. python_tracer_level = 0 leaves calls of Python functions
    out, host_tracer_level says how detailed the events of the runtime are.
    Raises RuntimeError if a trace is being taken already.
    """
    ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options).start()


def stop_trace() -> None:
    """End the trace that `start_trace` began, and write it. Raises RuntimeError if there is
    none."""
    session = _running.session
    if session is None:
        raise RuntimeError("No profile started")
    session.stop()


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike[str] | str | None = None,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: object = None,
) -> Iterator[ProfileSession]:
    """Take a trace of a `with` block. Arguments as of `start_trace`; without a
    folder it is kept in memory.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> with jax.profiler.trace() as session:
    ...     _ = jax.block_until_ready(jax.jit(jnp.sin)(jnp.ones(8)))
    >>> len(list(session.profile_data.planes)) > 0
    True
    """
    session = ProfileSession(
        log_dir, create_perfetto_link, create_perfetto_trace, profiler_options
    ).start()
    try:
        yield session
    finally:
        session.stop()


def export_profile_data(
    profile_data: ProfileSession,
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    session_id: str | None = None,
) -> None:
    """Write a session that has ended to a folder.

    Raises TypeError for a ProfileData alone: the runtime does not give its bytes back.
    """
    if not isinstance(profile_data, ProfileSession):
        raise TypeError(
            "export_profile_data: what can be written is a ProfileSession, got "
            f"{type(profile_data).__name__}.\n  Keep the session that trace() gives, or name a "
            "folder there."
        )
    profile_data.export_profile_data(
        log_dir, create_perfetto_link, create_perfetto_trace, session_id
    )


def _exporter(session_id: str | None) -> Any:
    """A session that records nothing, to write with."""
    options = ProfileOptions()
    options.host_tracer_level = options.python_tracer_level = 0
    if session_id is not None:
        options.session_id = session_id
    session = profiling.session(options)
    session.stop()
    return session


def _export(
    session: object,
    data: bytes,
    log_dir: os.PathLike[str] | str,
    *,
    create_perfetto_link: bool,
    create_perfetto_trace: bool,
) -> None:
    session.export(data, os.fspath(log_dir))
    if not (create_perfetto_link or create_perfetto_trace):
        return
    written = max(Path(log_dir).glob("plugins/profile/*/*.trace.json.gz"), key=os.path.getmtime)
    with gzip.open(written, "rt") as file:
        content = json.load(file)
    # Perfetto needs events with a beginning or an end, and with names; others are left out.
    content["traceEvents"] = [e for e in content.get("traceEvents", []) if e and "ph" in e]
    target = written.parent / "perfetto_trace.json.gz"
    with gzip.open(target, "wt") as file:
        json.dump(content, file)
    if create_perfetto_link:
        print(f"Open {target} in https://ui.perfetto.dev (Open trace file).")


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Let TensorBoard take traces of this process by a port. One server runs at a time.

    requires_backend: start the backends first, so that they are in the traces.
    Raises ValueError if a server runs already.
    """
    with _lock:
        if _running.server is not None:
            raise ValueError("Only one profiler server can be active at a time.")
        if requires_backend:
            backends.backends()
        _running.server = profiling.start_server(port)
    return _running.server


def stop_server() -> None:
    """Stop the server. Raises ValueError if none runs."""
    with _lock:
        if _running.server is None:
            raise ValueError("No active profiler server.")
        _running.server = None


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays and executables in memory, by where they were made, as gzipped data of `pprof`."""
    return gzip.compress(profiling.heap_profile(backends.client_of(backend)))


def save_device_memory_profile(
    filename: os.PathLike[str] | str, backend: str | None = None
) -> None:
    """Write `device_memory_profile` to a file, which `go tool pprof --web FILE` shows."""
    Path(filename).write_bytes(device_memory_profile(backend))
