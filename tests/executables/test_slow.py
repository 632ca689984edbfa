"""The line for compilations that take long."""

import logging
import subprocess
import sys
import threading

import numpy as np

import teucer as jax
from teucer._base import config
from teucer._executables import slow
from teucer._xla import client as xla


def test_a_long_compilation_says_what_it_compiles(caplog, monkeypatch):
    compiled, said, heard = xla.compile_text, [], threading.Lock()
    heard.acquire()

    class Listener(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            heard.release()

    def compile_text(*args):
        heard.acquire(timeout=30)  # in C, so that the user's line is on top
        return compiled(*args)

    listener = Listener()
    monkeypatch.setattr(logging.getLogger("teucer"), "handlers", [listener])
    monkeypatch.setattr(xla, "compile_text", compile_text)
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("teucer_warn_slow_compile", 0.01)
    try:
        with caplog.at_level(logging.WARNING, "teucer"):

            @jax.jit
            def step(x, n):
                return x * n + 12.625

            step(np.ones((2, 3), np.float32), 3)
            assert len(said) == 1
    finally:
        jax.config.update("teucer_warn_slow_compile", 5.0)
        jax.config.update("jax_enable_compilation_cache", True)
    assert said[0].startswith("XLA has been compiling jit_step(2x3xf32, i32), ")
    assert f"seconds, at {__file__}:" in said[0] and "TEUCER_WARN_SLOW_COMPILE=0" in said[0]


def test_short_compilations_share_one_thread(caplog):
    before = threading.active_count()
    for i in range(20):
        with slow.watched("module @short {\n}\n"):
            assert i >= 0
    assert threading.active_count() <= before + 1
    assert not slow._watcher.running and not caplog.records


def test_zero_turns_it_off(monkeypatch):
    jax.config.update("teucer_warn_slow_compile", 0.0)
    try:
        with slow.watched("module @m {\n}\n"):
            assert not slow._watcher.running
    finally:
        jax.config.update("teucer_warn_slow_compile", 5.0)
    assert config.warn_slow_compile.value == 5.0


def test_a_forked_process_has_a_watcher_of_its_own():
    program = """
import os, time, warnings
from teucer._executables import slow
import numpy as np

import teucer as jax
jax.config.update("teucer_warn_slow_compile", 0.01)
with slow.watched("module @parent {}"):
    time.sleep(0.3)
warnings.simplefilter("ignore")
if os.fork() == 0:
    with slow.watched("module @child {}"):
        time.sleep(0.3)
    os._exit(0)
os.wait()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert [word for word in ("parent()", "child()") if word in ran.stderr] == [
        "parent()",
        "child()",
    ]
