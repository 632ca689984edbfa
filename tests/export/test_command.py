"""`teucer export`: what it writes, and what it says of what cannot be written."""

import sys

import numpy as np
import pytest

from teucer import export
from teucer.cli import _run, main


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # tests/compat has processes for it
    path = tmp_path / "model.py"
    path.write_text(
        "import teucer.numpy as jnp\n\ndef f(x, n):\n    return jnp.cumsum(x) * n\n\n"
        "def g(x):\n    return x.reshape(-1, 2)\n"
    )
    return path


def test_text(program, capsys):
    assert main(["export", f"{program}:f", "--args", "f32[b],i32[]"]) == 0
    text = capsys.readouterr().out
    assert "module @jit_f" in text and "tensor<?xf32>" in text


def test_forms(program, tmp_path):
    out = tmp_path / "out"
    for form, begins in {
        "hlo": b"\x0a",
        "hlo-text": b"HloModule jit_f",
        "artifact": b"ML\xefR\rStableHLO_v",
        "stablehlo": b"#loc",
    }.items():
        assert (
            main(
                ["export", f"{program}:f", "--args", "f32[8],i32[]", "--form", form, "-o", str(out)]
            )
            == 0
        )
        assert out.read_bytes().startswith(begins)
    arguments = [
        "--args",
        "f32[b],f32[]",
        "--form",
        "exported",
        "--platforms",
        "cpu",
        "tpu",
        "--constraints",
        "b >= 2",
    ]
    assert main(["export", f"{program}:f", *arguments, "-o", str(out)]) == 0
    exported = export.deserialize(out.read_bytes())
    assert exported.call(np.ones(3, np.float32), np.float32(2)).tolist() == [
        2,
        4,
        6,
    ] and exported.platforms == ("cpu", "tpu")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["g", "--args", "f32[b]"], "cannot be exported.\nCannot divide evenly"),
        (["f", "--args", "f32[b"], "cannot read the types"),
        (["f", "--args", "f32[b],f32[]", "--form", "hlo", "-o", "x"], "HLO has no symbolic sizes"),
        (["f", "--args", "f32[3],f32[]", "--form", "hlo"], "is binary"),
        (["h"], "has no function h"),
        (["f", "--args", "f32[b+],f32[]"], "cannot read the types at 'f32[b+],f32[]'"),
        (["f", "--args", "f32[3],f32[]", "--platforms", "gpu"], "unknown platforms"),
    ],
)
def test_refusals(program, capsys, arguments, text):
    assert main(["export", f"{program}:{arguments[0]}", *arguments[1:]]) == 2
    assert text in capsys.readouterr().err
