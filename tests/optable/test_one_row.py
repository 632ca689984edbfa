"""A row of the library's table is the whole of an elementwise primitive: nothing else is written, and all laws are tested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import optable.test_errors as errors
import optable.test_gradients as gradients
import optable.test_values as values
import optable.test_vmap as vmaps
import pytest
from optable.compare import assert_ulp
from optable.entries_elementwise import entry
from optable.table import Op, all_ops

from teucer.lax._families import ELEMENTWISE

CONTRIBUTING = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
ROW = next(s for s in re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL) if "unary(" in s)


@pytest.fixture
def sech() -> Iterator[Op]:
    """The entry that the table of tests makes of the row in CONTRIBUTING.md."""
    made: dict[str, object] = {}
    exec(ROW, made)
    op = entry(ELEMENTWISE["sech"], made["sech"])
    all_ops()["sech"] = op
    values.evaluated.cache_clear()
    yield op
    del all_ops()["sech"], ELEMENTWISE["sech"]


def test_a_row_is_a_primitive(sech: Op) -> None:
    assert {"bfloat16", "float32", "float64", "complex128"} <= set(sech.dtypes)
    assert sech.reference is not None
    for dtype in ("float32", "float64"):
        values.test_value_is_reference(sech, dtype)
        values.test_jit_is_eager(sech, dtype)
        values.test_types_are_those_of_values(sech, dtype)
    values.test_weak_types(sech)
    vmaps.test_vmap_is_loop(sech)
    gradients.test_derivatives(sech, "float64")
    for bad in sech.errors:
        errors.test_bad_call_raises(sech, bad)
    assert "Hyperbolic secant 1 / cosh(x)." in (sech.fn.__doc__ or "")


def test_a_wrong_row_is_found(sech: Op) -> None:
    """The laws can fail: of a function that is a little wrong, and of one with the derivative of another."""
    with pytest.raises(AssertionError):
        assert_ulp(np.float32(1.0001) * sech(np.float32([0.5])), sech.reference(np.float64([0.5])), sech.ulp, "sech", each=True)
    p = ELEMENTWISE["sech"]
    p.tangents = (lambda t, y, x: t,)
    with pytest.raises(AssertionError):
        gradients.test_derivatives(sech, "float64")
