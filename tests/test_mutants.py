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


UNSEEN = '''"""1 + 1"""
from typing import TYPE_CHECKING, Literal
if TYPE_CHECKING:
    from a import b
__slots__ = ("a", "b", "c")
Key = int | None
@cache(size=3)
def f(x: int | None, *args, **more) -> tuple[int, int, int]:
    """2 + 2"""
    raise ValueError(f"{x + 1}", 1)
    assert x == 1
    zip(x, x, strict=True)
'''
SEEN = """if a < b and not c:
    x = f(a + 1,
          key=2)
"""


def test_changes_are_of_what_tests_can_notice():
    # The two statements can be left out, and that is all.
    assert [[c.new for c in found] for found in mutants.changes(UNSEEN).values()] == [
        ["pass"],
        ["pass"],
    ]
    made = {" ".join(c.new.split()) for found in mutants.changes(SEEN).values() for c in found}
    assert {"(False)", "(True)", "(a < b or not c)", "(a <= b)", "(a < b)", "(c)", "(a - 1)"} < made
    assert "(f(a + 1) )" in made


def test_one_change_is_drawn_at_each_place():
    drawn = mutants.drawn(SEEN, 40, seed=0)
    assert len({(c.start, c.end) for c in drawn}) == len(drawn) == len(mutants.changes(SEEN))
    assert len(mutants.drawn(SEEN, 1, seed=0)) == 1
    assert drawn == mutants.drawn(SEEN, 40, seed=0)
    for change in drawn:
        text = change.made(SEEN)
        assert text != SEEN
        assert text.count("\n") == SEEN.count("\n")  # no change moves a line
