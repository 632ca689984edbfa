"""Outlining and passes on programs over meshes.

The same numbers and the same types, in each of the three modes.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._targets import outlined_call
from teucer._targets.outlined_call import _reorders
from teucer.sharding import AxisType

P = jax.P
LAYERS, WIDTH, BATCH = 4, 16, 8
MODES = {"auto": AxisType.Auto, "explicit": AxisType.Explicit, "manual": AxisType.Auto}


def rng(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def params():
    return [
        {
            "up": rng(WIDTH, 2 * WIDTH) / 8,
            "down": rng(2 * WIDTH, WIDTH) / 8,
            "scale": rng(WIDTH) + i,
        }
        for i in range(LAYERS)
    ]


SPECS = [{"up": P(None, "model"), "down": P("model"), "scale": P()}] * LAYERS


def loss(params, x, product=jnp.matmul):
    for layer in params:
        normal = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * layer["scale"]
        x = x + product(jnp.tanh(normal @ layer["up"]), layer["down"])
    return jnp.mean(x**2)


def step_of(loss, average=lambda value: value):
    def step(params, x):
        value, gradients = jax.value_and_grad(lambda p: average(loss(p, x)))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    return step


def program(mode, mesh, outline):
    """The step of a mode, and its arguments laid over the mesh."""
    args = (
        jax.device_put(
            params(),
            jax.tree.map(
                lambda s: jax.NamedSharding(mesh, s), SPECS, is_leaf=lambda s: isinstance(s, P)
            ),
        ),
        jax.device_put(rng(BATCH, 4, WIDTH), jax.NamedSharding(mesh, P("data"))),
    )
    if mode == "auto":
        step = step_of(loss)
    elif mode == "explicit":
        step = step_of(
            lambda p, x: loss(
                p, x, lambda a, b: jnp.einsum("...i,ij->...j", a, b, out_sharding=P("data"))
            )
        )
    else:
        step = jax.shard_map(
            step_of(
                lambda p, x: loss(p, x, lambda a, b: jax.lax.psum(a @ b, "model")),
                lambda v: jax.lax.pmean(v, "data"),
            ),
            mesh=mesh,
            in_specs=(SPECS, P("data")),
            out_specs=(SPECS, P()),
        )
    return jax.jit(step, outline=outline), args


def calls(step, args):
    return step.lower(*args).compile().as_text().count(" call(")


@pytest.mark.parametrize("missed", [False, True], ids=["calls", "rows"])
@pytest.mark.parametrize("mode", MODES)
def test_outlined_over_a_mesh_is_as_on_one_device(mode, missed, monkeypatch):
    monkeypatch.setattr(outlined_call, "MISSES_COPIES", missed)
    expected = jax.jit(step_of(loss))(params(), rng(BATCH, 4, WIDTH))
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(MODES[mode],) * 2)
    with jax.set_mesh(mesh):
        step, args = program(mode, mesh, True)
        found = step(*args)
        for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert calls(step, args) > 1
        if not missed:
            plain = program(mode, mesh, False)[0](*args)
            assert [x.sharding.spec for x in jax.tree.leaves(found)] == [
                x.sharding.spec for x in jax.tree.leaves(plain)
            ]


def test_kernels_that_reorder_are_written_in_place(monkeypatch):
    """Where XLA forgets to copy what passes between calls, and rows could not be divided."""
    monkeypatch.setattr(outlined_call, "MISSES_COPIES", True)
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))

    def network(a):
        for _ in range(4):
            a = a + jnp.tanh(jnp.linalg.inv(a + 4 * jnp.eye(3)) + jnp.sin(a) * 0.1) * jnp.cos(a)
        return a

    a = jax.device_put(rng(8, 3, 3), jax.NamedSharding(mesh, P("x")))
    outlined = jax.jit(network, outline=True)
    np.testing.assert_allclose(
        outlined(a), network(jnp.asarray(rng(8, 3, 3))), rtol=1e-4, atol=1e-5
    )
    assert "outlined_call" not in outlined.lower(a).compile().as_text()


@pytest.mark.parametrize("within", [lambda f: f, jax.jit, lambda f: lambda x: lax.map(f, x[None])])
def test_kernels_that_reorder_are_found_at_any_depth(within):
    found = [
        _reorders(jax.make_jaxpr(within(f))(np.eye(2, dtype=np.float32)).jaxpr)
        for f in (jnp.linalg.cholesky, lambda x: jnp.sin(x) @ x)
    ]
    assert found == [True, False]


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_rolled_over_a_mesh(kind):
    """Steps that follow one another become a loop; what it stacks is laid out as its elements
    are."""

    def steps(x, w):
        seen = []
        for _ in range(8):
            x = jnp.tanh(x * w + jnp.sin(x)) * 0.5 + jnp.cos(x * 0.3) * 0.1
            seen.append(x)
        return sum(seen), x

    x, w = rng(8, 4), rng(4)
    mesh = jax.make_mesh((8,), ("x",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        args = jax.device_put(x, P("x")), jax.device_put(w, P())
        found = jax.jit(steps, outline=True)(*args)
    for got, want in zip(found, steps(x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        assert got.sharding.spec[0] == "x"


def test_cotangents_that_are_summed_are_not_gathered():
    """Over Explicit axes: the gradient of what is broadcast along a divided axis needs a sum of
    sums, and no gather."""
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    with jax.set_mesh(mesh):
        x, scale = jax.device_put(rng(8, 16), P("data")), jax.device_put(rng(16), P())
        w = jax.device_put(rng(16, 16), P())

        def loss(scale, w):
            return (((x * scale) @ w) ** 2).sum()

        step = jax.jit(jax.grad(loss, (0, 1)))
        text = step.lower(scale, w).compile().as_text()
        found = step(scale, w)
    assert "all-gather(" not in text
    x, scale, w = map(np.asarray, (x, scale, w))
    y = (x * scale) @ w
    np.testing.assert_allclose(found[0], 2 * np.sum(x * (y @ w.T), 0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1], 2 * (x * scale).T @ y, rtol=1e-3, atol=1e-4)
    assert [g.sharding.spec for g in found] == [P(None), P(None, None)]
