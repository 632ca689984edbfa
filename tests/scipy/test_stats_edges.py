"""The law of edges: functions of distributions at zeros, extremes, infinities, and outside.

Every argument takes 0, -0, subnormal, tiny, whole, negative and greatest numbers, infinities and
nan, in all combinations; SciPy in float64 is the reference. XLA takes subnormal operands as zeros,
so a result for zeros is right there, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import special
from scipy import stats as reference

import teucer as jax
from teucer.scipy import stats

# How many shape parameters a family has.
SHAPES = {
    **dict.fromkeys(("norm", "uniform", "expon", "laplace"), 0),
    **dict.fromkeys(("logistic", "cauchy", "gumbel_l", "gumbel_r"), 0),
    **dict.fromkeys(("gamma", "chi2", "t", "pareto", "gennorm", "vonmises", "wrapcauchy"), 1),
    **dict.fromkeys(("bernoulli", "poisson", "geom"), 1),
    **dict.fromkeys(("beta", "truncnorm", "binom", "nbinom"), 2),
    "betabinom": 3,
}
CASES = [(name, f) for name in SHAPES for f in getattr(stats, name).__all__ if f != "entropy"]


def edges(dtype: Any, count: int) -> np.ndarray:
    info = np.finfo(dtype)
    tiny, most, least = float(info.tiny), float(info.max), 5 * float(info.smallest_subnormal)
    values = [0.0, tiny, 1e-5, 0.5, 1.0, 2.5, 1e10, most, np.inf]
    if count < 3:
        values += [least, 4 * tiny, 1e-20, 0.25, 2, 3, 10, 26, 100, 1e3, 1e20, most / 2, most / 8]
        values += [1 + float(info.eps), 1 - float(info.eps) / 2]
    elif count == 3:
        values += [2.0, 10.0, 1e3]
    return np.array([*(-x for x in values), *values, np.nan]).astype(dtype)


def shares(dtype: Any) -> np.ndarray:
    info = np.finfo(dtype)
    least, beside = 5 * float(info.smallest_subnormal), 1 - float(info.eps) / 2
    values = [0, least, float(info.tiny), 1e-20, 1e-5, 0.1, 0.25, 0.5, 0.75, 0.9, beside, 1, np.inf]
    return np.array([*values, *np.negative(values), 1.5, np.nan]).astype(dtype)


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def gennorm_share(x: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Where |x|^beta is nothing beside 1, the density is that at 0."""
    is_near = (np.abs(x) ** beta < 1e-16) & (beta > 0) & np.isfinite(beta)
    near = 0.5 + 0.5 * x / special.gamma(1 + 1 / np.where(is_near, beta, 1))
    return np.where(is_near, near, reference.gennorm.cdf(x, beta))


def gennorm_density(x: np.ndarray, beta: np.ndarray) -> np.ndarray:
    value = -np.log(2) - special.gammaln(1 + 1 / beta) - np.abs(x) ** beta
    return np.where((beta > 1e300) & np.isfinite(beta), value, reference.gennorm.logpdf(x, beta))


def counted(k: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """log(mu^k e^-mu / k!), by Stirling's formula where k and mu are large and equal."""
    is_same = (k == mu) & (k >= 1e9) & np.isfinite(k)
    return np.where(
        is_same,
        -0.5 * (np.log(2 * np.pi) + np.log(np.where(is_same, k, 1))),
        reference.poisson.logpmf(k, mu),
    )


def pareto_ppf(q: np.ndarray, b: np.ndarray) -> np.ndarray:
    value = np.exp(-np.log1p(-q) / b)
    return np.where(np.isnan(reference.pareto.ppf(q, b)), np.nan, value)


def gamma_density(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    is_same = (x == a) & (a >= 1e9)
    return np.where(is_same, counted(x, x), reference.gamma.logpdf(x, a))


def wrapped(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    value = np.log((1 - c) * (1 + c) / (2 * np.pi * ((1 - c) ** 2 + 4 * c * np.sin(x / 2) ** 2)))
    plain = reference.wrapcauchy.logpdf(x, c)
    return np.where(np.isnan(plain) | (plain == -np.inf), plain, value)


def turned(x: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """SciPy has cos(x) - 1, and no numbers for infinite operands."""
    plain = reference.vonmises.logpdf(x, kappa)
    value = -2 * kappa * np.sin(x / 2) ** 2 + reference.vonmises.logpdf(0, kappa)
    return np.where(np.isfinite(x) & np.isfinite(value), value, plain)


def pareto_density(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    value = np.log(b) - (b + 1) * np.log(x)
    return np.where((x > 1) & (x < np.inf) & (b > 0), value, reference.pareto.logpdf(x, b))


def pareto_tail(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    is_inside = (x > 1) & (x < np.inf) & (b > 0)
    return np.where(is_inside, -b * np.log(x), reference.pareto.logsf(x, b))


# Where SciPy has digits too few, takes logarithms of what underflows, or rounds 1 - q.
REFERENCES: dict[tuple[str, str], Callable[..., Any]] = {
    ("laplace", "logpdf"): lambda x: -np.abs(x) - np.log(2),
    ("laplace", "logcdf"): lambda x: np.where(x < 0, x - np.log(2), reference.laplace.logcdf(x)),
    ("laplace", "logsf"): lambda x: np.where(x > 0, -x - np.log(2), reference.laplace.logsf(x)),
    ("gumbel_l", "logcdf"): lambda x: np.where(x < -40, x, reference.gumbel_l.logcdf(x)),
    ("gumbel_r", "logsf"): lambda x: np.where(x > 40, -x, reference.gumbel_r.logsf(x)),
    ("gumbel_l", "logpdf"): lambda x: np.where(x == np.inf, -np.inf, x - np.exp(x)),
    ("gumbel_r", "logpdf"): lambda x: np.where(x == -np.inf, -np.inf, -x - np.exp(-x)),
    ("pareto", "ppf"): pareto_ppf,
    ("pareto", "cdf"): lambda x, b: -np.expm1(pareto_tail(x, b)),
    ("pareto", "logpdf"): pareto_density,
    ("pareto", "logsf"): pareto_tail,
    ("gennorm", "logpdf"): gennorm_density,
    ("gennorm", "pdf"): lambda x, beta: np.exp(gennorm_density(x, beta)),
    ("gennorm", "cdf"): gennorm_share,
    ("gennorm", "sf"): lambda x, beta: gennorm_share(-x, beta),
    ("poisson", "logpmf"): counted,
    ("poisson", "pmf"): lambda k, mu: np.exp(counted(k, mu)),
    ("gamma", "logpdf"): gamma_density,
    ("gamma", "pdf"): lambda x, a: np.exp(gamma_density(x, a)),
    ("chi2", "logpdf"): lambda x, df: gamma_density(x / 2, df / 2) - np.log(2),
    ("chi2", "pdf"): lambda x, df: np.exp(gamma_density(x / 2, df / 2)) / 2,
    ("vonmises", "logpdf"): turned,
    ("vonmises", "pdf"): lambda x, kappa: np.exp(turned(x, kappa)),
    ("wrapcauchy", "logpdf"): wrapped,
    ("wrapcauchy", "pdf"): lambda x, c: np.exp(wrapped(x, c)),
    # Boost raises where numbers overflow.
    ("beta", "pdf"): lambda x, a, b: np.exp(reference.beta.logpdf(x, a, b)),
    ("binom", "pmf"): lambda k, n, p: np.exp(reference.binom.logpmf(k, n, p)),
    ("nbinom", "pmf"): lambda k, n, p: np.exp(reference.nbinom.logpmf(k, n, p)),
    ("geom", "pmf"): lambda k, p: np.exp(reference.geom.logpmf(k, p)),
}


def of_shares(a: Any, b: Any) -> Any:
    """`betainc` knows shares of small operands to an eps of 1, and none beyond 1e9."""
    return (np.minimum(a, b) < 1e-3) | (np.maximum(a, b) > 1e9)


# Operands at which functions of a family are not near, and why.
EXCUSED: dict[str, Callable[..., Any]] = {
    # Half of the least number is none.
    "chi2": lambda f, tiny, x, df: df < 2 * tiny,
    # All values are 1.
    "pareto": lambda f, tiny, x, b: b == np.inf,
    # SciPy loses x^2.
    "t": lambda f, tiny, x, df: (x * x > df / 1e-14) & (df < 1e4) | (df > 1e9) & (abs(x) > 1e6),
    # a + b has no value. SciPy's logarithms of factorials lose the other numbers.
    "beta": lambda f, tiny, x, a, b: (
        (a + b > 0.9 / tiny)
        | (np.minimum(a, b) > 1e9)
        | (f not in ("pdf", "logpdf")) & of_shares(a, b)
    ),
    "binom": lambda f, tiny, k, n, p: (n > 1e15) | (f not in ("pmf", "logpmf")) & (n > 1e9),
    "nbinom": lambda f, tiny, k, n, p: (
        (n + k > 0.9 / tiny) | (f not in ("pmf", "logpmf")) & of_shares(n, k + 1)
    ),
    # Intervals of a few of the least numbers, and squares without a value.
    "truncnorm": lambda f, tiny, x, a, b: (
        ((b - a < 10 * tiny) | (abs(x) * 4 * tiny > 0.1) | (abs(x - a) < 10 * tiny))
        | (abs(x - b) < 10 * tiny)
    ),
    "betabinom": lambda f, tiny, k, n, a, b: (n > 1e9) | (a + b > 1e9),
}


def right(name: str, f: str, dtype: Any, got: np.ndarray, given: list[np.ndarray]) -> Any:
    """Where results are those of SciPy, or better."""
    info, family = np.finfo(dtype), getattr(reference, name)
    tiny, rtol = float(info.tiny), 1e-4 if dtype == np.float32 else 1e-8
    plain = f.removeprefix("log")
    of_plain = REFERENCES.get((name, plain), getattr(family, plain))
    want = REFERENCES.get((name, f), getattr(family, f))(*given)
    if f in ("logcdf", "logsf"):
        # SciPy's is 0 where there is no distribution.
        share = of_plain(*given)
        want = np.where(np.isnan(share), np.nan, want)
        if (name, plain) in REFERENCES and (name, f) not in REFERENCES:
            want = np.log(share)
    is_nan = np.any([np.isnan(x) for x in given], axis=0)
    same = (got == want) | np.isnan(want) & (np.isnan(got) | ~is_nan & (got == got))
    overflows = np.abs(want) > float(info.max) * (1 - rtol)
    same |= np.isinf(got) & overflows & (np.sign(got) == np.sign(want))
    if f.startswith("log"):
        # A probability that underflows has no logarithm; near there it has few digits.
        near = 1e2 * max(float(info.eps), 1e-14) + 2 * tiny * np.exp(-want)
        same |= (got == -np.inf) & (want < np.log(tiny) + 1)
    else:
        near = 2 * tiny
        rtol = rtol * (1 + np.abs(np.log(np.maximum(np.abs(want), tiny))))
    same |= (
        np.isfinite(got) & np.isfinite(want) & (np.abs(got - want) <= rtol * np.abs(want) + near)
    )
    if name in EXCUSED:
        same |= EXCUSED[name](f, tiny, *given)
    return same


def faults(name: str, f: str, dtype: Any, step: int = 1) -> Iterator[str]:
    values = [edges(dtype, SHAPES[name] + 1)] * (SHAPES[name] + 1)
    if f in ("ppf", "isf"):
        values[0] = shares(dtype)
    operands = [x.ravel()[::step] for x in np.meshgrid(*values, indexing="ij")]
    with jax.enable_x64(True):
        got = np.asarray(jax.jit(getattr(getattr(stats, name), f))(*operands)).astype(float)
    is_right = np.zeros(got.shape, bool)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for given in (operands, [flushed(x) for x in operands]):
            is_right |= right(name, f, dtype, got, [x.astype(float) for x in given])
        for i in np.flatnonzero(~is_right):
            at = [float(x[i]) for x in operands]
            yield f"{at}: {got[i]}, SciPy: {getattr(getattr(reference, name), f)(*at)}"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "f"), CASES)
def test_edges(name: str, f: str, dtype: Any) -> None:
    found = list(faults(name, f, dtype))
    assert not found, f"{len(found)} wrong: " + "\n".join(found[:8])


@pytest.mark.parametrize(
    ("name", "f"),
    [
        *(("beta", "pdf"), ("chi2", "logpdf"), ("t", "logpdf"), ("poisson", "pmf")),
        *(("gennorm", "cdf"), ("cauchy", "ppf"), ("gamma", "cdf"), ("truncnorm", "logpdf")),
    ],
)
def test_some_edges(name: str, f: str) -> None:
    found = list(faults(name, f, np.float32, 1 if SHAPES[name] == 0 else 7))
    assert not found, f"{len(found)} wrong: " + "\n".join(found[:8])


@pytest.mark.parametrize("name", SHAPES)
def test_a_scale_or_shape_of_no_distribution_gives_nan(name: str) -> None:
    module, shapes = getattr(stats, name), [0.5] * SHAPES[name]
    is_discrete = "pmf" in module.__all__
    for f in ("pmf" if is_discrete else "pdf", *(("cdf", "isf") if name == "expon" else ())):
        function = getattr(module, f)
        if shapes:
            assert np.isnan(function(0.5, *(-x for x in shapes)))
        if not is_discrete:
            assert np.isnan(function(0.5, *shapes, 0.0, -1.0))
            assert np.isnan(function(0.5, *shapes, 0.0, 0.0))
