"""gather and the scatters: dtypes of indices, ties, fill values, and errors.

Their laws are those of tests/optable.
"""

import numpy as np
import pytest
from optable.table import numpy_dtype

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)
I = np.array([[0], [1], [2]], np.int32)
G, S = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers
ROWS, INTO = G((1,), (0,), (0,)), S((1,), (0,), (0,))


def test_gradient_of_filled_places_is_zero():
    gradient = jax.grad(
        lambda x: lax.reduce_sum(lax.gather(x, I, ROWS, (1, 3), mode="fill", fill_value=0), (0, 1))
    )(X)
    assert np.asarray(gradient).tolist() == [[1.0] * 3, [1.0] * 3]


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("int8", -128),
        ("uint8", 255),
        ("bool", True),
        ("float32", np.nan),
        ("bfloat16", np.nan),
        ("complex64", np.nan),
    ],
)
def test_fill_values(dtype, fill):
    x = X.astype(numpy_dtype(dtype))
    got = np.asarray(lax.gather(x, I + 5, ROWS, (1, 3), mode="fill"))
    np.testing.assert_array_equal(got.astype(np.complex64).real, np.full((3, 3), fill))
    assert (
        np.asarray(lax.gather(X, I + 5, ROWS, (1, 3), mode="fill", fill_value=7)).tolist()
        == [[7.0] * 3] * 3
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_index_dtypes(dtype):
    x, top = np.arange(300, dtype=np.float32), np.iinfo(dtype).max
    at = np.array([[1], [top]], dtype)
    numbers, into = G((), (0,), (0,)), S((), (0,), (0,))
    last = float(min(top, 299))
    assert np.asarray(lax.gather(x, at, numbers, (1,), mode="clip")).tolist() == [1.0, last]
    assert np.isnan(lax.gather(x, at, numbers, (1,), mode="fill")).tolist() == [False, top > 299]
    added = np.asarray(lax.scatter_add(x, at, np.ones(2, np.float32), into, mode="clip")) - x
    assert np.flatnonzero(added).tolist() == [1, int(last)]


def test_ties_share_the_gradient():
    x, u = np.float32([1, 5]), np.float32([1, 1, 7])
    f = jax.grad(
        lambda x, u: lax.reduce_sum(
            lax.scatter_max(x, np.int32([[0], [0], [1]]), u, S((), (0,), (0,))), (0,)
        ),
        (0, 1),
    )
    got = [np.asarray(g).tolist() for g in f(x, u)]
    np.testing.assert_allclose(got[0], [1 / 3, 0], rtol=1e-6)
    np.testing.assert_allclose(got[1], [1 / 3, 1 / 3, 1], rtol=1e-6)


def test_empty():
    none = np.zeros((0, 1), np.int32)
    assert lax.gather(X, none, ROWS, (1, 3)).shape == (0, 3)
    np.testing.assert_array_equal(lax.scatter(X, none, np.zeros((0, 3), np.float32), INTO), X)


def test_scatter_apply():
    got = lax.scatter_apply(
        X,
        np.int32([[0], [0], [1]]),
        lambda z: lax.add(lax.mul(z, z), lax.full_like(z, 1)),
        INTO,
        update_shape=(3, 3),
    )
    once = X**2 + 1
    np.testing.assert_array_equal(got, [once[0] ** 2 + 1, once[1]])


def test_modes():
    modes = lax.GatherScatterMode
    assert (
        modes.from_any("fill")
        is modes.from_any("drop")
        is modes.from_any(None)
        is modes.FILL_OR_DROP
    )
    assert modes.from_any("clip") is modes.CLIP
    assert modes.from_any(modes.PROMISE_IN_BOUNDS) is modes.PROMISE_IN_BOUNDS
    with pytest.raises(ValueError, match='Unknown gather mode "foo"'):
        modes.from_any("foo")


def gather(numbers, sizes, at=I, **kwargs):
    return lambda: lax.gather(X, at, numbers, sizes, **kwargs)


def scatter(numbers, updates=np.ones((3, 3), np.float32), at=I):
    return lambda: lax.scatter_add(X, at, updates, numbers)


ONES = np.ones((3, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (gather(ROWS, (1, 3), I * 1.0), ValueError, "indices must have an integer type"),
        (gather(ROWS, (1, 3), np.int32(1)), TypeError, "rank\\(indices\\) is 0"),
        (gather(ROWS, (1, 3), mode="one_hot"), ValueError, "ONE_HOT"),
        (
            gather(G((0, 1), (0,), (0,)), (1, 3)),
            TypeError,
            "either be a offset dimension or explicitly",
        ),
        (
            gather(G((2,), (0,), (0,)), (1, 3)),
            TypeError,
            "Offset dimension 0 in gather op is out of bounds",
        ),
        (gather(G((1, 1), (), (0,)), (1, 3)), TypeError, "must not repeat"),
        (gather(G((1, 0), (), (0,)), (1, 3)), TypeError, "must be sorted"),
        (gather(G((1,), (5,), (0,)), (1, 3)), TypeError, "Invalid collapsed_slice_dims"),
        (gather(G((1,), (0,), (3,)), (1, 3)), TypeError, "Invalid start_index_map"),
        (gather(G((1,), (0,), (0, 1)), (1, 3)), TypeError, "2 elements in start_index_map"),
        (gather(ROWS, (1,)), TypeError, "one slice size for every input dimension"),
        (gather(ROWS, (2, 3)), TypeError, "can only collapse slice dims with bound 1"),
        (gather(ROWS, (1, 4)), TypeError, "Slice size at index 1 in gather op is out of range"),
        (
            gather(G((), (1,), (1,), (0,), (0,)), (1, 1)),
            TypeError,
            "to have the same shape, got \\(2,\\) and \\(3,\\)",
        ),
        (
            gather(G((), (1,), (1,), (0,), ()), (1, 1)),
            TypeError,
            "equal numbers of operand_batching_dims",
        ),
        (
            gather(G((), (1,), (1,), (0,), (1,)), (1, 1)),
            TypeError,
            "cannot have the index vector dimension",
        ),
        (gather(G((), (1,), (0,), (0,), (0,)), (1, 1), I[:2]), TypeError, "must be disjoint"),
        (gather(G((), (1,), (1,), (0,), (0,)), (2, 1), I[:2]), TypeError, "with bound 0/1"),
        (scatter(INTO, ONES.astype(np.int32)), TypeError, "same dtypes, got float32, int32"),
        (scatter(INTO, np.ones((3, 4), np.float32)), TypeError, "Bounds of the window dimensions"),
        (scatter(INTO, np.ones((2, 3), np.float32)), TypeError, "Bounds of the scatter dimensions"),
        (scatter(INTO, np.ones(3, np.float32)), TypeError, "Updates tensor must be of rank 2"),
        (scatter(INTO, ONES, I * 1.0), ValueError, "indices must have an integer type"),
        (scatter(S((2,), (0,), (0,))), TypeError, "Invalid update_window_dims"),
        (scatter(S((1,), (4,), (0,))), TypeError, "Invalid inserted_window_dims"),
        (scatter(S((1,), (0,), (4,))), TypeError, "Invalid scatter_dims_to_operand_dims"),
        (scatter(S((1,), (0,), (0, 1))), TypeError, "2 elements in scatter_dims_to_operand_dims"),
        (scatter(S((1,), (), (0,))), TypeError, "window of size 1; doesn't match"),
        (
            lambda: jax.grad(lambda x: lax.reduce_sum(lax.scatter_mul(X, I, x, INTO), (0, 1)))(
                ONES
            ),
            NotImplementedError,
            "only implemented if `unique_indices=True`",
        ),
        (
            lambda: jax.grad(
                lambda x: lax.reduce_sum(
                    lax.scatter_apply(x, I, lax.neg, INTO, update_shape=(3, 3)), (0, 1)
                )
            )(X),
            NotImplementedError,
            "scatter_apply",
        ),
        (
            lambda: jax.jit(
                lambda x, c: lax.scatter_apply(
                    x, I, lambda z: lax.mul(z, c), INTO, update_shape=(3, 3)
                )
            )(X, X[0, 0]),
            NotImplementedError,
            "can't close over Tracers",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


ONE_OF_EACH_ROW = {
    "along the last axis": lambda x, i: jnp.take_along_axis(x, i[..., None], -1),
    "along the first axis": lambda x, i: jnp.take_along_axis(
        x.T, i[None], 0, mode="promise_in_bounds"
    ),
    "out of bounds as nan": lambda x, i: jnp.take_along_axis(x, i[:, None] + 3, 1, mode="fill"),
    "out of bounds clipped": lambda x, i: jnp.take_along_axis(x, i[:, None] + 3, 1, mode="clip"),
    "rows of rows": lambda x, i: jax.vmap(lambda r, j: r[j])(x.reshape(4, 3, 2), i % 3),
    "columns of rows": lambda x, i: jax.vmap(lambda r, j: r[:, j], (1, 0))(
        x.reshape(3, 4, 2), i % 2
    ),
    "one of a matrix": lambda x, i: jax.vmap(lambda r, j: r[j, 2 - j])(x.reshape(4, 2, 3), i % 2),
    "batches of batches": lambda x, i: jax.vmap(jax.vmap(lambda r, j: r[j]))(
        x.reshape(2, 2, 6), i.reshape(2, 2)
    ),
    "of bytes": lambda x, i: jnp.take_along_axis(x, i.astype(np.uint8)[:, None], 1),
}


@pytest.mark.parametrize("take", ONE_OF_EACH_ROW.values(), ids=ONE_OF_EACH_ROW)
def test_one_of_each_row_is_transposed_to_a_choice(take):
    # No scatter, which XLA does not fuse with what reads it.
    x, i = np.arange(24.0, dtype=np.float32).reshape(4, 6), np.array([0, 5, 2, 2], np.int32)
    i = i % 6

    def loss(x):
        return jnp.sum(jnp.nan_to_num(take(x, i)) ** 2)

    assert "scatter" not in str(jax.make_jaxpr(jax.grad(loss))(x))
    np.testing.assert_array_equal(
        jax.jacrev(take)(x, i), np.nan_to_num(jax.jacfwd(take)(x, i), nan=0.0)
    )
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(loss))(np.stack([x, -x])), [jax.grad(loss)(x), jax.grad(loss)(-x)]
    )
    np.testing.assert_array_equal(jax.jacrev(jax.grad(loss))(x), jax.jacfwd(jax.grad(loss))(x))


@pytest.mark.parametrize(
    "take",
    [
        lambda x, i: jnp.take_along_axis(x, jnp.stack([i, i], 1), 1),  # several of a row
        lambda x, i: x[i],
        lambda x, i: jax.vmap(lambda r, j: jax.lax.dynamic_slice_in_dim(r, j, 2))(x, i),
        # Bytes cannot number an axis so long.
        lambda x, i: lax.gather(
            jnp.pad(x, ((0, 0), (0, 300))),
            i.astype(np.uint8)[:, None],
            G((), (1,), (1,), (0,), (0,)),
            (1, 1),
        ),
    ],
)
def test_other_gathers_are_transposed_to_sums_by_place(take):
    x, i = np.arange(24.0, dtype=np.float32).reshape(4, 6), np.array([0, 5, 2, 2], np.int32)
    i = i % 4
    assert "scatter" in str(jax.make_jaxpr(jax.grad(lambda x: jnp.sum(take(x, i) ** 2)))(x))
    np.testing.assert_array_equal(jax.jacrev(take)(x, i), jax.jacfwd(take)(x, i))
