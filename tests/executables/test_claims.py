"""Who compiles a program of a job: the first that claims it, and another one if that fails."""

import threading
import time
from types import SimpleNamespace

import pytest

from teucer._base import config
from teucer._devices import processes
from teucer._executables.remote import claims
from teucer._xla.client import XlaRuntimeError


class Service:
    """Keys and values, as the coordination service has them."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def key_value_set(self, key, value, allow_overwrite):
        with self.changed:
            if key in self.values and not allow_overwrite:
                raise XlaRuntimeError("ALREADY_EXISTS")
            self.values[key] = value
            self.changed.notify_all()

    def blocking_key_value_get(self, key, milliseconds):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, milliseconds / 1000):
                raise XlaRuntimeError("DEADLINE_EXCEEDED")
            return self.values[key]


@pytest.fixture
def state(monkeypatch):
    """Process 1 of two."""
    state = SimpleNamespace(process_id=1, client=Service(), watch=SimpleNamespace(failed=set()))
    monkeypatch.setattr(processes, "state", state)
    return state


@pytest.fixture
def other(state):
    """The claim of process 0 on a program."""
    state.process_id = 0
    claim = claims.claim("program")
    state.process_id = 1
    return claim


def in_thread(state):
    done = []
    thread = threading.Thread(target=lambda: done.append(claims.claim("program")))
    thread.start()
    return thread, done


def test_the_first_has_it_and_has_it_again(state):
    assert claims.claim("program") is not None
    assert claims.claim("program") is not None  # evicted meanwhile
    assert claims.claim("another") is not None


@pytest.mark.parametrize("uploaded", [True, False])
def test_others_wait_for_the_upload(state, other, uploaded):
    thread, done = in_thread(state)
    other.compiled(100)
    other.ended(uploaded)
    thread.join(20)
    assert done == [None]


def test_who_cannot_be_serialized_is_not_waited_for(state, other):
    other.ended(False)
    start = time.monotonic()
    assert claims.claim("program") is None
    assert time.monotonic() - start < 1


def test_who_fails_is_not_waited_for(state, other, monkeypatch):
    monkeypatch.setattr(claims, "_LOOK", 10)
    thread, done = in_thread(state)
    state.watch.failed.add(0)
    thread.join(20)
    assert done == [None]


def test_nobody_waits_for_ever(state, other):
    with config.cache_wait(0):
        assert claims.claim("program") is None
    other.compiled(0)
    with config.cache_wait(1), config.cache_patience(0.0):  # of an upload that hangs
        assert claims.claim("program") is None


def test_a_service_that_is_gone_hurts_nobody(state, other, monkeypatch):
    def gone(*args, **kwargs):
        raise XlaRuntimeError("UNAVAILABLE")

    monkeypatch.setattr(state.client, "key_value_set", gone)
    monkeypatch.setattr(state.client, "blocking_key_value_get", gone)
    assert claims.claim("program") is None
    other.ended(True)
    state.client = None
    other.ended(True)
