"""`debug.memory`: the predicted peak, what lives there, and what `checkpoint` would take off it."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._core.provided import provided
from teucer._derived import liveness
from teucer._programs import run
from teucer._xla.client import XlaRuntimeError

X = jax.ShapeDtypeStruct((256, 64), jnp.float32)
WS = jax.ShapeDtypeStruct((6, 64, 64), jnp.float32)
ROW = 256 * 64 * 4


def layer(x, w):
    h = jnp.tanh(x @ w)
    return x + jnp.sin(h) * h


def scanned(ws, x, layer=layer):
    return (jax.lax.scan(lambda c, w: (layer(c, w), None), x, ws)[0] ** 2).sum()


def unrolled(ws, x, layer=layer):
    for i in range(6):
        x = layer(x, ws[i])
    return (x**2).sum()


def peak(f, *args):
    return jax.debug.memory(f, *args, compiled=False).peak


def test_values_that_are_fused_have_no_place():
    assert peak(lambda x: (jnp.sin(x) * 2 + 1).sum(), X).size == ROW + 4
    assert peak(lambda x: jnp.cos(jnp.sin(x)), X).size == 2 * ROW
    assert peak(lambda x: jnp.sin(x) @ x.T @ x, X).size == ROW * 2 + 256 * 256 * 4


def test_a_value_is_there_until_its_last_use():
    def f(x):
        y = x @ jnp.ones((64, 64))
        z = (y.T @ y).sum()
        return z + (x @ jnp.ones((64, 64))).sum()

    assert peak(f, X).size < 3.5 * ROW
    donated = jax.jit(lambda x: jnp.sin(x), donate_argnums=0)
    assert jax.debug.memory(donated, X, compiled=False).peak.size == ROW


def test_what_is_kept_for_the_backward_pass_has_its_line():
    found = jax.debug.memory(jax.grad(scanned), WS, X)
    kept = [live for live in found.live if live.residual]
    assert kept[0].aval.shape == (6, 256, 64) and kept[0].eqn.primitive.name == "scan"
    assert "kept for the backward pass" in str(found) and "argument ws" in str(found)
    # The compiler is asked too, and needs about as much.
    assert found.peak.size == pytest.approx(found.compiled.total, rel=0.3)


def test_a_checkpoint_of_the_body_of_a_scan():
    before, after = (
        jax.debug.memory(jax.grad(lambda ws, x, f=f: scanned(ws, x, f)), WS, X)
        for f in (layer, jax.checkpoint(layer))
    )
    assert before.savings[0].what == "jax.checkpoint around the body of the scan"
    assert "test_memory.py" in before.savings[0].place
    saved = before.compiled.total - after.compiled.total
    assert before.savings[0].size == pytest.approx(saved, rel=0.5)
    assert after.savings == ()


def test_a_checkpoint_of_a_function_that_is_called_often():
    before, after = (
        jax.debug.memory(jax.grad(lambda ws, x, f=f: unrolled(ws, x, f)), WS, X)
        for f in (layer, jax.checkpoint(layer))
    )
    saved = before.compiled.total - after.compiled.total
    assert before.savings[0].size <= saved <= 1.5 * before.savings[0].size
    before, after = before.peak, after.peak
    assert before.savings[0].what == "jax.checkpoint(layer)"
    assert before.savings[0].size == pytest.approx(before.size - after.size, rel=0.3)
    assert after.savings == ()


def test_loops_and_branches_count_what_they_need_inside():
    def f(x):
        x = jax.lax.fori_loop(0, 3, lambda i, c: c + (c @ c.T) @ c, x)
        return jax.lax.cond(x[0, 0] > 0, lambda x: (x @ x.T).sum(), lambda x: x.sum(), x)

    assert peak(f, X).size >= ROW + 256 * 256 * 4


def test_functions_without_arrays_and_with_symbolic_sizes():
    assert peak(lambda: 1.0).size == 4
    (n,) = jax.export.symbolic_shape("n")
    assert peak(lambda x: x + 1, jax.ShapeDtypeStruct((n,), jnp.float32)).size == 0


def test_an_error_says_for_what_memory_is_needed(monkeypatch):
    def none(*args, **kwargs):
        raise XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")

    f = jax.jit(lambda x: jnp.sin(x) @ x)
    monkeypatch.setattr(run, "execute", none)
    with pytest.raises(XlaRuntimeError, match="RESOURCE_EXHAUSTED") as caught:
        f(np.ones((64, 64), np.float32))
    (note,) = (n for n in caught.value.__notes__ if n.startswith("memory of"))
    assert "predicted peak 48.0 KiB, at dot_general" in note and "test_memory.py" in note


def test_the_note_of_a_program():
    assert provided.memory_note(jax.make_jaxpr(jnp.sin)(X).jaxpr).startswith(
        "memory of sin: predicted peak 128.0 KiB"
    )
    assert liveness.size_text(100) == "100 B" and liveness.size_text(5 * 2**40) == "5.0 TiB"


def test_what_is_donated_counts_once():
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    found = jax.debug.memory(f, X)
    size = X.size * 4
    assert (
        found.compiled.shared == size and found.compiled.total == size + found.compiled.temporaries
    )
