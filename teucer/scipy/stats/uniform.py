"""The uniform distribution from `loc` to `loc + scale`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy.stats._standard import inside, probability, standard

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; -inf where there is none.

    >>> logpdf(0.5)
    Array(-0., dtype=float32, weak_type=True)
    """
    z, scale = standard("uniform.logpdf", x, loc, scale)
    return inside((z >= 0) & (z <= 1), lambda z: -jnp.log(scale), z, 0.5, -jnp.inf)


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5)
    Array(1., dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z, _ = standard("uniform.cdf", x, loc, scale)
    return jnp.clip(z, 0.0, 1.0)


@fast
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value up to which values are with probability q; nan outside [0, 1].

    >>> ppf(0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    q, loc, scale = probability("uniform.ppf", q, loc, scale)
    return loc + q * scale
