"""The Pareto distribution with shape `b`, from `loc + scale` on."""

from __future__ import annotations

from typing import Any

from teucer import nn
from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy.stats._standard import inside, probability, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@fast
def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; -inf where there is none.

    >>> logpdf(0.5, 2.0)
    Array(-inf, dtype=float32, weak_type=True)
    """
    z, b, scale = standard("pareto.logpdf", x, b, loc, scale)
    return inside(z >= 1, lambda z: jnp.log(b) - (b + 1) * jnp.log(z) - jnp.log(scale), z, 2.0, -jnp.inf)


@fast
def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, b, loc, scale))


@fast
def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    z, b, _ = standard("pareto.cdf", x, b, loc, scale)
    return inside(z >= 1, lambda z: -jnp.expm1(-b * jnp.log(z)), z, 2.0, 0.0)


@fast
def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5, 2.0)
    Array(-inf, dtype=float32, weak_type=True)
    """
    z, b, _ = standard("pareto.logcdf", x, b, loc, scale)
    return inside(z > 1, lambda z: nn.log1mexp(b * jnp.log(z)), z, 2.0, -jnp.inf)


@fast
def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5, 2.0)
    Array(1., dtype=float32, weak_type=True)
    """
    z, b, _ = standard("pareto.sf", x, b, loc, scale)
    return inside(z >= 1, lambda z: jnp.exp(-b * jnp.log(z)), z, 2.0, 1.0)


@fast
def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    z, b, _ = standard("pareto.logsf", x, b, loc, scale)
    return inside(z >= 1, lambda z: -b * jnp.log(z), z, 2.0, 0.0)


@fast
def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability q; nan outside [0, 1].

    >>> ppf(0.5, 2.0)
    Array(1.4142135, dtype=float32, weak_type=True)
    """
    q, b, loc, scale = probability("pareto.ppf", q, b, loc, scale)
    return loc + jnp.exp(-jnp.log1p(-q) / b) * scale
