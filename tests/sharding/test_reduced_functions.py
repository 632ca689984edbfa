"""Functions of arrays whose cotangents are sums over mesh axes (`P(reduced=...)`).

Law: what a function makes itself, such as the zero beside a masked value, goes with such an array.
The result is reduced as the argument is, its gradient is unreduced, and both have the values that
arrays without such types have.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

FUNCTIONS = {
    "maximum": lambda x: jnp.maximum(x, 0.5),
    "minimum": lambda x: jnp.minimum(0.5, x),
    "clip": lambda x: jnp.clip(x, 0.2, 0.5),
    "clamp": lambda x: lax.clamp(0.2, x, 0.5),
    "power": lambda x: x**x,
    "arctanh": jnp.arctanh,
    "sinc": jnp.sinc,
    "hypot": lambda x: jnp.hypot(x, 0.5),
    "heaviside": lambda x: jnp.heaviside(x, x),
    "logaddexp": lambda x: jnp.logaddexp(x, 0.5),
    "nanmax": lambda x: jnp.nanmax(x, keepdims=True),
    "nansum": lambda x: jnp.nansum(x, keepdims=True),
    "cummax": lambda x: lax.cummax(x, 0),
    "softplus": jax.nn.softplus,
    "log_sigmoid": jax.nn.log_sigmoid,
    "mish": jax.nn.mish,
    "celu": jax.nn.celu,
    "sparse_sigmoid": jax.nn.sparse_sigmoid,
    "standardize": jax.nn.standardize,
    "logsumexp": lambda x: jax.nn.logsumexp(x, keepdims=True),
    "softmax": jax.nn.softmax,
    "where": lambda x: jnp.where(x > 0.5, x, 0.0),
    "quotient": lambda x: x / (1 + x),
}


@pytest.fixture
def x():
    with jax.set_mesh(jax.make_mesh((2,), ("x",))):
        yield jnp.linspace(0.1, 0.9, 8)


QUICK = ["clip", "logaddexp", "cummax", "logsumexp", "standardize"]


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FUNCTIONS]
)
def test_functions_of_reduced_arrays(x, name):
    f = FUNCTIONS[name]
    reduced = jax.reshard(x, P(reduced={"x"}))
    y = jax.jit(f)(reduced)
    assert jax.typeof(y).sharding.spec.reduced == {"x"}
    np.testing.assert_allclose(y, f(x), rtol=1e-6)

    def total(x):
        return (f(x) * f(x)).sum()

    gradient = jax.jit(jax.grad(total))(reduced)
    assert jax.typeof(gradient).sharding.spec.unreduced == {"x"}
    np.testing.assert_allclose(jax.reshard(gradient, P()), jax.grad(total)(x), rtol=1e-4, atol=1e-6)


def test_quotient_of_parts(x):
    """x / y is linear in x, so parts of a sum may be divided by what is the same on all devices."""
    parts, divisor = jax.reshard(x, P(unreduced={"x"})), jax.reshard(x + 1, P(reduced={"x"}))
    for f in (jnp.divide, jax.jit(jnp.divide)):
        y = f(parts, divisor)
        assert jax.typeof(y).sharding.spec.unreduced == {"x"}
        np.testing.assert_allclose(jax.reshard(y, P()), x / (x + 1), rtol=1e-6)


@pytest.mark.parametrize("name", ["max", "min", "prod"])
def test_segments_are_no_parts(x, name):
    """Only sums may be left to be taken: parts of a maximum would be summed."""
    ids = jnp.array([0, 0, 1, 1, 1, 2, 2, 3])
    f = getattr(jax.ops, f"segment_{name}")
    with pytest.raises(NotImplementedError, match=f"unreduced for {name} is not yet supported"):
        f(x, ids, num_segments=4, out_sharding=P(unreduced={"x"}))
    assert f(x, ids, num_segments=4, out_sharding=P()).shape == (4,)
