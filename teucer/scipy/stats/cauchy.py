"""The Cauchy distribution with median `loc`, a quarter of it beyond `loc + scale`."""

from __future__ import annotations

import math
from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy.stats._standard import probability, standard

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> logpdf(0.5)
    Array(-1.3678734, dtype=float32, weak_type=True)
    """
    z, scale = standard("cauchy.logpdf", x, loc, scale)
    return -jnp.log(math.pi * scale * (1 + z * z))


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5)
    Array(0.2546479, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5)
    Array(0.64758354, dtype=float32, weak_type=True)
    """
    z, _ = standard("cauchy.cdf", x, loc, scale)
    return jnp.arctan2(1.0, -z) / math.pi


@fast
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5)
    Array(-0.4345075, dtype=float32, weak_type=True)
    """
    z, _ = standard("cauchy.logcdf", x, loc, scale)
    return jnp.log(jnp.arctan2(1.0, -z) / math.pi)


@fast
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5)
    Array(0.3524164, dtype=float32, weak_type=True)
    """
    z, _ = standard("cauchy.sf", x, loc, scale)
    return jnp.arctan2(1.0, z) / math.pi


@fast
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5)
    Array(-1.0429418, dtype=float32, weak_type=True)
    """
    z, _ = standard("cauchy.logsf", x, loc, scale)
    return jnp.log(jnp.arctan2(1.0, z) / math.pi)


@fast
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability q; nan outside [0, 1].

    >>> ppf(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("cauchy.ppf", q, loc, scale)
    return loc + _quantile(q) * scale


@fast
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which values are with probability q; nan outside [0, 1].

    >>> isf(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("cauchy.isf", q, loc, scale)
    return loc - _quantile(q) * scale


def _quantile(q: Any) -> Any:
    """tan(pi (q - 1/2)): 0 in the middle, and infinite at 0 and 1, where it is written as a reciprocal."""
    from_middle = q - 0.5
    is_middle = jnp.abs(from_middle) < 0.25
    near, far = jnp.where(is_middle, from_middle, 0.0), jnp.where(is_middle, 0.25, jnp.minimum(q, 1 - q))
    return jnp.where(is_middle, jnp.tan(math.pi * near), jnp.sign(from_middle) / jnp.tan(math.pi * far))
