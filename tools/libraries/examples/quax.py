"""Quax: low ranks, symbolic zeros, control flow."""

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
import quax.examples.unitful as u
from quax.examples import lora, zero

m = eqx.nn.Linear(4, 3, key=jax.random.key(0))
l = lora.loraify(m, rank=2, key=jax.random.key(1))
print(quax.quaxify(l)(jnp.arange(4.0)))
f = quax.quaxify(lambda x, y: x * y)
print(
    f(
        u.Unitful(jnp.array(2.0), u.meters.units if hasattr(u.meters, "units") else u.meters),
        u.Unitful(jnp.array(3.0), {u.meters: 1}),
    )
    if False
    else ""
)
z = zero.Zero((3,), jnp.float32)
print(quax.quaxify(lambda z, x: z + x)(z, jnp.ones(3)))
print(
    quax.quaxify(jax.jit(lambda z, x: jax.lax.scan(lambda c, y: (c + y, c * 2), z, x)))(
        jnp.zeros(3), jnp.ones((2, 3))
    )
)
print(
    quax.quaxify(lambda x: jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x, x))(jnp.ones(2))
)
print(
    quax.quaxify(
        lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))
    )(jnp.ones(2))
)
print(quax.quaxify(jax.vmap(lambda l, x: x * 2, in_axes=(None, 0)))(1.0, jnp.ones(2)))
print(jax.grad(lambda l: quax.quaxify(l)(jnp.arange(4.0)).sum(), allow_int=True)(l).weight.a.shape)
