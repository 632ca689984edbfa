"""`prevent_cse` of `checkpoint`, as a tree of bools: which arguments are held."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

W, X = np.linspace(0, 1, 9, dtype=np.float32).reshape(3, 3), np.ones(3, np.float32)


def layer(w, x):
    return jnp.tanh(x @ w)


def held(f, *args):
    """How many operands the barriers of a program have."""
    text = jax.jit(f).lower(*args).as_text()
    lines = [line for line in text.splitlines() if "optimization_barrier" in line]
    return [
        line.partition("optimization_barrier")[2].partition(":")[0].count("%") for line in lines
    ]


def gradient(prevent_cse):
    f = jax.checkpoint(layer, prevent_cse=prevent_cse)
    return jax.grad(lambda w, x: f(w, x).sum(), (0, 1))


@pytest.mark.parametrize(
    ("prevent_cse", "counts"),
    [
        (True, [3]),
        (False, []),
        ((True, True), [3]),
        ((False, True), [2]),
        ([True, False], [2]),
        ((False, False), [1]),
    ],
)
def test_operands_held(prevent_cse, counts):
    """As JAX 0.12.0.1 counts them: the cotangent is held wherever a tree is given."""
    f = gradient(prevent_cse)
    assert held(f, W, X) == counts
    for got, want in zip(
        f(W, X), jax.grad(lambda w, x: layer(w, x).sum(), (0, 1))(W, X), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("prevent_cse", [({"w": False, "x": True},), ((False, True),)])
def test_trees(prevent_cse):
    f = jax.checkpoint(lambda d: layer(d["w"], d["x"]), prevent_cse=prevent_cse)
    assert held(jax.grad(lambda d: f(d).sum()), {"w": W, "x": X}) == [2]


def test_keywords_and_static_arguments():
    f = jax.checkpoint(layer, prevent_cse=(True, False))
    assert held(jax.grad(lambda w: f(x=X, w=w).sum()), W) == [2]
    g = jax.checkpoint(lambda s, w: s * jnp.sin(w), static_argnums=0, prevent_cse=(False,))
    assert held(jax.grad(lambda w: g(2, w).sum()), W) == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: jax.vmap(f, in_axes=(None, 0)),
        lambda f: lambda w, xs: lax.scan(lambda c, x: (c + f(w, x), None), X, xs)[0],
        lambda f: lambda w, xs: jax.vmap(jax.grad(lambda x: f(w, x).sum()))(xs),
        lambda f: lambda w, xs: jax.jvp(lambda w: f(w, xs[0]), (w,), (w,))[1],
        lambda f: lambda w, xs: jax.checkpoint(lambda w: f(w, xs[0]) * f(w, xs[1]))(w),
    ],
    ids=["vmap", "scan", "second order", "jvp", "nested"],
)
def test_under_other_transformations(change):
    xs = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    f, g = change(jax.checkpoint(layer, prevent_cse=(False, True))), change(layer)
    for h in (
        lambda k: jax.grad(lambda w: k(w, xs).sum()),
        lambda k: jax.jit(jax.jacfwd(lambda w: k(w, xs))),
    ):
        np.testing.assert_allclose(h(f)(W), h(g)(W), rtol=2e-5, atol=1e-6)


def test_refused():
    for wrong in (None, 1, "yes"):
        with pytest.raises(TypeError, match="prevent_cse must be a bool or tuple of bools, got"):
            jax.checkpoint(layer, prevent_cse=wrong)
    with pytest.raises(ValueError, match="prevent_cse has 1 children while the corresponding"):
        jax.checkpoint(layer, prevent_cse=(True,))(W, X)
    with pytest.raises(ValueError, match=r"must be a tree of bools.*prevent_cse\[1\] is 'a'"):
        jax.checkpoint(layer, prevent_cse=(True, "a"))(W, X)
