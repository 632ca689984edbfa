"""jit(dynamic_results=...).

Masks, nonzero, unique and their kin under jit, with results of the size that the values say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config

RNG = np.random.default_rng(0)
X = RNG.normal(size=9).astype(np.float32)
M = RNG.integers(0, 5, (4, 3)).astype(np.int32)
COUNTS = np.array([1, 0, 2, 1], np.int32)


def dynamic(f: Any, **options: Any) -> Any:
    return jax.jit(f, dynamic_results=True, **options)


def equal(found: Any, expected: Any) -> None:
    for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.shape(y) == np.shape(z)
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6)


BOTH = {
    "mask": lambda np, x, m: x[x > 0],
    "mask of nothing": lambda np, x, m: x[x > 100],
    "mask of all": lambda np, x, m: x[x < 100],
    "mask of two axes": lambda np, x, m: m[m > 1] * 2,
    "mask of rows": lambda np, x, m: m[m[:, 0] > 1],
    "mask and slice": lambda np, x, m: m[m[:, 0] > 1, 1:],
    "sum of a mask": lambda np, x, m: x[x > 0].sum(),
    "mean of a mask": lambda np, x, m: np.mean(x[x > 0]),
    "sorted mask": lambda np, x, m: np.sort(x[x > 0])[::-1],
    "two masks": lambda np, x, m: (x[x > 0], x[x < 0], np.concatenate([x[x > 0], x[x < 0]])),
    "mask of a mask": lambda np, x, m: (lambda y: y[y < 1])(x[x > 0]),
    "outer product of masks": lambda np, x, m: np.outer(x[x > 0], m[m > 2]),
    "nonzero": lambda np, x, m: np.nonzero(m),
    "where": lambda np, x, m: np.where(m > 2),
    "argwhere": lambda np, x, m: np.argwhere(m > 1),
    "flatnonzero": lambda np, x, m: np.flatnonzero(m > 1),
    "extract": lambda np, x, m: np.extract(m > 1, m),
    "compress": lambda np, x, m: np.compress(m[:, 0] > 1, m, axis=0),
    "unique": lambda np, x, m: np.unique(
        m, return_index=True, return_inverse=True, return_counts=True
    ),
    "unique rows": lambda np, x, m: np.unique(m % 2, axis=0),
    "union": lambda np, x, m: np.union1d(m[0], m[-1]),
}


@pytest.mark.parametrize("f", BOTH.values(), ids=BOTH)
def test_as_numpy(f: Any) -> None:
    equal(dynamic(lambda x, m: f(jnp, x, m))(X, M), f(np, X, M))


@pytest.mark.parametrize("f", BOTH.values(), ids=BOTH)
def test_with_dynamic_arguments(f: Any) -> None:
    """Both at once: as many compilations as there are sizes, which is one."""
    traced = []
    g = jax.jit(
        lambda x, m: (traced.append(1), f(jnp, x, m))[1],
        dynamic_dims={"x": 12, "m": 12},
        dynamic_results=True,
    )
    for n, k in ((9, 4), (5, 2), (12, 7)):
        x, m = np.resize(X, n), np.resize(M, (k, 3))
        equal(g(x, m), f(np, x, m))
    assert len(traced) == 1


def test_off_by_default_and_on_by_option() -> None:
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
        jax.jit(lambda x: x[x > 0])(X)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(jnp.unique)(X)
    with config.dynamic_results(True):
        equal(jax.jit(lambda x: x[x > 0])(X), X[X > 0])
        with pytest.raises(jax.errors.NonConcreteBooleanIndexError):
            jax.jit(lambda x: x[x > 0], dynamic_results=False)(X)


def test_repeat_is_within_its_bound() -> None:
    f = jax.jit(lambda a, c: jnp.repeat(a, c), dynamic_results=10)
    total = jax.jit(lambda a, c: jnp.repeat(a, c).sum(), dynamic_results=10)
    for counts in (COUNTS, 0 * COUNTS, 2 * COUNTS):
        equal(f(np.arange(4), counts), np.repeat(np.arange(4), counts))
        equal(total(np.arange(4), counts), np.repeat(np.arange(4), counts).sum())
    for g in (f, total):  # also where the repeated array is not a result
        with pytest.raises(ValueError, match="20 elements, beyond the bound 10 of dynamic_results"):
            g(np.arange(4), 5 * COUNTS)
    with pytest.raises(jax.errors.ConcretizationTypeError, match="total_repeat_length"):
        dynamic(lambda a, c: jnp.repeat(a, c))(np.arange(4), COUNTS)


def test_derivatives() -> None:
    masked = np.where(X > 0, 2 * X, 0)
    square = dynamic(lambda x: (x[x > 0] ** 2).sum())
    equal(jax.grad(square)(X), masked)
    equal(dynamic(jax.grad(lambda x: (jnp.sort(x[x > 0]) ** 2).sum()))(X), masked)
    kept, back = jax.vjp(dynamic(lambda x: x[x > 0] ** 2), X)
    equal(kept, X[X > 0] ** 2)
    equal(back(np.ones_like(kept))[0], masked)
    equal(jax.jvp(dynamic(lambda x: x[x > 0] ** 2), (X,), (X,)), (X[X > 0] ** 2, 2 * X[X > 0] ** 2))
    # No element at all: the derivative is zero, not what stands behind the elements.
    equal(jax.grad(dynamic(lambda x: jnp.sqrt(x[x > 100]).sum()))(X), 0 * X)


def test_inner_functions() -> None:
    inner = jax.jit(lambda x: x[x > 0])
    equal(
        dynamic(lambda x: (inner(x), inner(-x), jnp.concatenate([inner(x), inner(-x)])))(X),
        (X[X > 0], -X[X < 0], np.concatenate([X[X > 0], -X[X < 0]])),
    )
    xs = RNG.normal(size=(4, 5)).astype(np.float32)
    equal(
        dynamic(lambda xs: jax.lax.scan(lambda c, r: (c + r[r > 0].sum(), c), 0.0, xs)[0])(xs),
        xs[xs > 0].sum(),
    )
    for p in (True, False):
        equal(
            dynamic(
                lambda x, p: jax.lax.cond(p, lambda x: x[x > 0].sum(), lambda x: x[x < 0].sum(), x)
            )(X, p),
            X[X > 0].sum() if p else X[X < 0].sum(),
        )


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="vmap: a size that depends on values"):
        dynamic(jax.vmap(lambda x: x[x > 0].sum()))(np.stack([X, X]))
    with pytest.raises((NotImplementedError, TypeError), match="size|shape|type"):
        dynamic(lambda x: jax.lax.cond(True, lambda x: x[x > 0], lambda x: x[x < 0], x))(X)
    with pytest.raises((NotImplementedError, TypeError)):
        dynamic(lambda xs: jax.lax.map(lambda r: r[r > 0], xs))(np.stack([X, X]))
    with pytest.raises((TypeError, ValueError), match="incompatible shapes"):
        dynamic(lambda x: x[x > 0] + x[x < 0])(X)


def test_called_again_with_other_values() -> None:
    traced = []
    f = dynamic(lambda x: (traced.append(1), x[x > 0])[1])
    for k in range(4):
        x = np.roll(X, k) - k / 2
        equal(f(x), x[x > 0])
    assert len(traced) == 1


def test_the_greatest_of_none_is_refused() -> None:
    with pytest.raises(
        jax.errors.InconclusiveDimensionOperation,
        match=r"(?s)max: the array may turn out to be empty.*initial",
    ):
        dynamic(lambda x: jnp.max(x[x > 0]))(X)
    f = dynamic(lambda x: jnp.max(x[x > 0], initial=-1.0))
    equal((f(X), f(-abs(X))), (X.max(), np.float32(-1)))
    with pytest.raises(jax.errors.InconclusiveDimensionOperation):
        dynamic(lambda x: x[x > 0][0])(X)
    equal(dynamic(lambda x: jax.nn.softmax(x[x > 0]))(X), jax.nn.softmax(X[X > 0]))


def test_equality_of_sizes_that_depend_on_values_is_refused() -> None:
    with pytest.raises(
        jax.errors.InconclusiveDimensionOperation,
        match=r"(?s)'s0' == '1' is inconclusive.*s0: from 0 to 3",
    ):
        jax.jit(lambda x: x * 10 if x[x > 0].shape[0] == 1 else x, dynamic_results=True)(
            np.float32([1, -1, 2])
        )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_counts_are_summed_without_wrapping(dtype: Any) -> None:
    f = jax.jit(lambda x, n: jnp.repeat(x, n), dynamic_results=400)
    x = np.arange(4, dtype=np.float32)
    for counts in ([100, 100, 0, 100], [0, 0, 0, 0], [1, 0, 2, 3]):
        np.testing.assert_array_equal(f(x, np.array(counts, dtype)), np.repeat(x, counts))
    with pytest.raises(ValueError, match="a result has 480 elements, beyond the bound 400"):
        f(x, np.array([120] * 4, dtype))


def test_counts_that_are_out_of_range() -> None:
    f = jax.jit(lambda x, n: jnp.repeat(x, n), dynamic_results=4)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(ValueError, match="beyond the bound 4"):
        f(x, np.array([2**30, 2**30, 2**30, 2**30 + 1], np.int32))
    with pytest.raises(ValueError, match="repeats may not be negative"):
        f(x, np.array([-1, 0, 0, 2], np.int32))


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[x > 0],
        lambda x: jnp.nonzero(x),
        lambda x: jnp.unique(x),
        lambda x: jnp.compress(jnp.ravel(x) > 0, jnp.ravel(x)),
        lambda x: jnp.extract(x > 0, x),
        lambda x: jnp.union1d(x, x),
        lambda x: x[jnp.sum(x, tuple(range(1, x.ndim))) > 0],
    ],
)
def test_of_nothing(f: Any, shape: tuple[int, ...]) -> None:
    """Of an array without elements there are none; without the option the same."""
    x = np.zeros(shape, np.float32)
    equal(dynamic(f)(x), f(jnp.asarray(x)))
    equal(jax.jit(f, dynamic_results=4)(x), f(jnp.asarray(x)))


@pytest.mark.parametrize("size", [3, 4, 5])
def test_at_the_bound(size: int) -> None:
    """As many elements as the bound are given, one more is refused."""
    f = jax.jit(lambda counts: jnp.repeat(jnp.arange(3), counts), dynamic_results=4)
    counts = np.array([1, 1, size - 2], np.int32)
    if size <= 4:
        np.testing.assert_array_equal(f(counts), np.repeat(np.arange(3), counts))
    else:
        with pytest.raises(
            ValueError, match="a result has 5 elements, beyond the bound 4 of dynamic_results"
        ):
            f(counts)
