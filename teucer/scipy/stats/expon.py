"""The exponential distribution from `loc` on, with mean distance `scale`."""

from __future__ import annotations

from typing import Any

from teucer import nn
from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy.stats._standard import inside, probability, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; -inf where there is none.

    >>> logpdf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    z, scale = standard("expon.logpdf", x, loc, scale)
    return inside(z >= 0, lambda z: -z - jnp.log(scale), z, 1.0, -jnp.inf)


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5)
    Array(0.39346933, dtype=float32, weak_type=True)
    """
    z, _ = standard("expon.cdf", x, loc, scale)
    return inside(z >= 0, lambda z: -jnp.expm1(-z), z, 1.0, 0.0)


@fast
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5)
    Array(-0.93275213, dtype=float32, weak_type=True)
    """
    z, _ = standard("expon.logcdf", x, loc, scale)
    return inside(z > 0, nn.log1mexp, z, 1.0, -jnp.inf)


@fast
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    """
    z, _ = standard("expon.sf", x, loc, scale)
    return inside(z >= 0, lambda z: jnp.exp(-z), z, 1.0, 1.0)


@fast
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    z, _ = standard("expon.logsf", x, loc, scale)
    return inside(z >= 0, lambda z: -z, z, 1.0, 0.0)


@fast
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability q; nan outside [0, 1].

    >>> ppf(0.5)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("expon.ppf", q, loc, scale)
    return loc - jnp.log1p(-q) * scale
