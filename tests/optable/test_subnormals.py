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


def on_processor(flags: str, path: Path) -> dict[Any, Any]:
    """The table of results, from code that XLA compiles under its flags."""
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "JAX_NUM_CPU_DEVICES": "8",
        "TEUCER_WARN_AFTER_COMPILES": "0",
    }
    subprocess.run([sys.executable, PROGRAM, path], env=environment, check=True)
    table: dict[Any, Any] = pickle.loads(path.read_bytes())
    return table


def differ(x: Any, y: Any, rtol: float) -> bool:
    if isinstance(x, str) or isinstance(y, str):
        return bool(x != y)
    if x.dtype.kind in "biu":
        return not np.array_equal(x, y)
    return not np.allclose(x, y, rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.slow
def test_results_at_subnormals_do_not_depend_on_the_processor(tmp_path: Path) -> None:
    ours = on_processor("", tmp_path / "ours")
    older = on_processor("--xla_cpu_max_isa=AVX2", tmp_path / "older")
    assert ours.keys() == older.keys()
    different = [
        key
        for key in ours
        for calls in zip(ours[key], older[key], strict=True)
        if any(differ(x, y, RTOL[key[1]]) for x, y in zip(*calls, strict=True))
    ]
    assert not different, sorted(set(different))
