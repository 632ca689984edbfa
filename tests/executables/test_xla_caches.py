"""What compilers for GPUs keep beside the entries of the cache, without a GPU: the CPU's compiler
is given the same options."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer._base import config
from teucer._executables import compile, disk_cache, prefetch, xla_caches
from teucer._targets.gpu.target import GPU
from teucer._targets.table import target_of
from teucer.cli import main

TUNED, KERNELS = "xla_gpu_per_fusion_autotune_cache_dir", "xla_gpu_kernel_cache_file"
MODE = "xla_gpu_experimental_autotune_cache_mode"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Iterator[Path]:
    """A cache of its own, and a CPU whose compiler keeps what those of GPUs keep."""
    compile.clear_memory()
    monkeypatch.setattr(disk_cache, "_uncounted", {})
    monkeypatch.setattr(disk_cache, "_complained", set())
    monkeypatch.setattr(type(target_of("cpu")), "own_caches", GPU.own_caches)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    with config.cache_dir(str(tmp_path / "cache")), config.enable_compilation_cache(True):
        yield tmp_path / "cache"
    compile.clear_memory()


@pytest.fixture
def told(monkeypatch: Any) -> list[dict[str, Any]]:
    """The debug options for GPUs of each compilation."""
    seen: list[dict[str, Any]] = []
    real = compile.xla.compile_text

    def watched(client: Any, text: str, devices: Any, options: Any, *rest: Any) -> Any:
        given = dict(options.env_option_overrides)
        seen.append({name: given[name] for name in given if name.startswith("xla_gpu_")})
        return real(client, text, devices, options, *rest)

    monkeypatch.setattr(compile.xla, "compile_text", watched)
    return seen


def compile_anew(scale: float = 2.0, **options: Any) -> None:
    compile.clear_memory()
    f = jax.jit(lambda x: x * scale, **options)
    assert float(f(np.float32(3))) == 3 * scale


def the_folder(cache: Path) -> Path:
    (own,) = cache.glob("compiler-*")
    return own


def test_results_of_autotuning_are_kept_in_the_cache(folder: Path, told: Any) -> None:
    compile_anew()
    kept = the_folder(folder) / "autotuned"
    assert told == [{TUNED: str(kept)}] and kept.is_dir()
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    compile_anew(3.0)
    assert told[1] == told[0]  # other programs share them


def test_the_path_is_no_part_of_the_key(folder: Path, told: Any, tmp_path: Path) -> None:
    with config.persistent_cache_enable_xla_caches("none"):
        compile_anew()
    compile_anew()  # from disk
    assert told == [{}]
    names = {entry.name for entry in disk_cache.entries(folder)}
    with config.cache_dir(str(tmp_path / "another")):
        compile_anew()
        assert {entry.name for entry in disk_cache.entries(tmp_path / "another")} == names
    assert len(told) == 2 and told[1][TUNED].startswith(str(tmp_path / "another"))


def test_prefetch_lists_do_not_name_the_folder(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(prefetch, "LEAST", 0)

    def f(x: Any) -> Any:
        return x * 5

    with config.preload(True):
        jax.jit(f)(np.float32(3))
    found = list(folder.glob("*.prefetch"))
    assert found and not any(b"autotuned" in path.read_bytes() for path in found)


def test_without_a_cache_nothing_is_kept(folder: Path, told: Any) -> None:
    with config.enable_compilation_cache(False):
        compile_anew()
    assert told == [{}] and not folder.exists()


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("none", set()),
        (None, set()),
        ("all", {TUNED, KERNELS}),
        (KERNELS, {KERNELS}),
        (f"{TUNED}, {KERNELS}", {TUNED, KERNELS}),
        ("another", set()),
    ],
)
def test_the_user_says_what_is_kept(folder: Path, told: Any, said: Any, names: set[str]) -> None:
    with config.persistent_cache_enable_xla_caches(said):
        compile_anew()
    assert set(told[0]) == names
    assert (not names) == (not list(folder.glob("compiler-*")))


def test_options_of_the_user_stay(
    folder: Path, told: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    mine = str(tmp_path / "mine")
    compile_anew(compiler_options={TUNED: mine})
    assert told == [{TUNED: mine}]
    monkeypatch.setenv("XLA_FLAGS", f"--{TUNED}={mine}")
    assert xla_caches.options(jax.devices()[0].client, set()) == {}


def test_a_folder_that_cannot_be_written_is_read(folder: Path, told: Any, monkeypatch: Any) -> None:
    compile_anew()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    with config.persistent_cache_enable_xla_caches("all"):
        compile_anew(4.0)
    assert told[1] == {**told[0], MODE: "AUTOTUNE_CACHE_MODE_READ"}


def test_a_folder_that_cannot_be_made_or_that_others_may_write_is_not_used(
    folder: Path, told: Any
) -> None:
    compile_anew()
    own = the_folder(folder)
    own.chmod(0o777)
    compile_anew(4.0)
    assert told[1] == {}
    own.chmod(0o700)
    (own / "autotuned").rmdir()
    (own / "autotuned").write_text("no folder")
    with pytest.warns(UserWarning, match="Error writing persistent compilation cache"):
        compile_anew(5.0)
    assert told[2] == {}
    with (
        config.raise_persistent_cache_errors(True),
        pytest.raises(OSError, match="autotuned"),
    ):
        compile_anew(6.0)


def test_results_count_in_the_size_of_the_cache(folder: Path, capsys: Any) -> None:
    compile_anew()
    kept = the_folder(folder) / "autotuned"
    (kept / "one").write_bytes(bytes(3 << 20))
    assert disk_cache.kept_by_compilers(folder) == [kept / "one"]
    assert main(["cache"]) == 0
    assert "1 entry, 1 result of autotuning, 3.0 of" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert "removed 1 entry" in capsys.readouterr().out
    assert not disk_cache.kept_by_compilers(folder) and kept.is_dir()


def test_the_least_recently_used_results_go(folder: Path) -> None:
    compile_anew()
    kept = the_folder(folder) / "autotuned"
    for i in range(4):
        (kept / str(i)).write_bytes(bytes(1 << 20))
        os.utime(kept / str(i), (i, i))
    with config.cache_max_bytes(5 << 19):
        disk_cache.write(folder / "new.xla", bytes(1 << 20))
    assert [path.name for path in disk_cache.kept_by_compilers(folder)] == ["3"]
    assert (folder / "new.xla").exists()


def test_each_version_of_the_compiler_has_a_folder(folder: Path, monkeypatch: Any) -> None:
    client = jax.devices()[0].client
    first = xla_caches.options(client, set())
    assert first == xla_caches.options(client, set())
    monkeypatch.setattr(compile.xla, "jaxlib_version", "0.99")
    assert xla_caches.options(client, set()) != first
