"""The Poisson distribution with mean `mu`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import inside, shifted

__all__ = ["cdf", "logpmf", "pmf"]


@fast
def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k; -inf for other numbers.

    >>> logpmf(1, 2.0)
    Array(-1.3068528, dtype=float32, weak_type=True)
    """
    k, mu = shifted("poisson.logpmf", k, loc, mu)
    def mass(k: Any) -> Any:
        return special.xlogy(k, mu) - special.gammaln(k + 1) - mu

    return inside((k >= 0) & (k == jnp.floor(k)), mass, k, 0.0, -jnp.inf)


@fast
def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of k.

    >>> pmf(1, 2.0)
    Array(0.27067056, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, mu, loc))


@fast
def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of values up to k.

    >>> print(round(float(cdf(1, 2.0)), 5))
    0.40601
    """
    k, mu = shifted("poisson.cdf", k, loc, mu)
    return inside(k >= 0, lambda k: special.gammaincc(jnp.floor(k) + 1, mu), k, 0.0, 0.0)
