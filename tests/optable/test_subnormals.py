"""Results at subnormal operands do not depend on the processor."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("subnormals.py")
# Sums are taken in another order where vectors are longer.
RTOL = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-10}
# The rows are divided, so that a run that is cut off has said something.
PARTS = 24


def on_processor(flags: str, path: Path, part: int) -> dict[Any, Any]:
    """The results of a part of the rows, from code that XLA compiles under its flags."""
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "JAX_NUM_CPU_DEVICES": "8",
        "TEUCER_WARN_AFTER_COMPILES": "0",
    }
    command = [sys.executable, PROGRAM, path, str(part), str(PARTS)]
    subprocess.run(command, env=environment, check=True)
    table: dict[Any, Any] = pickle.loads(path.read_bytes())
    return table


def differ(x: Any, y: Any, rtol: float) -> bool:
    if isinstance(x, str) or isinstance(y, str):
        return bool(x != y)
    if x.dtype.kind in "biu":
        return not np.array_equal(x, y)
    return not np.allclose(x, y, rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_results_at_subnormals_do_not_depend_on_the_processor(tmp_path: Path, part: int) -> None:
    ours = on_processor("", tmp_path / "ours", part)
    older = on_processor("--xla_cpu_max_isa=AVX2", tmp_path / "older", part)
    assert ours.keys() == older.keys()
    different = [
        key
        for key in ours
        for calls in zip(ours[key], older[key], strict=True)
        if any(differ(x, y, RTOL[key[1]]) for x, y in zip(*calls, strict=True))
    ]
    assert not different, sorted(set(different))
