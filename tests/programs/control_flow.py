"""cond, switch, while_loop, fori_loop, scan, map and associative_scan, and their derivatives."""

import teucer as jax
import teucer.numpy as jnp
from teucer import grad, jit, lax, vmap

print(
    lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0),
    lax.cond(jnp.array(0) > 1, lambda: 1, lambda: 2),
)
print(
    [
        int(lax.switch(i, [lambda x: x, lambda x: x * 10, lambda x: x * 100], 2))
        for i in (-1, 0, 1, 2, 9)
    ]
)
print(lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2.0), (0, 1.0)))
print(
    lax.fori_loop(0, 5, lambda i, c: c + i, 0),
    grad(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0),
)
print(lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.arange(4.0)))
print(
    lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(4.0), reverse=True),
    lax.scan(lambda c, _: (c * 2, c), 1, None, length=4),
)
print(lax.map(lambda x: x**2, jnp.arange(4)), lax.map(lambda x: x**2, jnp.arange(5), batch_size=2))
print(
    lax.associative_scan(jnp.add, jnp.arange(5)),
    lax.associative_scan(jnp.multiply, jnp.arange(1.0, 5.0), reverse=True),
)


def aff(a, b):
    return (a[0] * b[0], a[1] * b[0] + b[1])


print(lax.associative_scan(aff, (jnp.ones(4) / 2, jnp.arange(4.0))))
print(jax.make_jaxpr(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))(1.0))
print(jax.make_jaxpr(lambda x: lax.scan(lambda c, e: (c + e, c), x[0], x))(jnp.arange(3.0)))
print(jax.make_jaxpr(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c + 1, x))(1))
print(jax.make_jaxpr(lambda x: lax.fori_loop(0, 10, lambda i, c: c + i, x))(1))
print(
    grad(lambda x: lax.cond(x > 0, lambda y: y**2, lambda y: -y, x))(3.0),
    grad(lambda x: lax.switch(1, [jnp.sin, jnp.cos], x))(1.0),
)
print(grad(lambda x: lax.scan(lambda c, e: (jnp.sin(c * e), c), x, jnp.arange(1.0, 4.0))[0])(0.5))
print(jax.jvp(lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c, x), (3.0,), (1.0,)))
print(lax.while_loop(lambda c: c < 3, lambda c: c + 1.5, 1))
print(
    lax.scan(lambda c, x: (c + x, None), jnp.zeros(2), jnp.ones((3, 2))),
    lax.select(jnp.array([True, False]), jnp.ones(2), jnp.zeros(2)),
)
print(vmap(lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0, lambda: 3.0]))(jnp.arange(3)))
print(jit(lambda n: lax.fori_loop(0, n, lambda i, a: a.at[i].set(i), jnp.zeros(5)))(3))
