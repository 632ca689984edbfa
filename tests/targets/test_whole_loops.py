"""Loops that XLA's CPU compiler makes one kernel of: which, with which results, and that none fails
to compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._executables import compile as compilation
from teucer._targets.cpu.constants import WHOLE_STEP
from teucer._targets.cpu.switches import gains_by_whole_loops
from teucer._xla import client as xla

APART, UNLIMITED = [
    (f"xla_cpu_small_while_loop_byte_threshold={most}",) for most in (0, 100_000_000)
]


def loop(step: Any, *carry: Any, steps: int = 3) -> Any:
    """The results of a loop; a step takes its number, then what is carried."""
    return lax.fori_loop(0, steps, lambda i, c: step(i, *c), carry)


def one(step: Any) -> Any:
    """A function of one array, which a loop carries."""
    return lambda x: loop(lambda i, c: (step(i, c),), x)[0]


def numbers(*shape: int, dtype: Any = "float32") -> Any:
    drawn = np.random.default_rng(0).random(shape) + 0.5
    return (drawn * 3 if np.dtype(dtype).kind in "iu" else drawn).astype(dtype)


def narrow(rows: int) -> Any:
    matrix = numbers(rows, 10)
    return lambda x: loop(lambda i, c: (c + 1e-6 * jnp.sum(matrix @ c),), x)


def long(equations: int) -> Any:
    def step(i, c):
        for k in range(equations):
            c = c * k
        return c

    return one(step)


GAIN = {
    "elementwise": (one(lambda i, c: jnp.sin(c) + i), numbers(1000)),
    "a scan": (lambda x: lax.scan(lambda c, a: (c * 0.9 + a, c), 0.0, x), numbers(100)),
    "no loop": (lambda x: numbers(600, 10) @ x + jnp.argmax(x), numbers(10)),
    "in a function": (jax.jit(one(lambda i, c: c * 2)), numbers(100)),
    "a short product by narrow rows": (narrow(100), numbers(10)),
    "a product by long rows": (one(lambda i, c: numbers(100, 100) @ c), numbers(100)),
    "places of extrema along rows": (
        one(lambda i, c: c + jnp.argmax(c, 1, keepdims=True)),
        numbers(100, 10),
    ),
    "places of extrema down wide columns": (
        one(lambda i, c: c + jnp.argmax(c, 0)),
        numbers(16, 64),
    ),
    "a step just short enough": (long(WHOLE_STEP - 2), numbers(2)),
    "beside what a library computes": (
        lambda x: loop(
            lambda i, c, y: (c @ c, y + jnp.argmax(y, 1)[:, None]), x, numbers(16, 12, 12)
        ),
        numbers(16, 16),
    ),
}
LAG = {
    "a product by narrow rows": (narrow(300), numbers(10)),
    "places of extrema down narrow columns": (
        one(lambda i, c: c + jnp.argmin(c, 1, keepdims=True)),
        numbers(16, 12, 12),
    ),
    "a long step": (long(WHOLE_STEP + 1), numbers(2)),
    "within a loop": (
        one(lambda i, c: lax.map(lambda y: y + jnp.argmax(y, 0), c)),
        numbers(2, 60, 10),
    ),
    "one of two": (
        lambda x: (narrow(300)(x), one(lambda i, c: c * 2)(x)),
        numbers(10),
    ),
}


def suited(f: Any, *args: Any) -> bool | None:
    return gains_by_whole_loops(jax.make_jaxpr(f)(*args).jaxpr)


@pytest.mark.parametrize("name", GAIN)
def test_loops_that_gain(name):
    assert suited(*GAIN[name]) is True


@pytest.mark.parametrize("name", LAG)
def test_loops_that_lag(name):
    assert suited(*LAG[name]) is False


def test_loops_that_threads_may_share():
    for f, elements in (
        (lambda c: c * 2 + 1, 1 << 18),
        (lambda c: jnp.sin(c), 1 << 16),
        (lambda c: one(lambda j, d: d * 2 + 1)(c), 1 << 18),
    ):
        step = one(lambda i, c, f=f: f(c))
        assert suited(step, numbers(elements)) is None
        assert suited(step, numbers(elements // 2)) is True
    assert (
        suited(lambda x: (one(lambda i, c: c + 1)(numbers(1 << 19)), narrow(300)(x)), numbers(10))
        is False
    )


def kernels(f: Any, *args: Any) -> int:
    """How many loops are one kernel."""
    return int(jax.jit(f).lower(*args).compile().as_text().count('xla_cpu_small_call="true"'))


def test_loops_with_many_products() -> None:
    """Their one kernel takes long to compile, so XLA is to decide."""

    def decode(n: int) -> Any:
        def step(i: Any, x: Any) -> Any:
            for k in range(n):
                x = jnp.tanh((numbers(24, 24) + k) @ x)
            return x

        return one(step)

    assert suited(decode(3), numbers(24)) is True
    assert suited(decode(40), numbers(24)) is None


def test_xla_joins_them():
    assert kernels(*GAIN["elementwise"]) == kernels(*GAIN["a scan"]) == 1
    assert kernels(lax.igamma, numbers(100), numbers(100)) >= 1  # a loop of its own
    assert kernels(*LAG["a product by narrow rows"]) == 0


@pytest.fixture
def switches(monkeypatch):
    """The switches of the modules that are compiled while the test runs."""
    seen = []
    real = xla.compile_options

    def options(*args, switches=(), **kwargs):
        seen.append(tuple(switches))
        return real(*args, switches=switches, **kwargs)

    jax.clear_caches()
    monkeypatch.setattr(compilation.xla, "compile_options", options)
    return seen


def test_each_program_has_its_switches(switches):
    for f, x in (
        GAIN["elementwise"],
        LAG["a product by narrow rows"],
    ):
        jax.jit(f).lower(x).compile()
    found = [tuple(s for s in module if s not in xla.LEAN_CODE) for module in switches]
    assert found == [xla.LOOPS_WHOLE, xla.LOOPS_APART]
    assert (xla.LOOPS_WHOLE == ()) != (xla.LOOPS_APART == ())  # one of them is XLA's default


def test_switches_of_the_user_stay_alone(switches, monkeypatch):
    monkeypatch.setenv(
        "XLA_FLAGS", "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=7"
    )
    jax.jit(one(lambda i, c: c * 6.5)).lower(numbers(100)).compile()
    assert switches == [()]


def test_a_switch_may_have_a_value():
    first, other, plain = [
        xla.compile_options((0,), switches=switches).SerializeAsString()
        for switches in (("one=17",), ("one=18",), ("one",))
    ]
    assert b"one" in first and b"17" in first and b"one=" not in first and b"true" in plain
    assert first != other  # and so are the entries of the cache


def folded(x: Any, times: int) -> Any:
    for i in range(times):
        x = abs(x - i / 8) * 0.75
    return x


NHWC = ("NHWC", "HWIO", "NHWC")
NASTY = {
    "a large reduction of a small array": (
        one(lambda i, c: c + 1e-9 * jnp.sum(lax.iota(np.float32, 1_000_000) * c)),
        np.float32(1),
    ),
    "a large reduction of a number": (
        one(lambda i, c: jnp.max(jnp.sin(lax.broadcast(c, (1000, 1000))))),
        np.float32(1),
    ),
    "large products": (one(lambda i, c: jnp.tanh(c @ c)), numbers(128, 128)),
    "small products": (one(lambda i, c: jnp.tanh(c @ c)), numbers(4, 4)),
    "integer products": (one(lambda i, c: c @ c), numbers(16, 16, dtype="int32")),
    "convolution": (one(lambda i, c: jnp.convolve(c, numbers(50) / 50, "same")), numbers(200)),
    "convolution of integers": (
        one(
            lambda i, c: lax.conv_general_dilated(
                c, numbers(5, 5, 4, 4, dtype="int32"), (1, 1), "SAME", dimension_numbers=NHWC
            )
        ),
        numbers(1, 16, 16, 4, dtype="int32"),
    ),
    "windows": (
        one(lambda i, c: lax.reduce_window(c, 0.0, lax.add, (31, 31), (1, 1), "SAME") / 900),
        numbers(120, 120),
    ),
    "cumulative": (one(lambda i, c: jnp.cumsum(c) / 500), numbers(1000)),
    "long steps": (one(lambda i, c: sum(jnp.sin(c * k) for k in range(100))), numbers(64)),
    "nested": (
        one(lambda i, c: lax.fori_loop(0, i, lambda j, d: jnp.sin(d) + j, c) / 2),
        numbers(50),
    ),
    "a branch": (
        one(lambda i, c: lax.cond(c[0] > 1, lambda c: c * 2, jnp.sin, c)),
        numbers(50),
    ),
    "branches that ignore their operand": (
        one(lambda i, c: lax.cond(c[0] > i, lambda c: jnp.ones(50), lambda c: jnp.zeros(50), c)),
        numbers(50),
    ),
    "a branch that ignores one": (
        one(lambda i, c: lax.cond(i > 1, lambda c, d: c * 2, lambda c, d: d, c, c + 1)),
        numbers(50),
    ),
    "many branches": (
        one(
            lambda i, c: lax.switch(
                i, [lambda c, d: jnp.ones(50), lambda c, d: d[::-1], lambda c, d: c], c, c * 2
            )
        ),
        numbers(50),
    ),
    "loops in branches": (
        one(
            lambda i, c: lax.cond(
                c[0] > 1, one(lambda i, c: c * 2), one(lambda i, c: jnp.zeros(50)), c
            )
        ),
        numbers(50),
    ),
    "a step that ignores its carry": (one(lambda i, c: jnp.ones(50)), numbers(50)),
    "a condition that ignores it": (
        lambda x: lax.while_loop(lambda c: c[1] < 0, lambda c: (jnp.zeros(50), 3), (x, 2)),
        numbers(50),
    ),
    "carries that change places": (
        lambda x: loop(lambda i, a, b, c: (b, a, c), x, x + 1, x * 2),
        numbers(50),
    ),
    "a carry that nothing reads": (
        lambda x: loop(lambda i, a, b: (a, b + 1), x, x * 2),
        numbers(50),
    ),
    "no elements": (one(lambda i, c: c + 1), numbers(0)),
    "a function that ignores an operand": (
        one(lambda i, c: jax.jit(lambda c, d: c * 2)(c, jnp.sin(c))),
        numbers(50),
    ),
    "functions that stay calls": (
        jax.jit(one(lambda i, c: six_layers(c)), outline=True),
        numbers(20),
    ),
    "gradients of a scan": (
        jax.grad(
            lambda x: lax.scan(lambda c, a: (jnp.tanh(c * 0.9 + a), jnp.sin(c)), 0.0, x)[1].sum()
        ),
        numbers(100),
    ),
    "elements taken, and put": (
        one(lambda i, c: c.at[i].set(c[(c * 9).astype(int)].sum())[::-1]),
        numbers(100),
    ),
    "divided among threads": (one(lambda i, c: folded(c, 16)), numbers(8000)),
    "divided, in branches": (
        one(lambda i, c: lax.cond(i > 1, lambda c: folded(c, 8), lambda c: folded(c, 9), c)),
        numbers(8000),
    ),
    "sorted": (one(lambda i, c: jnp.sort(jnp.sin(c))), numbers(100)),
    "extrema": (one(lambda i, c: c.at[jnp.argmax(c)].set(0)), numbers(100)),
    "random numbers": (
        one(lambda i, c: c * jax.random.normal(jax.random.key(i), c.shape)),
        numbers(400),
    ),
    "special functions": (
        one(lambda i, c: lax.lgamma(c) + lax.igamma(c, c) + c**c),
        numbers(100),
    ),
    "systems of equations": (one(lambda i, c: jnp.linalg.solve(c + jnp.eye(8), c)), numbers(8, 8)),
    "a batch whose loops end apart": (
        jax.vmap(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 1.5, x)),
        numbers(50),
    ),
    "bytes": (one(lambda i, c: ~((c & 5) | (c ^ ~c)) ^ ~c), numbers(20_000, dtype="int8")),
    "truth": (one(lambda i, c: ~((c & jnp.roll(c, 1)) | ~c)), numbers(20_000) > 1),
    "bfloat16": (one(lambda i, c: c * c - c), numbers(100, dtype="bfloat16")),
    "float16": (one(lambda i, c: c * c - c), numbers(100, dtype="float16")),
    "float64": (one(lambda i, c: c * c - jnp.sin(c)), numbers(100, dtype="float64")),
    "complex64": (one(lambda i, c: c * c - 1j * c), numbers(100, dtype="complex64")),
    "complex128": (one(lambda i, c: jnp.sin(c) / c), numbers(100, dtype="complex128")),
    "int4": (one(lambda i, c: c + c), numbers(100).astype(jnp.int4)),
    "float8": (
        one(lambda i, c: (c.astype("float32") * 2).astype(c.dtype)),
        numbers(9).astype(jnp.float8_e5m2),
    ),
}


def six_layers(c: Any) -> Any:
    for k in range(6):
        for i in range(12):
            c = jnp.sin(c * (k + 1) / 8 + i) - jnp.cos(c) / 8
    return c


@pytest.mark.parametrize("name", NASTY)
def test_one_kernel_computes_what_many_do(name, monkeypatch):
    f, x = NASTY[name]
    results = []
    with jax.enable_x64(x.dtype in ("float64", "complex128")):
        for switch in (xla.LOOPS_WHOLE, APART):
            jax.clear_caches()
            monkeypatch.setattr(xla, "LOOPS_WHOLE", switch)
            monkeypatch.setattr(xla, "LOOPS_APART", switch)
            results.append(jax.jit(f).lower(x).compile()(x))
    exact = np.dtype(x.dtype).kind in "iub"
    eps = 0 if exact or x.dtype == jnp.int4 else float(jnp.finfo(x.dtype).eps)
    for joined, apart in zip(*map(jax.tree.leaves, results), strict=True):
        wide = "complex128" if np.dtype(x.dtype).kind == "c" else "float64"
        np.testing.assert_allclose(
            np.asarray(joined).astype(wide),
            np.asarray(apart).astype(wide),
            rtol=64 * eps,
            atol=8 * eps,
        )


def random(x: Any) -> Any:
    return one(lambda i, c: c * jax.random.uniform(jax.random.key(i), c.shape))(x)


def alone(x: Any) -> Any:
    """A loop that carries one array, and nothing else."""
    return lax.while_loop(lambda c: c[0] < 1, lambda c: folded(c, 8), x)


# Programs of which XLA divides the last operation of a function among threads.
DIVIDED = {
    "random bits": random,
    "one array": alone,
    "one array, in a loop": one(lambda i, c: alone(c)),
    "with a callback": lambda x: jax.pure_callback(np.negative, x, alone(x)),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_steps_that_call_what_xla_divides_among_threads_lag(name, switches):
    for elements in (1000, 8000):
        jax.jit(DIVIDED[name]).lower(numbers(elements)).compile()
    assert [set(module) - set(xla.LEAN_CODE) for module in switches] == [
        set(xla.LOOPS_WHOLE),
        set() if xla.DIVIDES_CALLS else set(xla.LOOPS_WHOLE),
    ]


@pytest.mark.parametrize("name", DIVIDED)
def test_a_program_compiles_where_such_steps_were_overlooked(name, monkeypatch):
    x = numbers(8000)
    expected = jax.jit(DIVIDED[name])(x)
    jax.clear_caches()
    monkeypatch.setattr(xla, "LOOPS_WHOLE", UNLIMITED)
    monkeypatch.setattr(xla, "LOOPS_APART", UNLIMITED)
    np.testing.assert_allclose(jax.jit(DIVIDED[name])(x), expected, rtol=1e-6)


def test_loops_that_outlining_makes_stay_as_they_are(switches):
    """They round as the code that they replace."""

    def f(x):
        for _ in range(12):
            x = six_layers(x)
        return x

    text = jax.jit(f, outline=True).lower(numbers(20)).compile().as_text()
    assert " while(" in text and set(switches[-1]).isdisjoint(xla.LOOPS_WHOLE)
