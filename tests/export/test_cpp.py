"""examples/cpp: an exported program runs from C++ through the PJRT C API.

Plugins for the CPU are no dependency of the tests.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent.parent / "examples" / "cpp"
PLUGINS = {
    "lammps_jax_pjrt_cpu": "pjrt_c_api_cpu_plugin.so",
    "fastatomstruct_xla_cpu": "libpjrt_cpu.so",
}


def found_plugins() -> list[str]:
    named = (
        [os.environ["TEUCER_TEST_PJRT_PLUGIN"]] if "TEUCER_TEST_PJRT_PLUGIN" in os.environ else []
    )
    for package, library in PLUGINS.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            named.append(str(Path(spec.origin).parent / library))
    return named


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: g++")
    folder: Path = tmp_path_factory.mktemp("cpp")
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            str(FOLDER / "run.cc"),
            "-o",
            str(folder / "run"),
            "-ldl",
        ],
        check=True,
        timeout=120,
    )
    return folder


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["./run", *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow  # g++ takes two to five seconds
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "usage: ./run PLUGIN.so PROGRAM"),
        (("none.so", "model.py"), "none.so: cannot open shared object file"),
        (("libm.so.6", "model.py"), "libm.so.6 is no PJRT plugin: it has no function GetPjrtApi"),
        (("none.so", "p", "f33[2]=x.bin"), "no type is named 'f33'"),
        (("none.so", "p", "f32[2]=absent.bin"), "cannot read absent.bin"),
        (("none.so", "p", "f32[2]=run"), "the file has"),
        (("none.so", "p", "x.bin"), "an argument is TYPE=FILE"),
    ],
)
def test_what_is_wrong_is_said(built: Path, words: tuple[str, ...], said: str) -> None:
    outcome = ran(built, *words)
    assert outcome.returncode in (1, 2)
    assert said in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["artifact", "stablehlo"])
def test_the_program_gives_what_python_gives(built: Path, form: str) -> None:
    plugins = found_plugins()
    if not plugins:
        pytest.skip("no PJRT plugin for the CPU is installed: lammps-jax-pjrt-cpu has one")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "teucer",
            "export",
            f"{FOLDER / 'model.py'}:predict",
            "--args",
            "f32[8],f32[2,8]",
            "--form",
            form,
            "-o",
            str(built / "predict.mlir"),
        ],
        check=True,
        timeout=300,
        cwd=FOLDER.parent.parent,
    )
    offset, x = np.full(8, 0.1, np.float32), np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    offset.tofile(built / "offset.bin")
    x.tofile(built / "x.bin")
    spec = importlib.util.spec_from_file_location("exported_model", FOLDER / "model.py")
    assert spec is not None and spec.loader is not None
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    probabilities, likeliest = model.predict(offset, x)
    for plugin in plugins:
        outcome = ran(built, plugin, "predict.mlir", "f32[8]=offset.bin", "f32[2,8]=x.bin")
        assert outcome.returncode == 0, outcome.stderr[-2000:]
        assert "out0.bin f32[2,3]" in outcome.stdout and "out1.bin i32[2]" in outcome.stdout
        np.testing.assert_allclose(
            np.fromfile(built / "out0.bin", np.float32).reshape(2, 3), probabilities, rtol=1e-5
        )
        np.testing.assert_array_equal(np.fromfile(built / "out1.bin", np.int32), likeliest)
        lacking = ran(built, plugin, "predict.mlir", "f32[8]=offset.bin")
        assert lacking.returncode == 1 and "expected 2" in lacking.stderr
        (built / "empty").touch()
        assert "the program is empty" in ran(built, plugin, "empty").stderr
