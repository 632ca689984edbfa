"""Traces: what is written, what annotations do, and what is refused."""

import functools
import gc
import gzip
import json
import socket

import pytest

import teucer as jax
from teucer import numpy as jnp

QUIET = jax.profiler.ProfileOptions()
QUIET.python_tracer_level = 0


def names(data):
    return {event.name for plane in data.planes for line in plane.lines for event in line.events}


def work():
    jax.block_until_ready(jax.jit(lambda x: jnp.sin(x @ x))(jnp.ones((64, 64))))


def test_trace_is_written_for_tensorboard_and_perfetto(tmp_path):
    with jax.profiler.trace(tmp_path, create_perfetto_trace=True, profiler_options=QUIET):
        with jax.profiler.TraceAnnotation("my label", size=3):
            work()
        with jax.profiler.StepTraceAnnotation("train", step_num=7):
            work()
    (folder,) = tmp_path.glob("plugins/profile/*")
    (space,) = folder.glob("*.xplane.pb")
    found = names(jax.profiler.ProfileData.from_file(str(space)))
    assert {"my label", "train"} <= found
    for name in (*folder.glob("*.trace.json.gz"), folder / "perfetto_trace.json.gz"):
        with gzip.open(name, "rt") as file:
            events = json.load(file)["traceEvents"]
        assert any(e.get("name") == "my label" for e in events)
    assert all("ph" in e for e in events)  # which Perfetto wants of each


def test_start_and_stop(tmp_path):
    with pytest.raises(RuntimeError, match="No profile started"):
        jax.profiler.stop_trace()
    jax.profiler.start_trace(tmp_path, profiler_options=QUIET)
    try:
        with pytest.raises(RuntimeError, match="Only one profile may be run at a time"):
            jax.profiler.start_trace(tmp_path)
    finally:
        jax.profiler.stop_trace()
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))


def test_annotated_functions():
    @jax.profiler.annotate_function
    def first(x):
        return x + 1

    second = jax.profiler.annotate_function(lambda x: x, name="called second", kind="k")
    part = functools.partial(first, 4)
    third = jax.profiler.annotate_function(part)  # has no name
    session = jax.profiler.ProfileSession(profiler_options=QUIET)
    with session:
        assert session.is_running and first(2) == 3 and second(4) == 4 and third() == 5
    labels = {"first", "called second", repr(part)}
    assert not session.is_running and labels <= names(session.profile_data)
    assert first.__name__ == "first"


def test_sessions_are_exported_later(tmp_path):
    session = jax.profiler.ProfileSession(profiler_options=QUIET)
    with pytest.raises(RuntimeError, match="has not been stopped"):
        session.export_profile_data(tmp_path)
    with session, jax.profiler.TraceAnnotation("kept"):
        work()
    jax.profiler.export_profile_data(session, tmp_path)
    (space,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    assert "kept" in names(jax.profiler.ProfileData.from_file(str(space)))
    with pytest.raises(TypeError, match="is a ProfileSession"):
        jax.profiler.export_profile_data(session.profile_data, tmp_path)


def test_a_trace_ends_with_its_block(tmp_path):
    with (
        pytest.raises(ValueError, match="inside"),
        jax.profiler.trace(tmp_path, profiler_options=QUIET),
    ):
        raise ValueError("inside")
    with jax.profiler.trace(profiler_options=QUIET):
        pass


def test_memory_by_allocation(tmp_path):
    x = jnp.ones(1000)
    path = tmp_path / "memory.prof"
    jax.profiler.save_device_memory_profile(path)
    assert b"buffer" in gzip.decompress(path.read_bytes())
    assert gzip.decompress(jax.profiler.device_memory_profile("cpu"))
    assert x.shape == (1000,)


def test_server():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    jax.profiler.start_server(port)
    try:
        with pytest.raises(ValueError, match="Only one profiler server"):
            jax.profiler.start_server(port)
    finally:
        jax.profiler.stop_server()
    with pytest.raises(ValueError, match="No active profiler server"):
        jax.profiler.stop_server()


def test_what_is_in_a_trace_is_read_where_warnings_are_errors():
    with jax.profiler.trace(profiler_options=QUIET) as session:
        work()
    for _ in range(2):
        gc.collect()  # which would let jaxlib's types of iterators go
        lines = [line for plane in session.profile_data.planes for line in plane.lines]
        assert "hlo_module" in {
            name for line in lines for event in line.events for name, _ in event.stats
        }
