"""The law of jnp's functions that rows of lax make.

They promote their operands, broadcast them, and do the operation.
"""

import numpy as np
import pytest

import teucer.numpy as jnp
from teucer import lax
from teucer._base import dtypes
from teucer.lax._families import ELEMENTWISE
from teucer.numpy import _from_lax

NAMES = sorted(_from_lax._WHERE)


@pytest.mark.parametrize("name", NAMES)
def test_function_is_the_operation_on_promoted_operands(name):
    f, g = getattr(jnp, name), getattr(lax, name)
    row = next(row for row in ELEMENTWISE.values() if row.public == name)
    low, high = row.tested.low, row.tested.high
    x = np.linspace(low, high, 6, dtype=np.float32)
    assert f.__name__ == name
    assert f.__doc__.splitlines()[0] == g.__doc__.splitlines()[0]
    if row.arity == 1:
        np.testing.assert_array_equal(f(x), g(x))
        operands = [np.int32([1, 1]), np.uint8([1]), True, 1, 1.0]
        calls = [(value,) for value in operands if low <= 1 <= high]
    else:
        np.testing.assert_array_equal(
            f(x, x[:, None]), g(np.tile(x, (6, 1)), np.tile(x[:, None], (1, 6)))
        )
        calls = [(x, 1), (x, np.int32([2])), (np.int32(1), np.float16(2)), (True, 1.0)]
    for call in calls:
        dtype = dtypes.result_type(*call) if len(call) > 1 else jnp.asarray(call[0]).dtype
        if dtype not in row.accepts:
            dtype = np.dtype(
                np.int32 if dtype.kind == "b" and np.dtype(np.int32) in row.accepts else np.float32
            )
        y = f(*call)
        assert y.dtype == dtype
        # Compiled with a conversion, an operation may differ in the last place.
        np.testing.assert_allclose(
            y, g(*np.broadcast_arrays(*(np.asarray(v).astype(dtype) for v in call))), rtol=2e-7
        )


@pytest.mark.parametrize("name", NAMES)
def test_function_refuses_what_is_no_array(name):
    row = next(row for row in ELEMENTWISE.values() if row.public == name)
    with pytest.raises(TypeError, match=name):
        getattr(jnp, name)(*["one"] * row.arity)


def test_a_name_that_no_row_says():
    with pytest.raises(AttributeError, match="sech"):
        getattr(_from_lax, "sech")  # noqa: B009  as an import asks for it
