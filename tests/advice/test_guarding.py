"""Functions are given handlers of errors that cost nothing to calls that succeed."""

from __future__ import annotations

import dis
import importlib
import json
import logging
import pathlib
import pkgutil
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

import pytest

import teucer as jax
from teucer import numpy as jnp
from teucer._advice import guarding
from teucer._base.source import is_internal

PROGRAM = """
def plain(x):
    return 1 / x

def closes(x):
    def inner():
        return 1 / x
    return inner()

def handles(x):
    seen = []
    try:
        for value in (1, x):
            with open("/dev/null"):
                seen.append(1 / value)
    except ZeroDivisionError:
        seen.append("caught")
    finally:
        seen.append("last")
    return seen

def changes(x):
    try:
        return 1 / x
    except ZeroDivisionError as err:
        raise ValueError("changed") from err

def nests(x):
    try:
        try:
            return 1 / x
        except KeyError:
            return "never"
    finally:
        x = None

def keywords(*args, by=2, **named):
    return args[0] / by, named["a"]

def many(x):
    WIDE
    return 1 / x

def generates(x):
    yield 1 / x
""".replace("WIDE", "\n    ".join(f"y = {n}.5" for n in range(300)))


def functions() -> dict[str, Any]:
    """Functions whose file is one of Teucer's."""
    names: dict[str, Any] = {}
    exec(compile(PROGRAM, guarding.HOME + "of_a_test.py", "exec"), names)
    return names


CALLS = [
    ("plain", (0,), {}), ("plain", (2,), {}), ("closes", (0,), {}), ("closes", (4,), {}),
    ("handles", (0,), {}), ("handles", ("a",), {}), ("changes", (0,), {}), ("changes", (1,), {}),
    ("nests", (0,), {}), ("nests", (1,), {}), ("keywords", (1,), {"by": 0}),
    ("keywords", (1,), {"a": 3}), ("keywords", (1,), {}), ("many", (0,), {}), ("many", (2,), {}),
]  # fmt: skip


@pytest.mark.parametrize("name, args, named", CALLS)
def test_guarded_functions_do_as_before(name: str, args: Any, named: Any) -> None:
    def outcome(function: Any) -> tuple[object, str]:
        try:
            return function(*args, **named), ""
        except Exception as err:
            entries = traceback.extract_tb(err.__traceback__)[1:]
            cause = repr(err.__cause__)
            return None, f"{err!r} of {cause} at {[(e.name, e.lineno) for e in entries]}"

    treated: list[Exception] = []
    before = guarding.on_error[:]
    plain, function = functions()[name], functions()[name]
    expected = outcome(plain)
    guarding.on_error[:] = [lambda err, frame: treated.append(err)]
    try:
        assert guarding.guarded(function) is function
        assert outcome(function) == expected
        assert len(treated) == bool(expected[1])
        assert sys.exception() is None
        assert outcome(function) == expected  # once more, specialised or not
    finally:
        guarding.on_error[:] = before


def test_calls_that_succeed_run_the_same_instructions() -> None:
    plain = functions()["handles"]
    function = guarding.guarded(functions()["handles"])
    ours, theirs = list(dis.get_instructions(function)), list(dis.get_instructions(plain))
    assert [i.opname for i in ours[: len(theirs)]] == [i.opname for i in theirs]
    assert [i.positions for i in ours[: len(theirs)]] == [i.positions for i in theirs]
    assert ours[len(theirs)].opname == "PUSH_EXC_INFO"


def test_generators_and_functions_of_users_stay() -> None:
    generates, mine = functions()["generates"], lambda: 1
    for function in (generates, mine):
        code = function.__code__
        assert guarding.guarded(function).__code__ is code


def test_handlers_are_made_once() -> None:
    names = functions()
    twice = types.FunctionType(names["plain"].__code__, names)
    assert guarding.guarded(twice).__code__ is guarding.guarded(names["plain"]).__code__


def public() -> Iterator[Any]:
    """Functions that public modules hand on."""
    root = pathlib.Path(jax.__file__).parent
    for module in pkgutil.iter_modules([str(root)], "teucer."):
        if guarding.is_public(module.name) and "__main__" not in module.name:
            loaded = importlib.import_module(module.name)
            for name in getattr(loaded, "__all__", ()):
                yield getattr(loaded, name)


def test_public_functions_are_guarded() -> None:
    found = [value for value in public() if isinstance(value, types.FunctionType)]
    ours = [f for f in found if f.__code__.co_filename.startswith(guarding.HOME)]
    assert len(ours) > 300
    assert not [f for f in ours if f.__code__ not in guarding.boundaries]


def test_logs_show_the_users_frames_alone(caplog: pytest.LogCaptureFixture) -> None:
    try:
        jnp.arange(3.0).reshape(7)
    except TypeError:
        logging.exception("failed")
    (record,) = caplog.records
    assert record.exc_info is not None
    frames = traceback.extract_tb(record.exc_info[2])
    assert [frame.filename for frame in frames] == [__file__]


def test_errors_within_a_boundary_are_treated_by_the_outermost() -> None:
    def tries(x: Any) -> Any:
        try:
            return x.reshape(7)
        except TypeError as err:
            entries = traceback.extract_tb(err.__traceback__)
            assert any(is_internal(entry.filename) for entry in entries)
            raise

    with pytest.raises(TypeError, match="cannot reshape") as caught:
        jax.jit(tries)(jnp.arange(3.0))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames] == [
        "test_errors_within_a_boundary_are_treated_by_the_outermost", "tries",
    ]  # fmt: skip


IN_A_SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "NoColor")
shell.run_cell("import teucer as jax, teucer.numpy as jnp; x = jnp.arange(3.0)")
for cell in ["x.reshape(7)", "x.permute(0)", "jax.random.normal(3)", "1 / 0"]:
    shell.run_cell(cell)
"""


def test_notebooks_show_the_users_frames_alone() -> None:
    pytest.importorskip("IPython", reason="no notebook is installed")
    done = subprocess.run(
        [sys.executable, "-c", IN_A_SHELL], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.count("Traceback (most recent call last)") == 4
    assert guarding.HOME not in done.stdout and "skipping hidden" not in done.stdout
    assert "It is x.transpose(axes)." in done.stdout
    assert "Explained by: teucer errors shapes" in done.stdout


def test_uncaught_errors_of_a_script(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import teucer.numpy as jnp\nx = jnp.arange(3.0)\njnp.sum(x, dim=1)\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr.count("  File ") == 1
    assert "Did you mean axis=?" in done.stderr


def test_names_of_classes() -> None:
    """Under the alias errors print as of jax.errors, else as of teucer.errors, also before anyone
    has asked for that module."""
    for alias, expected in (("import teucer.compat", "jax.errors"), ("", "teucer.errors")):
        code = f"""
{alias}
import json, teucer
found = []
for call in (lambda: teucer.jit(lambda x: 1 if x else 2)(1.0),
             lambda: teucer.linear_transpose(lambda x: x * x, 1.0)(1.0)):
    try:
        call()
    except Exception as err:
        found.append(type(err).__module__)
print(json.dumps(found))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
        assert json.loads(done.stdout) == [expected] * 2
