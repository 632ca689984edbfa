"""The compilation cache on disk: what it trusts, what it leaves behind, its bound, and processes that share it."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
from teucer._base import config
from teucer._executables import compile, disk_cache
from teucer.cli import main
from teucer.experimental.compilation_cache import compilation_cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, not yet made, and nothing in memory."""
    compile.clear_memory()
    monkeypatch.setattr(disk_cache, "_uncounted", {})
    monkeypatch.setattr(disk_cache, "_complained", set())
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


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data + b"more",
    ],
    ids=["empty", "no checksum", "cut", "changed", "longer"],
)
def test_damaged_entries_are_replaced(folder, loads, damage):
    compile_anew()
    entry = the_entry(folder)
    entry.write_bytes(damage(entry.read_bytes()))
    compile_anew()
    assert not loads  # never given to XLA
    assert disk_cache.read(the_entry(folder)) is not None
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
        with pytest.warns(
            UserWarning, match="Error writing persistent compilation cache entry .*file"
        ):
            compile_anew()
        with config.raise_persistent_cache_errors(True), pytest.raises(OSError, match="file"):
            compile_anew()


def test_a_folder_that_cannot_be_found(folder):
    with config.cache_dir("~nosuchuser/cache"):
        with pytest.warns(
            UserWarning, match="Error finding persistent compilation cache entry ~nosuchuser.*home"
        ):
            compile_anew()
        assert disk_cache.cache_dir() is None
        with config.raise_persistent_cache_errors(True), pytest.raises(RuntimeError, match="home"):
            compile_anew()


def test_a_warning_comes_once_and_points_to_the_users_line(tmp_path, folder):
    (tmp_path / "file").write_text("")
    with (
        config.cache_dir(str(tmp_path / "file" / "cache")),
        pytest.warns(UserWarning, match="Error writing") as warned,
    ):
        [compile_anew(scale) for scale in (2.0, 3.0)]
    assert [w.filename for w in warned] == [__file__]


def test_what_cannot_be_written_is_a_miss(tmp_path, folder, monkeypatch):
    def full(source, target):
        raise OSError("No space left on device")

    with config.persistent_cache_min_compile_time_secs(1e9):
        compile_anew()
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        compile_anew()
    assert disk_cache.counts(folder)[:2] == (0, 2)


def test_a_write_that_fails_leaves_nothing(folder, monkeypatch):
    def full(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        compile_anew()
    assert disk_cache.entries(folder) == []


def test_switched_off(folder):
    with config.enable_compilation_cache(False):
        assert disk_cache.cache_dir() is None
        compile_anew()
    assert not folder.exists()


@pytest.mark.parametrize(
    "option",
    [
        config.persistent_cache_min_compile_time_secs(1e9),
        config.persistent_cache_min_entry_size_bytes(1 << 40),
        config.cache_max_bytes(0),
    ],
)
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


def test_the_folder_is_named_by_a_function(tmp_path, loads):
    before = jax.config.jax_compilation_cache_dir
    with config.enable_compilation_cache(True), config.cache_dir(None):
        try:
            compilation_cache.set_cache_dir(str(tmp_path / "named"))
            compile_anew()
            compilation_cache.reset_cache()
            compile_anew()
        finally:
            compilation_cache.set_cache_dir(before)
    assert the_entry(tmp_path / "named").exists() and len(loads) == 1


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
        (folder / disk_cache.COUNTS).unlink()  # nobody knows how large the cache is
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
    out = capsys.readouterr().out
    assert out.startswith(f"{folder}: 3 entries, 0.") and out.endswith(
        "0 hits, 2 misses since it was last cleared\n"
    )
    compile_anew(4.0)
    assert main(["cache"]) == 0
    assert "1 hit, 2 misses" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert list(folder.iterdir()) == []


def child(folder, program, *args):
    """A process with this cache."""
    env = {**os.environ, "TEUCER_CACHE_DIR": str(folder), "JAX_ENABLE_COMPILATION_CACHE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, args)], env=env, stdout=subprocess.PIPE, text=True
    )


def test_processes_that_write_the_same_entry(folder):
    program = "import teucer as jax; print(jax.jit(lambda x: x * 5 + 1)(2.0))"
    running = [child(folder, program) for _ in range(3)]
    assert [p.communicate()[0] for p in running] == ["11.0\n"] * 3
    found = disk_cache.entries(folder)
    assert found and all(p.suffix == ".xla" for p in found)
    assert all(disk_cache.read(p) for p in found)
    used = disk_cache.counts(folder)
    assert used.misses >= 1 and used.hits + used.misses >= 3


# At the n-th of the steps that the interpreter reports (files opened, renamed, removed) while a cache is in use, the process
# is killed.
KILLED = """
import os, signal, sys
import numpy as np, teucer as jax
from teucer._base import config
folder, left = sys.argv[1], int(sys.argv[2])
jax.jit(lambda x: x)(np.float32(1))

def count(event, args):
    global left
    if event.startswith(("open", "os.", "tempfile", "shutil", "fcntl")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
with config.cache_max_bytes(40_000):
    for i in range(12):
        assert float(jax.jit(lambda x: x * (i + 3))(np.float32(2))) == 2 * (i + 3)
print("alive")
"""


def test_killed_writers_do_no_harm(folder):
    steps = np.random.default_rng(3).integers(1, 60, 8)
    for process in [
        child(folder, KILLED, folder, step) for step in steps
    ]:  # they share the cache while they die
        assert process.communicate()[0] == "" and process.returncode == -9
    assert child(folder, KILLED, folder, 0).communicate()[0] == "alive\n"


@pytest.mark.parametrize("seed", range(4))
def test_files_damaged_at_random(folder, loads, seed):
    rng = np.random.default_rng(seed)
    for scale in range(2, 8):
        compile_anew(scale)
    for path in (*disk_cache.entries(folder), folder / disk_cache.COUNTS):
        data = bytearray(path.read_bytes())
        if rng.random() < 0.5:
            data = data[: rng.integers(len(data))]
        else:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
    for scale in range(2, 8):
        compile_anew(scale)
    assert not loads
    for scale in range(2, 8):
        compile_anew(scale)
    assert len(loads) == 6


def test_an_entry_under_another_name_is_not_trusted(folder, loads):
    compile_anew(2.0)
    first = the_entry(folder)
    compile_anew(3.0)
    (second,) = set(disk_cache.entries(folder)) - {first}
    second.write_bytes(first.read_bytes())
    compile_anew(3.0)
    assert not loads


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_entries_that_others_may_write_are_not_trusted(folder, loads):
    compile_anew()
    the_entry(folder).chmod(0o620)
    compile_anew()
    assert not loads
    assert stat.S_IMODE(the_entry(folder).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "flags", ["--xla_cpu_enable_fast_math=false", "--xla_cpu_enable_fast_min_max=false"]
)
def test_code_for_other_flags(folder, loads, monkeypatch, flags):
    """What XLA_FLAGS says is a part of an entry's name: what was compiled under others is not used."""
    compile_anew()
    monkeypatch.setenv("XLA_FLAGS", flags)
    compile_anew()
    assert not loads
    assert len(disk_cache.entries(folder)) == 2
    monkeypatch.delenv("XLA_FLAGS")
    compile_anew()
    assert len(loads) == 1


def test_counts_wait_for_who_has_the_file(folder):
    """What is counted while another process holds the file is not lost, and not written over what that one writes."""
    fcntl = pytest.importorskip("fcntl", reason="files are locked in another way here")
    compile_anew()
    first = disk_cache.counts(folder)
    with (folder / disk_cache.COUNTS).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.read()
        compile_anew(7.0)
        disk_cache.counts(folder)
        file.seek(0)
        assert file.read() == before
    assert disk_cache.counts(folder).misses == first.misses + 1


def test_counts_are_of_all_processes(folder):
    program = "import teucer as jax; jax.jit(lambda x: x * 5 + 1)(2.0)"
    for _ in range(3):
        assert child(folder, program).communicate() == ("", None)
    first = disk_cache.counts(folder)
    assert first.hits == 2 * first.misses > 0
    (folder / disk_cache.COUNTS).write_bytes(b"of another version")
    assert disk_cache.counts(folder)[:2] == (0, 0)
    assert child(folder, program).communicate() == ("", None)
    assert disk_cache.counts(folder)[:2] == (first.misses, 0)


def test_the_bound_holds_for_processes_together(folder):
    with config.compilation_cache_max_size(8000):
        for i in range(40):
            disk_cache._uncounted.clear()  # as another process
            disk_cache.write(folder / f"{i}.xla", bytes(468))
            assert sum(p.stat().st_size for p in disk_cache.entries(folder)) <= 8000


def test_programs_on_several_devices(folder, loads):
    """An SPMD module over all devices, laid out by Shardy, is kept as others are."""
    devices = jax.devices()
    n = len(devices)
    text = f"""module @spmd attributes {{mhlo.num_partitions = {n} : i32, mhlo.num_replicas = 1 : i32}} {{
      sdy.mesh @mesh = <["x"={n}]>
      func.func public @main(%arg0: tensor<{4 * n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
          -> (tensor<{4 * n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) {{
        %0 = stablehlo.add %arg0, %arg0 : tensor<{4 * n}xf32>
        return %0 : tensor<{4 * n}xf32>
      }}
    }}"""

    def sources():
        compile.clear_memory()
        return [
            compile.compile_module(text, on, use_shardy=True)[1] for on in (devices, devices[::-1])
        ]

    assert sources() == ["compiled", "compiled"]  # the order of the devices is part of the program
    assert sources() == ["disk", "disk"]
    assert len(loads[0].local_devices()) == n


def test_programs_compiled_ahead_of_time(folder, loads):
    def compiled(**options):
        compile.clear_memory()
        return float(jax.jit(lambda x: x * 7).lower(np.float32(2)).compile(options)(np.float32(2)))

    assert compiled() == compiled(xla_backend_optimization_level=1) == 14
    assert not loads and len(disk_cache.entries(folder)) == 2
    assert compiled() == compiled(xla_backend_optimization_level=1) == 14
    assert len(loads) == 2


@pytest.mark.parametrize(
    "option",
    [
        config.optimization_level("O1"),
        config.memory_fitting_level("O0"),
        config.disable_most_optimizations(not config.disable_most_optimizations.value),
    ],
)
def test_effort_is_part_of_the_key(folder, loads, option):
    f = jax.jit(lambda x: x * 3)
    assert float(f(np.float32(3))) == 9
    with option:
        assert float(f(np.float32(3))) == 9
    assert not loads and len(disk_cache.entries(folder)) == 2
