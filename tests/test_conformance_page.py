"""The page of JAX's own tests, as `make conformance` writes it."""

import importlib.util
from pathlib import Path

HABIT = Path(__file__).parent.parent / "tools" / "conformance" / "habit.py"


def habit(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("habit", HABIT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.PAGE.write_text((HABIT.parent.parent.parent / "docs" / "conformance.md").read_text())
    return module


def test_writing_counts_changes_the_table_and_the_total_alone(tmp_path, monkeypatch):
    module = habit(tmp_path, monkeypatch)
    before, rows = module.PAGE.read_text(), module.read()
    module.write(rows)
    assert module.PAGE.read_text() == before
    passed, of = rows["pjit_test"]
    module.write({**rows, "pjit_test": (passed + 1, of)})
    changed = set(module.PAGE.read_text().splitlines()) - set(before.splitlines())
    assert f"| pjit_test | {passed + 1} | {of} |" in changed and len(changed) == 2
