"""Steps of a generative adversarial network with a gradient penalty."""

import teucer as jax
import teucer.numpy as jnp
from teucer import random

G = lambda p, z: jnp.tanh(z @ p["a"]) @ p["b"]
D = lambda p, x: (jnp.tanh(x @ p["a"]) @ p["b"])[..., 0]
k = random.split(random.key(0), 6)
gp = {"a": random.normal(k[0], (2, 8)), "b": random.normal(k[1], (8, 2))}
dp = {"a": random.normal(k[2], (2, 8)), "b": random.normal(k[3], (8, 1))}
real = random.normal(k[4], (32, 2)) + 2.0
z = random.normal(k[5], (32, 2))
dl = lambda dp, gp: jnp.mean(
    jax.nn.softplus(-D(dp, real)) + jax.nn.softplus(D(dp, jax.lax.stop_gradient(G(gp, z))))
)
gl = lambda gp, dp: jnp.mean(jax.nn.softplus(-D(dp, G(gp, z))))
gpen = lambda dp: jnp.mean(jax.vmap(lambda x: jnp.sum(jax.grad(lambda q: D(dp, q))(x) ** 2))(real))


@jax.jit
def step(gp, dp):
    a, da = jax.value_and_grad(lambda d: dl(d, gp) + 0.1 * gpen(d))(dp)
    b, db = jax.value_and_grad(gl)(gp, dp)
    up = lambda p, g: jax.tree.map(lambda x, y: x - 0.1 * y, p, g)
    return (up(gp, db), up(dp, da), a, b)


for _i in range(5):
    gp, dp, a, b = step(gp, dp)
    print(f"{a:.4f} {b:.4f}")
