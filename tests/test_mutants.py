"""The changes that `make mutants` makes: they can be made, and their tests are there."""

import mutants
import mutations
import pytest
from mutants import ROOT


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
    assert [[c.new for c in found] for found in mutations.changes(UNSEEN).values()] == [
        ["pass"],
        ["pass"],
    ]
    made = {" ".join(c.new.split()) for found in mutations.changes(SEEN).values() for c in found}
    assert {"(False)", "(True)", "(a < b or not c)", "(a <= b)", "(a < b)", "(c)", "(a - 1)"} < made
    assert "(f(a + 1) )" in made


def test_one_change_is_drawn_at_each_place():
    drawn = mutations.drawn(SEEN, 40, seed=0)
    assert len({(c.start, c.end) for c in drawn}) == len(drawn) == len(mutations.changes(SEEN))
    assert len(mutations.drawn(SEEN, 1, seed=0)) == 1
    assert drawn == mutations.drawn(SEEN, 40, seed=0)
    for change in drawn:
        text = change.made(SEEN)
        assert text != SEEN
        assert text.count("\n") == SEEN.count("\n")  # no change moves a line


@pytest.fixture
def cover(tmp_path, monkeypatch):
    """The map of a library of one file and three tests."""
    (tmp_path / "teucer").mkdir()
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "teucer" / "a.py").write_text("K = 1\ndef f():\n    return 1\ndef g(): return 2\n")
    (tmp_path / "test_a.py").write_text("")
    found = mutants.Map(tmp_path / "map.json")
    rows = {"test_a.py": (1.0, {}), "test_a.py::slow": (3.0, {"a.py": 0b11000})}
    rows["test_a.py::quick"] = (0.5, {"a.py": 0b01000})
    rows["test_a.py::wrong"] = (0.1, {"a.py": 0b01000})
    found.add("test_a.py", rows, ["test_a.py::wrong"])
    found.save()
    return found


def test_the_tests_that_come_by_a_line_are_found_the_quickest_first(cover):
    slow, quick = (3.0, "test_a.py::slow"), (0.5, "test_a.py::quick")
    assert cover.by("a.py", [3]) == [quick, slow]
    assert cover.by("a.py", [4]) == [slow]
    assert cover.by("a.py", [1]) == []
    (constant, *_), (one, *_), *_ = mutations.changes(cover.texts["a.py"]).values()
    assert not constant.in_function and one.in_function
    assert cover.near("a.py", constant) == [quick, slow]  # what runs at import
    assert cover.chosen([quick, slow], 60) == {"test_a.py": [quick[1], slow[1]]}
    assert cover.chosen([quick, slow], 4) == {"test_a.py": [quick[1]]}  # one is for the collection


def test_a_map_follows_the_text(cover, tmp_path):
    before = cover.texts["a.py"]
    (tmp_path / "teucer" / "a.py").write_text("# new\n\n" + before.replace("return 2", "return 3"))
    later = mutants.Map(tmp_path / "map.json")
    assert [name for _, name in later.by("a.py", [5])] == ["test_a.py::quick", "test_a.py::slow"]
    assert later.by("a.py", [3]) == later.by("a.py", [6]) == []
