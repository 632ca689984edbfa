"""The normal distribution with mean `loc` and standard deviation `scale`."""

from __future__ import annotations

import math
from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy._operands import inexact

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> logpdf(0.)
    Array(-0.9189385, dtype=float32, weak_type=True)
    """
    x, loc, scale = inexact("norm.logpdf", x, loc, scale)
    return -0.5 * jnp.square((x - loc) / scale) - jnp.log(scale) - 0.5 * math.log(2 * math.pi)


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.)
    Array(0.3989423, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.)
    Array(0.5, dtype=float32)
    """
    x, loc, scale = inexact("norm.cdf", x, loc, scale)
    return special.ndtr((x - loc) / scale)


@fast
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`, without underflow.

    >>> logcdf(jnp.inf)
    Array(-0., dtype=float32)
    """
    x, loc, scale = inexact("norm.logcdf", x, loc, scale)
    return special.log_ndtr((x - loc) / scale)


@fast
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x, accurate where that is small.

    >>> sf(0.)
    Array(0.5, dtype=float32)
    """
    x, loc, scale = inexact("norm.sf", x, loc, scale)
    return special.ndtr((loc - x) / scale)


@fast
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`, without underflow.

    >>> logsf(-jnp.inf)
    Array(-0., dtype=float32)
    """
    x, loc, scale = inexact("norm.logsf", x, loc, scale)
    return special.log_ndtr((loc - x) / scale)


@fast
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability q; nan outside [0, 1].

    >>> ppf(0.5)
    Array(0., dtype=float32)
    """
    q, loc, scale = inexact("norm.ppf", q, loc, scale)
    return special.ndtri(q) * scale + loc


@fast
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which values are with probability q; nan outside [0, 1].

    >>> isf(0.5)
    Array(0., dtype=float32)
    """
    q, loc, scale = inexact("norm.isf", q, loc, scale)
    return loc - special.ndtri(q) * scale
