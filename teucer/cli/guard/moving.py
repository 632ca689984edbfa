"""Operations that move values: sorts, indices, transpositions, pads, and Fourier transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.cli.guard.answer import Answer, check_values

__all__ = ["ANSWERS"]


def _sort(shape: tuple[int, ...], dtype: str) -> str:
    x = (np.random.default_rng(0).standard_normal(shape) * 100).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[3], x.flat[-1] = np.nan, -np.inf
    return check_values(
        lambda x: (jnp.sort(x, axis=-1), jnp.argsort(x, axis=-1), jnp.sort(x, axis=0)),
        [x],
        (np.sort(x, -1), np.argsort(x, -1, "stable"), np.sort(x, 0)),
        0,
    )


def _top() -> str:
    x = np.random.default_rng(1).permutation(70_001).astype(np.float32)
    return check_values(
        lambda x: lax.top_k(x, 9), [x], (np.sort(x)[::-1][:9], np.argsort(-x)[:9]), 0
    )


def _gather(mode: str) -> str:
    rng = np.random.default_rng(2)
    x, i = rng.standard_normal((129, 65)), rng.integers(-129, 129, (7, 11))
    if mode == "clip":
        i = i * 3
        return check_values(
            lambda x, i: x.at[i].get(mode="clip"),
            [x, i],
            x[np.clip(np.where(i < 0, i + 129, i), 0, 128)],
            0,
        )
    if mode == "axis 1":
        return check_values(lambda x, i: x[:, i % 65], [x, i], x[:, i % 65], 0)
    return check_values(lambda x, i: x[i], [x, i], x[i], 0)


def _scatter(kind: str, size: int) -> str:
    rng = np.random.default_rng(3)
    i = rng.integers(0, size, 5 * size)
    v = rng.integers(-9, 9, 5 * size).astype("float64")
    wanted = np.zeros(size)
    if kind == "add":
        np.add.at(wanted, i, v)
    elif kind == "max":
        np.maximum.at(wanted, i, v)
    else:
        wanted[i] = v = i * 1.0
    return check_values(lambda i, v: getattr(jnp.zeros(size).at[i], kind)(v), [i, v], wanted, 1e-12)


def _slices() -> str:
    x = np.random.default_rng(4).standard_normal((65, 33, 17))

    def f(x: Any, i: Any) -> Any:
        moved = lax.dynamic_update_slice(x, x[:5, :7, :3] * 2, (i, i, i))
        return lax.dynamic_slice(moved, (i - 1, i - 1, 0), (9, 9, 17)), x[::-3, 2:-2:2, ::-1]

    moved = x.copy()
    moved[9:14, 9:16, 9:12] = x[:5, :7, :3] * 2
    return check_values(f, [x, 9], (moved[8:17, 8:17], x[::-3, 2:-2:2, ::-1]), 0)


def _transposed(axes: tuple[int, ...]) -> str:
    x = np.random.default_rng(5).standard_normal(range(2, 2 + len(axes)))
    return check_values(
        lambda x: (x.transpose(axes), (x + 1).transpose(axes).sum(0)),
        [x],
        (x.transpose(axes), (x + 1).transpose(axes).sum(0)),
        1e-12,
    )


def _joined() -> str:
    x = np.random.default_rng(6).standard_normal((9, 7))
    parts = lambda n, x: [n.sin(x) if n is jnp else np.sin(x), x[:3], x[::-1] * 2]  # noqa: E731
    return check_values(
        lambda x: (jnp.concatenate(parts(jnp, x)), jnp.pad(x, ((2, 1), (0, 3)))),
        [x],
        (np.concatenate(parts(np, x)), np.pad(x, ((2, 1), (0, 3)))),
        1e-14,
    )


def _transform(name: str, size: int) -> str:
    x = np.random.default_rng(7).standard_normal((3, size))
    y = x if name in ("fft", "rfft", "fft2") else x + 1j * x[::-1]
    return check_values(getattr(jnp.fft, name), [y], getattr(np.fft, name)(y), 1e-10)


def _two_transforms() -> str:
    x = np.ones((2, 3))
    return check_values(
        lambda x: (jnp.fft.rfft(x, n=4), jnp.fft.fft(x, n=4, axis=0)),
        [x],
        (np.fft.rfft(x, n=4), np.fft.fft(x, n=4, axis=0)),
        1e-12,
    )


def _random_bits() -> str:
    """threefry2x32 of key 0, as its authors' reference has it for counters 0 and 0."""
    found = np.asarray(jax.jit(jax.extend.random.threefry_2x32)(
        np.zeros(2, np.uint32), np.zeros(2, np.uint32)
    ))  # fmt: skip
    wanted = np.array([0x6B200159, 0x99BA4EFE], np.uint32)
    return "" if (found == wanted).all() else f"{found} for {wanted}"


_MORE: list[tuple[str, Callable[[], str]]] = [
    ("the nine largest", _top),
    ("slices that move", _slices),
    ("concatenation of what is computed", _joined),
    ("two Fourier transforms of one array", _two_transforms),
    ("random bits", _random_bits),
]
ANSWERS = (
    [
        Answer(
            f"sort of {'x'.join(map(str, shape))} {dtype}", functools.partial(_sort, shape, dtype)
        )
        for shape in ((70_001,), (65, 129))
        for dtype in ("float32", "int32", "uint8")
    ]
    + [
        Answer(f"gather, {mode}", functools.partial(_gather, mode))
        for mode in ("axis 0", "axis 1", "clip")
    ]
    + [
        Answer(f"scatter by {kind} to {size}", functools.partial(_scatter, kind, size))
        for kind in ("add", "max", "set")
        for size in (7, 4097)
    ]
    + [
        Answer(f"transposition {axes}", functools.partial(_transposed, axes))
        for axes in ((1, 0), (2, 0, 1), (0, 3, 1, 2), (4, 2, 0, 1, 3), tuple(range(6, -1, -1)))
    ]
    + [
        Answer(f"{name} of {size}", functools.partial(_transform, name, size))
        for name in ("fft", "ifft", "rfft", "irfft", "fft2")
        for size in (64, 97)
    ]
    + [Answer(name, check) for name, check in _MORE]
)
