"""x.at[key]: modes, dtypes, warnings and errors of updates and reads."""

import warnings

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def x():
    return jnp.asarray(X)


@pytest.mark.parametrize("place", [10, -4, np.array([10, -4])], ids=str)
@pytest.mark.parametrize("mode", [None, "drop", "fill"])
def test_writes_outside_are_dropped(x, place, mode):
    np.testing.assert_array_equal(x.at[place].set(7.0, mode=mode), X)
    np.testing.assert_array_equal(jax.jit(lambda i: x.at[i].add(7.0, mode=mode))(place), X)


@pytest.mark.parametrize(("place", "row"), [(10, 2), (-9, 0)])
def test_clip_moves_writes_inside(x, place, row):
    want = X.copy()
    want[row] = 7
    np.testing.assert_array_equal(x.at[place].set(7.0, mode="clip"), want)
    np.testing.assert_array_equal(jax.jit(lambda i: x.at[i].set(7.0, mode="clip"))(place), want)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("float32", np.nan), ("int32", -(2**31)), ("uint8", 255), ("bool", True)]
)
def test_reads_outside_are_filled(dtype, fill):
    y = jnp.zeros((3, 2), dtype)
    np.testing.assert_array_equal(y.at[5].get(mode="fill"), np.full(2, fill, dtype))
    np.testing.assert_array_equal(
        y.at[np.array([5, 0])].get(mode="fill")[0], np.full(2, fill, dtype)
    )
    assert y.at[5, 0].get(mode="fill", fill_value=1).tolist() == 1


def test_negative_places_without_wrapping(x):
    assert np.isnan(x.at[-1].get(mode="fill", wrap_negative_indices=False)).all()
    np.testing.assert_array_equal(x.at[-1].get(wrap_negative_indices=False), X[0])
    np.testing.assert_array_equal(x.at[-1].set(0.0, wrap_negative_indices=False), X)


def test_repeated_places_accumulate(x):
    i = np.array([0, 0, 1])
    assert x.at[i, 0].add(1.0)[:2, 0].tolist() == [2.0, 5.0]
    assert x.at[i, 1].multiply(3.0)[:2, 1].tolist() == [9.0, 15.0]
    assert x.at[i, 1].divide(2.0)[:2, 1].tolist() == [0.25, 2.5]
    assert x.at[i, 1].power(2.0)[:2, 1].tolist() == [1.0, 25.0]
    assert x.at[i, 1].subtract(1.0)[:2, 1].tolist() == [-1.0, 4.0]
    assert x.at[i, 0].apply(lambda v: v + 1)[:2, 0].tolist() == [2.0, 5.0]
    assert x.at[i, 0].max(np.float32([3, 2, 9]))[:2, 0].tolist() == [3.0, 9.0]
    assert x.at[i, 0].min(np.float32([-3, 2, 9]))[:2, 0].tolist() == [-3.0, 4.0]


@pytest.mark.parametrize(
    "key", [0, slice(None, None, -2), (slice(0, 2), slice(None, None, 3))], ids=str
)
def test_apply_changes_slices(x, key):
    want = X.copy()
    want[key] = np.sqrt(X[key])
    np.testing.assert_allclose(x.at[key].apply(jnp.sqrt), want, rtol=1e-6)


def test_the_dtype_stays_and_lossy_values_are_reported():
    y = jnp.arange(3)
    with pytest.warns(
        FutureWarning,
        match=(
            "scatter inputs have incompatible types: cannot safely cast value from dtype=float32 "
            "to dtype=int32"
        ),
    ):
        assert y.at[0].set(1.5).tolist() == [1, 1, 2]
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        assert y.at[1].multiply(2.5).tolist() == [0, 2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.zeros(2, "int8").at[0].set(300).tolist() == [44, 0]
        assert jnp.zeros(2).at[0].set(3).dtype == np.float32
        assert y.at[0].divide(2).dtype == np.float32


def test_lists_are_values(x):
    assert x.at[0].set([1.0, 2.0, 3.0, 4.0])[0].tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda x: x.at[0].set(jnp.arange(3.0)),
            ValueError,
            r"Incompatible types for broadcasting: input type=float32\[3\] and",
        ),
        (
            lambda x: x.at[0].set(jnp.zeros((1, 4))),
            ValueError,
            r"Cannot broadcast to shape with fewer dimensions: arr_shape=\(1, 4\)",
        ),
        (lambda x: x.at[0].set("a"), TypeError, "is not a valid JAX array type"),
        (lambda x: x.at[0].set(None), ValueError, "None is not a valid value"),
        (lambda x: x.at["a"].set(1), TypeError, "JAX does not support string indexing"),
        (
            lambda x: x.at[[0]].set(1),
            TypeError,
            "Using a non-tuple sequence for multidimensional indexing",
        ),
        (lambda x: x.at[0, 0, 0].set(1), IndexError, "Too many indices"),
        (lambda x: x.at[0].set(1, mode="foo"), ValueError, 'Unknown gather mode "foo"'),
        (lambda x: x.at[0].set(1, foo=1), TypeError, "unexpected keyword argument 'foo'"),
        (lambda x: x.at[0].foo, AttributeError, "has no attribute 'foo'"),
        (lambda x: (x > 1).at[0].add(True), TypeError, "add does not accept dtype bool"),
    ],
)
def test_errors(x, change, error, text):
    with pytest.raises(error, match=text):
        change(x)


def test_updates_of_typed_keys_keep_them():
    key = jax.random.key(0)
    keys = jax.random.split(key, 3)
    changed = keys.at[1].set(keys[0])
    assert (jax.random.key_data(changed)[1] == jax.random.key_data(keys)[0]).all()


def test_static_places_become_slices(x):
    text = str(jax.make_jaxpr(lambda x: (x[0], x[1:3, ::2], x.at[1].add(1.0)))(x))
    assert "gather" not in text and "scatter" not in text and "dynamic_update_slice" in text


def test_static_indices_are_checked_by_at_get():
    x = jnp.zeros(2)
    with config.check_static_indices(True):
        for index in (4, -4):
            with pytest.raises(
                IndexError, match=f"index {index} out of bounds for axis 0 with size 2"
            ):
                x.at[index].get()
        assert x.at[4].get(mode="clip") == 0 and jnp.isnan(x.at[4].get(mode="fill"))
        assert x.at[4].set(1.0).tolist() == [0.0, 0.0]


def test_numbers_beyond_int32_fit_into_unsigned_integers():
    assert jnp.zeros(1, "uint32").at[0].set(2**32 - 1).tolist() == [2**32 - 1]
    with pytest.raises(OverflowError):
        jnp.zeros(1, "int32").at[0].set(2**32 - 1)


def test_wide_values_of_numpy_are_canonical_under_strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        assert jnp.zeros(2, "float32").at[np.array([0, 0])].add(np.array([1.0, 2.0])).tolist() == [
            3.0,
            0.0,
        ]


@pytest.mark.parametrize(
    "shape, mask", [((3, 4), (0, 4)), ((3, 4), (3, 0)), ((3, 4, 5), (3, 0)), ((0,), (0,))]
)
def test_masks_with_an_empty_axis_are_numpys(shape, mask):
    x, m = np.arange(np.prod(shape)).reshape(shape), np.empty(mask, bool)
    np.testing.assert_array_equal(jnp.asarray(x)[m], x[m])
