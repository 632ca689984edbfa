"""The logistic distribution with mean `loc`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import probability, standard

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> logpdf(0.5)
    Array(-1.448154, dtype=float32, weak_type=True)
    """
    z, scale = standard("logistic.logpdf", x, loc, scale)
    return -jnp.abs(z) - 2 * jnp.log1p(jnp.exp(-jnp.abs(z))) - jnp.log(scale)


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5)
    Array(0.23500371, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5)
    Array(0.62245935, dtype=float32, weak_type=True)
    """
    z, _ = standard("logistic.cdf", x, loc, scale)
    return special.expit(z)


@fast
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5)
    Array(0.37754068, dtype=float32, weak_type=True)
    """
    z, _ = standard("logistic.sf", x, loc, scale)
    return special.expit(-z)


@fast
def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability x; nan outside [0, 1].

    >>> ppf(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("logistic.ppf", x, loc, scale)
    return loc + special.logit(q) * scale


@fast
def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which values are with probability x; nan outside [0, 1].

    >>> isf(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("logistic.isf", x, loc, scale)
    return loc - special.logit(q) * scale
