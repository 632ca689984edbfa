"""The comparison of libraries on JAX and on Teucer (`make libraries`)."""

import json
import subprocess
import sys

import newest_libraries as libraries


def test_texts_are_alike_but_for_rounding():
    assert libraries.alike("loss 0.12345\n[1 2.]", "loss  0.123451 [1 2.0]")
    assert not libraries.alike("loss 0.12345", "loss 0.1236")
    assert not libraries.alike("loss 1", "value 1")
    assert not libraries.alike("1 2", "1")


def test_every_module_is_imported_and_errors_are_said(tmp_path):
    package = tmp_path / "mine"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("print('hello')")
    (package / "good.py").write_text("import threading; threading.Thread(target=input)")
    (package / "bad.py").write_text("import no_such_thing_at_all")
    (package / "ends.py").write_text("raise SystemExit(3)")
    (package / "good_test.py").write_text("1 / 0")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "deep.py").write_text("1 / 0")
    walked = subprocess.run(
        [sys.executable, libraries.HERE / "walk.py", "mine"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert dict(map(json.loads, walked.stdout.splitlines())) == {
        "mine": None,
        "mine.bad": "ModuleNotFoundError: No module named 'no_such_thing_at_all'",
        "mine.ends": "SystemExit: 3",
        "mine.good": None,
        "mine.inner": None,
        "mine.inner.deep": "ZeroDivisionError: division by zero",
    }


def test_examples_are_of_libraries_of_the_table():
    assert {path.stem for path in (libraries.HERE / "examples").glob("*.py")} <= {
        *libraries.LIBRARIES,
        *libraries.FROM_SOURCE,
    }
    assert {*libraries.SMALL} <= {*libraries.LIBRARIES}
