"""Programs with annotations, as users write them who check types."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import Array, lax
from teucer.typing import ArrayLike


class State(NamedTuple):
    """The state of a loop."""

    x: Array
    steps: Array | int


@partial(jax.jit, static_argnames="n")
def iterate(x: Array, n: int) -> Array:
    def step(state: State) -> State:
        return State(jnp.sin(state.x) * 2, state.steps + 1)

    def goes_on(state: State) -> Array:
        return jnp.less(state.steps, n)

    return lax.while_loop(goes_on, step, State(x, 0)).x


def mlp(params: list[tuple[Array, Array]], x: Array) -> Array:
    for w, b in params:
        x = jax.nn.relu(x @ w + b)
    return jax.nn.log_softmax(x, axis=-1)


def loss(params: list[tuple[Array, Array]], batch: tuple[Array, Array]) -> Array:
    images, labels = batch
    return -jnp.mean(jnp.sum(mlp(params, images) * jax.nn.one_hot(labels, 10), axis=1))


@jax.jit
def update(
    params: list[tuple[Array, Array]], batch: tuple[Array, Array], rate: float = 1e-3
) -> tuple[list[tuple[Array, Array]], Array]:
    value, grads = jax.value_and_grad(loss)(params, batch)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), value


def init(key: Array, sizes: list[int], scale: float = 0.1) -> list[tuple[Array, Array]]:
    keys: Array = jax.random.split(key, len(sizes))
    return [
        (scale * jax.random.normal(k, (m, n)), jnp.zeros(n))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=False)
    ]


def prefix(xs: Array, combine: Callable[[Array, Array], Array] = jnp.maximum) -> Array:
    return lax.associative_scan(combine, xs)


def cumulate(xs: Array) -> tuple[Array, Array]:
    def add(total: Array, x: Array) -> tuple[Array, Array]:
        return total + x, total

    return lax.scan(add, jnp.zeros(()), xs)


def scaled(x: ArrayLike, by: ArrayLike = 2.0) -> Array:
    return jnp.asarray(x) * by


def main() -> None:
    key = jax.random.key(0)
    old = jax.random.PRNGKey(0)
    key, sub = jax.random.split(key)
    params = init(sub, [784, 32, 10])
    batch = (jax.random.normal(key, (8, 784)), jax.random.randint(old, (8,), 0, 10))
    params, value = update(params, batch)
    print(float(value), jax.tree.map(jnp.shape, params))
    x = jnp.linspace(0, 1, 5)
    y, step = jnp.linspace(0, 1, 5, retstep=True)
    print(x[:, None] * y[None], step, iterate(x, 3), prefix(x), cumulate(x), scaled(3))
    print(scaled(np.ones(3), np.float32(2)), scaled([1.0][0]))
    u, s, vt = jnp.linalg.svd(jnp.eye(3))
    print(u @ jnp.diag(s) @ vt, jnp.linalg.svd(jnp.eye(3), compute_uv=False).sum())
    lower: Array = jax.scipy.linalg.cholesky(jnp.eye(3), lower=True)
    factor = jax.scipy.linalg.cho_factor(jnp.eye(3))
    print(lower, jax.scipy.linalg.cho_solve(factor, jnp.ones(3)), jax.scipy.special.erf(0.5))
    print(jax.scipy.stats.norm.logpdf(x, loc=0.0, scale=2), jax.scipy.special.logsumexp(x) + 1)
    jac: Array = jax.jacfwd(jnp.sin)(x)
    out, pull = jax.vjp(jnp.sin, x)
    (ct,) = pull(jnp.ones_like(out))
    primal, tangent = jax.jvp(jnp.sin, (x,), (x,))
    print(jac, ct, primal, tangent, jax.grad(lambda z: (z**2).sum())(x))
    batched: Array = jax.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((3, 5)), x)
    print(batched.at[0].set(1.0), jnp.where(x > 0.5, x, 0.0), jnp.atleast_2d(1.0).shape)
    mesh = jax.make_mesh((1,), ("data",))
    sharded = jax.device_put(x, jax.NamedSharding(mesh, jax.P(None)))
    print(sharded.sharding, jnp.einsum("i,i->", x, y), jnp.concatenate([x, y], axis=0))
    print(jnp.sum(x, axis=(0,), keepdims=True), x.sum(0), x.reshape(5, 1), x.reshape((5, 1)))
    print(lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), lax.fori_loop(0, 3, lambda i, c: c + i, 0))
    heads = jnp.ones((2, 4, 1, 8))
    attended: Array = jax.nn.dot_product_attention(heads, heads, np.ones((2, 4, 1, 8), np.float32))
    weights: Array = jax.nn.softmax(attended, axis=(0, 1))
    print(attended.shape, weights.sum(), jax.nn.logsumexp(weights, axis=-1) + 1)
    a, b = lax.sort((x, y)), lax.sort(x)
    print(a[0] + b, jnp.argsort(x), jnp.array([1, 2], dtype="int32"), jnp.zeros((2,), np.int32))


if __name__ == "__main__":
    main()
