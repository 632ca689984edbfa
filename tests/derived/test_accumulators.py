"""Backward rules that give cotangents to accumulators: `defvjp_with_accums`, `with_accums`."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental.hijax import NullAccum, RefAccum, ValAccum


def scaled(kinds=None):
    """sin(x) * y["a"], with twice its gradient; kinds: what the rule is given is noted there."""

    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y["a"]

    def bwd(residuals, ct, x_acc, y_acc):
        x, a = residuals
        if kinds is not None:
            kinds.append((type(x_acc), type(y_acc["a"]), type(y_acc["n"])))
        x_acc.accum(jnp.cos(x) * a * ct)
        x_acc.accum(jnp.cos(x) * a * ct)
        y_acc["a"].accum(2 * jnp.sin(x) * ct)

    f.defvjp_with_accums(lambda x, y: (f(x, y), (x, y["a"])), bwd)
    return lambda x, a: f(x, {"a": a, "n": 1})


def multiplied(**how):
    @jax.custom_gradient(**how)
    def f(x, a):
        def vjp(ct, x_acc, a_acc):
            x_acc.accum(2 * jnp.cos(x) * a * ct)
            a_acc.accum(2 * jnp.sin(x) * ct)

        return jnp.sin(x) * a, (lambda *_: (jnp.sin(x) * a, vjp)) if how.get("remat") else vjp

    return f


FUNCTIONS = {
    "custom_vjp": scaled(),
    "ValAccum": multiplied(with_accums=ValAccum),
    "RefAccum": multiplied(with_accums=RefAccum),
    "each": multiplied(with_accums=(ValAccum, RefAccum)),
    "remat": multiplied(with_accums=ValAccum, remat=True),
}
TRANSFORMED = {
    "grad": lambda f: jax.grad(lambda x: f(x[0], x[1])),
    "jit": lambda f: jax.jit(jax.grad(lambda x: f(x[0], x[1]))),
    "jacrev": lambda f: jax.jacrev(lambda x: f(x, x[::-1])),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f), in_axes=(0, None)),
    "grad of vmap": lambda f: jax.grad(lambda x: jax.vmap(f, in_axes=(0, None))(x, x[0]).sum()),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(lambda x: f(x[0], x[1]))),
    "cond": lambda f: jax.grad(lambda x: lax.cond(x[0] > 0, f, lambda x, a: x, x[0], x[1])),
    "scan": lambda f: jax.grad(lambda x: lax.scan(lambda c, a: (c + f(a, x[0]), None), 0.0, x)[0]),
}
X = np.float32([0.5, 2.0])


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_twice_the_gradient(kind, name):
    change = TRANSFORMED[name]

    def plain(x, a):
        y = jnp.sin(x) * a
        return y + (y - lax.stop_gradient(y))

    args = (X, X[0]) if name == "vmap of grad" else (X,)
    np.testing.assert_allclose(change(FUNCTIONS[kind])(*args), change(plain)(*args), rtol=1e-6)


def test_kinds():
    """As JAX 0.12.0.1: what is not differentiated has a NullAccum."""
    kinds = []
    f = scaled(kinds)
    jax.grad(f)(1.0, 2.0)
    jax.grad(f, (0, 1))(1.0, 2.0)
    jax.grad(f, 1)(1.0, 2.0)
    assert kinds == [
        (ValAccum, NullAccum, NullAccum),
        (ValAccum, ValAccum, NullAccum),
        (NullAccum, ValAccum, NullAccum),
    ]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_added_to_references(kind):
    _, pull = jax.vjp(FUNCTIONS[kind], jnp.float32(1), jnp.float32(3))
    ref = jax.new_ref(jnp.float32(10))
    pull.with_refs(jax.ad.DontWant(), ref)(jnp.float32(1))
    np.testing.assert_allclose(ref[...], 10 + 2 * np.sin(1), rtol=1e-6)


def test_logs():
    f = jax.custom_vjp(lambda x: x * 2)

    def bwd(_, ct, acc):
        acc.accum(ct * 5)
        return {"seen": ct}

    f.defvjp_with_accums(lambda x: (x * 2, None), bwd)
    g = jax.custom_gradient(with_accums=ValAccum)(
        lambda x: (x * 2, lambda ct, acc: bwd(0, ct, acc))
    )
    for h in (f, g):
        cts, logs = jax.vjp(h, 1.0)[1].with_logs(3.0)
        assert (float(cts[0]), float(logs["seen"])) == (15, 3)
        assert float(jax.grad(h)(1.0)) == 5


def test_nothing_is_zero_and_static_arguments():
    f = jax.custom_vjp(lambda n, x: x * n, nondiff_argnums=(0,))
    f.defvjp_with_accums(lambda n, x: (x * n, None), lambda n, _, ct, acc: acc.accum(ct * n))
    assert float(jax.grad(lambda x: f(3, x))(1.0)) == 3
    g = jax.custom_vjp(lambda x: x * 2)
    g.defvjp_with_accums(lambda x: (x * 2, None), lambda _, ct, acc: None)
    assert float(jax.grad(g)(1.0)) == 0


def test_refused():
    def of(bwd):
        f = jax.custom_vjp(lambda x: x * 2)
        f.defvjp_with_accums(lambda x: (x * 2, None), bwd)
        return f

    with pytest.raises(TypeError, match=r"(?s)defvjp_with_accums.*return None or a dict.*tuple"):
        jax.grad(of(lambda _, ct, acc: (ct,)))(1.0)
    with pytest.raises(ValueError, match="so the shapes do not match"):
        jax.grad(of(lambda _, ct, acc: acc.accum(jnp.ones(3))))(1.0)
    for kinds in (int, (ValAccum, NullAccum)):
        with pytest.raises(TypeError, match="with ValAccum or RefAccum leaves, but got a leaf"):
            jax.grad(multiplied(with_accums=kinds))(1.0, 2.0)
    with pytest.raises(ValueError, match="with_accums"):
        jax.grad(multiplied(with_accums=(ValAccum,)))(1.0, 2.0)
    with pytest.raises(TypeError, match=r"(?s)with_accums must return.*return None or a dict"):
        jax.grad(jax.custom_gradient(with_accums=ValAccum)(lambda x: (x, lambda ct, a: (ct,))))(1.0)
