"""The changes that `make mutants` makes: they can be made, and their tests are there."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
mutants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutants)


def test_listed_changes_can_be_made():
    for mutant in mutants.listed():
        text = (ROOT / "teucer" / mutant.file).read_text()
        compile(mutant.changed(text), mutant.file, "exec")
        for test in mutant.tests:
            path, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text(), test


def test_a_change_that_no_longer_fits_is_named():
    mutant = mutants.Mutant("why", "lax/_sorting.py", "no such line", "", ())
    with pytest.raises(
        ValueError,
        match=r"in teucer/lax/_sorting.py this stands 0 times, not once:\n  no such line",
    ):
        mutant.changed("text")


def test_one_change_is_drawn_at_each_place():
    lines = ["x = a * b + c", "def f(x: int | None, *args): pass", "zip(a, strict=True)", "@final"]
    places = [
        ("Mul_Add", 1, 6, 7),
        ("Mul_Sub", 1, 6, 7),
        ("Add_Sub", 1, 10, 11),
        ("BitOr_Add", 2, 13, 14),
        ("Mul_Add", 2, 21, 22),
        ("TrueWithFalse", 3, 14, 18),
        ("Decorator", 4, 0, 6),
    ]
    jobs = [
        (str(i), f"core/ReplaceBinaryOperator_{name}", *place)
        for i, (name, *place) in enumerate(places)
    ]
    assert mutants.drawn(jobs, lines, 40, seed=0) in ({"0", "2"}, {"1", "2"})
    assert len(mutants.drawn(jobs, lines, 1, seed=0)) == 1
