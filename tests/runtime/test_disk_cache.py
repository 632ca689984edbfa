"""The compilation cache on disk: what it trusts, what it leaves behind, its bound, and processes that share it."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
from teucer._base import config
from teucer._runtime import compile, disk_cache
from teucer.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, not yet made, and nothing in memory."""
    compile.clear_memory()
    monkeypatch.setattr(disk_cache, "_unchecked", None)
    with config.cache_dir(str(tmp_path / "cache")), config.enable_compilation_cache(True):
        yield tmp_path / "cache"
    compile.clear_memory()


def compile_anew(scale=2.0):
    """Compile and run a program as a new process would: from disk, if it is there."""
    compile.clear_memory()
    assert float(jax.jit(lambda x: x * scale)(np.float32(3))) == 3 * scale


@pytest.fixture
def loads(monkeypatch):
    """The results of loading from disk, None where the entry did not load."""
    seen = []
    deserialize = compile.xla.deserialize

    def watched(*args):
        seen.append(None)
        seen[-1] = deserialize(*args)
        return seen[-1]

    monkeypatch.setattr(compile.xla, "deserialize", watched)
    return seen


def the_entry(folder):
    (entry,) = disk_cache.entries(folder)
    return entry


def test_entries_are_private_and_whole(folder, loads):
    compile_anew()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_entry(folder).stat().st_mode) == 0o600
    assert not loads
    compile_anew()
    assert len(loads) == 1 and loads[0] is not None


@pytest.mark.parametrize("damage", [
    lambda data: b"",
    lambda data: data[:20],
    lambda data: data[:-1],
    lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    lambda data: data + b"more",
], ids=["empty", "no checksum", "cut", "changed", "longer"])
def test_damaged_entries_are_replaced(folder, loads, damage):
    compile_anew()
    entry = the_entry(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    compile_anew()
    assert not loads  # never given to XLA
    assert len(the_entry(folder).read_bytes()) == len(whole)
    compile_anew()
    assert len(loads) == 1


def test_an_entry_that_xla_refuses_is_replaced(folder, loads):
    compile_anew()
    entry = the_entry(folder)
    disk_cache.write(entry, b"what another version wrote")
    compile_anew()
    assert loads == [None]
    compile_anew()
    assert loads[1] is not None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_entries_of_other_users_are_not_trusted(folder, loads, monkeypatch):
    compile_anew()
    owner = the_entry(folder).stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    compile_anew()
    assert bool(loads) == (owner == 0)  # root's are


def test_a_folder_that_cannot_be_made(tmp_path, folder):
    (tmp_path / "file").write_text("")
    with config.cache_dir(str(tmp_path / "file" / "cache")):
        compile_anew()
        with config.raise_persistent_cache_errors(True), pytest.raises(OSError, match="file"):
            compile_anew()


def test_a_write_that_fails_leaves_nothing(folder, monkeypatch):
    def full(source, target):
        raise OSError("No space left on device")
    monkeypatch.setattr(os, "replace", full)
    compile_anew()
    assert list(folder.iterdir()) == []


def test_switched_off(folder):
    with config.enable_compilation_cache(False):
        assert disk_cache.cache_dir() is None
        compile_anew()
    assert not folder.exists()


@pytest.mark.parametrize("option", [config.persistent_cache_min_compile_time_secs(1e9),
                                    config.persistent_cache_min_entry_size_bytes(1 << 40), config.cache_max_bytes(0)])
def test_what_is_not_worth_keeping(folder, option):
    with option:
        compile_anew()
    assert disk_cache.entries(folder) == []


def test_where_the_folder_is(tmp_path, monkeypatch):
    with config.enable_compilation_cache(True), config.cache_dir(None):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert disk_cache.cache_dir() == tmp_path / "teucer"
        monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert disk_cache.cache_dir() == tmp_path / ".cache" / "teucer"
        with config.compilation_cache_dir("~/here"):
            assert disk_cache.cache_dir() == tmp_path / "here"
            with config.cache_dir("/there"):
                assert str(disk_cache.cache_dir()) == "/there"


def age(path, seconds):
    os.utime(path, (seconds, seconds))


def test_the_least_recently_used_go(folder):
    paths = [folder / f"{name}.xla" for name in "abcdef"]
    for path in paths:
        disk_cache.write(path, bytes(968))  # and a checksum: 1000 bytes
    for i, path in enumerate(paths):
        age(path, 1000 + i)
    assert disk_cache.read(paths[0]) == bytes(968)  # the oldest is used again
    (folder / "mine.txt").write_text("not an entry")
    with config.cache_max_bytes(4 * 1067):  # a sixteenth is left free: 4000 bytes
        disk_cache._unchecked = None
        disk_cache.write(folder / "g.xla", bytes(968))
    assert [p.name for p in disk_cache.entries(folder)] == ["a.xla", "e.xla", "f.xla", "g.xla"]
    assert (folder / "mine.txt").exists()


def test_the_bound_holds_from_store_to_store(folder):
    with config.compilation_cache_max_size(8000):
        for i in range(40):
            disk_cache.write(folder / f"{i}.xla", bytes(468))
            assert sum(p.stat().st_size for p in disk_cache.entries(folder)) <= 8000
        disk_cache.write(folder / "large.xla", bytes(9000))
        assert not (folder / "large.xla").exists()
        assert (folder / "39.xla").exists()


def test_no_bound(folder):
    with config.cache_max_bytes(-1):
        compile_anew()
    assert len(disk_cache.entries(folder)) == 1


def test_the_command_agrees(folder, capsys):
    compile_anew(2.0)
    compile_anew(4.0)
    (folder / ".new-unfinished").write_bytes(b"")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: 3 entries, 0.")
    assert main(["cache", "--clear"]) == 0
    assert list(folder.iterdir()) == []


def test_processes_that_write_the_same_entry(folder):
    program = "import teucer as jax; print(jax.jit(lambda x: x * 5 + 1)(2.0))"
    env = {**os.environ, "TEUCER_CACHE_DIR": str(folder), "JAX_ENABLE_COMPILATION_CACHE": "1"}
    running = [subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [p.communicate()[0] for p in running] == ["11.0\n"] * 3
    found = disk_cache.entries(folder)
    assert found and all(p.suffix == ".xla" for p in found)
    assert all(disk_cache.read(p) for p in found)
