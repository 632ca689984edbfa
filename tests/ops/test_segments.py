"""Segment reductions.

Values by loops, promises, buckets, numbers out of range, empty segments, derivatives, errors.
"""

import numpy as np
import pytest

import teucer as jax
from teucer import numpy as jnp
from teucer import ops

DATA = np.asarray([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
IDS = np.asarray([0, 0, 2, -1, 7])
KINDS = {
    "sum": (np.sum, 0),
    "prod": (np.prod, 1),
    "max": (np.max, -np.inf),
    "min": (np.min, np.inf),
}
ALL = pytest.mark.parametrize("kind", KINDS)


def function(kind):
    return getattr(ops, f"segment_{kind}")


def expected(kind, data, ids, n):
    reduce, empty = KINDS[kind]
    if data.dtype.kind == "i" and np.isinf(empty):
        empty = np.iinfo(data.dtype).max if empty > 0 else np.iinfo(data.dtype).min
    rest = np.shape(data)[1:]
    data = np.broadcast_to(data, (*ids.shape, *rest))
    chosen = [data[ids == i] for i in range(n)]
    return np.stack([reduce(x, axis=0) if len(x) else np.full(rest, empty) for x in chosen]).astype(
        data.dtype
    )


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
@pytest.mark.parametrize("bucket_size", [None, 2, 7])
def test_value(kind, dtype, bucket_size):
    f, data = function(kind), DATA.astype(dtype)
    np.testing.assert_array_equal(
        f(data, IDS, 4, bucket_size=bucket_size), expected(kind, data, IDS, 4)
    )
    np.testing.assert_array_equal(
        jax.jit(lambda d, i: f(d, i, 4))(data, IDS), expected(kind, data, IDS, 4)
    )
    assert f(data, IDS, 4, bucket_size=bucket_size).dtype == dtype


@ALL
def test_shapes_and_promises(kind):
    f, r = function(kind), np.random.default_rng(0)
    data, ids = r.normal(size=(4, 3, 2)).astype(np.float32), r.integers(0, 5, (3, 4))
    np.testing.assert_allclose(f(data, ids, 5), expected(kind, data, ids, 5), rtol=1e-6)
    np.testing.assert_allclose(
        f(data, ids, 5, bucket_size=2), expected(kind, data, ids, 5), rtol=1e-6
    )
    np.testing.assert_allclose(f(data, ids[0], 5), expected(kind, data, ids[0], 5), rtol=1e-6)
    np.testing.assert_allclose(f(data[:1], ids, 5), expected(kind, data[:1], ids, 5), rtol=1e-6)
    np.testing.assert_allclose(
        f(data[0, 0, 0], 3, 5), expected(kind, data[0, 0, 0], np.asarray(3), 5), rtol=1e-6
    )
    np.testing.assert_array_equal(
        f(DATA, np.arange(5), 5, indices_are_sorted=True, unique_indices=True), DATA
    )
    assert f(DATA, IDS).shape == (8,)
    assert f(DATA, IDS, 0).shape == (0,)
    batch = np.stack([DATA, -DATA])
    np.testing.assert_array_equal(
        jax.vmap(lambda d: f(d, IDS, 3))(batch), [f(DATA, IDS, 3), f(-DATA, IDS, 3)]
    )


def test_clip():
    np.testing.assert_array_equal(ops.segment_sum(DATA, IDS, 4, mode="clip"), [7, 0, 3, 5])
    np.testing.assert_array_equal(ops.segment_max(DATA, IDS, 4, mode="clip"), [4, -np.inf, 3, 5])


def test_booleans():
    np.testing.assert_array_equal(ops.segment_max(DATA > 2, IDS, 4), [False, False, True, False])
    np.testing.assert_array_equal(ops.segment_min(DATA > 2, IDS, 4), [False, True, True, True])


def test_derivatives():
    ids = np.asarray([0, 0, 1, 1, 1])
    weights = np.asarray([2.0, 3.0], np.float32)
    np.testing.assert_array_equal(
        jax.grad(lambda d: (weights * ops.segment_sum(d, ids, 2)).sum())(DATA), [2, 2, 3, 3, 3]
    )
    tied = np.asarray([1.0, 1.0, 2.0, 3.0, 3.0], np.float32)
    np.testing.assert_array_equal(
        jax.grad(lambda d: ops.segment_max(d, ids, 2).sum())(tied), [0.5, 0.5, 0, 0.5, 0.5]
    )


@ALL
def test_numbers_outside_are_dropped_by_the_scatter_itself(kind):
    ids = np.sort(IDS)
    f = lambda data, ids: function(kind)(data, ids, 3, indices_are_sorted=True)
    np.testing.assert_array_equal(f(DATA, ids), expected(kind, DATA, ids, 3))
    assert "select_n" not in str(
        jax.make_jaxpr(f)(DATA, ids)
    )  # another pass over all of the numbers


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: ops.segment_sum(DATA, IDS, -1), ValueError, "num_segments must be non-negative"),
        (
            lambda: ops.segment_sum(DATA, DATA, 3),
            TypeError,
            r"(?s)segment_sum: segment_ids must be integers.*f32\[5\]",
        ),
        (
            lambda: ops.segment_max(DATA, IDS[:3], 3),
            ValueError,
            (
                r"(?s)segment_max: data must have an element for each.*data: "
                r"f32\[5\].*segment_ids: \w+\[3\]"
            ),
        ),
        (
            lambda: ops.segment_sum(DATA, 0, 3),
            ValueError,
            r"(?s)segment_sum: data must have.*data: f32\[5\].*segment_ids",
        ),
        (
            lambda: ops.segment_max(DATA, IDS, 3, bucket_size="s"),
            TypeError,
            "segment_max: bucket_size must be a positive integer or None, got 's'",
        ),
        (
            lambda: ops.segment_max(DATA, IDS, 3, bucket_size=0),
            ValueError,
            "segment_max: bucket_size must be positive, got 0",
        ),
        (
            lambda: ops.segment_sum([1.0], [0], 3),
            TypeError,
            "segment_sum requires ndarray or scalar arguments, got <class 'list'>",
        ),
        (
            lambda: jax.jit(lambda i: ops.segment_sum(DATA, i))(IDS),
            jax.errors.ConcretizationTypeError,
            "concrete",
        ),
        (lambda: ops.segment_sum(jnp.zeros(0), jnp.zeros(0, int)), ValueError, "zero-size array"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
