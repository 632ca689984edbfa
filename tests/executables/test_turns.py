"""Of several processes that need one program, one compiles it and the others wait, as long as it
lives and with a bound."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import teucer as jax
from teucer._base import config
from teucer._executables import compile, disk_cache, turns


@pytest.fixture
def waiting(monkeypatch):
    """Waits until so many threads have seen that another one has the turn."""
    turns_of, pause = threading.Semaphore(0), turns.sleep
    seen = set()

    def noted(seconds):
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            turns_of.release()
        pause(seconds)

    monkeypatch.setattr(turns, "sleep", noted)
    return lambda count: all(turns_of.acquire(timeout=10) for _ in range(count))


@pytest.fixture
def folder(tmp_path):
    """A cache of its own, and nothing in memory."""
    compile.clear_memory()
    with config.cache_dir(str(tmp_path)), config.enable_compilation_cache(True):
        yield tmp_path
    compile.clear_memory()


HOLDER = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(handle, fcntl.LOCK_EX)
print("has it", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the turn for an entry, until it is killed."""
    file = tmp_path / f"{disk_cache.UNFINISHED}entry"
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", HOLDER, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "has it\n"
    yield process
    process.kill()
    process.communicate()


def in_thread(work):
    """The thread of a function, and a list for its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def waits_for(path):
    with turns.turn(path) as waited:
        return waited, path.with_name(disk_cache.UNFINISHED + path.name).exists()


def test_the_file_goes_between_opening_and_locking(tmp_path, monkeypatch):
    """The one that had it has ended: its entry may be there, and nothing is waited for."""
    opened, calls = os.open, []

    def lost(path, *args):
        handle = opened(path, *args)
        os.unlink(path)
        return handle

    def locked(handle, how):
        calls.append(how)
        assert len(calls) < 3

    monkeypatch.setattr(turns, "fcntl", SimpleNamespace(flock=locked, LOCK_EX=2, LOCK_NB=4))
    monkeypatch.setattr(os, "open", lost)
    with config.cache_wait(5):
        assert waits_for(tmp_path / "entry") == (True, False)
    assert calls == [6]


def test_who_waits_goes_on_when_the_other_has_ended(tmp_path, waiting):
    path, threads = tmp_path / "entry", []
    with turns.turn(path) as waited:
        assert not waited
        threads = [in_thread(lambda: waits_for(path)) for _ in range(3)]
        assert waiting(3)
    for thread, found in threads:
        thread.join(10)
        assert found == [
            (True, False)
        ]  # it has waited, and takes no lock: the entry is there, or cannot be
    assert not list(tmp_path.iterdir())


def test_who_dies_is_followed_by_another(tmp_path, holder, waiting):
    thread, found = in_thread(lambda: waits_for(tmp_path / "entry"))
    assert waiting(1)
    holder.kill()
    thread.join(10)
    assert found == [(True, True)]  # this one has the lock now


def test_nobody_waits_for_ever(tmp_path, holder):
    with config.cache_wait(1):
        start = time.monotonic()
        assert waits_for(tmp_path / "entry") == (True, True)
        assert 1 <= time.monotonic() - start < 9
    with config.cache_wait(0):
        assert waits_for(tmp_path / "entry") == (False, True)


def test_a_folder_that_cannot_be_written_is_no_reason_to_wait():
    with turns.turn(disk_cache.Path("/proc/none/entry")) as waited:
        assert not waited


def test_one_thread_compiles_and_the_others_load(folder, monkeypatch, waiting):
    compiled, begun, go = [], threading.Event(), threading.Event()
    real = compile.xla.compile_text

    def slowly(client, text, *args):
        if "jit_watched" in text:
            compiled.append(threading.current_thread())
            begun.set()
            assert go.wait(10)
        return real(client, text, *args)

    monkeypatch.setattr(compile.xla, "compile_text", slowly)
    jax.debug.compiles().clear()
    options = config.of_this_thread()

    def work():
        def watched(x):  # another function in each thread: one is compiled once without turns
            return x * 17 + 4

        config.adopt(options)
        return float(jax.jit(watched)(np.float32(2)))

    threads = [in_thread(work) for _ in range(3)]
    assert begun.wait(10) and waiting(2)
    go.set()
    for thread, found in threads:
        thread.join(10)
        assert found == [38.0]
    assert len(compiled) == 1
    sources = sorted(row.source for row in jax.debug.compiles() if row.function == "watched")
    assert sources[0] == "compiled" and set(sources[1:]) <= {"disk", "memory"}


PROGRAM = """
import sys, teucer as jax, teucer.numpy as jnp
sys.stdin.readline()
def f(x):
    for i in range(40):
        x = jnp.tanh(x @ x + i)
    return x
jax.jit(f)(jnp.ones((8, 8)))
print([row.source for row in jax.debug.compiles() if row.function == "f"])
"""


@pytest.mark.slow  # four processes
def test_one_of_four_processes_compiles(folder):
    command = [sys.executable, "-c", PROGRAM]
    env = {**disk_cache.os.environ, "TEUCER_CACHE_DIR": str(folder)}
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(4)
    ]
    said = []
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        said.append(process.communicate(timeout=100)[0])
    assert sorted(said) == ["['compiled']\n"] + ["['disk']\n"] * 3
