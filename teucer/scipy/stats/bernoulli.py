"""The Bernoulli distribution: 1 with probability `p`, else 0."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy._operands import inexact
from teucer.scipy.stats._standard import inside, shifted

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


@fast
def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k; -inf for other numbers, nan for a p outside [0, 1].

    >>> logpmf(1, 0.25)
    Array(-1.3862944, dtype=float32, weak_type=True)
    """
    k, p = shifted("bernoulli.logpmf", k, loc, p)
    def mass(k: Any) -> Any:
        return special.xlogy(k, p) + special.xlog1py(1 - k, -p)

    return jnp.where((p >= 0) & (p <= 1), inside((k >= 0) & (k <= 1) & (k == jnp.floor(k)), mass, k, 0.0, -jnp.inf), jnp.nan)


@fast
def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    >>> pmf(1, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


@fast
def cdf(k: Any, p: Any) -> Any:
    """The probability of values up to k.

    >>> cdf(0, 0.25)
    Array(0.75, dtype=float32, weak_type=True)
    """
    k, p = inexact("bernoulli.cdf", k, p)
    return jnp.where((p >= 0) & (p <= 1), jnp.where(k < 0, 0.0, jnp.where(k < 1, 1 - p, 1.0)), jnp.nan)


@fast
def ppf(q: Any, p: Any) -> Any:
    """The least value up to which values are with probability q; nan outside [0, 1].

    >>> ppf(0.5, 0.25)
    Array(0., dtype=float32, weak_type=True)
    """
    q, p = inexact("bernoulli.ppf", q, p)
    return jnp.where((q >= 0) & (q <= 1) & (p >= 0) & (p <= 1), jnp.where(q <= 1 - p, jnp.where(q > 0, 0.0, -1.0), 1.0), jnp.nan)
