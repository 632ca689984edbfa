"""Faults of jaxlib's releases that Teucer avoids: wrong or slow without it, right with it."""

import subprocess
import sys
import time

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._executables import compile as compiling
from teucer._executables import guard
from teucer._targets.cpu import faults
from teucer._xla import client as xla

N = 32769


def sum_of_product(m, x):
    return jnp.sum((m @ x.T) ** 2, axis=0)


def written(n):
    return lambda: lax.fori_loop(0, n - 1, lambda t, a: a.at[t + 1].set(a[t] / 2 + 1), jnp.zeros(n))


def stacked(n):
    return lambda: lax.scan(lambda c, _: (c / 2 + 1, c), 0.0, None, length=n)[1]


SEVEN = """
import numpy as np, teucer as jax, teucer.numpy as jnp
{setup}
small = np.ones((3, 1, 2, 2, 8, 8, 8), np.float32)
assert (np.asarray(jax.jit(lambda a, b: jnp.sum(a * b, axis=3))(small, small)) == 2).all()
few, many = np.ones((10, 4, 6), np.float32), np.ones((10, 4, 6, 9, 9, 9, 9, 9), np.float32)
f = lambda a, b: jnp.log(jnp.maximum(jnp.sum(a[(...,) + (None,) * 5] * b, axis=2), 1e-16))
assert np.allclose(jax.jit(f)(few, many), np.log(6))
"""
WITHOUT = "from teucer._targets.cpu import faults; faults._ANY = False"


def run(code, **arguments):
    """The exit status; `timeout` counts as one, since the fault is a hang on some processors."""
    try:
        return subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            timeout=90,
            stderr=subprocess.PIPE,
            **arguments,
        ).returncode
    except subprocess.TimeoutExpired:
        return "timeout"


@pytest.fixture
def without(monkeypatch):
    """Programs compiled as if the release had no fault."""
    jax.clear_caches()
    monkeypatch.setattr(faults, "_ANY", False)
    monkeypatch.setattr(faults, "_FUSES_EQUAL_NUMBERS", False)
    yield
    jax.clear_caches()


def wrong_by_products():
    m, x = np.eye(3, dtype=np.float32), np.zeros((N, 3), np.float32)
    x[:, 0] = np.arange(N)
    return float(jax.jit(sum_of_product)(m, x)[-1]) != (N - 1) ** 2


def seconds(f):
    f = jax.jit(f)
    f().block_until_ready()
    start = time.perf_counter()
    f().block_until_ready()
    return time.perf_counter() - start


def test_sums_of_products():
    assert not wrong_by_products()


@pytest.mark.skipif(not guard.has("products fused with sums"), reason="jaxlib 0.10.2 only")
def test_sums_of_products_are_wrong_without(without):
    assert wrong_by_products()


def ones(x, c):
    return (x @ jnp.ones((3, 3))).sum(0), x.sum() * jnp.ones(3)


def number(x, c):
    return (x @ jnp.full((3, 3), c)).sum(0), c * x.sum() * jnp.ones(3)


def computed(x, c):
    return (x @ (jnp.ones((3, 4)).T[:3] * 2 + 1)[:, :3]).sum(0), 3 * x.sum() * jnp.ones(3)


def padded(x, c):
    return (jnp.pad(x, ((0, 0), (0, 2))) @ jnp.ones((5, 3))).sum(0), x.sum() * jnp.ones(3)


def batched(x, c):
    x = x.reshape(-1, 8, 3)
    product = jnp.einsum("bij,bjk->bik", x, jnp.ones((x.shape[0], 3, 3)))
    return product.sum(1), jnp.repeat(x.sum((1, 2))[:, None], 3, 1)


def called(x, c):
    return (x @ jax.jit(lambda: jnp.ones((3, 3)))()).sum(0), x.sum() * jnp.ones(3)


def in_a_loop(x, c):
    def step(total, _):
        return total + (x @ jnp.ones((3, 3))).sum(0), None

    return lax.scan(step, jnp.zeros(3), None, length=2)[0], 2 * x.sum() * jnp.ones(3)


def in_a_branch(x, c):
    k = jnp.ones((3, 3))
    found = lax.cond(c > 0, lambda k: (x @ k).sum(0), lambda k: x.sum(0), k)
    return found, x.sum() * jnp.ones(3)


def squared(x, c):
    difference = x - c
    product = jnp.dot(difference, jnp.full((3, 3), 2.0))
    return (product * difference).sum(), 2 * (difference.sum(1) ** 2).sum()


def in_windows(x, c):
    found = lax.reduce_window(x @ jnp.ones((3, 3)), 0.0, lax.add, (16, 3), (16, 3), "VALID")
    return found[:, 0], 3 * x.sum(1)[: len(x) // 16 * 16].reshape(-1, 16).sum(1)


EQUAL = [
    in_windows,
    ones,
    number,
    computed,
    padded,
    batched,
    called,
    in_a_loop,
    in_a_branch,
    squared,
]


@pytest.mark.parametrize("f", EQUAL)
@pytest.mark.parametrize("n", [8192, 30_000])
def test_products_with_equal_numbers(f, n, optimised):
    x = np.random.default_rng(0).random((n, 3), np.float32)
    found, expected = jax.jit(f)(x, 0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("f", [in_windows, ones, number, padded, batched, squared])
def test_products_with_equal_numbers_are_wrong_without(f, optimised, without):
    """In all releases so far; where this fails, `_executables/guard.py` is to say the last one."""
    x = np.random.default_rng(0).random((30_000, 3), np.float32)
    found, expected = jax.jit(f)(x, 0.5)
    assert not np.allclose(found, expected, rtol=0.1)


def test_reductions_of_seven_axes():
    assert run(SEVEN.format(setup="")) == 0


@pytest.mark.skipif(not guard.has("reductions of seven axes"), reason="jaxlib 0.10.2 and 0.11.0")
def test_reductions_of_seven_axes_die_without(tmp_path):
    assert run(SEVEN.format(setup=WITHOUT), env={"TEUCER_CACHE_DIR": str(tmp_path)}) != 0


@pytest.mark.parametrize("loop", [written, stacked])
def test_loops_that_write_an_element_a_step_are_linear(loop, optimised):
    assert seconds(loop(80_000)) < 1  # 10 s where each step copies the array, 1 ms where none does


@pytest.mark.skipif(not guard.has("loops that copy"), reason="jaxlib 0.11.1 only")
@pytest.mark.parametrize("loop", [written, stacked])
def test_loops_that_write_an_element_a_step_copy_without(loop, optimised, without):
    assert seconds(loop(40_000)) > 20 * seconds(loop(4_000))


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        (lambda x: x @ x, ["f32[4,4]"], compiling.NO_SWITCHES),
        (lambda x: (x @ x).sum(), ["f32[4,4]"], compiling.Switches(xla.ALONE, ())),
        (
            lambda x: lax.cond(x.sum() > 0, lambda x: x @ x, lambda x: x, x),
            ["f32[4,4]"],
            compiling.Switches(xla.ALONE, ()),
        ),
        (lambda x: x.sum((0, 1)), ["f32[2,2,2,2,2,2]"], compiling.NO_SWITCHES),
        (lambda x: x.max(1), ["f32[2,2,2,2,2,2,2]"], compiling.Switches(xla.ALONE, ())),
        (
            lambda x: lax.fori_loop(0, 3, lambda i, x: x + 1, x),
            ["f32[4]"],
            compiling.Switches({}, xla.NO_LOOPS_WHOLE),
        ),
    ],
)
def test_what_meets_a_fault(f, args, expected, monkeypatch):
    for name in ("_ANY", "_FUSES_PRODUCTS", "_REDUCES_FEW_AXES", "_COPIES_IN_LOOPS"):
        monkeypatch.setattr(faults, name, True)
    types = [jax.ShapeDtypeStruct([int(n) for n in a[4:-1].split(",")], "float32") for a in args]
    assert faults.switches_around(jax.make_jaxpr(f)(*types).jaxpr) == expected


@pytest.mark.parametrize(
    ("f", "meets"),
    [
        *[(f, True) for f in EQUAL],
        (lambda x, c: (x @ x.T).sum(), False),
        (lambda x, c: (x @ jnp.eye(3)).sum(), False),
        (lambda x, c: (x @ x.T).sum() + (jnp.ones((3, 3)) * 2).sum(), False),
        (lambda x, c: x @ jnp.ones((3, 3)), False),
    ],
)
@pytest.mark.skipif(not xla.KEEPS_BARRIERS, reason="jaxlib 0.10 computes products alone")
def test_what_multiplies_equal_numbers(f, meets):
    jaxpr = jax.make_jaxpr(f)(np.ones((64, 3), np.float32), 0.5).jaxpr
    assert (faults.without_faults(jaxpr) is not jaxpr) == meets


def test_releases_have_the_faults_between_first_and_last():
    names = {v: {fault.name for fault in guard.known_faults(v)} for v in guard.TESTED}
    assert "products fused with sums" in names["0.10.2"] - names["0.11.0"]
    assert "reductions of seven axes" in (names["0.10.2"] & names["0.11.0"]) - names["0.11.1"]
    assert "loops that copy" in names["0.11.1"] - names["0.11.2"] - names["0.11.0"]
    assert "calls that miss copies" in names["0.12.0.1"] - names["0.11.2"]
    everywhere = {"maxima without NaN", "products with equal numbers fused with sums"}
    assert all(everywhere <= found for found in names.values())
    assert guard.known_faults("0.13.0.dev1") == guard.known_faults("0.12.0.1")
