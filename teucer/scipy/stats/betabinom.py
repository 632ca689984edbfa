"""The beta-binomial distribution: successes in `n` trials, with a probability that is beta distributed."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import inside, shifted

__all__ = ["logpmf", "pmf"]


@fast
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k; -inf for other numbers.

    >>> logpmf(1, 3, 2.0, 1.0)
    Array(-1.609438, dtype=float32, weak_type=True)
    """
    k, n, a, b = shifted("betabinom.logpmf", k, loc, n, a, b)
    def mass(k: Any) -> Any:
        ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return ways + special.betaln(k + a, n - k + b) - special.betaln(a, b)

    return inside((k >= 0) & (k <= n) & (k == jnp.floor(k)), mass, k, 0.0, -jnp.inf)


@fast
def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The probability of k.

    >>> pmf(1, 3, 2.0, 1.0)
    Array(0.19999999, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, a, b, loc))
