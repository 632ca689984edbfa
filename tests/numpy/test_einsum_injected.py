"""`einsum` with a function in the place of `lax.dot_general`, as flax and aqt inject one."""

import numpy as np
import opt_einsum
import pytest
from compat_process import python

import teucer as jax
import teucer.numpy as jnp

SIZES = dict(zip("abcde", range(2, 7), strict=True))
# Subscripts, and the shapes of the two operands of each product as JAX gives them.
CASES = [
    ("ab,bc->ac", ["ab", "bc"]),
    ("ab,bc->ca", ["bc", "ab"]),
    ("ab,b->a", ["ab", "b"]),
    ("b,ab->a", ["b", "ab"]),
    ("abc,abd->acd", ["abc", "abd"]),
    ("abc,abd->adc", ["abd", "abc"]),
    ("ab,cd->cdab", ["cd", "ab"]),
    ("aab,b->a", ["ab", "b"]),
    ("ab,bc->b", ["b", "b"]),
    ("abc,dc->ab", ["abc", "c"]),
    ("bac,cd->abd", ["cd", "bac"]),
    ("abe,cbe->bac", ["abe", "cbe"]),
    ("ab,bc,cd->ad", ["bc", "ab", "ca", "cd"]),
    ("ab->a", []),
    ("aab->ba", []),
]


@pytest.mark.parametrize("subscripts, shapes", CASES)
def test_products_are_those_of_the_given_function(subscripts, shapes):
    rng = np.random.default_rng(0)
    names = subscripts.partition("->")[0].split(",")
    xs = [rng.normal(size=[SIZES[n] for n in term]).astype(np.float32) for term in names]
    seen = []

    def dot_general(x, y, dims, precision=None, preferred_element_type=None):
        seen.extend((x.shape, y.shape))
        assert precision == "highest" and preferred_element_type == np.float32
        return 2 * jax.lax.dot_general(
            x, y, dims, precision=precision, preferred_element_type=preferred_element_type
        )

    def f(*xs):
        return jnp.einsum(subscripts, *xs, precision="highest", _dot_general=dot_general)

    factor = 2 ** (len(shapes) // 2)
    expected = factor * opt_einsum.contract(subscripts, *xs)
    np.testing.assert_allclose(f(*xs), expected, rtol=1e-4, atol=1e-5)
    assert seen == [tuple(SIZES[n] for n in term) for term in shapes]
    np.testing.assert_allclose(jax.jit(f)(*xs), expected, rtol=1e-4, atol=1e-5)
    batch = [np.stack([x, 2 * x]) for x in xs]
    np.testing.assert_allclose(
        jax.vmap(f)(*batch)[1], 2 ** len(xs) * expected, rtol=1e-4, atol=1e-5
    )
    same = jnp.einsum(subscripts, *xs, _dot_general=jax.lax.dot_general)
    np.testing.assert_allclose(same, expected / factor, rtol=1e-4, atol=1e-5)


def test_the_steps_that_aqt_calls():
    python("""
        import numpy as np
        import jax, jax.numpy as jnp
        from jax._src.numpy import einsum as steps
        x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(3, 4)
        operands, contractions = steps._default_poly_einsum_handler(
            "ab,bc->ac", x, y, einsum_call=True, use_blas=True, optimize="optimal"
        )
        contractions = tuple((a, frozenset(b), c) for a, b, c, *_ in contractions)
        seen = []
        def dg(*args, **kwargs):
            seen.append(kwargs)
            return jax.lax.dot_general(*args, **kwargs)
        found = jax.named_call(steps._einsum, name="ab,bc->ac")(
            operands, contractions, precision=None, preferred_element_type=None, _dot_general=dg
        )
        assert found.tolist() == (x @ y).tolist() and len(seen) == 1
    """)
