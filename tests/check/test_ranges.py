"""Ranges are sound: what a program computes lies in the interval that is said of it."""

import itertools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._check.graph import Graph

RANGES = [
    (-2.0, 3.0),
    (0.0, 1.0),
    (-1.0, 0.0),
    (0.5, 4.0),
    (-5.0, -0.25),
    (0.0, 0.0),
    (-90.0, 95.0),
]
INTS = [(-3, 4), (0, 7), (2, 5), (-6, -1), (0, 0)]
UNARY = [
    jnp.abs, jnp.exp, jnp.exp2, jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.sin,
    jnp.cos, jnp.tan, jnp.tanh, jnp.sinh, jnp.cosh, jax.nn.sigmoid, jax.lax.erf, jax.lax.erfc,
    jax.lax.erf_inv, jnp.arctan, jnp.arcsin, jnp.arccos, jnp.sign, jnp.cbrt, jnp.floor,
    jnp.ceil, jnp.round,
    jnp.square, jnp.negative, jnp.reciprocal, jnp.sum, jnp.mean, jnp.max, jnp.min, jnp.cumsum,
    jnp.sort, jnp.argsort, jnp.argmax, jnp.var, jnp.std, jax.nn.softmax, jax.nn.relu,
    jax.nn.softplus,
    jax.nn.logsumexp, jnp.diff, jnp.flip, jnp.trunc, jnp.isnan, lambda x: x**3, lambda x: x**-2,
    lambda x: x**0.5, lambda x: x**4, lambda x: x > 0.3, lambda x: jnp.where(x > 0.3, x, 1.0),
    lambda x: jnp.where(x <= 0.3, 0.1, x), lambda x: jnp.clip(x, -1.0, 0.5), lambda x: x - x,
    lambda x: x * x, lambda x: x.astype(jnp.int32), lambda x: x.astype(jnp.bfloat16),
    lambda x: x.astype(bool), lambda x: x @ x, lambda x: jnp.outer(x, x), lambda x: x % 0.7,
    lambda x: x // 0.7, lambda x: jnp.concatenate([x, x * 2]), lambda x: jnp.pad(x, 2), jnp.prod,
    lambda x: lax.fori_loop(2, 9, lambda i, c: c + i, 1), lambda x: jnp.linalg.norm(x),
    lambda x: lax.scan(lambda c, y: (c + y, c * 2), x[0], x),
    lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.exp, x),
    lambda x: lax.top_k(x, 3), lambda x: jnp.median(x), lambda x: lax.sort((x, -x), num_keys=1),
]  # fmt: skip
BINARY = [
    jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, lax.rem, jnp.power,
    jnp.arctan2, jnp.hypot, jnp.logaddexp, jnp.floor_divide, jnp.mod, jnp.equal, jnp.less, jnp.dot,
]  # fmt: skip
OF_INTS = [
    jnp.add, jnp.subtract, jnp.multiply, jnp.floor_divide, lax.div, lax.rem, jnp.mod, jnp.maximum,
    jnp.bitwise_or, jnp.bitwise_and, jnp.bitwise_xor, jnp.left_shift, jnp.right_shift,
    jnp.less_equal,
    lambda x, y: lax.shift_right_logical(x, y),
    lambda x, y: x.astype(jnp.uint8) - y.astype(jnp.uint8),
    lambda x, y: x.astype(jnp.int8) * jnp.int8(100) + y.astype(jnp.int8),
    lambda x, y: jnp.take(x, y),
    lambda x, y: (x * 2**29).astype(jnp.float32) + y,
]  # fmt: skip


def check_contained(f, given, bounds):
    """Clip arguments to bounds within the program, so that their ranges are known."""

    def clipped(*xs):
        return f(*(lax.clamp(np.asarray(a, x.dtype), x, np.asarray(b, x.dtype))
                   for x, (a, b) in zip(xs, bounds, strict=True)))  # fmt: skip

    traced = jax.jit(clipped).trace(*given)
    graph = Graph(traced.jaxpr, traced.arg_names)
    for value, y in zip(graph.results, jax.tree.leaves(traced.jaxpr(*given)), strict=True):
        y = np.asarray(y).astype(np.float64)
        y = y[~np.isnan(y)]
        low, high = value.range.low, value.range.high
        slack = 1e-2 if value.dtype == jnp.bfloat16 else 1e-5
        margin = [slack * max(1.0, abs(end)) if np.isfinite(end) else 0.0 for end in (low, high)]
        assert np.all(y >= low - margin[0]) and np.all(y <= high + margin[1]), (
            value,
            value.range,
            y,
        )


def samples(low, high, dtype):
    x = np.linspace(low, high, 8).astype(dtype)
    return np.random.default_rng(0).permutation(x)


@pytest.mark.parametrize("f", UNARY, ids=lambda f: "")
def test_of_one_argument(f):
    for low, high in RANGES:
        check_contained(f, [samples(low, high, np.float32)], [(low, high)])


@pytest.mark.parametrize("f", BINARY, ids=lambda f: "")
def test_of_two_arguments(f):
    for a, b in itertools.product(RANGES, RANGES):
        given = [samples(*a, np.float32), samples(*b, np.float32)[::-1]]
        check_contained(f, given, [a, b])


@pytest.mark.parametrize("f", OF_INTS, ids=lambda f: "")
def test_of_whole_numbers(f):
    for a, b in itertools.product(INTS, INTS):
        given = [samples(*a, np.int32), samples(*b, np.int32)[::-1]]
        check_contained(f, given, [a, b])


def range_of(f, *args):
    traced = jax.jit(f).trace(*args)
    return Graph(traced.jaxpr, traced.arg_names).results[0].range


def test_ends_that_are_attained():
    x = jax.ShapeDtypeStruct((3,), "float32")
    assert range_of(jnp.sin, x) == (-1, 1, True)
    assert not range_of(lambda x: x - x.mean(), x).attained
    sigmoid = jax.nn.sigmoid
    assert range_of(lambda x: sigmoid(x) - sigmoid(x) ** 2, x)[:2] == (-1, 1)
    assert not range_of(lambda x: sigmoid(x) - sigmoid(x) ** 2, x).attained
    assert range_of(lambda x, y: sigmoid(x) - sigmoid(y), x, x) == (-1, 1, True)
    low, high, attained = range_of(lambda k: jax.random.uniform(k, (3,)), jax.random.key(0))
    assert (low, attained) == (0, True) and high <= 1
