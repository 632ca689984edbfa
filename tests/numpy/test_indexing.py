"""x[key] against NumPy for keys of all forms, against what is documented outside of bounds, and
under transformations."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer.errors import NonConcreteBooleanIndexError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@st.composite
def keys(draw, shape):
    """A key for arrays of a shape, of basic and advanced entries, all in bounds."""
    entries = []
    axis = 0
    broadcast = draw(st.sampled_from([(), (1,), (2,), (2, 1), (0,)]))
    ellipsis_at = draw(st.none() | st.integers(0, len(shape)))
    while axis < len(shape):
        if ellipsis_at == axis:
            entries.append(Ellipsis)
            axis += draw(st.integers(0, len(shape) - axis))
            ellipsis_at = None
            continue
        kind = draw(
            st.sampled_from(["int", "slice", "slice", "array", "mask", "new", "bool", "stop"])
        )
        n = shape[axis]
        if kind == "int" and n:
            entries.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-n - 2, n + 2)
            entries.append(
                slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))
            )
        elif kind == "array" and n:
            size = int(np.prod(broadcast))
            values = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
            entries.append(
                np.array(values, draw(st.sampled_from([np.int8, np.int32, np.int64]))).reshape(
                    broadcast
                )
            )
        elif kind == "mask":
            entries.append(
                np.array([i < 2 for i in range(n)])
                if broadcast == (2,) and n >= 2
                else np.array([i < 1 for i in range(n)], bool)
            )
        elif kind == "new":
            entries.append(None)
            continue
        elif kind == "bool":
            entries.append(draw(st.booleans()))
            continue
        else:
            break
        axis += 1
    return tuple(entries)


@st.composite
def arrays_and_keys(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=3)))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    return x, draw(keys(shape))


def expected(x, key):
    try:
        return x[key]
    except IndexError:  # entries that do not broadcast together
        hypothesis.assume(False)


@hypothesis.given(arrays_and_keys())
def test_read_is_numpy(case):
    x, key = case
    want = expected(x, key)
    got = jnp.asarray(x)[key]
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@hypothesis.example((np.arange(1), (slice(-2, None, -1),)), False)
@hypothesis.given(arrays_and_keys(), st.booleans())
def test_jitted_read_is_numpy(case, traced):
    x, key = case
    want = expected(x, key)
    if traced:
        arrays = [
            i
            for i, k in enumerate(key)
            if (isinstance(k, np.ndarray) and k.dtype != bool) or type(k) is int
        ]

        def f(x, *places):
            full = list(key)
            for i, p in zip(arrays, places, strict=True):
                full[i] = p
            return x[tuple(full)]

        got = jax.jit(f)(x, *[key[i] for i in arrays])
    else:
        got = jax.jit(lambda x: x[key])(x)
    np.testing.assert_array_equal(got, want)
    assert got.shape == want.shape


@hypothesis.given(
    arrays_and_keys(), st.sampled_from(["set", "add", "multiply"]), st.booleans(), st.booleans()
)
def test_update_is_numpy(case, operation, scalar, jitted):
    x, key = case
    part = expected(x, key)
    value = 7 if scalar else np.arange(100, 100 + part.size, dtype=np.int32).reshape(part.shape)
    hypothesis.assume(scalar or operation != "set" or len(np.unique(part)) == part.size)
    want = x.copy()
    if operation == "set":
        want[key] = value
    else:
        getattr(np, operation).at(want, key, value)
    got = (jax.jit if jitted else lambda f: f)(lambda x: getattr(x.at[key], operation)(value))(
        jnp.asarray(x)
    )
    np.testing.assert_array_equal(got, want)
    assert got.dtype == x.dtype


@hypothesis.given(arrays_and_keys())
def test_gradient_of_a_read_is_a_sum_of_its_places(case):
    x, key = case
    part = expected(x, key)
    weights = np.arange(1, 1 + part.size, dtype=np.float32).reshape(part.shape)
    want = np.zeros(x.shape, np.float32)
    np.add.at(want, key, weights)
    got = jax.grad(lambda x: jnp.sum(x[key] * weights))(jnp.asarray(x, jnp.float32))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "key",
    [
        0,
        (slice(None), 1),
        slice(1, 3),
        slice(None, None, -2),
        np.array([2, 0, 2]),
        (np.array([0, 1]), np.array([1, 3])),
        (None, 1),
        Ellipsis,
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [2.0, "array"])
def test_gradients_of_updates(key, value):
    value = (
        jnp.asarray(np.random.default_rng(0).normal(size=X[key].shape), jnp.float32)
        if value == "array"
        else value
    )
    unique = not (isinstance(key, np.ndarray))
    want_x = np.ones_like(X)
    want_x[key] = 0
    x = jnp.asarray(X)
    got = jax.grad(lambda x: jnp.sum(x.at[key].set(value)))(x)
    np.testing.assert_array_equal(got, want_x)
    if unique:
        by_value = jax.grad(lambda v: jnp.sum(x.at[key].multiply(v, unique_indices=True)))(
            jnp.full(X[key].shape, 3.0)
        )
        np.testing.assert_allclose(by_value, X[key])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, 1:3],
        lambda x, i: x[jnp.stack([i, i])],
        lambda x, i: x.at[i].set(0.0),
        lambda x, i: x.at[i, ::2].add(x[i, ::2]),
        lambda x, i: x.at[jnp.stack([i, i])].add(1.0),
        lambda x, i: x.at[1].set(i),
        lambda x, i: x.at[..., i].multiply(2.0),
    ],
)
@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None), (1, 0), (2, None)])
def test_vmap_is_a_stack(f, in_axes):
    xs = np.random.default_rng(1).normal(size=(3, 3, 3)).astype(np.float32)
    places = np.array([0, 2, -1], np.int32)
    x_axis, i_axis = in_axes
    x = xs if x_axis is not None else xs[0]
    i = places if i_axis is not None else places[0]
    got = jax.vmap(f, in_axes)(jnp.asarray(x), i)
    want = np.stack(
        [
            f(
                jnp.asarray(np.take(x, k, x_axis) if x_axis is not None else x),
                jnp.asarray(i[k] if i_axis == 0 else i),
            )
            for k in range(3)
        ]
    )
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("key", "want"),
    [(5, X[2]), (-7, X[0]), (np.array([10, -10]), X[[2, 0]]), ((slice(None), 9), X[:, 3])],
    ids=str,
)
def test_reads_outside_are_moved_inside(key, want):
    np.testing.assert_array_equal(jnp.asarray(X)[key], want)
    np.testing.assert_array_equal(jax.jit(lambda x: x[key])(X), want)


def test_traced_places_outside_are_moved_inside():
    np.testing.assert_array_equal(jax.jit(lambda x, i: x[i])(X, 7), X[2])
    np.testing.assert_array_equal(jax.jit(lambda x, i: x[i])(X, -7), X[0])


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ((0, 0, 0), IndexError, r"Too many indices: array is 2-dimensional, but 3 were indexed"),
        ("a", TypeError, "JAX does not support string indexing; got idx='a'"),
        (
            1.0,
            TypeError,
            "Indexer must have integer or boolean type, got indexer with type float64",
        ),
        (np.array([1.0]), TypeError, "Indexer must have integer or boolean type"),
        (
            [0, 1],
            TypeError,
            (
                r"Using a non-tuple sequence for multidimensional indexing is not allowed; use "
                r"`arr\[array\(seq\)\]`"
            ),
        ),
        ((..., ...), IndexError, "an index can only have a single ellipsis"),
        (
            np.array([True, False]),
            IndexError,
            r"boolean index did not match shape of indexed array in index 0: got \(2,\), expected",
        ),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        ({}, IndexError, "only integers, slices"),
        (
            (np.array([0, 1]), np.array([0, 1, 2])),
            ValueError,
            r"Incompatible shapes for broadcasting: shapes=\[\(2,\), \(3,\)\]",
        ),
        (2**40, OverflowError, "too large to convert to int32"),
    ],
    ids=str,
)
def test_errors(key, error, text):
    with pytest.raises(error, match=text):
        jnp.asarray(X)[key]


def test_empty_axis_has_no_places():
    with pytest.raises(IndexError, match="index is out of bounds for axis 0 with size 0"):
        jnp.zeros((0, 3))[0]
    with pytest.raises(IndexError, match="index is out of bounds for axis 0 with size 0"):
        jnp.zeros((0, 3))[jnp.array([0])]
    assert jnp.zeros((0, 3))[jnp.zeros(0, int)].shape == (0, 3)


def test_traced_masks_and_slices_are_refused():
    with pytest.raises(
        NonConcreteBooleanIndexError, match="Array boolean indices must be concrete"
    ):
        jax.jit(lambda x, m: x[m])(X, X > 3)
    with pytest.raises(IndexError, match="Slice entries must be static integers"):
        jax.jit(lambda x, i: x[i:])(X, 1)


def test_a_mask_known_under_grad_is_concrete():
    got = jax.grad(lambda x: jnp.sum(x[x > 3]))(jnp.asarray(X))
    np.testing.assert_array_equal(got, (X > 3).astype(np.float32))


def test_small_index_dtypes_reach_far():
    x = jnp.arange(300)
    assert x[jnp.array([-1], jnp.int8)].tolist() == [299]
    assert x[jnp.array([200], jnp.uint8)].tolist() == [200]


def test_places_share_a_program():
    x = jnp.asarray(X)
    from teucer.numpy import _updates

    size = _updates._read._cache_size()
    for i in range(2):
        x[i, 1], x[i : i + 1]
    assert _updates._read._cache_size() - size <= 2


def test_weak_types_are_kept():
    x = jnp.asarray(1.0)
    assert x[()].weak_type and x[None].weak_type and x.at[()].set(2).weak_type


def test_iteration_unpacks_rows():
    a, b, c = jnp.asarray(X)
    np.testing.assert_array_equal(np.stack([a, b, c]), X)
    assert [v.shape for v in jax.jit(lambda x: tuple(x))(X)] == [(4,)] * 3
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(jnp.float32(3))


def test_rows_are_taken_as_they_are_asked_for():
    x = jnp.arange(2000)
    rows = iter(x)
    assert next(rows) == 0
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        next(rows)


def test_assignment_is_refused():
    with pytest.raises(TypeError, match=r"x.at\[idx\].set"):
        jnp.asarray(X)[0] = 1


@pytest.mark.parametrize(
    "key, message",
    [
        (5, "index 5 out of bounds for axis 0 with size 3"),
        (-4, "index -4 out of bounds for axis 0 with size 3"),
        ((1, 4), "index 4 out of bounds for axis 1 with size 4"),
        ((None, True, ..., -5), "index -5 out of bounds for axis 1 with size 4"),
        ((np.array([1, 7]), 9), "index 9 out of bounds for axis 1 with size 4"),
    ],
)
def test_ints_outside(key, message):
    """They are moved inside; the option makes them errors, with JAX 0.10.2's message."""
    x = jnp.asarray(X)
    assert jax.jit(lambda x: x[key])(x).tolist() == x[key].tolist()
    with config.check_static_indices(True):
        for f in (lambda: x[key], lambda: jax.jit(lambda x: x[key])(x)):
            with pytest.raises(IndexError, match=message):
                f()
        assert (
            x[1:9].shape == (2, 4)
            and x[jnp.array(5)].shape == (4,)
            and x.at[7].set(1).shape == (3, 4)
        )
