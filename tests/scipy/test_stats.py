"""Distributions against SciPy's, inside and outside of their support."""

import numpy as np
import pytest
from scipy import stats as reference

import teucer as jax
import teucer.numpy as jnp
from teucer.scipy import stats

XS = np.array([-3.0, -0.5, 0.0, 0.2, 0.7, 1.0, 1.8, 4.0, 9.0, np.nan])
KS = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 7.0, 1.5])
QS = np.array([-0.1, 0.0, 0.1, 0.5, 0.9, 1.0, 1.1])
# Shape parameters of the continuous distributions, and of the discrete ones.
CONTINUOUS = {"norm": (), "uniform": (), "expon": (), "laplace": (), "logistic": (), "cauchy": (), "gumbel_l": (), "gumbel_r": (),
              "gamma": (2.5,), "chi2": (3.0,), "t": (2.5,), "pareto": (1.5,), "beta": (2.0, 3.5)}
DISCRETE = {"bernoulli": (0.3,), "binom": (5.0, 0.3), "poisson": (2.5,), "geom": (0.3,), "nbinom": (3.0, 0.4),
            "betabinom": (5.0, 2.0, 1.5)}


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def functions(names, skip=("logpmf", "pmf")):
    for name, shapes in names.items():
        for f in getattr(stats, name).__all__:
            if f not in skip:
                yield pytest.param(name, f, shapes, id=f"{name}.{f}")


def sample(f):
    return QS if f in ("ppf", "isf") else XS


@pytest.mark.parametrize("name, f", [("bernoulli", "pmf"), ("bernoulli", "logpmf"), ("bernoulli", "cdf"), ("geom", "pmf"),
                                     ("geom", "logpmf")])
def test_probabilities_that_are_none(name, f):
    for p in (-0.1, 0.0, 0.4, 1.0, 1.5):
        for k in (0, 1, 2):
            with np.errstate(all="ignore"):
                expected = getattr(getattr(reference, name), f)(k, p)
            if not (name == "geom" and p == 0):  # SciPy asks for more than 0
                np.testing.assert_allclose(getattr(getattr(stats, name), f)(k, p), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(("name", "f", "shapes"), list(functions(CONTINUOUS)))
@pytest.mark.parametrize(("loc", "scale"), [(0.0, 1.0), (0.3, 2.0)])
def test_continuous(name, f, shapes, loc, scale):
    found = getattr(getattr(stats, name), f)(sample(f), *shapes, loc=loc, scale=scale)
    expected = getattr(getattr(reference, name), f)(sample(f), *shapes, loc=loc, scale=scale)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("name", "shapes"), DISCRETE.items(), ids=DISCRETE)
@pytest.mark.parametrize("f", ["logpmf", "pmf"])
@pytest.mark.parametrize("loc", [0, 2])
def test_discrete(name, f, shapes, loc):
    found = getattr(getattr(stats, name), f)(KS + loc, *shapes, loc=loc)
    np.testing.assert_allclose(found, getattr(getattr(reference, name), f)(KS + loc, *shapes, loc=loc), rtol=1e-11, atol=1e-14)


def test_distribution_functions_of_discrete_ones():
    np.testing.assert_allclose(stats.poisson.cdf(KS, 2.5), reference.poisson.cdf(KS, 2.5), rtol=1e-12)
    np.testing.assert_allclose(stats.bernoulli.cdf(KS, 0.3), reference.bernoulli.cdf(KS, 0.3))
    np.testing.assert_allclose(stats.bernoulli.ppf(QS, 0.3), reference.bernoulli.ppf(QS, 0.3))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_is_differentiable(name):
    """The derivative agrees with differences where there is a density, and is 0, not nan, where there is none."""
    f = getattr(stats, name)
    shapes = CONTINUOUS[name]
    x = np.array([-3.0, 0.3, 0.6, 1.6, 12.0])
    slope = jax.vmap(jax.grad(lambda v: f.logpdf(v, *shapes)))(x)
    assert np.isfinite(slope).all()
    h = 1e-6
    with np.errstate(invalid="ignore"):
        expected = (np.asarray(f.logpdf(x + h, *shapes)) - np.asarray(f.logpdf(x - h, *shapes))) / (2 * h)
    np.testing.assert_allclose(slope, np.where(np.isnan(expected), 0.0, expected), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(jax.jit(f.logpdf)(x, *shapes), f.logpdf(x, *shapes), rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(lambda v: f.logpdf(v, *shapes))(x), f.logpdf(x, *shapes), rtol=1e-12)


def test_multivariate_normal():
    rng = np.random.default_rng(0)
    mean, root = rng.standard_normal(3), rng.standard_normal((3, 3))
    cov = root @ root.T + np.eye(3)
    x = rng.standard_normal((4, 3))
    ours, theirs = stats.multivariate_normal, reference.multivariate_normal
    np.testing.assert_allclose(ours.logpdf(x, mean, cov), theirs.logpdf(x, mean, cov), rtol=1e-11)
    np.testing.assert_allclose(ours.pdf(x[0], mean, cov), theirs.pdf(x[0], mean, cov), rtol=1e-11)
    np.testing.assert_allclose(ours.logpdf(x, mean, 2.0), theirs.logpdf(x, mean, 2.0 * np.eye(3)), rtol=1e-11)
    np.testing.assert_allclose(ours.logpdf(0.3, 0.1, 2.0), theirs.logpdf(0.3, 0.1, 2.0), rtol=1e-11)
    covs = np.stack([cov, 2 * cov])
    stacked = [theirs.logpdf(x[0], mean, c) for c in covs]
    np.testing.assert_allclose(ours.logpdf(x[0], mean, covs), stacked, rtol=1e-11)
    np.testing.assert_allclose(jax.vmap(lambda c: ours.logpdf(x[0], mean, c))(covs), stacked, rtol=1e-11)
    slope = jax.grad(lambda m: ours.logpdf(x[0], m, cov))(mean)
    np.testing.assert_allclose(slope, np.linalg.solve(cov, x[0] - mean), rtol=1e-9)
    with pytest.raises(ValueError, match=r"incompatible shapes"):
        ours.logpdf(x, mean, np.eye(2))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        ours.logpdf(x, mean, cov, allow_singular=True)


def test_dtypes():
    assert stats.expon.logpdf(jnp.ones(2, "float32")).dtype == np.float32
    assert stats.gamma.pdf(1, 2).dtype == np.float64
    assert stats.beta.logpdf(jnp.ones((3, 1), "float32") / 2, 2.0, np.ones(4, "float32")).shape == (3, 4)
    with pytest.raises(TypeError, match="requires ndarray or scalar arguments"):
        stats.expon.logpdf([1.0])
