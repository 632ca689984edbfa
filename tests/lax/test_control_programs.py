"""Random programs of nested control flow.

Staged, they are what Python makes of them, and so are their derivatives.
"""

import numpy as np
import pytest
from optable.compare import assert_trees_close as assert_close
from optable.laws import SECOND, assert_derivatives, assert_vmap
from optable.table import all_ops

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.custom_derivatives import SymbolicZero


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


UNARY = [jnp.sin, jnp.cos, jnp.tanh, lambda x: x * x - 0.5, lambda x: 0.9 * x + 0.1]
XS = np.linspace(0.2, 1.1, 3)


def program(rng, depth, reverse_mode):
    """A random function (x, y) -> (x, y) of control flow nested `depth` deep, each part closing
    over what is outside."""
    if depth == 0:
        f, g = (UNARY[i] for i in rng.integers(len(UNARY), size=2))
        k = rng.random()
        return lambda x, y, a: (f(x) * a + y * k, g(y + a))
    kinds = ["scan", "scan of xs", "fori", "cond", "switch", "map", "sequence", "solve"] + [
        "while"
    ] * (not reverse_mode)
    kind = rng.choice(kinds)
    inner = [program(rng, depth - 1, reverse_mode) for _ in range(3)]
    n, unroll, reverse = int(rng.integers(1, 4)), int(rng.integers(1, 4)), bool(rng.integers(2))

    def run(x, y, a):
        if kind == "scan":
            (x, y), zs = lax.scan(
                lambda c, _: (inner[0](*c, a * x), c[0]), (x, y), length=n, unroll=unroll
            )
            return x + lax.reduce_sum(zs, (0,)), y
        if kind == "scan of xs":
            step = lambda c, t: ((*inner[0](c[0], c[1], a + t), c[2] + 1), (c[1] * t, c[2]))
            (x, y, _), (zs, _) = lax.scan(step, (x, y, 0), XS * y, reverse=reverse)
            return x, y + lax.reduce_sum(zs * zs, (0,))
        if kind == "fori":
            return lax.fori_loop(
                0, n, lambda i, c: inner[0](c[0], c[1] * (i + 1), a), (x, y), unroll=unroll
            )
        if kind == "while":
            return lax.while_loop(
                lambda s: s[0] < n, lambda s: (s[0] + 1, inner[0](*s[1], a * y)), (0, (x, y))
            )[1]
        if kind == "cond":
            return lax.cond(
                x < y + 0.3, lambda x, y: inner[0](x, y, a), lambda x, y: inner[1](y, x, a), x, y
            )
        if kind == "switch":
            i = lax.convert_element_type(lax.stop_gradient(3 * x * x), int)
            return lax.switch(i, [lambda x, y, f=f: f(x, y, a * y) for f in inner], x, y)
        if kind == "map":
            us, vs = lax.map(lambda t: inner[0](x * t, y, a), XS, batch_size=n)
            return lax.reduce_sum(us, (0,)), lax.reduce_sum(vs * vs, (0,))
        if kind == "solve":
            k = 2.0 + x * x
            z = lax.custom_linear_solve(
                lambda v: k * v, inner[0](x, y, a)[0], lambda mv, b: b / k, symmetric=True
            )
            return z, lax.custom_root(lambda v: v + v**3 - y, y, _cubic, lambda g, t: t / g(1.0))
        return inner[1](*inner[0](x, y, a), a)

    return run


def _cubic(f, guess):
    def newton(i, v):
        value, slope = jax.jvp(f, (v,), (v * 0 + 1,))
        return v - value / slope

    return lax.fori_loop(0, 30, newton, guess)


def summed(f):
    def g(x, y, a):
        u, v = f(x, y, a)
        return jnp.sin(u) + jnp.cos(2 * v)

    return g


ARGS = 0.4, 0.7, 0.3


def seeds(first, fast, slow):
    return [
        *range(first, first + fast),
        *(pytest.param(i, marks=pytest.mark.slow) for i in range(first + fast, first + slow)),
    ]


@pytest.mark.parametrize("seed", seeds(0, 5, 24))
def test_programs(seed):
    f = summed(program(np.random.default_rng(seed), 1 + seed % 3, reverse_mode=True))
    with jax.disable_jit():
        expected = f(*ARGS), jax.grad(f, (0, 1, 2))(*ARGS)
    assert_close((f(*ARGS), jax.grad(f, (0, 1, 2))(*ARGS)), expected, 1e-8, 1e-8)
    assert_close(jax.jit(jax.value_and_grad(f, (0, 1, 2)))(*ARGS), expected, 1e-8, 1e-8)
    batch = tuple(x + np.linspace(0, 0.5, 3) for x in ARGS)
    assert_vmap(jax.grad(f, (0, 1, 2)), *batch)


def in_place(carry):
    x, y = carry
    x += 1  # of NumPy's array, this would change y too
    return x, y + x


CALLS = {
    "while_loop": lambda v: lax.while_loop(lambda c: c[0] < 10, in_place, (v, v)),
    "fori_loop": lambda v: lax.fori_loop(0, 3, lambda i, c: in_place(c), (v, v)),
    "scan": lambda v: lax.scan(lambda c, x: (in_place(c), None), (v, v), None, length=3)[0],
    "cond": lambda v: lax.cond(True, in_place, in_place, (v, v)),
    "switch": lambda v: lax.switch(1, [in_place, in_place], (v, v)),
}


@pytest.mark.parametrize("name", CALLS)
def test_bodies_change_no_array_of_the_caller(name):
    v = np.array(1.0)
    expected = CALLS[name](v)
    with jax.disable_jit():
        found = CALLS[name](v)
    assert v == 1
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", seeds(24, 1, 6))
def test_second_order(seed):
    assert_derivatives(
        summed(program(np.random.default_rng(seed), 2, reverse_mode=True)), *ARGS, laws=SECOND
    )


@pytest.mark.parametrize("seed", seeds(30, 4, 12))
def test_forward_mode_of_programs_with_while(seed):
    f = summed(program(np.random.default_rng(seed), 2, reverse_mode=False))
    with jax.disable_jit():
        expected = jax.jvp(f, ARGS, (1.0, 2.0, 3.0))
    assert_close(jax.jvp(f, ARGS, (1.0, 2.0, 3.0)), expected, 1e-8, 1e-8)
    batch = tuple(x + np.linspace(0, 0.5, 3) for x in ARGS)
    assert_vmap(lambda *xs: jax.jvp(f, xs, (1.0, 2.0, 3.0)), *batch)


def test_transpose_of_a_vmapped_cond_in_a_linear_map():
    def program(x):
        return lax.cond(x > 0, lambda x: jnp.sin(x) * x, jnp.cos, x)

    f = jax.custom_jvp(lambda x: program(x))
    f.defjvp(lambda p, t: jax.jvp(program, p, t))
    mapped = jax.vmap(f)
    g = jax.custom_vjp(lambda x: mapped(x))
    g.defvjp(lambda x: jax.vjp(mapped, x), lambda pull, ct: pull(ct))
    x = jnp.array([-1.0, 1.0])
    (ct,) = jax.jit(lambda x: jax.vjp(g, x)[1](jnp.ones(2)))(x)
    np.testing.assert_allclose(ct, [np.sin(1.0), np.sin(1.0) + np.cos(1.0)], rtol=1e-6)


# Which results of the entries of optable/entries_control.py follow from which operand, by position.
FOLLOWS = {
    "scan_of_parts": {0: {2, 3, 5, 6}, 1: {1, 2, 3, 6}, 2: {2, 3, 6}, 3: {3, 6}, 4: {3, 4, 6}},
    "loop_of_parts": {1: {2, 3}, 2: {1, 2, 3}, 3: {2, 3}, 4: {3}},
    "branches_of_parts": {1: {0, 1}, 2: {0, 2}, 3: {0, 1}},
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_does_not_follow_has_no_tangent(name):
    """A result that does not follow from what moves has a symbolic zero as its tangent."""
    op = all_ops()[name]
    args = op.calls("float64")[0].args
    moved = {}

    @jax.custom_jvp
    def probe(*ys):
        return ys

    for i, expected in FOLLOWS[name].items():

        def rule(primals, tangents, i=i):
            moved[i] = {j for j, t in enumerate(tangents) if type(t) is not SymbolicZero}
            return primals, tuple(np.zeros(t.shape, t.dtype) for t in tangents)

        probe.defjvp(rule, symbolic_zeros=True)
        alone = lambda x, i=i: probe(*op(*args[:i], x, *args[i + 1 :]))
        jax.jvp(alone, (args[i],), (np.ones_like(args[i]),))
        assert moved[i] == expected, f"along operand {i}"
