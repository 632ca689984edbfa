"""Programs as jaxprs."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, make_jaxpr

print(make_jaxpr(lambda x: jnp.sin(x) + jnp.cos(x) * 3)(jnp.float32(1)))
print(make_jaxpr(lambda a, b, *c: a + b + c[0])(1, 2.0, jnp.ones(2)))


def fun(arg):

    def inner(x):
        return x + arg * jnp.sin(x)

    return inner(arg**2) / 3


print(make_jaxpr(fun)(2.0))
print(make_jaxpr(jax.grad(fun))(2.0))
print(make_jaxpr(jax.vmap(fun))(jnp.ones(2)))
print(make_jaxpr(jax.jit(fun))(2.0))
print(
    make_jaxpr(
        lambda i, a: lax.switch(i, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x * 3.0], a)
    )(1, 5.0)
)
print(make_jaxpr(lambda p, a: lax.cond(p, lambda x: x + a, lambda x: x * 2, a))(True, 1.0))
print(make_jaxpr(lambda n, a: lax.fori_loop(0, n, lambda i, x: x + a * i, 0.0))(3, 2.0))
print(
    make_jaxpr(lambda arr, e: lax.scan(lambda c, x: (c + x * e, c), jnp.ones(()), arr))(
        jnp.ones(4), 2.0
    )
)
print(
    make_jaxpr(
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))
    )(1.0)
)
print(make_jaxpr(lambda x: jax.lax.stop_gradient(x) * 2)(1.0))
print(make_jaxpr(lambda x: {"a": x["b"] * 2})({"b": 1.0}))
print(make_jaxpr(lambda: 1.0)())
print(make_jaxpr(lambda x: x)(1))
print(make_jaxpr(lambda x: jnp.array([1.0, 2.0]) * x)(1.0))
print(
    make_jaxpr(
        lambda x: (
            x.sum(),
            x.max(0),
            x.T,
            x.ravel(),
            x[None],
            x[:, 0],
            x[0],
            x[..., ::2],
            x.astype(jnp.float16),
            x > 0,
            x == x,
            jnp.abs(x),
            -x,
            x**3,
            x**2.5,
            jnp.exp(x),
            jnp.maximum(x, 0),
            jnp.zeros_like(x),
            jnp.ones((2,)),
            jnp.arange(3),
        )
    )(jnp.ones((2, 3)))
)
print(jax.jit(fun).lower(1.0).as_text()[:15])
print(jax.jit(fun).trace(1.0).jaxpr)
print(make_jaxpr(jax.value_and_grad(lambda x: jnp.sum(x * x)))(jnp.ones(2)))
print(make_jaxpr(lambda x: jax.jvp(jnp.sin, (x,), (1.0,)))(1.0))
print(make_jaxpr(lambda f: f)(1.0).in_avals)
