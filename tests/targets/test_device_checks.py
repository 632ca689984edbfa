"""The checks for devices, on devices of the CPU: they pass there, and they notice what is wrong."""

import json

import numpy as np
import pytest
from device_checks import __main__ as checks
from device_checks import communication, values
from device_checks.report import Report

import teucer as jax


def verdicts(report):
    return {line["what"]: line["verdict"] for line in report.lines}


def test_a_sample():
    report = Report(60)
    device = jax.devices()[-1]
    rows = ("sin float32", "sort int32", "gradient of tanh")
    report.section("values", 1.0, [c for c in values.checks(device) if c[0] in rows])
    some = [c for c in communication.collectives(jax.devices()[:2]) if "psum" in c[0]]
    report.section("collectives", 1.0, some)
    assert set(verdicts(report)) >= {*rows, "psum over 2", "psum in groups over 2"}
    assert not report.failed()


def test_what_is_wrong_is_said(monkeypatch, capsys):
    """A value that differs, a call that raises, and no time."""
    report = Report(60)
    device = jax.devices()[-1]
    monkeypatch.setattr(values.jax, "device_put", lambda xs, d: xs if d is device else other(xs))
    report.section("values", 1.0, [c for c in values.checks(device) if c[0] == "sin float32"])

    def raises():
        raise ValueError("planted")

    report.section("kernels", 1.0, [("one", raises), ("two", lambda: False)])
    report.section("rates", 0.0, [("three", raises), ("four", raises)])
    assert verdicts(report) == {
        "sin float32": "WRONG", "one": "FAILED", "two": "WRONG", "2 checks": "left out",
    }  # fmt: skip
    assert report.failed()
    assert "ValueError: planted" in capsys.readouterr().out


def other(xs):
    """Operands of which one element differs."""
    leaves, tree = jax.tree.flatten(xs)
    return jax.tree.unflatten(tree, [np.asarray(x) + np.float32(0.1) for x in leaves])


@pytest.mark.parametrize(
    ("found", "ulp"),
    [([1.0, np.nan], 0.0), ([1.0, 2.0], np.inf), ([1 + 2.0**-22, np.nan], 2.0), ([1.0], np.inf)],
)
def test_errors_in_units(found, ulp):
    expected = np.array([1.0, np.nan], np.float32)
    assert values._ulp(np.array(found, np.float32), expected, False) == pytest.approx(ulp)


@pytest.mark.slow
def test_all_of_it(tmp_path):
    """Within the time, with nothing wrong, and a line for each check."""
    out = tmp_path / "checks.jsonl"
    assert checks.main(["--platform", "cpu", "--seconds", "400", "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["section"] for line in lines} == set(checks.SHARES)
