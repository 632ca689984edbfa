"""Integers of two and four bits move as wider ones do."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

MOVES = {
    "concatenate": lambda x: lax.concatenate([x, x, x[1:]], 0),
    "columns": lambda x: lax.concatenate([x, x[:, :1]], 1),
    "append": lambda x: jnp.append(x, x),
    "stack": lambda x: jnp.stack([x, x[::-1]], 1),
    "tile": lambda x: jnp.tile(x, (2, 2)),
    "roll": lambda x: jnp.roll(x, 1, 1),
    "insert": lambda x: jnp.insert(x, 1, x[0], axis=0),
    "pad": lambda x: lax.pad(x, x[0, 0], [(1, 0, 1), (2, 1, 0)]),
    "update": lambda x: lax.dynamic_update_slice(x, x[:1], (1, 0)),
    "take": lambda x: x[jnp.array([2, 0])],
    "set": lambda x: x.at[jnp.array([2, 0])].set(x[:2]),
    "transpose": lambda x: x.T,
    "sort": lambda x: jnp.sort(x, 0),
    "fused": lambda x: jnp.concatenate([x, -x]) * 1,
}


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, dtype: str) -> None:
    x, move = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]], np.int8), MOVES[name]
    y = jax.jit(move)(jnp.asarray(x, dtype))
    assert y.dtype == dtype
    expected = jnp.asarray(move(jnp.asarray(x)), dtype)
    np.testing.assert_array_equal(y.astype(np.int8), expected.astype(np.int8))
