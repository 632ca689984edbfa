"""Which derivatives are weakly typed, as their printing shows."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

weak = jnp.full(2, 3.0)
functions = {
    "float power": lambda x: x**2.0,
    "integer power": lambda x: x**2,
    "product": lambda x: x * x,
    "sin": jnp.sin,
    "astype": lambda x: x.astype(jnp.float32) * 2,
    "strong factor": lambda x: jnp.float32(3) * x,
    "constant": lambda x: 1.0,
    "two": lambda x: (x, 2 * x),
    "stack": lambda x: jnp.stack([x, x]),
    "relu": jax.nn.relu,
    "norm": lambda x: jnp.sum(x**3.5) ** 0.5,
}
for name, f in functions.items():
    for value in (3.0, weak, jnp.ones(2)):
        print(
            name,
            repr(jax.jacfwd(f)(value)),
            repr(jax.jacrev(f)(value)),
            repr(jax.hessian(f)(value)),
        )
for name in (
    "float power",
    "integer power",
    "product",
    "sin",
    "astype",
    "strong factor",
    "constant",
    "relu",
    "norm",
):
    f = functions[name]
    print(
        name,
        repr(jax.grad(f)(3.0)),
        jax.jvp(f, (3.0,), (1.0,))[1],
        repr(jax.linearize(f, 3.0)[1](1.0)),
    )
for name in (
    "power",
    "float_power",
    "divide",
    "arctan2",
    "hypot",
    "logaddexp",
    "remainder",
    "maximum",
):
    f = getattr(jnp, name)
    print(
        name,
        *(
            repr(jax.grad(f, i)(*args))
            for i in (0, 1)
            for args in ((0.5, 2.0), (jnp.float32(0.5), 2.0))
        ),
    )
z = 1 + 1j
for f in (
    lambda z: jnp.abs(z) ** 2,
    lambda z: jnp.real(z**2),
    lambda z: jnp.imag(jnp.exp(z)),
    jnp.angle,
):
    print(repr(jax.grad(f)(z)), repr(jax.grad(lambda x, f=f: f(x * z))(1.0)))
print(
    repr(jax.grad(lambda x: lax.pow(x, 2.5))(2.0)), repr(jax.grad(lambda x: lax.pow(2.5, x))(2.0))
)
