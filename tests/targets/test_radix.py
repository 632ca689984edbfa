"""Sorts of many elements, which the CPU's target does by digits: not a bit differs from the
compiler's sort by comparisons."""

import ml_dtypes
import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._targets.cpu import constants

RANDOM = np.random.default_rng(5)
N = 1 << 14
DTYPES = [
    "bool",
    "int2",
    "int4",
    "uint4",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _values(name, shape):
    """All kinds of numbers, many of them equal."""
    dtype = _dtype(name)
    if dtype.kind == "b":
        return RANDOM.integers(0, 2, shape).astype(bool)
    if name.startswith(("int", "uint")):
        info = ml_dtypes.iinfo(dtype)
        numbers = RANDOM.integers(
            info.min, info.max, shape, np.int64 if info.min else np.uint64, True
        )
        return numbers.astype(dtype)
    if dtype.kind == "c":
        part = "float32" if name == "complex64" else "float64"
        return _values(part, (shape, 2)).view(dtype)[:, 0]
    with np.errstate(all="ignore"):
        x = (RANDOM.standard_normal(shape) * 10.0 ** RANDOM.integers(-6, 3, shape)).astype(dtype)
    width = f"uint{8 * dtype.itemsize}"
    few = np.array([0.0, -0.0, np.nan, -np.nan, 1, -1, np.inf, -np.inf]).astype(dtype)
    special = np.concatenate([few.view(width), few.view(width)[2:4] + 1, np.arange(4, dtype=width)])
    where = RANDOM.random(shape) < 0.3
    return np.where(where, RANDOM.choice(special, shape), x.view(width)).astype(width).view(dtype)


def _bits(x):
    return np.asarray(x).view(np.uint8) if np.asarray(x).itemsize else np.asarray(x)


def _both_ways(f, monkeypatch, *args):
    """The results by digits and by comparisons."""
    lowered = jax.jit(lambda *args: f(*args)).lower(*args)
    assert "xla_cpu_small_call" in lowered.as_text()
    by_digits = lowered.compile()(*args)
    monkeypatch.setattr(constants, "SORTED_ROW", 1 << 40)
    lowered = jax.jit(lambda *args: f(*args)).lower(*args)
    assert "xla_cpu_small_call" not in lowered.as_text()
    return jax.tree.leaves(by_digits), jax.tree.leaves(lowered.compile()(*args))


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_sorted_bit_by_bit(name, monkeypatch):
    with jax.enable_x64(True):
        x, y = jnp.asarray(_values(name, N)), jnp.arange(N, dtype=np.int16)
        others = jnp.asarray(_values("bfloat16", N)), jnp.asarray(_values("int8", N))

        def f(x, y, a, b):
            return (
                lax.sort(x),
                lax.sort((x, y), num_keys=1),
                lax.sort((b, x, y, a), num_keys=2),
            )

        for found, expected in zip(*_both_ways(f, monkeypatch, x, y, *others), strict=True):
            np.testing.assert_array_equal(_bits(found), _bits(expected))


@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 600), 1), ((600, 40), 0), ((3, 2000, 5), 1), ((1, N), -1)], ids=str
)
def test_every_axis(shape, axis, monkeypatch):
    x, y = jnp.asarray(_values("float32", shape)), jnp.asarray(_values("int32", shape))

    def f(x, y):
        return lax.sort(x, axis), lax.sort((y // 1000, x), axis, num_keys=1), jnp.argsort(x, axis)

    for found, expected in zip(*_both_ways(f, monkeypatch, x, y), strict=True):
        np.testing.assert_array_equal(_bits(found), _bits(expected))


def test_keys_of_few_digits(monkeypatch):
    # Passes over a digit that all keys share move nothing.
    for x in (RANDOM.integers(0, 50, N), np.full(N, 7), RANDOM.integers(0, 50, N) << 16):
        x = jnp.asarray(x.astype(np.int32))
        with monkeypatch.context() as patch:
            found, expected = _both_ways(lambda x: (lax.sort(x), jnp.argsort(x)), patch, x)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_within_transformations():
    x = _values("int32", (3, N))
    order = np.argsort(x, -1, kind="stable")
    found = jax.vmap(jnp.argsort)(x)
    np.testing.assert_array_equal(found, order)
    np.testing.assert_array_equal(jax.lax.map(jnp.argsort, x), order)
    y = RANDOM.permutation(N).astype(np.float32)
    ct = RANDOM.standard_normal(N).astype(np.float32)
    _, pullback = jax.vjp(jnp.sort, y)
    np.testing.assert_array_equal(pullback(jnp.asarray(ct))[0], ct[y.astype(int)])
    np.testing.assert_array_equal(jax.jit(lambda i: jnp.sort(y)[i])(np.arange(9)), np.arange(9))
