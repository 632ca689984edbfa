"""The rows of the table at subnormal operands, written to a file: run as a program by
test_subnormals.py, for processors of several kinds.

usage: python subnormals.py FILE [PART PARTS]
"""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from optable.table import Op, all_ops, precision_of
from optable.trees import flat_call

import teucer as jax
from teucer._base import dtypes

# Loops that double a number until it is large do not end where it is taken for zero.
ENDLESS = {"while_loop"}
# XLA's code for AVX-512 BF16 takes some subnormal numbers for zeros that it only moves.
FLUSHED_BY_MOVES = {("broadcast_in_dim", "bfloat16"), ("pad", "bfloat16")}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def results(op: Op, dtype: str) -> list[list[Any]]:
    """What a row gives for the calls of its samples, with each float scaled to be subnormal."""
    found = []
    with precision_of(dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in op.calls(dtype)[:3]:
            leaves, f = flat_call(op, call)
            try:
                outs = jax.tree.leaves(jax.jit(f)(*map(_subnormal, leaves)))
            except (ValueError, ArithmeticError) as err:
                outs = [type(err).__name__]
            found.append([_comparable(y) for y in outs])
    return found


def _subnormal(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype.name not in FLOATS:
        return x
    least = float(dtypes.finfo(x.dtype).smallest_normal)
    return (x.astype(np.float64) * least / 8).astype(x.dtype)


def _comparable(y: Any) -> Any:
    if isinstance(y, str) or jax.dtypes.issubdtype(y.dtype, jax.dtypes.extended):
        return str(y)
    y = np.asarray(y)
    return y.astype(np.float64) if y.dtype.name in FLOATS else y


if __name__ == "__main__":
    part, parts = map(int, sys.argv[2:4]) if len(sys.argv) > 2 else (0, 1)
    table = {
        (name, dtype): results(op, dtype)
        for name, op in list(all_ops().items())[part::parts]
        for dtype in op.dtypes
        if dtype in FLOATS and name not in ENDLESS and (name, dtype) not in FLUSHED_BY_MOVES
    }
    Path(sys.argv[1]).write_bytes(pickle.dumps(table))
