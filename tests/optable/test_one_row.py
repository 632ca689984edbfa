"""A row of the library's table is the whole of an elementwise primitive.

Nothing else is written, and all laws are tested.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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

ROOT = Path(__file__).resolve().parents[2]
ROW = next(
    s
    for s in re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    if "unary(" in s
)


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
    for dtype in ("float32", "float64", "complex64"):
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
    """The laws can fail: of a function that is a little wrong, and of one with the derivative of
    another."""
    with pytest.raises(AssertionError):
        assert_ulp(
            np.float32(1.0001) * sech(np.float32([0.5])),
            sech.reference(np.float64([0.5])),
            sech.ulp,
            "sech",
            each=True,
        )
    p = ELEMENTWISE["sech"]
    p.tangents = (lambda t, y, x: t,)
    with pytest.raises(AssertionError):
        gradients.test_derivatives(sech, "float64")


@pytest.mark.slow
def test_a_row_is_the_only_edit(tmp_path: Path) -> None:
    """In a copy the row is added to its file, and nothing else: the names, their stubs,
    documentation and tests follow."""
    for name in ("teucer", "tests", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (
        tmp_path / "tests" / "optable" / Path(__file__).name
    ).unlink()  # it would add the row once more
    file = tmp_path / "teucer" / "lax" / "_elementwise.py"
    file.write_text(
        file.read_text().replace("__all__ = [", '__all__ = [\n    "sech", "sech_p",', 1)
        + "\n\n"
        + ROW
    )

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("tools/stubs.py")
    assert (
        run(
            "-c",
            """
import teucer as jax, teucer.numpy as jnp
said = jnp.sech.__doc__.splitlines()[0]
print(jax.__file__, jnp.sech(0), jax.grad(jax.lax.sech)(0.0), said, "sech" in jnp.__all__)
""",
        )
        == f"{tmp_path}/teucer/__init__.py 1.0 -0.0 Hyperbolic secant 1 / cosh(x). True\n"
    )
    assert "sech: Unary" in (tmp_path / "teucer" / "numpy" / "__init__.pyi").read_text()
    passed = run(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "-k",
        "sech",
        "tests/optable",
        "tests/dynamic/test_every_operation.py",
    )
    assert int(re.search(r"(\d+) passed", passed)[1]) > 15
    run(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/optable/test_coverage.py",
        "tests/test_types.py::test_stubs_are_fresh",
        "tests/test_functions_tested.py",
    )
