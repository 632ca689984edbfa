"""The Poisson distribution with mean `mu`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy._operands import inexact
from teucer.scipy.stats._discrete import POISSON

if TYPE_CHECKING:
    pass

__all__ = ["cdf", "entropy", "logcdf", "logpmf", "logsf", "pmf", "sf"]

cdf, logcdf, logpmf, logsf, pmf, sf = POISSON.functions(*(f for f in __all__ if f != "entropy"))
__dir__ = listing(__name__, __all__)

# Above this mean the series is exact to 1e-13; below it, no probability beyond 320 counts.
_LARGE, _COUNTS = 100.0, 320
# Coefficients of 1/mu, 1/mu^2, ...
_SERIES = (-1 / 12, -1 / 24, -19 / 360, -9 / 80, -863 / 2520, -1375 / 1008)


@fast
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy -sum p log p, which does not depend on `loc`; nan for a negative mean.

    >>> round(float(entropy(5.0)), 4)
    2.2044

    Method: the sum for means up to 100, else the asymptotic series (R. J. Evans, J. Boersma, N. M.
    Blachman and A. A. Jagers, "The entropy of a Poisson distribution", SIAM Review 30 (1988) 314).
    """
    mu, _ = inexact("poisson.entropy", mu, loc)
    is_large = mu > _LARGE
    small = jnp.where(is_large | ~(mu > 0), 1.0, mu)

    def add(total: object, k: Array) -> tuple[Any, None]:
        logp = special.xlogy(k, small) - special.gammaln(k + 1) - small
        return total - jnp.exp(logp) * logp, None

    summed, _ = lax.scan(add, jnp.zeros_like(small), jnp.arange(_COUNTS, dtype=small.dtype))
    inverse = 1 / jnp.where(is_large, mu, 1.0)
    tail = jnp.zeros_like(inverse)
    for coefficient in reversed(_SERIES):
        tail = (tail + coefficient) * inverse
    series = 0.5 * (jnp.log(jnp.where(is_large, mu, 1.0)) + math.log(2 * math.pi * math.e)) + tail
    return jnp.where(mu > 0, jnp.where(is_large, series, summed), jnp.where(mu == 0, 0.0, jnp.nan))
