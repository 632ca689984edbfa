"""Library code under strict promotion of dtypes and ranks.

What JAX 0.10.2 computes there is computed here, alike.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.scipy.special
from teucer import numpy as jnp

FUNCTIONS = {
    "histogram": lambda i, x: jnp.histogram(i),
    "histogramdd": lambda i, x: jnp.histogramdd(i.reshape(3, 1)),
    "median": lambda i, x: jnp.median(i),
    "quantile": lambda i, x: jnp.quantile(i, 0.5),
    "nanmedian": lambda i, x: jnp.nanmedian(i),
    "fresnel": lambda i, x: teucer.scipy.special.fresnel(x),
    "var": lambda i, x: jnp.var(i),
    "norm": lambda i, x: jnp.linalg.norm(i),
    "unravel_index": lambda i, x: jnp.unravel_index(i.astype(jnp.int16), (2, 3)),
    "attention": lambda i, x: jax.nn.dot_product_attention(
        *[jnp.ones((1, 2, 1, 2), jnp.bfloat16)] * 3
    ),
    "interp": lambda i, x: jnp.interp(x, x, x),
    "gelu": lambda i, x: jax.nn.gelu(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_library_code_keeps_to_strict_promotion(name):
    i, x = jnp.array([2, 0, 1]), jnp.array([0.3, 0.5, 0.8])
    plain = FUNCTIONS[name](i, x)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        strict = FUNCTIONS[name](i, x)
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(strict), strict=True):
        np.testing.assert_array_equal(a, b)
        assert jax.typeof(a) == jax.typeof(b)


def test_places_of_truth_values_that_are_traced():
    """They are not compared with a number, and the error is that of the size."""
    mask, x = jnp.array([True, False]), jnp.arange(2)
    with jax.numpy_dtype_promotion("strict"):
        for f, args, said in [
            (jnp.nonzero, (mask,), "size argument of jnp.nonzero must be statically"),
            (jnp.compress, (mask, x), "size argument of jnp.compress must be specified"),
            (jnp.extract, (mask, x), "size argument of jnp.compress must be specified"),
        ]:
            with pytest.raises(jax.errors.ConcretizationTypeError, match=said):
                jax.jit(f)(*args)
