"""The corpus of programs that benchmarks measure (benchmarks/corpus)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent.parent / "benchmarks" / "corpus"


def measure(*args, turns=0):
    """The lines that measure.py prints, as one record."""
    command = [sys.executable, str(CORPUS / "measure.py"), *args]
    done = subprocess.run(
        command, input="turn\n" * turns, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_smallest_program_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("TEUCER_CACHE_DIR", str(tmp_path))
    ready, *turns, end = map(
        json.loads, measure("teucer", "mlp_small.forward", turns=2).splitlines()
    )
    assert {"start", "trace", "lower", "compile", "ready", "first"} <= ready.keys()
    parts = sum(ready[stage][0] for stage in ("trace", "lower", "compile"))
    assert parts == pytest.approx(ready["ready"][0]) and ready["first"][0] > ready["ready"][0]
    assert ready["value"] == pytest.approx(
        1.6, abs=0.5
    )  # the cross entropy of four classes, before training
    assert [turn["step"][1] > 0 for turn in turns] == [True, True] and end["memory"] > 50


@pytest.mark.slow
def test_every_program_of_the_corpus_runs(tmp_path):
    """What benchmarks/corpus promises: a case is a function and arguments; in 0.12 as in 0.10."""
    environment = os.environ | {"TEUCER_CACHE_DIR": str(tmp_path)}
    cases = measure().split()
    assert len(cases) == len(set(cases)) >= 100
    for case in cases:
        if case != "transformer_48.run":
            subprocess.run(
                [sys.executable, str(CORPUS / "measure.py"), "teucer", case],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
            )
