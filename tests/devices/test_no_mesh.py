"""The sharding of the type of an array without one is over a mesh without axes, and says
nothing."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X = jnp.ones((2, 3))
NONE = jax.typeof(X).sharding


@pytest.mark.parametrize(
    "make",
    [
        lambda: jax.device_put(np.ones((2, 3)), NONE),
        lambda: jax.jit(lambda x: jax.device_put(x, NONE))(X),
        lambda: jnp.zeros((2, 3), device=NONE),
        lambda: jnp.ones((2, 3), out_sharding=NONE),
        lambda: jax.random.normal(jax.random.key(0), (2, 3), out_sharding=NONE),
        lambda: jnp.array(np.ones((2, 3)), out_sharding=NONE),
        lambda: jnp.broadcast_to(1.0, (2, 3), out_sharding=NONE),
        lambda: jnp.matmul(X, jnp.ones((3, 3)), out_sharding=NONE),
        lambda: jnp.einsum("ij,jk->ik", X, jnp.ones((3, 3)), out_sharding=NONE),
        lambda: jnp.full_like(X, 2.0, device=NONE),
        lambda: (
            jax.jit(lambda x: x + 1)
            .lower(jax.ShapeDtypeStruct((2, 3), jnp.float32, sharding=NONE))
            .compile()(X)
        ),
    ],
)
def test_it_may_be_given(make):
    y = make()
    assert y.shape == (2, 3) and not y.committed and y.sharding == X.sharding


def test_it_is_refused_where_a_layout_is_asked_for():
    with pytest.raises(ValueError, match="empty NamedSharding"):
        jax.lax.with_sharding_constraint(X, NONE)
    with pytest.raises(ValueError, match="non-empty mesh"):
        jax.reshard(X, NONE)
