"""Policies of `checkpoint` reach into the bodies of loops and conditionals."""

import functools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X, W = jnp.arange(4.0), jnp.eye(4) * 0.5 + 0.1


def layer(x, w):
    for _ in range(3):
        x = jnp.sin(jnp.dot(x, w))
    return x


def scanned(w):
    return lax.scan(lambda x, _: (layer(x, w), x.sum()), X, None, length=2)


def chosen(w):
    return lax.cond(X.sum() > 0, lambda x: layer(x, w), lambda x: x, X)


def nested(w):
    return lax.scan(
        lambda c, _: (
            lax.cond(c.sum() > 0, lambda x: jax.jit(layer)(x, w), lambda x: 2 * x, c),
            None,
        ),
        X,
        None,
        length=2,
        reverse=True,
    )[0]


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ("checkpoint_dots", {"scanned": (3, 3, 6), "chosen": (2, 3, 5), "nested": (3, 3, 6)}),
        ("nothing_saveable", {"scanned": (3, 3, 9), "chosen": (2, 3, 8), "nested": (3, 3, 9)}),
        ("everything_saveable", {"scanned": (0, 0, 6), "chosen": (0, 0, 5), "nested": (0, 0, 6)}),
    ],
)
@pytest.mark.parametrize("f", [scanned, chosen, nested])
def test_what_is_computed_again(f, policy, counts):
    again = jax.checkpoint(f, policy=getattr(jax.checkpoint_policies, policy))
    y, pull = jax.vjp(again, W)
    text = str(jax.make_jaxpr(pull)(y))
    assert tuple(text.count(name) for name in (" sin ", " cos ", " dot_")) == counts[f.__name__]
    np.testing.assert_allclose(pull(y)[0], jax.vjp(f, W)[1](y)[0], rtol=1e-6)


def test_branches_that_save_different_things():
    names = jax.checkpoint_policies.save_only_these_names("a", "b")

    def f(i, x):
        def first(x):
            return jnp.sin(jax.ad_checkpoint.checkpoint_name(jnp.cos(x), "a")) + 0 * x[0]

        def second(x):
            y = jax.ad_checkpoint.checkpoint_name(jnp.exp(x).reshape(2, 2), "b")
            return jnp.tanh(y).reshape(4) * jnp.sin(jax.ad_checkpoint.checkpoint_name(x.sum(), "a"))

        return lax.switch(i, [first, second, lambda x: x * x], x)

    again = jax.jit(functools.partial(jax.checkpoint, policy=names)(f))
    for i in range(3):
        for order in (1, 2):

            def g(x, h, i=i, order=order):
                h = functools.partial(h, i)
                loss = lambda x: jnp.sum(h(x) ** 2)
                return (
                    jax.grad(loss)(x)
                    if order == 1
                    else jax.grad(lambda x: jnp.sum(jax.grad(loss)(x)))(x)
                )

            np.testing.assert_allclose(g(X / 5, again), g(X / 5, f), rtol=1e-5)


def test_names_in_a_loop_are_saved_for_each_step():
    policy = jax.checkpoint_policies.save_only_these_names("h")

    def f(x):
        def body(c, _):
            h = jax.ad_checkpoint.checkpoint_name(c @ W, "h")
            return jnp.sin(h), None

        return lax.scan(body, x, None, length=3)[0]

    _, push = jax.linearize(jax.checkpoint(f, policy=policy), X / 5)
    text = str(jax.make_jaxpr(push)(X))
    assert text.count(" dot_") == text.count(" cos ") == 1
    assert (3, 4) in [np.shape(r) for r in jax.tree.leaves(push)]
    assert jax.vmap(jax.grad(lambda x: jax.checkpoint(f, policy=policy)(x).sum()))(
        jnp.ones((2, 4))
    ).shape == (2, 4)


def test_a_linear_map_keeps_what_it_needs():
    def f(x):
        unused = x * np.ones(300, np.float32)
        del unused
        return x

    for linear in (jax.vjp(f, 3.0)[1], jax.linearize(f, 3.0)[1]):
        assert jax.tree.leaves(linear) == [] and "mul" not in str(linear)


def test_a_function_is_traced_once_for_each_kind_of_call():
    traces = []

    def f(x, w, n):
        traces.append(n)
        return jnp.sin(w * x) ** n

    g = jax.checkpoint(f, static_argnums=2)
    x, w = jnp.ones(3), jnp.arange(3.0)
    for _ in range(2):
        g(x, w, 1)
        jax.grad(lambda x: g(x, w, 1).sum())(x)
        jax.jit(lambda x: g(g(x, w, 1), w, 1))(x)
        jax.vmap(lambda x: g(x, w, 1))(jnp.ones((2, 3)))
    assert traces == [1]
    g(x, w, 2)
    g(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), 1)
    with jax.default_matmul_precision("highest"):
        g(x, w, 1)
    assert traces == [1, 2, 1, 1]
    jax.clear_caches()
    g(x, w, 1)
    assert traces == [1, 2, 1, 1, 1]


def test_what_a_traced_function_closes_over_is_that_of_the_call():
    def f(a):
        return jax.checkpoint(lambda x: jnp.sin(a * x))(2.0)

    assert jax.grad(f)(3.0) == jax.jit(jax.grad(f))(3.0) == 2 * jnp.cos(6.0)

    @jax.checkpoint
    def total(x):
        return jax.lax.psum(x, "i")

    for n in (3, 4):
        assert (jax.vmap(total, axis_name="i")(jnp.ones(n)) == n).all()

    class Unhashable:
        __hash__ = None
        value = 2.0

    scaled = jax.checkpoint(lambda x, s: x * s.value, static_argnums=1)
    assert scaled(3.0, Unhashable()) == 6.0
