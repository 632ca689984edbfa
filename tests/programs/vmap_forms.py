"""vmap with all forms of in_axes and out_axes, over control flow, updates, keys and gradients."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, lax, vmap

x = jnp.arange(6.0).reshape(2, 3)
y = jnp.arange(12.0).reshape(3, 4)
print(vmap(jnp.dot, (0, None))(x, jnp.ones(3)))
print(vmap(vmap(jnp.dot, (None, 1)), (0, None))(x, y))
print(vmap(lambda a: a * 2, in_axes=1, out_axes=1)(x))
print(vmap(lambda a: (a, a.sum()), out_axes=(1, 0))(x))
print(vmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0, "b": None},))({"a": x, "b": jnp.ones(3)}))
print(vmap(lambda a, b: a + b, in_axes=(0, 1))(x, x.T))
print(
    vmap(lambda a, b=2.0: a * b)(jnp.arange(3.0)),
    vmap(lambda a, *, k: a + k)(jnp.arange(3.0), k=jnp.arange(3.0)),
)
print(vmap(lambda: 3.0, axis_size=3)() if False else vmap(lambda a: 3.0)(jnp.arange(2)))
print(vmap(lambda i: lax.dynamic_slice(jnp.arange(10), (i,), (3,)))(jnp.arange(3)))
print(vmap(lambda i: jnp.arange(10)[i])(jnp.array([1, 5])))
print(
    vmap(lambda p, a: lax.cond(p, lambda z: z + 1, lambda z: z - 1, a))(
        jnp.array([True, False]), jnp.arange(2.0)
    )
)
print(vmap(lambda n: lax.while_loop(lambda c: c < n, lambda c: c * 2, 1))(jnp.array([3, 17])))
print(vmap(lambda a: lax.scan(lambda c, e: (c + e, c * e), 0.0, a))(x))
print(vmap(jnp.linalg.inv)(jnp.stack([jnp.eye(2), 2 * jnp.eye(2)])))
print(
    vmap(jnp.interp, (0, None, None))(jnp.array([0.5, 1.5]), jnp.arange(3.0), jnp.arange(3.0) ** 2)
)
print(vmap(lambda a: a.at[0].set(5.0))(x))
print(vmap(lambda a, i: a.at[i].add(1.0))(x, jnp.array([0, 2])))
print(jnp.vectorize(lambda a, b: jnp.dot(a, b), signature="(n),(n)->()")(x, x))
print(
    vmap(lambda a, k: a + jax.random.uniform(k))(
        jnp.zeros(2), jax.random.split(jax.random.key(0), 2)
    )
)
print(vmap(grad(lambda a: jnp.sum(a**2)))(x), vmap(lambda a: jnp.where(a > 1, a, 0.0))(x))
print(
    vmap(lambda a: jnp.sort(a)[::-1])(x),
    vmap(jnp.argmax)(x),
    vmap(lambda a: jnp.convolve(a, jnp.ones(2)))(x),
)
