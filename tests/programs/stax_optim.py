"""The example libraries: networks of stax, trained by each of the optimisers."""

import teucer as jax
import teucer.numpy as jnp
from teucer import random
from teucer.example_libraries import optimizers, stax

init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(3), stax.LogSoftmax)
shape, params = init(random.key(0), (-1, 4))
print(shape, jax.tree.map(jnp.shape, params))
X = random.normal(random.key(1), (12, 4))
Y = jax.nn.one_hot(jnp.arange(12) % 3, 3)
loss = lambda p: -jnp.mean(jnp.sum(apply(p, X) * Y, 1))
for nm, o in [
    ("sgd", optimizers.sgd(0.1)),
    ("mom", optimizers.momentum(0.1, 0.9)),
    ("adam", optimizers.adam(0.01)),
    ("rms", optimizers.rmsprop(0.01)),
    ("nest", optimizers.nesterov(0.1, 0.9)),
    ("ada", optimizers.adagrad(0.1)),
]:
    oi, ou, gp = o
    st = oi(params)
    stp = jax.jit(lambda i, s: ou(i, jax.grad(loss)(gp(s)), s))
    for i in range(10):
        st = stp(i, st)
    print(nm, loss(gp(st)))
ci, ca = stax.serial(
    stax.Conv(4, (3, 3), padding="SAME"),
    stax.BatchNorm(),
    stax.Relu,
    stax.MaxPool((2, 2)),
    stax.Flatten,
    stax.Dense(2),
    stax.Softmax,
)
s, cp = ci(random.key(2), (-1, 6, 6, 1))
print(ca(cp, random.normal(random.key(3), (2, 6, 6, 1))))
print(
    optimizers.exponential_decay(0.1, 10, 0.5)(10),
    optimizers.clip_grads([jnp.ones(3)], 1.0),
    optimizers.l2_norm([jnp.ones(4)]),
)
