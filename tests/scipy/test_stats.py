"""Distributions against SciPy's, inside and outside of their support."""

import numpy as np
import pytest
from sampling import some
from scipy import stats as reference

import teucer as jax
import teucer.numpy as jnp
from teucer.scipy import stats

XS = np.array([-np.inf, -3.0, -0.5, 0.0, 0.2, 0.7, 1.0, 1.8, 4.0, 9.0, np.inf, np.nan])
KS = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 7.0, 1.5, 20.0, 1e5])
QS = np.array([-0.1, 0.0, 0.1, 0.5, 0.9, 1.0, 1.1, np.nan])
# Shape parameters of the continuous distributions, and of the discrete ones: usual ones first, then
# those at which a density or its support changes its form.
CONTINUOUS = {
    "norm": [()],
    "uniform": [()],
    "expon": [()],
    "laplace": [()],
    "logistic": [()],
    "cauchy": [()],
    "gumbel_l": [()],
    "gumbel_r": [()],
    "gamma": [(2.5,), (0.3,), (1.0,), (60.0,)],
    "chi2": [(3.0,), (1.0,), (2.0,), (50.0,)],
    "t": [(2.5,), (0.5,), (1.0,), (300.0,)],
    "pareto": [(1.5,), (0.5,), (20.0,)],
    "beta": [(2.0, 3.5), (0.5, 0.5), (1.0, 1.0), (1.0, 3.0), (3.0, 1.0), (30.0, 2.0)],
    "gennorm": [(1.3,), (0.5,), (1.0,), (2.0,), (8.0,)],
    "truncnorm": [(-0.7, 1.5), (-np.inf, 0.0), (1.0, 4.0), (0.0, np.inf)],
    "vonmises": [(2.0,), (0.0,), (0.01,), (100.0,)],
    "wrapcauchy": [(0.4,), (0.01,), (0.99,)],
}
DISCRETE = {
    "bernoulli": [(0.3,), (0.99,)],
    "binom": [(5.0, 0.3), (0.0, 0.3), (7.0, 0.0), (7.0, 1.0), (20.0, 0.5)],
    "poisson": [(2.5,), (0.0,), (0.01,), (200.0,)],
    "geom": [(0.3,), (0.01,), (1.0,)],
    "nbinom": [(3.0, 0.4), (0.5, 0.9), (2.0, 1.0), (7.0, 0.05)],
    "betabinom": [(5.0, 2.0, 1.5), (0.0, 2.0, 1.5), (12.0, 0.3, 0.4), (3.0, 1.0, 1.0)],
}


def stacked(sets):
    """Each shape parameter of all sets, along an axis of its own before those of loc and x."""
    return [np.reshape(values, (-1, 1, 1)) for values in zip(*sets, strict=True)]


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def functions(names, skip=("logpmf", "pmf")):
    for name, shapes in names.items():
        for f in getattr(stats, name).__all__:
            if f not in skip:
                yield pytest.param(name, f, stacked(shapes), id=f"{name}.{f}")


def sample(f):
    return QS if f in ("ppf", "isf") else XS


@pytest.mark.parametrize(
    "name, f",
    [
        ("bernoulli", "pmf"),
        ("bernoulli", "logpmf"),
        ("bernoulli", "cdf"),
        ("geom", "pmf"),
        ("geom", "logpmf"),
    ],
)
def test_probabilities_that_are_none(name, f):
    for p in (-0.1, 0.0, 0.4, 1.0, 1.5):
        for k in (0, 1, 2):
            with np.errstate(all="ignore"):
                expected = getattr(getattr(reference, name), f)(k, p)
            if not (name == "geom" and p == 0):  # SciPy asks for more than 0
                np.testing.assert_allclose(
                    getattr(getattr(stats, name), f)(k, p), expected, rtol=1e-12
                )


@pytest.mark.parametrize(("name", "f", "shapes"), some(functions(CONTINUOUS), 3))
def test_continuous(name, f, shapes):
    loc, scale = np.array([[0.0], [0.3]]), np.array([[1.0], [2.0]])
    found = getattr(getattr(stats, name), f)(sample(f), *shapes, loc=loc, scale=scale)
    with np.errstate(all="ignore"):
        expected = getattr(getattr(reference, name), f)(sample(f), *shapes, loc=loc, scale=scale)
    if name in ("gamma", "chi2", "gumbel_l", "gumbel_r") and f.endswith("pdf"):  # inf - inf
        nothing = 0.0 if f == "pdf" else -np.inf
        expected = np.where(np.isnan(expected) & ~np.isnan(sample(f)), nothing, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("name", "shapes"), DISCRETE.items(), ids=DISCRETE)
@pytest.mark.parametrize("f", ["logpmf", "pmf"])
def test_discrete(name, f, shapes):
    loc, shapes = np.array([[0], [2]]), stacked(shapes)
    found = getattr(getattr(stats, name), f)(KS + loc, *shapes, loc=loc)
    np.testing.assert_allclose(
        found,
        getattr(getattr(reference, name), f)(KS + loc, *shapes, loc=loc),
        rtol=1e-11,
        atol=1e-14,
    )


@pytest.mark.parametrize(("name", "f", "shapes"), some(functions(DISCRETE), 3))
def test_distribution_functions_of_discrete_ones(name, f, shapes):
    loc = np.array([[0], [2]])
    found = getattr(getattr(stats, name), f)
    if f == "entropy":
        with np.errstate(all="ignore"):
            expected = reference.poisson.entropy(*shapes)
        np.testing.assert_allclose(found(*shapes), expected, rtol=1e-9)
    else:
        x = QS if f == "ppf" else np.append(KS, 2.5) + loc
        with np.errstate(all="ignore"):
            expected = getattr(getattr(reference, name), f)(x, *shapes, loc=loc)
        np.testing.assert_allclose(found(x, *shapes, loc=loc), expected, rtol=1e-10, atol=1e-14)


def test_entropy_of_poisson():
    mu = np.array([1e-3, 0.5, 7.0, 42.0, 99.9, 100.1, 350.0])
    k = np.arange(1500)[:, None]
    logp = reference.poisson.logpmf(k, mu)
    exact = -(np.exp(logp) * np.where(np.isneginf(logp), 0.0, logp)).sum(axis=0)
    np.testing.assert_allclose(stats.poisson.entropy(mu), exact, rtol=1e-11)
    np.testing.assert_array_equal(
        stats.poisson.entropy(np.array([0.0, -1.0, np.nan])), [0, np.nan, np.nan]
    )
    slope = jax.vmap(jax.grad(stats.poisson.entropy))(mu)
    above, below = stats.poisson.entropy(mu * (1 + 1e-6)), stats.poisson.entropy(mu * (1 - 1e-6))
    np.testing.assert_allclose(slope, (above - below) / (2e-6 * mu), rtol=1e-5)


def test_parameters_of_no_distribution_give_nan():
    for f in ("pdf", "logpdf"):
        assert np.isnan(getattr(stats.beta, f)(XS, -1.1, -1.1)).all()
        assert np.isnan(getattr(stats.beta, f)(XS, 1.0, 1.0, 0.0, -1.0)).all()
        assert np.isnan(getattr(stats.vonmises, f)(XS, -1.0)).all()
        assert np.isnan(getattr(stats.expon, f)(XS, 0.0, -1.0)).all()
        assert np.isnan(getattr(stats.wrapcauchy, f)(XS.astype("float32"), np.float32(1.5))).all()


def test_functions_are_documented():
    """A row of the table says what the examples of all functions of its module give."""
    for name in (*CONTINUOUS, *DISCRETE):
        module = getattr(stats, name)
        for f in module.__all__:
            assert "None" not in getattr(module, f).__doc__, f"{name}.{f}"
            assert f">>> round(float({f}(" in getattr(module, f).__doc__


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-9.0, -8.0),
        (7.0, 9.5),
        (-40.0, -38.0),
        (30.0, np.inf),
        (-np.inf, -30.0),
        (-np.inf, np.inf),
        (-50.0, 60.0),
    ],
)
@pytest.mark.parametrize("f", ["logpdf", "logcdf", "logsf"])
def test_truncnorm_in_the_tails(f, a, b):
    ends = np.clip([a, b], -60, 60)
    x = ends[0] + (ends[1] - ends[0]) * np.array([-0.1, 0.0, 1e-3, 0.3, 0.9, 1.0, 1.1])
    with np.errstate(all="ignore"):
        expected = getattr(reference.truncnorm, f)(x, a, b)
    found = getattr(stats.truncnorm, f)(x, a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("a", [-1e-9, 0.0, -0.3, 0.7])
def test_truncnorm_in_a_narrow_interval_is_uniform(a):
    width, shares = 1e-9 if a > -0.1 else 1e-7, np.array([1e-2, 0.3, 0.9])
    x = a + width * shares
    tolerance = 1e-7 if abs(a) < 1e-8 else 1e-5  # x is rounded
    np.testing.assert_allclose(stats.truncnorm.cdf(x, a, a + width), shares, rtol=tolerance)
    np.testing.assert_allclose(stats.truncnorm.sf(x, a, a + width), 1 - shares, rtol=tolerance)


def test_truncnorm_of_no_interval_is_nan():
    assert np.isnan(stats.truncnorm.logpdf(0.0, 1.0, -1.0)) and np.isnan(
        stats.truncnorm.cdf(np.nan, 0.0, 1.0)
    )


@pytest.mark.parametrize("n", [3, 2])
def test_dirichlet(n):
    alpha = np.array([0.5, 2.0, 3.5])
    x = np.random.default_rng(0).dirichlet(alpha, 5).T
    expected = reference.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x[:n], alpha), expected, rtol=1e-9)
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:n, 0], alpha), np.exp(expected[0]), rtol=1e-9)
    assert stats.dirichlet.logpdf(np.array([0.5, 0.6, -0.1]), alpha) == -np.inf
    assert stats.dirichlet.logpdf(np.array([0.5, 0.6, 0.2]), alpha) == -np.inf
    assert np.isnan(stats.dirichlet.logpdf(np.array([0.5, np.nan, 0.2]), alpha))
    slope = jax.grad(lambda a: stats.dirichlet.logpdf(x[:, 0], a))(alpha)
    assert np.isfinite(slope).all()
    with pytest.raises(
        ValueError, match=r"one entry fewer; got x.shape=\(5,\), alpha.shape=\(3,\)"
    ):
        stats.dirichlet.logpdf(np.ones(5), alpha)
    with pytest.raises(ValueError, match="must be one-dimensional"):
        stats.dirichlet.logpdf(np.ones(5), np.ones((2, 2)))


def test_multinomial():
    p = np.array([0.2, 0.5, 0.3])
    x = np.array([[1, 2, 0], [0, 0, 3], [3, 1, 0], [-1, 4, 0]])
    np.testing.assert_allclose(
        stats.multinomial.logpmf(x, 3, p), reference.multinomial.logpmf(x, 3, p), rtol=1e-12
    )
    np.testing.assert_allclose(
        stats.multinomial.pmf(x, np.array([3, 3, 4, 3]), p),
        [0.15, 0.027, 4 * 0.2**3 * 0.5, 0],
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        jax.vmap(lambda row: stats.multinomial.pmf(row, 3, p))(x), stats.multinomial.pmf(x, 3, p)
    )
    assert stats.multinomial.logpmf(np.array([0, 3]), 3, np.array([0.0, 1.0])) == 0
    with pytest.raises(ValueError, match=r"integer type; got x.dtype=float64"):
        stats.multinomial.logpmf(np.ones(2), 2, np.ones(2) / 2)


WITH_NAN = np.array([[3.0, 1.0, 3.0, 2.0], [np.nan, 5.0, 5.0, np.nan], [0.0, 0.0, 1.0, 1.0]])


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_rankdata(method, axis):
    for policy in ("propagate", "omit"):
        found = stats.rankdata(WITH_NAN, method, axis=axis, nan_policy=policy)
        np.testing.assert_array_equal(
            found, reference.rankdata(WITH_NAN, method, axis=axis, nan_policy=policy)
        )


def test_rankdata_of_other_operands():
    for x in (
        np.array([2, 1, 2], "int8"),
        np.array([True, False]),
        np.float32(3),
        np.zeros((0,)),
        np.array([2j, 1j, 2j]),
    ):
        np.testing.assert_array_equal(stats.rankdata(x), reference.rankdata(x))
    with pytest.raises(ValueError, match="unknown method 'last'"):
        stats.rankdata(WITH_NAN, "last")
    with pytest.raises(NotImplementedError, match="`nan_policy` of raise"):
        stats.rankdata(WITH_NAN, nan_policy="raise")


@pytest.mark.parametrize(
    ("axis", "keepdims", "dtype"),
    [
        (None, True, "int32"),
        (0, False, "float64"),
        (1, True, "bool"),
        (-2, False, "uint8"),
        (-1, True, "float64"),
        (None, False, "bool"),
    ],
)
def test_mode(axis, keepdims, dtype):
    x = np.random.default_rng(1).integers(0, 3, (5, 6, 2)).astype(dtype)
    found = stats.mode(x, axis=axis, keepdims=keepdims)
    expected = reference.mode(
        x.astype(float), axis=axis, keepdims=keepdims
    )  # SciPy takes no booleans
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found.mode.dtype == x.dtype and found.count.dtype == np.int64


def test_mode_of_other_operands():
    assert stats.mode(np.float32(3)) == (3, 1)
    mode, count = stats.mode(np.array([1.0, np.nan, np.nan, 1.0, np.nan]))
    assert np.isnan(mode) and count == 3
    mode, count = stats.mode(np.zeros((0, 2)))
    assert np.isnan(mode).all() and (count == 0).all() and mode.shape == (2,)
    assert stats.mode(np.zeros((2, 0))).mode.shape == (0,)
    with pytest.raises(NotImplementedError, match="`nan_policy` of omit"):
        stats.mode(np.zeros(3), nan_policy="omit")


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*:scipy.stats._axis_nan_policy.SmallSampleWarning")
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("policy", ["propagate", "omit"])
def test_sem(axis, keepdims, policy):
    found = stats.sem(WITH_NAN, axis=axis, ddof=0, nan_policy=policy, keepdims=keepdims)
    np.testing.assert_allclose(
        found,
        reference.sem(WITH_NAN, axis=axis, ddof=0, nan_policy=policy, keepdims=keepdims),
        rtol=1e-12,
    )
    assert np.isnan(stats.sem(3.0)) and np.isnan(stats.sem(np.zeros(0)))
    with pytest.raises(ValueError, match="'raise' is not supported"):
        stats.sem(WITH_NAN, nan_policy="raise")


@pytest.mark.parametrize(
    ("d", "weighted", "method"),
    [
        (1, False, None),
        (1, True, "silverman"),
        (3, True, 0.7),
        (2, False, lambda k: k.neff ** (-1 / (k.d + 4))),
    ],
)
def test_gaussian_kde(d, method, weighted):
    rng = np.random.default_rng(0)
    data, points = rng.standard_normal((d, 20)), rng.standard_normal((d, 7))
    weights = rng.uniform(0.5, 2.0, 20) if weighted else None
    ours, theirs = (
        m.gaussian_kde(data, bw_method=method, weights=weights) for m in (stats, reference)
    )
    for f in ("evaluate", "pdf", "logpdf", "__call__"):
        for x in (points, points[:, 0] if d > 1 else points[0]):  # many, and one or a vector
            np.testing.assert_allclose(getattr(ours, f)(x), getattr(theirs, f)(x), rtol=1e-9)
    for attribute in ("covariance", "inv_cov", "weights", "neff", "n", "d", "dataset"):
        np.testing.assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), rtol=1e-9)
    np.testing.assert_allclose(
        ours.integrate_gaussian(data[:, 0], np.eye(d)),
        theirs.integrate_gaussian(data[:, 0], np.eye(d)),
    )
    np.testing.assert_allclose(ours.integrate_kde(ours), theirs.integrate_kde(theirs))
    if d == 1:
        np.testing.assert_allclose(
            ours.integrate_box_1d(-0.5, 1.0), theirs.integrate_box_1d(-0.5, 1.0)
        )
    np.testing.assert_allclose(jax.jit(lambda k, x: k(x))(ours, points), ours(points), rtol=1e-12)
    slope = jax.grad(lambda x: stats.gaussian_kde(x, weights=weights).logpdf(points).sum())(data)
    step = rng.standard_normal(data.shape) * 1e-6
    difference = (
        sum(
            sign * stats.gaussian_kde(data + sign * step, weights=weights).logpdf(points).sum()
            for sign in (1, -1)
        )
        / 2
    )
    np.testing.assert_allclose((slope * step).sum(), difference, rtol=1e-6)
    assert ours.resample(jax.random.key(0), (2, 5)).shape == (d, 2, 5)


def test_samples_of_a_kde_are_distributed_as_it():
    estimate = stats.gaussian_kde(
        np.array([[0.0, 1.0, 3.0], [1.0, 0.5, 0.0]]), weights=np.array([1.0, 2.0, 1.0])
    )
    drawn = estimate.resample(jax.random.key(3), (20_000,))
    mean = estimate.dataset @ estimate.weights
    spread = estimate.covariance + jnp.cov(estimate.dataset, aweights=estimate.weights, bias=True)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=0.05)
    np.testing.assert_allclose(jnp.cov(drawn), spread, atol=0.1)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda k: stats.gaussian_kde(np.ones(1)), ValueError, "should have multiple elements"),
        (
            lambda k: stats.gaussian_kde(np.ones(3) + 1j),
            NotImplementedError,
            "does not support complex data",
        ),
        (lambda k: stats.gaussian_kde(np.ones((2, 2, 2))), ValueError, "one or two axes"),
        (lambda k: stats.gaussian_kde(np.ones(3), "other"), ValueError, "`bw_method` should be"),
        (
            lambda k: stats.gaussian_kde(np.ones(3), weights=np.ones(2)),
            ValueError,
            "should be of length n = 3, got 2",
        ),
        (
            lambda k: stats.gaussian_kde(np.ones(3), weights=np.ones((3, 1))),
            ValueError,
            "should be one-dimensional",
        ),
        (
            lambda k: k(np.ones((3, 4))),
            ValueError,
            "points have dimension 3, dataset has dimension 2",
        ),
        (lambda k: k.integrate_box_1d(0, 1), ValueError, "only handles 1D pdfs"),
        (
            lambda k: k.integrate_gaussian(np.ones(3), np.eye(2)),
            ValueError,
            "mean does not have dimension 2",
        ),
        (
            lambda k: k.integrate_gaussian(np.ones(2), np.eye(3)),
            ValueError,
            "covariance does not have dimension 2",
        ),
        (
            lambda k: k.integrate_kde(stats.gaussian_kde(np.arange(3.0))),
            ValueError,
            "not the same dimensionality",
        ),
        (lambda k: k.integrate_box(0, 1), NotImplementedError, "use `integrate_box_1d`"),
        (lambda k: k.set_bandwidth(1.0), NotImplementedError, "Make another"),
    ],
)
def test_mistakes_with_kde(make, error, match):
    with pytest.raises(error, match=match):
        make(stats.gaussian_kde(np.arange(6.0).reshape(2, 3) ** 2))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_is_differentiable(name):
    """The derivatives in x and in each parameter agree with differences where there is a density,
    and are 0, not nan, where there is none. The slope of the distribution function is the
    density."""
    f = getattr(stats, name)
    x, point = np.array([-3.0, 0.3, 0.6, 1.5, 2.5, 12.0]), (*CONTINUOUS[name][0], 0.1, 1.5)
    over = (0, *(None for _ in point))
    slopes = jax.vmap(jax.grad(f.logpdf, range(len(over))), over)(x, *point)
    has_density = np.isfinite(f.logpdf(x, *point))
    h = 1e-6
    for i, slope in enumerate(slopes):
        assert np.isfinite(slope).all()
        ends = [f.logpdf(*(v + e * (k == i) for k, v in enumerate((x, *point)))) for e in (h, -h)]
        with np.errstate(invalid="ignore"):
            expected = (np.asarray(ends[0]) - np.asarray(ends[1])) / (2 * h)
        np.testing.assert_allclose(
            slope, np.where(has_density, expected, 0.0), rtol=1e-6, atol=1e-8
        )
    if "cdf" in f.__all__:
        _, slope = jax.jvp(lambda v: f.cdf(v, *point), (x,), (np.ones_like(x),))
        np.testing.assert_allclose(slope, f.pdf(x, *point), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jax.jit(f.logpdf)(x, *point), f.logpdf(x, *point), rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(f.logpdf, over)(x, *point), f.logpdf(x, *point), rtol=1e-12)


def test_multivariate_normal():
    rng = np.random.default_rng(0)
    mean, root = rng.standard_normal(3), rng.standard_normal((3, 3))
    cov = root @ root.T + np.eye(3)
    x = rng.standard_normal((4, 3))
    ours, theirs = stats.multivariate_normal, reference.multivariate_normal
    np.testing.assert_allclose(ours.logpdf(x, mean, cov), theirs.logpdf(x, mean, cov), rtol=1e-11)
    np.testing.assert_allclose(ours.pdf(x[0], mean, cov), theirs.pdf(x[0], mean, cov), rtol=1e-11)
    np.testing.assert_allclose(
        ours.logpdf(x, mean, 2.0), theirs.logpdf(x, mean, 2.0 * np.eye(3)), rtol=1e-11
    )
    np.testing.assert_allclose(ours.logpdf(0.3, 0.1, 2.0), theirs.logpdf(0.3, 0.1, 2.0), rtol=1e-11)
    covs = np.stack([cov, 2 * cov])
    stacked = [theirs.logpdf(x[0], mean, c) for c in covs]
    np.testing.assert_allclose(ours.logpdf(x[0], mean, covs), stacked, rtol=1e-11)
    np.testing.assert_allclose(
        jax.vmap(lambda c: ours.logpdf(x[0], mean, c))(covs), stacked, rtol=1e-11
    )
    slope = jax.grad(lambda m: ours.logpdf(x[0], m, cov))(mean)
    np.testing.assert_allclose(slope, np.linalg.solve(cov, x[0] - mean), rtol=1e-9)
    with pytest.raises(ValueError, match=r"incompatible shapes"):
        ours.logpdf(x, mean, np.eye(2))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        ours.logpdf(x, mean, cov, allow_singular=True)


def test_dtypes():
    assert stats.expon.logpdf(jnp.ones(2, "float32")).dtype == np.float32
    assert stats.gamma.pdf(1, 2).dtype == np.float64
    assert stats.beta.logpdf(jnp.ones((3, 1), "float32") / 2, 2.0, np.ones(4, "float32")).shape == (
        3,
        4,
    )
    with pytest.raises(TypeError, match="requires ndarray or scalar arguments"):
        stats.expon.logpdf([1.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.expon.pdf(1j),
        lambda: stats.beta.cdf(1j, 1, 2),
        lambda: stats.laplace.logpdf(2j),
        lambda: stats.norm.ppf(1j),
    ],
)
def test_distributions_are_of_real_numbers(call):
    with pytest.raises(TypeError, match="does not support complex-valued inputs"):
        call()


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", some(DISCRETE, 3))
def test_logarithm_of_a_probability_of_1_is_not_minus_0(name, jit):
    family, shapes = getattr(stats, name), DISCRETE[name][0]
    for f, x in (("logcdf", 1e9), ("logsf", -1e9)):
        if f in family.__all__:
            f = getattr(family, f)
            value = np.asarray((jax.jit(f) if jit else f)(x, *shapes))
            assert value == 0 and not np.signbit(value), (f, value)
