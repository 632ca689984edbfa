"""The law of greatest and least elements: those of large arrays are NumPy's.

One NaN, one infinity, NaN alone and -0.0, for each dtype, along every axis, wherever XLA hands a
reduction to a library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._base import config

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
SHAPES = {
    "row": (4096,),
    "odd": (4099,),
    "rows": (64, 100),
    "columns": (300, 16),
    "narrow": (3, 600, 5),
    "ones": (1, 70, 1, 64),
    "images": (2, 18, 20, 8),
    "large": (2**16,),
}


def filled(shape: tuple[int, ...], dtype: str) -> Iterator[np.ndarray]:
    """Numbers with one hard element, first, last or between; and arrays of one value."""
    rng = np.random.default_rng(2026)
    numbers = rng.normal(size=shape).astype(np.float32)
    infinities = (np.inf, -np.inf) if dtype != "float8_e4m3fn" else ()
    for i, hard in enumerate((np.nan, -np.nan, *infinities)):
        x = numbers.copy()
        x.ravel()[(0, x.size // 2, x.size - 1)[i % 3]] = hard
        yield x.astype(dtype)
    for value in (np.nan, -0.0, *infinities):
        yield np.full(shape, value).astype(dtype)
    yield numbers.astype(dtype)


def wide(x: Any) -> np.ndarray:
    """As float64, which holds all of them."""
    return np.asarray(x).astype(np.float64)


def agree(got: Any, expected: Any, text: str) -> None:
    """Equal, NaN being NaN; of zeros either."""
    np.testing.assert_array_equal(wide(got), wide(expected), err_msg=text)


REDUCED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "max": (jnp.max, np.max),
    "min": (jnp.min, np.min),
    "reduce by maximum": (
        lambda x, axis: lax.reduce(
            x, np.array(-np.inf, x.dtype), lambda a, b: jnp.maximum(b, a), axis
        ),
        np.max,
    ),
    "reduce from 0": (
        lambda x, axis: lax.reduce(x, np.array(0, x.dtype), lax.min, axis),
        lambda x, axis: np.minimum(np.min(x, axis), 0),
    ),
    "ptp": (jnp.ptp, np.ptp),
    "nanmax": (jnp.nanmax, np.nanmax),
    "max of an expression": (
        lambda x, axis: jnp.max(x * -2, axis),
        lambda x, axis: np.max(x * -2, axis),
    ),
    "vmap": (
        lambda x, axis: jax.vmap(lambda v: jnp.max(v, axis))(jnp.stack([x, x])),
        lambda x, axis: np.max(np.stack([x, x]), tuple(a + 1 for a in axis)),
    ),
    "in a loop": (
        lambda x, axis: lax.scan(lambda c, v: (c, jnp.min(v, axis)), 0, jnp.stack([x, x]))[1],
        lambda x, axis: np.min(np.stack([x, x]), tuple(a + 1 for a in axis)),
    ),
}


def assert_reduces(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    f, expected = REDUCED[name]
    axes = [tuple(range(len(shape))), *((i,) for i in range(len(shape)))]
    axes += [(0, 2), (1, 2), (1, 3)] if len(shape) == 4 else [(0, 2)] if len(shape) == 3 else []
    with config.enable_x64(True), np.errstate(all="ignore"):
        for axis in dict.fromkeys(axes):
            jitted = jax.jit(functools.partial(f, axis=axis))
            for x in filled(shape, dtype):
                text = f"{name} of {dtype}{shape} along {axis}"
                # ml_dtypes' comparisons do not keep NaN.
                want = np.asarray(expected(wide(x), axis=axis)).astype(dtype)
                agree(jitted(x), want, text)
        agree(f(jnp.asarray(x), axis=axis), want, f"{text}, eager")


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", REDUCED)
def test_extremes_keep_nan(name: str, dtype: str) -> None:
    assert_reduces(name, dtype, SHAPES["rows"])


@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_of_every_form_keep_nan(shape: str) -> None:
    assert_reduces("max", "float16" if len(shape) % 2 else "float32", SHAPES[shape])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FLOATS[:4])
@pytest.mark.parametrize("name", REDUCED)
def test_extremes_of_all_kinds_keep_nan(name: str, dtype: str, shape: str) -> None:
    assert_reduces(name, dtype, SHAPES[shape])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("power", range(17))
def test_extremes_of_powers_of_two_keep_nan(power: int, dtype: str) -> None:
    for name in ("max", "min"):
        assert_reduces(name, dtype, (2**power,))


WINDOWS = {
    "side by side": ((2, 3), (2, 3), "VALID"),
    "padded": ((2, 3), (2, 3), ((1, 0), (0, 2))),
    "same": ((4, 4), (4, 4), "SAME"),
    "overlapping": ((3, 3), (2, 2), "SAME"),
    "whole": ((90, 1), (1, 1), "VALID"),
    "all": ((90, 80), (1, 1), "VALID"),
    "cut": ((7, 7), (7, 7), "VALID"),
}


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_keep_nan(name: str, dtype: str, generic: bool) -> None:
    window, strides, padding = WINDOWS[name]
    op: Callable[..., Any] = (lambda a, b: jnp.maximum(b, a)) if generic else lax.max
    with config.enable_x64(True):
        f = jax.jit(
            lambda x: lax.reduce_window(x, np.array(-np.inf, x.dtype), op, window, strides, padding)
        )
        for x in filled((90, 80), dtype):
            agree(f(x), windowed(wide(x), window, strides, padding), f"{name} {dtype}")


def windowed(x: np.ndarray, window: Any, strides: Any, padding: Any) -> np.ndarray:
    """The greatest elements of windows, window by window."""
    ends = (
        lax.padtype_to_pads(x.shape, window, strides, padding) if type(padding) is str else padding
    )
    x = np.pad(x, ends, constant_values=-np.inf)
    counts = [(n - w) // s + 1 for n, w, s in zip(x.shape, window, strides, strict=True)]
    places = [
        tuple(slice(i * s, i * s + w) for i, s, w in zip(at, strides, window, strict=True))
        for at in np.ndindex(*counts)
    ]
    return np.array([x[place].max() for place in places]).reshape(counts)


def test_norms_and_others_keep_nan() -> None:
    x = np.zeros(4096, np.float32)
    x[17] = np.nan
    for f in (
        lambda x: jnp.linalg.norm(x, ord=np.inf),
        jnp.ptp,
        jax.nn.logsumexp,
        lambda x: lax.cummax(x)[-1],
        lambda x: jax.ops.segment_max(x, jnp.zeros(4096, int), 1),
        lambda x: jax.nn.softmax(x)[0],
        lambda x: jnp.max(x, initial=3.0),
        lambda x: jnp.max(x, where=x != 0, initial=0.0),
        lambda x: jnp.max(jnp.broadcast_to(x[:64], (64, 64))),
        lambda x: lax.cond(x[0] == 0, jnp.max, jnp.min, x),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + jnp.max(x * i), 0.0),
    ):
        for made in (f, jax.jit(f)):
            assert np.isnan(np.asarray(made(x))).all(), made
    assert jnp.argmax(x) == jnp.argmin(x) == 17
    assert np.isnan(jax.grad(jnp.max)(x)).any()


def test_gradients_of_large_extremes() -> None:
    x = np.random.default_rng(1).permutation(8192).astype(np.float32)
    expected = (x == 8191).astype(np.float32)
    np.testing.assert_array_equal(jax.grad(jnp.max)(x), expected)
    np.testing.assert_array_equal(
        jax.jit(jax.grad(lambda x: x.reshape(64, 128).max(1).max()))(x), expected
    )
    np.testing.assert_array_equal(
        jax.hessian(lambda x: jnp.max(x[:5000] ** 2))(x)[:3, :3], np.zeros((3, 3))
    )


def test_divided_arrays_keep_nan() -> None:
    """Where XLA divides an array among devices, and within `shard_map`."""
    if jax.device_count() < 2:
        pytest.skip("one device")
    mesh = jax.make_mesh((2,), ("x",))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = np.zeros((8192, 2), np.float32)
    x[5, 0] = np.nan
    placed = jax.device_put(x, where)
    spec = jax.sharding.PartitionSpec
    own = jax.shard_map(
        lambda v: lax.pmax(v.max(0), "x"), mesh=mesh, in_specs=spec("x"), out_specs=spec()
    )
    for f in (
        lambda x: x.max(0),
        lambda x: lax.reduce(x, -np.float32(np.inf), jnp.maximum, (0,)),
        own,
    ):
        agree(jax.jit(f)(placed), [np.nan, 0], "divided")


def test_no_array_of_a_program_is_lost_to_a_library() -> None:
    """The reductions are loops of XLA's, whose code the executable has."""
    x = jnp.zeros((128, 128))
    text = jax.jit(lambda x: (x.max(), x.min(0), x.max(1))).lower(x).compile().as_text()
    assert "ynn" not in text
    assert "ynn" in jax.jit(jnp.sum).lower(x).compile().as_text()
