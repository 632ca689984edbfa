"""The `teucer` command: what is printed at once, and what goes wrong with outputs."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import _teucer_command
from teucer.cli import _doctor, _main, _run, main

ROOT = pathlib.Path(_teucer_command.__file__).parent
COMMAND = [sys.executable, str(ROOT / "_teucer_command.py")]
IMPORTED = """
import sys
sys.argv = ["teucer", *{args}]
import _teucer_command
try:
    _teucer_command.main()
except SystemExit:
    pass
print([name for name in ("numpy", "teucer", "jaxlib") if name in sys.modules], file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command changes sys.path, and gives Teucer the name jax, as a process of its own may."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(_run, "as_jax", lambda: None)


@pytest.mark.parametrize("args", [[], ["--help"], ["show", "--help"], ["show", "--nosuch", "x"]])
def test_help_and_mistakes_import_nothing(args: list[str]) -> None:
    code = IMPORTED.format(args=args)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stderr.splitlines()[-1] == "[]"
    assert "usage: teucer" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    ["jaxpr x", "show x", "check x", "export x", "cache", "devices", "doctor", "tune", "guard"]
    + ["demo", "errors", "completions bash"],
)
def test_mistakes_show_the_usage_of_their_command(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*words.split(), "--nosuch"])
    said = capsys.readouterr().err
    assert said.startswith(f"usage: teucer {words.split()[0]} ") and "--nosuch" in said


def test_a_full_disk_is_a_line(tmp_path: pathlib.Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    path = tmp_path / "f.py"
    path.write_text("def f(x): return x\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "jaxpr", f"{path}:f", "--args", "f32[3]"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        2, "teucer jaxpr: the output: No space left on device.\n",
    )  # fmt: skip


def test_a_folder_that_is_not_there_is_a_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.py"
    path.write_text("def f(x): return x\n")
    place = str(tmp_path / "absent" / "page.html")
    for command in ("show", "export", "check"):
        assert main([command, f"{path}:f", "--args", "f32[3]", "-o", place]) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(rf"teucer {command}: .*No such file or directory\.\n", said), said


def test_profile_of_no_file_leaves_the_last_profile(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "profile" / "profile.html"
    kept.parent.mkdir()
    kept.write_text("the last one")
    assert main(["profile", "-o", str(kept.parent), str(tmp_path / "nosuch.py")]) == 2
    assert kept.read_text() == "the last one"
    assert "there is no file" in capsys.readouterr().err


def test_errors_explains_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors"]) == 0
    names = capsys.readouterr().out.split()
    assert {"shapes", "static-arguments", "tracerboolconversionerror"} <= set(names)
    assert main(["errors", "TracerBoolConversionError"]) == 0
    assert capsys.readouterr().out.startswith("## TracerBoolConversionError\n")
    assert main(["errors", "shape"]) == 2
    assert "Did you mean shapes?" in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    said = capsys.readouterr().out
    for subject in ("system", "jaxlib", "devices", "cache", "product", "gradient"):
        assert re.search(rf"^(ok|!!)  {subject} ", said, re.M), said


def test_doctor_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(name: str) -> str:
        return {"jaxlib": "0.9.0"}.get(name, "1.0")

    def refused() -> None:
        raise RuntimeError("Unable to initialize backend 'cuda'\nlong")

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("teucer.devices", refused)
    assert _doctor.doctor() == 1
    said = capsys.readouterr().out
    assert "!!  jaxlib     0.9.0" in said and "pip install -U jaxlib" in said
    assert "!!  devices    RuntimeError: Unable to initialize backend 'cuda'\n" in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_have_every_command_and_option(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completions", shell]) == 0
    said = capsys.readouterr().out
    for name, command in _main.command_parsers(_main.parser()).items():
        assert re.search(rf"\b{name}\b", said)
        for action in command._actions:
            for option in action.option_strings:
                shown = option.lstrip("-") if shell == "fish" else option
                assert re.search(rf"[ ('\"]{re.escape(shown)}\b", said), (name, option)


COMPLETED = """
eval "$(cat {script})"
COMP_WORDS=({words})
COMP_CWORD={at}
_teucer
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("teucer de", "demo devices debug"),
        ("teucer show --a", "--args"),
        ("teucer cache pu", "push pull"),
        ("teucer export --form hlo --pl", "--platforms"),
        ("teucer completions z", "zsh"),
    ],
)
def test_bash_completes(
    words: str, found: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["completions", "bash"])
    script = tmp_path / "teucer.bash"
    script.write_text(capsys.readouterr().out)
    code = COMPLETED.format(script=script, words=words, at=len(words.split()) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert sorted(done.stdout.split()) == sorted(found.split()), done.stderr


def test_the_page_of_commands_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "commands.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


ALOUD = [sys.executable, str(ROOT / "tools" / "aloud.py"), "Working:", sys.executable, "-c"]


def test_aloud_says_that_a_command_goes_on() -> None:
    code = "import threading; print('first', flush=True); threading.Event().wait(2.5)"
    done = subprocess.run([*ALOUD, code], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "Working:" and re.fullmatch(r" +\d s  first", lines[1])
    assert re.fullmatch(r" +\d s  done", lines[-1])
    failing = subprocess.run(
        [*ALOUD, "print('why'); raise SystemExit(3)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert failing.returncode == 3 and failing.stderr == "why\n"
