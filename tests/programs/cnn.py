"""A small convolutional network, trained."""

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random


def cnn(p, x):
    x = lax.conv_general_dilated(
        x, p["c1"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = jax.nn.relu(x)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    return x.reshape(x.shape[0], -1) @ p["w"]


k = random.split(random.key(0), 4)
p = {"c1": random.normal(k[0], (3, 3, 1, 4)) * 0.3, "w": random.normal(k[1], (16, 3)) * 0.3}
x = random.normal(k[2], (5, 8, 8, 1))
t = random.randint(k[3], (5,), 0, 3)


def loss(p):
    return -jnp.take_along_axis(jax.nn.log_softmax(cnn(p, x)), t[:, None], 1).mean()


step = jax.jit(lambda p: (jax.tree.map(lambda a, g: a - 0.5 * g, p, jax.grad(loss)(p)), loss(p)))
for _i in range(10):
    p, l = step(p)
    print(round(float(l), 4))
