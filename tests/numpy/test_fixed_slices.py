"""jax.ds: slices of fixed size that may start anywhere."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X = np.arange(24.0, dtype=np.float32).reshape(4, 6)
ds = jax.ds


def read(key, *places):
    """x[key(*places)], with the places known and traced; both must agree."""
    x = jnp.asarray(X)
    known = np.asarray(x[key(*places)])
    traced = jax.jit(lambda *places: x[key(*places)])(*places)
    np.testing.assert_array_equal(known, traced)
    return known


@pytest.mark.parametrize(
    "start, rows",
    [
        (0, [0, 1]),
        (1, [1, 2]),
        (2, [2, 3]),
        (3, [2, 3]),
        (9, [2, 3]),
        (-2, [2, 3]),
        (-4, [0, 1]),
        (-9, [0, 1]),
    ],
)
def test_a_slice_that_reaches_beyond_is_moved_inside(start, rows):
    np.testing.assert_array_equal(read(lambda i: ds(i, 2), start), X[rows])
    np.testing.assert_array_equal(read(lambda i: (ds(i, 2), 1), start), X[rows, 1])
    np.testing.assert_array_equal(read(lambda i: (..., None, ds(i, 2)), 4), X[:, None, 4:6])


def test_it_goes_with_other_entries():
    np.testing.assert_array_equal(
        read(lambda i: (ds(i, 2), np.array([1, 2])), 1), X[1:3][:, [1, 2]]
    )
    np.testing.assert_array_equal(read(lambda i: (ds(i, 2), None, ds(i, 3)), 1), X[1:3, None, 1:4])
    np.testing.assert_array_equal(read(lambda i: ds(i, 2, 2), 1), X[1:4:2])
    np.testing.assert_array_equal(read(lambda i: ds(i, 3, 0), 1), X[[1, 1, 1]])
    np.testing.assert_array_equal(
        jax.vmap(lambda i: jnp.asarray(X[0])[ds(i, 2)])(jnp.arange(3)), [[0, 1], [1, 2], [2, 3]]
    )


@pytest.mark.parametrize("start, rows", [(1, [1, 2]), (-2, [2, 3]), (3, []), (9, [])])
def test_changes_beyond_are_dropped(start, rows):
    expected = X.copy()
    expected[rows] += 100
    for update in (
        lambda i: jnp.asarray(X).at[ds(i, 2)].add(100),
        lambda i: jnp.asarray(X).at[ds(i, 2)].apply(lambda x: x + 100),
    ):
        np.testing.assert_array_equal(update(start), expected)
        np.testing.assert_array_equal(jax.jit(update)(start), expected)
    filled = jnp.asarray(X).at[ds(start, 2)].get(mode="fill", fill_value=-1)
    np.testing.assert_array_equal(filled, X[rows] if rows else np.full((2, 6), -1))


def test_gradient():
    g = jax.jit(jax.grad(lambda x, i: (x[ds(i, 2)] ** 2).sum()))(X, 1)
    np.testing.assert_array_equal(g, np.where(np.isin(np.arange(4), [1, 2])[:, None], 2 * X, 0))


def test_ordinary_slices_and_mistakes():
    assert (ds(None), ds(3), ds(None, 2)) == (slice(None), ds(0, 3), ds(0, 2))
    for size in (-1, 5):
        with pytest.raises(
            TypeError, match=f"a slice of size {size} does not fit into an axis of size 4"
        ):
            jnp.asarray(X)[ds(0, size)]
    with pytest.raises(ValueError, match="`stride` must be >= 0, got -1"):
        ds(0, 2, -1)
    with pytest.raises(TypeError, match="the size of a slice is an int"):
        jax.jit(lambda n: jnp.asarray(X)[ds(0, n)])(2)
