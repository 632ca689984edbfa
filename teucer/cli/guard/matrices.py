"""Decompositions and solutions, and their batches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.linalg

import teucer as jax
import teucer.numpy as jnp
from teucer.cli.guard.answer import Answer, check_values

__all__ = ["ANSWERS"]

_SHAPES = ((1, 1), (5, 5), (65, 65), (3, 9, 9))


def _matrices(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(shape[-1]).standard_normal(shape)


def _positive(shape: tuple[int, ...]) -> np.ndarray:
    a = _matrices(shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1]) * shape[-1]


def _cholesky(shape: tuple[int, ...]) -> str:
    a = _positive(shape)
    return check_values(jnp.linalg.cholesky, [a], np.linalg.cholesky(a), 1e-11)


def _solve(shape: tuple[int, ...]) -> str:
    a, b = _positive(shape), _matrices(shape)
    return check_values(jnp.linalg.solve, [a, b], np.linalg.solve(a, b), 1e-10)


def _triangular(shape: tuple[int, ...]) -> str:
    a, b = np.tril(_positive(shape)), _matrices(shape)
    f = jax.lax.linalg.triangular_solve
    wanted = np.linalg.solve(a, b), np.linalg.solve(np.swapaxes(a, -1, -2), b)
    return check_values(
        lambda a, b: (
            f(a, b, left_side=True, lower=True),
            f(a, b, left_side=True, lower=True, transpose_a=True),
        ),
        [a, b],
        wanted,
        1e-10,
    )


def _eigenvalues(shape: tuple[int, ...]) -> str:
    a = _positive(shape)

    def f(a: Any) -> Any:
        w, v = jnp.linalg.eigh(a)
        return w, (v * w[..., None, :]) @ jnp.swapaxes(v, -1, -2)

    return check_values(f, [a], (np.linalg.eigvalsh(a), a), 1e-10)


def _singular_values(shape: tuple[int, ...]) -> str:
    a = _matrices(shape)

    def f(a: Any) -> Any:
        u, s, vh = jnp.linalg.svd(a)
        return s, (u * s[..., None, :]) @ vh

    return check_values(f, [a], (np.linalg.svd(a)[1], a), 1e-10)


def _qr(shape: tuple[int, ...]) -> str:
    a = _matrices(shape)

    def f(a: Any) -> Any:
        q, r = jnp.linalg.qr(a)
        return q @ r, jnp.swapaxes(q, -1, -2) @ q

    return check_values(f, [a], (a, np.broadcast_to(np.eye(shape[-1]), shape)), 1e-10)


def _determinant(shape: tuple[int, ...]) -> str:
    a = _matrices(shape)
    return check_values(
        lambda a: (jnp.linalg.slogdet(a)[1], jnp.linalg.inv(a) @ a),
        [a],
        (np.linalg.slogdet(a)[1], np.broadcast_to(np.eye(shape[-1]), shape)),
        1e-9,
    )


def _exponential(n: int) -> str:
    a = _matrices((n, n)) / 4
    return check_values(jax.scipy.linalg.expm, [a], scipy.linalg.expm(a), 1e-10)


ANSWERS = [
    Answer(f"{name} of {'x'.join(map(str, shape))}", functools.partial(check, shape))
    for name, check in {
        "cholesky": _cholesky,
        "solve": _solve,
        "triangular_solve": _triangular,
        "eigh": _eigenvalues,
        "svd": _singular_values,
        "qr": _qr,
        "slogdet and inv": _determinant,
    }.items()
    for shape in _SHAPES
] + [Answer(f"expm of {n}x{n}", functools.partial(_exponential, n)) for n in (2, 17)]
