"""The text of a constant is read back as the constant, to the bit."""

import numpy as np
import pytest
from jaxlib.mlir import ir

from teucer._lower import text

EDGES = {
    "b": [True, False],
    "i": [0, 1, -1, -128, 127],
    "u": [0, 1, 255],
    "f": [0.0, -0.0, 1.0, 1e30, 1e-30, 0.1, np.inf, -np.inf, np.nan, 65504.0, 6e-8],
}
DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_text_of_constants(dtype, shape):
    edges = EDGES[np.dtype(dtype).kind]
    with np.errstate(over="ignore"):
        values = np.array(edges, dtype)
    # All alike, which is written as one number, and different ones.
    for start in range(len(edges)):
        for x in (np.full(shape, values[start]), np.resize(np.roll(values, -start), shape)):
            with ir.Context():
                attribute = ir.Attribute.parse(text.array(x))
                found = np.array(ir.DenseElementsAttr(attribute))
            assert found.shape == x.shape
            assert found.astype(dtype).tobytes() == x.tobytes(), text.array(x)


@pytest.mark.parametrize("x", [1e30, -1e-30, 1.5e300, 2.0, -0.25, 1e22])
def test_numbers_are_written_as_people_read_them(x):
    said = text.array(np.float64(x)).removeprefix("dense<").partition(">")[0]
    assert float(said) == x and "." in said
