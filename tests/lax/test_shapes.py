"""Shapes: what makes arrays, weak types, and errors."""

import numpy as np
import pytest
from optable.table import numpy_dtype

import teucer as jax
from teucer import lax
from teucer._core.trace import typeof

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "bfloat16", "float32", "complex64"])
def test_iota(dtype):
    kind = numpy_dtype(dtype)
    assert (np.asarray(lax.iota(kind, 4)) == np.arange(4).astype(kind)).all()
    assert np.asarray(lax.broadcasted_iota(kind, (2, 3), 1)).tolist() == [[0, 1, 2]] * 2
    assert lax.iota(kind, 0).shape == (0,)


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (3, "int32", True),
        (3.0, "float32", True),
        (True, "bool", False),
        (1j, "complex64", True),
        (np.float32(3), "float32", False),
    ],
)
def test_full_has_the_type_of_its_value(value, dtype, weak):
    for shape in ((), (2,)):
        aval = typeof(lax.full(shape, value))
        assert (aval.shape, aval.dtype, aval.weak_type) == (shape, np.dtype(dtype), weak)
    assert not typeof(lax.full((2,), value, dtype)).weak_type


def test_full_converts_as_xla_does():
    assert np.asarray(lax.full((2,), 3.7, int)).tolist() == [3, 3]
    assert np.asarray(lax.full_like(X, np.nan, np.int32)).tolist() == [[0] * 3] * 2


def test_full_wraps_integers_around():
    assert np.asarray(lax.full((2,), -1, np.uint8)).tolist() == [255, 255]
    assert int(lax.full((), 3000000000, np.uint32)) == 3000000000
    with pytest.raises(OverflowError):
        lax.full((2,), 2**40)


def test_new_arrays_of_one_axis_take_its_size():
    assert (
        lax.full(2, 1.0).shape
        == lax.empty(2, np.float32).shape
        == lax.broadcasted_iota(np.int32, 2, 0).shape
        == (2,)
    )


def test_broadcast_in_dim_permutes():
    x = lax.broadcast_in_dim(X, (3, 4, 2), (2, 0))
    assert (np.asarray(x) == np.broadcast_to(X.T[:, None], (3, 4, 2))).all()
    ct = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert (
        jax.grad(lambda x: (lax.broadcast_in_dim(x, (3, 2), (1, 0)) * ct).sum())(X) == ct.T
    ).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.broadcast(x, (2,)),
        lambda x: lax.reshape(x, (1,)),
        lambda x: lax.expand_dims(x, (0,)),
        lambda x: lax.stack([x, x]),
    ],
)
def test_weak_types_stay(f):
    assert typeof(f(2.0)).weak_type
    assert not typeof(f(np.float32(2))).weak_type


def test_broadcast_shapes():
    assert lax.broadcast_shapes((2, 1), (3,), (1, 1, 3)) == (1, 2, 3)
    assert lax.broadcast_shapes((0,), (1,)) == (0,)


def test_nothing_to_do_returns_the_operand():
    x = lax.full((2, 3), 1.0)
    for f in (
        lambda x: lax.reshape(x, (2, 3)),
        lambda x: lax.transpose(x, (0, 1)),
        lambda x: lax.squeeze(x, ()),
        lambda x: lax.concatenate([x], 0),
        lambda x: lax.broadcast(x, ()),
    ):
        assert f(x) is x


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: lax.broadcast(X, (-4,)), TypeError, "nonnegative"),
        (
            lambda: lax.broadcast_in_dim(X, (2, 3), (1, 0)),
            TypeError,
            "operand dimension sizes must either be 1",
        ),
        (
            lambda: lax.broadcast_in_dim(X, (3, 2, 3), (2, 1)),
            TypeError,
            "operand dimension sizes|strictly increasing",
        ),
        (
            lambda: lax.broadcast_in_dim(X, (4, 2, 3), (1,)),
            TypeError,
            "must have length equal to operand ndim",
        ),
        (lambda: lax.broadcast_in_dim(X, (2,), (0, 1)), TypeError, "equal or higher rank"),
        (
            lambda: lax.broadcast_shapes((2,), (3,)),
            ValueError,
            "Incompatible shapes for broadcasting",
        ),
        (
            lambda: lax.broadcasted_iota("float32", (2, 3), 2),
            ValueError,
            "iota dimension must be between 0",
        ),
        (lambda: lax.iota(bool, 3), TypeError, "iota does not accept dtype bool"),
        (lambda: lax.iota(int, -1), TypeError, "iota shape must have every element be nonnegative"),
        (lambda: lax.iota(int, 2.5), TypeError, "Shapes must be 1D sequences"),
        (lambda: lax.full((2,), X), TypeError, "full must be called with scalar fill_value"),
        (lambda: lax.reshape(X, (-1,)), TypeError, "new_sizes must all be positive"),
        (lambda: lax.reshape(X, (4, 2)), TypeError, "total size must be unchanged"),
        (
            lambda: lax.reshape(X, (3, 2), (1, 1)),
            TypeError,
            "must be a permutation of operand dimensions",
        ),
        (lambda: lax.transpose(X, (1, 1)), TypeError, "isn't a permutation"),
        (lambda: lax.rev(X, (-1,)), TypeError, "nonnegative"),
        (lambda: lax.rev(X, (0, 0)), TypeError, "must be unique"),
        (lambda: lax.rev(X, (2,)), TypeError, "less than operand ndim"),
        (lambda: lax.squeeze(X, (0,)), ValueError, "size not equal to one"),
        (lambda: lax.squeeze(X[None], (0, 0)), ValueError, "not unique"),
        (lambda: lax.expand_dims(X, (0, 0)), ValueError, "repeated axis"),
        (lambda: lax.collapse(X, 2, 1), ValueError, "Invalid dimension range"),
        (lambda: lax.concatenate([], 0), ValueError, "non-empty"),
        (lambda: lax.concatenate([X, X], 2), TypeError, "concatenate dimension out of bounds"),
        (lambda: lax.concatenate([X, X[0]], 0), TypeError, "different numbers of dimensions"),
        (
            lambda: lax.concatenate([X, X[:1]], 1),
            TypeError,
            "differ in dimensions other than the one being",
        ),
        (
            lambda: lax.concatenate([X, X.astype(np.int32)], 0),
            TypeError,
            "same dtypes, got float32, int32",
        ),
        (lambda: lax.stack([]), ValueError, "non-empty"),
        (lambda: lax.stack([X, X[0]]), ValueError, "different numbers of dimensions"),
        (lambda: lax.stack([X, X[:1]]), ValueError, "different shapes"),
        (lambda: lax.tile(X, (2,)), TypeError, "reps length must be equal"),
        (lambda: lax.tile(X, (2, -1)), ValueError, "not be negative"),
        (lambda: lax.split(X, (1, 2)), ValueError, "Sum of sizes 3 must be equal to dimension 0"),
        (lambda: lax.split(X, (-1, 4), 1), ValueError, "must be nonnegative"),
        (lambda: lax.unstack(1.0), ValueError, "out of bounds"),
        (lambda: lax.broadcast_like(X, X[0]), ValueError, "does not fit"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_one_axis_may_be_an_int():
    x = np.arange(4)
    assert lax.reshape(x, 4, 0).tolist() == x.tolist()
    assert lax.dynamic_slice(x, (1,), 2).tolist() == [1, 2]
