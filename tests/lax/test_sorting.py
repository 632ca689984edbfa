"""Sorting: NaN and zeros, stability, and errors."""

import numpy as np
import pytest
from optable.table import numpy_dtype

import teucer as jax
from teucer import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_nan_is_last_and_zeros_are_equal(dtype):
    with jax.enable_x64(True):
        x = np.array([3, NAN, -0.0, 0.0, -NAN, 1, -INF, INF, -2.5]).astype(numpy_dtype(dtype))
        got = np.asarray(lax.sort(x)).astype(np.float64)
        np.testing.assert_array_equal(got, [-INF, -2.5, 0, 0, 1, 3, INF, NAN, NAN])
        places = lax.sort((x, np.arange(9)))[1]
        assert np.asarray(places).tolist() == [6, 8, 2, 3, 5, 0, 7, 1, 4]


def test_stable():
    keys = np.int32([1, 0, 1, 0, 1])
    assert np.asarray(lax.sort_key_val(keys, np.arange(5))[1]).tolist() == [1, 3, 0, 2, 4]


def test_complex_numbers_by_real_part_then_imaginary():
    x = np.complex64([1 + 2j, 1 - 2j, 5j, complex(NAN, 0)])
    np.testing.assert_array_equal(lax.sort(x), np.complex64([5j, 1 - 2j, 1 + 2j, complex(NAN, 0)]))


def test_top_k_takes_nan_first_and_the_first_of_equal_ones():
    values, places = lax.top_k(np.float32([1, NAN, 3, NAN, 2]), 3)
    np.testing.assert_array_equal(values, np.float32([NAN, NAN, 3]))
    assert np.asarray(places).tolist() == [1, 3, 2]
    assert np.asarray(lax.top_k(np.int32([1, 3, 3, 2]), 3)[1]).tolist() == [1, 2, 3]
    assert places.dtype == np.int32


def test_all_candidates():
    values, places = lax.approx_max_k(X, 2, aggregate_to_topk=False)
    assert np.asarray(values).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert np.asarray(places).tolist() == [[2, 1, 0]] * 2


def test_empty():
    assert lax.sort(np.zeros((3, 0), np.float32)).shape == (3, 0)
    assert [y.shape for y in lax.top_k(np.zeros((0, 3), np.float32), 2)] == [(0, 2), (0, 2)]
    assert [y.shape for y in lax.top_k(np.zeros((2, 3), np.float32), 0)] == [(2, 0), (2, 0)]


def test_gradient_of_a_sort_of_several():
    def f(k, v):
        return lax.reduce_sum(lax.mul(lax.sort_key_val(k, v)[1], np.float32([1, 2, 3])), (0,))

    got = jax.grad(f, (0, 1))(np.float32([3, 1, 2]), np.float32([7, 8, 9]))
    assert [np.asarray(g).tolist() for g in got] == [[0.0] * 3, [3.0, 1.0, 2.0]]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: lax.sort(X, 2), ValueError, "axis 2 is out of bounds"),
        (lambda: lax.sort(()), TypeError, "at least one operand"),
        (lambda: lax.sort((X, X), num_keys=3), ValueError, "num_keys=3 must be between 1 and len"),
        (lambda: lax.sort((X, X[0])), TypeError, "must have equal shapes"),
        (lambda: lax.top_k(X, 4), ValueError, "no larger than size along axis; got k=4"),
        (lambda: lax.top_k(X, -1), ValueError, "must be nonnegative, got -1"),
        (lambda: lax.top_k(1.0, 1), ValueError, "out of bounds"),
        (lambda: lax.top_k(X.astype(np.complex64), 1), ValueError, "not compatible with complex"),
        (lambda: lax.approx_max_k(X, 0), ValueError, "k must be positive, got 0"),
        (
            lambda: lax.approx_max_k(X, 5),
            ValueError,
            "k must be smaller than the size of reduction_dim 3, got 5",
        ),
        (lambda: lax.approx_max_k(X.astype(np.int32), 1), ValueError, "must be a floating type"),
        (lambda: lax.approx_min_k(X, 1, recall_target=2.0), ValueError, "recall_target"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_derivative_of_sorting_nothing(shape):
    x = np.zeros(shape, np.float32)
    for axis in range(len(shape)):
        assert jax.grad(lambda x, axis=axis: lax.sort(x, axis).sum())(x).shape == shape


def test_top_k_of_more_than_its_places_count():
    """Places are int32: an axis whose places they do not hold is refused."""
    of = lambda n: jax.eval_shape(lambda x: lax.top_k(x, 3), jax.ShapeDtypeStruct((n,), np.float16))
    assert of(2**31)[1].dtype == np.int32
    with pytest.raises(ValueError, match=r"(?s)top_k returns int32 indices.*2147483649"):
        of(2**31 + 1)
