"""Selections in windows as they are written for TPUs: the values of the operation itself."""

import importlib.util

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._targets.cpu.target import CPU
from teucer._targets.tpu import windows
from teucer.experimental import topologies
from teucer.lax._windows import select_and_scatter_p

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='needs pip install "teucer[tpu]"'
)
# Shapes, windows, strides: few axes without windows, many, windows that overlap or leave gaps.
CASES = {
    "beside each other": ((6, 7), (2, 3), (2, 3)),
    "overlapping": ((6, 7), (3, 2), (1, 1)),
    "with gaps": ((8, 9), (2, 1), (3, 2)),
    "along one of two": ((5, 9), (1, 3), (1, 2)),
    "one axis": ((11,), (3,), (2,)),
    "images": ((2, 3, 4, 6), (1, 1, 2, 2), (1, 1, 2, 2)),
    "large": ((12, 13), (9, 10), (1, 2)),
    "no window fits": ((2, 5), (3, 2), (1, 1)),
}
QUICK = ("overlapping", "with gaps", "no window fits")
marked = [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow) for c in CASES]
PADDED = {"same": "SAME", "valid": "VALID", "by hand": ((1, 0), (0, 2))}


def pooled(x, op, window, strides, padding):
    worst = -np.inf if op is lax.max else np.inf
    return lax.reduce_window(x, np.asarray(worst, x.dtype), op, window, strides, padding)


def values(shape):
    """Many equal elements, and some that are NaN."""
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-2, 3, shape).astype(np.float32)
    x.flat[:: 7 + len(shape)] = np.nan
    return x


def gradient(x, op, window, strides, padding):
    def f(x):
        y = pooled(x, op, window, strides, padding)
        return (y * jnp.arange(y.size, dtype=y.dtype).reshape(y.shape)).sum()

    return np.asarray(jax.jit(jax.grad(f))(x))


@pytest.fixture
def as_on_a_tpu(monkeypatch):
    def switch():
        written = {**CPU().legal, "select_and_scatter": windows.select_and_scatter}
        monkeypatch.setattr(CPU, "legal", written)
        jax.clear_caches()

    return switch


@pytest.mark.parametrize("case", marked)
def test_gradients_of_pools(case, as_on_a_tpu):
    shape, window, strides = CASES[case]
    x = values(shape)
    ways = [
        (op, padding)
        for op in (lax.max, lax.min)
        for name, padding in PADDED.items()
        if name != "by hand" or len(shape) == 2
    ]
    expected = [gradient(x, op, window, strides, p) for op, p in ways]
    as_on_a_tpu()
    for (op, padding), y in zip(ways, expected, strict=True):
        np.testing.assert_array_equal(gradient(x, op, window, strides, padding), y)


def test_any_selection(as_on_a_tpu):
    """The least modulus is selected, and products are taken of what meets there."""
    x = values((6, 7))
    source = np.arange(2.0, 32.0, dtype=np.float32).reshape(5, 6)
    scalar = np.zeros((), np.float32)
    less, mul = (
        jax.make_jaxpr(f)(scalar, scalar)
        for f in (lambda a, b: abs(a) <= abs(b), lambda a, b: a * b)
    )

    def f(x, source):
        return select_and_scatter_p.call(
            x, source, np.float32(1), select_jaxpr=less, select_consts=(), scatter_jaxpr=mul,
            scatter_consts=(), window_dimensions=(2, 2), window_strides=(1, 1),
            padding=((0, 0), (0, 0)),
        )[0]  # fmt: skip

    expected = jax.jit(f)(x, source)
    as_on_a_tpu()
    np.testing.assert_array_equal(jax.jit(f)(x, source), expected)


@needs_libtpu
def test_they_compile():
    """By places, without a byte of memory beside the result; and by axes of size 1."""
    device = topologies.get_topology_desc("v5e:2x2").devices[0]
    where = jax.sharding.SingleDeviceSharding(device)
    for window, limit in (((3, 2), 0), ((12, 7), 1 << 25)):
        f = jax.jit(jax.grad(lambda x, w=window: pooled(x, lax.max, w, (1, 1), "VALID").sum()))
        spec = jax.ShapeDtypeStruct((64, 128), np.float32, sharding=where)
        assert f.lower(spec).compile().memory_analysis().temp_size_in_bytes <= limit
