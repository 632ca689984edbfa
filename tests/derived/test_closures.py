"""The law of closures.

What a function closes over gives what the same value passed as an argument gives.

For every higher-order operation, under every transformation, closing over arrays and over tracers
of every kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optable.laws import assert_vmap_is_loop

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X, C = np.float32(0.75), np.float32(1.25)


def custom_jvp(c: Any) -> Callable[..., Any]:
    """A rule that closes over c: the tangent is 10 c t, not that of the function."""

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x) * c

    f.defjvp(lambda primals, tangents: (f(*primals), 10 * c * tangents[0]))
    return f


def custom_vjp(c: Any) -> Callable[..., Any]:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x) * 2

    # Closing over what is differentiated is refused, in the rule as in the function: residuals
    # carry it.
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (10 * lax.stop_gradient(c) * ct * jnp.cos(x),))
    return f


def custom_vmap(c: Any) -> Callable[..., Any]:
    @jax.custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return x * c

    f.def_vmap(lambda size, batched, x: (x * c, batched[0]))
    return f


def linear(c: Any) -> Callable[..., Any]:
    return lambda x: lax.custom_linear_solve(
        lambda y: y * c, x, lambda matvec, b: b / c, symmetric=True
    )


# Makers of functions of x that close over c.
MAKERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "jit": lambda c: jax.jit(lambda x: jnp.sin(x) * c),
    "jit in jit": lambda c: jax.jit(lambda x: jax.jit(lambda y: y * c)(jnp.sin(x))),
    "checkpoint": lambda c: jax.checkpoint(lambda x: jnp.sin(x) * c),
    "scan": lambda c: lambda x: lax.scan(lambda s, a: (s * c + a, s), x, jnp.arange(3.0))[0],
    "scan, results": lambda c: (
        lambda x: lax.scan(lambda s, a: (s + a, s * c), x, jnp.arange(3.0))[1].sum()
    ),
    "fori_loop": lambda c: lambda x: lax.fori_loop(0, 3, lambda i, s: s * c + i, x),
    "map": lambda c: lambda x: lax.map(lambda a: a * x * c, jnp.arange(3.0)).sum(),
    "cond": lambda c: lambda x: lax.cond(x > 0, lambda y: y * c, lambda y: y - c, x),
    "switch": lambda c: lambda x: lax.switch(1, [lambda y: y, lambda y: y * c], x),
    "associative_scan": lambda c: (
        lambda x: lax.associative_scan(lambda a, b: a * b, x * c + jnp.arange(3.0)).sum()
    ),
    "custom_jvp": custom_jvp,
    "jit of custom_jvp": lambda c: jax.jit(custom_jvp(c)),
    "custom_vmap": custom_vmap,
    "custom_linear_solve": linear,
    "vmap": lambda c: lambda x: jax.vmap(lambda a: a * x * c)(jnp.arange(3.0)).sum(),
    "grad": lambda c: lambda x: jax.grad(lambda y: jnp.sin(y) * c * y)(x),
    "jvp": lambda c: lambda x: jax.jvp(lambda y: jnp.sin(y) * c, (x,), (x,))[1],
    "vjp": lambda c: lambda x: jax.vjp(lambda y: jnp.sin(y) * c, x)[1](x)[0],
    "linearize": lambda c: lambda x: jax.linearize(lambda y: jnp.sin(y) * c, x)[1](x),
    "hessian": lambda c: lambda x: jax.hessian(lambda y: y**3 * c)(x),
    "while_loop": lambda c: (
        lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * c), (0, x))[1]
    ),
    "eval_jaxpr": lambda c: (
        lambda x: jax.core.eval_jaxpr((j := jax.make_jaxpr(lambda y: y * c)(x)).jaxpr, j.consts, x)[
            0
        ]
    ),
}
# How x and c come in.
AROUND: dict[str, Callable[[Callable[[Any, Any], Any]], Any]] = {
    "eagerly": lambda f: f(jnp.asarray(X), jnp.asarray(C)),
    "numpy": lambda f: f(X, C),
    "jit of both": lambda f: jax.jit(f)(X, C),
    "jit of c": lambda f: jax.jit(lambda c: f(X, c))(C),
    "jit of x": lambda f: jax.jit(lambda x: f(x, C))(X),
    "grad in x": lambda f: jax.grad(f)(X, C),
    "grad in c": lambda f: jax.grad(f, 1)(X, C),
    "jitted grad in both": lambda f: jax.jit(jax.grad(f, (0, 1)))(X, C),
    "jvp in both": lambda f: jax.jvp(f, (X, C), (X, C)),
    "jvp in c": lambda f: jax.jvp(lambda c: f(X, c), (C,), (C,)),
    "vmap of both": lambda f: jax.vmap(f)(
        X * np.arange(1, 3, dtype=np.float32), C * np.arange(1, 3, dtype=np.float32)
    ),
    "vmap of x": lambda f: jax.vmap(f, (0, None))(X * np.arange(1, 3, dtype=np.float32), C),
    "vmap of c": lambda f: jax.vmap(f, (None, 0))(X, C * np.arange(1, 3, dtype=np.float32)),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f, 1), (None, 0))(
        X, C * np.arange(1, 3, dtype=np.float32)
    ),
    "grad of vmap": lambda f: jax.grad(
        lambda c: jax.vmap(lambda x: f(x, c))(X * np.arange(1, 3, dtype=np.float32)).sum()
    )(C),
    "jitted vmap of c": lambda f: jax.jit(jax.vmap(f, (None, 0)))(
        X, C * np.arange(1, 3, dtype=np.float32)
    ),
    "linearize": lambda f: jax.linearize(lambda c: f(X, c), C)[1](C),
}
IN_C = (
    "grad in c",
    "jitted grad in both",
    "jvp in both",
    "jvp in c",
    "vmap of grad",
    "grad of vmap",
    "linearize",
)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", MAKERS)
def test_closed_over_is_passed(name: str, around: str) -> None:
    make = MAKERS[name]
    if name == "custom_vmap" and "vmap" in around and around != "vmap of x":
        pytest.skip(
            "the rule says itself what is batched, and does not speak of what it closes over"
        )
    if name.startswith(("custom_jvp", "jit of custom_jvp", "custom_vmap")) and around in IN_C:
        # A rule says nothing of what is closed over: refused, as in JAX, and no number comes out.
        with pytest.raises((jax.errors.UnexpectedTracerError, TypeError)):
            AROUND[around](lambda x, c: make(c)(x))
        return
    closing = AROUND[around](lambda x, c: make(c)(x))
    passing = AROUND[around](passed(name, make))
    for y, z in zip(jax.tree.leaves(closing), jax.tree.leaves(passing), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-5, err_msg=f"{name}, {around}")


def passed(name: str, make: Any) -> Callable[[Any, Any], Any]:
    """The function of x and c that the maker's is, without a closure over a tracer: c is an
    argument all the way."""
    if name.endswith("custom_jvp"):

        @jax.custom_jvp
        def f(x: Any, c: Any) -> Any:
            return jnp.sin(x) * c

        # The function that closes over c is differentiated in c as it is written, its rule in x
        # alone.
        f.defjvp(lambda primals, tangents: (f(*primals), 10 * primals[1] * tangents[0]))
        return f
    return lambda x, c: make(c)(x)


def test_custom_jvp_function_that_closes_over_an_array() -> None:
    c = jnp.arange(1.0, 4.0)

    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return (x * c).sum() * y

    f.defjvp(lambda primals, tangents: (f(*primals), 10 * tangents[0].sum() + 100 * tangents[1]))
    for g in (f, jax.jit(f), jax.jit(lambda x, y: jax.jit(f)(x, y))):
        dx, dy = jax.grad(g, (0, 1))(jnp.ones(3), 2.0)
        np.testing.assert_array_equal(dx, [10, 10, 10])
        assert dy == 100
        np.testing.assert_array_equal(jax.jit(jax.grad(g))(jnp.ones(3), 2.0), [10, 10, 10])


def test_one_jitted_function_under_two_traces() -> None:
    """Its rule closes over the tracer of a trace that has ended when it is used again."""
    box: dict[str, Any] = {}

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * box["c"]))
    g = jax.jit(f)

    def outer(c: Any) -> Any:
        box["c"] = c
        return jax.jvp(g, (1.0,), (1.0,))[1]

    for trace in (
        lambda c: jax.jvp(outer, (c,), (1.0,))[0],
        lambda c: jax.vmap(outer)(jnp.stack([c, c]))[0],
        jax.jit(outer),
    ):
        for c in (3.0, 4.0):
            assert trace(jnp.asarray(c)) == c


@pytest.mark.parametrize("shapes", [((3, 4), (3, 5)), ((3, 3), (3, 3)), ((4, 2), (4, 3))])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cotangents_of_what_is_not_batched(shapes: Any, axis: int) -> None:
    """Of custom_vjp under vmap: summed over the batch, wherever its axis is."""

    @jax.custom_vjp
    def f(w: Any, x: Any) -> Any:
        return x.T @ w

    f.defvjp(
        lambda w, x: (f(w, x), (w, x)), lambda kept, ct: (2 * kept[1] @ ct, 3 * kept[0] @ ct.T)
    )
    rng = np.random.default_rng(0)
    w, x = (
        rng.normal(size=shapes[0]).astype(np.float32),
        rng.normal(size=(6, *shapes[1])).astype(np.float32),
    )
    batch = np.moveaxis(x, 0, axis)
    weights = rng.normal(size=(6, shapes[1][1], shapes[0][1])).astype(np.float32)

    def total(w: Any, batch: Any) -> Any:
        return (jax.vmap(f, (None, axis))(w, batch) * weights).sum()

    expected = sum(2 * a @ b for a, b in zip(x, weights, strict=True))
    for grad in (jax.grad(total), jax.jit(jax.grad(total))):
        np.testing.assert_allclose(grad(w, batch), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        jax.grad(total, 1)(w, batch),
        np.moveaxis(np.stack([3 * w @ b.T for b in weights]), 0, axis),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [3, 5])
def test_cotangents_batched_along_any_axis(axis: int, size: int) -> None:
    """Of an argument that is not batched: the rule gives a residual, whose batch axis is where that
    of the argument was."""

    @jax.custom_vjp
    def f(w: Any, x: Any) -> Any:
        return (w * x).sum()

    f.defvjp(lambda w, x: (f(w, x), x), lambda x, ct: (x, 3 * x))
    batch = np.arange(3.0 * size, dtype=np.float32).reshape((size, 3) if axis == 0 else (3, size))
    for grad in (jax.grad, lambda g: jax.jit(jax.grad(g))):
        found = grad(lambda w: jax.vmap(f, (None, axis))(w, batch).sum())(jnp.ones(3))
        np.testing.assert_array_equal(found, batch.sum(axis))


def test_what_custom_vjp_may_not_close_over() -> None:
    """Its derivative in what it closes over: the error says so, under jit as without."""

    def outer(c: Any) -> Any:
        @jax.custom_vjp
        def f(x: Any) -> Any:
            return x * c

        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
        return f(1.0)

    for grad in (jax.grad(outer), jax.jit(jax.grad(outer))):
        with pytest.raises(jax.errors.UnexpectedTracerError):
            grad(2.0)
    with pytest.raises(
        TypeError, match="custom_vjp function f: a value being differentiated is closed over"
    ):
        jax.grad(jax.jit(outer))(2.0)


@pytest.mark.parametrize("rare", [0, 1000])
def test_a_strong_tangent_of_a_weak_value(rare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule may give a tangent of another weakness than the value: the record is well formed,
    worked out once or each time."""
    from teucer._optimize.checker import check_jaxpr
    from teucer._transform import linearize

    monkeypatch.setattr(linearize, "RARE", rare)
    linearize.forget()

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * np.float32(2)))
    for _ in range(2):
        y, pull = jax.vjp(lambda x: jnp.sin(f(x)), 1.0)
        assert y.weak_type
        check_jaxpr(jax.make_jaxpr(lambda x: jax.vjp(lambda x: jnp.sin(f(x)), x)[1](x))(1.0).jaxpr)
        (ct,) = pull(jnp.asarray(1.0))
        np.testing.assert_allclose(ct, 2 * np.cos(2.0), rtol=1e-6)
        assert jax.linearize(lambda x: f(x) * 3, 1.0)[1](1.0) == 6


@pytest.mark.parametrize("out_axis", [0, 1, 2])
@pytest.mark.parametrize(("x_axis", "w_axis"), [(0, 0), (1, None), (None, 1), (1, 0)])
def test_pullback_of_a_mapped_linearization(
    x_axis: int | None, w_axis: int | None, out_axis: int
) -> None:
    """A linearization with a rule of its own backwards may be mapped, and then transposed."""

    @jax.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return jnp.sin(x)[:, None] * w

    def backward(kept: Any, ct: Any) -> Any:
        x, w = kept
        return (ct * w).sum(1) * jnp.cos(x) * 3, (ct * jnp.sin(x)[:, None]).sum(0) * 5

    f.defvjp(lambda x, w: (f(x, w), (x, w)), backward)
    x, w, cts = jnp.arange(3.0), jnp.arange(2.0) + 1, jnp.arange(24.0).reshape(4, 3, 2)
    linear = jax.linearize(f, x, w)[1]
    tangents = [
        v if axis is None else jnp.stack([v] * 4, axis) for v, axis in ((x, x_axis), (w, w_axis))
    ]
    mapped = jax.vmap(linear, (x_axis, w_axis), out_axis)
    found = jax.linear_transpose(mapped, *tangents)(jnp.moveaxis(cts, 0, out_axis))
    each = zip(*(jax.vjp(f, x, w)[1](ct) for ct in cts), strict=True)
    for y, rows, axis in zip(found, each, (x_axis, w_axis), strict=True):
        expected = sum(rows) if axis is None else np.stack(rows, axis)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


# Sizes that all differ, so that no axis can be taken for another; batches are of 3.
W, V = np.linspace(-1, 1, 20).reshape(4, 5), np.linspace(0.1, 1, 10).reshape(5, 2)
CT = np.linspace(1, 2, 8).reshape(4, 2)


def product(w: Any, v: Any) -> Any:
    return jnp.sin(w @ v) * v[0]


def by_custom_vjp(w: Any, v: Any) -> Any:
    """Its residuals have other axes than its arguments."""
    f = jax.custom_vjp(product)
    f.defvjp(
        lambda w, v: (product(w, v), (w.T, jnp.cos(w @ v)[:, None], v, jnp.sin(w @ v)[0])),
        lambda r, ct: (
            (ct * r[2][0] * r[1][:, 0]) @ r[2].T,
            r[0] @ (ct * r[2][0] * r[1][:, 0])
            + jnp.zeros_like(r[2]).at[0].set((ct * jnp.sin(r[0].T @ r[2])).sum(0) + 0 * r[3]),
        ),
    )
    return f(w, v)


def by_custom_jvp(w: Any, v: Any) -> Any:
    f = jax.custom_jvp(product)
    f.defjvp(lambda xs, ts: jax.jvp(product, xs, ts))
    return f(w, v)


def by_scan(w: Any, v: Any) -> Any:
    return lax.scan(lambda c, row: (c, product(row[None], c)[0]), v, w)[1]


RESIDUALS: dict[str, Callable[[Any, Any], Any]] = {
    "as it is": product,
    "jit": jax.jit(product),
    "checkpoint": jax.checkpoint(product),
    "checkpoint in jit": jax.jit(jax.checkpoint(product)),
    "custom_vjp": by_custom_vjp,
    "custom_vjp in jit": jax.jit(by_custom_vjp),
    "custom_jvp": by_custom_jvp,
    "cond": lambda w, v: lax.cond(w[0, 0] < 9, product, lambda w, v: w @ v, w, v),
    "scan": by_scan,
    "map": lambda w, v: lax.map(lambda row: product(row[None], v)[0], w),
    "vmap": lambda w, v: jax.vmap(lambda row: product(row[None], v)[0])(w),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals_of_batches(name: str) -> None:
    """Backward functions map, and backward functions of mapped functions sum over the batch what
    all of it shares, along whatever axes."""
    f = RESIDUALS[name]

    def pulled(w: Any, v: Any, ct: Any) -> Any:
        return jax.vjp(f, w, v)[1](ct)

    with jax.enable_x64(True):
        assert_vmap_is_loop(jax.jit(pulled), W, V, CT)
        scale = 1 + np.arange(3) / 4
        cts = np.stack([CT * k for k in scale])
        for axes in ((0, None), (1, None), (2, None), (None, 0), (None, 1), (None, 2), (2, 1)):
            batches = [
                x if a is None else np.stack([x * k for k in scale], a)
                for x, a in zip((W, V), axes, strict=True)
            ]
            rows = [
                pulled(*(x if a is None else x * k for x, a in zip((W, V), axes, strict=True)), ct)
                for k, ct in zip(scale, cts, strict=True)
            ]
            got = jax.jit(lambda *xs: jax.vjp(jax.vmap(f, axes), *xs)[1](cts))(*batches)
            for y, a, *each in zip(got, axes, *rows, strict=True):
                expected = sum(map(np.asarray, each)) if a is None else np.stack(each, a)
                np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9)
