"""Slices, padding, dynamic slices: dtypes of indices, and errors."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.trace import typeof

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_index_dtypes(dtype):
    i = np.asarray(200 if dtype in ("uint8", "uint32") else 100, dtype)
    x = np.arange(300, dtype=np.float32)
    assert np.asarray(lax.dynamic_slice(x, (i,), (1,))).tolist() == [float(i)]
    assert np.asarray(lax.dynamic_slice_in_dim(x, i, 250)).tolist()[0] == 50.0
    if dtype.startswith("int"):
        assert np.asarray(lax.dynamic_slice(x, (np.asarray(-1, dtype),), (1,))).tolist() == [299.0]


def test_negative_indices_may_be_refused():
    assert np.asarray(lax.dynamic_slice(X, (-1, -1), (1, 1))).tolist() == [[5.0]]
    i = jnp.int32(-1)
    assert np.asarray(
        lax.dynamic_slice(X, (i, i), (1, 1), allow_negative_indices=False)
    ).tolist() == [[0.0]]
    assert np.asarray(
        lax.dynamic_slice(X, (-1, i), (1, 1), allow_negative_indices=(True, False))
    ).tolist() == [[3.0]]


def test_index_take():
    got = lax.index_take(X, (np.int32([0, -1]), np.int32([1, 5])), (0, 1))
    assert np.asarray(got).tolist() == [1.0, 5.0]
    np.testing.assert_array_equal(lax.index_take(X, (np.int32([-1, 3]),), (1,)), X[:, [2, 0]].T)


def test_a_scalar_has_a_slice():
    assert float(lax.dynamic_slice(np.float32(3), (), ())) == 3.0
    assert typeof(lax.dynamic_update_slice(1.0, 2.0, ())).weak_type


def test_pad_is_weak_only_if_both_are():
    assert not typeof(lax.pad(X, 0.0, [(1, 0, 0), (0, 0, 0)])).weak_type


def test_gradient_of_an_update_where_indices_are_mapped():
    f = jax.vmap(
        lambda x, i: lax.reduce_sum(lax.dynamic_update_slice(x, np.float32([7]), (i,)), (0,)),
        in_axes=(None, 0),
    )
    grads = jax.vmap(
        jax.grad(
            lambda x, i: lax.reduce_sum(lax.dynamic_update_slice(x, np.float32([7]), (i,)), (0,))
        ),
        in_axes=(None, 0),
    )(X[0], np.int32([0, 2]))
    assert np.asarray(f(X[0], np.int32([0, 2]))).tolist() == [10.0, 8.0]
    assert np.asarray(grads).tolist() == [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: lax.slice(X, (0,), (1,)), TypeError, "start_indices must have length equal"),
        (lambda: lax.slice(X, (0, 0), (1,)), TypeError, "limit_indices must have the same length"),
        (lambda: lax.slice(X, (0, 0), (3, 3)), TypeError, "less than or equal to operand shape"),
        (
            lambda: lax.slice(X, (-1, 0), (1, 3)),
            TypeError,
            "must have every element be nonnegative",
        ),
        (lambda: lax.slice(X, (1, 0), (0, 3)), TypeError, "greater than or equal to start_indices"),
        (lambda: lax.slice(X, (0, 0), (1, 3), (0, 1)), TypeError, "strides must be positive"),
        (lambda: lax.slice(X, (0, 0), (1, 3), (1,)), TypeError, "slice strides must have length"),
        (
            lambda: lax.index_in_dim(X, -4, 0),
            IndexError,
            "index -4 is out of bounds for axis 0 with size 2",
        ),
        (
            lambda: lax.pad(X, np.int32(0), [(0, 0, 0)] * 2),
            TypeError,
            "same dtype: got float32 and int32",
        ),
        (lambda: lax.pad(X, 0.0, [(0, 0, 0)]), ValueError, "length of padding_config"),
        (
            lambda: lax.pad(X, 0.0, [(1, 2), (0, 0)]),
            ValueError,
            r"(?s)padding_config has \(low, high, interior\).*entry: \(1, 2\)",
        ),
        (
            lambda: lax.pad(X, 0.0, [(0, 0, -1), (0, 0, 0)]),
            ValueError,
            "interior padding in padding_config",
        ),
        (lambda: lax.pad(X, 0.0, [(-3, 0, 0), (0, 0, 0)]), ValueError, "not at least 0"),
        (lambda: lax.pad(X, X, [(0, 0, 0)] * 2), ValueError, "padding_value must be a scalar"),
        (
            lambda: lax.dynamic_slice(X, (0,), (1, 2)),
            ValueError,
            "Length of slice indices must match",
        ),
        (
            lambda: lax.dynamic_slice(X, (0, 0), (3, 3)),
            TypeError,
            "less than or equal to operand shape",
        ),
        (lambda: lax.dynamic_slice(X, (0, 0), (1,)), TypeError, "slice_sizes must have length"),
        (
            lambda: lax.dynamic_slice(X, (0.0, 0), (1, 3)),
            TypeError,
            "must be integers of the same type, got: float32",
        ),
        (lambda: lax.dynamic_slice(X, (np.int32([0]), 0), (1, 3)), TypeError, "must be scalars"),
        (lambda: lax.dynamic_update_slice(X, X[0], (0, 0)), TypeError, "same rank as operand"),
        (
            lambda: lax.dynamic_update_slice(X, np.zeros((3, 3), np.float32), (0, 0)),
            TypeError,
            "smaller than operand shape",
        ),
        (
            lambda: lax.dynamic_update_slice(X, X.astype(np.int32), (0, 0)),
            TypeError,
            "same dtypes, got float32, int32",
        ),
        (
            lambda: lax.dynamic_update_index_in_dim(X, 7.0, 1, 1),
            ValueError,
            "one element along the axis",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_an_empty_slice_of_a_concatenation_compiles():
    """XLA's CPU backend aborts on it."""
    both = jax.jit(
        lambda a, b: (joined := lax.concatenate([a, b], 1), lax.slice(joined, (0, 2, 0), (5, 2, 3)))
    )
    joined, empty = both(np.ones((5, 2, 3), np.float32), np.ones((5, 0, 3), np.float32))
    assert joined.shape == (5, 2, 3)
    assert empty.shape == (5, 0, 3)


@pytest.mark.parametrize(
    "f",
    [
        lambda i: lax.dynamic_slice(X, (i, 0), (1, 1), allow_negative_indices=(False, True)),
        lambda i: lax.dynamic_update_slice(X, X[:1, :1], (i, 0), allow_negative_indices=False),
        lambda i: lax.dynamic_slice_in_dim(X, i, 1, allow_negative_indices=False),
    ],
)
def test_negative_numbers_are_refused_where_they_do_not_count_from_the_end(f):
    for start in (-1, np.int32(-1)):
        with pytest.raises(
            ValueError,
            match="Index -1 is out of bounds for dimension .* if allow_negative_indices=False",
        ):
            f(start)
    assert (np.asarray(jax.jit(f)(-1)) == np.asarray(f(0))).all()


@pytest.mark.parametrize("size", range(4))
@pytest.mark.parametrize("traced", [False, True])
def test_every_start(size, traced):
    """A negative start counts from the end; then it moves to the nearest at which the window is
    within the array. A known start is as a traced one."""
    x, new = np.arange(12.0, dtype=np.float32).reshape(4, 3).T, np.float32(-1)
    calls = {
        "slice": lambda x, i: lax.dynamic_slice(x, (i, 0), (size, 4)),
        "slice_in_dim": lambda x, i: lax.dynamic_slice_in_dim(x, i, size),
        "update": lambda x, i: lax.dynamic_update_slice(x, jnp.full((size, 4), new), (i, 0)),
        "update_in_dim": lambda x, i: lax.dynamic_update_slice_in_dim(
            x, jnp.full((size, 4), new), i, 0
        ),
        "index": lambda x, i: lax.dynamic_index_in_dim(x, i, keepdims=True),
        "update_index": lambda x, i: lax.dynamic_update_index_in_dim(x, jnp.full(4, new), i, 0),
    }
    for name, f in calls.items():
        n = 1 if "index" in name else size
        f = jax.jit(f) if traced else f
        for start in range(-5, 6):
            first = min(max(start + 3 if start < 0 else start, 0), 3 - n)
            found = f(x, np.int32(start) if traced else start)
            if "update" in name:
                expected = x.copy()
                expected[first : first + n] = new
            else:
                expected = x[first : first + n]
            np.testing.assert_array_equal(found, expected, err_msg=f"{name} at {start}")
