"""Weakly typed arrays of a dtype that Python's numbers do not have.

Law: where all operands are weakly typed and of one dtype, they meet in it, as in JAX. The golden
values are JAX 0.12.0.1's.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

DTYPES = ["uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "bfloat16", "float32"]


def weak(dtype):
    params = {"new_dtype": jnp.dtype(dtype), "weak_type": True, "sharding": None}
    return jax.lax.convert_element_type_p.bind(np.ones((), np.int32), **params)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weak_arrays_of_one_dtype_keep_it(dtype):
    x = weak(dtype)
    for f in (jnp.negative, jnp.square, lambda x: x + x, lambda x: jnp.maximum(x, x)):
        assert f(x).dtype == x.dtype and f(x).weak_type
    assert (x + np.ones((), np.int8)).dtype == (
        np.int8 if jnp.issubdtype(x.dtype, np.integer) else np.float32
    )
    assert jnp.sin(x).dtype == (np.float32 if jnp.issubdtype(x.dtype, np.integer) else x.dtype)
    assert jax.jit(jnp.negative)(x).dtype == x.dtype
    if jnp.issubdtype(x.dtype, np.signedinteger):  # products meet in Python's type
        assert jnp.dot(x, x).dtype == np.int32


def test_weak_bool_is_a_bool():
    x = weak("bool")
    assert repr(x) == "Array(True, dtype=bool, weak_type=True)" and repr(x + x) == (
        "Array(True, dtype=bool)"
    )
