"""dtypes and weak types of results are JAX's: by function and kinds of operands, and by expression.

The tables are made by tests/data/make_result_types.py with jax 0.10.2.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from teucer._base import config

DATA = Path(__file__).parent.parent / "data"
# Functions that take their second operand as it is: no tracer, or for JAX none that is a float.
STATIC = (
    "numpy.unravel_index",
    "numpy.roll",
    "numpy.angle",
    "numpy.resize",
    "numpy.around",
    "numpy.round",
    "numpy.diff",
    "numpy.polyder",
    "numpy.polyint",
    "numpy.vander",
    "numpy.argpartition",
    "numpy.partition",
)
# What is refused here: the greatest of complex numbers; and a function that is not there yet.
REFUSED = (
    "numpy.argmax(1j)",
    "numpy.argmin(1j)",
    "numpy.nanargmax(1j)",
    "numpy.nanargmin(1j)",
    "scipy.special.owens_t",
)


def tables(x64: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    sys.path.insert(0, str(DATA))
    try:
        from make_result_types import main
    finally:
        sys.path.remove(str(DATA))
    expected = json.loads((DATA / f"result_types{'_x64' if x64 else ''}.json").read_text())
    with config.enable_x64(x64):
        return expected, main("teucer", x64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
def test_types_of_results(x64: bool) -> None:
    expected, found = tables(x64)
    wrong = {
        text: f"{found.get(text)}, not {types}"
        for text, types in expected.items()
        if types is not None
        and found.get(text) != types
        and not text.startswith(REFUSED)
        and not (found.get(text) is None and text.startswith(STATIC))
    }
    assert not wrong, f"{len(wrong)} of {len(expected)}: {wrong}"
    assert len(expected) > 1000
