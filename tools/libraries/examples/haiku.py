"""Haiku: layers, control flow and their derivatives."""

import haiku as hk
import jax
import jax.numpy as jnp


def f(x, t=True):
    x = hk.Linear(8)(x)
    x = hk.LayerNorm(-1, True, True)(x)
    x = hk.BatchNorm(True, True, 0.9)(x, t)
    x = hk.dropout(hk.next_rng_key(), 0.1, x)
    h, _ = hk.dynamic_unroll(
        hk.LSTM(4), x[:, None].repeat(2, 1).swapaxes(0, 1), hk.LSTM(4).initial_state(x.shape[0])
    )
    h = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling())(h, h, h)
    s = hk.experimental.layer_stack(2)(hk.Linear(8))(h)
    s = hk.remat(hk.Linear(3))(s)
    s = hk.cond(True, lambda x: x * 2, lambda x: x, s)
    s, _ = hk.scan(lambda c, x: (c + x.sum(), None), 0.0, s)
    return hk.fori_loop(0, 2, lambda i, c: c * 2, s)


t = hk.transform_with_state(f)
x = jax.random.normal(jax.random.key(0), (4, 5))
p, s = t.init(jax.random.key(1), x)
print(f"{jax.jit(lambda p: t.apply(p, s, jax.random.key(2), x)[0])(p):.5f}")
g = jax.grad(lambda p: t.apply(p, s, jax.random.key(2), x)[0])(p)
print(f"{sum(jnp.abs(a).sum() for a in jax.tree.leaves(g)):.5f}")
print(len(hk.experimental.tabulate(t)(x)) > 100)
print(hk.experimental.to_dot(jnp.sin)(1.0)[:7])
print(len(jax.tree.leaves(hk.experimental.eval_summary(t)(x))) > 0)
