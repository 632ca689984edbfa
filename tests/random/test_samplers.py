"""Samplers: distributions, dtypes, shapes, transformations, gradients, refusals."""

import numpy as np
import pytest
import scipy.stats as st
from sampling import some

import teucer as jax
from teucer import numpy as jnp
from teucer import random

KEY = random.key(11)
N = 10_000

# A sampler of a key, a size and parameters; SciPy's distribution; rows of parameters. The first row
# is a usual one. The others are of other ways to draw, and the edges of what is a distribution.
inf = np.inf
CONTINUOUS = {
    "uniform": (
        lambda k, n, low, high: random.uniform(k, n, minval=low, maxval=high),
        lambda low, high: st.uniform(low, high - low),
        [(-1, 3), (0, 1e-3), (-1e20, 1e20)],
    ),
    "normal": (random.normal, st.norm, [()]),
    "truncated_normal": (
        lambda k, n, low, high: random.truncated_normal(k, low, high, n),
        st.truncnorm,
        [(-1, 2), (-inf, 0), (1.5, inf), (3, 5), (-6, -4)],
    ),
    "lognormal": (lambda k, n, s: random.lognormal(k, s, n), st.lognorm, [(0.5,), (0.01,), (3,)]),
    "exponential": (random.exponential, st.expon, [()]),
    "cauchy": (random.cauchy, st.cauchy, [()]),
    "laplace": (random.laplace, st.laplace, [()]),
    "logistic": (random.logistic, st.logistic, [()]),
    "gumbel": (random.gumbel, st.gumbel_r, [()]),
    "gumbel_high": (lambda k, n: random.gumbel(k, n, mode="high"), st.gumbel_r, [()]),
    "pareto": (lambda k, n, b: random.pareto(k, b, n), st.pareto, [(2,), (0.3,), (50,)]),
    "rayleigh": (
        lambda k, n, scale: random.rayleigh(k, scale, n),
        lambda scale: st.rayleigh(scale=scale),
        [(2,), (1e-3,)],
    ),
    "weibull_min": (
        lambda k, n, scale, c: random.weibull_min(k, scale, c, n),
        lambda scale, c: st.weibull_min(c, scale=scale),
        [(2, 3), (1, 0.5), (10, 1)],
    ),
    "triangular": (
        lambda k, n, low, mode, high: random.triangular(k, low, mode, high, n),
        lambda low, mode, high: st.triang((mode - low) / (high - low), low, high - low),
        [(0, 0.2, 1), (0, 0, 1), (-2, 3, 3), (5, 6, 9)],
    ),
    "maxwell": (random.maxwell, st.maxwell, [()]),
    "wald": (lambda k, n, mean: random.wald(k, mean, n), st.invgauss, [(2,), (0.05,), (10,)]),
    "gamma": (
        lambda k, n, a: random.gamma(k, a, n),
        st.gamma,
        [(2.5,), (0.2,), (0.99,), (1,), (100,)],
    ),
    "loggamma": (
        lambda k, n, a: random.loggamma(k, a, n),
        st.loggamma,
        [(0.5,), (0.01,), (1,), (30,)],
    ),
    "beta": (
        lambda k, n, a, b: random.beta(k, a, b, n),
        st.beta,
        [(0.5, 2), (1, 1), (0.2, 0.3), (30, 2), (200, 300)],
    ),
    "dirichlet": (
        lambda k, n: random.dirichlet(k, jnp.array([1.0, 2.0, 3.0]), n)[..., 0],
        lambda: st.beta(1, 5),
        [()],
    ),
    "chisquare": (
        lambda k, n, df: random.chisquare(k, df, n),
        st.chi2,
        [(3,), (0.5,), (1,), (100,)],
    ),
    "f": (lambda k, n, a, b: random.f(k, a, b, n), st.f, [(3, 5), (1, 1), (60, 0.7)]),
    "t": (lambda k, n, df: random.t(k, df, n), st.t, [(3,), (0.5,), (1,), (200,)]),
    "generalized_normal": (
        lambda k, n, p: random.generalized_normal(k, jnp.broadcast_to(p, n), n),
        st.gennorm,
        [(1.5,), (0.5,), (1,), (2,), (8,)],
    ),
    "ball": (
        lambda k, n: jnp.sqrt((random.ball(k, 3, shape=n) ** 2).sum(-1)) ** 3,
        st.uniform,
        [()],
    ),
    "double_sided_maxwell": (
        lambda k, n: jnp.abs(random.double_sided_maxwell(k, 2.0, 3.0, n) - 2),
        lambda: st.maxwell(scale=3),
        [()],
    ),
    "multivariate_normal": (
        lambda k, n: random.multivariate_normal(
            k, np.zeros(2), np.array([[4.0, 1.0], [1.0, 2.0]]), n
        )[..., 0],
        lambda: st.norm(scale=2),
        [()],
    ),
}
DISCRETE = {
    "bernoulli": (
        lambda k, n, p: random.bernoulli(k, p, n),
        st.bernoulli,
        [(0.3,), (0,), (1,), (0.999,)],
    ),
    "bernoulli_high": (
        lambda k, n, p: random.bernoulli(k, p, n, mode="high"),
        st.bernoulli,
        [(0.3,), (0,), (1,)],
    ),
    "randint": (
        lambda k, n, low, high: random.randint(k, n, low.astype(int), high.astype(int)),
        st.randint,
        [(2, 9), (0, 1), (-5, 5), (-1000, 1000)],
    ),
    "geometric": (
        lambda k, n, p: random.geometric(k, p, n),
        st.geom,
        [(0.3,), (0.01,), (0.95,), (1,)],
    ),
    "poisson": (
        lambda k, n, rate: random.poisson(k, rate, n),
        st.poisson,
        [(4,), (30,), (0,), (0.1,), (9.9,), (10.1,), (3000,)],
    ),
    "binomial": (
        lambda k, n, count, p: random.binomial(k, count, p, n),
        st.binom,
        [(12, 0.3), (60, 0.7), (0, 0.3), (9, 0), (9, 1), (40, 0.5), (2000, 0.01), (25, 0.96)],
    ),
    "multinomial": (
        lambda k, n: random.multinomial(k, 20, np.array([0.2, 0.3, 0.5]), shape=(*n, 3))[..., 1],
        lambda: st.binom(20, 0.3),
        [()],
    ),
    "choice": (lambda k, n: random.choice(k, 6, n), lambda: st.randint(0, 6), [()]),
    "choice_p": (
        lambda k, n: random.choice(k, 3, n, p=np.array([0.2, 0.3, 0.5])),
        lambda: st.rv_discrete(values=([0, 1, 2], [0.2, 0.3, 0.5])),
        [()],
    ),
    "categorical": (
        lambda k, n: random.categorical(k, np.log([0.2, 0.3, 0.5]).astype("float32"), shape=n),
        lambda: st.rv_discrete(values=([0, 1, 2], [0.2, 0.3, 0.5])),
        [()],
    ),
    "rademacher": (
        random.rademacher,
        lambda: st.rv_discrete(values=([-1, 1], [0.5, 0.5])),
        [()],
    ),
}
ALL = CONTINUOUS | DISCRETE


def drawn(name, key, count):
    """So many samples for each row of parameters."""
    f, _, rows = ALL[name]
    columns = [np.array(column, "float32")[:, None] for column in zip(*rows, strict=True)]
    return f(key, (len(rows), count), *columns)


@pytest.mark.parametrize("name", ALL)
def test_distribution(name):
    """The shares of samples up to each value are those of the distribution, as Kolmogorov and
    Smirnov test it; nothing is drawn from outside of its support."""
    _, distribution, rows = ALL[name]
    # Rejection errs only in the tails: it takes more samples to see it.
    count = 20 * N if name in ("poisson", "binomial") else N
    for row, samples in zip(rows, np.asarray(drawn(name, KEY, count), np.float64), strict=True):
        values, counts = np.unique(samples, return_counts=True)
        expected = distribution(*row)
        low, high = expected.support()
        assert low * (1 - 1e-6 * np.sign(low)) <= values[0] <= values[-1], row
        assert values[-1] <= high * (1 + 1e-6 * np.sign(high)), row
        with np.errstate(divide="ignore"):
            apart = np.abs(np.cumsum(counts) / count - expected.cdf(values)).max()
        assert apart < 1.95 / np.sqrt(count), (row, apart)  # one in a thousand is farther apart


@pytest.mark.parametrize("name", some(ALL, 2))
def test_jit_and_vmap(name):
    keys = random.split(KEY, 2)
    one_by_one = [np.asarray(drawn(name, k, 3)) for k in keys]
    tolerance = {"rtol": 2e-5, "atol": 1e-5}
    np.testing.assert_allclose(
        jax.jit(drawn, static_argnums=(0, 2))(name, keys[0], 3), one_by_one[0], **tolerance
    )
    np.testing.assert_allclose(jax.vmap(lambda k: drawn(name, k, 3))(keys), one_by_one, **tolerance)


@pytest.mark.parametrize(
    "name",
    ["uniform", "normal", "exponential", "cauchy", "laplace", "logistic", "gumbel", "maxwell"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_float_dtypes(name, dtype):
    sampler = getattr(random, name)
    with jax.enable_x64(True):
        x = sampler(KEY, (50,), dtype)
        assert (x.dtype, x.shape, x.weak_type) == (jnp.dtype(dtype), (50,), False)
        assert np.isfinite(np.asarray(x, np.float64)).all()


def test_vmap_over_parameters_is_a_loop():
    a = np.array([0.5, 2.0, 7.0], "float32")
    loop = [random.gamma(KEY, x, (2,)) for x in a]
    np.testing.assert_allclose(jax.vmap(lambda a: random.gamma(KEY, a, (2,)))(a), loop, rtol=1e-6)


GRADIENTS = {
    "gamma": lambda a: random.gamma(KEY, a),
    "loggamma": lambda a: random.loggamma(KEY, a),
    "beta": lambda a: random.beta(KEY, a, 2.0),
    "dirichlet": lambda a: random.dirichlet(KEY, jnp.stack([a, a + 1, 2 * a]))[0],
    "t": lambda a: random.t(KEY, a),
    "chisquare": lambda a: random.chisquare(KEY, a),
    "truncated_normal": lambda a: random.truncated_normal(KEY, -a, 2 * a),
    "uniform": lambda a: random.uniform(KEY, minval=-a, maxval=a),
    "lognormal": lambda a: random.lognormal(KEY, a),
    "weibull_min": lambda a: random.weibull_min(KEY, 2.0, a),
    "pareto": lambda a: random.pareto(KEY, a),
    "rayleigh": lambda a: random.rayleigh(KEY, a),
    "triangular": lambda a: random.triangular(KEY, -a, 0.0, 2 * a),
    "generalized_normal": lambda a: random.generalized_normal(KEY, a),
    "multivariate_normal": lambda a: random.multivariate_normal(
        KEY, jnp.stack([a, a]), a * np.eye(2)
    ).sum(),
}


# Rejection makes samples jump: differences show the derivative of the quantile function only where
# no proposal changes; for those the implicit derivative is checked below.
@pytest.mark.parametrize(
    "name",
    [
        n
        for n in GRADIENTS
        if n
        not in ("gamma", "loggamma", "beta", "dirichlet", "t", "chisquare", "generalized_normal")
    ],
)
def test_gradients_in_parameters(name):
    f = GRADIENTS[name]
    with jax.enable_x64(True):
        h = 1e-6
        difference = (float(f(1.3 + h)) - float(f(1.3 - h))) / (2 * h)
        np.testing.assert_allclose(jax.grad(f)(1.3), difference, rtol=1e-5)
        np.testing.assert_allclose(jax.jvp(f, (1.3,), (1.0,))[1], difference, rtol=1e-5)


@pytest.mark.parametrize("a", [0.3, 1.5, 20.0])
def test_gamma_gradient_moves_the_quantile(a):
    """The derivative at a fixed probability: d/da of the quantile function, by differences of
    SciPy's."""
    with jax.enable_x64(True):
        x = float(random.gamma(KEY, a))
        p, h = st.gamma(a).cdf(x), a * 1e-4
        difference = (st.gamma(a + h).ppf(p) - st.gamma(a - h).ppf(p)) / (2 * h)
        np.testing.assert_allclose(
            jax.grad(lambda a: random.gamma(KEY, a))(a), difference, rtol=1e-4
        )
        log_sample = lambda a: jnp.exp(random.loggamma(KEY, a))
        x = float(log_sample(a))
        p = st.gamma(a).cdf(x)
        difference = (st.gamma(a + h).ppf(p) - st.gamma(a - h).ppf(p)) / (2 * h)
        np.testing.assert_allclose(jax.grad(log_sample)(a), difference, rtol=1e-4)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_finite(name):
    assert np.isfinite(float(jax.grad(GRADIENTS[name])(1.3)))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 2), (2, 4)])
def test_orthogonal(dtype, n, m):
    q = np.asarray(random.orthogonal(KEY, n, (2,), dtype, m))
    assert q.shape == (2, n, m)
    small = q if n >= m else q.conj().swapaxes(1, 2)
    np.testing.assert_allclose(
        small.conj().swapaxes(1, 2) @ small,
        np.broadcast_to(np.eye(min(n, m)), (2, min(n, m), min(n, m))),
        atol=1e-5,
    )


def test_permutations():
    x = np.arange(3000)
    assert sorted(random.permutation(KEY, x).tolist()) == x.tolist()
    assert sorted(random.permutation(KEY, 5).tolist()) == list(range(5))
    rows = np.asarray(random.permutation(KEY, np.arange(12).reshape(3, 4), axis=1))
    assert all(
        sorted(r) == sorted(s)
        for r, s in zip(rows.tolist(), np.arange(12).reshape(3, 4).tolist(), strict=True)
    )
    assert len({tuple(r % 4) for r in rows}) == 1
    assert random.permutation(KEY, 0).shape == (0,)
    keys = random.split(KEY, 3)
    assert random.permutation(KEY, keys).dtype == keys.dtype


def test_choices_without_replacement_differ():
    assert len(set(random.choice(KEY, 10, (10,), replace=False).tolist())) == 10
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.0])
    assert set(random.choice(KEY, 5, (4,), replace=False, p=p).tolist()) == {0, 1, 2, 3}
    found = np.asarray(
        random.categorical(KEY, np.zeros((2, 5), "float32"), shape=(5, 2), replace=False)
    )
    assert (np.sort(found, 0) == np.arange(5)[:, None]).all()


def test_binomial_of_bad_parameters():
    found = np.asarray(
        random.binomial(KEY, np.array([-1.0, 1.0, np.nan, np.inf]), np.array([0.1, -0.9, 0.5, 0.7]))
    )
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, np.inf])


REFUSED = [
    (
        lambda: random.uniform(KEY, (2,), "int32"),
        "dtype argument to `uniform` must be a float dtype, got int32",
    ),
    (
        lambda: random.normal(KEY, (2,), "int32"),
        "dtype argument to `normal` must be a float or complex dtype, got int32",
    ),
    (
        lambda: random.bits(KEY, (2,), "int32"),
        "dtype argument to `bits` must be an unsigned int dtype, got int32",
    ),
    (
        lambda: random.geometric(KEY, 0.5, (2,), "float32"),
        "dtype argument to `geometric` must be an int dtype, got float32",
    ),
    (lambda: random.bernoulli(KEY, 0.5, (2,), mode="x"), "expected 'high' or 'low'"),
    (lambda: random.gumbel(KEY, (2,), mode="x"), "Must provide valid mode for gumbel got: x"),
    (
        lambda: random.gamma(KEY, jnp.ones(3), (2,)),
        r"Incompatible shapes for broadcasting: shapes=\[\(2,\), \(3,\)\]",
    ),
    (
        lambda: random.generalized_normal(KEY, jnp.ones(3)),
        r"must equal the shape argument, but got result \(3,\)",
    ),
    (lambda: random.beta(KEY, jnp.ones(3), jnp.ones(2)), "Incompatible shapes for broadcasting"),
    (lambda: random.dirichlet(KEY, 1.0), "dirichlet requires alpha.ndim >= 1"),
    (lambda: random.multivariate_normal(KEY, jnp.zeros(2), jnp.eye(3)), "requires cov.shape == "),
    (
        lambda: random.multivariate_normal(KEY, jnp.zeros(2), jnp.eye(2), method="lu"),
        "method must be one of",
    ),
    (lambda: random.orthogonal(KEY, -1), "negative dimensions are not allowed"),
    (lambda: random.choice(KEY, 0), "a must be greater than 0 unless no samples are taken"),
    (
        lambda: random.choice(KEY, 5, (6,), replace=False),
        r"Cannot take a larger sample \(size 6\) than population \(size 5\)",
    ),
    (
        lambda: random.choice(KEY, 5, (2,), p=jnp.ones(3)),
        "p must be None or a 1D vector with the same size",
    ),
    (
        lambda: random.categorical(KEY, jnp.ones((2, 3)), shape=(3,)),
        "Incompatible shapes for broadcasting",
    ),
    (
        lambda: random.categorical(KEY, jnp.ones((2, 3)), shape=(4, 2), replace=False),
        r"\(4\) cannot exceed number of categories \(3\)",
    ),
    (
        lambda: random.permutation(KEY, jnp.ones(3), axis=2),
        "axis 2 is out of bounds for array of dimension 1",
    ),
    (
        lambda: random.randint(KEY, (2,), jnp.zeros(3, int), 5),
        "Incompatible shapes for broadcasting",
    ),
    (lambda: random.poisson(KEY, jnp.ones(3), (2,)), "Incompatible shapes for broadcasting"),
    (
        lambda: random.multinomial(KEY, jnp.array([1.0, 2.0]), jnp.ones(3)),
        "Cannot broadcast to shape with fewer dimensions",
    ),
]
OF_OTHER_KIND = [
    (lambda: random.uniform(KEY, (-1,)), "uniform shape must have every element be nonnegative"),
    (
        lambda: random.bernoulli(KEY, 1),
        "bernoulli probability `p` must have a floating dtype, got int32",
    ),
    (
        lambda: random.randint(KEY, (2,), 0, 10, "float32"),
        "randint only accepts integer dtypes, got float32",
    ),
    (lambda: random.permutation(KEY, 3.5), "x must be an integer or at least 1-dimensional"),
    (
        lambda: random.permutation(KEY, [1, 2]),
        "permutation requires ndarray or scalar arguments, got <class 'list'>",
    ),
    (lambda: random.uniform(KEY, None), "shape must be an integer or a sequence of integers"),
    (
        lambda: jax.jit(lambda n: random.uniform(KEY, (n,)))(3),
        "Shapes must be 1D sequences of concrete values",
    ),
]


@pytest.mark.parametrize(
    "case",
    [(*c, ValueError) for c in REFUSED] + [(*c, TypeError) for c in OF_OTHER_KIND],
    ids=lambda case: case[1][:40],
)
def test_refused(case):
    f, message, error = case
    with pytest.raises(error, match=message):
        f()


@pytest.mark.parametrize(
    ("impl", "alpha", "expected"),
    [
        ("rbg", 2.0, [0.5628348, 2.062191, 0.43754303]),
        ("unsafe_rbg", 0.3, [[3.1746985e-09, 1.3990112e-01], [1.4727193e-02, 1.7128423e-03]]),
    ],
)
def test_gamma_draws_each_sample_of_rbg_alone(impl, alpha, expected):
    # Expected: what jax 0.10.2 gives on CPU for random.gamma(random.key(42, impl=impl), alpha,
    # shape).
    found = random.gamma(random.key(42, impl=impl), alpha, np.shape(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_binomial_is_drawn_in_the_precision_of_p():
    # What JAX 0.12 gives for these keys, whatever dtype is asked for.
    p, n = np.array([0.075, 0.175, 0.2, 0.3, 0.55]), 300
    wanted = {
        "bfloat16": [25, 53, 63, 90, 167],
        "float32": [16, 49, 51, 98, 173],
        "float64": [25, 58, 47, 103, 165],
    }
    with jax.enable_x64(True):
        for dtype, values in wanted.items():
            for given in (None, "float32"):
                found = random.binomial(random.key(0), n, jnp.asarray(p, dtype), dtype=given)
                assert (found.dtype.name, found.tolist()) == (given or "float64", values)


def test_multinomial_counts_are_of_the_default_float():
    with jax.enable_x64(True):
        found = random.multinomial(random.key(0), 10, jnp.asarray([0.1, 0.2, 0.3, 0.4], np.float32))
    assert (found.dtype, found.tolist()) == (np.float64, [0, 1, 2, 7])
