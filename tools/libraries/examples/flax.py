"""Flax: an nnx model is trained; layers mapped and scanned."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class M(nnx.Module):
    def __init__(self, rngs):
        self.a = nnx.Linear(4, 8, rngs=rngs)
        self.bn = nnx.BatchNorm(8, rngs=rngs)
        self.d = nnx.Dropout(0.1, rngs=rngs)
        self.b = nnx.Linear(8, 1, rngs=rngs)
        self.att = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)

    def __call__(self, x):
        h = nnx.gelu(self.d(self.bn(self.a(x))))
        h = self.att(h[:, None])[:, 0]
        return self.b(h)


m = M(nnx.Rngs(0))
opt = nnx.Optimizer(m, optax.adam(1e-2), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(0), (8, 4))


@nnx.jit
def step(m, opt):
    l, g = nnx.value_and_grad(lambda m: ((m(x) - 1) ** 2).mean())(m)
    opt.update(m, g)
    return l


for _ in range(5):
    print(f"{step(m, opt):.5f}")


@nnx.vmap(in_axes=0, out_axes=0)
def make(k):
    return nnx.Linear(3, 3, rngs=nnx.Rngs(k))


ms = make(jax.random.split(jax.random.key(0), 4))


@nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
def run(x, l):
    return jnp.tanh(l(x))


print(run(jnp.ones((2, 3)), ms))
gd, st = nnx.split(m)
print(len(jax.tree.leaves(st)))


@nnx.custom_vjp
def f(m):
    return m.kernel[...].sum()


print(
    nnx.cond(
        True,
        lambda m: m(jnp.ones((1, 3))),
        lambda m: m(jnp.zeros((1, 3))),
        nnx.Linear(3, 2, rngs=nnx.Rngs(1)),
    )
)
print(
    nnx.while_loop(
        lambda c: c[1] < 3, lambda c: (c[0], c[1] + 1), (nnx.Linear(3, 2, rngs=nnx.Rngs(1)), 0)
    )[1]
)
print(nnx.tabulate(m, x)[:0])
