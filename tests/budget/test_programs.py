"""`jit(step, memory=...)`: a whole step of training within an amount of memory."""

import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config

D, N, LAYERS = 8, 512, 3


def layer(p, x):
    return x + jax.nn.gelu(jnp.tanh(x @ p["a"]) @ p["b"]) @ p["c"]


def arrays():
    rng = np.random.default_rng(0)
    shapes = {"a": (D, D), "b": (D, 4 * D), "c": (4 * D, D)}
    ps = {
        name: jnp.asarray(0.1 * rng.normal(size=(LAYERS, *shape)), jnp.float32)
        for name, shape in shapes.items()
    }
    return ps, jax.tree.map(jnp.zeros_like, ps), jnp.asarray(rng.normal(size=(N, D)), jnp.float32)


def unrolled(ps, x):
    for i in range(LAYERS):
        x = layer({name: p[i] for name, p in ps.items()}, x)
    return (x**2).sum(), {"mean": x.mean(), "name": "unrolled"}


def scanned(ps, x):
    y = lax.scan(lambda c, p: (layer(p, c), None), x, ps)[0]
    return (y**2).sum(), {"mean": y.mean(), "name": "scanned"}


def step_of(loss):
    def step(ps, momentum, x, rate=1e-3):
        (value, aux), gradients = jax.value_and_grad(loss, has_aux=True)(ps, x)
        assert aux["name"] == loss.__name__
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        ps = jax.tree.map(lambda p, m: p - rate * m, ps, momentum)
        return ps, momentum, value, aux["mean"]

    return step


def in_batches(ps, momentum, x):
    """The gradient of each quarter of a batch, one after the other, by a jitted function."""
    gradient = jax.jit(lambda ps, x: jax.grad(lambda ps: unrolled(ps, x)[0])(ps))

    def add(total, part):
        return jax.tree.map(jnp.add, total, gradient(ps, part)), None

    total, _ = lax.scan(add, jax.tree.map(jnp.zeros_like, ps), x.reshape(4, -1, D))
    return jax.tree.map(lambda p, g: p - 1e-3 * g, ps, total), momentum, x


def by_vjp(ps, momentum, x):
    value, pull = jax.vjp(lambda ps: unrolled(ps, x)[0], ps)
    return pull(jnp.ones_like(value))[0], momentum


STEPS = {
    "unrolled": step_of(unrolled),
    "scanned": step_of(scanned),
    "in batches": in_batches,
    "vjp": by_vjp,
}


def memory_of(jitted, *args):
    found = jitted.lower(*args).compile().memory_analysis()
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return sizes - found.alias_size_in_bytes


@pytest.mark.parametrize(
    "name", ["unrolled", *(pytest.param(n, marks=pytest.mark.slow) for n in [*STEPS][1:])]
)
@pytest.mark.parametrize("donated", [(), pytest.param((0, 1), marks=pytest.mark.slow)])
def test_a_step_keeps_to_its_memory_and_gives_the_same(name, donated):
    step, args = STEPS[name], arrays()
    whole = jax.jit(step, donate_argnums=donated)
    needed = memory_of(whole, *args)
    for share in (0.65,):
        jitted = jax.jit(step, memory=int(share * needed), donate_argnums=donated)
        assert memory_of(jitted, *args) <= 1.05 * share * needed
        assert "prevent_cse" in str(jitted.trace(*args).jaxpr)
    for a, b in zip(jax.tree.leaves(jitted(*arrays())), jax.tree.leaves(whole(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * float(abs(b).max()))


def test_a_program_that_fits_stays_as_it_is():
    step, args = STEPS["unrolled"], arrays()
    same = jax.jit(step, memory="1 TiB").trace(*args).jaxpr
    assert str(same) == str(jax.jit(step).trace(*args).jaxpr)
    (name,) = re.findall(r"func public @(\w+)", jax.jit(step, memory=1.0).lower(*args).as_text())
    assert name == "main" and jax.jit(step, memory=1.0).__name__ == "step"


def test_what_cannot_fit_says_what_can():
    step, args = STEPS["unrolled"], arrays()
    with pytest.raises(
        jax.errors.MemoryBudgetError, match=r"(?s)jit of step: .*smallest amount found is"
    ) as caught:
        jax.jit(step, memory="100 KiB")(*args)
    jax.jit(step, memory=caught.value.smallest).trace(*args)

    @jax.jit(memory=100)
    def without_gradients(x):
        return jnp.sin(x) @ jnp.cos(x).T

    with pytest.raises(
        ValueError, match="(?s)Only what gradients keep can be chosen.*donate_argnums"
    ):
        without_gradients(args[2])
    with pytest.raises(TypeError, match="jit: the budget None|jit: the budget \\[1\\]"):
        jax.jit(step, memory=[1])


def test_static_arguments_names_and_shares():
    ps, momentum, x = arrays()

    @jax.jit(memory=0.8, static_argnames="deep", static_argnums=0)
    def step(kind, ps, x, *, deep):
        assert kind == "sum" and deep is True
        return jax.grad(lambda ps: unrolled(ps, x)[0])(ps)

    found = step("sum", ps, x=x, deep=True)
    expected = jax.grad(lambda ps: unrolled(ps, x)[0])(ps)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * float(abs(b).max()))


def test_a_budget_for_all_gradients():
    """Eager ones, of ints beside floats, and of references too."""
    ps, _, x = arrays()
    f = lambda ps, n: unrolled(ps, x)[0] * n
    with config.gradient_memory(700_000):
        (value, aux), found = jax.value_and_grad(unrolled, has_aux=True)(ps, x)
        assert aux["name"] == "unrolled" and float(aux["mean"]) == float(unrolled(ps, x)[1]["mean"])
        assert "prevent_cse" in str(jax.make_jaxpr(jax.grad(f))(ps, 2))
        cell = jax.new_ref(jnp.float32(2.0))
        assert float(jax.grad(lambda x: x * cell[...])(3.0)) == 2.0
    assert "prevent_cse" not in str(jax.make_jaxpr(jax.grad(f))(ps, 2))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(jax.grad(f)(ps, 1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * float(abs(b).max()))


@pytest.mark.slow
def test_gradients_of_two_functions():
    """Each can keep another least amount."""
    ps, _, x = arrays()

    def step(ps, x):
        small = jax.grad(lambda x: layer({name: p[0] for name, p in ps.items()}, x).sum())(x)
        return jax.grad(lambda ps: unrolled(ps, x)[0])(ps), small

    needed = memory_of(jax.jit(step), ps, x)
    assert memory_of(jax.jit(step, memory=int(0.7 * needed)), ps, x) <= 1.05 * 0.7 * needed
    with pytest.raises(jax.errors.MemoryBudgetError, match="jit of step") as caught:
        jax.jit(step, memory=1000).trace(ps, x)
    jax.jit(step, memory=caught.value.smallest).trace(ps, x)
