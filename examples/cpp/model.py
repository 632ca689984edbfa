"""A function that C++ runs.

`teucer export model.py:predict --args 'f32[8],f32[2,8]' --form artifact -o predict.mlir`.
"""

import numpy as np

import teucer as jax
import teucer.numpy as jnp

rng = np.random.default_rng(0)
W = (rng.standard_normal((8, 16), np.float32), rng.standard_normal((16, 3), np.float32))


@jax.jit
def predict(offset, x):
    """The probabilities of three classes, and the likeliest class, for each row of x."""
    logits = jnp.tanh((x + offset) @ W[0]) @ W[1]
    return jax.nn.softmax(logits), jnp.argmax(logits, axis=-1)
