"""Arrays updated by making new ones."""

import teucer as jax
import teucer.numpy as jnp

x = jnp.arange(6.0).reshape(2, 3)
print(
    x.at[0].set(9.0),
    x.at[:, 1].add(1.0),
    x.at[1, ::2].multiply(2.0),
    x.at[0, 0].divide(2.0),
    x.at[1].power(2),
    x.at[0].min(1.0),
    x.at[0].max(1.0),
    x.at[1].subtract(1.0),
)
print(
    x.at[0].apply(jnp.sin),
    x.at[0, 1].get(),
    x.at[5, 0].get(mode="fill", fill_value=-1.0),
    x.at[5].set(1.0),
    x.at[jnp.array([0, 0, 1])].add(1.0),
)
print(
    x.at[x > 2].set(0.0),
    x.at[..., -1].set(7.0),
    x.at[None, 0].add(1.0),
    x.at[jnp.array([0, 1]), jnp.array([2, 0])].set(-1.0),
)
print(
    jnp.zeros(5).at[jnp.array([1, 1, 2])].add(jnp.array([1.0, 2.0, 3.0])),
    jnp.zeros(3).at[jnp.array([0, 7])].add(1.0, mode="drop"),
    jnp.zeros(3).at[-1].set(1.0),
    jnp.zeros(3).at[7].set(1.0, mode="clip"),
    jnp.arange(3).at[5].get(mode="clip"),
    jnp.arange(3.0).at[5].get(),
)
print(
    jnp.arange(3).at[0].set(2.7),
    jnp.arange(3.0).at[0].add(1),
    jnp.zeros(3, jnp.int32).at[0].set(5).dtype,
)


def f():
    global x
    x += 1


f()
print(x)
print(
    jax.jit(lambda a, i: a.at[i].set(0.0))(x, 1),
    jax.grad(lambda a: a.at[0].set(0.0).sum())(x),
    jax.grad(lambda v: x.at[0].multiply(v).sum())(2.0),
)
