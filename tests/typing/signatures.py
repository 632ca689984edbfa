"""What type checkers take transformed functions and control flow for."""

from collections.abc import Callable
from functools import partial
from typing import Any, assert_type

import teucer as jax
import teucer.numpy as jnp
from teucer import Array, lax
from teucer.stages import Compiled, Lowered, Traced

Weights = dict[str, Array]


def scaled(x: Array, n: int) -> Array:
    return x * n


def loss(weights: Weights, x: Array) -> Array:
    return jnp.sum(weights["w"] * x)


def loss_and_more(weights: Weights, x: Array) -> tuple[Array, list[Array]]:
    return loss(weights, x), [x]


@jax.jit
def doubled(x: Array) -> Array:
    return x + x


@partial(jax.jit, static_argnames="n")
def static(x: Array, n: int) -> Array:
    return x * n


@jax.custom_jvp
def tripled(x: Array) -> Array:
    return x * 3


tripled.defjvp(lambda primals, tangents: (tripled(*primals), tangents[0] * 3))


@jax.custom_vjp
def halved(x: Array) -> Array:
    return x / 2


halved.defvjp(lambda x: (halved(x), None), lambda _, ct: (ct / 2,))


class Model:
    """A class whose methods are transformed."""

    def __init__(self, w: Array) -> None:
        self.w = w

    @partial(jax.jit, static_argnums=0)
    def plain(self, x: Array) -> Array:
        return self.w * x

    @partial(jax.checkpoint, static_argnums=0)
    def kept(self, x: Array) -> Array:
        return self.w * x


def step(carry: Array, x: Array) -> tuple[Array, Weights]:
    return carry + x, {"w": carry}


def main() -> None:
    x = jnp.ones(3)
    weights = {"w": x}
    compiled = jax.jit(scaled, static_argnums=1)
    assert_type(compiled(x, 2), Array)
    assert_type(compiled.lower(x, 2), Lowered)
    assert_type(compiled.trace(x, 2), Traced)
    assert_type(compiled.lower(x, 2).compile(), Compiled)
    assert_type(doubled(x), Array)
    assert_type(doubled.lower(x), Lowered)
    print(compiled.eval_shape(x, 2), static(x, 2), doubled.eval_shape(x))
    assert_type(jax.vmap(scaled, (0, None))(x, 2), Array)
    assert_type(jax.grad(loss)(weights, x), Weights)
    assert_type(jax.grad(loss_and_more, has_aux=True)(weights, x), tuple[Weights, list[Array]])
    assert_type(jax.value_and_grad(loss)(weights, x), tuple[Array, Weights])
    assert_type(
        jax.value_and_grad(loss_and_more, has_aux=True)(weights, x),
        tuple[tuple[Array, list[Array]], Weights],
    )
    assert_type(jax.jit(jax.value_and_grad(loss))(weights, x), tuple[Array, Weights])
    assert_type(jax.checkpoint(loss)(weights, x), Array)
    assert_type(jax.remat(policy=None)(loss)(weights, x), Array)
    assert_type(tripled(x), Array)
    assert_type(halved(x), Array)
    assert_type(jax.vjp(doubled, x)[0], Array)
    assert_type(jax.jvp(doubled, (x,), (x,)), tuple[Array, Array])
    assert_type(jax.linearize(doubled, x)[0], Array)
    assert_type(lax.scan(step, x[0], x), tuple[Array, Weights])
    assert_type(lax.scan(lambda total, y: (total + y, y), 0.0, x), tuple[Array, Array])
    assert_type(
        lax.while_loop(lambda v: v[0].sum() < 9, lambda v: v, (x * 9, x)), tuple[Array, Array]
    )
    assert_type(lax.fori_loop(0, 3, lambda i, v: v, weights), Weights)
    assert_type(lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), Array)
    assert_type(lax.switch(0, [jnp.sin, jnp.cos], x), Array)
    assert_type(lax.map(doubled, x), Array)
    assert_type(jax.tree.map(doubled, weights), Weights)
    model = Model(x)
    nested: Callable[[Array], Any] = jax.vmap(jax.grad(lambda y: jnp.sin(y) * y))
    print(
        model.plain(x),
        model.kept(x),
        nested(x),
        lax.fori_loop(0, 3, lambda i, v: v + i, 0),
        jax.make_jaxpr(jax.grad(lambda y: y * y))(2.0),
    )


if __name__ == "__main__":
    main()
