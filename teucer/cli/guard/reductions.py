"""Reductions, cumulative reductions and reductions over windows, of arrays and of computed
values."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.special

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.cli.guard.answer import Answer, check_values

__all__ = ["ANSWERS"]

_NAMES = ("sum", "prod", "max", "min", "mean", "var", "argmax", "argmin", "any", "all")
# Shapes and axes: long rows, long columns, all, one of many.
_PLACES: tuple[tuple[tuple[int, ...], int | None], ...] = (
    ((70_001,), None),
    ((300, 257), 0),
    ((3, 33_000), 0),
    ((257, 300), 1),
    ((9, 40, 33, 7), 2),
)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _values(shape: tuple[int, ...], name: str) -> np.ndarray:
    x = np.random.default_rng(0).uniform(-1, 1, shape)
    if name == "prod":
        return np.exp(x / 50)
    return x > -0.999 if name == "all" else x > 0.999 if name == "any" else x


def _reduction(name: str, shape: tuple[int, ...], axis: int | None, dtype: str) -> str:
    x = _values(shape, name)
    x = x if x.dtype == bool else x.astype(dtype)
    y = x if x.dtype == bool else x * 2 + 1
    rtol = 1e-4 if dtype == "float32" else 1e-11
    wide = [a if a.dtype == bool else a.astype("float64") for a in (x, y)]
    wanted = [getattr(np, name)(a, axis=axis) for a in wide]
    if y is not x and dtype == "float32":
        wanted[1] = getattr(np, name)(y.astype("float32").astype("float64"), axis=axis)

    def both(x: Any) -> Any:
        reduced = getattr(jnp, name)
        return reduced(x, axis=axis), reduced(x if x.dtype == bool else x * 2 + 1, axis=axis)

    return check_values(both, [x], wanted, rtol)


def _nan(name: str, size: int) -> str:
    """One NaN is the result, wherever it stands."""
    for place in (0, size // 2, size - 1):
        x = np.random.default_rng(1).uniform(-1, 1, size).astype(np.float32)
        x[place] = np.nan
        if text := check_values(getattr(jnp, name), [x], np.float64(np.nan)):
            return f"NaN at {place}: {text}"
    return ""


def _seven_axes(f: str) -> str:
    shape = (3, 1, 2, 2, 8, 8, 8)
    x = np.random.default_rng(2).uniform(1, 2, shape).astype(np.float32)
    return check_values(
        lambda a, b: getattr(jnp, f)(a * b, axis=3), [x, x], getattr(np, f)(x * x, axis=3)
    )


def _eight_axes() -> str:
    few, many = np.ones((4, 4, 6), np.float32), np.ones((4, 4, 6, 5, 5, 5, 5, 5), np.float32)

    def f(few: Any, many: Any) -> Any:
        return jnp.log(jnp.maximum(jnp.sum(few[(..., *(None,) * 5)] * many, axis=2), 1e-16))

    return check_values(f, [few, many], np.full((4, 4, 5, 5, 5, 5, 5), np.log(6)))


def _cumulative(name: str, shape: tuple[int, ...], axis: int) -> str:
    x = np.random.default_rng(3).uniform(0.99, 1.01, shape)
    oracle = {
        "cummax": functools.partial(np.maximum.accumulate, axis=axis),
        "cumlogsumexp": functools.partial(np.logaddexp.accumulate, axis=axis),
    }.get(name, functools.partial(getattr(np, name, np.cumsum), axis=axis))
    f = getattr(lax if name in ("cummax", "cumlogsumexp") else jnp, name)
    return check_values(lambda x: f(x, axis=axis), [x], oracle(x), 1e-11)


def _windows(name: str) -> str:
    x = np.random.default_rng(4).uniform(-1, 1, (65, 129))
    view = np.lib.stride_tricks.sliding_window_view(x, (3, 5))[::2, ::1]
    initial, f, oracle = {
        "sum": (0.0, lax.add, np.sum),
        "max": (-np.inf, lax.max, np.max),
        "min": (np.inf, lax.min, np.min),
    }[name]
    return check_values(
        lambda x: lax.reduce_window(x, initial, f, (3, 5), (2, 1), "VALID"),
        [x],
        oracle(view, axis=(2, 3)),
        1e-12,
    )


def _softmax(shape: tuple[int, ...]) -> str:
    x = np.random.default_rng(5).standard_normal(shape) * 10
    return check_values(
        lambda x: (jax.nn.softmax(x), jax.nn.logsumexp(x, axis=-1)),
        [x],
        (scipy.special.softmax(x, -1), scipy.special.logsumexp(x, -1)),
        1e-11,
    )


def _normalised() -> str:
    x = np.random.default_rng(6).standard_normal((33, 515)) * 3 + 100
    wanted = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    return check_values(
        lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), [x], wanted, 1e-9
    )


def _two_at_once() -> str:
    """Two reductions of one array, along different axes."""
    x = np.random.default_rng(7).standard_normal((257, 129))
    return check_values(
        lambda x: (jnp.sin(x).sum(0), jnp.sin(x).max(1), (x.T * 2).sum(0)),
        [x],
        (np.sin(x).sum(0), np.sin(x).max(1), (x.T * 2).sum(0)),
        1e-11,
    )


ANSWERS = (
    [
        Answer(
            f"{name} of {_text(shape)} along {'all' if axis is None else axis}, {dtype}",
            functools.partial(_reduction, name, shape, axis, dtype),
        )
        for name in _NAMES
        for shape, axis in _PLACES
        for dtype in (("float32", "float64") if name in ("sum", "max") else ("float64",))
    ]
    + [
        Answer(f"{name} keeps NaN among {size}", functools.partial(_nan, name, size))
        for name in ("max", "min")
        for size in (10, 4096, 70_001)
    ]
    + [
        Answer(f"{name} of a product of seven axes", functools.partial(_seven_axes, name))
        for name in ("sum", "max")
    ]
    + [Answer("sum of a product of eight axes", _eight_axes)]
    + [
        Answer(
            f"{name} of {_text(shape)} along {axis}",
            functools.partial(_cumulative, name, shape, axis),
        )
        for name in ("cumsum", "cumprod", "cummax", "cumlogsumexp")
        for shape, axis in (((5000,), 0), ((65, 130), 1), ((130, 65), 0))
        if not (name == "cumlogsumexp" and axis == 0 and len(shape) == 2)
    ]
    + [
        Answer(f"{name} of windows", functools.partial(_windows, name))
        for name in ("sum", "max", "min")
    ]
    + [
        Answer(f"softmax of {'x'.join(map(str, shape))}", functools.partial(_softmax, shape))
        for shape in ((1000,), (64, 1000), (4, 33, 65))
    ]
    + [
        Answer("rows of mean 0 and variance 1", _normalised),
        Answer("two reductions at once", _two_at_once),
    ]
)
