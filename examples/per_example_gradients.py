"""Per-example gradients.

Vmap of grad gives the gradient of every example of a batch in one program.

Here they find the mislabelled points of a data set: a wrong label pulls harder on the parameters
than a right one.
"""

import teucer as jax
import teucer.numpy as jnp

EXAMPLES = 200
WRONG = 10


def loss(params, x, y):
    """Logistic loss of one example: x f32[2], y f32[] in {-1, 1}."""
    return jnp.logaddexp(0.0, -y * (jnp.dot(params["w"], x) + params["b"]))


def batch_loss(params, xs, ys):
    return jnp.mean(jax.vmap(loss, in_axes=(None, 0, 0))(params, xs, ys))


def make_data(key):
    """Two clouds of points around (-2, -2) and (2, 2); the labels of the first WRONG points are
    turned around."""
    label_key, point_key = jax.random.split(key)
    labels = jnp.where(jax.random.bernoulli(label_key, shape=(EXAMPLES,)), 1.0, -1.0)
    points = 2.0 * labels[:, None] + jax.random.normal(point_key, (EXAMPLES, 2))
    return points, labels.at[:WRONG].multiply(-1.0)


@jax.jit
def train_step(params, xs, ys):
    gradients = jax.grad(batch_loss)(params, xs, ys)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradients)


def main(steps: int = 200) -> float:
    """Print the examples with the largest gradients; return the share of the wrong labels among the
    WRONG largest."""
    xs, ys = make_data(jax.random.key(0))
    params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
    for _ in range(steps):
        params = train_step(params, xs, ys)

    gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(params, xs, ys)
    norms = jnp.sqrt(jnp.sum(gradients["w"] ** 2, axis=1) + gradients["b"] ** 2)
    mean = jax.tree.map(lambda g: jnp.mean(g, axis=0), gradients)
    print("the mean of the per-example gradients is the gradient of the mean:")
    print("  ", mean["w"], jax.grad(batch_loss)(params, xs, ys)["w"])

    suspects = jnp.argsort(-norms)[:WRONG]
    found = float(jnp.mean(suspects < WRONG))
    print("largest gradients:", [(int(i), round(float(norms[i]), 2)) for i in suspects])
    print(f"{found:.0%} of the wrong labels are among them")
    return found


if __name__ == "__main__":
    main()
