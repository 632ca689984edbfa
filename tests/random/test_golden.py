"""Samples against those of JAX for the same keys: tests/data/random_bits.json."""

import json
from pathlib import Path

import numpy as np
import pytest

from teucer import jit, random, vmap
from teucer._base import config, dtypes

DATA = json.loads((Path(__file__).parent.parent / "data" / "random_bits.json").read_text())
CASES = DATA["cases"]
# Bounds of the relative error where formulas are rounded: a few units in the last place, more where
# logarithms cancel.
RELATIVE = {"float16": 4e-3, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-12}


def evaluate(case):
    names = {"R": random, "np": np, "vmap": vmap, "jit": jit}
    with config.enable_x64(case["x64"]), config.threefry_partitionable(case["partitionable"]):
        names["key"] = random.key(42, impl=case["impl"])
        found = eval(case["expression"], names)
        if dtypes.issubdtype(found.dtype, dtypes.prng_key):
            found = random.key_data(found)
        return np.asarray(found)


def expected(case):
    return np.frombuffer(bytes.fromhex(case["hex"]), dtypes.as_dtype(case["dtype"])).reshape(
        case["shape"]
    )


def name(case):
    mode = ("" if case["partitionable"] else "-old") + ("-x64" if case["x64"] else "")
    return f"{case['impl']}{mode}-{case['expression']}"


@pytest.mark.parametrize("case", [c for c in CASES if c["group"] == "exact"], ids=name)
def test_bits_equal(case):
    found, wanted = evaluate(case), expected(case)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", [c for c in CASES if c["group"] == "close"], ids=name)
def test_samples_are_close(case):
    found, wanted = evaluate(case), expected(case)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    tolerance = RELATIVE.get(wanted.dtype.name, 0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
