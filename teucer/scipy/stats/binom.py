"""The binomial distribution: successes in `n` trials, each with probability `p`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import inside, shifted

__all__ = ["logpmf", "pmf"]


@fast
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k; -inf for other numbers.

    >>> logpmf(1, 3, 0.25)
    Array(-0.86304533, dtype=float32, weak_type=True)
    """
    k, n, p = shifted("binom.logpmf", k, loc, n, p)
    def mass(k: Any) -> Any:
        ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)

    return inside((k >= 0) & (k <= n) & (k == jnp.floor(k)), mass, k, 0.0, -jnp.inf)


@fast
def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    >>> pmf(1, 3, 0.25)
    Array(0.42187536, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))
