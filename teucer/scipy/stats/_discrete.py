"""The table of the discrete distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer.scipy import special
from teucer.scipy.stats._standard import Discrete, complement

if TYPE_CHECKING:
    from teucer._core.typing import Array


def _log_ways(n: Array, k: Array) -> Any:
    """The logarithm of the number of ways to choose k of n."""
    return -jnp.log1p(n) - special.betaln(n - k + 1, k + 1)


def _is_share(*shapes: Array) -> Any:
    """Whether the last parameter is a probability."""
    return (shapes[-1] >= 0) & (shapes[-1] <= 1)


def _nbinom_log_mass(k: Array, n: Array, p: Array) -> Any:
    return -jnp.log(k + n) - special.betaln(n, k + 1) + special.xlogy(n, p) + special.xlog1py(k, -p)


BERNOULLI = Discrete(
    name="bernoulli",
    shapes="p",
    high=1.0,
    valid=_is_share,
    example=(1, 0.25),
    logpmf=lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p),
    cdf=lambda k, p: 1 - p + 0 * k,
    sf=lambda k, p: p + 0 * k,
    ppf=lambda q, p: jnp.where((q <= 1 - p) & (q < 1), jnp.where(q > 0, 0.0, -1.0), 1.0),
    shown={
        "cdf": 1.0,
        "logcdf": 0.0,
        "logpmf": -1.386,
        "logsf": -jnp.inf,
        "pmf": 0.25,
        "ppf": 0.0,
        "sf": 0.0,
    },
)

BETABINOM = Discrete(
    name="betabinom",
    shapes="n a b",
    high=lambda n, a, b: n,
    example=(1, 3, 2.0, 1.0),
    logpmf=lambda k, n, a, b: (
        _log_ways(n, k) + special.betaln(k + a, n - k + b) - special.betaln(a, b)
    ),
    shown={"logpmf": -1.609, "pmf": 0.2},
)

BINOM = Discrete(
    name="binom",
    shapes="n p",
    high=lambda n, p: n,
    example=(1, 3, 0.3),
    logpmf=lambda k, n, p: _log_ways(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p),
    cdf=lambda k, n, p: complement(
        special.betainc(n - k, k + 1, 1 - p), special.betainc(k + 1, n - k, p)
    ),
    sf=lambda k, n, p: special.betainc(k + 1, n - k, p),
    shown={
        "cdf": 0.784,
        "logcdf": -0.243,
        "logpmf": -0.819,
        "logsf": -1.532,
        "pmf": 0.441,
        "sf": 0.216,
    },
)

GEOM = Discrete(
    name="geom",
    shapes="p",
    low=1.0,
    valid=_is_share,
    example=(1, 0.25),
    logpmf=lambda k, p: special.xlog1py(k - 1, -p) + jnp.log(p),
    cdf=lambda k, p: -jnp.expm1(special.xlog1py(k, -p)),
    sf=lambda k, p: jnp.exp(special.xlog1py(k, -p)),
    logsf=lambda k, p: special.xlog1py(k, -p),
    shown={
        "cdf": 0.25,
        "logcdf": -1.386,
        "logpmf": -1.386,
        "logsf": -0.288,
        "pmf": 0.25,
        "sf": 0.75,
    },
)

NBINOM = Discrete(
    name="nbinom",
    shapes="n p",
    example=(1, 3, 0.3),
    logpmf=_nbinom_log_mass,
    cdf=lambda k, n, p: special.betainc(n, k + 1, p),
    sf=lambda k, n, p: complement(special.betainc(k + 1, n, 1 - p), special.betainc(n, k + 1, p)),
    shown={
        "cdf": 0.084,
        "logcdf": -2.481,
        "logpmf": -2.87,
        "logsf": -0.087,
        "pmf": 0.057,
        "sf": 0.916,
    },
)

POISSON = Discrete(
    name="poisson",
    shapes="mu",
    example=(1, 2.0),
    logpmf=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
    cdf=lambda k, mu: special.gammaincc(k + 1, mu),
    sf=lambda k, mu: special.gammainc(k + 1, mu),
    shown={
        "cdf": 0.406,
        "entropy": 1.305,
        "logcdf": -0.901,
        "logpmf": -1.307,
        "logsf": -0.521,
        "pmf": 0.271,
        "sf": 0.594,
    },
)
