"""The reader of functions and arguments, which several commands share."""

from __future__ import annotations

import json
import pathlib
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from teucer import export
from teucer.cli import _run, main
from teucer.cli._arguments import load, parse_types, read_call
from teucer.cli._errors import CommandError

PROGRAM = """
import dataclasses

import teucer as jax
import teucer.numpy as jnp

params = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}

def f(params, x):
    return x @ params["w"] + params["b"]

def init(n):
    return {"w": jnp.ones((n, 2)), "b": jnp.zeros(2)}

class Free:
    def scaled(self, x, by=1):
        return x * by

class Bound:
    def __init__(self, by):
        self.by = by

    def scaled(self, x):
        return x * self.by

bound = Bound(2.0)

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    w: jax.Array

    def loss(self, x):
        return (self.w * x).sum()

def fails(x):
    return x + jnp.ones(4)
"""


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # tests/compat has processes for it
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return str(path)


def types(values: Any) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(v.shape), str(v.dtype)) for v in values]


def test_types_values_and_names(program: str) -> None:
    call = read_call(f"{program}:f", "params, float32[8, 3]")
    assert sorted(call.args[0]) == ["b", "w"] and types(call.args[1:]) == [((8, 3), "float32")]
    assert read_call(f"{program}:f", "init(3), f32[8,3]").args[0]["w"].shape == (3, 2)
    assert read_call(f"{program}:f", 'init(n=3), x=params["w"]'.replace('["w"]', "")).kwargs["x"]
    call = read_call(f"{program}:Free.scaled", "f32[3], by=-2.5")
    assert call.kwargs == {"by": -2.5} and len(call.args) == 1


def test_methods(program: str) -> None:
    x = np.ones(3, np.float32)
    assert load(f"{program}:bound.scaled")(x)[0] == 2
    assert load(f"{program}:Free.scaled")(x, 3)[0] == 3
    function, args, _ = read_call(f"{program}:Bound.scaled", "Bound(4.0), f32[3]")
    assert function(x)[0] == 4 and types(args) == [((3,), "float32")]
    model = read_call(
        f"{program}:Model.loss", "Model(w=f32[3]), f32[3]"
    )  # a tree stays an argument
    assert types([model.args[0].w, model.args[1]]) == [((3,), "float32")] * 2


def test_values_from_files(program: str, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "p.npz", w=np.ones((3, 2)), b=np.zeros(2))
    (tmp_path / "n.json").write_text(json.dumps({"n": [1, 2]}))
    call = read_call(f"{program}:f", f"load('{tmp_path}/p.npz'), load('{tmp_path}/x.npy')")
    assert types([call.args[0]["w"], call.args[1]]) == [((3, 2), "float64"), ((2, 3), "float64")]
    assert parse_types(f"load('{tmp_path}/n.json')") == [{"n": [1, 2]}]
    for name, why in (("absent.npy", "No such file"), ("n.txt", "no file of values")):
        with pytest.raises(CommandError, match=why):
            parse_types(f"load('{tmp_path}/{name}')")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(CommandError, match="cannot be read"):
        parse_types(f"load('{tmp_path}/bad.json')")


def test_shardings(program: str) -> None:
    (x,), _ = read_call(f"{program}:Free.scaled", "f32[8,4]@P('x')", mesh="x=1")[1:]
    assert x.sharding.spec[0] == "x" and dict(x.sharding.mesh.shape) == {"x": 1}
    (x,), _ = read_call(f"{program}:Free.scaled", "f32[8@x,4]", mesh="x=1")[1:]
    assert x.shape == (8, 4) and tuple(x.sharding.spec) == ("x", None)
    for text, mesh, why in (
        ("f32[8@x]", None, "say --mesh"),
        ("f32[8]@P('x')", None, "say --mesh"),
        ("f32[8]@P('y')", "x=1", "y"),
        ("f32[8]@Q('x')", "x=1", "cannot read"),
        ("2@P('x')", "x=1", "cannot read"),
        ("f32[8]@P('x')", "x", "cannot read the mesh"),
        ("f32[8]@P('x')", "x=4096", "cannot be made"),
    ):
        with pytest.raises(CommandError, match=why):
            read_call(f"{program}:Free.scaled", text, mesh=mesh)


def test_symbolic_sizes(program: str) -> None:
    scope = export.SymbolicScope(["b >= 2"])
    (x, y), _ = read_call(f"{program}:f", "f32[b,3], f32[2*b]", scope=scope)[1:]
    assert str(x.shape) == "(b, 3)" and str(y.shape[0]) == "2*b"


@pytest.mark.parametrize(
    ("target", "text", "why"),
    [
        ("f", "params", "cannot be called with 1 argument"),
        ("f", "params, f32[3], z=1", "cannot be called with 3 arguments"),
        ("nosuch", "", "has no function nosuch"),
        ("Free.nosuch", "", "has no function Free.nosuch"),
        ("f", "parms, f32[3]", "cannot read the types at 'parms'"),
        ("f", "params.w, f32[3]", "cannot read the types at 'params.w'"),
        ("f", "init('a'), f32[3]", r"init\('a'\) fails: TypeError"),
        ("f", "params(), f32[3]", r"cannot read the types at 'params\(\)'"),
        ("f", "**params", "cannot read the types"),
        ("f", "f32[3]), (f32[3]", "cannot read the types"),
    ],
)
def test_what_cannot_be_read(program: str, target: str, text: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        read_call(f"{program}:{target}", text)


@pytest.mark.parametrize("command", ["jaxpr", "show", "export", "check"])
def test_commands_share_the_reader(
    program: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    types_ = '{"w": float32[3,2], "b": f32[2]}, x=f32[8,3]'
    assert main([command, f"{program}:f", "--args", types_]) == 0
    assert capsys.readouterr().out
    assert main([command, f"{program}:bound.scaled", "--args", "f32[3]"]) == 0


def test_errors_of_the_program_show_its_frames(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        main(["jaxpr", f"{program}:fails", "--args", "f32[3]"])
    said = capsys.readouterr().err
    assert said.count("  File ") == 1 and "Explained by: teucer errors shapes" in said
    pathlib.Path(program).write_text("1 / 0\n")
    assert main(["jaxpr", f"{program}:f"]) == 2
    said = capsys.readouterr().err
    assert said.count("  File ") == 1 and "ends with an error before f is defined" in said
