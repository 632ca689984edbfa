"""Scatters of one window for each row, counted by an iota, become choices: of the same bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from optimize.test_passes import checked, names, traced

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

N, M = 6, 5
EDGES = np.array([0.0, -0.0, np.inf, np.nan, -1.5, -np.inf], np.float32)
# From the end, out of bounds on both sides, and the ends.
PLACES = np.array([0, -1, 4, 5, -6, 2], np.int32)
ROWS = np.arange(30, dtype=np.float32).reshape(N, M)
PAGES = np.arange(120, dtype=np.float32).reshape(N, 4, M)


def scatters(f: Any, *args: Any) -> tuple[int, int]:
    """The scatters of f's jaxpr before the passes and after, which change no bit of its results."""
    jaxpr = traced(f, *args)
    after = checked(jaxpr, *map(jnp.asarray, args))
    count = [sum("scatter" in name for name in names(j)) for j in (jaxpr, after)]
    return count[0], count[1]


def zeros(*shape: int, dtype: Any = np.float32, fill: Any = 0) -> Any:
    return lax.full(shape, fill, np.dtype(dtype))


WRITTEN = {
    "set": lambda u, i: zeros(N, M).at[jnp.arange(N), i].set(u),
    "add": lambda u, i: zeros(N, M).at[jnp.arange(N), i].add(u),
    "subtract": lambda u, i: zeros(N, M).at[jnp.arange(N), i].subtract(u),
    "multiply": lambda u, i: zeros(N, M, fill=-2.0).at[jnp.arange(N), i].multiply(u),
    "min": lambda u, i: zeros(N, M, fill=-1.0).at[jnp.arange(N), i].min(u),
    "max": lambda u, i: zeros(N, M, fill=-1.0).at[jnp.arange(N), i].max(u),
    "negative zeros": lambda u, i: zeros(N, M, fill=-0.0).at[jnp.arange(N), i].add(u),
    "clip": lambda u, i: zeros(N, M).at[jnp.arange(N), i].add(u, mode="clip"),
    "drop": lambda u, i: zeros(N, M).at[jnp.arange(N), i].set(u, mode="drop"),
    "columns": lambda u, i: zeros(M, N).at[i, jnp.arange(N)].set(u),
    "whole rows": lambda u, i: zeros(N, M, 3).at[jnp.arange(N), i].add(u[:, None] + jnp.ones(3)),
    "rows between": lambda u, i: zeros(N, 3, M).at[jnp.arange(N), :, i].add(u[:, None]),
    "two places": lambda u, i: zeros(N, M, 4).at[jnp.arange(N), i, i[::-1]].add(u),
    "a diagonal": lambda u, i: zeros(N, N).at[jnp.arange(N), jnp.arange(N)].set(u),
    "in a batch": jax.vmap(lambda u, i: zeros(M).at[i].add(u)),
    "numbers": lambda u, i: zeros(N, M, dtype=np.int32).at[jnp.arange(N), i].add(u > 0),
    "half": lambda u, i: (
        zeros(N, M, dtype=ml_dtypes.bfloat16).at[jnp.arange(N), i].add(u.astype(jnp.bfloat16))
    ),
    "complex": lambda u, i: (
        zeros(N, M, dtype=np.complex64).at[jnp.arange(N), i].add(lax.complex(u, -u))
    ),
    "of a number": lambda u, i: zeros(N, M).at[jnp.arange(N), i].set(1.0),
    "short counts": lambda u, i: zeros(N, M).at[jnp.arange(N, dtype=np.int8), i].set(u),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_one_window_a_row_is_a_choice(name: str) -> None:
    assert scatters(WRITTEN[name], EDGES, PLACES) == (1, 0)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, i: x[jnp.arange(N), i], (ROWS, PLACES)),
        (lambda x, i: x[jnp.arange(N), i] + x[jnp.arange(N), i - 1], (ROWS, PLACES)),
        (lambda x, i: x.at[jnp.arange(N), i].get(mode="clip"), (ROWS, PLACES)),
        (lambda x, i: x.at[jnp.arange(N), i].get(mode="fill"), (ROWS, PLACES)),
        (lambda x, i: x[jnp.arange(N)[:, None], jnp.arange(4), i[:, None]], (PAGES, PLACES)),
        (lambda x, i: x.reshape(-1, M)[jnp.arange(4 * N), jnp.tile(i, 4)], (PAGES, PLACES)),
        (lambda x, i: jax.vmap(lambda x: x[jnp.arange(N), i])(jnp.stack([x, -x])), (ROWS, PLACES)),
    ],
)
def test_gradients_of_one_element_a_row(f: Any, args: Any) -> None:
    gradient = jax.grad(lambda x, i: jnp.sum(jnp.sin(f(x, i))))
    before, after = scatters(gradient, *args)
    assert before >= 1
    assert after == 0


COUNTED = {
    "NumPy": lambda n: np.arange(n),
    "32 bits": lambda n: np.arange(n, dtype=np.int32),
    "8 bits": lambda n: np.arange(n, dtype=np.int8),
    "unsigned": lambda n: np.arange(n, dtype=np.uint16),
    "a list": lambda n: list(range(n)),
    "places found": lambda n: np.nonzero(np.ones(n))[0],
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("x64", [False, True])
def test_rows_that_numpy_counts(name: str, x64: bool) -> None:
    count = COUNTED[name]
    column = lambda n: np.asarray(count(n))[:, None]
    places = {
        "first": (lambda x, i: x[count(N), i], (ROWS, PLACES)),
        "second": (lambda x, i: x.T[i, count(N)], (ROWS, PLACES)),
        "a column": (lambda x, i: x[column(N), count(4), i[:, None]], (PAGES, PLACES)),
        "between": (lambda x, i: x.transpose(0, 2, 1)[count(N), i], (PAGES, PLACES)),
        "mapped": (lambda x, i: jax.vmap(lambda x: x[count(N), i])(x[None]), (ROWS, PLACES)),
        "at": (lambda x, i: x.at[count(N), i].get(mode="clip"), (ROWS, PLACES)),
    }
    with jax.enable_x64(x64):
        for place, (f, args) in places.items():
            gradient = jax.grad(lambda x, i, f=f: jnp.sum(jnp.sin(f(x, i))))
            assert scatters(gradient, *args) == (1, 0), place
            np.testing.assert_array_equal(jax.jit(f)(*args), f(*map(jnp.asarray, args)))
        f = lambda u, i: zeros(N, M).at[count(N), i].add(u)
        assert scatters(f, EDGES, PLACES) == (1, 0)


def test_other_places_of_numpy_stay_as_they_are() -> None:
    i = np.array([0, 4, 2, 2, 1, 3], np.int32)
    for rows, n in (
        (np.arange(N)[::-1], N),
        (np.arange(N) + 1, N + 1),
        (np.arange(N), N + 1),
        (np.arange(-N, 0), N),
        (np.array([0, 1, 2, 3, 3, 5]), N),
    ):
        f = lambda x, rows=rows: x[rows, i]
        x = jnp.arange(n * M, dtype=np.float32).reshape(n, M)
        assert "iota" not in names(jax.make_jaxpr(f)(x).jaxpr)
        np.testing.assert_array_equal(jax.jit(f)(x), np.asarray(x)[rows, i])
    # Eager calls take the places as they are: a program for each would be compiled.
    assert float(jnp.asarray(ROWS)[np.arange(N), i][1]) == ROWS[1, 4]


def updates(n: int) -> Any:
    return np.linspace(-1, 1, n, dtype=np.float32)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda u, i: jnp.outer(u, u)[:, :M].at[jnp.arange(N), i].add(u), "an array of numbers"),
        (lambda u, i: zeros(N, M).at[i, i].add(u), "rows that are data"),
        (lambda u, i: zeros(N, M).at[jnp.arange(N) + 1, i].add(u), "counted from one"),
        (lambda u, i: zeros(N, M).at[jnp.arange(0, 2 * N, 2), i].add(u), "by twos"),
        (
            lambda u, i: (
                zeros(N, M).at[lax.broadcast_in_dim(lax.iota(np.int32, 1), (N,), (0,)), i].add(u)
            ),
            "the first row, repeated",
        ),
        (lambda u, i: zeros(2 * N, M).at[jnp.arange(N), i].add(u), "the first rows"),
        (
            lambda u, i: zeros(N, M).at[jnp.arange(N)[:, None], jnp.stack([i, i], 1)].add(1.0),
            "two a row",
        ),
        (
            lambda u, i: zeros(N, M).at[jnp.broadcast_to(jnp.arange(N), (2, N)), i].add(u),
            "each row twice",
        ),
        (lambda u, i: zeros(N, M).at[jnp.arange(N), i].apply(jnp.cos), "a function"),
    ],
)
def test_what_stays_a_scatter(f: Any, why: str) -> None:
    assert scatters(f, updates(N), PLACES) == (1, 1), why


def test_no_rows() -> None:
    f = lambda x, i: jnp.sum(x[jnp.arange(0), i])
    assert jax.jit(jax.grad(f))(jnp.zeros((0, M)), jnp.zeros(0, np.int32)).shape == (0, M)


def test_places_that_are_counted_are_not_counted_from_the_end() -> None:
    """Only numbers that an iota makes are known not to be negative."""
    x = jnp.asarray(ROWS)
    for index, comparisons in (
        (lambda: jnp.arange(N), 0),
        (lambda: lax.iota(np.uint8, N).astype(np.int32), 0),
        (lambda: jnp.arange(N) - 1, 1),
        (lambda: lax.iota(np.int8, 200).astype(np.int32), 1),
        (lambda: lax.iota(np.int32, 200).astype(np.int8), 1),
    ):
        after = checked(traced(lambda x, index=index: x[index()], x), x)
        assert names(after).count("lt") == comparisons
    assert names(checked(traced(lambda: jnp.arange(N) < 3))).count("lt") == 1


def test_values_and_gradients_of_a_cross_entropy() -> None:
    def by_hand(x: Any, i: Any) -> Any:
        return -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(len(i)), i])

    def by_choice(x: Any, i: Any) -> Any:
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * jax.nn.one_hot(i, M), -1))

    i = np.array([0, 4, 2, 2, 1, 3], np.int32)
    for f, g in ((by_hand, by_choice), (jax.vmap(by_hand), jax.vmap(by_choice))):
        args = (ROWS / 9, i) if f is by_hand else (np.stack([ROWS, -ROWS]) / 9, np.stack([i, i]))
        found, expected = (
            jax.jit(jax.value_and_grad(lambda x, i, h=h: jnp.sum(h(x, i))))(*args) for h in (f, g)
        )
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-7)


def test_on_devices_that_hold_parts() -> None:
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")

    def f(x: Any, i: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(jnp.sin(x[jnp.arange(x.shape[0]), i])))(x)

    i = np.array([0, 4, 2, 2, 1, 3], np.int32)
    split = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=(spec, spec), out_specs=spec))
    np.testing.assert_array_equal(split(ROWS, i), f(jnp.asarray(ROWS), i))
