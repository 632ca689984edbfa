"""Whole programs, as users write them, print what they print under JAX 0.10.2 (record.py made expected/).

Numbers agree to 5e-5 relative to 1 or to their size; text, shapes, dtypes and weak types agree exactly.
"""

import contextlib
import io
import math
import re
import warnings
from itertools import zip_longest
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in (HERE / "expected").glob("*.txt"))
NUMBER = re.compile(r"-?(?:\d+\.\d*(?:e[-+]?\d+)?|\.\d+|\d+e[-+]?\d+|\d+|\bnan\b|\binf\b)")


def words(text):
    """The text with numbers replaced, spaces evened out; and the numbers."""
    text = " ".join(text.replace("teucer", "jax").split())
    plain = re.sub(r" ?([\[\](),+=:-]) ?", r"\1", NUMBER.sub("#", text))
    return plain, [float(n) for n in NUMBER.findall(text)]


def agree(x, y):
    return x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= 5e-5 * max(1.0, abs(y))


def run(name):
    out = io.StringIO()
    source = (HERE / f"{name}.py").read_text()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, f"{name}.py", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_what_jax_prints(name):
    expected = (HERE / "expected" / f"{name}.txt").read_text().splitlines()
    for i, (got, want) in enumerate(
        zip_longest(run(name).splitlines(), expected, fillvalue="<end>"), 1
    ):
        (got_text, got_numbers), (want_text, want_numbers) = words(got), words(want)
        same = got_text == want_text and all(map(agree, got_numbers, want_numbers))
        assert same, f"{name}, line {i}:\n  {got}\nJAX:\n  {want}"


def test_every_program_is_run():
    programs = {path.stem for path in HERE.glob("*.py")} - {"conftest", "record", "test_programs"}
    assert programs == set(PROGRAMS)
