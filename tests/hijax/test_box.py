"""Boxes: values that change, and may be passed to and closed over by everything."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental.hijax import Box, cur_qdd


def bump(box):
    box.set(box.get() + 1.0)


WRAPS = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "nested jit": lambda f: jax.jit(lambda *args: jax.jit(f)(*args)),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_arguments_and_closures(wrap):
    box, other = Box(1.0), Box(2.0)

    def f(box):
        bump(box)
        bump(other)
        return box.get() + other.get()

    assert wrap(f)(box) == 5
    assert (box.get(), other.get()) == (2, 3)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_loops_and_branches(wrap):
    box = Box(1.0)

    def f(n):
        lax.scan(lambda c, _: (bump(box), None), None, None, length=3)
        lax.while_loop(
            lambda i: i + box.get() < 10.0, lambda i: bump(box) or i + 1, n
        )  # the condition sees it
        lax.cond(n == 0, lambda: box.set((box.get(), box.get())), lambda: box.set((0.0, 0.0)))

    wrap(f)(0)
    assert box.get() == (7, 7)


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])
def test_trees_may_change_and_functions_are_traced_anew(wrap):
    box, traces = Box(None), []

    @wrap
    def f(x):
        traces.append(0)
        held = box.get()
        box.set(x if held is None else [x, x])

    f(1.0)
    f(2.0)
    f(3.0)
    f(4.0)
    kept = wrap is jax.jit  # else each call is traced
    assert box.get() == [4, 4] and len(traces) == (3 if kept else 4)
    box.set(None)
    f(1.0)
    assert box.get() == 1 and len(traces) == (3 if kept else 5)


def test_states_are_seen_while_tracing():
    @jax.jit
    def f(box):
        before = cur_qdd(box).leaf_avals
        box.set(jnp.arange(3))
        assert [a.shape for a in before] == [()] and [a.shape for a in cur_qdd(box).leaf_avals] == [
            (3,)
        ]

    box = Box(1.0)
    f(box)
    np.testing.assert_array_equal(box.get(), [0, 1, 2])


@pytest.mark.parametrize("jit", [False, True])
def test_derivatives(jit):
    box = Box(0.0)

    def f(x):
        box.set(box.get() + lax.stop_gradient(2 * x))
        return jnp.sin(x)

    f = jax.jit(f) if jit else f
    assert jax.grad(f)(0.0) == 1 and box.get() == 0
    assert jax.grad(f)(1.0) == jnp.cos(1.0) and box.get() == 2

    def g(box, x):
        box.set(box.get() * x)
        return box.get()

    pair, dots = (Box(3.0), 2.0), (Box(1.0), 1.0)
    y, y_dot = jax.jvp(jax.jit(g) if jit else g, pair, dots)
    assert (y, y_dot, pair[0].get(), dots[0].get()) == (6, 5, 6, 5)


@pytest.mark.parametrize("jit", [False, True])
def test_backward_rules_write(jit):
    box = Box(0.0)

    @jax.custom_vjp
    def f(box, x):
        return x

    f.defvjp(lambda box, x: (x, box), lambda box, ct: box.set(ct) or (None, ct))

    def g(box, x):
        return 2 * f(box, 3 * x)

    jax.grad(jax.jit(g) if jit else g, 1)(box, 1.0)
    assert box.get() == 2


def test_ahead_of_time():
    box = Box(1.0)
    compiled = jax.jit(bump).lower(box).compile()
    compiled(box)
    compiled(box)
    assert box.get() == 3
    with pytest.raises(TypeError, match="compiled with"):
        compiled(Box([1.0, 2.0]))


def test_refused():
    box = Box(1.0)
    with pytest.raises(
        TypeError, match=r"type-changing mutations not allowed(?s:.*)step of a loop"
    ):
        lax.scan(lambda c, _: (box.set([box.get()]), None), None, None, length=2)
    with pytest.raises(
        TypeError, match=r"type-changing mutations not allowed(?s:.*)branches of cond"
    ):
        lax.cond(True, lambda: box.set([1.0]), lambda: None)
    with pytest.raises(TypeError, match=r"stop_gradient"):
        jax.grad(lambda x: box.set(x) or x)(1.0)
    with pytest.raises(
        TypeError, match=r"value that changes, of type BoxTy, which cannot be returned"
    ):
        jax.jit(lambda: Box(1.0))()
    with pytest.raises(TypeError, match=r"box_set(?s:.*)A box holds trees of arrays"):
        box.set("text")
    with pytest.raises(NotImplementedError, match=r"Batching rule"):
        jax.vmap(box.set)(jnp.ones(2))
    with pytest.raises(TypeError, match="does not change"):
        cur_qdd(1.0)
    with pytest.raises(ValueError, match=r"appeared at both"):
        jax.jit(lambda a, b: None)(box, box)
    assert box.get() == 1
