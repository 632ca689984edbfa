"""Haliax: a network on named axes is trained."""

import haliax as hax
import jax
import jax.numpy as jnp
import optax

Batch, In, Hidden, Out = hax.make_axes(Batch=8, In=5, Hidden=16, Out=3)
x = hax.random.normal(jax.random.PRNGKey(0), (Batch, In))
target = hax.random.normal(jax.random.PRNGKey(1), (Batch, Out))
weights = {
    "in": hax.random.normal(jax.random.PRNGKey(2), (In, Hidden)) * 0.3,
    "out": hax.random.normal(jax.random.PRNGKey(3), (Hidden, Out)) * 0.3,
}


def loss(weights):
    hidden = hax.nn.gelu(hax.dot(x, weights["in"], axis=In))
    out = hax.dot(hidden, weights["out"], axis=Hidden)
    return hax.mean((out - target) ** 2).scalar()


optimizer = optax.adam(1e-2)
state = optimizer.init(weights)


@jax.jit
def step(weights, state):
    value, gradient = jax.value_and_grad(loss)(weights)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(weights, updates), state, value


for _ in range(4):
    weights, state, value = step(weights, state)
    print(f"{value:.6f}")
print(hax.sum(x, axis=In).array)
print(hax.nn.softmax(x, axis=In).rearrange((In, Batch)).array[0])
print(hax.argmax(x, axis=In).array, hax.sort(x, axis=Batch)["Batch", 0].array)
print(hax.vmap(lambda row: hax.max(row, axis=In), Batch)(x).array)
print(hax.fold(lambda c, row: c + row, Batch)(hax.zeros(In), x).array)
print(hax.concatenate("In", [x, x]).axes, hax.where(x > 0, x, 0.0).sum().scalar())
print(jnp.round(hax.random.uniform(jax.random.PRNGKey(4), (In,)).array, 5))
