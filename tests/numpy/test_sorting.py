"""Order, sets and counts.

Values against NumPy, with and without a fixed size; errors for traced arrays without one.
"""

import re

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import teucer as jax
import teucer.numpy as jnp
from teucer.errors import ConcretizationTypeError

X = np.random.default_rng(0).integers(-3, 4, (4, 5)).astype(np.float32)
NAN = np.array([2.0, np.nan, -np.inf, 0.0, np.nan, -0.0, np.inf], np.float32)
U = np.array([3, 1, 2, 1, 3, -4], np.int32)
W = np.array([7, 3, -4, 5], np.int32)

integers = hnp.arrays(np.int32, st.integers(1, 12), elements=st.integers(-4, 4))
floats = hnp.arrays(
    np.float32,
    st.integers(1, 12),
    elements=st.sampled_from([0.0, 1.0, -1.5, 2.0, np.inf, -np.inf, np.nan]),
)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort(axis, descending):
    values = np.sort(X, axis)
    np.testing.assert_array_equal(
        jnp.sort(X, axis, descending=descending),
        np.flip(values, axis or 0) if descending else values,
    )
    places = jnp.argsort(X, axis, descending=descending)
    want = np.argsort(-X if descending else X, axis, kind="stable")
    np.testing.assert_array_equal(places, want)
    assert places.dtype == np.int32 and jnp.argsort(X, dtype="int8").dtype == np.int8


def test_nans_come_last_and_descending_first():
    np.testing.assert_array_equal(jnp.sort(NAN), np.sort(NAN))
    np.testing.assert_array_equal(jnp.sort(NAN, descending=True), np.sort(NAN)[::-1])


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.lexsort((X[0], X[1])),
        lambda m: m.lexsort((X, -X), 0),
        lambda m: m.sort_complex(np.array([1 + 2j, 1 - 2j, 0], np.complex64)),
    ],
)
def test_orders_of_several_keys(f):
    np.testing.assert_array_equal(f(jnp), f(np))


@pytest.mark.parametrize("kth", [0, 2, -1])
def test_partition(kth):
    out = np.asarray(jnp.partition(X, kth, axis=1))
    np.testing.assert_array_equal(out[:, kth], np.sort(X, 1)[:, kth])
    np.testing.assert_array_equal(
        np.take_along_axis(X, np.asarray(jnp.argpartition(X, kth, axis=1)), 1)[:, kth], out[:, kth]
    )


@hypothesis.given(
    floats,
    floats,
    st.sampled_from(["left", "right"]),
    st.sampled_from(["scan", "scan_unrolled", "sort", "compare_all"]),
)
def test_searchsorted_is_numpys(a, v, side, method):
    a = np.sort(a)
    np.testing.assert_array_equal(
        jnp.searchsorted(a, v, side, method=method), np.searchsorted(a, v, side)
    )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("method", ["scan", "compare_all"])
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float16", "bfloat16", "float32", "float64"])
def test_searchsorted_among_zeros_nans_and_subnormals(dtype, method, side):
    with jax.enable_x64(dtype == "float64"):
        dtype = jnp.dtype(dtype)
        tiny = float(jnp.finfo(dtype).smallest_subnormal)
        v = np.array([np.nan, -0.0, tiny, -tiny, 0.0, 2, -2, np.inf, -np.inf, -np.nan], dtype)
        exact = v.astype(np.float64)
        for a in (exact, exact[1:-1]):  # with NaN, and without
            a = np.sort(a)
            np.testing.assert_array_equal(
                jnp.searchsorted(a.astype(dtype), v, side, method=method),
                np.searchsorted(a, exact, side),
            )


def test_the_loop_of_a_histogram_carries_no_cases():
    # Each would be a loop that is compiled, before the search.
    def counts(x):
        return jax.vmap(lambda column: jnp.histogram(column, 20, range=(-3, 3))[0], 1)(x)

    text = jax.jit(counts).lower(np.zeros((5000, 20), np.float32)).compile().as_text()
    carried = " ".join(re.findall(r"= \((.*)\) while\(", text))
    assert "s32[20,5000]" in carried
    assert "pred[20,5000]" not in carried and "f32[20,5000]" not in carried


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0.0, 1.0, 2.5], [2.5, 1.0, 0.0], [1.0]])
def test_digitize(bins, right):
    np.testing.assert_array_equal(
        jnp.digitize(X, np.array(bins), right), np.digitize(X, bins, right)
    )


@hypothesis.given(integers | floats, st.booleans())
def test_unique_is_numpys(x, equal_nan):
    want = np.unique(x, True, True, True, equal_nan=equal_nan)
    got = jnp.unique(x, True, True, True, equal_nan=equal_nan)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_array_equal(g, w)


@hypothesis.given(integers, st.integers(1, 14))
def test_unique_of_a_size(x, size):
    values, first, inverse, counts = jax.jit(
        lambda x: jnp.unique(x, True, True, True, size=size, fill_value=99)
    )(x)
    want = np.unique(x, True, True, True)
    k = min(size, len(want[0]))
    np.testing.assert_array_equal(values, [*want[0][:k], *[99] * (size - k)])
    np.testing.assert_array_equal(first[:k], want[1][:k])
    np.testing.assert_array_equal(inverse, want[2])
    np.testing.assert_array_equal(counts, [*want[3][:k], *[0] * (size - k)])


@pytest.mark.parametrize("axis", [0, 1])
def test_unique_parts(axis):
    x = np.array([[1, 2, 1], [0, 3, 0], [1, 2, 1]])
    for w, g in zip(
        np.unique(x, True, True, True, axis=axis),
        jnp.unique(x, True, True, True, axis=axis),
        strict=True,
    ):
        np.testing.assert_array_equal(g, np.ravel(w) if np.ndim(w) == 1 or w.size == 3 else w)


def test_nans_in_either_part_of_complex_numbers_are_one_element():
    nan = np.nan
    z = np.array([1 + 1j, nan, 1j, complex(0, nan), 1 + 1j, complex(2, nan)], "complex64")
    want = np.array([1j, 1 + 1j, nan], "complex64")
    values, counts = jnp.unique(z, return_counts=True)
    np.testing.assert_array_equal(values, want)
    assert counts.tolist() == np.unique(z, return_counts=True)[1].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(jnp.union1d(z, z), want)
    assert jnp.unique(z, equal_nan=False).shape == np.unique(z, equal_nan=False).shape


def test_unique_records():
    x = np.array([[3, 1], [3, 7]])
    assert jnp.unique_all(x).inverse_indices.tolist() == [[1, 0], [1, 2]]
    assert jnp.unique_counts(x).counts.tolist() == [1, 2, 1]
    assert jnp.unique_inverse(x).values.tolist() == jnp.unique_values(x).tolist() == [1, 3, 7]
    assert jnp.unique_values(NAN).shape == (6,)


@hypothesis.given(integers, integers)
def test_sets_are_numpys(a, b):
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        want = getattr(np, name)(a, b)
        np.testing.assert_array_equal(getattr(jnp, name)(a, b), want, err_msg=name)
        fixed = jax.jit(lambda a, b, name=name: getattr(jnp, name)(a, b, size=20, fill_value=77))(
            a, b
        )
        np.testing.assert_array_equal(fixed, [*want, *[77] * (20 - len(want))], err_msg=name)


@pytest.mark.parametrize("method", ["auto", "compare_all", "binary_search", "sort"])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(method, invert):
    np.testing.assert_array_equal(
        jnp.isin(X, W, invert=invert, method=method), np.isin(X, W, invert=invert)
    )
    tests = np.arange(50)
    np.testing.assert_array_equal(
        jnp.isin(U, tests, invert=invert, method=method), np.isin(U, tests, invert=invert)
    )


def test_intersection_says_where():
    for w, g in zip(
        np.intersect1d(U, W, return_indices=True),
        jnp.intersect1d(U, W, return_indices=True),
        strict=True,
    ):
        np.testing.assert_array_equal(g, w)
    values, i, j = jax.jit(lambda a, b: jnp.intersect1d(a, b, return_indices=True, size=3))(U, W)
    assert values.tolist() == [-4, 3, -4] and i.tolist() == [5, 0, 6] and j.tolist() == [2, 1, 4]


def test_bincount():
    x = np.array([0, 3, 3, 1])
    np.testing.assert_array_equal(jnp.bincount(x, minlength=6), np.bincount(x, minlength=6))
    np.testing.assert_array_equal(jnp.bincount(x, weights=x * 0.5), np.bincount(x, weights=x * 0.5))
    assert jax.jit(lambda x: jnp.bincount(x, length=3))(x).tolist() == [1, 1, 0]
    with pytest.raises(TypeError, match="weights of dtype bool cannot be added"):
        jnp.bincount(x, weights=x > 0)


def test_integer_weights_become_floats():
    x, w = np.arange(4.0, dtype=np.float32), np.arange(4)
    made = (
        jnp.histogram(x, 2, weights=w),
        jnp.histogram2d(x, x, 1, weights=w),
        jnp.histogramdd(x[:, None], 2, weights=w),
    )
    for counts, *_ in made:
        assert counts.dtype == np.float32 and counts.sum() == 6


def test_interpolation_is_along_real_numbers():
    x = np.arange(3.0)
    assert jnp.interp(x, x, x + 1j).tolist() == (x + 1j).tolist()
    for args in ((x + 1j, x, x), (x, x + 0j, x)):
        with pytest.raises(ValueError, match="complex x values not supported"):
            jnp.interp(*args)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bins": 3},
        {"bins": np.array([-2.0, 0.0, 3.0])},
        {"bins": 4, "range": (-1, 2)},
        {"bins": 3, "density": True},
        {"bins": 3, "weights": X * X},
    ],
    ids=str,
)
def test_histogram(options):
    x = (
        np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
    )  # none lies on an edge, which is rounded
    for w, g in zip(np.histogram(x, **options), jnp.histogram(x, **options), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"bins": 3},
        {"bins": (2, 3), "range": ((-3, 3), (-2, 3))},
        {"bins": 2, "density": True},
        {"bins": 2, "weights": X[2]},
    ],
    ids=str,
)
def test_histogram2d(options):
    for w, g in zip(
        np.histogram2d(X[0], X[1], **options), jnp.histogram2d(X[0], X[1], **options), strict=True
    ):
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6)
    counts, edges = jnp.histogramdd(X[:, :3], bins=2)
    want, want_edges = np.histogramdd(X[:, :3], bins=2)
    np.testing.assert_array_equal(counts, want)
    for w, g in zip(want_edges, edges, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        jnp.unique,
        jnp.bincount,
        jnp.nonzero,
        jnp.argwhere,
        jnp.flatnonzero,
        jnp.unique_all,
        lambda x: jnp.union1d(x, x),
        lambda x: jnp.setdiff1d(x, x),
        lambda x: jnp.setxor1d(x, x),
        lambda x: jnp.intersect1d(x, x),
        jnp.trim_zeros,
    ],
)
def test_sizes_that_depend_on_traced_values_are_refused(f):
    with pytest.raises(ConcretizationTypeError, match="concrete value is expected"):
        jax.jit(f)(U)


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda: jnp.sort(X, 2), ValueError, "axis 2 is out of bounds for array of dimension 2"),
        (
            lambda: jnp.sort(X, kind="quicksort"),
            TypeError,
            "'kind' argument to sort is not supported",
        ),
        (lambda: jnp.lexsort(()), TypeError, "need sequence of keys with len > 0 in lexsort"),
        (lambda: jnp.lexsort((X, X[0])), ValueError, "all keys need to be the same shape"),
        (lambda: jnp.partition(U, 9), ValueError, "axis 9 is out of bounds"),
        (lambda: jnp.searchsorted(X, 1.0), ValueError, "a should be 1-dimensional"),
        (
            lambda: jnp.searchsorted(U, 1, side="foo"),
            ValueError,
            "invalid argument side='foo', expected 'left' or 'right'",
        ),
        (lambda: jnp.searchsorted(U, 1, method="foo"), ValueError, "invalid argument method='foo'"),
        (lambda: jnp.digitize(U, X), ValueError, "bins must be a 1-dimensional array"),
        (lambda: jnp.unique(jnp.zeros(0), size=2), ValueError, "fill_value must be specified"),
        (lambda: jnp.isin(U, U, method="foo"), ValueError, "method='foo' is not implemented"),
        (
            lambda: jnp.bincount(X),
            TypeError,
            "x argument to bincount must have an integer type; got float32",
        ),
        (
            lambda: jnp.histogram(X, bins="auto"),
            NotImplementedError,
            "string values for `bins` not implemented",
        ),
        (lambda: jnp.histogramdd(X, bins=(2, 2)), ValueError, "should be a bin for each dimension"),
    ],
)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f()


def test_gradients_of_a_sort_go_where_elements_went():
    weights = np.arange(5, dtype=np.float32)
    x = np.float32([3, 1, 2, 5, 4])
    got = jax.grad(lambda x: jnp.sum(jnp.sort(x, descending=True) * weights))(x)
    assert got.tolist() == [2.0, 4.0, 3.0, 0.0, 1.0]


def test_vmap():
    np.testing.assert_array_equal(
        jax.vmap(jnp.searchsorted)(np.sort(X, 1), X), [np.searchsorted(np.sort(r), r) for r in X]
    )
    first = np.unique(X[0])
    np.testing.assert_array_equal(
        jax.vmap(lambda r: jnp.unique(r, size=5))(X)[0][: len(first)], first
    )
    counts = jax.vmap(lambda r: jnp.bincount(r, length=3))(np.array([[0, 1, 1], [2, 2, 2]]))
    assert counts.tolist() == [[1, 2, 0], [0, 0, 3]]


def test_derivatives_of_sets():
    x, y = np.float32([3, 1, 2]), np.float32([2, 5])
    assert jax.grad(lambda v: (jnp.intersect1d(v, y) * 3).sum())(x).tolist() == [0, 0, 3]
    assert jax.grad(lambda v: (jnp.setxor1d(v, y) * np.float32([1, 2, 4])).sum())(x).tolist() == [
        2,
        1,
        0,
    ]


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_sets_with_nans_are_numpys(dtype):
    """As many NaNs as NumPy gives, for arrays that have several."""
    rng = np.random.default_rng(0)

    def some(n):
        values = rng.integers(-2, 3, n).astype(np.float32)
        if dtype != "int32":
            values[rng.random(n) < 0.3] = np.nan
        return values.astype(dtype)

    for n in (1, 12):
        x, y = some(n), some(n // 2)
        for equal_nan in (True, False):
            found = jnp.unique(x, equal_nan=equal_nan, return_counts=True)
            expected = np.unique(x, equal_nan=equal_nan, return_counts=True)
            assert [len(v) for v in found] == [len(v) for v in expected]
            np.testing.assert_array_equal(found[1], expected[1])
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
            want = getattr(np, name)(x, y)
            np.testing.assert_array_equal(getattr(jnp, name)(x, y), want)
            padded = getattr(jnp, name)(x, y, size=20)
            np.testing.assert_array_equal(padded[: want.size], want)
            if not want.size:
                assert not np.asarray(padded).any()
