"""The Laplace distribution around `loc`, with mean distance `scale`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy.stats._standard import standard

__all__ = ["cdf", "logpdf", "pdf"]


@fast
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> logpdf(0.5)
    Array(-1.1931472, dtype=float32, weak_type=True)
    """
    z, scale = standard("laplace.logpdf", x, loc, scale)
    return -jnp.abs(z) - jnp.log(2 * scale)


@fast
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5)
    Array(0.30326533, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@fast
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5)
    Array(0.69673467, dtype=float32, weak_type=True)
    """
    z, _ = standard("laplace.cdf", x, loc, scale)
    tail = 0.5 * jnp.exp(-jnp.abs(z))
    return jnp.where(z < 0, tail, 1 - tail)
