"""Elements taken, put, and chosen by conditions.

Values against NumPy, sizes, modes, errors, transformations.
"""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import teucer as jax
import teucer.numpy as jnp

X = np.arange(12, dtype=np.float32).reshape(3, 4)
M = X % 3 == 0


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        (None, [0.0, np.nan, 3.0]),
        ("fill", [0.0, np.nan, 3.0]),
        ("clip", [0.0, 3.0, 0.0]),
        ("wrap", [0.0, 1.0, 3.0]),
    ],
)
def test_take_modes(mode, want):
    np.testing.assert_array_equal(jnp.take(X[0], np.array([0, 5, -1]), mode=mode), want)
    np.testing.assert_array_equal(
        jax.jit(lambda i: jnp.take(X[0], i, mode=mode))(np.array([0, 5, -1])), want
    )


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("places", [1, [2, 0], [[0, 1], [2, 2]], []], ids=str)
def test_take_is_numpys(axis, places):
    places = np.array(places, np.int32)
    np.testing.assert_array_equal(jnp.take(X, places, axis), np.take(X, places, axis))


def test_take_fills_with_a_value():
    assert jnp.take(np.arange(3), 7).tolist() == -(2**31)
    assert jnp.take(np.arange(3), np.array([1, 7]), fill_value=-1).tolist() == [1, -1]


@hypothesis.given(st.integers(0, 1), st.data())
def test_along_an_axis(axis, data):
    shape = [3, 4]
    shape[axis] = data.draw(st.integers(0, 3))
    n, size = X.shape[axis], int(np.prod(shape))
    places = np.array(
        data.draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size)), np.int64
    )
    places = places.reshape(shape)
    np.testing.assert_array_equal(
        jnp.take_along_axis(X, places, axis), np.take_along_axis(X, places, axis)
    )
    want = X.copy()
    np.put_along_axis(want, places, 9, axis)
    np.testing.assert_array_equal(jnp.put_along_axis(X, places, 9, axis, inplace=False), want)


def test_take_along_axis_fills_and_differentiates():
    assert np.isnan(jnp.take_along_axis(X, np.array([[7]]), 1)).all()
    assert jnp.take_along_axis(X, np.array([[7]]), 1, mode="clip").tolist() == [
        [3.0],
        [7.0],
        [11.0],
    ]
    got = jax.grad(lambda x: jnp.sum(jnp.take_along_axis(x, np.array([[1, 1]]), 1)))(X)
    np.testing.assert_array_equal(got, np.tile([0, 2, 0, 0], (3, 1)))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_put(mode):
    want = X.copy()
    np.put(want, np.array([0, 40, 5]), np.array([7.0, 8.0]), mode=mode)
    np.testing.assert_array_equal(
        jnp.put(X, np.array([0, 40, 5]), np.array([7.0, 8.0]), mode=mode, inplace=False), want
    )


def test_place_and_fill_diagonal():
    want = X.copy()
    np.place(want, M, [7, 8])
    np.testing.assert_array_equal(jnp.place(X, M, np.array([7, 8]), inplace=False), want)
    want = X.copy()
    np.fill_diagonal(want, [7, 8])
    np.testing.assert_array_equal(jnp.fill_diagonal(X, np.array([7, 8]), inplace=False), want)


@pytest.mark.parametrize("size", [None, 2, 9])
def test_nonzero(size):
    want = np.nonzero(M)
    for w, g in zip(want, jnp.nonzero(M, size=size, fill_value=-1), strict=True):
        n = len(w) if size is None else size
        np.testing.assert_array_equal(g, [*w, *[-1] * n][:n])
    flat = np.flatnonzero(M)
    n = len(flat) if size is None else size
    np.testing.assert_array_equal(
        jnp.flatnonzero(M, size=size, fill_value=99), [*flat, *[99] * n][:n]
    )
    np.testing.assert_array_equal(jnp.argwhere(M, size=size)[:2], np.argwhere(M)[:2])


def test_nonzero_under_jit_and_vmap():
    rows, columns = jax.jit(lambda m: jnp.nonzero(m, size=3, fill_value=(7, 8)))(X > 9)
    assert rows.tolist() == [2, 2, 7] and columns.tolist() == [2, 3, 8]
    assert jax.vmap(lambda m: jnp.nonzero(m, size=2)[0])(M).tolist() == [[0, 3], [2, 0], [1, 0]]


def test_argwhere_of_scalars():
    assert jnp.argwhere(np.float32(1)).shape == (1, 0) and jnp.argwhere(np.float32(0)).shape == (
        0,
        0,
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.select([X > 6, X > 2], [X, -X], 5),
        lambda m: m.choose(np.array([[0, 1], [1, 0]]), [X[:2, :2], X[1:, 1:3]]),
        lambda m: m.choose(
            np.array([0, 5, -1]), [np.array([1, 2, 3]), np.array([4, 5, 6])], mode="clip"
        ),
        lambda m: m.choose(
            np.array([0, 5, -1]), [np.array([1, 2, 3]), np.array([4, 5, 6])], mode="wrap"
        ),
        lambda m: m.extract(M, X),
        lambda m: m.compress(np.array([True, False, True]), X, axis=0),
        lambda m: m.compress(np.array([False, True]), X, axis=1),
        lambda m: m.piecewise(X, [X < 3, X > 6], [lambda v: -v, 7.0]),
        lambda m: m.piecewise(X, [X < 3, X > 6], [lambda v, k: v * k, 7.0, lambda v, k: v + k], 3),
        lambda m: m.apply_along_axis(lambda v: v[:2] * 2, 0, X),
        lambda m: m.apply_along_axis(lambda v: m.outer(v, v), 1, X),
        *(
            lambda m, axis=axis, f=f: m.apply_along_axis(
                lambda v: f(m, v), axis, np.arange(24.0).reshape(2, 3, 4)
            )
            for axis in range(-3, 3)
            for f in (
                lambda m, v: v[:2],
                lambda m, v: v.sum(),
                lambda m, v: m.outer(v, v[:2]),
            )
        ),
        lambda m: m.apply_over_axes(m.sum, X.reshape(3, 2, 2), [0, 2]),
        lambda m: m.vectorize(lambda a, b: a + b)(X, X[0]),
        lambda m: m.vectorize(lambda a, b: m.dot(a, b), signature="(n),(n)->()")(X, X[:1]),
    ],
)
def test_values_are_numpys(f):
    want, got = f(np), f(jnp)
    assert want.shape == got.shape
    np.testing.assert_allclose(got, want)


def test_compress_of_a_size():
    f = jax.jit(lambda c, x: jnp.compress(c, x, size=2, fill_value=-1))
    assert f(np.array([False, True, False]), np.arange(3)).tolist() == [1, -1]
    assert jnp.asarray(X).compress(np.array([False, True]), axis=0).tolist() == [X[1].tolist()]


def test_vectorized_functions_transform():
    outer = jnp.vectorize(jnp.outer, signature="(n),(m)->(n,m)")
    got = jax.jit(outer)(X.reshape(3, 1, 4), X[:2, :2])
    np.testing.assert_allclose(got, np.einsum("in,jm->ijnm", X, X[:2, :2]))
    two = jnp.vectorize(lambda a: (a, -a), signature="()->(),()")(X)
    np.testing.assert_array_equal(two[1], -X)
    np.testing.assert_array_equal(jnp.vectorize(lambda a, k: a * k, excluded={1})(X, 2), 2 * X)
    np.testing.assert_array_equal(
        jax.grad(lambda x: jnp.sum(jnp.vectorize(lambda a: a * a)(x)))(X), 2 * X
    )


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda: jnp.take(X, 1.0), ValueError, "indices must have an integer type"),
        (
            lambda: jnp.take(X, [1]),
            TypeError,
            r"take requires ndarray or scalar arguments, got <class 'list'> at position 1",
        ),
        (
            lambda: jnp.take(X, 1, mode="raise"),
            NotImplementedError,
            "The 'raise' mode to jnp.take is not supported",
        ),
        (
            lambda: jnp.take_along_axis(X, np.array([0.0]), 1),
            TypeError,
            "take_along_axis indices must be of integer type, got float",
        ),
        (
            lambda: jnp.take_along_axis(X, np.array([0]), 1),
            ValueError,
            "indices and arr must have the same number of dimensions; 1 vs. 2",
        ),
        (lambda: jnp.put(X, 0, 1.0), ValueError, "jax.numpy.put cannot modify arrays in-place"),
        (lambda: jnp.place(X, M, X), ValueError, "cannot modify arrays in-place"),
        (
            lambda: jnp.put_along_axis(X, X.astype(int), 1, 1),
            ValueError,
            "cannot modify arrays in-place",
        ),
        (
            lambda: jnp.select([M], [X, X]),
            ValueError,
            r"condlist must have length equal to choicelist \(1 vs 2\)",
        ),
        (lambda: jnp.select([], []), ValueError, "condlist must be non-empty"),
        (
            lambda: jnp.piecewise(X, [M], [1, 2, 3]),
            ValueError,
            r"with 1 condition\(s\), either 1 or 2 functions are expected; got 3",
        ),
        (
            lambda: jnp.choose(np.array([0, 5]), [X[0, :2], X[1, :2]]),
            ValueError,
            "invalid entry in choice array",
        ),
        (
            lambda: jnp.compress(np.array([True, False, True, True]), X, axis=0),
            ValueError,
            "contains entries that are out of bounds",
        ),
        (
            lambda: jnp.nonzero(np.float32(1)),
            ValueError,
            "Calling nonzero on 0d arrays is not allowed",
        ),
        (
            lambda: jnp.vectorize(lambda a: a, signature="foo"),
            ValueError,
            "not a valid gufunc signature: foo",
        ),
        (
            lambda: jnp.vectorize(lambda a: a, signature="(n),(n)->()")(X),
            TypeError,
            "wrong number of positional arguments: expected 2, got 1",
        ),
        (
            lambda: jnp.vectorize(lambda a, b: a, signature="(n),(n)->()")(X, X[:, :2]),
            ValueError,
            "inconsistent size for core dimension 'n'",
        ),
        (
            lambda: jnp.vectorize(lambda a: a, signature="(n)->()")(X),
            ValueError,
            r"output shape \(4,\) does not match core dimensions",
        ),
        (
            lambda: jnp.vectorize(lambda a: (a, a), signature="()->()")(X),
            TypeError,
            "wrong number of output arguments: expected 1, got 2",
        ),
    ],
)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f()
