"""The page of JAX's own tests, as `make conformance` writes it."""

import importlib.util
import json
from pathlib import Path

import pytest

HABIT = Path(__file__).parent.parent / "tools" / "conformance" / "habit.py"


def habit(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("habit", HABIT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.PAGE.write_text((HABIT.parent.parent.parent / "docs" / "conformance.md").read_text())
    return module


@pytest.mark.parametrize("name", ["0.10.2", "2026-08"])
def test_writing_counts_changes_the_table_and_the_total_alone(tmp_path, monkeypatch, name):
    module = habit(tmp_path, monkeypatch)
    release, n = module.RELEASES[name], module.internals(name)
    before, rows = module.PAGE.read_text(), module.read(release)
    module.write(rows, release, n)
    assert module.PAGE.read_text() == before
    passed, of = rows["pjit_test"]
    module.write({**rows, "pjit_test": (passed + 10, of)}, release, n)
    changed = set(module.PAGE.read_text().splitlines()) - set(before.splitlines())
    assert f"| pjit_test | {passed + 10} | {of} |" in changed and 2 <= len(changed) <= 3


def test_tests_of_internals_are_in_the_ceiling_once(tmp_path, monkeypatch):
    module = habit(tmp_path, monkeypatch)
    ceilings = {
        name: json.loads((HABIT.parent / release.ceiling).read_text())["files"]
        for name, release in module.RELEASES.items()
    }
    seen = set()
    for line in module.INTERNALS.read_text().splitlines():
        (release, test), reason = line.split(" | ")[0].split(" "), line.split(" | ")[1]
        file, _, name = test.partition("::")
        assert name in module.passing(ceilings[release][f"tests/{file}.py"]), line
        assert reason and (release, test) not in seen
        seen.add((release, test))
