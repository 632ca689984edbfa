"""The right-skewed Gumbel distribution with mode `loc`."""

from __future__ import annotations

from typing import Any

from teucer import nn
from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy.stats._standard import probability, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> logpdf(0.5)
    Array(-1.1065307, dtype=float32, weak_type=True)
    """
    z, scale = standard("gumbel_r.logpdf", x, loc, scale)
    return -z - jnp.exp(-z) - jnp.log(scale)


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5)
    Array(0.3307043, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5)
    Array(0.5452392, dtype=float32, weak_type=True)
    """
    z, _ = standard("gumbel_r.cdf", x, loc, scale)
    return jnp.exp(-jnp.exp(-z))


@fast
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5)
    Array(-0.60653067, dtype=float32, weak_type=True)
    """
    z, _ = standard("gumbel_r.logcdf", x, loc, scale)
    return -jnp.exp(-z)


@fast
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5)
    Array(0.4547608, dtype=float32, weak_type=True)
    """
    z, _ = standard("gumbel_r.sf", x, loc, scale)
    return -jnp.expm1(-jnp.exp(-z))


@fast
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5)
    Array(-0.7879837, dtype=float32, weak_type=True)
    """
    z, _ = standard("gumbel_r.logsf", x, loc, scale)
    return nn.log1mexp(jnp.exp(-z))


@fast
def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability p; nan outside [0, 1].

    >>> ppf(0.5)
    Array(0.36651292, dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("gumbel_r.ppf", p, loc, scale)
    return loc - jnp.log(-jnp.log(q)) * scale
