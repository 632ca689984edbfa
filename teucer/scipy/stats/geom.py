"""The geometric distribution: trials up to the first success, each with probability `p`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import inside, shifted

__all__ = ["logpmf", "pmf"]


@fast
def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k; -inf for other numbers, nan for a p outside [0, 1].

    >>> logpmf(1, 0.25)
    Array(-1.3862944, dtype=float32, weak_type=True)
    """
    k, p = shifted("geom.logpmf", k, loc, p)
    def mass(k: Any) -> Any:
        return special.xlog1py(k - 1, -p) + jnp.log(p)

    return jnp.where((p >= 0) & (p <= 1), inside((k >= 1) & (k == jnp.floor(k)), mass, k, 1.0, -jnp.inf), jnp.nan)


@fast
def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    >>> pmf(1, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))
