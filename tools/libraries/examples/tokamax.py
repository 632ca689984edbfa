"""Tokamax: its operations in XLA's form, with their derivatives."""

import jax
import jax.numpy as jnp
import tokamax

key = jax.random.PRNGKey(0)
q, k, v = (jax.random.normal(jax.random.fold_in(key, i), (2, 16, 2, 8)) for i in range(3))


def attention(q, k, v):
    return tokamax.dot_product_attention(q, k, v, is_causal=True, implementation="xla")


print(attention(q, k, v)[0, 3, 0])
print(jax.jit(jax.grad(lambda *a: (attention(*a) ** 2).sum()))(q, k, v)[0, 1, 0])
x, scale, offset = q[0, :, 0], jnp.ones(8), jnp.zeros(8)
print(tokamax.layer_norm(x, scale, offset, implementation="xla")[0])
print(
    jax.grad(lambda x: (tokamax.layer_norm(x, scale, None, implementation="xla") ** 3).sum())(x)[0]
)
w = jax.random.normal(key, (8, 2, 8))
print(tokamax.gated_linear_unit(x, w, activation=jax.nn.silu, implementation="xla")[0])
rhs = jax.random.normal(key, (3, 8, 4))
print(tokamax.ragged_dot(x, rhs, jnp.array([5, 7, 4], jnp.int32), implementation="xla")[6])
print(
    tokamax.linear_softmax_cross_entropy_loss(
        x,
        jnp.arange(16) % 5,
        jax.random.normal(key, (8, 5)),
        reduction="mean",
        implementation="xla",
    )
)
