"""Executables loaded ahead.

What a prefetch list names, what is taken of it, and lists that turn out to be wrong.
"""

import logging
import os
import threading

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer._executables import compile, disk_cache, prefetch
from teucer._programs import compile as programs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, in which every program is worth a prefetch."""
    monkeypatch.setattr(prefetch, "LEAST", 1)
    new_process()
    with config.cache_dir(str(tmp_path / "cache")), config.enable_compilation_cache(True):
        yield tmp_path / "cache"
    new_process()


@pytest.fixture
def loads(monkeypatch):
    """The names of the threads that load from disk, one a load, and whether it succeeded."""
    seen = []
    deserialize = compile.xla.deserialize

    def watched(*args):
        try:
            found = deserialize(*args)
        except compile.xla.XlaRuntimeError:
            seen.append((threading.current_thread().name, False))
            raise
        seen.append((threading.current_thread().name, True))
        return found

    monkeypatch.setattr(compile.xla, "deserialize", watched)
    return seen


def new_process():
    """Forget what a process knows and a new one does not."""
    jax.clear_caches()
    compile.clear_memory()
    prefetch._traced.clear()


def wait():
    for thread in threading.enumerate():
        if thread.name == prefetch.THREAD:
            thread.join()


def program(scale=2.0):
    """A function that does not end its trace before what is prefetched has been loaded."""

    def f(x):
        wait()
        return jnp.sin(x) * scale

    return jax.jit(f)


def prefetch_lists(folder):
    return sorted(p for p in folder.iterdir() if p.suffix == disk_cache.PREFETCH)


AHEAD = (prefetch.THREAD, True)
X = np.arange(3, dtype=np.float32)


def test_the_second_process_loads_while_it_traces(folder, loads):
    first = program()(X)
    assert len(prefetch_lists(folder)) == 1 and not loads
    new_process()
    np.testing.assert_array_equal(program()(X), first)
    assert loads == [AHEAD]
    assert not prefetch._pending


def test_on_the_device_that_a_program_names(folder, loads):
    def on(device):
        def f(x):
            wait()
            return jax.device_put(jnp.sin(x), jax.sharding.SingleDeviceSharding(device))

        return jax.jit(f)

    first, second = jax.devices("cpu")[:2]
    for device in (second, second, first, first):
        new_process()
        y = on(device)(X)
        assert y.device == device and y.committed
        np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    assert loads == [AHEAD] * 3  # the second in vain: its program was for another device
    assert disk_cache.counts(folder)[:2] == (2, 2)


def test_stages_too(folder, loads):
    compiled = program().trace(X).lower().compile()
    new_process()
    np.testing.assert_array_equal(program().trace(X).lower().compile()(X), compiled(X))
    assert loads == [AHEAD]


def test_a_function_that_has_changed_is_compiled(folder, loads):
    program(2.0)(X)
    new_process()
    np.testing.assert_allclose(program(3.0)(X), np.sin(X) * 3, rtol=1e-6)
    assert loads == [AHEAD] and not prefetch._pending  # in vain
    new_process()
    np.testing.assert_allclose(program(3.0)(X), np.sin(X) * 3, rtol=1e-6)
    assert loads == [AHEAD, AHEAD]
    assert disk_cache.counts(folder)[:2] == (1, 2)  # what was loaded in vain is no hit
    (entry,) = prefetch._decoded(disk_cache.read(prefetch_lists(folder)[0])).entries
    assert (folder / entry.name).exists()


def test_functions_of_one_place_have_a_prefetch_list_each(folder, loads):
    for _ in range(2):
        new_process()
        for scale in (2.0, 3.0):
            np.testing.assert_allclose(program(scale)(X), np.sin(X) * scale, rtol=1e-6)
    assert len(prefetch_lists(folder)) == 2 and loads == [AHEAD, AHEAD]


def test_other_types_have_another(folder, loads):
    program()(X)
    new_process()
    program()(np.ones(4, np.float32))
    assert len(prefetch_lists(folder)) == 2 and not loads


def test_code_for_another_processor_is_not_loaded(folder, loads, monkeypatch):
    program()(X)
    new_process()
    monkeypatch.setattr(prefetch.cpu_features, "host", lambda: "another")
    program()(X)
    assert not loads and len(prefetch_lists(folder)) == 2


def test_all_pieces_are_loaded_ahead(folder, loads):
    def layer(x, w):
        x = x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) - jnp.exp(-x * x)
        return x * jnp.log1p(x * x) + jnp.sqrt(x * x + 1)

    def network(x, ws):
        wait()
        for w in ws:
            x = layer(x, w)
        return x

    x, ws = np.full((256, 256), 0.01, np.float32), [np.full((256, 256), 0.01, np.float32)] * 60
    compiled = jax.jit(network, outline=True).lower(x, ws).compile()
    pieces = len(compiled.program.executables)
    expected = compiled(x, ws)
    assert (
        pieces > 1
        and len(prefetch._decoded(disk_cache.read(prefetch_lists(folder)[0])).entries) == pieces
    )
    new_process()
    np.testing.assert_array_equal(jax.jit(network, outline=True)(x, ws), expected)
    assert loads == [AHEAD] * pieces


def test_over_a_mesh(folder, loads):
    devices = jax.devices("cpu")
    assert len(devices) > 1
    split = jax.NamedSharding(jax.make_mesh((2,), ("i",), devices=devices[:2]), jax.P("i"))
    x = jax.device_put(np.arange(8, dtype=np.float32), split)
    first = program()(x)
    assert len(prefetch_lists(folder)) == 1
    new_process()
    second = program()(x)
    assert AHEAD in loads and second.sharding == first.sharding
    np.testing.assert_array_equal(second, first)


@pytest.mark.parametrize("suffix", [disk_cache.SUFFIX, disk_cache.PREFETCH])
def test_damage_costs_time_only(folder, loads, suffix):
    first = program()(X)
    for path in folder.iterdir():
        if path.suffix == suffix:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
    new_process()
    np.testing.assert_array_equal(program()(X), first)
    new_process()
    np.testing.assert_array_equal(program()(X), first)
    assert loads[-1] == AHEAD


@pytest.mark.parametrize("content", [b"", b"XLA knows nothing of this"])
def test_an_entry_that_xla_refuses_is_compiled(folder, loads, content):
    first = program()(X)
    (entry,) = disk_cache.entries(folder)
    disk_cache.write(entry, content)
    new_process()
    np.testing.assert_array_equal(program()(X), first)
    assert not any(succeeded for _, succeeded in loads)


def test_prefetch_lists_of_devices_that_are_not_there(folder, loads):
    program()(X)
    (path,) = prefetch_lists(folder)
    known = prefetch._decoded(disk_cache.read(path))
    (entry,) = known.entries
    for other in (
        entry._replace(devices=(1 << 20,)),
        entry._replace(platform="abacus"),
        entry._replace(name="gone.xla"),
    ):
        disk_cache.write(path, prefetch._encoded(known._replace(entries=(other,))))
        new_process()
        np.testing.assert_allclose(program()(X), np.sin(X) * 2, rtol=1e-6)
        assert loads.pop() == (threading.current_thread().name, True) and not loads


def test_who_comes_before_the_thread_loads_itself(folder, loads, monkeypatch):
    program()(X)
    new_process()

    class NeverStarted(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(prefetch.threading, "Thread", NeverStarted)
    np.testing.assert_allclose(program()(X), np.sin(X) * 2, rtol=1e-6)
    assert loads == [(threading.current_thread().name, True)]


def test_nobody_waits_for_what_was_left(folder, monkeypatch):
    program()(X)
    (path,) = prefetch_lists(folder)
    (entry,) = prefetch._decoded(disk_cache.read(path)).entries
    both = prefetch._encoded(
        prefetch.PrefetchList((entry._replace(name="a.xla"), entry._replace(name="b.xla")))
    )
    disk_cache.write(path, both)
    reading, go_on = threading.Event(), threading.Event()

    def slowly(path):
        reading.set()
        go_on.wait()

    monkeypatch.setattr(prefetch.disk_cache, "read", lambda p: both if p == path else slowly(p))
    found = prefetch.Prefetch(path)
    reading.wait()
    left = prefetch._pending[folder / "b.xla"]
    found.settle({}, None)
    assert left.ended.is_set() and prefetch.take(folder / "b.xla") is None
    go_on.set()
    wait()


def test_a_trace_that_fails_leaves_nothing(folder, loads):
    flag = [False]

    def f(x):
        wait()
        if flag[0]:
            raise ValueError("this time not")
        return jnp.sin(x)

    jax.jit(f)(X)
    new_process()
    flag[0] = True
    with pytest.raises(ValueError, match="this time not") as caught:
        jax.jit(f)(X)
    del caught
    assert loads == [AHEAD]
    assert not prefetch._pending


def test_small_programs_and_those_of_the_library_have_none(folder, monkeypatch):
    jnp.linspace(0, 1, 5)
    assert not prefetch_lists(folder)
    monkeypatch.setattr(prefetch, "LEAST", 1 << 30)
    program()(X)
    assert not prefetch_lists(folder)


@pytest.mark.parametrize("option", ["preload", "enable_compilation_cache"])
def test_it_can_be_switched_off(folder, loads, option):
    program()(X)
    new_process()
    with getattr(config, option)(False):
        program()(X)
    assert AHEAD not in loads


def test_prefetch_lists_are_no_entries_but_go_with_them(folder):
    program()(X)
    assert len(disk_cache.entries(folder)) == 1 and len(prefetch_lists(folder)) == 1
    assert disk_cache.counts(folder)[:2] == (0, 1)
    assert disk_cache.clear(folder) == 1
    assert os.listdir(folder) == []


def compiled(monkeypatch, f, *args, options=None, **kwargs):
    """The stages of a new process; and whether the program was optimised and lowered for it, or
    prefetched."""
    new_process()
    seen = []
    prepared = programs.prepared

    def watched(*args):
        seen.append(args)
        return prepared(*args)

    monkeypatch.setattr(programs, "prepared", watched)
    made = jax.jit(f, **kwargs).lower(*args).compile(options)
    monkeypatch.setattr(programs, "prepared", prepared)
    return made, not seen


def layers(x, unused, w):
    """What the passes change: as it is written, it takes all of its arguments."""
    wait()
    for _ in range(3):
        x = jnp.where(True, jnp.tanh(x @ w) + x * 1.0, unused)
    return x.sum(), (w, x)


ARGS = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), np.full((4, 4), 0.1, np.float32)


def test_a_program_that_is_prefetched_is_not_optimised_again(folder, monkeypatch):
    first, taken = compiled(monkeypatch, layers, *ARGS)
    second, again = compiled(monkeypatch, layers, *ARGS)
    assert (taken, again) == (False, True)
    for a, b in zip(jax.tree.leaves(first(*ARGS)), jax.tree.leaves(second(*ARGS)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (
        first.program.kept == second.program.kept == (True, False, True)
        and first.input_shardings == second.input_shardings
    )
    assert first.as_text() == second.as_text() and first.cost_analysis() == second.cost_analysis()
    assert str(first.input_formats) == str(second.input_formats)
    assert jax.debug.compiles()[-1].source == "disk" and jax.debug.compiles()[-1].code_bytes
    assert disk_cache.counts(folder).misses == 1


def test_called_through_jit(folder, monkeypatch):
    expected = jax.jit(layers)(*ARGS)
    new_process()
    monkeypatch.setattr(programs, "prepared", None)
    f = jax.jit(layers)
    for _ in range(3):
        for a, b in zip(jax.tree.leaves(f(*ARGS)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
    assert disk_cache.counts(folder)[:2] == (1, 1)


def test_machine_code_that_was_let_go_comes_back(folder):
    expected = jax.jit(layers)(*ARGS)
    new_process()
    f = jax.jit(layers)
    f(*ARGS)
    assert compile._let_go()
    for a, b in zip(jax.tree.leaves(f(*ARGS)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


DIFFERENCES = {
    "outline": {"outline": True},
    "keep_unused": {"keep_unused": True},
    "donate": {"donate_argnums": 0},
    "compiler options": {"options": {"xla_cpu_enable_fast_min_max": True}},
    "compiler options of jit": {"compiler_options": {"xla_cpu_enable_fast_min_max": True}},
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_has_a_say_is_looked_at(folder, monkeypatch, name):
    compiled(monkeypatch, layers, *ARGS)
    assert not compiled(monkeypatch, layers, *ARGS, **DIFFERENCES[name])[1]
    assert compiled(monkeypatch, layers, *ARGS, **DIFFERENCES[name])[1]
    assert not compiled(monkeypatch, layers, *ARGS)[1]


@pytest.mark.parametrize(
    "option, value",
    [("optimize_jaxprs", False), ("outline", "force"), ("disable_most_optimizations", None)],
)
def test_options_have_a_say(folder, monkeypatch, option, value):
    compiled(monkeypatch, layers, *ARGS)
    option = getattr(config, option)
    with option(not option.value if value is None else value):
        assert not compiled(monkeypatch, layers, *ARGS)[1]
        assert compiled(monkeypatch, layers, *ARGS)[1]


def test_another_teucer_has_its_own_passes(folder, monkeypatch):
    compiled(monkeypatch, layers, *ARGS)
    monkeypatch.setattr(compile, "_own_files", lambda: "another")
    assert not compiled(monkeypatch, layers, *ARGS)[1]


def test_another_device(folder, monkeypatch):
    one, other = jax.devices("cpu")[:2]
    compiled(monkeypatch, layers, *ARGS)
    args = jax.device_put(ARGS, other)
    for taken in (False, True):
        second, again = compiled(monkeypatch, layers, *args)
        assert again == taken and second(*args)[0].devices() == {other}


def test_dumped_programs_are_those_that_are_compiled(folder, monkeypatch, tmp_path):
    with config.dump_ir_to(str(tmp_path / "dumped")):
        for _ in range(2):
            new_process()
            jax.jit(layers)(*ARGS)
    first, second = sorted((tmp_path / "dumped").iterdir())
    assert first.read_text() == second.read_text()


def test_what_is_logged_does_not_tell_them_apart(folder, caplog):
    logged = []
    for _ in range(2):
        new_process()
        with jax.log_compiles(), caplog.at_level(logging.WARNING, "teucer"):
            jax.jit(layers)(*ARGS)
        logged.append([record.msg for record in caplog.records])
        caplog.clear()
    assert logged[0] == logged[1]


@pytest.mark.parametrize("number", range(20))
def test_prefetched_programs_of_chance(folder, monkeypatch, number):
    rng = np.random.default_rng(number)
    steps = [(int(rng.integers(6)), float(rng.integers(3))) for _ in range(int(rng.integers(2, 9)))]

    def f(x, y, unused):
        wait()
        for kind, scale in steps:
            x, y = [
                lambda x, y: (x * scale, y),
                lambda x, y: (x + y, y),
                lambda x, y: (y, x),
                lambda x, y: (jnp.sin(x), x),
                lambda x, y: (jnp.where(y > scale, x, y), y),
                lambda x, y: (x @ y, x.T),
            ][kind](x, y)
        return x, y, x

    args = [rng.standard_normal((3, 3)).astype(np.float32) for _ in range(3)]
    g = jax.value_and_grad(lambda *a: f(*a)[0].sum(), (0, 1))
    first, _ = compiled(monkeypatch, g, *args)
    second, again = compiled(monkeypatch, g, *args)
    assert again
    for a, b in zip(jax.tree.leaves(first(*args)), jax.tree.leaves(second(*args)), strict=True):
        np.testing.assert_array_equal(a, b)
