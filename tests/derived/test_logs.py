"""What backward rules log: `custom_vjp.defvjp_with_logs`, `custom_gradient(with_logs=True)`.

Law: a log is what the rule was called with, wherever the function is called. The oracle is a rule
written out: `r` is the operand, `ct` the cotangent, which other transformations give too.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax


def logging(name):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    def bwd(r, ct):
        logs = {"ct": ct, "r": r, "n": (r * 70000).astype(int), "positive": r > 0}
        return (jnp.cos(r) * ct,), {name: logs}

    f.defvjp_with_logs(lambda x: (jnp.sin(x), x), bwd)
    return f


def logs_of(f, *args, ct=1.0):
    cts, logs = jax.vjp(f, *args)[1].with_logs(ct)
    plain = jax.vjp(f, *args)[1](ct)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), cts, plain)
    return logs


def check(log, r, ct):
    r = np.asarray(r, np.float32)
    np.testing.assert_allclose(log["r"], r, rtol=1e-6)
    np.testing.assert_allclose(log["ct"], np.broadcast_to(ct, r.shape), rtol=1e-6)
    assert log["n"].dtype == int or log["n"].dtype == np.int32
    np.testing.assert_array_equal(log["n"], (np.asarray(log["r"]) * np.float32(70000)).astype(int))
    assert log["positive"].dtype == bool
    np.testing.assert_array_equal(log["positive"], r > 0)


CALLS = {
    "plain": lambda f: f,
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "checkpoint in jit": lambda f: jax.jit(jax.checkpoint(f)),
    "jit in vmap": lambda f: lambda x: jax.vmap(jax.jit(f))(x[None])[0],
}


@pytest.mark.parametrize("call", CALLS)
def test_logs_of_a_call(call):
    f = logging("f")
    x = jnp.array(-1.5)
    logs = logs_of(CALLS[call](lambda x: 3 * f(2 * x)), x)["f"]
    check(jax.tree.map(lambda a: a.reshape(()), logs), -3.0, 3.0)
    if call == "plain":
        under = jax.jit(lambda x, ct: jax.vjp(f, x)[1].with_logs(ct)[1])(x, 2.0)["f"]
        check(under, -1.5, 2.0)


def test_logs_of_steps_are_stacked():
    f = logging("f")
    xs = jnp.array([0.5, -2.0, 1.0])

    def loop(x, reverse=False):
        return lax.scan(lambda c, a: (c + f(a * x), None), 0.0, xs, reverse=reverse)[0]

    for reverse in (False, True):
        check(logs_of(lambda x, reverse=reverse: loop(x, reverse), 2.0)["f"], 2 * xs, 1.0)
    twice = logs_of(lambda x: lax.fori_loop(0, 2, lambda i, c: c + loop(x), 0.0), 2.0)["f"]
    check(twice, np.broadcast_to(2 * xs, (2, 3)), 1.0)


def test_logs_of_a_batch():
    f = logging("f")
    xs = jnp.array([0.5, -2.0, 1.0])
    check(logs_of(jax.vmap(f), xs, ct=jnp.arange(3.0))["f"], xs, np.arange(3.0))
    inside = jax.vmap(lambda x, ct: jax.vjp(f, x)[1].with_logs(ct)[1])(xs, jnp.arange(3.0))["f"]
    check(inside, xs, np.arange(3.0))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_logs_of_branches(index):
    f, g = logging("f"), logging("g")
    branches = [jnp.cos, lambda x: f(2 * x), lambda x: f(x) + g(x)]

    def run(x):
        return lax.switch(index, branches, x)

    for call in (run, jax.jit(run)):
        logs = logs_of(call, jnp.array(1.5)) if index or call is not run else {}
        for name in logs:
            log = logs[name]
            assert log.branches[0] is None
            if name == "f" or index == 2:
                assert log.index == index
            for i, branch in enumerate(log.branches):
                if branch is not None:
                    r = (
                        (1.5 * (3 - i) if i == index else 0.0)
                        if name == "f"
                        else 1.5 * (i == index)
                    )
                    check(branch, r, float(i == index))


@pytest.mark.parametrize("check_vma", [True, False])
def test_logs_over_a_mesh(check_vma):
    f, g = logging("f"), logging("g")
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def both(x):
        return f(x) + g(x.sum())

    mapped = jax.shard_map(both, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    x = jnp.array([0.5, -2.0, 1.0, 3.0])
    logs = logs_of(mapped, x, ct=jnp.ones(4))
    check(logs["f"], x, 1.0)
    check(logs["g"], [-1.5, 4.0], 2.0)


def test_logs_of_custom_gradient():
    @jax.custom_gradient(with_logs=True)
    def f(x, y):
        return x * y, lambda ct: ((ct * y, ct * x), {"f": {"ct": ct, "x": x}})

    assert f(3.0, 4.0) == 12.0 and jax.grad(f)(3.0, 4.0) == 4.0
    assert logs_of(f, 3.0, 4.0) == {"f": {"ct": 1.0, "x": 3.0}}

    @jax.custom_gradient(remat=True)
    def g(x):
        y = jnp.cos(x)
        return jnp.sin(x), lambda x: (jnp.sin(x), lambda ct: ct * y)

    for h in (g, jax.checkpoint(g), jax.jit(jax.checkpoint(g))):
        np.testing.assert_allclose(jax.grad(h)(0.3), np.cos(0.3), rtol=1e-6)


def test_logs_that_are_refused():
    f = logging("f")
    with pytest.raises(ValueError, match="Duplicate backward-pass log key 'f'"):
        logs_of(lambda x: f(f(x)), 1.0)
    assert logs_of(jnp.sin, 1.0) == {}

    def rule(result):
        h = jax.custom_vjp(jnp.sin)
        h.defvjp_with_logs(lambda x: (h(x), None), lambda _, ct: result(ct))
        return h

    for result, error, said in [
        (lambda ct: (ct,), TypeError, "must produce a pair"),
        (lambda ct: ((ct,), [1.0]), TypeError, "None or a dict"),
        (lambda ct: ((ct,), {"a": "text"}), TypeError, "Logs are arrays of numbers"),
    ]:
        with pytest.raises(error, match=said):
            jax.grad(rule(result))(1.0)
    assert logs_of(rule(lambda ct: ((ct,), None)), 1.0) == {}
