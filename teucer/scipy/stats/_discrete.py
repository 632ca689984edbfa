"""The table of the discrete distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer.scipy import special
from teucer.scipy.stats._counts import log_binomial, log_poisson
from teucer.scipy.stats._standard import Discrete, complement

if TYPE_CHECKING:
    from teucer._core.typing import Array


def _is_share(p: Array) -> Any:
    return (p >= 0) & (p <= 1)


def _is_count(n: Array) -> Any:
    return (n >= 0) & (n == jnp.floor(n))


def _betabinom_log_mass(k: Array, n: Array, a: Array, b: Array) -> Any:
    """By binomial probabilities of the share that k + a is of all."""
    x, y = k + a, (n - k) + b
    # Both cancel, where they are more than 0.
    p, q = (jnp.maximum(v / (x + y), float(jnp.finfo(v.dtype).tiny)) for v in (x, y))
    size = sum(map(jnp.log, (a, b, x + y))) - sum(map(jnp.log, (x, y, a + b)))
    ways = log_binomial(k, n - k, p, q) + log_binomial(a, b, p, q) - log_binomial(x, y, p, q)
    return ways + size


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
    valid=lambda n, a, b: _is_count(n) & (a > 0) & (b > 0),
    high=lambda n, a, b: n,
    example=(1, 3, 2.0, 1.0),
    logpmf=_betabinom_log_mass,
    shown={"logpmf": -1.609, "pmf": 0.2},
)

BINOM = Discrete(
    name="binom",
    shapes="n p",
    valid=lambda n, p: _is_count(n) & _is_share(p),
    high=lambda n, p: n,
    example=(1, 3, 0.3),
    logpmf=lambda k, n, p: log_binomial(k, n - k, p, 1 - p),
    cdf=lambda k, n, p: complement(
        p, special.betainc(n - k, k + 1, 1 - p), special.betainc(k + 1, n - k, p)
    ),
    sf=lambda k, n, p: special.betainc(k + 1, n - k, p),
    shown=dict(cdf=0.784, logcdf=-0.243, logpmf=-0.819, logsf=-1.532, pmf=0.441, sf=0.216),
)

GEOM = Discrete(
    name="geom",
    shapes="p",
    low=1.0,
    valid=lambda p: (p > 0) & (p <= 1),
    example=(1, 0.25),
    logpmf=lambda k, p: special.xlog1py(k - 1, -p) + jnp.log(p),
    cdf=lambda k, p: -jnp.expm1(special.xlog1py(k, -p)),
    sf=lambda k, p: jnp.exp(special.xlog1py(k, -p)),
    logsf=lambda k, p: special.xlog1py(k, -p),
    shown=dict(cdf=0.25, logcdf=-1.386, logpmf=-1.386, logsf=-0.288, pmf=0.25, sf=0.75),
)

NBINOM = Discrete(
    name="nbinom",
    shapes="n p",
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    example=(1, 3, 0.3),
    logpmf=lambda k, n, p: log_binomial(n, k, p, 1 - p) + jnp.log(n) - jnp.log(n + k),
    cdf=lambda k, n, p: special.betainc(n, k + 1, p),
    sf=lambda k, n, p: complement(
        p, special.betainc(k + 1, n, 1 - p), special.betainc(n, k + 1, p)
    ),
    shown=dict(cdf=0.084, logcdf=-2.481, logpmf=-2.87, logsf=-0.087, pmf=0.057, sf=0.916),
)

POISSON = Discrete(
    name="poisson",
    shapes="mu",
    valid=lambda mu: mu >= 0,
    example=(1, 2.0),
    logpmf=log_poisson,
    cdf=lambda k, mu: special.gammaincc(k + 1, mu),
    sf=lambda k, mu: special.gammainc(k + 1, mu),
    shown=dict(
        cdf=0.406, entropy=1.305, logcdf=-0.901, logpmf=-1.307, logsf=-0.521, pmf=0.271, sf=0.594
    ),
)
