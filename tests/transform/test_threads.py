"""Threads: transformations at once, first calls at once, failures apart, options of their own."""

import sys
import threading

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.trace import EVAL, current_trace

N = 8


def at_once(f):
    """Call f(0), ..., f(N - 1) in threads that start together; the first error is raised."""
    gate, errors = threading.Barrier(N), []

    def run(i):
        try:
            gate.wait()
            f(i)
        except BaseException as err:  # whatever it is, the test fails by it
            errors.append(err)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(N)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_first_calls_of_one_function():
    f = jax.jit(lambda x: jnp.sin(x) * 2 + x.sum())

    def call(i):
        x = np.full(3, i, np.float32)
        for _ in range(3):
            np.testing.assert_allclose(f(x), np.sin(x) * 2 + x.sum(), rtol=1e-5)

    at_once(call)


def test_transformations():
    def work(i):
        def f(x):
            return (jnp.sin(x) ** 2 * i).sum()

        x = jnp.linspace(0, 1, 4)
        want = i * np.sin(2 * np.asarray(x))
        np.testing.assert_allclose(jax.grad(f)(x), want, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(jax.jit(jax.grad(f))(x), want, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(
            jax.vmap(jax.grad(f))(jnp.stack([x, x])), [want, want], rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(
            jnp.diagonal(jax.hessian(f)(x)), 2 * i * np.cos(2 * np.asarray(x)), rtol=1e-4, atol=1e-5
        )
        assert lax.scan(lambda c, y: (c + y, c), 0.0, jnp.arange(3.0 + i))[0] == sum(range(3 + i))
        assert jax.random.normal(jax.random.key(i), (i + 1,)).shape == (i + 1,)

    at_once(work)


def test_a_failing_trace_leaves_other_threads_alone():
    def work(i):
        for _ in range(10):
            if i % 2:
                for transform in (jax.jit, jax.grad, jax.make_jaxpr):
                    with pytest.raises(ZeroDivisionError):
                        transform(lambda x: x / (1 // 0))(1.0)
            assert current_trace() is EVAL
            assert float(jnp.add(1.0, i)) == 1 + i

    at_once(work)


def test_a_trace_is_of_its_thread():
    seen = []

    def f(x):
        thread = threading.Thread(
            target=lambda: seen.append((current_trace() is EVAL, float(jnp.ones(3).sum())))
        )
        thread.start()
        thread.join()
        return x * 2

    assert jax.jit(f)(1.0) == 2 and jax.grad(f)(1.0) == 2
    assert seen == [(True, 3.0)] * 2


def test_options_are_of_their_thread():
    f = jax.jit(lambda x: x + 1)
    gate = threading.Barrier(N)

    def work(i):
        with jax.enable_x64(bool(i % 2)):
            gate.wait()
            for _ in range(5):
                assert (
                    f(np.ones(2)).dtype
                    == jnp.arange(3.0).dtype
                    == (np.float64 if i % 2 else np.float32)
                )
            gate.wait()
        assert f(np.ones(2)).dtype == np.float32

    at_once(work)


def test_caches_forgotten_while_functions_are_made():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        at_once(
            lambda i: (
                [jax.clear_caches() for _ in range(400)]
                if i == 0
                else [jax.jit(lambda x: x) for _ in range(4000)]
            )
        )
    finally:
        sys.setswitchinterval(interval)


def test_caches_forgotten_meanwhile():
    f = jax.jit(lambda x: x * 3)

    def work(i):
        for _ in range(5):
            if i == 0:
                jax.clear_caches()
            assert f(2.0) == 6 and jnp.add(1, i) == 1 + i and jax.jit(lambda x: x * i)(2.0) == 2 * i

    at_once(work)
