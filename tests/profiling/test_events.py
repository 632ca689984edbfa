"""Events for listeners: what is told while programs are made, and what libraries tell."""

import pytest

import teucer as jax
from teucer import monitoring
from teucer import numpy as jnp

TIMED = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration")


@pytest.fixture(autouse=True)
def alone():
    monitoring.clear_event_listeners()
    yield
    monitoring.clear_event_listeners()


def test_listeners_hear_in_order():
    heard = []
    for i in range(2):
        monitoring.register_event_listener(
            lambda event, i=i, **about: heard.append((i, event, about))
        )
    monitoring.record_event("a", x=1)
    assert heard == [(0, "a", {"x": 1}), (1, "a", {"x": 1})]


@pytest.mark.parametrize("register, unregister, record, args", [
    (monitoring.register_event_listener, monitoring.unregister_event_listener,
    monitoring.record_event, ()),
    (monitoring.register_event_duration_secs_listener,
    monitoring.unregister_event_duration_listener,
     monitoring.record_event_duration_secs, (1.5,)),
    (monitoring.register_scalar_listener, monitoring.unregister_scalar_listener,
    monitoring.record_scalar, (3,)),
    (monitoring.register_event_time_span_listener, monitoring.unregister_event_time_span_listener,
     monitoring.record_event_time_span, (1.0, 2.0)),
])  # fmt: skip
def test_each_kind(register, unregister, record, args):
    heard = []
    listener = lambda *args, **about: heard.append((*args, about))
    register(listener)
    record("name", *args, k="v")
    unregister(listener)
    record("name", *args)
    assert heard == [("name", *args, {"k": "v"})]
    with pytest.raises(AssertionError, match="is no listener"):
        unregister(listener)


def test_making_a_program_is_told():
    heard = []
    monitoring.register_event_duration_secs_listener(
        lambda event, s, **about: heard.append((event, about["fun_name"], s))
    )

    @jax.jit
    def told(x):
        return jnp.sin(x) * 3 + 1

    told(2.0)
    expected = [(f"/jax/core/compile/{what}", name) for what, name in
                zip(TIMED, ("told", "jit(told)", "jit(told)"), strict=True)]  # fmt: skip
    assert [h[:2] for h in heard if "told" in h[1]] == expected
    assert all(seconds >= 0 for *_, seconds in heard)
    heard.clear()
    told(3.0)
    assert heard == []


def test_the_cache_on_disk_is_told(tmp_path):
    heard = []
    monitoring.register_event_listener(
        lambda event, **about: heard.append(event.rpartition("/")[2])
    )
    before = jax.config.teucer_cache_dir
    jax.config.update("teucer_cache_dir", str(tmp_path))
    try:
        for _ in range(2):
            jax.clear_caches()
            jax.jit(lambda x: jnp.cos(x) * 7 - 1)(2.0)
    finally:
        jax.config.update("teucer_cache_dir", before)
    assert [e for e in heard if e.startswith("cache_")] == ["cache_misses", "cache_hits"]
