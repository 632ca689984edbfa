"""Laws of reductions.

Values against NumPy over axes, keepdims, where, initial; jit, vmap; dtypes; derivatives; errors.
"""

import warnings

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X = np.array(
    [[[3.0, -1.5, 2.0], [0.5, 4.0, -2.5]], [[1.0, 0.25, -3.0], [2.5, -0.5, 1.5]]], "float32"
)
N = np.where(X > 2.2, np.float32(np.nan), X)
FOLDS = ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "ptp", "median"]
NAN_FOLDS = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian"]
AXES = [None, 0, -1, (0, 2), (1,)]


def _close(got, want, tol=3e-6):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=tol)


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", FOLDS + NAN_FOLDS)
def test_value_is_numpys(name, axis):
    x = N if name in NAN_FOLDS else X
    for keepdims in (False, True):
        _close(
            getattr(jnp, name)(x, axis=axis, keepdims=keepdims),
            getattr(np, name)(x, axis=axis, keepdims=keepdims),
        )
    _close(jax.jit(lambda v: getattr(jnp, name)(v, axis=axis))(x), getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize(
    "name",
    FOLDS
    + NAN_FOLDS
    + ["argmax", "argmin", "cumsum", "cumprod", "count_nonzero", "nanargmax", "average"],
)
def test_vmap_is_a_loop(name):
    x = N if name in NAN_FOLDS else X
    f = getattr(jnp, name)
    for dim in range(3):
        want = np.stack([np.asarray(f(v)) for v in np.moveaxis(x, dim, 0)])
        _close(jax.vmap(f, in_axes=dim)(x), want)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "var", "std", "all", "any", "nansum", "nanmean", "nanvar"]
)
def test_where(name):
    x, mask = (N if name.startswith("nan") else X), np.arange(12).reshape(X.shape) % 5 != 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of lines that are all nan
        want = getattr(np, name)(x, axis=1, where=mask)
    _close(getattr(jnp, name)(x, axis=1, where=mask), want)


def test_initial():
    _close(jnp.sum(X, axis=0, initial=2.0), np.sum(X, axis=0, initial=2.0))
    _close(
        jnp.max(X, axis=0, initial=2.0, where=X < 1), np.max(X, axis=0, initial=2.0, where=X < 1)
    )
    _close(jnp.min(np.zeros((0, 3), "float32"), initial=5.0), 5.0)


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_places(name):
    for axis in (None, 0, 1, -1):
        _close(getattr(jnp, name)(X, axis=axis), getattr(np, name)(X, axis=axis))
    assert getattr(jnp, name)(X, axis=1, keepdims=True).shape == (2, 1, 3)
    assert int(jnp.nanargmax(jnp.array([np.nan, np.nan]))) == -1


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_running(name):
    x = N if name.startswith("nan") else X
    for axis in (None, 0, 2):
        _close(getattr(jnp, name)(x, axis=axis), getattr(np, name)(x, axis=axis))
    _close(
        jnp.cumulative_sum(X, axis=1, include_initial=True),
        np.cumulative_sum(X, axis=1, include_initial=True),
    )
    _close(jnp.cumulative_prod(X[0, 0]), np.cumprod(X[0, 0]))


@pytest.mark.parametrize(
    "method", ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"]
)
def test_quantiles(method):
    for q in (0.3, np.array([0.0, 0.25, 0.9])):
        for axis in (None, 0, (0, 1)):
            want = np.quantile(X.astype("float64"), q, axis=axis, method=method)
            _close(jnp.quantile(X, q, axis=axis, method=method), want)
            _close(
                jnp.nanquantile(N, q, axis=axis, method=method),
                np.nanquantile(N.astype("float64"), q, axis=axis, method=method),
            )
    assert np.isnan(jnp.quantile(N, 0.5)) and jnp.percentile(X, 50, keepdims=True).shape == (
        1,
        1,
        1,
    )
    _close(jnp.percentile(X, 30), np.percentile(X, 30))
    _close(
        jnp.quantile(np.arange(4.0), 0.3, weights=np.array([1.0, 2, 1, 1]), method="inverted_cdf"),
        1.0,
    )


def test_nearest_is_the_lower_one_half_way():
    for n, q in [
        (6, 0.3),
        (6, 0.1),
        (3, 0.75),
        (4, 0.5),
        (11, 0.75),
    ]:  # JAX's rule; NumPy takes the even place
        assert float(jnp.quantile(jnp.arange(float(n)), q, method="nearest")) == np.floor(
            q * (n - 1)
        )


def test_average():
    w = np.array([1.0, 2.0, 0.5], "float32")
    _close(jnp.average(X, axis=2, weights=w), np.average(X, axis=2, weights=w))
    mean, total = jnp.average(X, axis=0, weights=np.abs(X), returned=True)
    _close(mean, np.average(X, axis=0, weights=np.abs(X)))
    _close(total, np.abs(X).sum(0))


def test_dtypes():
    b, i8, h = jnp.array([True, False]), jnp.array([100, 100], "int8"), jnp.array([1, 2], "float16")
    rows = [
        (jnp.sum(b), "int32", 1),
        (jnp.sum(i8), "int32", 200),
        (jnp.sum(i8, promote_integers=False), "int8", -56),
        (jnp.sum(h), "float16", 3),
        (jnp.mean(i8), "float32", 100),
        (jnp.mean(h), "float16", 1.5),
        (jnp.max(b), "bool", True),
        (jnp.prod(i8), "int32", 10000),
        (jnp.var(1j * h), "float32", 0.25),
        (jnp.cumsum(i8), "int8", [100, -56]),
        (jnp.argmax(h), "int32", 1),
        (jnp.sum(1.0), "float32", 1),
        (jnp.mean(jnp.arange(3), dtype=int), "int32", 1),
    ]
    for out, dtype, value in rows:
        assert out.dtype == dtype and not out.weak_type and out.tolist() == value


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: jnp.sum([1, 2]), TypeError, "sum requires ndarray or scalar arguments"),
        (lambda: jnp.sum(X, axis=3), ValueError, "axis 3 is out of"),
        (lambda: jnp.sum(X, axis=(0, 0)), ValueError, "duplicate value in 'axis'"),
        (lambda: jnp.sum(X, out=1), NotImplementedError, "'out' argument"),
        (
            lambda: jnp.max(np.zeros((0, 3))),
            ValueError,
            "zero-size array to reduction operation max",
        ),
        (lambda: jnp.max(X, where=X > 1), ValueError, "has to specify 'initial'"),
        (lambda: jnp.argmax(np.zeros(0)), ValueError, "empty sequence"),
        (lambda: jnp.var(X, correction=1, ddof=1), ValueError, "ddof and correction"),
        (lambda: jnp.quantile(X, 0.5, method="x"), ValueError, "method"),
        (lambda: jnp.quantile(1j, 0.5), ValueError, "does not support complex"),
        (lambda: jnp.average(X, weights=X[0]), ValueError, "Axis must be"),
        (lambda: jnp.cumulative_sum(X), ValueError, "rank 3"),
        (lambda: jnp.sum(X, initial=X), ValueError, "initial value must be a scalar"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "prod",
        "mean",
        "var",
        "std",
        "max",
        "nanmean",
        "nanvar",
        "median",
        "cumsum",
        "cumprod",
    ],
)
def test_gradient_is_the_difference_quotient(name):
    weights = np.linspace(1, 2, 6)
    f = lambda v, m: (
        getattr(m, name)(v)
        * (weights[: np.size(getattr(m, name)(v))] if name.startswith("cum") else 1.0)
    ).sum()
    x = X[0].ravel()
    got = jax.grad(lambda v: f(v, jnp))(x)
    want = []
    for i in range(x.size):
        d = np.zeros(x.size)
        d[i] = 1e-4
        want.append((f(x + d, np) - f(x - d, np)) / 2e-4)
    _close(got, want, 2e-3)


def test_nan_takes_no_part_in_gradients():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jax.grad(lambda v: jnp.nanvar(v))(jnp.array([1.0, np.nan, 3.0])).tolist() == [
            -1.0,
            0.0,
            1.0,
        ]
        assert jax.grad(lambda v: jnp.nansum(v))(jnp.array([1.0, np.nan])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "name", ["nanmax", "nanmin", "nanargmax", "nanargmin", "nanmedian", "nanmean", "nanstd"]
)
def test_nan_is_left_out_of_short_floats(name, dtype):
    x = np.array([3, np.nan, -1, 7], np.float32)
    assert float(getattr(jnp, name)(jnp.asarray(x, dtype))) == pytest.approx(
        float(getattr(np, name)(x)), rel=1e-2
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_quantiles_of_many_short_floats(dtype):
    x = jnp.arange(3001) / 64
    got = jnp.quantile(x.astype(dtype), jnp.array([0.25, 0.5]))
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float32), [11.71875, 23.4375], rtol=4e-3)


def test_sums_as_booleans():
    x = np.float32([[0, 0], [-1, 1]])
    for name in ("sum", "prod", "cumsum", "cumprod"):
        np.testing.assert_array_equal(
            getattr(jnp, name)(x, axis=1, dtype=bool), getattr(np, name)(x, axis=1, dtype=bool)
        )
    assert jnp.sum(x, dtype=bool).dtype == bool


def test_dtypes_that_are_asked_for():
    assert (
        jnp.cumulative_prod(np.int8([2, 3])).dtype == np.int8
        and jnp.cumulative_sum(np.int8([2, 3])).dtype == np.int32
    )
    assert (
        jnp.var(np.float32([1, 2]), dtype=complex).dtype == np.complex64
        and jnp.nanstd(1.0, dtype=complex).dtype == np.complex64
    )
    assert isinstance(jnp.average(np.ones(3), returned=True)[1], jax.Array)
