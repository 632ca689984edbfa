"""`teucer guard`: known answers against the installed jaxlib."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import teucer
import teucer.numpy as jnp
from teucer._executables import guard
from teucer._xla.client import jaxlib_version
from teucer.cli import main
from teucer.cli.guard import command, table
from teucer.cli.guard.answer import Answer, check_values
from teucer.cli.guard.table import all_answers

EVERY = {answer.name: answer for answer in all_answers()}


@pytest.mark.parametrize("name", list(EVERY)[::20])
def test_some_answers(name, x64):
    assert EVERY[name].check() == ""


@pytest.fixture
def x64():
    with teucer.enable_x64(True):
        yield


@pytest.mark.slow
def test_all_answers():
    assert [one for one in command.run(list(EVERY)) if one.fault] == []


def test_there_are_hundreds():
    assert len(EVERY) > 200


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (np.float32([1, 2, 3.5]), r"1 of 3 values, 3 for 3.5 at \(2,\)"),
        (np.float32([1, 2, np.nan]), "1 NaN or infinities are not as expected"),
        (np.float32([1, 2]), r"shape \(3,\), expected \(2,\)"),
        ((np.float32([1, 2, 3]),) * 2, "1 results, 2 expected"),
    ],
)
def test_what_differs_is_said(wrong, says):
    x = np.float32([1, 2, 3])
    assert check_values(jnp.array, [x], x) == ""
    assert re.match(says, check_values(jnp.array, [x], wrong))


PROGRAM = """
import os, sys, time
from teucer.cli.guard import answer, child
def dies(): os.kill(os.getpid(), 9)
def hangs(): time.sleep(60)
def raises(): raise ValueError("of the compiler")
table = {"right": lambda: "", "dies": dies, "hangs": hangs, "raises": raises, "wrong": lambda: "no"}
child.all_answers = lambda: [answer.Answer(n, f, 3.0) for n, f in table.items()]
child.main()
"""


def test_an_answer_that_ends_its_process_is_a_fault(monkeypatch):
    monkeypatch.setattr(command, "CHILD", [sys.executable, "-c", PROGRAM])
    start = time.monotonic()
    names = ["right", "dies", "hangs", "raises", "wrong"]
    assert [one[:2] for one in command.run(names)] == [
        ("right", ""),
        ("dies", "ends the process (signal 9)"),
        ("hangs", "takes too long"),
        ("raises", "ValueError: of the compiler"),
        ("wrong", "no"),
    ]
    assert time.monotonic() - start < 50


def test_the_command(capsys, tmp_path):
    assert main(["guard", "^bits of float32", "-o", str(tmp_path / "found.json")]) == 0
    printed = capsys.readouterr().out
    assert f"jaxlib {jaxlib_version}: 1 known answers" in printed and "1 right, 0 wrong" in printed
    assert all(fault.what in printed for fault in guard.known_faults())
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["jaxlib"] == jaxlib_version and found["found"][0]["fault"] == ""


def test_a_pattern_that_matches_nothing_is_refused(capsys):
    assert main(["guard", "no such answer"]) == 2
    assert "no answer's name matches 'no such answer'" in capsys.readouterr().err


NEWER = """
import json, sys, warnings, jaxlib.version
jaxlib.version.__version__ = "0.13.1"
import teucer.numpy as jnp
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    jnp.ones(3) + 1
    jnp.ones(4) + 1
print(*[f"{w.filename}: {w.message}" for w in found], sep="\\n")
"""


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (None, "`teucer guard` runs known answers against it."),
        ([("a sum", ""), ("a sort", "1 of 3 values")], "wrong answers (1): a sort: 1 of 3 values."),
        ([("a sum", "")], None),
        ("no JSON", "`teucer guard` runs known answers against it."),
    ],
)
def test_a_release_that_is_not_tried_is_named_once(kept, says, tmp_path):
    folder = tmp_path / "teucer"
    folder.mkdir()
    if kept is not None:
        found = (
            kept
            if isinstance(kept, str)
            else json.dumps({"found": [{"name": name, "fault": fault} for name, fault in kept]})
        )
        (folder / "guard-0.13.1.json").write_text(found)
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    printed = subprocess.run(
        [sys.executable, "-c", NEWER], env=env, capture_output=True, text=True, check=True
    ).stdout
    if says is None:
        assert printed == "\n"
    else:
        assert printed.startswith("<string>: Teucer was not tried on jaxlib 0.13.1 (on 0.10.2 to ")
        assert printed.endswith(f"{says}\n") and printed.count("Teucer was not tried") == 1


def test_names_are_unique(monkeypatch):
    one = Answer("one", lambda: "")
    monkeypatch.setattr(table.loops, "ANSWERS", [one, one])
    with pytest.raises(AssertionError, match="two answers have one name"):
        all_answers()


def test_the_page_says_what_the_table_says():
    page = (Path(__file__).parent.parent / "docs" / "guard.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for fault in guard.FAULTS:
        (row,) = [line for line in rows if line.startswith(f"| {fault.name}: ")]
        until = "" if fault.last == fault.first else f" to {fault.last}" if fault.last else " on"
        assert fault.what[1:] in row and fault.remedy in row
        assert f"| {fault.first}{until} |" in row
    for release in guard.TESTED:
        assert any(line.startswith(f"| {release} | ") for line in rows), release
    assert f"{len(EVERY)} known answers" in page
